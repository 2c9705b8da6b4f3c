//! Rows in tiles of sixteen, feature by feature, so that one row is measured against sixteen at a time.
//!
//! A tile has the first feature of its sixteen rows, then the second, and so on: the compiler keeps a sum for each row in the
//! lanes of vector registers, whatever the number of features is, and no sum goes across lanes. The last tile is filled
//! up with zeros. Sums are in float64 and in the order of the features, so that they are the same on every machine and
//! for one row as for many.

use crate::Error;
use crate::family::{Array, Stored};

/// A function that does what another one does, with the widest registers that the processor has, of those that do not
/// change a sum. The other one has to be `#[inline(always)]`, and so has all that it calls.
macro_rules! wide {
    (fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? = $function:path) => {
        fn $name($($argument: $type),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            if std::arch::is_x86_feature_detected!("avx2") {
                #[target_feature(enable = "avx2")]
                fn avx2($($argument: $type),*) $(-> $result)? {
                    $function($($argument),*)
                }
                // SAFETY: the processor has just said that it has AVX2.
                return unsafe { avx2($($argument),*) };
            }
            $function($($argument),*)
        }
    };
}
pub(crate) use wide;

/// Rows a tile.
pub(crate) const LANES: usize = 16;

/// What is summed up over the features of two rows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Measure {
    /// Products.
    Dot,
    /// Squared differences.
    Squared,
    /// Absolute differences.
    Manhattan,
    /// The largest absolute difference.
    Chebyshev,
    /// Absolute differences to this power.
    Power(f64),
}

/// Rows in tiles, where they lie in a model or as they were packed for a training.
pub(crate) struct Tiles {
    values: Array<f32>,
    rows: usize,
    width: usize,
}

impl Tiles {
    /// These rows of some features, in this order.
    pub(crate) fn pack(features: &[f32], width: usize, rows: &[usize]) -> Result<Vec<f32>, Error> {
        let mut values: Vec<f32> = Vec::new();
        room::reserve(&mut values, rows.len().next_multiple_of(LANES) * width)?;
        for tile in rows.chunks(LANES) {
            let first = values.len();
            values.resize(first + LANES * width, 0.0);
            for (lane, row) in tile.iter().enumerate() {
                for (feature, value) in features[row * width..(row + 1) * width].iter().enumerate() {
                    values[first + feature * LANES + lane] = *value;
                }
            }
        }
        Ok(values)
    }

    /// Of values that were packed here.
    pub(crate) fn of(values: Vec<f32>, rows: usize, width: usize) -> Tiles {
        Tiles { values: Array::from_vec(values), rows, width }
    }

    /// As a model stored them under this name.
    pub(crate) fn stored(stored: &Stored, name: &str, rows: usize, width: usize) -> Result<Tiles, Error> {
        let length = rows.next_multiple_of(LANES).checked_mul(width);
        let length = length.ok_or_else(|| Error::Model("it is too large".into()))?;
        Ok(Tiles { values: stored.array_of(name, length)?, rows, width })
    }

    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// How many tiles there are.
    pub(crate) fn count(&self) -> usize {
        self.rows.div_ceil(LANES)
    }

    /// One row as float64.
    pub(crate) fn row(&self, row: usize) -> Vec<f64> {
        let first = row / LANES * LANES * self.width + row % LANES;
        self.values[first..].iter().step_by(LANES).take(self.width).map(|value| f64::from(*value)).collect()
    }

    /// Measures a row against another, to the last place as [`Tiles::measure`] does.
    pub(crate) fn measure_one(&self, measure: Measure, row: &[f64], other: usize) -> f64 {
        let first = other / LANES * LANES * self.width + other % LANES;
        let pairs = row.iter().zip(self.values[first..].iter().step_by(LANES)).map(|(a, b)| (*a, f64::from(*b)));
        match measure {
            Measure::Dot => pairs.fold(0.0, |sum, (a, b)| sum + a * b),
            Measure::Squared => pairs.fold(0.0, |sum, (a, b)| sum + (a - b) * (a - b)),
            Measure::Manhattan => pairs.fold(0.0, |sum, (a, b)| sum + (a - b).abs()),
            Measure::Chebyshev => pairs.fold(0.0, |sum, (a, b)| f64::max(sum, (a - b).abs())),
            Measure::Power(power) => pairs.fold(0.0, |sum, (a, b)| sum + (a - b).abs().powf(power)),
        }
    }

    /// Measures in float32, which takes less than half of the time, and is off by [`Tiles::slack`]; a sum may be
    /// infinite. False where the measure cannot be taken so.
    pub(crate) fn screen(&self, measure: Measure, row: &[f32], tile: usize, out: &mut [f32]) -> bool {
        let size = LANES * self.width;
        let count = out.len() / LANES;
        sweep_single(measure, &self.values[tile * size..(tile + count) * size], row, out)
    }

    /// By what factor a sum of float32 may be off, at most. The terms are not negative, so each rounding counts once.
    pub(crate) fn slack(&self) -> f64 {
        1.0 + (self.width + 8) as f64 * f64::from(f32::EPSILON)
    }

    /// Measures a row against those from a tile on, as many tiles as `out` has room for: sixteen numbers a tile.
    pub(crate) fn measure(&self, measure: Measure, row: &[f64], tile: usize, out: &mut [f64]) {
        let size = LANES * self.width;
        let count = out.len() / LANES;
        sweep(measure, &self.values[tile * size..(tile + count) * size], row, out);
    }
}

