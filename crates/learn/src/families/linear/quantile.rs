//! Quantile regression (Koenker and Bassett, 1978): the linear function below which a given part of the labels lies, with
//! the sizes of the coefficients as a cost. The objective is that of scikit-learn's QuantileRegressor.
//!
//! It is a linear program, and its dual has a bound below and above for each row and an equation for each coefficient.
//! That is solved by an interior point method, predictor and corrector (Mehrotra, 1992), as Portnoy and Koenker (1997)
//! have it. The cost of a coefficient is a row too: half of its size is the loss of the median of one row.

use faer::linalg::matmul::triangular::{self, BlockStructure};
use faer::linalg::solvers::{Llt, Solve};
use faer::{Accum, Mat, Par};

use crate::Error;
use crate::families::common::{FIT_INTERCEPT, NOT_NEGATIVE, ignored, linear_model, takes, told_whether_converged};
use crate::families::linear::losses::LinearLosses;
use crate::family::{Control, Family, Given, Kind, Model, Problem, Task, large_zeros, zeros};
use crate::forms::linear::{self, Link};
use crate::numerics::algebra::{CONSTANT, cholesky, mean};

/// `quantile`, as scikit-learn's QuantileRegressor.
pub(crate) const QUANTILE: Family = Family {
    name: "quantile",
    task: Task::Regression,
    parameters: &[
        takes(
            "quantile",
            Kind::Number(1e-9, 1.0 - 1e-9),
            "0.5",
            "The quantile to predict: the share of labels below the prediction, above 0 and below 1.",
        ),
        takes("alpha", NOT_NEGATIVE, "1.0", "The strength of the L1 penalty."),
        FIT_INTERCEPT,
        takes(
            "solver",
            Kind::Choice(&["highs", "highs-ds", "highs-ipm", "interior-point", "revised simplex"]),
            "\"highs\"",
            "No effect: an interior point method solves it.",
        ),
        ignored("solver_options", "null"),
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit,
    form: &linear::FORM,
};

/// The most rounds; a few dozen are usual.
const ROUNDS: usize = 200;

/// How far the objective may be from its least at the end, as a part of the sum of the weights, in units of the label's
/// deviation.
const EXACT: f64 = 1e-10;

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let (tau, alpha) = (given.number("quantile"), given.number("alpha"));
    let weights: Vec<f64> = (0..problem.rows).map(|row| problem.weight(row)).collect();
    let intercept = given.flag("fit_intercept");
    let rows = LinearLosses::new(problem, weights, intercept, true);
    let total = rows.total();

    let labels = problem.target(0);
    let middle = if intercept { mean(&labels, Some(&rows.weights)) } else { 0.0 };
    let squares: Vec<f64> = labels.iter().map(|label| (label - middle).powi(2)).collect();
    let deviation = mean(&squares, Some(&rows.weights)).sqrt();
    let unit = if deviation > CONSTANT * middle.abs() && deviation > 0.0 { deviation } else { 1.0 };

    let kept: Vec<usize> = (0..problem.rows).filter(|row| rows.weights[*row] > 0.0).collect();
    let costs = if alpha > 0.0 { problem.width } else { 0 };
    let mut program = Program {
        rows: large_zeros(kept.len() + costs, rows.parameters(), control)?,
        targets: vec![0.0; kept.len() + costs],
        start: vec![1.0 - tau; kept.len()],
    };
    program.start.resize(kept.len() + costs, 0.5);
    for (index, row) in kept.iter().enumerate() {
        let weight = rows.weights[*row];
        for (feature, value) in problem.row(*row).iter().enumerate() {
            let (shift, away) = (rows.shifts[feature], f64::from(*value) - rows.shifts[feature]);
            let away = if away.abs() <= CONSTANT * shift.abs() { 0.0 } else { away };
            program.rows[(index, feature)] = weight * away / rows.scales[feature];
        }
        if intercept {
            program.rows[(index, problem.width)] = weight;
        }
        program.targets[index] = weight * (labels[*row] - middle) / unit;
    }
    for feature in 0..costs {
        program.rows[(kept.len() + feature, feature)] = 2.0 * alpha * total / rows.scales[feature];
    }
    let (solution, converged) = program.solve(EXACT * total, control)?;
    let plain = rows.plain(&solution);
    let coefficients = plain.coefficients.iter().map(|coefficient| coefficient * unit).collect();
    let intercepts = plain.intercepts.iter().map(|intercept| intercept * unit + middle).collect();
    let model = linear_model(problem, coefficients, intercepts, Link::Identity)?;
    Ok(told_whether_converged(model, converged))
}

