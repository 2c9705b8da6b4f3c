//! Why a model predicted what it did: the exact SHAP values of a row.
//!
//! The margin of a row is split over its features, so that they and the bias add up to it. The values are those of
//! path-dependent TreeSHAP, as XGBoost's `pred_contribs` and the shap package give them: Lundberg, Erion, Chen et al.,
//! "From local explanations to global understanding with explainable AI for trees", Nature Machine Intelligence 2
//! (2020), Algorithm 2. What a tree answers when only some features are known is the mean over the leaves that agree with
//! these, each weighed by its share of the training rows at every split of an unknown feature.
//!
//! They are computed in another way. Along the path to a leaf every distinct feature `j` has two numbers: `o`, 1 where the
//! row agrees with all splits of the feature and else 0, and `z`, the product of the shares of the training rows at
//! these splits. The share of feature `i` in the leaf's value `v` is, with Shapley's weight of a set of `k` features as
//! the integral of `t^k (1 - t)^(d - 1 - k)`,
//!
//! ```text
//! v (o_i - z_i) * integral over t from 0 to 1 of: product over j other than i of ((1 - t) z_j + t o_j)
//! ```
//!
//! The integrand is a polynomial of degree `d - 1`, so Gauss-Legendre quadrature of `d / 2` points is exact. At each point
//! a product is carried down the tree and sums of leaves are carried up, and dividing by one factor leaves one feature
//! out, as Yu, Bifet, Read and Xu do with polynomials in "Linear TreeSHAP" (NeurIPS 2022). So a node costs a few vector
//! operations, however deep it lies, and as all factors are positive, nothing cancels: Algorithm 2 costs a leaf the
//! square of its depth, and unwinds sums by subtraction.

mod walk;

use crate::double::{self, Trees};
use crate::ensemble::{Ensemble, Linear, Node, Tree};
use crate::error::{Error, Result};
use crate::forest::PredictError;
use crate::xgboost::{self, ReadOptions};
use walk::Walk;

/// Distinct features on a path from root to leaf, at most.
const FEATURES_AT_MOST: usize = 512;
/// Levels of a tree, at most: a level of the walk takes up to 8 KB.
const LEVELS_AT_MOST: usize = 4096;
/// Rows go through a tree together, so that it is fetched once: as many as fit here, in sums.
const SUMS_AT_ONCE: usize = 1 << 13;
/// And no more than this.
const ROWS_AT_ONCE: usize = 64;
/// Nodes walked between two calls of `tick`: well under a millisecond.
const NODES_A_TICK: usize = 1 << 14;

/// A model ready to explain its predictions. It holds some 50 bytes a node, and is apart from the compiled
/// [`crate::Forest`], which has no covers: who only predicts pays nothing for it.
#[derive(Debug, Clone)]
pub struct Explainer {
    num_features: usize,
    num_outputs: usize,
    /// The mean prediction, in margin space: one for each output.
    bias: Vec<f64>,
    trees: Vec<Steps>,
    linear: Option<Linear>,
    walk: Walk,
}

/// A tree in preorder: parent, left subtree, right subtree.
#[derive(Debug, Clone)]
struct Steps {
    steps: Vec<Step>,
    sets: Vec<Box<[u32]>>,
    /// Of vector leaves: one value an output.
    vectors: Vec<f64>,
    /// Which output scalar leaves add to; `None` where leaves are vectors.
    output: Option<usize>,
}

/// A node, and the edge that leads to it.
#[derive(Debug, Clone, Copy)]
struct Step {
    /// The product of the shares of the training rows over all edges of the parent's feature from the root to here.
    share: f64,
    /// The feature that the parent splits by.
    edge_feature: u32,
    level: u32,
    /// The level of the next edge above of the same feature, 0 where there is none.
    above: u32,
    /// One behind the last node below.
    end: u32,
    kind: Kind,
    /// Whether the edge is the left one.
    is_left: bool,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Numeric {
        feature: u32,
        threshold: f32,
        default_left: bool,
    },
    /// `set` is one of the tree's sets.
    Categorical {
        feature: u32,
        set: u32,
        default_left: bool,
    },
    /// As [`double::Node`] has it, but for the set, which is one of the tree's sets.
    Flagged {
        feature: u32,
        threshold: u32,
    },
    /// What it adds, dart's weight included.
    Leaf(f64),
    /// The first of its values.
    VectorLeaf(usize),
}

