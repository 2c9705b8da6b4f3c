//! A pool: the server connections for one pair of database and user, and the clients who wait for them in order.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::client::ClientKey;
use crate::config::PoolMode;
use crate::metrics::Stats;
use crate::server::ServerKey;
use crate::statement::Statements;
use crate::vars::Vars;

/// Names a pool within its worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PoolKey(pub usize);

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
            unused_since: None,
        }
    }
}
