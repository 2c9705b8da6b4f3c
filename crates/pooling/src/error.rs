//! What the pooler itself tells clients: each situation in its words, with its SQLSTATE, whose fault it is, and whether
//! asking again may help.
//!
//! What is told before a client has proven who it is must not depend on whether the user or the database exists.
//! docs/reference/pooler-errors.md is made from this file.

use thiserror::Error as ThisError;
use wire::{backend, sqlstate};

/// Why a server connection has ended: the server's last words, or what became of its socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cause {
    /// The SQLSTATE.
    pub sqlstate: String,
    /// The words.
    pub why: String,
}

impl Cause {
    /// The connection was lost without a word of the server's.
    pub fn connection(why: &str) -> Self {
        Self { sqlstate: sqlstate::CONNECTION_FAILURE.to_owned(), why: why.to_owned() }
    }

    /// Whether the server has refused the user or the database of a login, or has no room for one more (28xxx, 3D000,
    /// 42501, 53xxx, 55000): others it may serve all the same.
    pub fn is_refusal(&self) -> bool {
        matches!(self.sqlstate.get(..2), Some("28" | "3D" | "42" | "53" | "55"))
    }

    /// The pooler has closed the connection.
    pub fn shutdown(why: &str) -> Self {
        Self { sqlstate: sqlstate::ADMIN_SHUTDOWN.to_owned(), why: why.to_owned() }
    }
}

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Blame {
    /// The client has asked for what cannot be had, or has not kept to the protocol.
    Client,
    /// A server has failed, or cannot be reached.
    Server,
    /// An administrator has ordered it.
    Administrator,
    /// A limit of the configuration is reached.
    Limit,
    /// The machine of the pooler does not give what is needed.
    Machine,
}

impl Blame {
    /// Its name in metrics and in the reference.
    pub fn word(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::Administrator => "administrator",
            Self::Limit => "limit",
            Self::Machine => "machine",
        }
    }
}

/// What the pooler itself tells a client.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
pub enum Error {
    // The protocol.
    /// The client sent a message that breaks the protocol.
    #[error("{0}")]
    Protocol(wire::Error),
    /// The client sent a message of a type that clients do not send.
    #[error("invalid frontend message type {0}")]
    MessageType(u8),
    /// The names in a Bind message cannot be read.
    #[error("malformed Bind")]
    MalformedBind,
    /// The name in a Describe, Close or Execute is longer than any name that the pooler keeps.
    #[error("the name of a statement or portal is too long")]
    LongStatementName,
    /// A client of the console sent a message that is longer than any command.
    #[error("the message is too long for the console")]
    LongCommand,

