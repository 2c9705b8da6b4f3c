//! The statistics of a pool beside its totals.

use std::time::Duration;

use super::times::Times;

/// The counts of one server of a pool.
#[derive(Debug, Clone, Default)]
pub struct ServerStats {
    /// The host of the server.
    pub host: String,
    /// The port of the server.
    pub port: u16,
    /// The durations of statements on it: from the moment it had them to the end of the answer.
    pub query: Times,
    /// The times that clients had waited when they were checked out a connection to it.
    pub wait: Times,
}

/// The counts of a pool. The pooler's threads each have their own pools, so these are plain numbers.
#[derive(Debug, Clone, Default)]
pub struct Stats {
    /// The counts by server.
    servers: Vec<ServerStats>,
}

/// The host and port of a server, as people see them.
pub fn server_name(host: &str, port: u16) -> String {
    let host = if host.is_empty() { "unix" } else { host };
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

impl ServerStats {
    /// The host and port of the server, as people see them.
    pub fn name(&self) -> String {
        server_name(&self.host, self.port)
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

    /// Counts a statement that took this long on a server.
    pub fn queried(&mut self, place: usize, span: Duration) {
        if let Some(server) = self.servers.get_mut(place) {
            server.query.record(span);
        }
    }

    /// Counts a client that waited this long for a connection to a server.
    pub fn waited(&mut self, place: usize, span: Duration) {
        if let Some(server) = self.servers.get_mut(place) {
            server.wait.record(span);
        }
    }

    /// Adds the counts of another worker.
    pub fn add(&mut self, other: &Self) {
        for theirs in &other.servers {
            let place = self.place(&theirs.host, theirs.port);
            if let Some(server) = self.servers.get_mut(place) {
                server.query.add(&theirs.query);
                server.wait.add(&theirs.wait);
            }
        }
    }

    /// The counts of each server.
    pub fn servers(&self) -> &[ServerStats] {
        &self.servers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_counted_apart() {
        let mut stats = Stats::default();
        let (a, b) = (stats.place("a", 5432), stats.place("b", 5432));
        assert_eq!(stats.place("a", 5432), a);
        assert_ne!(a, b);
        stats.queried(a, Duration::from_millis(3));
        stats.waited(b, Duration::from_millis(4));
        // A place of another pool belongs to no server here.
        stats.queried(9, Duration::from_millis(5));
        let counts: Vec<(u64, u64)> =
            stats.servers().iter().map(|server| (server.query.count(), server.wait.count())).collect();
        assert_eq!(counts, [(1, 0), (0, 1)]);
        let mut more = Stats::default();
        let b = more.place("b", 5432);
        more.waited(b, Duration::from_millis(1));
        stats.add(&more);
        assert_eq!(stats.servers()[1].wait.count(), 2);
    }
}
