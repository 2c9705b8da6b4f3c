//! Hyperparameters: what is taken, what is refused, and with which words.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::time::Instant;

use common::*;
use learn::Error;
use learn::xgboost::{Algorithm, ColumnKind, Params, Task};
use proptest::prelude::*;
use serde_json::{Value, json};

const BINARY: Task = Task::Classification { classes: 2 };
const THREE: Task = Task::Classification { classes: 3 };

#[test]
#[expect(clippy::too_many_lines, reason = "a list")]
fn bad_values_are_refused_with_the_name_the_value_and_what_is_allowed() {
    let regression = Task::Regression;
    let cases: &[(Task, Value, &str)] = &[
        // Unknown names.
        (regression, json!({"max_dept": 3}), "unknown hyperparameter \"max_dept\" (did you mean \"max_depth\"?)"),
        (regression, json!({"n_estimator": 3}), "(did you mean \"n_estimators\"?)"),
        (regression, json!({"Max_Depth": 3}), "unknown hyperparameter \"Max_Depth\" (did you mean \"max_depth\"?)"),
        (regression, json!({"xyzzy": 3}), "unknown hyperparameter \"xyzzy\""),
        (regression, json!({"": 3}), "unknown hyperparameter \"\""),
        // The same one twice.
        (regression, json!({"eta": 0.1, "learning_rate": 0.1}), "\"eta\" and \"learning_rate\" are the same one"),
        // Numbers.
        (regression, json!({"eta": "fast"}), "hyperparameter \"eta\" cannot be \"fast\": a number, at least 0"),
        (regression, json!({"eta": -0.1}), "hyperparameter \"eta\" cannot be -0.1: a number, at least 0"),
        (regression, json!({"eta": [0.1]}), "cannot be [0.1]: a number"),
        (regression, json!({"subsample": 0}), "cannot be 0: a number above 0 and at most 1"),
        (regression, json!({"subsample": 1.5}), "cannot be 1.5: a number above 0 and at most 1"),
        (regression, json!({"reg_lambda": 1e300}), "cannot be 1e+300: a number, at least 0"),
        (regression, json!({"tweedie_variance_power": 2}), "a number above 1 and below 2"),
        // Whole numbers.
        (regression, json!({"max_depth": 3.5}), "cannot be 3.5: a whole number, at least 0"),
        (regression, json!({"max_depth": -1}), "cannot be -1: a whole number, at least 0"),
        (regression, json!({"max_depth": 3_000_000_000u32}), "a whole number, at least 0"),
        (
            regression,
            json!({"n_estimators": 0}),
            "hyperparameter \"n_estimators\" cannot be 0: a whole number, at least 1",
        ),
        (regression, json!({"boost_rounds": "10"}), "hyperparameter \"boost_rounds\" cannot be \"10\""),
        (regression, json!({"max_bin": 1}), "a whole number from 2 to 65536"),
        (regression, json!({"verbosity": 4}), "a whole number from 0 to 3"),
        (regression, json!({"seed": 1e30}), "a whole number"),
        // Flags.
        (regression, json!({"refresh_leaf": "yes"}), "cannot be \"yes\": true or false"),
        (regression, json!({"one_drop": 2}), "true or false"),
        // Words.
        (regression, json!({"booster": "forest"}), "\"gbtree\", \"dart\", \"gblinear\" or \"linear\""),
        (regression, json!({"tree_method": 1}), "cannot be 1: \"auto\", \"hist\""),
        (regression, json!({"device": "cuda"}), "cannot be \"cuda\": only \"cpu\" is possible"),
        (regression, json!({"process_type": "update"}), "only \"default\" is possible"),
        // Objectives and classes.
        (regression, json!({"objective": "reg:squarederr"}), "a regression has \"reg:squarederror\""),
        (regression, json!({"objective": "multi:softmax"}), "a regression has"),
        (BINARY, json!({"objective": "reg:squarederror"}), "a classification of 2 classes has \"binary:logistic\""),
        (THREE, json!({"objective": "binary:logistic"}), "a classification of 3 classes has \"multi:softprob\" or"),
        (regression, json!({"objective": "rank:ndcg"}), "ranking is not one of the tasks"),
        (regression, json!({"objective": "survival:aft"}), "intervals as labels are not possible"),
        (regression, json!({"objective": "reg:quantileerror"}), "it needs \"quantile_alpha\""),
        (THREE, json!({"num_class": 4}), "hyperparameter \"num_class\" cannot be 4: the label has 3 classes"),
        (regression, json!({"num_class": 2}), "a regression has no classes"),
        (Task::Classification { classes: 1 }, json!({}), "a classification needs at least two classes"),
        // Metrics.
        (regression, json!({"eval_metric": "rsme"}), "there is no metric \"rsme\"; did you mean rmse"),
        (regression, json!({"eval_metric": "zzz"}), "there is no metric \"zzz\"; the metrics are rmse, rmsle"),
        (regression, json!({"eval_metric": ["rmse", 3]}), "the name of a metric, or a list of such names"),
        (regression, json!({"eval_metric": []}), "the name of a metric, or a list of such names"),
        (regression, json!({"eval_metric": "rmse@3"}), "metric \"rmse\" takes no number after an @"),
        (regression, json!({"eval_metric": "error@x"}), "a number has to follow the @ of \"error@x\""),
        (regression, json!({"eval_metric": "mlogloss"}), "metric \"mlogloss\" is for objectives of several classes"),
        (regression, json!({"eval_metric": "ams"}), "metric \"ams\" needs a number"),
        (
            regression,
            json!({"early_stopping_rounds": 5, "disable_default_eval_metric": true}),
            "hyperparameter \"early_stopping_rounds\" cannot be 5: there is no metric to stop by",
        ),
        // Scores.
        (regression, json!({"base_score": "mean"}), "a number, or a list of one number a class"),
        (THREE, json!({"base_score": [0.5, 0.5]}), "a number, or a list of one number a class"),
        // Constraints.
        (regression, json!({"monotone_constraints": [2, 0]}), "a list of -1, 0 or 1 for every column"),
        (regression, json!({"monotone_constraints": {"a": "up"}}), "a list of -1, 0 or 1 for every column"),
        (regression, json!({"monotone_constraints": "(1,x)"}), "a list of -1, 0 or 1 for every column"),
        (regression, json!({"monotone_constraints": 1}), "a list of -1, 0 or 1 for every column"),
        (regression, json!({"interaction_constraints": [0, 1]}), "a list of lists of column names or of positions"),
        (regression, json!({"interaction_constraints": [[-1]]}), "a list of lists of column names or of positions"),
        (regression, json!({"interaction_constraints": "[[0"}), "a list of lists of column names or of positions"),
        // Updaters.
        (regression, json!({"updater": "grow_gpu_hist"}), "for this booster: \"grow_colmaker\""),
        (regression, json!({"updater": "shotgun"}), "for this booster: \"grow_colmaker\""),
        (regression, json!({"updater": "prune", "booster": "gblinear"}), "for this booster: \"shotgun\" or"),
        // What would otherwise change the meaning silently.
        (regression, json!({"missing": -999}), "missing values are NULL"),
        (regression, json!({"callbacks": []}), "callbacks are not possible here"),
    ];
    for (task, json, wanted) in cases {
        let Err(error) = parse(*task, json.clone()) else { panic!("{json} is taken") };
        let message = error.to_string();
        assert!(message.contains(wanted), "{json}:\n  {message}\nnot\n  {wanted}");
        assert!(!message.ends_with('.') && !message.contains('\n'), "{message}");
        if let Error::InvalidParameter { name, .. } = error {
            assert!(json.as_object().unwrap().contains_key(&name), "{name}");
        }
    }
}

