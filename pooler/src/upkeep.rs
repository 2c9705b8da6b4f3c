//! What keeps pools as the configuration wants them: databases that come and go, sizes, connections that are checked
//! before use and replaced when they are old.

use std::collections::HashSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::client::{ClientKey, State as ClientState};
use crate::common::PoolName;
use crate::config::{Database, PoolMode, Seconds};
use crate::metrics::Stats;
use crate::pool::{PoolKey, Totals};
use crate::server::{Server, ServerKey, State};
use crate::shared::{Message, lock};
use crate::worker::Worker;

/// A check or reset that takes longer than this is not counted on any more by those who wait.
const PATIENCE: Duration = Duration::from_secs(1);

/// Whether connections made for one entry are of no use for the other.
pub fn leads_elsewhere(old: &Database, new: &Database) -> bool {
    let place = |entry: &Database| (entry.hosts.clone(), entry.port, entry.dbname.clone());
    let login = |entry: &Database| (entry.user.clone(), entry.password.clone());
    let session = |entry: &Database| {
        let Database { client_encoding, datestyle, timezone, connect_query, .. } = entry.clone();
        (client_encoding, datestyle, timezone, connect_query)
    };
    place(old) != place(new) || login(old) != login(new) || session(old) != session(new)
}

impl Worker {
    /// Looks after the pools; called each second.
    pub fn keep_pools(&mut self) {
        self.make_kept_pools();
        let keys: Vec<PoolKey> = self.pools.iter().map(|(key, _)| PoolKey(key)).collect();
        for key in keys {
            let Some(pool) = self.pools.get(key.0) else { continue };
            match self.config.database(&pool.database) {
                None => {
                    let message = format!("database \"{}\" is no longer configured", pool.database);
                    self.wind_up(key, "3D000", &message);
                }
                // Its clients were let in to be that user here, and are not to be any longer.
                Some(entry) if pool.user_is_given && entry.user.is_none() => {
                    let message =
                        format!("user \"{}\" is no longer given for database \"{}\"", pool.user, pool.database);
                    self.wind_up(key, "57P01", &message);
                }
                Some(entry) => {
                    let settings = &self.config.settings;
                    let unused = |limit: Seconds| {
                        let long = |since: Instant| limit.limit().is_some_and(|limit| self.now - since >= limit);
                        pool.clients == 0 && pool.unused_since.is_some_and(long)
                    };
                    let empty = pool.servers.is_empty() && !pool.kept;
                    if entry.wildcard && (unused(settings.autodb_idle_timeout) || self.is_spent(pool))
                        || empty && unused(settings.pool_idle_timeout)
                    {
                        self.wind_up(key, "57P01", "the pool was not used");
                    } else {
                        self.trim(key);
                    }
                }
            }
        }
        let open = self.pools.iter().map(|(_, pool)| &*pool.database);
        let in_use: HashSet<&str> = open.chain(self.config.named_databases().map(String::as_str)).collect();
        let gone = self.shared.homes.forget(self.id, |name| in_use.contains(name));
        if !gone.is_empty() {
            lock(&self.shared.learnt).forget(&gone);
        }
        if self.config.settings.server_fast_close {
            self.close_retired_sessions();
        }
    }

    /// Pools that are kept filled before the first client comes: those whose user is given by the database's entry.
    fn make_kept_pools(&mut self) {
        let config = self.config.clone();
        for (name, entry) in &config.databases {
            let minimum = entry.min_pool_size.unwrap_or(config.settings.min_pool_size);
            let Some(user) = &entry.user else { continue };
            if minimum == 0 || self.shared.homes.of(name) != Some(self.id) {
                continue;
            }
            let (database, user): (Rc<str>, Rc<str>) = (name.as_str().into(), user.as_str().into());
            let key = self.pool_of(&database, &user);
            if let Some(pool) = self.pools.get_mut(key.0) {
                pool.kept = true;
            }
        }
    }

    /// Ends a pool that the configuration does without, or that nobody has used for long: clients that have something
    /// under way finish that before they are told.
    fn wind_up(&mut self, key: PoolKey, code: &str, message: &str) {
        let Some(pool) = self.pools.get(key.0) else { return };
        let servers = pool.servers.clone();
        for (_, member) in pool.members.clone() {
            self.wind_up(member, code, message);
        }
        let done: Vec<ClientKey> = self
            .clients
            .iter()
            .filter(|(_, client)| client.pool == Some(key) && !matches!(client.state, ClientState::Closing))
            .filter(|(_, client)| client.server.is_none() && client.lane.is_none())
            .map(|(key, _)| ClientKey(key))
            .collect();
        for client in done {
            self.fatal(client, code, message);
        }
        self.retire(&servers);
        let used = self.clients.iter().any(|(_, client)| client.pool == Some(key) || client.home == Some(key))
            || self.pools.get(key.0).is_some_and(|pool| !pool.members.is_empty())
            || self.servers.iter().any(|(_, server)| server.pool == key);
        if !used {
            let Some(pool) = self.pools.remove(key.0) else { return };
            // What is counted of a pool goes back nowhere for that.
            if let Some(other) = pool.common.another() {
                let counts = (pool.common.name().clone(), pool.totals, pool.stats);
                self.shared.tell(other, Message::Bequeathed(Box::new(counts)));
            }
            match pool.home {
                None => drop(self.pool_names.remove(&(pool.database, pool.user))),
                Some((home, _)) => {
                    if let Some(home) = self.pools.get_mut(home.0) {
                        home.members.retain(|(_, member)| *member != key);
                    }
                }
            }
        }
    }

