//! Families against the predictions and scores of scikit-learn on the same rows, which the scripts in `oracle/` have
//! computed.

use serde_json::Value;

use crate::families::family;
use crate::families::testing::{accuracy, classification, data_set, r2, regression, split, standardise, try_fit};
use crate::family::Task;

const ORACLES: [&str; 2] = [include_str!("../../oracle/linear.json"), include_str!("../../oracle/kernels.json")];

/// How a case went, in words where it went wrong.
fn outcome(case: &Value) -> Result<(), String> {
    let text = |name: &str| case[name].as_str().unwrap();
    let number = |name: &str| case[name].as_f64().unwrap();
    let (features, width, labels) = data_set(text("data"));
    let (mut train, mut test) = split(&features, width, &labels);
    if case["scaled"] == true {
        standardise(&mut train.0, &mut test.0, width);
    }
    let regresses = text("task") == "regression";
    let task = if regresses { Task::Regression } else { Task::Classification };
    let family = family(text("family"), task).map_err(|error| error.to_string())?;
    let mut problem = match regresses {
        true => regression(&train.0, width, &train.1),
        false => classification(&train.0, width, &train.1),
    };
    // What scikit-learn is told of classes, families are told of rows.
    let mut hyperparams = case["hyperparams"].clone();
    let balanced = hyperparams.as_object_mut().and_then(|given| given.remove("class_weight"));
    let weights = balanced.map(|word| {
        assert_eq!(word, "balanced");
        weights(&train.1)
    });
    problem.weights = weights.as_deref();
    let model = try_fit(family, &problem, &hyperparams.to_string()).map_err(|error| error.to_string())?;
    let score = if regresses { r2(&*model, &test.0, &test.1) } else { accuracy(&*model, &test.0, &test.1) };
    if (score - number("score")).abs() > number("margin") {
        return Err(format!("the score is {score}, and scikit-learn's {}", number("score")));
    }
    let mut values = vec![0.0; model.values()];
    for (row, expected) in test.0.chunks(width).zip(case["probe"].as_array().unwrap()) {
        model.predict(row, &mut values);
        let (value, expected) = (f64::from(*values.last().unwrap()), expected.as_f64().unwrap());
        if (value - expected).abs() > number("probe_margin") * expected.abs().max(1.0) {
            return Err(format!("a prediction is {value}, and scikit-learn's {expected}"));
        }
    }
    Ok(())
}

/// The weights of rows that count classes alike, however often they occur.
fn weights(labels: &[f32]) -> Vec<f32> {
    let count = |label: f32| labels.iter().filter(|other| **other == label).count();
    let classes = labels.iter().enumerate().filter(|(row, label)| !labels[..*row].contains(label)).count();
    labels.iter().map(|label| labels.len() as f32 / (classes * count(*label)) as f32).collect()
}

#[test]
fn families_agree_with_scikit_learn() {
    let cases: Vec<Value> =
        ORACLES.iter().flat_map(|oracle| serde_json::from_str::<Vec<Value>>(oracle).unwrap()).collect();
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            let why = outcome(case).err()?;
            Some(format!("{} {} on {} {}: {why}", case["task"], case["family"], case["data"], case["hyperparams"]))
        })
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
