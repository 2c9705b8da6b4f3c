//! A pool: the server connections for one pair of database and user, and the clients who wait for them in order.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::model::client::Verified;
use crate::model::failure::{Failure, Retries};
use crate::model::fingerprint::NotPipelined;
use crate::model::keys::{ClientKey, PoolKey, ServerKey};
use crate::model::quota::Quota;
use crate::model::slots::Slots;
use crate::model::statement::Statements;
use crate::model::totals::Totals;
use crate::model::vars::Vars;
use balancer::ServerId;

use crate::catalog::hubless::Hubless;
use crate::common::Membership;
use crate::config::PoolMode;
use crate::error::Error;
use crate::metrics::Stats;
use crate::state::client::Client;

impl Pool {
    /// The number of units that a pipelined connection of this pool may carry: those that take a quarter of
    /// `pipeline_stall`, and at most `pipeline_depth`.
    pub fn depth(&self, settings: &crate::config::Settings) -> usize {
        let patience = settings.pipeline_stall.0.as_secs_f64() / 4.0;
        ((patience / self.counts.service.max(1e-6)) as usize).clamp(1, settings.pipeline_depth.max(1))
    }

    /// Counts a pipelined unit that has been answered by the server of this place in the statistics.
    pub fn count_pipelined(&mut self, place: usize, took: Duration, alone: bool) {
        if !alone {
            self.note_service(took);
            self.counts.totals.pipelining.pipelined += 1;
            self.counts.retries.earn();
        }
        self.counts.totals.queries += 1;
        self.counts.totals.transactions += 1;
        self.counts.totals.query_time += took;
        self.counts.totals.transaction_time += took;
        self.counts.stats.queried(place, took);
    }

    /// Counts a unit that is sent down no pipelined connection, or has one to itself.
    pub fn count_unpipelined(&mut self, why: NotPipelined) {
        let counts = &mut self.counts.totals.pipelining.unpipelined;
        counts.get_mut(why as usize).into_iter().for_each(|count| *count += 1);
    }

    /// Adds the duration of a unit to the moving average.
    fn note_service(&mut self, took: Duration) {
        self.counts.service += (took.as_secs_f64() - self.counts.service) / 64.0;
    }

    /// Whether the pool pipelines at all.
    pub fn may_pipeline(mode: PoolMode, settings: &crate::config::Settings) -> bool {
        settings.pipelining && mode.lends()
    }
}

/// The name of a pool.
#[derive(Debug)]
pub struct Name {
    /// The database that clients ask for.
    pub database: Rc<str>,
    /// The user of its server connections, which is the clients' own unless the database's entry gives one.
    pub user: Rc<str>,
    /// Whether the pool only serves look-ups of passwords, in a database that no client has proven to exist.
    pub unproven: bool,
}

/// The demands of the configuration and the console on a pool.
#[derive(Debug)]
pub struct Limits {
    /// The pool mode, which says when server connections are checked in.
    pub mode: PoolMode,
    /// The largest number of server connections.
    pub size: usize,
    /// The number of further server connections, for clients that have waited long.
    pub reserve: usize,
    /// The limits that it shares with other pools.
    pub quota: Quota,
    /// Connections kept open while the pool is in use.
    pub minimum: usize,
    /// The age from which server connections are replaced, if there is one.
    pub lifetime: Option<Duration>,
    /// Whether units may share a server connection.
    pub pipelining: bool,
    /// Whether PAUSE keeps clients from server connections.
    pub paused: bool,
    /// Whether the pool keeps its minimum of connections though it has no clients.
    pub kept: bool,
}

/// The server connections of a pool.
#[derive(Debug, Default)]
pub struct Connections {
    /// All server connections of the pool, also those that are being made.
    pub servers: Vec<ServerKey>,
    /// The idle connections; the one used last at the back.
    pub idle: VecDeque<ServerKey>,
    /// The pipelined connections, each with units of several clients.
    pub pipelined: Vec<ServerKey>,
    /// Connections being made.
    pub connecting: usize,
    /// The next host to try, of several.
    pub next_host: usize,
    /// The last attempt to connect, if it failed.
    pub failure: Option<Failure>,
    /// The role of its server when the server last served, if it is one of several.
    pub standing: Option<&'static str>,
    /// Whether it has given a connection up since the last tick, for a pool that waits under a limit.
    pub gave_way: bool,
}

/// The clients of a pool, and those of them that wait.
#[derive(Debug, Default)]
pub struct Queue {
    /// Clients that wait for room in a pipelined connection, in order.
    pub sharing: VecDeque<ClientKey>,
    /// Clients that wait for a server, in order.
    pub waiting: VecDeque<ClientKey>,
    /// Clients that wait to be greeted.
    pub greeting: Vec<ClientKey>,
    /// The time at which a client was last served, by a connection of its own or a pipelined one.
    pub served: Option<Instant>,
    /// Clients that are in the pool.
    pub clients: usize,
    /// The time at which the pool's last client left.
    pub unused_since: Option<Instant>,
}