/// To find the coefficients whose residuals have the least sum of losses: of a residual above 0, one less `start` of it,
/// of one below 0, `start` of its size.
struct Program {
    rows: Mat<f64>,
    targets: Vec<f64>,
    start: Vec<f64>,
}

/// A point on the way: for each row the multiplier, its distance from 1, and the slopes at both bounds.
struct Point {
    low: Vec<f64>,
    high: Vec<f64>,
    above: Vec<f64>,
    below: Vec<f64>,
}

/// A step, as a [`Point`].
struct Step {
    low: Vec<f64>,
    above: Vec<f64>,
    below: Vec<f64>,
    coefficients: Vec<f64>,
}

impl Point {
    /// How far from the least it is at most.
    fn gap(&self) -> f64 {
        let products = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        products(&self.low, &self.above) + products(&self.high, &self.below)
    }

    /// The gap after parts of a step.
    fn gap_after(&self, step: &Step, multipliers: f64, slopes: f64) -> f64 {
        (0..self.low.len())
            .map(|row| {
                let move_by = multipliers * step.low[row];
                (self.low[row] + move_by) * (self.above[row] + slopes * step.above[row])
                    + (self.high[row] - move_by) * (self.below[row] + slopes * step.below[row])
            })
            .sum()
    }

    /// Which parts of a step, for the multipliers and for the slopes, stay within the bounds.
    fn lengths(&self, step: &Step) -> (f64, f64) {
        let (mut multipliers, mut slopes) = (f64::INFINITY, f64::INFINITY);
        for row in 0..self.low.len() {
            let up = step.low[row];
            multipliers = multipliers.min(if up < 0.0 { -self.low[row] / up } else { f64::INFINITY });
            multipliers = multipliers.min(if up > 0.0 { self.high[row] / up } else { f64::INFINITY });
            for (slope, change) in [(self.above[row], step.above[row]), (self.below[row], step.below[row])] {
                slopes = slopes.min(if change < 0.0 { -slope / change } else { f64::INFINITY });
            }
        }
        // Nearly to the bound, and not onto it.
        ((0.9995 * multipliers).min(1.0), (0.9995 * slopes).min(1.0))
    }
}

impl Program {
    /// The coefficients, and whether they are as exact as asked for.
    fn solve(&self, enough: f64, control: &mut Control<'_>) -> Result<(Vec<f64>, bool), Error> {
        let count = self.targets.len();
        let even = self.factor(&vec![1.0; count], control)?;
        let mut coefficients = even.solve(self.sums(&self.targets)).col_as_slice(0).to_vec();
        let residuals = self.residuals(&coefficients);
        // A slope of 0 at both bounds has no way to go.
        let size = residuals.iter().map(|residual| residual.abs()).sum::<f64>() / count.max(1) as f64;
        let least = 1e-3 * size.max(1e-9);
        let mut point = Point {
            low: self.start.clone(),
            high: self.start.iter().map(|start| 1.0 - start).collect(),
            above: residuals.iter().map(|residual| (-residual).max(0.0) + least).collect(),
            below: residuals.iter().map(|residual| residual.max(0.0) + least).collect(),
        };
        for _ in 0..ROUNDS {
            control.check()?;
            let gap = point.gap();
            if gap <= enough {
                return Ok((coefficients, true));
            }
            let weights: Vec<f64> = (0..count)
                .map(|row| 1.0 / (point.above[row] / point.low[row] + point.below[row] / point.high[row]))
                .collect();
            let factor = self.factor(&weights, control)?;
            let zero = vec![0.0; count];
            let mut step = self.step(&point, &factor, &weights, 0.0, (&zero, &zero));
            let (mut multipliers, mut slopes) = point.lengths(&step);
            if multipliers.min(slopes) < 1.0 {
                let after = point.gap_after(&step, multipliers, slopes).max(0.0);
                let centre = (after / gap).powi(3) * gap / (2.0 * count as f64);
                let second_low: Vec<f64> = (0..count).map(|row| step.low[row] * step.above[row]).collect();
                let second_high: Vec<f64> = (0..count).map(|row| -step.low[row] * step.below[row]).collect();
                step = self.step(&point, &factor, &weights, centre, (&second_low, &second_high));
                (multipliers, slopes) = point.lengths(&step);
            }
            if !(multipliers.is_finite() && slopes.is_finite()) || multipliers.max(slopes) < 1e-12 {
                break;
            }
            for row in 0..count {
                point.low[row] += multipliers * step.low[row];
                point.high[row] -= multipliers * step.low[row];
                point.above[row] += slopes * step.above[row];
                point.below[row] += slopes * step.below[row];
            }
            for (coefficient, change) in coefficients.iter_mut().zip(&step.coefficients) {
                *coefficient += slopes * change;
            }
        }
        let converged = point.gap() <= 1e4 * enough;
        Ok((coefficients, converged))
    }

