//! Statements that differ only in their literals have one fingerprint. They are classified once for each fingerprint,
//! and the durations of their executions are kept with it.

use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use classify::{Kind, Reason, Verdict};
use smallvec::SmallVec;

use crate::model::pace::Pace;

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

/// The mean duration from which statements are slow as a rule and not as an exception.
const SLOW_AS_A_RULE: Duration = Duration::from_millis(5);

/// The factor by which a connection has to answer more statements shared than alone, for slow ones to be borne with.
const GAIN: f64 = 2.0;

/// The reason why a unit did not share a server connection. Metrics count by these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum NotPipelined {
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

impl NotPipelined {
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

impl NotPipelined {
    /// The name of the reason.
    pub fn name(self) -> &'static str {
        Self::NAMES.get(self as usize).copied().unwrap_or_default()
    }
}

impl From<&Reason> for NotPipelined {
    fn from(reason: &Reason) -> Self {
        match reason {
            Reason::Write => Self::Write,
            Reason::VolatileFunction(_) | Reason::AttributeFunction(_) => Self::Volatile,
            Reason::UnknownFunction(_)
            | Reason::UnknownOperator(_)
            | Reason::UnknownType(_)
            | Reason::UnknownRelation(_) => Self::Unknown,
            Reason::View(_) | Reason::SystemView(_) | Reason::ServerState(_) | Reason::ForeignTable(_) => Self::View,
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
    /// The mean duration in pipelined connections that others share.
    shared: Pace,
    /// The mean duration in connections of the statement's own.
    alone: Pace,
    lies: Cell<bool>,
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
            shared: before.map_or_else(Pace::default, |fingerprint| fingerprint.shared.clone()),
            alone: before.map_or_else(Pace::default, |fingerprint| fingerprint.alone.clone()),
            lies: Cell::new(before.is_some_and(|fingerprint| fingerprint.lies.get())),
        }
    }

    /// The way in which a statement of this fingerprint may be sent: shared, or as a read of its own for a reason, or
    /// not as a read.
    pub fn way(&self, now: Instant) -> Result<Option<NotPipelined>, NotPipelined> {
        if self.lies.get() {
            return Err(NotPipelined::Write);
        }
        if let Err(reason) = &self.verdict.pipelinable {
            let why = NotPipelined::from(reason);
            let reads = matches!(self.verdict.kind, Kind::Read | Kind::Explain | Kind::Show(_));
            let alone = reads && self.verdict.read_only && !self.verdict.session() && !self.verdict.transaction;
            return if alone { Ok(Some(why)) } else { Err(why) };
        }
        if self.ran.get() < TRIALS {
            return Ok(Some(NotPipelined::New));
        }
        Ok(self.backs_off_until.get().is_some_and(|until| now < until).then_some(NotPipelined::Slow))
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
            && !verdict.pins.any()
            && !verdict.dirties
    }

    /// Notes the duration of a statement of this fingerprint, `alone` in its connection or among others.
    pub fn took(&self, took: Duration, alone: bool, now: Instant) {
        self.ran.set(self.ran.get().saturating_add(1));
        let pace = if alone { &self.alone } else { &self.shared };
        pace.note(took, now);
        if took >= SLOW {
            self.is_slow(now);
        } else if self.slow.get() > 0 {
            self.quick.set(self.quick.get() + 1);
            if self.quick.get() >= RESET_AFTER {
                self.slow.set(0);
                self.backs_off_until.set(None);
            }
        }
    }

    /// Notes that a statement of this fingerprint has taken [`SLOW`], or is taking it. The statements leave the shared
    /// connections for a while, unless it is the server that is slow: then they would only cost it more.
    pub fn is_slow(&self, now: Instant) {
        if self.gains_by_sharing(now) {
            return self.backs_off_until.set(None);
        }
        let times = self.slow.get();
        self.slow.set((times + 1).min(DOUBLINGS));
        self.quick.set(0);
        self.backs_off_until.set(Some(now + BACK_OFF * (1 << times)));
    }

