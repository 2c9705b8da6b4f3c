//! The image: a compiled forest as one run of bytes that can be written to a file, mapped anywhere and shared.
//!
//! A header of 64 bytes, a table of sections, then the sections, each beginning at a multiple of 64 bytes from the
//! start. All numbers are little-endian and read in place, so the bytes must lie at an address that is a multiple of 8
//! (a mapping or a `Vec` of any usual allocator does). Offsets are relative to the start: the image has no addresses.
//!
//! [`Layout::read`] checks everything once, the indices inside the tables too, so that the kernels can follow them
//! unchecked whatever the bytes came from; the checksum only tells rot from truth.

pub mod rank;

use bytemuck::{Pod, Zeroable};

use self::rank::{LINE, NODE_BYTES, Plane, RankFeature, RankGroup};

use crate::checksum::checksum;
use crate::ensemble::Transform;

/// Changes whenever the bytes' meaning does. An image of another version is refused, and compiled anew by its owner.
pub const IMAGE_VERSION: u32 = 3;

const MAGIC: [u8; 8] = *b"HOWDAHF\n";
/// Where a section may begin.
pub const ALIGNMENT: usize = 64;
/// What the address of an image must be a multiple of.
const ADDRESS_ALIGNMENT: usize = 8;

/// Slots a row is turned into before the walk, at most: they live on the stack.
pub const MAX_SLOTS: usize = 2047;
/// Levels of a perfect tree, at most.
pub const MAX_PERFECT_DEPTH: u32 = 10;
/// Trees interleaved in a perfect group.
pub const PERFECT_WIDTHS: [u32; 4] = [1, 4, 8, 16];
/// Trees of a compact or wide group, at most.
pub const MAX_COMPACT_WIDTH: u32 = 8;

/// Why bytes are not a usable image. The owner of the model compiles it anew.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageError {
    #[error("not a forest image: it does not begin with the magic bytes")]
    Magic,
    #[error("forest image of version {found}, this program reads version {IMAGE_VERSION}")]
    Version { found: u32 },
    #[error("forest image cut short or grown: it should have {expected} bytes and has {found}")]
    Length { expected: u64, found: u64 },
    #[error("forest image damaged: its checksum does not match")]
    Checksum,
    #[error("forest image at an address that is not a multiple of {ADDRESS_ALIGNMENT}")]
    Address,
    #[error("forest images are read on little-endian machines only")]
    Endian,
    #[error("forest image malformed: {0}")]
    Malformed(&'static str),
}

/// The sections, in the order of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Section {
    /// The caller's own bytes.
    Metadata,
    /// UTF-8.
    Objective,
    /// `f32`: the intercept of every output.
    Base,
    /// [`Slot`]s, by kind: see [`Header::slots`].
    Slots,
    Trees,
    Groups,
    /// [`Node`]s of perfect and compact groups.
    Nodes,
    /// `u32`: leaves of perfect groups.
    Leaves,
    WideNodes,
    /// `f32`: vector leaves, `num_outputs` values each.
    Vectors,
    /// [`CategorySet`]s.
    Sets,
    /// `u32`: bits of the category sets.
    SetWords,
    /// `f32`: gblinear's weights, feature by feature, then its bias.
    Linear,
    /// [`RankFeature`]s; this and what follows only where the byte-rank kernels can predict the model.
    RankFeatures,
    /// `[f32; LINE]`: lines of thresholds.
    RankThresholds,
    RankGroups,
    /// `[u8; NODE_BYTES]`: nodes of rank groups.
    RankNodes,
    /// `f32`: leaves of rank groups.
    RankLeaves,
    /// [`Plane`]s: the same leaves, byte by byte.
    RankPlanes,
    /// `u8`: how many thresholds are in the buckets before each of a feature's.
    RankBuckets,
}

pub const SECTIONS: usize = Section::RankBuckets as usize + 1;

#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Header {
    pub magic: [u8; 8],
    /// Of every byte behind it.
    pub checksum: u64,
    pub length: u64,
    pub version: u32,
    pub sections: u32,
    pub num_features: u32,
    pub num_outputs: u32,
    pub transform: u32,
    pub flags: u32,
    /// How many slots there are of each [`SlotKind`]; slot 0, which always goes left, is not counted.
    pub slots: [u32; 4],
}

