//! What is believed and decided of sessions, statements and connections, apart from who has them.
//!
//! - A client: what it has [asked for](client), its [`session`], its [prepared statements](statement), what of its session
//!   [cannot be carried](pins) elsewhere, to what it [listens](channels), and the connection that it has ([`checkout`]).
//! - A server connection: what it was [asked and has answered](exchange), what is believed of its session
//!   ([`session::Confirmed`]), and the [units](extent) of several clients on a [pipelined](pipeline) one.
//! - A statement: what it [is](statement) to all workers, whether a server connection [knows](known) it, how it may be sent
//!   (its [`fingerprint`]), and whether servers are to [keep](keeping) it.
//! - A pool: its [totals], when it tries [again](failure), its [share](quota) of limits.
//! - One database on several workers: [`Spread`] and [`Ledger`].
//!
//! A *worker* is a thread of the pooler with clients and server connections of its own. Nothing of a statement passes
//! from one worker to another, so what a worker does costs no lock. Two things are shared:
//!
//! - [`Spread`] says which workers serve a database, its *members*, and how many clients each of them has. A database
//!   begins with one member. More join when the members are busy with it, and clients move to them, each at a moment at
//!   which nothing of it is under way.
//! - [`Ledger`] counts the server connections of one pool, so that all workers together keep within its size. It says
//!   which worker hands a free connection to which other: to the one whose clients have waited longest.
//!
//! `docs/design/2026-11-23-cores.md` has the reasons and the costs.

pub mod busy_poll;
pub mod channels;
pub mod checkout;
pub mod client;
pub mod digest;
pub mod exchange;
pub mod extent;
pub mod failure;
pub mod fingerprint;
pub mod hub;
pub mod keeping;
pub mod keys;
pub mod known;
mod ledger;
pub mod lexing;
pub mod pins;
pub mod pipeline;
pub mod quota;
pub mod relay;
pub mod request;
pub mod session;
pub mod slots;
mod spread;
pub mod statement;
pub mod totals;
pub mod turn;
pub mod vars;
pub mod workload;

pub use ledger::{Ledger, Micros, Standing, Step};
pub use spread::{Bounds, Excess, Full, Spread};
