//! The normal distribution.

use std::f64::consts::{PI, SQRT_2};

/// The probability of a value up to `z` deviations above the mean.
pub fn distribution(z: f64) -> f64 {
    0.5 * libm::erfc(-z / SQRT_2)
}

/// The density at `z` deviations from the mean.
pub fn density(z: f64) -> f64 {
    (-0.5 * z * z).exp() / (2.0 * PI).sqrt()
}

/// How many deviations above the mean a share of values, above 0 and below 1, lies: the inverse of [`distribution`].
///
/// A bisection, which needs no table of coefficients; intervals ask for it once a statement.
pub fn quantile(share: f64) -> f64 {
    let (mut low, mut high) = (-40.0, 40.0);
    while high - low > 1e-13 {
        let middle = 0.5 * (low + high);
        if distribution(middle) < share { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    #[test]
    fn quantiles_are_those_of_tables() {
        for (share, z) in [(0.5, 0.0), (0.975, 1.959_963_984_540_054), (0.05, -1.644_853_626_951_472_2)] {
            assert!((super::quantile(share) - z).abs() < 1e-12);
        }
    }
}
