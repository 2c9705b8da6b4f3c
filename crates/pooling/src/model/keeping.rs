//! Texts that clients prepare again and again without a name, and the rule when servers keep them as prepared
//! statements.
//!
//! A driver that gives its statements no names sends Parse, Bind and Execute for each execution, and the server parses
//! and plans each anew. On a pipelined connection a text that has come `prepare_threshold` times is prepared by a name
//! of the pooler's own, as named statements are; from then on its Parse is answered by the pooler, and its Bind goes to
//! that name.
//!
//! The server then chooses by its estimates between a plan for the values of the parameters and a plan for any values.
//! If the estimates are wrong, a fast statement becomes slow. So the pooler remembers the slowest execution without a
//! name for each fingerprint. After an execution that takes several times as long, the statements of the fingerprint go
//! without a name again for a while.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// The number of places for recent texts.
const PLACES: usize = 1024;
/// The factor by which an execution may be slower than the slowest before its text was kept; `SLACK` is added.
const FACTOR: u32 = 4;
/// The time that a busy machine may add to any execution.
const SLACK: Duration = Duration::from_millis(10);
/// The time for which the statements of a fingerprint go without a name, doubled each time.
const PAUSE: Duration = Duration::from_secs(10);
/// The most doublings.
const DOUBLINGS: u32 = 9;

/// Counts how often texts have come. Each text has a place by its hash, which another text may take from it: that costs
/// the first text its count, and nothing else.
#[derive(Debug, Default)]
pub struct Counts {
    hasher: RandomState,
    /// The hash of the text that has the place, and its count; empty until the first text comes.
    places: Vec<(u64, u32)>,
}

impl Counts {
    /// Counts a definition; gives the number of times that it has come, this one included.
    pub fn count(&mut self, definition: &[u8]) -> u32 {
        self.places.resize(PLACES, (0, 0));
        let hash = self.hasher.hash_one(definition);
        let Some(place) = self.places.get_mut(hash as usize % PLACES) else { return 0 };
        if place.0 != hash {
            *place = (hash, 0);
        }
        place.1 = place.1.saturating_add(1);
        place.1
    }
}

/// Whether servers may keep the statements of a fingerprint that have no name.
#[derive(Debug, Clone, Default)]
pub struct Keeping {
    /// The time that the slowest execution took whose text the server parsed anew.
    slowest: Cell<Duration>,
    regrets: Cell<u32>,
    until: Cell<Option<Instant>>,
}

impl Keeping {
    /// Whether the statements may be kept now.
    pub fn may_keep(&self, now: Instant) -> bool {
        self.until.get().is_none_or(|until| until <= now)
    }

    /// Notes the duration of an execution, of a text that the server had kept or of one that it parsed anew.
    pub fn took(&self, kept: bool, took: Duration, now: Instant) {
        if !kept {
            self.slowest.set(self.slowest.get().max(took));
        } else if took > self.slowest.get() * FACTOR + SLACK && self.may_keep(now) {
            let regrets = self.regrets.get();
            self.until.set(Some(now + PAUSE * (1 << regrets)));
            self.regrets.set((regrets + 1).min(DOUBLINGS));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_text_is_counted_by_itself() {
        let mut counts = Counts::default();
        assert_eq!((1..=5).map(|_| counts.count(b"SELECT 1")).collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
        assert_eq!(counts.count(b"SELECT 2"), 1);
        assert_eq!(counts.count(b"SELECT 1"), 6);
    }

    #[test]
    fn any_number_of_texts_has_room() {
        let mut counts = Counts::default();
        for number in 0..100_000 {
            assert!(counts.count(format!("SELECT {number}").as_bytes()) >= 1);
        }
        assert_eq!(counts.places.len(), PLACES);
    }

    #[test]
    fn a_shape_that_became_slow_goes_without_for_longer_each_time() {
        let (keeping, mut now) = (Keeping::default(), Instant::now());
        let quick = Duration::from_millis(2);
        keeping.took(false, quick, now);
        keeping.took(true, quick * FACTOR + SLACK, now);
        assert!(keeping.may_keep(now));
        for doubling in 0..3 {
            keeping.took(true, Duration::from_millis(100), now);
            let pause = PAUSE * (1 << doubling);
            assert!(!keeping.may_keep(now + pause - quick));
            // An execution under way meanwhile shows the same slowness, and not another.
            keeping.took(true, Duration::from_millis(100), now + quick);
            now += pause;
            assert!(keeping.may_keep(now));
        }
    }

    #[test]
    fn a_shape_that_is_slow_anyway_is_kept() {
        let (keeping, now) = (Keeping::default(), Instant::now());
        keeping.took(false, Duration::from_millis(40), now);
        keeping.took(true, Duration::from_millis(100), now);
        assert!(keeping.may_keep(now));
    }
}
