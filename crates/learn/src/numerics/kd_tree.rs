//! Rows by where they are, to find those near a place: a balanced tree that halves the rows at the median of their
//! widest feature (Friedman, Bentley and Finkel, 1977), each node with the box around its rows.
//!
//! Nodes are numbered as in a heap, the children of `node` being `2 * node + 1` and `2 * node + 2`, and all leaves are
//! equally deep, so that the number of rows says where each node's rows are: nothing but rows and boxes is stored.

use crate::Error;
use crate::family::Array;

use crate::numerics::distance::Metric;

/// Rows that a leaf has at most.
const LEAF: usize = 24;

/// A tree over rows, which lie in the order of its leaves.
pub(crate) struct KdTree {
    width: usize,
    len: usize,
    /// Levels below the root.
    depth: u32,
    pub(crate) metric: Metric,
    pub(crate) rows: Array<f32>,
    /// For each node the least value of each feature, then the largest.
    pub(crate) boxes: Array<f32>,
}

/// A node and the rows that are under it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Node {
    index: usize,
    level: u32,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl Node {
    fn children(self) -> [Node; 2] {
        let middle = self.from + (self.to - self.from) / 2;
        let level = self.level + 1;
        [
            Node { index: 2 * self.index + 1, level, from: self.from, to: middle },
            Node { index: 2 * self.index + 2, level, from: middle, to: self.to },
        ]
    }
}

fn depth(len: usize) -> u32 {
    let mut depth = 0;
    while len >> depth > LEAF {
        depth += 1;
    }
    depth
}

fn nodes(len: usize) -> usize {
    (2usize << depth(len)) - 1
}

impl KdTree {
    /// A tree over these rows; with it, for each place in the tree, which row is there.
    pub(crate) fn new(features: &[f32], width: usize, metric: Metric) -> Result<(KdTree, Vec<u32>), Error> {
        let len = features.len() / width.max(1);
        let mut order: Vec<u32> = Vec::new();
        room::reserve(&mut order, len)?;
        order.extend(0..u32::try_from(len).map_err(|_| Error::Memory)?);
        let mut boxes = Vec::new();
        room::reserve(&mut boxes, 2 * width * nodes(len))?;
        boxes.resize(2 * width * nodes(len), 0.0);
        let depth = depth(len);
        let mut waiting = vec![Node { index: 0, level: 0, from: 0, to: len }];
        while let Some(node) = waiting.pop() {
            let part = &mut order[node.from..node.to];
            let around = &mut boxes[2 * width * node.index..2 * width * (node.index + 1)];
            surround(around, part, features, width);
            if node.level < depth {
                let widest = widest(around);
                let value = |row: &u32| features[*row as usize * width + widest];
                let middle = part.len() / 2;
                if middle < part.len() {
                    // Equal values by their row, so that the tree does not depend on how rows are selected.
                    part.select_nth_unstable_by(middle, |a, b| value(a).total_cmp(&value(b)).then(a.cmp(b)));
                }
                waiting.extend(node.children());
            }
        }
        let mut rows = Vec::new();
        room::reserve(&mut rows, features.len())?;
        for row in &order {
            rows.extend_from_slice(&features[*row as usize * width..(*row as usize + 1) * width]);
        }
        let tree = KdTree { width, len, depth, metric, rows: Array::from_vec(rows), boxes: Array::from_vec(boxes) };
        Ok((tree, order))
    }

