//! Trees summed in double precision, in arrays that lie wherever the caller has them: a mapped file, or memory.
//!
//! The plain kernel for trees that are not XGBoost's. Those of scikit-learn's kind, LightGBM's and CatBoost's are all
//! summed in float64 in the order of the trees, which [`Trees::sums`] keeps, so that what was read from one of these
//! libraries predicts what the library does. [`Trees::check`] is where trust begins: after it, no index is out of range,
//! and every path ends.

use bytemuck::{Pod, Zeroable};

/// One node, 16 bytes, so that four are in a cache line.
///
/// A leaf has [`LEAF`] for its feature, and in `left` the index of its first value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Node {
    /// The feature, and in the high bits how it is split: [`MISSING_LEFT`], [`CATEGORIES`], [`ZERO_IS_MISSING`].
    pub feature: u32,
    /// The bits of a float32, less than which goes left; or where in [`Trees::categories`] the set begins.
    pub threshold: u32,
    /// A node after this one.
    pub left: u32,
    /// A node after this one.
    pub right: u32,
}

/// The feature of a leaf.
pub const LEAF: u32 = u32::MAX;
/// Missing goes left, and so does a category that the set has no bit for.
pub const MISSING_LEFT: u32 = 1 << 31;
/// The split is by a set of categories, which go left.
pub const CATEGORIES: u32 = 1 << 30;
/// Zero (to 1e-35) is missing too.
pub const ZERO_IS_MISSING: u32 = 1 << 29;
/// The bits that are left for the feature.
const FEATURE: u32 = ZERO_IS_MISSING - 1;
/// The most features that a row can have.
pub const MOST_FEATURES: u32 = FEATURE;

/// What LightGBM takes for zero, in float32.
const ZERO: f32 = 1e-35;

impl Node {
    /// A leaf whose first value has this index.
    pub fn leaf(value: u32) -> Node {
        Node { feature: LEAF, threshold: 0, left: value, right: 0 }
    }

    /// A split at `x < threshold`.
    pub fn numeric(feature: u32, threshold: f32, missing_left: bool, left: u32, right: u32) -> Node {
        let flags = if missing_left { MISSING_LEFT } else { 0 };
        Node { feature: feature | flags, threshold: threshold.to_bits(), left, right }
    }

    /// A split by the set that begins there.
    pub fn categorical(feature: u32, set: u32, missing_left: bool, left: u32, right: u32) -> Node {
        let flags = CATEGORIES | if missing_left { MISSING_LEFT } else { 0 };
        Node { feature: feature | flags, threshold: set, left, right }
    }

    /// Whether it is one.
    #[inline]
    pub fn is_leaf(&self) -> bool {
        self.feature == LEAF
    }

    /// Whether it splits by a threshold, and only NaN is missing.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.feature & (CATEGORIES | ZERO_IS_MISSING) == 0
    }

    /// The feature that a split looks at.
    #[inline]
    pub fn column(&self) -> u32 {
        self.feature & FEATURE
    }
}

/// Trees as arrays.
#[derive(Debug, Clone, Copy)]
pub struct Trees<'a> {
    /// All trees' nodes, those of a tree together.
    pub nodes: &'a [Node],
    /// Where each tree begins, which is its root; and the number of nodes behind the last.
    pub roots: &'a [u32],
    /// The leaves' values, `size` of them a leaf.
    pub values: &'a [f64],
    /// Sets of categories: the number of words, then the words; bit `c % 32` of word `c / 32` is category `c`.
    pub categories: &'a [u32],
    /// How many outputs there are.
    pub outputs: usize,
    /// Values of a leaf: `outputs`, or 1, and then tree `t` adds to output `t % outputs`.
    pub size: usize,
}

/// Which way a value goes at a split that is not plain.
pub(crate) fn goes_left(node: &Node, categories: &[u32], value: f32) -> bool {
    let missing = node.feature & MISSING_LEFT != 0;
    if value.is_nan() {
        return missing;
    }
    if node.feature & CATEGORIES == 0 {
        return if value.abs() <= ZERO { missing } else { value < f32::from_bits(node.threshold) };
    }
    let set = node.threshold as usize;
    let words = &categories[set + 1..set + 1 + categories[set] as usize];
    let category = value as i64;
    let word = usize::try_from(category / 32).ok().filter(|_| value > -1.0).and_then(|word| words.get(word));
    word.map_or(missing, |word| word >> (category % 32) & 1 == 1)
}

/// The largest float32 threshold for which `x < threshold` is what `x <= limit` is in float64, for every finite x.
pub fn threshold_of(limit: f64) -> f32 {
    let nearest = limit as f32;
    if f64::from(nearest) <= limit { nearest.next_up() } else { nearest }
}