wide!(fn sweep(measure: Measure, tiles: &[f32], row: &[f64], out: &mut [f64]) = sweep_any);

#[inline(always)]
fn sweep_any(measure: Measure, tiles: &[f32], row: &[f64], out: &mut [f64]) {
    match measure {
        Measure::Dot => fold(tiles, row, out, |sum, a, b| sum + a * b),
        Measure::Squared => fold(tiles, row, out, |sum, a, b| sum + (a - b) * (a - b)),
        Measure::Manhattan => fold(tiles, row, out, |sum, a, b| sum + (a - b).abs()),
        Measure::Chebyshev => fold(tiles, row, out, |sum, a, b| f64::max(sum, (a - b).abs())),
        Measure::Power(power) => fold(tiles, row, out, |sum, a, b| sum + (a - b).abs().powf(power)),
    }
}

wide!(fn sweep_single(measure: Measure, tiles: &[f32], row: &[f32], out: &mut [f32]) -> bool = sweep_single_any);

#[inline(always)]
fn sweep_single_any(measure: Measure, tiles: &[f32], row: &[f32], out: &mut [f32]) -> bool {
    match measure {
        Measure::Squared => fold_single(tiles, row, out, |sum, a, b| sum + (a - b) * (a - b)),
        Measure::Manhattan => fold_single(tiles, row, out, |sum, a, b| sum + (a - b).abs()),
        Measure::Chebyshev => fold_single(tiles, row, out, |sum, a, b| f32::max(sum, (a - b).abs())),
        Measure::Dot | Measure::Power(_) => return false,
    }
    true
}

#[inline(always)]
fn fold_single(tiles: &[f32], row: &[f32], out: &mut [f32], add: impl Fn(f32, f32, f32) -> f32) {
    let (out, _) = out.as_chunks_mut::<LANES>();
    for (tile, out) in tiles.chunks_exact(LANES * row.len()).zip(out) {
        let (columns, _) = tile.as_chunks::<LANES>();
        let mut sums = [0.0; LANES];
        for (column, value) in columns.iter().zip(row) {
            for lane in 0..LANES {
                sums[lane] = add(sums[lane], *value, column[lane]);
            }
        }
        *out = sums;
    }
}

#[inline(always)]
fn fold(tiles: &[f32], row: &[f64], out: &mut [f64], add: impl Fn(f64, f64, f64) -> f64) {
    let (out, _) = out.as_chunks_mut::<LANES>();
    for (tile, out) in tiles.chunks_exact(LANES * row.len()).zip(out) {
        let (columns, _) = tile.as_chunks::<LANES>();
        let mut sums = [0.0; LANES];
        for (column, value) in columns.iter().zip(row) {
            for lane in 0..LANES {
                sums[lane] = add(sums[lane], *value, f64::from(column[lane]));
            }
        }
        *out = sums;
    }
}

/// Makes float64 of a row.
pub(crate) fn widen(row: &[f32]) -> Vec<f64> {
    row.iter().map(|value| f64::from(*value)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_measure_is_what_its_formula_says() {
        let features: Vec<f32> = (0..37 * 3).map(|index| ((index * 7919) % 101) as f32 / 10.0 - 5.0).collect();
        let rows: Vec<usize> = (0..37).rev().collect();
        let tiles = Tiles::of(Tiles::pack(&features, 3, &rows).unwrap(), 37, 3);
        assert_eq!((tiles.count(), tiles.rows(), tiles.width()), (3, 37, 3));
        let query = [1.5, -2.0, 0.25];
        for (measure, formula) in [
            (Measure::Dot, (|a, b| a * b) as fn(f64, f64) -> f64),
            (Measure::Squared, |a, b| (a - b).powi(2)),
            (Measure::Manhattan, |a, b| (a - b).abs()),
            (Measure::Power(3.0), |a, b| (a - b).abs().powi(3)),
        ] {
            let mut out = vec![0.0; 3 * LANES];
            tiles.measure(measure, &query, 0, &mut out);
            for (row, found) in rows.iter().zip(&out) {
                let expected: f64 = (0..3).map(|f| formula(query[f], f64::from(features[row * 3 + f]))).sum();
                assert!((expected - found).abs() < 1e-9 * expected.abs().max(1.0), "{measure:?} {expected} {found}");
            }
        }
        for measure in [Measure::Squared, Measure::Manhattan, Measure::Chebyshev] {
            let (mut out, mut single) = (vec![0.0; 3 * LANES], vec![0.0; 3 * LANES]);
            tiles.measure(measure, &query, 0, &mut out);
            assert!(tiles.screen(measure, &query.map(|value| value as f32), 0, &mut single));
            for (row, (exact, rough)) in out[..37].iter().zip(single).enumerate() {
                assert_eq!(tiles.measure_one(measure, &query, row), *exact);
                assert!((exact - f64::from(rough)).abs() <= exact * (tiles.slack() - 1.0));
            }
        }
        let mut out = vec![0.0; LANES];
        tiles.measure(Measure::Chebyshev, &query, 2, &mut out);
        let largest = tiles.row(36).iter().zip(query).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert_eq!(out[4], largest);
    }
}
