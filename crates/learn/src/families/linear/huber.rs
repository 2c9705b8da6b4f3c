//! Huber's regression (Huber, 1981): small errors count by their squares, large ones by their size, and what is small is
//! found together with the coefficients (the concomitant scale, as in Owen, 2007).

use crate::Error;
use crate::families::common::{
    COUNT, FIT_INTERCEPT, NOT_NEGATIVE, ignored, linear_model, takes, told_whether_converged,
};
use crate::families::linear::losses::LinearLosses;
use crate::family::{Control, Family, Given, Kind, Model, Problem, Task};
use crate::forms::linear::{self, Link};
use crate::numerics::algebra::CONSTANT;
use crate::numerics::minimise::Search;

/// `huber`, as scikit-learn's HuberRegressor.
pub(crate) const HUBER: Family = Family {
    name: "huber",
    task: Task::Regression,
    parameters: &[
        takes(
            "epsilon",
            Kind::Number(1.0, f64::INFINITY),
            "1.35",
            "The multiple of the scale above which the loss of an error is linear.",
        ),
        takes("alpha", NOT_NEGATIVE, "0.0001", "The strength of the L2 penalty."),
        takes("max_iter", COUNT, "100", "The maximum number of steps of the optimizer."),
        takes("tol", NOT_NEGATIVE, "1e-5", "The optimizer stops when the gradient is at most this."),
        FIT_INTERCEPT,
        ignored("warm_start", "false"),
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit,
    form: &linear::FORM,
};

/// The least scale of the errors, as a part of the label's own: that of a label which the features explain wholly.
const LEAST: f64 = 1e-12;

/// What of `tol` the search goes to, whose objective is a mean and not a sum.
const EXACTER: f64 = 1e-3;

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let (epsilon, alpha) = (given.number("epsilon"), given.number("alpha"));
    let weights: Vec<f64> = (0..problem.rows).map(|row| problem.weight(row)).collect();
    let rows = LinearLosses::new(problem, weights, given.flag("fit_intercept"), true);
    let total = rows.total();

    // In units of the label's deviation, and around its mean where there is an intercept.
    let mut targets = problem.target(0);
    let weighted = |of: &dyn Fn(f64) -> f64, targets: &[f64]| {
        targets.iter().zip(&rows.weights).map(|(target, weight)| weight * of(*target)).sum::<f64>() / total
    };
    let mean = if given.flag("fit_intercept") { weighted(&|target| target, &targets) } else { 0.0 };
    let deviation = weighted(&|target| (target - mean).powi(2), &targets).sqrt();
    let unit = if deviation > CONSTANT * mean.abs() && deviation > 0.0 { deviation } else { 1.0 };
    for target in &mut targets {
        *target = (*target - mean) / unit;
    }

    let count = rows.parameters();
    let cost = alpha * unit / total;
    let search = Search { l1: &[], max_iter: given.count("max_iter"), tol: EXACTER * given.number("tol") };
    // The last parameter is the logarithm of the scale.
    let found = search.from(vec![0.0; count + 1], control, |at, slope, control| {
        let (own, last) = at.split_at(count);
        let logarithm = last.first().copied().unwrap_or(0.0);
        let scale = logarithm.exp().clamp(LEAST, 1.0 / LEAST);
        let model = rows.plain(own);
        let mut by_scale = 0.0;
        let (sum, mut by_model) = rows.losses(&model, control, |row, scores| {
            let Some(score) = scores.first_mut() else { return 0.0 };
            let error = *score - targets[row];
            let far = error.abs() > epsilon * scale;
            let (value, of_scale) = match far {
                true => (2.0 * epsilon * error.abs() - epsilon * epsilon * scale, -epsilon * epsilon),
                false => (error * error / scale, -(error / scale).powi(2)),
            };
            by_scale += rows.weights[row] * of_scale;
            *score = if far { (2.0 * epsilon).copysign(error) } else { 2.0 * error / scale };
            value
        })?;
        let mut squares = 0.0;
        for (slope, coefficient) in by_model.coefficients.iter_mut().zip(&model.coefficients) {
            *slope = *slope / total + 2.0 * cost * coefficient;
            squares += coefficient * coefficient;
        }
        for slope in &mut by_model.intercepts {
            *slope /= total;
        }
        rows.slope(&by_model, &mut slope[..count]);
        let bound = scale <= LEAST || scale >= 1.0 / LEAST;
        slope[count] = if bound { 0.0 } else { scale * (1.0 + by_scale / total) };
        Ok(scale + sum / total + cost * squares)
    })?;
    let plain = rows.plain(&found.at[..count]);
    let coefficients = plain.coefficients.iter().map(|coefficient| coefficient * unit).collect();
    let intercepts = plain.intercepts.iter().map(|intercept| intercept * unit + mean).collect();
    let model = linear_model(problem, coefficients, intercepts, Link::Identity)?;
    Ok(told_whether_converged(model, found.converged))
}
