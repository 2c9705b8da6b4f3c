//! Every setting, once: its name, type, default and meaning. The files' readers, `SHOW CONFIG`, `SET` and
//! `howdah-pooler settings` (the reference page) all use this table. Names and defaults are PgBouncer's.

use balancer::Strategy;
use classify::Consistency;

use super::servers::{DefaultRole, PrimaryReads};
use super::value::{
    AuthType, ChannelBinding, FileMode, List, LogFormat, PoolMode, Seconds, Shutdown, SslMode, SyslogFacility, Value,
};

/// A setting as people see it.
#[derive(Debug, Clone)]
pub struct Shown {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: String,
    /// What it is when nothing is said.
    pub default: String,
    /// What it means.
    pub meaning: &'static str,
    /// Whether RELOAD and SET can change it.
    pub changeable: bool,
}

macro_rules! settings {
    ($($(#[doc = $doc:literal])+ $name:ident: $type:ty = $default:expr, $changeable:literal;)+) => {
        /// The settings of the whole pooler.
        #[derive(Debug, Clone, PartialEq)]
        pub struct Settings {
            $($(#[doc = $doc])+ pub $name: $type,)+
        }

        impl Default for Settings {
            fn default() -> Self {
                Self { $($name: $default,)+ }
            }
        }

        impl Settings {
            /// The names of all settings.
            pub const NAMES: &'static [&'static str] = &[$(stringify!($name),)+];

            /// Gives a setting a value: `None` for a name that is not a setting, an error that says what is expected.
            pub fn set(&mut self, name: &str, value: &str) -> Option<Result<(), &'static str>> {
                match name {
                    $(stringify!($name) => {
                        Some(<$type as Value>::read(value).map(|value| self.$name = value))
                    })+
                    _ => None,
                }
            }

            /// Takes over from `old` what cannot be changed while running; the names of those that differed.
            pub fn keep_fixed(&mut self, old: &Self) -> Vec<&'static str> {
                let mut kept = Vec::new();
                $(if !$changeable && self.$name != old.$name {
                    self.$name = old.$name.clone();
                    kept.push(stringify!($name));
                })+
                kept
            }

            /// All settings with their values.
            pub fn show(&self) -> Vec<Shown> {
                let default = Self::default();
                vec![$(Shown {
                    name: stringify!($name),
                    value: self.$name.show(),
                    default: default.$name.show(),
                    meaning: concat!($($doc, "\n",)+),
                    changeable: $changeable,
                },)+]
            }
        }
    };
}

impl Settings {
    /// Named prepared statements kept on a server connection in transaction pooling: the one that is being used at least.
    pub fn kept_statements(&self) -> usize {
        self.max_prepared_statements.max(1)
    }
}

settings! {
    /// Addresses to listen on, comma-separated; `*` is all. Empty: no TCP.
    listen_addr: List = List::default(), false;
    /// The port for TCP, and in the name of the Unix socket.
    listen_port: u16 = 6432, false;
    /// The folder of the Unix socket. Empty: no Unix socket.
    unix_socket_dir: String = "/tmp".to_owned(), false;
    /// The permissions of the Unix socket.
    unix_socket_mode: FileMode = FileMode(0o777), false;
    /// The group of the Unix socket, by name or number; empty: the group of the process.
    unix_socket_group: String = String::new(), false;
    /// If root starts the pooler: the account to which the process switches; empty: root.
    user: String = String::new(), false;
    /// Connections that may wait to be accepted.
    listen_backlog: usize = 128, false;
    /// Worker threads; 0 for one per core.
    workers: usize = 0, false;
    /// Worker threads that serve one database, each with its share of the connections; 0 for one for each 32 server
    /// connections of the pool. Each has two connections at least, and one worker serves a database to which
    /// `max_db_connections` or `max_user_connections` applies. A reload changes the number while the database has no
    /// clients.
    database_workers: usize = 0, true;
    /// When a server connection returns to the pool: at the end of the `session` or of the `transaction`. `statement`
    /// works like `transaction`, and closes a client that begins a transaction block.
    pool_mode: PoolMode = PoolMode::Session, true;
    /// Clients that may be logged in, over all databases; 0 for no limit except the system's. Connections that have not
    /// logged in may take the free places and 100 more; if more are open, the pooler closes the oldest connection whose
    /// next message has not arrived.
    max_client_conn: usize = 100, true;
    /// Server connections for each pair of database and user.
    default_pool_size: usize = 20, true;
    /// Server connections that a pool in use keeps open.
    min_pool_size: usize = 0, true;
    /// Server connections beyond the pool's size, for clients that have waited for the time `reserve_pool_timeout`.
    reserve_pool_size: usize = 0, true;
    /// How long a client waits before `reserve_pool_size` applies to it, in seconds.
    reserve_pool_timeout: Seconds = Seconds::whole(5), true;
    /// Server connections of one database, whatever the user; 0 for no limit.
    max_db_connections: usize = 0, true;
    /// Server connections of one user, whatever the database; 0 for no limit.
    max_user_connections: usize = 0, true;
    /// Client connections of one database; 0 for no limit.
    max_db_client_connections: usize = 0, true;
    /// Client connections of one user; 0 for no limit.
    max_user_client_connections: usize = 0, true;
    /// Use the server connection that has been idle longest, not the one used last.
    server_round_robin: bool = false, true;
    /// The SQL that is run on a server connection when a session-pooled client has left it.
    server_reset_query: String = "DISCARD ALL".to_owned(), true;
    /// Run `server_reset_query` in transaction pooling too.
    server_reset_query_always: bool = false, true;
    /// Close a server connection that is this old when it is next free, in seconds.
    server_lifetime: Seconds = Seconds::whole(3600), true;
    /// Close each server connection up to this many percent earlier, so that the connections are not all replaced at
    /// once.
    server_lifetime_jitter: usize = 10, true;
    /// The SQL that checks a server connection before its use, if the connection was idle for the time
    /// `server_check_delay`; `<empty>` is the empty statement. Empty: no check.
    server_check_query: String = "<empty>".to_owned(), true;
    /// How long a server connection may be idle and still be used unchecked, in seconds.
    server_check_delay: Seconds = Seconds::whole(30), true;
    /// When RECONNECT or a changed entry replaces a server connection in session pooling: close the connection at the
    /// end of its transaction, not of the session.
    server_fast_close: bool = false, true;
    /// Forget the pools of a database without an entry of its own (`*`) when the pools have been unused for this long,
    /// in seconds.
    autodb_idle_timeout: Seconds = Seconds::whole(3600), true;
    /// Forget a pool that has had neither clients nor server connections for this long, and its statistics with it,
    /// in seconds; 0 for never.
    pool_idle_timeout: Seconds = Seconds::whole(0), true;
    /// How long the addresses of a server's name are used before the name is looked up again, in seconds.
    dns_max_ttl: Seconds = Seconds::whole(15), true;
    /// How long the pooler remembers that the look-up of a name has failed, in seconds.
    dns_nxdomain_ttl: Seconds = Seconds::whole(15), true;
    /// Close a server connection that has been idle this long, in seconds.
    server_idle_timeout: Seconds = Seconds::whole(600), true;
    /// How long a connection and login to a server may take, in seconds.
    server_connect_timeout: Seconds = Seconds::whole(15), true;
    /// How long the pooler waits after a failed connection to a server before it tries again, in seconds. While clients
    /// wait for a server that cannot be reached, the first retries come sooner: after 0.1 seconds, then after twice as
    /// long each time.
    server_login_retry: Seconds = Seconds::whole(15), true;
    /// Keep clients in the queue while the server cannot be reached (during its restart, say), until
    /// `query_wait_timeout`. Off: their statements fail at once.
    queue_while_down: bool = true, true;
    /// How long a client's login may take, in seconds.
    client_login_timeout: Seconds = Seconds::whole(60), true;
    /// Close a client that has sent nothing for this long, in seconds; 0 for no limit.
    client_idle_timeout: Seconds = Seconds::whole(0), true;
    /// How long a statement may take, in seconds; 0 for no limit.
    query_timeout: Seconds = Seconds::whole(0), true;
    /// How long a client may wait for a server connection, in seconds; 0 for no limit.
    query_wait_timeout: Seconds = Seconds::whole(120), true;
    /// Send a notice to a client that has waited this long for a server connection, in seconds; 0 for none.
    query_wait_notify: Seconds = Seconds::whole(5), true;
    /// How long a cancel request may take to reach a server, in seconds; 0 for no limit.
    cancel_wait_timeout: Seconds = Seconds::whole(10), true;
    /// How long a client may be idle in a transaction, in seconds; 0 for no limit.
    idle_transaction_timeout: Seconds = Seconds::whole(0), true;
    /// How long a transaction may take, in seconds; 0 for no limit.
    transaction_timeout: Seconds = Seconds::whole(0), true;
    /// What SIGTERM does, in the words of the console's SHUTDOWN: with `wait_for_clients` the pooler ends when each
    /// client has left by itself; with `wait_for_servers` it closes each client as soon as no statement or transaction
    /// of the client is under way (in session pooling the client leaves by itself), and then ends; with `at_once` it
    /// ends at once.
    sigterm: Shutdown = Shutdown::WaitForClients, true;
    /// How long an orderly shutdown waits for transactions or for clients, in seconds; 0 for no limit.
    shutdown_timeout: Seconds = Seconds::whole(0), true;
    /// How long SUSPEND waits for connections to come to rest before it closes them, in seconds; 0 for no limit.
    suspend_timeout: Seconds = Seconds::whole(10), true;
    /// Named prepared statements that a server connection keeps in transaction pooling; 0 counts as 1. The names of
    /// different clients are always kept apart.
    max_prepared_statements: usize = 200, true;
    /// How the server for a read is chosen among several: `random`, `round_robin`, `least_outstanding` or `weighted`.
    load_balancing: Strategy = Strategy::Random, true;
    /// Whether the primary serves reads: `on`, like the replicas; `off`, never; `fallback`, only when no replica
    /// serves.
    primary_reads: PrimaryReads = PrimaryReads::Fallback, true;
    /// Send reads to replicas and all other statements to the primary, for databases with `servers`.
    read_write_splitting: bool = true, true;
    /// Where statements go while `read_write_splitting` is off: `any` server, the `primary` or a `replica`.
    default_role: DefaultRole = DefaultRole::Primary, true;
    /// Which commits a read on a replica must see: the commits of its own `session`; the commits of all sessions that
    /// were acknowledged through this pooler (`database`); or none (`off`). The read goes to a server that has replayed
    /// these commits.
    read_your_writes: Consistency = Consistency::Session, true;
    /// How long a read waits for a replica to replay the commits that `read_your_writes` demands, before the read goes
    /// to the primary, in seconds. If the replicas are known to take longer, the read does not wait.
    read_your_writes_wait: Seconds = Seconds::millis(10), true;
    /// The lag in bytes above which a replica gets no reads, until its lag has fallen to half of this value; 0 for no
    /// limit.
    max_replica_lag_bytes: usize = 0, true;
    /// The lag in seconds above which a replica gets no reads, until its lag has fallen to half of this value; 0 for no
    /// limit.
    max_replica_lag: Seconds = Seconds::whole(0), true;
    /// How long a replica that failed gets no reads while other servers can take them, in seconds.
    ban_time: Seconds = Seconds::whole(10), true;
    /// The time between two health checks of each server of a database with `servers`, in seconds.
    healthcheck_interval: Seconds = Seconds::millis(500), true;
    /// How long a server may take to answer a health check, in seconds; after two late answers the server is down.
    healthcheck_timeout: Seconds = Seconds::whole(1), true;
    /// The user as whom health checks log in to servers; empty: `user` of the database's entry, or else `auth_user` and
    /// then the users who have logged in, the last of them first.
    monitor_user: String = String::new(), true;
    /// How long a worker with a single active client looks for new data before it sleeps, in seconds (0.0001 is 100
    /// microseconds): answers come sooner, and the worker uses more CPU; 0 for off.
    busy_poll: Seconds = Seconds::whole(0), true;
    /// In transaction and statement pooling, listen for all clients of a pool on one more server connection, so that
    /// LISTEN keeps no server connection for its client.
    shared_listen: bool = true, true;
    /// Send reads of different clients down one server connection one behind another (transaction pooling only).
    pipelining: bool = true, true;
    /// Server connections over which a pool spreads pipelined reads before the pool sends more reads down each
    /// connection; 0: one per core.
    pipeline_connections: usize = 0, true;
    /// Reads in flight on one server connection at most; fewer when reads take long.
    pipeline_depth: usize = 64, true;
    /// How long a pipelined read may delay the reads behind it before the delayed reads are repeated on another
    /// connection, in seconds.
    pipeline_stall: Seconds = Seconds(std::time::Duration::from_millis(50)), true;
    /// How clients prove who they are: `any`, `trust`, `plain`, `md5`, `scram-sha-256`, `cert` or `hba`.
    auth_type: AuthType = AuthType::Md5, true;
    /// The users file, with a line `"user" "password"` for each user; the password is plain, an MD5 hash or a SCRAM
    /// secret.
    auth_file: String = String::new(), true;
    /// The HBA file for `auth_type = hba`: its lines say which users may connect to which databases from which
    /// addresses, and how they prove who they are.
    auth_hba_file: String = String::new(), true;
    /// The file of user name maps (pg_ident.conf) for lines of the HBA file with `map=`.
    auth_ident_file: String = String::new(), true;
    /// The query that finds the password of a user who is not in the users file; `$1` is the user's name.
    auth_query: String = "SELECT rolname, CASE WHEN rolvaliduntil < pg_catalog.now() THEN NULL ELSE rolpassword END \
         FROM pg_catalog.pg_authid WHERE rolname=$1 AND rolcanlogin"
        .to_owned(), true;
    /// The user who runs `auth_query`; empty: `auth_query` is not run.
    auth_user: String = String::new(), true;
    /// The database in which `auth_query` runs; empty: the database that the client names. Set `auth_dbname` where `*`
    /// is configured: otherwise unauthenticated clients can cause connections to servers by naming databases.
    auth_dbname: String = String::new(), true;
    /// Users who may run all commands of the console.
    admin_users: List = List::default(), true;
    /// Users who may run the SHOW commands of the console.
    stats_users: List = List::default(), true;
    /// Startup parameters that the pooler accepts and does not pass on, also within `options`. If `options` itself is
    /// listed, the pooler still sets those of its parameters that PgBouncer tracks.
    ignore_startup_parameters: List = List::default(), true;
    /// Parameters that are tracked for each client beside the usual ones; the server must report them.
    track_extra_parameters: List = List(vec!["IntervalStyle".to_owned()]), false;
    /// A notice for each client that has logged in; empty: none.
    login_notify_message: String = String::new(), true;
    /// Append the client's address to `application_name`.
    application_name_add_host: bool = false, true;
    /// Log clients' logins.
    log_connections: bool = true, true;
    /// Log why clients leave.
    log_disconnections: bool = true, true;
    /// Log the errors that the pooler itself sends to clients.
    log_pooler_errors: bool = true, true;
    /// Log a line of statistics each `stats_period`.
    log_stats: bool = true, true;
    /// The address on which `/metrics`, `/healthz` and `/readyz` are served over HTTP; `*` is all.
    metrics_addr: String = "127.0.0.1".to_owned(), false;
    /// The HTTP port of `/metrics`, `/healthz` and `/readyz`; 0 for none.
    metrics_port: u16 = 0, false;
    /// The period over which averages are taken, in seconds.
    stats_period: Seconds = Seconds::whole(60), true;
    /// The file to which the process id is written; empty: none.
    pidfile: String = String::new(), false;
    /// The file to which the log is written; empty: the standard error. RELOAD opens the file again.
    logfile: String = String::new(), true;
    /// The format of log lines: `plain`, or `json` for one object per line.
    log_format: LogFormat = LogFormat::Plain, true;
    /// Send the log to the system's log too.
    syslog: bool = false, true;
    /// The program's name in the system's log.
    syslog_ident: String = "howdah-pooler".to_owned(), false;
    /// The facility of the lines in the system's log: `auth`, `authpriv`, `daemon`, `user`, or `local0` to `local7`.
    syslog_facility: SyslogFacility = SyslogFacility::Daemon, true;
    /// How often the pooler looks for changed files of the configuration, in seconds; the pooler then reads the
    /// configuration again. 0 for never.
    autoreload: Seconds = Seconds::whole(0), true;
    /// Keep idle TCP connections alive.
    tcp_keepalive: bool = true, true;
    /// Seconds before the first keepalive; 0 for the system's default.
    tcp_keepidle: usize = 0, true;
    /// Seconds between keepalives; 0 for the system's default.
    tcp_keepintvl: usize = 0, true;
    /// Unanswered keepalives after which a connection counts as dead; 0 for the system's default.
    tcp_keepcnt: usize = 0, true;
    /// TLS with clients: `disable`; `allow` or `prefer` for clients that ask for it; `require` for all clients except
    /// clients of the Unix socket; `verify-ca` or `verify-full`, which also require a certificate of the client.
    client_tls_sslmode: SslMode = SslMode::Disable, true;
    /// The private key of `client_tls_cert_file`, in PEM.
    client_tls_key_file: String = String::new(), true;
    /// The pooler's certificate for clients, with its chain, in PEM.
    client_tls_cert_file: String = String::new(), true;
    /// The certificate authorities that are trusted for certificates of clients, in PEM.
    client_tls_ca_file: String = String::new(), true;
    /// The versions of TLS with clients: `secure` for 1.2 and 1.3, or a list of `tlsv1.2` and `tlsv1.3`.
    client_tls_protocols: String = "secure".to_owned(), true;
    /// The TLS 1.2 ciphers with clients: names, separated by colons; `default` is all that rustls has.
    client_tls_ciphers: String = "default".to_owned(), true;
    /// The TLS 1.3 ciphers with clients; empty: all that rustls has.
    client_tls13_ciphers: String = String::new(), true;
    /// The key exchange curves with clients: `auto`, or a list of `X25519`, `prime256v1` and `secp384r1`.
    client_tls_ecdhcurve: String = "auto".to_owned(), true;
    /// TLS with servers, as libpq's sslmode: `disable`, `allow`, `prefer`, `require`, `verify-ca` or `verify-full`.
    server_tls_sslmode: SslMode = SslMode::Prefer, true;
    /// The certificate authorities that are trusted for certificates of servers, in PEM; `system` for the system's
    /// authorities.
    server_tls_ca_file: String = String::new(), true;
    /// The private key of `server_tls_cert_file`, in PEM.
    server_tls_key_file: String = String::new(), true;
    /// The pooler's certificate for servers, with its chain, in PEM; empty: none.
    server_tls_cert_file: String = String::new(), true;
    /// The versions of TLS with servers: as `client_tls_protocols`.
    server_tls_protocols: String = "secure".to_owned(), true;
    /// The TLS 1.2 ciphers with servers: as `client_tls_ciphers`.
    server_tls_ciphers: String = "default".to_owned(), true;
    /// The TLS 1.3 ciphers with servers; empty: all that rustls has.
    server_tls13_ciphers: String = String::new(), true;
    /// The key exchange curves with servers: as `client_tls_ecdhcurve`.
    server_tls_ecdhcurve: String = "auto".to_owned(), true;
    /// Whether SCRAM with servers is bound to the TLS connection: `disable`, `prefer` or `require`.
    server_channel_binding: ChannelBinding = ChannelBinding::Prefer, true;
    /// Milliseconds that sent data may stay unacknowledged before a TCP connection counts as dead; 0 for the system's
    /// default.
    tcp_user_timeout: usize = 0, true;
}

/// Settings of PgBouncer that ask for nothing when they are left out here: said once, not refused.
pub const WITHOUT_EFFECT: &[&str] = &[
    "service_name",
    "job_name",
    "verbose",
    "pkt_buf",
    "sbuf_loopcnt",
    "so_reuseport",
    "tcp_defer_accept",
    "tcp_socket_buffer",
    "client_tls_dheparams",
    "dns_zone_check_period",
    "conffile",
    "resolv_conf",
    "scram_iterations",
    "peer_id",
    "max_packet_size",
];