/// The greeting of a pool's clients.
#[derive(Debug, Default)]
pub struct Greetings {
    /// The parameters that servers report when a session begins, with which clients are greeted.
    pub welcome: Option<Rc<Vec<(String, String)>>>,
    /// The tracked parameters among these.
    pub defaults: Vars,
    /// The settings of startup packets that servers have accepted, with the tracked values as servers write them.
    pub verified: HashMap<Box<str>, Rc<Verified>>,
}

/// The cluster that a pool belongs to.
#[derive(Debug, Default)]
pub struct Clustering {
    /// The cluster that the database is on, by its place among the worker's views.
    pub cluster: Option<usize>,
    /// The pool whose clients this pool serves, and the server of their cluster that this pool leads to.
    pub home: Option<(PoolKey, ServerId)>,
    /// The pools of the cluster's servers.
    pub members: Vec<(ServerId, PoolKey)>,
    /// The databases of the shards, if clients' statements are distributed over several.
    pub shards: Vec<Rc<str>>,
    /// Whether the hub runs writes that are not of one shard.
    pub multi_shard_writes: bool,
    /// The rules by which clients choose a shard, if there is no hub.
    pub hubless: Option<Rc<Hubless>>,
    /// The reason why no server could be found for the clients that wait.
    pub unavailable: String,
    /// Whether a standby has reported that transactions here are serializable by default, which a standby refuses.
    pub serializable: bool,
}

/// The counts of a pool's traffic.
#[derive(Debug, Default)]
pub struct Counts {
    /// The totals of its units.
    pub totals: Totals,
    /// The counts for the page of metrics.
    pub stats: Stats,
    /// The counts when the period before the last ended, and when the last ended.
    pub periods: [Totals; 2],
    /// The time that a pipelined unit takes on a server, in seconds: a moving average.
    pub service: f64,
    /// The number of units that may be retried.
    pub retries: Retries,
}

/// A pool.
#[derive(Debug)]
pub struct Pool {
    /// The name of a pool.
    pub name: Name,
    /// The demands of the configuration and the console on a pool.
    pub limits: Limits,
    /// The server connections of a pool.
    pub connections: Connections,
    /// The counts of a pool's traffic.
    pub counts: Counts,
    /// The clients of a pool, and those of them that wait.
    pub queue: Queue,
    /// The greeting of a pool's clients.
    pub greetings: Greetings,
    /// Statements that clients have prepared.
    pub statements: Statements,
    /// The cluster that a pool belongs to.
    pub cluster_of: Clustering,
    /// The part that it shares with the pools of other workers for the same database and user.
    pub common: Membership,
}

impl Pool {
    /// An empty pool.
    pub fn new(database: Rc<str>, user: Rc<str>, common: Membership) -> Self {
        Self {
            name: Name { database, user, unproven: false },
            limits: Limits {
                mode: PoolMode::Transaction,
                size: 0,
                reserve: 0,
                quota: Quota::default(),
                minimum: 0,
                lifetime: None,
                pipelining: false,
                paused: false,
                kept: false,
            },
            connections: Connections::default(),
            queue: Queue::default(),
            greetings: Greetings::default(),
            cluster_of: Clustering::default(),
            counts: Counts::default(),
            statements: Statements::default(),
            common,
        }
    }

    /// The error for clients that come while the server cannot be reached and it is too early for another attempt;
    /// `longest` is `server_login_retry`. None while the pool has server connections: they may serve clients still.
    pub fn why_down(&self, now: Instant, longest: Duration) -> Option<Error> {
        let failure =
            self.connections.failure.as_ref().filter(|failure| failure.refuses && failure.holds(now, longest))?;
        (self.cluster_of.home.is_none() && !self.limits.paused && self.connections.servers.is_empty())
            .then(|| Error::Failing(failure.cause.clone()))
    }

    /// Whether the pool has clients only: their units go down connections of its members.
    pub fn is_cluster(&self) -> bool {
        self.cluster_of.cluster.is_some() && self.cluster_of.home.is_none()
    }

    /// Whether no client waits for a server connection.
    pub fn is_unwanted(&self) -> bool {
        self.queue.waiting.is_empty() && self.queue.sharing.is_empty()
    }

    /// The time since when the first client in the queues has waited.
    pub fn oldest(&self, clients: &Slots<ClientKey, Client>) -> Option<Instant> {
        let since =
            |key: Option<&ClientKey>| key.and_then(|key| clients.get(*key)).and_then(|client| client.checkout.waits());
        let (one, other) = (since(self.queue.waiting.front()), since(self.queue.sharing.front()));
        one.into_iter().chain(other).min()
    }

    /// The client that has waited longest, whichever queue it is in.
    pub fn first_waiting(&self, clients: &Slots<ClientKey, Client>) -> Option<ClientKey> {
        let since =
            |key: Option<&ClientKey>| key.and_then(|key| clients.get(*key)).and_then(|client| client.checkout.waits());
        let (one, other) = (self.queue.waiting.front(), self.queue.sharing.front());
        match (since(one), since(other)) {
            (Some(first), Some(second)) if second < first => other.copied(),
            (None, _) if one.is_none() => other.copied(),
            _ => one.copied(),
        }
    }

    /// Takes a client off the queues.
    pub fn forget(&mut self, key: ClientKey) {
        self.queue.waiting.retain(|waiting| *waiting != key);
        self.queue.sharing.retain(|waiting| *waiting != key);
    }
}
