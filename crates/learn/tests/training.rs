//! Models that the real library trains: that they learn, that they are told what they should be, and that they are
//! the same every time.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::*;
use learn::xgboost::{Algorithm, ColumnKind, Metric, Params, Round, Task, Trained, train};
use serde_json::{Value, json};

const BINARY: Task = Task::Classification { classes: 2 };

/// Whether the bytes hold the text, as UBJ holds strings as they are.
fn holds(model: &[u8], text: &str) -> bool {
    model.windows(text.len()).any(|window| window == text.as_bytes())
}

#[test]
fn a_regression_learns() {
    let library = library();
    let (rows, test) = (wavy(2000, 1), wavy(500, 2));
    let trained = fit(&library, Task::Regression, json!({}), &numbers(4), &rows);
    assert_eq!((trained.rounds, trained.rounds_trained, trained.rows), (100, 100, 2000));
    assert!(mean_squared_error(&library, &trained.model, &test) < 0.05 * variance(&test));
    assert!(trained.warnings.is_empty(), "{:?}", trained.warnings);
}

#[test]
fn every_booster_and_tree_method_learns() {
    let library = library();
    let (rows, test) = (wavy(1500, 1), wavy(500, 2));
    for (params, share) in [
        (json!({"tree_method": "exact"}), 0.05),
        (json!({"tree_method": "approx"}), 0.05),
        (json!({"tree_method": "gpu_hist"}), 0.05),
        (json!({"updater": "grow_colmaker,prune"}), 0.05),
        (json!({"booster": "dart", "rate_drop": 0.1}), 0.05),
        (json!({"booster": "gblinear"}), 0.6),
        (json!({"booster": "linear", "updater": "coord_descent"}), 0.6),
        (json!({"grow_policy": "lossguide", "max_depth": 0, "max_leaves": 20}), 0.05),
        (json!({"num_parallel_tree": 4, "subsample": 0.5}), 0.05),
    ] {
        let trained = fit(&library, Task::Regression, params.clone(), &numbers(4), &rows);
        let error = mean_squared_error(&library, &trained.model, &test);
        assert!(error < share * variance(&test), "{params}: {error} of {}", variance(&test));
    }
}

#[test]
fn classifications_learn() {
    let library = library();
    for classes in [2u32, 3, 7] {
        let label = |x: &[f32], _: &mut Random| (x[0] * x[0] * classes as f32).floor();
        let (rows, test) = (data(1500, 3, 1, label), data(500, 3, 2, label));
        let params = json!({"n_estimators": 20});
        let trained = fit(&library, Task::Classification { classes }, params, &numbers(3), &rows);
        let predicted = library.predict(&trained.model, &test.features, 3, false).unwrap();
        let outputs = predicted.len() / test.labels.len();
        assert_eq!(outputs, if classes == 2 { 1 } else { classes as usize });
        let classes = predicted.chunks(outputs).map(learn::metrics::class_of);
        let right = classes.zip(&test.labels).filter(|(class, label)| *class as f32 == **label).count();
        assert!(right > 470, "{right} of 500 with {outputs} outputs");
    }
}

#[test]
fn a_random_forest_has_the_defaults_of_the_python_class() {
    let library = library();
    let (rows, test) = (wavy(2000, 1), wavy(500, 2));
    let forest = |json: Value| {
        let mut params = Params::parse(Algorithm::XgboostRandomForest, Task::Regression, &object(json)).unwrap();
        params.default_nthread(1);
        train(&library, &params, &numbers(4), &mut rows.clone(), None, &[], &mut quiet).unwrap()
    };
    let default = forest(json!({}));
    assert_eq!((default.rounds, default.rounds_trained), (1, 1));
    assert!(mean_squared_error(&library, &default.model, &test) < 0.1 * variance(&test));
    let spelled_out = json!({
        "num_parallel_tree": 100, "learning_rate": 1, "subsample": 0.8, "colsample_bynode": 0.8, "reg_lambda": 1e-5,
        "n_estimators": 1,
    });
    let boosted = fit(&library, Task::Regression, spelled_out, &numbers(4), &rows);
    assert!(default.model == boosted.model, "the forest is one round of 100 trees with those parameters");
    assert!(forest(json!({"num_parallel_tree": 7})).model == forest(json!({"n_estimators": 7})).model);
}

