//! Spans of time, counted by length.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Two decimal digits of each length are kept: percentiles are right to one in a hundred.
const DIGITS: u8 = 2;
/// The longest time that is counted, a day in microseconds; a longer one counts as this.
const LONGEST: u64 = 86_400_000_000;

/// Counts spans of time by their length. The counts take no memory before the first span, and some kilobytes after.
#[derive(Debug, Clone, Default)]
pub struct Times {
    histogram: Option<Histogram<u64>>,
    sum: Duration,
}

impl Times {
    /// Counts a span.
    pub fn record(&mut self, span: Duration) {
        self.sum += span;
        if self.histogram.is_none() {
            self.histogram = Histogram::new(DIGITS).ok();
        }
        let micros = u64::try_from(span.as_micros()).unwrap_or(LONGEST).min(LONGEST);
        if let Some(histogram) = &mut self.histogram {
            // The histogram grows by itself up to any length, so this cannot fail.
            let _ = histogram.record(micros);
        }
    }

    /// Adds the counts of another.
    pub fn add(&mut self, other: &Self) {
        self.sum += other.sum;
        match (&mut self.histogram, &other.histogram) {
            (Some(mine), Some(theirs)) => {
                let _ = mine.add(theirs);
            }
            (mine @ None, theirs) => *mine = theirs.clone(),
            (Some(_), None) => (),
        }
    }

    /// The number of spans that were counted.
    pub fn count(&self) -> u64 {
        self.histogram.as_ref().map_or(0, Histogram::len)
    }

    /// Their sum, exactly.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// The number of spans that were not longer than `limit`, to the precision that is kept.
    pub fn within(&self, limit: Duration) -> u64 {
        let micros = u64::try_from(limit.as_micros()).unwrap_or(LONGEST);
        self.histogram.as_ref().map_or(0, |histogram| histogram.count_between(0, micros))
    }

    /// The length that this share (0 to 1) of them does not exceed; zero when none were counted.
    pub fn quantile(&self, share: f64) -> Duration {
        let micros = self.histogram.as_ref().map_or(0, |histogram| histogram.value_at_quantile(share));
        Duration::from_micros(micros)
    }

    /// The longest, to the precision that is kept.
    pub fn longest(&self) -> Duration {
        Duration::from_micros(self.histogram.as_ref().map_or(0, Histogram::max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_right_to_one_in_a_hundred() {
        let mut times = Times::default();
        assert_eq!((times.count(), times.quantile(0.5), times.longest()), (0, Duration::ZERO, Duration::ZERO));
        for micros in 1..=100_000 {
            times.record(Duration::from_micros(micros));
        }
        for (share, exact) in [(0.5, 50_000.0), (0.99, 99_000.0), (0.999, 99_900.0)] {
            let got = times.quantile(share).as_micros() as f64;
            assert!((got / exact - 1.0).abs() < 0.01, "{share}: {got}");
        }
        assert_eq!(times.count(), 100_000);
        assert_eq!(times.sum(), Duration::from_micros(100_000 * 100_001 / 2));
        let within = times.within(Duration::from_millis(25)) as f64;
        assert!((within / 25_000.0 - 1.0).abs() < 0.01, "{within}");
    }

    #[test]
    fn any_length_is_counted_and_two_add_up() {
        let mut times = Times::default();
        for span in [Duration::ZERO, Duration::from_secs(1_000_000), Duration::MAX / 4] {
            times.record(span);
        }
        assert_eq!(times.count(), 3);
        assert_eq!(times.within(Duration::from_micros(1)), 1);
        let mut sum = Times::default();
        sum.add(&times);
        sum.add(&Times::default());
        sum.add(&times);
        assert_eq!(sum.count(), 6);
        assert!(sum.longest() >= Duration::from_micros(LONGEST));
    }
}
