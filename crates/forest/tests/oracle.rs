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

    let mut rows = hostile_rows(seed, 200, &model, &thresholds(&ensemble));
    if spec.booster == "gblinear" {
        // A DMatrix refuses infinities, and nothing else predicts with gblinear.
        rows.iter_mut().filter(|x| x.is_infinite()).for_each(|x| *x = f32::NAN);
    }
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

const OF_ONE_OUTPUT: [&str; 19] = [
    "reg:squarederror",
    "reg:squaredlogerror",
    "reg:logistic",
    "reg:pseudohubererror",
    "reg:absoluteerror",
    "reg:quantileerror",
    "reg:gamma",
    "reg:tweedie",
    "binary:logistic",
    "binary:logitraw",
    "binary:hinge",
    "count:poisson",
    "survival:cox",
    "survival:aft",
    "rank:pairwise",
    "rank:ndcg",
    "rank:map",
    "multi:softmax",
    "multi:softprob",
];

#[test]
fn every_objective_is_the_same() {
    for (i, objective) in OF_ONE_OUTPUT.into_iter().enumerate() {
        for booster in ["gbtree", "dart", "gblinear"] {
            let outputs = if objective.starts_with("multi:") { 5 } else { 1 };
            check(i as u64, &Spec { objective, booster, outputs, ..Spec::default() });
        }
    }
}

#[test]
fn vector_leaves_are_the_same() {
    for seed in 0..4 {
        check(seed, &Spec { outputs: 3, vector_leaves: true, ..Spec::default() });
        check(seed, &Spec { outputs: 3, vector_leaves: true, objective: "multi:softprob", ..Spec::default() });
    }
}

#[test]
fn several_targets_are_the_same() {
    for seed in 0..4 {
        check(seed, &Spec { outputs: 3, ..Spec::default() });
        check(seed, &Spec { outputs: 3, objective: "binary:logistic", ..Spec::default() });
        check(seed, &Spec { outputs: 3, objective: "reg:quantileerror", ..Spec::default() });
    }
}

#[test]
fn categories_are_the_same() {
    for seed in 0..10 {
        check(seed, &Spec { categorical: 0.5, ..Spec::default() });
        check(seed, &Spec { categorical: 0.5, categories: 3, ..Spec::default() });
        check(seed, &Spec { categorical: 0.5, categories: 100, missing: 0.0, ..Spec::default() });
    }
}

#[test]
fn forests_of_parallel_trees_are_the_same() {
    for seed in 0..4 {
        check(seed, &Spec { num_parallel_tree: 4, ..Spec::default() });
        check(seed, &Spec { num_parallel_tree: 4, outputs: 3, objective: "multi:softprob", ..Spec::default() });
        check(seed, &Spec { num_parallel_tree: 3, booster: "dart", ..Spec::default() });
    }
}

#[test]
fn a_plain_regression_is_the_same() {
    for seed in 0..20 {
        check(seed, &Spec::default());
    }
}

#[test]
fn dump() {
    let m = random_model(9, &Spec { objective: "binary:logitraw", ..Spec::default() });
    let e = xgboost::read(&m.ubj).expect("");
    let mut out = [0.0];
    e.margin(&m.rows[..8], &mut out);
    let json = String::from_utf8(m.json.clone()).expect("");
    println!(
        "{:?} {:?} {out:?} {:?}",
        json.find("base_score").map(|i| &json[i..i + 40]),
        e.base_margin,
        m.predict(&m.rows[..8], true)
    );
    let m = random_model(
        9,
        &Spec {
            rounds: 1,
            outputs: 3,
            vector_leaves: true,
            extra: vec![("min_child_weight", "1e9".into())],
            ..Spec::default()
        },
    );
    println!("{}", String::from_utf8(m.json.clone()).expect(""));
}
