//! One tree: parallel arrays over its nodes in the file, nodes that point to each other in [`Tree::nodes`].
//!
//! [`Tree::nodes`]: crate::ensemble::Tree::nodes

use crate::ensemble::Node;
use crate::error::Result;
use crate::value::{At, Path};

/// What XGBoost keeps of a category fits a float32 exactly, so no value at or above this can be met.
const CATEGORY_LIMIT: i64 = 1 << 24;

/// The arrays that prediction needs, as long as each other.
struct Arrays {
    left: Vec<i64>,
    right: Vec<i64>,
    feature: Vec<i64>,
    condition: Vec<f32>,
    default_left: Vec<i64>,
    /// Empty if no split is categorical.
    split_type: Vec<i64>,
    /// Empty if the file has none, or nobody asks.
    cover: Vec<f32>,
    /// The same.
    gain: Vec<f32>,
}

/// The nodes of a tree, and of each its cover and what its split gained, if these are there and asked for.
pub(crate) struct Nodes {
    pub(crate) nodes: Vec<Node>,
    pub(crate) covers: Vec<f32>,
    pub(crate) gains: Vec<f32>,
}

/// Reads the nodes that the root reaches, in the order of the file, and their covers and gains if these are asked for.
/// (Pruning leaves nodes behind that nothing reaches.)
pub(crate) fn read(tree: At<'_, '_>, num_features: u32, num_outputs: u32, covers: bool) -> Result<Nodes> {
    let arrays = arrays(tree, covers)?;
    let reachable = reachable(&tree.path, &arrays)?;
    let categories = Categories::read(tree, &arrays)?;
    let vector = vector_leaves(tree, num_outputs, arrays.left.len())?;

    // Where a node goes when those that nothing reaches are left out.
    let mut place = Vec::with_capacity(reachable.len());
    let mut nodes = 0u32;
    for &kept in &reachable {
        place.push(nodes);
        nodes += u32::from(kept);
    }
    let kept = |of: &[f32]| of.iter().zip(&reachable).filter(|(_, kept)| **kept).map(|(value, _)| *value).collect();
    let (covers, gains) = (kept(&arrays.cover), kept(&arrays.gain));
    let place_of = |child: i64| usize::try_from(child).ok().and_then(|child| place.get(child)).copied();

    let mut out = Vec::with_capacity(nodes as usize);
    for (i, _) in reachable.iter().enumerate().filter(|(_, kept)| **kept) {
        let missing = || tree.path.invalid(format!("no node {i}"));
        let condition = *arrays.condition.get(i).ok_or_else(missing)?;
        let left = *arrays.left.get(i).ok_or_else(missing)?;
        if left == -1 {
            out.push(match &vector {
                None => Node::Leaf(condition),
                Some(vector) => {
                    let right = *arrays.right.get(i).ok_or_else(missing)?;
                    Node::VectorLeaf(vector.leaf(&tree.path, i, right)?)
                }
            });
            continue;
        }
        let right = *arrays.right.get(i).ok_or_else(missing)?;
        let (left, right) = (place_of(left).ok_or_else(missing)?, place_of(right).ok_or_else(missing)?);
        let feature = *arrays.feature.get(i).ok_or_else(missing)?;
        let feature = u32::try_from(feature).ok().filter(|&feature| feature < num_features).ok_or_else(|| {
            let path = tree.path.field("split_indices");
            path.index(i).invalid(format!("feature {feature} where there are {num_features}"))
        })?;
        let default_left = *arrays.default_left.get(i).ok_or_else(missing)? != 0;
        out.push(match arrays.split_type.get(i).copied().unwrap_or(0) {
            0 => Node::Numeric { feature, threshold: condition, default_left, left, right },
            1 => {
                let categories = categories.of_node(&tree.path, i)?;
                Node::Categorical { feature, categories, default_left, left, right }
            }
            other => {
                let path = tree.path.field("split_type");
                return Err(path.index(i).unsupported(format!("a split of type {other}")));
            }
        });
    }
    Ok(Nodes { nodes: out, covers, gains })
}

