//! One row: a lane is a tree.

use std::arch::x86_64::*;

use super::{Bytes, Lanes, leaves, ranks};
use crate::image::View;
use crate::image::rank::{LANES, NODE_BYTES, SECOND_WAY};

/// Columns that one shuffle chooses from.
const CHUNK: usize = 16;
/// Columns of a model, at most: beyond, there are more shuffles a node than a walk is worth.
pub const MAX_ROW_COLUMNS: usize = 4 * CHUNK;

/// A row's ranks in chunks of 16, each in both halves of a vector.
#[derive(Clone, Copy)]
struct Trees<const CHUNKS: usize> {
    ranks: [Bytes; CHUNKS],
}

impl<const CHUNKS: usize> Lanes<1> for Trees<CHUNKS> {
    #[inline(always)]
    unsafe fn left(self, node: *const [u8; NODE_BYTES]) -> [Bytes; 1] {
        // SAFETY: a node is two vectors.
        unsafe {
            let columns = _mm256_loadu_si256(node.cast());
            let bounds = _mm256_loadu_si256(node.cast::<Bytes>().add(1));
            let mut ranks = _mm256_setzero_si256();
            // Plain loops: what the compiler does not inline is not compiled for AVX2.
            for chunk in 0..CHUNKS {
                let mut own = columns;
                if CHUNKS > 1 {
                    // A shuffle gives zero where the index has its highest bit: all but a chunk's own columns.
                    own = _mm256_sub_epi8(own, _mm256_set1_epi8((CHUNK * chunk) as i8));
                    own = _mm256_adds_epu8(own, _mm256_set1_epi8(0x70));
                }
                ranks = _mm256_or_si256(ranks, _mm256_shuffle_epi8(self.ranks[chunk], own));
            }
            [_mm256_cmpgt_epi8(bounds, ranks)]
        }
    }
}

/// The margins of one row.
///
/// # Safety
/// The processor is [`super::is_supported`]; `view` was checked, has rank groups and at most [`MAX_ROW_COLUMNS`]
/// columns; `row` has `num_features` values, `out` `num_outputs`.
#[target_feature(enable = "avx2,popcnt")]
pub unsafe fn margin_row(view: View, row: &[f32], out: &mut [f32]) {
    out.copy_from_slice(view.base());
    let mut ranks = [0u8; MAX_ROW_COLUMNS + 1];
    // SAFETY: as this function's contract; there is room for the most columns and one more.
    unsafe {
        let two_ways = ranks::rank_row(view, row.as_ptr(), ranks.as_mut_ptr());
        if !two_ways && view.rank_features().len() <= SECOND_WAY {
            // The columns of a feature are equal, and a shuffle by column 16 + c is one by column c.
            return add_trees::<1>(view, &ranks, out);
        }
        match view.rank_columns().div_ceil(CHUNK) {
            0 | 1 => add_trees::<1>(view, &ranks, out),
            2 => add_trees::<2>(view, &ranks, out),
            3 => add_trees::<3>(view, &ranks, out),
            _ => add_trees::<4>(view, &ranks, out),
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
unsafe fn add_trees<const CHUNKS: usize>(view: View, ranks: &[u8; MAX_ROW_COLUMNS + 1], out: &mut [f32]) {
    // SAFETY: as many chunks as there is room for.
    let chunk = |chunk| unsafe { _mm_loadu_si128(ranks.as_ptr().add(CHUNK * chunk).cast()) };
    let trees = Trees::<CHUNKS> { ranks: std::array::from_fn(|c| _mm256_broadcastsi128_si256(chunk(c))) };
    for group in view.rank_groups() {
        let mut numbers = [0u8; LANES];
        // SAFETY: the checks of the image: the group's nodes lie in their section, its leaves in theirs, `2^depth` a
        // tree, and no number that the nodes give is larger; its trees are trees, and their outputs are outputs.
        unsafe {
            if group.depth > 0 {
                let nodes = view.rank_nodes().as_ptr().add(group.nodes as usize);
                let [of_trees] = numbers_of(trees, group.depth, nodes);
                _mm256_storeu_si256(numbers.as_mut_ptr().cast(), of_trees);
            }
            let count = group.trees as usize;
            let mut leaves = view.rank_leaves().as_ptr().add(group.leaves as usize);
            if let [margin] = out {
                let mut sum = *margin;
                for number in numbers.get_unchecked(..count) {
                    sum += *leaves.add(*number as usize);
                    leaves = leaves.add(1 << group.depth);
                }
                *margin = sum;
            } else {
                let first = group.first as usize;
                let outputs = view.trees().get_unchecked(first..first + count).iter().map(|tree| tree.output);
                for (number, output) in numbers.iter().zip(outputs) {
                    *out.get_unchecked_mut(output as usize) += *leaves.add(*number as usize);
                    leaves = leaves.add(1 << group.depth);
                }
            }
        }
    }
}

/// [`leaves`], out of line: with the sums around it the compiler has too few registers.
#[inline(never)]
#[target_feature(enable = "avx2")]
unsafe fn numbers_of<const CHUNKS: usize>(
    trees: Trees<CHUNKS>,
    depth: u32,
    nodes: *const [u8; NODE_BYTES],
) -> [Bytes; 1] {
    // SAFETY: as `leaves`.
    unsafe { leaves(trees, depth, nodes) }
}
