//! The pooler without sockets, threads and files: what it believes, who has which connection, what is sent to whom.
//!
//! - [`model`] has what is believed and decided of sessions, statements and connections, apart from who has them.
//! - [`state`] is what a worker knows: its clients, server connections and pools. What changes it is in folders that use
//!   those named before them, and never those after: [`pipeline`], [`router`], [`pools`] and [`backend`] below,
//!   [`frontend`] above them, [`reactor`] on top. [`reactor::work::work`] takes events and the time, and does all that there
//!   is to do.
//! - [`io`] says what is asked of sockets, TLS and the network; [`shared::Outside`] what is asked of threads and files.
//!   `howdah-pooler` has them from the system, simulations in [`memory`], turned [`by_hand`].
//! - [`config`] are the settings in force, [`admin`] is the console, [`metrics`] is what is counted. [`monitor`],
//!   [`catalog`] and [`replay`] are what other threads post: servers, what databases hold, how far replicas are.
//!
//! ARCHITECTURE.md follows a statement through the files.

#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

pub mod admin;
pub mod backend;
#[allow(clippy::unwrap_used, reason = "simulations say by panics what fails")]
pub mod by_hand;
pub mod catalog;
pub mod common;
pub mod config;
pub mod credentials;
pub mod derive;
pub mod error;
pub mod frontend;
pub mod hba;
pub mod homes;
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
pub mod pipeline;
pub mod pools;
pub mod reactor;
pub mod replay;
pub mod resolve;
pub mod router;
pub mod seat;
pub mod shared;
pub mod state;
pub mod succession;
pub mod sync;
