//! Statements that differ only in their literals have one fingerprint. They are classified once for each fingerprint,
//! and the durations of their executions are kept with it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use classify::{Kind, Reason, Verdict};
use smallvec::SmallVec;

use crate::model::keeping::Keeping;

/// The duration from which a statement is too slow for units to wait behind it.
pub const SLOW: Duration = Duration::from_millis(50);

/// The time for which a fingerprint leaves the shared pipelined connections when a statement of it was slow; doubled
/// each time it happens again.
pub const BACK_OFF: Duration = Duration::from_millis(100);

/// The most doublings.
pub const DOUBLINGS: u32 = 9;

/// The number of statements of a fingerprint that run alone before others share.
pub const TRIALS: u32 = 2;

/// The number of quick statements after which the slow ones are forgotten.
pub const RESET_AFTER: u32 = 1000;

/// The reason why a unit did not share a server connection. Metrics count by these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Why {
    /// The unit's messages are not those of a plain read: COPY, Flush, too long, a portal that was not bound.
    Protocol,
    /// The first statements of a fingerprint run alone.
    New,
    /// Statements of its fingerprint were slow recently.
    Slow,
    /// The server died on the unit's last attempt.
    Failed,
    /// The database's catalog has not been read, or not since a definition was run.
    Catalog,
    /// The statement writes.
    Write,
    /// The statement calls a volatile function.
    Volatile,
    /// The statement names an object that the catalog does not know.
    Unknown,
    /// The statement reads a view, or another relation than a plain table, that could not be judged.
    View,
    /// FOR UPDATE and its kin.
    Locking,
    /// Several statements.
    Several,
    /// The statement touches its session.
    Session,
    /// BEGIN, COMMIT and their kin.
    Transaction,
    /// The statement is no query.
    Utility,
    /// The text could not be understood: too long, too deep, not SQL.
    Text,
}

impl Why {
    /// The number of reasons.
    pub const COUNT: usize = 15;
    /// The names of the reasons, in order.
    pub const NAMES: [&'static str; Self::COUNT] = [
        "protocol",
        "new",
        "slow",
        "failed",
        "catalog",
        "write",
        "volatile",
        "unknown",
        "view",
        "locking",
        "several",
        "session",
        "transaction",
        "utility",
        "text",
    ];
}

impl From<&Reason> for Why {
    fn from(reason: &Reason) -> Self {
        match reason {
            Reason::Write => Self::Write,
            Reason::VolatileFunction(_) | Reason::AttributeFunction(_) => Self::Volatile,
            Reason::UnknownFunction(_)
            | Reason::UnknownOperator(_)
            | Reason::UnknownType(_)
            | Reason::UnknownRelation(_) => Self::Unknown,
            Reason::View(_) | Reason::SystemView(_) | Reason::ForeignTable(_) => Self::View,
            Reason::LockingClause => Self::Locking,
            Reason::MultiStatement => Self::Several,
            Reason::SessionState => Self::Session,
            Reason::TransactionControl => Self::Transaction,
            Reason::Utility => Self::Utility,
            Reason::CatalogNotLoaded => Self::Catalog,
            _ => Self::Text,
        }
    }
}

/// The statements of a unit, by their fingerprints.
pub type Statements = SmallVec<[Rc<Fingerprint>; 3]>;

/// The knowledge about the statements of one fingerprint.
#[derive(Debug)]
pub struct Fingerprint {
    /// The class of the statements.
    pub verdict: Arc<Verdict>,
    ran: Cell<u32>,
    quick: Cell<u32>,
    slow: Cell<u32>,
    backs_off_until: Cell<Option<Instant>>,
    lies: Cell<bool>,
    /// Whether servers may keep statements of it that have no name.
    pub keeping: Keeping,
}

impl Fingerprint {
    /// A fingerprint that is new, or judged anew: the experience of the one `before` stays.
    pub fn new(verdict: Arc<Verdict>, before: Option<&Self>) -> Self {
        Self {
            verdict,
            ran: Cell::new(before.map_or(0, |fingerprint| fingerprint.ran.get())),
            quick: Cell::new(before.map_or(0, |fingerprint| fingerprint.quick.get())),
            slow: Cell::new(before.map_or(0, |fingerprint| fingerprint.slow.get())),
            backs_off_until: Cell::new(before.and_then(|fingerprint| fingerprint.backs_off_until.get())),
            lies: Cell::new(before.is_some_and(|fingerprint| fingerprint.lies.get())),
            keeping: before.map_or_else(Keeping::default, |fingerprint| fingerprint.keeping.clone()),
        }
    }

