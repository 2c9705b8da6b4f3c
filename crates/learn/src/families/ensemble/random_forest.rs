//! Forests: the mean of many trees, each grown from its own sample of the rows (Breiman, 2001), or with random thresholds
//! (Geurts, Ernst and Wehenkel, 2006); the hyperparameters are scikit-learn's.
//!
//! Splits are searched among at most 255 values of a feature; with more distinct values than that, among their
//! quantiles. Where features have categories, a split is by a set of them.

use forest::double::Link;

use crate::Error;
use crate::families::ensemble::trees::bins::{Bins, MOST};
use crate::families::ensemble::trees::grow::{Grower, Sample, Sums};
use crate::families::ensemble::trees::{
    CCP_ALPHA, MAX_LEAF_NODES, MIN_IMPURITY_DECREASE, MIN_SAMPLES_LEAF, MIN_SAMPLES_SPLIT, MIN_WEIGHT_FRACTION_LEAF,
    MONOTONIC_CST, N_JOBS, OOB_SCORE, RANDOM_STATE, VERBOSE, WARM_START, all_rows, bootstrap, classes, criterion,
    growth, join, leaf_values, max_depth, max_features, push, random, row, weighted_labels, weights,
};
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Task};
use crate::forms::trees::{self, Ensemble};

const fn common(max_features_default: &'static str, bootstrap_default: &'static str) -> [Parameter; 16] {
    const MAX_SAMPLES: Kind =
        Kind::OrNull(&Kind::Any(&[Kind::Integer(1, crate::families::ensemble::trees::MANY), Kind::Above(0.0, 1.0)]));
    [
        crate::families::ensemble::trees::trees("100"),
        max_depth("null"),
        MIN_SAMPLES_SPLIT,
        MIN_SAMPLES_LEAF,
        MIN_WEIGHT_FRACTION_LEAF,
        max_features(max_features_default),
        MAX_LEAF_NODES,
        MIN_IMPURITY_DECREASE,
        row(
            "bootstrap",
            Kind::Flag,
            bootstrap_default,
            "Whether each tree is trained on a bootstrap sample of the rows.",
        ),
        row(
            "max_samples",
            MAX_SAMPLES,
            "null",
            "Rows that are drawn for a tree: a count, a share, or null for as many as there are.",
        ),
        CCP_ALPHA,
        RANDOM_STATE,
        N_JOBS,
        VERBOSE,
        OOB_SCORE,
        WARM_START,
    ]
}

const CLASSIFICATION: Parameter = row(
    "criterion",
    Kind::Choice(&["gini", "entropy", "log_loss"]),
    "\"gini\"",
    "The criterion of a split: Gini impurity, or entropy.",
);
const REGRESSION: Parameter = row(
    "criterion",
    Kind::Any(&[
        Kind::Choice(&["squared_error", "friedman_mse", "poisson"]),
        Kind::Refused("\"absolute_error\" is not possible here"),
    ]),
    "\"squared_error\"",
    "The criterion of a split: squared error, or the deviance of a Poisson distribution.",
);

const FOREST_CLASSIFICATION: [Parameter; 18] = join(&[CLASSIFICATION, MONOTONIC_CST], &common("\"sqrt\"", "true"));
const FOREST_REGRESSION: [Parameter; 18] = join(&[REGRESSION, MONOTONIC_CST], &common("1.0", "true"));
const EXTRA_CLASSIFICATION: [Parameter; 18] = join(&[CLASSIFICATION, MONOTONIC_CST], &common("\"sqrt\"", "false"));
const EXTRA_REGRESSION: [Parameter; 18] = join(&[REGRESSION, MONOTONIC_CST], &common("1.0", "false"));

/// `random_forest` for classes, as scikit-learn's RandomForestClassifier.
pub(crate) const CLASSIFIER: Family = Family {
    name: "random_forest",
    task: Task::Classification,
    parameters: &FOREST_CLASSIFICATION,
    joint: true,
    takes_categories: true,
    takes_missing: true,
    takes_weights: true,
    fit: |problem, given, control| fit(problem, given, control, false),
    form: &trees::FORM,
};

