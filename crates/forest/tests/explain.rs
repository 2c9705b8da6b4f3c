//! Contributions are those of the real library's `pred_contribs`, those of Shapley's own formula, and add up to the
//! margin.

#![allow(clippy::panic, clippy::expect_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::fs;
use std::path::Path;

use common::{DMatrix, Model, Random, Spec, hostile_rows, random_model};
use forest::ensemble::{Node, Transform, Tree};
use forest::xgboost::{self, ReadOptions};
use forest::{Ensemble, Error, Explainer, PredictError};

/// A model with its covers.
fn read(file: &[u8]) -> Result<Ensemble, Error> {
    xgboost::read_with(file, ReadOptions { covers: true, ..ReadOptions::default() })
}

fn explain(ensemble: &Ensemble, rows: &[f32]) -> Vec<f32> {
    let explainer = Explainer::new(ensemble).expect("a model that can be explained");
    let count = rows.len() / explainer.num_features();
    let mut out = vec![f32::NAN; count * explainer.num_values()];
    explainer.explain(rows, &mut out, || {}).expect("rows");
    out
}

/// The largest of the numbers, apart from sign: what differences are small beside.
fn scale(values: &[f32]) -> f32 {
    values.iter().fold(1e-3, |largest, value| value.abs().max(largest))
}

/// Each row's contributions add up to its margin, as the plain kernel has it.
fn check_sums(ensemble: &Ensemble, rows: &[f32], contributions: &[f32]) {
    let width = ensemble.num_features as usize + 1;
    let outputs = ensemble.num_outputs as usize;
    let rows = rows.chunks_exact(width - 1);
    for (row, contributions) in rows.zip(contributions.chunks_exact(width * outputs)) {
        let mut margins = vec![0.0; outputs];
        ensemble.margin(row, &mut margins);
        for (margin, contributions) in margins.iter().zip(contributions.chunks_exact(width)) {
            let sum: f64 = contributions.iter().map(|c| f64::from(*c)).sum();
            let off = (sum - f64::from(*margin)).abs() / f64::from(scale(contributions));
            assert!(off < 1e-5, "contributions add up to {sum}, the margin is {margin}: {row:?}");
        }
    }
}

fn thresholds(ensemble: &Ensemble) -> Vec<(u32, f32)> {
    let nodes = ensemble.trees.iter().flat_map(|tree| &tree.nodes);
    nodes
        .filter_map(|node| match node {
            Node::Numeric { feature, threshold, .. } => Some((*feature, *threshold)),
            _ => None,
        })
        .collect()
}

fn rows_of(seed: u64, count: usize, model: &Model, ensemble: &Ensemble) -> Vec<f32> {
    let mut rows = hostile_rows(seed, count, model, &thresholds(ensemble));
    for x in &mut rows {
        // A DMatrix refuses infinities; and products of a linear model are to stay finite.
        if x.is_infinite() || (model.spec.booster == "gblinear" && x.abs() > 1e6) {
            *x = f32::NAN;
        }
    }
    rows
}

/// What the library says, which sums in float32; `tolerance` is relative to the largest contribution of the row.
fn check_within(seed: u64, spec: &Spec, tolerance: f32) {
    let model = random_model(seed, spec);
    let ensemble = read(&model.ubj).unwrap_or_else(|error| panic!("seed {seed}, {spec:?}: {error}"));
    let rows = rows_of(seed, 60, &model, &ensemble);
    let mut matrix = DMatrix::new(&rows, spec.features).expect("a matrix");
    let types: Vec<String> = model.categorical.iter().map(|&c| if c { "c" } else { "q" }.to_owned()).collect();
    matrix.set_strings("feature_type", &types).expect("types");
    let theirs = model.booster.contributions(&matrix, 0).expect("contributions");
    let ours = explain(&ensemble, &rows);
    assert_eq!(ours.len(), theirs.len(), "seed {seed}, {spec:?}");
    let values = ours.len() / 60;
    let width = spec.features + 1;
    for (i, (ours, theirs)) in ours.chunks_exact(width).zip(theirs.chunks_exact(width)).enumerate() {
        let row = &rows[i * width / values * spec.features..][..spec.features];
        for (f, (a, b)) in ours.iter().zip(theirs).enumerate() {
            let off = (a - b).abs() / scale(theirs);
            assert!(off < tolerance, "feature {f}: {a}, XGBoost {b}, off by {off}; seed {seed}, {spec:?}, row {row:?}");
        }
    }
    check_sums(&ensemble, &rows, &ours);
}

