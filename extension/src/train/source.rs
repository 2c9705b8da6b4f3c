//! Where the rows of a training come from: a relation, named as SQL names it, or a query in parentheses.

use pgrx::{PgSqlErrorCode, pg_sys};

use super::cursor;
use crate::access;
use crate::error::{Error, Result};
use crate::registry;

/// A relation or a query, found.
#[derive(Debug, Clone)]
pub struct Source {
    /// What is stored in `pgml.snapshots.relation_name`: the qualified name, which means the same whatever the
    /// search_path, or the query.
    pub name: String,
    /// The statement that gives all of its rows.
    pub statement: String,
    /// The relation, unless it is a query.
    pub relation: Option<pg_sys::Oid>,
}

impl Source {
    /// Finds a relation by its name, as SQL would in a FROM clause, or takes a query in parentheses as it is.
    pub fn resolve(relation_name: &str) -> Result<Source> {
        let text = relation_name.trim();
        if text.starts_with('(') {
            return Source::query(&without_semicolons(text));
        }
        let relation = find(text)?;
        Source::relation(relation)
    }

    fn query(text: &str) -> Result<Source> {
        if !text.ends_with(')') {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_SYNTAX_ERROR,
                "a query as relation_name must be in parentheses from its beginning to its end",
            )
            .hint("Write relation_name => '(SELECT ...)'."));
        }
        // A query in parentheses is a statement by itself; that it is a single one and only reads is checked where it
        // is planned.
        Ok(Source { name: text.to_owned(), statement: text.to_owned(), relation: None })
    }

    /// Whether the current role may read what `owner` has named: what another role has named, a query above all, is not run
    /// unseen with the rights of this one, since it could do what this role may do. A plain table does nothing when it is read.
    pub fn may_be_read_for(&self, owner: pg_sys::Oid) -> Result<bool> {
        if access::role_acts_as(owner, access::user()) {
            return Ok(true);
        }
        if self.relation.is_none() {
            return Ok(false);
        }
        // Locks what the name means, which is looked at only then.
        cursor::describe(&self.statement)?;
        Ok(Source::resolve(&self.name)?.is_plain_table())
    }

    /// Whether reading it runs nothing but the server's own code: it is a table, without policies.
    pub fn is_plain_table(&self) -> bool {
        let Some(relation) = self.relation else { return false };
        // SAFETY: a relation that was found, opened and closed under the lock of a reader.
        unsafe {
            let lock = pg_sys::AccessShareLock as pg_sys::LOCKMODE;
            let open = pg_sys::try_relation_open(relation, lock);
            if open.is_null() {
                return false;
            }
            let class = &*(*open).rd_rel;
            let plain = matches!(class.relkind as u8, b'r' | b'p' | b'm') && !class.relrowsecurity;
            pg_sys::relation_close(open, lock);
            plain
        }
    }

    /// The relation of that oid.
    pub fn relation(relation: pg_sys::Oid) -> Result<Source> {
        let kind = registry::relation_kind(relation)?;
        if !matches!(kind, b'r' | b'v' | b'm' | b'f' | b'p') {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE,
                format!("\"{}\" has no rows to learn from", registry::relation_name(relation)?),
            )
            .hint("Give a table, a view, or a query in parentheses."));
        }
        let name = registry::relation_name(relation)?;
        Ok(Source { statement: format!("SELECT * FROM {name}"), name, relation: Some(relation) })
    }
}

/// A query in parentheses without the semicolons that stand behind it, where it was copied from a script: within the parentheses
/// or after them.
fn without_semicolons(text: &str) -> String {
    let bare = |text: &str| text.trim_end_matches(|letter: char| letter == ';' || letter.is_whitespace()).to_owned();
    let outer = bare(text);
    match outer.strip_suffix(')') {
        Some(inner) if inner.trim_end().ends_with(';') => format!("{})", bare(inner)),
        _ => outer,
    }
}

/// The oid of the relation of that name, found as in a FROM clause: by the search_path, quotes and case folding.
fn find(text: &str) -> Result<pg_sys::Oid> {
    use pgrx::IntoDatum;

    let missing = |name: &str| {
        let bare = name.replace('"', "");
        let error = Error::new(PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE, format!("relation \"{bare}\" does not exist"));
        match name.split_whitespace().next() {
            Some(first) if first.eq_ignore_ascii_case("select") || first.eq_ignore_ascii_case("with") => {
                error.hint("Put a query in parentheses: relation_name => '(SELECT ...)'.")
            }
            _ => error,
        }
    };
    // As RangeVarGetRelid finds it; InvalidOid where there is none.
    let look_up = |text: &str| {
        // SAFETY: a text datum in the current memory context; the functions raise their own ERRORs for what is no name.
        unsafe {
            let text = text.into_datum().unwrap_or(pg_sys::Datum::from(0)).cast_mut_ptr::<pg_sys::text>();
            let names = pg_sys::textToQualifiedNameList(text);
            let variable = pg_sys::makeRangeVarFromNameList(names);
            pg_sys::RangeVarGetRelidExtended(
                variable,
                pg_sys::NoLock as pg_sys::LOCKMODE,
                pg_sys::RVROption::RVR_MISSING_OK,
                None,
                std::ptr::null_mut(),
            )
        }
    };
    let quoted = |text: &str| format!("\"{}\"", text.replace('.', "\".\""));
    let hinted = |text: &str| match !text.is_empty() && !text.contains('"') && text.split('.').count() <= 2 {
        true if !text.split('.').any(str::is_empty) && look_up(&quoted(text)) != pg_sys::InvalidOid => missing(text)
            .hint(format!("PostgreSQL folds names to lower case: write '{}', with double quotes.", quoted(text))),
        _ => missing(text),
    };
    if text.is_empty() || text.contains(char::is_whitespace) && !text.contains('"') {
        return Err(hinted(text));
    }
    let relation = look_up(text);
    if relation == pg_sys::InvalidOid { Err(hinted(text)) } else { Ok(relation) }
}