#[test]
fn the_same_data_and_seed_give_the_same_bytes() {
    let library = library();
    let mut rows = wavy(3000, 1);
    rows.features[5] = f32::NAN;
    let attributes = [("model".to_string(), "42".to_string()), ("zoé".into(), "naïve \"quoted\"".into())];
    let columns =
        named(vec![ColumnKind::Quantitative, ColumnKind::Integer, ColumnKind::Indicator, ColumnKind::Quantitative]);
    let once = |json: Value| {
        let params = parse(Task::Regression, json).unwrap();
        let mut eval = wavy(300, 2);
        let mut rows = rows.clone();
        train(&library, &params, &columns, &mut rows, Some(&mut eval), &attributes, &mut quiet).unwrap().model
    };
    let drawn = json!({"seed": 7, "subsample": 0.5, "colsample_bytree": 0.5, "nthread": 2, "n_estimators": 20});
    let first = once(drawn.clone());
    for _ in 0..3 {
        assert!(once(drawn.clone()) == first);
    }
    let other = json!({"seed": 8, "subsample": 0.5, "colsample_bytree": 0.5, "nthread": 2, "n_estimators": 20});
    assert!(once(other) != first);

    for text in ["model", "42", "zoé", "naïve \"quoted\"", "feature_names", "feature_types"] {
        assert!(holds(&first, text), "{text}");
    }
}

#[test]
fn two_threads_give_the_same_bytes_every_time() {
    let library = library();
    let rows = {
        let mut rows = wavy(60_000, 1);
        rows.chunk = 7_000;
        rows
    };
    let once = || {
        let json = json!({"nthread": 2, "subsample": 0.7, "colsample_bynode": 0.5, "n_estimators": 5});
        fit(&library, Task::Regression, json, &numbers(4), &rows).model
    };
    let first = once();
    assert!((0..4).all(|_| once() == first));
}

#[test]
fn early_stopping_keeps_the_best_round() {
    let library = library();
    // Little to learn and much noise, so that the held-out rows soon get worse.
    let noisy = |seed| data(300, 4, seed, |x, random| x[0] + random.unit());
    let (rows, eval) = (noisy(1), noisy(2));
    let stop = |json: Value| -> Trained {
        let params = parse(Task::Regression, json).unwrap();
        let mut eval = eval.clone();
        train(&library, &params, &numbers(4), &mut rows.clone(), Some(&mut eval), &[], &mut quiet).unwrap()
    };
    for booster in ["gbtree", "dart", "gblinear"] {
        let mut json = json!({"n_estimators": 300, "early_stopping_rounds": 5, "booster": booster});
        if booster == "dart" {
            json["rate_drop"] = json!(0.2);
        }
        if booster == "gblinear" {
            json["learning_rate"] = json!(1.0);
            json["updater"] = json!("coord_descent");
        }
        let trained = stop(json);
        let best = trained.best_iteration.unwrap();
        assert_eq!(trained.rounds, best + 1, "{booster}");
        assert_eq!(trained.rounds_trained, best + 1 + 5, "{booster}");
        assert!(holds(&trained.model, "best_iteration") && holds(&trained.model, "best_score"));
        // The model is the one of the best round, and not one that has learnt on.
        let error = mean_squared_error(&library, &trained.model, &eval).sqrt();
        assert!((error - trained.best_score.unwrap()).abs() < 2e-5, "{booster}: {error} {:?}", trained.best_score);
        assert_eq!(trained.metrics.len(), 1);
        assert_eq!((trained.metrics[0].name.as_str(), trained.metrics[0].value), ("rmse", trained.best_score.unwrap()));
    }

    let best = stop(json!({"n_estimators": 300, "early_stopping_rounds": 5})).rounds;
    let stopped = stop(json!({"n_estimators": 300, "early_stopping_rounds": 5})).model;
    let shorter = stop(json!({"n_estimators": best})).model;
    let margins = |model: &[u8]| library.predict(model, &eval.features, 4, true).unwrap();
    assert_eq!(margins(&stopped), margins(&shorter));
}

