//! The event loop of a worker: turns of connections, time limits, messages of other threads, and its end.

pub mod after;
pub mod depart;
pub mod door;
pub mod ending;
pub mod feed;
pub mod mail;
pub mod moves;
pub mod read;
pub mod sockets;
pub mod succeed;
pub mod suspend;
pub mod tick;
pub mod turns;
pub mod work;
