//! The parts of a client's session that cannot be carried to another server connection, and so pin the client to its
//! own.
//!
//! The pooler cannot see the end of most of them (a temporary table is dropped by a function, a lock is released by a
//! trigger), so they pin the connection until the client leaves or runs DISCARD ALL. The exception is a cursor WITH
//! HOLD, which is the common case, since drivers open one for each large result. Its end is a statement of its own:
//! with the end of the last one the connection is free again.

use classify::{Kind, Verdict};

/// The most open cursors that are told apart.
const MOST_CURSORS: usize = 1000;

/// The reasons that pin a client's server connection.
#[derive(Debug, Default)]
pub struct Pins {
    /// Cursors WITH HOLD that are open.
    cursors: Vec<Cursor>,
    /// Whether there is a pin whose end the pooler cannot see.
    rest: bool,
}

#[derive(Debug)]
struct Cursor {
    name: Box<str>,
    /// Whether its transaction has committed: then a rollback leaves it open.
    outlives: bool,
}

impl Pins {
    /// Whether the client is pinned.
    pub fn any(&self) -> bool {
        self.rest || !self.cursors.is_empty()
    }

    /// Notes a part of the session that cannot be carried and whose end the pooler cannot see.
    pub fn hold(&mut self) {
        self.rest = true;
    }

    /// Notes a command that has finished with this tag; `verdict` is on its text.
    pub fn finished(&mut self, tag: &[u8], verdict: Option<&Verdict>) {
        let alone = verdict.filter(|verdict| verdict.statements == 1);
        match (tag, alone.map(|verdict| &verdict.kind)) {
            (b"DISCARD ALL", _) => *self = Self::default(),
            // Functions in its query may pin too, unless the query is a read.
            (b"DECLARE CURSOR", Some(Kind::Declare { name, hold: true }))
                if alone.is_some_and(|verdict| verdict.read_only) && self.cursors.len() < MOST_CURSORS =>
            {
                self.cursors.push(Cursor { name: name.as_str().into(), outlives: false });
            }
            (b"CLOSE CURSOR", Some(Kind::Close(Some(name)))) => self.cursors.retain(|cursor| *cursor.name != **name),
            (b"CLOSE CURSOR ALL", _) => self.cursors.clear(),
            (b"COMMIT", _) => self.committed(),
            (b"ROLLBACK", Some(Kind::Rollback { .. } | Kind::Commit { .. })) => self.rolled_back(),
            (b"LISTEN" | b"PREPARE", _) => self.rest = true,
            // A LISTEN in its text counts when that has finished itself.
            _ => self.rest |= verdict.is_some_and(|verdict| verdict.pins_beside_listen),
        }
    }

    /// Notes that the transaction has been undone, and with it the cursors that it has made.
    pub fn rolled_back(&mut self) {
        self.cursors.retain(|cursor| cursor.outlives);
    }

    /// Notes that the transaction has been committed.
    pub fn committed(&mut self) {
        self.cursors.iter_mut().for_each(|cursor| cursor.outlives = true);
    }
}

#[cfg(test)]
mod tests {
    use classify::{Catalog, Classifier};
    use std::sync::Arc;

    use super::*;

    /// Commands that finish one after the other: the text, the tag, and whether the session is pinned after it.
    fn follow(commands: &[(&str, &[u8], bool)]) {
        let mut classifier = Classifier::new(10);
        let version = [["version", "", "180000", "", ""]];
        classifier.set_catalog(Arc::new(Catalog::from_rows(version).unwrap()));
        let mut pins = Pins::default();
        for (sql, tag, pinned) in commands {
            let verdict = classifier.classify(sql.as_bytes(), true).clone();
            pins.finished(tag, Some(&verdict));
            assert_eq!(pins.any(), *pinned, "{sql}");
        }
    }

    #[test]
    fn the_last_cursor_that_is_closed_unpins() {
        follow(&[
            ("DECLARE a CURSOR WITH HOLD FOR SELECT 1", b"DECLARE CURSOR", true),
            ("DECLARE \"B\" CURSOR WITH HOLD FOR SELECT 1", b"DECLARE CURSOR", true),
            ("CLOSE A", b"CLOSE CURSOR", true),
            ("CLOSE \"B\"", b"CLOSE CURSOR", false),
            ("DECLARE a CURSOR WITH HOLD FOR SELECT 1", b"DECLARE CURSOR", true),
            ("CLOSE ALL", b"CLOSE CURSOR ALL", false),
        ]);
    }

    #[test]
    fn a_rollback_ends_the_cursors_of_its_transaction_only() {
        follow(&[
            ("DECLARE a CURSOR WITH HOLD FOR SELECT 1", b"DECLARE CURSOR", true),
            ("ROLLBACK", b"ROLLBACK", false),
            ("DECLARE a CURSOR WITH HOLD FOR SELECT 1", b"DECLARE CURSOR", true),
            ("COMMIT", b"COMMIT", true),
            ("DECLARE b CURSOR WITH HOLD FOR SELECT 1", b"DECLARE CURSOR", true),
            ("COMMIT", b"ROLLBACK", true),
            ("CLOSE a", b"CLOSE CURSOR", false),
        ]);
    }

    #[test]
    fn a_listen_pins_when_it_has_finished_itself() {
        follow(&[
            ("BEGIN; LISTEN a; COMMIT", b"BEGIN", false),
            ("BEGIN; LISTEN a; COMMIT", b"LISTEN", true),
            ("DISCARD ALL", b"DISCARD ALL", false),
            ("SELECT 1; LISTEN a; LOAD 'a'", b"SELECT", true),
        ]);
    }

    #[test]
    fn what_else_pins_stays_until_all_is_discarded() {
        for sql in [
            "LISTEN a",
            "PREPARE a AS SELECT 1",
            "DECLARE a CURSOR WITH HOLD FOR SELECT pg_advisory_lock(1)",
            "DECLARE a CURSOR WITH HOLD FOR SELECT 1; SELECT 1",
            "CREATE TEMP TABLE a (b int)",
        ] {
            let tag: &[u8] = match sql.split(' ').next() {
                Some("DECLARE") => b"DECLARE CURSOR",
                Some("LISTEN") => b"LISTEN",
                _ => b"",
            };
            follow(&[
                (sql, tag, true),
                ("CLOSE a", b"CLOSE CURSOR", true),
                ("CLOSE ALL", b"CLOSE CURSOR ALL", true),
                ("ROLLBACK", b"ROLLBACK", true),
                ("DISCARD ALL", b"DISCARD ALL", false),
            ]);
        }
    }
}