#[test]
fn a_long_value_is_shown_shortened() {
    let error = parse(Task::Regression, json!({"eta": "é".repeat(5000)})).unwrap_err().to_string();
    assert!(error.contains("ééé…"), "{error}");
    assert!(error.chars().count() < 250);
}

#[test]
fn constraints_have_to_fit_the_columns() {
    let library = library();
    for (json, wanted) in [
        (json!({"monotone_constraints": [1, 0]}), "it has 2 directions, and there are 4 columns"),
        (
            json!({"monotone_constraints": {"z": 1}}),
            "hyperparameter \"monotone_constraints\" cannot be {\"z\":1}: there is no column \"z\"",
        ),
        (json!({"interaction_constraints": [["a", "z"]]}), "there is no column \"z\""),
        (json!({"interaction_constraints": [[0, 4]]}), "there is no column 4; the last one is 3"),
    ] {
        let error = parse(Task::Regression, json).unwrap().dry_run(&library, &numbers(4)).unwrap_err().to_string();
        assert!(error.contains(wanted), "{error}");
    }
}

#[test]
fn what_only_the_library_knows_is_found_out_by_the_dry_run() {
    let library = library();
    for (task, json, wanted) in [
        (BINARY, json!({"base_score": 2}), "base_score must be in (0,1) for the logistic loss"),
        (Task::Regression, json!({"updater": "prune"}), "can not be used to create new trees"),
        (THREE, json!({"eval_metric": "error"}), "label and prediction size not match"),
        (
            Task::Regression,
            json!({"booster": "gblinear", "feature_selector": "greedy"}),
            "unsupported feature selector for shotgun updater",
        ),
    ] {
        let error = parse(task, json.clone()).unwrap().dry_run(&library, &numbers(4)).unwrap_err();
        let Error::Refused(reason) = &error else { panic!("{error}") };
        assert!(reason.contains(wanted), "{json}: {reason}");
        assert!(!reason.contains(".cc:") && !reason.contains(".cu:") && !reason.contains("Stack trace"), "{reason}");
    }
}

