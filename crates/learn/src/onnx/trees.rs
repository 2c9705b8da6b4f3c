//! ONNX's trees, as trees of `crates/forest` that are summed in float64.

use std::collections::HashMap;

use forest::double::{Link, Node, Noted, threshold_of};
use forest::error::Result;

use super::lower::{Call, Lower};
use super::message::Node as Operator;
use super::pipeline::{Transform, both, classes, classified, pair, transform, transformed};
use super::protobuf::room;
use super::value::{Constant, Kind, Lanes, Value};
use crate::families::forms::program::Binary;
use crate::families::forms::trees::Ensemble;

pub(super) const OPERATORS: &[(&str, &str, Lower)] =
    &[("ai.onnx.ml", "TreeEnsembleRegressor", regressor), ("ai.onnx.ml", "TreeEnsembleClassifier", classifier)];

/// The attributes of an ensemble, each a list by nodes or by leaves' weights.
struct Attributes<'a> {
    tree: Vec<i64>,
    node: Vec<i64>,
    feature: Vec<i64>,
    mode: Vec<&'a str>,
    threshold: Vec<f64>,
    yes: Vec<i64>,
    no: Vec<i64>,
    missing_yes: Vec<i64>,
    /// For each weight the node, the output and the number.
    weights: HashMap<(i64, i64), Vec<(usize, f64)>>,
    /// Outputs that have a weight.
    weighted: Vec<bool>,
}

