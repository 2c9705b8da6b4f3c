//! Trees of 8-byte nodes with adjacent children: each step adds the comparison to the index of the left child, and a
//! leaf is its own left child, so that walks of different lengths stay in step without a branch.

use super::keys::CATEGORY_RIGHT;
use crate::image::{Node, View};

/// One step; `CATEGORIES` where the tree may have categorical splits.
#[inline(always)]
unsafe fn step<const CATEGORIES: bool>(view: View, root: *const Node, at: usize, keys: *const i32) -> usize {
    // SAFETY: the checks of the image: children lie in the tree, slots have keys, sets lie in their section.
    unsafe {
        let node = root.add(at).read();
        let key = *keys.add(node.slot());
        let right =
            if CATEGORIES && node.is_categorical() { in_set(view, node.bound as u32, key) } else { key > node.bound };
        node.child() + usize::from(right)
    }
}

/// Whether a category goes right.
///
/// # Safety
/// `set` is a set of the checked `view`.
#[inline(always)]
pub unsafe fn in_set(view: View, set: u32, category: i32) -> bool {
    // SAFETY: the set is one of the image, whose bits were checked to lie in their section.
    unsafe {
        let set = view.sets().get_unchecked(set as usize);
        let category = category as u32;
        if category < set.categories {
            let word = view.set_words().get_unchecked((set.words + category / 32) as usize);
            word >> (category % 32) & 1 != 0
        } else {
            category == CATEGORY_RIGHT as u32
        }
    }
}

/// `N` walks in step, each with its own tree and row: the payloads of their leaves.
///
/// # Safety
/// Every root is that of a compact tree of the checked `view`, without categorical splits unless `CATEGORIES`; `keys`
/// are those of rows; `depth` is that of the deepest tree.
#[inline(always)]
pub unsafe fn walk<const N: usize, const CATEGORIES: bool>(
    view: View,
    roots: [*const Node; N],
    keys: [*const i32; N],
    depth: u32,
) -> [u32; N] {
    let mut at = [0usize; N];
    for _ in 0..depth {
        for lane in 0..N {
            // SAFETY: as this function's contract; `at` is a node of the tree.
            at[lane] = unsafe { step::<CATEGORIES>(view, roots[lane], at[lane], keys[lane]) };
        }
    }
    // SAFETY: as above.
    std::array::from_fn(|lane| unsafe { (*roots[lane].add(at[lane])).bound as u32 })
}
