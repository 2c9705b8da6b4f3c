//! What a statement does to the state of its session, as far as its text shows it.
//!
//! The rule, told to users in the guide: a single `SET` or `RESET` is remembered and done again on whatever server the
//! client gets next; PREPARE, LISTEN, WITH HOLD cursors, temporary tables and session advisory locks pin the server to
//! the client; other changes (`set_config`, a SET among several statements) last until the transaction ends and are
//! then reset. Text can show too much (a word in a string) but a false alarm costs only speed.

/// What the text of one Query or Parse shows.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Touch {
    /// The parameter that it sets or resets, and how.
    pub set: Option<Change>,
    /// It may leave what cannot be carried elsewhere.
    pub pins: bool,
    /// It may change parameters in a way that is not tracked.
    pub dirties: bool,
    /// It may forget prepared statements.
    pub forgets: bool,
}

/// A change of a session parameter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// `SET name ...`, the whole statement. The name of an authorization begins with a space: it must come before the
    /// role when they are done again in order.
    Set {
        /// The parameter, in lower case.
        name: String,
        /// The statement.
        statement: String,
    },
    /// `RESET name`.
    Reset {
        /// The parameter, in lower case.
        name: String,
    },
    /// `RESET ALL`.
    ResetAll,
}

/// More of a text than this is not looked at.
const LOOKED_AT: usize = 65_536;

impl Touch {
    /// Looks at the text of a statement.
    pub fn of(sql: &[u8]) -> Self {
        let sql = sql.get(..LOOKED_AT).unwrap_or(sql);
        let mut touch = Self::default();
        for (at, byte) in sql.iter().enumerate() {
            let Some(rest) = sql.get(at..) else { break };
            match byte | 0x20 {
                b't' if starts(rest, b"temp") => touch.pins = true,
                b'h' if starts(rest, b"hold") => touch.pins = true,
                b'a' if starts(rest, b"advisory_lock") => touch.pins = true,
                b's' if starts(rest, b"set_config") => touch.dirties = true,
                b'd' if starts(rest, b"deallocate") || starts(rest, b"discard") => touch.forgets = true,
                _ => (),
            }
        }
        let first = skip_blanks(sql);
        if starts(first, b"set") || starts(first, b"reset") {
            touch.set = change(first);
        }
        touch
    }

    /// Whether it leaves the session as it was.
    pub fn is_none(&self) -> bool {
        self.set.is_none() && !self.pins && !self.dirties
    }
}

fn starts(text: &[u8], word: &[u8]) -> bool {
    text.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word))
}

/// What follows leading white space and comments.
fn skip_blanks(mut sql: &[u8]) -> &[u8] {
    loop {
        sql = sql.trim_ascii_start();
        if let Some(rest) = sql.strip_prefix(b"--") {
            let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |end| end + 1);
            sql = rest.get(end..).unwrap_or_default();
        } else if let Some(rest) = sql.strip_prefix(b"/*") {
            let Some(end) = memchr::memmem::find(rest, b"*/") else { return &[] };
            sql = rest.get(end + 2..).unwrap_or_default();
        } else {
            return sql;
        }
    }
}

/// The change that a single SET or RESET makes to the session; none for SET LOCAL and what lasts for a transaction.
fn change(sql: &[u8]) -> Option<Change> {
    let statement = std::str::from_utf8(sql).ok()?.trim_end().trim_end_matches(';').trim_end();
    // Several statements, or what could hide a second one: not tracked, the command tag will tell.
    if statement.contains(';') || statement.contains("--") || statement.contains("/*") {
        return None;
    }
    let lower = statement.to_lowercase();
    let mut words = lower.split(|c: char| c.is_whitespace() || c == '=').filter(|word| !word.is_empty());
    let verb = words.next()?;
    let mut name = words.next()?;
    if verb == "reset" {
        return Some(match name {
            "all" => Change::ResetAll,
            "role" | "timezone" => Change::Reset { name: name.to_owned() },
            "time" => Change::Reset { name: "timezone".to_owned() },
            "session" => Change::Reset { name: " session authorization".to_owned() },
            name => Change::Reset { name: name.to_owned() },
        });
    }
    if verb != "set" {
        return None;
    }
    if name == "session" {
        name = words.next()?;
        if name == "characteristics" || name == "authorization" {
            return Some(Change::Set { name: format!(" session {name}"), statement: statement.to_owned() });
        }
    }
    match name {
        "local" | "transaction" | "constraints" => None,
        "time" => Some(Change::Set { name: "timezone".to_owned(), statement: statement.to_owned() }),
        "names" => Some(Change::Set { name: "client_encoding".to_owned(), statement: statement.to_owned() }),
        name => Some(Change::Set { name: name.to_owned(), statement: statement.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(sql: &str) -> Option<String> {
        match Touch::of(sql.as_bytes()).set {
            Some(Change::Set { name, .. }) => Some(name),
            Some(Change::Reset { name }) => Some(format!("-{name}")),
            Some(Change::ResetAll) => Some("-".to_owned()),
            None => None,
        }
    }

    #[test]
    fn a_single_set_is_known_by_its_parameter() {
        for (sql, name) in [
            ("SET work_mem = '64MB'", Some("work_mem")),
            ("  /* hi */ -- there\n set Search_Path to a, b;", Some("search_path")),
            ("SET SESSION statement_timeout=5", Some("statement_timeout")),
            ("SET TIME ZONE 'UTC'", Some("timezone")),
            ("SET SESSION AUTHORIZATION bob", Some(" session authorization")),
            ("SET ROLE bob", Some("role")),
            ("RESET ROLE", Some("-role")),
            ("RESET ALL", Some("-")),
            ("SET LOCAL work_mem = 1", None),
            ("SET TRANSACTION READ ONLY", None),
            ("SET CONSTRAINTS ALL DEFERRED", None),
            ("SET a = 1; SELECT 1", None),
            ("SELECT 1", None),
            ("SETTLE", None),
        ] {
            assert_eq!(set(sql).as_deref(), name, "{sql}");
        }
    }

    #[test]
    fn what_cannot_be_carried_elsewhere_pins() {
        assert!(Touch::of(b"CREATE TEMP TABLE a (b int)").pins);
        assert!(Touch::of(b"declare c cursor with hold for select 1").pins);
        assert!(Touch::of(b"SELECT pg_try_advisory_lock(1)").pins);
        assert!(Touch::of(b"SELECT set_config('a.b', 'c', false)").dirties);
        assert!(Touch::of(b"SELECT * FROM pgbench_accounts WHERE aid = 1").is_none());
    }
}