/// Leaves are indices into [`Section::Vectors`], not values.
pub const VECTOR_LEAVES: u32 = 1;

#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct SectionEntry {
    offset: u64,
    length: u64,
}

/// What a slot makes of its feature's value, and where it sends a missing one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SlotKind {
    NumericLeft,
    NumericRight,
    CategoryLeft,
    CategoryRight,
}

/// A row is turned into slots before it is walked: one for each pair of a feature and a way for its missing values
/// that the model has, so that the walk itself knows nothing of NaN.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Slot {
    pub feature: u32,
}

/// 8 bytes, in perfect and compact groups.
#[derive(Debug, Clone, Copy, Pod, Zeroable, PartialEq, Eq)]
#[repr(C)]
pub struct Node {
    /// Right if the slot's key is above. For a compact leaf its value or vector; for a categorical node its set.
    pub bound: i32,
    /// Perfect: the slot. Compact: [`Node::compact`].
    pub link: u32,
}

impl Node {
    pub const CHILD_BITS: u32 = 20;
    pub const CHILDREN: u32 = 1 << Self::CHILD_BITS;
    const CATEGORICAL: u32 = 1 << Self::CHILD_BITS;
    const SLOT_SHIFT: u32 = Self::CHILD_BITS + 1;

    /// `child` is the left one, its sibling follows it; relative to the tree's root.
    pub fn compact(bound: i32, slot: u32, categorical: bool, child: u32) -> Self {
        let flag = if categorical { Self::CATEGORICAL } else { 0 };
        Self { bound, link: slot << Self::SLOT_SHIFT | flag | child }
    }

    /// A compact leaf is its own left child, and slot 0 always goes left.
    pub fn compact_leaf(payload: u32, index: u32) -> Self {
        Self::compact(payload as i32, 0, false, index)
    }

    #[inline(always)]
    pub fn slot(self) -> usize {
        (self.link >> Self::SLOT_SHIFT) as usize
    }

    #[inline(always)]
    pub fn child(self) -> usize {
        (self.link & (Self::CHILDREN - 1)) as usize
    }

    #[inline(always)]
    pub fn is_categorical(self) -> bool {
        self.link & Self::CATEGORICAL != 0
    }
}

/// 16 bytes: for what does not fit the compact form (very many features, enormous trees). Walked over the row itself.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct WideNode {
    /// Numeric: the threshold. Categorical: the set. Leaf: its value or vector.
    pub payload: u32,
    /// A feature, [`WideNode::CATEGORICAL`] and [`WideNode::DEFAULT_LEFT`]; or [`WideNode::LEAF`].
    pub feature: u32,
    /// Relative to the tree's root; larger than the node's own index.
    pub left: u32,
    pub right: u32,
}

impl WideNode {
    pub const LEAF: u32 = u32::MAX;
    pub const CATEGORICAL: u32 = 1 << 31;
    pub const DEFAULT_LEFT: u32 = 1 << 30;
    pub const FEATURE: u32 = Self::DEFAULT_LEFT - 1;
}

#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Tree {
    pub output: u32,
    /// Compact and wide: where its nodes begin in their section, and how many they are.
    pub root: u32,
    pub nodes: u32,
    pub depth: u32,
}

/// Consecutive trees that are walked together.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct Group {
    pub kind: u32,
    /// Perfect: trees interleaved, padded ones included.
    pub width: u32,
    /// Levels of the deepest tree.
    pub depth: u32,
    pub first: u32,
    pub trees: u32,
    /// Perfect: where the group's nodes and leaves begin in their sections.
    pub nodes: u32,
    pub leaves: u32,
    pub reserved: u32,
}

impl Group {
    pub const PERFECT: u32 = 0;
    pub const COMPACT: u32 = 1;
    pub const CATEGORICAL: u32 = 2;
    pub const WIDE: u32 = 3;
}

#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct CategorySet {
    /// Where its bits begin in [`Section::SetWords`].
    pub words: u32,
    /// How many categories the bits cover.
    pub categories: u32,
}

/// Collects sections and writes the image.
pub struct Builder {
    sections: [Vec<u8>; SECTIONS],
}

impl Builder {
    pub fn new() -> Self {
        Self { sections: std::array::from_fn(|_| Vec::new()) }
    }

    pub fn put<T: Pod>(&mut self, section: Section, items: &[T]) {
        self.sections[section as usize] = bytemuck::cast_slice(items).to_vec();
    }

