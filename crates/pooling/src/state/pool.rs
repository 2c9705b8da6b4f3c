//! A pool: the server connections for one pair of database and user, and the clients who wait for them in order.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::model::client::Verified;
use crate::model::failure::{Failure, Retries};
use crate::model::keys::{ClientKey, PoolKey, ServerKey};
use crate::model::quota::Quota;
use crate::model::slots::Slots;
use crate::model::statement::Statements;
use crate::model::totals::Totals;
use crate::model::vars::Vars;
use balancer::ServerId;

use crate::common::Membership;
use crate::config::PoolMode;
use crate::error::Error;
use crate::metrics::Stats;
use crate::state::client::Client;

impl Pool {
    /// How many units a pipelined connection of this pool may carry: so many as a client can wait behind.
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

    /// Takes note of how long a unit took.
    fn note_service(&mut self, took: Duration) {
        self.counts.service += (took.as_secs_f64() - self.counts.service) / 64.0;
    }

    /// Whether the pool pipelines at all.
    pub fn may_pipeline(mode: PoolMode, settings: &crate::config::Settings) -> bool {
        settings.pipelining && mode.lends()
    }
}

/// What a pool is called by.
#[derive(Debug)]
pub struct Name {
    /// The database that clients ask for.
    pub database: Rc<str>,
    /// The user of its server connections, which is the clients' own unless the database's entry gives one.
    pub user: Rc<str>,
    /// The database's entry gave that user when the pool was made.
    pub user_is_given: bool,
    /// Whether it only serves look-ups of passwords, in a database that no client has proven to exist.
    pub unproven: bool,
}

/// What the configuration and the console want of a pool.
#[derive(Debug)]
pub struct Limits {
    /// When a server is given back.
    pub mode: PoolMode,
    /// Server connections at most.
    pub size: usize,
    /// Beyond that, for clients that have waited long.
    pub reserve: usize,
    /// What it may have together with other pools.
    pub quota: Quota,
    /// Connections kept open while the pool is in use.
    pub minimum: usize,
    /// Whether units may share a server connection.
    pub pipelining: bool,
    /// Nobody gets a server.
    pub paused: bool,
    /// It is kept filled though it has no clients.
    pub kept: bool,
}

/// The server connections of a pool.
#[derive(Debug, Default)]
pub struct Connections {
    /// All server connections, those being made too.
    pub servers: Vec<ServerKey>,
    /// How many there are beside these that are checked out to nobody: of replication, and to listen for all.
    pub apart: usize,
    /// Those that nobody uses; the one used last at the back.
    pub idle: VecDeque<ServerKey>,
    /// Those that carry units of several clients.
    pub pipelined: Vec<ServerKey>,
    /// Connections being made.
    pub connecting: usize,
    /// The next of several hosts to try.
    pub next_host: usize,
    /// The last attempt to connect, if it failed.
    pub failure: Option<Failure>,
    /// What its server was when it was last known to serve, if it is one of several.
    pub standing: Option<&'static str>,
    /// A connection that is busy without end is to go to another worker.
    pub owes: bool,
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
    /// Clients that are in the pool.
    pub clients: usize,
    /// When the pool's last client left.
    pub unused_since: Option<Instant>,
}

/// What clients of a pool are greeted with.
#[derive(Debug, Default)]
pub struct Greetings {
    /// What servers tell when a session begins: what clients are greeted with.
    pub welcome: Option<Rc<Vec<(String, String)>>>,
    /// The tracked ones of these.
    pub defaults: Vars,
    /// What startup packets have asked for and servers have accepted, with the tracked values as servers write them.
    pub verified: HashMap<Box<str>, Rc<Verified>>,
}

/// The cluster that a pool belongs to.
#[derive(Debug, Default)]
pub struct Clustering {
    /// The cluster that the database is on, by its place among the worker's views.
    pub cluster: Option<usize>,
    /// The pool whose clients it serves, and by which server of their cluster.
    pub home: Option<(PoolKey, ServerId)>,
    /// The pools of the cluster's servers.
    pub members: Vec<(ServerId, PoolKey)>,
    /// Why no server could be found for those who wait.
    pub unavailable: String,
    /// A standby has told that transactions here are serializable by default, which it cannot do.
    pub serializable: bool,
}