impl Trees<'_> {
    /// Checks everything that predictions rely on, for rows of `width` features.
    ///
    /// # Errors
    /// What is wrong, as a phrase.
    pub fn check(&self, width: usize) -> Result<(), String> {
        if self.outputs == 0 || self.size == 0 || (self.size != 1 && self.size != self.outputs) {
            return Err(format!("its leaves have {} values for {} outputs", self.size, self.outputs));
        }
        let ends =
            self.roots.first() == Some(&0) && self.roots.last().map(|end| *end as usize) == Some(self.nodes.len());
        if !ends || self.roots.windows(2).any(|tree| tree[0] >= tree[1]) {
            return Err("its trees do not follow each other".into());
        }
        for (tree, range) in self.roots.windows(2).enumerate() {
            for index in range[0]..range[1] {
                let node = &self.nodes[index as usize];
                self.check_node(node, index, range[1], width)
                    .map_err(|what| format!("node {} of its tree {tree} {what}", index - range[0]))?;
            }
        }
        Ok(())
    }

    fn check_node(&self, node: &Node, index: u32, end: u32, width: usize) -> Result<(), &'static str> {
        if node.is_leaf() {
            let last = (node.left as usize).checked_add(self.size);
            return match last.is_some_and(|last| last <= self.values.len()) {
                true => Ok(()),
                false => Err("has no values"),
            };
        }
        // Children that come after their parent: so there is no cycle, and every path ends.
        let after = |child: u32| child > index && child < end;
        if !after(node.left) || !after(node.right) {
            return Err("has no children");
        }
        if node.column() as usize >= width {
            return Err("splits a feature that there is not");
        }
        if node.feature & CATEGORIES == 0 {
            return if f32::from_bits(node.threshold).is_nan() { Err("has no threshold") } else { Ok(()) };
        }
        let set = node.threshold as usize;
        let words = self.categories.get(set).map(|words| *words as usize);
        match words.and_then(|words| set.checked_add(1)?.checked_add(words)) {
            Some(last) if last <= self.categories.len() => Ok(()),
            _ => Err("has no set of categories"),
        }
    }

    /// How many trees there are.
    pub fn len(&self) -> usize {
        self.roots.len().saturating_sub(1)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where a row goes at a node that is not a leaf.
    #[inline]
    fn child(&self, node: &Node, value: f32) -> u32 {
        let left = if node.is_plain() {
            match value.is_nan() {
                true => node.feature & MISSING_LEFT != 0,
                false => value < f32::from_bits(node.threshold),
            }
        } else {
            goes_left(node, self.categories, value)
        };
        if left { node.left } else { node.right }
    }

    /// The leaf where a row ends in a tree: the index of its first value.
    #[inline]
    pub fn leaf(&self, tree: usize, row: &[f32]) -> usize {
        let mut node = &self.nodes[self.roots[tree] as usize];
        while !node.is_leaf() {
            node = &self.nodes[self.child(node, row[node.column() as usize]) as usize];
        }
        node.left as usize
    }

    /// Adds the trees' values for a row to `sums`, which has a number for each output, in the order of the trees.
    pub fn sums(&self, row: &[f32], sums: &mut [f64]) {
        for tree in 0..self.len() {
            self.add(tree, row, sums);
        }
    }

    /// As [`Self::sums`] for rows of `width` features, tree after tree, so that a tree is in the cache for all of them.
    pub fn sums_of_rows(&self, rows: &[f32], width: usize, sums: &mut [f64]) {
        for tree in 0..self.len() {
            for (row, sums) in rows.chunks_exact(width).zip(sums.chunks_exact_mut(self.outputs)) {
                self.add(tree, row, sums);
            }
        }
    }

    /// Adds what one tree says of a row to `sums`.
    #[inline]
    pub fn add(&self, tree: usize, row: &[f32], sums: &mut [f64]) {
        let leaf = self.leaf(tree, row);
        if self.size == 1 {
            sums[tree % self.outputs] += self.values[leaf];
        } else {
            for (sum, value) in sums.iter_mut().zip(&self.values[leaf..leaf + self.size]) {
                *sum += value;
            }
        }
    }

    /// Nodes on the longest path of all trees.
    pub fn depth(&self) -> usize {
        let mut depths = vec![1_u32; self.nodes.len()];
        let mut deepest = 0;
        for (index, node) in self.nodes.iter().enumerate() {
            let depth = depths[index];
            deepest = deepest.max(depth);
            if !node.is_leaf() {
                depths[node.left as usize] = depth + 1;
                depths[node.right as usize] = depth + 1;
            }
        }
        deepest as usize
    }
}

/// What the training noted of each node of a tree, which predictions do without: one for each node, or none.
#[derive(Debug, Clone, Copy, Default)]
pub struct Noted<'a> {
    /// See [`TreeArrays::covers`].
    pub covers: &'a [f32],
    /// See [`TreeArrays::gains`].
    pub gains: &'a [f32],
}

