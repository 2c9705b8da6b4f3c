//! Random sample consensus (Fischler and Bolles, 1981): least squares through a few random rows, again and again; the rows
//! that agree with the best of those lines are fitted at last, and the others are outliers.

use faer::Mat;

use crate::Error;
use crate::families::common::{NOT_NEGATIVE, RANDOM_STATE, linear_model, seed, takes};
use crate::family::{Control, Family, Given, Kind, Model, Problem, Task};
use crate::forms::linear::{self, Link};
use crate::numerics::algebra::{Centred, dot, least_squares};
use crate::random::Random;

/// `ransac`, as scikit-learn's RANSACRegressor around a LinearRegression.
pub(crate) const RANSAC: Family = Family {
    name: "ransac",
    task: Task::Regression,
    parameters: &[
        takes(
            "min_samples",
            Kind::OrNull(&Kind::Any(&[Kind::Integer(1, i64::MAX), Kind::Number(0.0, 1.0)])),
            "null",
            "The number or share of rows that a trial fits; null for one more than there are features.",
        ),
        takes(
            "residual_threshold",
            Kind::OrNull(&NOT_NEGATIVE),
            "null",
            "The maximum loss of an inlier; null for the label's median absolute deviation.",
        ),
        takes("max_trials", Kind::Integer(1, i64::MAX), "100", "The maximum number of trials."),
        takes(
            "max_skips",
            Kind::OrNull(&Kind::Integer(0, i64::MAX)),
            "null",
            "The maximum number of trials with fewer inliers than the best trial; null for any number.",
        ),
        takes(
            "stop_n_inliers",
            Kind::OrNull(&Kind::Integer(0, i64::MAX)),
            "null",
            "The number of inliers at which the search ends; null for never.",
        ),
        takes(
            "stop_score",
            Kind::OrNull(&Kind::Number(f64::NEG_INFINITY, f64::INFINITY)),
            "null",
            "The r2 on the inliers at which the search ends; null for never.",
        ),
        takes(
            "stop_probability",
            Kind::Number(0.0, 1.0),
            "0.99",
            "The probability with which at least one trial has no outlier.",
        ),
        takes(
            "loss",
            Kind::Choice(&["absolute_error", "squared_error"]),
            "\"absolute_error\"",
            "The loss that is compared with residual_threshold.",
        ),
        RANDOM_STATE,
        takes("estimator", ONLY_LINEAR, "null", "Only null: least squares."),
        takes("is_data_valid", NO_FUNCTION, "null", "Only null."),
        takes("is_model_valid", NO_FUNCTION, "null", "Only null."),
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit,
    form: &linear::FORM,
};

const ONLY_LINEAR: Kind = Kind::OrNull(&Kind::Refused("each trial is a least squares"));
const NO_FUNCTION: Kind = Kind::OrNull(&Kind::Refused("functions cannot be given"));

/// A linear function.
struct Line {
    coefficients: Vec<f64>,
    intercept: f64,
}

impl Line {
    /// The least squares of some rows.
    fn through(problem: &Problem<'_>, rows: &[usize], control: &mut Control<'_>) -> Result<Line, Error> {
        let features: Vec<f32> = rows.iter().flat_map(|row| problem.row(*row)).copied().collect();
        let labels: Vec<f32> = rows.iter().map(|row| problem.labels[*row]).collect();
        let weights: Option<Vec<f32>> = problem.weights.map(|weights| rows.iter().map(|row| weights[*row]).collect());
        let part = Problem {
            rows: rows.len(),
            features: &features,
            labels: &labels,
            weights: weights.as_deref().filter(|weights| weights.iter().any(|weight| *weight > 0.0)),
            ..*problem
        };
        let mut centred = Centred::new(&part, true, control)?;
        let features = std::mem::replace(&mut centred.features, Mat::new());
        let solution = least_squares(features, centred.targets.as_ref(), control)?;
        let coefficients = solution.col_as_slice(0).to_vec();
        Ok(Line { intercept: centred.intercept(&coefficients, 0), coefficients })
    }

    fn at(&self, problem: &Problem<'_>, row: usize) -> f64 {
        dot(&self.coefficients, problem.row(row)) + self.intercept
    }

    /// The coefficient of determination of some rows.
    fn score(&self, problem: &Problem<'_>, rows: &[usize]) -> f64 {
        let label = |row: &usize| f64::from(problem.labels[*row]);
        let mean = rows.iter().map(label).sum::<f64>() / rows.len().max(1) as f64;
        let total: f64 = rows.iter().map(|row| (label(row) - mean).powi(2)).sum();
        let rest: f64 = rows.iter().map(|row| (label(row) - self.at(problem, *row)).powi(2)).sum();
        if total > 0.0 { 1.0 - rest / total } else { 0.0 }
    }
}

/// The middle of some numbers.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match (values.get(middle), values.get(middle.wrapping_sub(1))) {
        (Some(upper), Some(lower)) if values.len().is_multiple_of(2) => 0.5 * (upper + lower),
        (Some(value), _) => *value,
        _ => 0.0,
    }
}

