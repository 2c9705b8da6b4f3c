//! One row through the interleaved trees of a perfect group: `W` walks in step, so that the loads of all are under way
//! at once. Children are implicit, and a leaf's address is the end of the walk.

use crate::image::{Group, View};

/// The payloads of the leaves that the row falls into, one a lane.
///
/// # Safety
/// `group` is a perfect group of width `W` of a checked `view`; `keys` are those of a row.
#[inline(always)]
pub unsafe fn walk<const W: usize>(view: View, group: &Group, keys: *const i32) -> [u32; W] {
    // SAFETY: the checks of the image: the group's nodes and leaves lie in their sections, every slot has a key. A
    // position of level `l` is below `2^l`, so that `level` + position is inside the level.
    unsafe {
        let mut level = view.nodes().as_ptr().add(group.nodes as usize);
        // Position within the level, times W.
        let mut at = [0usize; W];
        for depth in 0..group.depth {
            for (lane, at) in at.iter_mut().enumerate() {
                let node = level.add(*at + lane).read();
                let right = *keys.add(node.link as usize) > node.bound;
                *at = 2 * *at + usize::from(right) * W;
            }
            level = level.add(W << depth);
        }
        let leaves = view.leaves().as_ptr().add(group.leaves as usize);
        std::array::from_fn(|lane| leaves.add(at[lane] + lane).read())
    }
}
