//! The common parts of linear families: rows around their means, and least squares.

use faer::linalg::matmul::matmul;
use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::linalg::solvers::{Llt, SelfAdjointEigen, Svd};
use faer::{Accum, Mat, MatRef, Par, Side};

use crate::Error;
use crate::family::{Control, Problem, Sparse, large_zeros, zeros};
use crate::numerics::helper_thread::on_helper_thread;
use crate::numerics::pace::Pace;
use crate::numerics::triangle::triangle;

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
    pub(crate) fn new(problem: &Problem<'_>, intercept: bool, control: &mut Control<'_>) -> Result<Centred, Error> {
        let mut targets = zeros(problem.rows, problem.targets)?;
        for (row, labels) in problem.labels.chunks_exact(problem.targets.max(1)).enumerate() {
            for (target, label) in labels.iter().enumerate() {
                targets[(row, target)] = f64::from(*label);
            }
        }
        Centred::weighted(problem, targets, weights(problem).as_deref(), intercept, control)
    }

    /// Of other targets, a column each, and with other weights.
    pub(crate) fn weighted(
        problem: &Problem<'_>,
        mut targets: Mat<f64>,
        weights: Option<&[f64]>,
        intercept: bool,
        control: &mut Control<'_>,
    ) -> Result<Centred, Error> {
        let mut features = problem.matrix(control)?;
        let mut centre = |matrix: &mut Mat<f64>| {
            (0..matrix.ncols())
                .map(|column| {
                    let values = matrix.col_as_slice_mut(column);
                    let mean = if intercept { mean(values, weights) } else { 0.0 };
                    for value in values.iter_mut() {
                        *value -= mean;
                    }
                    if values.iter().all(|value| value.abs() <= CONSTANT * mean.abs()) {
                        values.fill(0.0);
                    }
                    for (value, weight) in values.iter_mut().zip(weights.into_iter().flatten()) {
                        *value *= weight.sqrt();
                    }
                    control.check()?;
                    Ok(mean)
                })
                .collect::<Result<Vec<f64>, Error>>()
        };
        let feature_means = centre(&mut features)?;
        let target_means = centre(&mut targets)?;
        Ok(Centred { features, targets, feature_means, target_means })
    }

    /// The intercept that goes with these coefficients for a target.
    pub(crate) fn intercept(&self, coefficients: &[f64], target: usize) -> f64 {
        let moved: f64 = coefficients.iter().zip(&self.feature_means).map(|(a, b)| a * b).sum();
        self.target_means[target] - moved
    }
}

/// What differs from its mean by no more than this part of it is constant, but for the rounding of the mean. Features
/// and labels are float32, of which neighbours differ by more.
pub(crate) const CONSTANT: f64 = 1e-10;

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
    if let Some(sparse) = Sparse::of(problem) {
        for row in sparse.rows() {
            sparse.cells(row).for_each(|(feature, value)| sums[feature] += value);
        }
        sums.iter_mut().for_each(|sum| *sum /= problem.rows as f64);
        return sums;
    }
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

/// Multiplications between two looks for the end of a training.
const AT_ONCE: usize = 1 << 28;

/// The product of two matrices, some columns at a time.
pub(crate) fn product(
    left: MatRef<'_, f64>,
    right: MatRef<'_, f64>,
    control: &mut Control<'_>,
) -> Result<Mat<f64>, Error> {
    let mut product = large_zeros(left.nrows(), right.ncols(), control)?;
    let at_once = (AT_ONCE / (left.nrows() * left.ncols()).max(1)).max(1);
    for start in (0..right.ncols()).step_by(at_once) {
        control.check()?;
        let count = at_once.min(right.ncols() - start);
        let part = product.subcols_mut(start, count);
        matmul(part, Accum::Replace, left, right.subcols(start, count), 1.0, Par::Seq);
    }
    Ok(product)
}

