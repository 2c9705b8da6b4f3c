//! A connection of a client on its way to a worker.

use std::time::Instant;

use crate::io::Io;
use crate::seat::Seat;
use crate::state::login::Proven;

/// A connection on its way to a worker.
#[derive(Debug)]
pub struct Arrival {
    /// The socket, and what was read from it and not yet worked on.
    pub io: Io,
    /// How it is counted.
    pub seat: Seat,
    /// By what people name it.
    pub id: u64,
    /// When it was accepted.
    pub since: Instant,
    /// What it has proven, if it has.
    pub proven: Option<Box<Proven>>,
}
