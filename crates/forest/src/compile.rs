//! From a validated [`Ensemble`] to an image: which layout each tree gets, and its tables.
//!
//! Trees stay in their order, since float32 sums depend on it. Consecutive trees of one layout form a group, which is
//! walked together:
//!
//! * perfect: shallow trees without categories, padded to the group's depth, children implicit, node for node
//!   interleaved, so that one row walks up to sixteen trees at once;
//! * compact: 8-byte nodes with adjacent children, for deeper trees and for those with categorical splits;
//! * wide: 16-byte nodes, for what the compact form cannot number.
//!
//! Beside them come the tables of the byte-rank kernels (`compile/rank.rs`), for the models that these can predict.
//!
//! Dart's weights are folded into the leaves here, by the arithmetic of the oracle, which depends on nothing else.

mod rank;

use std::collections::BTreeMap;

use bytemuck::Zeroable;

use self::rank::RankTables;

use crate::ensemble::{self, Ensemble};
use crate::error::{Error, Result};
use crate::image::{
    Builder, CategorySet, Group, Header, MAX_COMPACT_WIDTH, MAX_PERFECT_DEPTH, MAX_SLOTS, Node, PERFECT_WIDTHS,
    Section, Slot, SlotKind, Tree, VECTOR_LEAVES, WideNode, transform_code,
};

/// Up to this depth the perfect layout is faster than the compact one: docs/design/predictions.md.
const PERFECT_DEPTH: u32 = 8;
/// A shorter run of trees of a simpler layout between others is walked as they are.
const SHORT_RUN: usize = 4;

/// Which layout the trees get.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// The measured best for each.
    Auto,
    /// Compact or wide, even where perfect is possible.
    Compact,
    /// The layout of last resort.
    Wide,
    /// Perfect to the given depth.
    Perfect(u32),
    /// As [`Form::Auto`], with the tables of the byte-rank kernels wherever they are possible, even where walks are
    /// faster.
    Rank,
}

/// Compiles a model to an image for [`crate::Forest::open`]. `metadata` is carried along as it is.
///
/// # Errors
/// If the ensemble breaks its own invariants; no ensemble of this crate's readers does.
pub fn compile(ensemble: &Ensemble, metadata: &[u8]) -> Result<Vec<u8>> {
    compile_as(ensemble, metadata, Form::Auto)
}

/// [`compile`] with a chosen layout, for tests and benches.
///
/// # Errors
/// As [`compile`].
pub fn compile_as(ensemble: &Ensemble, metadata: &[u8], form: Form) -> Result<Vec<u8>> {
    let shapes = check(ensemble)?;
    let mut builder = Builder::new();
    builder.put(Section::Metadata, metadata);
    builder.put(Section::Objective, ensemble.objective.as_bytes());
    builder.put(Section::Base, &ensemble.base_margin);
    if let Some(linear) = &ensemble.linear {
        builder.put(Section::Linear, &[linear.weights.as_slice(), linear.bias.as_slice()].concat());
    }
    let mut tables = Tables::new(ensemble);
    tables.add_slots();
    let forms = tables.forms(&shapes, form);
    let mut first = 0;
    while let Some(&form) = forms.get(first) {
        let most = if form == TreeForm::Perfect { 16 } else { MAX_COMPACT_WIDTH as usize };
        let run = forms.iter().skip(first).take(most).take_while(|other| **other == form).count();
        tables.add_group(form, first, &shapes[first..first + run]);
        first += run;
    }
    builder.put(Section::Slots, &tables.slot_features);
    builder.put(Section::Trees, &tables.trees);
    builder.put(Section::Groups, &tables.groups);
    builder.put(Section::Nodes, &tables.nodes);
    builder.put(Section::Leaves, &tables.leaves);
    builder.put(Section::WideNodes, &tables.wide_nodes);
    builder.put(Section::Vectors, &tables.vectors);
    builder.put(Section::Sets, &tables.sets);
    builder.put(Section::SetWords, &tables.set_words);
    let rank = if matches!(form, Form::Auto | Form::Rank) { RankTables::new(ensemble, &shapes) } else { None };
    if let Some(rank) = rank.filter(|rank| form == Form::Rank || rank.pays()) {
        builder.put(Section::RankFeatures, &rank.features);
        builder.put(Section::RankThresholds, &rank.thresholds);
        builder.put(Section::RankGroups, &rank.groups);
        builder.put(Section::RankNodes, &rank.nodes);
        builder.put(Section::RankLeaves, &rank.leaves);
        builder.put(Section::RankPlanes, &rank.planes);
        builder.put(Section::RankBuckets, &rank.buckets);
    }
    Ok(builder.finish(Header {
        num_features: ensemble.num_features,
        num_outputs: ensemble.num_outputs,
        transform: transform_code(ensemble.transform),
        flags: if tables.vector_leaves { VECTOR_LEAVES } else { 0 },
        slots: tables.slot_counts,
        ..Header::zeroed()
    }))
}

