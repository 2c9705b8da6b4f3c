//! Losses of linear functions, and their slopes, over the rows of a problem.
//!
//! The search for the least goes by other parameters than the model: each feature is taken around its mean and in units
//! of its deviation, so that features of any scale are as quickly fitted. What is fitted is the same.

use crate::Error;
use crate::family::{Control, Problem, Sparse};
use crate::numerics::algebra::{CONSTANT, dot};

/// The rows as a search sees them. Its parameters are `width` numbers a score, and one more with an intercept.
pub(crate) struct LinearLosses<'a> {
    problem: &'a Problem<'a>,
    sparse: Option<Sparse<'a>>,
    /// The weight of each row.
    pub(crate) weights: Vec<f64>,
    /// Of each feature.
    pub(crate) shifts: Vec<f64>,
    /// Of each feature, never 0.
    pub(crate) scales: Vec<f64>,
    intercept: bool,
}

/// Coefficients, `width` a score, and intercepts, one for each score.
pub(crate) struct Plain {
    pub(crate) coefficients: Vec<f64>,
    pub(crate) intercepts: Vec<f64>,
}

impl<'a> LinearLosses<'a> {
    /// With these weights, a row each. Only where `centred` the features are taken around their means: a cost of the
    /// absolute value of the intercept needs it to be a parameter of its own.
    pub(crate) fn new(problem: &'a Problem<'a>, weights: Vec<f64>, intercept: bool, centred: bool) -> LinearLosses<'a> {
        let total: f64 = weights.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        let sparse = Sparse::of(problem);
        let mut shifts = vec![0.0; problem.width];
        if intercept && centred {
            match &sparse {
                Some(sparse) => {
                    for (row, weight) in sparse.rows().zip(&weights) {
                        sparse.cells(row).for_each(|(feature, value)| shifts[feature] += weight * value);
                    }
                }
                None => {
                    for (row, weight) in problem.features.chunks_exact(problem.width).zip(&weights) {
                        for (shift, value) in shifts.iter_mut().zip(row) {
                            *shift += weight * f64::from(*value);
                        }
                    }
                }
            }
            for shift in &mut shifts {
                *shift /= total;
            }
        }
        let mut squares = vec![0.0; problem.width];
        for (row, weight) in sparse.iter().flat_map(Sparse::rows).zip(&weights) {
            let cells = sparse.iter().flat_map(|sparse| sparse.cells(row));
            cells.for_each(|(feature, value)| squares[feature] += weight * (value - shifts[feature]).powi(2));
        }
        for (start, size) in sparse.iter().flat_map(Sparse::columns) {
            for feature in start..start + size {
                // Of the rows that are 0, which were not met.
                let rows = squares[feature] / (1.0 - shifts[feature]).powi(2).max(f64::MIN_POSITIVE);
                squares[feature] += (total - rows).max(0.0) * shifts[feature].powi(2);
            }
        }
        let dense = if sparse.is_some() { &[][..] } else { problem.features };
        for (row, weight) in dense.chunks_exact(problem.width).zip(&weights) {
            for ((square, value), shift) in squares.iter_mut().zip(row).zip(&shifts) {
                let value = f64::from(*value) - shift;
                *square += weight * value * value;
            }
        }
        let scales = squares.iter().zip(&shifts).map(|(square, shift)| {
            let deviation = (square / total).sqrt();
            if deviation > CONSTANT * shift.abs() && deviation > 0.0 { deviation } else { 1.0 }
        });
        LinearLosses { problem, sparse, scales: scales.collect(), weights, shifts, intercept }
    }

    /// The sum of the weights.
    pub(crate) fn total(&self) -> f64 {
        self.weights.iter().sum()
    }

    /// How many parameters a score has.
    pub(crate) fn parameters(&self) -> usize {
        self.problem.width + usize::from(self.intercept)
    }

    /// The model that the parameters mean.
    pub(crate) fn plain(&self, parameters: &[f64]) -> Plain {
        let width = self.problem.width;
        let scores = parameters.len() / self.parameters();
        let mut plain =
            Plain { coefficients: Vec::with_capacity(scores * width), intercepts: Vec::with_capacity(scores) };
        for own in parameters.chunks_exact(self.parameters()) {
            let mut intercept = own.get(width).copied().unwrap_or(0.0);
            for ((value, scale), shift) in own.iter().zip(&self.scales).zip(&self.shifts) {
                let coefficient = value / scale;
                intercept -= coefficient * shift;
                plain.coefficients.push(coefficient);
            }
            plain.intercepts.push(intercept);
        }
        plain
    }

    /// The slope by the parameters from that by the model.
    pub(crate) fn slope(&self, of: &Plain, slope: &mut [f64]) {
        let width = self.problem.width;
        let models = of.coefficients.chunks_exact(width).zip(&of.intercepts);
        for (own, (coefficients, intercept)) in slope.chunks_exact_mut(self.parameters()).zip(models) {
            for feature in 0..width {
                own[feature] = (coefficients[feature] - self.shifts[feature] * intercept) / self.scales[feature];
            }
            if let Some(last) = own.get_mut(width) {
                *last = *intercept;
            }
        }
    }

    /// The sum of the losses of all rows, each times its weight, and their slope by the model. `loss` is given a row's
    /// index and its scores, gives the loss and makes of each score the slope of the loss by it.
    pub(crate) fn losses(
        &self,
        model: &Plain,
        control: &mut Control<'_>,
        mut loss: impl FnMut(usize, &mut [f64]) -> f64,
    ) -> Result<(f64, Plain), Error> {
        let width = self.problem.width;
        let mut slope =
            Plain { coefficients: vec![0.0; model.coefficients.len()], intercepts: vec![0.0; model.intercepts.len()] };
        let mut scores = vec![0.0; model.intercepts.len()];
        let mut sum = 0.0;
        let numbers = self.sparse.as_ref().map_or(width, Sparse::width);
        let block = (1 << 17) / (numbers * model.intercepts.len()).max(1) + 1;
        for (row, features) in self.problem.features.chunks_exact(numbers).enumerate() {
            if row % block == 0 {
                control.check()?;
            }
            let weight = self.weights[row];
            if weight == 0.0 {
                continue;
            }
            let models = model.coefficients.chunks_exact(width).zip(&model.intercepts);
            for (score, (coefficients, intercept)) in scores.iter_mut().zip(models) {
                *score = intercept
                    + match &self.sparse {
                        None => dot(coefficients, features),
                        Some(sparse) => {
                            sparse.cells(features).map(|(feature, value)| coefficients[feature] * value).sum::<f64>()
                        }
                    };
            }
            sum += weight * loss(row, &mut scores);
            for (index, by_score) in scores.iter().enumerate() {
                let factor = weight * by_score;
                if factor != 0.0 {
                    slope.intercepts[index] += factor;
                    let own = &mut slope.coefficients[index * width..(index + 1) * width];
                    match &self.sparse {
                        Some(sparse) => {
                            sparse.cells(features).for_each(|(feature, value)| own[feature] += factor * value);
                        }
                        None => {
                            for (slope, value) in own.iter_mut().zip(features) {
                                *slope += factor * f64::from(*value);
                            }
                        }
                    }
                }
            }
        }
        Ok((sum, slope))
    }
}
