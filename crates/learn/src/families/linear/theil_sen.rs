//! The Theil-Sen estimator in several dimensions (Dang, Peng, Wang and Zhang, 2008): least squares through each of many
//! small sets of rows, and the spatial median of all those, found as Kärkkäinen and Äyrämö (2005) find it.

use faer::Mat;

use crate::Error;
use crate::families::common::told_whether_converged;
use crate::families::common::{COUNT, FIT_INTERCEPT, NOT_NEGATIVE, RANDOM_STATE, ignored, linear_model, seed, takes};
use crate::family::{Control, Family, Given, Kind, Model, Problem, Task, zeros};
use crate::forms::linear::{self, Link};
use crate::numerics::algebra::least_squares;
use crate::numerics::pace::Pace;
use crate::random::Random;

/// `theil_sen`, as scikit-learn's TheilSenRegressor.
pub(crate) const THEIL_SEN: Family = Family {
    name: "theil_sen",
    task: Task::Regression,
    parameters: &[
        takes(
            "max_subpopulation",
            Kind::Number(1.0, 1e9),
            "10000.0",
            "The maximum number of subsets of rows; if there are more, a random choice of them is used.",
        ),
        takes(
            "n_subsamples",
            Kind::OrNull(&COUNT),
            "null",
            "The number of rows in a subset; null for as many as there are coefficients.",
        ),
        takes("max_iter", COUNT, "300", "The maximum number of steps to the spatial median."),
        takes("tol", NOT_NEGATIVE, "0.001", "The search for the spatial median ends when a step is smaller."),
        FIT_INTERCEPT,
        RANDOM_STATE,
        ignored("copy_X", "true"),
        ignored("n_jobs", "null"),
        ignored("verbose", "false"),
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit,
    form: &linear::FORM,
};

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let constant = given.flag("fit_intercept");
    // A row without weight is as if it were not there; other weights make a row more probable.
    let rows: Vec<usize> = (0..problem.rows).filter(|row| problem.weight(*row) > 0.0).collect();
    let size = problem.width + usize::from(constant);
    let count = given.maybe_count("n_subsamples").unwrap_or(size.min(rows.len()));
    let least = size.min(rows.len());
    if count > rows.len() || count < least {
        let why = format!("from {least} to the {} rows with {} features", rows.len(), problem.width);
        return Err(given.refuse("n_subsamples", why));
    }
    let most = given.number("max_subpopulation").floor();
    let mut solver = Solver { problem, constant, size, solutions: Vec::new() };
    let mut pace = Pace::default();
    if combinations(rows.len(), count) <= most {
        let mut set: Vec<usize> = (0..count).collect();
        loop {
            solver.add(&set.iter().map(|index| rows[*index]).collect::<Vec<_>>(), control)?;
            pace.spend(size * size * count, control)?;
            // The next set in lexicographic order.
            let Some(last) = (0..count).rev().find(|place| set[*place] < rows.len() - count + place) else { break };
            set[last] += 1;
            for place in last + 1..count {
                set[place] = set[place - 1] + 1;
            }
        }
    } else {
        let mut draws = Draws::new(problem, rows, Random::new(seed(problem, given)));
        for _ in 0..most as u64 {
            solver.add(&draws.draw(count), control)?;
            pace.spend(size * size * count, control)?;
        }
    }
    let (solution, converged) =
        spatial_median(&solver.solutions, size, given.count("max_iter"), given.number("tol"), control)?;
    let (coefficients, rest) = solution.split_at(problem.width);
    let intercepts = vec![rest.first().copied().unwrap_or(0.0)];
    let model = linear_model(problem, coefficients.to_vec(), intercepts, Link::Identity)?;
    Ok(told_whether_converged(model, converged))
}

/// The number of subsets of `count` rows.
fn combinations(rows: usize, count: usize) -> f64 {
    (0..count.min(rows - count))
        .fold(1.0, |product, index| product * (rows - index) as f64 / (index + 1) as f64)
        .round()
}

/// Draws sets of rows.
struct Draws {
    rows: Vec<usize>,
    /// The sums of the weights up to each row, where they differ.
    sums: Vec<f64>,
    random: Random,
}

impl Draws {
    fn new(problem: &Problem<'_>, rows: Vec<usize>, random: Random) -> Draws {
        let sums = rows.iter().scan(0.0, |sum, row| {
            *sum += problem.weight(*row);
            Some(*sum)
        });
        let sums = if problem.weights.is_some() { sums.collect() } else { Vec::new() };
        Draws { rows, sums, random }
    }

    fn draw(&mut self, count: usize) -> Vec<usize> {
        if self.sums.is_empty() {
            for place in 0..count {
                let other = place + self.random.index(self.rows.len() - place);
                self.rows.swap(place, other);
            }
            return self.rows[..count].to_vec();
        }
        let total = self.sums.last().copied().unwrap_or(0.0);
        let mut set: Vec<usize> = Vec::with_capacity(count);
        // Where hardly any row but some heavy ones is ever drawn, a set may have a row twice.
        for turn in 0..100 * count {
            let at = self.random.unit() * total;
            let index = self.sums.partition_point(|sum| *sum <= at).min(self.rows.len() - 1);
            if !set.contains(&index) || turn >= 99 * count {
                set.push(index);
            }
            if set.len() == count {
                break;
            }
        }
        set.iter().map(|index| self.rows[*index]).collect()
    }
}

