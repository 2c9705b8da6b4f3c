//! How the pooler is set up for a schedule.

use std::time::Duration;

/// How many server connections the pools of a database, and those of a user, may have together; 0 for no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Quota {
    /// Those of a database.
    pub database: usize,
    /// Those of a user.
    pub user: usize,
}

/// How the pooler is set up, and for how many clients.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Clients at once.
    pub clients: usize,
    /// Server connections of the pool.
    pub pool_size: usize,
    /// Workers of the pooler.
    pub workers: usize,
    /// How many of them serve the database at first.
    pub members: usize,
    /// Whether reads of several clients go down one connection.
    pub pipelining: bool,
    /// How long a read in a lane may keep the others waiting; zero for as long as it takes.
    pub stall: Duration,
    /// How long a connection may be idle and still be used unchecked; none where nothing is checked.
    pub check_after: Option<Duration>,
    /// How old a server connection becomes, in seconds.
    pub lifetime: u64,
    /// How long a client waits for a server connection, in seconds.
    pub wait: u64,
    /// How long a client may be idle in a transaction, in seconds; 0 for ever.
    pub idle_in_transaction: u64,
    /// Whether servers report `search_path`, as PostgreSQL does from 18 on.
    pub reports_search_path: bool,
    /// Whether a client keeps its server connection until it leaves.
    pub session_mode: bool,
    /// Whether clients wait while the server is down.
    pub queue_while_down: bool,
    /// How many servers there are, one of them the primary.
    pub servers: usize,
    /// How long a server is kept from reads to which no connection could be made, in seconds.
    pub ban: u64,
    /// How long a read waits for a replica that shows what it must see, in milliseconds.
    pub replay_wait: u64,
    /// Whether one connection listens for all clients of the pool.
    pub shared_listen: bool,
    /// Whether servers report `in_hot_standby`, as PostgreSQL does from 14 on.
    pub reports_standby: bool,
    /// How many prepared statements a server connection keeps.
    pub kept: usize,
    /// How many pools there are, by the databases and users of clients.
    pub pools: usize,
    /// The limits that pools share.
    pub quota: Quota,
}

impl Default for Setup {
    /// Three clients, and no limits that they meet.
    fn default() -> Self {
        Self {
            clients: 3,
            pool_size: 1,
            workers: 1,
            members: 1,
            pipelining: true,
            stall: Duration::ZERO,
            check_after: None,
            lifetime: 3600,
            wait: 120,
            idle_in_transaction: 0,
            reports_search_path: true,
            session_mode: false,
            queue_while_down: true,
            servers: 1,
            ban: 0,
            replay_wait: 100,
            shared_listen: true,
            reports_standby: true,
            kept: 200,
            pools: 1,
            quota: Quota::default(),
        }
    }
}

impl Setup {
    /// Whether all clients wait for the same server connection. With several, who has got one and waits until its session is
    /// in line cannot be told from who waits for one.
    pub fn has_one_connection(&self) -> bool {
        (self.pool_size, self.workers, self.servers, self.session_mode, self.pools) == (1, 1, 1, false, 1)
    }

    /// The settings, as lines of a configuration.
    pub fn settings(&self) -> String {
        let check = self.check_after.map_or_else(
            || "server_check_query =".to_owned(),
            |delay| format!("server_check_query = SELECT 1\nserver_check_delay = {}", delay.as_secs()),
        );
        format!(
            "default_pool_size = {}\ndatabase_workers = {}\npipelining = {}\npipeline_stall = {}\n{check}\nserver_lifetime = {}\n\
             query_wait_timeout = {}\nidle_transaction_timeout = {}\nserver_reset_query_always = 0\npool_mode = {}\nqueue_while_down = {}\nshared_listen = {}\nread_write_splitting = {}\nban_time = {}\nread_your_writes_wait = {}\nmax_prepared_statements = {}\n\
             max_db_connections = {}\nmax_user_connections = {}\n",
            self.pool_size,
            self.members,
            u8::from(self.pipelining),
            self.stall.as_secs_f64(),
            self.lifetime,
            self.wait,
            self.idle_in_transaction,
            if self.session_mode { "session" } else { "transaction" },
            u8::from(self.queue_while_down),
            u8::from(self.shared_listen),
            u8::from(self.servers > 1),
            self.ban,
            self.replay_wait as f64 / 1000.0,
            self.kept,
            self.quota.database,
            self.quota.user,
        )
    }
}
