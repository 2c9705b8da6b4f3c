//! `howdah-pooler`: stands between clients and PostgreSQL servers, and lends a few server connections to many clients.
//!
//! Its decisions are in the library [`pooling`]. Here are the services of the system that the library needs: sockets
//! ([`net`], [`listen`]), [`tls`], the threads of workers ([`worker`]) and those beside them (the [`monitor`] of
//! servers, the reader of the [`catalog`], the [`replay_monitor`]), the [files] of configurations, [`metrics`] over
//! HTTP, the [`log`], and the process that takes over from another ([`takeover`], [`adopt`]).

#![forbid(unsafe_code)]

pub mod account;
pub mod adopt;
pub mod catalog;
pub mod files;
pub mod inherited;
pub mod listen;
pub mod log;
pub mod metrics;
pub mod monitor;
pub mod net;
pub mod notify;
pub mod outside;
pub mod password_hasher;
pub mod reload;
pub mod replay_monitor;
mod syslog;
pub mod takeover;
pub mod tls;
pub mod watch;
pub mod worker;
