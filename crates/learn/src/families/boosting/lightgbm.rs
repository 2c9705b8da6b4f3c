//! LightGBM: gradient boosting by the library itself (Ke et al., 2017). It is needed to train only; what it trained is
//! read into trees that predict what the library does, see `forest::lightgbm`.
//!
//! The hyperparameters are the library's, under all their names. What a caller does not give is left to the library,
//! but for the seed, and for `deterministic`: the same rows and the same seed give the same model, on any number of
//! threads.

use crate::Error;
use crate::families::boosting::aliases::{Row, count, names, row};
use crate::families::common::{NOT_NEGATIVE, POSITIVE};
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Task};
use crate::foreign::with_source;
use crate::forms::trees::{self, Ensemble};
use crate::lightgbm::train;

const MANY: i64 = i32::MAX as i64;
const COUNT: Kind = Kind::Integer(1, MANY);
const NATURAL: Kind = Kind::Integer(0, MANY);
const SHARE: Kind = Kind::Above(0.0, 1.0);
const FRACTION: Kind = Kind::Number(0.0, 1.0);
const NUMBER: Kind = Kind::Number(f64::NEG_INFINITY, f64::INFINITY);
const SEED: Kind = Kind::Integer(0, MANY);
const OWN_FILE: Kind = Kind::Refused("it names a file of the server");
const HELD_OUT: Kind = Kind::Refused("early stopping is for xgboost alone; search over n_estimators instead");
const LINEAR: Kind = Kind::Refused("trees with linear functions in their leaves are not supported");

