//! Explanations of the families of trees: against Shapley's formula over all sets of features, and against predictions.

use bytes::Bytes;
use forest::double::{Link, Node, Trees};

use crate::families::boosting::catboost;
use crate::families::ensemble::ada_boost;
use crate::families::ensemble::bagging;
use crate::families::ensemble::gradient_boosting_trees;
use crate::families::ensemble::hist_gradient_boosting;
use crate::families::ensemble::random_forest;
use crate::families::fit;
use crate::families::testing::{classification, given, regression};
use crate::family::{Control, Explainer, Family, Predict, Problem, Stored, Task};
use crate::random::Random;

const FAMILIES: &[(&Family, &str)] = &[
    (&random_forest::REGRESSOR, r#"{"n_estimators": 10}"#),
    (&random_forest::CLASSIFIER, r#"{"n_estimators": 10, "max_depth": 6}"#),
    (&random_forest::EXTRA_REGRESSOR, r#"{"n_estimators": 10, "max_leaf_nodes": 12}"#),
    (&random_forest::EXTRA_CLASSIFIER, r#"{"n_estimators": 10, "criterion": "entropy"}"#),
    (&bagging::REGRESSOR, "{}"),
    (&bagging::CLASSIFIER, r#"{"max_features": 0.5}"#),
    (&ada_boost::CLASSIFIER, r#"{"n_estimators": 20}"#),
    (&gradient_boosting_trees::REGRESSOR, r#"{"n_estimators": 20}"#),
    (&gradient_boosting_trees::REGRESSOR, r#"{"n_estimators": 20, "loss": "absolute_error", "subsample": 0.5}"#),
    (&gradient_boosting_trees::CLASSIFIER, r#"{"n_estimators": 20}"#),
    (&hist_gradient_boosting::REGRESSOR, r#"{"max_iter": 20, "loss": "poisson"}"#),
    (&hist_gradient_boosting::CLASSIFIER, r#"{"max_iter": 20}"#),
    (&catboost::REGRESSOR, r#"{"iterations": 20}"#),
    (&catboost::CLASSIFIER, r#"{"iterations": 20, "depth": 4}"#),
];
const WIDTH: usize = 4;

/// Numbers, some of them missing, and a column of categories, and labels that depend on all of it.
fn rows() -> (Vec<f32>, Vec<f32>) {
    let mut random = Random::new(5);
    let (mut features, mut labels) = (Vec::new(), Vec::new());
    for _ in 0..300 {
        let (a, b, category) = (random.normal() as f32, random.unit() as f32, random.index(6));
        let gap = random.unit() < 0.2;
        labels.push((a * b + (category * 5 % 4) as f32 + if gap { 2.0 } else { b }).abs());
        features.extend([a, if gap { f32::NAN } else { b }, (a * 3.0).round(), category as f32]);
    }
    (features, labels)
}

/// The arrays of a stored model of trees.
struct Oracle {
    stored: Stored,
}

impl Oracle {
    /// What the model says of a row of which only the features of `known`, a bit each, are known.
    fn expected(&self, row: &[f32], known: usize) -> Vec<f64> {
        let array = |name: &str| self.stored.array::<f64>(name).unwrap().to_vec();
        let (values, base, covers) = (array("values"), array("base"), self.stored.array::<f32>("covers").unwrap());
        let nodes = self.stored.array::<u32>("nodes").unwrap();
        let nodes: &[Node] = bytemuck::cast_slice(&nodes);
        let (roots, sets) =
            (self.stored.array::<u32>("roots").unwrap(), self.stored.array::<u32>("categories").unwrap());
        let size = self.stored.count("size").unwrap();
        let mut sums = vec![0.0; base.len()];
        for (tree, root) in roots.iter().take(roots.len() - 1).enumerate() {
            let mut open = vec![(*root as usize, 1.0)];
            while let Some((at, share)) = open.pop() {
                let node = nodes[at];
                if node.is_leaf() {
                    let leaf = node.left as usize;
                    let first = if size == 1 { tree % base.len() } else { 0 };
                    (0..size).for_each(|value| sums[first + value] += share * values[leaf + value]);
                    continue;
                }
                let (left, right) = (node.left as usize, node.right as usize);
                if known >> node.column() & 1 == 1 {
                    // A tree of this node and two leaves says which way the row goes.
                    let nodes = [Node { left: 1, right: 2, ..node }, Node::leaf(0), Node::leaf(1)];
                    let one = Trees {
                        nodes: &nodes,
                        roots: &[0, 3],
                        values: &[0.0; 2],
                        categories: &sets,
                        outputs: 1,
                        size: 1,
                    };
                    open.push(([left, right][one.leaf(0, row)], share));
                } else {
                    let all = f64::from(covers[at]);
                    let part = |child: usize| if all > 0.0 { f64::from(covers[child]) / all } else { 0.5 };
                    open.extend([(left, share * part(left)), (right, share * part(right))]);
                }
            }
        }
        let divisor = self.stored.number("divisor").unwrap();
        sums.iter().zip(base).map(|(sum, base)| base + sum / divisor).collect()
    }

    /// Shapley's values of a row, as `explain` orders them.
    fn shapley(&self, row: &[f32]) -> Vec<f64> {
        let of_sets: Vec<Vec<f64>> = (0..1 << WIDTH).map(|known| self.expected(row, known)).collect();
        let factorial = |n: usize| (1..=n).product::<usize>() as f64;
        let mut values = Vec::new();
        for (output, bias) in of_sets[0].iter().enumerate() {
            for feature in 0..WIDTH {
                let others = (0..1_usize << WIDTH).filter(|known| known >> feature & 1 == 0);
                values.push(others.fold(0.0, |sum, known| {
                    let count = known.count_ones() as usize;
                    let weight = factorial(count) * factorial(WIDTH - 1 - count) / factorial(WIDTH);
                    sum + weight * (of_sets[known | 1 << feature][output] - of_sets[known][output])
                }));
            }
            values.push(*bias);
        }
        values
    }
}

fn train(family: &Family, problem: &Problem<'_>, hyperparams: &str) -> (Oracle, Box<dyn Predict>) {
    let mut ask = |_| Ok(());
    let given = given(family, hyperparams).unwrap();
    let model = fit(family, problem, &given, &mut Control::new(&mut ask)).unwrap();
    let stored = Stored::read(Bytes::from(model.to_bytes(&[]).unwrap())).unwrap();
    let opened = crate::forms::open(&stored).unwrap();
    (Oracle { stored }, opened)
}

fn explain(model: &dyn Predict, rows: &[f32]) -> Vec<f32> {
    let [explainer] = &model.explainers().unwrap()[..] else { panic!("one forest, one explainer") };
    let mut out = vec![0.0; rows.len() / WIDTH * explainer.num_values()];
    explainer.explain(rows, &mut out, || {}).unwrap();
    out
}

#[test]
fn contributions_are_shapleys_and_add_up_to_the_prediction() {
    let (features, labels) = rows();
    let classes: Vec<f32> = labels.iter().map(|label| (label * 1.5).floor().min(2.0)).collect();
    let two: Vec<f32> = classes.iter().map(|class| class.min(1.0)).collect();
    let categories = [None, None, None, Some(6)];
    // What training did not meet, too.
    let strange = [f32::NAN, 9e30, -1.0, f32::NAN, 0.1, f32::NAN, f32::INFINITY, 77.0];
    let asked: Vec<f32> = features[..6 * WIDTH].iter().chain(&strange).copied().collect();
    for (family, hyperparams) in FAMILIES {
        let labels: &[&[f32]] = if family.task == Task::Regression { &[&labels] } else { &[&classes, &two] };
        for labels in labels {
            let problem = match family.task {
                Task::Regression => regression(&features, WIDTH, labels),
                _ => classification(&features, WIDTH, labels),
            };
            let (oracle, model) = train(family, &Problem { categories: &categories, ..problem }, hyperparams);
            let name = oracle.stored.text("link").unwrap();
            let link = Link::NAMES.iter().find(|(known, _)| *known == name).unwrap().1;
            let found = explain(model.as_ref(), &asked);
            let per_row = found.len() / (asked.len() / WIDTH);
            for (row, found) in asked.chunks(WIDTH).zip(found.chunks(per_row)) {
                let expected = oracle.shapley(row);
                let most = expected.iter().fold(1e-3, |most: f64, value| most.max(value.abs()));
                for (found, expected) in found.iter().zip(&expected) {
                    let close = (f64::from(*found) - expected).abs() < 1e-6 * most;
                    assert!(close, "{} {hyperparams} {row:?}: {found} {expected}", family.name);
                }
                let mut sums: Vec<f64> =
                    found.chunks(WIDTH + 1).map(|own| own.iter().copied().map(f64::from).sum()).collect();
                let (mut added, mut predicted) = (vec![0.0; model.values()], vec![0.0; model.values()]);
                link.apply(oracle.stored.number("scale").unwrap(), &mut sums, &mut added);
                model.predict(row, &mut predicted);
                for (added, predicted) in added.iter().zip(&predicted) {
                    let close = (added - predicted).abs() <= 2e-6 * predicted.abs().max(1.0);
                    assert!(close, "{} {hyperparams} {row:?}: {added} {predicted}", family.name);
                }
            }
        }
    }
}

#[test]
fn nodes_that_share_their_children_are_refused() {
    let last = 64;
    let nodes: Vec<Node> = (0..last).map(|at| Node::numeric(0, 1.0, true, at + 1, at + 1)).collect();
    let nodes = [nodes, vec![Node::leaf(0)]].concat();
    let roots = [0, nodes.len() as u32];
    let trees = Trees { nodes: &nodes, roots: &roots, values: &[1.0], categories: &[], outputs: 1, size: 1 };
    trees.check(1).unwrap();
    let error = Explainer::of_trees(&trees, &[1.0; 65], 1, &[0.0], 1.0).unwrap_err().to_string();
    assert!(error.contains("child of two"), "{error}");
}

#[test]
fn a_median_of_trees_is_not_explained() {
    let (features, labels) = rows();
    let (_, model) = train(&ada_boost::REGRESSOR, &regression(&features, WIDTH, &labels), r#"{"n_estimators": 5}"#);
    let error = model.explainers().unwrap_err().to_string();
    assert!(error.contains("do not add up"), "{error}");
}

/// As scikit-learn counts: what a split takes from the impurity of its rows, times their weight.
#[test]
fn gains_are_what_splits_lower_the_criterion_by() {
    let features: Vec<f32> = [[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]].concat();
    let labels = [0.0, 1.0, 10.0, 15.0];
    let hyperparams = r#"{"n_estimators": 1, "bootstrap": false, "max_features": null}"#;
    let (_, model) = train(&random_forest::REGRESSOR, &regression(&features, 2, &labels), hyperparams);
    let splits = model.splits().unwrap();
    // The squares about the mean: 161 before the first split, 0.5 and 12.5 after it, none at the end.
    assert_eq!((splits[0].count, splits[1].count), (1, 2));
    assert!((splits[0].gain.unwrap() - 144.0).abs() < 1e-3, "{:?}", splits[0]);
    assert!((splits[1].gain.unwrap() - 13.0).abs() < 1e-3, "{:?}", splits[1]);
    let classes = [0.0, 0.0, 1.0, 1.0];
    let (_, model) = train(&random_forest::CLASSIFIER, &classification(&features, 2, &classes), hyperparams);
    // Four rows, each of which another one differs from with probability one half, and none in the end.
    assert_eq!(model.splits().unwrap()[0].gain, Some(2.0));
}
