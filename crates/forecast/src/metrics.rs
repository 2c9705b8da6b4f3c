//! Errors of forecasts, by which models of series are compared.

use std::f64::consts::FRAC_2_SQRT_PI;

use crate::normal;

/// Mean absolute scaled error: the mean absolute error by that of the seasonal naive forecast within `learnt`
/// (Hyndman and Koehler, 2006). NaN where that is 0 or there is nothing to compare.
pub fn mase(learnt: &[f64], actual: &[f64], mean: &[f64], season: usize) -> f64 {
    let season = season.max(1);
    let naive = average(learnt.iter().skip(season).zip(learnt).map(|(later, earlier)| (later - earlier).abs()));
    let error = average(actual.iter().zip(mean).map(|(actual, mean)| (actual - mean).abs()));
    if naive > 0.0 { error / naive } else { f64::NAN }
}

/// Symmetric mean absolute percentage error in percent, from 0 to 200, as the M4 competition has it.
pub fn smape(actual: &[f64], mean: &[f64]) -> f64 {
    average(actual.iter().zip(mean).map(|(actual, mean)| {
        let scale = actual.abs() + mean.abs();
        if scale > 0.0 { 200.0 * (actual - mean).abs() / scale } else { 0.0 }
    }))
}

/// Continuous ranked probability score of normal forecasts, in the unit of the values: the mean of its closed form
/// (Gneiting and Raftery, 2007, section 4.2). Where `sigma` is 0 it is the absolute error.
pub fn crps(actual: &[f64], mean: &[f64], sigma: &[f64]) -> f64 {
    average(actual.iter().zip(mean.iter().zip(sigma)).map(|(actual, (mean, sigma))| {
        let error = actual - mean;
        let z = error / sigma;
        if *sigma > 0.0 && z.is_finite() {
            let within = 2.0 * normal::distribution(z) - 1.0;
            sigma * (z * within + 2.0 * normal::density(z) - FRAC_2_SQRT_PI / 2.0)
        } else {
            error.abs()
        }
    }))
}

/// The share of values within their intervals.
pub fn coverage(actual: &[f64], lower: &[f64], upper: &[f64]) -> f64 {
    average(
        actual
            .iter()
            .zip(lower.iter().zip(upper))
            .map(|(actual, (lower, upper))| f64::from(u8::from(lower <= actual && actual <= upper))),
    )
}

fn average(numbers: impl Iterator<Item = f64>) -> f64 {
    let (count, sum) = numbers.fold((0.0, 0.0), |(count, sum), number| (count + 1.0, sum + number));
    sum / count
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{found} {expected}");
    }

    #[test]
    fn errors_are_scaled_by_those_of_the_seasonal_naive_forecast() {
        let learnt = [1.0, 2.0, 4.0, 3.0];
        // Two steps apart they differ by 3 and 1, one step apart by 1, 2 and 1.
        close(mase(&learnt, &[5.0, 7.0], &[4.0, 4.0], 2), 1.0);
        close(mase(&learnt, &[5.0, 7.0], &[4.0, 4.0], 1), 1.5);
        close(mase(&learnt, &[5.0, 7.0], &[4.0, 4.0], 0), 1.5);
        for (learnt, actual, season) in [(&learnt[..], &[5.0][..], 4), (&[2.0; 4], &[5.0], 1), (&learnt, &[], 1)] {
            assert!(mase(learnt, actual, &[4.0], season).is_nan());
        }
    }

    #[test]
    fn percentages_are_from_0_to_200() {
        close(smape(&[0.0, 100.0], &[0.0, 50.0]), 100.0 / 3.0);
        close(smape(&[1.0, -2.0], &[0.0, 2.0]), 200.0);
        assert!(smape(&[], &[]).is_nan());
    }

    #[test]
    fn ends_of_intervals_cover() {
        close(coverage(&[1.0, 2.0, 3.0, f64::NAN], &[1.0, 0.0, 0.0, 0.0], &[2.0, 2.0, 2.0, 2.0]), 0.5);
    }

    #[test]
    fn the_score_of_a_normal_forecast_is_that_of_its_integral() {
        // At its mean, the square root of 2 less 1 over that of pi.
        close(crps(&[3.0], &[3.0], &[2.0]), 2.0 * (2.0_f64.sqrt() - 1.0) / std::f64::consts::PI.sqrt());
        close(crps(&[3.0, 5.0], &[4.0, 2.0], &[0.0, 0.0]), 2.0);
        close(crps(&[1e300], &[0.0], &[1e-300]), 1e300);
        for actual in [-3.0, 0.4, 9.0] {
            // Of the squared distance between the distribution and the step at the value.
            let integral: f64 = (0..200_000)
                .map(|cell| {
                    let x = -20.0 + 40.0 * (f64::from(cell) + 0.5) / 200_000.0;
                    let step = f64::from(u8::from(x >= actual));
                    (normal::distribution((x - 1.0) / 2.0) - step).powi(2) * 40.0 / 200_000.0
                })
                .sum();
            let score = crps(&[actual], &[1.0], &[2.0]);
            assert!((score - integral).abs() < 1e-4, "{score} {integral}");
        }
    }
}
