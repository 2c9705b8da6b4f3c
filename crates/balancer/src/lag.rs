//! How far a replica is behind.
//!
//! In bytes, the lag is the primary's WAL position minus the position that the replica has replayed. In time, it is the
//! age of the first observation of the primary beyond the replica's position. This needs no clock except the
//! observer's, and unlike the age of the last replayed transaction it does not grow while nothing is written. It may be
//! too small by one interval between questions.

use std::collections::VecDeque;

use crate::{Limits, Moment, Observation};

/// Positions of the primary that are remembered: at two a second, some four minutes in full, longer thinned.
const REMEMBERED: usize = 512;

/// How far a replica is behind its primary.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lag {
    /// Bytes of WAL.
    pub bytes: u64,
    /// Milliseconds.
    pub millis: u64,
}

impl Lag {
    /// Whether a replica with this lag stays out or goes: it leaves beyond a limit and returns at half of it, so that
    /// one at the edge does not come and go.
    pub(crate) fn is_too_much(self, limits: &Limits, was_too_much: bool) -> bool {
        let beyond = |value: u64, limit: Option<u64>| {
            limit.is_some_and(|limit| value > if was_too_much { limit / 2 } else { limit })
        };
        beyond(self.bytes, limits.lag_bytes) || beyond(self.millis, limits.lag_millis)
    }

    /// What a replica says of itself, where no primary has been seen.
    pub(crate) fn by_itself(replica: &Observation) -> Self {
        let bytes = replica.received.unwrap_or(replica.lsn).saturating_sub(replica.lsn);
        Self { bytes, millis: if bytes > 0 { replica.replay_age.unwrap_or(0) } else { 0 } }
    }
}

/// Where the primary was when: each the moment at which it was first seen at that position.
#[derive(Debug, Clone, Default)]
pub(crate) struct History {
    positions: VecDeque<(Moment, u64)>,
}

impl History {
    /// Forgets all: another server is the primary.
    pub fn clear(&mut self) {
        self.positions.clear();
    }

    /// The primary is there.
    pub fn note(&mut self, at: Moment, lsn: u64) {
        // Backwards it goes only when it has been rewound, and then it has another history.
        if self.positions.back().is_some_and(|&(_, last)| lsn < last) {
            self.clear();
        }
        if self.positions.back().is_some_and(|&(_, last)| lsn <= last) {
            return;
        }
        self.positions.push_back((at, lsn));
        if self.positions.len() > REMEMBERED {
            let mut place = 0;
            self.positions.retain(|_| {
                place += 1;
                place % 2 == 0 || place > REMEMBERED / 2
            });
        }
    }

    /// How far this replica is behind; `None` when nothing is known of the primary.
    pub fn lag(&self, replica: &Observation) -> Option<Lag> {
        let (&(oldest_at, oldest), &(_, newest)) = (self.positions.front()?, self.positions.back()?);
        let bytes = newest.saturating_sub(replica.lsn);
        if bytes == 0 {
            return Some(Lag::default());
        }
        if replica.lsn < oldest {
            // It was behind before we began to look, so its own word is the best there is.
            let seen = replica.at.since(oldest_at);
            return Some(Lag { bytes, millis: seen.max(replica.replay_age.unwrap_or(0)) });
        }
        let passed = self.positions.partition_point(|&(_, lsn)| lsn <= replica.lsn);
        let millis = self.positions.get(passed).map_or(0, |&(at, _)| replica.at.since(at));
        Some(Lag { bytes, millis })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn replica(at: u64, lsn: u64, age: u64) -> Observation {
        Observation {
            at: Moment(at),
            in_recovery: true,
            lsn,
            received: None,
            replay_age: Some(age),
            timeline: None,
            system: None,
            latency: 0,
        }
    }

    #[test]
    fn lag_by_time_is_since_the_primary_went_beyond() {
        let mut history = History::default();
        for step in 0..10 {
            history.note(Moment(step * 500), 1000 + step * 100);
        }
        // At 1000 + 300 the replica has what the primary had at 1500; at 2000 the primary was first seen beyond.
        assert_eq!(history.lag(&replica(5000, 1300, 7)), Some(Lag { bytes: 600, millis: 3000 }));
        assert_eq!(history.lag(&replica(5000, 1900, 999_999)), Some(Lag::default()));
        assert_eq!(history.lag(&replica(5000, 2500, 7)), Some(Lag::default()));
        assert_eq!(history.lag(&replica(5000, 5, 60_000)), Some(Lag { bytes: 1895, millis: 60_000 }));
    }

    #[test]
    fn lag_does_not_grow_while_nothing_is_written() {
        let mut history = History::default();
        for at in 0..100 {
            history.note(Moment(at * 500), 77);
            assert_eq!(history.lag(&replica(at * 500, 77, at * 500)), Some(Lag::default()));
        }
    }

    #[test]
    fn a_long_history_is_thinned_and_stays_right_to_within_a_step() {
        let mut history = History::default();
        for step in 0..5000 {
            history.note(Moment(step * 10), step);
            assert!(history.positions.len() <= REMEMBERED);
        }
        let lag = history.lag(&replica(50_000, 4990, 0)).unwrap();
        assert_eq!((lag.bytes, lag.millis), (9, 50_000 - 49_910));
        let far = history.lag(&replica(50_000, 2000, 0)).unwrap();
        assert_eq!(far.bytes, 2999);
        assert!(far.millis <= 29_990 && far.millis > 10_000, "{far:?}");
    }

    #[test]
    fn a_replica_leaves_at_the_limit_and_returns_at_half_of_it() {
        let limits = Limits { lag_bytes: Some(100), ..Limits::default() };
        let too_much = |bytes, was| Lag { bytes, millis: 0 }.is_too_much(&limits, was);
        assert!(!too_much(100, false) && too_much(101, false));
        assert!(too_much(51, true) && !too_much(50, true));
    }
}
