//! Orders from the console to a worker, and its answers.

use crate::admin::seen::Snapshot;

/// An order to every worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// Give a snapshot.
    Look,
    /// Give a snapshot of the counts by shape alone.
    LookAtShapes,
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
