//! Pools, clients and server connections as plain values, which can go to another worker.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use classify::Reasons;

use crate::model::statement::StatementId;
use crate::model::totals::Totals;

use crate::metrics::shapes::Shape;

use crate::state::client::{Client, State as ClientState};
use crate::state::server::{Server, State};
use crate::state::transfer::Activity;

/// The part of a database's pool.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The whole pool.
    #[default]
    Whole,
    /// The clients of a database on several servers.
    Clients,
    /// The connections to this one of several servers.
    Server(String),
}

/// A pool.
#[derive(Debug, Clone, Default)]
pub struct PoolSeen {
    /// The database of the pool.
    pub database: String,
    /// The user of the pool.
    pub user: String,
    /// The part of the database's pool.
    pub part: Part,
    /// The mode of the pool.
    pub mode: &'static str,
    /// The clients of the pool.
    pub clients: ClientsSeen,
    /// The server connections of the pool.
    pub servers: ServersSeen,
    /// The number of server connections that the pool may have.
    pub size: usize,
    /// The number of further server connections, of the reserve.
    pub reserve: usize,
    /// The reason why the last attempt to connect to a server failed, if it did.
    pub failure: Option<String>,
    /// Counts since the start.
    pub totals: Totals,
    /// Counts of the last whole period.
    pub period: Totals,
    /// Whether the pool is paused.
    pub paused: bool,
    /// Named statements that its clients share: clients of several workers may share one.
    pub statements: HashSet<StatementId>,
}

/// The clients of a pool, by their activity.
#[derive(Debug, Clone, Default)]
pub struct ClientsSeen {
    /// Clients that have a server connection.
    pub active: usize,
    /// Clients that have nothing under way.
    pub idle: usize,
    /// Clients that wait.
    pub waiting: usize,
    /// The time for which the client has waited that has waited longest.
    pub longest_wait: Duration,
}

/// The server connections of a pool, by their activity.
#[derive(Debug, Clone, Default)]
pub struct ServersSeen {
    /// Connections that are checked out.
    pub active: usize,
    /// Idle connections that were used not long ago.
    pub idle: usize,
    /// Idle connections that are checked before they are used again.
    pub used: usize,
    /// Connections being reset, or held until a cancel request has arrived.
    pub busy: usize,
    /// Connections whose statement is being cancelled.
    pub cancelled: usize,
    /// Connections being made or logging in.
    pub login: usize,
    /// Cancel requests that are on their way.
    pub cancels: usize,
}

impl PoolSeen {
    /// Adds the counts of another worker for the same part of the pool: they share its size.
    pub fn join(&mut self, other: &Self) {
        let sizes = (self.size.max(other.size), self.reserve.max(other.reserve));
        self.add(other);
        (self.size, self.reserve) = sizes;
    }

    /// Adds another part of the same pool.
    fn add(&mut self, other: &Self) {
        self.clients.active += other.clients.active;
        self.clients.idle += other.clients.idle;
        self.clients.waiting += other.clients.waiting;
        self.size += other.size;
        self.reserve += other.reserve;
        self.failure = self.failure.take().or_else(|| other.failure.clone());
        self.servers.active += other.servers.active;
        self.servers.idle += other.servers.idle;
        self.servers.used += other.servers.used;
        self.servers.busy += other.servers.busy;
        self.servers.cancelled += other.servers.cancelled;
        self.servers.login += other.servers.login;
        self.servers.cancels += other.servers.cancels;
        self.clients.longest_wait = self.clients.longest_wait.max(other.clients.longest_wait);
        self.totals = self.totals.plus(&other.totals);
        self.period = self.period.plus(&other.period);
        self.paused |= other.paused;
        self.statements.extend(&other.statements);
    }

    /// Whether the pool has no server connection and the last attempt to make one failed.
    pub fn is_dead(&self) -> bool {
        self.failure.is_some() && self.servers.active + self.servers.idle + self.servers.used + self.servers.busy == 0
    }

    /// Counts a client of the pool by its activity.
    pub fn count_client(&mut self, client: &Client, now: Instant) {
        if let Some(since) = client.checkout.waits() {
            self.clients.waiting += 1;
            self.clients.longest_wait = self.clients.longest_wait.max(now.saturating_duration_since(since));
        } else if matches!(client.state(), ClientState::Greeting) {
            self.clients.waiting += 1;
        } else if client.checkout.server().is_some() || client.checkout.pipelined().is_some() {
            self.clients.active += 1;
        } else if client.is_ready() {
            self.clients.idle += 1;
        }
    }

    /// Counts a server connection of the pool by its activity.
    pub fn count_server(&mut self, server: &Server, is_to_be_checked: bool) {
        if server.cancels.target.is_some() {
            self.servers.cancels += 1;
            return;
        }
        self.servers.cancelled += usize::from(server.cancels.under_way > 0);
        match server.state() {
            State::Connecting | State::Login(_) => self.servers.login += 1,
            State::Preparing(_) | State::Cancelling => self.servers.busy += 1,
            State::Idle if is_to_be_checked => self.servers.used += 1,
            State::Idle => self.servers.idle += 1,
            State::Active(_) | State::Aligning(..) | State::Pipelined(_) | State::Relay | State::Subscriber => {
                self.servers.active += 1;
            }
        }
    }
}

