//! Margins without SIMD: each group by the walk of its layout, the leaves added tree by tree.

use std::mem::MaybeUninit;

use super::{compact, keys, perfect, wide};
use crate::image::{Group, MAX_COMPACT_WIDTH, Node, Tree, View};

/// Rows whose keys are made at once in a batch: as many as stay in the first-level cache.
const KEYS_PER_CHUNK: usize = 4096;
const ROWS_PER_CHUNK: std::ops::RangeInclusive<usize> = 8..=64;
/// Rows that walk one compact tree in step.
const COMPACT_ROWS: usize = 8;

/// The margins of one row.
///
/// # Safety
/// `row` has `num_features` values, `out` `num_outputs`.
pub unsafe fn margin_row(view: View, row: &[f32], out: &mut [f32]) {
    out.copy_from_slice(view.base());
    let mut room = [MaybeUninit::<i32>::uninit(); keys::MAX_KEYS];
    let row_keys = room.as_mut_ptr().cast();
    // SAFETY: the room is for the most slots that an image may have.
    unsafe { keys::fill(view, row, row_keys) };
    for group in view.groups() {
        // SAFETY: keys and row are of the sizes that the image says.
        unsafe { add_group(view, group, row, row_keys, out) };
    }
    add_linear(view, row, out);
}

/// The margins of many rows, into `out`, row by row.
///
/// # Safety
/// `rows` has a multiple of `num_features` values, `out` `num_outputs` times as many as there are rows.
pub unsafe fn margin_batch(view: View, rows: &[f32], out: &mut [f32]) {
    let features = view.header().num_features as usize;
    let outputs = view.header().num_outputs as usize;
    let per_row = keys::keys_per_row(view);
    let chunk = (KEYS_PER_CHUNK / per_row).clamp(*ROWS_PER_CHUNK.start(), *ROWS_PER_CHUNK.end());
    let mut chunk_keys = vec![0i32; chunk * per_row];
    for (c, out) in out.chunks_mut(chunk * outputs).enumerate() {
        let count = out.len() / outputs;
        let rows = rows.get(c * chunk * features..(c * chunk + count) * features).unwrap_or_default();
        // With no features there are no rows to iterate over, and yet there are `count` of them.
        let row = |r: usize| rows.get(r * features..(r + 1) * features).unwrap_or_default();
        for (r, (out, keys)) in out.chunks_exact_mut(outputs).zip(chunk_keys.chunks_exact_mut(per_row)).enumerate() {
            out.copy_from_slice(view.base());
            // SAFETY: `keys` is room for one row.
            unsafe { keys::fill(view, row(r), keys.as_mut_ptr()) };
        }
        for group in view.groups() {
            if matches!(group.kind, Group::COMPACT | Group::CATEGORICAL) {
                // SAFETY: the keys of the chunk's rows have been made.
                unsafe { add_compact_rows(view, group, &chunk_keys, per_row, out) };
                continue;
            }
            for (r, (out, keys)) in out.chunks_exact_mut(outputs).zip(chunk_keys.chunks_exact(per_row)).enumerate() {
                // SAFETY: row and keys are of the sizes that the image says.
                unsafe { add_group(view, group, row(r), keys.as_ptr(), out) };
            }
        }
        if !view.linear().is_empty() {
            for (r, out) in out.chunks_exact_mut(outputs).enumerate() {
                add_linear(view, row(r), out);
            }
        }
    }
}

/// Adds the trees of one group to the margins of one row.
#[inline(always)]
unsafe fn add_group(view: View, group: &Group, row: &[f32], keys: *const i32, out: &mut [f32]) {
    // SAFETY: the image was checked; row, keys and out are the caller's promise.
    unsafe {
        let trees = trees_of(view, group);
        match (group.kind, group.width) {
            (Group::PERFECT, 16) => add(view, trees, &perfect::walk::<16>(view, group, keys), out),
            (Group::PERFECT, 8) => add(view, trees, &perfect::walk::<8>(view, group, keys), out),
            (Group::PERFECT, 4) => add(view, trees, &perfect::walk::<4>(view, group, keys), out),
            (Group::PERFECT, _) => add(view, trees, &perfect::walk::<1>(view, group, keys), out),
            (Group::COMPACT, _) => add(view, trees, &compact_trees::<false>(view, group, trees, keys), out),
            (Group::CATEGORICAL, _) => add(view, trees, &compact_trees::<true>(view, group, trees, keys), out),
            _ => {
                for tree in trees {
                    add(view, std::slice::from_ref(tree), &[wide::walk(view, tree, row)], out);
                }
            }
        }
    }
}

