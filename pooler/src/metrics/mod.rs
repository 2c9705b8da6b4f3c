//! Measurements: how long statements take and wait, what is counted, and the page on which Prometheus reads them.
//!
//! Each worker counts what passes through it in its own pools, without locks. Whoever wants to know (the HTTP thread,
//! the console) asks every worker by message and puts the answers together.

pub mod ask;
pub mod http;
pub mod measured;
mod page;
mod stats;
mod text;
mod times;

pub use stats::{ServerStats, Stats, server_name};
pub use times::Times;
