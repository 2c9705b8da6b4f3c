//! The parts of a client's session that cannot be carried to another server connection, and so pin the client to its
//! own.
//!
//! Each pin has its reasons. The pooler counts none of what causes them (a temporary table is dropped by a function, a
//! lock is released by a trigger): when a statement may have ended one, the server is asked what is left
//! ([`Pins::is_in_doubt`], `pools/settle.rs`). The exception is a cursor WITH HOLD, which is the common case, since
//! drivers open one for each large result: its end is a statement of its own.

use std::time::{Duration, Instant};

use classify::{Kind, Reasons, Verdict};

/// The most open cursors that are told apart.
const MOST_CURSORS: usize = 1000;

/// The reasons of which the server can say whether they last.
const ASKED: [Reasons; 4] = [Reasons::LOCK, Reasons::TEMPORARY, Reasons::PREPARED, Reasons::CURSOR];

/// How often the server is asked again which could not answer.
const MOST_QUESTIONS: u8 = 3;

/// A pin that has lasted so long is written to the log.
const LONG: Duration = Duration::from_secs(5);

/// The reasons that pin a client's server connection.
#[derive(Debug, Default)]
pub struct Pins {
    /// Cursors WITH HOLD that are open.
    cursors: Vec<Cursor>,
    /// The other reasons.
    rest: Reasons,
    /// The time since when the client is pinned, as far as that has been noted.
    since: Option<Instant>,
    /// Whether the log has it.
    logged: bool,
    /// Whether a reason may have ended.
    in_doubt: bool,
    /// The number of times in a row that the server could not be asked.
    unanswered: u8,
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
        self.rest.any() || !self.cursors.is_empty()
    }

    /// Why the client is pinned.
    pub fn reasons(&self) -> Reasons {
        self.rest | Reasons::CURSOR.when(!self.cursors.is_empty())
    }

    /// The time since when the client is pinned.
    pub fn since(&self) -> Option<Instant> {
        self.since.filter(|_| self.any())
    }

    /// Notes at the end of a unit whether the client is pinned since then.
    pub fn note(&mut self, now: Instant) {
        if !self.any() {
            (self.since, self.logged, self.in_doubt) = (None, false, false);
        } else if self.since.is_none() {
            self.since = Some(now);
        }
    }

    /// Whether the pin has lasted long and is not in the log yet; it is taken for logged.
    pub fn is_to_be_logged(&mut self, now: Instant) -> bool {
        let long = self.since().is_some_and(|since| now.saturating_duration_since(since) >= LONG);
        long && !std::mem::replace(&mut self.logged, true)
    }

    /// Notes a part of the session that cannot be carried.
    pub fn hold(&mut self, reason: Reasons) {
        self.rest |= reason;
    }

    /// Whether a reason may have ended, which the server knows.
    pub fn is_in_doubt(&self) -> bool {
        self.in_doubt && ASKED.iter().any(|reason| self.rest.has(*reason))
    }

    /// Notes that a reason may have ended.
    pub fn doubt(&mut self) {
        (self.in_doubt, self.unanswered) = (true, 0);
    }

    /// Notes that the server has been asked what is left.
    pub fn ask(&mut self) {
        self.unanswered += 1;
        self.in_doubt = self.may_ask_again();
    }

    /// Whether a server that could not answer is asked again.
    pub fn may_ask_again(&self) -> bool {
        self.unanswered < MOST_QUESTIONS
    }

    /// Notes the answer: for each of the reasons that the server was asked about, whether it lasts.
    pub fn settle(&mut self, lasts: impl Iterator<Item = bool>) {
        (self.in_doubt, self.unanswered) = (false, 0);
        for (reason, lasts) in ASKED.into_iter().zip(lasts) {
            self.rest = self.rest.without(reason.when(!lasts));
        }
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
            (b"CLOSE CURSOR", Some(Kind::Close(Some(name)))) => {
                self.cursors.retain(|cursor| *cursor.name != **name);
                self.in_doubt |= self.rest.has(Reasons::CURSOR);
            }
            (b"CLOSE CURSOR ALL", _) => {
                self.cursors.clear();
                self.in_doubt |= self.rest.has(Reasons::CURSOR);
            }
            (b"COMMIT", _) => self.committed(),
            (b"ROLLBACK", Some(Kind::Rollback { .. } | Kind::Commit { .. })) => self.rolled_back(),
            // To a savepoint, perhaps.
            (b"ROLLBACK", _) => self.doubt(),
            (b"LISTEN", _) => self.rest |= Reasons::LISTEN,
            (b"PREPARE", _) => self.rest |= Reasons::PREPARED,
            // A LISTEN in its text counts when that has finished itself.
            _ => self.rest |= verdict.map_or(Reasons::NONE, |verdict| verdict.pins_beside_listen),
        }
        if verdict.is_none_or(|verdict| verdict.unpins) && tag != b"DISCARD ALL" {
            self.doubt();
        }
    }

    /// Notes that the transaction has been undone, and with it what it has made.
    pub fn rolled_back(&mut self) {
        self.cursors.retain(|cursor| cursor.outlives);
        self.doubt();
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
    fn what_the_server_no_longer_has_ends_its_pin() {
        let mut pins = Pins::default();
        pins.hold(Reasons::LOCK | Reasons::TEMPORARY | Reasons::SETTING);
        assert!(!pins.is_in_doubt());
        pins.rolled_back();
        assert!(pins.is_in_doubt());
        pins.ask();
        pins.settle([false, true, true, false].into_iter());
        assert_eq!((pins.reasons(), pins.is_in_doubt()), (Reasons::TEMPORARY | Reasons::SETTING, false));
        pins.doubt();
        pins.settle([false; 4].into_iter());
        assert_eq!(pins.reasons().to_string(), "setting");
        pins.doubt();
        assert!(!pins.is_in_doubt(), "the server does not know of it");
    }

    #[test]
    fn a_server_that_cannot_answer_is_not_asked_for_ever() {
        let mut pins = Pins::default();
        pins.hold(Reasons::LOCK);
        pins.doubt();
        let asked = std::iter::from_fn(|| pins.is_in_doubt().then(|| pins.ask())).count();
        assert_eq!((asked, pins.any()), (usize::from(MOST_QUESTIONS), true));
    }

    #[test]
    fn what_else_pins_stays_until_the_server_has_been_asked() {
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
