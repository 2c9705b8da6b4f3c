//! Every layout and every kernel answers what the plain kernel and the real library answer, bit by bit.

#![allow(clippy::panic, clippy::expect_used, clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod common;

use std::collections::BTreeMap;

use common::{Random, Spec, hostile_rows, random_model};
use forest::ensemble::{Linear, Node, Transform, Tree};
use forest::{Ensemble, Forest, Form, Kernel, compile_as, xgboost};

const FORMS: [Form; 6] = [Form::Auto, Form::Rank, Form::Compact, Form::Wide, Form::Perfect(3), Form::Perfect(10)];

fn thresholds(ensemble: &Ensemble) -> Vec<(u32, f32)> {
    let nodes = ensemble.trees.iter().flat_map(|tree| &tree.nodes);
    nodes
        .filter_map(|node| match node {
            Node::Numeric { feature, threshold, .. } => Some((*feature, *threshold)),
            _ => None,
        })
        .collect()
}

fn assert_same_bits(what: &str, rows: &[f32], features: usize, ours: &[f32], theirs: &[f32]) {
    assert_eq!(ours.len(), theirs.len(), "{what}: number of values");
    for (i, (ours_i, theirs_i)) in ours.iter().zip(theirs).enumerate() {
        let same = ours_i.to_bits() == theirs_i.to_bits() || (ours_i.is_nan() && theirs_i.is_nan());
        if !same {
            let row = i * (rows.len() / features.max(1)) / ours.len();
            let values = &rows[row * features..(row + 1) * features];
            panic!("{what}: value {i}: {ours_i:?}, expected {theirs_i:?}, row {row} {values:?}");
        }
    }
}

/// What the oracle says: margins and values.
fn expected(ensemble: &Ensemble, rows: &[f32], count: usize) -> (Vec<f32>, Vec<f32>) {
    let features = ensemble.num_features as usize;
    let (mut margins, mut values) = (Vec::new(), Vec::new());
    for r in 0..count {
        let mut out = vec![0.0; ensemble.num_outputs as usize];
        ensemble.margin(&rows[r * features..(r + 1) * features], &mut out);
        margins.extend_from_slice(&out);
        let count = ensemble.transform.apply(&mut out);
        values.extend_from_slice(&out[..count]);
    }
    (margins, values)
}

/// Compiles in every form and predicts by every kernel in every way.
fn check(what: &str, ensemble: &Ensemble, rows: &[f32], margins: &[f32], values: &[f32]) {
    for form in FORMS {
        let what = format!("{what}, {form:?}");
        let image = compile_as(ensemble, what.as_bytes(), form).unwrap_or_else(|error| panic!("{what}: {error}"));
        let forest = Forest::open(image.as_slice()).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(forest.metadata(), what.as_bytes());
        assert_eq!(forest.objective(), ensemble.objective);
        assert_eq!(forest.num_trees(), ensemble.trees.len());
        for kernel in [Kernel::Scalar, Kernel::Rank] {
            let forest = Forest::open(image.as_slice()).unwrap();
            if let Some(forest) = forest.with_kernel(kernel) {
                check_kernel(&format!("{what}, {kernel:?}"), &forest, rows, margins, values);
            }
        }
    }
}

fn check_kernel(what: &str, forest: &Forest<&[u8]>, rows: &[f32], margins: &[f32], values: &[f32]) {
    let (features, outputs, width) = (forest.num_features(), forest.num_outputs(), forest.num_values());
    let count = margins.len() / outputs;
    let mut out = vec![7.0; margins.len()];
    forest.margin_batch(rows, &mut out).unwrap();
    assert_same_bits(&format!("{what}, batch margin"), rows, features, &out, margins);
    let mut out = vec![7.0; values.len()];
    forest.predict_batch(rows, &mut out).unwrap();
    assert_same_bits(&format!("{what}, batch value"), rows, features, &out, values);
    for r in 0..count.min(70) {
        let row = &rows[r * features..(r + 1) * features];
        let mut out = vec![7.0; outputs];
        forest.margin_row(row, &mut out).unwrap();
        assert_same_bits(&format!("{what}, row margin"), row, features, &out, &margins[r * outputs..][..outputs]);
        let mut out = vec![7.0; width];
        forest.predict_row(row, &mut out).unwrap();
        assert_same_bits(&format!("{what}, row value"), row, features, &out, &values[r * width..][..width]);
    }
}

