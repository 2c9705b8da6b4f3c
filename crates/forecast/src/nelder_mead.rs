//! Minimisation without derivatives, by the simplex of Nelder and Mead (1965) with coefficients that adapt to the
//! number of dimensions (Gao and Han, 2012). Points are kept within a box.

use crate::{Error, Result, Stop};

/// Evaluations between two questions whether to stop.
const PATIENCE: usize = 64;

/// When a minimum is good enough.
pub(crate) struct Limits {
    /// Standard deviation of the values in the simplex below which it has converged.
    pub tolerance: f64,
    pub iterations: usize,
}

/// Moves `point`, which need not be within `bounds`, to a minimum of `function` and returns the value there.
pub(crate) fn minimise(
    function: impl FnMut(&[f64]) -> f64,
    point: &mut [f64],
    bounds: &[(f64, f64)],
    limits: &Limits,
    stop: Stop,
) -> Result<f64> {
    let mut search = Simplex::begin(function, point, bounds, stop)?;
    for _ in 0..limits.iterations {
        if search.spread() < limits.tolerance {
            break;
        }
        search.step()?;
    }
    let (best, ..) = search.extremes();
    point.copy_from_slice(search.corner(best));
    Ok(search.values[best])
}

struct Simplex<'a, F> {
    function: F,
    bounds: &'a [(f64, f64)],
    stop: Stop<'a>,
    evaluations: usize,
    /// One row a corner.
    corners: Vec<f64>,
    values: Vec<f64>,
    centre: Vec<f64>,
    reflected: Vec<f64>,
    other: Vec<f64>,
}

impl<'a, F: FnMut(&[f64]) -> f64> Simplex<'a, F> {
    fn begin(function: F, point: &[f64], bounds: &'a [(f64, f64)], stop: Stop<'a>) -> Result<Self> {
        let size = point.len();
        let mut simplex = Self {
            function,
            bounds,
            stop,
            evaluations: 0,
            corners: point.repeat(size + 1),
            values: vec![0.0; size + 1],
            centre: vec![0.0; size],
            reflected: vec![0.0; size],
            other: vec![0.0; size],
        };
        for (corner, row) in simplex.corners.chunks_mut(size).enumerate() {
            clamp(row, bounds);
            if let Some(coordinate) = row.get_mut(corner) {
                *coordinate = if *coordinate == 0.0 { 1e-4 } else { *coordinate * 1.05 };
            }
            clamp(row, bounds);
        }
        for corner in 0..=size {
            simplex.values[corner] = simplex.at_corner(corner)?;
        }
        Ok(simplex)
    }

    fn corner(&self, index: usize) -> &[f64] {
        let size = self.centre.len();
        &self.corners[index * size..(index + 1) * size]
    }

    fn spread(&self) -> f64 {
        let count = self.values.len() as f64;
        let mean = self.values.iter().sum::<f64>() / count;
        (self.values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count).sqrt()
    }

    /// The best corner, the worst and the second worst.
    fn extremes(&self) -> (usize, usize, usize) {
        let values = &self.values;
        let (mut best, mut worst) = (0, 0);
        for index in 1..values.len() {
            if values[index] < values[best] {
                best = index;
            }
            if values[index] >= values[worst] {
                worst = index;
            }
        }
        let mut second = best;
        for index in (0..values.len()).filter(|&index| index != worst) {
            if values[index] >= values[second] {
                second = index;
            }
        }
        (best, worst, second)
    }

    fn counted(&mut self) -> Result<()> {
        self.evaluations += 1;
        if self.evaluations.is_multiple_of(PATIENCE) && (self.stop)() { Err(Error::Stopped) } else { Ok(()) }
    }

    fn at_corner(&mut self, index: usize) -> Result<f64> {
        self.counted()?;
        let size = self.centre.len();
        Ok(never_nan((self.function)(&self.corners[index * size..(index + 1) * size])))
    }

    /// The value at the point `by` times as far from the centre as the reflected one, which becomes `other`.
    fn try_other(&mut self, by: f64) -> Result<f64> {
        self.counted()?;
        for (index, other) in self.other.iter_mut().enumerate() {
            *other = self.centre[index] + by * (self.reflected[index] - self.centre[index]);
        }
        clamp(&mut self.other, self.bounds);
        Ok(never_nan((self.function)(&self.other)))
    }

