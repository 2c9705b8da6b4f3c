//! Who gets which server connection: first come, first served in each pool.

use std::rc::Rc;

use balancer::Want;
use wire::backend::{self, Status};

use crate::after::After;
use crate::client::{Client, ClientKey, Discard, State as ClientState};
use crate::common::PoolName;
use crate::config::PoolMode;
use crate::limits::Quota;
use crate::login::Login;
use crate::pool::{Pool, PoolKey};
use crate::server::{ServerKey, State};
use crate::shared::lock;
use crate::upkeep::leads_elsewhere;
use crate::worker::{Turn, Worker};

/// Idle connections that are looked at for one whose session is in line.
const LOOKED_AT: usize = 16;

impl Worker {
    /// The pool of this database and user, made on first use. Clients of a database whose entry gives a user share that
    /// user's pool ([`crate::config::Config::pool_user`]).
    pub fn pool_of(&mut self, database: &Rc<str>, user: &Rc<str>) -> PoolKey {
        let name = (database.clone(), user.clone());
        if let Some(&key) = self.pool_names.get(&name) {
            return key;
        }
        let common = PoolName { database: database.to_string(), user: user.to_string(), server: None };
        let common = self.shared.commons.join(common, self.id);
        let mut pool = Pool::new(database.clone(), user.clone(), common);
        pool.user_is_given = self.config.database(database).is_some_and(|entry| entry.user.as_deref() == Some(user));
        let key = PoolKey(self.pools.insert(pool));
        self.pool_names.insert(name, key);
        self.size_pool(key);
        key
    }

    /// Gives a pool the sizes that the configuration says.
    pub fn size_pool(&mut self, key: PoolKey) {
        let Some(pool) = self.pools.get_mut(key.0) else { return };
        let (config, settings) = (&self.config, &self.config.settings);
        let database = config.database(&pool.database);
        pool.mode = config.pool_mode(&pool.database, &pool.user);
        pool.pipelining = Pool::may_pipeline(pool.mode, settings);
        pool.size = config.pool_size(&pool.database, &pool.user);
        pool.minimum = database.and_then(|entry| entry.min_pool_size).unwrap_or(settings.min_pool_size).min(pool.size);
        pool.reserve = config.reserve(&pool.database, &pool.user);
        pool.quota = Quota { database: config.database_servers(&pool.database), user: config.user_servers(&pool.user) };
        pool.serializable = false;
        pool.paused = crate::admin::is_paused(&self.shared, &pool.database, &pool.user);
        let (database, is_member) = (pool.database.clone(), pool.home.is_some());
        let cluster = self.cluster_behind(&database);
        let Some(pool) = self.pools.get_mut(key.0) else { return };
        pool.cluster = cluster;
        if cluster.is_some() && !is_member || cluster.is_none() && is_member {
            // The database has come to be on several servers, or on one.
            let servers = pool.servers.clone();
            self.reroute(key);
            self.retire(&servers);
        }
    }

    /// Checks a server connection out for a client, `reads_only` for what runs in a read-only transaction: true when the
    /// client has one now whose session is in line. Else it waits, for a connection or for its alignment.
    pub fn acquire(&mut self, key: ClientKey, reads_only: bool) -> bool {
        let Some(client) = self.clients.get_mut(key.0) else { return false };
        client.reads_only = reads_only;
        if let Some(server) = client.server {
            return self.align(server, key);
        }
        let Some(pool_key) = client.pool else { return false };
        if self.is_cluster(pool_key) && !self.route(key, Want::Any, 0) {
            return false;
        }
        let Some(client) = self.clients.get_mut(key.0) else { return false };
        let Some(pool_key) = client.pool else { return false };
        let Some(pool) = self.pools.get_mut(pool_key.0) else { return false };
        client.waits = Some(client.waiting_since.take().unwrap_or(self.now));
        client.told_to_wait = false;
        let again = client.strikes > 0;
        if !pool.paused
            && pool.waiting.is_empty()
            && let Some(server) = self.take_idle(pool_key, key)
        {
            self.lend(server, key);
            let server = self.servers.get(server.0);
            return server.is_some_and(|server| server.client() == Some(key) && server.aligning.is_none());
        }
        if let Some(pool) = self.pools.get_mut(pool_key.0) {
            if again { pool.waiting.push_front(key) } else { pool.waiting.push_back(key) }
        }
        self.later(After::Grow(pool_key));
        false
    }

