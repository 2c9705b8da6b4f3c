//! The verdict on a statement.

use std::sync::Arc;

use crate::configure::Configured;
use crate::normalized::Normalized;
use crate::pinning::Reasons;
use crate::shape::Route;

/// What a pooler needs to know of one Query or Parse.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What it is. Several statements that are not all reads are a [`Kind::Write`].
    pub kind: Kind,
    /// How many statements it holds; zero for an empty one or comments alone.
    pub statements: u32,
    /// What each of them is, if it holds several and they could be parsed.
    pub each: Vec<Kind>,
    /// Proven to change nothing, and to mean the same on a replica and in a read-only transaction. True for reads, and for `COPY (read) TO STDOUT`,
    /// `EXPLAIN read` and `DECLARE ... FOR read`.
    pub read_only: bool,
    /// Whether it may share a connection with others in flight, or why not.
    pub pipelinable: Result<(), Reason>,
    /// It may leave these things, which cannot be carried to another server.
    pub pins: Reasons,
    /// Those that it may leave beside what a LISTEN in its text does.
    pub pins_beside_listen: Reasons,
    /// It may end a reason for which its session is pinned, or not have begun one of its own: it releases locks, drops,
    /// discards or deallocates things, runs functions of users.
    pub unpins: bool,
    /// Its calls of `set_config` for the session that the server knows the parameter or the value of.
    pub configures: Vec<Configured>,
    /// Its SET is a call of `set_config`, so a query.
    pub is_call: bool,
    /// It may change parameters of the session in a way that its text does not tell: `set_config`, SET among other
    /// statements, DO, CALL, what could not be parsed.
    pub dirties: bool,
    /// It may change parameters that PostgreSQL reads statements by, in a way that its text does not tell: it dirties or
    /// is opaque, and does more than to call `set_config` on a parameter with a dot in its name, which is a user's own.
    pub unsettles: bool,
    /// It may leave anything in its session that its text does not show (parameters, temporary objects, LISTEN, cursors,
    /// locks): it runs functions of users that are not known to be harmless, DO, CALL, EXECUTE, a definition, what the
    /// catalog does not know, what could not be parsed.
    pub opaque: bool,
    /// It leaves what nothing undoes but the end of the session: the state of `random()`, a replication origin, a temporary
    /// replication slot, a backup, a library that was loaded.
    pub lasting: bool,
    /// It holds transaction control (BEGIN, COMMIT, SAVEPOINT ...), alone or among others.
    pub transaction: bool,
    /// It may change the catalog that verdicts rest on: ask for it again when it has been committed.
    pub is_ddl: bool,
    /// It names what the catalog does not know: asking for the catalog again may change the verdict.
    pub stale: bool,
    /// Where its comment asks to be sent.
    pub route: Option<Route>,
    /// The shape's key; none if it has no shape and was judged by itself.
    pub shape: Option<u128>,
    /// The text of all statements of the shape, if they could be parsed.
    pub normalized: Option<Arc<Normalized>>,
    /// The generation of the catalog that it rests on.
    pub generation: u64,
}

impl Verdict {
    /// What the statement in this place is, the first in place 0, if that is known.
    pub fn kind_of(&self, place: usize) -> Option<&Kind> {
        if self.statements == 1 { (place == 0).then_some(&self.kind) } else { self.each.get(place) }
    }

    /// Whether it touches the state of its session, or may: a SET or RESET, what pins or dirties, what is opaque.
    pub fn session(&self) -> bool {
        self.pins.any() || self.dirties || self.opaque || self.sets()
    }

    /// Whether it is a SET, RESET or DISCARD of the session.
    pub(crate) fn sets(&self) -> bool {
        match &self.kind {
            Kind::Set(sets) => sets.iter().any(|set| !set.local),
            kind => matches!(kind, Kind::Reset { .. } | Kind::Discard(_)),
        }
    }
}

