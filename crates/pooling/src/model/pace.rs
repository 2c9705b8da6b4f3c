//! The mean duration of recent executions.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// The number of executions over which the mean is taken: an older one counts less and less.
const SPAN: u32 = 64;
/// The number of executions from which on there is a mean.
const ENOUGH: u32 = 16;
/// The time after which an execution says nothing about the next.
const FRESH: Duration = Duration::from_secs(60);

/// A mean duration that moves with each execution.
#[derive(Debug, Clone, Default)]
pub struct Pace {
    /// Seconds.
    mean: Cell<f64>,
    seen: Cell<u32>,
    last: Cell<Option<Instant>>,
}

impl Pace {
    /// Notes the duration of an execution that has ended `now`.
    pub fn note(&self, took: Duration, now: Instant) {
        if !self.is_fresh(now) {
            self.seen.set(0);
        }
        let seen = (self.seen.get() + 1).min(SPAN);
        self.seen.set(seen);
        self.mean.set(self.mean.get() + (took.as_secs_f64() - self.mean.get()) / f64::from(seen));
        self.last.set(Some(now));
    }

    /// The mean in seconds; none when there were too few executions lately.
    pub fn mean(&self, now: Instant) -> Option<f64> {
        (self.seen.get() >= ENOUGH && self.is_fresh(now)).then_some(self.mean.get())
    }

    fn is_fresh(&self, now: Instant) -> bool {
        self.last.get().is_some_and(|last| now.saturating_duration_since(last) < FRESH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_needs_some_executions_and_forgets_old_ones() {
        let (pace, now) = (Pace::default(), Instant::now());
        for number in 0..ENOUGH {
            assert_eq!(pace.mean(now), None, "{number}");
            pace.note(Duration::from_millis(4), now);
        }
        assert!((pace.mean(now).unwrap() - 0.004).abs() < 1e-9);
        (0..10 * SPAN).for_each(|_| pace.note(Duration::from_millis(1), now));
        assert!((pace.mean(now).unwrap() - 0.001).abs() < 1e-5);
        assert_eq!(pace.mean(now + FRESH), None);
        pace.note(Duration::from_millis(9), now + FRESH);
        assert_eq!(pace.mean(now + FRESH), None, "one execution is no mean");
    }
}
