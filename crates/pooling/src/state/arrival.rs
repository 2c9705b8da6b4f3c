//! A connection of a client on its way to a worker.

use std::time::Instant;

use crate::client_permit::ClientPermit;
use crate::io::Io;
use crate::state::login::Proven;

/// A connection on its way to a worker.
#[derive(Debug)]
pub struct Arrival {
    /// The socket, and the bytes that were read from it and not yet worked on.
    pub io: Io,
    /// The permit by which the client is counted.
    pub permit: ClientPermit,
    /// The connection's id on the console and in the log.
    pub id: u64,
    /// The time at which the connection was accepted.
    pub since: Instant,
    /// The proven identity of its client, once it has proven it.
    pub proven: Option<Box<Proven>>,
}