    /// Takes an idle server connection of a pool for a client: one whose session is in line already, if there is one
    /// among those that would come next. One that is to be checked first is checked, and not taken.
    pub fn take_idle(&mut self, pool_key: PoolKey, key: ClientKey) -> Option<ServerKey> {
        let target = self.target(key)?;
        let pool = self.pools.get_mut(pool_key.0)?;
        let oldest_first = self.config.settings.server_round_robin;
        let count = pool.idle.len();
        let place = |nth: usize| if oldest_first { nth } else { count - 1 - nth };
        let servers = &self.servers;
        let meets = |at: &usize| {
            let server = pool.idle.get(*at).and_then(|key| servers.get(key.0));
            server.is_some_and(|server| server.session.meets(&target))
        };
        let chosen = (0..count.min(LOOKED_AT)).map(place).find(meets).or((count > 0).then(|| place(0)))?;
        let server = pool.idle.remove(chosen)?;
        (!self.check(server)).then_some(server)
    }

    /// Opens connections for those who wait, as far as the limits allow, and has other workers know who waits still.
    pub fn grow(&mut self, key: PoolKey) {
        if self.is_cluster(key) {
            self.welcome_from_a_member(key);
            return;
        }
        self.open_more(key);
        self.balance(key);
    }

    /// How many connections those who wait would have, beside those that will soon be free.
    pub fn waiting_for_more(&self, key: PoolKey) -> usize {
        let Some(pool) = self.pools.get(key.0) else { return 0 };
        // However many wait to share, one more connection is enough for now.
        let sharing = usize::from(!pool.sharers.is_empty());
        let waiting = pool.waiting.len() + sharing + usize::from(!pool.greeting.is_empty() && pool.welcome.is_none());
        if waiting == 0 { 0 } else { waiting.saturating_sub(self.soon_free(key)) }
    }

    fn open_more(&mut self, key: PoolKey) {
        let Some(pool) = self.pools.get(key.0) else { return };
        let settings = &self.config.settings;
        if pool.paused {
            return;
        }
        let failure = pool.failure.as_ref().filter(|_| pool.home.is_none());
        let (down, retry) = (failure.is_some(), settings.server_login_retry.0);
        if failure.is_some_and(|failure| failure.holds(self.now, retry)) {
            if let Some(why) = pool.why_down(self.now, retry) {
                self.refuse_while_down(key, &why);
            }
            return;
        }
        let mut limit = pool.size;
        let oldest = pool.waiting.front().and_then(|key| self.clients.get(key.0)).and_then(|client| client.waits);
        if oldest.is_some_and(|since| self.now.saturating_duration_since(since) >= settings.reserve_pool_timeout.0) {
            limit += pool.reserve;
        }
        let mut wanted = self.waiting_for_more(key).saturating_sub(pool.connecting);
        // Who waits goes before what is idle elsewhere; filling a pool up does not.
        let needed = wanted;
        if pool.clients > 0 || pool.kept {
            wanted = wanted.max(pool.minimum.saturating_sub(pool.common.total()));
        }
        // Whether a server is back one attempt shows as well as many.
        if down {
            wanted = wanted.min(1_usize.saturating_sub(pool.connecting));
        }
        for number in 0..wanted {
            let Some(permit) = self.pools.get(key.0).and_then(|pool| pool.common.open(limit)) else { break };
            let may = if number < needed { self.make_room(key) } else { self.within_limits(key) };
            if !may || !self.connect(key, permit) {
                break;
            }
        }
    }

