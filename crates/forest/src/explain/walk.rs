//! One row through one tree: products down, sums up, at every point of the quadrature at once.

use super::{Kind, Step, Steps};
use crate::double;
use crate::kernel::keys::CATEGORY_LIMIT;

/// The points of the quadrature between 0 and 1, as many as the model's longest path needs.
#[derive(Debug, Clone)]
pub(super) enum Walk {
    P2(Box<Quadrature<2>>),
    P4(Box<Quadrature<4>>),
    P8(Box<Quadrature<8>>),
    P16(Box<Quadrature<16>>),
    P64(Box<Quadrature<64>>),
    P256(Box<Quadrature<256>>),
}

/// Room for the way from the root to a node.
pub(super) enum Scratch {
    P2(Vec<Level<2>>),
    P4(Vec<Level<4>>),
    P8(Vec<Level<8>>),
    P16(Vec<Level<16>>),
    P64(Vec<Level<64>>),
    P256(Vec<Level<256>>),
}

macro_rules! each_size {
    ($($name:ident $points:literal),*) => {
        impl Walk {
            /// For paths of up to so many distinct features, and trees of so many levels.
            pub(super) fn new(features: usize, levels: usize) -> Self {
                $(if features <= 2 * $points {
                    return Self::$name(Box::new(Quadrature::new(levels)));
                })*
                Self::P256(Box::new(Quadrature::new(levels)))
            }

            pub(super) fn scratch(&self) -> Scratch {
                match self {
                    $(Self::$name(points) => Scratch::$name(points.levels()),)*
                }
            }

            /// Adds the contributions of `tree` to one output of one row: `sums` has one for each feature.
            pub(super) fn explain(
                &self,
                tree: &Steps,
                output: usize,
                row: &[f32],
                scratch: &mut Scratch,
                sums: &mut [f64],
            ) {
                match (self, scratch) {
                    $((Self::$name(points), Scratch::$name(levels)) => points.explain(tree, output, row, levels, sums),)*
                    // A scratch of another model: there is none.
                    _ => {}
                }
            }
        }
    };
}

each_size!(P2 2, P4 4, P8 8, P16 16, P64 64, P256 256);

/// A share of the training rows that is none, or so small that its inverse overflows.
const NO_SHARE: f64 = 1e-290;

/// Gauss-Legendre points and weights on the interval from 0 to 1: exact up to degree `2 N - 1`.
#[derive(Debug, Clone)]
pub(super) struct Quadrature<const N: usize> {
    t: [f64; N],
    /// `1 - t`.
    rest: [f64; N],
    weight: [f64; N],
    levels: usize,
}

/// A node on the way, and the edge to it.
#[derive(Debug, Clone)]
pub(super) struct Level<const N: usize> {
    /// Of the factors of all distinct features on the way.
    product: [f64; N],
    /// What the leaves below add up to so far, each times its product.
    sum: [f64; N],
    /// `(o - z)`, times the weight, divided by the factor: turns a sum into the feature's contribution.
    out: [f64; N],
    /// 1 divided by the factor.
    inverse: [f64; N],
    /// `o`: 1 where the row takes this edge and all above of the same feature, else 0.
    takes: f64,
    /// Which way the row goes from here.
    goes_left: bool,
    above: usize,
    feature: usize,
}

impl<const N: usize> Quadrature<N> {
    fn new(levels: usize) -> Self {
        let mut points = Self { t: [0.0; N], rest: [0.0; N], weight: [0.0; N], levels };
        for i in 0..N {
            let (x, weight) = gauss_legendre(N, i);
            // Points and weights lie symmetrically, the largest first.
            points.rest[i] = (1.0 - x) / 2.0;
            points.t[i] = (1.0 + x) / 2.0;
            points.weight[i] = weight / 2.0;
        }
        points
    }

    fn levels(&self) -> Vec<Level<N>> {
        let root = Level {
            product: [1.0; N],
            sum: [0.0; N],
            out: [0.0; N],
            inverse: [1.0; N],
            takes: 1.0,
            goes_left: true,
            above: 0,
            feature: 0,
        };
        vec![root; self.levels + 1]
    }