/// The kinds of statements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Proven read-only.
    Read,
    /// It writes, or was not proven not to.
    Write,
    /// BEGIN or START TRANSACTION.
    Begin(Modes),
    /// COMMIT or END; `chain` for AND CHAIN.
    Commit {
        /// AND CHAIN: another transaction begins at once.
        chain: bool,
    },
    /// ROLLBACK or ABORT.
    Rollback {
        /// AND CHAIN: another transaction begins at once.
        chain: bool,
    },
    /// SAVEPOINT, by its name.
    Savepoint(String),
    /// ROLLBACK TO SAVEPOINT.
    RollbackTo(String),
    /// RELEASE SAVEPOINT.
    Release(String),
    /// PREPARE TRANSACTION, COMMIT PREPARED, ROLLBACK PREPARED.
    TwoPhase,
    /// SET of a parameter; of several by SET SESSION CHARACTERISTICS alone.
    Set(Vec<Set>),
    /// SET TRANSACTION, or SET or RESET of a parameter such as `transaction_read_only`: for the transaction that is
    /// open, nothing outside of one.
    SetTransaction(Modes),
    /// RESET of one parameter (in lower case), or of all but the role and the session's authorization.
    Reset {
        /// None: RESET ALL.
        name: Option<String>,
    },
    /// SHOW, of a parameter in lower case, or of `all`.
    Show(String),
    /// DISCARD.
    Discard(Discard),
    /// PREPARE, by its name.
    Prepare(String),
    /// EXECUTE.
    Execute(String),
    /// DEALLOCATE; none for ALL.
    Deallocate(Option<String>),
    /// DECLARE CURSOR.
    Declare {
        /// The cursor.
        name: String,
        /// WITH HOLD: it outlives its transaction.
        hold: bool,
    },
    /// FETCH or MOVE.
    Fetch(String),
    /// CLOSE; none for ALL.
    Close(Option<String>),
    /// LISTEN, by its channel.
    Listen(String),
    /// UNLISTEN; none for all channels.
    Unlisten(Option<String>),
    /// NOTIFY.
    Notify,
    /// COPY.
    Copy {
        /// COPY FROM: rows go into the server.
        from: bool,
        /// STDIN or STDOUT: rows go over the connection.
        wire: bool,
    },
    /// LOCK TABLE.
    Lock,
    /// EXPLAIN, with ANALYZE or without.
    Explain,
    /// A command to the pooler itself, never for a server.
    Pooler(Command),
    /// Any other utility statement: a write.
    Utility,
}

/// The modes that BEGIN and SET TRANSACTION may name; none where they do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modes {
    /// READ ONLY or READ WRITE.
    pub read_only: Option<bool>,
    /// ISOLATION LEVEL.
    pub isolation: Option<Isolation>,
    /// DEFERRABLE or NOT DEFERRABLE.
    pub deferrable: Option<bool>,
}

/// Isolation levels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Isolation {
    /// READ UNCOMMITTED, which PostgreSQL takes as READ COMMITTED.
    ReadUncommitted,
    /// READ COMMITTED.
    ReadCommitted,
    /// REPEATABLE READ.
    RepeatableRead,
    /// SERIALIZABLE.
    Serializable,
}

impl Isolation {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "read uncommitted" => Self::ReadUncommitted,
            "read committed" => Self::ReadCommitted,
            "repeatable read" => Self::RepeatableRead,
            "serializable" => Self::Serializable,
            _ => return None,
        })
    }
}

/// A SET.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Set {
    /// The parameter as the server calls it, in lower case: `search_path` for SET SCHEMA, `client_encoding` for SET
    /// NAMES, `timezone` for SET TIME ZONE, `xmloption`, `role`, `session_authorization`,
    /// `default_transaction_read_only` for SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY.
    pub name: String,
    /// SET LOCAL.
    pub local: bool,
    /// Its value.
    pub value: Value,
    /// The statement in canonical text, to be done again on another server; it reads the same whatever
    /// `standard_conforming_strings` is there.
    pub statement: String,
}

impl Set {
    pub(crate) fn new(name: String, local: bool, value: Value, canonical: &str) -> Self {
        Self { name, local, value, statement: canonical.trim_end().to_owned() }
    }
}

/// What a parameter is set to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// DEFAULT.
    Default,
    /// As `set_config` would take it; the members of a list are joined by `, `.
    Text(String),
    /// Not a plain value (`SET TIME ZONE INTERVAL ...`); see [`Set::statement`].
    Other,
}

/// What DISCARD discards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Discard {
    /// ALL
    All,
    /// PLANS
    Plans,
    /// SEQUENCES
    Sequences,
    /// TEMP
    Temp,
}