    /// `header` says what the model is; magic, version, length and checksum are filled in here.
    pub fn finish(self, mut header: Header) -> Vec<u8> {
        let mut entries = [SectionEntry::zeroed(); SECTIONS];
        let mut end = size_of::<Header>() + size_of_val(&entries);
        for (entry, bytes) in entries.iter_mut().zip(&self.sections) {
            end = end.next_multiple_of(ALIGNMENT);
            *entry = SectionEntry { offset: end as u64, length: bytes.len() as u64 };
            end += bytes.len();
        }
        header.magic = MAGIC;
        header.version = IMAGE_VERSION;
        header.sections = SECTIONS as u32;
        header.length = end as u64;
        let mut image = Vec::with_capacity(end);
        image.extend_from_slice(bytemuck::bytes_of(&header));
        image.extend_from_slice(bytemuck::cast_slice(&entries));
        for (entry, bytes) in entries.iter().zip(&self.sections) {
            image.resize(entry.offset as usize, 0);
            image.extend_from_slice(bytes);
        }
        let sum = checksum(&image[CHECKED_FROM..]);
        image[CHECKED_FROM - size_of::<u64>()..CHECKED_FROM].copy_from_slice(&sum.to_le_bytes());
        image
    }
}

/// The checksum covers the bytes from here on.
const CHECKED_FROM: usize = 16;

/// Gives bytes the magic, version, length and checksum of an image, so that tests and fuzzing get past these.
#[cfg(any(test, fuzzing))]
pub fn seal(image: &mut [u8]) {
    let length = image.len() as u64;
    let Some(start) = image.get_mut(..size_of::<Header>()) else { return };
    let mut header: Header = bytemuck::pod_read_unaligned(start);
    (header.magic, header.length, header.version) = (MAGIC, length, IMAGE_VERSION);
    start.copy_from_slice(bytemuck::bytes_of(&header));
    let sum = checksum(&image[CHECKED_FROM..]);
    image[CHECKED_FROM - size_of::<u64>()..CHECKED_FROM].copy_from_slice(&sum.to_le_bytes());
}

/// Where everything is in an image that has been checked.
#[derive(Debug, Clone)]
pub struct Layout {
    pub header: Header,
    pub transform: Transform,
    /// Columns of the byte-rank kernels.
    pub rank_columns: usize,
    length: usize,
    /// Offset and length in bytes.
    sections: [(usize, usize); SECTIONS],
}

pub fn transform_code(transform: Transform) -> u32 {
    match transform {
        Transform::Identity => 0,
        Transform::Sigmoid => 1,
        Transform::Exp => 2,
        Transform::Softmax => 3,
        Transform::Argmax => 4,
        Transform::Hinge => 5,
        Transform::ExpDouble => 6,
        Transform::Sorted => 7,
        Transform::Expectiles => 8,
    }
}

fn transform_of(code: u32) -> Option<Transform> {
    Some(match code {
        0 => Transform::Identity,
        1 => Transform::Sigmoid,
        2 => Transform::Exp,
        3 => Transform::Softmax,
        4 => Transform::Argmax,
        5 => Transform::Hinge,
        6 => Transform::ExpDouble,
        7 => Transform::Sorted,
        8 => Transform::Expectiles,
        _ => return None,
    })
}

/// The header, if these are the bytes of an image of this version, all of them.
fn read_header(bytes: &[u8]) -> Result<Header, ImageError> {
    if cfg!(target_endian = "big") {
        return Err(ImageError::Endian);
    }
    if !bytes.starts_with(&MAGIC) {
        return Err(ImageError::Magic);
    }
    let Some(start) = bytes.get(..size_of::<Header>()) else {
        return Err(ImageError::Length { expected: size_of::<Header>() as u64, found: bytes.len() as u64 });
    };
    let header: Header = bytemuck::pod_read_unaligned(start);
    if header.version != IMAGE_VERSION {
        return Err(ImageError::Version { found: header.version });
    }
    if header.length != bytes.len() as u64 {
        return Err(ImageError::Length { expected: header.length, found: bytes.len() as u64 });
    }
    Ok(header)
}