fn check(seed: u64, spec: &Spec) {
    check_within(seed, spec, 1e-4);
}

#[test]
fn every_booster_and_objective_is_explained_as_the_library_does() {
    let objectives = [
        "reg:squarederror",
        "binary:logistic",
        "binary:hinge",
        "count:poisson",
        "reg:gamma",
        "survival:cox",
        "survival:aft",
        "rank:ndcg",
        "reg:quantileerror",
        "multi:softmax",
        "multi:softprob",
    ];
    for (i, objective) in objectives.into_iter().enumerate() {
        for booster in ["gbtree", "dart", "gblinear"] {
            let outputs = if objective.starts_with("multi:") { 5 } else { 1 };
            check(i as u64, &Spec { objective, booster, outputs, ..Spec::default() });
        }
    }
}

#[test]
fn categories_targets_and_parallel_trees_are_explained_as_the_library_does() {
    for seed in 0..5 {
        check(seed, &Spec { categorical: 0.5, ..Spec::default() });
        check(seed, &Spec { categorical: 0.5, categories: 3, booster: "dart", ..Spec::default() });
        check(seed, &Spec { categorical: 1.0, categories: 100, missing: 0.0, ..Spec::default() });
        check(seed, &Spec { categorical: 0.3, outputs: 3, objective: "multi:softprob", ..Spec::default() });
        check(seed, &Spec { outputs: 3, ..Spec::default() });
        check(seed, &Spec { num_parallel_tree: 3, missing: 0.5, ..Spec::default() });
    }
}

#[test]
fn models_of_any_size_are_explained_as_the_library_does() {
    let of_size = |features, rows, depth, rounds| Spec { features, rows, depth, rounds, ..Spec::default() };
    check(0, &of_size(1, 300, 3, 5));
    check(1, &of_size(500, 300, 6, 20));
    check(2, &of_size(30, 3000, 9, 5));
    check(3, &of_size(11, 200, 6, 300));
    check(4, &of_size(3, 1, 6, 3));
    check(5, &of_size(5, 200, 4, 0));
    // The library's float32 sums of deep paths are less exact than ours: see `deep_trees_are_explained_exactly`.
    check_within(6, &of_size(40, 3000, 20, 3), 1e-3);
}

#[test]
fn random_models_are_explained_as_the_library_does() {
    for seed in 2000..2060 {
        let random = &mut Random::new(seed);
        let booster = *random.pick(&["gbtree", "gbtree", "gbtree", "dart", "gblinear"]);
        let several = random.chance(0.3);
        let objective = *random.pick(&["reg:squarederror", "binary:logistic", "multi:softprob"]);
        let many = several || objective == "multi:softprob";
        let spec = Spec {
            objective,
            booster,
            features: random.between(1, 30),
            rows: random.between(2, 600),
            depth: random.between(1, 8),
            rounds: random.between(1, 25),
            outputs: if many { random.between(2, 6) } else { 1 },
            missing: *random.pick(&[0.0, 0.1, 0.9]),
            categorical: if booster == "gblinear" { 0.0 } else { *random.pick(&[0.0, 0.0, 0.3, 1.0]) },
            categories: random.between(2, 60),
            ..Spec::default()
        };
        check(seed, &spec);
    }
}

/// What a tree answers when only the features in `known` are.
fn expected(tree: &Tree, node: u32, row: &[f32], known: usize, output: usize) -> f64 {
    let (feature, left, right, goes_left) = match &tree.nodes[node as usize] {
        Node::Leaf(value) if output == tree.output as usize => return f64::from(*value),
        Node::Leaf(_) => return 0.0,
        Node::VectorLeaf(values) => return f64::from(values[output]),
        Node::Numeric { feature, threshold, default_left, left, right } => {
            let x = row[*feature as usize];
            (*feature, *left, *right, if x.is_nan() { *default_left } else { x < *threshold })
        }
        Node::Categorical { feature, categories, default_left, left, right } => {
            let x = row[*feature as usize];
            let unknown = !(0.0..16_777_216.0).contains(&x) || !categories.contains(&(x as u32));
            (*feature, *left, *right, if x.is_nan() { *default_left } else { unknown })
        }
    };
    let below = |child| expected(tree, child, row, known, output);
    if known >> feature & 1 == 1 {
        return below(if goes_left { left } else { right });
    }
    let cover = |node: u32| f64::from(tree.covers[node as usize]);
    (cover(left) * below(left) + cover(right) * below(right)) / cover(node)
}

