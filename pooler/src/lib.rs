//! `howdah-pooler`: stands between clients and PostgreSQL servers, and lends a few server connections to many clients.
//!
//! The way of a statement: [`worker`] reads it from the client's socket, [`forward`] passes it to the server that
//! [`assign`] lends, [`answer`] passes the answer back and gives the server to the next. [`login`] lets clients in,
//! [`connect`] logs in to servers, [`close`] says goodbye to either, [`tick`] watches the clock, [`monitor`] the servers, [`admin`] is the
//! console, [`config`] reads what all of them are told.

mod accept;
pub mod account;
pub mod admin;
mod after;
mod again;
mod align;
mod answer;
mod assign;
#[allow(clippy::unwrap_used, reason = "simulations say by panics what fails")]
pub mod by_hand;
mod cancel;
pub mod catalog;
mod channels;
mod client;
mod close;
mod common;
pub mod config;
pub mod connect;
mod credentials;
pub mod derive;
mod enter;
mod forward;
#[cfg(fuzzing)]
#[allow(missing_docs, clippy::unwrap_used, clippy::indexing_slicing)]
pub mod fuzzing;
mod handover;
mod hba;
mod hear;
pub mod homes;
mod ident;
mod keeping;
mod lane;
mod limits;
pub mod listen;
pub mod log;
mod login;
mod lone;
mod lookup;
pub mod metrics;
pub mod monitor;
mod moves;
mod names;
mod net;
pub mod notify;
mod password;
mod pins;
mod pool;
mod refusal;
mod relay;
pub mod reload;
pub mod replay;
pub mod resolve;
mod route;
mod seat;
mod server;
mod session;
mod shape;
pub mod shared;
mod slots;
mod startup;
mod statement;
pub mod succession;
mod suspend;
pub mod takeover;
mod tick;
mod tls;
mod unit;
mod upkeep;
mod vars;
pub mod watch;
mod welcome;
pub mod worker;
mod workload;
