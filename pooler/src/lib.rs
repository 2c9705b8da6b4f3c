//! `howdah-pooler`: stands between clients and PostgreSQL servers, and lends a few server connections to many clients.
//!
//! What a worker knows is in [`state`]. What it does is in folders that use those named before them, and never those
//! after: [`pipeline`], [`router`], [`pools`] and [`backend`] below, [`frontend`] above them, [`reactor`] on top.
//! Around them are [`config`], the [`monitor`] of servers, the [`catalog`] of what databases hold, the console
//! ([`admin`]) and [`metrics`]. ARCHITECTURE.md follows a statement through the files.

#![forbid(unsafe_code)]
#![warn(clippy::too_many_lines)]

pub mod account;
pub mod admin;
mod backend;
#[allow(clippy::unwrap_used, reason = "simulations say by panics what fails")]
pub mod by_hand;
pub mod catalog;
mod common;
pub mod config;
mod credentials;
pub mod derive;
pub mod deriver;
mod frontend;
#[cfg(fuzzing)]
#[allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]
pub mod fuzzing;
mod hba;
pub mod homes;
mod ident;
pub mod io;
mod link;
pub mod listen;
pub mod log;
pub mod memory;
pub mod metrics;
pub mod monitor;
mod net;
pub mod notify;
pub mod outside;
mod password;
pub mod pause;
mod pipeline;
mod pools;
pub mod reactor;
mod refusal;
pub mod reload;
pub mod replay;
pub mod resolve;
mod router;
mod seat;
pub mod shared;
pub mod state;
pub mod succession;
pub mod sync;
mod syslog;
pub mod takeover;
pub mod tls;
pub mod watch;
pub mod worker;