    /// The sums of the rows, each times a factor.
    fn sums(&self, factors: &[f64]) -> Mat<f64> {
        let factors = Mat::from_fn(factors.len(), 1, |row, _| factors[row]);
        self.rows.transpose() * factors
    }

    fn fitted(&self, coefficients: &[f64]) -> Vec<f64> {
        let coefficients = Mat::from_fn(coefficients.len(), 1, |row, _| coefficients[row]);
        (&self.rows * coefficients).col_as_slice(0).to_vec()
    }

    fn residuals(&self, coefficients: &[f64]) -> Vec<f64> {
        let fitted = self.fitted(coefficients);
        self.targets.iter().zip(fitted).map(|(target, fitted)| target - fitted).collect()
    }

    /// The factor of the products of the features, each row counted by its weight.
    fn factor(&self, weights: &[f64], control: &mut Control<'_>) -> Result<Llt<f64>, Error> {
        let (count, width) = (self.rows.nrows(), self.rows.ncols());
        let mut gram = large_zeros(width, width, control)?;
        let block = ((1 << 16) / width.max(1) + 1).min(count);
        let mut part = zeros(block, width)?;
        for start in (0..count).step_by(block) {
            let length = block.min(count - start);
            for column in 0..width {
                let values = &self.rows.col_as_slice(column)[start..start + length];
                let own = part.col_as_slice_mut(column).iter_mut().zip(values);
                for ((own, value), weight) in own.zip(&weights[start..]) {
                    *own = value * weight.sqrt();
                }
            }
            let part = part.subrows(0, length);
            triangular::matmul(
                gram.as_mut(),
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
        let largest = (0..width).map(|index| gram[(index, index)]).fold(0.0, f64::max);
        // Features that are sums of others leave a direction without an end; hardly any weight is enough of one.
        for exponent in [-14, -12, -10, -8] {
            for index in 0..width {
                gram[(index, index)] += largest.max(f64::MIN_POSITIVE) * 10f64.powi(exponent);
            }
            let (factor, matrix) = cholesky(gram, control)?;
            if let Some(factor) = factor {
                return Ok(factor);
            }
            gram = matrix;
        }
        Err(Error::Diverged("the equations of a step have no solution"))
    }

    /// The step towards where each multiplier times its slope is `centre`, given what the step itself adds to both.
    fn step(
        &self,
        point: &Point,
        factor: &Llt<f64>,
        weights: &[f64],
        centre: f64,
        (second_low, second_high): (&[f64], &[f64]),
    ) -> Step {
        let count = self.targets.len();
        // What the slopes are to fall by, from both bounds.
        let low: Vec<f64> =
            (0..count).map(|row| point.above[row] - (centre - second_low[row]) / point.low[row]).collect();
        let high: Vec<f64> =
            (0..count).map(|row| point.below[row] - (centre - second_high[row]) / point.high[row]).collect();
        let pushed: Vec<f64> = (0..count).map(|row| weights[row] * (low[row] - high[row])).collect();
        let solution = factor.solve(self.sums(&pushed));
        // The multipliers are of minus the targets, so that the coefficients go the other way.
        let dual = solution.col_as_slice(0).to_vec();
        let fitted = self.fitted(&dual);
        let mut step = Step {
            low: vec![0.0; count],
            above: vec![0.0; count],
            below: vec![0.0; count],
            coefficients: dual.iter().map(|value| -value).collect(),
        };
        for row in 0..count {
            let change = weights[row] * (fitted[row] - (low[row] - high[row]));
            step.low[row] = change;
            step.above[row] = -low[row] - point.above[row] / point.low[row] * change;
            step.below[row] = -high[row] + point.below[row] / point.high[row] * change;
        }
        step
    }
}