/// What the layout of a tree is chosen by.
struct Shape {
    depth: u32,
    /// Nodes that can be reached, level by level, siblings side by side; the root first.
    order: Vec<u32>,
    categorical: bool,
}

fn invalid(path: &str, what: &str) -> Error {
    Error::Invalid { path: path.to_owned(), what: what.to_owned() }
}

fn check(ensemble: &Ensemble) -> Result<Vec<Shape>> {
    let ensure = |holds, path: &str, what| {
        if holds { Ok(()) } else { Err(invalid(path, what)) }
    };
    let outputs = ensemble.num_outputs as usize;
    ensure(outputs > 0, "num_outputs", "a model without outputs")?;
    ensure(ensemble.num_features < WideNode::FEATURE, "num_features", "more features than can be numbered")?;
    ensure(ensemble.base_margin.len() == outputs, "base_margin", "not one intercept per output")?;
    if let Some(linear) = &ensemble.linear {
        let weights = outputs * ensemble.num_features as usize;
        ensure(linear.weights.len() == weights, "linear.weights", "not one weight per feature and output")?;
        ensure(linear.bias.len() == outputs, "linear.bias", "not one bias per output")?;
    }
    let mut shapes = Vec::with_capacity(ensemble.trees.len());
    for (t, tree) in ensemble.trees.iter().enumerate() {
        if tree.output as usize >= outputs {
            return Err(invalid(&format!("trees[{t}].output"), "no such output"));
        }
        shapes.push(shape(ensemble, tree).map_err(|(node, what)| invalid(&format!("trees[{t}].nodes[{node}]"), what))?);
    }
    Ok(shapes)
}

fn shape(ensemble: &Ensemble, tree: &ensemble::Tree) -> std::result::Result<Shape, (u32, &'static str)> {
    if tree.nodes.is_empty() {
        return Err((0, "a tree without nodes"));
    }
    let mut seen = vec![false; tree.nodes.len()];
    let mut shape = Shape { depth: 0, order: vec![0], categorical: false };
    let mut level = 0..1;
    loop {
        for i in level.clone() {
            let index = shape.order[i];
            let node = tree.nodes.get(index as usize).ok_or((index, "no such node"))?;
            if std::mem::replace(&mut seen[index as usize], true) {
                return Err((index, "a node of two parents"));
            }
            let feature = match node {
                ensemble::Node::Leaf(_) => continue,
                ensemble::Node::VectorLeaf(values) => {
                    if values.len() != ensemble.num_outputs as usize {
                        return Err((index, "not one leaf value per output"));
                    }
                    continue;
                }
                ensemble::Node::Numeric { feature, left, right, .. }
                | ensemble::Node::Categorical { feature, left, right, .. } => {
                    shape.order.extend([*left, *right]);
                    *feature
                }
            };
            shape.categorical |= matches!(node, ensemble::Node::Categorical { .. });
            if feature >= ensemble.num_features {
                return Err((index, "no such feature"));
            }
        }
        level = level.end..shape.order.len();
        if level.is_empty() {
            return Ok(shape);
        }
        shape.depth += 1;
    }
}

/// From simple to general: each can hold what those before it hold, but for [`TreeForm::Wide`], which is apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum TreeForm {
    Perfect,
    Compact,
    Categorical,
    Wide,
}

/// The integer that orders as the float does: `x < y` exactly if `key(x) < key(y)`, except that the two zeros differ.
pub fn key(x: f32) -> i32 {
    let bits = x.to_bits() as i32;
    bits ^ ((bits >> 31) as u32 >> 1) as i32
}