/// The Cholesky factor of a symmetric matrix, of which the lower triangle counts, and the matrix; `None` where it is not
/// positive definite.
pub(crate) fn cholesky(matrix: Mat<f64>, control: &mut Control<'_>) -> Result<(Option<Llt<f64>>, Mat<f64>), Error> {
    let size = matrix.nrows() as f64;
    on_helper_thread(size * size * size / 3.0, control, move || (matrix.llt(Side::Lower).ok(), matrix))
}

/// The singular values and vectors of a matrix.
pub(crate) fn singular_values(matrix: Mat<f64>, control: &mut Control<'_>) -> Result<Svd<f64>, Error> {
    let (rows, columns) = (matrix.nrows() as f64, matrix.ncols() as f64);
    let found = on_helper_thread(4.0 * rows * columns * rows.min(columns), control, move || matrix.thin_svd())?;
    found.map_err(|_| Error::Diverged("the singular values were not found"))
}

/// The eigenvalues, the smallest first, and vectors of a symmetric matrix, of which the lower triangle counts.
pub(crate) fn eigenvalues(matrix: Mat<f64>, control: &mut Control<'_>) -> Result<SelfAdjointEigen<f64>, Error> {
    let size = matrix.nrows() as f64;
    let found = on_helper_thread(4.0 * size * size * size, control, move || matrix.self_adjoint_eigen(Side::Lower))?;
    found.map_err(|_| Error::Diverged("the eigenvalues were not found"))
}

/// The coefficients of least squares, the shortest where several are best: `features.ncols()` by `targets.ncols()`.
///
/// By the singular values of the features, those below `eps * max(rows, columns)` of the largest taken for zero.
pub(crate) fn least_squares(
    features: Mat<f64>,
    targets: MatRef<'_, f64>,
    control: &mut Control<'_>,
) -> Result<Mat<f64>, Error> {
    let (rows, columns) = (features.nrows(), features.ncols());
    // Of many rows little is left for what cannot be ended.
    let (features, targets) = match rows >= 2 * columns {
        true => triangle(features, targets.to_owned(), control)?,
        false => (features, targets.to_owned()),
    };
    let svd = singular_values(features, control)?;
    let singular = svd.S().column_vector();
    let largest = singular.iter().copied().fold(0.0, f64::max);
    let least = largest * f64::EPSILON * rows.max(columns) as f64;
    let mut projected = svd.U().transpose() * targets;
    for (row, value) in singular.iter().enumerate() {
        let factor = if *value > least { 1.0 / value } else { 0.0 };
        for column in 0..projected.ncols() {
            projected[(row, column)] *= factor;
        }
    }
    Ok(svd.V() * projected)
}

/// Features and targets as their products: all that least squares needs to know of many rows. Around the weighted means
/// where there is an intercept.
pub(crate) struct Moments {
    /// Features by features, symmetric.
    pub(crate) gram: Mat<f64>,
    /// Features by targets.
    pub(crate) products: Mat<f64>,
    /// The sum of the squares of each target.
    pub(crate) squares: Vec<f64>,
    /// As in [`Centred`].
    pub(crate) feature_means: Vec<f64>,
    /// As in [`Centred`].
    pub(crate) target_means: Vec<f64>,
}

