//! The functions, operators, types and relations of a database.
//!
//! A name without a schema stands for all objects of that name in any schema, and the worst of them decides: so no
//! `search_path` can make a statement worse than its verdict. Verdicts rest on one generation of the catalog and are
//! computed afresh under another.
//!
//! **How stale it may be.** A pooler compares [`Catalog::FINGERPRINT`] every few seconds and reads the catalog again when it
//! has changed; from a definition (`is_ddl`) that it sees until then it judges without a catalog's help. What was created
//! since is unknown, and the unknown is a write. What remains is a name known as harmless that is replaced by something
//! worse without the pooler seeing it (`CREATE OR REPLACE VIEW`, `ALTER FUNCTION ... VOLATILE`, straight at the server): for
//! those few seconds it may run on a replica, or share a connection. Both run it in read-only transactions, so that it can
//! write nothing, and not twice: it fails (25006) and is done as a write. What it may leave in its session is not undone.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far a function may be trusted; ordered from best to worst.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Volatility {
    /// The same for the same arguments for ever.
    Immutable,
    /// The same within a statement, and changes nothing.
    Stable,
    /// Anything.
    Volatile,
}

/// A function of some name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Function {
    /// The worst of all of this name.
    pub volatility: Volatility,
    /// One of them can be called with one argument, so `t.name` may be a call of it.
    pub attribute: bool,
    /// All of them are in `pg_catalog`.
    pub system: bool,
    /// Calling it may leave anything in the session.
    pub opaque: bool,
}

/// What a relation is to a read of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Access {
    /// Reading it runs nothing but what its definition says (none for a table without row security).
    Plain,
    /// A view of PostgreSQL's own.
    System,
    /// A sequence: what it says of its last value is not replayed number by number.
    Sequence,
    /// An unlogged table, or one that has such a partition or child: a replica has none.
    Unlogged,
    /// A foreign table, or one that has such a partition or child.
    Foreign,
    /// Reading it runs something volatile that has no text: the output of a column's type.
    Unsafe,
}

/// A relation, or a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// How it is read.
    pub access: Access,
    /// Writing to it runs functions of users: triggers, rules, defaults, checks, or those of a table that it reaches.
    pub fires: bool,
    /// SQL to be judged in its place, beside or instead of it: a view's query, a table's policies, a domain's checks.
    pub definition: Option<Box<str>>,
}

/// One row of [`Catalog::QUERY`]: kind, schema, name, flag, definition (empty if none). What the flag and the definition
/// mean is up to the kind; the query's text tells.
pub type Row<'a> = [&'a str; 5];

/// A row that [`Catalog::QUERY`] does not make.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(
    /// The row, for the log.
    pub String,
);

impl std::fmt::Display for Malformed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a row of the catalog could not be read: {}", self.0)
    }
}

impl std::error::Error for Malformed {}

type ByName<T> = HashMap<Box<str>, HashMap<Box<str>, T>>;

/// A snapshot of a database's catalog. Made once, shared by all that judge.
#[derive(Debug, Default)]
pub struct Catalog {
    generation: u64,
    version: u32,
    poisoned: bool,
    acting_types: bool,
    functions: ByName<Function>,
    operators: HashMap<Box<str>, Volatility>,
    types: ByName<Entry>,
    relations: ByName<Entry>,
}

static GENERATION: AtomicU64 = AtomicU64::new(1);

/// A definition longer than this is not kept: who reads such a view writes.
const MAX_DEFINITION: usize = 64 * 1024;

impl Catalog {
    /// Asks a server of version 13 to 18 for its catalog: five columns of text, never null. Any user may run it.
    pub const QUERY: &str = include_str!("catalog.sql");

    /// Asks for one text that is another after whatever may change what [`Catalog::QUERY`] answers. It takes a tenth of
    /// the time.
    pub const FINGERPRINT: &str = include_str!("fingerprint.sql");

    /// What a transaction begins with in which these are asked, whatever the session was set to: nobody's objects stand
    /// for PostgreSQL's own, compiling the query does not take ten times as long as running it, and what holds a table
    /// that a view is on is not waited for so long that the server takes it for a deadlock.
    pub const BEGIN: &str = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; \
        SET LOCAL search_path = pg_catalog, pg_temp; SET LOCAL jit = off; SET LOCAL client_encoding = 'UTF8'; \
        SET LOCAL lock_timeout = '500ms'; SET LOCAL statement_timeout = '60s'; \
        SET LOCAL idle_in_transaction_session_timeout = '60s'";