/// `random_forest` for numbers, as scikit-learn's RandomForestRegressor.
pub(crate) const REGRESSOR: Family = Family { task: Task::Regression, parameters: &FOREST_REGRESSION, ..CLASSIFIER };

/// `extra_trees` for classes, as scikit-learn's ExtraTreesClassifier.
pub(crate) const EXTRA_CLASSIFIER: Family = Family {
    name: "extra_trees",
    task: Task::Classification,
    parameters: &EXTRA_CLASSIFICATION,
    joint: true,
    takes_categories: true,
    takes_missing: true,
    takes_weights: true,
    fit: |problem, given, control| fit(problem, given, control, true),
    form: &trees::FORM,
};

/// `extra_trees` for numbers, as scikit-learn's ExtraTreesRegressor.
pub(crate) const EXTRA_REGRESSOR: Family =
    Family { task: Task::Regression, parameters: &EXTRA_REGRESSION, ..EXTRA_CLASSIFIER };

fn fit(
    problem: &Problem<'_>,
    given: &Given,
    control: &mut Control<'_>,
    random_thresholds: bool,
) -> Result<Model, Error> {
    let is_regression = problem.classes == 0;
    let by = criterion(given);
    check_poisson(problem, given)?;
    let own = weights(problem)?;
    let bins = Bins::new(problem, MOST, control)?;
    let mut growth = growth(given, problem, by, own.iter().sum());
    growth.random_thresholds = random_thresholds;
    let mut grower = Grower::new(&bins, growth);
    let mut random = random(problem, given);
    let outputs = if is_regression { problem.targets } else { problem.classes };
    let link = if is_regression { Link::Identity } else { Link::Probabilities };
    let mut ensemble = Ensemble::new(problem.width, vec![0.0; outputs], outputs, link);
    let of_rows = if is_regression { Vec::new() } else { classes(problem)? };
    let size = match given.is_integer("max_samples") {
        true => given.count("max_samples"),
        false => given
            .maybe_number("max_samples")
            .map_or(problem.rows, |share| (share * problem.rows as f64).round().max(1.0) as usize),
    };
    if size > problem.rows {
        return Err(given.refuse("max_samples", crate::there_are(problem.rows, "row")));
    }
    let of = given.count("n_estimators");
    let (mut drawn, mut labels, mut values) = (Vec::new(), Vec::new(), Vec::new());
    for tree in 0..of {
        let rows = match given.flag("bootstrap") {
            true => bootstrap(size, &own, &mut random, &mut drawn)?,
            false => {
                drawn.clone_from(&own);
                all_rows(&own)?
            }
        };
        let sums = if is_regression {
            weighted_labels(problem, &drawn, &mut labels)?;
            Sums::Numbers(&labels, problem.targets)
        } else {
            Sums::Classes(&of_rows, problem.classes)
        };
        let sample = Sample { weights: &drawn, sums };
        let grown = grower.grow(rows, sample, &mut random, control)?;
        leaf_values(&grown, &drawn, sums, &mut values)?;
        push(&mut ensemble, &grown, &values)?;
        control.progress(tree as u64 + 1, of as u64)?;
    }
    ensemble.divisor = of as f64;
    Ok(ensemble.model())
}

/// A Poisson distribution has no negative numbers, and not only zeros.
fn check_poisson(problem: &Problem<'_>, given: &Given) -> Result<(), Error> {
    let is_one = problem.labels.iter().all(|label| *label >= 0.0) && problem.labels.iter().any(|label| *label > 0.0);
    match given.word("criterion") == "poisson" && !is_one {
        true => Err(given.refuse("criterion", "labels of a Poisson distribution are not negative, and not all zero")),
        false => Ok(()),
    }
}