/// `x` goes right (is not below `threshold`) exactly if `key(x) > bound(threshold)`. A missing value's key is the
/// smallest or the largest integer, which is no float's, and so goes its own way at any threshold.
pub fn bound(threshold: f32) -> i32 {
    if threshold == 0.0 {
        // Both zeros are not below zero, and the key of -0.0 is -1.
        -2
    } else if threshold.is_nan() {
        // Nothing is below NaN.
        key(f32::NEG_INFINITY) - 1
    } else {
        key(threshold) - 1
    }
}

struct Tables<'a> {
    ensemble: &'a Ensemble,
    vector_leaves: bool,
    slots: BTreeMap<(SlotKind, u32), u32>,
    slot_features: Vec<Slot>,
    slot_counts: [u32; 4],
    trees: Vec<Tree>,
    groups: Vec<Group>,
    nodes: Vec<Node>,
    leaves: Vec<u32>,
    wide_nodes: Vec<WideNode>,
    vectors: Vec<f32>,
    sets: Vec<CategorySet>,
    set_words: Vec<u32>,
    known_sets: BTreeMap<Vec<u32>, u32>,
}

impl<'a> Tables<'a> {
    fn new(ensemble: &'a Ensemble) -> Self {
        let vector_leaves = ensemble
            .trees
            .iter()
            .any(|tree| tree.nodes.iter().any(|node| matches!(node, ensemble::Node::VectorLeaf(_))));
        Self {
            ensemble,
            vector_leaves,
            slots: BTreeMap::new(),
            slot_features: Vec::new(),
            slot_counts: [0; 4],
            trees: Vec::new(),
            groups: Vec::new(),
            nodes: Vec::new(),
            leaves: Vec::new(),
            wide_nodes: Vec::new(),
            vectors: Vec::new(),
            sets: Vec::new(),
            set_words: Vec::new(),
            known_sets: BTreeMap::new(),
        }
    }

    /// Numbers the pairs of kind and feature that the nodes use, kind by kind. More than fit: none, and all is wide.
    fn add_slots(&mut self) {
        for node in self.ensemble.trees.iter().flat_map(|tree| &tree.nodes) {
            if let Some(slot) = slot_of(node) {
                self.slots.insert(slot, 0);
            }
        }
        if self.slots.len() > MAX_SLOTS {
            self.slots.clear();
        }
        for (i, ((kind, feature), index)) in self.slots.iter_mut().enumerate() {
            *index = i as u32 + 1;
            self.slot_features.push(Slot { feature: *feature });
            self.slot_counts[*kind as usize] += 1;
        }
    }

    fn forms(&self, shapes: &[Shape], form: Form) -> Vec<TreeForm> {
        let perfect_depth = match form {
            Form::Auto | Form::Rank => PERFECT_DEPTH,
            Form::Perfect(depth) => depth.min(MAX_PERFECT_DEPTH),
            Form::Compact | Form::Wide => 0,
        };
        let no_slots = self.slots.is_empty();
        let mut forms: Vec<TreeForm> = shapes
            .iter()
            .map(|shape| {
                let splits = shape.depth > 0;
                if form == Form::Wide || splits && no_slots || shape.order.len() > Node::CHILDREN as usize {
                    TreeForm::Wide
                } else if shape.categorical {
                    TreeForm::Categorical
                } else if shape.depth <= perfect_depth && form != Form::Compact {
                    TreeForm::Perfect
                } else {
                    TreeForm::Compact
                }
            })
            .collect();
        for simple in [TreeForm::Perfect, TreeForm::Compact] {
            let mut begin = 0;
            while begin < forms.len() {
                let run = forms[begin..].iter().take_while(|form| **form == forms[begin]).count();
                let before = begin.checked_sub(1).map(|i| forms[i]);
                let after = forms.get(begin + run).copied();
                let neighbour = before.into_iter().chain(after).find(|form| *form > simple && *form != TreeForm::Wide);
                if let (true, true, Some(neighbour)) = (forms[begin] == simple, run < SHORT_RUN, neighbour) {
                    forms[begin..begin + run].fill(neighbour);
                }
                begin += run;
            }
        }
        forms
    }

