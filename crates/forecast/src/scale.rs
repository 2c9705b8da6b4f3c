//! The size of a series. Models of huge and tiny values would compute squares outside the range of their numbers, so
//! such a series is divided by a power of two, which is exact, and its forecasts are multiplied by that.

/// The power of two by which to divide: 1 for values of an everyday size, else near the largest of them.
pub(crate) fn of(values: &[f64]) -> f64 {
    let largest = values.iter().fold(0.0_f64, |largest, value| largest.max(value.abs()));
    if largest == 0.0 || (1e-6..1e9).contains(&largest) { 1.0 } else { largest.log2().floor().min(1023.0).exp2() }
}

pub(crate) fn divide(values: &[f64], scale: f64) -> Vec<f64> {
    values.iter().map(|value| value / scale).collect()
}

/// Multiplies by `scale`, to the largest number at most.
pub(crate) fn multiply(values: &mut [f64], scale: f64) {
    values.iter_mut().for_each(|value| *value = (*value * scale).clamp(-f64::MAX, f64::MAX));
}

#[cfg(test)]
mod tests {
    #[test]
    fn division_by_the_scale_is_exact() {
        for values in [vec![1e300, -3e307], vec![1e-300, 5e-324], vec![5e-324], vec![f64::MAX], vec![3.0, 0.0]] {
            let scale = super::of(&values);
            let mut there = super::divide(&values, scale);
            assert!(there.iter().all(|value| value.abs() < 1e9));
            super::multiply(&mut there, scale);
            assert_eq!(there, values);
        }
    }
}