    // Logins.
    /// Bytes arrived before TLS began; an attacker may have put them there.
    #[error("data arrived before the answer to the client's request for encryption")]
    Injected,
    /// The client asked for encryption on a connection that is encrypted already.
    #[error("the client asked for encryption on a connection that is already encrypted")]
    EncryptedTwice,
    /// The client began with TLS directly and did not name PostgreSQL's protocol by ALPN.
    #[error("direct TLS needs ALPN with the protocol \"postgresql\"")]
    NoAlpn,
    /// The client sent another message when a password was expected.
    #[error("expected a password message")]
    NoPasswordMessage,
    /// The startup packet names no user.
    #[error("no PostgreSQL user name specified in startup packet")]
    NoUser,
    /// The name is longer than the pooler accepts.
    #[error("the name of the {what} is longer than {most} bytes")]
    LongName {
        /// Of what.
        what: &'static str,
        /// How long it may be.
        most: usize,
    },
    /// The startup packet has a parameter that the pooler does not support.
    #[error("unsupported startup parameter: {0}")]
    Parameter(String),
    /// The startup packet's `options` have a word that sets no parameter.
    #[error("unsupported options startup parameter: only '-c config=val' and '--config=val' are allowed, not \"{0}\"")]
    Options(String),
    /// The client asked for an unknown kind of replication connection.
    #[error("invalid value for parameter \"replication\": \"{0}\": expected database or a Boolean")]
    Replication(String),
    /// The client asked for a replication connection to the console.
    #[error("the console does not accept replication connections")]
    ReplicationOfConsole,
    /// The client asked for physical replication, which names no database, and no entry gives a server for it.
    #[error("no such database: {0}")]
    NoReplication(String),
    /// The client connected without TLS, which `client_tls_sslmode` requires.
    #[error("SSL required")]
    TlsRequired,
    /// The HBA file does not admit the client.
    #[error("no line of the HBA file admits this connection of user \"{user}\" to database \"{database}\"")]
    Hba {
        /// Who wants to come in.
        user: String,
        /// To which database.
        database: String,
    },
    /// The client has not proven that it is this user, or there is no such user.
    #[error("password authentication failed for user \"{0}\"")]
    Password(String),
    /// Clients may log in without a password, but there is no such user.
    #[error("\"trust\" authentication failed for user \"{0}\"")]
    Trust(String),
    /// The client has shown no certificate that proves that it is this user.
    #[error("certificate authentication failed for user \"{0}\"")]
    Certificate(String),
    /// The account at the other end of the Unix socket is not the user's account.
    #[error("peer authentication failed for user \"{0}\"")]
    Peer(String),
    /// `auth_query` has failed, or the database in which it runs is disabled.
    #[error("the password cannot be looked up at present: the pooler's log has the reason")]
    LookupFailed,
    /// Passwords are being looked up in too many databases to which no client has logged in yet.
    #[error("too many logins to databases to which no client has logged in yet")]
    LookupsFull,
    /// `max_client_conn` clients are logged in.
    #[error("no more connections allowed (max_client_conn)")]
    Full,
    /// The user has `max_user_client_connections` client connections.
    #[error("client connections exceeded (max_user_client_connections)")]
    FullForUser,
    /// The database has `max_db_client_connections` client connections.
    #[error("client connections exceeded (max_db_client_connections)")]
    FullForDatabase,
    /// The configuration has no such database.
    #[error("no such database: {0}")]
    NoDatabase(String),
    /// The database was closed by DISABLE.
    #[error("database \"{0}\" is disabled")]
    Disabled(String),
    /// The configuration lists the users of the database, and the client's is none of them.
    #[error("no pool configured for database: \"{database}\", user: \"{user}\"")]
    NotInPool {
        /// The user.
        user: String,
        /// The database.
        database: String,
    },
    /// The user may not use the console.
    #[error("not allowed: user \"{0}\" is in neither admin_users nor stats_users")]
    NotOnConsole(String),
    /// The operating system gives no random bytes.
    #[error("the operating system gives no random bytes")]
    Random,
    /// The login took longer than `client_login_timeout`.
    #[error("client_login_timeout")]
    LoginTimeout,
    /// A server refused a setting of the client's startup packet; the error is the server's own.
    #[error("{}", .0.why)]
    StartupRefused(Cause),

