//! A pool: the server connections for one pair of database and user, and the clients who wait for them in order.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use balancer::ServerId;

use crate::client::{Client, ClientKey};
use crate::config::PoolMode;
use crate::metrics::Stats;
use crate::server::ServerKey;
use crate::shape::Why;
use crate::slots::{Slot, Slots};
use crate::statement::Statements;
use crate::vars::Vars;

/// Names a pool within its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PoolKey(pub Slot);

/// Counts of what has gone through a pool.
#[derive(Debug, Clone, Copy, Default)]
pub struct Totals {
    /// Statements parsed on servers by the pooler's own doing or the client's.
    pub server_parses: u64,
    /// Parses that clients sent.
    pub client_parses: u64,
    /// Binds.
    pub binds: u64,
    /// Transactions.
    pub transactions: u64,
    /// Queries.
    pub queries: u64,
    /// Bytes from clients.
    pub received: u64,
    /// Bytes from servers.
    pub sent: u64,
    /// Time in transactions.
    pub transaction_time: Duration,
    /// Time in queries.
    pub query_time: Duration,
    /// Time that clients waited for a server.
    pub wait_time: Duration,
    /// Times that a server was lent.
    pub assignments: u64,
    /// Units that shared a server connection with those of others.
    pub pipelined: u64,
    /// Units that did not, by the reason why.
    pub unpipelined: [u64; Why::COUNT],
    /// Units that were asked again, of another server connection.
    pub asked_again: u64,
}

impl Totals {
    /// What has been added since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            server_parses: self.server_parses - earlier.server_parses,
            client_parses: self.client_parses - earlier.client_parses,
            binds: self.binds - earlier.binds,
            transactions: self.transactions - earlier.transactions,
            queries: self.queries - earlier.queries,
            received: self.received - earlier.received,
            sent: self.sent - earlier.sent,
            transaction_time: self.transaction_time.saturating_sub(earlier.transaction_time),
            query_time: self.query_time.saturating_sub(earlier.query_time),
            wait_time: self.wait_time.saturating_sub(earlier.wait_time),
            assignments: self.assignments - earlier.assignments,
            pipelined: self.pipelined - earlier.pipelined,
            unpipelined: std::array::from_fn(|why| self.unpipelined[why] - earlier.unpipelined[why]),
            asked_again: self.asked_again - earlier.asked_again,
        }
    }

    /// The sum of two.
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            server_parses: self.server_parses + other.server_parses,
            client_parses: self.client_parses + other.client_parses,
            binds: self.binds + other.binds,
            transactions: self.transactions + other.transactions,
            queries: self.queries + other.queries,
            received: self.received + other.received,
            sent: self.sent + other.sent,
            transaction_time: self.transaction_time + other.transaction_time,
            query_time: self.query_time + other.query_time,
            wait_time: self.wait_time + other.wait_time,
            assignments: self.assignments + other.assignments,
            pipelined: self.pipelined + other.pipelined,
            unpipelined: std::array::from_fn(|why| self.unpipelined[why] + other.unpipelined[why]),
            asked_again: self.asked_again + other.asked_again,
        }
    }
}

/// A pool.
#[derive(Debug)]
pub struct Pool {
    /// The database that clients ask for.
    pub database: Rc<str>,
    /// The clients' user.
    pub user: Rc<str>,
    /// When a server is given back.
    pub mode: PoolMode,
    /// Server connections at most.
    pub size: usize,
    /// Beyond that, for clients that have waited long.
    pub reserve: usize,
    /// Connections kept open while the pool is in use.
    pub minimum: usize,
    /// All server connections, those being made too.
    pub servers: Vec<ServerKey>,
    /// Those that nobody uses; the one used last at the back.
    pub idle: VecDeque<ServerKey>,
    /// Those that carry units of several clients.
    pub lanes: Vec<ServerKey>,
    /// Whether units may share a server connection.
    pub pipelining: bool,
    /// How long a pipelined unit takes on a server, in seconds: a moving average.
    pub service: f64,
    /// Clients that wait for room in a lane, in order.
    pub sharers: VecDeque<ClientKey>,
    /// Clients that wait for a server, in order.
    pub waiting: VecDeque<ClientKey>,
    /// Clients that wait to be greeted.
    pub greeting: Vec<ClientKey>,
    /// Connections being made.
    pub connecting: usize,
    /// What servers tell when a session begins: what clients are greeted with.
    pub welcome: Option<Rc<Vec<(String, String)>>>,
    /// The tracked ones of these.
    pub defaults: Vars,
    /// When the last attempt to connect failed, and why.
    pub failure: Option<(Instant, String)>,
    /// The next of several hosts to try.
    pub next_host: usize,
    /// Nobody gets a server.
    pub paused: bool,
    /// Statements that clients have prepared.
    pub statements: Statements,
    /// Counts.
    pub totals: Totals,
    /// What is counted for the page of metrics.
    pub stats: Stats,
    /// Clients that are in the pool.
    pub clients: usize,
    /// The counts when the period before the last ended, and when the last ended.
    pub periods: [Totals; 2],
    /// It is kept filled though it has no clients.
    pub kept: bool,
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
    /// When the pool's last client left.
    pub unused_since: Option<Instant>,
}

impl Pool {
    /// An empty pool.
    pub fn new(database: Rc<str>, user: Rc<str>) -> Self {
        Self {
            database,
            user,
            mode: PoolMode::Transaction,
            size: 0,
            reserve: 0,
            minimum: 0,
            servers: Vec::new(),
            idle: VecDeque::new(),
            lanes: Vec::new(),
            pipelining: false,
            service: 0.0,
            sharers: VecDeque::new(),
            waiting: VecDeque::new(),
            greeting: Vec::new(),
            connecting: 0,
            welcome: None,
            defaults: Vars::default(),
            failure: None,
            next_host: 0,
            paused: false,
            statements: Statements::default(),
            totals: Totals::default(),
            stats: Stats::default(),
            clients: 0,
            periods: [Totals::default(); 2],
            kept: false,
            cluster: None,
            home: None,
            members: Vec::new(),
            unavailable: String::new(),
            serializable: false,
            unused_since: None,
        }
    }

    /// Whether nobody waits for a server connection.
    pub fn is_unwanted(&self) -> bool {
        self.waiting.is_empty() && self.sharers.is_empty()
    }

    /// Since when the first of all who wait has waited.
    pub fn oldest(&self, clients: &Slots<Client>) -> Option<Instant> {
        let since = |key: Option<&ClientKey>| key.and_then(|key| clients.get(key.0)).and_then(|client| client.waits);
        let (one, other) = (since(self.waiting.front()), since(self.sharers.front()));
        one.into_iter().chain(other).min()
    }

    /// Takes the next who waits off the queues: whoever has waited longest.
    pub fn next_waiting(&mut self, clients: &Slots<Client>) -> Option<ClientKey> {
        let since = |key: Option<&ClientKey>| key.and_then(|key| clients.get(key.0)).and_then(|client| client.waits);
        match (since(self.waiting.front()), since(self.sharers.front())) {
            (Some(one), Some(other)) if other < one => self.sharers.pop_front(),
            (None, _) if self.waiting.is_empty() => self.sharers.pop_front(),
            _ => self.waiting.pop_front(),
        }
    }

    /// Takes a client off the queues.
    pub fn forget(&mut self, key: ClientKey) {
        self.waiting.retain(|waiting| *waiting != key);
        self.sharers.retain(|waiting| *waiting != key);
    }
}
