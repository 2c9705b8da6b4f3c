//! The plain kernel answers what the real library answers, bit by bit.

#![allow(clippy::panic, clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod common;

use common::{Booster, DMatrix, Model, Random, Spec, handmade, hostile_rows, random_model, version};
use forest::Ensemble;
use forest::ensemble::Node;
use forest::xgboost::{self, ReadOptions};

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

const OBJECTIVES: [&str; 20] = [
    "reg:squarederror",
    "reg:linear",
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

/// All that the library has.
fn objectives() -> Vec<&'static str> {
    let newer: &[&str] = if version() >= (3, 3, 0) { &["reg:expectileerror"] } else { &[] };
    OBJECTIVES.iter().chain(newer).copied().collect()
}

fn of_several_targets() -> Vec<&'static str> {
    let newer: &[&str] = if version() >= (3, 3, 0) { &["reg:expectileerror"] } else { &[] };
    OF_SEVERAL_TARGETS.iter().chain(newer).copied().collect()
}

/// Those that train several targets at once.
const OF_SEVERAL_TARGETS: [&str; 11] = [
    "reg:squarederror",
    "reg:squaredlogerror",
    "reg:logistic",
    "reg:pseudohubererror",
    "reg:absoluteerror",
    "reg:quantileerror",
    "reg:gamma",
    "binary:logistic",
    "binary:logitraw",
    "binary:hinge",
    "reg:linear",
];

#[test]
fn every_objective_is_the_same() {
    for (i, objective) in objectives().into_iter().enumerate() {
        for booster in ["gbtree", "dart", "gblinear"] {
            let outputs = if objective.starts_with("multi:") { 5 } else { 1 };
            check(i as u64, &Spec { objective, booster, outputs, ..Spec::default() });
        }
    }
}

#[test]
fn several_targets_are_the_same() {
    for (i, objective) in of_several_targets().into_iter().enumerate() {
        for booster in ["gbtree", "dart", "gblinear"] {
            check(i as u64, &Spec { objective, booster, outputs: 3, ..Spec::default() });
        }
    }
}

#[test]
fn vector_leaves_are_the_same() {
    for (i, objective) in of_several_targets().into_iter().chain(["multi:softmax", "multi:softprob"]).enumerate() {
        for num_parallel_tree in [1, 3] {
            check(i as u64, &Spec { objective, outputs: 4, vector_leaves: true, num_parallel_tree, ..Spec::default() });
        }
    }
    // A root that never splits.
    let never = vec![("min_child_weight", "1e9".to_owned())];
    check(0, &Spec { outputs: 2, vector_leaves: true, extra: never, ..Spec::default() });
}

