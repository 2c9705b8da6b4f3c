//! Kernels: how alike two rows are.

use serde_json::{Value, json};

use crate::Error;
use crate::family::{Given, Model, Problem, Stored};
use crate::numerics::tiles::{LANES, Measure, Tiles, wide, widen};

/// What is made of a measure of two rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `a·b`
    Linear,
    /// `(gamma a·b + coef0) ^ degree`
    Poly,
    /// `exp(-gamma |a - b|²)`
    Rbf,
    /// `tanh(gamma a·b + coef0)`
    Sigmoid,
    /// `exp(-gamma |a - b|)`, by absolute differences
    Laplacian,
    /// `a·b / (|a| |b|)`: the rows are stored divided by their length
    Cosine,
    /// Matérn's of 1/2, `exp(-d)` of `d = gamma |a - b|`
    Matern12,
    /// Matérn's of 3/2, `(1 + d) exp(-d)`
    Matern32,
    /// Matérn's of 5/2, `(1 + d + d²/3) exp(-d)`
    Matern52,
    /// `(1 + gamma |a - b|²) ^ -degree`
    RationalQuadratic,
}

const SHAPES: [(&str, Shape); 11] = [
    ("linear", Shape::Linear),
    ("poly", Shape::Poly),
    ("polynomial", Shape::Poly),
    ("rbf", Shape::Rbf),
    ("sigmoid", Shape::Sigmoid),
    ("laplacian", Shape::Laplacian),
    ("cosine", Shape::Cosine),
    ("matern12", Shape::Matern12),
    ("matern32", Shape::Matern32),
    ("matern52", Shape::Matern52),
    ("rational_quadratic", Shape::RationalQuadratic),
];

/// What is less is nothing next to the kernel of a row and itself, which is 1. Products of such numbers would be subnormal,
/// and processors take a hundred times as long for those: rows are far apart wherever features are not scaled.
const NEGLIGIBLE: f64 = 1e-154;

/// A kernel and its constants.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Kernel {
    pub(crate) shape: Shape,
    pub(crate) gamma: f64,
    pub(crate) coef0: f64,
    pub(crate) degree: f64,
}

impl Kernel {
    /// What `kernel`, `coef0` and `degree` say, with this `gamma`.
    pub(crate) fn given(given: &Given, gamma: f64) -> Kernel {
        let word = given.word("kernel");
        let shape = SHAPES.iter().find(|(name, _)| *name == word).map_or(Shape::Rbf, |(_, shape)| *shape);
        Kernel { shape, gamma, coef0: given.number("coef0"), degree: given.number("degree") }
    }

    /// A model with it.
    pub(crate) fn store(&self, model: Model) -> Model {
        let name = SHAPES.iter().find(|(_, shape)| *shape == self.shape).map_or("", |(name, _)| name);
        let value = json!({"shape": name, "gamma": self.gamma, "coef0": self.coef0, "degree": self.degree});
        model.set("kernel", value)
    }

    /// As it was stored.
    pub(crate) fn stored(stored: &Stored) -> Result<Kernel, Error> {
        let setting = stored.setting("kernel")?;
        let number = |name: &str| setting.get(name).and_then(Value::as_f64);
        let name = setting.get("shape").and_then(Value::as_str).unwrap_or("");
        let shape = SHAPES.iter().find(|(known, _)| *known == name).map(|(_, shape)| *shape);
        match (shape, number("gamma"), number("coef0"), number("degree")) {
            (Some(shape), Some(gamma), Some(coef0), Some(degree)) => Ok(Kernel { shape, gamma, coef0, degree }),
            _ => Err(Error::Model("its kernel is not known".into())),
        }
    }

    /// Rows of a problem as the kernel wants them, in tiles.
    pub(crate) fn pack(&self, problem: &Problem<'_>, rows: &[usize]) -> Result<Vec<f32>, Error> {
        if self.shape != Shape::Cosine {
            return Tiles::pack(problem.features, problem.width, rows);
        }
        let mut features: Vec<f32> = Vec::new();
        room::reserve(&mut features, problem.features.len())?;
        for row in problem.features.chunks_exact(problem.width) {
            features.extend(self.query(row).iter().map(|value| *value as f32));
        }
        Tiles::pack(&features, problem.width, rows)
    }

    /// A row as the kernel wants it.
    pub(crate) fn query(&self, row: &[f32]) -> Vec<f64> {
        let mut query = widen(row);
        if self.shape == Shape::Cosine {
            let length = query.iter().map(|value| value * value).sum::<f64>().sqrt();
            for value in &mut query {
                *value /= if length > 0.0 { length } else { 1.0 };
            }
        }
        query
    }

    /// The kernel of a row and those from a tile on, as many tiles as `out` has room for.
    pub(crate) fn measure(&self, tiles: &Tiles, row: &[f64], tile: usize, out: &mut [f64]) {
        let measure = match self.shape {
            Shape::Linear | Shape::Poly | Shape::Sigmoid | Shape::Cosine => Measure::Dot,
            Shape::Laplacian => Measure::Manhattan,
            _ => Measure::Squared,
        };
        tiles.measure(measure, row, tile, out);
        shape(self, out);
    }

    /// The kernel of a row and all others: `tiles.count()` times sixteen numbers, of which the last may be of no row.
    pub(crate) fn measure_all(&self, tiles: &Tiles, row: &[f64]) -> Vec<f64> {
        let mut out = vec![0.0; tiles.count() * LANES];
        self.measure(tiles, row, 0, &mut out);
        out
    }

    /// The kernel of a row and itself.
    pub(crate) fn of_itself(&self, row: &[f64]) -> f64 {
        let square = || row.iter().map(|value| value * value).sum::<f64>();
        let mut value = match self.shape {
            Shape::Linear | Shape::Poly | Shape::Sigmoid | Shape::Cosine => [square()],
            _ => [0.0],
        };
        self.shape_any(&mut value);
        value[0]
    }

