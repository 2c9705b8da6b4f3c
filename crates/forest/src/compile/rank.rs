//! The tables of the byte-rank kernels, for the models that they can predict.

use std::collections::BTreeMap;

use bytemuck::Zeroable;

use super::{Shape, weighed};
use crate::ensemble::{Ensemble, Node, Tree};
use crate::image::rank::{
    ALWAYS_RIGHT, Buckets, LANES, LINE, MAX_COLUMNS, MAX_RANK_DEPTH, MAX_THRESHOLDS, NODE_BYTES, PLANE, Plane,
    RankFeature, RankGroup, SECOND_WAY, WINDOW, biased,
};

/// Blocks of thresholds that a row is ranked in, at most, for each tree: docs/design/predictions.md.
const BLOCKS_A_TREE: usize = 2;
const FEWEST_TREES: usize = 4;

#[derive(Default)]
pub struct RankTables {
    pub features: Vec<RankFeature>,
    pub thresholds: Vec<[f32; LINE]>,
    pub groups: Vec<RankGroup>,
    pub nodes: Vec<[u8; NODE_BYTES]>,
    pub leaves: Vec<f32>,
    pub planes: Vec<Plane>,
    pub buckets: Vec<u8>,
}

impl RankTables {
    /// `None` where a tree is too deep, has categorical splits or vector leaves, or thresholds are too many.
    pub fn new(ensemble: &Ensemble, shapes: &[Shape]) -> Option<Self> {
        let numeric = ensemble.linear.is_none()
            && shapes.iter().all(|shape| shape.depth <= MAX_RANK_DEPTH && !shape.categorical)
            && ensemble.trees.iter().all(|tree| !tree.nodes.iter().any(|node| matches!(node, Node::VectorLeaf(_))));
        if !numeric {
            return None;
        }
        let mut tables = Self::default();
        let ranks = Ranks::new(ensemble, &mut tables)?;
        for (g, shapes) in shapes.chunks(LANES).enumerate() {
            tables.add_group(ensemble, &ranks, g * LANES, shapes);
        }
        Some(tables)
    }

    /// Whether ranks are faster than walks: to rank a value costs about as much as two trees, and of a single row some
    /// thirty trees cost as much as one.
    pub fn pays(&self) -> bool {
        let trees: usize = self.groups.iter().map(|group| group.trees as usize).sum();
        self.features.len() <= BLOCKS_A_TREE * trees && trees >= FEWEST_TREES
    }

    fn add_group(&mut self, ensemble: &Ensemble, ranks: &Ranks, first: usize, shapes: &[Shape]) {
        let group = RankGroup {
            first: first as u32,
            trees: shapes.len() as u32,
            depth: shapes.iter().map(|shape| shape.depth).max().unwrap_or_default(),
            nodes: self.nodes.len() as u32,
            leaves: self.leaves.len() as u32,
            planes: self.planes.len() as u32,
        };
        let mut padding = [0; NODE_BYTES];
        padding[LANES..].fill(ALWAYS_RIGHT);
        self.nodes.resize(self.nodes.len() + group.num_nodes(), padding);
        for (lane, shape) in shapes.iter().enumerate() {
            let leaves = self.add_tree(ensemble, ranks, &ensemble.trees[first + lane], shape.depth, &group, lane);
            for leaves in leaves.chunks(PLANE) {
                let mut plane = Plane::default();
                for (i, leaf) in leaves.iter().enumerate() {
                    for (bytes, byte) in plane.iter_mut().zip(leaf.to_le_bytes()) {
                        bytes[i] = byte;
                    }
                }
                self.planes.push(plane);
            }
            self.leaves.extend(leaves);
        }
        self.groups.push(group);
    }

    /// Writes the nodes of one lane and gives its leaves.
    fn add_tree(
        &mut self,
        ensemble: &Ensemble,
        ranks: &Ranks,
        tree: &Tree,
        depth: u32,
        group: &RankGroup,
        lane: usize,
    ) -> Vec<f32> {
        let mut leaves = vec![0.0; 1 << group.depth];
        let skipped: usize = (depth..group.depth).map(|below| (1 << below) - 1).sum();
        // Node of the ensemble; the levels below it, itself included; its subtree's first node and first leaf.
        let mut open = vec![(0u32, depth, group.nodes as usize + skipped, (1 << group.depth) - (1usize << depth))];
        while let Some((index, depth, start, leaf)) = open.pop() {
            match &tree.nodes[index as usize] {
                // Padding goes right, down to the last leaf below.
                Node::Leaf(value) => leaves[leaf + (1 << depth) - 1] = weighed(ensemble, tree, *value),
                Node::Numeric { feature, threshold, default_left, left, right } => {
                    let (column, bound) = ranks.split(*feature, *threshold, *default_left);
                    let half = (1 << (depth - 1)) - 1;
                    let node = &mut self.nodes[start + 2 * half];
                    (node[lane], node[LANES + lane]) = (column, bound);
                    open.push((*left, depth - 1, start, leaf));
                    open.push((*right, depth - 1, start + half, leaf + (1 << (depth - 1))));
                }
                Node::Categorical { .. } | Node::VectorLeaf(_) => {}
            }
        }
        leaves
    }
}

/// The thresholds of every feature, in order, in blocks that a byte can number.
struct Ranks {
    /// Of the features that split: a file may claim many more.
    features: BTreeMap<u32, Thresholds>,
    blocks: Vec<RankFeature>,
}

