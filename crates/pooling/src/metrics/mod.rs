//! What is counted: how long statements take and wait, and how often what happens.
//!
//! Each worker counts what passes through it in its own pools, without locks. Whoever wants to know (the page for
//! Prometheus, the console) asks every worker by message and puts the answers together.

pub mod ask;
pub mod measured;
mod stats;
mod times;

pub use stats::{ServerStats, Stats, server_name};
pub use times::Times;
