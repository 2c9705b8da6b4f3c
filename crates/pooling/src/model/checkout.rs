//! The server connection that a client has, or waits for.

use std::time::Instant;

use crate::model::keys::ServerKey;

/// What a client has of the server connections of its pool: one of these at a time.
#[derive(Debug, Clone, Copy, Default)]
enum Hold {
    /// It has none, and wants none.
    #[default]
    Nothing,
    /// It waits in its pool's queue since then.
    Waits(Instant),
    /// A connection is checked out to it.
    Own(ServerKey),
    /// Units of its own are in flight on a pipelined connection: how many.
    Pipelined(ServerKey, usize),
}

/// The server connection that a client has, or waits for.
#[derive(Debug, Default)]
pub struct Checkout {
    /// What it has.
    hold: Hold,
    /// Whether it was told that it waits.
    pub told_to_wait: bool,
    /// What it sent last cannot follow its units that are in flight: it waits until they are answered.
    pub behind_own: bool,
    /// It has waited for room in a pipelined connection, and it is its turn.
    pub may_share: bool,
    /// The unit at the front of its input needs a connection to itself.
    pub needs_own: bool,
    /// Whether the statement that it waits to send is to run in a read-only transaction.
    pub reads_only: bool,
    /// How often its unit was at the head of a pipelined connection whose server died.
    pub attempts: u8,
    /// How often its unit was asked again on account of its neighbours in a pipelined connection.
    pub retries: u8,
    /// How often a server connection was lost, or could not be aligned, before its statement could be sent.
    pub strikes: u8,
}

impl Checkout {
    /// The connection that is checked out to it.
    pub fn server(&self) -> Option<ServerKey> {
        if let Hold::Own(server) = self.hold { Some(server) } else { None }
    }

    /// The pipelined connection that its units are in flight on, and how many of them.
    pub fn pipelined(&self) -> Option<(ServerKey, usize)> {
        if let Hold::Pipelined(server, units) = self.hold { Some((server, units)) } else { None }
    }

    /// The connection that has its units, its own or a pipelined one.
    pub fn connection(&self) -> Option<ServerKey> {
        match self.hold {
            Hold::Own(server) | Hold::Pipelined(server, _) => Some(server),
            Hold::Nothing | Hold::Waits(_) => None,
        }
    }

    /// Since when it waits for a connection.
    pub fn waits(&self) -> Option<Instant> {
        if let Hold::Waits(since) = self.hold { Some(since) } else { None }
    }

    /// It waits, since then.
    pub fn wait(&mut self, since: Instant) {
        debug_assert!(self.connection().is_none(), "a client waits that has a connection: {:?}", self.hold);
        self.hold = Hold::Waits(since);
    }

    /// It waits no longer; since when it has.
    pub fn stop_waiting(&mut self) -> Option<Instant> {
        let since = self.waits()?;
        self.hold = Hold::Nothing;
        Some(since)
    }

    /// A connection is checked out to it; since when it has waited.
    pub fn take(&mut self, server: ServerKey) -> Option<Instant> {
        debug_assert!(self.connection().is_none(), "a client gets a second connection: {:?}", self.hold);
        let since = self.waits();
        self.hold = Hold::Own(server);
        since
    }

    /// It gives its own connection back.
    pub fn give_back(&mut self) -> Option<ServerKey> {
        let server = self.server()?;
        self.hold = Hold::Nothing;
        Some(server)
    }

    /// One more of its units goes down this pipelined connection.
    pub fn send(&mut self, server: ServerKey) {
        let before = self.pipelined().filter(|(same, _)| *same == server).map_or(0, |(_, units)| units);
        debug_assert!(self.connection().is_none_or(|_| before > 0), "units on two connections: {:?}", self.hold);
        self.hold = Hold::Pipelined(server, before + 1);
    }

    /// Some of its units that were in flight are so no longer.
    pub fn answered(&mut self, units: usize) {
        if let Hold::Pipelined(server, before) = self.hold {
            self.hold = if before > units { Hold::Pipelined(server, before - units) } else { Hold::Nothing };
        }
    }

    /// Nobody waits for its units in flight any more; the connection that they are on.
    pub fn leave_pipeline(&mut self) -> Option<ServerKey> {
        let (server, _) = self.pipelined()?;
        self.hold = Hold::Nothing;
        Some(server)
    }
}
