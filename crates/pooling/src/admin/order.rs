//! Orders from the console to a worker, and its answers.

use crate::admin::seen::Snapshot;

/// What every worker is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Order {
    /// What there is.
    Look,
    /// Let nobody begin in this database (all when none); how much is still under way?
    Pause(Option<String>),
    /// Read nothing more; how many connections are not at rest?
    Suspend,
    /// Let them go on.
    Resume(Option<String>),
    /// Close the server connections of this database (all when none), each when it is free.
    Reconnect(Option<String>),
    /// How many server connections are still to be closed after a Reconnect?
    WaitClose(Option<String>),
    /// Drop all clients and servers of this database (all when none).
    Kill(Option<String>),
    /// Drop the client of this id.
    KillClient(u64),
}

/// What a worker answers.
#[derive(Debug)]
pub enum Answer {
    /// What there is.
    Seen(Snapshot),
    /// Done, but for so many that are under way.
    Left(usize),
    /// Whether what was asked about is here.
    Found(bool),
}
