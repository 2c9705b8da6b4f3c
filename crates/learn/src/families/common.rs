//! The common parts of many families: hyperparameters under the same name, weights of classes, and how often a loop
//! checks for interrupts.

use crate::Error;
use crate::family::{Given, Kind, Model, Parameter, Problem};
use crate::forms::linear::{self, Link};
use crate::numerics::algebra::feature_means;

/// A hyperparameter that scikit-learn has and that changes nothing here.
pub(crate) const fn ignored(name: &'static str, default: &'static str) -> Parameter {
    Parameter { name, kind: Kind::Ignored, default, about: "No effect." }
}

/// A hyperparameter.
pub(crate) const fn takes(name: &'static str, kind: Kind, default: &'static str, about: &'static str) -> Parameter {
    Parameter { name, kind, default, about }
}

/// A number that is at least 0.
pub(crate) const NOT_NEGATIVE: Kind = Kind::Number(0.0, f64::INFINITY);

/// A number above 0.
pub(crate) const POSITIVE: Kind = Kind::Above(0.0, f64::INFINITY);

/// A whole number that is at least 1.
pub(crate) const COUNT: Kind = Kind::Integer(1, i64::MAX);

pub(crate) const FIT_INTERCEPT: Parameter =
    takes("fit_intercept", Kind::Flag, "true", "Whether a constant is added to the weighted sum.");

pub(crate) const RANDOM_STATE: Parameter = takes(
    "random_state",
    Kind::OrNull(&Kind::Integer(0, i64::MAX)),
    "null",
    "The seed of every random choice; null for the seed of the training.",
);

/// The seed of a training: the hyperparameter `random_state`, or else the problem's own.
pub(crate) fn seed(problem: &Problem<'_>, given: &Given) -> u64 {
    given.maybe_count("random_state").map_or(problem.seed, |seed| seed as u64)
}

/// The weight of each row.
pub(crate) fn weights(problem: &Problem<'_>) -> Result<Vec<f64>, Error> {
    let mut weights = Vec::new();
    room::reserve(&mut weights, problem.rows)?;
    weights.extend((0..problem.rows).map(|row| problem.weight(row)));
    Ok(weights)
}

/// A linear model, whose coefficients have to be finite.
///
/// # Errors
/// [`Error::Diverged`] where one is not.
pub(crate) fn linear_model(
    problem: &Problem<'_>,
    coefficients: Vec<f64>,
    intercepts: Vec<f64>,
    link: Link,
) -> Result<Model, Error> {
    if !coefficients.iter().chain(&intercepts).all(|value| value.is_finite()) {
        return Err(Error::Diverged("the coefficients grew beyond all bounds"));
    }
    Ok(linear::model(coefficients, intercepts, feature_means(problem), link))
}

/// Says that the iterations ended before the solution was as exact as `tol` demands.
pub(crate) fn told_whether_converged(model: Model, converged: bool) -> Model {
    match converged {
        true => model,
        false => model.warn(
            "the training ended by max_iter before it converged: raise max_iter, or bring the features to one scale",
        ),
    }
}