    /// As it was stored. Boxes that are not around their rows make for wrong answers, and for nothing worse.
    pub(crate) fn stored(rows: Array<f32>, boxes: Array<f32>, width: usize, metric: Metric) -> Result<KdTree, Error> {
        let len = rows.len().checked_div(width).unwrap_or(0);
        let wanted = nodes(len).checked_mul(width).and_then(|corners| corners.checked_mul(2));
        if width == 0 || len * width != rows.len() || wanted != Some(boxes.len()) {
            return Err(Error::Model("its rows and boxes do not go together".into()));
        }
        Ok(KdTree { width, len, depth: depth(len), metric, rows, boxes })
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The row at a place of the tree.
    pub(crate) fn row(&self, place: usize) -> &[f32] {
        &self.rows[place * self.width..(place + 1) * self.width]
    }

    pub(crate) fn root(&self) -> Node {
        Node { index: 0, level: 0, from: 0, to: self.len }
    }

    fn is_leaf(&self, node: Node) -> bool {
        node.level == self.depth
    }

    fn around(&self, node: Node) -> (&[f32], &[f32]) {
        self.boxes[2 * self.width * node.index..2 * self.width * (node.index + 1)].split_at(self.width)
    }

    /// The least reduced distance that a row of the node may have from this row.
    pub(crate) fn nearest_in<T: Copy + Into<f64>>(&self, node: Node, row: &[T]) -> f64 {
        let (least, most) = self.around(node);
        let gaps = row.iter().zip(least).zip(most).map(|((value, least), most)| {
            let (value, least, most): (f64, _, _) = ((*value).into(), f64::from(*least), f64::from(*most));
            (least - value).max(value - most).max(0.0)
        });
        self.metric.of_gaps(gaps)
    }

    /// The least reduced distance that a row of one node may have from a row of the other.
    fn nearest_between(&self, a: Node, b: Node) -> f64 {
        let ((a_least, a_most), (b_least, b_most)) = (self.around(a), self.around(b));
        let gaps = (0..self.width).map(|feature| {
            let below = f64::from(b_least[feature]) - f64::from(a_most[feature]);
            let above = f64::from(a_least[feature]) - f64::from(b_most[feature]);
            below.max(above).max(0.0)
        });
        self.metric.of_gaps(gaps)
    }

    /// All leaves, in the order of their rows.
    pub(crate) fn leaves(&self) -> Vec<Node> {
        let mut leaves = vec![self.root()];
        for _ in 0..self.depth {
            leaves = leaves.into_iter().flat_map(Node::children).collect();
        }
        leaves
    }

    /// The leaves that may have a row within this reduced distance of a row of the node, in the order of their rows.
    pub(crate) fn leaves_near(&self, node: Node, reduced: f64, near: &mut Vec<Node>) {
        near.clear();
        let mut waiting = vec![self.root()];
        while let Some(other) = waiting.pop() {
            if self.nearest_between(node, other) > reduced {
                continue;
            }
            match self.is_leaf(other) {
                true => near.push(other),
                false => {
                    let [left, right] = other.children();
                    waiting.extend([right, left]);
                }
            }
        }
    }

    /// Calls with the place and the reduced distance of each row that is not farther than this reduced distance.
    pub(crate) fn within<T: Copy + Into<f64>>(&self, row: &[T], reduced: f64, mut found: impl FnMut(usize, f64)) {
        let mut waiting = vec![self.root()];
        while let Some(node) = waiting.pop() {
            if self.nearest_in(node, row) > reduced {
                continue;
            }
            if !self.is_leaf(node) {
                waiting.extend(node.children());
                continue;
            }
            for place in node.from..node.to {
                let distance = self.metric.reduced(row, self.row(place));
                if distance <= reduced {
                    found(place, distance);
                }
            }
        }
    }

    /// The nearest rows, at most `most` of them: reduced distances and places, the nearest first and equally near ones
    /// by their `rank`. Rows for which `takes` (the place, the reduced distance) is false do not count.
    pub(crate) fn nearest<R: Ord + Copy>(
        &self,
        row: &[f32],
        most: usize,
        rank: impl Fn(usize) -> R,
        takes: impl Fn(usize, f64) -> bool,
    ) -> Vec<(f64, usize)> {
        let mut found: Vec<(f64, usize)> = Vec::with_capacity(most.min(self.len) + 1);
        let mut waiting = vec![(0.0, self.root())];
        while let Some((distance, node)) = waiting.pop() {
            let farthest = |found: &[(f64, usize)]| match found.len() < most {
                true => f64::INFINITY,
                false => found.last().map_or(f64::NEG_INFINITY, |(distance, _)| *distance),
            };
            if distance > farthest(&found) {
                continue;
            }
            if !self.is_leaf(node) {
                let [left, right] = node.children().map(|child| (self.nearest_in(child, row), child));
                // The nearer one is looked at first.
                waiting.extend(if left.0 <= right.0 { [right, left] } else { [left, right] });
                continue;
            }
            for place in node.from..node.to {
                let distance = self.metric.reduced(row, self.row(place));
                if distance <= farthest(&found) && takes(place, distance) {
                    let key = rank(place);
                    let at = found.partition_point(|(other, placed)| {
                        *other < distance || (*other == distance && rank(*placed) < key)
                    });
                    found.insert(at, (distance, place));
                    found.truncate(most);
                }
            }
        }
        found
    }
}

/// The box around these rows.
fn surround(around: &mut [f32], part: &[u32], features: &[f32], width: usize) {
    let (least, most) = around.split_at_mut(width);
    for (index, row) in part.iter().enumerate() {
        let values = &features[*row as usize * width..(*row as usize + 1) * width];
        for ((least, most), value) in least.iter_mut().zip(most.iter_mut()).zip(values) {
            *least = if index == 0 { *value } else { least.min(*value) };
            *most = if index == 0 { *value } else { most.max(*value) };
        }
    }
}

/// The feature in which a box is widest.
fn widest(around: &[f32]) -> usize {
    let (least, most) = around.split_at(around.len() / 2);
    let mut widest = 0;
    for feature in 0..least.len() {
        if most[feature] - least[feature] > most[widest] - least[widest] {
            widest = feature;
        }
    }
    widest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn the_tree_finds_what_a_look_at_every_row_finds() {
        let mut random = Random::new(3);
        for (len, width) in [(0, 2), (1, 3), (24, 2), (25, 1), (1000, 3), (500, 7)] {
            // Few values, so that many rows are equally far.
            let features: Vec<f32> = (0..len * width).map(|_| random.index(9) as f32).collect();
            for metric in [Metric::Euclidean, Metric::Chebyshev, Metric::Minkowski(1.5)] {
                let (tree, order) = KdTree::new(&features, width, metric).unwrap();
                for _ in 0..20 {
                    let query: Vec<f32> = (0..width).map(|_| random.index(9) as f32).collect();
                    let mut all: Vec<(f64, u32)> = (0..len as u32)
                        .map(|row| (metric.reduced(&query, &features[row as usize * width..][..width]), row))
                        .collect();
                    all.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
                    let reach = metric.reduce(3.0);
                    let mut near = Vec::new();
                    tree.within(&query, reach, |place, distance| near.push((distance, order[place])));
                    near.sort_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
                    let wanted: Vec<_> = all.iter().copied().take_while(|(distance, _)| *distance <= reach).collect();
                    assert_eq!(near, wanted);
                    let nearest = tree.nearest(&query, 7, |place| order[place], |_, _| true);
                    let nearest: Vec<_> = nearest.into_iter().map(|(d, place)| (d, order[place])).collect();
                    assert_eq!(nearest, all.iter().copied().take(7).collect::<Vec<_>>());
                }
                let mut leaves = tree.leaves();
                assert_eq!(leaves.iter().map(|leaf| leaf.to - leaf.from).sum::<usize>(), len);
                let mut near = Vec::new();
                tree.leaves_near(tree.root(), 0.0, &mut near);
                leaves.sort_by_key(|leaf| leaf.index);
                near.sort_by_key(|leaf| leaf.index);
                let index = |nodes: &[Node]| nodes.iter().map(|node| node.index).collect::<Vec<_>>();
                assert_eq!(index(&leaves), index(&near));
            }
        }
    }
}