impl Moments {
    /// Of these targets, row by row, `targets` a row, and weights.
    pub(crate) fn new(
        problem: &Problem<'_>,
        targets: &[f64],
        weights: Option<&[f64]>,
        intercept: bool,
        control: &mut Control<'_>,
    ) -> Result<Moments, Error> {
        if let Some(sparse) = Sparse::of(problem) {
            return Moments::of_sparse(problem, &sparse, targets, weights, intercept, control);
        }
        let (width, count) = (problem.width, targets.len() / problem.rows.max(1));
        let columns = width + count;
        let mut means = vec![0.0; columns];
        if intercept {
            means = means_of(problem, targets, weights, control)?;
        }
        // Features and targets side by side, some rows at a time.
        let mut whole = large_zeros(columns, columns, control)?;
        let block = (1 << 16) / columns.max(1) + 1;
        let mut rows = zeros(block, columns)?;
        for start in (0..problem.rows).step_by(block) {
            let length = block.min(problem.rows - start);
            for (column, mean) in means.iter().enumerate() {
                let values = &mut rows.col_as_slice_mut(column)[..length];
                match column.checked_sub(width) {
                    None => {
                        let features = problem.features[start * width + column..].iter().step_by(width);
                        for (value, feature) in values.iter_mut().zip(features) {
                            *value = f64::from(*feature) - mean;
                        }
                    }
                    Some(target) => {
                        let targets = targets[start * count + target..].iter().step_by(count);
                        for (value, target) in values.iter_mut().zip(targets) {
                            *value = target - mean;
                        }
                    }
                }
                if let Some(weights) = weights {
                    for (value, weight) in values.iter_mut().zip(&weights[start..]) {
                        *value *= weight.sqrt();
                    }
                }
            }
            let part = rows.subrows(0, length);
            triangular::matmul(
                whole.as_mut(),
                BlockStructure::TriangularLower,
                Accum::Add,
                part.transpose(),
                BlockStructure::Rectangular,
                part,
                BlockStructure::Rectangular,
                1.0,
                Par::Seq,
            );
            control.check()?;
        }
        let total = weights.map_or(problem.rows as f64, |weights| weights.iter().sum());
        for (column, mean) in means.iter().enumerate() {
            if whole[(column, column)] <= total * (CONSTANT * mean).powi(2) {
                for other in 0..columns {
                    whole[(column.max(other), column.min(other))] = 0.0;
                }
            }
        }
        Ok(Moments::of_whole(&whole, means, width))
    }

    /// The same of rows with columns of categories, which are taken around their means in the end.
    fn of_sparse(
        problem: &Problem<'_>,
        sparse: &Sparse<'_>,
        targets: &[f64],
        weights: Option<&[f64]>,
        intercept: bool,
        control: &mut Control<'_>,
    ) -> Result<Moments, Error> {
        let (width, count) = (problem.width, targets.len() / problem.rows.max(1));
        let columns = width + count;
        let weight = |row: usize| weights.map_or(1.0, |weights| weights[row]);
        let total: f64 = (0..problem.rows).map(weight).sum::<f64>().max(f64::MIN_POSITIVE);
        let mut pace = Pace::default();
        let mut means = vec![0.0; columns];
        if intercept {
            for (row, values) in sparse.rows().enumerate() {
                sparse.cells(values).for_each(|(feature, value)| means[feature] += weight(row) * value);
                let own = &targets[row * count..(row + 1) * count];
                means[width..].iter_mut().zip(own).for_each(|(mean, target)| *mean += weight(row) * target);
                pace.spend(sparse.width() + count, control)?;
            }
            means.iter_mut().for_each(|mean| *mean /= total);
        }
        // Of what is 0 or 1 the products are around 0 first, which costs no digits.
        let mut is_category = vec![false; columns];
        for (start, size) in sparse.columns() {
            is_category[start..start + size].fill(true);
        }
        let shift = |column: usize| if is_category[column] { 0.0 } else { means[column] };
        let mut whole = large_zeros(columns, columns, control)?;
        let mut cells: Vec<(usize, f64)> = Vec::new();
        for (row, values) in sparse.rows().enumerate() {
            cells.clear();
            cells.extend(sparse.cells(values));
            cells.extend(
                targets[row * count..(row + 1) * count].iter().enumerate().map(|(at, value)| (width + at, *value)),
            );
            cells.iter_mut().for_each(|(column, value)| *value -= shift(*column));
            for (index, (column, value)) in cells.iter().enumerate() {
                let value = weight(row) * value;
                for (other, factor) in &cells[..=index] {
                    whole[(*column, *other)] += value * factor;
                }
            }
            pace.spend(cells.len() * cells.len(), control)?;
        }
        for column in 0..columns {
            if is_category[column] && means[column] != 0.0 {
                for other in (0..columns).filter(|other| is_category[*other] && *other >= column) {
                    whole[(other, column)] -= total * means[column] * means[other];
                }
            }
            pace.spend(columns, control)?;
        }
        for (column, mean) in means.iter().enumerate() {
            if whole[(column, column)] <= total * (CONSTANT * mean).powi(2) {
                for other in 0..columns {
                    whole[(column.max(other), column.min(other))] = 0.0;
                }
            }
        }
        Ok(Moments::of_whole(&whole, means, width))
    }

