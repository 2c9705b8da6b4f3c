//! Orders from the console to a worker, and its answers.

use crate::admin::seen::Snapshot;

/// The parts of a snapshot that are wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Pools, clients and server connections.
    Whole,
    /// Pools: there may be thousands of clients.
    Pools,
    /// The counts by shape.
    Shapes,
}

/// An order to every worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Give a snapshot of this.
    Look(Look),
    /// Give clients of this database (all when none) no server connections; the answer is the number of those left.
    Pause(Option<String>),
    /// Read nothing more; the answer is the number of connections that are not at rest.
    Suspend,
    /// Go on, in this database (all when none).
    Resume(Option<String>),
    /// Close the server connections of this database (all when none), each when it is free.
    Reconnect(Option<String>),
    /// Count the server connections that are still to be closed after a Reconnect.
    WaitClose(Option<String>),
    /// Drop all clients and servers of this database (all when none).
    Kill(Option<String>),
    /// Drop the client of this id.
    KillClient(u64),
}

/// The answer of a worker.
#[derive(Debug)]
pub enum Answer {
    /// The snapshot of the worker.
    Seen(Snapshot),
    /// The order was carried out, but for this number of connections that are under way.
    Left(usize),
    /// Whether the object of the order is here.
    Found(bool),
}
