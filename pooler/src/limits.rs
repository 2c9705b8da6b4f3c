//! The limits that several pools share, `max_db_connections` and `max_user_connections`: whose connection makes room for
//! whom.
//!
//! A pool that a limit keeps from a connection takes the place of one that is idle in another pool, the one that has been
//! idle longest. Where none is idle since clients follow each other, a client that has waited for [`STARVING`] is served
//! nonetheless: a connection of a pool that has more is closed when it is next free. A client of another worker's pool
//! gets a place only where one is idle there.

use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::common::Permit;
use crate::config::PoolMode;
use crate::pool::{Pool, PoolKey};
use crate::server::{Server, ServerKey, State};
use crate::shared::{Message, lock};
use crate::worker::Worker;

/// How long a client waits before its pool gets a connection at the cost of a pool that has more.
const STARVING: Duration = Duration::from_secs(1);

/// A limit that several pools share.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Limit {
    /// `max_db_connections` of this database.
    Database(Rc<str>),
    /// `max_user_connections` of this user.
    User(Rc<str>),
}

impl Limit {
    fn covers(&self, pool: &Pool) -> bool {
        match self {
            Self::Database(database) => pool.database == *database,
            Self::User(user) => pool.user == *user,
        }
    }

    fn setting(&self) -> &'static str {
        match self {
            Self::Database(_) => "max_db_connections",
            Self::User(_) => "max_user_connections",
        }
    }
}

/// Server connections that several pools may have together; 0 for no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quota {
    /// Of the database, whatever the user.
    pub database: usize,
    /// Of the user, whatever the database.
    pub user: usize,
}

impl Quota {
    fn is_unlimited(self) -> bool {
        self == Self::default()
    }
}

impl Worker {
    /// The limit that keeps a pool from one more server connection.
    fn limit_reached(&self, pool: &Pool) -> Option<Limit> {
        if pool.quota.database > 0 {
            let same = self.pools.iter().filter(|(_, other)| other.database == pool.database);
            if same.map(|(_, other)| other.servers.len() + other.apart).sum::<usize>() >= pool.quota.database {
                return Some(Limit::Database(pool.database.clone()));
            }
        }
        let servers = || lock(&self.shared.by_user).get(&*pool.user).map_or(0, |(servers, _)| *servers);
        (pool.quota.user > 0 && servers() >= pool.quota.user).then(|| Limit::User(pool.user.clone()))
    }

    /// A permit for one more server connection of a pool, within its size.
    pub fn permit(&self, key: PoolKey) -> Option<Permit> {
        self.pools.get(key.0).and_then(|pool| pool.common.open(pool.size))
    }

    /// Whether one more server connection keeps within the limits of its database and user.
    pub fn within_limits(&self, key: PoolKey) -> bool {
        self.pools.get(key.0).is_some_and(|pool| self.limit_reached(pool).is_none())
    }

    /// Makes room for a connection that is no connection of the pool, at the cost of those that are idle. False when
    /// there is none.
    pub fn make_room_apart(&mut self, key: PoolKey) -> bool {
        while !self.within_limits(key) {
            let own = self.pools.get(key.0).and_then(|pool| pool.idle.front().copied());
            match own {
                Some(idle) => self.close_server(idle, "a connection that is lent to nobody takes its place"),
                None if self.make_room(key) => (),
                None => return false,
            }
        }
        true
    }

    /// Whether the limits are not full of connections that are lent to nobody when there is another. Those of a user
    /// whose databases other workers serve are not counted, so each worker has its share.
    pub fn leaves_room(&self, key: PoolKey) -> bool {
        let Some(pool) = self.pools.get(key.0) else { return false };
        let apart = |limit: Limit| {
            let covered = self.pools.iter().filter(|(_, other)| limit.covers(other));
            covered.map(|(_, other)| other.apart).sum::<usize>() + 1
        };
        let Quota { database, user } = pool.quota;
        let workers = self.shared.mailboxes.len();
        (database == 0 || apart(Limit::Database(pool.database.clone())) < database)
            && (user == 0 || apart(Limit::User(pool.user.clone())) * workers < user)
    }

    /// Lets a pool have one more server connection for a client that waits, at the cost of those that are idle in other
    /// pools. False when there is no room.
    pub fn make_room(&mut self, key: PoolKey) -> bool {
        while let Some(limit) = self.pools.get(key.0).and_then(|pool| self.limit_reached(pool)) {
            match self.longest_idle(&limit, Some(key)) {
                Some(idle) => self.close_server(idle, &reason(&limit)),
                None => {
                    if let Limit::User(user) = &limit {
                        self.shared.tell_all(|| Message::MakeRoom(user.to_string()));
                    }
                    return false;
                }
            }
        }
        true
    }