fn check_against_library(seed: u64, spec: &Spec) {
    let model = random_model(seed, spec);
    let ensemble = xgboost::read(&model.ubj).unwrap_or_else(|error| panic!("seed {seed}, {spec:?}: {error}"));
    let mut rows = hostile_rows(seed, 200, &model, &thresholds(&ensemble));
    if spec.booster == "gblinear" {
        // A DMatrix refuses infinities, and nothing else predicts with gblinear.
        rows.iter_mut().filter(|x| x.is_infinite()).for_each(|x| *x = f32::NAN);
    }
    let margins = model.predict(&rows, true).expect("margins");
    let values = model.predict(&rows, false).expect("predictions");
    check(&format!("seed {seed}, {spec:?}"), &ensemble, &rows, &margins, &values);
}

#[test]
fn depths_from_1_to_20() {
    for depth in 1..=20 {
        let rows = if depth > 8 { 3000 } else { 600 };
        let spec = Spec { depth, rows, rounds: 9, ..Spec::default() };
        check_against_library(depth as u64, &spec);
    }
}

#[test]
fn from_1_to_2000_trees() {
    for (rounds, depth) in [(1, 6), (2, 1), (3, 4), (7, 5), (16, 6), (25, 6), (100, 6), (1000, 2), (2000, 3)] {
        let spec = Spec { rounds, depth, rows: 300, ..Spec::default() };
        check_against_library(rounds as u64, &spec);
    }
}

#[test]
fn from_1_to_500_features() {
    for features in [1, 2, 7, 8, 9, 11, 31, 64, 500] {
        let spec = Spec { features, depth: 5, rounds: 20, ..Spec::default() };
        check_against_library(features as u64, &spec);
    }
}

#[test]
fn from_2_to_20_classes() {
    for (outputs, objective) in
        [(2, "multi:softmax"), (3, "multi:softprob"), (20, "multi:softmax"), (20, "multi:softprob")]
    {
        let spec = Spec { outputs, objective, depth: 4, rounds: 6, ..Spec::default() };
        check_against_library(outputs as u64, &spec);
    }
}

#[test]
fn several_targets_and_vector_leaves() {
    for (seed, vector_leaves, depth) in [(1, false, 3), (2, true, 3), (3, true, 7), (4, true, 11)] {
        let spec = Spec { outputs: 5, vector_leaves, depth, rows: 1500, ..Spec::default() };
        check_against_library(seed, &spec);
    }
}

#[test]
fn no_missing_and_mostly_missing() {
    for (seed, missing) in [(1, 0.0), (2, 0.5), (3, 0.9), (4, 0.99)] {
        let spec = Spec { missing, depth: 6, rounds: 30, ..Spec::default() };
        check_against_library(seed, &spec);
    }
}

#[test]
fn categorical_splits() {
    for (seed, categorical, categories, depth) in
        [(1, 1.0, 3, 4), (2, 0.5, 12, 6), (3, 0.3, 60, 5), (4, 0.5, 300, 6), (5, 1.0, 33, 12), (6, 0.5, 129, 3)]
    {
        let spec = Spec { categorical, categories, depth, rows: 1500, rounds: 20, ..Spec::default() };
        check_against_library(seed, &spec);
    }
}

#[test]
fn dart_forests_and_linear_models() {
    for (seed, booster, num_parallel_tree, outputs, objective) in [
        (1, "dart", 1, 1, "reg:squarederror"),
        (2, "dart", 2, 3, "multi:softprob"),
        (3, "gbtree", 20, 1, "binary:logistic"),
        (4, "gblinear", 1, 1, "reg:squarederror"),
        (5, "gblinear", 1, 4, "multi:softprob"),
    ] {
        let spec = Spec { booster, num_parallel_tree, outputs, objective, ..Spec::default() };
        check_against_library(seed, &spec);
    }
}