    /// Adds what another worker has counted of a pool that it has no longer. Of the periods that are looked at it is no part.
    pub fn inherit(&mut self, (name, totals, stats): (PoolName, Totals, Stats)) {
        let Some(pool) = self.pool_named(&name).and_then(|key| self.pools.get_mut(key.0)) else { return };
        pool.totals = pool.totals.plus(&totals);
        pool.periods = pool.periods.map(|period| period.plus(&totals));
        pool.stats.add(&stats);
        self.workload.leave_out(&name.database, totals.queries);
    }

    /// Closes free connections of a pool that has become smaller.
    fn trim(&mut self, key: PoolKey) {
        while let Some(pool) = self.pools.get(key.0) {
            if pool.common.total() <= pool.size || !pool.waiting.is_empty() {
                return;
            }
            let Some(&oldest) = pool.idle.front() else { return };
            self.close_server(oldest, "the pool is smaller now");
        }
    }

    /// Closes what session-pooled clients hold and shall not hold any longer, when they are outside a transaction.
    fn close_retired_sessions(&mut self) {
        let ready = |server: &Server| {
            let pool = self.pools.get(server.pool.0);
            server.retire
                && server.requests.is_empty()
                && server.status == wire::backend::Status::Idle
                && pool.is_some_and(|pool| pool.mode == PoolMode::Session)
        };
        let found: Vec<(ServerKey, ClientKey)> = self
            .servers
            .iter()
            .filter(|(_, server)| ready(server))
            .filter_map(|(key, server)| Some((ServerKey(key), server.client()?)))
            .collect();
        for (server, client) in found {
            self.fatal(client, "57P01", "the server connection was to be closed (server_fast_close)");
            if self.servers.get(server.0).is_some_and(|server| server.client().is_none()) {
                self.close_server(server, "server_fast_close");
            }
        }
    }

    /// Whether a free server connection is to be checked before it is used: it has been idle for long.
    pub fn is_to_be_checked(&self, server: &Server) -> bool {
        let settings = &self.config.settings;
        !settings.server_check_query.is_empty()
            && matches!(server.state, State::Idle)
            && self.now.saturating_duration_since(server.state_since) >= settings.server_check_delay.0
    }

    /// Checks a free server connection, when it is to be: whether it was. It is offered to those who wait when the check
    /// has ended well, and closed when it has not.
    pub fn check(&mut self, key: ServerKey) -> bool {
        if !self.servers.get(key.0).is_some_and(|server| self.is_to_be_checked(server)) {
            return false;
        }
        self.run_check(key);
        true
    }

    /// Runs the query by which a server connection that nobody has is checked.
    pub fn run_check(&mut self, key: ServerKey) {
        let query = self.config.settings.server_check_query.clone();
        self.run_own(key, if query == "<empty>" { "" } else { &query });
    }

    /// Connections of a pool that will soon be free: they are being checked or reset.
    pub fn soon_free(&self, key: PoolKey) -> usize {
        let Some(pool) = self.pools.get(key.0) else { return 0 };
        let soon = |server: &Server| {
            matches!(server.state, State::Preparing)
                && server.held == 0
                && self.now.saturating_duration_since(server.state_since) < PATIENCE
        };
        pool.servers.iter().filter(|key| self.servers.get(key.0).is_some_and(soon)).count()
    }

    /// Whether a server connection is older than it may be. Each may become a bit less old than `server_lifetime` says,
    /// so that those that were opened together are not replaced together.
    pub fn is_old(&self, server: &Server) -> bool {
        let settings = &self.config.settings;
        let entry = self.pools.get(server.pool.0).and_then(|pool| self.config.database(&pool.database));
        let lifetime = entry.and_then(|entry| entry.server_lifetime).unwrap_or(settings.server_lifetime);
        let Some(limit) = lifetime.limit() else { return false };
        let share = f64::from(u32::try_from(settings.server_lifetime_jitter.min(100)).unwrap_or(100)) / 100.0;
        // The process id on the server is as good as a random number that would have to be kept.
        let spread = f64::from(server.cancel_key.pid.unsigned_abs().wrapping_mul(2_654_435_769)) / f64::from(u32::MAX);
        self.now.saturating_duration_since(server.since) >= limit.mul_f64(1.0 - share * spread)
    }
}
