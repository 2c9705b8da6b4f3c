//! A pool: the server connections for one pair of database and user, and the clients who wait for them in order.

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;
use std::time::{Duration, Instant};

use balancer::ServerId;

use crate::client::{Client, ClientKey};
use crate::common::Membership;
use crate::config::PoolMode;
use crate::limits::Quota;
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
    /// Reads that waited for a replica to replay what they must see.
    pub awaited_replay: u64,
    /// Reads that went to the primary since no replica had.
    pub read_on_primary: u64,
    /// Statements that were refused before a server had them.
    pub refused: u64,
    /// Server connections that were handed to other workers.
    pub handed_over: u64,
    /// Clients that have moved to other workers.
    pub clients_moved: u64,
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
            awaited_replay: self.awaited_replay - earlier.awaited_replay,
            read_on_primary: self.read_on_primary - earlier.read_on_primary,
            refused: self.refused - earlier.refused,
            handed_over: self.handed_over - earlier.handed_over,
            clients_moved: self.clients_moved - earlier.clients_moved,
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
            awaited_replay: self.awaited_replay + other.awaited_replay,
            read_on_primary: self.read_on_primary + other.read_on_primary,
            refused: self.refused + other.refused,
            handed_over: self.handed_over + other.handed_over,
            clients_moved: self.clients_moved + other.clients_moved,
        }
    }
}

/// How soon a server that could not be reached is tried again at first; each further wait is twice as long, up to
/// `server_login_retry`.
const FIRST_RETRY: Duration = Duration::from_millis(100);

/// Why the last attempt to make a server connection failed.
#[derive(Debug)]
pub struct Failure {
    /// When that was known.
    pub at: Instant,
    /// What was wrong.
    pub why: String,
    /// Whether time may mend it, as the end of a restart does. A wrong password stays wrong.
    pub may_pass: bool,
    /// Attempts in a row that have failed; those that were made at the same time count as one.
    attempts: u32,
}

impl Failure {
    /// One more failure, after those before it.
    pub fn after(before: Option<&Self>, at: Instant, why: &str, may_pass: bool, longest: Duration) -> Self {
        let attempts = match before {
            Some(before) if before.holds(at, longest) => before.attempts,
            Some(before) => before.attempts.saturating_add(1),
            None => 0,
        };
        Self { at, why: why.to_owned(), may_pass, attempts }
    }

    /// Whether it is too early for another attempt; `longest` is `server_login_retry`.
    pub fn holds(&self, now: Instant, longest: Duration) -> bool {
        let wait = match self.may_pass {
            true => FIRST_RETRY.saturating_mul(1 << self.attempts.min(20)).min(longest),
            false => longest,
        };
        now.saturating_duration_since(self.at) < wait
    }
}

/// How many units may be asked again because those before them take long: a share of those that were not. When the
/// whole machine slows down, asking again would only double its work.
#[derive(Debug)]
pub struct Retries(f64);

impl Default for Retries {
    fn default() -> Self {
        Self(Self::MOST)
    }
}

impl Retries {
    /// One in ten.
    const SHARE: f64 = 0.1;
    /// As many at once.
    const MOST: f64 = 256.0;

    /// A unit has been answered where it was asked.
    pub fn earn(&mut self) {
        self.0 = (self.0 + Self::SHARE).min(Self::MOST);
    }

    /// Whether so many may be asked again now; then they are counted.
    pub fn spend(&mut self, units: usize) -> bool {
        let affordable = self.0 >= units as f64;
        if affordable {
            self.0 -= units as f64;
        }
        affordable
    }
}

/// What a server has made of the settings in a startup packet.
#[derive(Debug)]
pub struct Verified {
    /// The tracked ones as the server writes them.
    pub vars: Vars,
    /// The others that it has told of, by name.
    pub told: Vec<(String, String)>,
}