/// How many trials there must be for one without an outlier, as probably as asked for.
fn trials(agree: usize, rows: usize, sample: usize, probability: f64) -> f64 {
    let clean = (agree as f64 / rows as f64).powf(sample as f64);
    let (miss, fail) = ((1.0 - probability).max(f64::EPSILON), (1.0 - clean).max(f64::EPSILON));
    match (miss == 1.0, fail == 1.0) {
        (true, _) => 0.0,
        (_, true) => f64::INFINITY,
        _ => (miss.ln() / fail.ln()).ceil().abs(),
    }
}

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let rows = problem.rows;
    let sample = match given.maybe_number("min_samples") {
        None => problem.width + 1,
        Some(part) if part < 1.0 => (part * rows as f64).ceil() as usize,
        Some(count) => count as usize,
    };
    if sample > rows || sample == 0 {
        return Err(given.refuse("min_samples", format!("a trial would fit {sample} of {rows} rows")));
    }
    let labels = problem.target(0);
    let threshold = given.maybe_number("residual_threshold").unwrap_or_else(|| {
        let middle = median(labels.clone());
        median(labels.iter().map(|label| (label - middle).abs()).collect())
    });
    let squared = given.word("loss") == "squared_error";
    let enough = given.maybe_count("stop_n_inliers").unwrap_or(usize::MAX);
    let good = given.maybe_number("stop_score").unwrap_or(f64::INFINITY);
    let skips = given.maybe_count("max_skips").unwrap_or(usize::MAX);

    let mut random = Random::new(seed(problem, given));
    let mut order: Vec<usize> = (0..rows).collect();
    let mut best: Option<(Vec<usize>, f64)> = None;
    let (mut most, mut skipped, mut trial) = (given.number("max_trials"), 0, 0);
    while (trial as f64) < most && skipped <= skips {
        trial += 1;
        control.progress(trial, most.min(1e18) as u64)?;
        for index in 0..sample {
            let other = index + random.index(rows - index);
            order.swap(index, other);
        }
        let line = Line::through(problem, &order[..sample], control)?;
        let agrees = |row: &usize| {
            let error = (labels[*row] - line.at(problem, *row)).abs();
            (if squared { error * error } else { error }) <= threshold
        };
        let agree: Vec<usize> = (0..rows).filter(agrees).collect();
        if agree.len() < best.as_ref().map_or(1, |(rows, _)| rows.len()) {
            skipped += 1;
            continue;
        }
        let score = line.score(problem, &agree);
        if best.as_ref().is_some_and(|(rows, best)| rows.len() == agree.len() && score < *best) {
            continue;
        }
        most = most.min(trials(agree.len(), rows, sample, given.number("stop_probability")));
        let done = agree.len() >= enough || score >= good;
        best = Some((agree, score));
        if done {
            break;
        }
    }
    let Some((agree, _)) = best else {
        return Err(given.refuse("residual_threshold", "no trial had an inlier: a larger value is needed"));
    };
    let line = Line::through(problem, &agree, control)?;
    linear_model(problem, line.coefficients, vec![line.intercept], Link::Identity)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::testing::{fit_of, regression, try_fit};

    #[test]
    fn outliers_do_not_move_the_line() {
        // y = 2 a + 1, and every fourth row is far off.
        let features: Vec<f32> = (0..40).map(|row| row as f32).collect();
        let label = |row: usize| if row % 4 == 3 { 500.0 - 9.0 * row as f32 } else { 2.0 * row as f32 + 1.0 };
        let labels: Vec<f32> = (0..40).map(label).collect();
        let problem = regression(&features, 1, &labels);
        let model = fit_of(&RANSAC, &problem, r#"{"residual_threshold": 0.5, "random_state": 1}"#);
        let mut value = [0.0];
        model.predict(&[100.0], &mut value);
        assert!((value[0] - 201.0).abs() < 1e-3, "{value:?}");
    }

    #[test]
    fn a_trial_of_more_rows_than_there_are_is_refused() {
        let problem = regression(&[1.0, 2.0, 3.0], 1, &[1.0, 2.0, 3.0]);
        let error = try_fit(&RANSAC, &problem, r#"{"min_samples": 4}"#).err().unwrap();
        assert!(error.to_string().contains("4 of 3 rows"), "{error}");
    }
}
