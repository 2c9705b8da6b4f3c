//! Rows in tiles of sixteen, feature by feature, so that one row is measured against sixteen at a time.
//!
//! A tile has the first feature of its sixteen rows, then the second, and so on: the compiler keeps a sum a row in the
//! lanes of vector registers, whatever the number of features is, and no sum goes across lanes. The last tile is filled
//! up with zeros. Sums are in float64 and in the order of the features, so that they are the same on every machine and
//! for one row as for many.

use crate::Error;
use crate::family::{Array, Stored};

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

    /// Measures a row against those from a tile on, as many tiles as `out` has room for: sixteen numbers a tile.
    pub(crate) fn measure(&self, measure: Measure, row: &[f64], tile: usize, out: &mut [f64]) {
        let size = LANES * self.width;
        let count = out.len() / LANES;
        sweep(measure, &self.values[tile * size..(tile + count) * size], row, out);
    }
}

/// With the widest registers that the processor has, of those that do not change a sum.
fn sweep(measure: Measure, tiles: &[f32], row: &[f64], out: &mut [f64]) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has just said that it has AVX2.
        return unsafe { sweep_avx2(measure, tiles, row, out) };
    }
    sweep_any(measure, tiles, row, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn sweep_avx2(measure: Measure, tiles: &[f32], row: &[f64], out: &mut [f64]) {
    sweep_any(measure, tiles, row, out);
}

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
        let mut out = vec![0.0; LANES];
        tiles.measure(Measure::Chebyshev, &query, 2, &mut out);
        let largest = tiles.row(36).iter().zip(query).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        assert_eq!(out[4], largest);
    }
}
