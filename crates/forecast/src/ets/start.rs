//! The states with which the search for the best ones begins: Hyndman et al. (2008), section 2.6.1.

use super::{Component, Shape};
use crate::decompose;

/// The level before the first value, the slope if there is a trend, and the season backwards from its last position
/// but without the first, which the others determine. `values` are positive if the season is multiplicative.
pub(super) fn states(values: &[f64], season: usize, shape: Shape) -> Vec<f64> {
    let mut seasonal = Vec::new();
    let mut adjusted = values.to_vec();
    if shape.season != Component::None {
        let multiplicative = shape.season == Component::Multiplicative;
        let found = pattern(values, season, multiplicative);
        seasonal.extend(found[1..season].iter().rev());
        for (value, found) in adjusted.iter_mut().zip(&found) {
            *value = if multiplicative { *value / found.max(0.01) } else { *value - found };
        }
        if multiplicative {
            seasonal.iter_mut().for_each(|value: &mut f64| *value = value.max(0.01));
            if seasonal.iter().sum::<f64>() > season as f64 {
                let sum: f64 = seasonal.iter().map(|value| value + 0.01).sum();
                seasonal.iter_mut().for_each(|value| *value /= sum);
            }
        }
    }
    let window = if shape.season == Component::None { 10 } else { (2 * season).max(10) };
    let mut states = level_and_slope(&adjusted[..window.min(values.len())], shape.trend);
    states.extend(seasonal);
    states
}

/// The season at each value.
fn pattern(values: &[f64], season: usize, multiplicative: bool) -> Vec<f64> {
    if values.len() >= 3 * season {
        let found = decompose::classical(values, season, multiplicative);
        return (0..values.len()).map(|step| found[step % season]).collect();
    }
    // Too few to average: what a line besides one harmonic wave leaves.
    let angle = |step: usize| std::f64::consts::TAU * (step + 1) as f64 / season as f64;
    let wave = [
        values.iter().map(|_| 1.0).collect(),
        (0..values.len()).map(|step| (step + 1) as f64).collect(),
        (0..values.len()).map(|step| angle(step).cos()).collect(),
        (0..values.len()).map(|step| angle(step).sin()).collect(),
    ];
    let coefficients = least_squares(&wave, values);
    let line = |step: usize| coefficients[0] + coefficients[1] * (step + 1) as f64;
    let rest = |(step, value): (usize, &f64)| if multiplicative { value / line(step) } else { value - line(step) };
    values.iter().enumerate().map(rest).collect()
}

fn level_and_slope(values: &[f64], trend: Component) -> Vec<f64> {
    if trend == Component::None {
        return vec![values.iter().sum::<f64>() / values.len() as f64];
    }
    let ones = vec![1.0; values.len()];
    let times = (1..=values.len()).map(|time| time as f64).collect();
    let line = least_squares(&[ones, times], values);
    let (level, slope) = (line[0], line[1]);
    if trend == Component::Additive {
        // A first forecast of 0 would have no relative error.
        return if (level + slope).abs() < 1e-8 { vec![level * 1.001, slope * 0.999] } else { vec![level, slope] };
    }
    let first = if (level + slope).abs() < 1e-8 { 1e-7 } else { level + slope };
    let growth = (level + 2.0 * slope) / first;
    let before = first / growth;
    if before >= 1e-8 && growth >= 1e-8 && before.is_finite() {
        return vec![before, growth.min(1e10)];
    }
    vec![values[0].max(1e-3), (values[1] / values[0]).max(1e-3)]
}

/// Coefficients of `columns` that come closest to `target`, by orthogonalisation; 0 for a column that others determine.
fn least_squares(columns: &[Vec<f64>], target: &[f64]) -> Vec<f64> {
    let dot = |left: &[f64], right: &[f64]| left.iter().zip(right).map(|(left, right)| left * right).sum::<f64>();
    let mut basis: Vec<Vec<f64>> = Vec::new();
    let mut triangle = vec![vec![0.0; columns.len()]; columns.len()];
    for (index, column) in columns.iter().enumerate() {
        let mut rest = column.clone();
        // Twice, so that rounding in the first pass is corrected by the second.
        for _ in 0..2 {
            for (row, direction) in basis.iter().enumerate() {
                let along = dot(direction, &rest);
                triangle[row][index] += along;
                rest.iter_mut().zip(direction).for_each(|(rest, direction)| *rest -= along * direction);
            }
        }
        let length = dot(&rest, &rest).sqrt();
        if length > 1e-9 * dot(column, column).sqrt() {
            triangle[index][index] = length;
            rest.iter_mut().for_each(|value| *value /= length);
        } else {
            rest.fill(0.0);
        }
        basis.push(rest);
    }
    let mut coefficients = vec![0.0; columns.len()];
    for index in (0..columns.len()).rev() {
        if triangle[index][index] > 0.0 {
            let known: f64 = (index + 1..columns.len()).map(|later| triangle[index][later] * coefficients[later]).sum();
            coefficients[index] = (dot(&basis[index], target) - known) / triangle[index][index];
        }
    }
    coefficients
}
