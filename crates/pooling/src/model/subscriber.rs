//! The connections that listen for all clients of a pool.

use std::collections::HashMap;
use std::time::Instant;

use crate::model::channels::Subscriber;
use crate::model::keys::{ClientKey, PoolKey, ServerKey};

/// The subscriber of a pool.
#[derive(Debug)]
pub struct Listening {
    /// The clients that listen, and their channels.
    pub subscriber: Subscriber<ClientKey>,
    /// The connection, once it is being made.
    pub server: Option<ServerKey>,
    /// The time at which the connection could last not be had.
    pub failed: Option<Instant>,
    /// The time since when the connection is wanted and not being made.
    pub wanted: Option<Instant>,
    /// The time at which its server sent something last.
    pub spoke: Instant,
    /// The time since when the server owes an answer and has sent nothing.
    pub owes_since: Option<Instant>,
}

impl Listening {
    /// A subscriber without listeners; a connection could not be had when it `failed`.
    pub fn new(now: Instant, failed: Option<Instant>) -> Self {
        Self { subscriber: Subscriber::default(), server: None, failed, wanted: None, spoke: now, owes_since: None }
    }
}

/// The subscribers, by the pools of the clients.
pub type Subscribers = HashMap<PoolKey, Listening>;
