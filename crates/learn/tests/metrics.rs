//! The metrics against scikit-learn's own answers, which `metrics/generate.py` wrote down.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use learn::metrics::{Classification, Named, Regression};
use serde_json::Value;

fn cases(kind: &str) -> Vec<Value> {
    let table: Value = serde_json::from_str(include_str!("metrics/cases.json")).unwrap();
    table[kind].as_array().unwrap().clone()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// Every metric of the case, to a relative difference of 1e-9, or as given; `tolerances` are of some metrics.
fn compare(case: &Value, found: &[Named], tolerances: &[(&str, f64)]) {
    let expected = case["expected"].as_object().unwrap();
    assert_eq!(expected.len(), found.len());
    for (name, value) in found {
        let tolerance = tolerances.iter().find(|(metric, _)| metric == name).map_or(1e-9, |(_, tolerance)| *tolerance);
        let wanted = expected[*name].as_f64();
        let near = match (value, wanted) {
            (Some(value), Some(wanted)) => (value - wanted).abs() <= tolerance * wanted.abs().max(1e-3),
            (found, wanted) => *found == wanted,
        };
        assert!(near, "{}: {name} is {value:?}, scikit-learn says {wanted:?}", case["name"]);
    }
}

#[test]
fn regressions_agree() {
    let cases = cases("regression");
    assert!(cases.len() >= 9);
    for case in cases {
        let mut metrics = Regression::new();
        for (truth, predicted) in numbers(&case["truth"]).into_iter().zip(numbers(&case["predicted"])) {
            metrics.add(truth, predicted);
        }
        compare(&case, &metrics.all(), &[]);
    }
}

#[test]
fn classifications_agree() {
    let cases = cases("classification");
    assert!(cases.len() >= 18);
    for case in cases {
        let classes = case["classes"].as_u64().unwrap() as u32;
        let (mut all, mut positive) = (Classification::new(classes), Classification::new(classes));
        for (truth, row) in case["truth"].as_array().unwrap().iter().zip(case["probabilities"].as_array().unwrap()) {
            let truth = truth.as_u64().or_else(|| truth.as_bool().map(u64::from)).unwrap() as u32;
            let probabilities: Vec<f32> = numbers(row).into_iter().map(|p| p as f32).collect();
            all.add(truth, &probabilities);
            positive.add(truth, &probabilities[classes as usize - 1..]);
        }
        // scikit-learn adds the logarithms in float32.
        let tolerances = [("log_loss", 2e-6)];
        compare(&case, &all.all(), &tolerances);
        if classes == 2 {
            compare(&case, &positive.all(), &tolerances);
        }
    }
}
