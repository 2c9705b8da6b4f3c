//! Counts of the traffic of a pool.

use std::ops::{Add, Sub};
use std::time::Duration;

use crate::model::fingerprint::NotPipelined;

/// Counts of the traffic of a pool.
#[derive(Debug, Clone, Copy, Default)]
pub struct Totals {
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
    /// Statements that were refused before a server had them.
    pub refused: u64,
    /// Prepared statements.
    pub prepared: Prepared,
    /// Units on pipelined connections.
    pub pipelining: Pipelining,
    /// Reads for which replicas were behind.
    pub reads: Reads,
}

/// Counts of prepared statements.
#[derive(Debug, Clone, Copy, Default)]
pub struct Prepared {
    /// Parses that clients sent.
    pub client_parses: u64,
    /// Statements parsed on servers by the pooler's own doing or the client's.
    pub server_parses: u64,
    /// Binds.
    pub binds: u64,
}

/// Counts of units, where connections are pipelined.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pipelining {
    /// Units that shared a server connection with those of others.
    pub pipelined: u64,
    /// Units that shared no server connection, by reason.
    pub unpipelined: [u64; NotPipelined::COUNT],
    /// Units that were retried on another server connection.
    pub retried: u64,
}

/// Counts of reads that must see commits which replicas had not replayed.
#[derive(Debug, Clone, Copy, Default)]
pub struct Reads {
    /// Reads that waited for a replica.
    pub awaited_replay: u64,
    /// Reads that went to the primary since no replica had replayed them.
    pub on_primary: u64,
}

impl Totals {
    /// The difference to the totals of an `earlier` time.
    pub fn since(&self, earlier: &Self) -> Self {
        self.with(earlier, u64::sub, Duration::saturating_sub)
    }

    /// The sum of two totals.
    pub fn plus(&self, other: &Self) -> Self {
        self.with(other, u64::add, Duration::add)
    }

    /// Each count and each time combined with that of another.
    fn with(&self, other: &Self, count: fn(u64, u64) -> u64, time: fn(Duration, Duration) -> Duration) -> Self {
        let (own, others) = (&self.pipelining, &other.pipelining);
        Self {
            transactions: count(self.transactions, other.transactions),
            queries: count(self.queries, other.queries),
            received: count(self.received, other.received),
            sent: count(self.sent, other.sent),
            transaction_time: time(self.transaction_time, other.transaction_time),
            query_time: time(self.query_time, other.query_time),
            wait_time: time(self.wait_time, other.wait_time),
            assignments: count(self.assignments, other.assignments),
            refused: count(self.refused, other.refused),
            prepared: Prepared {
                client_parses: count(self.prepared.client_parses, other.prepared.client_parses),
                server_parses: count(self.prepared.server_parses, other.prepared.server_parses),
                binds: count(self.prepared.binds, other.prepared.binds),
            },
            pipelining: Pipelining {
                pipelined: count(own.pipelined, others.pipelined),
                unpipelined: std::array::from_fn(|why| count(own.unpipelined[why], others.unpipelined[why])),
                retried: count(own.retried, others.retried),
            },
            reads: Reads {
                awaited_replay: count(self.reads.awaited_replay, other.reads.awaited_replay),
                on_primary: count(self.reads.on_primary, other.reads.on_primary),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_added_is_what_has_come_since() {
        let earlier = Totals {
            queries: 3,
            wait_time: Duration::from_secs(1),
            pipelining: Pipelining { retried: 1, ..Pipelining::default() },
            ..Totals::default()
        };
        let more = Totals { queries: 4, ..earlier };
        let sum = earlier.plus(&more);
        assert_eq!((sum.queries, sum.wait_time), (7, Duration::from_secs(2)));
        let since = sum.since(&earlier);
        assert_eq!((since.queries, since.pipelining.retried), (4, 1));
    }
}
