//! How often a series is to be differenced.

use super::polynomial::difference;
use crate::{Result, mstl};

/// Seasons stronger than this are differenced (Wang, Smith and Hyndman, 2006; the limit by Hyndman's forecast package).
const STRONG: f64 = 0.64;
/// The critical value of the test of stationarity at a level of 5 % (Kwiatkowski et al., 1992, table 1).
const CRITICAL: f64 = 0.463;
const MOST_DIFFERENCES: usize = 2;

/// The number of seasonal differences, by the share of the variance without trend that is the season's.
pub(super) fn seasonal_differences(values: &[f64], season: usize) -> Result<usize> {
    if season < 2 || values.len() <= 2 * season || is_constant(values) {
        return Ok(0);
    }
    let (seasonal, trend) = mstl::decomposed(values, season, 11)?;
    let without_trend: Vec<f64> = values.iter().zip(&trend).map(|(value, trend)| value - trend).collect();
    let remainder: Vec<f64> = without_trend.iter().zip(&seasonal).map(|(value, seasonal)| value - seasonal).collect();
    let strength = 1.0 - variance(&remainder) / variance(&without_trend);
    Ok(usize::from(strength > STRONG))
}

/// The number of differences, until the test does not reject that the level is stationary.
pub(super) fn differences(values: &[f64]) -> usize {
    let mut current = values.to_vec();
    for count in 0..MOST_DIFFERENCES {
        if is_constant(&current) || kpss(&current) <= CRITICAL {
            return count;
        }
        current = difference(&current, 1, 0, 1);
        // The reference implementations leave out one value more.
        if current.len() > 1 {
            current.remove(0);
        }
    }
    MOST_DIFFERENCES
}

/// The statistic of Kwiatkowski, Phillips, Schmidt and Shin (1992) for a level; 0 where it is undefined.
fn kpss(values: &[f64]) -> f64 {
    let length = values.len() as f64;
    let mean = values.iter().sum::<f64>() / length;
    let errors: Vec<f64> = values.iter().map(|value| value - mean).collect();
    let lags = (3.0 * length.sqrt() / 13.0).floor() as usize;
    let product = |lag: usize| errors.iter().skip(lag).zip(&errors).map(|(late, early)| late * early).sum::<f64>();
    let weighed = (1..=lags).map(|lag| 2.0 * product(lag) * (1.0 - lag as f64 / (lags as f64 + 1.0)));
    let spread = (product(0) + weighed.sum::<f64>()) / length;
    let mut total = 0.0;
    let mut squares = 0.0;
    for error in &errors {
        total += error;
        squares += total * total;
    }
    let statistic = squares / (length * length) / spread;
    if statistic.is_finite() { statistic } else { 0.0 }
}

/// Whether values differ by no more than rounding does.
pub(super) fn is_constant(values: &[f64]) -> bool {
    let (low, high) = values
        .iter()
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(*value), high.max(*value)));
    values.is_empty() || high - low <= 1e-12 * high.abs().max(low.abs())
}

fn variance(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    values.iter().map(|value| (value - mean).powi(2)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_is_differenced_and_noise_is_not() {
        let noise: Vec<f64> = (0..100).map(|step| ((step * step * 37 + step * 11) % 101) as f64 / 50.0 - 1.0).collect();
        let sum = |values: &[f64]| -> Vec<f64> {
            values
                .iter()
                .scan(0.0, |total, value| {
                    *total += value;
                    Some(*total)
                })
                .collect()
        };
        assert_eq!(differences(&noise), 0);
        let climbing: Vec<f64> = (0..100).map(|step| noise[step] + step as f64).collect();
        assert_eq!(differences(&climbing), 1);
        assert_eq!(differences(&sum(&climbing)), 2);
        assert_eq!(differences(&[3.0]), 0);
    }

    #[test]
    fn a_strong_season_is_differenced_and_a_weak_one_is_not() {
        let noise = |step: usize| ((step * step * 37 + step * 11) % 101) as f64 / 50.0 - 1.0;
        let series = |height: f64| -> Vec<f64> {
            (0..80).map(|step| noise(step) + height * [1.0, 3.0, -2.0, -2.0][step % 4]).collect()
        };
        assert_eq!(seasonal_differences(&series(2.0), 4), Ok(1));
        assert_eq!(seasonal_differences(&series(0.1), 4), Ok(0));
        assert_eq!(seasonal_differences(&series(2.0), 40), Ok(0));
    }
}