/// Trees on their way to be stored: what [`Trees`] borrows, owned.
#[derive(Debug, Clone, PartialEq)]
pub struct TreeArrays {
    /// See [`Trees::nodes`].
    pub nodes: Vec<Node>,
    /// See [`Trees::roots`].
    pub roots: Vec<u32>,
    /// See [`Trees::values`].
    pub values: Vec<f64>,
    /// See [`Trees::categories`].
    pub categories: Vec<u32>,
    /// How much of the training went through each node; one for each node, or none at all.
    pub covers: Vec<f32>,
    /// What the split of each node gained, 0 for a leaf; one for each node, or none at all.
    pub gains: Vec<f32>,
    /// See [`Trees::outputs`].
    pub outputs: usize,
    /// See [`Trees::size`].
    pub size: usize,
}

impl TreeArrays {
    /// Without a tree yet.
    pub fn new(outputs: usize, size: usize) -> TreeArrays {
        TreeArrays {
            nodes: Vec::new(),
            roots: vec![0],
            values: Vec::new(),
            categories: Vec::new(),
            covers: Vec::new(),
            gains: Vec::new(),
            outputs,
            size,
        }
    }

    /// As they predict.
    pub fn trees(&self) -> Trees<'_> {
        Trees {
            nodes: &self.nodes,
            roots: &self.roots,
            values: &self.values,
            categories: &self.categories,
            outputs: self.outputs,
            size: self.size,
        }
    }

    /// Adds a tree whose nodes, leaves and sets of categories are counted from 0; `values` are those of its leaves.
    ///
    /// # Errors
    /// Where there is no memory for it, or no number for its nodes.
    pub fn push(
        &mut self,
        nodes: &[Node],
        categories: &[u32],
        noted: Noted<'_>,
        values: &[f64],
    ) -> Result<(), room::NoRoom> {
        let bytes = size_of_val(nodes) + size_of_val(values);
        let number = |length: usize| u32::try_from(length).map_err(|_| room::NoRoom { bytes });
        let first = number(self.nodes.len())?;
        let first_set = number(self.categories.len())?;
        let first_value = number(self.values.len())?;
        let end = number(self.nodes.len() + nodes.len())?;
        number(self.values.len() + values.len())?;
        let size = number(self.size)?;
        room::reserve(&mut self.nodes, nodes.len())?;
        room::reserve(&mut self.values, values.len())?;
        // What one tree lacks is not known of the others either: the arrays have one for each node.
        for (own, new) in [(&mut self.covers, noted.covers), (&mut self.gains, noted.gains)] {
            if own.len() == self.nodes.len() && new.len() == nodes.len() {
                room::reserve(own, new.len())?;
                own.extend_from_slice(new);
            } else {
                own.clear();
            }
        }
        self.nodes.extend(nodes.iter().map(|node| {
            if node.is_leaf() {
                return Node::leaf(first_value + node.left * size);
            }
            let set = if node.feature & CATEGORIES == 0 { 0 } else { first_set };
            Node { threshold: node.threshold + set, left: node.left + first, right: node.right + first, ..*node }
        }));
        self.values.extend_from_slice(values);
        self.categories.extend_from_slice(categories);
        self.roots.push(end);
        Ok(())
    }
}

/// What becomes of the sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// They are the values of a regression.
    Identity,
    /// e to the power of each.
    Exp,
    /// The square of each, with its sign.
    Square,
    /// The logistic function of each, as a value.
    LogisticValue,
    /// log(1 + exp(x)) of each.
    Softplus,
    /// They are probabilities.
    Probabilities,
    /// One score, of the second of two classes, of which the logistic function makes a probability.
    Logistic,
    /// Scores of classes, of which softmax makes probabilities.
    Softmax,
    /// Scores of classes, of each of which the logistic function makes a score between 0 and 1.
    OneVersusRest,
}

impl Link {
    /// All of them, and what they are called where they are stored.
    pub const NAMES: [(&'static str, Link); 9] = [
        ("identity", Link::Identity),
        ("exp", Link::Exp),
        ("square", Link::Square),
        ("logistic_value", Link::LogisticValue),
        ("softplus", Link::Softplus),
        ("probabilities", Link::Probabilities),
        ("logistic", Link::Logistic),
        ("softmax", Link::Softmax),
        ("one_versus_rest", Link::OneVersusRest),
    ];

    /// What it is called.
    pub fn name(self) -> &'static str {
        Link::NAMES.iter().find(|(_, link)| *link == self).map_or("", |(name, _)| name)
    }

    /// The number of values of a prediction, from the number of outputs.
    pub fn values(self, outputs: usize) -> usize {
        if self == Link::Logistic { 2 } else { outputs }
    }