    /// Lends this server connection to this client, and brings its session in line.
    pub fn lend(&mut self, server_key: ServerKey, key: ClientKey) {
        let (Some(server), Some(client)) = (self.servers.get_mut(server_key.0), self.clients.get_mut(key.0)) else {
            return;
        };
        server.lent = Some(key);
        server.state = State::Active;
        server.state_since = self.now;
        server.answered = false;
        client.server = Some(server_key);
        client.request_since = self.now;
        let waited =
            client.waits.take().map_or_else(Default::default, |since| self.now.saturating_duration_since(since));
        if let Some(pool) = self.pools.get_mut(server.pool.0) {
            pool.totals.wait_time += waited;
            pool.stats.waited(server.place, waited);
            pool.totals.assignments += 1;
        }
        if self.align(server_key, key) {
            match self.clients.get(key.0).map(|client| &client.state) {
                Some(ClientState::Login(..)) => self.later(After::Lookup(key)),
                Some(ClientState::Greeting) => self.later(After::Verified(key)),
                _ => (),
            }
        }
    }

    /// Gives a free server connection to the next who waits, or to the pool.
    pub fn offer(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key.0) else { return };
        let taken = matches!(server.state, State::Idle) || server.client().is_some() || !server.requests.is_empty();
        debug_assert!(!taken, "a server connection is given back twice: {:?}", server.state);
        if taken {
            crate::warning!("a server connection was given back that is not free ({:?}): it is closed", server.state);
            return self.doom(key, "it was given back twice");
        }
        let pool_key = server.pool;
        server.state = State::Idle;
        server.state_since = self.now;
        let Some(server) = self.servers.get(key.0) else { return };
        let (old, retire) = (self.is_old(server), server.retire || server.suspect);
        let Some(pool) = self.pools.get(pool_key.0) else { return };
        let total = pool.common.total();
        let many = total > pool.size + pool.reserve;
        let spare = total > pool.size && pool.is_unwanted();
        // Clients of other workers may wait for one of the reserve.
        if spare && !(retire || old || many) && self.gives_away(key) {
            return;
        }
        if retire || old || many || spare {
            let why = if retire { "it was to be closed" } else { "it was old or too many" };
            self.close_server(key, why);
            self.grow_in_turn(pool_key);
            return;
        }
        self.hand_out(key);
    }

    /// Lends a free server connection to the next who waits, or puts it into the pool.
    fn hand_out(&mut self, key: ServerKey) {
        let Some(pool_key) = self.servers.get(key.0).map(|server| server.pool) else { return };
        if self.gives_away(key) {
            return;
        }
        let Some(pool) = self.pools.get_mut(pool_key.0) else { return };
        if !pool.paused {
            while let Some(next) = self.pools.get_mut(pool_key.0).and_then(|pool| pool.next_waiting(&self.clients)) {
                if self.clients.get(next.0).is_some_and(|client| client.waits.is_some()) {
                    self.lend(key, next);
                    self.give_turn(Turn::Client(next));
                    return;
                }
            }
        }
        if let Some(pool) = self.pools.get_mut(pool_key.0) {
            pool.idle.push_back(key);
        }
        self.offer_place(pool_key);
        self.balance(pool_key);
    }

    /// Lends free connections to those who wait, as after RESUME.
    pub fn serve_queue(&mut self, key: PoolKey) {
        while let Some(pool) = self.pools.get_mut(key.0) {
            if pool.paused || pool.is_unwanted() {
                return;
            }
            let Some(server) = pool.idle.pop_back() else { break };
            self.hand_out(server);
        }
        self.grow(key);
    }

    /// Tells those who wait in a pool whose server is down that there is none. Those who have logged in may go on waiting,
    /// if the configuration says so and time may mend it.
    pub fn refuse_while_down(&mut self, key: PoolKey, message: &str) {
        let Some(pool) = self.pools.get_mut(key.0) else { return };
        if pool.home.is_some() {
            // Another server of the cluster may do.
            self.reroute(key);
            return;
        }
        let may_wait =
            self.config.settings.queue_while_down && pool.failure.as_ref().is_some_and(|failure| failure.may_pass);
        let greeting = std::mem::take(&mut pool.greeting);
        let mut refused = Vec::new();
        for queue in [&mut pool.waiting, &mut pool.sharers] {
            queue.retain(|&key| {
                let stays = may_wait && self.clients.get(key.0).is_some_and(Client::is_ready);
                if !stays {
                    refused.push(key);
                }
                stays
            });
        }
        for client in greeting {
            self.fatal(client, "08006", message);
        }
        for client in refused {
            self.refuse(client, "08006", message);
        }
    }

    /// Answers the statement that a client waits to send with an error; the client stays connected.
    pub fn refuse(&mut self, key: ClientKey, code: &str, message: &str) {
        let Some(client) = self.clients.get_mut(key.0) else { return };
        if Login::phase(client).is_some() {
            self.lookup_failed(key, message, false);
            return;
        }
        if !client.is_ready() {
            self.fatal(key, code, message);
            return;
        }
        client.waits = None;
        client.needs_own = false;
        client.deeds.errors += 1;
        // One error ends a unit, however many would come.
        if std::mem::replace(&mut client.discard, Discard::Unit) == Discard::No {
            backend::write_error(client.io.out(), "ERROR", code, message);
        }
        self.count_error(code);
        if self.config.settings.log_pooler_errors {
            crate::warning!(of self.name_client(key); "{code} {message}");
        }
        if let Some(pool) =
            self.clients.get(key.0).and_then(|client| client.pool).and_then(|key| self.pools.get_mut(key.0))
        {
            pool.totals.refused += 1;
            pool.forget(key);
        }
        self.give_turn(Turn::Client(key));
    }

    /// Whether a server is free for others: nothing is asked, no transaction is open, and its client holds nothing.
    pub fn may_be_given_back(&self, key: ServerKey) -> bool {
        let Some(server) = self.servers.get(key.0) else { return false };
        if !server.requests.is_empty() || server.status != Status::Idle {
            return false;
        }
        let Some(client) = server.client().and_then(|key| self.clients.get(key.0)) else { return false };
        if !client.is_ready() {
            return true;
        }
        let mode = self.pools.get(server.pool.0).map_or(PoolMode::Session, |pool| pool.mode);
        mode.lends() && !client.pins.any() && !client.unsynced && client.passing == 0
    }

    /// Takes the configuration that is in force now.
    pub fn take_config(&mut self) {
        let old = std::mem::replace(&mut self.config, self.shared.config());
        let secured_otherwise = crate::credentials::secures_otherwise(&old.settings, &self.config.settings);
        let keys: Vec<PoolKey> = self.pools.iter().map(|(key, _)| PoolKey(key)).collect();
        for key in keys {
            let Some(pool) = self.pools.get(key.0) else { continue };
            let servers = pool.servers.clone();
            let before = old.database(&pool.database);
            let Some(entry) = self.config.database(&pool.database) else {
                // The database is gone: those who are idle go now, the others when they are done.
                self.retire(&servers);
                continue;
            };
            let moved = before.is_some_and(|before| leads_elsewhere(before, entry));
            self.size_pool(key);
            if moved || secured_otherwise {
                self.retire(&servers);
                self.retire_hub(key);
                // What failed before may do now.
                if let Some(pool) = self.pools.get_mut(key.0) {
                    pool.failure = None;
                }
            }
            self.serve_queue(key);
        }
        self.retire_the_laden();
        self.keep_pools();
    }

    /// Closes the server connections that know more prepared statements than are to be kept now.
    fn retire_the_laden(&mut self) {
        let most = self.config.settings.kept_statements();
        let laden = self.servers.iter().filter(|(_, server)| server.known.len() > most);
        let laden: Vec<ServerKey> = laden.map(|(key, _)| ServerKey(key)).collect();
        self.retire(&laden);
    }

    /// Closes these server connections, each when nobody uses it.
    pub fn retire(&mut self, servers: &[ServerKey]) {
        for &key in servers {
            let Some(server) = self.servers.get_mut(key.0) else { continue };
            server.retire = true;
            if matches!(server.state, State::Idle) {
                self.close_server(key, "it was to be closed");
            }
        }
    }

    /// Counts a server connection of a user.
    pub fn count_server(&self, user: &str, up: bool) {
        let mut counts = lock(&self.shared.by_user);
        let entry = counts.entry(user.to_owned()).or_default();
        entry.0 = if up { entry.0 + 1 } else { entry.0.saturating_sub(1) };
        // Users come and go, and anybody can name any.
        if *entry == (0, 0) {
            counts.remove(user);
        }
    }
}
