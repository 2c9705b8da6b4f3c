//! The rules about sessions, statements and connections, as plain values without their owners.
//!
//! - A client: its unanswered [messages](client), its [`session`], its [prepared statements](statement), the parts of
//!   its session that [cannot be carried](pins) to another connection, the [channels] to which it listens, and its
//!   server connection ([`checkout`]).
//! - A server connection: its requests and [answers](exchange), the confirmed settings of its session
//!   ([`session::Confirmed`]), and the [units](extent) of several clients on a [pipelined](pipeline) one.
//! - A statement: its [identity](statement) for all workers, the [`shape`] of its rows, its client's [view](held) of it,
//!   whether a server connection [has](known) it, how it may be sent (its [`fingerprint`]), and whether servers are to
//!   [keep](keeping) it.
//! - A pool: its [totals], the time of its next [attempt to connect](failure), its [share](quota) of limits.
//! - One database on several workers: [`Spread`].
//!
//! A *worker* is a thread of the pooler with clients and server connections of its own. No statement passes from one
//! worker to another, so workers need no locks for them. Two values are shared:
//!
//! - [`Spread`] says which workers serve a database, its *members*, how many clients each of them has, and which part of
//!   the size of a pool is its.
//! - [`limits::Limits`] counts the server connections under the limits that several pools share, and has the queue of the
//!   pools that wait for one more.
//!
//! `docs/design/2026-11-23-cores.md` has the reasons and the costs.

pub mod busy_poll;
pub mod cancel;
pub mod channels;
pub mod checkout;
pub mod client;
pub mod digest;
pub mod exchange;
pub mod extent;
pub mod failure;
pub mod fingerprint;
pub mod gate;
pub mod held;
pub mod keys;
pub mod known;
pub mod lexing;
pub mod limits;
pub mod mark;
mod pace;
pub mod pins;
pub mod pipeline;
pub mod portals;
pub mod quota;
pub mod relay;
pub mod request;
pub mod requests;
pub mod session;
pub mod shape;
pub mod slots;
mod spread;
pub mod statement;
pub mod subscriber;
pub mod totals;
pub mod turn;
pub mod vars;

pub use spread::{Full, Spread};
