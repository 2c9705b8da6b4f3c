//! The byte-rank kernels: every node of a tree at once for 32 rows, or one row through 32 trees, with AVX2.
//!
//! A split asks only whether a value is below a threshold, and a model knows few thresholds of a feature (training by
//! histograms makes at most 256). So each row is first turned into bytes: the rank of a value is how many of the
//! feature's thresholds are not above it. Then `x < threshold[j]` exactly if `rank(x) <= j`, and nothing is lost: the
//! sums are those of the plain kernel, bit by bit. A missing value ranks below or above all, as its column says.
//!
//! A tree is evaluated at all its nodes, without a branch or a gather: one comparison of bytes tells 32 lanes their
//! ways at a node, and one blend joins what its two subtrees found, from the bottom up, until each byte is the number of
//! the leaf. In [`batch`] the lanes are rows, in [`row`] they are trees; the nodes' table serves both. That is some 2 or
//! 3 vector instructions a node for 32 lanes, where a walk takes some 6 scalar ones a level for each.

use std::arch::x86_64::*;

pub mod batch;
mod block;
mod ranks;
pub mod row;

use crate::image::rank::{LANES, NODE_BYTES};

/// One vector of bytes is 32 rows, or 32 trees.
type Bytes = __m256i;

/// Whether this processor can run these kernels.
pub fn is_supported() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("popcnt")
}

#[repr(align(64))]
struct Pairs([[u8; LANES]; 128]);

/// `2p + 1` for the p-th pair of leaves, in every byte.
static ODD: Pairs = {
    let mut table = [[0; LANES]; 128];
    let mut pair = 0;
    while pair < table.len() {
        table[pair] = [2 * pair as u8 + 1; LANES];
        pair += 1;
    }
    Pairs(table)
};

/// What the lanes are.
trait Lanes<const V: usize>: Copy {
    /// All ones where a lane goes left at the node.
    ///
    /// # Safety
    /// The processor has AVX2; `node` is one of a group of the view that the lanes were made for.
    unsafe fn left(self, node: *const [u8; NODE_BYTES]) -> [Bytes; V];
}

// What follows is inlined into functions compiled for AVX2, and only there do the intrinsics become instructions.

/// The numbers of the leaves under a lowest node, that of the `pair`-th pair of leaves.
///
/// # Safety
/// As [`Lanes::left`]; `pair` is below 128.
#[inline(always)]
unsafe fn leaves1<const V: usize>(lanes: impl Lanes<V>, nodes: *const [u8; NODE_BYTES], pair: usize) -> [Bytes; V] {
    // SAFETY: the table has as many pairs.
    unsafe {
        let odd = _mm256_load_si256(ODD.0.as_ptr().add(pair).cast());
        lanes.left(nodes).map(|left| _mm256_add_epi8(odd, left))
    }
}

macro_rules! deeper {
    ($(#[$how:meta])* $name:ident, $below:ident, $depth:literal) => {
        /// The numbers of the leaves under a subtree.
        ///
        /// # Safety
        /// As [`leaves1`], for all nodes and pairs of the subtree.
        $(#[$how])*
        unsafe fn $name<const V: usize>(
            lanes: impl Lanes<V>,
            nodes: *const [u8; NODE_BYTES],
            pair: usize,
        ) -> [Bytes; V] {
            const HALF: usize = (1 << ($depth - 1)) - 1;
            // SAFETY: the left subtree's nodes come first, then the right one's, then the root.
            unsafe {
                let of_left = $below(lanes, nodes, pair);
                let of_right = $below(lanes, nodes.add(HALF), pair + (1 << $depth) / 4);
                let left = lanes.left(nodes.add(2 * HALF));
                std::array::from_fn(|v| _mm256_blendv_epi8(of_right[v], of_left[v], left[v]))
            }
        }
    };
}

deeper!(
    #[inline(always)]
    leaves2,
    leaves1,
    2
);
deeper!(
    #[inline(always)]
    leaves3,
    leaves2,
    3
);
deeper!(
    #[inline(always)]
    leaves4,
    leaves3,
    4
);
deeper!(
    #[inline(always)]
    leaves5,
    leaves4,
    5
);
// One level more doubles the code: calls cost nothing from here on.
deeper!(
    #[inline(never)]
    #[target_feature(enable = "avx2")]
    leaves6,
    leaves5,
    6
);
deeper!(
    #[inline(never)]
    #[target_feature(enable = "avx2")]
    leaves7,
    leaves6,
    7
);
deeper!(
    #[inline(never)]
    #[target_feature(enable = "avx2")]
    leaves8,
    leaves7,
    8
);

/// The numbers of the leaves of a tree whose first pair of leaves is the `pair`-th.
///
/// # Safety
/// As [`leaves1`], for a tree of that depth; not for depth 0.
#[inline(never)]
#[target_feature(enable = "avx2")]
unsafe fn leaves<const V: usize>(
    lanes: impl Lanes<V>,
    depth: u32,
    nodes: *const [u8; NODE_BYTES],
    pair: usize,
) -> [Bytes; V] {
    // SAFETY: as this function's contract.
    unsafe {
        match depth {
            0 | 1 => leaves1(lanes, nodes, pair),
            2 => leaves2(lanes, nodes, pair),
            3 => leaves3(lanes, nodes, pair),
            4 => leaves4(lanes, nodes, pair),
            5 => leaves5(lanes, nodes, pair),
            6 => leaves6(lanes, nodes, pair),
            7 => leaves7(lanes, nodes, pair),
            _ => leaves8(lanes, nodes, pair),
        }
    }
}