impl<'a> Attributes<'a> {
    fn read(node: &Operator<'a>, leaf: &str, outputs: usize) -> Result<Attributes<'a>> {
        let named = |name: &str| node.ints(&format!("{leaf}_{name}"));
        let (trees, nodes, ids) = (named("treeids")?, named("nodeids")?, named("ids")?);
        let numbers = node.doubles(&format!("{leaf}_weights"))?;
        if [nodes.len(), ids.len(), numbers.len()].iter().any(|length| *length != trees.len()) {
            return Err(node.invalid(format!("its lists {leaf}_* are not of one length")));
        }
        let (mut weights, mut weighted) = (HashMap::<_, Vec<_>>::new(), vec![false; outputs]);
        for (((tree, at), id), number) in trees.iter().zip(&nodes).zip(&ids).zip(&numbers) {
            let output = usize::try_from(*id).ok().filter(|output| *output < outputs);
            let output =
                output.ok_or_else(|| node.invalid(format!("a leaf has a weight of output {id}, of {outputs}")))?;
            weights.entry((*tree, *at)).or_default().push((output, *number));
            weighted[output] = true;
        }
        let attributes = Attributes {
            tree: node.ints("nodes_treeids")?,
            node: node.ints("nodes_nodeids")?,
            feature: node.ints("nodes_featureids")?,
            mode: node.texts("nodes_modes")?,
            threshold: node.doubles("nodes_values")?,
            yes: node.ints("nodes_truenodeids")?,
            no: node.ints("nodes_falsenodeids")?,
            missing_yes: node.ints("nodes_missing_value_tracks_true")?,
            weights,
            weighted,
        };
        let length = attributes.tree.len();
        let lists = [&attributes.node, &attributes.feature, &attributes.yes, &attributes.no];
        let same = lists.iter().all(|list| list.len() == length)
            && attributes.mode.len() == length
            && attributes.threshold.len() == length
            && (attributes.missing_yes.is_empty() || attributes.missing_yes.len() == length);
        match same {
            true => Ok(attributes),
            false => Err(node.invalid("its lists nodes_* are not of one length")),
        }
    }

    /// The nodes of each tree, by their own numbers, in the order of the trees.
    fn trees(&self, node: &Operator<'_>) -> Result<Vec<(i64, HashMap<i64, usize>)>> {
        let mut trees: Vec<(i64, HashMap<i64, usize>)> = Vec::new();
        let mut places: HashMap<i64, usize> = HashMap::new();
        for (index, (tree, own)) in self.tree.iter().zip(&self.node).enumerate() {
            let place = *places.entry(*tree).or_insert_with(|| {
                trees.push((*tree, HashMap::new()));
                trees.len() - 1
            });
            if trees[place].1.insert(*own, index).is_some() {
                return Err(node.invalid(format!("node {own} of tree {tree} is there twice")));
            }
        }
        Ok(trees)
    }

    /// The one output that all leaves of a tree have weights of.
    fn output(&self, tree: i64, nodes: &HashMap<i64, usize>) -> Option<usize> {
        let mut found = None;
        for node in nodes.keys() {
            for (output, _) in self.weights.get(&(tree, *node)).into_iter().flatten() {
                if *found.get_or_insert(*output) != *output {
                    return None;
                }
            }
        }
        found
    }
}

/// A tree on its way: its nodes with children behind their parents, and the values of its leaves.
struct Tree {
    nodes: Vec<Node>,
    values: Vec<f64>,
}

/// One tree, whose leaves have `size` values: those of all outputs, or of the one that is said.
fn tree(
    call: &mut Call<'_, '_>,
    attributes: &Attributes<'_>,
    (id, places): &(i64, HashMap<i64, usize>),
    size: usize,
    width: usize,
) -> Result<Tree> {
    let node = call.node;
    // The root is the node that is nobody's child.
    let mut is_child = std::collections::HashSet::new();
    for index in places.values().filter(|index| attributes.mode[**index] != "LEAF") {
        is_child.extend([attributes.yes[*index], attributes.no[*index]]);
    }
    let root = attributes.tree.iter().zip(&attributes.node).find(|(tree, own)| *tree == id && !is_child.contains(own));
    let root =
        root.and_then(|(_, own)| places.get(own)).ok_or_else(|| node.invalid(format!("tree {id} has no root")))?;
    let mut tree = Tree { nodes: Vec::new(), values: Vec::new() };
    room(&mut tree.nodes, places.len())?;
    tree.nodes.push(Node::leaf(0));
    let mut open = vec![(*root, 0_usize)];
    while let Some((index, at)) = open.pop() {
        let own = attributes.node[index];
        if attributes.mode[index] == "LEAF" {
            let leaf = tree.values.len() / size;
            call.spend(size)?;
            room(&mut tree.values, size)?;
            tree.values.resize(tree.values.len() + size, 0.0);
            for (output, weight) in attributes.weights.get(&(*id, own)).into_iter().flatten() {
                tree.values[leaf * size + if size == 1 { 0 } else { *output }] += weight;
            }
            tree.nodes[at] = Node::leaf(leaf as u32);
            continue;
        }
        // A tree has no more nodes than there are: one that is met twice is a circle, or two parents'.
        if tree.nodes.len() + 2 > places.len() {
            return Err(node.invalid(format!("node {own} of tree {id} comes twice on the way down")));
        }
        let child =
            |own: i64| places.get(&own).copied().ok_or_else(|| node.invalid(format!("tree {id} has no node {own}")));
        let (yes, no) = (child(attributes.yes[index])?, child(attributes.no[index])?);
        let children = tree.nodes.len();
        tree.nodes.extend([Node::leaf(0), Node::leaf(0)]);
        open.extend([(no, children + 1), (yes, children)]);
        tree.nodes[at] = split(node, attributes, index, children, width)?;
    }
    Ok(tree)
}

/// The split of a node, whose children are `children` (yes) and the one behind it (no).
fn split(
    node: &Operator<'_>,
    attributes: &Attributes<'_>,
    index: usize,
    children: usize,
    width: usize,
) -> Result<Node> {
    let feature = attributes.feature[index];
    let feature = u32::try_from(feature).ok().filter(|feature| (*feature as usize) < width);
    let feature =
        feature.ok_or_else(|| node.invalid(format!("a split of feature {} of {width}", attributes.feature[index])))?;
    let threshold = attributes.threshold[index];
    if threshold.is_nan() {
        return Err(node.invalid("a split at NaN"));
    }
    // Less than goes left here, and missing left or right; there each comparison says yes or no, and missing either.
    let (less, yes_is_left) = match attributes.mode[index] {
        "BRANCH_LEQ" => (threshold_of(threshold), true),
        "BRANCH_GT" => (threshold_of(threshold), false),
        "BRANCH_LT" => (least(threshold), true),
        "BRANCH_GTE" => (least(threshold), false),
        other => return Err(node.unsupported(&format!("a split by {other}"))),
    };
    let missing_yes = attributes.missing_yes.get(index).is_some_and(|flag| *flag != 0);
    let (yes, no) = (children as u32, children as u32 + 1);
    let (left, right) = if yes_is_left { (yes, no) } else { (no, yes) };
    Ok(Node::numeric(feature, less, missing_yes == yes_is_left, left, right))
}

/// The least float32 that is not less than a number: what `x < limit` in float64 is for every finite x.
fn least(limit: f64) -> f32 {
    let nearest = limit as f32;
    if f64::from(nearest) < limit { nearest.next_up() } else { nearest }
}

/// The sums of an ensemble, and which outputs have weights.
fn sums<'a>(call: &mut Call<'a, '_>, leaf: &str, outputs: usize) -> Result<(Lanes, Vec<bool>)> {
    let (lanes, width) = call.table(0)?;
    let node = call.node;
    call.spend(outputs)?;
    let attributes = Attributes::read(node, leaf, outputs)?;
    let mut trees = attributes.trees(node)?;
    // Where each tree is of one output and each output has as many, a leaf has one value: trees in turn.
    let size = match in_turn(&attributes, &trees, outputs) {
        Some(order) => {
            let mut all: Vec<Option<_>> = trees.into_iter().map(Some).collect();
            trees = order.into_iter().filter_map(|index| all[index].take()).collect();
            1
        }
        None => outputs,
    };
    let mut ensemble = Ensemble::new(width, vec![0.0; outputs], size, Link::Identity);
    for part in &trees {
        let Tree { nodes, values } = tree(call, &attributes, part, size, width)?;
        ensemble
            .grove
            .push(&nodes, &[], Noted::default(), &values)
            .map_err(|_| node.invalid("there is no memory for its trees"))?;
    }
    ensemble.divisor = match node.text("aggregate_function", "SUM")? {
        "SUM" => 1.0,
        "AVERAGE" => trees.len().max(1) as f64,
        other => return Err(node.unsupported(&format!("aggregate_function {other}"))),
    };
    let from = call.gather(&lanes.lanes)?;
    call.spend(outputs)?;
    let at = call.program.part(ensemble.model(), from, outputs);
    Ok((Lanes::from(at, vec![outputs], Kind::Float), attributes.weighted))
}

