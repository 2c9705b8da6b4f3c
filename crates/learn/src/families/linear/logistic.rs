//! Logistic regression: classes whose log odds are linear in the features, with costs on the coefficients. The objective
//! is that of scikit-learn's LogisticRegression: `C` times the sum of the log losses, and half the squares or the absolute
//! values of the coefficients, or a mixture. More than two classes are fitted together (multinomial).

use crate::Error;
use crate::families::common::{COUNT, FIT_INTERCEPT, ignored, linear_model, takes, weights};
use crate::families::common::{NOT_NEGATIVE, told_whether_converged};
use crate::families::linear::losses::LinearLosses;
use crate::family::{Control, Family, Given, Kind, Model, Problem, Task};
use crate::forms::linear::{self, Link, logistic, softmax};
use crate::numerics::minimise::Search;

/// `linear` in classification, as scikit-learn's LogisticRegression.
pub(crate) const LINEAR: Family = Family {
    name: "linear",
    task: Task::Classification,
    parameters: &[
        takes(
            "penalty",
            Kind::OrNull(&Kind::Choice(&["l2", "l1", "elasticnet", "none"])),
            "\"l2\"",
            "The penalty of the coefficients: L2, L1, both by `l1_ratio`, or none. If penalty is not given, `l1_ratio` alone \
             decides.",
        ),
        takes(
            "C",
            Kind::Above(0.0, f64::INFINITY),
            "1.0",
            "The inverse of the strength of the penalty: smaller values mean smaller coefficients.",
        ),
        takes(
            "l1_ratio",
            Kind::OrNull(&Kind::Number(0.0, 1.0)),
            "0.0",
            "The share of the L1 penalty; the rest is the L2 penalty.",
        ),
        FIT_INTERCEPT,
        takes("tol", NOT_NEGATIVE, "0.0001", "The optimizer stops when the gradient is at most this."),
        takes("max_iter", COUNT, "100", "The maximum number of steps of the optimizer."),
        takes(
            "solver",
            Kind::Choice(&["lbfgs", "liblinear", "newton-cg", "newton-cholesky", "sag", "saga"]),
            "\"lbfgs\"",
            "No effect: the objective has one solution.",
        ),
        ignored("dual", "false"),
        ignored("intercept_scaling", "1"),
        ignored("multi_class", "\"auto\""),
        ignored("random_state", "null"),
        ignored("warm_start", "false"),
        ignored("verbose", "0"),
        ignored("n_jobs", "null"),
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit,
    form: &linear::FORM,
};

/// The costs of the absolute values and of half the squares.
fn costs(given: &Given) -> Result<(f64, f64), Error> {
    let ratio = given.maybe_number("l1_ratio");
    let ratio = match given.word("penalty") {
        "l2" if given.is_given("penalty") => 0.0,
        "l2" => ratio.unwrap_or(0.0),
        "l1" => 1.0,
        "elasticnet" => ratio.ok_or_else(|| given.refuse("l1_ratio", "a number where penalty is \"elasticnet\""))?,
        _ => return Ok((0.0, 0.0)),
    };
    Ok((ratio / given.number("C"), (1.0 - ratio) / given.number("C")))
}

/// What of `tol` the search goes to. The slope of a sum of log losses is small far from its least already, and steps are
/// cheap.
const EXACTER: f64 = 1e-2;

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let (l1, l2) = costs(given)?;
    let rows = LinearLosses::new(problem, weights(problem)?, given.flag("fit_intercept"), true);
    let classes = problem.class_of_rows();
    let binary = problem.classes <= 2;
    let scores = if binary { 1 } else { problem.classes };
    let total = rows.total();
    let (l1, l2) = (l1 / total, l2 / total);

    let mut absolute = Vec::new();
    if l1 > 0.0 {
        for _ in 0..scores {
            absolute.extend(rows.scales.iter().map(|scale| l1 / scale));
            absolute.extend(std::iter::repeat_n(0.0, rows.parameters() - problem.width));
        }
    }
    let search = Search { l1: &absolute, max_iter: given.count("max_iter"), tol: EXACTER * given.number("tol") };
    let start = vec![0.0; scores * rows.parameters()];
    let found = search.from(start, control, |at, slope, control| {
        let model = rows.plain(at);
        let (sum, mut by_model) = rows.losses(&model, control, |row, scores| match binary {
            true => binary_loss(classes[row] == 1, scores),
            false => multinomial_loss(classes[row], scores),
        })?;
        let mut squares = 0.0;
        for (slope, coefficient) in by_model.coefficients.iter_mut().zip(&model.coefficients) {
            *slope = *slope / total + l2 * coefficient;
            squares += coefficient * coefficient;
        }
        for slope in &mut by_model.intercepts {
            *slope /= total;
        }
        rows.slope(&by_model, slope);
        Ok(sum / total + 0.5 * l2 * squares)
    })?;
    let plain = rows.plain(&found.at);
    let model = linear_model(problem, plain.coefficients, plain.intercepts, Link::Softmax)?;
    Ok(told_whether_converged(model, found.converged))
}

/// Of one score, which is the log odds of the second class.
fn binary_loss(second: bool, scores: &mut [f64]) -> f64 {
    let Some(score) = scores.first_mut() else { return 0.0 };
    let wrong = if second { -*score } else { *score };
    *score = if second { -logistic(wrong) } else { logistic(wrong) };
    wrong.max(0.0) + (-wrong.abs()).exp().ln_1p()
}

/// Of a score for each class.
fn multinomial_loss(class: usize, scores: &mut [f64]) -> f64 {
    let own = scores[class];
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    softmax(scores);
    // The largest score has at least one class's share, so the sum of the exponentials is 1 over the largest share.
    let share = scores.iter().copied().fold(0.0, f64::max);
    scores[class] -= 1.0;
    largest - own - share.ln()
}