    fn add_group(&mut self, form: TreeForm, first: usize, shapes: &[Shape]) {
        let depth = shapes.iter().map(|shape| shape.depth).max().unwrap_or_default();
        let trees = shapes.len() as u32;
        let mut group = Group { depth, first: first as u32, trees, width: trees, ..Group::zeroed() };
        group.kind = match form {
            TreeForm::Perfect => Group::PERFECT,
            TreeForm::Compact => Group::COMPACT,
            TreeForm::Categorical => Group::CATEGORICAL,
            TreeForm::Wide => Group::WIDE,
        };
        if form == TreeForm::Perfect {
            group.width = PERFECT_WIDTHS.into_iter().find(|width| *width >= trees).unwrap_or(trees);
            group.nodes = self.nodes.len() as u32;
            group.leaves = self.leaves.len() as u32;
            let width = group.width as usize;
            let padding = Node { bound: i32::MAX, link: 0 };
            self.nodes.resize(self.nodes.len() + width * ((1 << depth) - 1), padding);
            self.leaves.resize(self.leaves.len() + (width << depth), 0);
        }
        for (lane, shape) in shapes.iter().enumerate() {
            let index = first + lane;
            let mut tree = Tree { output: self.ensemble.trees[index].output, depth: shape.depth, ..Tree::zeroed() };
            match form {
                TreeForm::Perfect => self.add_perfect(index, &group, lane),
                TreeForm::Compact | TreeForm::Categorical => {
                    tree.root = self.nodes.len() as u32;
                    self.add_compact(index, shape);
                    tree.nodes = self.nodes.len() as u32 - tree.root;
                }
                TreeForm::Wide => {
                    tree.root = self.wide_nodes.len() as u32;
                    self.add_wide(index, shape);
                    tree.nodes = self.wide_nodes.len() as u32 - tree.root;
                }
            }
            self.trees.push(tree);
        }
        self.groups.push(group);
    }

    /// Nodes and leaves of one lane of a perfect group. A leaf above the last level becomes padding, which always goes
    /// left, down to one leaf.
    fn add_perfect(&mut self, index: usize, group: &Group, lane: usize) {
        let ensemble = self.ensemble;
        let tree = &ensemble.trees[index];
        let width = group.width as usize;
        let (nodes, leaves) = (group.nodes as usize, group.leaves as usize);
        // Node of the ensemble, its level, its position within the level.
        let mut open = vec![(0u32, 0u32, 0usize)];
        while let Some((node, level, position)) = open.pop() {
            match &tree.nodes[node as usize] {
                leaf @ (ensemble::Node::Leaf(_) | ensemble::Node::VectorLeaf(_)) => {
                    let payload = self.payload(tree, leaf);
                    let position = position << (group.depth - level);
                    self.leaves[leaves + position * width + lane] = payload;
                }
                numeric @ ensemble::Node::Numeric { threshold, left, right, .. } => {
                    let at = nodes + ((1 << level) - 1 + position) * width + lane;
                    self.nodes[at] = Node { bound: bound(*threshold), link: self.slot(numeric) };
                    open.push((*left, level + 1, 2 * position));
                    open.push((*right, level + 1, 2 * position + 1));
                }
                ensemble::Node::Categorical { .. } => {}
            }
        }
    }

    fn add_compact(&mut self, index: usize, shape: &Shape) {
        let ensemble = self.ensemble;
        let tree = &ensemble.trees[index];
        let mut child = 1;
        for (i, node) in shape.order.iter().enumerate() {
            let node = &tree.nodes[*node as usize];
            let compact = match node {
                ensemble::Node::Leaf(_) | ensemble::Node::VectorLeaf(_) => {
                    Node::compact_leaf(self.payload(tree, node), i as u32)
                }
                ensemble::Node::Numeric { threshold, .. } => {
                    Node::compact(bound(*threshold), self.slot(node), false, child)
                }
                ensemble::Node::Categorical { categories, .. } => {
                    Node::compact(self.set(categories) as i32, self.slot(node), true, child)
                }
            };
            if slot_of(node).is_some() {
                child += 2;
            }
            self.nodes.push(compact);
        }
    }

