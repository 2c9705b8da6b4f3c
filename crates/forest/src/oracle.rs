//! The plain kernel: what XGBoost's `XGBoosterPredictFromDense` answers, bit by bit, in the most obvious way.
//!
//! float32 addition is not associative, so the order of XGBoost's is kept: a row begins with the intercept, and each
//! tree adds its leaf in the order of the file. Every fast kernel is tested against this one, and this one against the
//! library.

use crate::ensemble::{Ensemble, Node, Transform, Tree};

/// Beyond it XGBoost takes no category: not every integer has a float32 of its own there.
const CATEGORY_LIMIT: f32 = 16_777_216.0;

impl Ensemble {
    /// The raw margins of one row into `out`.
    ///
    /// `row` has [`Ensemble::num_features`] values, NaN where one is missing; `out` has [`Ensemble::num_outputs`].
    /// Features beyond the end of a shorter row count as missing, outputs beyond the end of `out` are not computed.
    pub fn margin(&self, row: &[f32], out: &mut [f32]) {
        for (margin, base) in out.iter_mut().zip(&self.base_margin) {
            *margin = *base;
        }
        for tree in &self.trees {
            tree.add_to(row, &self.base_margin, out);
        }
        if let Some(linear) = &self.linear {
            let outputs = self.num_outputs.max(1) as usize;
            for (o, margin) in out.iter_mut().enumerate() {
                *margin += linear.bias.get(o).copied().unwrap_or_default();
                for (x, weights) in row.iter().zip(linear.weights.chunks_exact(outputs)) {
                    if !x.is_nan() {
                        *margin += x * weights.get(o).copied().unwrap_or_default();
                    }
                }
            }
        }
    }
}

impl Tree {
    fn add_to(&self, row: &[f32], base: &[f32], out: &mut [f32]) {
        let add = |margin: &mut f32, base: f32, leaf: f32| match self.weight {
            None => *margin += leaf,
            // XGBoost predicts with the tree alone, intercept and all, takes the intercept off again, and weighs that.
            Some(weight) => *margin += ((base + leaf) - base) * weight,
        };
        match self.leaf(row) {
            Node::Leaf(leaf) => {
                let o = self.output as usize;
                if let (Some(margin), Some(base)) = (out.get_mut(o), base.get(o)) {
                    add(margin, *base, *leaf);
                }
            }
            Node::VectorLeaf(leaf) => {
                for ((margin, base), leaf) in out.iter_mut().zip(base).zip(leaf) {
                    add(margin, *base, *leaf);
                }
            }
            Node::Numeric { .. } | Node::Categorical { .. } => {}
        }
    }

    /// The leaf that the row falls into.
    fn leaf(&self, row: &[f32]) -> &Node {
        let mut node = self.node(0);
        loop {
            let (feature, default_left, left, right) = match node {
                Node::Leaf(_) | Node::VectorLeaf(_) => return node,
                Node::Numeric { feature, default_left, left, right, .. }
                | Node::Categorical { feature, default_left, left, right, .. } => (feature, default_left, left, right),
            };
            let x = row.get(*feature as usize).copied().unwrap_or(f32::NAN);
            let goes_left = if x.is_nan() { *default_left } else { node.goes_left(x) };
            node = self.node(if goes_left { *left } else { *right });
        }
    }

    fn node(&self, index: u32) -> &Node {
        // The readers establish that children exist; a leaf of nothing is what is left to a hand-made tree.
        const NOTHING: &Node = &Node::Leaf(0.0);
        self.nodes.get(index as usize).unwrap_or(NOTHING)
    }
}

impl Node {
    /// Where a value that is not missing goes.
    fn goes_left(&self, x: f32) -> bool {
        match self {
            Self::Numeric { threshold, .. } => x < *threshold,
            // A category is cut to an integer: 2.7 is category 2, -0.0 is category 0, -0.5 is none.
            Self::Categorical { categories, .. } => {
                !((0.0..CATEGORY_LIMIT).contains(&x) && categories.binary_search(&(x as u32)).is_ok())
            }
            Self::Leaf(_) | Self::VectorLeaf(_) => true,
        }
    }
}

