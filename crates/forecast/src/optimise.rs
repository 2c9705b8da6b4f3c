//! Minimisation of smooth functions by the method of Broyden, Fletcher, Goldfarb and Shanno: steps by an estimate of
//! the inverse Hessian, shortened until the value falls far enough (Nocedal and Wright, 2006, algorithms 3.1 and 6.1).
//! Gradients are central differences, whose error is of the order of [`DIFFERENCE`] squared.

use crate::{Error, Result, Stop};

const DIFFERENCE: f64 = 5e-5;
/// The share of the slope's promise that a step must keep.
const DECREASE: f64 = 1e-4;
const SHORTENINGS: usize = 30;

/// When a point is taken for the minimum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tolerance {
    /// The largest element of the gradient.
    pub gradient: f64,
    /// What a step must gain for another one.
    pub gain: f64,
    pub steps: usize,
}

/// The lowest point found, and the value there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Minimum {
    pub point: Vec<f64>,
    pub value: f64,
}

/// A local minimum of `function` near `start`. Points where it is not finite are avoided; `stop` is asked at each step.
pub(crate) fn minimise(
    function: &mut dyn FnMut(&[f64]) -> f64,
    start: &[f64],
    tolerance: Tolerance,
    stop: Stop,
) -> Result<Minimum> {
    let mut point = start.to_vec();
    let mut value = function(&point);
    if point.is_empty() || !value.is_finite() {
        return Ok(Minimum { point, value });
    }
    let mut inverse = Inverse::new(point.len());
    let mut slope = gradient(function, &mut point);
    for _ in 0..tolerance.steps {
        if stop() {
            return Err(Error::Stopped);
        }
        if slope.iter().all(|element| element.abs() <= tolerance.gradient) {
            break;
        }
        let mut direction = inverse.direction(&slope);
        if dot(&direction, &slope) >= 0.0 {
            inverse.reset();
            direction = inverse.direction(&slope);
        }
        let Some((next, lower)) = search(function, &point, value, &slope, &direction) else {
            // An estimate that leads nowhere may be a bad estimate, of which the steepest descent has none.
            if inverse.reset() {
                continue;
            }
            break;
        };
        let gain = value - lower;
        let step: Vec<f64> = next.iter().zip(&point).map(|(next, point)| next - point).collect();
        (point, value) = (next, lower);
        if gain <= tolerance.gain {
            break;
        }
        let steeper = gradient(function, &mut point);
        let change: Vec<f64> = steeper.iter().zip(&slope).map(|(after, before)| after - before).collect();
        inverse.update(&step, &change);
        slope = steeper;
    }
    Ok(Minimum { point, value })
}

/// Halves the step, or better, until it keeps enough of what the slope promises; none if no step does.
fn search(
    function: &mut dyn FnMut(&[f64]) -> f64,
    point: &[f64],
    value: f64,
    slope: &[f64],
    direction: &[f64],
) -> Option<(Vec<f64>, f64)> {
    let promise = dot(direction, slope);
    // The first steps are blind to scale: none is longer than that which matters in the space of partial correlations.
    let longest = direction.iter().fold(0.0_f64, |longest, element| longest.max(element.abs()));
    let mut length = (2.0 / longest).min(1.0);
    for _ in 0..SHORTENINGS {
        let next: Vec<f64> = point.iter().zip(direction).map(|(point, element)| point + length * element).collect();
        if next == point {
            return None;
        }
        let reached = function(&next);
        if reached <= value + DECREASE * length * promise && reached < value {
            return Some((next, reached));
        }
        // The minimum of the parabola through both values and the slope.
        let parabola = -promise * length * length / (2.0 * (reached - value - promise * length));
        length = if parabola.is_finite() { parabola.clamp(0.1 * length, 0.5 * length) } else { 0.2 * length };
    }
    None
}

fn gradient(function: &mut dyn FnMut(&[f64]) -> f64, point: &mut [f64]) -> Vec<f64> {
    (0..point.len())
        .map(|element| {
            let centre = point[element];
            let width = DIFFERENCE * centre.abs().max(1.0);
            point[element] = centre + width;
            let above = function(point);
            point[element] = centre - width;
            let below = function(point);
            point[element] = centre;
            let slope = (above - below) / (2.0 * width);
            if slope.is_finite() { slope } else { 0.0 }
        })
        .collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The estimate of the inverse of the Hessian.
struct Inverse {
    size: usize,
    rows: Vec<f64>,
    /// Not updated since it was the identity.
    fresh: bool,
}

impl Inverse {
    fn new(size: usize) -> Self {
        let mut inverse = Inverse { size, rows: Vec::new(), fresh: false };
        inverse.reset();
        inverse
    }

    /// Back to the identity; whether that is a change.
    fn reset(&mut self) -> bool {
        self.rows = vec![0.0; self.size * self.size];
        (0..self.size).for_each(|element| self.rows[element * self.size + element] = 1.0);
        !std::mem::replace(&mut self.fresh, true)
    }

    fn direction(&self, slope: &[f64]) -> Vec<f64> {
        self.rows.chunks(self.size).map(|row| -dot(row, slope)).collect()
    }

    /// What `step` has shown: the slope changed by `change` along it. No change for one that shows no curvature.
    fn update(&mut self, step: &[f64], change: &[f64]) {
        let curvature = dot(step, change);
        if curvature <= 1e-12 * (dot(step, step) * dot(change, change)).sqrt() {
            return;
        }
        if self.fresh {
            let scale = curvature / dot(change, change);
            self.rows.iter_mut().for_each(|element| *element *= scale);
            self.fresh = false;
        }
        let turned: Vec<f64> = self.rows.chunks(self.size).map(|row| dot(row, change)).collect();
        let weight = 1.0 + dot(change, &turned) / curvature;
        for (row, (step_row, turned_row)) in self.rows.chunks_mut(self.size).zip(step.iter().zip(&turned)) {
            for (element, (step_column, turned_column)) in row.iter_mut().zip(step.iter().zip(&turned)) {
                *element +=
                    (weight * step_row * step_column - turned_row * step_column - step_row * turned_column) / curvature;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIGHT: Tolerance = Tolerance { gradient: 1e-9, gain: 0.0, steps: 200 };

    #[test]
    fn the_valley_of_rosenbrock_is_followed_to_its_lowest_point() {
        let mut function = |p: &[f64]| 100.0 * (p[1] - p[0] * p[0]).powi(2) + (1.0 - p[0]).powi(2);
        let found = minimise(&mut function, &[-1.2, 1.0], TIGHT, &|| false).unwrap();
        assert!(found.point.iter().all(|element| (element - 1.0).abs() < 1e-5), "{found:?}");
    }

    #[test]
    fn points_without_a_value_are_avoided() {
        let mut function = |p: &[f64]| if p[0] > 0.0 { p[0] - p[0].ln() } else { f64::NAN };
        let found = minimise(&mut function, &[20.0], TIGHT, &|| false).unwrap();
        assert!((found.point[0] - 1.0).abs() < 1e-6, "{found:?}");
        let nowhere = minimise(&mut |_: &[f64]| f64::INFINITY, &[1.0], TIGHT, &|| false).unwrap();
        assert_eq!(nowhere.point, [1.0]);
    }

    #[test]
    fn a_search_is_stopped() {
        let stopped = minimise(&mut |p: &[f64]| p[0] * p[0], &[1.0], TIGHT, &|| true);
        assert_eq!(stopped, Err(Error::Stopped));
    }
}
