//! Origins: what is taken off large numbers that differ little, such as epochs, before they become float32.
//!
//! docs/design/features.md has the reasons.

/// Every whole number up to here is a float32, and not every one beyond.
const LARGE: f64 = (1 << 24) as f64;

/// Up to here a float32 and its rest, which is a float32 too, hold every whole number.
const LARGEST: f64 = (1u64 << 48) as f64;

/// The values of a feature, as far as its origin depends on them.
#[derive(Debug, Clone, Copy)]
pub struct Extent {
    least: f64,
    greatest: f64,
    /// Whether one of them is large and no float32.
    loses: bool,
}

impl Default for Extent {
    fn default() -> Extent {
        Extent { least: f64::INFINITY, greatest: f64::NEG_INFINITY, loses: false }
    }
}

impl Extent {
    /// Takes a value and the float32 that it becomes; gives what that lacks, of a large one.
    #[inline]
    pub fn add(&mut self, value: f64, single: f32) -> Option<f32> {
        // Comparisons with NaN are false; infinite values end the training.
        if value < self.least {
            self.least = value;
        }
        if value > self.greatest {
            self.greatest = value;
        }
        if value.abs() > LARGE && single.is_finite() && f64::from(single) != value {
            self.loses = true;
            return Some((value - f64::from(single)) as f32);
        }
        None
    }

    /// What is taken off: the least value, where some lose digits and fewer do without it; else nothing.
    pub fn origin(&self) -> f64 {
        let (range, size) = (self.greatest - self.least, self.least.abs().max(self.greatest.abs()));
        let helps = range <= LARGE || range <= size / 2.0;
        // A whole number, so that whole numbers stay whole.
        if self.loses && helps { self.least.floor() } else { 0.0 }
    }

    /// The distance of the whole numbers that are one to the model, where there are any.
    pub fn blurred(&self) -> Option<f64> {
        let origin = self.origin();
        let largest = (self.greatest - origin).abs().max((self.least - origin).abs());
        let size = self.least.abs().max(self.greatest.abs());
        if !self.loses || largest <= LARGE && size <= LARGEST {
            return None;
        }
        let apart = |largest: f64, exact: f64| (largest / exact).log2().ceil().exp2();
        Some(apart(largest, LARGE).max(apart(size, LARGEST)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(values: &[f64]) -> Extent {
        let mut extent = Extent::default();
        for value in values {
            let rest = extent.add(*value, *value as f32).unwrap_or(0.0);
            assert!(value.is_nan() || f64::from(*value as f32) + f64::from(rest) == *value || value.abs() < LARGE);
        }
        extent
    }

    #[test]
    fn large_numbers_that_differ_little_have_an_origin() {
        for (values, origin, blurred, why) in [
            (&[1_700_000_001.0, 1_700_000_900.5, f64::NAN][..], 1_700_000_001.0, None, "an epoch"),
            (&[1_700_000_001.75, 1_700_000_900.0], 1_700_000_001.0, None, "a fraction"),
            (&[1.0, 2.0, 16_777_216.0], 0.0, None, "all exact"),
            (&[1_699_999_872.0, 1_700_000_000.0], 0.0, None, "large and exact"),
            (&[0.1, 0.7], 0.0, None, "small"),
            (&[1.0, 33_333_333.0], 0.0, Some(2.0), "nothing helps"),
            (&[-20_000_001.0, -19_999_999.0], -20_000_001.0, None, "below zero"),
            (&[1e10 + 1.0, 2e10 - 1.0], 1e10 + 1.0, Some(1024.0), "half of the digits"),
            (&[f64::NAN], 0.0, None, "nothing"),
        ] {
            assert_eq!((extent(values).origin(), extent(values).blurred()), (origin, blurred), "{why}");
        }
    }
}