/// The trees in the order in which tree `t` is of output `t % outputs`, where there is one.
fn in_turn(attributes: &Attributes<'_>, trees: &[(i64, HashMap<i64, usize>)], outputs: usize) -> Option<Vec<usize>> {
    let mut own: Vec<Vec<usize>> = vec![Vec::new(); outputs];
    for (index, (tree, nodes)) in trees.iter().enumerate() {
        own[attributes.output(*tree, nodes)?].push(index);
    }
    let rounds = own.first()?.len();
    if own.iter().any(|own| own.len() != rounds) {
        return None;
    }
    Some((0..rounds).flat_map(|round| own.iter().map(move |own| own[round])).collect())
}

/// With what is added to the sums, one number an output.
fn based<'a>(call: &mut Call<'a, '_>, sums: Lanes, base: Vec<f64>) -> Result<Lanes> {
    if base.is_empty() {
        return Ok(sums);
    }
    let (dims, kind) = (vec![base.len()], Kind::Float);
    let data = std::rc::Rc::new(super::message::Data::Numbers(base));
    match super::elementwise::two(
        call,
        Binary::Add,
        &Value::Lanes(sums),
        &Value::Constant(Constant { data, dims, kind }),
    )? {
        Value::Lanes(lanes) => Ok(lanes),
        _ => Err(call.node.unsupported("sums that are not of numbers")),
    }
}

fn regressor<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let transform = transform(call)?;
    let targets = call.node.int("n_targets", 1)?;
    let targets = usize::try_from(targets).ok().filter(|targets| (1..1 << 24).contains(targets));
    let targets = targets.ok_or_else(|| call.node.invalid("it has no targets"))?;
    let base = call.node.doubles("base_values")?;
    if !base.is_empty() && base.len() != targets {
        return Err(call.node.invalid(format!("{} base_values for {targets} targets", base.len())));
    }
    let (sums, _) = sums(call, "target", targets)?;
    let sums = based(call, sums, base)?;
    Ok(vec![Value::Lanes(transformed(call, sums, transform)?)])
}

fn classifier<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let transform = transform(call)?;
    let names = classes(call)?;
    if names.is_empty() {
        return Err(call.node.invalid("it has no classes"));
    }
    let positive = call.node.doubles("class_weights")?.iter().all(|weight| *weight >= 0.0);
    let base = call.node.doubles("base_values")?;
    let (sums, weighted) = sums(call, "class", names.len())?;
    // Of two classes, weights of one of them are the score of the second.
    let one = weighted.iter().filter(|weighted| **weighted).count() == 1;
    if names.len() != 2 || !one {
        if !base.is_empty() && base.len() != names.len() {
            return Err(call.node.invalid(format!("{} base_values for {} classes", base.len(), names.len())));
        }
        let sums = based(call, sums, base)?;
        let scores = transformed(call, sums, transform)?;
        return classified(call, scores, names);
    }
    let at = weighted.iter().position(|weighted| *weighted).unwrap_or(0);
    let score = Lanes { lanes: sums.lanes[at..=at].into(), dims: vec![1], kind: Kind::Float };
    let score = based(call, score, base.last().map_or_else(Vec::new, |base| vec![*base]))?;
    let scores = match transform {
        Transform::None if positive => {
            let score = Value::Lanes(score);
            let whole = Value::Constant(Constant::scalar(1.0, Kind::Float));
            let rest = super::elementwise::two(call, Binary::Sub, &whole, &score)?;
            pair(call, &rest, &score)?
        }
        transform => both(call, &score, transform)?,
    };
    classified(call, scores, names)
}
