//! Many rows: a lane is a row.

use std::arch::x86_64::*;

use super::row::{MAX_ROW_COLUMNS, margin_row};
use super::{Bytes, LANES, Lanes, block, leaves};
use crate::image::View;
use crate::image::rank::{NODE_BYTES, PLANE, Plane};

/// Rows of a block.
pub const ROWS: usize = 2 * LANES;

/// So few rows are faster one by one.
const FEW_ROWS: usize = 12;

/// Ranks of a block. Its vectors lie within cache lines: loads across two made trees a fifth slower.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub struct Column(pub [u8; ROWS]);

/// Sums of a block, of one output.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Sums([f32; ROWS]);

/// The columns of a block.
#[derive(Clone, Copy)]
struct Rows {
    columns: *const Column,
}

impl<const V: usize> Lanes<V> for Rows {
    #[inline(always)]
    unsafe fn left(self, node: *const [u8; NODE_BYTES]) -> [Bytes; V] {
        // SAFETY: `node` points to the lane of a tree; its column is one of the columns.
        unsafe {
            let column: *const Bytes = self.columns.add(usize::from(*node.cast::<u8>())).cast();
            let bound = _mm256_set1_epi8(*node.cast::<i8>().add(LANES));
            std::array::from_fn(|v| _mm256_cmpgt_epi8(bound, _mm256_load_si256(column.add(v))))
        }
    }
}

/// The margins of many rows, into `out`, row by row.
///
/// # Safety
/// The processor is [`super::is_supported`]; `view` was checked and has rank groups; `rows` has a multiple of
/// `num_features` values, `out` `num_outputs` times as many as there are rows.
#[target_feature(enable = "avx2,popcnt")]
pub unsafe fn margin_batch(view: View, rows: &[f32], out: &mut [f32]) {
    let features = view.header().num_features as usize;
    let outputs = view.header().num_outputs as usize;
    let mut columns = vec![Column([0; ROWS]); view.rank_columns()];
    let mut sums = vec![Sums([0.0; ROWS]); outputs];
    for (b, out) in out.chunks_mut(ROWS * outputs).enumerate() {
        let count = out.len() / outputs;
        if count <= FEW_ROWS && view.rank_columns() <= MAX_ROW_COLUMNS {
            for (r, out) in out.chunks_exact_mut(outputs).enumerate() {
                let row = rows.get((b * ROWS + r) * features..).and_then(|rows| rows.get(..features));
                // SAFETY: as this function's contract.
                unsafe { margin_row(view, row.unwrap_or_default(), out) };
            }
            continue;
        }
        // SAFETY: so many rows begin there, one at least; the columns are those of a block.
        unsafe { block::rank_block(view, rows.as_ptr().add(b * ROWS * features), count, columns.as_mut_ptr()) };
        for (sums, base) in sums.iter_mut().zip(view.base()) {
            sums.0.fill(*base);
        }
        // SAFETY: columns and sums are those of a block.
        unsafe {
            if count > LANES {
                add_trees::<2>(view, &columns, &mut sums);
            } else {
                add_trees::<1>(view, &columns, &mut sums);
            }
        }
        for (r, out) in out.chunks_exact_mut(outputs).enumerate() {
            for (margin, sums) in out.iter_mut().zip(&sums) {
                *margin = sums.0[place(r)];
            }
        }
    }
}

/// Where a row's sum is: the order in which unpacking leaves them.
const fn place(row: usize) -> usize {
    let (vector, row) = (row / LANES, row % LANES);
    let (half, row) = (row / 16, row % 16);
    vector * LANES + row / 4 * 8 + half * 4 + row % 4
}