/// Shapley's formula as it is written: over every set of the other features.
fn by_definition(ensemble: &Ensemble, row: &[f32], output: usize) -> Vec<f64> {
    let features = row.len();
    let answers: Vec<f64> = (0..1usize << features)
        .map(|known| {
            let of_tree = |tree: &Tree| f64::from(tree.weight.unwrap_or(1.0)) * expected(tree, 0, row, known, output);
            ensemble.trees.iter().map(of_tree).sum()
        })
        .collect();
    let factorial = |n: usize| (1..=n).map(|k| k as f64).product::<f64>();
    let mut contributions: Vec<f64> = (0..features)
        .map(|feature| {
            let without = (0..1usize << features).filter(|known| known >> feature & 1 == 0);
            let gain = |known: usize| {
                let size = known.count_ones() as usize;
                let weight = factorial(size) * factorial(features - size - 1) / factorial(features);
                weight * (answers[known | 1 << feature] - answers[known])
            };
            without.map(gain).sum()
        })
        .collect();
    contributions.push(f64::from(ensemble.base_margin[output]) + answers[0]);
    contributions
}

fn check_by_definition(what: &str, ensemble: &Ensemble, rows: &[f32]) {
    let features = ensemble.num_features as usize;
    let ours = explain(ensemble, rows);
    let each = ours.chunks_exact((features + 1) * ensemble.num_outputs as usize);
    for (row, ours) in rows.chunks_exact(features).zip(each) {
        for (output, ours) in ours.chunks_exact(features + 1).enumerate() {
            let exact = by_definition(ensemble, row, output);
            for (f, (a, b)) in ours.iter().zip(&exact).enumerate() {
                let off = (f64::from(*a) - b).abs() / f64::from(scale(ours));
                assert!(off < 1e-6, "{what}: feature {f} of output {output}: {a}, exactly {b}; row {row:?}");
            }
        }
    }
    check_sums(ensemble, rows, &ours);
}

#[test]
fn deep_trees_are_explained_exactly() {
    for seed in 0..6 {
        let booster = if seed % 3 == 2 { "dart" } else { "gbtree" };
        let spec = Spec {
            booster,
            features: 9,
            rows: 1000,
            depth: 3 + 4 * seed as usize,
            rounds: 2,
            categorical: 0.3,
            ..Spec::default()
        };
        let model = random_model(seed, &spec);
        let ensemble = read(&model.ubj).expect("a model");
        check_by_definition(&format!("{spec:?}"), &ensemble, &rows_of(seed, 8, &model, &ensemble));
    }
}

fn stored(version: &str, name: &str) -> Vec<u8> {
    fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/models").join(version).join(name)).expect("a model")
}

#[test]
fn vector_leaves_are_explained_exactly() {
    for (version, name) in [("3.3.0", "vectors.ubj"), ("3.4.1", "vectors.ubj"), ("3.4.1", "vectors-text.json")] {
        let ensemble = read(&stored(version, name)).expect("a model");
        assert!(ensemble.num_outputs > 1);
        let random = &mut Random::new(1);
        let value = |random: &mut Random| if random.chance(0.2) { f32::NAN } else { random.unit() * 4.0 - 2.0 };
        let rows: Vec<f32> = (0..20 * ensemble.num_features).map(|_| value(random)).collect();
        check_by_definition(name, &ensemble, &rows);
    }
}

#[test]
fn files_of_other_versions_are_explained_exactly() {
    for version in ["1.7.6", "2.1.4", "3.0.5", "3.1.3", "3.3.0", "3.4.1"] {
        for name in ["regression.ubj", "logistic.json", "dart-text.json", "categories.ubj", "softmax.ubj"] {
            let ensemble = read(&stored(version, name)).expect("a model");
            let random = &mut Random::new(2);
            let value = |random: &mut Random| if random.chance(0.2) { f32::NAN } else { random.unit() * 4.0 };
            let rows: Vec<f32> = (0..20 * ensemble.num_features).map(|_| value(random)).collect();
            check_by_definition(&format!("{version}/{name}"), &ensemble, &rows);
        }
    }
}

#[test]
fn a_model_without_covers_is_refused() {
    let ensemble = read(&stored("3.1.3", "vectors.ubj")).expect("a model");
    let error = Explainer::new(&ensemble).expect_err("no covers");
    assert_eq!(
        error.to_string(),
        "trees[0].sum_hessian: explaining a model without the cover of every node is not supported"
    );
}