impl Layout {
    /// Checks the bytes from end to end.
    pub fn read(bytes: &[u8]) -> Result<Self, ImageError> {
        let header = read_header(bytes)?;
        if checksum(&bytes[CHECKED_FROM..]) != header.checksum {
            return Err(ImageError::Checksum);
        }
        let layout = Self::outline(bytes, header)?;
        // SAFETY: these are the bytes that the layout was read from, and the sizes have been checked.
        let view = unsafe { View::new(bytes, &layout) };
        view.check()?;
        view.check_rank()?;
        Ok(layout)
    }

    /// The same for bytes that were checked before: what is looked at now is where everything is, and nothing else is
    /// touched.
    ///
    /// # Safety
    /// [`Self::read`] accepted these bytes, and they have not changed.
    pub unsafe fn read_again(bytes: &[u8]) -> Result<Self, ImageError> {
        Self::outline(bytes, read_header(bytes)?)
    }

    /// Where everything is: from the header and the table of sections, checked as far as a [`View`] takes them for granted.
    fn outline(bytes: &[u8], header: Header) -> Result<Self, ImageError> {
        if !bytes.as_ptr().addr().is_multiple_of(ADDRESS_ALIGNMENT) {
            return Err(ImageError::Address);
        }
        if header.sections != SECTIONS as u32 {
            return Err(ImageError::Malformed("number of sections"));
        }
        let table = bytes
            .get(size_of::<Header>()..size_of::<Header>() + SECTIONS * size_of::<SectionEntry>())
            .ok_or(ImageError::Malformed("section table"))?;
        let mut sections = [(0, 0); SECTIONS];
        for (section, entry) in sections.iter_mut().zip(table.chunks_exact(size_of::<SectionEntry>())) {
            let entry: SectionEntry = bytemuck::pod_read_unaligned(entry);
            let end = entry.offset.checked_add(entry.length).ok_or(ImageError::Malformed("section bounds"))?;
            if end > header.length || !entry.offset.is_multiple_of(ALIGNMENT as u64) {
                return Err(ImageError::Malformed("section bounds"));
            }
            *section = (entry.offset as usize, entry.length as usize);
        }
        let transform = transform_of(header.transform).ok_or(ImageError::Malformed("transform"))?;
        let mut layout = Self { header, transform, rank_columns: 0, length: bytes.len(), sections };
        layout.check_sizes()?;
        std::str::from_utf8(layout.section(bytes, Section::Objective))
            .map_err(|_| ImageError::Malformed("objective"))?;
        // SAFETY: these are the bytes that the layout was read from, and the sizes have been checked.
        layout.rank_columns = unsafe { View::new(bytes, &layout) }.count_rank_columns();
        Ok(layout)
    }

    pub fn section<'a>(&self, bytes: &'a [u8], section: Section) -> &'a [u8] {
        let (offset, length) = self.sections[section as usize];
        bytes.get(offset..offset + length).unwrap_or_default()
    }

    fn check_sizes(&self) -> Result<(), ImageError> {
        let sizes = [
            (Section::Base, size_of::<f32>()),
            (Section::Slots, size_of::<Slot>()),
            (Section::Trees, size_of::<Tree>()),
            (Section::Groups, size_of::<Group>()),
            (Section::Nodes, size_of::<Node>()),
            (Section::Leaves, size_of::<u32>()),
            (Section::WideNodes, size_of::<WideNode>()),
            (Section::Vectors, size_of::<f32>()),
            (Section::Sets, size_of::<CategorySet>()),
            (Section::SetWords, size_of::<u32>()),
            (Section::Linear, size_of::<f32>()),
            (Section::RankFeatures, size_of::<RankFeature>()),
            (Section::RankThresholds, size_of::<[f32; LINE]>()),
            (Section::RankGroups, size_of::<RankGroup>()),
            (Section::RankNodes, NODE_BYTES),
            (Section::RankLeaves, size_of::<f32>()),
            (Section::RankPlanes, size_of::<Plane>()),
        ];
        for (section, size) in sizes {
            if !self.sections[section as usize].1.is_multiple_of(size) {
                return Err(ImageError::Malformed("section size"));
            }
        }
        Ok(())
    }
}

/// The tables of a checked image, typed.
#[derive(Clone, Copy)]
pub struct View<'a> {
    bytes: &'a [u8],
    layout: &'a Layout,
}

