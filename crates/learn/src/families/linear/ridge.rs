//! Ridge regression (Hoerl and Kennard, 1970): least squares, and the squares of the coefficients as a cost. As a
//! classifier it takes the classes for numbers, -1 and 1, and the largest prediction speaks for its class.

use faer::Mat;

use crate::Error;
use crate::families::common::{FIT_INTERCEPT, NOT_NEGATIVE, ignored, linear_model};
use crate::families::common::{takes, told_whether_converged};
use crate::families::linear::absorb;
use crate::families::linear::coordinate::{Costs, Products, Settings, descend};
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Sparse, Task, zeros};
use crate::forms::linear::{self, Link};
use crate::numerics::algebra::{Centred, Moments, labels, product, singular_values, weights};
use crate::numerics::cholesky::Cholesky;

/// Whatever it is, the solution is the same.
const SOLVERS: Kind = Kind::Choice(&["auto", "svd", "cholesky", "lsqr", "sparse_cg", "sag", "saga", "lbfgs"]);

const ALPHA: Parameter = takes(
    "alpha",
    Kind::Any(&[NOT_NEGATIVE, Kind::Numbers]),
    "1.0",
    "The strength of the L2 penalty; an array has one number for each target.",
);
const SOLVER: Parameter = takes(
    "solver",
    SOLVERS,
    "\"auto\"",
    "No effect: the solution is computed directly, and all solvers have the same.",
);
const POSITIVE: Parameter = takes("positive", Kind::Flag, "false", "Whether no coefficient may be negative.");
const TOL: Parameter = takes("tol", NOT_NEGATIVE, "0.0001", "The tolerance of the solution if `positive` is true.");
const MAX_ITER: Parameter = takes(
    "max_iter",
    Kind::OrNull(&crate::families::common::COUNT),
    "null",
    "The maximum number of passes over the coefficients if `positive` is true; null for 15000.",
);

/// `ridge` in regression, as scikit-learn's Ridge.
pub(crate) const RIDGE: Family = Family {
    name: "ridge",
    task: Task::Regression,
    parameters: &[
        ALPHA,
        FIT_INTERCEPT,
        POSITIVE,
        MAX_ITER,
        TOL,
        SOLVER,
        ignored("copy_X", "true"),
        ignored("random_state", "null"),
    ],
    joint: true,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit: regress,
    form: &linear::FORM,
};

