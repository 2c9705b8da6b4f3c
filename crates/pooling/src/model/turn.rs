//! Turns of connections, and the outcome of reading the front of an input.

use crate::error::Error;
use crate::model::keys::{ClientKey, PoolKey, ServerKey};

/// A receiver with more than this unsent makes its sender wait.
pub const HIGH_WATER: usize = 262_144;

/// The connection whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Turn {
    /// A client.
    Client(ClientKey),
    /// A server connection.
    Server(ServerKey),
}

/// The outcome of a look at the front of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// This number of bytes is done with.
    Took(usize),
    /// More input must come first.
    More,
    /// The input must wait.
    Stop,
}

/// Work to be done between inputs.
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
    /// A server has accepted the settings in a client's startup packet.
    Verified(ClientKey),
    /// A client can be greeted.
    Greet(ClientKey),
    /// The look-up of a password has ended.
    LookedUp(ServerKey),
    /// Perhaps no client waits any more for the units on a pipelined connection.
    Stop(ServerKey),
    /// A pool may need more connections.
    Grow(PoolKey),
    /// A pool is to have one more connection, for pipelining.
    Widen(PoolKey),
    /// There may be room on a pool's pipelined connections.
    Share(PoolKey),
    /// A pool is to have a connection that listens for its clients.
    Subscriber(PoolKey),
    /// A client has missed notifications.
    Deaf(ClientKey),
    /// A client has done what its pool does not allow, and is closed.
    Expel(ClientKey, Box<Error>),
    /// The server of a pool is down: the waiting clients get this error.
    Refuse(PoolKey, Box<Error>),
    /// No server can look a client's password up.
    LookupRefused(ClientKey, String),
    /// The connection that listens for the clients of a pool could not be made.
    SubscriberFailed(PoolKey, String),
    /// A client cannot be written to.
    Leave(ClientKey, String),
}