fn model_of(trees: Vec<Tree>, num_features: u32) -> Ensemble {
    Ensemble {
        num_features,
        num_outputs: 1,
        base_margin: vec![0.5],
        trees,
        linear: None,
        transform: Transform::Identity,
        objective: "reg:squarederror".to_owned(),
        feature_names: Vec::new(),
        feature_types: Vec::new(),
        attributes: Default::default(),
    }
}

/// Split after split to the right: by feature 0, 1, 2 and so on, again and again.
fn chain(levels: usize, features: usize, random: &mut Random) -> Tree {
    let (mut nodes, mut covers) = (Vec::new(), Vec::new());
    let mut cover = 1e6f32;
    for level in 0..levels {
        let left = nodes.len() as u32 + 1;
        let feature = (level % features) as u32;
        nodes.push(Node::Numeric { feature, threshold: 0.0, default_left: false, left, right: left + 1 });
        nodes.push(Node::Leaf(random.unit() - 0.5));
        let part = 0.01 + 0.1 * random.unit();
        covers.extend([cover, cover * part]);
        cover -= cover * part;
    }
    nodes.push(Node::Leaf(2.0));
    covers.push(cover);
    Tree { nodes, covers, gains: Vec::new(), output: 0, weight: None }
}

/// The contribution of one feature to a chain that splits by each feature once, leaf by leaf: the product of all other
/// factors as a polynomial of how many features are known.
fn of_chain(tree: &Tree, row: &[f32], feature: usize) -> f64 {
    let cover = |node: usize| f64::from(tree.covers[node]);
    let levels = tree.nodes.len() / 2;
    let mut total = 0.0;
    for leaf in 0..=levels {
        let path = (leaf + 1).min(levels);
        if feature >= path {
            continue;
        }
        let factors = (0..path).map(|f| {
            let left = f == leaf;
            let part = cover(2 * f + if left { 1 } else { 2 }) / cover(2 * f);
            (part, f64::from(u8::from((row[f] < 0.0) == left)))
        });
        // known[k]: the sum over all sets of k known features of the share of the leaf.
        let mut known = vec![1.0];
        let (mut own, mut count) = ((0.0, 0.0), 0);
        for (f, (z, o)) in factors.enumerate() {
            if f == feature {
                own = (z, o);
                continue;
            }
            count += 1;
            known.push(0.0);
            for k in (0..=count).rev() {
                known[k] = z * known[k] + if k > 0 { o * known[k - 1] } else { 0.0 };
            }
        }
        // k! (count - k)! / (count + 1)!
        let mut weight = 1.0 / path as f64;
        let mut sum = 0.0;
        for (k, known) in known.iter().enumerate() {
            sum += weight * known;
            weight *= (k + 1) as f64 / (count - k).max(1) as f64;
        }
        let Node::Leaf(value) = tree.nodes[(2 * leaf + 1).min(2 * levels)] else { panic!("a leaf") };
        total += f64::from(value) * (own.1 - own.0) * sum;
    }
    total
}

#[test]
fn paths_of_many_features_are_explained_exactly() {
    let random = &mut Random::new(7);
    for features in [1, 3, 4, 5, 8, 9, 16, 17, 32, 33, 100, 129, 200] {
        let tree = chain(features, features, random);
        let row: Vec<f32> = (0..features).map(|_| if random.chance(0.05) { -1.0 } else { 1.0 }).collect();
        let ensemble = model_of(vec![tree], features as u32);
        let ours = explain(&ensemble, &row);
        for feature in [0, features / 3, features / 2, features - 1] {
            let exact = of_chain(&ensemble.trees[0], &row, feature);
            let off = (f64::from(ours[feature]) - exact).abs();
            assert!(off < 1e-6, "feature {feature} of {features}: {}, exactly {exact}", ours[feature]);
        }
        check_sums(&ensemble, &row, &ours);
    }
}

#[test]
fn what_is_too_deep_is_refused_and_not_walked() {
    let random = &mut Random::new(8);
    for (levels, features, refused) in [
        (512, 512, None),
        (4000, 400, None),
        (513, 513, Some("trees[0].sum_hessian: explaining a model with more than 512 features on the way to a leaf")),
        (5000, 3, Some("trees[0].sum_hessian: explaining a model with a tree of more than 4096 levels")),
    ] {
        let ensemble = model_of(vec![chain(levels, features, random)], features as u32);
        match refused {
            None => check_sums(&ensemble, &vec![1.0; features], &explain(&ensemble, &vec![1.0; features])),
            Some(what) => {
                let error = Explainer::new(&ensemble).expect_err("too deep");
                assert_eq!(error.to_string(), format!("{what} is not supported"));
            }
        }
    }
}