/// All of them but the objective, those that matter most first.
const TABLE: [Row; 82] = [
    // How many trees, and how fast they learn.
    row(
        "num_iterations",
        &[
            "num_iteration",
            "n_iter",
            "num_tree",
            "num_trees",
            "num_round",
            "num_rounds",
            "nrounds",
            "num_boost_round",
            "n_estimators",
            "max_iter",
        ],
        Kind::Integer(1, 1_000_000),
        "100",
        "The number of rounds; each grows a tree, or a tree for each class.",
    ),
    row(
        "learning_rate",
        &["shrinkage_rate", "eta"],
        POSITIVE,
        "0.1",
        "The learning rate: the factor of each tree's prediction.",
    ),
    row(
        "num_leaves",
        &["num_leaf", "max_leaves", "max_leaf", "max_leaf_nodes"],
        Kind::Integer(2, 131_072),
        "31",
        "Leaves that a tree may have.",
    ),
    row("max_depth", &[], Kind::Integer(-1, MANY), "-1", "The maximum depth of a tree; 0 or less for no limit."),
    row(
        "boosting",
        &["boosting_type", "boost"],
        Kind::Choice(&["gbdt", "gbrt", "rf", "random_forest", "dart"]),
        "\"gbdt\"",
        "Gradient boosting, a random forest, or boosting with dropout. A random forest needs bagging.",
    ),
    row(
        "data_sample_strategy",
        &[],
        Kind::Choice(&["bagging", "goss"]),
        "\"bagging\"",
        "The sampling of rows: at random, or all rows with large gradients and some of the others.",
    ),
    // When a leaf is split.
    row(
        "min_data_in_leaf",
        &["min_data_per_leaf", "min_data", "min_child_samples", "min_samples_leaf"],
        NATURAL,
        "20",
        "Rows that a leaf must have.",
    ),
    row(
        "min_sum_hessian_in_leaf",
        &["min_sum_hessian_per_leaf", "min_sum_hessian", "min_hessian", "min_child_weight"],
        NOT_NEGATIVE,
        "0.001",
        "The sum of second derivatives that a leaf must have.",
    ),
    row("min_gain_to_split", &["min_split_gain"], NOT_NEGATIVE, "0.0", "The minimum gain of a split."),
    row("lambda_l1", &["reg_alpha", "l1_regularization"], NOT_NEGATIVE, "0.0", "L1 regularisation of the leaves."),
    row(
        "lambda_l2",
        &["reg_lambda", "lambda", "l2_regularization"],
        NOT_NEGATIVE,
        "0.0",
        "L2 regularisation of the leaves.",
    ),
    row(
        "max_delta_step",
        &["max_tree_output", "max_leaf_output"],
        NUMBER,
        "0.0",
        "The maximum absolute value of a leaf; 0 or less for no limit.",
    ),
    row(
        "path_smooth",
        &[],
        NOT_NEGATIVE,
        "0.0",
        "Draws the answers of leaves with few rows to those of their parents.",
    ),
    row(
        "extra_trees",
        &["extra_tree"],
        Kind::Flag,
        "false",
        "Whether a single random threshold is tried for each feature.",
    ),
    // What each tree sees.
    row(
        "bagging_fraction",
        &["sub_row", "subsample", "bagging"],
        SHARE,
        "1.0",
        "The share of rows that is sampled for a bag.",
    ),
    row(
        "pos_bagging_fraction",
        &["pos_sub_row", "pos_subsample", "pos_bagging"],
        SHARE,
        "1.0",
        "The share of rows of the second of two classes in a bag.",
    ),
    row(
        "neg_bagging_fraction",
        &["neg_sub_row", "neg_subsample", "neg_bagging"],
        SHARE,
        "1.0",
        "The share of rows of the first of two classes in a bag.",
    ),
    row("bagging_freq", &["subsample_freq"], NATURAL, "0", "Rounds after which a new bag is drawn; 0 for no bags."),
    row("feature_fraction", &["sub_feature", "colsample_bytree"], SHARE, "1.0", "The share of features of a tree."),
    row(
        "feature_fraction_bynode",
        &["sub_feature_bynode", "colsample_bynode"],
        SHARE,
        "1.0",
        "The share of features of a split.",
    ),
    row("top_rate", &[], FRACTION, "0.2", "Goss: the share of rows, those with the largest gradients, that is kept."),
    row("other_rate", &[], FRACTION, "0.1", "Goss: the share of the other rows that is kept."),
    // Dropout.
    row("drop_rate", &["rate_drop"], FRACTION, "0.1", "Dart: the share of trees that is left out of a round."),
    row(
        "max_drop",
        &[],
        Kind::Integer(-1, MANY),
        "50",
        "Dart: the maximum number of trees that a round leaves out; 0 or less for no limit.",
    ),
    row("skip_drop", &[], FRACTION, "0.5", "Dart: the probability that a round leaves no tree out."),
    row("xgboost_dart_mode", &[], Kind::Flag, "false", "Dart: as XGBoost does it."),
    row("uniform_drop", &[], Kind::Flag, "false", "Dart: whether all trees are left out alike."),
    // Categories.
    row("min_data_per_group", &[], COUNT, "100", "Rows that a set of categories must have."),
    row("max_cat_threshold", &[], COUNT, "32", "Categories that a split sets apart."),
    row("cat_l2", &[], NOT_NEGATIVE, "10.0", "L2 regularisation where categories are split."),
    row("cat_smooth", &[], NOT_NEGATIVE, "10.0", "Makes rare categories less extreme where they are put in order."),
    row(
        "max_cat_to_onehot",
        &[],
        COUNT,
        "4",
        "The maximum number of categories of a column whose splits set one category apart from the others.",
    ),
    // Knowledge about the columns.
    row(
        "monotone_constraints",
        &["mc", "monotone_constraint", "monotonic_cst"],
        Kind::OrNull(&Kind::Numbers),
        "null",
        "-1, 0 or 1 for each column: the prediction may only decrease with the column's value, or only increase.",
    ),
    row(
        "monotone_constraints_method",
        &["monotone_constraining_method", "mc_method"],
        Kind::Choice(&["basic", "intermediate", "advanced"]),
        "\"basic\"",
        "The method that keeps monotone constraints: later ones are slower and lose less gain.",
    ),
    row(
        "monotone_penalty",
        &["monotone_splits_penalty", "ms_penalty", "mc_penalty"],
        NOT_NEGATIVE,
        "0.0",
        "The number of the tree's top levels without splits by monotone columns.",
    ),
    row(
        "feature_contri",
        &["feature_contrib", "fc", "fp", "feature_penalty"],
        Kind::OrNull(&Kind::Numbers),
        "null",
        "The factor of the gains of each column.",
    ),
    row(
        "interaction_constraints",
        &["interaction_constraints_vector"],
        Kind::OrNull(&Kind::Refused("only null is possible: algorithm \"xgboost\" has interaction_constraints")),
        "null",
        "Only null.",
    ),
    row("cegb_tradeoff", &[], NOT_NEGATIVE, "1.0", "The factor of the penalties of splits and columns."),
    row("cegb_penalty_split", &[], NOT_NEGATIVE, "0.0", "The penalty of a split."),
    row(
        "cegb_penalty_feature_lazy",
        &[],
        Kind::OrNull(&Kind::Numbers),
        "null",
        "The penalty of each column, for each row.",
    ),
    row(
        "cegb_penalty_feature_coupled",
        &[],
        Kind::OrNull(&Kind::Numbers),
        "null",
        "The penalty of each column, once for the model.",
    ),
    // What is optimised.
    row("is_unbalance", &["unbalance", "unbalanced_sets"], Kind::Flag, "false", "Whether two classes weigh the same."),
    row("scale_pos_weight", &[], POSITIVE, "1.0", "The weight of rows of the second of two classes."),
    row("sigmoid", &[], POSITIVE, "1.0", "The factor of scores before the logistic function."),
    row("boost_from_average", &[], Kind::Flag, "true", "Whether the initial score is the best constant."),
    row("reg_sqrt", &[], Kind::Flag, "false", "Objective regression: learns the square root of the label."),
    row(
        "alpha",
        &[],
        POSITIVE,
        "0.9",
        "Objective huber: the error at which the loss turns linear; objective quantile: the quantile.",
    ),
    row("fair_c", &[], POSITIVE, "1.0", "Objective fair: the error at which the loss turns linear."),
    row("poisson_max_delta_step", &[], POSITIVE, "0.7", "Objective poisson: bounds the steps."),
    row(
        "tweedie_variance_power",
        &[],
        Kind::Number(1.0, 1.999_999),
        "1.5",
        "Objective tweedie: near 1 is a Poisson, near 2 a gamma distribution.",
    ),
    // How features are binned.
    row(
        "max_bin",
        &["max_bins"],
        Kind::Integer(2, 65_535),
        "255",
        "The maximum number of bins for a feature's values.",
    ),
    row(
        "max_bin_by_feature",
        &[],
        Kind::OrNull(&Kind::Numbers),
        "null",
        "The maximum number of bins of each column: a number for each.",
    ),
    row("min_data_in_bin", &[], COUNT, "3", "Rows that a bin must have."),
    row(
        "bin_construct_sample_cnt",
        &["subsample_for_bin"],
        COUNT,
        "200000",
        "The number of sampled rows from which bins are made.",
    ),
    row(
        "is_enable_sparse",
        &["is_sparse", "enable_sparse", "sparse"],
        Kind::Flag,
        "true",
        "Whether sparse columns are stored in sparse form.",
    ),
    row(
        "enable_bundle",
        &["is_enable_bundle", "bundle"],
        Kind::Flag,
        "true",
        "Bundles columns that exclude each other.",
    ),
    row("use_missing", &[], Kind::Flag, "true", "Whether a split has a direction of its own for missing values."),
    row("zero_as_missing", &[], Kind::Flag, "false", "Whether zeros count as missing values too."),
    row("feature_pre_filter", &[], Kind::Flag, "true", "Leaves out columns that cannot be split."),
    row("linear_tree", &["linear_trees"], LINEAR, "false", "Not possible."),
    row("linear_lambda", &[], Kind::Ignored, "0.0", "No effect."),
    // Running.
    row(
        "seed",
        &["random_seed", "random_state"],
        Kind::OrNull(&SEED),
        "null",
        "The seed; null for the seed of the training.",
    ),
    row("bagging_seed", &["bagging_fraction_seed"], SEED, "3", "The seed of bags."),
    row("feature_fraction_seed", &[], SEED, "2", "The seed of the choice of features."),
    row("extra_seed", &[], SEED, "6", "The seed of random thresholds."),
    row("drop_seed", &[], SEED, "4", "The seed of dropout."),
    row("data_random_seed", &["data_seed"], SEED, "1", "The seed of the rows by which bins are found."),
    row("objective_seed", &[], SEED, "5", "The seed of the objective."),
    row(
        "num_threads",
        &["num_thread", "nthread", "nthreads", "n_jobs"],
        Kind::OrNull(&Kind::Integer(-1, 1024)),
        "0",
        "Threads; 0 or less for as many as there are processors.",
    ),
    row("deterministic", &[], Kind::Flag, "true", "Whether any number of threads gives the same model."),
    row("force_col_wise", &[], Kind::Flag, "false", "Whether histograms are built column by column."),
    row("force_row_wise", &[], Kind::Flag, "false", "Whether histograms are built row by row."),
    row(
        "histogram_pool_size",
        &["hist_pool_size"],
        NUMBER,
        "-1.0",
        "The maximum size of the histograms, in megabytes; below 0 for no limit.",
    ),
    row(
        "tree_learner",
        &["tree", "tree_type", "tree_learner_type"],
        Kind::Choice(&["serial"]),
        "\"serial\"",
        "Only serial.",
    ),
    row("device_type", &["device"], Kind::Choice(&["cpu"]), "\"cpu\"", "Only cpu."),
    row("verbosity", &["verbose"], Kind::Ignored, "null", "No effect."),
    row("num_class", &["num_classes"], Kind::Ignored, "null", "No effect: counted from the labels."),
    row("metric", &["metrics", "metric_types"], Kind::Ignored, "null", "No effect: metrics are measured afterwards."),
    row("importance_type", &[], Kind::Ignored, "null", "No effect."),
    row(
        "early_stopping_round",
        &["early_stopping_rounds", "early_stopping", "n_iter_no_change"],
        Kind::OrNull(&HELD_OUT),
        "null",
        "Only null: early stopping is for xgboost alone.",
    ),
    row(
        "forcedsplits_filename",
        &["fs", "forced_splits_filename", "forced_splits_file", "forced_splits"],
        OWN_FILE,
        "null",
        "Not possible.",
    ),
    row("forcedbins_filename", &[], OWN_FILE, "null", "Not possible."),
];