    /// The way in which a statement of this fingerprint may be sent: shared, or as a read of its own for a reason, or
    /// not as a read.
    pub fn way(&self, now: Instant) -> Result<Option<Why>, Why> {
        if self.lies.get() {
            return Err(Why::Write);
        }
        if let Err(reason) = &self.verdict.pipelinable {
            let why = Why::from(reason);
            let reads = matches!(self.verdict.kind, Kind::Read | Kind::Explain | Kind::Show(_));
            let alone = reads && self.verdict.read_only && !self.verdict.session() && !self.verdict.transaction;
            return if alone { Ok(Some(why)) } else { Err(why) };
        }
        if self.ran.get() < TRIALS {
            return Ok(Some(Why::New));
        }
        Ok(self.backs_off_until.get().is_some_and(|until| now < until).then_some(Why::Slow))
    }

    /// Notes that a replica has refused the statement as a write: a function that it calls is not as it is declared.
    pub fn was_misjudged(&self) {
        self.lies.set(true);
    }

    /// Whether the statement does not write, as far as is known.
    pub fn is_read(&self) -> bool {
        self.verdict.read_only && !self.lies.get()
    }

    /// Whether the statement is a single one that writes and neither opens a transaction nor is known to touch its
    /// session.
    pub fn is_plain_write(&self) -> bool {
        let verdict = &self.verdict;
        (matches!(verdict.kind, Kind::Write | Kind::Utility) || self.lies.get())
            && verdict.statements == 1
            && !verdict.transaction
            && !verdict.pins
            && !verdict.dirties
    }

    /// Notes the duration of a statement of this fingerprint.
    pub fn took(&self, took: Duration, now: Instant) {
        self.ran.set(self.ran.get().saturating_add(1));
        if took >= SLOW {
            let times = self.slow.get();
            self.slow.set((times + 1).min(DOUBLINGS));
            self.quick.set(0);
            self.backs_off_until.set(Some(now + BACK_OFF * (1 << times)));
        } else if self.slow.get() > 0 {
            self.quick.set(self.quick.get() + 1);
            if self.quick.get() >= RESET_AFTER {
                self.slow.set(0);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use classify::Classifier;

    use super::*;

    fn fingerprint(sql: &str) -> Fingerprint {
        Fingerprint::new(Classifier::new(1).classify(sql.as_bytes(), true).clone(), None)
    }

    #[test]
    fn without_a_catalog_nothing_is_a_read() {
        assert_eq!(fingerprint("SELECT 1").way(Instant::now()), Err(Why::Catalog));
    }

    #[test]
    fn a_slow_shape_leaves_for_a_while_and_longer_each_time() {
        let mut fingerprint = fingerprint("SELECT 1");
        fingerprint.verdict = Arc::new(Verdict { pipelinable: Ok(()), ..(*fingerprint.verdict).clone() });
        let mut now = Instant::now();
        assert_eq!(fingerprint.way(now), Ok(Some(Why::New)));
        fingerprint.took(Duration::ZERO, now);
        fingerprint.took(Duration::ZERO, now);
        assert_eq!(fingerprint.way(now), Ok(None));
        fingerprint.took(SLOW, now);
        assert_eq!(fingerprint.way(now), Ok(Some(Why::Slow)));
        now += BACK_OFF;
        assert_eq!(fingerprint.way(now), Ok(None));
        fingerprint.took(SLOW, now);
        assert_eq!(fingerprint.way(now + BACK_OFF), Ok(Some(Why::Slow)));
        assert_eq!(fingerprint.way(now + 2 * BACK_OFF), Ok(None));
        for _ in 0..RESET_AFTER {
            fingerprint.took(Duration::ZERO, now);
        }
        fingerprint.took(SLOW, now);
        assert_eq!(fingerprint.way(now + BACK_OFF), Ok(None));
    }
}
