//! Texts that clients prepare without a name, again and again: when servers are asked to keep them.
//!
//! A driver that gives its statements no names sends Parse, Bind and Execute for each execution, and the server parses
//! and plans each anew. On a pipelined connection a text that has come `prepare_threshold` times is prepared by a name
//! of the pooler's own, as named statements are; from then on its Parse is answered by the pooler, and its Bind goes to
//! that name.
//!
//! The server then chooses whether it plans for the values of the parameters or for any. It goes by its estimates, and
//! where they mislead it, a statement becomes slow that was quick. So the slowest execution without a name is remembered
//! for each fingerprint, and one that takes several times as long as that lets its fingerprint go without a name again
//! for a while.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

/// Places for texts that have come of late.
const PLACES: usize = 1024;
/// An execution is too slow that takes so many times as long as the slowest before its text was kept, and `SLACK` more.
const FACTOR: u32 = 4;
/// What a busy machine adds to any execution.
const SLACK: Duration = Duration::from_millis(10);
/// How long a fingerprint goes without, doubled each time.
const PAUSE: Duration = Duration::from_secs(10);
/// It is doubled this often at most.
const DOUBLINGS: u32 = 9;

/// Counts how often texts have come. Each has a place by its hash, which another may take from it: that costs a text its
/// count, and nothing else.
#[derive(Debug, Default)]
pub struct Counts {
    hasher: RandomState,
    /// The hash of the text that has the place, and its count; empty until the first text comes.
    places: Vec<(u64, u32)>,
}

impl Counts {
    /// Counts a definition; how often it has come, this time too.
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
    /// How long the slowest execution took whose text the server parsed anew.
    slowest: Cell<Duration>,
    regrets: Cell<u32>,
    until: Cell<Option<Instant>>,
}

impl Keeping {
    /// Whether they may be kept now.
    pub fn may_keep(&self, now: Instant) -> bool {
        self.until.get().is_none_or(|until| until <= now)
    }

    /// Takes note of how long an execution took, of a text that the server had kept or of one that it parsed anew.
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
            // What was under way meanwhile is the same slowness, and not another.
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
