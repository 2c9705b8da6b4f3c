//! The classical decomposition of a series into its trend, a moving average over one season, and the mean of each
//! position in the season (Macaulay, 1931; Hyndman and Athanasopoulos, 2021, section 3.4).

/// The component of the season at each position of it, beginning with that of the first value. They add up to 0, or if
/// `multiplicative` have the mean 1. `values` must hold two seasons, and be positive if `multiplicative`.
pub(crate) fn classical(values: &[f64], season: usize, multiplicative: bool) -> Vec<f64> {
    let half = season / 2;
    // Of an even season the window has one value more, and those at its ends count half.
    let halved = if season.is_multiple_of(2) { 0.5 } else { 1.0 };
    let mut sums = vec![0.0; season];
    let mut counts = vec![0.0; season];
    for middle in half..values.len() - half {
        let window = &values[middle - half..=middle + half];
        let ends = window[0] + window[window.len() - 1];
        let trend = (halved * ends + window[1..window.len() - 1].iter().sum::<f64>()) / season as f64;
        let rest = if multiplicative { values[middle] / trend } else { values[middle] - trend };
        sums[middle % season] += rest;
        counts[middle % season] += 1.0;
    }
    let mut means: Vec<f64> = sums.iter().zip(&counts).map(|(sum, count)| sum / count).collect();
    let mean = means.iter().sum::<f64>() / season as f64;
    means.iter_mut().for_each(|value| if multiplicative { *value /= mean } else { *value -= mean });
    means
}

#[cfg(test)]
mod tests {
    #[test]
    fn seasons_of_odd_and_even_length_are_found_in_a_linear_series() {
        for pattern in [&[3.0, -1.0, -2.0][..], &[1.0, 2.0, -4.0, 1.0]] {
            let values: Vec<f64> = (0..20).map(|step| step as f64 + pattern[step % pattern.len()]).collect();
            let found = super::classical(&values, pattern.len(), false);
            assert!(found.iter().zip(pattern).all(|(found, meant)| (found - meant).abs() < 1e-12), "{found:?}");
        }
    }
}