impl Explainer {
    /// Reads a model's file, as [`crate::xgboost::read`] does, to explain what it predicts.
    ///
    /// # Errors
    /// As [`crate::xgboost::read_with`] and [`Self::new`].
    pub fn read(bytes: &[u8]) -> Result<Self> {
        Self::new(&xgboost::read_with(bytes, ReadOptions { covers: true, ..ReadOptions::default() })?)
    }

    /// Prepares a model that was read with its covers. It takes time and memory of the order of the model.
    ///
    /// # Errors
    /// [`Error::Unsupported`] if the file lacks the cover of a node (`sum_hessian`), as models with vector leaves of
    /// before XGBoost 3.3 do, if the covers are no weights, or if a tree is thousands of levels deep.
    pub fn new(ensemble: &Ensemble) -> Result<Self> {
        let mut bias: Vec<f64> = ensemble.base_margin.iter().map(|base| f64::from(*base)).collect();
        bias.resize(ensemble.num_outputs as usize, 0.0);
        let trees = ensemble.trees.iter().map(|tree| (tree, "sum_hessian"));
        let mut explainer = Self::of_shapes(trees, ensemble.num_features as usize, bias)?;
        if let Some(linear) = &ensemble.linear {
            for (bias, own) in explainer.bias.iter_mut().zip(&linear.bias) {
                *bias += f64::from(*own);
            }
            explainer.linear = Some(linear.clone());
        }
        Ok(explainer)
    }

    /// Prepares trees that are summed in double precision and were checked, for rows of so many features: each output is
    /// its base and what its trees add up to, divided by `divisor`. `covers` has one for each node.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_trees(trees: &Trees<'_>, covers: &[f32], width: usize, base: &[f64], divisor: f64) -> Result<Self> {
        let mut bias = base.to_vec();
        bias.resize(trees.outputs, 0.0);
        let ranges = trees.roots.windows(2).enumerate();
        let shapes =
            ranges.map(|(index, range)| (DoubleTree { trees, covers, index, first: range[0], divisor }, "cover"));
        Self::of_shapes(shapes, width, bias)
    }

    /// Of trees, and what each calls its covers.
    fn of_shapes<S: Shape>(
        shapes: impl Iterator<Item = (S, &'static str)>,
        num_features: usize,
        mut bias: Vec<f64>,
    ) -> Result<Self> {
        let mut trees = Vec::new();
        let (mut features, mut levels) = (0, 0);
        for (t, (tree, covers)) in shapes.enumerate() {
            let outputs = bias.len();
            let mut builder = Builder { tree, outputs, bias: &mut bias, features: 0, levels: 0 };
            let steps = builder.steps().map_err(|refused| match refused {
                Refused::Model(what) => Error::Unsupported {
                    path: format!("trees[{t}].{covers}"),
                    what: format!("explaining a model {what}"),
                },
                Refused::Room(room::NoRoom { bytes }) => Error::Memory { bytes },
            })?;
            features = features.max(builder.features);
            levels = levels.max(builder.levels);
            trees.push(steps);
        }
        let walk = Walk::new(features, levels);
        Ok(Self { num_features, num_outputs: bias.len(), bias, trees, linear: None, walk })
    }

    /// Values that a row has.
    pub fn num_features(&self) -> usize {
        self.num_features
    }

    /// Margins of a row, each of which is explained.
    pub fn num_outputs(&self) -> usize {
        self.num_outputs
    }

    /// Contributions of a row: for each output one for each feature, in their order, and the bias, which is the mean margin
    /// of the training rows. They add up to the margin.
    pub fn num_values(&self) -> usize {
        self.num_outputs.saturating_mul(self.num_features.saturating_add(1))
    }

    /// Bytes, more or less, that it takes.
    pub fn bytes(&self) -> usize {
        let of_tree = |tree: &Steps| {
            let sets: usize = tree.sets.iter().map(|set| size_of_val(&**set) + size_of::<Box<[u32]>>()).sum();
            size_of_val(tree.steps.as_slice()) + size_of_val(tree.vectors.as_slice()) + sets
        };
        self.trees.iter().map(of_tree).sum()
    }

    /// The contributions of rows: `rows` is row-major, [`Self::num_features`] values a row, NaN where one is missing;
    /// `out` has room for [`Self::num_values`] a row. (Of a model without features, `out` says how many rows there are.)
    ///
    /// `tick` is called again and again, less than a millisecond of work apart; to stop, it may unwind.
    ///
    /// # Errors
    /// If either is not of whole rows, or they are not of equally many; `out` is then untouched.
    pub fn explain(
        &self,
        rows: &[f32],
        out: &mut [f32],
        mut tick: impl FnMut(),
    ) -> std::result::Result<(), PredictError> {
        let (features, values) = (self.num_features, self.num_values());
        let count = rows.len().checked_div(features).unwrap_or(out.len() / values.max(1));
        if rows.len() != count * features {
            return Err(PredictError::Rows { features, found: rows.len() });
        }
        if out.len() != count * values {
            return Err(PredictError::Output { expected: count * values, found: out.len() });
        }
        let at_once = (SUMS_AT_ONCE / values.max(1)).clamp(1, ROWS_AT_ONCE);
        let mut sums = vec![0.0; at_once.min(count) * values];
        for (block, out) in out.chunks_mut(at_once * values.max(1)).enumerate() {
            let sums = sums.get_mut(..out.len()).unwrap_or_default();
            let rows = rows.get(block * at_once * features..).unwrap_or_default();
            self.explain_block(rows, sums, &mut tick);
            for (out, sum) in out.iter_mut().zip(sums) {
                *out = *sum as f32;
            }
        }
        Ok(())
    }

    fn explain_block(&self, rows: &[f32], sums: &mut [f64], tick: &mut dyn FnMut()) {
        let width = self.num_features + 1;
        sums.fill(0.0);
        for sums in sums.chunks_exact_mut(self.num_values()) {
            for (sums, bias) in sums.chunks_exact_mut(width).zip(&self.bias) {
                if let Some(last) = sums.last_mut() {
                    *last = *bias;
                }
            }
        }
        let row = |r: usize| rows.get(r * self.num_features..(r + 1) * self.num_features).unwrap_or_default();
        let mut scratch = self.walk.scratch();
        let mut nodes = NODES_A_TICK;
        for tree in &self.trees {
            for (r, sums) in sums.chunks_exact_mut(self.num_values()).enumerate() {
                let outputs = match tree.output {
                    Some(output) => output..output + 1,
                    None => 0..self.num_outputs,
                };
                for output in outputs {
                    if nodes >= NODES_A_TICK {
                        tick();
                        nodes = 0;
                    }
                    nodes += tree.steps.len();
                    if let Some(sums) = sums.get_mut(output * width..(output + 1) * width) {
                        self.walk.explain(tree, output, row(r), &mut scratch, sums);
                    }
                }
            }
        }
        if let Some(linear) = &self.linear {
            for (r, sums) in sums.chunks_exact_mut(self.num_values()).enumerate() {
                tick();
                add_linear(linear, row(r), sums);
            }
        }
    }
}