    fn replace(&mut self, index: usize, by_other: bool, value: f64) {
        let size = self.centre.len();
        let from = if by_other { &self.other } else { &self.reflected };
        self.corners[index * size..(index + 1) * size].copy_from_slice(from);
        self.values[index] = value;
    }

    fn reflect(&mut self, worst: usize) -> Result<f64> {
        let size = self.centre.len();
        self.centre.fill(0.0);
        for (index, row) in self.corners.chunks(size).enumerate() {
            if index != worst {
                self.centre.iter_mut().zip(row).for_each(|(sum, coordinate)| *sum += coordinate);
            }
        }
        for index in 0..size {
            self.centre[index] /= size as f64;
            self.reflected[index] = 2.0 * self.centre[index] - self.corners[worst * size + index];
        }
        clamp(&mut self.reflected, self.bounds);
        self.counted()?;
        Ok(never_nan((self.function)(&self.reflected)))
    }

    fn step(&mut self) -> Result<()> {
        let size = self.centre.len() as f64;
        let (best, worst, second) = self.extremes();
        let value = self.reflect(worst)?;
        if value < self.values[best] {
            let expanded = self.try_other(1.0 + 2.0 / size)?;
            self.replace(worst, expanded < value, expanded.min(value));
        } else if value < self.values[second] {
            self.replace(worst, false, value);
        } else {
            let contraction = 0.75 - 0.5 / size;
            let outside = value < self.values[worst];
            let contracted = self.try_other(if outside { contraction } else { -contraction })?;
            if (outside && contracted <= value) || (!outside && contracted < self.values[worst]) {
                self.replace(worst, true, contracted);
            } else {
                self.shrink(best)?;
            }
        }
        Ok(())
    }

    fn shrink(&mut self, best: usize) -> Result<()> {
        let size = self.centre.len();
        let to = self.corner(best).to_vec();
        let by = 1.0 - 1.0 / size as f64;
        for corner in (0..=size).filter(|&corner| corner != best) {
            let row = &mut self.corners[corner * size..(corner + 1) * size];
            row.iter_mut().zip(&to).for_each(|(coordinate, to)| *coordinate = to + by * (*coordinate - to));
            clamp(row, self.bounds);
            self.values[corner] = self.at_corner(corner)?;
        }
        Ok(())
    }
}

fn clamp(point: &mut [f64], bounds: &[(f64, f64)]) {
    point
        .iter_mut()
        .zip(bounds)
        .for_each(|(coordinate, (lower, upper))| *coordinate = coordinate.max(*lower).min(*upper));
}

fn never_nan(value: f64) -> f64 {
    if value.is_nan() { f64::INFINITY } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { tolerance: 1e-12, iterations: 5_000 };

    fn valley(point: &[f64]) -> f64 {
        (1.0 - point[0]).powi(2) + 100.0 * (point[1] - point[0].powi(2)).powi(2)
    }

    #[test]
    fn the_valley_of_rosenbrock_is_followed_to_its_end() {
        let mut point = [-1.2, 1.0];
        let value = minimise(valley, &mut point, &[(-5.0, 5.0); 2], &LIMITS, &|| false).unwrap();
        assert!(value < 1e-10 && (point[0] - 1.0).abs() < 1e-4, "{value} at {point:?}");
    }

    #[test]
    fn a_minimum_outside_the_box_is_sought_at_its_edge() {
        let mut point = [0.0, 0.0];
        minimise(valley, &mut point, &[(-5.0, 0.5), (-5.0, 5.0)], &LIMITS, &|| false).unwrap();
        assert!((point[0] - 0.5).abs() < 1e-6 && (point[1] - 0.25).abs() < 1e-4, "{point:?}");
    }

    #[test]
    fn a_search_ends_when_it_is_told_to() {
        let endless = Limits { tolerance: -1.0, iterations: usize::MAX };
        assert_eq!(minimise(valley, &mut [3.0, 3.0], &[(-5.0, 5.0); 2], &endless, &|| true), Err(Error::Stopped));
    }
}