const OBJECTIVE: [&str; 5] = ["objective_type", "app", "application", "loss", "objective_name"];

const REGRESSION_OBJECTIVE: Row = row(
    "objective",
    &OBJECTIVE,
    Kind::Choice(&[
        "regression",
        "regression_l2",
        "l2",
        "mean_squared_error",
        "mse",
        "l2_root",
        "root_mean_squared_error",
        "rmse",
        "regression_l1",
        "l1",
        "mean_absolute_error",
        "mae",
        "huber",
        "fair",
        "poisson",
        "quantile",
        "mape",
        "mean_absolute_percentage_error",
        "gamma",
        "tweedie",
        "cross_entropy",
        "xentropy",
        "cross_entropy_lambda",
        "xentlambda",
    ]),
    "\"regression\"",
    "The loss that is minimised.",
);
const CLASSIFICATION_OBJECTIVE: Row = row(
    "objective",
    &OBJECTIVE,
    Kind::Choice(&["binary", "multiclass", "softmax"]),
    "null",
    "The loss that is minimised; null for binary with two classes, and multiclass with more.",
);

const REGRESSION: [Parameter; 1 + OBJECTIVE.len() + count(&TABLE)] = names(Some(REGRESSION_OBJECTIVE), &TABLE);
const CLASSIFICATION: [Parameter; 1 + OBJECTIVE.len() + count(&TABLE)] = names(Some(CLASSIFICATION_OBJECTIVE), &TABLE);