impl Transform {
    /// Turns the margins of one row into its prediction, in place, and says how many values that has: the first so
    /// many of `margins` (1 for [`Transform::Argmax`], else all).
    pub fn apply(self, margins: &mut [f32]) -> usize {
        match self {
            Self::Identity => {}
            Self::Sigmoid => margins.iter_mut().for_each(|m| *m = sigmoid(*m)),
            Self::Exp => margins.iter_mut().for_each(|m| *m = m.exp()),
            Self::ExpDouble => margins.iter_mut().for_each(|m| *m = f64::from(*m).exp() as f32),
            Self::Hinge => margins.iter_mut().for_each(|m| *m = if *m > 0.0 { 1.0 } else { 0.0 }),
            Self::Softmax => softmax(margins),
            Self::Sorted => sort(margins),
            Self::Expectiles => expectiles(margins),
            Self::Argmax => {
                let class = argmax(margins) as f32;
                if let Some(first) = margins.first_mut() {
                    *first = class;
                    return 1;
                }
            }
        }
        margins.len()
    }
}

/// With XGBoost's guard against an overflow of `exp`; a NaN stays one.
fn sigmoid(margin: f32) -> f32 {
    let x = if 88.7 < -margin { 88.7 } else { -margin };
    1.0 / (x.exp() + 1.0 + 1e-16)
}

/// The exponentials are float32, their sum is a double.
fn softmax(margins: &mut [f32]) {
    let max = margins.iter().copied().reduce(f32::max).unwrap_or_default();
    let mut sum = 0.0;
    for m in margins.iter_mut() {
        *m = (*m - max).exp();
        sum += f64::from(*m);
    }
    for m in margins {
        *m /= sum as f32;
    }
}

/// The first of the largest.
fn argmax(margins: &[f32]) -> usize {
    let mut best = 0;
    for (i, m) in margins.iter().enumerate() {
        if margins.get(best).is_some_and(|max| m > max) {
            best = i;
        }
    }
    best
}

/// By insertion, as C++ sorts up to 16 elements, so that NaNs, which have no order, end where they do there.
fn sort(margins: &mut [f32]) {
    for end in 1..margins.len() {
        let Some(sorted) = margins.get_mut(..=end) else { return };
        let less = |value: &f32, other: Option<&f32>| other.is_some_and(|other| value < other);
        let Some((value, before)) = sorted.split_last() else { return };
        let place = match less(value, before.first()) {
            true => 0,
            false => before.iter().rposition(|other| !less(value, Some(other))).map_or(0, |last| last + 1),
        };
        if let Some(moved) = sorted.get_mut(place..) {
            moved.rotate_right(1);
        }
    }
}

fn expectiles(margins: &mut [f32]) {
    let mut last = None;
    for m in margins {
        if let Some(last) = last {
            *m = last + (EXPECTILE_GAP + softplus(*m));
        }
        last = Some(*m);
    }
}

/// The least distance of two expectiles.
const EXPECTILE_GAP: f32 = 1e-6;

fn softplus(x: f32) -> f32 {
    (-x.abs()).exp().ln_1p() + x.max(0.0)
}

/// From expectiles to the margins that [`Transform::Expectiles`] turns into them.
pub(crate) fn expectile_margins(expectiles: &[f32]) -> Vec<f32> {
    let mut below: Option<f32> = None;
    let margin = |&expectile: &f32| {
        let margin = match below {
            None => expectile,
            Some(below) => {
                let rise = (expectile - below - EXPECTILE_GAP).max(EXPECTILE_GAP);
                rise + (-(-rise).exp_m1()).ln()
            }
        };
        below = Some(expectile);
        margin
    };
    expectiles.iter().map(margin).collect()
}
