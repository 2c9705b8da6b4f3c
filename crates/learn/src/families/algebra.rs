//! What linear families share: rows around their means, and least squares.

use faer::{Mat, MatRef};

use crate::Error;
use crate::family::{Problem, zeros};

/// Features and targets around their weighted means, each row times the square root of its weight: an intercept and the
/// weights have no part in what is fitted to them any more.
pub(crate) struct Centred {
    pub(crate) features: Mat<f64>,
    pub(crate) targets: Mat<f64>,
    /// Weighted means of the features; zeros without an intercept.
    pub(crate) feature_means: Vec<f64>,
    /// Weighted means of the targets; zeros without an intercept.
    pub(crate) target_means: Vec<f64>,
}

impl Centred {
    /// Of the labels of the problem.
    pub(crate) fn new(problem: &Problem<'_>, intercept: bool) -> Result<Centred, Error> {
        let mut targets = zeros(problem.rows, problem.targets)?;
        for (row, labels) in problem.labels.chunks_exact(problem.targets.max(1)).enumerate() {
            for (target, label) in labels.iter().enumerate() {
                targets[(row, target)] = f64::from(*label);
            }
        }
        Centred::of(problem, targets, intercept)
    }

    /// Of other targets, a column each.
    pub(crate) fn of(problem: &Problem<'_>, mut targets: Mat<f64>, intercept: bool) -> Result<Centred, Error> {
        let mut features = problem.matrix()?;
        let weights: Option<Vec<f64>> =
            problem.weights.map(|weights| weights.iter().map(|weight| f64::from(*weight)).collect());
        let centre = |matrix: &mut Mat<f64>| {
            (0..matrix.ncols())
                .map(|column| {
                    let values = matrix.col_as_slice_mut(column);
                    let mean = if intercept { mean(values, weights.as_deref()) } else { 0.0 };
                    for value in values.iter_mut() {
                        *value -= mean;
                    }
                    for (value, weight) in values.iter_mut().zip(weights.iter().flatten()) {
                        *value *= weight.sqrt();
                    }
                    mean
                })
                .collect::<Vec<f64>>()
        };
        let feature_means = centre(&mut features);
        let target_means = centre(&mut targets);
        Ok(Centred { features, targets, feature_means, target_means })
    }

    /// The intercept that goes with these coefficients for a target.
    pub(crate) fn intercept(&self, coefficients: &[f64], target: usize) -> f64 {
        let moved: f64 = coefficients.iter().zip(&self.feature_means).map(|(a, b)| a * b).sum();
        self.target_means[target] - moved
    }
}

/// The mean of some values, each of which counts as much as its weight says.
pub(crate) fn mean(values: &[f64], weights: Option<&[f64]>) -> f64 {
    match weights {
        None => values.iter().sum::<f64>() / values.len().max(1) as f64,
        Some(weights) => {
            let sum: f64 = values.iter().zip(weights).map(|(value, weight)| value * weight).sum();
            sum / weights.iter().sum::<f64>().max(f64::MIN_POSITIVE)
        }
    }
}

/// The means of the features, unweighted: what contributions are measured from.
pub(crate) fn feature_means(problem: &Problem<'_>) -> Vec<f64> {
    let mut sums = vec![0.0; problem.width];
    for row in problem.features.chunks_exact(problem.width) {
        for (sum, value) in sums.iter_mut().zip(row) {
            *sum += f64::from(*value);
        }
    }
    for sum in &mut sums {
        *sum /= problem.rows as f64;
    }
    sums
}

/// The coefficients of least squares, the shortest where several are best: `features.ncols()` by `targets.ncols()`.
///
/// By the singular values of the features, those below `eps * max(rows, columns)` of the largest taken for zero.
pub(crate) fn least_squares(features: MatRef<'_, f64>, targets: MatRef<'_, f64>) -> Result<Mat<f64>, Error> {
    let svd = features.thin_svd().map_err(|_| Error::Diverged("the singular values were not found"))?;
    let singular = svd.S().column_vector();
    let largest = singular.iter().copied().fold(0.0, f64::max);
    let least = largest * f64::EPSILON * features.nrows().max(features.ncols()) as f64;
    let mut projected = svd.U().transpose() * targets;
    for (row, value) in singular.iter().enumerate() {
        let factor = if *value > least { 1.0 / value } else { 0.0 };
        for column in 0..projected.ncols() {
            projected[(row, column)] *= factor;
        }
    }
    Ok(svd.V() * projected)
}