/// gblinear: a feature's product with its weight; a missing value has none.
fn add_linear(linear: &Linear, row: &[f32], sums: &mut [f64]) {
    let outputs = sums.len() / (row.len() + 1);
    for (f, (x, weights)) in row.iter().zip(linear.weights.chunks_exact(outputs.max(1))).enumerate() {
        if x.is_nan() {
            continue;
        }
        for (sums, weight) in sums.chunks_exact_mut(row.len() + 1).zip(weights) {
            if let Some(sum) = sums.get_mut(f) {
                *sum += f64::from(*x) * f64::from(*weight);
            }
        }
    }
}

/// A tree, whatever library it is of.
trait Shape {
    /// Nodes that it has; the root is number 0.
    fn len(&self) -> usize;

    /// The training rows that came to a node, or the sum of their second derivatives.
    fn cover(&self, node: u32) -> Option<f32>;

    /// Which output its leaves add to; `None` where a leaf adds to several.
    fn output(&self) -> Option<usize>;

    /// A node; sets of categories are put behind `sets`. `None` where there is no such node.
    fn part(&self, node: u32, sets: &mut Vec<Box<[u32]>>) -> Option<Part>;

    /// What a leaf adds, and to which output.
    fn leaf(&self, node: u32, add: &mut dyn FnMut(usize, f64));
}

/// A node of a [`Shape`].
enum Part {
    Split { feature: u32, left: u32, right: u32, kind: Kind },
    Leaf,
}

impl Shape for &Tree {
    fn len(&self) -> usize {
        self.nodes.len()
    }

    fn cover(&self, node: u32) -> Option<f32> {
        self.covers.get(node as usize).copied()
    }

    fn output(&self) -> Option<usize> {
        let vector = self.nodes.iter().any(|node| matches!(node, Node::VectorLeaf(_)));
        (!vector).then_some(self.output as usize)
    }