    fn explain(&self, tree: &Steps, output: usize, row: &[f32], levels: &mut [Level<N>], sums: &mut [f64]) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has AVX2.
            return unsafe { self.explain_avx2(tree, output, row, levels, sums) };
        }
        self.explain_any(tree, output, row, levels, sums);
    }

    /// The same code, compiled to vectors of four points.
    ///
    /// # Safety
    /// The processor has AVX2.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn explain_avx2(&self, tree: &Steps, output: usize, row: &[f32], levels: &mut [Level<N>], sums: &mut [f64]) {
        self.explain_any(tree, output, row, levels, sums);
    }

    #[inline(always)]
    #[allow(clippy::needless_range_loop, reason = "loops over points read alike")]
    fn explain_any(&self, tree: &Steps, output: usize, row: &[f32], levels: &mut [Level<N>], sums: &mut [f64]) {
        let [root, splits @ ..] = tree.steps.as_slice() else { return };
        levels[0].goes_left = tree.goes_left(root, row);
        let mut deepest = 0;
        let mut at = 0;
        while let Some(step) = splits.get(at) {
            let level = step.level as usize;
            while deepest >= level {
                self.close(levels, deepest, sums);
                deepest -= 1;
            }
            at += 1;
            let (before, own) = levels.split_at_mut(level);
            let (parent, above) = (&before[level - 1], &before[step.above as usize]);
            let takes = above.takes * f64::from(u8::from(parent.goes_left == step.is_left));
            if takes == 0.0 && step.share < NO_SHARE {
                // No row of the training came here, nor does this one: nothing below counts.
                at = step.end as usize - 1;
                continue;
            }
            // Without a branch on what the row takes, which nothing could foretell.
            let (mut inverse, mut product, mut out) = ([0.0; N], [0.0; N], [0.0; N]);
            for p in 0..N {
                let factor = self.rest[p] * step.share + self.t[p] * takes;
                inverse[p] = 1.0 / factor;
                product[p] = parent.product[p] * (factor * above.inverse[p]);
                out[p] = self.weight[p] * (takes - step.share) * inverse[p];
            }
            let value = match step.kind {
                Kind::Leaf(value) => value,
                Kind::VectorLeaf(first) => tree.vectors.get(first + output).copied().unwrap_or_default(),
                Kind::Numeric { .. } | Kind::Categorical { .. } | Kind::Flagged { .. } => {
                    own[0] = Level {
                        product,
                        sum: [0.0; N],
                        out,
                        inverse,
                        takes,
                        goes_left: tree.goes_left(step, row),
                        above: step.above as usize,
                        feature: step.edge_feature as usize,
                    };
                    deepest = level;
                    continue;
                }
            };
            let mut contribution = 0.0;
            for p in 0..N {
                product[p] *= value;
                contribution += (out[p] - above.out[p]) * product[p];
            }
            if let Some(sum) = sums.get_mut(step.edge_feature as usize) {
                *sum += contribution;
            }
            let parent = &mut before[level - 1];
            for p in 0..N {
                parent.sum[p] += product[p];
            }
        }
        while deepest > 0 {
            self.close(levels, deepest, sums);
            deepest -= 1;
        }
    }

    /// All below the node has been seen: its edge's feature gets its due, and the parent its sum.
    #[inline(always)]
    fn close(&self, levels: &mut [Level<N>], level: usize, sums: &mut [f64]) {
        let (before, own) = levels.split_at_mut(level);
        let own = &own[0];
        let above = &before[own.above];
        let mut contribution = 0.0;
        for p in 0..N {
            contribution += (own.out[p] - above.out[p]) * own.sum[p];
        }
        if let Some(sum) = sums.get_mut(own.feature) {
            *sum += contribution;
        }
        let parent = &mut before[level - 1];
        for p in 0..N {
            parent.sum[p] += own.sum[p];
        }
    }
}

impl Steps {
    /// Which way a row goes at a split.
    #[inline(always)]
    fn goes_left(&self, step: &Step, row: &[f32]) -> bool {
        let value = |feature: u32| row.get(feature as usize).copied().unwrap_or(f32::NAN);
        match step.kind {
            Kind::Numeric { feature, threshold, default_left } => {
                let x = value(feature);
                if x.is_nan() { default_left } else { x < threshold }
            }
            Kind::Categorical { feature, set, default_left } => {
                let x = value(feature);
                let set = self.sets.get(set as usize).map(|set| &**set).unwrap_or_default();
                if x.is_nan() {
                    default_left
                } else {
                    !((0.0..CATEGORY_LIMIT).contains(&x) && set.binary_search(&(x as u32)).is_ok())
                }
            }
            Kind::Flagged { feature, threshold } => {
                let by_set = feature & double::CATEGORIES != 0;
                let set = self.sets.get(threshold as usize).filter(|_| by_set).map(|set| &**set).unwrap_or_default();
                let threshold = if by_set { 0 } else { threshold };
                let node = double::Node { feature, threshold, left: 0, right: 0 };
                double::goes_left(&node, set, value(node.column()))
            }
            Kind::Leaf(_) | Kind::VectorLeaf(_) => true,
        }
    }
}

/// The point and weight number `i` of `n` on the interval from -1 to 1, the largest point first.
fn gauss_legendre(n: usize, i: usize) -> (f64, f64) {
    // Legendre's polynomial and its derivative.
    let legendre = |x: f64| {
        let (mut before, mut value) = (0.0, 1.0);
        for k in 0..n {
            let k = k as f64;
            (before, value) = (value, ((2.0 * k + 1.0) * x * value - k * before) / (k + 1.0));
        }
        (value, n as f64 * (x * value - before) / (x * x - 1.0))
    };
    let mut x = (std::f64::consts::PI * (i as f64 + 0.75) / (n as f64 + 0.5)).cos();
    let mut slope = 1.0;
    // Newton's method doubles the correct digits each time; the first guess has three or more.
    for _ in 0..8 {
        let (value, derivative) = legendre(x);
        slope = derivative;
        x -= value / derivative;
    }
    (x, 2.0 / ((1.0 - x * x) * slope * slope))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quadrature_is_exact_for_polynomials() {
        fn check<const N: usize>() {
            let points = Quadrature::<N>::new(0);
            for degree in 0..2 * N {
                // t^k (1 - t)^(degree - k) is k! (degree - k)! / (degree + 1)!.
                for k in [0, degree / 3, degree / 2, degree] {
                    let sum: f64 = (0..N)
                        .map(|p| {
                            points.weight[p] * points.t[p].powi(k as i32) * points.rest[p].powi((degree - k) as i32)
                        })
                        .sum();
                    let ln = |n: usize| (1..=n).map(|i| (i as f64).ln()).sum::<f64>();
                    let expected = (ln(k) + ln(degree - k) - ln(degree + 1)).exp();
                    assert!(
                        (sum / expected - 1.0).abs() < 1e-9,
                        "{N} points, t^{k} (1 - t)^{}: {sum}, {expected}",
                        degree - k
                    );
                }
            }
        }
        check::<2>();
        check::<4>();
        check::<8>();
        check::<16>();
        check::<64>();
        check::<256>();
    }
}