    /// Of the products of all columns, of which the lower triangle counts; the targets are the last.
    fn of_whole(whole: &Mat<f64>, mut means: Vec<f64>, width: usize) -> Moments {
        let (columns, count) = (whole.nrows(), whole.nrows() - width);
        let gram = Mat::from_fn(width, width, |row, column| whole[(row.max(column), row.min(column))]);
        let products = Mat::from_fn(width, count, |row, target| whole[(width + target, row)]);
        let squares = (width..columns).map(|column| whole[(column, column)]).collect();
        let target_means = means.split_off(width);
        Moments { gram, products, squares, feature_means: means, target_means }
    }

    /// The intercept that goes with these coefficients for a target.
    pub(crate) fn intercept(&self, coefficients: &[f64], target: usize) -> f64 {
        let moved: f64 = coefficients.iter().zip(&self.feature_means).map(|(a, b)| a * b).sum();
        self.target_means[target] - moved
    }
}

/// The weighted means of the features, and behind them those of the targets.
fn means_of(
    problem: &Problem<'_>,
    targets: &[f64],
    weights: Option<&[f64]>,
    control: &mut Control<'_>,
) -> Result<Vec<f64>, Error> {
    let count = targets.len() / problem.rows.max(1);
    let mut means = vec![0.0; problem.width + count];
    let mut total = 0.0;
    let (of_features, of_targets) = means.split_at_mut(problem.width);
    for row in 0..problem.rows {
        let weight = weights.map_or(1.0, |weights| weights[row]);
        total += weight;
        for (sum, value) in of_features.iter_mut().zip(problem.row(row)) {
            *sum += weight * f64::from(*value);
        }
        for (sum, value) in of_targets.iter_mut().zip(&targets[row * count..]) {
            *sum += weight * value;
        }
        if row % 4096 == 0 {
            control.check()?;
        }
    }
    for mean in &mut means {
        *mean /= f64::max(total, f64::MIN_POSITIVE);
    }
    Ok(means)
}

/// The labels of all targets, row by row.
pub(crate) fn labels(problem: &Problem<'_>) -> Vec<f64> {
    problem.labels.iter().map(|label| f64::from(*label)).collect()
}

/// The weights of the rows, where they have some.
pub(crate) fn weights(problem: &Problem<'_>) -> Option<Vec<f64>> {
    problem.weights.map(|weights| weights.iter().map(|weight| f64::from(*weight)).collect())
}

/// The sum of products, in four sums at a time, which the processor adds up side by side.
pub(crate) fn dot(coefficients: &[f64], row: &[f32]) -> f64 {
    let mut sums = [0.0; 4];
    let (fours, rows) = (coefficients.chunks_exact(4), row.chunks_exact(4));
    let rest: f64 = fours
        .remainder()
        .iter()
        .zip(rows.remainder())
        .map(|(coefficient, value)| coefficient * f64::from(*value))
        .sum();
    for (four, values) in fours.zip(rows) {
        for lane in 0..4 {
            sums[lane] += four[lane] * f64::from(values[lane]);
        }
    }
    (sums[0] + sums[1]) + (sums[2] + sums[3]) + rest
}