    fn part(&self, node: u32, sets: &mut Vec<Box<[u32]>>) -> Option<Part> {
        Some(match self.nodes.get(node as usize)? {
            Node::Numeric { feature, threshold, default_left, left, right } => {
                let kind = Kind::Numeric { feature: *feature, threshold: *threshold, default_left: *default_left };
                Part::Split { feature: *feature, left: *left, right: *right, kind }
            }
            Node::Categorical { feature, categories, default_left, left, right } => {
                sets.push(categories.as_slice().into());
                let set = (sets.len() - 1) as u32;
                let kind = Kind::Categorical { feature: *feature, set, default_left: *default_left };
                Part::Split { feature: *feature, left: *left, right: *right, kind }
            }
            Node::Leaf(_) | Node::VectorLeaf(_) => Part::Leaf,
        })
    }

    fn leaf(&self, node: u32, add: &mut dyn FnMut(usize, f64)) {
        let weight = f64::from(self.weight.unwrap_or(1.0));
        match self.nodes.get(node as usize) {
            Some(Node::Leaf(value)) => add(self.output as usize, f64::from(*value) * weight),
            Some(Node::VectorLeaf(values)) => {
                values.iter().enumerate().for_each(|(output, value)| add(output, f64::from(*value) * weight));
            }
            _ => {}
        }
    }
}

/// A tree among others that are summed in double precision.
struct DoubleTree<'a> {
    trees: &'a Trees<'a>,
    covers: &'a [f32],
    index: usize,
    /// Its root among all nodes.
    first: u32,
    divisor: f64,
}

impl DoubleTree<'_> {
    fn node(&self, node: u32) -> Option<&double::Node> {
        self.trees.nodes.get(self.first as usize + node as usize)
    }
}

impl Shape for DoubleTree<'_> {
    fn len(&self) -> usize {
        self.trees.roots.get(self.index + 1).map_or(0, |end| (end - self.first) as usize)
    }

    fn cover(&self, node: u32) -> Option<f32> {
        self.covers.get(self.first as usize + node as usize).copied()
    }

    fn output(&self) -> Option<usize> {
        (self.trees.size == 1).then_some(self.index % self.trees.outputs)
    }

    fn part(&self, node: u32, sets: &mut Vec<Box<[u32]>>) -> Option<Part> {
        let node = self.node(node)?;
        if node.is_leaf() {
            return Some(Part::Leaf);
        }
        let feature = node.column();
        let default_left = node.feature & double::MISSING_LEFT != 0;
        let kind = if node.is_plain() {
            Kind::Numeric { feature, threshold: f32::from_bits(node.threshold), default_left }
        } else if node.feature & double::CATEGORIES != 0 {
            let set = node.threshold as usize;
            let words = *self.trees.categories.get(set)? as usize;
            sets.push(self.trees.categories.get(set..set + 1 + words)?.into());
            Kind::Flagged { feature: node.feature, threshold: (sets.len() - 1) as u32 }
        } else {
            Kind::Flagged { feature: node.feature, threshold: node.threshold }
        };
        Some(Part::Split { feature, left: node.left - self.first, right: node.right - self.first, kind })
    }

    fn leaf(&self, node: u32, add: &mut dyn FnMut(usize, f64)) {
        let Some(first) = self.node(node).map(|node| node.left as usize) else { return };
        let values = self.trees.values.get(first..first + self.trees.size).unwrap_or_default();
        match self.output() {
            Some(output) => values.iter().for_each(|value| add(output, value / self.divisor)),
            None => values.iter().enumerate().for_each(|(output, value)| add(output, value / self.divisor)),
        }
    }
}

/// Turns one tree into steps.
struct Builder<'a, S> {
    tree: S,
    outputs: usize,
    /// What the tree's mean is added to.
    bias: &'a mut [f64],
    /// Most distinct features met on a path.
    features: usize,
    levels: usize,
}

/// One edge of the path from the root to the node at hand.
struct Edge {
    feature: u32,
    /// See [`Step::share`].
    share: f64,
    /// Distinct features from the root to here.
    features: usize,
    /// The share of the training rows that come to the node below: the product over all edges.
    reached: f64,
}

/// A node to visit, and the edge to it.
struct Visit {
    node: u32,
    level: usize,
    feature: u32,
    /// The part of the parent's training rows that come here.
    part: f64,
    is_left: bool,
}

/// Why a tree is not turned into steps.
enum Refused {
    /// What there is about the model, after "explaining a model".
    Model(String),
    Room(room::NoRoom),
}

impl From<String> for Refused {
    fn from(what: String) -> Refused {
        Refused::Model(what)
    }
}

impl From<&str> for Refused {
    fn from(what: &str) -> Refused {
        Refused::Model(what.to_owned())
    }
}

impl From<room::NoRoom> for Refused {
    fn from(none: room::NoRoom) -> Refused {
        Refused::Room(none)
    }
}