/// Trees that no training makes: any depth beside any other, any threshold, any leaf, categories anywhere.
struct Wild {
    random: Random,
    features: u32,
    outputs: u32,
    vector: bool,
    categorical: f32,
    thresholds: Vec<Vec<f32>>,
}

impl Wild {
    fn float(&mut self) -> f32 {
        match self.random.below(12) {
            0 => *self.random.pick(&[f32::INFINITY, f32::NEG_INFINITY, 0.0, -0.0, f32::MAX, f32::MIN, 1e-45, -1e-45]),
            1 => f32::from_bits(self.random.bits() as u32),
            _ => (self.random.unit() - 0.5) * 10.0,
        }
    }

    fn leaf(&mut self) -> Node {
        let mut value = || match self.random.below(20) {
            0 => -0.0,
            1 => 1e-40,
            2 => 3e37,
            _ => self.random.unit() - 0.5,
        };
        if self.vector { Node::VectorLeaf((0..self.outputs).map(|_| value()).collect()) } else { Node::Leaf(value()) }
    }

    fn tree(&mut self, depth: usize, most: usize) -> Tree {
        let mut nodes = vec![Node::Leaf(0.0)];
        let mut open = std::collections::VecDeque::from([(0usize, 0usize)]);
        while let Some((index, level)) = open.pop_front() {
            let splits = level < depth && nodes.len() + 2 <= most && (level == 0 || self.random.chance(0.85));
            if !splits {
                nodes[index] = self.leaf();
                continue;
            }
            // Children in no particular order.
            let (mut left, mut right) = (nodes.len() as u32, nodes.len() as u32 + 1);
            if self.random.chance(0.3) {
                std::mem::swap(&mut left, &mut right);
            }
            nodes.extend([Node::Leaf(0.0), Node::Leaf(0.0)]);
            open.extend([(left as usize, level + 1), (right as usize, level + 1)]);
            let feature = self.random.below(self.features as usize) as u32;
            let default_left = self.random.chance(0.5);
            nodes[index] = if self.random.chance(self.categorical) {
                let most = *self.random.pick(&[3, 31, 40, 200, 300]);
                let mut categories: Vec<u32> =
                    (0..self.random.below(12)).map(|_| self.random.below(most) as u32).collect();
                categories.sort_unstable();
                categories.dedup();
                Node::Categorical { feature, categories, default_left, left, right }
            } else {
                let threshold = *self.random.pick(&self.thresholds[feature as usize]);
                Node::Numeric { feature, threshold, default_left, left, right }
            };
        }
        let weight = self.random.chance(0.3).then(|| self.random.unit());
        Tree {
            nodes,
            covers: Vec::new(),
            gains: Vec::new(),
            output: self.random.below(self.outputs as usize) as u32,
            weight,
        }
    }

    fn ensemble(&mut self, distinct: usize, depths: impl Iterator<Item = usize>) -> Ensemble {
        self.thresholds = (0..self.features)
            .map(|_| {
                let count = self.random.between(1, distinct);
                (0..count).map(|_| self.float()).filter(|x| !x.is_nan()).chain([0.5]).collect()
            })
            .collect();
        let trees = depths.map(|depth| self.tree(depth, 3000)).collect();
        Ensemble {
            num_features: self.features,
            num_outputs: self.outputs,
            base_margin: (0..self.outputs).map(|o| o as f32 * 0.1 - 0.3).collect(),
            trees,
            linear: None,
            transform: *self.random.pick(&[Transform::Identity, Transform::Sigmoid, Transform::Argmax, Transform::Exp]),
            objective: "any".to_owned(),
            feature_names: Vec::new(),
            feature_types: Vec::new(),
            attributes: BTreeMap::new(),
        }
    }