#[test]
fn categories_are_the_same() {
    for seed in 0..10 {
        check(seed, &Spec { categorical: 0.5, ..Spec::default() });
        check(seed, &Spec { categorical: 0.5, categories: 3, booster: "dart", ..Spec::default() });
        check(seed, &Spec { categorical: 1.0, categories: 100, missing: 0.0, ..Spec::default() });
        check(seed, &Spec { categorical: 0.3, outputs: 3, ..Spec::default() });
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
fn models_of_any_size_are_the_same() {
    let plain = Spec::default;
    let of_size = |features, rows, depth, rounds| Spec { features, rows, depth, rounds, ..plain() };
    check(0, &of_size(1, 300, 3, 5));
    check(1, &of_size(500, 300, 6, 20));
    check(2, &of_size(10, 10_000, 20, 5));
    check(3, &of_size(11, 200, 6, 2000));
    check(4, &Spec { objective: "multi:softprob", outputs: 20, ..of_size(10, 500, 6, 10) });
    check(5, &Spec { booster: "dart", ..of_size(10, 500, 6, 100) });
    check(6, &of_size(3, 1, 6, 3));
    check(7, &of_size(5, 200, 4, 0));
    check(8, &Spec { objective: "binary:logistic", ..of_size(5, 200, 4, 0) });
}

#[test]
fn random_models_are_the_same() {
    for seed in 1000..1100 {
        let random = &mut Random::new(seed);
        let booster = *random.pick(&["gbtree", "gbtree", "gbtree", "dart", "gblinear"]);
        let several = random.chance(0.4);
        let objective = if several { *random.pick(&of_several_targets()) } else { *random.pick(&objectives()) };
        let many = several || objective.starts_with("multi:");
        let vector_leaves = many && booster == "gbtree" && random.chance(0.4);
        let spec = Spec {
            objective,
            booster,
            features: if random.chance(0.1) { random.between(50, 500) } else { random.between(1, 30) },
            rows: random.between(2, 600),
            depth: random.between(1, 20),
            rounds: random.between(1, 25),
            num_parallel_tree: if random.chance(0.2) { random.between(2, 4) } else { 1 },
            outputs: if many { random.between(2, 8) } else { 1 },
            vector_leaves,
            missing: *random.pick(&[0.0, 0.1, 0.9]),
            categorical: if booster == "gblinear" || vector_leaves { 0.0 } else { *random.pick(&[0.0, 0.0, 0.3, 1.0]) },
            categories: random.between(2, 60),
            extra: Vec::new(),
        };
        check(seed, &spec);
    }
}

/// The library's answers for a model file and one row of one feature a row.
fn theirs(model: &str, rows: &[f32], margin: bool) -> Result<Vec<f32>, String> {
    Booster::load(model.as_bytes())?.predict(rows, 1, margin, 0)
}

fn ours(model: &str, rows: &[f32], transform: bool) -> Result<Vec<f32>, forest::Error> {
    let ensemble = xgboost::read(model.as_bytes())?;
    let mut all = Vec::new();
    for x in rows {
        let mut out = vec![0.0; ensemble.num_outputs as usize];
        ensemble.margin(&[*x], &mut out);
        let count = if transform { ensemble.transform.apply(&mut out) } else { out.len() };
        all.extend_from_slice(&out[..count]);
    }
    Ok(all)
}

#[test]
fn transforms_are_the_same_for_any_margin() {
    let random = &mut Random::new(1);
    let special =
        [0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 88.7, -88.7, 88.72284, -103.98, 1e-45, 16.6, -16.6];
    for objective in objectives() {
        let outputs = if objective.starts_with("multi:") || objective == "reg:expectileerror" { 4 } else { 1 };
        let leaf = |random: &mut Random| match random.below(10) {
            0 => *random.pick(&special),
            1 => f32::from_bits(random.bits() as u32),
            2..6 => (random.unit() - 0.5) * 10.0,
            _ => (random.unit() - 0.5) * 220.0,
        };
        let leaves: Vec<Vec<f32>> = (0..outputs).map(|_| (0..3000).map(|_| leaf(random)).collect()).collect();
        let model = handmade::staircase(objective, "5E-1", &leaves);
        let rows: Vec<f32> = (0..3000).map(|i| i as f32 + 0.5).collect();
        for margin in [true, false] {
            let theirs = theirs(&model, &rows, margin).unwrap_or_else(|error| panic!("{objective}: {error}"));
            let ours = ours(&model, &rows, !margin).unwrap_or_else(|error| panic!("{objective}: {error}"));
            assert_eq!(ours.len(), theirs.len(), "{objective}");
            for (i, (a, b)) in ours.iter().zip(&theirs).enumerate() {
                let same = a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
                let at = i * outputs / (ours.len() / rows.len());
                let leaves: Vec<f32> = leaves.iter().map(|leaves| leaves[at / outputs]).collect();
                assert!(same, "{objective} of {leaves:?}: {a:?}, XGBoost {b:?}, margin {margin}");
            }
        }
    }
}

#[test]
fn every_intercept_is_the_same() {
    let scores = [
        "0.2",
        "[0.2]",
        "2.01E1",
        "[0.2,0.3]",
        "0",
        "-0",
        "-0E0",
        "1",
        "[1E0]",
        "-0.1",
        "1.1",
        "1e-7",
        "0.9999999",
        "nan",
        "NaN",
        "[NaN]",
        "inf",
        "Infinity",
        "[]",
        "",
        " 0.2",
        "[ 0.2 , 0.3 ]",
        "1e-50",
        "1e-40",
        "1e50",
        "2e-45",
        "+0.2",
        ".2",
        "0.1234567890123456789",
        "0.3000000119209289550781",
        "16777217",
        "null",
        "{}",
        "[[0.2]]",
    ];
    for objective in objectives() {
        let outputs = if objective.starts_with("multi:") { 2 } else { 1 };
        for score in scores {
            let model = handmade::staircase(objective, score, &vec![vec![0.25, -3.0]; outputs]);
            match (ours(&model, &[0.0], false), theirs(&model, &[0.0], true)) {
                (Ok(ours), Ok(theirs)) => {
                    let same =
                        ours.iter().zip(&theirs).all(|(a, b)| a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan()));
                    assert!(same && ours.len() == theirs.len(), "{objective} {score:?}: {ours:?}, XGBoost {theirs:?}");
                }
                (Err(_), Err(_)) => {}
                (ours, theirs) => panic!("{objective} {score:?}: {ours:?}, XGBoost {theirs:?}"),
            }
        }
    }
}

#[test]
fn an_untrained_model_answers_its_default() {
    for objective in ["reg:squarederror", "binary:logistic", "count:poisson"] {
        // The library answers nothing at all for a dart without trees.
        for booster in ["gbtree", "gblinear"] {
            for extra in [vec![], vec![("base_score", "0.3".to_owned())]] {
                check(0, &Spec { objective, booster, rounds: 0, extra, ..Spec::default() });
            }
        }
    }
}

/// Infinities are refused by a DMatrix, but not by `XGBoosterPredictFromDense`, where they are numbers like others.
#[test]
fn infinities_are_numbers() {
    let model = handmade::staircase("reg:squarederror", "0", &[vec![1.0, 2.0, 3.0]]);
    let rows = [f32::NEG_INFINITY, f32::INFINITY, f32::NAN];
    assert_eq!(theirs(&model, &rows, false).expect("predictions"), [1.0, 3.0, 3.0]);
    assert_eq!(ours(&model, &rows, true).expect("predictions"), [1.0, 3.0, 3.0]);
    assert!(DMatrix::new(&rows, 1).is_err_and(|error| error.contains("inf")));
}

#[test]
fn early_stopping_cuts_at_the_best_iteration() {
    for (objective, outputs, vector_leaves) in
        [("reg:squarederror", 1, false), ("multi:softprob", 3, false), ("reg:squarederror", 3, true)]
    {
        // Dart has no vector leaves.
        for booster in if vector_leaves { vec!["gbtree"] } else { vec!["gbtree", "dart"] } {
            let spec = Spec { objective, booster, outputs, vector_leaves, num_parallel_tree: 2, ..Spec::default() };
            let model = random_model(5, &spec);
            for (best, rounds) in [("0", 1), ("3", 4), ("9", 10), ("10", 0), ("99999999999", 0)] {
                model.booster.set_attr("best_iteration", best).expect("an attribute");
                let file = model.booster.save("json");
                let theirs = model.booster.predict(&model.rows, spec.features, true, rounds).expect("margins");
                // Files of before 2.0 do not say where a round begins.
                let text = String::from_utf8(file.clone()).expect("UTF-8");
                let old = text.replace("\"iteration_indptr\"", "\"no_such_field\"");
                for file in [file.as_slice(), old.as_bytes()] {
                    let ensemble = xgboost::read(file).expect("a model");
                    let mut ours = Vec::new();
                    for row in model.rows.chunks_exact(spec.features) {
                        let mut out = vec![0.0; ensemble.num_outputs as usize];
                        ensemble.margin(row, &mut out);
                        ours.extend_from_slice(&out);
                    }
                    assert_same_bits("margin", 5, &model, &model.rows, &ours, &theirs);
                }
                let whole = xgboost::read_with(&file, ReadOptions { best_iteration: false, ..ReadOptions::default() })
                    .expect("a model");
                assert_eq!(whole.trees.len(), if vector_leaves { 20 } else { 20 * outputs });
            }
        }
    }
}

#[test]
fn the_state_of_a_pickle_is_a_model() {
    let model = random_model(3, &Spec::default());
    assert_eq!(xgboost::read(&model.booster.serialize()), xgboost::read(&model.ubj));
}
