//! Trees of 16-byte nodes, walked one by one over the row itself. For what is too large for the compact form.

use super::compact::in_set;
use super::keys::CATEGORY_LIMIT;
use crate::image::{Tree, View, WideNode};

/// The payload of the leaf that the row falls into.
///
/// # Safety
/// `tree` is a wide tree of the checked `view`, `row` has `num_features` values.
pub unsafe fn walk(view: View, tree: &Tree, row: &[f32]) -> u32 {
    // SAFETY: the checks of the image: the nodes lie in their section, children in the tree and behind their parents,
    // features are below `num_features`, sets in their section.
    unsafe {
        let root = view.wide_nodes().as_ptr().add(tree.root as usize);
        let mut node = root.read();
        while node.feature != WideNode::LEAF {
            let x = *row.get_unchecked((node.feature & WideNode::FEATURE) as usize);
            let right = if x.is_nan() {
                node.feature & WideNode::DEFAULT_LEFT == 0
            } else if node.feature & WideNode::CATEGORICAL != 0 {
                (0.0..CATEGORY_LIMIT).contains(&x) && in_set(view, node.payload, x as i32)
            } else {
                let left = x < f32::from_bits(node.payload);
                !left
            };
            node = root.add(if right { node.right } else { node.left } as usize).read();
        }
        node.payload
    }
}