#[test]
fn what_changes_nothing_is_accepted_with_a_warning() {
    let library = library();
    let json = json!({"predictor": "cpu_predictor", "sketch_eps": 0.03, "silent": 1, "tree_method": "gpu_hist", "objective": "reg:linear"});
    let params = parse(Task::Regression, json).unwrap();
    let warnings = params.warnings().join("\n");
    assert_eq!(params.warnings().len(), 5, "{warnings}");
    assert!(warnings.contains("hyperparameter \"predictor\" changes nothing: XGBoost no longer has it"), "{warnings}");
    assert_eq!(params.objective(), "reg:squarederror");
    assert!(params.dry_run(&library, &numbers(2)).unwrap().is_empty());

    // What another booster would use is for the library to say.
    let params = parse(Task::Regression, json!({"booster": "gblinear", "max_depth": 3})).unwrap();
    let warnings = params.dry_run(&library, &numbers(2)).unwrap();
    assert!(warnings.iter().any(|warning| warning.contains("\"max_depth\" } are not used")), "{warnings:?}");
}

#[test]
fn names_of_the_original_mean_what_they_meant() {
    let library = library();
    let rows = wavy(300, 1);
    let bytes = |json: Value| fit(&library, Task::Regression, json, &numbers(4), &rows).model;
    let ours = bytes(json!({
        "n_estimators": 5, "learning_rate": 0.2, "reg_lambda": 2, "reg_alpha": 0.5, "gamma": 0.1, "seed": 3, "nthread": 1,
    }));
    let theirs = bytes(json!({
        "boost_rounds": 5.0, "eta": 0.2, "lambda": 2.0, "alpha": 0.5, "min_split_loss": 0.1, "random_state": 3, "n_jobs": 1,
        "booster": "gbtree", "max_depth": null,
    }));
    assert!(ours == theirs);
    assert!(ours != bytes(json!({"n_estimators": 5})));
    assert_eq!(parse(Task::Regression, json!({})).unwrap().rounds(), 100);
    assert_eq!(parse(Task::Regression, json!({"num_boost_round": 7})).unwrap().rounds(), 7);
}

#[test]
fn default_objectives_are_those_of_the_python_classes() {
    for (task, objective) in
        [(Task::Regression, "reg:squarederror"), (BINARY, "binary:logistic"), (THREE, "multi:softprob")]
    {
        for algorithm in [Algorithm::Xgboost, Algorithm::XgboostRandomForest] {
            assert_eq!(Params::parse(algorithm, task, &object(json!({}))).unwrap().objective(), objective);
        }
    }
    // Two classes may also be learnt as two of many.
    let library = library();
    let rows = data(100, 2, 1, |x, _| x[0].round());
    let model = fit(&library, BINARY, json!({"objective": "multi:softprob", "num_class": 2}), &numbers(2), &rows).model;
    assert_eq!(library.predict(&model, &[0.9, 0.5], 2, false).unwrap().len(), 2);
}