    fn rows(&mut self, count: usize) -> Vec<f32> {
        let mut rows = Vec::with_capacity(count * self.features as usize);
        for _ in 0..count {
            let missing = *self.random.pick(&[0.0, 0.0, 0.1, 0.9]);
            for f in 0..self.features as usize {
                let threshold = *self.random.pick(&self.thresholds[f]);
                rows.push(match self.random.below(8) {
                    _ if self.random.chance(missing) => {
                        f32::from_bits(0x7fc0_0000 | (self.random.bits() as u32 & 0x803f_ffff))
                    }
                    0 => threshold,
                    1 => threshold.next_up(),
                    2 => threshold.next_down(),
                    3 => self.random.below(320) as f32,
                    4 => -threshold,
                    _ => self.float(),
                });
            }
        }
        rows
    }
}

fn check_wild(
    seed: u64,
    features: u32,
    outputs: u32,
    vector: bool,
    categorical: f32,
    distinct: usize,
    depths: &[usize],
) {
    let mut wild = Wild { random: Random::new(seed), features, outputs, vector, categorical, thresholds: Vec::new() };
    let ensemble = wild.ensemble(distinct, depths.iter().copied());
    // Not a multiple of any block.
    let count = 333;
    let rows = wild.rows(count);
    let (margins, values) = expected(&ensemble, &rows, count);
    check(&format!("wild {seed}"), &ensemble, &rows, &margins, &values);
}

#[test]
fn trees_of_any_shape_beside_one_another() {
    let mut random = Random::new(99);
    for seed in 0..60 {
        let deepest = *random.pick(&[1, 3, 6, 7, 9, 14, 20]);
        let trees = *random.pick(&[1, 2, 5, 17, 40, 100]);
        let depths: Vec<usize> = (0..trees).map(|_| random.below(deepest + 1)).collect();
        let features = *random.pick(&[1, 2, 5, 11, 17, 40, 300]);
        let outputs = *random.pick(&[1, 1, 2, 7]);
        let categorical = *random.pick(&[0.0, 0.0, 0.05, 0.5]);
        let distinct = *random.pick(&[1, 6, 40, 250, 2000]);
        check_wild(seed, features, outputs, random.chance(0.2), categorical, distinct, &depths);
    }
}

#[test]
fn shallow_and_deep_trees_in_turns() {
    let depths: Vec<usize> = (0..60).map(|i| if i % 20 < 10 { 3 } else { 12 }).collect();
    check_wild(1, 11, 1, false, 0.0, 100, &depths);
    let depths: Vec<usize> = (0..60).map(|i| if i % 2 == 0 { 2 } else { 11 }).collect();
    check_wild(2, 11, 3, false, 0.02, 100, &depths);
}

#[test]
fn more_features_than_slots() {
    check_wild(3, 5000, 1, false, 0.1, 3, &[12; 40]);
}

#[test]
fn models_without_trees_and_without_features() {
    let mut ensemble = Ensemble {
        num_features: 0,
        num_outputs: 2,
        base_margin: vec![0.5, -1.0],
        trees: Vec::new(),
        linear: None,
        transform: Transform::Softmax,
        objective: "multi:softprob".to_owned(),
        feature_names: Vec::new(),
        feature_types: Vec::new(),
        attributes: BTreeMap::new(),
    };
    let (margins, values) = expected(&ensemble, &[], 5);
    check("nothing", &ensemble, &[], &margins, &values);
    ensemble.trees =
        vec![Tree { nodes: vec![Node::Leaf(0.25)], covers: Vec::new(), gains: Vec::new(), output: 1, weight: None }; 3];
    let (margins, values) = expected(&ensemble, &[], 5);
    check("only leaves", &ensemble, &[], &margins, &values);
    ensemble.num_features = 3;
    ensemble.linear = Some(Linear { weights: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0], bias: vec![0.1, 0.2] });
    let rows = [1.0, f32::NAN, -2.0, 0.0, 0.5, 0.25];
    let (margins, values) = expected(&ensemble, &rows, 2);
    check("linear and leaves", &ensemble, &rows, &margins, &values);
}

