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

/// What the lanes are.
trait Lanes<const V: usize>: Copy {
    /// All ones where a lane goes left at the node.
    ///
    /// # Safety
    /// The processor has AVX2; `node` is one of a group of the view that the lanes were made for.
    unsafe fn left(self, node: *const [u8; NODE_BYTES]) -> [Bytes; V];
}

// What follows is inlined into functions compiled for AVX2, and only there do the intrinsics become instructions. Leaves
// are numbered by constants: with numbers computed from an argument the compiler runs out of registers.

/// The numbers of the two leaves under a lowest node, `leaf` and the one behind it.
///
/// # Safety
/// As [`Lanes::left`].
#[inline(always)]
unsafe fn leaves1<const V: usize>(lanes: impl Lanes<V>, nodes: *const [u8; NODE_BYTES], leaf: u8) -> [Bytes; V] {
    // SAFETY: as this function's contract.
    unsafe {
        let mut numbers = lanes.left(nodes);
        for numbers in &mut numbers {
            *numbers = _mm256_add_epi8(_mm256_set1_epi8(leaf as i8 + 1), *numbers);
        }
        numbers
    }
}

macro_rules! deeper {
    ($name:ident, $below:ident, $depth:literal) => {
        /// The numbers of the leaves under a subtree, whose first is `leaf`.
        ///
        /// # Safety
        /// As [`leaves1`], for all nodes of the subtree.
        #[inline(always)]
        unsafe fn $name<const V: usize>(lanes: impl Lanes<V>, nodes: *const [u8; NODE_BYTES], leaf: u8) -> [Bytes; V] {
            const HALF: usize = (1 << ($depth - 1)) - 1;
            // SAFETY: the left subtree's nodes come first, then the right one's, then the root.
            unsafe {
                let of_left = $below(lanes, nodes, leaf);
                let of_right = $below(lanes, nodes.add(HALF), leaf + (1 << ($depth - 1)));
                join(of_left, of_right, lanes.left(nodes.add(2 * HALF)))
            }
        }
    };
}

/// What the subtrees found, each where the lanes went.
///
/// # Safety
/// The processor has AVX2.
#[inline(always)]
unsafe fn join<const V: usize>(of_left: [Bytes; V], of_right: [Bytes; V], left: [Bytes; V]) -> [Bytes; V] {
    let mut numbers = of_right;
    for v in 0..V {
        // SAFETY: as this function's contract.
        numbers[v] = unsafe { _mm256_blendv_epi8(of_right[v], of_left[v], left[v]) };
    }
    numbers
}

deeper!(leaves2, leaves1, 2);
deeper!(leaves3, leaves2, 3);
deeper!(leaves4, leaves3, 4);
deeper!(leaves5, leaves4, 5);
deeper!(leaves6, leaves5, 6);

macro_rules! deepest {
    ($name:ident, $below:ident, $depth:literal) => {
        /// The numbers of the leaves of a tree. One level more doubles the code: calls cost nothing from here on.
        ///
        /// # Safety
        /// As [`leaves1`], for all nodes of the tree.
        #[inline(never)]
        #[target_feature(enable = "avx2")]
        unsafe fn $name<const V: usize>(lanes: impl Lanes<V>, nodes: *const [u8; NODE_BYTES]) -> [Bytes; V] {
            const HALF: usize = (1 << ($depth - 1)) - 1;
            // SAFETY: the left subtree's nodes come first, then the right one's, then the root.
            unsafe {
                let of_left = $below(lanes, nodes);
                let mut of_right = $below(lanes, nodes.add(HALF));
                for numbers in &mut of_right {
                    *numbers = _mm256_add_epi8(*numbers, _mm256_set1_epi8((1u8 << ($depth - 1)) as i8));
                }
                join(of_left, of_right, lanes.left(nodes.add(2 * HALF)))
            }
        }
    };
}

/// The numbers of the leaves of a tree of depth 6.
///
/// # Safety
/// As [`leaves1`], for all nodes of the tree.
#[inline(never)]
#[target_feature(enable = "avx2")]
unsafe fn leaves_of_6<const V: usize>(lanes: impl Lanes<V>, nodes: *const [u8; NODE_BYTES]) -> [Bytes; V] {
    // SAFETY: as this function's contract.
    unsafe { leaves6(lanes, nodes, 0) }
}

deepest!(leaves_of_7, leaves_of_6, 7);
deepest!(leaves_of_8, leaves_of_7, 8);

/// The numbers of the leaves of a tree.
///
/// # Safety
/// As [`leaves1`], for a tree of that depth.
#[inline(always)]
unsafe fn leaves<const V: usize>(lanes: impl Lanes<V>, depth: u32, nodes: *const [u8; NODE_BYTES]) -> [Bytes; V] {
    // SAFETY: as this function's contract.
    unsafe {
        match depth {
            0 => [_mm256_setzero_si256(); V],
            1 => leaves1(lanes, nodes, 0),
            2 => leaves2(lanes, nodes, 0),
            3 => leaves3(lanes, nodes, 0),
            4 => leaves4(lanes, nodes, 0),
            5 => leaves5(lanes, nodes, 0),
            6 => leaves6(lanes, nodes, 0),
            7 => leaves_of_7(lanes, nodes),
            _ => leaves_of_8(lanes, nodes),
        }
    }
}