/// `lightgbm` for numbers.
pub(crate) const REGRESSOR: Family = Family {
    name: "lightgbm",
    task: Task::Regression,
    parameters: &REGRESSION,
    joint: false,
    takes_categories: true,
    takes_missing: true,
    takes_weights: true,
    fit,
    form: &trees::FORM,
};

/// `lightgbm` for classes.
pub(crate) const CLASSIFIER: Family = Family { task: Task::Classification, parameters: &CLASSIFICATION, ..REGRESSOR };

/// A value as the library reads it; `None` for null.
fn text(given: &Given, name: &str) -> Option<String> {
    if let Some(number) = given.maybe_number(name) {
        return Some(if given.is_integer(name) { given.integer(name).to_string() } else { number.to_string() });
    }
    if let Some(numbers) = given.numbers(name) {
        return Some(numbers.iter().map(f64::to_string).collect::<Vec<_>>().join(","));
    }
    match given.word(name) {
        "" => given.maybe_flag(name).map(|flag| flag.to_string()),
        word => Some(word.to_owned()),
    }
}

/// All parameters, as the library reads them, and the rounds.
fn parameters(problem: &Problem<'_>, given: &Given) -> Result<(String, usize), Error> {
    let objective = match problem.classes {
        0 => REGRESSION_OBJECTIVE.given_as(given)?.and_then(|name| text(given, name)).unwrap_or("regression".into()),
        1 | 2 => "binary".into(),
        classes => format!("multiclass num_class={classes}"),
    };
    if problem.classes > 0
        && let Some(name) = CLASSIFICATION_OBJECTIVE.given_as(given)?
        && (given.word(name) == "binary") != (problem.classes <= 2)
    {
        return Err(given.refuse(name, format!("there are {} classes", problem.classes)));
    }
    let mut all = format!("objective={objective} verbosity=0");
    let mut rounds = 100;
    let (mut has_seed, mut has_order) = (false, false);
    for row in &TABLE {
        let Some(name) = row.given_as(given)? else { continue };
        if matches!(row.kind, Kind::Ignored) {
            continue;
        }
        let Some(value) = text(given, name) else { continue };
        match row.name {
            "num_iterations" => {
                rounds = given.count(name);
                continue;
            }
            "monotone_constraints"
            | "feature_contri"
            | "max_bin_by_feature"
            | "cegb_penalty_feature_lazy"
            | "cegb_penalty_feature_coupled"
                if given.numbers(name).is_some_and(|numbers| numbers.len() != problem.width) =>
            {
                return Err(given.refuse(name, crate::there_are(problem.width, "column")));
            }
            "seed" => has_seed = true,
            "force_col_wise" | "force_row_wise" => has_order = true,
            _ => {}
        }
        all.push_str(&format!(" {}={value}", row.name));
    }
    if !has_seed {
        all.push_str(&format!(" seed={}", problem.seed & 0x7fff_ffff));
    }
    if !given.is_given("deterministic") {
        all.push_str(" deterministic=true");
    }
    if !has_order {
        // Otherwise the library measures which is faster, and the sums would depend on the machine's mood.
        all.push_str(" force_col_wise=true");
    }
    let categories = problem.categories.iter().enumerate().filter(|(_, count)| count.is_some());
    let categories: Vec<String> = categories.map(|(column, _)| column.to_string()).collect();
    if !categories.is_empty() {
        all.push_str(&format!(" categorical_feature={}", categories.join(",")));
    }
    Ok((all, rounds))
}

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let (parameters, rounds) = parameters(problem, given)?;
    let trained = train(problem, &parameters, rounds, control)?;
    let model = forest::lightgbm::read(&trained.text).map_err(|error| Error::LightGbm(error.to_string()))?;
    let model = with_source(Ensemble::from(model).model(), "lightgbm", trained.text.as_ref());
    Ok(trained.warnings.into_iter().fold(model, Model::warn))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::families::testing::{accuracy, classification, data_set, given, r2, regression, split, try_fit};
    use crate::family::Predict;
    use crate::random::Random;

    fn find_library() {
        let path = std::env::var_os("HOWDAH_LIGHTGBM_LIB").map_or_else(
            || concat!(env!("CARGO_MANIFEST_DIR"), "/../../build/lightgbm/lightgbm/lib/lib_lightgbm.so").into(),
            std::path::PathBuf::from,
        );
        assert!(path.exists(), "there is no LightGBM at {}: run `make setup`", path.display());
        crate::lightgbm::set_library(path);
    }

    /// Rows with missing values, zeros, and a column of categories that says something.
    fn rows() -> (Vec<f32>, Vec<f32>) {
        let mut random = Random::new(11);
        let (mut features, mut labels) = (Vec::new(), Vec::new());
        for _ in 0..1500 {
            let category = random.index(50);
            let gap = random.unit() < 0.2;
            let zero = if random.unit() < 0.3 { 0.0 } else { random.normal() as f32 };
            let row =
                [random.normal() as f32, if gap { f32::NAN } else { random.unit() as f32 }, zero, category as f32];
            let noise = 0.3 * random.normal();
            labels.push(
                (2.0 + f64::from(row[0] + zero) + (category * 7 % 5) as f64 + noise).abs() as f32
                    + f32::from(u8::from(gap)),
            );
            features.extend(row);
        }
        (features, labels)
    }

    /// Predictions of the form against the library's own for the same model, bit for bit.
    fn compare(family: &Family, problem: &Problem<'_>, hyperparams: &str) {
        let given = given(family, hyperparams).unwrap();
        let mut ask = |_| Ok(());
        let mut control = Control::new(&mut ask);
        let (parameters, rounds) = parameters(problem, &given).unwrap();
        // One thread gives the same model, and is far quicker where others want the processors too.
        let parameters = format!("{parameters} num_threads=1");
        let trained = train(problem, &parameters, rounds, &mut control).unwrap();
        let read = forest::lightgbm::read(&trained.text).unwrap();
        assert!(read.arrays.trees().len() >= 10, "{hyperparams}");
        let model = crate::forms::open_new(&Ensemble::from(read).model()).unwrap();
        let expected = crate::lightgbm::predict(&trained.text, problem.features, problem.width, 0).unwrap();
        let mut values = vec![0.0; problem.rows * model.values()];
        model.predict_rows(problem.features, &mut values);
        let values: Vec<f32> = match problem.classes {
            2 => values.chunks(2).map(|both| both[1]).collect(),
            _ => values,
        };
        assert_eq!(values.len(), expected.len());
        for (index, (value, expected)) in values.iter().zip(&expected).enumerate() {
            assert_eq!(value.to_bits(), (*expected as f32).to_bits(), "{hyperparams}: {index}: {value} {expected}");
        }
        compare_contributions(model.as_ref(), problem, &trained.text, hyperparams);
    }

    /// Contributions against the library's `pred_contrib`, which sums them in double precision, and in another order.
    fn compare_contributions(model: &dyn Predict, problem: &Problem<'_>, text: &[u8], hyperparams: &str) {
        let rows = &problem.features[..40 * problem.width];
        let expected = crate::lightgbm::predict(text, rows, problem.width, 3).unwrap();
        let [explainer] = &model.explainers().unwrap()[..] else { panic!("one forest, one explainer") };
        let mut found = vec![0.0; 40 * explainer.num_values()];
        explainer.explain(rows, &mut found, || {}).unwrap();
        assert_eq!(found.len(), expected.len());
        // Trees that are averaged it adds up, and does not divide.
        let divisor = forest::lightgbm::read(text).unwrap().divisor;
        let most = expected.iter().fold(0.0, |most: f64, value| most.max(value.abs())) / divisor;
        for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
            let off = (f64::from(*found) - expected / divisor).abs();
            assert!(off <= 1e-6 * most, "{hyperparams}: {index}: {found} {}", expected / divisor);
        }
    }

    #[test]
    fn predictions_are_those_of_the_library() {
        find_library();
        let (features, labels) = rows();
        let categories = [None, None, None, Some(50)];
        let numbers = Problem { categories: &categories, ..regression(&features, 4, &labels) };
        for hyperparams in [
            "{}",
            r#"{"boosting": "dart", "drop_rate": 0.5}"#,
            r#"{"boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}"#,
            r#"{"data_sample_strategy": "goss"}"#,
            r#"{"zero_as_missing": true}"#,
            r#"{"use_missing": false}"#,
            r#"{"max_cat_to_onehot": 100}"#,
            r#"{"objective": "l1"}"#,
            r#"{"objective": "poisson"}"#,
            r#"{"objective": "gamma", "extra_trees": true}"#,
            r#"{"objective": "tweedie"}"#,
            r#"{"objective": "quantile", "alpha": 0.8}"#,
            r#"{"reg_sqrt": true}"#,
        ] {
            compare(&REGRESSOR, &numbers, hyperparams);
        }
        let shares: Vec<f32> = labels.iter().map(|label| label / (1.0 + label)).collect();
        let shares = Problem { labels: &shares, ..numbers };
        compare(&REGRESSOR, &shares, r#"{"objective": "cross_entropy"}"#);
        compare(&REGRESSOR, &shares, r#"{"objective": "cross_entropy_lambda"}"#);
        for classes in [2, 4] {
            let labels: Vec<f32> = labels.iter().map(|label| (label.floor() as usize % classes) as f32).collect();
            let problem = Problem { categories: &categories, ..classification(&features, 4, &labels) };
            for hyperparams in [
                r#"{"n_estimators": 30, "sigmoid": 1.7}"#,
                r#"{"n_estimators": 30, "boosting": "dart"}"#,
                r#"{"n_estimators": 30, "boosting": "rf", "bagging_freq": 1, "bagging_fraction": 0.6}"#,
            ] {
                compare(&CLASSIFIER, &problem, hyperparams);
            }
        }
    }

    /// What LightGBM's Python package scores with the same rows and defaults, to a row or two.
    #[test]
    fn scores_are_those_of_the_python_package() {
        find_library();
        for (set, expected) in [("breast_cancer", 0.9507), ("wine", 0.9773), ("iris", 0.9459), ("digits", 0.9666)] {
            let (features, width, labels) = data_set(set);
            let (train, test) = split(&features, width, &labels);
            let model = try_fit(&CLASSIFIER, &classification(&train.0, width, &train.1), "{}").unwrap();
            let found = accuracy(model.as_ref(), &test.0, &test.1);
            assert!((found - expected).abs() < 2.1 / test.1.len() as f64, "{set}: {found}");
        }
        let (features, width, labels) = data_set("diabetes");
        let (train, test) = split(&features, width, &labels);
        let model = try_fit(&REGRESSOR, &regression(&train.0, width, &train.1), "{}").unwrap();
        let found = r2(model.as_ref(), &test.0, &test.1);
        assert!((found - 0.3618).abs() < 0.01, "{found}");
    }

    #[test]
    fn a_seed_means_the_same_model_on_any_number_of_threads() {
        find_library();
        let (features, labels) = rows();
        let bytes = |seed, threads: usize| {
            let hyperparams = json!({"bagging_freq": 1, "bagging_fraction": 0.5, "n_jobs": threads}).to_string();
            let given = given(&REGRESSOR, &hyperparams).unwrap();
            let mut ask = |_| Ok(());
            let problem = Problem { seed, ..regression(&features, 4, &labels) };
            let (parameters, rounds) = parameters(&problem, &given).unwrap();
            let text = train(&problem, &parameters, rounds, &mut Control::new(&mut ask)).unwrap().text;
            forest::lightgbm::read(&text).unwrap().arrays
        };
        assert!(bytes(1, 1) == bytes(1, 2));
        assert!(bytes(1, 1) != bytes(2, 1));
    }

    #[test]
    fn hyperparameters_have_all_their_names() {
        find_library();
        let (features, labels) = rows();
        let problem = regression(&features, 4, &labels);
        let text = |hyperparams: &str| parameters(&problem, &given(&REGRESSOR, hyperparams).unwrap());
        let (found, rounds) =
            text(r#"{"n_estimators": 7, "eta": 0.3, "mc": [0, 1, -1, 0], "random_state": 5, "n_jobs": 2}"#).unwrap();
        assert_eq!(rounds, 7);
        assert_eq!(
            found,
            "objective=regression verbosity=0 learning_rate=0.3 monotone_constraints=0,1,-1,0 seed=5 num_threads=2 \
             deterministic=true force_col_wise=true"
        );
        assert!(matches!(text(r#"{"eta": 0.3, "learning_rate": 0.3}"#), Err(Error::DuplicateParameter { .. })));
        assert!(text(r#"{"mc": [1]}"#).is_err());
        for wrong in [r#"{"objective": "binary"}"#, r#"{"linear_tree": true}"#, r#"{"num_leaves": 1}"#] {
            assert!(matches!(given(&REGRESSOR, wrong), Err(Error::InvalidParameter { .. })), "{wrong}");
        }
        let Err(Error::UnknownParameter { nearest, .. }) = given(&REGRESSOR, r#"{"num_leafs": 3}"#) else {
            panic!("it is known");
        };
        assert!(nearest.contains(&"num_leaf"), "{nearest:?}");
    }

    #[test]
    fn what_the_library_refuses_is_an_error() {
        find_library();
        let (features, labels) = rows();
        let negative: Vec<f32> = labels.iter().map(|label| -label).collect();
        for (labels, hyperparams, part) in
            [(&negative, r#"{"objective": "poisson"}"#, "poisson"), (&labels, r#"{"boosting": "rf"}"#, "bagging")]
        {
            let Err(Error::LightGbm(reason)) = try_fit(&REGRESSOR, &regression(&features, 4, labels), hyperparams)
            else {
                panic!("it was trained");
            };
            assert!(reason.to_lowercase().contains(part), "{reason}");
        }
    }

    #[test]
    fn a_training_ends_between_two_rounds() {
        find_library();
        let (features, labels) = rows();
        let mut rounds = 0;
        let mut ask = |progress: Option<crate::family::Progress>| match progress {
            Some(progress) if progress.done == 3 => Err(Box::new("enough") as crate::rows::Stop),
            Some(progress) => {
                rounds = progress.done;
                Ok(())
            }
            None => Ok(()),
        };
        let given = given(&REGRESSOR, "{}").unwrap();
        let ended = fit(&regression(&features, 4, &labels), &given, &mut Control::new(&mut ask));
        assert!(matches!(ended, Err(Error::Stopped(_))));
        assert_eq!(rounds, 2);
    }

    #[test]
    fn hard_rows_are_no_trouble() {
        find_library();
        let constant = [1.0_f32; 12];
        let few: Vec<f32> = (0..12).map(|value| value as f32).collect();
        for (features, width) in [(&constant[..], 2), (&[f32::NAN; 12], 3), (&few, 12), (&few, 1)] {
            let labels: Vec<f32> = (0..features.len() / width).map(|row| (row % 2) as f32).collect();
            let problem = regression(features, width, &labels);
            for (family, classes) in [(&REGRESSOR, 0), (&CLASSIFIER, 2)] {
                let model = try_fit(family, &Problem { classes, ..problem }, "{}").unwrap();
                let mut values = vec![0.0; model.values()];
                model.predict(&features[..width], &mut values);
                assert!(values.iter().all(|value| value.is_finite()), "{values:?}");
            }
        }
    }
}
