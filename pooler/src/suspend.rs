//! SUSPEND: what was read is passed on, then nothing more is read until RESUME.
//!
//! As with PgBouncer's, no transaction is waited for and no answer: what clients and servers say meanwhile stays in their
//! sockets. A connection is held as soon as the pooler has nothing of it in hand; servers after the clients, since a
//! client's bytes need a server that still answers. What is not at rest within `suspend_timeout` is closed. Clients of
//! the console go on, and nobody new is let in. Time limits rest too.

use std::time::Instant;

use crate::client::{Client, ClientKey, State as ClientState};
use crate::pool::PoolKey;
use crate::server::{Request, Server, ServerKey, State};
use crate::shared::{Message, Shared, WorkerId, lock};
use crate::worker::{Turn, Worker};

/// What those hear who are not at rest in time.
const LATE: &str = "the pooler is suspended, and the connection was not at rest in time (suspend_timeout)";

/// How far a worker is with it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Suspension {
    /// Nothing is suspended.
    #[default]
    No,
    /// Connections are held one by one as they come to rest.
    Begun,
    /// All are held.
    Whole,
}

/// What of a connection the pooler has in hand.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct InHand {
    /// Bytes that were read and not worked on, and bytes that wait to be sent.
    bytes: usize,
    /// The beginning of a message has been passed on, and its end has not come.
    within_message: bool,
    /// The pooler itself has to do something first: a login, a wait in a queue, an alignment.
    errand: bool,
}

impl InHand {
    fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

/// What becomes of the connections at one look.
#[derive(Debug, PartialEq, Eq)]
struct Plan<C, S> {
    hold_clients: Vec<C>,
    /// Those that are not at rest, and must be let go on.
    busy_clients: Vec<C>,
    hold_servers: Vec<S>,
    /// The same, and all of them while a client is not at rest: it may need any.
    busy_servers: Vec<S>,
}

impl<C, S> Plan<C, S> {
    fn new(clients: impl Iterator<Item = (C, InHand)>, servers: impl Iterator<Item = (S, InHand)>) -> Self {
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

    /// How many are not at rest.
    fn left(&self) -> usize {
        self.busy_clients.len() + self.busy_servers.len()
    }
}

fn of_client(client: &Client) -> InHand {
    let own = match client.state {
        ClientState::Ready => {
            client.waits.is_some() || client.behind_own || client.ears.as_ref().is_some_and(|ears| ears.awaits())
        }
        ClientState::Closing | ClientState::Relay => false,
        _ => !client.is_awaited(),
    };
    InHand {
        bytes: client.io.rest.len() + client.io.pending(),
        within_message: client.passing + client.dropping > 0,
        errand: own,
    }
}

fn of_server(server: &Server) -> InHand {
    let asks = |request: &Request| {
        matches!(
            request,
            Request::Prelude | Request::Restore { .. } | Request::Align | Request::Clean | Request::Lookup
        )
    };
    let lane = server.lane.as_ref().filter(|_| matches!(server.state, State::Lane));
    let staged = lane.map_or(0, |lane| lane.stage.len());
    InHand {
        bytes: server.io.rest.len() + server.io.pending() + staged,
        within_message: server.passing.0 > 0,
        errand: !matches!(server.state, State::Idle | State::Active | State::Lane | State::Relay | State::Hub)
            || server.target.is_some()
            || server.held > 0
            || server.aligning.is_some()
            || server.requests.iter().any(asks),
    }
}

/// Suspends everything; false when it is suspended already.
pub fn begin(shared: &Shared, now: Instant) -> bool {
    let mut since = lock(&shared.suspended);
    let begun = since.is_none();
    since.get_or_insert(now);
    begun
}

/// Whether everything is suspended, or about to be.
pub fn is_suspended(shared: &Shared) -> bool {
    lock(&shared.suspended).is_some()
}

/// Lets everything go on; the workers are to be told.
pub fn end(shared: &Shared) -> bool {
    lock(&shared.suspended).take().is_some()
}

impl Worker {
    /// Holds what is at rest; how much is not. The others are closed when they have had their time.
    pub fn suspend(&mut self) -> usize {
        let Some(since) = *lock(&self.shared.suspended) else { return 0 };
        if self.suspension == Suspension::Whole {
            return 0;
        }
        self.suspension = Suspension::Begun;
        let limit = self.config.settings.suspend_timeout.limit();
        let late = limit.is_some_and(|limit| self.now.saturating_duration_since(since) >= limit);
        let clients = self.clients.iter().filter(|(_, client)| !client.is_on_console());
        let clients = clients.map(|(key, client)| (ClientKey(key), of_client(client)));
        let servers = self.servers.iter().map(|(key, server)| (ServerKey(key), of_server(server)));
        let plan = Plan::new(clients, servers);
        let left = plan.left();
        for &key in &plan.hold_clients {
            self.clients.get_mut(key.0).into_iter().for_each(|client| client.suspended = true);
        }
        for &key in &plan.hold_servers {
            self.servers.get_mut(key.0).into_iter().for_each(|server| server.suspended = true);
        }
        if left == 0 {
            self.suspension = Suspension::Whole;
        } else if late {
            self.close_late(plan);
        } else {
            // One that was held may have been given something: a unit that stalled is its client's again.
            self.let_go_on(&plan.busy_clients, &plan.busy_servers);
        }
        left
    }