    fn add_wide(&mut self, index: usize, shape: &Shape) {
        let ensemble = self.ensemble;
        let tree = &ensemble.trees[index];
        let mut child = 1;
        for node in &shape.order {
            let node = &tree.nodes[*node as usize];
            let (payload, feature) = match node {
                ensemble::Node::Leaf(_) | ensemble::Node::VectorLeaf(_) => (self.payload(tree, node), WideNode::LEAF),
                ensemble::Node::Numeric { feature, threshold, default_left, .. } => {
                    (threshold.to_bits(), feature | default_flag(*default_left))
                }
                ensemble::Node::Categorical { feature, categories, default_left, .. } => {
                    (self.set(categories), feature | default_flag(*default_left) | WideNode::CATEGORICAL)
                }
            };
            let (left, right) = if feature == WideNode::LEAF { (0, 0) } else { (child, child + 1) };
            if feature != WideNode::LEAF {
                child += 2;
            }
            self.wide_nodes.push(WideNode { payload, feature, left, right });
        }
    }

    fn slot(&self, node: &ensemble::Node) -> u32 {
        slot_of(node).and_then(|slot| self.slots.get(&slot).copied()).unwrap_or_default()
    }

    /// What a leaf adds, or the index of its vector.
    fn payload(&mut self, tree: &ensemble::Tree, leaf: &ensemble::Node) -> u32 {
        let base = &self.ensemble.base_margin;
        let weigh = |base: f32, leaf: f32| weigh(tree, base, leaf);
        let output = tree.output as usize;
        let vector: Vec<f32> = match leaf {
            ensemble::Node::Leaf(value) if !self.vector_leaves => {
                return weighed(self.ensemble, tree, *value).to_bits();
            }
            // To add -0.0 is to add nothing, whatever the sum.
            ensemble::Node::Leaf(value) => {
                let add = |(o, base): (usize, &f32)| if o == output { weigh(*base, *value) } else { -0.0 };
                base.iter().enumerate().map(add).collect()
            }
            ensemble::Node::VectorLeaf(values) => base.iter().zip(values).map(|(b, v)| weigh(*b, *v)).collect(),
            ensemble::Node::Numeric { .. } | ensemble::Node::Categorical { .. } => return 0,
        };
        let index = self.vectors.len() / base.len();
        self.vectors.extend(vector);
        index as u32
    }

    fn set(&mut self, categories: &[u32]) -> u32 {
        if let Some(known) = self.known_sets.get(categories) {
            return *known;
        }
        let covered = categories.iter().max().map_or(0, |largest| largest.saturating_add(1));
        let covered = covered.min(crate::kernel::keys::CATEGORY_LIMIT as u32);
        let words = self.set_words.len();
        self.set_words.resize(words + covered.div_ceil(32) as usize, 0);
        for category in categories.iter().filter(|category| **category < covered) {
            self.set_words[words + (category / 32) as usize] |= 1 << (category % 32);
        }
        let index = self.sets.len() as u32;
        self.sets.push(CategorySet { words: words as u32, categories: covered });
        self.known_sets.insert(categories.to_vec(), index);
        index
    }
}

/// What a leaf adds to an output of this intercept.
fn weigh(tree: &ensemble::Tree, base: f32, leaf: f32) -> f32 {
    match tree.weight {
        None => leaf,
        Some(weight) => ((base + leaf) - base) * weight,
    }
}

/// What a scalar leaf adds to its tree's output.
fn weighed(ensemble: &Ensemble, tree: &ensemble::Tree, leaf: f32) -> f32 {
    weigh(tree, ensemble.base_margin.get(tree.output as usize).copied().unwrap_or_default(), leaf)
}

fn default_flag(default_left: bool) -> u32 {
    if default_left { WideNode::DEFAULT_LEFT } else { 0 }
}

/// The slot that a split reads; leaves read none.
fn slot_of(node: &ensemble::Node) -> Option<(SlotKind, u32)> {
    match node {
        ensemble::Node::Numeric { feature, default_left: true, .. } => Some((SlotKind::NumericLeft, *feature)),
        ensemble::Node::Numeric { feature, default_left: false, .. } => Some((SlotKind::NumericRight, *feature)),
        ensemble::Node::Categorical { feature, default_left: true, .. } => Some((SlotKind::CategoryLeft, *feature)),
        ensemble::Node::Categorical { feature, default_left: false, .. } => Some((SlotKind::CategoryRight, *feature)),
        ensemble::Node::Leaf(_) | ensemble::Node::VectorLeaf(_) => None,
    }
}