#[test]
fn the_last_metric_decides_and_more_can_be_better() {
    let library = library();
    let label = |x: &[f32], random: &mut Random| f32::from(u8::from(x[0] + random.unit() > 1.0));
    let (mut rows, mut eval) = (data(300, 4, 1, label), data(300, 4, 2, label));
    let json = json!({"n_estimators": 200, "early_stopping_rounds": 5, "eval_metric": ["logloss", "error@0.4", "auc"]});
    let params = parse(BINARY, json).unwrap();
    let mut seen: Vec<Vec<Metric>> = Vec::new();
    let mut progress = |round: &Round<'_>| {
        assert_eq!((round.round as usize, round.total), (seen.len() + 1, 200));
        seen.push(round.metrics.to_vec());
        Ok(())
    };
    let trained = train(&library, &params, &numbers(4), &mut rows, Some(&mut eval), &[], &mut progress).unwrap();
    let names: Vec<&str> = seen[0].iter().map(|metric| metric.name.as_str()).collect();
    assert_eq!(names, ["logloss", "error@0.4", "auc"]);
    let best = seen.iter().map(|metrics| metrics[2].value).fold(f64::MIN, f64::max);
    assert_eq!(trained.best_score, Some(best));
    assert_eq!(seen.len(), trained.rounds_trained as usize);
    assert!(trained.rounds_trained < 200);
}

#[test]
fn weights_weigh() {
    let library = library();
    let mut rows = data(400, 1, 1, |_, random| if random.unit() < 0.5 { 0.0 } else { 10.0 });
    let middle = |rows: &Memory| {
        let params = json!({"max_depth": 1, "n_estimators": 50, "reg_lambda": 0});
        let model = fit(&library, Task::Regression, params, &numbers(1), rows).model;
        library.predict(&model, &[0.5], 1, false).unwrap()[0]
    };
    assert!((middle(&rows) - 5.0).abs() < 1.5);
    rows.weights = Some(rows.labels.iter().map(|&label| if label > 0.0 { 9.0 } else { 1.0 }).collect());
    assert!((middle(&rows) - 9.0).abs() < 1.0);
    rows.weights = Some(rows.labels.iter().map(|&label| if label > 0.0 { 0.0 } else { 1.0 }).collect());
    assert!(middle(&rows).abs() < 0.1);
}

#[test]
fn monotone_constraints_hold() {
    let library = library();
    let rows = data(1000, 3, 1, |x, random| (9.0 * x[0]).sin() + x[1] - x[2] + random.unit());
    let falls = |json: Value, column: usize| -> usize {
        let model = fit(&library, Task::Regression, json, &numbers(3), &rows).model;
        let grid: Vec<f32> = (0..300u16)
            .map(f32::from)
            .flat_map(|step| {
                let mut row = [0.5; 3];
                row[column] = step / 300.0;
                row
            })
            .collect();
        let predicted = library.predict(&model, &grid, 3, false).unwrap();
        predicted.windows(2).filter(|pair| pair[1] < pair[0]).count()
    };
    assert!(falls(json!({}), 0) > 0, "without the constraint there is something to constrain");
    assert_eq!(falls(json!({"monotone_constraints": [1, 0, 0]}), 0), 0);
    assert_eq!(falls(json!({"monotone_constraints": {"a": 1}}), 0), 0);
    assert_eq!(falls(json!({"monotone_constraints": "(1,0,0)"}), 0), 0);
    assert_eq!(falls(json!({"monotone_constraints": {"b": 1, "c": -1}}), 1), 0);
    assert!(falls(json!({"monotone_constraints": {"b": 1, "c": -1}}), 2) > 0);
}

#[test]
fn interaction_constraints_hold() {
    let library = library();
    let rows = data(1500, 3, 1, |x, _| 10.0 * x[0] * x[2] + x[1]);
    // Without an interaction of a and c, what a adds does not depend on c.
    let interaction = |json: Value| -> f32 {
        let model = fit(&library, Task::Regression, json, &numbers(3), &rows).model;
        let at = |a: f32, c: f32| library.predict(&model, &[a, 0.5, c], 3, true).unwrap()[0];
        ((at(0.9, 0.9) - at(0.1, 0.9)) - (at(0.9, 0.1) - at(0.1, 0.1))).abs()
    };
    assert!(interaction(json!({})) > 3.0);
    assert!(interaction(json!({"interaction_constraints": [["a", "b"], ["c"]]})) < 1e-4);
    assert!(interaction(json!({"interaction_constraints": [[0, 1], [2]]})) < 1e-4);
    assert!(interaction(json!({"interaction_constraints": "[[0, 1], [2]]"})) < 1e-4);
    assert!(interaction(json!({"interaction_constraints": [["a", "c"], ["b"]]})) > 3.0);
}

