//! The plain kernel answers what the real library answers, bit by bit.

#![allow(clippy::panic, clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::{Model, Spec, hostile_rows, random_model};
use forest::ensemble::Node;
use forest::{Ensemble, xgboost};

fn thresholds(ensemble: &Ensemble) -> Vec<(u32, f32)> {
    let nodes = ensemble.trees.iter().flat_map(|tree| &tree.nodes);
    nodes
        .filter_map(|node| match node {
            Node::Numeric { feature, threshold, .. } => Some((*feature, *threshold)),
            _ => None,
        })
        .collect()
}

fn assert_same_bits(what: &str, seed: u64, model: &Model, rows: &[f32], ours: &[f32], theirs: &[f32]) {
    assert_eq!(ours.len(), theirs.len(), "{what}: number of values, seed {seed}, {:?}", model.spec);
    let row_count = rows.len() / model.spec.features;
    let width = ours.len() / row_count;
    for (i, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        let same = ours.to_bits() == theirs.to_bits() || (ours.is_nan() && theirs.is_nan());
        let row = &rows[i / width * model.spec.features..][..model.spec.features];
        assert!(same, "{what} {i}: {ours:?}, XGBoost {theirs:?}; seed {seed}, {:?}, row {row:?}", model.spec);
    }
}

/// Reads both formats of a random model and compares margins and predictions.
fn check(seed: u64, spec: &Spec) {
    let model = random_model(seed, spec);
    let ensemble = xgboost::read(&model.ubj).unwrap_or_else(|error| panic!("seed {seed}, {spec:?}: {error}"));
    let from_json = xgboost::read(&model.json).unwrap_or_else(|error| panic!("seed {seed}, {spec:?}: {error}"));
    assert!(ensemble == from_json, "JSON and UBJSON differ: seed {seed}, {spec:?}");

    let rows = hostile_rows(seed, 200, &model, &thresholds(&ensemble));
    let (mut margins, mut predictions) = (Vec::new(), Vec::new());
    for row in rows.chunks_exact(spec.features) {
        let mut out = vec![0.0; ensemble.num_outputs as usize];
        ensemble.margin(row, &mut out);
        margins.extend_from_slice(&out);
        let count = ensemble.transform.apply(&mut out);
        predictions.extend_from_slice(&out[..count]);
    }
    assert_same_bits("margin", seed, &model, &rows, &margins, &model.predict(&rows, true).expect("margins"));
    assert_same_bits("value", seed, &model, &rows, &predictions, &model.predict(&rows, false).expect("predictions"));
}

#[test]
fn a_plain_regression_is_the_same() {
    for seed in 0..20 {
        check(seed, &Spec::default());
    }
}