#[test]
fn random_forests_take_one_number_of_trees() {
    let forest = |json: Value| Params::parse(Algorithm::XgboostRandomForest, Task::Regression, &object(json));
    assert!(forest(json!({"n_estimators": 5, "num_parallel_tree": 5})).is_ok());
    let error = forest(json!({"n_estimators": 5, "num_parallel_tree": 6})).unwrap_err().to_string();
    assert!(error.contains("\"n_estimators\" asks for a random forest of 5 trees"), "{error}");
    let error = forest(json!({"booster": "dart"})).unwrap_err().to_string();
    assert!(error.contains("a random forest is grown by booster \"gbtree\""), "{error}");
}

#[test]
fn a_round_has_no_more_trees_than_can_be_waited_for() {
    use Algorithm::{Xgboost, XgboostRandomForest};
    let classes = |classes| Task::Classification { classes };
    let parallel = |trees: i64| json!({"num_parallel_tree": trees});
    for (algorithm, task, given, allowed) in [
        (Xgboost, Task::Regression, parallel(10_000), true),
        (Xgboost, Task::Regression, parallel(10_001), false),
        (Xgboost, Task::Regression, parallel(i64::from(i32::MAX)), false),
        (Xgboost, Task::Regression, json!({"n_estimators": i32::MAX}), true),
        (Xgboost, BINARY, parallel(10_000), true),
        (Xgboost, classes(1000), parallel(10), true),
        (Xgboost, classes(1000), parallel(11), false),
        (XgboostRandomForest, Task::Regression, json!({"n_estimators": 10_000}), true),
        (XgboostRandomForest, Task::Regression, json!({"boost_rounds": 10_001}), false),
        (XgboostRandomForest, classes(1000), json!({}), true),
    ] {
        let outcome = Params::parse(algorithm, task, &object(given.clone()));
        match outcome {
            Ok(_) => assert!(allowed, "{given}"),
            Err(error) => {
                let error = error.to_string();
                assert!(!allowed && error.ends_with(" trees, and 10000 are the most"), "{given}: {error}");
            }
        }
    }
}

#[test]
fn a_dry_run_is_quick_even_when_the_training_is_not() {
    let library = library();
    let huge = json!({"n_estimators": 1_000_000, "max_depth": 1_000_000, "num_parallel_tree": 200, "max_bin": 65_536, "nthread": 1_000_000});
    let kinds = (0..20)
        .map(|i| if i % 2 == 0 { ColumnKind::Quantitative } else { ColumnKind::Categorical { categories: 1 << 24 } });
    let params = parse(Task::Classification { classes: 50 }, huge).unwrap();
    let begun = Instant::now();
    params.dry_run(&library, &named(kinds.collect())).unwrap();
    assert!(begun.elapsed().as_secs() < 5, "{:?}", begun.elapsed());
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-2..200i64).prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,9}".prop_map(Value::from),
        prop_oneof![Just("(1,-1)"), Just("[[0]]"), Just("auc@0.5"), Just("multi:softmax"), Just("dart")]
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(2, 9, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec(("[a-e]", inner), 0..4)
                .prop_map(|entries| Value::Object(entries.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]
    #[test]
    fn anything_at_all_is_taken_or_refused(
        given in proptest::collection::vec((any::<prop::sample::Index>(), any_value()), 1..4), classes in 0..4u32,
    ) {
        let names: Vec<&str> =
            Params::table().iter().flat_map(|row| row.aliases.iter().copied().chain([row.name])).collect();
        let hyperparams = given.iter().map(|(name, value)| (name.get(&names).to_string(), value.clone())).collect();
        let task = if classes == 0 { Task::Regression } else { Task::Classification { classes } };
        for algorithm in [Algorithm::Xgboost, Algorithm::XgboostRandomForest] {
            if let Err(error) = Params::parse(algorithm, task, &hyperparams) {
                let message = error.to_string();
                prop_assert!(!message.is_empty() && message.chars().count() < 600, "{}", message);
            }
        }
    }
}