    /// Whether a connection answers many more statements when they share it than when each has it to itself, the slow
    /// ones included. A statement that is slow by its own nature takes as long either way. On a server that is short of
    /// CPU each statement waits for it alone, and a pipeline waits once for all that it holds.
    fn gains_by_sharing(&self, now: Instant) -> bool {
        let (Some(shared), Some(alone)) = (self.shared.mean(now), self.alone.mean(now)) else { return false };
        shared < SLOW_AS_A_RULE.as_secs_f64() && alone > GAIN * shared
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
        assert_eq!(fingerprint("SELECT 1").way(Instant::now()), Err(NotPipelined::Catalog));
    }

    #[test]
    fn a_slow_shape_leaves_for_a_while_and_longer_each_time() {
        let mut fingerprint = fingerprint("SELECT 1");
        fingerprint.verdict = Arc::new(Verdict { pipelinable: Ok(()), ..(*fingerprint.verdict).clone() });
        let mut now = Instant::now();
        assert_eq!(fingerprint.way(now), Ok(Some(NotPipelined::New)));
        fingerprint.took(Duration::ZERO, true, now);
        fingerprint.took(Duration::ZERO, true, now);
        assert_eq!(fingerprint.way(now), Ok(None));
        fingerprint.took(SLOW, true, now);
        assert_eq!(fingerprint.way(now), Ok(Some(NotPipelined::Slow)));
        now += BACK_OFF;
        assert_eq!(fingerprint.way(now), Ok(None));
        fingerprint.took(SLOW, true, now);
        assert_eq!(fingerprint.way(now + BACK_OFF), Ok(Some(NotPipelined::Slow)));
        assert_eq!(fingerprint.way(now + 2 * BACK_OFF), Ok(None));
        for _ in 0..RESET_AFTER {
            fingerprint.took(Duration::ZERO, true, now);
        }
        fingerprint.took(SLOW, true, now);
        assert_eq!(fingerprint.way(now + BACK_OFF), Ok(None));
    }

    fn experienced(shared: Duration, alone: Duration, now: Instant) -> Fingerprint {
        let mut fingerprint = fingerprint("SELECT 1");
        fingerprint.verdict = Arc::new(Verdict { pipelinable: Ok(()), ..(*fingerprint.verdict).clone() });
        for _ in 0..64 {
            fingerprint.took(shared, false, now);
            fingerprint.took(alone, true, now);
        }
        fingerprint
    }

    #[test]
    fn a_slow_server_is_not_taken_for_a_slow_shape() {
        let now = Instant::now();
        let held = experienced(Duration::from_micros(500), Duration::from_millis(3), now);
        held.took(SLOW, false, now);
        assert_eq!(held.way(now), Ok(None), "a pipeline of it does six times as much");
        let shape = experienced(Duration::from_millis(2), Duration::from_millis(2), now);
        shape.took(SLOW, false, now);
        assert_eq!(shape.way(now), Ok(Some(NotPipelined::Slow)), "some of it are slow, alone as well");
        let rule = experienced(Duration::from_millis(20), Duration::from_millis(200), now);
        rule.took(SLOW, false, now);
        assert_eq!(rule.way(now), Ok(Some(NotPipelined::Slow)), "others would wait behind it");
    }

    #[test]
    fn statements_come_back_when_they_are_slower_alone() {
        let mut now = Instant::now();
        let held = experienced(Duration::from_micros(500), Duration::from_micros(500), now);
        held.took(SLOW, false, now);
        assert_eq!(held.way(now), Ok(Some(NotPipelined::Slow)));
        for _ in 0..64 {
            now += Duration::from_millis(1);
            held.took(Duration::from_millis(10), true, now);
        }
        held.took(SLOW, true, now);
        assert_eq!(held.way(now), Ok(None));
    }

    #[test]
    fn quick_statements_end_a_long_back_off() {
        let now = Instant::now();
        let shape = experienced(SLOW_AS_A_RULE, SLOW_AS_A_RULE, now);
        (0..9).for_each(|_| shape.took(SLOW, true, now));
        assert_eq!(shape.way(now + BACK_OFF), Ok(Some(NotPipelined::Slow)));
        (0..RESET_AFTER).for_each(|_| shape.took(Duration::ZERO, true, now));
        assert_eq!(shape.way(now), Ok(None));
    }
}
