//! Bagging: the mean of trees that were each grown from a sample of the rows and features (Breiman, 1996); the
//! hyperparameters are scikit-learn's, and the trees as those of [`crate::families::ensemble::random_forest`] that try all features.

use forest::double::Link;

use crate::Error;
use crate::families::ensemble::trees::bins::{Bins, MOST};
use crate::families::ensemble::trees::grow::{Criterion, Grower, Sample, Sums};
use crate::families::ensemble::trees::{
    MANY, N_JOBS, OOB_SCORE, RANDOM_STATE, VERBOSE, WARM_START, all_rows, bootstrap, classes, leaf_values, plain, push,
    random, row, weighted_labels, weights,
};
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Task};
use crate::forms::trees::{self, Ensemble};
use crate::random::Random;

const COUNT_OR_SHARE: Kind = Kind::Any(&[Kind::Integer(1, MANY), Kind::Above(0.0, 1.0)]);

const PARAMETERS: [Parameter; 11] = [
    crate::families::ensemble::trees::trees("10"),
    row("max_samples", Kind::OrNull(&COUNT_OR_SHARE), "null", "Rows of a tree: a count, a share, or null for all."),
    row("max_features", COUNT_OR_SHARE, "1.0", "Features of a tree: a count, or a share."),
    row("bootstrap", Kind::Flag, "true", "Whether rows are drawn with replacement."),
    row("bootstrap_features", Kind::Flag, "false", "Whether features are drawn with replacement."),
    row(
        "estimator",
        Kind::OrNull(&Kind::Refused("only null is possible: the estimators are trees")),
        "null",
        "Only null: the estimators are trees.",
    ),
    RANDOM_STATE,
    N_JOBS,
    VERBOSE,
    OOB_SCORE,
    WARM_START,
];

/// `bagging` for classes, as scikit-learn's BaggingClassifier.
pub(crate) const CLASSIFIER: Family = Family {
    name: "bagging",
    task: Task::Classification,
    parameters: &PARAMETERS,
    joint: true,
    takes_categories: true,
    takes_missing: true,
    takes_weights: true,
    fit,
    form: &trees::FORM,
};

/// `bagging` for numbers, as scikit-learn's BaggingRegressor.
pub(crate) const REGRESSOR: Family = Family { task: Task::Regression, ..CLASSIFIER };

/// A count as it is, or a share of `all`, which it may not exceed.
fn part(given: &Given, name: &str, all: usize, what: &str) -> Result<usize, Error> {
    let count = match given.is_integer(name) {
        true => given.count(name),
        false => given.maybe_number(name).map_or(all, |share| (share * all as f64) as usize).max(1),
    };
    match count <= all {
        true => Ok(count),
        false => Err(given.refuse(name, format!("there are {all} {what}"))),
    }
}

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let is_regression = problem.classes == 0;
    let size = part(given, "max_samples", problem.rows, "rows")?;
    let width = part(given, "max_features", problem.width, "features")?;
    let own = weights(problem)?;
    let bins = Bins::new(problem, MOST, control)?;
    let mut growth = plain(if is_regression { Criterion::SquaredError } else { Criterion::Gini });
    growth.tried = Some(problem.width);
    let mut grower = Grower::new(&bins, growth);
    let mut random = random(problem, given);
    let outputs = if is_regression { problem.targets } else { problem.classes };
    let link = if is_regression { Link::Identity } else { Link::Probabilities };
    let mut ensemble = Ensemble::new(problem.width, vec![0.0; outputs], outputs, link);
    let of_rows = if is_regression { Vec::new() } else { classes(problem)? };
    let of = given.count("n_estimators");
    let (mut drawn, mut labels, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for tree in 0..of {
        let rows = match given.flag("bootstrap") {
            true => bootstrap(size, &own, &mut random, &mut drawn)?,
            false => without_replacement(size, &own, &mut random, &mut drawn)?,
        };
        grower.restrict(features(problem.width, width, given.flag("bootstrap_features"), &mut random));
        let sums = if is_regression {
            weighted_labels(problem, &drawn, &mut labels)?;
            Sums::Numbers(&labels, problem.targets)
        } else {
            Sums::Classes(&of_rows, problem.classes)
        };
        let grown = grower.grow(rows, Sample { weights: &drawn, sums }, &mut random, control)?;
        leaf_values(&grown, &drawn, sums, &mut values)?;
        push(&mut ensemble, &grown, &values)?;
        control.progress(tree as u64 + 1, of as u64)?;
    }
    ensemble.divisor = of as f64;
    Ok(ensemble.model())
}

/// A sample of the rows without replacement; the weights of the others become zero.
fn without_replacement(
    size: usize,
    weights: &[f64],
    random: &mut Random,
    drawn: &mut Vec<f64>,
) -> Result<Vec<u32>, Error> {
    let mut rows = all_rows(weights)?;
    if size < rows.len() {
        random.shuffle(&mut rows);
        rows.truncate(size);
        rows.sort_unstable();
    }
    drawn.clear();
    room::reserve(drawn, weights.len())?;
    drawn.resize(weights.len(), 0.0);
    for row in &rows {
        drawn[*row as usize] = weights[*row as usize];
    }
    Ok(rows)
}

/// The features that a tree has, each once.
fn features(all: usize, wanted: usize, replacement: bool, random: &mut Random) -> Vec<usize> {
    if replacement {
        let mut features: Vec<usize> = (0..wanted).map(|_| random.index(all)).collect();
        features.sort_unstable();
        features.dedup();
        return features;
    }
    let mut features: Vec<usize> = (0..all).collect();
    if wanted < all {
        random.shuffle(&mut features);
        features.truncate(wanted);
    }
    features
}
