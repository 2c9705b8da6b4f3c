//! The server connection that a client has, or waits for.

use std::time::Instant;

use crate::model::keys::ServerKey;
use crate::model::turn::Step;

/// The number of clients that may go before the one that has waited longest.
const PASSES: u8 = 16;

/// The relation of a client to the server connections of its pool: one of these at a time.
#[derive(Debug, Clone, Copy, Default)]
enum Hold {
    /// The client has no connection, and wants none.
    #[default]
    Nothing,
    /// The client has waited in its pool's queue since then.
    Waits(Instant),
    /// A connection is checked out to the client.
    Own(ServerKey),
    /// This number of the client's units is in flight on a pipelined connection.
    Pipelined(ServerKey, usize),
}

/// The server connection that a client has, or waits for.
#[derive(Debug, Default)]
pub struct Checkout {
    /// The state of the checkout.
    hold: Hold,
    /// The number of other clients that have gone before this one while it was the first to wait.
    passed: u8,
    /// Whether the client has got the notice that it waits.
    pub told_to_wait: bool,
    /// Whether the client's last message cannot follow its units in flight, and waits until they are answered.
    pub behind_own: bool,
    /// Whether the unit at the front of its input needs a connection to itself.
    pub needs_own: bool,
    /// Whether the statement that it waits to send is to run in a read-only transaction.
    pub reads_only: bool,
    /// The number of times that its unit was at the head of a pipelined connection whose server died.
    pub attempts: u8,
    /// The number of times that its unit was retried after an error by the fault of the pooler or a neighbour.
    pub retries: u8,
    /// The number of times that a server connection was lost, or could not be aligned, before its statement could be
    /// sent.
    pub strikes: u8,
}

impl Checkout {
    /// The connection that is checked out to the client.
    pub fn server(&self) -> Option<ServerKey> {
        if let Hold::Own(server) = self.hold { Some(server) } else { None }
    }

    /// The pipelined connection that its units are in flight on, and the number of these.
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

    /// The time since when the client waits for a connection.
    pub fn waits(&self) -> Option<Instant> {
        if let Hold::Waits(since) = self.hold { Some(since) } else { None }
    }

    /// Begins to wait, as since then.
    pub fn wait(&mut self, since: Instant) {
        debug_assert!(self.connection().is_none(), "a client waits that has a connection: {:?}", self.hold);
        self.hold = Hold::Waits(since);
    }

    /// Whether others may go before this client, which is the first to wait: until [`PASSES`] have, whatever they wait for.
    pub fn may_be_passed(&self) -> bool {
        self.passed < PASSES
    }

    /// Notes that another client goes before this one.
    pub fn pass(&mut self) {
        self.passed = self.passed.saturating_add(1);
    }

    /// Ends the wait; gives the time since when the client waited.
    pub fn stop_waiting(&mut self) -> Option<Instant> {
        let since = self.waits()?;
        self.hold = Hold::Nothing;
        Some(since)
    }

    /// Checks a connection out to the client; gives the time since when the client waited.
    pub fn take(&mut self, server: ServerKey) -> Option<Instant> {
        debug_assert!(self.connection().is_none(), "a client gets a second connection: {:?}", self.hold);
        let since = self.waits();
        (self.hold, self.passed) = (Hold::Own(server), 0);
        since
    }

    /// Gives the client's own connection back.
    pub fn give_back(&mut self) -> Option<ServerKey> {
        let server = self.server()?;
        self.hold = Hold::Nothing;
        Some(server)
    }

    /// Counts one more of its units in flight on this pipelined connection.
    pub fn send(&mut self, server: ServerKey) {
        let before = self.pipelined().filter(|(same, _)| *same == server).map_or(0, |(_, units)| units);
        debug_assert!(self.connection().is_none_or(|_| before > 0), "units on two connections: {:?}", self.hold);
        (self.hold, self.passed) = (Hold::Pipelined(server, before + 1), 0);
    }

    /// Counts units that are no longer in flight.
    pub fn answered(&mut self, units: usize) {
        if let Hold::Pipelined(server, before) = self.hold {
            self.hold = if before > units { Hold::Pipelined(server, before - units) } else { Hold::Nothing };
        }
    }

    /// Makes the client wait until its units in flight are answered, if there are any: units of one client are answered
    /// in order, and the next may not follow them down their pipelined connection.
    pub fn wait_for_own(&mut self) -> Option<Step> {
        self.pipelined()?;
        self.behind_own = true;
        Some(Step::Stop)
    }

    /// Leaves the pipelined connection: its units in flight are not waited for any more.
    pub fn leave_pipeline(&mut self) -> Option<ServerKey> {
        let (server, _) = self.pipelined()?;
        self.hold = Hold::Nothing;
        Some(server)
    }
}
