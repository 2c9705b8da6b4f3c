//! The tables of the byte-rank kernels: see [`crate::kernel::rank`] for what is done with them.

use bytemuck::{Pod, Zeroable};

use super::{ImageError, Tree, View};

/// Trees of a group, one for each byte of a vector.
pub const LANES: usize = 32;
/// Levels of a tree, at most: a leaf's number is a byte.
pub const MAX_RANK_DEPTH: u32 = 8;
/// Columns of ranks, at most: a column's number is a byte.
pub const MAX_COLUMNS: usize = 256;
/// Of a model with no more blocks of thresholds than this, the second column of a block is this much behind the first.
pub const SECOND_WAY: usize = 16;
/// Thresholds ranked together, at most: a rank is a byte.
pub const MAX_THRESHOLDS: usize = 255;
/// Thresholds that are compared at once: a line of [`super::Section::RankThresholds`].
pub const LINE: usize = 16;
/// Thresholds of a bucket that are compared at once.
pub const WINDOW: usize = 8;
/// Bytes of a node of all lanes: the columns of each, then their bounds.
pub const NODE_BYTES: usize = 2 * LANES;
/// Leaves that one shuffle looks up.
pub const PLANE: usize = 16;
/// No value's rank is below it, so that at this bound all go right.
pub const ALWAYS_RIGHT: u8 = biased(0);

/// Ranks and bounds are stored so that they compare as signed bytes, for want of an unsigned comparison.
pub const fn biased(rank: u8) -> u8 {
    rank ^ 0x80
}

/// Up to [`MAX_THRESHOLDS`] thresholds of a feature, and where the rank of its value among them goes.
///
/// Up to [`LINE`] thresholds are one line. More are groups of a line each, behind a line that holds the first threshold
/// of every group but the first. Lines are filled up with NaN, which is above nothing and below nothing.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct RankFeature {
    pub feature: u32,
    /// The first of its lines.
    pub line: u32,
    pub thresholds: u32,
    /// The column where a missing value ranks below all thresholds, or [`RankFeature::NO_COLUMN`].
    pub left: u32,
    /// The column where it ranks above all.
    pub right: u32,
    pub buckets: Buckets,
}

/// A shortcut to the thresholds near a value, for features whose thresholds are more than a line.
///
/// The bucket of a value is `(x - low) * scale`, cut to a whole number and kept within the buckets. Each operation,
/// rounding included, keeps the order of its operands or makes them equal, so that a threshold of a lower bucket than
/// a value's is below the value, and one of a higher bucket above it. So the rank is the number of thresholds in lower
/// buckets, which [`super::Section::RankBuckets`] has, plus those of the value's own bucket that are not above it: at
/// most [`WINDOW`], which are compared at once.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Buckets {
    /// Where they begin in their section.
    pub first: u32,
    /// 0 where no number of buckets up to [`Buckets::MAX`] is enough.
    pub count: u32,
    pub low: f32,
    pub scale: f32,
}

impl Buckets {
    pub const MAX: u32 = 1024;

    /// The bucket of a number: what the kernel does with vectors.
    pub fn bucket(self, x: f32) -> usize {
        ((x - self.low) * self.scale).max(0.0).min((self.count - 1) as f32) as usize
    }
}

impl RankFeature {
    pub const NO_COLUMN: u32 = u32::MAX;

    pub fn has_groups(self) -> bool {
        self.thresholds as usize > LINE
    }

    /// The line where its thresholds begin, one behind the other.
    pub fn first_group(self) -> usize {
        self.line as usize + usize::from(self.has_groups())
    }

    /// Lines of thresholds, without the one that chooses among them.
    fn groups(self) -> usize {
        (self.thresholds as usize).div_ceil(LINE)
    }
}

/// Up to [`LANES`] consecutive trees, padded to one depth.
///
/// Nodes lie in post-order: left subtree, right subtree, root. Padding always goes right, so that a shallower tree is
/// the rightmost subtree of its depth.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct RankGroup {
    pub first: u32,
    pub trees: u32,
    pub depth: u32,
    /// Where its nodes begin, in nodes of [`NODE_BYTES`].
    pub nodes: u32,
    /// Where its leaves begin, `2^depth` a tree.
    pub leaves: u32,
    /// Where its leaves begin once more, as [`Plane`]s.
    pub planes: u32,
}