/// Ranks need AVX2, as these tests' machines have; elsewhere there is nothing to test.
fn ranked(ensemble: &Ensemble, form: Form) -> Option<Forest<Vec<u8>>> {
    let forest = Forest::open(compile_as(ensemble, &[], form).unwrap()).unwrap();
    #[cfg(target_arch = "x86_64")]
    assert!(!is_x86_feature_detected!("avx2") || forest.kernel() == Kernel::Rank, "not predicted by ranks");
    forest.with_kernel(Kernel::Rank)
}

#[test]
fn any_number_of_rows_from_1_to_130() {
    for (features, outputs) in [(11, 1), (40, 3)] {
        let mut wild =
            Wild { random: Random::new(5), features, outputs, vector: false, categorical: 0.0, thresholds: Vec::new() };
        let ensemble = wild.ensemble(100, (0..70).map(|i| i % 8));
        let Some(forest) = ranked(&ensemble, Form::Rank) else { return };
        let rows = wild.rows(130);
        let (margins, values) = expected(&ensemble, &rows, 130);
        for count in 1..=130 {
            let rows = &rows[..count * features as usize];
            let margins = &margins[..count * outputs as usize];
            let values = &values[..count * forest.num_values()];
            let mut out = vec![7.0; margins.len()];
            forest.margin_batch(rows, &mut out).unwrap();
            assert_same_bits(&format!("{count} rows, margin"), rows, features as usize, &out, margins);
            let mut out = vec![7.0; values.len()];
            forest.predict_batch(rows, &mut out).unwrap();
            assert_same_bits(&format!("{count} rows, value"), rows, features as usize, &out, values);
        }
    }
}

#[test]
fn ranks_of_any_number_of_thresholds() {
    // One line, whole groups, a whole byte, one more than a byte, many bytes; one chunk of columns to four.
    for (seed, thresholds) in [1, 2, 15, 16, 17, 31, 32, 33, 240, 254, 255, 256, 510, 511, 1500].into_iter().enumerate()
    {
        let random = Random::new(seed as u64);
        let mut wild =
            Wild { random, features: 3, outputs: 1, vector: false, categorical: 0.0, thresholds: Vec::new() };
        let mut ensemble = wild.ensemble(1, std::iter::repeat_n(8, 40));
        let numbers: Vec<f32> = (0..thresholds).map(|i| (i as f32 - 8.0) * 0.25).collect();
        wild.thresholds = vec![numbers.clone(); 3];
        for (i, node) in ensemble.trees.iter_mut().flat_map(|tree| &mut tree.nodes).enumerate() {
            if let Node::Numeric { threshold, .. } = node {
                *threshold = numbers[i % thresholds];
            }
        }
        let Some(forest) = ranked(&ensemble, Form::Rank) else { return };
        let rows = wild.rows(300);
        let (margins, values) = expected(&ensemble, &rows, 300);
        let image = forest.image().to_vec();
        let forest = Forest::open(image.as_slice()).unwrap();
        check_kernel(&format!("{thresholds} thresholds"), &forest, &rows, &margins, &values);
    }
}

#[test]
fn histogram_training_gives_models_that_ranks_predict() {
    for depth in 1..=8 {
        let spec = Spec { depth, rows: 5000, rounds: 40, features: 11, ..Spec::default() };
        let model = random_model(depth as u64, &spec);
        let ensemble = xgboost::read(&model.ubj).unwrap();
        let Some(forest) = ranked(&ensemble, Form::Auto) else { return };
        let rows = hostile_rows(1, 200, &model, &thresholds(&ensemble));
        let mut out = vec![7.0; 200];
        forest.margin_batch(&rows, &mut out).unwrap();
        assert_same_bits(&format!("depth {depth}"), &rows, 11, &out, &model.predict(&rows, true).unwrap());
    }
}
