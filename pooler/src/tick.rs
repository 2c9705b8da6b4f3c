//! What time brings: limits that run out, pools that shrink or fill, averages.

use std::time::Duration;

use crate::admin::show::a_second;
use crate::client::{ClientKey, State as ClientState};
use crate::homes::CONSOLE;
use crate::pool::{Pool, PoolKey, Totals};
use crate::server::{ServerKey, State};
use crate::shape::Why;
use crate::worker::Worker;

/// How long a closed client may take to notice.
const LINGER: Duration = Duration::from_secs(2);
/// How often pools are looked after.
const UPKEEP: Duration = Duration::from_secs(1);

impl Worker {
    /// Looks at all time limits.
    pub fn tick(&mut self) {
        self.tick_suspension();
        if !self.is_suspended() {
            self.tick_traffic();
        }
        self.console_tick();
        if self.ending.is_some() {
            self.close_idle_clients();
        }
        if self.now >= self.period_ends {
            self.period_ends = self.now + self.config.settings.stats_period.0.max(Duration::from_secs(1));
            self.end_period();
        }
    }

    fn tick_traffic(&mut self) {
        self.accept_late();
        self.tick_clients();
        self.tick_servers();
        self.tick_pools();
        self.tick_relays();
        if self.shared.succession.is_handed_over() {
            self.mark_heirs();
            if self.id == CONSOLE {
                self.take_back();
            }
        }
        if !self.hubs.is_empty() {
            self.tick_hubs();
        }
        self.tick_clusters();
        if self.now >= self.next_upkeep {
            self.next_upkeep = self.now + UPKEEP;
            self.keep_pools();
            self.refresh_names();
            self.forget_shapes();
            self.tell_workload();
            self.mark_movers();
        }
    }

    fn tick_clients(&mut self) {
        let config = self.config.clone();
        let settings = &config.settings;
        let of_all = config.limits("");
        let now = self.now;
        let past = |since: std::time::Instant, limit: Option<Duration>| {
            limit.is_some_and(|limit| now.saturating_duration_since(since) >= limit)
        };
        let mut over: Vec<(ClientKey, &str, String)> = Vec::new();
        let mut told = Vec::new();
        let mut lingering = Vec::new();
        let mut cancels = Vec::new();
        for (number, client) in self.clients.iter() {
            let key = ClientKey(number);
            match client.state {
                ClientState::Startup
                | ClientState::Cancels
                | ClientState::Login(..)
                | ClientState::Proven(_)
                | ClientState::Greeting => {
                    let waits = client.waiting_since.filter(|_| matches!(client.state, ClientState::Greeting));
                    if waits.is_some_and(|since| past(since, config.query_wait(&client.user, &client.database))) {
                        over.push((key, "wait", "query_wait_timeout".to_owned()));
                    } else if past(client.since, settings.client_login_timeout.limit()) {
                        let kind = if waits.is_some() { "wait" } else { "08006" };
                        over.push((key, kind, "client_login_timeout".to_owned()));
                    }
                    continue;
                }
                ClientState::Closing => {
                    if past(client.since, Some(LINGER)) {
                        lingering.push(key);
                    }
                    continue;
                }
                ClientState::Console | ClientState::Relay => continue,
                ClientState::Ready => (),
            }
            if let Some(since) = client.waits {
                if past(since, config.query_wait(&client.user, &client.database)) {
                    over.push((key, "wait", "query_wait_timeout".to_owned()));
                } else if !client.told_to_wait && past(since, settings.query_wait_notify.limit()) {
                    told.push(key);
                }
                continue;
            }
            // Few have limits of their own.
            let limits = if config.users.is_empty() { of_all } else { config.limits(&client.user) };
            if client.lane.is_some() {
                if past(client.request_since, limits.query) {
                    over.push((key, "57014", "query_timeout".to_owned()));
                }
                continue;
            }
            let Some(server) = client.server.and_then(|server| self.servers.get(server.0)) else {
                // Who listens waits for what is said.
                if client.ears.is_none() && past(client.request_since, limits.idle) {
                    over.push((key, "57P05", "client_idle_timeout".to_owned()));
                }
                continue;
            };
            if !server.requests.is_empty() && past(client.request_since, limits.query) {
                cancels.extend(client.server);
                over.push((key, "57014", "query_timeout".to_owned()));
            } else if server.requests.is_empty()
                && server.status != wire::backend::Status::Idle
                && past(client.request_since, limits.idle_transaction)
            {
                over.push((key, "25P03", "idle_transaction_timeout".to_owned()));
            } else if client.transaction_since.is_some_and(|since| past(since, limits.transaction)) {
                cancels.extend(client.server);
                over.push((key, "25P04", "transaction_timeout".to_owned()));
            }
        }
        for key in told {
            let Some(client) = self.clients.get_mut(key.0) else { continue };
            client.told_to_wait = true;
            let text = "no server connection is free, the statement waits in the queue (query_wait_notify)";
            wire::backend::write_notice(client.io.out(), "NOTICE", "00000", text);
            self.flush_client(key);
        }
        for key in lingering {
            self.close_client(key, "it did not close");
        }
        for server in cancels {
            self.cancel_on_server(server, None);
        }
        for (key, code, message) in over {
            if code == "wait" { self.wait_is_over(key, &message) } else { self.fatal(key, code, &message) }
        }
    }