    /// Makes `values` of the sums, which are used up. Scores are multiplied by `scale` before the logistic function.
    pub fn apply(self, scale: f64, sums: &mut [f64], values: &mut [f32]) {
        let logistic = |score: f64| 1.0 / (1.0 + (-scale * score).exp());
        match self {
            Link::Identity | Link::Probabilities => {}
            Link::Exp => sums.iter_mut().for_each(|sum| *sum = sum.exp()),
            Link::Square => sums.iter_mut().for_each(|sum| *sum *= sum.abs()),
            Link::LogisticValue | Link::OneVersusRest => sums.iter_mut().for_each(|sum| *sum = logistic(*sum)),
            Link::Softplus => sums.iter_mut().for_each(|sum| *sum = sum.exp().ln_1p()),
            Link::Softmax => softmax(sums),
            Link::Logistic => {
                if let (Some(score), [first, second]) = (sums.first(), values) {
                    *second = logistic(*score) as f32;
                    *first = logistic(-*score) as f32;
                }
                return;
            }
        }
        for (value, sum) in values.iter_mut().zip(sums) {
            *value = *sum as f32;
        }
    }
}

/// Turns scores into probabilities that add up to 1.
fn softmax(scores: &mut [f64]) {
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mut sum = 0.0;
    for score in scores.iter_mut() {
        *score = (*score - largest).exp();
        sum += *score;
    }
    for score in scores {
        *score /= sum;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Feature 0 below 1.5 or missing; else feature 1 in {0, 33}.
    const NODES: [Node; 5] = [
        Node { feature: MISSING_LEFT, threshold: 0x3fc0_0000, left: 1, right: 2 },
        Node { feature: LEAF, threshold: 0, left: 0, right: 0 },
        Node { feature: 1 | CATEGORIES, threshold: 0, left: 3, right: 4 },
        Node { feature: LEAF, threshold: 0, left: 1, right: 0 },
        Node { feature: LEAF, threshold: 0, left: 2, right: 0 },
    ];

    fn trees(nodes: &[Node]) -> Trees<'_> {
        Trees { nodes, roots: &[0, 5], values: &[1.0, 10.0, 100.0], categories: &[2, 1, 2], outputs: 1, size: 1 }
    }

    #[test]
    fn a_row_finds_its_leaf() {
        let trees = trees(&NODES);
        trees.check(2).unwrap();
        for (row, expected) in [
            ([1.0, 5.0], 1.0),
            ([f32::NAN, 5.0], 1.0),
            ([1.5, 0.0], 10.0),
            ([2.0, -0.5], 10.0),
            ([2.0, 33.0], 10.0),
            ([2.0, 1.0], 100.0),
            ([2.0, -1.0], 100.0),
            ([2.0, 1e30], 100.0),
            ([2.0, f32::NAN], 100.0),
        ] {
            let mut sum = [0.0];
            trees.sums(&row, &mut sum);
            assert_eq!(sum[0], expected, "{row:?}");
        }
        assert_eq!(trees.depth(), 3);
    }

    #[test]
    fn what_points_nowhere_is_refused() {
        let broken = |change: fn(&mut [Node; 5])| {
            let mut nodes = NODES;
            change(&mut nodes);
            trees(&nodes).check(2).unwrap_err()
        };
        broken(|nodes| nodes[0].left = 0);
        broken(|nodes| nodes[2].right = 5);
        broken(|nodes| nodes[2].left = 1);
        broken(|nodes| nodes[2].threshold = 2);
        broken(|nodes| nodes[2].threshold = 3);
        broken(|nodes| nodes[2].feature = 2 | CATEGORIES);
        broken(|nodes| nodes[0].threshold = f32::NAN.to_bits());
        broken(|nodes| nodes[4].left = 3);
        assert!(trees(&NODES).check(1).is_err());
        assert!(Trees { roots: &[0, 4], ..trees(&NODES) }.check(2).is_err());
        assert!(Trees { roots: &[0, 0, 5], ..trees(&NODES) }.check(2).is_err());
        assert!(Trees { outputs: 3, size: 2, ..trees(&NODES) }.check(2).is_err());
        assert!(Trees { outputs: 3, size: 3, ..trees(&NODES) }.check(2).is_err());
    }

    #[test]
    fn a_threshold_in_double_precision_is_kept() {
        for limit in [0.0, 1.0, 0.1, -0.1, 1e-40, 1e300, f64::from(f32::MAX), -1.5] {
            let threshold = threshold_of(limit);
            for value in [threshold.next_down(), threshold, threshold.next_up(), 0.0, 1.0, 0.1, -0.1, -1.5] {
                if value.is_finite() {
                    assert_eq!(value < threshold, f64::from(value) <= limit, "{value} {limit}");
                }
            }
        }
    }
}