impl<'a> View<'a> {
    /// # Safety
    /// `bytes` are those that [`Layout::read`] made `layout` of, and have not changed.
    pub unsafe fn new(bytes: &'a [u8], layout: &'a Layout) -> Self {
        debug_assert_eq!(bytes.len(), layout.length);
        Self { bytes, layout }
    }

    pub fn header(self) -> &'a Header {
        &self.layout.header
    }

    #[inline(always)]
    fn table<T: Pod>(self, section: Section) -> &'a [T] {
        let (offset, length) = self.layout.sections[section as usize];
        // SAFETY: `Layout::read` checked that the section lies within the bytes, that its offset is a multiple of 64
        // and the address one of 8, at which no `T` is stricter, and that its length is a multiple of `T`'s size. Any
        // bytes are a `T`.
        unsafe { std::slice::from_raw_parts(self.bytes.as_ptr().add(offset).cast(), length / size_of::<T>()) }
    }

    #[inline(always)]
    pub fn base(self) -> &'a [f32] {
        self.table(Section::Base)
    }

    #[inline(always)]
    pub fn slots(self) -> &'a [Slot] {
        self.table(Section::Slots)
    }

    #[inline(always)]
    pub fn trees(self) -> &'a [Tree] {
        self.table(Section::Trees)
    }

    #[inline(always)]
    pub fn groups(self) -> &'a [Group] {
        self.table(Section::Groups)
    }

    #[inline(always)]
    pub fn nodes(self) -> &'a [Node] {
        self.table(Section::Nodes)
    }

    #[inline(always)]
    pub fn leaves(self) -> &'a [u32] {
        self.table(Section::Leaves)
    }

    #[inline(always)]
    pub fn wide_nodes(self) -> &'a [WideNode] {
        self.table(Section::WideNodes)
    }

    #[inline(always)]
    pub fn vectors(self) -> &'a [f32] {
        self.table(Section::Vectors)
    }

    #[inline(always)]
    pub fn sets(self) -> &'a [CategorySet] {
        self.table(Section::Sets)
    }

    #[inline(always)]
    pub fn set_words(self) -> &'a [u32] {
        self.table(Section::SetWords)
    }

    #[inline(always)]
    pub fn linear(self) -> &'a [f32] {
        self.table(Section::Linear)
    }

    #[inline(always)]
    pub fn rank_features(self) -> &'a [RankFeature] {
        self.table(Section::RankFeatures)
    }

    #[inline(always)]
    pub fn rank_thresholds(self) -> &'a [[f32; LINE]] {
        self.table(Section::RankThresholds)
    }

    /// Empty where the byte-rank kernels cannot predict the model.
    #[inline(always)]
    pub fn rank_groups(self) -> &'a [RankGroup] {
        self.table(Section::RankGroups)
    }

    #[inline(always)]
    pub fn rank_nodes(self) -> &'a [[u8; NODE_BYTES]] {
        self.table(Section::RankNodes)
    }

    #[inline(always)]
    pub fn rank_leaves(self) -> &'a [f32] {
        self.table(Section::RankLeaves)
    }

    #[inline(always)]
    pub fn rank_planes(self) -> &'a [Plane] {
        self.table(Section::RankPlanes)
    }

    #[inline(always)]
    pub fn rank_buckets(self) -> &'a [u8] {
        self.table(Section::RankBuckets)
    }

    /// Columns of the byte-rank kernels.
    #[inline(always)]
    pub fn rank_columns(self) -> usize {
        self.layout.rank_columns
    }

    #[inline(always)]
    pub fn has_vector_leaves(self) -> bool {
        self.layout.header.flags & VECTOR_LEAVES != 0
    }

    /// Every index inside the tables points into its table. What the kernels rely on is established here.
    fn check(self) -> Result<(), ImageError> {
        let header = self.header();
        let outputs = header.num_outputs as usize;
        let ensure = |holds: bool, what| if holds { Ok(()) } else { Err(ImageError::Malformed(what)) };
        ensure(outputs > 0 && self.base().len() == outputs, "intercepts")?;
        ensure(header.num_features < WideNode::FEATURE, "number of features")?;
        let linear = self.linear();
        ensure(
            linear.is_empty() || linear.len() as u64 == (u64::from(header.num_features) + 1) * outputs as u64,
            "linear weights",
        )?;
        let slots = self.slots();
        ensure(slots.len() <= MAX_SLOTS, "number of slots")?;
        ensure(header.slots.iter().map(|&n| u64::from(n)).sum::<u64>() == slots.len() as u64, "slots by kind")?;
        ensure(slots.iter().all(|slot| slot.feature < header.num_features), "slot of an unknown feature")?;
        for set in self.sets() {
            let end = u64::from(set.words) + u64::from(set.categories).div_ceil(32);
            ensure(end <= self.set_words().len() as u64, "category set")?;
        }
        ensure(self.trees().iter().all(|tree| (tree.output as usize) < outputs), "tree of an unknown output")?;
        let mut next = 0;
        for group in self.groups() {
            ensure(group.first == next && group.trees > 0, "order of trees")?;
            next = next.checked_add(group.trees).ok_or(ImageError::Malformed("number of trees"))?;
            let trees = self.trees().get(group.first as usize..next as usize);
            let trees = trees.ok_or(ImageError::Malformed("number of trees"))?;
            match group.kind {
                Group::PERFECT => self.check_perfect(group)?,
                Group::COMPACT | Group::CATEGORICAL => {
                    ensure(group.trees <= MAX_COMPACT_WIDTH, "width of a compact group")?;
                    // As many steps as a group is deep are walked, wherever the leaves are: no more than there are nodes.
                    let deepest = trees.iter().map(|tree| tree.depth).max();
                    ensure(deepest == Some(group.depth), "depth of a group")?;
                    for tree in trees {
                        ensure(tree.depth < tree.nodes, "depth of a tree")?;
                        self.check_compact(tree, group.kind == Group::CATEGORICAL)?;
                    }
                }
                Group::WIDE => {
                    for tree in trees {
                        self.check_wide(tree)?;
                    }
                }
                _ => return Err(ImageError::Malformed("kind of a group")),
            }
        }
        ensure(next as usize == self.trees().len(), "number of trees")
    }

    fn check_payloads(self, mut payloads: impl Iterator<Item = u32>) -> Result<(), ImageError> {
        let vectors = self.vectors().len() / self.header().num_outputs as usize;
        if self.has_vector_leaves() && payloads.any(|payload| payload as usize >= vectors) {
            return Err(ImageError::Malformed("unknown vector leaf"));
        }
        Ok(())
    }

    fn check_perfect(self, group: &Group) -> Result<(), ImageError> {
        let malformed = ImageError::Malformed("perfect group");
        let fits = PERFECT_WIDTHS.contains(&group.width) && group.trees <= group.width;
        if !fits || group.depth > MAX_PERFECT_DEPTH {
            return Err(malformed);
        }
        let width = group.width as usize;
        let (nodes, leaves) = (group.nodes as usize, group.leaves as usize);
        let nodes = self.nodes().get(nodes..nodes + width * ((1 << group.depth) - 1));
        let leaves = self.leaves().get(leaves..leaves + (width << group.depth));
        let (Some(nodes), Some(leaves)) = (nodes, leaves) else {
            return Err(malformed);
        };
        let largest = nodes.iter().fold(0, |largest, node| node.link.max(largest));
        if largest as usize > self.slots().len() {
            return Err(malformed);
        }
        self.check_payloads(leaves.iter().copied())
    }

    fn check_compact(self, tree: &Tree, categorical: bool) -> Result<(), ImageError> {
        let root = tree.root as usize;
        let nodes = self.nodes().get(root..root + tree.nodes as usize).unwrap_or_default();
        if nodes.is_empty() {
            return Err(ImageError::Malformed("bounds of a compact tree"));
        }
        let slots = self.slots().len();
        let sets = self.sets().len();
        let categories = slots + 1 - (self.header().slots[2] + self.header().slots[3]) as usize;
        let mut sound = true;
        for (i, node) in nodes.iter().enumerate() {
            let leaf = node.slot() == 0 && node.child() == i && !node.is_categorical();
            sound &= leaf || (node.child() > i && node.child() + 1 < nodes.len());
            sound &= node.slot() <= slots;
            if node.is_categorical() {
                sound &= categorical && node.slot() >= categories && (node.bound as u32 as usize) < sets;
            }
        }
        if !sound {
            return Err(ImageError::Malformed("node of a compact tree"));
        }
        // That a walk of `depth` steps ends in a leaf is a matter of the answer, not of safety, except for vectors.
        if self.has_vector_leaves() {
            self.check_payloads(nodes.iter().filter(|node| node.slot() == 0).map(|node| node.bound as u32))?;
            if depth_of_compact(nodes) > tree.depth {
                return Err(ImageError::Malformed("depth of a compact tree"));
            }
        }
        Ok(())
    }

    fn check_wide(self, tree: &Tree) -> Result<(), ImageError> {
        let root = tree.root as usize;
        let nodes = self.wide_nodes().get(root..root + tree.nodes as usize).unwrap_or_default();
        if nodes.is_empty() {
            return Err(ImageError::Malformed("bounds of a wide tree"));
        }
        let sets = self.sets().len();
        let mut sound = true;
        for (i, node) in nodes.iter().enumerate() {
            if node.feature == WideNode::LEAF {
                continue;
            }
            let (left, right) = (node.left as usize, node.right as usize);
            sound &= left > i && left < nodes.len() && right > i && right < nodes.len();
            sound &= node.feature & WideNode::FEATURE < self.header().num_features;
            sound &= node.feature & WideNode::CATEGORICAL == 0 || (node.payload as usize) < sets;
        }
        if !sound {
            return Err(ImageError::Malformed("node of a wide tree"));
        }
        self.check_payloads(nodes.iter().filter(|node| node.feature == WideNode::LEAF).map(|node| node.payload))
    }
}

