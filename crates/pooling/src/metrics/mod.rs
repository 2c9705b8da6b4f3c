//! The counts: the durations and waits of statements, and the numbers of events.
//!
//! Each worker counts the traffic of its own pools, without locks. The page for Prometheus and the console ask every
//! worker by a message and add the answers up.

pub mod shapes;
mod stats;
mod times;

pub use stats::{ServerStats, Stats, server_name};
pub use times::Times;