#[inline(always)]
fn trees_of<'a>(view: View<'a>, group: &Group) -> &'a [Tree] {
    let first = group.first as usize;
    // SAFETY: the check of the image found the groups to partition the trees.
    unsafe { view.trees().get_unchecked(first..first + group.trees as usize) }
}

/// One row through all trees of a compact group; lanes without a tree repeat the first.
#[inline(always)]
unsafe fn compact_trees<const CATEGORIES: bool>(
    view: View,
    group: &Group,
    trees: &[Tree],
    keys: *const i32,
) -> [u32; MAX_COMPACT_WIDTH as usize] {
    const WIDTH: usize = MAX_COMPACT_WIDTH as usize;
    let root = |lane: usize| {
        let tree = trees.get(lane).or(trees.first()).map_or(0, |tree| tree.root as usize);
        // SAFETY: roots were checked to lie in the section.
        unsafe { view.nodes().as_ptr().add(tree) }
    };
    // SAFETY: as this function's contract.
    unsafe { compact::walk::<WIDTH, CATEGORIES>(view, std::array::from_fn(root), [keys; WIDTH], group.depth) }
}

/// All rows of a chunk through the trees of a compact group, tree by tree.
unsafe fn add_compact_rows(view: View, group: &Group, keys: &[i32], per_row: usize, out: &mut [f32]) {
    let outputs = view.header().num_outputs as usize;
    for tree in trees_of(view, group) {
        // SAFETY: roots were checked to lie in the section.
        let root: *const Node = unsafe { view.nodes().as_ptr().add(tree.root as usize) };
        let rows = out.chunks_mut(COMPACT_ROWS * outputs).zip(keys.chunks(COMPACT_ROWS * per_row));
        for (out, keys) in rows {
            let count = out.len() / outputs;
            // Lanes without a row repeat the first.
            let lanes: [*const i32; COMPACT_ROWS] = std::array::from_fn(|lane| {
                let lane = if lane < count { lane } else { 0 };
                keys.get(lane * per_row..).unwrap_or_default().as_ptr()
            });
            // SAFETY: each lane has the keys of a row, each root is this tree's.
            let payloads = unsafe {
                if group.kind == Group::CATEGORICAL {
                    compact::walk::<COMPACT_ROWS, true>(view, [root; COMPACT_ROWS], lanes, tree.depth)
                } else {
                    compact::walk::<COMPACT_ROWS, false>(view, [root; COMPACT_ROWS], lanes, tree.depth)
                }
            };
            for (out, payload) in out.chunks_exact_mut(outputs).zip(payloads) {
                add(view, std::slice::from_ref(tree), &[payload], out);
            }
        }
    }
}

/// Adds the leaves of consecutive trees, in their order.
#[inline(always)]
fn add(view: View, trees: &[Tree], payloads: &[u32], out: &mut [f32]) {
    if view.has_vector_leaves() {
        for (_, payload) in trees.iter().zip(payloads) {
            let vector = view.vectors().chunks_exact(out.len()).nth(*payload as usize).unwrap_or_default();
            for (margin, leaf) in out.iter_mut().zip(vector) {
                *margin += leaf;
            }
        }
    } else if let [margin] = out {
        let mut sum = *margin;
        for (_, payload) in trees.iter().zip(payloads) {
            sum += f32::from_bits(*payload);
        }
        *margin = sum;
    } else {
        for (tree, payload) in trees.iter().zip(payloads) {
            // SAFETY: the check of the image found every tree's output below the number of outputs.
            unsafe { *out.get_unchecked_mut(tree.output as usize) += f32::from_bits(*payload) };
        }
    }
}

/// gblinear: bias, then feature by feature; a missing value adds nothing.
pub fn add_linear(view: View, row: &[f32], out: &mut [f32]) {
    let outputs = out.len();
    let Some((weights, bias)) = view.linear().split_at_checked(row.len() * outputs) else {
        return;
    };
    if bias.len() != outputs {
        return;
    }
    for (margin, bias) in out.iter_mut().zip(bias) {
        *margin += bias;
    }
    for (x, weights) in row.iter().zip(weights.chunks_exact(outputs)).filter(|(x, _)| !x.is_nan()) {
        for (margin, weight) in out.iter_mut().zip(weights) {
            *margin += x * weight;
        }
    }
}