    /// Closes the clients that are not at rest in time; the servers when it is the turn of these.
    fn close_late(&mut self, plan: Plan<ClientKey, ServerKey>) {
        if plan.busy_clients.is_empty() {
            plan.busy_servers.into_iter().for_each(|key| self.server_gone(key, LATE));
        }
        for key in plan.busy_clients {
            let closing = self.clients.get(key.0).is_some_and(|client| matches!(client.state, ClientState::Closing));
            // Who does not take what it was sent takes no farewell either.
            if closing { self.close_client(key, LATE) } else { self.fatal(key, "57P01", LATE) }
        }
    }

    fn let_go_on(&mut self, clients: &[ClientKey], servers: &[ServerKey]) {
        for &key in clients {
            if self.clients.get_mut(key.0).is_some_and(|client| std::mem::take(&mut client.suspended)) {
                self.give_turn(Turn::Client(key));
            }
        }
        for &key in servers {
            if self.servers.get_mut(key.0).is_some_and(|server| std::mem::take(&mut server.suspended)) {
                self.give_turn(Turn::Server(key));
            }
        }
    }

    /// Lets all that is held go on.
    pub fn end_suspension(&mut self) {
        if std::mem::take(&mut self.suspension) == Suspension::No {
            return;
        }
        let clients: Vec<ClientKey> = self.clients.iter().map(|(key, _)| ClientKey(key)).collect();
        let servers: Vec<ServerKey> = self.servers.iter().map(|(key, _)| ServerKey(key)).collect();
        self.let_go_on(&clients, &servers);
        let pools: Vec<PoolKey> = self.pools.iter().map(|(key, _)| PoolKey(key)).collect();
        for key in pools {
            self.serve_queue(key);
        }
        self.door.rings();
    }

    /// Goes on with a suspension that has begun. It ends when nobody is left on the console who could end it.
    pub fn tick_suspension(&mut self) {
        if self.suspension == Suspension::Begun {
            self.suspend();
        }
        let abandoned = self.id == crate::homes::CONSOLE
            && is_suspended(&self.shared)
            && !self.clients.iter().any(|(_, client)| client.is_on_console());
        if abandoned && end(&self.shared) {
            crate::info!("nobody is left on the console while the pooler is suspended: it goes on (RESUME)");
            let order = crate::admin::Order::Resume(None);
            self.shared.tell_all(|| Message::Order(WorkerId(0), 0, order.clone()));
        }
    }

    /// Whether nothing is read or begun here, but for the console.
    pub fn is_suspended(&self) -> bool {
        self.suspension == Suspension::Whole
    }

    /// Whether those who arrive are let in.
    pub fn lets_in(&self) -> bool {
        self.suspension == Suspension::No
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