    /// A catalog from the rows that [`Catalog::QUERY`] gave.
    ///
    /// # Errors
    /// [`Malformed`], with the row that is not one of the query's.
    pub fn from_rows<'a>(rows: impl IntoIterator<Item = Row<'a>>) -> Result<Self, Malformed> {
        let mut catalog = Self { generation: GENERATION.fetch_add(1, Ordering::Relaxed), ..Self::default() };
        for row in rows {
            catalog.add(row).ok_or_else(|| Malformed(format!("{row:?}")))?;
        }
        if catalog.version == 0 {
            return Err(Malformed("no row tells the server's version".to_owned()));
        }
        Ok(catalog)
    }

    fn add(&mut self, [kind, schema, name, flag, definition]: Row<'_>) -> Option<()> {
        let volatility = match flag.as_bytes().first() {
            Some(b'i') => Volatility::Immutable,
            Some(b's') => Volatility::Stable,
            _ => Volatility::Volatile,
        };
        match kind {
            "version" => self.version = name.parse().ok()?,
            "poison" => self.poisoned = true,
            "function" => {
                let system = schema == "pg_catalog";
                let opaque = volatility == Volatility::Volatile && !system;
                let function = Function { volatility, attribute: flag.contains('1'), system, opaque };
                self.functions.entry(name.into()).or_default().insert(schema.into(), function);
            }
            "operator" => {
                let known = self.operators.entry(name.into()).or_insert(volatility);
                *known = volatility.max(*known);
            }
            "type" | "relation" => {
                let too_long = definition.len() > MAX_DEFINITION;
                let access = match flag {
                    _ if too_long => Access::Unsafe,
                    "plain" => Access::Plain,
                    "system" => Access::System,
                    "sequence" => Access::Sequence,
                    "unlogged" => Access::Unlogged,
                    "foreign" => Access::Foreign,
                    "unsafe" => Access::Unsafe,
                    _ => return None,
                };
                self.acting_types |= kind == "type" && (access == Access::Unsafe || leaves_traces(definition));
                let definition = (!definition.is_empty() && !too_long).then(|| definition.into());
                let into = if kind == "type" { &mut self.types } else { &mut self.relations };
                into.entry(name.into()).or_default().insert(schema.into(), Entry { access, fires: false, definition });
            }
            // They follow the relations.
            "fires" => {
                if let Some(entry) = self.relations.get_mut(name).and_then(|schemas| schemas.get_mut(schema)) {
                    entry.fires = true;
                }
            }
            _ => return None,
        }
        Some(())
    }

    /// Unlike that of any other catalog of this process; zero if it was not loaded.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// Whether it was made from rows.
    pub fn is_loaded(&self) -> bool {
        self.generation != 0
    }

    /// The server's version as a number, such as 180001.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// Some operator class or family runs a volatile function, so that even sorting might.
    pub fn is_poisoned(&self) -> bool {
        self.poisoned
    }

    /// Whether the values of some type may run what writes or leaves traces in a session: volatile functions of its input
    /// or output, of a cast, or of a domain's checks. So it may where a parameter has a type by its number alone.
    pub fn has_acting_types(&self) -> bool {
        !self.is_loaded() || self.acting_types
    }

    /// The function of a name, the worst if several are meant.
    pub fn function(&self, schema: Option<&str>, name: &str) -> Option<Function> {
        self.functions.get(name).and_then(|schemas| {
            schemas
                .iter()
                .filter(|(known, _)| schema.is_none_or(|schema| schema == known.as_ref()))
                .map(|(_, &function)| function)
                .reduce(|one, two| Function {
                    volatility: one.volatility.max(two.volatility),
                    attribute: one.attribute || two.attribute,
                    system: one.system && two.system,
                    opaque: one.opaque || two.opaque,
                })
        })
    }

    /// The worst function behind the operators of a name.
    pub fn operator(&self, name: &str) -> Option<Volatility> {
        self.operators.get(name).copied()
    }

    /// All types that a name may mean.
    pub fn types(&self, schema: Option<&str>, name: &str) -> impl Iterator<Item = &Entry> {
        named(&self.types, schema, name)
    }

    /// All relations that a name may mean.
    pub fn relations(&self, schema: Option<&str>, name: &str) -> impl Iterator<Item = &Entry> {
        named(&self.relations, schema, name)
    }
}

/// Whether the checks of a domain may call a function of PostgreSQL's own that leaves traces in a session.
fn leaves_traces(checks: &str) -> bool {
    ["set_config", "setseed", "advisory", "replication_origin"].iter().any(|name| checks.contains(name))
}

fn named<'a>(by_name: &'a ByName<Entry>, schema: Option<&str>, name: &str) -> impl Iterator<Item = &'a Entry> {
    by_name
        .get(name)
        .into_iter()
        .flatten()
        .filter(move |(known, _)| schema.is_none_or(|schema| schema == known.as_ref()))
        .map(|(_, entry)| entry)
}
