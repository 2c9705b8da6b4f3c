//! What a pool counts beside its totals.

use std::time::Duration;

use super::Times;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident $label:literal;)+) => {
        /// Why a statement was not pipelined.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Reason {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Reason {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)+];

            /// The word for it on the page of metrics.
            pub fn label(self) -> &'static str {
                match self {
                    $(Self::$name => $label,)+
                }
            }
        }
    };
}

reasons! {
    /// Pipelining is turned off.
    Off "off";
    /// The pool lends connections for whole sessions.
    Session "session_pooling";
    /// It was sent within a transaction.
    Transaction "transaction";
    /// It writes, or begins a transaction.
    Write "write";
    /// It is not known to be a read.
    Unknown "unknown";
    /// It touches the state of the session.
    State "session_state";
    /// The client's session differs from that of the connections that pipeline.
    Differs "session_differs";
    /// Its shape was never seen before.
    New "new_shape";
    /// Its shape has taken long.
    Slow "slow_shape";
    /// It is too long, or its answer was.
    Large "large";
    /// No connection had room.
    Full "full";
    /// Anything else.
    Other "other";
}

/// What is counted of one server of a pool.
#[derive(Debug, Clone, Default)]
pub struct ServerStats {
    /// Its host.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How long statements took on it: from the moment it had them to the end of the answer.
    pub query: Times,
    /// How long clients had waited when they were lent a connection to it.
    pub wait: Times,
}

/// What a pool counts. The pooler's threads each have their own pools, so these are plain numbers.
#[derive(Debug, Clone)]
pub struct Stats {
    /// By server.
    servers: Vec<ServerStats>,
    /// Statements that shared a connection with others in flight.
    pub pipelined: u64,
    /// Statements that did not, by [`Reason`].
    not_pipelined: [u64; Reason::ALL.len()],
}

impl Default for Stats {
    fn default() -> Self {
        Self { servers: Vec::new(), pipelined: 0, not_pipelined: [0; Reason::ALL.len()] }
    }
}

impl ServerStats {
    /// Its host and port, as people see them.
    pub fn name(&self) -> String {
        let host = if self.host.is_empty() { "unix" } else { &self.host };
        if host.contains(':') { format!("[{host}]:{}", self.port) } else { format!("{host}:{}", self.port) }
    }
}

impl Stats {
    /// The place of a server in these statistics, for [`Stats::queried`] and [`Stats::waited`].
    pub fn place(&mut self, host: &str, port: u16) -> usize {
        if let Some(place) = self.servers.iter().position(|server| server.host == host && server.port == port) {
            return place;
        }
        self.servers.push(ServerStats { host: host.to_owned(), port, ..ServerStats::default() });
        self.servers.len() - 1
    }

    /// Counts a statement that took so long on a server.
    pub fn queried(&mut self, place: usize, span: Duration) {
        if let Some(server) = self.servers.get_mut(place) {
            server.query.record(span);
        }
    }

    /// Counts a client that waited so long for a connection to a server.
    pub fn waited(&mut self, place: usize, span: Duration) {
        if let Some(server) = self.servers.get_mut(place) {
            server.wait.record(span);
        }
    }

    /// Counts a statement that was not pipelined.
    pub fn not_pipelined(&mut self, reason: Reason) {
        if let Some(count) = self.not_pipelined.get_mut(reason as usize) {
            *count += 1;
        }
    }

    /// How many were not pipelined for this reason.
    pub fn not_pipelined_for(&self, reason: Reason) -> u64 {
        self.not_pipelined.get(reason as usize).copied().unwrap_or_default()
    }

    /// What was counted of each server.
    pub fn servers(&self) -> &[ServerStats] {
        &self.servers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_and_reasons_are_counted_apart() {
        let mut stats = Stats::default();
        let (a, b) = (stats.place("a", 5432), stats.place("b", 5432));
        assert_eq!(stats.place("a", 5432), a);
        assert_ne!(a, b);
        stats.queried(a, Duration::from_millis(3));
        stats.waited(b, Duration::from_millis(4));
        // A place of another pool is nobody's here.
        stats.queried(9, Duration::from_millis(5));
        let counts: Vec<(u64, u64)> =
            stats.servers().iter().map(|server| (server.query.count(), server.wait.count())).collect();
        assert_eq!(counts, [(1, 0), (0, 1)]);
        stats.not_pipelined(Reason::Write);
        stats.not_pipelined(Reason::Write);
        stats.not_pipelined(Reason::Other);
        let counts: Vec<u64> = Reason::ALL.iter().map(|&reason| stats.not_pipelined_for(reason)).collect();
        assert_eq!(counts.iter().sum::<u64>(), 3);
        assert_eq!(stats.not_pipelined_for(Reason::Write), 2);
        let labels: std::collections::BTreeSet<_> = Reason::ALL.iter().map(|reason| reason.label()).collect();
        assert_eq!(labels.len(), Reason::ALL.len());
    }
}
