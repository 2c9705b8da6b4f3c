//! Gradient boosting of small trees (Friedman, 2001 and 2002); the hyperparameters are scikit-learn's.
//!
//! Splits are searched among at most 255 values of a feature, as in [`crate::families::ensemble::random_forest`].

use crate::Error;
use crate::families::ensemble::trees::bins::{Bins, MOST};
use crate::families::ensemble::trees::boost::{Boosting, Early, boost};
use crate::families::ensemble::trees::grow::Criterion;
use crate::families::ensemble::trees::loss::Loss;
use crate::families::ensemble::trees::{
    CCP_ALPHA, MANY, MAX_LEAF_NODES, MIN_IMPURITY_DECREASE, MIN_SAMPLES_LEAF, MIN_SAMPLES_SPLIT,
    MIN_WEIGHT_FRACTION_LEAF, RANDOM_STATE, VERBOSE, WARM_START, growth, join, max_depth, max_features, random, row,
    weights,
};
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Task};
use crate::forms::trees;

const OPEN: Kind = Kind::Number(f64::MIN_POSITIVE, 1.0 - f64::EPSILON);

const COMMON: [Parameter; 19] = [
    row(
        "learning_rate",
        Kind::Number(0.0, f64::INFINITY),
        "0.1",
        "The learning rate: the factor of each tree's prediction.",
    ),
    crate::families::ensemble::trees::trees("100"),
    row("subsample", Kind::Above(0.0, 1.0), "1.0", "The share of the rows that each round has."),
    max_depth("3"),
    MIN_SAMPLES_SPLIT,
    MIN_SAMPLES_LEAF,
    MIN_WEIGHT_FRACTION_LEAF,
    max_features("null"),
    MAX_LEAF_NODES,
    MIN_IMPURITY_DECREASE,
    row(
        "n_iter_no_change",
        Kind::OrNull(&Kind::Integer(1, MANY)),
        "null",
        "The training ends when the loss on held-back rows has not improved for this number of rounds; null for never.",
    ),
    row("validation_fraction", OPEN, "0.1", "The share of the rows that are held back to stop by."),
    row(
        "tol",
        Kind::Number(0.0, f64::INFINITY),
        "0.0001",
        "The smallest change of the score that counts as an improvement.",
    ),
    row(
        "init",
        Kind::OrNull(&Kind::Refused("only null is possible: the first answer is the best constant")),
        "null",
        "Only null: the initial prediction is the best constant.",
    ),
    row(
        "criterion",
        Kind::Choice(&["friedman_mse", "squared_error"]),
        "\"friedman_mse\"",
        "Both choose the same splits: those that leave the least squared error of the derivatives.",
    ),
    CCP_ALPHA,
    RANDOM_STATE,
    VERBOSE,
    WARM_START,
];

const CLASSIFICATION: [Parameter; 20] = join(
    &[row(
        "loss",
        Kind::Choice(&["log_loss", "exponential"]),
        "\"log_loss\"",
        "The loss function; exponential, for two classes, is AdaBoost's.",
    )],
    &COMMON,
);
const REGRESSION: [Parameter; 21] = join(
    &[
        row(
            "loss",
            Kind::Choice(&["squared_error", "absolute_error", "huber", "quantile"]),
            "\"squared_error\"",
            "The loss function.",
        ),
        row("alpha", OPEN, "0.9", "The quantile of loss quantile, or of the errors that loss huber squares."),
    ],
    &COMMON,
);

/// `gradient_boosting_trees` for classes, as scikit-learn's GradientBoostingClassifier.
pub(crate) const CLASSIFIER: Family = Family {
    name: "gradient_boosting_trees",
    task: Task::Classification,
    parameters: &CLASSIFICATION,
    joint: false,
    takes_categories: true,
    takes_missing: true,
    takes_weights: true,
    fit,
    form: &trees::FORM,
};

/// `gradient_boosting_trees` for numbers, as scikit-learn's GradientBoostingRegressor.
pub(crate) const REGRESSOR: Family = Family { task: Task::Regression, parameters: &REGRESSION, ..CLASSIFIER };

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let loss = match given.word("loss") {
        "absolute_error" => Loss::Absolute,
        "huber" => Loss::Huber(given.number("alpha")),
        "quantile" => Loss::Quantile(given.number("alpha")),
        "exponential" if problem.classes == 2 => Loss::Exponential,
        "exponential" => return Err(given.refuse("loss", "it is for two classes")),
        "log_loss" if problem.classes <= 2 => Loss::Logistic,
        "log_loss" => Loss::Softmax(problem.classes),
        _ => Loss::Squared,
    };
    let weights = weights(problem)?;
    let bins = Bins::new(problem, MOST, control)?;
    let growth = growth(given, problem, Criterion::SquaredError, weights.iter().sum());
    let early = given.maybe_count("n_iter_no_change").map(|patience| Early {
        share: given.number("validation_fraction"),
        patience,
        tolerance: given.number("tol"),
    });
    let boosting = Boosting {
        loss,
        rate: given.number("learning_rate"),
        rounds: given.count("n_estimators"),
        subsample: given.number("subsample"),
        newton: false,
        early,
    };
    let mut random = random(problem, given);
    Ok(boost(problem, &bins, growth, &boosting, &weights, &mut random, control)?.model())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::testing::{classification, data_set, fit_of, r2, regression, split};

    #[test]
    fn every_loss_is_learnt() {
        let (features, width, labels) = data_set("diabetes");
        let (train, test) = split(&features, width, &labels);
        for (loss, least) in [("absolute_error", 0.25), ("huber", 0.25)] {
            let problem = regression(&train.0, width, &train.1);
            let model = fit_of(&REGRESSOR, &problem, &format!("{{\"loss\": \"{loss}\", \"subsample\": 0.5}}"));
            let score = r2(model.as_ref(), &test.0, &test.1);
            assert!(score > least, "{loss}: {score}");
        }
        let model = fit_of(&REGRESSOR, &regression(&train.0, width, &train.1), "{\"loss\": \"quantile\"}");
        let mut value = [0.0];
        let below = train.0.chunks(width).zip(&train.1).filter(|(row, label)| {
            model.predict(row, &mut value);
            **label <= value[0]
        });
        let share = below.count() as f64 / train.1.len() as f64;
        assert!((share - 0.9).abs() < 0.05, "{share}");
    }

    #[test]
    fn it_stops_when_nothing_is_gained() {
        let (features, width, labels) = data_set("diabetes");
        let problem = regression(&features, width, &labels);
        let rounds = |hyperparams: &str| {
            let given = crate::families::testing::given(&REGRESSOR, hyperparams).unwrap();
            let mut done = 0;
            let mut ask = |progress: Option<crate::family::Progress>| {
                done = progress.map_or(done, |progress| progress.done);
                Ok(())
            };
            fit(&problem, &given, &mut Control::new(&mut ask)).unwrap();
            done
        };
        assert_eq!(rounds("{\"n_estimators\": 300}"), 300);
        assert!(rounds("{\"n_estimators\": 300, \"n_iter_no_change\": 5}") < 150);
    }

    #[test]
    fn the_exponential_loss_is_for_two_classes() {
        let (features, width, labels) = data_set("iris");
        let given = crate::families::testing::given(&CLASSIFIER, "{\"loss\": \"exponential\"}").unwrap();
        let mut ask = |_| Ok(());
        let problem = classification(&features, width, &labels);
        assert!(fit(&problem, &given, &mut Control::new(&mut ask)).is_err());
    }
}
