//! The least of a convex function by its slope: the quasi-Newton method with limited memory (L-BFGS; Liu and Nocedal,
//! 1989), and for absolute values of the parameters as a cost its form for each orthant (OWL-QN; Andrew and Gao, 2007).

use std::collections::VecDeque;

use crate::Error;
use crate::family::Control;

/// How many steps back the curvature is known from.
const MEMORY: usize = 10;

/// How often a step is shortened before there is taken to be none.
const SHORTER: usize = 40;

/// How a search goes and ends.
pub(crate) struct Search<'a> {
    /// What the absolute value of each parameter costs; empty for nothing.
    pub(crate) l1: &'a [f64],
    /// The most steps.
    pub(crate) max_iter: usize,
    /// It ends where no slope is steeper.
    pub(crate) tol: f64,
}

/// Where a search ended.
pub(crate) struct Minimum {
    pub(crate) at: Vec<f64>,
    /// Whether it ended where it should.
    pub(crate) converged: bool,
}

/// A step that was made: how far, how much the slope changed by it, and one over the product of the two.
struct Step {
    moved: Vec<f64>,
    changed: Vec<f64>,
    inverse: f64,
}

impl Search<'_> {
    /// Searches from a point. `objective` writes the slope at a point, and gives the value, both without `l1`.
    pub(crate) fn from(
        &self,
        start: Vec<f64>,
        control: &mut Control<'_>,
        mut objective: impl FnMut(&[f64], &mut [f64], &mut Control<'_>) -> Result<f64, Error>,
    ) -> Result<Minimum, Error> {
        let mut at = start;
        let mut slope = vec![0.0; at.len()];
        let mut value = objective(&at, &mut slope, control)? + self.cost(&at);
        let mut steps: VecDeque<Step> = VecDeque::with_capacity(MEMORY);
        for _ in 0..self.max_iter {
            control.check()?;
            if !value.is_finite() {
                return Err(Error::Diverged("the objective is not finite"));
            }
            let steepest = self.steepest(&at, &slope);
            if steepest.iter().all(|slope| slope.abs() <= self.tol) {
                return Ok(Minimum { at, converged: true });
            }
            let mut direction = direction(&steps, &steepest);
            if !self.l1.is_empty() {
                for (direction, slope) in direction.iter_mut().zip(&steepest) {
                    if *direction * slope >= 0.0 {
                        *direction = 0.0;
                    }
                }
            }
            let mut descent = dot(&direction, &steepest);
            if descent >= 0.0 {
                steps.clear();
                direction = steepest.iter().map(|slope| -slope).collect();
                descent = -dot(&steepest, &steepest);
            }
            let first = if steps.is_empty() { 1.0 / descent.abs().sqrt().max(1.0) } else { 1.0 };
            let tried = self.shorten(&at, &direction, &steepest, (value, descent, first), control, &mut objective)?;
            let Some((next, next_slope, next_value)) = tried else {
                // No step makes it less: as exact as numbers are, unless the memory misled.
                if steps.is_empty() {
                    return Ok(Minimum { at, converged: true });
                }
                steps.clear();
                continue;
            };
            remember(&mut steps, difference(&next, &at), difference(&next_slope, &slope));
            let gained = value - next_value;
            (at, slope, value) = (next, next_slope, next_value);
            if gained <= f64::EPSILON * value.abs() {
                return Ok(Minimum { at, converged: true });
            }
        }
        let converged = self.steepest(&at, &slope).iter().all(|slope| slope.abs() <= self.tol);
        Ok(Minimum { at, converged })
    }

    /// The cost of the absolute values.
    fn cost(&self, at: &[f64]) -> f64 {
        at.iter().zip(self.l1).map(|(value, cost)| value.abs() * cost).sum()
    }

    /// The slope with the absolute values, and at 0 the least steep of those that there are.
    fn steepest(&self, at: &[f64], slope: &[f64]) -> Vec<f64> {
        let mut whole = slope.to_vec();
        for ((slope, at), cost) in whole.iter_mut().zip(at).zip(self.l1) {
            *slope = match *at == 0.0 {
                true => (slope.abs() - cost).max(0.0).copysign(*slope),
                false => *slope + cost.copysign(*at),
            };
        }
        whole
    }

    /// The first step of a length, half of it, and so on, that makes the value enough less; `None` where there is none.
    #[expect(clippy::type_complexity, reason = "a point, its value and its slope, named where they are taken apart")]
    fn shorten(
        &self,
        at: &[f64],
        direction: &[f64],
        steepest: &[f64],
        (value, descent, mut length): (f64, f64, f64),
        control: &mut Control<'_>,
        objective: &mut impl FnMut(&[f64], &mut [f64], &mut Control<'_>) -> Result<f64, Error>,
    ) -> Result<Option<(Vec<f64>, Vec<f64>, f64)>, Error> {
        let mut slope = vec![0.0; at.len()];
        for _ in 0..SHORTER {
            let mut next: Vec<f64> = at.iter().zip(direction).map(|(at, step)| at + length * step).collect();
            for (index, next) in next.iter_mut().enumerate().take(self.l1.len()) {
                // No parameter changes its sign in a step.
                let side = if at[index] == 0.0 { -steepest[index] } else { at[index] };
                if *next * side <= 0.0 {
                    *next = 0.0;
                }
            }
            let next_value = objective(&next, &mut slope, control)? + self.cost(&next);
            let gain = if self.l1.is_empty() { length * descent } else { dot(&difference(&next, at), steepest) };
            if next_value.is_finite() && next_value <= value + 1e-4 * gain && next_value < value {
                return Ok(Some((next, slope, next_value)));
            }
            // The least of the parabola through both values, within bounds.
            let excess = next_value - value - length * descent;
            let best = -length * length * descent / (2.0 * excess);
            length = match best.is_finite() && self.l1.is_empty() {
                true => best.clamp(0.1 * length, 0.5 * length),
                false => 0.5 * length,
            };
        }
        Ok(None)
    }
}

/// Where the curvature says that the least is.
fn direction(steps: &VecDeque<Step>, slope: &[f64]) -> Vec<f64> {
    let mut direction: Vec<f64> = slope.iter().map(|slope| -slope).collect();
    let mut parts = Vec::with_capacity(steps.len());
    for step in steps.iter().rev() {
        let part = step.inverse * dot(&step.moved, &direction);
        add(&mut direction, -part, &step.changed);
        parts.push(part);
    }
    if let Some(last) = steps.back() {
        let scale = 1.0 / (last.inverse * dot(&last.changed, &last.changed));
        for value in &mut direction {
            *value *= scale;
        }
    }
    for (step, part) in steps.iter().zip(parts.iter().rev()) {
        let back = step.inverse * dot(&step.changed, &direction);
        add(&mut direction, part - back, &step.moved);
    }
    direction
}

fn remember(steps: &mut VecDeque<Step>, moved: Vec<f64>, changed: Vec<f64>) {
    let product = dot(&moved, &changed);
    if product > f64::EPSILON * dot(&changed, &changed).max(f64::MIN_POSITIVE) && (1.0 / product).is_finite() {
        if steps.len() == MEMORY {
            steps.pop_front();
        }
        steps.push_back(Step { moved, changed, inverse: 1.0 / product });
    }
}

fn difference(left: &[f64], right: &[f64]) -> Vec<f64> {
    left.iter().zip(right).map(|(left, right)| left - right).collect()
}

fn dot(left: &[f64], right: &[f64]) -> f64 {
    left.iter().zip(right).map(|(left, right)| left * right).sum()
}

fn add(sum: &mut [f64], factor: f64, values: &[f64]) {
    for (sum, value) in sum.iter_mut().zip(values) {
        *sum += factor * value;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minimum(l1: &[f64], objective: impl Fn(&[f64], &mut [f64]) -> f64) -> Minimum {
        let mut ask = |_| Ok(());
        let search = Search { l1, max_iter: 500, tol: 1e-9 };
        search.from(vec![0.0; 2], &mut Control::new(&mut ask), |at, slope, _| Ok(objective(at, slope))).unwrap()
    }

    /// A narrow valley: 50 (a - 1)^2 + (b - a - 1)^2 / 2.
    fn valley(at: &[f64], slope: &mut [f64]) -> f64 {
        let (a, b) = (at[0] - 1.0, at[1] - at[0] - 1.0);
        slope.copy_from_slice(&[100.0 * a - b, b]);
        50.0 * a * a + 0.5 * b * b
    }

    #[test]
    fn the_bottom_of_a_valley_is_found() {
        let found = minimum(&[], valley);
        assert!(found.converged);
        assert!((found.at[0] - 1.0).abs() < 1e-8 && (found.at[1] - 2.0).abs() < 1e-8, "{:?}", found.at);
    }

    #[test]
    fn a_cost_of_absolute_values_makes_zeros() {
        // Without b, a is the least of 50 (a - 1)^2 + (a + 1)^2 / 2: 99 / 101.
        let found = minimum(&[0.0, 10.0], valley);
        assert!(found.converged);
        assert!((found.at[0] - 99.0 / 101.0).abs() < 1e-8, "{:?}", found.at);
        assert_eq!(found.at[1], 0.0);
    }
}