    // Server connections that are waited for.
    /// The client has waited as long as the setting at the start of the message allows.
    #[error("{limit}: {why}")]
    Waited {
        /// The setting.
        limit: &'static str,
        /// What it has waited for.
        why: Box<Error>,
    },
    /// The database was stopped by PAUSE.
    #[error("database \"{0}\" is paused")]
    Paused(String),
    /// All server connections of the pool are in use.
    #[error(
        "the pool of database \"{database}\" and user \"{user}\" is full: {servers} server connections, all in use\
         {pinned}, {waiting} clients waiting"
    )]
    PoolFull {
        /// The database of the pool.
        database: String,
        /// Its user.
        user: String,
        /// Server connections that it has.
        servers: usize,
        /// Those of them that are pinned to their clients, and why, in parentheses; empty if there are none.
        pinned: String,
        /// Clients that wait.
        waiting: usize,
    },
    /// A limit that several pools share leaves the pool no room for a server connection.
    #[error(
        "{setting} = {most} leaves the pool of database \"{database}\" and user \"{user}\" no room for one more server \
         connection: {servers} server connections, {waiting} clients waiting"
    )]
    NoRoom {
        /// The setting that has the limit.
        setting: &'static str,
        /// The connections that it allows.
        most: usize,
        /// The database of the pool.
        database: String,
        /// Its user.
        user: String,
        /// Server connections that it has.
        servers: usize,
        /// Clients that wait.
        waiting: usize,
    },
    /// All server connections of the pool are in use, and the last attempt to make one more has failed.
    #[error(
        "all {servers} server connections of database \"{database}\" and user \"{user}\" are in use, and the pool gets no \
         more: {}", cause.why
    )]
    NoMore {
        /// The database of the pool.
        database: String,
        /// Its user.
        user: String,
        /// Server connections that it has.
        servers: usize,
        /// The reason why it has no more.
        cause: Cause,
    },
    /// The last attempt to connect to the server has failed, while a client waited.
    #[error("the server cannot be reached: {}", .0.why)]
    Unreachable(Cause),
    /// The database has several servers, and none of them can be used for the statement.
    #[error("database \"{database}\": {why}")]
    NoServer {
        /// The database.
        database: String,
        /// What is known of its servers.
        why: String,
    },
    /// The database has several servers, and none of them can be used for the login. A driver that knows several
    /// poolers tries the next one.
    #[error("database \"{database}\": {why}")]
    NoServerForLogin {
        /// The database.
        database: String,
        /// What is known of its servers.
        why: String,
    },
    /// No server connection could be made while a login waited for one.
    #[error("database \"{database}\": no server connection could be made{met}")]
    NoneMade {
        /// The database.
        database: String,
        /// What the last attempt has met, behind a colon.
        met: String,
    },
    /// An attempt to connect to the server has failed.
    #[error("cannot connect to the server: {}", .0.why)]
    CannotConnect(Cause),
    /// Attempts to connect have failed, and the time for the next attempt has not come.
    #[error("server login has been failing, cached error: {} (server_login_retry)", .0.why)]
    Failing(Cause),
    /// The pooler tried several server connections for the statement, and could prepare none of them.
    #[error("the statement was not sent, because no server connection could be prepared: {}", .0.why)]
    NotPrepared(Cause),
    /// A server refused a setting of the client.
    #[error("cannot set a client's parameters on a server: {}", .0.why)]
    SettingsRefused(Cause),

    // Shards.
    /// A statement that writes rows of sharded tables is not proved to be of one shard.
    #[error("the statement is not of one shard: {why}")]
    NotOfOneShard {
        /// Why.
        why: String,
        /// What helps.
        hint: &'static str,
    },
    /// A statement belongs to another shard than the transaction that it is in.
    #[error("a transaction is of one shard: {0}")]
    OtherShard(String),
    /// A statement belongs to another shard than its transaction, perhaps since the map has changed in between.
    #[error("the map of shards has changed within the transaction: {0}")]
    MapChanged(String),
    /// A statement in a transaction that has failed before its server knew of it.
    #[error("current transaction is aborted, commands ignored until end of transaction block")]
    TransactionFailed,
    /// The map of shards names one that the configuration does not have among the `shards` of the database.
    #[error("shard \"{0}\" is not among the shards of the database in the pooler's configuration")]
    NoShardEntry(String),
    /// A client or a comment has chosen a shard that the database does not have.
    #[error("there is no shard {number}: the database has {shards} shards, from 0 on")]
    NoShard {
        /// The number, as it was written.
        number: String,
        /// How many there are.
        shards: usize,
    },
    /// A client or a comment has given a sharding key that is no integer.
    #[error("the sharding key \"{0}\" is no bigint")]
    ShardingKey(String),
    /// The hub has not confirmed the map of shards in time, and statements are not sent by an old one; or, without a hub,
    /// the default shard has not told which tables have a sharding key.
    #[error("the map of the shards of database \"{0}\" is not known: its hub, or default shard, has not answered")]
    NoShardMap(String),

    // Server connections that are lost.
    /// The server connection of the session is lost.
    #[error("server connection lost: {}", .0.why)]
    Lost(Cause),
    /// The server connection of the session is lost, in a transaction.
    #[error("server connection lost in a transaction: {}", .0.why)]
    LostInTransaction(Cause),
    /// The pooler closed the server connection of the session, because the pooler could not bring the connection to the
    /// state of the session.
    #[error("server connection closed: {0}")]
    Closed(String),
    /// The server connection of a read is lost, and the pooler has repeated the read before, or a part of its answer
    /// has been sent.
    #[error("server connection lost while it answered a read: {}", .0.why)]
    LostInRead(Cause),
    /// The server connection of a statement is lost. The pooler does not know whether the statement was done.
    #[error("server connection lost, the outcome of the statement is unknown: {}", .0.why)]
    OutcomeUnknown(Cause),
    /// The server connection of a replication client is lost, or could not be made.
    #[error("the server connection of the replication client is lost or could not be made: {}", .0.why)]
    ReplicationLost(Cause),
    /// The server connection that listened for the clients of the pool is lost.
    #[error("the connection that listened for this client is lost: notifications may have been missed")]
    ListenerLost,

    // Sessions.
    /// The client has cancelled its statement.
    #[error("canceling statement due to user request")]
    Cancelled,
    /// The statement took longer than `query_timeout`.
    #[error("query_timeout")]
    QueryTimeout,
    /// The transaction took longer than `transaction_timeout`.
    #[error("transaction_timeout")]
    TransactionTimeout,
    /// The client sent nothing within a transaction for `idle_transaction_timeout`.
    #[error("idle_transaction_timeout")]
    IdleTransactionTimeout,
    /// The client sent nothing for `client_idle_timeout`.
    #[error("client_idle_timeout")]
    IdleTimeout,
    /// The client has opened a transaction block in statement pooling, where each statement may go to another server
    /// connection.
    #[error("transaction blocks not allowed in statement pooling mode")]
    NoBlocks,
    /// The tables of a prepared statement have changed: its columns or parameters are not those that the client was
    /// told when it prepared the statement.
    #[error("cached plan must not change result type")]
    StatementChanged,
    /// The client did not read the notifications that the pooler kept for it.
    #[error("notifications were dropped: the client did not read them in time")]
    NotificationsFull,
    /// A notification cannot be sent in the `client_encoding` that the client has set since its LISTEN.
    #[error(
        "a notification cannot be sent: it has characters beyond ASCII, and client_encoding is no longer UTF8 as it was at LISTEN"
    )]
    NotificationEncoding,

    // Orders.
    /// The pooler is shutting down.
    #[error("the pooler is shutting down")]
    Ending,
    /// The client was not at rest when SUSPEND had waited for `suspend_timeout`.
    #[error("the pooler is suspended, and the connection was not at rest in time (suspend_timeout)")]
    NotAtRest,
    /// KILL has closed the clients of the database.
    #[error("database was killed by an administrator (KILL)")]
    Killed,
    /// KILL_CLIENT has closed the client.
    #[error("client was killed by an administrator (KILL_CLIENT)")]
    KilledClient,
    /// A reload has removed the entry of the database.
    #[error("database \"{0}\" is no longer configured")]
    DatabaseGone(String),
    /// A reload has removed `user` from the entry of the database.
    #[error("the entry of database \"{database}\" no longer names user \"{user}\"")]
    UserGone {
        /// The user.
        user: String,
        /// The database.
        database: String,
    },
    /// The pool was not used for `autodb_idle_timeout` or `pool_idle_timeout`, and is removed.
    #[error("the pool was idle for too long and is removed (pool_idle_timeout, autodb_idle_timeout)")]
    PoolUnused,
    /// The server connection of the session had to be replaced; with `server_fast_close` the pooler replaces it between
    /// two transactions.
    #[error("database configuration changed: the server connection of the session is closed (server_fast_close)")]
    FastClose,

    // The console.
    /// There is no such command.
    #[error("invalid command '{0}', use SHOW HELP;")]
    NoCommand(String),
    /// SHOW has no such subject.
    #[error("unsupported SHOW command '{0}', use SHOW HELP;")]
    NothingToShow(String),
    /// A command lacks an argument.
    #[error("{verb} needs {what}")]
    Needs {
        /// The command.
        verb: String,
        /// What it lacks.
        what: &'static str,
    },
    /// A command has an argument that it does not take.
    #[error("{verb} takes {what}")]
    Takes {
        /// The command.
        verb: &'static str,
        /// What it takes.
        what: &'static str,
    },
    /// The user is in `stats_users`, and may only SHOW.
    #[error("admin access needed")]
    NotAdmin,
    /// A command names a database that does not exist.
    #[error("no such database: {0}")]
    NoDatabaseToOrder(String),
    /// KILL_CLIENT names a client that does not exist.
    #[error("client not found: no client has the id {0} (SHOW CLIENTS shows them)")]
    NoClient(u64),
    /// An Execute or a Bind names a command that was not prepared.
    #[error("prepared statement \"{0}\" does not exist")]
    NoPrepared(String),
    /// The client sent an Execute before a Bind.
    #[error("no command is bound: the console needs a Bind before an Execute")]
    NoPortal,
    /// SUSPEND, PAUSE or KILL came while the whole pooler is suspended.
    #[error("already suspended")]
    AlreadySuspended,
    /// PAUSE or KILL came while the whole pooler is paused.
    #[error("already paused")]
    AlreadyPaused,
    /// SUSPEND came while a database is paused.
    #[error("cannot suspend while databases are paused")]
    PausedInPart,
    /// RESUME names a database that is not paused.
    #[error("database {0} is not paused")]
    NotPaused(String),
    /// RESUME came while nothing is paused or suspended.
    #[error("the pooler is not paused/suspended")]
    NothingToResume,
    /// The command cannot be run while the pooler is shutting down.
    #[error("the pooler is shutting down")]
    EndsAlready,
    /// RESUME came while the PAUSE waited for statements and transactions to end.
    #[error("PAUSE was ended by RESUME before it was complete")]
    PauseEnded,
    /// SET names a setting that does not exist.
    #[error("SET failed: there is no setting {0}")]
    NoSetting(String),
    /// SET names a setting that changes only with a restart.
    #[error("SET failed: {0} cannot be changed while running")]
    FixedSetting(String),
    /// SET gives a value that the setting does not take.
    #[error("SET failed: {name} = {value}: expected {expected}")]
    SettingValue {
        /// The setting.
        name: String,
        /// The value.
        value: String,
        /// What it takes.
        expected: &'static str,
    },
    /// The configuration, or a file that it names, cannot be used. The old configuration stays in force.
    #[error("{0}")]
    Configuration(String),
    /// TAKEOVER came from a client that is not a new process of the pooler.
    #[error("TAKEOVER is for howdah-pooler -R, over the Unix socket under the pooler's own account")]
    TakeoverByOthers,
    /// TAKEOVER CLIENTS came from another process than the one that has the sockets.
    #[error("TAKEOVER CLIENTS is for the process that has taken the sockets over")]
    ClientsForOthers,
    /// TAKEOVER came after another process had taken the sockets over.
    #[error("another process has taken the sockets over")]
    TakenOver,
    /// TAKEOVER came while clients wait for a RESUME.
    #[error("the pooler is paused or suspended: RESUME first, or its clients would wait for ever")]
    TakeoverOfHeld,
    /// There are more listening sockets than one answer can carry.
    #[error("there are more than {0} sockets to be handed over")]
    ManySockets(usize),
    /// The sockets could not be given to the other process.
    #[error("{0}")]
    HandOver(String),
}