#[test]
fn categories_are_split_by_sets() {
    let library = library();
    // Twenty categories whose numbers say nothing about their effects.
    let effect = |category: f32| f32::from(u8::from((category as u32 * 7 + 3) % 20 >= 10)) * 5.0;
    let rows = {
        let mut rows = data(1000, 2, 1, |_, _| 0.0);
        for (row, label) in rows.features.chunks_mut(2).zip(&mut rows.labels) {
            row[0] = (row[0] * 20.0).floor();
            *label = effect(row[0]);
        }
        rows
    };
    let error = |kind: ColumnKind, json: Value| {
        let columns = named(vec![kind, ColumnKind::Quantitative]);
        let trained = fit(&library, Task::Regression, json, &columns, &rows);
        mean_squared_error(&library, &trained.model, &rows)
    };
    let categorical = ColumnKind::Categorical { categories: 20 };
    let shallow = json!({"max_depth": 1, "n_estimators": 1, "learning_rate": 1, "reg_lambda": 0});
    // One split by a set of categories says it all; one by their order does not.
    assert!(error(categorical, shallow.clone()) < 0.01);
    assert!(error(ColumnKind::Integer, shallow.clone()) > 2.0);
    let mut one_hot = shallow;
    one_hot["max_cat_to_onehot"] = json!(50);
    assert!(error(categorical, one_hot) > 2.0, "one category against the rest is not enough either");
}

#[test]
fn missing_values_are_learnt_from() {
    let library = library();
    let mut rows = data(500, 2, 1, |_, _| 0.0);
    for (i, (row, label)) in rows.features.chunks_mut(2).zip(&mut rows.labels).enumerate() {
        if i % 3 == 0 {
            row[0] = f32::NAN;
            *label = 8.0;
        }
    }
    let model = fit(&library, Task::Regression, json!({}), &numbers(2), &rows).model;
    let predicted = library.predict(&model, &[f32::NAN, 0.5, 0.5, 0.5], 2, false).unwrap();
    assert!((predicted[0] - 8.0).abs() < 0.1 && predicted[1].abs() < 0.1, "{predicted:?}");
}

#[test]
fn chunks_may_be_of_any_size() {
    let library = library();
    let (mut rows, test) = (wavy(700, 1), wavy(300, 2));
    for chunk in [1, 37, 699, 700, 10_000] {
        rows.chunk = chunk;
        let params = json!({"n_estimators": 30});
        let trained = fit(&library, Task::Regression, params, &numbers(4), &rows);
        assert_eq!(trained.rows, 700);
        assert!(mean_squared_error(&library, &trained.model, &test) < 0.1 * variance(&test), "chunks of {chunk}");
    }
}

#[test]
fn one_row_and_one_column_and_constants_are_enough() {
    let library = library();
    let one = Memory::new(1, vec![3.0], vec![5.0]);
    let model = fit(&library, Task::Regression, json!({}), &numbers(1), &one).model;
    assert!((library.predict(&model, &[3.0], 1, false).unwrap()[0] - 5.0).abs() < 1e-3);

    let constant = Memory::new(2, [f32::NAN, 1.0].repeat(50), vec![1.0; 50]);
    let model = fit(&library, BINARY, json!({}), &numbers(2), &constant).model;
    assert!(library.predict(&model, &[f32::NAN, 1.0], 2, false).unwrap()[0] > 0.5);
}

#[test]
fn a_quantile_and_a_poisson_rate_can_be_learnt() {
    let library = library();
    let rows = data(2000, 1, 1, |_, random| random.unit());
    let low = json!({"objective": "reg:quantileerror", "quantile_alpha": 0.1, "max_depth": 1, "n_estimators": 50});
    let model = fit(&library, Task::Regression, low, &numbers(1), &rows).model;
    assert!((library.predict(&model, &[0.5], 1, false).unwrap()[0] - 0.1).abs() < 0.06);
    let rows = data(2000, 1, 1, |x, random| if random.unit() < x[0] { 3.0 } else { 0.0 });
    let rate = json!({"objective": "count:poisson", "n_estimators": 20});
    let model = fit(&library, Task::Regression, rate, &numbers(1), &rows).model;
    let predicted = library.predict(&model, &[0.1, 0.9], 1, false).unwrap();
    assert!(predicted[0] > 0.0 && predicted[0] < 0.8 && predicted[1] > 2.0, "{predicted:?}");
}