impl RankGroup {
    pub fn num_nodes(self) -> usize {
        (1 << self.depth) - 1
    }

    /// Planes of one tree: as many as hold its leaves.
    pub fn planes_per_tree(self) -> usize {
        (1usize << self.depth).div_ceil(PLANE)
    }
}

/// The bytes of [`PLANE`] leaves: first the lowest of each, last the highest.
pub type Plane = [[u8; PLANE]; 4];

impl View<'_> {
    /// How many columns the features have together.
    pub(super) fn count_rank_columns(self) -> usize {
        let used = self.rank_features().iter().flat_map(|feature| [feature.left, feature.right]);
        let used = used.filter(|column| *column != RankFeature::NO_COLUMN);
        used.max().map_or(0, |column| column as usize + 1)
    }

    /// What the kernels rely on.
    pub(super) fn check_rank(self) -> Result<(), ImageError> {
        let ensure = |holds: bool, what| if holds { Ok(()) } else { Err(ImageError::Malformed(what)) };
        let features = self.rank_features();
        let columns = self.count_rank_columns();
        ensure(columns <= MAX_COLUMNS, "number of rank columns")?;
        for feature in features {
            let two_ways = feature.left != RankFeature::NO_COLUMN && feature.right != RankFeature::NO_COLUMN;
            let second = feature.left as usize + SECOND_WAY;
            let in_place = !two_ways || features.len() > SECOND_WAY || feature.right as usize == second;
            ensure(in_place, "second column of ranks")?;
            ensure(feature.feature < self.header().num_features, "ranks of an unknown feature")?;
            ensure(feature.thresholds as usize <= MAX_THRESHOLDS, "number of thresholds")?;
            let line = feature.line as usize;
            let first = self.rank_thresholds().get(line).ok_or(ImageError::Malformed("lines of thresholds"))?;
            let buckets = feature.buckets;
            if buckets.count > 0 {
                let first = buckets.first as usize;
                let starts = self.rank_buckets().get(first..first + buckets.count as usize);
                let starts = starts.ok_or(ImageError::Malformed("buckets of thresholds"))?;
                let largest = starts.iter().copied().max().map_or(0, usize::from);
                let end = feature.first_group() * LINE + largest + WINDOW;
                ensure(end <= self.rank_thresholds().len() * LINE, "window of thresholds")?;
                ensure(feature.has_groups() && buckets.count <= Buckets::MAX, "buckets of thresholds")?;
            }
            if feature.has_groups() {
                let groups = feature.groups();
                let chosen = first.iter().filter(|threshold| !threshold.is_nan()).count();
                ensure(chosen < groups, "groups of thresholds")?;
                ensure(line + groups < self.rank_thresholds().len(), "lines of thresholds")?;
            }
        }
        let mut next = 0u32;
        for group in self.rank_groups() {
            let ordered = group.first == next && group.trees > 0 && group.trees as usize <= LANES;
            ensure(ordered && group.depth <= MAX_RANK_DEPTH, "rank group")?;
            next = next.checked_add(group.trees).ok_or(ImageError::Malformed("rank group"))?;
            let trees = self.trees().get(group.first as usize..next as usize).unwrap_or_default();
            ensure(trees.len() == group.trees as usize, "trees of a rank group")?;
            ensure(trees.iter().all(|tree: &Tree| tree.depth <= group.depth), "depth of a ranked tree")?;
            let (nodes, leaves, planes) = (group.nodes as usize, group.leaves as usize, group.planes as usize);
            let nodes = self.rank_nodes().get(nodes..nodes + group.num_nodes());
            let nodes = nodes.ok_or(ImageError::Malformed("nodes of a rank group"))?;
            let known = |node: &[u8; NODE_BYTES]| node.iter().take(LANES).all(|column| (*column as usize) < columns);
            ensure(nodes.iter().all(known), "column of a ranked node")?;
            ensure(leaves + (trees.len() << group.depth) <= self.rank_leaves().len(), "leaves of a rank group")?;
            ensure(
                planes + trees.len() * group.planes_per_tree() <= self.rank_planes().len(),
                "leaves of a rank group",
            )?;
        }
        ensure(next == 0 || next as usize == self.trees().len(), "trees of the rank groups")?;
        ensure(next == 0 || !self.has_vector_leaves() && self.linear().is_empty(), "ranks of another kind of model")?;
        Ok(())
    }
}
