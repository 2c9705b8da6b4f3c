//! SUSPEND: the connections that are suspended, and those that must come to rest first.

use std::time::Instant;

use crate::model::request::Request;

use crate::shared::Shared;
use crate::state::client::{Client, State as ClientState};
use crate::state::server::{Server, State};
use crate::sync::lock;

/// The progress of a worker with SUSPEND.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Suspension {
    /// Nothing is suspended.
    #[default]
    No,
    /// Connections are held one by one as they come to rest.
    Begun,
    /// All connections are held.
    Whole,
}

/// The unfinished work of the pooler on a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct InHand {
    /// The bytes that were read and not worked on, and those that wait to be sent.
    bytes: usize,
    /// Whether the beginning of a message has been passed on, and its end has not come.
    within_message: bool,
    /// Whether the pooler itself has to do something first: a login, a wait in a queue, an alignment.
    errand: bool,
}

impl InHand {
    /// Whether no work is left.
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

/// The connections to hold, and those that are not at rest, at one look.
#[derive(Debug, PartialEq, Eq)]
pub struct Plan<C, S> {
    /// Clients at rest.
    pub hold_clients: Vec<C>,
    /// Clients that are not at rest, and must go on.
    pub busy_clients: Vec<C>,
    /// Server connections at rest.
    pub hold_servers: Vec<S>,
    /// Server connections that are not at rest; all of them while a client is not at rest, since it may need any.
    pub busy_servers: Vec<S>,
}

/// The unfinished work on a client.
pub fn of_client(client: &Client) -> InHand {
    let own = match client.state() {
        ClientState::Ready => {
            client.checkout.waits().is_some()
                || client.checkout.behind_own
                || client.subscriptions.as_ref().is_some_and(|subscriptions| subscriptions.awaits())
        }
        ClientState::Closing | ClientState::Relay => false,
        _ => !client.is_awaited(),
    };
    InHand {
        bytes: client.io.rest.len() + client.io.pending(),
        within_message: client.input.passing + client.input.dropping > 0,
        errand: own,
    }
}

/// The unfinished work on a server connection.
pub fn of_server(server: &Server) -> InHand {
    let pipeline = server.pipeline();
    let staged = pipeline.map_or(0, |pipeline| pipeline.stage.len());
    InHand {
        bytes: server.io.rest.len() + server.io.pending() + staged,
        within_message: server.exchange.passing.0 > 0,
        errand: !matches!(
            server.state(),
            State::Idle | State::Active(_) | State::Pipelined(_) | State::Relay | State::Subscriber
        ) || server.cancels.target.is_some()
            || server.cancels.under_way > 0
            || server.exchange.requests.iter().any(Request::is_ours),
    }
}

/// Suspends everything; false if everything is suspended already.
pub fn begin(shared: &Shared, now: Instant) -> bool {
    let mut since = lock(&shared.orders.suspended);
    let begun = since.is_none();
    since.get_or_insert(now);
    begun
}

/// Whether everything is suspended, or about to be.
pub fn is_suspended(shared: &Shared) -> bool {
    lock(&shared.orders.suspended).is_some()
}

/// Ends the suspension; the caller must tell the workers.
pub fn end(shared: &Shared) -> bool {
    lock(&shared.orders.suspended).take().is_some()
}

impl<C, S> Plan<C, S> {
    /// The plan for these connections.
    pub fn new(clients: impl Iterator<Item = (C, InHand)>, servers: impl Iterator<Item = (S, InHand)>) -> Self {
        fn part<K>(all: impl Iterator<Item = (K, bool)>) -> (Vec<K>, Vec<K>) {
            let (still, busy): (Vec<_>, Vec<_>) = all.partition(|(_, still)| *still);
            let keys = |all: Vec<(K, bool)>| all.into_iter().map(|(key, _)| key).collect();
            (keys(still), keys(busy))
        }
        let (hold_clients, busy_clients) = part(clients.map(|(key, in_hand)| (key, in_hand.is_nothing())));
        let alone = busy_clients.is_empty();
        let (hold_servers, busy_servers) = part(servers.map(|(key, in_hand)| (key, alone && in_hand.is_nothing())));
        Self { hold_clients, busy_clients, hold_servers, busy_servers }
    }

    /// The number of connections that are not at rest.
    pub fn left(&self) -> usize {
        self.busy_clients.len() + self.busy_servers.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STILL: InHand = InHand { bytes: 0, within_message: false, errand: false };
    const HELD: InHand = InHand { bytes: 7, ..STILL };
    const HALF: InHand = InHand { within_message: true, ..STILL };
    const ERRAND: InHand = InHand { errand: true, ..STILL };

    fn plan(clients: &[InHand], servers: &[InHand]) -> Plan<usize, usize> {
        Plan::new(clients.iter().copied().enumerate(), servers.iter().copied().enumerate())
    }

    #[test]
    fn servers_are_held_when_the_last_client_is_at_rest() {
        let some = plan(&[STILL, HELD, HALF], &[STILL, STILL]);
        assert_eq!((some.left(), &*some.hold_clients, &*some.hold_servers), (4, &[0][..], &[][..]));
        assert_eq!((some.busy_clients, some.busy_servers), (vec![1, 2], vec![0, 1]));
        let all = plan(&[STILL, STILL], &[STILL, ERRAND]);
        assert_eq!((all.left(), &*all.hold_clients, &*all.hold_servers), (1, &[0, 1][..], &[0][..]));
        assert_eq!(all.busy_servers, [1]);
        assert_eq!(plan(&[STILL], &[STILL]).left(), 0);
    }
}
