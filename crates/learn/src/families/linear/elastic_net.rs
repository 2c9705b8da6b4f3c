//! The lasso (Tibshirani, 1996) and the elastic net (Zou and Hastie, 2005): least squares where the absolute values of
//! the coefficients are a cost, and their squares too. Many coefficients become 0.

use crate::Error;
use crate::families::common::told_whether_converged;
use crate::families::common::{COUNT, FIT_INTERCEPT, NOT_NEGATIVE, RANDOM_STATE, ignored, linear_model, seed, takes};
use crate::families::linear::coordinate::{Costs, Products, Settings, descend};
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Task};
use crate::forms::linear::{self, Link};
use crate::numerics::algebra::{Centred, Moments, labels, weights};
use crate::random::Random;

const ALPHA: Parameter = takes("alpha", NOT_NEGATIVE, "1.0", "The strength of the penalty.");
const MAX_ITER: Parameter = takes(
    "max_iter",
    Kind::OrNull(&COUNT),
    "1000",
    "The maximum number of passes over the coefficients; null for 1000.",
);
const TOL: Parameter = takes(
    "tol",
    NOT_NEGATIVE,
    "0.0001",
    "The tolerance of the solution: the duality gap, as a part of the sum of the label's squares.",
);
const POSITIVE: Parameter = takes("positive", Kind::Flag, "false", "Whether no coefficient may be negative.");
const SELECTION: Parameter = takes(
    "selection",
    Kind::Choice(&["cyclic", "random"]),
    "\"cyclic\"",
    "Whether coefficients are updated in turn or at random.",
);

/// `lasso`, as scikit-learn's Lasso.
pub(crate) const LASSO: Family = Family {
    name: "lasso",
    task: Task::Regression,
    parameters: &[
        ALPHA,
        FIT_INTERCEPT,
        MAX_ITER,
        TOL,
        POSITIVE,
        SELECTION,
        RANDOM_STATE,
        ignored("precompute", "false"),
        ignored("copy_X", "true"),
        ignored("warm_start", "false"),
    ],
    joint: true,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit: lasso,
    form: &linear::FORM,
};

/// `elastic_net`, as scikit-learn's ElasticNet.
pub(crate) const ELASTIC_NET: Family = Family {
    name: "elastic_net",
    task: Task::Regression,
    parameters: &[
        ALPHA,
        takes("l1_ratio", Kind::Number(0.0, 1.0), "0.5", "The share of the L1 penalty; the rest is the L2 penalty."),
        FIT_INTERCEPT,
        MAX_ITER,
        TOL,
        POSITIVE,
        SELECTION,
        RANDOM_STATE,
        ignored("precompute", "false"),
        ignored("copy_X", "true"),
        ignored("warm_start", "false"),
    ],
    joint: true,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit: elastic_net,
    form: &linear::FORM,
};

fn lasso(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    fit(problem, given, 1.0, control)
}

fn elastic_net(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    fit(problem, given, given.number("l1_ratio"), control)
}

fn fit(problem: &Problem<'_>, given: &Given, ratio: f64, control: &mut Control<'_>) -> Result<Model, Error> {
    let intercept = given.flag("fit_intercept");
    let weights = weights(problem);
    let total = weights.as_ref().map_or(problem.rows as f64, |weights| weights.iter().sum());
    let alpha = given.number("alpha") * total;
    let settings = || Settings {
        costs: Costs { l1: alpha * ratio, l2: alpha * (1.0 - ratio), positive: given.flag("positive") },
        max_iter: given.maybe_count("max_iter").unwrap_or(1000),
        tol: given.number("tol"),
        random: (given.word("selection") == "random").then(|| Random::new(seed(problem, given))),
    };
    let mut coefficients = Vec::with_capacity(problem.targets * problem.width);
    let mut intercepts = Vec::with_capacity(problem.targets);
    let mut converged = true;
    if problem.width <= problem.rows || !problem.one_hot.is_empty() {
        let moments = Moments::new(problem, &labels(problem), weights.as_deref(), intercept, control)?;
        for target in 0..problem.targets {
            let (column, ended) = descend(Products::of(&moments, target), settings(), control)?;
            intercepts.push(moments.intercept(&column, target));
            coefficients.extend(column);
            converged &= ended;
        }
    } else {
        let centred = Centred::new(problem, intercept, control)?;
        for target in 0..problem.targets {
            let residuals = centred.targets.col_as_slice(target).to_vec();
            let rows = Products::Rows(centred.features.as_ref(), residuals);
            let (column, ended) = descend(rows, settings(), control)?;
            intercepts.push(centred.intercept(&column, target));
            coefficients.extend(column);
            converged &= ended;
        }
    }
    let model = linear_model(problem, coefficients, intercepts, Link::Identity)?;
    Ok(told_whether_converged(model, converged))
}