/// `ridge` in classification, as scikit-learn's RidgeClassifier.
pub(crate) const CLASSIFIER: Family = Family {
    name: "ridge",
    task: Task::Classification,
    parameters: &[
        takes("alpha", NOT_NEGATIVE, "1.0", "The strength of the L2 penalty."),
        FIT_INTERCEPT,
        POSITIVE,
        MAX_ITER,
        TOL,
        SOLVER,
        ignored("copy_X", "true"),
        ignored("random_state", "null"),
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit: classify,
    form: &linear::FORM,
};

fn regress(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let alphas = match given.numbers("alpha") {
        None => vec![given.number("alpha"); problem.targets],
        Some(alphas) if alphas.len() != problem.targets => {
            return Err(given.refuse("alpha", format!("one number for each of the {} targets", problem.targets)));
        }
        Some(alphas) if alphas.iter().any(|alpha| *alpha < 0.0) => {
            return Err(given.refuse("alpha", "numbers that are at least 0"));
        }
        Some(alphas) => alphas,
    };
    fit(problem, labels(problem), weights(problem), &alphas, Link::Identity, given, control)
}

fn classify(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let classes = problem.class_of_rows();
    let sign = |is: bool| if is { 1.0 } else { -1.0 };
    let targets: Vec<f64> = match problem.classes <= 2 {
        true => classes.iter().map(|class| sign(*class == 1)).collect(),
        false => classes.iter().flat_map(|own| (0..problem.classes).map(move |class| sign(class == *own))).collect(),
    };
    let alphas = vec![given.number("alpha"); targets.len() / problem.rows];
    let weights = weights(problem);
    fit(problem, targets, weights, &alphas, Link::Scores, given, control)
}

/// Fits targets, row by row, as many a row as there are `alphas`.
fn fit(
    problem: &Problem<'_>,
    targets: Vec<f64>,
    weights: Option<Vec<f64>>,
    alphas: &[f64],
    link: Link,
    given: &Given,
    control: &mut Control<'_>,
) -> Result<Model, Error> {
    let intercept = given.flag("fit_intercept");
    let mut coefficients = Vec::with_capacity(alphas.len() * problem.width);
    let mut intercepts = Vec::with_capacity(alphas.len());
    let mut converged = true;
    if let Some(sparse) = Sparse::of(problem).filter(|_| !given.flag("positive")) {
        let found = absorb::solve(problem, &sparse, &targets, weights.as_deref(), alphas, intercept, control)?;
        return linear_model(problem, found.coefficients, found.intercepts, link);
    }
    let tall = problem.width <= problem.rows;
    if tall || given.flag("positive") {
        let moments = Moments::new(problem, &targets, weights.as_deref(), intercept, control)?;
        if given.flag("positive") {
            for (target, alpha) in alphas.iter().enumerate() {
                let settings = Settings {
                    costs: Costs { l1: 0.0, l2: *alpha, positive: true },
                    max_iter: given.maybe_count("max_iter").unwrap_or(15_000),
                    tol: given.number("tol") * 1e-4,
                    random: None,
                };
                let (column, ended) = descend(Products::of(&moments, target), settings, control)?;
                intercepts.push(moments.intercept(&column, target));
                coefficients.extend(column);
                converged &= ended;
            }
            let model = linear_model(problem, coefficients, intercepts, link)?;
            return Ok(told_whether_converged(model, converged));
        }
        if let Some(solution) = by_products(&moments, alphas, control)? {
            for target in 0..alphas.len() {
                let column = solution.col_as_slice(target);
                coefficients.extend_from_slice(column);
                intercepts.push(moments.intercept(column, target));
            }
            return linear_model(problem, coefficients, intercepts, link);
        }
    }
    let mut columns = zeros(problem.rows, alphas.len())?;
    for (row, values) in targets.chunks_exact(alphas.len().max(1)).enumerate() {
        for (target, value) in values.iter().enumerate() {
            columns[(row, target)] = *value;
        }
    }
    let centred = Centred::weighted(problem, columns, weights.as_deref(), intercept, control)?;
    let solution = match tall {
        true => None,
        false => by_rows(&centred, alphas, control)?,
    };
    let solution = match solution {
        Some(solution) => solution,
        None => by_singular_values(&centred, alphas, control)?,
    };
    for target in 0..alphas.len() {
        let column = solution.col_as_slice(target);
        coefficients.extend_from_slice(column);
        intercepts.push(centred.intercept(column, target));
    }
    linear_model(problem, coefficients, intercepts, link)
}

/// How much of a column must not be a sum of those before it: with less, the factor is mostly rounding.
const LEAST: f64 = 1e-12;

/// The solution by the Cholesky factor, where that is good enough.
fn solved(
    mut matrix: Mat<f64>,
    alpha: f64,
    mut right: Mat<f64>,
    control: &mut Control<'_>,
) -> Result<Option<Mat<f64>>, Error> {
    for index in 0..matrix.nrows() {
        matrix[(index, index)] += alpha;
    }
    let least: Vec<f64> = (0..matrix.nrows()).map(|index| LEAST * matrix[(index, index)]).collect();
    let Some(factor) = Cholesky::above(matrix, &least, control)? else { return Ok(None) };
    factor.solve(&mut right, control)?;
    Ok(Some(right))
}

/// By the products of the features, `None` where they do not tell one solution.
fn by_products(moments: &Moments, alphas: &[f64], control: &mut Control<'_>) -> Result<Option<Mat<f64>>, Error> {
    if alphas.iter().all(|alpha| *alpha == alphas[0]) {
        let alpha = alphas.first().copied().unwrap_or(0.0);
        return solved(moments.gram.clone(), alpha, moments.products.clone(), control);
    }
    let mut solution = zeros(moments.gram.nrows(), alphas.len())?;
    for (target, alpha) in alphas.iter().enumerate() {
        let right = moments.products.subcols(target, 1).to_owned();
        let Some(column) = solved(moments.gram.clone(), *alpha, right, control)? else { return Ok(None) };
        solution.col_mut(target).copy_from(column.col(0));
        control.check()?;
    }
    Ok(Some(solution))
}

/// By the products of the rows, of which there are fewer than features.
fn by_rows(centred: &Centred, alphas: &[f64], control: &mut Control<'_>) -> Result<Option<Mat<f64>>, Error> {
    let kernel = product(centred.features.as_ref(), centred.features.transpose(), control)?;
    let mut solution = zeros(centred.features.ncols(), alphas.len())?;
    for (target, alpha) in alphas.iter().enumerate() {
        let right = centred.targets.subcols(target, 1).to_owned();
        let Some(dual) = solved(kernel.clone(), *alpha, right, control)? else { return Ok(None) };
        let column = centred.features.transpose() * dual;
        solution.col_mut(target).copy_from(column.col(0));
        control.check()?;
    }
    Ok(Some(solution))
}

/// By the singular values of the features: always there, and the shortest of several solutions.
fn by_singular_values(centred: &Centred, alphas: &[f64], control: &mut Control<'_>) -> Result<Mat<f64>, Error> {
    let svd = singular_values(centred.features.clone(), control)?;
    let singular = svd.S().column_vector();
    let largest = singular.iter().copied().fold(0.0, f64::max);
    let least = largest * f64::EPSILON * centred.features.nrows().max(centred.features.ncols()) as f64;
    let mut projected = svd.U().transpose() * &centred.targets;
    for (row, value) in singular.iter().enumerate() {
        for (target, alpha) in alphas.iter().enumerate() {
            projected[(row, target)] *= if *value > least { value / (value * value + alpha) } else { 0.0 };
        }
    }
    Ok(svd.V() * projected)
}