/// Commands to the pooler, in PgCat's words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Command {
    /// `SET SERVER ROLE TO '...'`
    SetServerRole(Role),
    /// `SHOW SERVER ROLE`
    ShowServerRole,
    /// `SET PRIMARY READS TO on|off|default`; none for default.
    SetPrimaryReads(Option<bool>),
    /// `SHOW PRIMARY READS`
    ShowPrimaryReads,
    /// `SET READ YOUR WRITES TO session|database|off|default`; none for default.
    SetReadYourWrites(Option<Consistency>),
    /// `SHOW READ YOUR WRITES`
    ShowReadYourWrites,
}

/// Which commits a read must see, though a replica serves it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consistency {
    /// Those of its own session.
    Session,
    /// Those of all sessions.
    Database,
    /// None.
    Off,
}

/// The values of SET SERVER ROLE.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// All to the primary.
    Primary,
    /// All to replicas.
    Replica,
    /// Anywhere.
    Any,
    /// By what the statement is.
    Auto,
    /// As configured.
    Default,
}

/// Why a statement may not share a connection with others in flight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// It writes.
    Write,
    /// It calls a volatile function, or an operator, cast or type that does.
    VolatileFunction(String),
    /// It calls a function that is not in the catalog.
    UnknownFunction(String),
    /// Likewise an operator.
    UnknownOperator(String),
    /// Likewise a type.
    UnknownType(String),
    /// It reads a relation that is not in the catalog: created since, or a temporary one.
    UnknownRelation(String),
    /// It reads a view, or a table with row security, whose text could not be judged.
    View(String),
    /// It reads a view of the server's own state or of the session's.
    SystemView(String),
    /// It asks for what differs between servers by nature.
    ServerState(String),
    /// It reads a foreign table.
    ForeignTable(String),
    /// It reads an unlogged table, which replicas do not have.
    UnloggedTable(String),
    /// FOR UPDATE and its kin.
    LockingClause,
    /// Several statements.
    MultiStatement,
    /// It touches the state of its session.
    SessionState,
    /// BEGIN, COMMIT and their kin.
    TransactionControl,
    /// Another statement than a query.
    Utility,
    /// Syntax newer than the server.
    NewerSyntax,
    /// Syntax that this library does not understand.
    Unfamiliar,
    /// The lexer refused it.
    Unlexable,
    /// PostgreSQL's grammar refused it.
    Unparsable,
    /// Not UTF-8 outside its literals.
    Encoding,
    /// Too much text without its literals.
    TooLong,
    /// Nested too deep.
    TooDeep,
    /// The catalog has not been read.
    CatalogNotLoaded,
    /// Several equal functions of one-argument form could be meant: attribute notation of a volatile one.
    AttributeFunction(String),
}

impl Reason {
    /// A word for metrics.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::VolatileFunction(_) => "volatile_function",
            Self::UnknownFunction(_) => "unknown_function",
            Self::UnknownOperator(_) => "unknown_operator",
            Self::UnknownType(_) => "unknown_type",
            Self::UnknownRelation(_) => "unknown_relation",
            Self::View(_) => "view",
            Self::SystemView(_) => "system_view",
            Self::ServerState(_) => "server_state",
            Self::ForeignTable(_) => "foreign_table",
            Self::UnloggedTable(_) => "unlogged_table",
            Self::LockingClause => "locking_clause",
            Self::MultiStatement => "multi_statement",
            Self::SessionState => "session_state",
            Self::TransactionControl => "transaction_control",
            Self::Utility => "utility",
            Self::NewerSyntax => "newer_syntax",
            Self::Unfamiliar => "unfamiliar",
            Self::Unlexable => "unlexable",
            Self::Unparsable => "unparsable",
            Self::Encoding => "encoding",
            Self::TooLong => "too_long",
            Self::TooDeep => "too_deep",
            Self::CatalogNotLoaded => "catalog_not_loaded",
            Self::AttributeFunction(_) => "attribute_function",
        }
    }

    /// What it is about: the name of a function, relation, type or operator.
    pub fn subject(&self) -> Option<&str> {
        match self {
            Self::VolatileFunction(name)
            | Self::UnknownFunction(name)
            | Self::UnknownOperator(name)
            | Self::UnknownType(name)
            | Self::UnknownRelation(name)
            | Self::View(name)
            | Self::SystemView(name)
            | Self::ServerState(name)
            | Self::ForeignTable(name)
            | Self::UnloggedTable(name)
            | Self::AttributeFunction(name) => Some(name),
            _ => None,
        }
    }
}