fn arrays(tree: At<'_, '_>, covers: bool) -> Result<Arrays> {
    let left = tree.field("left_children")?.ints()?;
    let num_nodes = left.len();
    if num_nodes == 0 {
        return Err(tree.path.field("left_children").invalid("a tree without nodes"));
    }
    if u32::try_from(num_nodes).is_err() {
        return Err(tree.path.field("left_children").invalid("more than 2^32 nodes"));
    }
    let params = tree.field("tree_param")?;
    let claimed = params.field("num_nodes")?;
    if claimed.integer_text()? != num_nodes as i64 {
        return Err(claimed.invalid(format!("{} nodes, left_children has {num_nodes}", claimed.integer_text()?)));
    }
    let same_length = |name: &str, length: usize| match length == num_nodes {
        true => Ok(()),
        false => Err(tree.path.field(name).invalid(format!("{length} elements where left_children has {num_nodes}"))),
    };
    let ints = |name: &'static str| -> Result<Vec<i64>> {
        let ints = tree.field(name)?.ints()?;
        same_length(name, ints.len())?;
        Ok(ints)
    };
    let condition = tree.field("split_conditions")?.floats()?;
    same_length("split_conditions", condition.len())?;
    // Trees with vector leaves have none before 3.3.
    let asked = |name: &'static str| match tree.get(name)? {
        Some(floats) if covers => {
            let floats = floats.floats()?;
            same_length(name, floats.len())?;
            Ok(floats)
        }
        _ => Ok(Vec::new()),
    };
    Ok(Arrays {
        cover: asked("sum_hessian")?,
        gain: asked("loss_changes")?,
        right: ints("right_children")?,
        feature: ints("split_indices")?,
        default_left: ints("default_left")?,
        // Absent before 1.3.
        split_type: if tree.get("split_type")?.is_some() { ints("split_type")? } else { Vec::new() },
        left,
        condition,
    })
}

/// Which nodes the root reaches. Fails where a child does not exist or has two parents, so what is reached is a tree.
fn reachable(path: &Path<'_>, arrays: &Arrays) -> Result<Vec<bool>> {
    let mut seen = vec![false; arrays.left.len()];
    let mut stack = vec![0usize];
    if let Some(root) = seen.first_mut() {
        *root = true;
    }
    while let Some(node) = stack.pop() {
        let leaf = arrays.left.get(node) == Some(&-1);
        for (name, children) in [("left_children", &arrays.left), ("right_children", &arrays.right)] {
            if leaf {
                break;
            }
            let child = children.get(node).copied().unwrap_or(-1);
            let path = path.field(name);
            let index = usize::try_from(child).ok().filter(|&child| child < seen.len());
            let slot = index.and_then(|child| seen.get_mut(child));
            let (Some(child), Some(slot)) = (index, slot) else {
                return Err(path.index(node).invalid(format!("no node {child} among {}", arrays.left.len())));
            };
            if *slot {
                return Err(path.index(node).invalid(format!("node {child} has two parents or is its own ancestor")));
            }
            *slot = true;
            stack.push(child);
        }
    }
    Ok(seen)
}

/// The categorical splits: for each node in `nodes` a stretch of `values`.
struct Categories {
    nodes: Vec<i64>,
    segments: Vec<i64>,
    sizes: Vec<i64>,
    values: Vec<i64>,
}

