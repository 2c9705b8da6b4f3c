//! Gradient boosting of trees that grow leaf by leaf, by both derivatives of the loss and histograms of binned features
//! (Ke et al., "LightGBM", 2017, whose method it is); the hyperparameters are scikit-learn's.

use crate::Error;
use crate::families::ensemble::trees::bins::Bins;
use crate::families::ensemble::trees::boost::{Boosting, Early, boost};
use crate::families::ensemble::trees::grow::{Criterion, Growth};
use crate::families::ensemble::trees::loss::Loss;
use crate::families::ensemble::trees::{
    MANY, MONOTONIC_CST, RANDOM_STATE, VERBOSE, WARM_START, join, max_depth, plain, random, row, weights,
};
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Task};
use crate::forms::trees;

const COMMON: [Parameter; 19] = [
    row(
        "learning_rate",
        Kind::Above(0.0, f64::INFINITY),
        "0.1",
        "The learning rate: the factor of each tree's prediction.",
    ),
    row(
        "max_iter",
        Kind::Integer(1, 100_000),
        "100",
        "The number of rounds; each grows a tree, or a tree for each class.",
    ),
    row(
        "max_leaf_nodes",
        Kind::OrNull(&Kind::Integer(2, MANY)),
        "31",
        "Leaves that a tree may have; null for no limit.",
    ),
    max_depth("null"),
    row("min_samples_leaf", Kind::Integer(1, MANY), "20", "Rows that a leaf must have."),
    row("l2_regularization", Kind::Number(0.0, f64::INFINITY), "0.0", "Smooths the values of leaves with few rows."),
    row("max_features", Kind::Above(0.0, 1.0), "1.0", "The share of the features that are tried at a split."),
    row("max_bins", Kind::Integer(2, 255), "255", "The maximum number of bins for a feature's values."),
    row(
        "early_stopping",
        Kind::Any(&[Kind::Flag, Kind::Choice(&["auto"])]),
        "\"auto\"",
        "Whether to stop when the loss on held-back rows does not improve; \"auto\": with more than 10000 rows.",
    ),
    row(
        "validation_fraction",
        Kind::OrNull(&Kind::Number(f64::MIN_POSITIVE, 1.0 - f64::EPSILON)),
        "0.1",
        "The share of the rows that are held back to stop by; null to stop by the rows that are trained on.",
    ),
    row(
        "n_iter_no_change",
        Kind::Integer(1, MANY),
        "10",
        "The number of rounds without an improvement after which the training ends.",
    ),
    row(
        "tol",
        Kind::Number(0.0, f64::INFINITY),
        "1e-7",
        "The smallest change of the score that counts as an improvement.",
    ),
    row("scoring", Kind::Choice(&["loss"]), "\"loss\"", "The metric of early stopping."),
    row(
        "categorical_features",
        Kind::Any(&[Kind::Choice(&["from_dtype"]), Kind::OrNull(&Kind::Refused("it follows from the columns' types"))]),
        "\"from_dtype\"",
        "No effect: it follows from the columns' types.",
    ),
    row(
        "interaction_cst",
        Kind::OrNull(&Kind::Refused("only null is possible: algorithm \"xgboost\" has interaction_constraints")),
        "null",
        "Only null.",
    ),
    MONOTONIC_CST,
    RANDOM_STATE,
    VERBOSE,
    WARM_START,
];

const CLASSIFICATION: [Parameter; 20] =
    join(&[row("loss", Kind::Choice(&["log_loss"]), "\"log_loss\"", "The loss function.")], &COMMON);
const REGRESSION: [Parameter; 21] = join(
    &[
        row(
            "loss",
            Kind::Choice(&["squared_error", "absolute_error", "gamma", "poisson", "quantile"]),
            "\"squared_error\"",
            "The loss function.",
        ),
        row("quantile", Kind::OrNull(&Kind::Number(0.0, 1.0)), "null", "The quantile of loss quantile."),
    ],
    &COMMON,
);

/// `hist_gradient_boosting` for classes, as scikit-learn's HistGradientBoostingClassifier.
pub(crate) const CLASSIFIER: Family = Family {
    name: "hist_gradient_boosting",
    task: Task::Classification,
    parameters: &CLASSIFICATION,
    joint: false,
    takes_categories: true,
    takes_missing: true,
    takes_weights: true,
    fit,
    form: &trees::FORM,
};

