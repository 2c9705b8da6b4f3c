//! Watches the servers of every database that has several: which of them is the primary, and which may serve reads.
//!
//! One thread ([`watch`]) keeps a connection to each server and asks it at intervals ([`probe`]). The answers go to the
//! [`pooling::monitor::Board`], where workers read them; the workers report the events of their own connections there
//! too. Names of servers are looked up on a thread of their own ([`resolve`]).

mod probe;
mod query;
mod resolve;
mod users;
mod watch;

pub use watch::{WAKER, spawn};
