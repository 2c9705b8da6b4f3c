//! Counts of what has gone through a pool.

use std::time::Duration;

use crate::model::fingerprint::Why;

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
    /// Times that a server was checked out.
    pub assignments: u64,
    /// Units that shared a server connection with those of others.
    pub pipelined: u64,
    /// Units that did not, by the reason why.
    pub unpipelined: [u64; Why::COUNT],
    /// Units that were asked again, of another server connection.
    pub retried: u64,
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
            retried: self.retried - earlier.retried,
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
            retried: self.retried + other.retried,
            awaited_replay: self.awaited_replay + other.awaited_replay,
            read_on_primary: self.read_on_primary + other.read_on_primary,
            refused: self.refused + other.refused,
            handed_over: self.handed_over + other.handed_over,
            clients_moved: self.clients_moved + other.clients_moved,
        }
    }
}