/// `hist_gradient_boosting` for numbers, as scikit-learn's HistGradientBoostingRegressor.
pub(crate) const REGRESSOR: Family = Family { task: Task::Regression, parameters: &REGRESSION, ..CLASSIFIER };

/// The least sum of second derivatives that a leaf has, which keeps its answer finite.
const LEAST_SECOND: f64 = 1e-3;
/// What is added to a category's second derivatives, so that rare ones do not come first or last.
const SMOOTH: f64 = 10.0;
/// The number of rows from which "auto" stops early.
const MANY_ROWS: usize = 10_000;

fn loss(problem: &Problem<'_>, given: &Given) -> Result<Loss, Error> {
    let least = problem.labels.iter().copied().fold(f32::INFINITY, f32::min);
    let refuse = |allowed: &str| Err(given.refuse("loss", format!("{allowed}, and there is a label of {least}")));
    match given.word("loss") {
        "absolute_error" => Ok(Loss::Absolute),
        "quantile" => match given.maybe_number("quantile") {
            Some(share) => Ok(Loss::Quantile(share)),
            None => Err(given.refuse("quantile", "loss quantile needs one")),
        },
        "gamma" if least <= 0.0 => refuse("labels of a gamma distribution are above 0"),
        "gamma" => Ok(Loss::Gamma),
        "poisson" if least < 0.0 => refuse("labels of a Poisson distribution are not negative"),
        "poisson" => Ok(Loss::Poisson),
        "log_loss" if problem.classes <= 2 => Ok(Loss::Logistic),
        "log_loss" => Ok(Loss::Softmax(problem.classes)),
        _ => Ok(Loss::Squared),
    }
}

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let loss = loss(problem, given)?;
    let weights = weights(problem)?;
    let bins = Bins::new(problem, given.count("max_bins"), control)?;
    let share = given.number("max_features");
    let min_leaf = given.count("min_samples_leaf");
    let growth = Growth {
        max_depth: given.maybe_count("max_depth").unwrap_or(usize::MAX),
        min_split: 2 * min_leaf,
        min_leaf,
        min_weight: LEAST_SECOND,
        tried: (share < 1.0).then(|| ((share * problem.width as f64).ceil() as usize).max(1)),
        // Without a limit it is the same tree in any order, but best first keeps more in memory.
        max_leaves: given.maybe_count("max_leaf_nodes"),
        must_gain: true,
        l2: given.number("l2_regularization"),
        smooth: SMOOTH,
        ..plain(Criterion::SquaredError)
    };
    let stops = match given.word("early_stopping") {
        "auto" => problem.rows > MANY_ROWS,
        _ => given.flag("early_stopping"),
    };
    let early = stops.then(|| Early {
        share: given.maybe_number("validation_fraction").unwrap_or(0.0),
        patience: given.count("n_iter_no_change"),
        tolerance: given.number("tol"),
    });
    let boosting = Boosting {
        loss,
        rate: given.number("learning_rate"),
        rounds: given.count("max_iter"),
        subsample: 1.0,
        newton: true,
        early,
    };
    let mut random = random(problem, given);
    Ok(boost(problem, &bins, growth, &boosting, &weights, &mut random, control)?.model())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::testing::{fit_of, regression};

    #[test]
    fn counts_have_means_above_zero() {
        let features: Vec<f32> = (0..400).map(|row| row as f32 / 100.0).collect();
        let labels: Vec<f32> = features.iter().map(|value| value.exp().round()).collect();
        for loss in ["poisson", "gamma"] {
            let model = fit_of(&REGRESSOR, &regression(&features, 1, &labels), &format!("{{\"loss\": \"{loss}\"}}"));
            let mut value = [0.0];
            for (feature, label) in features.iter().zip(&labels) {
                model.predict(&[*feature], &mut value);
                assert!(value[0] > 0.0 && (value[0] / label).ln().abs() < 0.6, "{loss}: {value:?} for {label}");
            }
        }
        let given = crate::families::testing::given(&REGRESSOR, "{\"loss\": \"gamma\"}").unwrap();
        let mut ask = |_| Ok(());
        let zeros = vec![0.0; 400];
        assert!(fit(&regression(&features, 1, &zeros), &given, &mut Control::new(&mut ask)).is_err());
    }
}