/// Levels of a compact tree whose children are known to follow their parents.
fn depth_of_compact(nodes: &[Node]) -> u32 {
    let mut depths = vec![0u32; nodes.len()];
    let mut deepest = 0;
    for (i, node) in nodes.iter().enumerate() {
        let depth = depths[i];
        deepest = deepest.max(depth);
        if node.child() > i {
            for child in [node.child(), node.child() + 1] {
                depths[child] = depths[child].max(depth + 1);
            }
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_have_the_sizes_that_the_format_says() {
        assert_eq!(size_of::<Header>(), 64);
        assert_eq!(size_of::<Node>(), 8);
        assert_eq!(size_of::<WideNode>(), 16);
        assert_eq!(size_of::<Tree>(), 16);
        assert_eq!(size_of::<Group>(), 32);
    }

    #[test]
    fn a_group_deeper_than_its_trees_have_nodes_is_refused() {
        let leaf = |value| crate::ensemble::Node::Leaf(value);
        let split =
            crate::ensemble::Node::Numeric { feature: 0, threshold: 0.5, default_left: true, left: 1, right: 2 };
        let nodes = vec![split, leaf(1.0), leaf(2.0)];
        let tree = crate::ensemble::Tree { nodes, covers: Vec::new(), gains: Vec::new(), output: 0, weight: None };
        let ensemble = crate::Ensemble {
            num_features: 1,
            num_outputs: 1,
            base_margin: vec![0.0],
            trees: vec![tree],
            linear: None,
            transform: Transform::Identity,
            objective: "reg:squarederror".into(),
            feature_names: Vec::new(),
            feature_types: Vec::new(),
            attributes: std::collections::BTreeMap::new(),
        };
        let image = crate::compile_as(&ensemble, b"", crate::Form::Compact).unwrap_or_default();
        let sections = Layout::read(&image).map(|layout| layout.sections).unwrap_or([(0, 0); SECTIONS]);
        let deepened = |tree_depth: u32, group_depth: u32| {
            let mut image = image.clone();
            for (section, field, depth) in [
                (Section::Trees, std::mem::offset_of!(Tree, depth), tree_depth),
                (Section::Groups, std::mem::offset_of!(Group, depth), group_depth),
            ] {
                let at = sections[section as usize].0 + field;
                image[at..at + 4].copy_from_slice(&depth.to_le_bytes());
            }
            seal(&mut image);
            Layout::read(&image).map(|_| ()).map_err(|error| error.to_string())
        };
        assert_eq!(deepened(1, 1), Ok(()));
        assert_eq!(deepened(2, 2), Ok(()));
        assert_eq!(deepened(3, 3), Err("forest image malformed: depth of a tree".into()));
        assert_eq!(deepened(u32::MAX, u32::MAX), Err("forest image malformed: depth of a tree".into()));
        assert_eq!(deepened(1, u32::MAX), Err("forest image malformed: depth of a group".into()));
        assert_eq!(deepened(1, 0), Err("forest image malformed: depth of a group".into()));
    }
}
