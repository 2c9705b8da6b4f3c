//! Watches the servers of every database that has several: who is the primary, who may serve reads.
//!
//! One thread ([`watch`]) keeps a connection to each server and asks it at intervals ([`probe`]); what it hears goes to
//! the [`pooling::monitor::Board`], where workers see it, and what workers meet is told there too. Names of servers are
//! looked up on a thread of their own ([`resolve`]).

mod probe;
mod query;
mod resolve;
mod users;
mod watch;

pub use watch::{WAKER, spawn};
