//! The common parts of the families' tests.

#![allow(dead_code, reason = "not every family has tests that need all of it")]

use serde_json::Value;

use crate::Error;
use crate::family::{Control, Family, Given, Predict, Problem};

/// A regression of these rows, row by row.
pub(crate) fn regression<'a>(features: &'a [f32], width: usize, labels: &'a [f32]) -> Problem<'a> {
    Problem {
        rows: features.len() / width,
        width,
        features,
        targets: labels.len() * width / features.len(),
        labels,
        classes: 0,
        weights: None,
        categories: &[],
        one_hot: &[],
        seed: 0,
    }
}

/// A classification of these rows, row by row.
pub(crate) fn classification<'a>(features: &'a [f32], width: usize, labels: &'a [f32]) -> Problem<'a> {
    let classes = labels.iter().copied().fold(0.0, f32::max) as usize + 1;
    Problem { classes, ..regression(features, width, labels) }
}

/// Rows without a label.
pub(crate) fn unlabelled(features: &[f32], width: usize) -> Problem<'_> {
    Problem { targets: 0, ..regression(features, width, &[]) }
}

/// The hyperparameters, checked.
pub(crate) fn given(family: &Family, hyperparams: &str) -> Result<Given, Error> {
    let Value::Object(map) = serde_json::from_str(hyperparams).unwrap() else { panic!("not an object") };
    Given::check(family.parameters, &map)
}

/// The model, stored and read again.
pub(crate) fn try_fit(family: &Family, problem: &Problem<'_>, hyperparams: &str) -> Result<Box<dyn Predict>, Error> {
    let mut ask = |_| Ok(());
    crate::forms::open_new(&crate::families::fit(
        family,
        problem,
        &given(family, hyperparams)?,
        &mut Control::new(&mut ask),
    )?)
}

/// The model, stored and read again.
pub(crate) fn fit_of(family: &Family, problem: &Problem<'_>, hyperparams: &str) -> Box<dyn Predict> {
    try_fit(family, problem, hyperparams).unwrap()
}

/// The built-in data set of that name: its features row by row, how many a row has, and its labels.
pub(crate) fn data_set(name: &str) -> (Vec<f32>, usize, Vec<f32>) {
    let csv = match name {
        "breast_cancer" => include_str!("../../../../extension/datasets/breast_cancer.csv"),
        "diabetes" => include_str!("../../../../extension/datasets/diabetes.csv"),
        "digits" => include_str!("../../../../extension/datasets/digits.csv"),
        "iris" => include_str!("../../../../extension/datasets/iris.csv"),
        "wine" => include_str!("../../../../extension/datasets/wine.csv"),
        _ => panic!("no data set {name}"),
    };
    let (mut features, mut labels) = (Vec::new(), Vec::new());
    for line in csv.lines().skip(1) {
        let (row, label) = line.rsplit_once(',').unwrap();
        match name {
            "digits" => features.extend(row.chars().filter_map(|pixel| pixel.to_digit(17)).map(|pixel| pixel as f32)),
            _ => features.extend(row.split(',').map(|value| value.parse::<f32>().unwrap())),
        }
        labels.push(match label {
            "true" | "t" => 1.0,
            "false" | "f" => 0.0,
            number => number.parse().unwrap(),
        });
    }
    let width = features.len() / labels.len();
    (features, width, labels)
}

/// Every fourth row for testing, the others to train on: (features, labels) of each.
pub(crate) type Half = (Vec<f32>, Vec<f32>);
pub(crate) fn split(features: &[f32], width: usize, labels: &[f32]) -> (Half, Half) {
    let (mut train, mut test) = (Half::default(), Half::default());
    for (index, (row, label)) in features.chunks(width).zip(labels).enumerate() {
        let half = if index % 4 == 3 { &mut test } else { &mut train };
        half.0.extend_from_slice(row);
        half.1.push(*label);
    }
    (train, test)
}

/// Each feature less its mean, divided by its deviation, both of the first of the two.
pub(crate) fn standardise(train: &mut [f32], test: &mut [f32], width: usize) {
    for column in 0..width {
        let values: Vec<f64> = train.iter().skip(column).step_by(width).map(|value| f64::from(*value)).collect();
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / values.len() as f64;
        let scale = if variance > 0.0 { variance.sqrt() } else { 1.0 };
        for half in [&mut *train, &mut *test] {
            for value in half.iter_mut().skip(column).step_by(width) {
                *value = ((f64::from(*value) - mean) / scale) as f32;
            }
        }
    }
}

/// The share of rows whose class is the one with the largest value.
pub(crate) fn accuracy(model: &dyn Predict, features: &[f32], labels: &[f32]) -> f64 {
    let mut values = vec![0.0; model.values()];
    let right = features.chunks(model.width()).zip(labels).filter(|(row, label)| {
        model.predict(row, &mut values);
        let mut best = 0;
        for (class, value) in values.iter().enumerate() {
            if *value > values[best] {
                best = class;
            }
        }
        best == **label as usize
    });
    right.count() as f64 / labels.len() as f64
}

/// The coefficient of determination of the first value.
pub(crate) fn r2(model: &dyn Predict, features: &[f32], labels: &[f32]) -> f64 {
    let mut values = vec![0.0; model.values()];
    let mean = labels.iter().map(|label| f64::from(*label)).sum::<f64>() / labels.len() as f64;
    let (mut residual, mut total) = (0.0, 0.0);
    for (row, label) in features.chunks(model.width()).zip(labels) {
        model.predict(row, &mut values);
        residual += (f64::from(*label) - f64::from(values[0])).powi(2);
        total += (f64::from(*label) - mean).powi(2);
    }
    1.0 - residual / total
}
