//! ONNX's trees, as trees of `crates/forest` that are summed in float64.

use forest::double::{Link, Node, Noted, threshold_of};
use forest::error::Result;

use super::lower::{Call, Lower};
use super::message::Node as Operator;
use super::pipeline::{Transform, both, classes, classified, pair, transform, transformed};
use super::protobuf::room;
use super::value::{Constant, Kind, Lanes, Value};
use crate::forms::program::Binary;
use crate::forms::trees::Ensemble;

pub(super) const OPERATORS: &[(&str, &str, Lower)] =
    &[("ai.onnx.ml", "TreeEnsembleRegressor", regressor), ("ai.onnx.ml", "TreeEnsembleClassifier", classifier)];

/// The attributes of an ensemble, each a list by nodes.
struct Attributes<'a> {
    tree: Vec<i64>,
    node: Vec<i64>,
    feature: Vec<i64>,
    mode: Vec<&'a str>,
    threshold: Vec<f64>,
    yes: Vec<i64>,
    no: Vec<i64>,
    missing_yes: Vec<i64>,
    /// The nodes by their trees, and there by their own numbers.
    order: Vec<usize>,
    /// By trees and nodes, and there as in the file.
    weights: Vec<Weight>,
    /// Outputs that have a weight.
    weighted: Vec<bool>,
}

/// What a leaf adds to an output.
struct Weight {
    tree: i64,
    node: i64,
    output: usize,
    number: f64,
}

