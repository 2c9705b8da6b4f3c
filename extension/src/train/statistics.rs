//! The statistics of a column after one pass over it: exact, and in constant memory.
//!
//! Median, mode, histogram and ventiles, which PostgresML stored too, need a sort of the whole column and are left out; the
//! quantiles, which `pgml.drift` goes by, are those of a sample.

use learn::metrics::drift::Sample;
use serde_json::{Map, Value, json};

/// Running statistics of numbers; NaN counts as missing.
#[derive(Debug, Clone, Default)]
pub struct Statistics {
    /// Values that are finite as float32.
    count: u64,
    missing: u64,
    infinite: u64,
    min: f64,
    max: f64,
    /// The first value: sums are of differences from it, since the sums of squares of large numbers that differ little
    /// would cancel.
    shift: f64,
    sum: f64,
    squares: f64,
    sample: Sample,
}

impl Statistics {
    #[inline]
    pub fn add(&mut self, value: f64) {
        let single = value as f32;
        if !single.is_finite() {
            if value.is_nan() {
                self.missing += 1;
            } else {
                self.infinite += 1;
            }
            return;
        }
        self.sample.add(single);
        if self.count == 0 {
            (self.min, self.max, self.shift) = (value, value, value);
        }
        self.count += 1;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        let difference = value - self.shift;
        self.sum += difference;
        self.squares += difference * difference;
    }

    /// The value that all of them are, where they are one.
    pub fn only(&self) -> Option<f64> {
        (self.count > 0 && self.min == self.max).then_some(self.min)
    }

    pub fn add_missing(&mut self, values: u64) {
        self.missing += values;
    }

    pub fn missing(&self) -> u64 {
        self.missing
    }

    pub fn infinite(&self) -> u64 {
        self.infinite
    }

    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.shift + self.sum / self.count as f64)
    }

    /// Of the population: divided by n, as PostgresML does.
    pub fn variance(&self) -> Option<f64> {
        let count = self.count as f64;
        (self.count > 0).then(|| ((self.squares - self.sum * self.sum / count) / count).max(0.0))
    }

    /// Quantiles in the middles of equal parts of the values, or all values where they are few.
    pub fn quantiles(&self) -> Value {
        // As few digits as tell them apart.
        let short = |value: &f32| value.to_string().parse::<f64>().unwrap_or_default();
        self.sample.points().iter().map(short).collect()
    }

    pub fn to_json(&self) -> Map<String, Value> {
        let some = |value: f64| if self.count > 0 { json!(value) } else { Value::Null };
        let mut map = Map::new();
        map.insert("min".into(), some(self.min));
        map.insert("max".into(), some(self.max));
        map.insert("max_abs".into(), some(self.min.abs().max(self.max.abs())));
        map.insert("mean".into(), json!(self.mean()));
        map.insert("variance".into(), json!(self.variance()));
        map.insert("std_dev".into(), json!(self.variance().map(f64::sqrt)));
        map.insert("missing".into(), json!(self.missing));
        map
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_numbers_that_differ_little_keep_their_variance() {
        let mut statistics = Statistics::default();
        for i in 0..1000u16 {
            statistics.add(16_000_000.0 + f64::from(i % 2));
        }
        assert_eq!(statistics.mean(), Some(16_000_000.5));
        assert_eq!(statistics.variance(), Some(0.25));
    }

    #[test]
    fn missing_and_infinite_values_do_not_count() {
        let mut statistics = Statistics::default();
        for value in [f64::NAN, 3.0, 1e39, 1.0] {
            statistics.add(value);
        }
        assert_eq!((statistics.count, statistics.missing, statistics.infinite()), (2, 1, 1));
        assert_eq!(statistics.mean(), Some(2.0));
        assert_eq!(statistics.to_json().get("max"), Some(&json!(3.0)));
    }

    #[test]
    fn nothing_has_no_mean() {
        assert_eq!(Statistics::default().mean(), None);
        assert_eq!(Statistics::default().to_json().get("min"), Some(&Value::Null));
    }
}
