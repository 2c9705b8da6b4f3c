//! The pools of a worker as plain values, which add up: a database on several servers has a pool for its clients and one
//! for each server, and several workers may have each of them.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::time::{Duration, Instant};

use crate::client::{Client, State as ClientState};
use crate::metrics::server_name;
use crate::pool::{Pool, PoolKey, Totals};
use crate::server::{Server, State};
use crate::worker::Worker;

/// Which part of a database's pool it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// All of it.
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
    /// Its database.
    pub database: String,
    /// Its user.
    pub user: String,
    /// Which part of the database's pool it is.
    pub part: Part,
    /// Its mode.
    pub mode: &'static str,
    /// Clients that have a server connection.
    pub clients_active: usize,
    /// Clients that have nothing under way.
    pub clients_idle: usize,
    /// Clients that wait.
    pub clients_waiting: usize,
    /// Server connections that it may have.
    pub size: usize,
    /// Server connections beyond that.
    pub reserve: usize,
    /// Whether the last attempt to connect to a server failed.
    pub failing: bool,
    /// Server connections that are lent.
    pub servers_active: usize,
    /// Idle ones that were used not long ago.
    pub servers_idle: usize,
    /// Idle ones that are checked before they are used again.
    pub servers_used: usize,
    /// Those being reset, or held until a cancel request has arrived.
    pub servers_busy: usize,
    /// Those whose statement is being cancelled.
    pub servers_cancelled: usize,
    /// Those being connected or logging in.
    pub servers_login: usize,
    /// Cancel requests that are on their way.
    pub cancels: usize,
    /// How long the client that has waited longest has waited.
    pub longest_wait: Duration,
    /// Counts since the start.
    pub totals: Totals,
    /// Counts of the last whole period.
    pub period: Totals,
    /// Whether it is paused.
    pub paused: bool,
    /// Named statements that its clients share.
    pub statements: usize,
}

impl PoolSeen {
    /// Adds what another worker has of the same part of the pool: they share its size.
    pub fn join(&mut self, other: &Self) {
        let sizes = (self.size.max(other.size), self.reserve.max(other.reserve));
        self.add(other);
        (self.size, self.reserve) = sizes;
    }

    /// Adds another part of the same pool.
    fn add(&mut self, other: &Self) {
        self.clients_active += other.clients_active;
        self.clients_idle += other.clients_idle;
        self.clients_waiting += other.clients_waiting;
        self.size += other.size;
        self.reserve += other.reserve;
        self.failing |= other.failing;
        self.servers_active += other.servers_active;
        self.servers_idle += other.servers_idle;
        self.servers_used += other.servers_used;
        self.servers_busy += other.servers_busy;
        self.servers_cancelled += other.servers_cancelled;
        self.servers_login += other.servers_login;
        self.cancels += other.cancels;
        self.longest_wait = self.longest_wait.max(other.longest_wait);
        self.totals = self.totals.plus(&other.totals);
        self.period = self.period.plus(&other.period);
        self.paused |= other.paused;
        self.statements += other.statements;
    }

    /// Whether it has no server connection and the last attempt to make one failed.
    pub fn is_dead(&self) -> bool {
        self.failing && self.servers_active + self.servers_idle + self.servers_used + self.servers_busy == 0
    }

    fn count_client(&mut self, client: &Client, now: Instant) {
        if let Some(since) = client.waits {
            self.clients_waiting += 1;
            self.longest_wait = self.longest_wait.max(now.saturating_duration_since(since));
        } else if matches!(client.state, ClientState::Greeting) {
            self.clients_waiting += 1;
        } else if client.server.is_some() || client.lane.is_some() {
            self.clients_active += 1;
        } else if client.is_ready() {
            self.clients_idle += 1;
        }
    }