/// A feature's thresholds.
#[derive(Default)]
struct Thresholds {
    values: Vec<f32>,
    /// The first of its blocks in [`Ranks::blocks`].
    first: usize,
}

impl Ranks {
    fn new(ensemble: &Ensemble, tables: &mut RankTables) -> Option<Self> {
        let mut features = BTreeMap::<u32, Thresholds>::new();
        for node in ensemble.trees.iter().flat_map(|tree| &tree.nodes) {
            if let Node::Numeric { feature, threshold, .. } = node {
                if threshold.is_nan() {
                    return None;
                }
                // The zeros are one threshold.
                features.entry(*feature).or_default().values.push(threshold + 0.0);
            }
        }
        let mut ranks = Self { features, blocks: Vec::new() };
        for (feature, Thresholds { values, first }) in &mut ranks.features {
            values.sort_unstable_by(f32::total_cmp);
            values.dedup();
            *first = ranks.blocks.len();
            for block in values.chunks(MAX_THRESHOLDS) {
                ranks.blocks.push(RankFeature {
                    feature: *feature,
                    line: add_lines(&mut tables.thresholds, block),
                    thresholds: block.len() as u32,
                    left: RankFeature::NO_COLUMN,
                    right: RankFeature::NO_COLUMN,
                    buckets: add_buckets(&mut tables.buckets, block),
                });
            }
            if ranks.blocks.len() > MAX_COLUMNS {
                return None;
            }
        }
        let mut ways = vec![[false; 2]; ranks.blocks.len()];
        for node in ensemble.trees.iter().flat_map(|tree| &tree.nodes) {
            if let Node::Numeric { feature, threshold, default_left, .. } = node {
                ways[ranks.find(*feature, *threshold).0][usize::from(*default_left)] = true;
            }
        }
        let columns = ranks.number_columns(&ways);
        tables.features.clone_from(&ranks.blocks);
        (columns <= MAX_COLUMNS).then_some(ranks)
    }

    /// One column a block, then a second for the blocks that need both. Says how many columns there are.
    fn number_columns(&mut self, ways: &[[bool; 2]]) -> usize {
        let blocks = self.blocks.len();
        let mut columns = blocks;
        for (i, (block, [right, left])) in self.blocks.iter_mut().zip(ways).enumerate() {
            let second = if blocks <= SECOND_WAY { SECOND_WAY + i } else { columns };
            (block.left, block.right) = match (left, right) {
                (true, true) => (i as u32, second as u32),
                (true, false) => (i as u32, RankFeature::NO_COLUMN),
                (false, _) => (RankFeature::NO_COLUMN, i as u32),
            };
            if *left && *right {
                columns = second + 1;
            }
        }
        columns
    }

    /// The block of a threshold and its number in it.
    fn find(&self, feature: u32, threshold: f32) -> (usize, usize) {
        let Thresholds { values, first } = &self.features[&feature];
        let rank = values.partition_point(|other| *other < threshold);
        (first + rank / MAX_THRESHOLDS, rank % MAX_THRESHOLDS)
    }

    /// Column and bound of a node: left is what ranks below the bound.
    fn split(&self, feature: u32, threshold: f32, default_left: bool) -> (u8, u8) {
        let (block, rank) = self.find(feature, threshold);
        let block = &self.blocks[block];
        let column = if default_left { block.left } else { block.right };
        (column as u8, biased(rank as u8 + 1))
    }
}

/// Gives the first line of the block.
fn add_lines(lines: &mut Vec<[f32; LINE]>, thresholds: &[f32]) -> u32 {
    let first = lines.len() as u32;
    let padded =
        |thresholds: &mut dyn Iterator<Item = f32>| std::array::from_fn(|_| thresholds.next().unwrap_or(f32::NAN));
    if thresholds.len() > LINE {
        lines.push(padded(&mut thresholds.iter().copied().step_by(LINE).skip(1)));
    }
    lines.extend(thresholds.chunks(LINE).map(|group| padded(&mut group.iter().copied())));
    // Behind the last threshold a window begins, too.
    if thresholds.len().next_multiple_of(LINE) < thresholds.len() + WINDOW {
        lines.push([f32::NAN; LINE]);
    }
    first
}

/// The fewest buckets of which none has more thresholds than a window, for more thresholds than a line.
fn add_buckets(starts: &mut Vec<u8>, thresholds: &[f32]) -> Buckets {
    let none = Buckets::zeroed();
    // An infinite threshold has a bucket like any other, but gives no scale.
    let mut finite = thresholds.iter().copied().filter(|threshold| threshold.is_finite());
    let (Some(low), Some(high), true) = (finite.next(), finite.next_back(), thresholds.len() > LINE) else {
        return none;
    };
    let mut count = LINE as u32;
    while count <= Buckets::MAX {
        let buckets = Buckets { first: starts.len() as u32, count, low, scale: count as f32 / (high - low) };
        // A range that is too wide or too narrow for a float32.
        if !buckets.scale.is_normal() {
            return none;
        }
        let mut sizes = vec![0; count as usize];
        thresholds.iter().for_each(|threshold| sizes[buckets.bucket(*threshold)] += 1);
        if sizes.iter().all(|size| *size <= WINDOW) {
            let mut start = 0;
            for size in sizes {
                starts.push(start as u8);
                start += size;
            }
            return buckets;
        }
        count *= 2;
    }
    none
}
