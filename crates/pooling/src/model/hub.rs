//! The connections that listen for all clients of a pool.

use std::collections::HashMap;
use std::time::Instant;

use crate::model::channels::Hub;
use crate::model::keys::{ClientKey, PoolKey, ServerKey};

/// The hub of a pool.
#[derive(Debug)]
pub struct Listening {
    /// Who listens to what.
    pub hub: Hub<ClientKey>,
    /// The connection, once it is being made.
    pub server: Option<ServerKey>,
    /// When it could last not be had.
    pub failed: Option<Instant>,
    /// Since when it is wanted, and no connection is being made.
    pub wanted: Option<Instant>,
    /// When it has said something last.
    pub spoke: Instant,
    /// Since when it has been seen to owe an answer and has said nothing.
    pub owes_since: Option<Instant>,
}

impl Listening {
    /// Nobody listens yet; a connection could not be had when it `failed`.
    pub fn new(now: Instant, failed: Option<Instant>) -> Self {
        Self { hub: Hub::default(), server: None, failed, wanted: None, spoke: now, owes_since: None }
    }
}

/// The hubs, by the pools of the clients.
pub type Hubs = HashMap<PoolKey, Listening>;