impl<'a> Attributes<'a> {
    fn read(node: &Operator<'a>, leaf: &str, outputs: usize) -> Result<Attributes<'a>> {
        let mut attributes = Attributes {
            tree: node.ints("nodes_treeids")?,
            node: node.ints("nodes_nodeids")?,
            feature: node.ints("nodes_featureids")?,
            mode: node.texts("nodes_modes")?,
            threshold: node.doubles("nodes_values")?,
            yes: node.ints("nodes_truenodeids")?,
            no: node.ints("nodes_falsenodeids")?,
            missing_yes: node.ints("nodes_missing_value_tracks_true")?,
            order: Vec::new(),
            weights: Vec::new(),
            weighted: vec![false; outputs],
        };
        let length = attributes.tree.len();
        let lists = [&attributes.node, &attributes.feature, &attributes.yes, &attributes.no];
        let same = lists.iter().all(|list| list.len() == length)
            && attributes.mode.len() == length
            && attributes.threshold.len() == length
            && (attributes.missing_yes.is_empty() || attributes.missing_yes.len() == length);
        if !same {
            return Err(node.invalid("its lists nodes_* are not of one length"));
        }
        attributes.weigh(node, leaf)?;
        room(&mut attributes.order, length)?;
        attributes.order.extend(0..length);
        let key = |index: &usize| (attributes.tree[*index], attributes.node[*index]);
        attributes.order.sort_unstable_by_key(key);
        match attributes.order.windows(2).find(|two| key(&two[0]) == key(&two[1])) {
            Some(two) => {
                let (tree, own) = key(&two[0]);
                Err(node.invalid(format!("node {own} of tree {tree} is there twice")))
            }
            None => Ok(attributes),
        }
    }

    /// Reads the weights of the leaves.
    fn weigh(&mut self, node: &Operator<'a>, leaf: &str) -> Result<()> {
        let named = |name: &str| node.ints(&format!("{leaf}_{name}"));
        let (trees, nodes, ids) = (named("treeids")?, named("nodeids")?, named("ids")?);
        let numbers = node.doubles(&format!("{leaf}_weights"))?;
        if [nodes.len(), ids.len(), numbers.len()].iter().any(|length| *length != trees.len()) {
            return Err(node.invalid(format!("its lists {leaf}_* are not of one length")));
        }
        room(&mut self.weights, trees.len())?;
        let outputs = self.weighted.len();
        for (((tree, at), id), number) in trees.iter().zip(&nodes).zip(&ids).zip(&numbers) {
            let output = usize::try_from(*id).ok().filter(|output| *output < outputs);
            let output =
                output.ok_or_else(|| node.invalid(format!("a leaf has a weight of output {id}, of {outputs}")))?;
            self.weighted[output] = true;
            self.weights.push(Weight { tree: *tree, node: *at, output, number: *number });
        }
        self.weights.sort_by_key(|weight| (weight.tree, weight.node));
        Ok(())
    }

    /// The nodes of each tree.
    fn trees(&self) -> Vec<&[usize]> {
        self.order.chunk_by(|a, b| self.tree[*a] == self.tree[*b]).collect()
    }

    /// The weights of a leaf, or, without its number, of a tree.
    fn weights_of(&self, tree: i64, node: Option<i64>) -> &[Weight] {
        let first = |node: i64| self.weights.partition_point(|weight| (weight.tree, weight.node) < (tree, node));
        let last = |node: i64| self.weights.partition_point(|weight| (weight.tree, weight.node) <= (tree, node));
        &self.weights[first(node.unwrap_or(i64::MIN))..last(node.unwrap_or(i64::MAX))]
    }

    /// The one output that all leaves of a tree have weights of.
    fn output(&self, nodes: &[usize]) -> Option<usize> {
        let weights = self.weights_of(self.tree[*nodes.first()?], None);
        let output = weights.first()?.output;
        weights.iter().all(|weight| weight.output == output).then_some(output)
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
    places: &[usize],
    size: usize,
    width: usize,
) -> Result<Tree> {
    let node = call.node;
    let id = places.first().map_or(0, |index| attributes.tree[*index]);
    let place = |own: i64| {
        let found = places.binary_search_by_key(&own, |index| attributes.node[*index]);
        found.map_err(|_| node.invalid(format!("tree {id} has no node {own}")))
    };
    // The root is the node that is nobody's child.
    let mut is_child = vec![false; places.len()];
    for index in places.iter().filter(|index| attributes.mode[**index] != "LEAF") {
        is_child[place(attributes.yes[*index])?] = true;
        is_child[place(attributes.no[*index])?] = true;
    }
    let root = is_child.iter().position(|is_child| !is_child);
    let root = root.ok_or_else(|| node.invalid(format!("tree {id} has no root")))?;
    let mut tree = Tree { nodes: Vec::new(), values: Vec::new() };
    room(&mut tree.nodes, places.len())?;
    tree.nodes.push(Node::leaf(0));
    let mut open = vec![(places[root], 0_usize)];
    while let Some((index, at)) = open.pop() {
        let own = attributes.node[index];
        if attributes.mode[index] == "LEAF" {
            let leaf = tree.values.len() / size;
            call.spend(size)?;
            room(&mut tree.values, size)?;
            tree.values.resize(tree.values.len() + size, 0.0);
            for weight in attributes.weights_of(id, Some(own)) {
                tree.values[leaf * size + if size == 1 { 0 } else { weight.output }] += weight.number;
            }
            tree.nodes[at] = Node::leaf(leaf as u32);
            continue;
        }
        // A tree has no more nodes than there are: one that is met twice is a circle, or two parents'.
        if tree.nodes.len() + 2 > places.len() {
            return Err(node.invalid(format!("node {own} of tree {id} comes twice on the way down")));
        }
        let (yes, no) = (places[place(attributes.yes[index])?], places[place(attributes.no[index])?]);
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
    let mut trees = attributes.trees();
    // Where each tree is of one output and each output has as many, a leaf has one value: trees in turn.
    let size = match in_turn(&attributes, &trees, outputs) {
        Some(order) => {
            trees = order.into_iter().map(|index| trees[index]).collect();
            1
        }
        None => outputs,
    };
    let mut ensemble = Ensemble::new(width, vec![0.0; outputs], size, Link::Identity);
    for part in &trees {
        let Tree { nodes, values } = tree(call, &attributes, part, size, width)?;
        ensemble
            .arrays
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
fn in_turn(attributes: &Attributes<'_>, trees: &[&[usize]], outputs: usize) -> Option<Vec<usize>> {
    let mut own: Vec<Vec<usize>> = vec![Vec::new(); outputs];
    for (index, nodes) in trees.iter().enumerate() {
        own[attributes.output(nodes)?].push(index);
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