impl Categories {
    fn read(tree: At<'_, '_>, arrays: &Arrays) -> Result<Self> {
        if arrays.split_type.iter().all(|&kind| kind == 0) {
            return Ok(Self { nodes: Vec::new(), segments: Vec::new(), sizes: Vec::new(), values: Vec::new() });
        }
        let categories = Self {
            nodes: tree.field("categories_nodes")?.ints()?,
            segments: tree.field("categories_segments")?.ints()?,
            sizes: tree.field("categories_sizes")?.ints()?,
            values: tree.field("categories")?.ints()?,
        };
        let count = categories.nodes.len();
        for (name, length) in
            [("categories_segments", categories.segments.len()), ("categories_sizes", categories.sizes.len())]
        {
            if length != count {
                return Err(tree
                    .path
                    .field(name)
                    .invalid(format!("{length} elements where categories_nodes has {count}")));
            }
        }
        if let Some(i) = categories.nodes.windows(2).position(|pair| pair.first() >= pair.last()) {
            return Err(tree.path.field("categories_nodes").index(i + 1).invalid("not in ascending order"));
        }
        Ok(categories)
    }

    /// Sorted and distinct.
    fn of_node(&self, tree: &Path<'_>, node: usize) -> Result<Vec<u32>> {
        let nodes = tree.field("categories_nodes");
        let found = self.nodes.binary_search(&(node as i64));
        let index = found.map_err(|_| nodes.invalid(format!("nothing of node {node}, which splits by category")))?;
        let stretch = || {
            let start = usize::try_from(*self.segments.get(index)?).ok()?;
            let size = usize::try_from(*self.sizes.get(index)?).ok()?;
            Some((start, self.values.get(start..start.checked_add(size)?)?))
        };
        let (start, values) = stretch().ok_or_else(|| {
            let path = tree.field("categories_segments");
            path.index(index).invalid(format!("outside of the {} categories", self.values.len()))
        })?;
        let mut categories = Vec::with_capacity(values.len());
        for (i, &value) in values.iter().enumerate() {
            if !(0..CATEGORY_LIMIT).contains(&value) {
                let path = tree.field("categories");
                return Err(path.index(start + i).invalid(format!("category {value} is not between 0 and 2^24")));
            }
            categories.push(value as u32);
        }
        categories.sort_unstable();
        categories.dedup();
        Ok(categories)
    }
}

/// Leaves of one value an output.
struct VectorLeaves {
    width: usize,
    weights: Vec<f32>,
    /// Whether `weights` has a row for each leaf, or else a row for each node.
    by_leaf: bool,
}

fn vector_leaves(tree: At<'_, '_>, num_outputs: u32, num_nodes: usize) -> Result<Option<VectorLeaves>> {
    let params = tree.field("tree_param")?;
    let size = match params.get("size_leaf_vector")? {
        None => 0,
        Some(size) => size.integer_text()?,
    };
    if size <= 1 {
        return Ok(None);
    }
    if size != i64::from(num_outputs) {
        let path = params.path.field("size_leaf_vector");
        return Err(path.invalid(format!("leaves of {size} values where there are {num_outputs} outputs")));
    }
    let width = num_outputs as usize;
    let (field, by_leaf) = match tree.get("leaf_weights")? {
        Some(field) => (field, true),
        None => (tree.field("base_weights")?, false),
    };
    let weights = field.floats()?;
    if !by_leaf && Some(weights.len()) != num_nodes.checked_mul(width) {
        return Err(field.invalid(format!("{} values for {num_nodes} nodes of {width}", weights.len())));
    }
    Ok(Some(VectorLeaves { width, weights, by_leaf }))
}

impl VectorLeaves {
    /// Where leaves are kept apart from nodes, a leaf's right child is its place among them.
    fn leaf(&self, tree: &Path<'_>, node: usize, right: i64) -> Result<Vec<f32>> {
        let row = if self.by_leaf { usize::try_from(right).ok() } else { Some(node) };
        let start = row.and_then(|row| row.checked_mul(self.width));
        let values = start.and_then(|start| self.weights.get(start..start.checked_add(self.width)?));
        values.map(<[f32]>::to_vec).ok_or_else(|| {
            let rows = self.weights.len() / self.width;
            tree.field("right_children").index(node).invalid(format!("no leaf {right} among {rows}"))
        })
    }
}