    #[inline(always)]
    fn shape_any(&self, values: &mut [f64]) {
        let Kernel { gamma, coef0, degree, .. } = *self;
        let each = values.iter_mut();
        match self.shape {
            Shape::Linear | Shape::Cosine => {}
            Shape::Poly if degree == 3.0 => each.for_each(|value| {
                let sum = gamma * *value + coef0;
                *value = sum * sum * sum;
            }),
            Shape::Poly => each.for_each(|value| *value = power(gamma * *value + coef0, degree)),
            Shape::Rbf | Shape::Laplacian => each.for_each(|value| *value = unless_negligible(exp(-gamma * *value))),
            Shape::Sigmoid => each.for_each(|value| *value = 1.0 - 2.0 / (exp(2.0 * (gamma * *value + coef0)) + 1.0)),
            Shape::Matern12 => each.for_each(|value| *value = unless_negligible(exp(-gamma * value.sqrt()))),
            Shape::Matern32 => each.for_each(|value| {
                let distance = gamma * value.sqrt();
                *value = unless_negligible((1.0 + distance) * exp(-distance));
            }),
            Shape::Matern52 => each.for_each(|value| {
                let distance = gamma * value.sqrt();
                *value = unless_negligible((1.0 + distance + distance * distance / 3.0) * exp(-distance));
            }),
            Shape::RationalQuadratic => each.for_each(|value| *value = (1.0 + gamma * *value).powf(-degree)),
        }
    }
}

wide!(fn shape(kernel: &Kernel, values: &mut [f64]) = Kernel::shape_any);

#[inline(always)]
fn unless_negligible(kernel: f64) -> f64 {
    if kernel < NEGLIGIBLE { 0.0 } else { kernel }
}

fn power(base: f64, exponent: f64) -> f64 {
    match exponent.fract() == 0.0 && exponent.abs() < 1e6 {
        true => base.powi(exponent as i32),
        false => base.powf(exponent),
    }
}

/// The exponential function to within two units in the last place, without a branch or a call, so that the compiler
/// works out several at a time. Below -708 it is the least normal number rather than less.
///
/// `2^n exp(r)`, where n is the nearest whole number to x / ln 2, found by adding a number so large that nothing behind
/// the point fits, and the exponential of the rest, at most ln 2 / 2, is its Taylor series.
#[inline(always)]
pub(crate) fn exp(x: f64) -> f64 {
    const SHIFT: f64 = 6_755_399_441_055_744.0;
    // ln 2 in two parts, the first with so few bits that n times it is exact.
    const LN_2_HIGH: f64 = 0.693_147_180_369_123_8;
    const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;
    const SERIES: [f64; 12] = [
        1.0 / 39_916_800.0,
        1.0 / 3_628_800.0,
        1.0 / 362_880.0,
        1.0 / 40_320.0,
        1.0 / 5_040.0,
        1.0 / 720.0,
        1.0 / 120.0,
        1.0 / 24.0,
        1.0 / 6.0,
        0.5,
        1.0,
        1.0,
    ];
    let x = x.clamp(-708.0, 709.0);
    let shifted = x * std::f64::consts::LOG2_E + SHIFT;
    let n = shifted - SHIFT;
    let rest = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    let mut sum = 1.0 / 479_001_600.0;
    for term in SERIES {
        sum = sum * rest + term;
    }
    f64::from_bits(sum.to_bits().wrapping_add(shifted.to_bits() << 52))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponential_is_right_to_the_last_places() {
        for step in 0..200_000 {
            let x = -708.0 + 1417.0 * f64::from(step) / 200_000.0;
            assert!((exp(x) / x.exp() - 1.0).abs() < 6e-16, "{x} {} {}", exp(x), x.exp());
        }
        assert_eq!(exp(0.0), 1.0);
        assert!(exp(f64::NEG_INFINITY) < 1e-300 && exp(f64::INFINITY) > 1e300 && exp(f64::NAN).is_nan());
    }

    #[test]
    fn a_row_is_as_like_itself_as_another_that_equals_it() {
        let rows = [0.5f32, -1.0, 2.0];
        let tiles = Tiles::of(Tiles::pack(&rows, 3, &[0]).unwrap(), 1, 3);
        for (name, shape) in SHAPES {
            if shape != Shape::Cosine {
                let kernel = Kernel { shape, gamma: 0.5, coef0: 0.25, degree: 2.5 };
                let query = kernel.query(&rows);
                assert_eq!(kernel.measure_all(&tiles, &query)[0], kernel.of_itself(&query), "{name}");
            }
        }
    }

    #[test]
    fn products_of_the_kernels_of_rows_far_apart_are_not_subnormal() {
        let rows: Vec<f32> = (0..40).map(|row| row as f32).collect();
        let tiles = Tiles::of(Tiles::pack(&rows, 1, &(0..40).collect::<Vec<_>>()).unwrap(), 40, 1);
        for (name, shape) in SHAPES {
            let kernel = Kernel { shape, gamma: 20.0, coef0: 0.0, degree: 3.0 };
            if matches!(shape, Shape::Rbf | Shape::Laplacian | Shape::Matern12 | Shape::Matern32 | Shape::Matern52) {
                let kernels = kernel.measure_all(&tiles, &kernel.query(&rows[..1]));
                assert!(
                    kernels[..40].iter().all(|value| *value == 0.0 || (value * value).is_normal()),
                    "{name} {kernels:?}"
                );
                assert!(kernels[0] == 1.0 && kernels[1] > 0.0 && kernels[39] == 0.0, "{name} {kernels:?}");
            }
        }
    }
}