    /// A client has waited too long, by this limit. It is told why no server could be had, and stays connected if it has
    /// been let in.
    fn wait_is_over(&mut self, key: ClientKey, limit: &str) {
        let Some(client) = self.clients.get(key.0) else { return };
        let Some(pool) = client.pool.and_then(|key| self.pools.get(key.0)) else { return };
        let (database, user) = (&pool.database, &pool.user);
        let (code, why) = if pool.paused {
            ("53300", format!("database \"{database}\" is paused"))
        } else if let Some(failure) = pool.failure.as_ref().filter(|_| client.is_ready() && pool.servers.is_empty()) {
            ("08006", format!("the server cannot be reached: {}", failure.why))
        } else if pool.cluster.is_some() && pool.home.is_none() {
            // A driver that knows of several poolers goes on to the next.
            let code = if client.is_ready() { "53300" } else { "57P03" };
            (code, format!("database \"{database}\": {}", self.why_unavailable(pool)))
        } else if !client.is_ready() {
            let met = pool.failure.as_ref().map(|failure| format!(": {}", failure.why)).unwrap_or_default();
            ("57P03", format!("database \"{database}\": no server connection could be had{met}"))
        } else {
            let waiting = pool.waiting.len() + pool.sharers.len();
            let why = format!(
                "the pool of database \"{database}\" and user \"{user}\" is full: {} server connections, all in use, \
                 {waiting} clients waiting",
                pool.servers.len(),
            );
            ("53300", why)
        };
        self.refuse(key, code, &format!("{limit}: {why}"));
    }

    fn tick_servers(&mut self) {
        let settings = &self.config.settings;
        let now = self.now;
        let past = |since: std::time::Instant, limit: Option<Duration>| {
            limit.is_some_and(|limit| now.saturating_duration_since(since) >= limit)
        };
        let mut gone: Vec<(ServerKey, &str)> = Vec::new();
        let mut idle = Vec::new();
        let mut aged = Vec::new();
        for (number, server) in self.servers.iter() {
            let key = ServerKey(number);
            match server.state {
                _ if server.target.is_some() && past(server.since, settings.cancel_wait_timeout.limit()) => {
                    gone.push((key, "a cancel request took too long"));
                }
                State::Connecting | State::Login(_) if past(server.since, settings.server_connect_timeout.limit()) => {
                    gone.push((key, "server_connect_timeout"));
                }
                State::Preparing
                    if server.held == 0 && past(server.state_since, settings.server_connect_timeout.limit()) =>
                {
                    gone.push((key, "resetting the session took too long"));
                }
                State::Active
                    if server.aligning.is_some()
                        && past(server.state_since, settings.server_connect_timeout.limit()) =>
                {
                    gone.push((key, "bringing its session in line took too long"));
                }
                // It would never be idle if others always followed.
                State::Lane if server.retire || self.is_old(server) => aged.push(key),
                State::Idle => {
                    let pool = self.pools.get(server.pool.0);
                    let spare = |pool: &Pool| pool.common.total() > pool.minimum || pool.clients == 0 && !pool.kept;
                    let spare = pool.is_none_or(spare);
                    if self.is_old(server) {
                        idle.push((key, "server_lifetime"));
                    } else if spare && past(server.state_since, settings.server_idle_timeout.limit()) {
                        idle.push((key, "server_idle_timeout"));
                    }
                }
                _ => (),
            }
        }
        for key in aged {
            if let Some(lane) = self.servers.get_mut(key.0).and_then(|server| server.lane.as_mut()) {
                lane.closed = true;
            }
        }
        for (key, why) in gone {
            self.server_gone(key, why);
        }
        // One a tick for each pool: a crowd that was opened together is not closed together.
        let mut done = std::collections::HashSet::new();
        for (key, why) in idle {
            let Some(pool) = self.servers.get(key.0).map(|server| server.pool) else { continue };
            if done.insert(pool) {
                self.close_server(key, why);
            }
        }
    }

    fn tick_pools(&mut self) {
        let mut keys: Vec<_> = self.pools.iter().map(|(key, pool)| (self.waits_since(pool), PoolKey(key))).collect();
        // Where limits leave room for few, whoever has waited longest has it.
        keys.sort_by_key(|(since, _)| since.unwrap_or(self.now));
        for (_, key) in keys {
            let Some(pool) = self.pools.get(key.0) else { continue };
            if pool.owes {
                self.look_at_debt(key);
            }
            if self.pools.get(key.0).is_some_and(|pool| !pool.greeting.is_empty()) {
                self.take_welcome(key);
            }
            let Some(pool) = self.pools.get(key.0) else { continue };
            if !pool.is_unwanted() || !pool.greeting.is_empty() || pool.servers.len() < pool.minimum {
                self.grow(key);
                self.claim_share(key);
            } else {
                self.balance(key);
            }
        }
        self.relieve_starving();
    }

    fn end_period(&mut self) {
        let mut sum = Totals::default();
        for (_, pool) in self.pools.iter_mut() {
            pool.periods = [pool.periods[1], pool.totals];
            sum = sum.plus(&pool.periods[1].since(&pool.periods[0]));
        }
        // Each worker tells of its own databases.
        if self.config.settings.log_stats && (self.id.0 == 0 || !self.pools.is_empty()) {
            let [_, transactions, queries, received, sent, transaction, query, wait, ..] =
                a_second(&sum, self.config.settings.stats_period.0);
            let reasons = Why::NAMES.iter().zip(sum.unpipelined).filter(|(_, count)| *count > 0);
            let reasons: Vec<String> = reasons.map(|(name, count)| format!("{name} {count}")).collect();
            crate::info!(
                "stats: worker {}: {} clients, {transactions} xacts/s, {queries} queries/s, in {received} B/s, out \
                 {sent} B/s, xact {transaction} us, query {query} us, wait {wait} us, {} of {} queries pipelined, \
                 others: {}; asked again {}",
                self.id.0,
                self.clients.len(),
                sum.pipelined,
                sum.queries,
                if reasons.is_empty() { "none".to_owned() } else { reasons.join(", ") },
                sum.asked_again,
            );
        }
    }
}
