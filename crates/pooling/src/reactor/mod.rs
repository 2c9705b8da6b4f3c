//! The event loop of a worker: turns of connections, time limits, messages of other threads, and its end.

pub mod after;
pub mod ending;
pub mod feed;
pub mod forward;
pub mod mail;
pub mod read;
pub mod stall;
pub mod tick;
pub mod work;
