//! The pooler without sockets, threads and files: the state of sessions, the assignment of connections, and the
//! messages to clients and servers.
//!
//! - [`model`] has the rules about sessions, statements and connections, as plain values without their owners.
//! - [`state`] is the state of a worker: its clients, server connections and pools, and the lists of its work. Folders
//!   change it, of which each uses those before it in this list: [`router`], [`pools`], [`frontend`], [`pipeline`],
//!   [`backend`], [`admin`] and, on top, [`reactor`]. `tests/test_layers.py` has the whole order, and counts the few uses
//!   against it. [`reactor::work::work`] takes events and the time, and does all work that they cause.
//! - [`io`] has the traits of sockets, TLS and the network, [`shared::Outside`] that of threads and files.
//!   `howdah-pooler` implements them by the system, simulations in [`memory`], driven [`by_hand`].
//! - [`config`] has the settings in force, [`admin`] the console, [`metrics`] the counts. [`monitor`] and
//!   [`catalog`] have the results of other threads: the servers' roles, the replicas' replay positions, the databases'
//!   catalogs.
//!
//! ARCHITECTURE.md follows a statement through the files.

#![forbid(unsafe_code)]

pub mod admin;
pub mod assignment;
pub mod backend;
#[allow(clippy::unwrap_used, reason = "simulations say by panics what fails")]
pub mod by_hand;
pub mod catalog;
pub mod client_permit;
pub mod common;
pub mod config;
pub mod credentials;
pub mod derive;
pub mod error;
pub mod frontend;
pub mod hba;
pub mod ident;
pub mod io;
pub mod link;
pub mod log;
pub mod memory;
pub mod metrics;
pub mod model;
pub mod monitor;
pub mod password;
pub mod pause;
pub mod permit;
pub mod pipeline;
pub mod pools;
pub mod reactor;
pub mod resolve;
pub mod router;
pub mod shared;
pub mod state;
pub mod sync;
pub mod takeover;