/// What is true of an error whatever it names.
struct Facts {
    sqlstate: &'static str,
    blame: Blame,
    may_retry: bool,
}

/// Makes a function of a table: the SQLSTATE, whose fault, whether to try again, and the errors of which that is true. The
/// compiler finds an error that has no line, or two.
macro_rules! facts {
    ($($sqlstate:ident, $blame:ident, $retry:ident: $($error:ident)+;)+) => {
        fn facts(&self) -> Facts {
            match self {
                $($(Self::$error { .. })|+ => {
                    Facts { sqlstate: sqlstate::$sqlstate, blame: Blame::$blame, may_retry: stringify!($retry) == "yes" }
                })+
            }
        }
    };
}

impl Error {
    facts! {
        CONNECTION_FAILURE, Server, yes: LookupFailed;
        CONNECTION_FAILURE, Server, no: Closed;
        CONNECTION_FAILURE, Limit, yes: LoginTimeout;
        PROTOCOL_VIOLATION, Client, no: Protocol MessageType MalformedBind LongStatementName
            LongCommand Injected EncryptedTwice NoAlpn NoPasswordMessage LongName Parameter Options;
        // PgBouncer's console has this one for whatever is wrong with a command.
        PROTOCOL_VIOLATION, Client, no: NoCommand NothingToShow Needs Takes NotAdmin NoDatabaseToOrder NoClient
            AlreadySuspended AlreadyPaused PausedInPart NotPaused NothingToResume EndsAlready NoSetting FixedSetting
            SettingValue TakeoverByOthers ClientsForOthers TakenOver TakeoverOfHeld;
        PROTOCOL_VIOLATION, Limit, no: ManySockets;
        PROTOCOL_VIOLATION, Machine, yes: HandOver;
        FEATURE_NOT_SUPPORTED, Client, no: ReplicationOfConsole NoBlocks StatementChanged NotOfOneShard OtherShard;
        T_R_SERIALIZATION_FAILURE, Server, yes: MapChanged;
        IN_FAILED_SQL_TRANSACTION, Client, no: TransactionFailed;
        CONFIG_FILE_ERROR, Administrator, no: NoShardEntry;
        CANNOT_CONNECT_NOW, Server, yes: NoShardMap;
        INVALID_PARAMETER_VALUE, Client, no: Replication NoShard ShardingKey;
        UNTRANSLATABLE_CHARACTER, Client, no: NotificationEncoding;
        IDLE_IN_TRANSACTION_SESSION_TIMEOUT, Limit, no: IdleTransactionTimeout;
        TRANSACTION_TIMEOUT, Limit, no: TransactionTimeout;
        INVALID_SQL_STATEMENT_NAME, Client, no: NoPrepared;
        INVALID_AUTHORIZATION_SPECIFICATION, Client, no: NoUser NotInPool TlsRequired Hba Trust Certificate Peer;
        INVALID_PASSWORD, Client, no: Password;
        INVALID_CURSOR_NAME, Client, no: NoPortal;
        INVALID_CATALOG_NAME, Client, no: NoDatabase NoReplication;
        INVALID_CATALOG_NAME, Administrator, no: DatabaseGone;
        INSUFFICIENT_PRIVILEGE, Client, no: NotOnConsole;
        TOO_MANY_CONNECTIONS, Limit, yes: LookupsFull Full FullForUser FullForDatabase PoolFull NoRoom;
        TOO_MANY_CONNECTIONS, Administrator, yes: Paused;
        TOO_MANY_CONNECTIONS, Server, yes: NoServer NoMore;
        CONFIGURATION_LIMIT_EXCEEDED, Client, no: NotificationsFull;
        // Who has cancelled a statement does not want it again.
        QUERY_CANCELED, Client, no: Cancelled;
        QUERY_CANCELED, Limit, no: QueryTimeout;
        QUERY_CANCELED, Administrator, no: PauseEnded;
        // These are told to clients that have nothing under way.
        ADMIN_SHUTDOWN, Administrator, yes: Ending FastClose;
        ADMIN_SHUTDOWN, Limit, yes: PoolUnused;
        ADMIN_SHUTDOWN, Server, yes: ListenerLost;
        ADMIN_SHUTDOWN, Administrator, no: NotAtRest Killed KilledClient UserGone;
        CANNOT_CONNECT_NOW, Server, yes: NoServerForLogin NoneMade;
        CANNOT_CONNECT_NOW, Administrator, yes: Disabled;
        IDLE_SESSION_TIMEOUT, Limit, yes: IdleTimeout;
        SYSTEM_ERROR, Machine, yes: Random;
        CONFIG_FILE_ERROR, Client, no: Configuration;
        // These have the SQLSTATE of the server, or of the reason. A read has changed nothing.
        SUCCESSFUL_COMPLETION, Server, yes: Unreachable CannotConnect Failing NotPrepared LostInRead;
        SUCCESSFUL_COMPLETION, Server, no: Lost LostInTransaction OutcomeUnknown ReplicationLost;
        SUCCESSFUL_COMPLETION, Client, no: StartupRefused SettingsRefused;
        SUCCESSFUL_COMPLETION, Limit, yes: Waited;
    }

