//! Turns of connections, and what became of the bytes at the front of an input.

use crate::error::Error;
use crate::model::keys::{ClientKey, PoolKey, ServerKey};

/// A receiver with more than this unsent makes its sender wait.
pub const HIGH_WATER: usize = 262_144;

/// Whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Turn {
    /// A client's.
    Client(ClientKey),
    /// A server connection's.
    Server(ServerKey),
}

/// What became of the bytes at the front of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// So many are done with.
    Took(usize),
    /// More must come first.
    More,
    /// They must wait.
    Stop,
}

/// Something to be done between inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum After {
    /// A server connection is lost, or cannot go on; it says itself why.
    Gone(ServerKey),
    /// A server connection is closed, whose client has left.
    Close(ServerKey, &'static str),
    /// A server connection may be free for the next client.
    Free(ServerKey),
    /// A server connection has logged in.
    LoggedIn(ServerKey),
    /// A server has said that it is a standby when it was asked.
    Standby(ServerKey),
    /// The session on a server connection could not be brought in line with its client's.
    Unaligned(ServerKey),
    /// A client's password can be looked up on the connection that it has.
    Lookup(ClientKey),
    /// A server has accepted what a client asked for in its startup packet.
    Verified(ClientKey),
    /// A client can be greeted.
    Greet(ClientKey),
    /// The look-up of a password has ended.
    LookedUp(ServerKey),
    /// Nobody may wait any more for what a pipelined connection does.
    Stop(ServerKey),
    /// A pool may need more connections.
    Grow(PoolKey),
    /// A pool is to have one more connection, for pipelining.
    Widen(PoolKey),
    /// There may be room on a pool's pipelined connections.
    Share(PoolKey),
    /// A pool is to have a connection that listens for its clients.
    Hub(PoolKey),
    /// A client has missed notifications.
    Deaf(ClientKey),
    /// A client has done what its pool does not allow, and is closed.
    Expel(ClientKey, Box<Error>),
    /// The server of a pool is down: those who wait are told.
    Refuse(PoolKey, Box<Error>),
    /// There is no server to look a client's password up on.
    LookupRefused(ClientKey, String),
    /// The connection that listens for the clients of a pool could not be made.
    HubFailed(PoolKey, String),
    /// A client cannot be written to.
    Leave(ClientKey, String),
}