/// The parts of pools, each once, whichever workers have it.
pub fn pool_parts<'a>(seen: impl IntoIterator<Item = &'a PoolSeen>) -> Vec<PoolSeen> {
    let mut parts: BTreeMap<(&str, &str, &Part), PoolSeen> = BTreeMap::new();
    for part in seen {
        match parts.entry((&part.database, &part.user, &part.part)) {
            Entry::Occupied(mut same) => same.get_mut().join(part),
            Entry::Vacant(place) => drop(place.insert(part.clone())),
        }
    }
    parts.into_values().collect()
}

/// Pools with all their parts added up, by database and user.
pub fn whole_pools<'a>(seen: impl IntoIterator<Item = &'a PoolSeen>) -> Vec<PoolSeen> {
    let mut wholes: BTreeMap<(String, String), PoolSeen> = BTreeMap::new();
    for part in pool_parts(seen) {
        match wholes.entry((part.database.clone(), part.user.clone())) {
            Entry::Occupied(mut whole) => whole.get_mut().add(&part),
            Entry::Vacant(place) => drop(place.insert(part)),
        }
    }
    wholes.into_values().collect()
}

/// A client or a server connection.
#[derive(Debug, Clone)]
pub struct Line {
    /// `C` or `S`.
    pub kind: &'static str,
    /// The user.
    pub user: String,
    /// The database.
    pub database: String,
    /// The kind of replication: `none`, `physical` or `logical`.
    pub replication: &'static str,
    /// The activity of the connection.
    pub state: &'static str,
    /// The socket of the connection.
    pub socket: SocketSeen,
    /// The age of the connection and of its activity.
    pub times: TimesSeen,
    /// Whether the connection will be closed when it is free.
    pub close_needed: bool,
    /// The id of the connection.
    pub id: u64,
    /// The id of the connection on the other side that it is linked with.
    pub link: Option<u64>,
    /// The process id on the server.
    pub remote_pid: i32,
    /// The `application_name` of the connection.
    pub application_name: String,
    /// The number of its prepared statements.
    pub statements: usize,
    /// The reasons that pin client and server connection to each other, and the time since that.
    pub pinned: Option<(Reasons, Duration)>,
    /// The counts of a client's work.
    pub activity: Activity,
}

/// The age of a client or a server connection.
#[derive(Debug, Clone)]
pub struct TimesSeen {
    /// The time since the connection was made.
    pub age: Duration,
    /// The time since its last request.
    pub request_age: Duration,
    /// The time that it has waited.
    pub wait: Duration,
}

/// The socket of a client or a server connection.
#[derive(Debug, Clone)]
pub struct SocketSeen {
    /// The address on the other side.
    pub address: (String, u16),
    /// The address on this side.
    pub local: (String, u16),
    /// The file descriptor, and that of the other side's socket.
    pub descriptors: (i32, Option<i32>),
    /// Bytes held that came from it, and bytes held for it.
    pub held: (usize, usize),
    /// The version and cipher of TLS; empty without.
    pub tls: String,
}

/// The pools and connections of one worker.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Pools.
    pub pools: Vec<PoolSeen>,
    /// Clients.
    pub clients: Vec<Line>,
    /// Server connections.
    pub servers: Vec<Line>,
    /// Clients that are logging in.
    pub login_clients: usize,
    /// Counts by shape.
    pub shapes: Vec<Shape>,
}

/// The kind of replication of a client.
pub fn replication(client: Option<&Client>) -> &'static str {
    client.and_then(|client| client.relay.as_ref()).map_or("none", |relay| relay.replication.word())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_pool_add_up_and_other_pools_stay_apart() {
        let part = |database: &str, user: &str, part| PoolSeen {
            database: database.to_owned(),
            user: user.to_owned(),
            part,
            size: 2,
            ..PoolSeen::default()
        };
        let idle = |idle| ClientsSeen { idle, ..ClientsSeen::default() };
        let servers = |idle, active| ServersSeen { idle, active, ..ServersSeen::default() };
        let parts = [
            PoolSeen { clients: idle(3), size: 0, paused: true, ..part("b", "x", Part::Clients) },
            PoolSeen {
                servers: servers(1, 0),
                failure: Some("refused".to_owned()),
                ..part("b", "x", Part::Server("one:1".to_owned()))
            },
            PoolSeen { servers: servers(0, 2), ..part("b", "x", Part::Server("two:2".to_owned())) },
            part("b", "y", Part::Whole),
            // The same part on another worker: the workers share its size.
            PoolSeen { clients: idle(1), ..part("b", "y", Part::Whole) },
            part("a", "z", Part::Whole),
        ];
        let wholes = whole_pools(&parts);
        let names: Vec<_> = wholes.iter().map(|pool| (pool.database.as_str(), pool.user.as_str(), pool.size)).collect();
        assert_eq!(names, [("a", "z", 2), ("b", "x", 4), ("b", "y", 2)]);
        let whole = &wholes[1];
        assert_eq!((whole.clients.idle, whole.servers.idle, whole.servers.active), (3, 1, 2));
        assert!(whole.paused && whole.failure.is_some() && !whole.is_dead());
    }
}
