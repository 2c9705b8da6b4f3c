//! Least squares, and the squares of the coefficients as a cost, of rows with columns of many categories.
//!
//! The products of the features of one column of categories with one another are a diagonal: no row has two of them. So
//! the column with the most categories is eliminated by divisions, and what is left (its Schur complement) is as wide as
//! the other features are many: of flights with 4,000 tail numbers, some 150. That is exact, unlike an iteration, and
//! takes time in proportion to the rows. Of several solutions, which one-hot features beside an intercept always have, it
//! gives the shortest, as the singular values would.

use faer::linalg::matmul::matmul;
use faer::{Accum, Mat, Par};

use crate::Error;
use crate::family::{Control, Problem, Sparse, large_zeros, zeros};
use crate::numerics::algebra::CONSTANT;
use crate::numerics::cholesky::Cholesky;
use crate::numerics::pace::Pace;

/// What of a feature must not be a sum of others.
const LEAST: f64 = 1e-11;

/// Coefficients, `width` a target, and intercepts.
pub(crate) struct Solution {
    pub(crate) coefficients: Vec<f64>,
    pub(crate) intercepts: Vec<f64>,
}

/// Of these targets, row by row, with a cost each.
pub(crate) fn solve(
    problem: &Problem<'_>,
    sparse: &Sparse<'_>,
    targets: &[f64],
    weights: Option<&[f64]>,
    alphas: &[f64],
    intercept: bool,
    control: &mut Control<'_>,
) -> Result<Solution, Error> {
    let sums = Sums::of(problem, sparse, targets, weights, alphas.len(), intercept, control)?;
    let mut solution =
        Solution { coefficients: vec![0.0; alphas.len() * problem.width], intercepts: vec![0.0; alphas.len()] };
    let mut done = vec![false; alphas.len()];
    for first in 0..alphas.len() {
        if done[first] {
            continue;
        }
        let alike: Vec<usize> = (first..alphas.len()).filter(|target| alphas[*target] == alphas[first]).collect();
        sums.solve(alphas[first], &alike, &mut solution, control)?;
        alike.iter().for_each(|target| done[*target] = true);
    }
    Ok(solution)
}

/// All that has to be known of the rows. The *block* is the column with the most categories; the *rest* are all other
/// features, numbers around their means and in units of their deviations, and the constant, if there is one.
struct Sums {
    width: usize,
    start: usize,
    size: usize,
    intercept: bool,
    /// Of each of the rest that is no constant.
    shifts: Vec<f64>,
    /// One over the unit; 0 for what is the same in all rows.
    units: Vec<f64>,
    /// The weight of the rows of each of the block's categories.
    block: Vec<f64>,
    /// The rest by the block.
    across: Mat<f64>,
    /// The rest by the rest, of which the lower triangle counts.
    gram: Mat<f64>,
    /// The block by the targets, and the rest by the targets.
    block_targets: Mat<f64>,
    rest_targets: Mat<f64>,
}