    /// Closes an idle connection of a user for a client of another worker, if the limit is still reached.
    pub fn make_room_for_another(&mut self, user: &str) {
        let limit = Limit::User(user.into());
        let reached =
            self.pools.iter().any(|(_, pool)| limit.covers(pool) && self.limit_reached(pool) == Some(limit.clone()));
        if let Some(idle) = self.longest_idle(&limit, None).filter(|_| reached) {
            self.close_server(idle, &reason(&limit));
        }
    }

    /// The connection that has been idle longest among those that a limit covers, in another pool than this.
    fn longest_idle(&self, limit: &Limit, apart: Option<PoolKey>) -> Option<ServerKey> {
        let may_go = |server: &Server| {
            matches!(server.state, State::Idle)
                && Some(server.pool) != apart
                && self.pools.get(server.pool.0).is_some_and(|pool| limit.covers(pool))
        };
        let idle = self.servers.iter().filter(|(_, server)| may_go(server));
        idle.min_by_key(|(_, server)| server.state_since).map(|(key, _)| ServerKey(key))
    }

    /// A server connection of a pool is closed: those who wait get others, whoever has waited longest first.
    pub fn grow_in_turn(&mut self, key: PoolKey) {
        let mut keys = self.kept_waiting_by(key);
        let own = self.pools.get(key.0).and_then(|pool| self.waits_since(pool));
        let place = keys.iter().position(|(_, since)| own.is_some_and(|own| own < *since));
        keys.insert(place.unwrap_or(keys.len()), (key, self.now));
        for (key, _) in keys {
            self.grow(key);
        }
    }

    /// A server connection of a pool is idle: it goes if a limit keeps another pool waiting.
    pub fn offer_place(&mut self, key: PoolKey) {
        for (key, _) in self.kept_waiting_by(key) {
            self.grow(key);
        }
    }

    /// The pools that wait for a connection and share a limit with this one, whoever has waited longest first.
    fn kept_waiting_by(&self, key: PoolKey) -> Vec<(PoolKey, Instant)> {
        let Some(pool) = self.pools.get(key.0).filter(|pool| !pool.quota.is_unlimited()) else { return Vec::new() };
        let shares = |other: &Pool| {
            pool.quota.database > 0 && other.database == pool.database || pool.quota.user > 0 && other.user == pool.user
        };
        let others = self.pools.iter().filter(|(other, pool)| *other != key.0 && !pool.paused && shares(pool));
        let mut waiting: Vec<(PoolKey, Instant)> =
            others.filter_map(|(other, pool)| Some((PoolKey(other), self.waits_since(pool)?))).collect();
        waiting.sort_by_key(|(_, since)| *since);
        waiting
    }

    /// Since when somebody waits for a connection of this pool.
    pub fn waits_since(&self, pool: &Pool) -> Option<Instant> {
        let first = pool.greeting.first().and_then(|key| self.clients.get(key.0)).map(|client| client.since);
        pool.oldest(&self.clients).into_iter().chain(first).min()
    }

    /// Has a pool give a busy connection up for one whose clients have waited for long and that has fewer.
    pub fn relieve_starving(&mut self) {
        let starving = |pool: &Pool| {
            let long =
                self.waits_since(pool).is_some_and(|since| self.now.saturating_duration_since(since) >= STARVING);
            (long && !pool.quota.is_unlimited() && !pool.paused && pool.connecting == 0)
                .then(|| Some((self.limit_reached(pool)?, pool.servers.len())))
                .flatten()
        };
        let found: Vec<(Limit, usize)> = self.pools.iter().filter_map(|(_, pool)| starving(pool)).collect();
        for (limit, fewer) in found {
            let covered = |server: &Server| self.pools.get(server.pool.0).filter(|pool| limit.covers(pool));
            // One at a time: the pool gets a connection, and then it is seen who still starves.
            if self.servers.iter().any(|(_, server)| server.retire && covered(server).is_some()) {
                continue;
            }
            let busy = self.servers.iter().filter_map(|(key, server)| {
                let pool = covered(server)?;
                let lasts = pool.mode == PoolMode::Session || !matches!(server.state, State::Active | State::Lane);
                (!lasts && pool.servers.len() > fewer).then_some((
                    pool.servers.len(),
                    std::cmp::Reverse(server.since),
                    key,
                ))
            });
            let most = busy.max_by_key(|(count, since, _)| (*count, *since)).map(|(.., key)| key);
            if let Some(server) = most.and_then(|key| self.servers.get_mut(key)) {
                server.retire = true;
            }
        }
    }
}

fn reason(limit: &Limit) -> String {
    format!("a client of another pool waits for a connection ({})", limit.setting())
}