/// What has gone through a pool.
#[derive(Debug, Default)]
pub struct Counts {
    /// Counts.
    pub totals: Totals,
    /// What is counted for the page of metrics.
    pub stats: Stats,
    /// The counts when the period before the last ended, and when the last ended.
    pub periods: [Totals; 2],
    /// How long a pipelined unit takes on a server, in seconds: a moving average.
    pub service: f64,
    /// How many units may be asked again.
    pub retries: Retries,
}

/// A pool.
#[derive(Debug)]
pub struct Pool {
    /// What a pool is called by.
    pub name: Name,
    /// What the configuration and the console want of a pool.
    pub limits: Limits,
    /// The server connections of a pool.
    pub connections: Connections,
    /// What has gone through a pool.
    pub counts: Counts,
    /// The clients of a pool, and those of them that wait.
    pub queue: Queue,
    /// What clients of a pool are greeted with.
    pub greetings: Greetings,
    /// Statements that clients have prepared.
    pub statements: Statements,
    /// The cluster that a pool belongs to.
    pub cluster_of: Clustering,
    /// What it has in common with the pools of other workers for the same database and user.
    pub common: Membership,
}

impl Pool {
    /// An empty pool.
    pub fn new(database: Rc<str>, user: Rc<str>, common: Membership) -> Self {
        Self {
            name: Name { database, user, user_is_given: false, unproven: false },
            limits: Limits {
                mode: PoolMode::Transaction,
                size: 0,
                reserve: 0,
                quota: Quota::default(),
                minimum: 0,
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

    /// What those hear who come while the server cannot be reached and it is too early for another attempt; `longest` is
    /// `server_login_retry`. None while the pool has server connections: they may serve others still.
    pub fn why_down(&self, now: Instant, longest: Duration) -> Option<Error> {
        let failure = self.connections.failure.as_ref().filter(|failure| failure.holds(now, longest))?;
        (self.cluster_of.home.is_none() && !self.limits.paused && self.common.total() == 0)
            .then(|| Error::Failing(failure.why.clone()))
    }

    /// Server connections that may be here: those that are, and those that there is room for.
    pub fn room(&self) -> usize {
        match self.common.is_shared() {
            true => self.connections.servers.len() + self.limits.size.saturating_sub(self.common.total()),
            false => self.limits.size,
        }
    }

    /// Whether nobody waits for a server connection.
    pub fn is_unwanted(&self) -> bool {
        self.queue.waiting.is_empty() && self.queue.sharing.is_empty()
    }

    /// Since when the first of all who wait has waited.
    pub fn oldest(&self, clients: &Slots<Client>) -> Option<Instant> {
        let since =
            |key: Option<&ClientKey>| key.and_then(|key| clients.get(key.0)).and_then(|client| client.checkout.waits());
        let (one, other) = (since(self.queue.waiting.front()), since(self.queue.sharing.front()));
        one.into_iter().chain(other).min()
    }

    /// Since when the one behind the first has waited.
    pub fn next_oldest(&self, clients: &Slots<Client>) -> Option<Instant> {
        let waiting = self.queue.waiting.iter().take(2).chain(self.queue.sharing.iter().take(2));
        let mut since: Vec<Instant> = waiting.filter_map(|key| clients.get(key.0)?.checkout.waits()).collect();
        since.sort();
        since.get(1).copied()
    }

    /// Takes the next who waits off the queues: whoever has waited longest.
    pub fn next_waiting(&mut self, clients: &Slots<Client>) -> Option<ClientKey> {
        let since =
            |key: Option<&ClientKey>| key.and_then(|key| clients.get(key.0)).and_then(|client| client.checkout.waits());
        match (since(self.queue.waiting.front()), since(self.queue.sharing.front())) {
            (Some(one), Some(other)) if other < one => self.queue.sharing.pop_front(),
            (None, _) if self.queue.waiting.is_empty() => self.queue.sharing.pop_front(),
            _ => self.queue.waiting.pop_front(),
        }
    }

    /// Takes a client off the queues.
    pub fn forget(&mut self, key: ClientKey) {
        self.queue.waiting.retain(|waiting| *waiting != key);
        self.queue.sharing.retain(|waiting| *waiting != key);
    }
}