struct Solver<'a> {
    problem: &'a Problem<'a>,
    constant: bool,
    size: usize,
    /// One after the other: the coefficients, and the intercept behind them.
    solutions: Vec<f64>,
}

impl Solver<'_> {
    /// Adds the solution of a set of rows.
    fn add(&mut self, set: &[usize], control: &mut Control<'_>) -> Result<(), Error> {
        let width = self.problem.width;
        let mut matrix = zeros(set.len(), self.size + 1)?;
        for (index, row) in set.iter().enumerate() {
            for (column, value) in self.problem.row(*row).iter().enumerate() {
                matrix[(index, column)] = f64::from(*value);
            }
            if self.constant {
                matrix[(index, width)] = 1.0;
            }
            matrix[(index, self.size)] = f64::from(self.problem.labels[*row]);
        }
        if set.len() == self.size
            && let Some(solution) = eliminated(matrix.clone())
        {
            self.solutions.extend(solution);
            return Ok(());
        }
        let solution = least_squares(matrix.subcols(0, self.size).to_owned(), matrix.subcols(self.size, 1), control)?;
        self.solutions.extend_from_slice(solution.col_as_slice(0));
        Ok(())
    }
}

/// The solution of as many equations as unknowns, the last column their right sides, by Gaussian elimination; `None` where
/// they have none, or hardly one.
fn eliminated(mut matrix: Mat<f64>) -> Option<Vec<f64>> {
    let size = matrix.nrows();
    for step in 0..size {
        let largest = matrix.col_as_slice(step).iter().map(|value| value.abs()).fold(0.0, f64::max);
        let pivot = (step..size).max_by(|a, b| matrix[(*a, step)].abs().total_cmp(&matrix[(*b, step)].abs()))?;
        if matrix[(pivot, step)].abs() <= 1e-10 * largest {
            return None;
        }
        for column in 0..=size {
            let upper = matrix[(step, column)];
            matrix[(step, column)] = matrix[(pivot, column)];
            matrix[(pivot, column)] = upper;
        }
        for row in step + 1..size {
            matrix[(row, step)] /= matrix[(step, step)];
        }
        for column in step + 1..=size {
            let factor = matrix[(step, column)];
            for row in step + 1..size {
                matrix[(row, column)] -= matrix[(row, step)] * factor;
            }
        }
    }
    let mut solution = vec![0.0; size];
    for row in (0..size).rev() {
        let known: f64 = (row + 1..size).map(|column| matrix[(row, column)] * solution[column]).sum();
        solution[row] = (matrix[(row, size)] - known) / matrix[(row, row)];
    }
    solution.iter().all(|value| value.is_finite()).then_some(solution)
}

/// The point with the least sum of distances to all points, and whether it was found.
fn spatial_median(
    points: &[f64],
    size: usize,
    max_iter: usize,
    tol: f64,
    control: &mut Control<'_>,
) -> Result<(Vec<f64>, bool), Error> {
    let count = (points.len() / size).max(1);
    if size == 1 {
        let mut points = points.to_vec();
        points.sort_by(f64::total_cmp);
        let middle = points.len() / 2;
        let lower = if points.len().is_multiple_of(2) { points[middle - 1] } else { points[middle] };
        return Ok((vec![0.5 * (lower + points[middle])], true));
    }
    let mut at = vec![0.0; size];
    for point in points.chunks_exact(size) {
        at.iter_mut().zip(point).for_each(|(at, value)| *at += value / count as f64);
    }
    for _ in 0..max_iter {
        control.check()?;
        let (mut pull, mut next, mut sum, mut here) = (vec![0.0; size], vec![0.0; size], 0.0, false);
        for point in points.chunks_exact(size) {
            let distance = point.iter().zip(&at).map(|(value, at)| (value - at).powi(2)).sum::<f64>().sqrt();
            if distance < f64::EPSILON {
                here = true;
                continue;
            }
            for feature in 0..size {
                pull[feature] += (point[feature] - at[feature]) / distance;
                next[feature] += point[feature] / distance;
            }
            sum += 1.0 / distance;
        }
        let force = pull.iter().map(|pull| pull * pull).sum::<f64>().sqrt();
        if sum == 0.0 || force <= f64::EPSILON {
            return Ok((at, true));
        }
        // A point that it stands on holds it with the force of one.
        let stay = if here { (1.0 / force).min(1.0) } else { 0.0 };
        let mut moved = 0.0;
        for (at, next) in at.iter_mut().zip(&next) {
            let target = (1.0 - stay) * next / sum + stay * *at;
            moved += (target - *at).powi(2);
            *at = target;
        }
        if moved < tol * tol {
            return Ok((at, true));
        }
    }
    Ok((at, false))
}
