//! Orthogonal matching pursuit (Pati, Rezaiifar and Krishnaprasad, 1993): the feature most like the residuals is chosen,
//! least squares fits all chosen so far, and so on. By the products of the features alone, as Rubinstein, Zibulevsky and
//! Elad (2008) have it.

use crate::Error;
use crate::families::common::{COUNT, FIT_INTERCEPT, NOT_NEGATIVE, ignored, linear_model, takes};
use crate::family::{Control, Family, Given, Kind, Model, Problem, Task};
use crate::forms::linear::{self, Link};
use crate::numerics::algebra::{Moments, labels, weights};
use crate::numerics::factor::Factor;

/// `orthogonal_matching_pursuit`, as scikit-learn's OrthogonalMatchingPursuit.
pub(crate) const PURSUIT: Family = Family {
    name: "orthogonal_matching_pursuit",
    task: Task::Regression,
    parameters: &[
        takes(
            "n_nonzero_coefs",
            Kind::OrNull(&COUNT),
            "null",
            "The number of coefficients that are not 0; null for a tenth of the features.",
        ),
        takes(
            "tol",
            Kind::OrNull(&NOT_NEGATIVE),
            "null",
            "The sum of squared residuals at which the training ends, instead of n_nonzero_coefs.",
        ),
        FIT_INTERCEPT,
        ignored("precompute", "\"auto\""),
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit,
    form: &linear::FORM,
};

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let width = problem.width;
    let tol = given.maybe_number("tol");
    let count = match (tol, given.maybe_count("n_nonzero_coefs")) {
        (Some(_), _) => width,
        (None, None) => (width / 10).max(1),
        (None, Some(count)) if count > width => {
            return Err(given.refuse("n_nonzero_coefs", format!("at most the {width} features")));
        }
        (None, Some(count)) => count,
    };
    let weights = weights(problem);
    let moments = Moments::new(problem, &labels(problem), weights.as_deref(), given.flag("fit_intercept"), control)?;
    let (gram, targets) = (&moments.gram, moments.products.col_as_slice(0));
    let mut products = targets.to_vec();
    let mut chosen: Vec<usize> = Vec::new();
    let mut factor = Factor::default();
    let mut solution = Vec::new();
    let mut early = false;
    while chosen.len() < count {
        control.check()?;
        let steepest = (0..width).rev().filter(|feature| !chosen.contains(feature));
        let steepest = steepest.max_by(|a, b| products[*a].abs().total_cmp(&products[*b].abs()));
        let Some(feature) = steepest else { break };
        // What is left of a target that is explained is rounding.
        let rounding = f64::EPSILON * (gram[(feature, feature)] * moments.squares[0]).sqrt();
        early = products[feature].abs() <= 16.0 * rounding || !factor.push(gram, &chosen, feature, 1e-7);
        if early {
            break;
        }
        chosen.push(feature);
        let right: Vec<f64> = chosen.iter().map(|feature| targets[*feature]).collect();
        solution = factor.solve(&right);
        products.copy_from_slice(targets);
        for (feature, coefficient) in chosen.iter().zip(&solution) {
            for (product, value) in products.iter_mut().zip(gram.col_as_slice(*feature)) {
                *product -= coefficient * value;
            }
        }
        let explained: f64 = solution.iter().zip(&right).map(|(coefficient, target)| coefficient * target).sum();
        if tol.is_some_and(|tol| moments.squares[0] - explained <= tol) {
            break;
        }
    }
    let mut coefficients = vec![0.0; width];
    for (feature, coefficient) in chosen.iter().zip(&solution) {
        coefficients[*feature] = *coefficient;
    }
    let intercept = moments.intercept(&coefficients, 0);
    let model = linear_model(problem, coefficients, vec![intercept], Link::Identity)?;
    Ok(match early {
        true => model.warn("fewer coefficients than n_nonzero_coefs or tol ask for: no other feature explains more"),
        false => model,
    })
}