#[test]
fn covers_that_are_no_weights_are_refused_and_empty_nodes_are_not() {
    let split = |feature, left| Node::Numeric { feature, threshold: 0.0, default_left: true, left, right: left + 1 };
    let nodes = || vec![split(0, 1), split(1, 3), Node::Leaf(3.0), Node::Leaf(1.0), Node::Leaf(2.0)];
    let with = |covers: &[f32]| {
        model_of(vec![Tree { nodes: nodes(), covers: covers.to_vec(), gains: Vec::new(), output: 0, weight: None }], 2)
    };
    for covers in [
        &[f32::NAN, 1.0, 1.0, 1.0, 1.0][..],
        &[2.0, 1.0, -1.0, 1.0, 1.0],
        &[f32::INFINITY, 1.0, 1.0, 1.0, 1.0],
        &[0.0, 0.0, 0.0, 0.0, 0.0],
        &[4.0, 0.0, 4.0, 1.0, 1.0],
        &[4.0, 2.0],
    ] {
        let error = Explainer::new(&with(covers)).expect_err("no weights");
        assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    }
    // No training row went left.
    let ensemble = with(&[4.0, 0.0, 4.0, 0.0, 0.0]);
    for row in [[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0], [f32::NAN, f32::NAN]] {
        let ours = explain(&ensemble, &row);
        assert!(ours.iter().all(|value| value.is_finite()));
        assert_eq!(ours[2], 3.5);
        check_sums(&ensemble, &row, &ours);
    }
}

#[test]
fn covers_are_read_only_to_explain() {
    let file = stored("3.1.3", "regression.ubj");
    let ensemble = xgboost::read(&file).expect("a model");
    assert!(ensemble.trees.iter().all(|tree| tree.covers.is_empty()));
    assert!(Explainer::new(&ensemble).is_err());
    let explainer = Explainer::read(&file).expect("a model with covers");
    let row = vec![0.5; explainer.num_features()];
    let mut out = vec![0.0; explainer.num_values()];
    explainer.explain(&row, &mut out, || {}).expect("a row");
    assert_eq!(out, explain(&read(&file).expect("a model"), &row));
    let short = String::from_utf8(stored("3.1.3", "linear-text.json")).expect("text");
    assert!(Explainer::read(short.as_bytes()).is_ok());
    let cut = String::from_utf8(stored("3.1.3", "regression-text.json")).expect("text");
    let cut = cut.replacen("\"sum_hessian\":[", "\"sum_hessian\":[1,", 1);
    assert!(xgboost::read(cut.as_bytes()).is_ok());
    let error = Explainer::read(cut.as_bytes()).expect_err("one cover too many");
    assert!(error.to_string().contains("sum_hessian: "), "{error}");
}

#[test]
fn rows_and_room_are_checked() {
    let ensemble = model_of(vec![chain(3, 3, &mut Random::new(9))], 3);
    let explainer = Explainer::new(&ensemble).expect("a model");
    assert_eq!((explainer.num_features(), explainer.num_outputs(), explainer.num_values()), (3, 1, 4));
    let explain = |rows: usize, room: usize| explainer.explain(&vec![1.0; rows], &mut vec![0.0; room], || {});
    assert_eq!(explain(7, 8), Err(PredictError::Rows { features: 3, found: 7 }));
    assert_eq!(explain(6, 9), Err(PredictError::Output { expected: 8, found: 9 }));
    assert_eq!(explain(0, 0), Ok(()));
    assert_eq!(explain(6, 8), Ok(()));
}

#[test]
fn work_can_be_stopped_between_trees_and_between_rows() {
    struct Stop;
    let random = &mut Random::new(10);
    let trees: Vec<Tree> = (0..50).map(|_| chain(1000, 50, random)).collect();
    let explainer = Explainer::new(&model_of(trees, 50)).expect("a model");
    for rows in [1, 500] {
        let rows = vec![1.0; rows * 50];
        let mut out = vec![0.0; rows.len() / 50 * 51];
        let mut ticks = 0;
        let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            explainer.explain(&rows, &mut out, || {
                ticks += 1;
                if ticks == 3 {
                    std::panic::resume_unwind(Box::new(Stop));
                }
            })
        }));
        assert!(stopped.is_err_and(|stop| stop.is::<Stop>()));
    }
}