/// A pool.
#[derive(Debug)]
pub struct Pool {
    /// The database that clients ask for.
    pub database: Rc<str>,
    /// The user of its server connections, which is the clients' own unless the database's entry gives one.
    pub user: Rc<str>,
    /// The database's entry gave that user when the pool was made.
    pub user_is_given: bool,
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
    /// All server connections, those being made too.
    pub servers: Vec<ServerKey>,
    /// How many there are beside these that are lent to nobody: of replication, and to listen for all.
    pub apart: usize,
    /// Those that nobody uses; the one used last at the back.
    pub idle: VecDeque<ServerKey>,
    /// Those that carry units of several clients.
    pub lanes: Vec<ServerKey>,
    /// Whether units may share a server connection.
    pub pipelining: bool,
    /// How long a pipelined unit takes on a server, in seconds: a moving average.
    pub service: f64,
    /// How many units may be asked again.
    pub retries: Retries,
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
    /// The last attempt to connect, if it failed.
    pub failure: Option<Failure>,
    /// Whether it only serves look-ups of passwords, in a database that no client has proven to exist.
    pub unproven: bool,
    /// The next of several hosts to try.
    pub next_host: usize,
    /// Nobody gets a server.
    pub paused: bool,
    /// What startup packets have asked for and servers have accepted, with the tracked values as servers write them.
    pub verified: HashMap<Box<str>, Rc<Verified>>,
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
    /// What it has in common with the pools of other workers for the same database and user.
    pub common: Membership,
    /// A connection that is busy without end is to go to another worker.
    pub owes: bool,
}

impl Pool {
    /// An empty pool.
    pub fn new(database: Rc<str>, user: Rc<str>, common: Membership) -> Self {
        Self {
            database,
            user,
            user_is_given: false,
            mode: PoolMode::Transaction,
            size: 0,
            reserve: 0,
            quota: Quota::default(),
            minimum: 0,
            servers: Vec::new(),
            apart: 0,
            idle: VecDeque::new(),
            lanes: Vec::new(),
            pipelining: false,
            service: 0.0,
            retries: Retries::default(),
            sharers: VecDeque::new(),
            waiting: VecDeque::new(),
            greeting: Vec::new(),
            connecting: 0,
            welcome: None,
            defaults: Vars::default(),
            verified: HashMap::new(),
            failure: None,
            unproven: false,
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
            common,
            owes: false,
        }
    }

    /// What those hear who come while the server cannot be reached and it is too early for another attempt; `longest` is
    /// `server_login_retry`. None while the pool has server connections: they may serve others still.
    pub fn why_down(&self, now: Instant, longest: Duration) -> Option<String> {
        let failure = self.failure.as_ref().filter(|failure| failure.holds(now, longest))?;
        (self.home.is_none() && !self.paused && self.common.total() == 0)
            .then(|| format!("server login has been failing, cached error: {} (server_login_retry)", failure.why))
    }

    /// Server connections that may be here: those that are, and those that there is room for.
    pub fn room(&self) -> usize {
        match self.common.is_shared() {
            true => self.servers.len() + self.size.saturating_sub(self.common.total()),
            false => self.size,
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

    /// Since when the one behind the first has waited.
    pub fn next_oldest(&self, clients: &Slots<Client>) -> Option<Instant> {
        let waiting = self.waiting.iter().take(2).chain(self.sharers.iter().take(2));
        let mut since: Vec<Instant> = waiting.filter_map(|key| clients.get(key.0)?.waits).collect();
        since.sort();
        since.get(1).copied()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_to_connect_become_rarer_up_to_the_limit() {
        let start = Instant::now();
        let longest = Duration::from_secs(1);
        let mut failure = Failure::after(None, start, "refused", true, longest);
        let mut waits = Vec::new();
        for _ in 0..6 {
            let wait =
                (0..).map(Duration::from_millis).find(|&wait| !failure.holds(failure.at + wait, longest)).unwrap();
            waits.push(wait.as_millis());
            // One that was made at the same time, and then the next.
            let same = Failure::after(Some(&failure), failure.at, "refused", true, longest);
            assert_eq!(same.attempts, failure.attempts);
            failure = Failure::after(Some(&failure), failure.at + wait, "refused", true, longest);
        }
        assert_eq!(waits, [100, 200, 400, 800, 1000, 1000]);
    }

    #[test]
    fn what_time_does_not_mend_is_tried_again_at_the_limit_only() {
        let start = Instant::now();
        let longest = Duration::from_secs(15);
        let failure = Failure::after(None, start, "password authentication failed", false, longest);
        assert!(failure.holds(start + Duration::from_secs(14), longest));
        assert!(!failure.holds(start + longest, longest));
        // A limit of zero is none.
        assert!(!failure.holds(start, Duration::ZERO));
    }
}
