//! The class of a SQL statement for a pooler: whether it is a read or a write, its effects on the session, and whether
//! it may share a connection with statements of other clients.
//!
//! A statement is known by its [`shape`]: its tokens, literals reduced to their kinds. Each shape is parsed once, by
//! PostgreSQL's own grammar, and judged by the entries of the [`Catalog`] of its database for the functions, operators,
//! types and relations that it names. A statement that the grammar does not accept, or that names an unknown object, is
//! a write. No I/O, no clock: the pooler runs [`Catalog::QUERY`] in a transaction that begins with [`Catalog::BEGIN`]
//! and hands in its rows.
//!
//! ```
//! use std::sync::Arc;
//! use classify::{Catalog, Classifier, Kind};
//!
//! let rows = [
//!     ["version", "", "180001", "", ""],
//!     ["relation", "public", "accounts", "plain", ""],
//!     ["operator", "", "=", "s", ""],
//! ];
//! let mut classifier = Classifier::new(1000);
//! classifier.set_catalog(Arc::new(Catalog::from_rows(rows)?));
//! let verdict = classifier.classify(b"SELECT balance FROM accounts WHERE id = 7", true);
//! assert_eq!((&verdict.kind, verdict.pipelinable.is_ok()), (&Kind::Read, true));
//! let verdict = classifier.classify(b"SELECT balance FROM accounts WHERE id = 7 FOR UPDATE", true);
//! assert_eq!(verdict.pipelinable.as_ref().unwrap_err().label(), "locking_clause");
//! # Ok::<(), classify::Malformed>(())
//! ```

pub mod builtin;
pub mod catalog;
mod classifier;
mod command;
pub mod configure;
mod judge;
mod normalized;
pub mod parameter;
pub mod pinning;
pub mod server_state;
pub mod shape;
mod statement;
pub mod verdict;

pub use catalog::{Catalog, Malformed};
pub use classifier::{Classifier, Same};
pub use normalized::Normalized;
pub use pinning::Reasons;
pub use shape::Route;
pub use statement::Words;
pub use verdict::{Command, Consistency, Discard, Isolation, Kind, Modes, Reason, Role, Set, Value, Verdict};

use pg_query::Node;

/// Whether text in a client encoding can be lexed byte by byte: not where a byte below 128 can be the second of a
/// character, as a backslash can in Shift JIS. Such a client's statements are [`Classifier::opaque`], with
/// [`Reason::Encoding`].
pub fn lexable_encoding(client_encoding: &str) -> bool {
    let plain: String = client_encoding.chars().filter(char::is_ascii_alphanumeric).collect();
    !matches!(
        plain.to_ascii_lowercase().as_str(),
        "sjis"
            | "mskanji"
            | "shiftjis"
            | "win932"
            | "windows932"
            | "shiftjis2004"
            | "big5"
            | "win950"
            | "windows950"
            | "gbk"
            | "win936"
            | "windows936"
            | "uhc"
            | "win949"
            | "windows949"
            | "gb18030"
            | "johab"
    )
}

/// Whether a text holds statements that SET parameters of the session, and nothing else.
pub fn only_sets(sql: &str) -> bool {
    use pg_query::protobuf::VariableSetKind;
    let sets = |node: &Node| match &node.node {
        Some(pg_query::NodeEnum::VariableSetStmt(set)) => {
            !set.is_local && matches!(set.kind(), VariableSetKind::VarSetValue | VariableSetKind::VarSetDefault)
        }
        _ => false,
    };
    parse(sql).is_ok_and(|parsed| !parsed.is_empty() && parsed.iter().all(|one| sets(&one.node)))
}

/// A statement within a text.
struct Parsed<'a> {
    node: Node,
    /// Its own part of the text.
    text: &'a str,
}

/// The statements of a text, by PostgreSQL's grammar.
fn parse(text: &str) -> Result<Vec<Parsed<'_>>, Reason> {
    match pg_query::parse(text, 0) {
        Ok(result) => Ok(result
            .protobuf
            .stmts
            .into_iter()
            .map(|raw| {
                let from = usize::try_from(raw.stmt_location).unwrap_or(0);
                let part = text.get(from..).unwrap_or(text);
                // The last goes to the end of the text, with a length of zero.
                let length = usize::try_from(raw.stmt_len).ok().filter(|length| *length > 0);
                let text = length.and_then(|length| part.get(..length)).unwrap_or(part);
                Parsed { node: raw.stmt.map_or(Node { node: None }, |node| *node), text: text.trim() }
            })
            .collect()),
        // The decoder of trees stops at a depth of its own.
        Err(pg_query::Error::Decode(_)) => Err(Reason::TooDeep),
        Err(_) => Err(Reason::Unparsable),
    }
}
