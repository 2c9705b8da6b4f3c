//! Families of outliers beside scikit-learn's and PyOD's scores.

use serde_json::Value;

use crate::families::testing::{data_set, fit_of, given, standardise, try_fit, unlabelled};
use crate::families::{FAMILIES, family};
use crate::family::{Control, Family, Meaning, Predict, Progress, Task};

/// The built-in data set of a case: rows of an even number to train on, and the others.
fn rows_of(case: &Value) -> (Vec<f32>, Vec<f32>, usize) {
    let (mut features, width, _) = data_set(case["data"].as_str().unwrap());
    if case["standardised"].as_bool().unwrap() {
        standardise(&mut features, &mut [], width);
    }
    let part = |odd: usize| features.chunks(width).skip(odd).step_by(2).flatten().copied().collect::<Vec<f32>>();
    (part(0), part(1), width)
}

fn scores(model: &dyn Predict, rows: &[f32]) -> Vec<f64> {
    let mut values = vec![0.0; rows.len() / model.width()];
    model.predict_rows(rows, &mut values);
    values.into_iter().map(f64::from).collect()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

#[test]
fn scores_are_those_of_scikit_learn_and_pyod() {
    let cases: Value = serde_json::from_str(include_str!("../../../tests/anomaly/cases.json")).unwrap();
    for case in cases["cases"].as_array().unwrap() {
        let (train, test, width) = rows_of(case);
        let family = family(case["algorithm"].as_str().unwrap(), Task::Anomaly).unwrap();
        let model = fit_of(family, &unlabelled(&train, width), &case["hyperparams"].to_string());
        assert_eq!((model.meaning(), model.values()), (Meaning::Values, 1));
        let margin = case["margin"].as_f64().unwrap();
        for (rows, wanted) in [(&train, &case["train"]), (&test, &case["test"])] {
            for (row, (found, wanted)) in scores(&*model, rows).iter().zip(numbers(wanted)).enumerate() {
                let close = (found - wanted).abs() <= margin * wanted.abs().max(1.0);
                assert!(close, "{} of {}, row {row}: {found}, not {wanted}", family.name, case["data"]);
            }
        }
    }
}

fn all() -> impl Iterator<Item = &'static Family> {
    FAMILIES.iter().copied().filter(|family| family.task == Task::Anomaly)
}

#[test]
fn what_is_far_from_all_is_an_outlier() {
    let (mut features, width, _) = data_set("wine");
    standardise(&mut features, &mut [], width);
    for family in all() {
        let hyperparams =
            if family.name == "one_class_svm" { r#"{"nu": 0.05, "tol": 1e-6}"# } else { r#"{"contamination": 0.05}"# };
        let model = fit_of(family, &unlabelled(&features, width), hyperparams);
        let found = scores(&*model, &features);
        let outliers = found.iter().filter(|score| **score > 0.0).count();
        // Support vectors of the one-class SVM lie on its edge, to rounding.
        let most = if family.name == "one_class_svm" { 20 } else { 12 };
        assert!((4..=most).contains(&outliers), "{}: {outliers} of 178", family.name);
        let far = scores(&*model, &vec![9.0; width])[0];
        assert!(far > 0.0, "{}: {far}", family.name);
        assert!(
            far >= found.iter().copied().fold(f64::NEG_INFINITY, f64::max) - 1e-6 || family.name == "one_class_svm"
        );
    }
}

#[test]
fn rows_that_are_all_the_same_are_no_outliers() {
    let features = vec![3.0; 60];
    for family in all() {
        let model = fit_of(family, &unlabelled(&features, 3), "{}");
        let score = scores(&*model, &features[..3])[0];
        assert!(score.is_finite() && score <= 1e-6, "{}: {score}", family.name);
    }
}

#[test]
fn trainings_of_many_rows_can_be_ended_in_each_part() {
    let features: Vec<f32> = (0..40_000u32).map(|value| (value.wrapping_mul(2_654_435_761) >> 8) as f32).collect();
    let problem = unlabelled(&features, 2);
    // Of the scores of 20,000 rows five times, and before that of each feature or large node.
    for (name, hyperparams, least) in [
        ("ecod", "{}", 17),
        ("hbos", "{}", 7),
        ("isolation_forest", r#"{"n_estimators": 1, "max_samples": 1.0, "contamination": 0.1}"#, 8),
    ] {
        let family = family(name, Task::Anomaly).unwrap();
        let given = given(family, hyperparams).unwrap();
        let mut asked = 0;
        let mut ask = |progress: Option<Progress>| {
            asked += usize::from(progress.is_none());
            Ok(())
        };
        crate::families::fit(family, &problem, &given, &mut Control::new(&mut ask)).unwrap();
        assert!(asked >= least, "{name}: {asked}");
    }
}

#[test]
fn a_few_rows_are_enough_or_refused() {
    for family in all() {
        for rows in 1..4 {
            let features: Vec<f32> = (0..rows * 2).map(|value| value as f32).collect();
            if let Ok(model) = try_fit(family, &unlabelled(&features, 2), "{}") {
                assert!(scores(&*model, &features).iter().all(|score| score.is_finite()), "{} {rows}", family.name);
            } else {
                assert_eq!(rows, 1, "{}", family.name);
            }
        }
    }
}

#[test]
fn explanations_add_up_to_the_score() {
    let (features, width, _) = data_set("wine");
    for name in ["ecod", "hbos"] {
        let model = fit_of(family(name, Task::Anomaly).unwrap(), &unlabelled(&features, width), "{}");
        let mut contributions = vec![0.0; width + 1];
        for row in features.chunks(width) {
            assert!(model.contributions(row, &mut contributions));
            let sum: f64 = contributions.iter().map(|part| f64::from(*part)).sum();
            assert!((sum - scores(&*model, row)[0]).abs() < 1e-4, "{name}: {sum}");
        }
    }
}