    fn count_server(&mut self, server: &Server, is_to_be_checked: bool) {
        if server.target.is_some() {
            self.cancels += 1;
            return;
        }
        self.servers_cancelled += usize::from(server.held > 0);
        match server.state {
            State::Connecting | State::Login(_) => self.servers_login += 1,
            State::Preparing | State::Cancelling => self.servers_busy += 1,
            State::Idle if is_to_be_checked => self.servers_used += 1,
            State::Idle => self.servers_idle += 1,
            State::Active | State::Lane | State::Relay | State::Hub => self.servers_active += 1,
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

impl Worker {
    /// The pools of this worker, in the order of their keys.
    pub fn pools_seen(&self) -> Vec<PoolSeen> {
        let mut places = HashMap::new();
        let mut pools: Vec<PoolSeen> = Vec::with_capacity(self.pools.len());
        for (number, pool) in self.pools.iter() {
            places.insert(PoolKey(number), pools.len());
            pools.push(self.pool_seen(pool));
        }
        for (_, client) in self.clients.iter() {
            if let Some(pool) = client.home.and_then(|home| places.get(&home)).and_then(|&place| pools.get_mut(place)) {
                pool.count_client(client, self.now);
            }
        }
        for (_, server) in self.servers.iter() {
            if let Some(pool) = places.get(&server.pool).and_then(|&place| pools.get_mut(place)) {
                pool.count_server(server, self.is_to_be_checked(server));
            }
        }
        pools
    }

    /// A pool, without its clients and server connections.
    fn pool_seen(&self, pool: &Pool) -> PoolSeen {
        let part = match pool.home {
            Some(_) => Part::Server(self.server_of(pool)),
            None if pool.cluster.is_some() => Part::Clients,
            None => Part::Whole,
        };
        // It is the pools of the servers that connections are made in.
        let sizes = if part == Part::Clients { (0, 0) } else { (pool.size, pool.reserve) };
        PoolSeen {
            database: pool.database.to_string(),
            user: pool.user.to_string(),
            part,
            mode: match pool.mode {
                crate::config::PoolMode::Session => "session",
                crate::config::PoolMode::Transaction => "transaction",
                crate::config::PoolMode::Statement => "statement",
            },
            size: sizes.0,
            reserve: sizes.1,
            failing: pool.failure.is_some(),
            totals: pool.totals,
            period: pool.periods[1].since(&pool.periods[0]),
            paused: pool.paused,
            statements: pool.statements.len(),
            ..PoolSeen::default()
        }
    }

    /// The server that a pool of one of several servers leads to.
    fn server_of(&self, pool: &Pool) -> String {
        let listed = pool.home.and_then(|(home, id)| {
            let view = self.clusters.get(self.pools.get(home.0)?.cluster?)?;
            view.view().server(id)
        });
        match listed {
            Some(server) => server_name(&server.host, server.port),
            // It has left the configuration: connections that are still open tell where they lead.
            None => pool.stats.servers().first().map(|server| server.name()).unwrap_or_default(),
        }
    }
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
        let parts = [
            PoolSeen { clients_idle: 3, size: 0, paused: true, ..part("b", "x", Part::Clients) },
            PoolSeen { servers_idle: 1, failing: true, ..part("b", "x", Part::Server("one:1".to_owned())) },
            PoolSeen { servers_active: 2, ..part("b", "x", Part::Server("two:2".to_owned())) },
            part("b", "y", Part::Whole),
            // The same on another worker: they share its size.
            PoolSeen { clients_idle: 1, ..part("b", "y", Part::Whole) },
            part("a", "z", Part::Whole),
        ];
        let wholes = whole_pools(&parts);
        let names: Vec<_> = wholes.iter().map(|pool| (pool.database.as_str(), pool.user.as_str(), pool.size)).collect();
        assert_eq!(names, [("a", "z", 2), ("b", "x", 4), ("b", "y", 2)]);
        let whole = &wholes[1];
        assert_eq!((whole.clients_idle, whole.servers_idle, whole.servers_active), (3, 1, 2));
        assert!(whole.paused && whole.failing && !whole.is_dead());
    }
}