    /// The error for a statement that is not proved to be of one shard.
    pub fn unsharded(reason: &sharding::Reason) -> Self {
        Self::NotOfOneShard { why: reason.to_string(), hint: reason.hint() }
    }

    /// Its SQLSTATE.
    pub fn sqlstate(&self) -> &str {
        match self {
            Self::Waited { why, .. } => why.sqlstate(),
            Self::StartupRefused(cause)
            | Self::Unreachable(cause)
            | Self::CannotConnect(cause)
            | Self::Failing(cause)
            | Self::NotPrepared(cause)
            | Self::SettingsRefused(cause)
            | Self::Lost(cause)
            | Self::LostInTransaction(cause)
            | Self::LostInRead(cause)
            | Self::OutcomeUnknown(cause)
            | Self::ReplicationLost(cause) => &cause.sqlstate,
            other => other.facts().sqlstate,
        }
    }

    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Waited { why, .. } => why.blame(),
            other => other.facts().blame,
        }
    }

    /// Whether the same login or statement may succeed when it is asked again, and nothing of it was done. Where the
    /// client is closed, it has to connect again first.
    pub fn may_retry(&self) -> bool {
        self.facts().may_retry
    }

    /// What may help, where its words do not say so.
    pub fn hint(&self) -> Option<&'static str> {
        Some(match self {
            Self::Waited { why, .. } => return why.hint(),
            Self::Parameter(_) | Self::Options(_) => "ignore_startup_parameters lists the parameters to ignore",
            Self::TlsRequired => "connect with sslmode=require",
            Self::NoDatabase(_) => {
                "add the database to the pooler's configuration; the entry \"*\" stands for all other databases"
            }
            Self::NoReplication(_) => {
                "physical replication that names no database uses the entry \"replication\" of the configuration, or \"*\""
            }
            Self::Disabled(_) => "ENABLE on the console opens the database again",
            Self::Paused(_) => "RESUME on the console lets the clients of the database go on",
            Self::PoolFull { .. } => {
                "SHOW POOLS and SHOW CLIENTS on the console show the waiting and the pinned clients; default_pool_size sets the size of pools"
            }
            Self::NoRoom { .. } => {
                "SHOW SERVERS on the console shows the server connections and the clients that have them"
            }
            Self::OutcomeUnknown(_) => "check whether the statement was executed before you repeat it",
            Self::NotOfOneShard { hint, .. } => hint,
            Self::OtherShard(_) => "end the transaction, and write the rows of each shard in one of their own",
            Self::MapChanged(_) => "repeat the transaction",
            Self::NoShardEntry(_) => "add it to `shards` of the database, and an entry of this name for its servers",
            Self::NoBlocks => "pool_mode = transaction allows transaction blocks",
            Self::StatementChanged => {
                "the tables of the statement have changed since it was prepared: prepare it again"
            }
            Self::QueryTimeout | Self::TransactionTimeout | Self::IdleTransactionTimeout | Self::IdleTimeout => {
                "the message names a setting of the pooler; SHOW CONFIG on the pooler's console shows its value"
            }
            Self::NotAdmin => {
                "admin_users lists the users that may run all commands, and stats_users lists the users that may run only SHOW"
            }
            Self::NoSetting(_) => "SHOW CONFIG lists all settings",
            Self::FixedSetting(_) => {
                "the setting changes when the pooler is restarted, or when a new process takes over (-R)"
            }
            _ => return None,
        })
    }

    /// Writes it to a client.
    pub fn write(&self, out: &mut Vec<u8>, severity: Severity) {
        // Drivers that prepare the statement again know PostgreSQL's error by its routine or by its words.
        let routine = matches!(self, Self::StatementChanged).then_some("RevalidateCachedQuery");
        let extra = backend::Extra { hint: self.hint(), routine };
        backend::write_error_with(out, severity.word(), self.sqlstate(), &self.to_string(), extra);
    }
}

/// What an error means for the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// It stays.
    Error,
    /// It is closed.
    Fatal,
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Fatal => "FATAL",
        }
    }
}

impl From<wire::Error> for Error {
    fn from(error: wire::Error) -> Self {
        match error {
            wire::Error::Random => Self::Random,
            other => Self::Protocol(other),
        }
    }
}

#[cfg(test)]
mod tests;