impl<S: Shape> Builder<'_, S> {
    fn steps(&mut self) -> std::result::Result<Steps, Refused> {
        let mut tree = Steps { steps: Vec::new(), sets: Vec::new(), vectors: Vec::new(), output: self.tree.output() };
        room::reserve(&mut tree.steps, self.tree.len())?;
        let mut path: Vec<Edge> = vec![Edge { feature: u32::MAX, share: 1.0, features: 0, reached: 1.0 }];
        let mut open: Vec<usize> = Vec::new();
        let mut visits = vec![Visit { node: 0, level: 0, feature: u32::MAX, part: 1.0, is_left: true }];
        while let Some(Visit { node, level, feature, part, is_left }) = visits.pop() {
            // Nodes that share their children would be visited along each way, of which there may be 2 to the levels.
            if tree.steps.len() >= self.tree.len() {
                return Err("with a node that is the child of two".into());
            }
            let close = open.split_off(level.min(open.len()));
            let here = tree.steps.len();
            for step in close {
                tree.steps[step].end = here as u32;
            }
            open.push(here);
            let (mut share, mut above) = (1.0, 0);
            if level > 0 {
                path.truncate(level);
                above = path.iter().rposition(|edge| edge.feature == feature).unwrap_or(0);
                share = path.get(above).map_or(1.0, |edge| edge.share) * part;
                let (features, reached) = path.last().map_or((0, 1.0), |edge| (edge.features, edge.reached));
                let features = features + usize::from(above == 0);
                self.features = self.features.max(features);
                if features > FEATURES_AT_MOST {
                    return Err(format!("with more than {FEATURES_AT_MOST} features on the way to a leaf").into());
                }
                path.push(Edge { feature, share, features, reached: reached * part });
            }
            self.levels = self.levels.max(level);
            if level > LEVELS_AT_MOST {
                return Err(format!("with a tree of more than {LEVELS_AT_MOST} levels").into());
            }
            let reached = path.last().map_or(1.0, |edge| edge.reached);
            let part = self.tree.part(node, &mut tree.sets).ok_or("with a child that does not exist")?;
            let kind = match &part {
                Part::Split { kind, .. } => *kind,
                Part::Leaf => self.leaf(node, reached, &mut tree)?,
            };
            tree.steps.push(Step {
                share,
                edge_feature: feature,
                level: level as u32,
                above: above as u32,
                end: 0,
                kind,
                is_left,
            });
            if let Part::Split { feature, left, right, .. } = part {
                let parts = self.parts(node, left, right)?;
                for (node, part, is_left) in [(right, parts[1], false), (left, parts[0], true)] {
                    visits.push(Visit { node, level: level + 1, feature, part, is_left });
                }
            }
        }
        let end = tree.steps.len() as u32;
        for step in open {
            tree.steps[step].end = end;
        }
        Ok(tree)
    }

    /// A leaf, whose value is weighed by the share of the training rows that came to it for the bias.
    fn leaf(&mut self, node: u32, reached: f64, steps: &mut Steps) -> std::result::Result<Kind, room::NoRoom> {
        let first = steps.vectors.len();
        let mut sum = 0.0;
        if steps.output.is_none() {
            room::reserve(&mut steps.vectors, self.outputs)?;
            steps.vectors.resize(first + self.outputs, 0.0);
        }
        self.tree.leaf(node, &mut |output, value| {
            if let Some(bias) = self.bias.get_mut(output) {
                *bias += reached * value;
            }
            sum += value;
            if let Some(own) = steps.vectors.get_mut(first + output) {
                *own += value;
            }
        });
        Ok(if steps.output.is_some() { Kind::Leaf(sum) } else { Kind::VectorLeaf(first) })
    }

    /// The parts of a node's training rows that go left and right. As XGBoost, by the node's own cover, from which the
    /// children's sum may differ by rounding. Where no training row came, both ways count alike.
    fn parts(&self, node: u32, left: u32, right: u32) -> std::result::Result<[f64; 2], String> {
        let cover = |node: u32| match self.tree.cover(node) {
            Some(cover) if cover.is_finite() && cover >= 0.0 => Ok(f64::from(cover)),
            Some(cover) => Err(format!("with a cover of {cover}")),
            None => Err("without the cover of every node".to_owned()),
        };
        let (whole, left, right) = (cover(node)?, cover(left)?, cover(right)?);
        if whole > 0.0 {
            return Ok([left / whole, right / whole]);
        }
        if node == 0 || left > 0.0 || right > 0.0 {
            return Err("without the cover of every node".to_owned());
        }
        Ok([0.5, 0.5])
    }
}