/// The mean of each of the columns of numbers, of which the place among the rest is given, and one over its deviation.
fn scales(
    sparse: &Sparse<'_>,
    numbers: &[(usize, usize)],
    rest: usize,
    weight: impl Fn(usize) -> f64,
    intercept: bool,
    (pace, control): (&mut Pace, &mut Control<'_>),
) -> Result<(Vec<f64>, Vec<f64>), Error> {
    let (mut shifts, mut squares, mut total) = (vec![0.0; rest], vec![0.0; rest], 0.0);
    for (row, values) in sparse.rows().enumerate() {
        total += weight(row);
        for (at, place) in numbers {
            shifts[*place] += weight(row) * f64::from(values[*at]);
        }
        pace.spend(numbers.len() + 1, control)?;
    }
    for shift in &mut shifts {
        *shift = if intercept { *shift / total.max(f64::MIN_POSITIVE) } else { 0.0 };
    }
    for (row, values) in sparse.rows().enumerate() {
        for (at, place) in numbers {
            squares[*place] += weight(row) * (f64::from(values[*at]) - shifts[*place]).powi(2);
        }
        pace.spend(numbers.len(), control)?;
    }
    let mut units = vec![1.0; rest];
    for (_, place) in numbers {
        let deviation = (squares[*place] / total.max(f64::MIN_POSITIVE)).sqrt();
        let constant = deviation <= CONSTANT * shifts[*place].abs();
        units[*place] = if constant { 0.0 } else { 1.0 / deviation };
    }
    Ok((shifts, units))
}

impl Sums {
    fn of(
        problem: &Problem<'_>,
        sparse: &Sparse<'_>,
        targets: &[f64],
        weights: Option<&[f64]>,
        count: usize,
        intercept: bool,
        control: &mut Control<'_>,
    ) -> Result<Sums, Error> {
        let (start, size) = sparse.columns().max_by_key(|(_, size)| *size).unwrap_or((0, 0));
        let width = problem.width;
        let rest = width - size;
        let place = |feature: usize| if feature < start { feature } else { feature - size };
        let weight = |row: usize| weights.map_or(1.0, |weights| weights[row]);
        let mut pace = Pace::default();
        let numbers: Vec<(usize, usize)> = sparse
            .columns()
            .enumerate()
            .filter(|(_, (_, size))| *size == 0)
            .map(|(at, (of, _))| (at, place(of)))
            .collect();
        let (shifts, units) = scales(sparse, &numbers, rest, weight, intercept, (&mut pace, &mut *control))?;
        let all = rest + usize::from(intercept);
        let mut sums = Sums {
            width,
            start,
            size,
            intercept,
            shifts,
            units,
            block: vec![0.0; size],
            across: large_zeros(all, size, control)?,
            gram: large_zeros(all, all, control)?,
            block_targets: zeros(size, count)?,
            rest_targets: zeros(all, count)?,
        };
        let mut cells: Vec<(usize, f64)> = Vec::with_capacity(sparse.width() + 1);
        for (row, values) in sparse.rows().enumerate() {
            cells.clear();
            let mut category = None;
            for (feature, value) in sparse.cells(values) {
                if (start..start + size).contains(&feature) {
                    category = Some(feature - start);
                } else {
                    let place = place(feature);
                    cells.push((place, (value - sums.shifts[place]) * sums.units[place]));
                }
            }
            if intercept {
                cells.push((rest, 1.0));
            }
            sums.add(&cells, category, weight(row), &targets[row * count..(row + 1) * count]);
            pace.spend(cells.len() * (cells.len() + 2), control)?;
        }
        Ok(sums)
    }

    fn add(&mut self, cells: &[(usize, f64)], category: Option<usize>, weight: f64, targets: &[f64]) {
        for (index, (place, value)) in cells.iter().enumerate() {
            let value = weight * value;
            // Places ascend.
            for (other, factor) in &cells[..=index] {
                self.gram[(*place, *other)] += value * factor;
            }
            for (target, label) in targets.iter().enumerate() {
                self.rest_targets[(*place, target)] += value * label;
            }
            if let Some(category) = category {
                self.across[(*place, category)] += value;
            }
        }
        if let Some(category) = category {
            self.block[category] += weight;
            for (target, label) in targets.iter().enumerate() {
                self.block_targets[(category, target)] += weight * label;
            }
        }
    }

    fn solve(&self, alpha: f64, of: &[usize], solution: &mut Solution, control: &mut Control<'_>) -> Result<(), Error> {
        let (all, rest) = (self.gram.nrows(), self.shifts.len());
        // A category without rows has no part in anything.
        let inverse: Vec<f64> =
            self.block.iter().map(|rows| if *rows > 0.0 { 1.0 / (rows + alpha) } else { 0.0 }).collect();
        let mut gram = self.gram.clone();
        for place in 0..rest {
            // The cost is on coefficients in the features' own units.
            gram[(place, place)] += alpha * self.units[place].powi(2);
        }
        let before: Vec<f64> = (0..all).map(|place| gram[(place, place)]).collect();
        let mut right = Mat::from_fn(all, of.len(), |place, target| self.rest_targets[(place, of[target])]);
        let at_once = ((1 << 24) / (all * all).max(1)).clamp(1, self.size.max(1));
        for first in (0..self.size).step_by(at_once) {
            let count = at_once.min(self.size - first);
            let across = self.across.subcols(first, count);
            let divided = Mat::from_fn(all, count, |place, at| across[(place, at)] * inverse[first + at]);
            matmul(gram.as_mut(), Accum::Add, divided.as_ref(), across.transpose(), -1.0, Par::Seq);
            let targets = Mat::from_fn(count, of.len(), |at, target| self.block_targets[(first + at, of[target])]);
            matmul(right.as_mut(), Accum::Add, divided.as_ref(), targets.as_ref(), -1.0, Par::Seq);
            control.check()?;
        }
        let least: Vec<f64> = before.iter().map(|before| LEAST * before).collect();
        let (factor, dependent) = Cholesky::leaving_out(gram, &least, control)?;
        for (place, _) in &dependent {
            for target in 0..of.len() {
                right[(*place, target)] = 0.0;
            }
        }
        factor.solve(&mut right, control)?;
        // What can be added to a solution: a feature that others make up, less what makes it up.
        let mut free = zeros(all, dependent.len())?;
        for (number, (place, row)) in dependent.iter().enumerate() {
            for (before, value) in row.iter().enumerate() {
                free[(before, number)] = -value;
            }
            free[(*place, number)] = 0.0;
        }
        factor.backward(&mut free, control)?;
        for (number, (place, _)) in dependent.iter().enumerate() {
            for (other, _) in &dependent {
                free[(*other, number)] = 0.0;
            }
            free[(*place, number)] = 1.0;
        }
        let mut found = self.plain(&right, &inverse, Some(of), control)?;
        let mut free = self.plain(&free, &inverse, None, control)?;
        // What is no coefficient's change (a constant column) is nothing.
        free.retain(|free| free[..self.width].iter().any(|value| *value != 0.0));
        shorten(&mut found, &free, self.width, control)?;
        for (target, found) in of.iter().zip(found) {
            solution.coefficients[target * self.width..(target + 1) * self.width].copy_from_slice(&found[..self.width]);
            solution.intercepts[*target] = found[self.width];
        }
        Ok(())
    }

    /// Coefficients of all features in their own units, and behind them the intercept, from those of the rest; of targets,
    /// or of what adds nothing to any.
    fn plain(
        &self,
        rest: &Mat<f64>,
        inverse: &[f64],
        of: Option<&[usize]>,
        control: &mut Control<'_>,
    ) -> Result<Vec<Vec<f64>>, Error> {
        let count = self.shifts.len();
        let mut all = Vec::with_capacity(rest.ncols());
        for column in 0..rest.ncols() {
            let own = rest.col_as_slice(column);
            let mut plain = vec![0.0; self.width + 1];
            for category in 0..self.size {
                let across = self.across.col_as_slice(category);
                let made: f64 = across.iter().zip(own).map(|(a, b)| a * b).sum();
                let target = of.map_or(0.0, |of| self.block_targets[(category, of[column])]);
                plain[self.start + category] = (target - made) * inverse[category];
            }
            let mut intercept = if self.intercept { own[count] } else { 0.0 };
            for (place, value) in own.iter().take(count).enumerate() {
                let coefficient = value * self.units[place];
                intercept -= coefficient * self.shifts[place];
                plain[if place < self.start { place } else { place + self.size }] = coefficient;
            }
            plain[self.width] = intercept;
            all.push(plain);
            control.check()?;
        }
        Ok(all)
    }
}

/// Takes off each of the solutions what of it can be made of those that add nothing, so that its first `width` numbers are
/// the shortest.
fn shorten(
    solutions: &mut [Vec<f64>],
    free: &[Vec<f64>],
    width: usize,
    control: &mut Control<'_>,
) -> Result<(), Error> {
    if free.is_empty() {
        return Ok(());
    }
    let mut products = zeros(free.len(), free.len())?;
    let mut right = zeros(free.len(), solutions.len())?;
    let dot = |a: &[f64], b: &[f64]| a[..width].iter().zip(&b[..width]).map(|(a, b)| a * b).sum::<f64>();
    for (row, own) in free.iter().enumerate() {
        for (column, other) in free.iter().take(row + 1).enumerate() {
            products[(row, column)] = dot(own, other);
        }
        for (column, solution) in solutions.iter().enumerate() {
            right[(row, column)] = dot(own, solution);
        }
        control.check()?;
    }
    let least: Vec<f64> = (0..free.len()).map(|row| LEAST * products[(row, row)]).collect();
    let (factor, dependent) = Cholesky::leaving_out(products, &least, control)?;
    for (row, _) in dependent {
        for column in 0..solutions.len() {
            right[(row, column)] = 0.0;
        }
    }
    factor.solve(&mut right, control)?;
    for (column, solution) in solutions.iter_mut().enumerate() {
        for (row, own) in free.iter().enumerate() {
            let share = right[(row, column)];
            for (value, own) in solution.iter_mut().zip(own) {
                *value -= share * own;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::families::linear::elastic_net;
    use crate::families::linear::huber;
    use crate::families::linear::least_squares;
    use crate::families::linear::logistic;
    use crate::families::linear::ridge;
    use crate::families::testing::{classification, fit_of, regression};
    use crate::family::{Family, Problem};
    use crate::random::Random;

    /// Numbers, and categories of which one column tells another, in both forms: compact and with a feature each.
    fn rows(count: usize, random: &mut Random) -> (Vec<f32>, Vec<u32>, Vec<f32>) {
        let one_hot = vec![0, 5, 0, 40, 8];
        let (mut compact, mut features) = (Vec::new(), Vec::new());
        for _ in 0..count {
            let tail = random.index(42) as f32 - 1.0;
            let row = [
                random.normal() as f32 * 3.0 + 100.0,
                random.index(5) as f32,
                random.index(2) as f32,
                tail,
                tail % 8.0,
            ];
            for (value, size) in row.iter().zip(&one_hot) {
                compact.push(*value);
                match *size {
                    0 => features.push(*value),
                    size => features.extend((0..size).map(|index| f32::from(u8::from(index as f32 == *value)))),
                }
            }
        }
        (compact, one_hot, features)
    }

    #[test]
    fn categories_as_one_number_make_the_model_that_a_feature_each_makes() {
        let mut random = Random::new(3);
        let (compact, one_hot, features) = rows(600, &mut random);
        let width = features.len() / 600;
        let tail = |row: usize| compact[row * 5 + 3];
        let y: Vec<f32> = (0..600)
            .map(|row| {
                compact[row * 5] * 0.1 + (tail(row) * 7.0).sin() * 2.0 + compact[row * 5 + 1] + random.normal() as f32
            })
            .collect();
        let both: Vec<f32> = y.iter().flat_map(|y| [*y, -*y * *y]).collect();
        let classes: Vec<f32> = y.iter().map(|y| (y / 3.0 - 3.0).clamp(0.0, 2.0).floor()).collect();
        let two: Vec<f32> = classes.iter().map(|class| class.min(1.0)).collect();
        let weights: Vec<f32> = (0..600).map(|row| (row % 4) as f32).collect();
        let cases: [(&Family, Problem<'_>, &str); 12] = [
            (&least_squares::LINEAR, regression(&features, width, &y), "{}"),
            (&least_squares::LINEAR, regression(&features, width, &both), r#"{"fit_intercept": false}"#),
            (&least_squares::LINEAR, Problem { weights: Some(&weights), ..regression(&features, width, &both) }, "{}"),
            (&ridge::RIDGE, regression(&features, width, &y), "{}"),
            (&ridge::RIDGE, regression(&features, width, &both), r#"{"alpha": [0.1, 30]}"#),
            (&ridge::RIDGE, regression(&features, width, &y), r#"{"positive": true, "tol": 1e-9}"#),
            (
                &ridge::CLASSIFIER,
                Problem { weights: Some(&weights), ..classification(&features, width, &classes) },
                "{}",
            ),
            (
                &elastic_net::LASSO,
                regression(&features, width, &y),
                r#"{"alpha": 0.01, "tol": 1e-9, "max_iter": 9999}"#,
            ),
            (
                &elastic_net::ELASTIC_NET,
                Problem { weights: Some(&weights), ..regression(&features, width, &y) },
                r#"{"alpha": 0.01, "tol": 1e-9, "max_iter": 9999, "fit_intercept": false}"#,
            ),
            (&huber::HUBER, regression(&features, width, &y), r#"{"alpha": 1, "max_iter": 2000, "tol": 1e-9}"#),
            (&logistic::LINEAR, classification(&features, width, &two), r#"{"max_iter": 2000, "tol": 1e-7}"#),
            (
                &logistic::LINEAR,
                Problem { weights: Some(&weights), ..classification(&features, width, &classes) },
                r#"{"max_iter": 2000, "tol": 1e-7}"#,
            ),
        ];
        for (family, dense, hyperparams) in cases {
            assert!(family.takes_one_hot(), "{}", family.name);
            let sparse = Problem { features: &compact, one_hot: &one_hot, ..dense };
            let (one, other) = (fit_of(family, &dense, hyperparams), fit_of(family, &sparse, hyperparams));
            let mut asked = features.clone();
            // A row of nothing but zeros, and one with a category alone.
            asked[..2 * width].fill(0.0);
            asked[width + 10] = 1.0;
            for row in asked.chunks_exact(width) {
                let (mut a, mut b) = (vec![0.0; one.values()], vec![0.0; one.values()]);
                one.predict(row, &mut a);
                other.predict(row, &mut b);
                let near = a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= 2e-4 * a.abs().max(1.0));
                assert!(near, "{} {hyperparams}: {a:?} {b:?}", family.name);
            }
        }
    }
}