/// Adds all trees to the sums of `V` vectors of rows.
#[inline(always)]
unsafe fn add_trees<const V: usize>(view: View, columns: &[Column], sums: &mut [Sums]) {
    let rows = Rows { columns: columns.as_ptr() };
    for group in view.rank_groups() {
        // SAFETY: the checks of the image: trees, nodes and planes lie in their sections, outputs are outputs, no tree
        // is deeper than its group.
        unsafe {
            let nodes = view.rank_nodes().as_ptr().add(group.nodes as usize);
            let mut planes = view.rank_planes().as_ptr().add(group.planes as usize);
            for lane in 0..group.trees as usize {
                let tree = view.trees().get_unchecked(group.first as usize + lane);
                // A shallower tree is the rightmost subtree of its depth, and its leaves are the last.
                let skipped = ((1usize << group.depth) - (1 << tree.depth)) - (group.depth - tree.depth) as usize;
                let node: *const u8 = nodes.add(skipped).cast();
                let node = node.add(lane).cast();
                let sums = sums.as_mut_ptr().add(tree.output as usize).cast();
                planes = planes.add(group.planes_per_tree());
                match tree.depth {
                    6 => add_tree::<V, 6, 4>(rows, node, planes, 0, sums),
                    5 => add_tree::<V, 5, 2>(rows, node, planes, 0, sums),
                    4 => add_tree::<V, 4, 1>(rows, node, planes, 0, sums),
                    7 => add_tree::<V, 7, 8>(rows, node, planes, 0, sums),
                    8 => add_tree::<V, 8, 16>(rows, node, planes, 0, sums),
                    depth => {
                        let first = PLANE.min(1 << group.depth) - (1 << depth);
                        match depth {
                            3 => add_tree::<V, 3, 1>(rows, node, planes, first, sums),
                            2 => add_tree::<V, 2, 1>(rows, node, planes, first, sums),
                            1 => add_tree::<V, 1, 1>(rows, node, planes, first, sums),
                            _ => add_tree::<V, 0, 1>(rows, node, planes, first, sums),
                        }
                    }
                }
            }
        }
    }
}

/// Adds a tree whose leaves are the last `PLANES` before `end`, from number `first` of these on.
///
/// # Safety
/// The processor has AVX2; `node` points to the tree's lane in the first of its nodes; `sums` has a block's sums.
#[inline(never)]
#[target_feature(enable = "avx2")]
unsafe fn add_tree<const V: usize, const DEPTH: u32, const PLANES: usize>(
    rows: Rows,
    node: *const [u8; NODE_BYTES],
    end: *const Plane,
    first: usize,
    sums: *mut f32,
) {
    // SAFETY: as this function's contract.
    unsafe {
        let numbers: [Bytes; V] = leaves(rows, DEPTH, node);
        for (v, numbers) in numbers.into_iter().enumerate() {
            let numbers = if DEPTH < 4 { _mm256_add_epi8(numbers, _mm256_set1_epi8(first as i8)) } else { numbers };
            add_leaves::<PLANES>(numbers, end.sub(PLANES), sums.add(v * LANES));
        }
    }
}

/// Adds the leaves of these numbers to 32 sums.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn add_leaves<const PLANES: usize>(numbers: Bytes, planes: *const Plane, sums: *mut f32) {
    // SAFETY: as many planes as the numbers need; 32 sums.
    unsafe {
        // Plain loops: what the compiler does not inline is not compiled for AVX2.
        let mut own = [numbers; PLANES];
        if PLANES > 1 {
            for (plane, own) in own.iter_mut().enumerate() {
                // A shuffle gives zero where the index has its highest bit: all but a plane's own leaves.
                *own = _mm256_sub_epi8(*own, _mm256_set1_epi8((PLANE * plane) as i8));
                *own = _mm256_adds_epu8(*own, _mm256_set1_epi8(0x70));
            }
        }
        let mut bytes = [_mm256_setzero_si256(); 4];
        for (b, byte) in bytes.iter_mut().enumerate() {
            for (plane, own) in own.iter().enumerate() {
                let leaves = _mm_loadu_si128(planes.add(plane).cast::<__m128i>().add(b));
                let leaves = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(leaves), *own);
                *byte = _mm256_or_si256(*byte, leaves);
            }
        }
        let [b0, b1, b2, b3] = bytes;
        let (low01, high01) = (_mm256_unpacklo_epi8(b0, b1), _mm256_unpackhi_epi8(b0, b1));
        let (low23, high23) = (_mm256_unpacklo_epi8(b2, b3), _mm256_unpackhi_epi8(b2, b3));
        let quarters = [
            _mm256_unpacklo_epi16(low01, low23),
            _mm256_unpackhi_epi16(low01, low23),
            _mm256_unpacklo_epi16(high01, high23),
            _mm256_unpackhi_epi16(high01, high23),
        ];
        for (q, quarter) in quarters.into_iter().enumerate() {
            let sums = sums.add(8 * q);
            _mm256_storeu_ps(sums, _mm256_add_ps(_mm256_loadu_ps(sums), _mm256_castsi256_ps(quarter)));
        }
    }
}
