//! The middle and the covariance of most rows, whatever the others are: those of the half of the rows whose covariance has the
//! least determinant (Rousseeuw and Van Driessen, "A fast algorithm for the minimum covariance determinant estimator", 1999),
//! and then of all rows that are near to these.

use faer::Mat;

use super::{CONTAMINATION, above_share, at_once};
use crate::Error;
use crate::families::common::{RANDOM_STATE, ignored, seed, takes};
use crate::family::{Control, Family, Given, Kind, Model, Problem, Task};
use crate::forms::ellipse;
use crate::numerics::algebra::eigenvalues;
use crate::random::Random;

/// Random halves that are begun with, the best of them that are followed to the end, and the steps of each before that.
const STARTS: usize = 100;
const FOLLOWED: usize = 10;
const FIRST_STEPS: usize = 2;

/// Steps after which a half is the last.
const STEPS: usize = 100;

/// Rows that are looked at to find good halves; then all are.
const ROWS: usize = 1500;

/// The share of the rows of a normal distribution that are near enough to count.
const NEAR: f64 = 0.975;

/// `robust_covariance`, as scikit-learn's EllipticEnvelope.
pub(crate) const ROBUST_COVARIANCE: Family = Family {
    name: "robust_covariance",
    task: Task::Anomaly,
    parameters: &[
        takes(
            "support_fraction",
            Kind::OrNull(&Kind::Above(0.0, 1.0)),
            "null",
            "The share of the rows whose covariance is the least; null for a little more than half.",
        ),
        CONTAMINATION,
        RANDOM_STATE,
        ignored("store_precision", "true"),
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: false,
    fit,
    form: &ellipse::FORM,
};

/// The middle of some rows and the inverse of their covariance.
struct Fit {
    location: Vec<f64>,
    precision: Vec<f64>,
    log_determinant: f64,
}

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    if problem.rows < 2 {
        return Err(Error::Task("a covariance needs at least two rows".into()));
    }
    let mut random = Random::new(seed(problem, given));
    let share = given.maybe_number("support_fraction");
    let half = |rows: usize| match share {
        Some(share) => ((share * rows as f64) as usize).clamp(2, rows),
        None => (rows + problem.width + 1).div_ceil(2).min(rows),
    };
    let mut some: Vec<usize> = (0..problem.rows).collect();
    if problem.rows > ROWS {
        random.shuffle(&mut some);
        some.truncate(ROWS);
    }
    let mut found = Vec::with_capacity(STARTS);
    for _ in 0..STARTS {
        random.shuffle(&mut some);
        let first = covariance(problem, &some[..half(some.len())], control)?;
        found.push(steps(problem, &some, half(some.len()), first, FIRST_STEPS, control)?);
    }
    found.sort_by(|a, b| a.log_determinant.total_cmp(&b.log_determinant));
    found.truncate(FOLLOWED);
    let all: Vec<usize> = (0..problem.rows).collect();
    let mut best: Option<Fit> = None;
    for start in found {
        let end = steps(problem, &all, half(all.len()), start, STEPS, control)?;
        if best.as_ref().is_none_or(|best| end.log_determinant < best.log_determinant) {
            best = Some(end);
        }
    }
    let best = best.ok_or(Error::Diverged("no rows were found whose covariance is the least"))?;
    let near = reweighted(problem, &best, half(all.len()) as f64 / all.len() as f64, control)?;
    let distances = distances(problem, &near, &all, control)?;
    let model = ellipse::model(near.location, near.precision);
    Ok(above_share(model, distances, given.number("contamination")))
}

/// The rows that are as near by the best half as nearly all of a normal distribution with its covariance.
fn reweighted(problem: &Problem<'_>, best: &Fit, share: f64, control: &mut Control<'_>) -> Result<Fit, Error> {
    let all: Vec<usize> = (0..problem.rows).collect();
    let distances = distances(problem, best, &all, control)?;
    let limit = chi_squared(problem.width, NEAR) * consistency(problem.width, share);
    let near: Vec<usize> = all.iter().copied().filter(|row| distances[*row] < limit).collect();
    let mut fit = covariance(problem, if near.is_empty() { &all } else { &near }, control)?;
    let factor = consistency(problem.width, NEAR);
    fit.precision.iter_mut().for_each(|value| *value /= factor);
    Ok(fit)
}

/// What the covariance of this share of the rows of a normal distribution, the nearest, has to be multiplied by (Croux and
/// Haesbroeck, 1999).
fn consistency(width: usize, share: f64) -> f64 {
    if share >= 1.0 {
        return 1.0;
    }
    share / share_below(width + 2, chi_squared(width, share))
}

/// Takes the rows that are nearest by a covariance, and theirs next, until its determinant does not shrink any more.
fn steps(
    problem: &Problem<'_>,
    rows: &[usize],
    half: usize,
    mut fit: Fit,
    most: usize,
    control: &mut Control<'_>,
) -> Result<Fit, Error> {
    for _ in 0..most {
        let distances = distances(problem, &fit, rows, control)?;
        let mut order: Vec<usize> = (0..rows.len()).collect();
        if half < order.len() {
            order.select_nth_unstable_by(half, |a, b| distances[*a].total_cmp(&distances[*b]).then(a.cmp(b)));
        }
        let nearest: Vec<usize> = order[..half].iter().map(|place| rows[*place]).collect();
        let next = covariance(problem, &nearest, control)?;
        let shrinks = next.log_determinant < fit.log_determinant;
        // The first is of other rows, perhaps, and its determinant no measure.
        if !shrinks && most == STEPS {
            break;
        }
        fit = next;
    }
    Ok(fit)
}

fn distances(problem: &Problem<'_>, fit: &Fit, rows: &[usize], control: &mut Control<'_>) -> Result<Vec<f64>, Error> {
    let mut distances = Vec::new();
    room::reserve(&mut distances, rows.len())?;
    for some in rows.chunks(at_once(problem.width * problem.width)) {
        control.check()?;
        let distance = |row: &usize| ellipse::distance(&fit.location, &fit.precision, problem.row(*row));
        distances.extend(some.iter().map(distance));
    }
    Ok(distances)
}

/// The middle and the covariance of these rows, inverted; what does not vary counts for nothing.
fn covariance(problem: &Problem<'_>, rows: &[usize], control: &mut Control<'_>) -> Result<Fit, Error> {
    let (width, count) = (problem.width, rows.len() as f64);
    let mut location = vec![0.0; width];
    for (number, row) in rows.iter().enumerate() {
        if number % 4096 == 0 {
            control.check()?;
        }
        location.iter_mut().zip(problem.row(*row)).for_each(|(sum, value)| *sum += f64::from(*value));
    }
    location.iter_mut().for_each(|sum| *sum /= count);
    let mut sums = crate::family::zeros(width, width)?;
    let mut gaps = vec![0.0; width];
    for (number, row) in rows.iter().enumerate() {
        if number % 256 == 0 {
            control.check()?;
        }
        for ((gap, value), middle) in gaps.iter_mut().zip(problem.row(*row)).zip(&location) {
            *gap = f64::from(*value) - middle;
        }
        for (column, gap) in gaps.iter().enumerate() {
            for (sum, other) in sums.col_as_slice_mut(column)[column..].iter_mut().zip(&gaps[column..]) {
                *sum += gap * other / count;
            }
        }
    }
    let eigen = eigenvalues(sums, control)?;
    let values: Vec<f64> = eigen.S().column_vector().iter().copied().collect();
    // As pinvh of SciPy: below this a value is what rounding left.
    let least = values.iter().copied().fold(0.0, f64::max) * width as f64 * f64::EPSILON;
    let vectors = eigen.U();
    let scaled =
        Mat::from_fn(
            width,
            width,
            |row, column| {
                if values[column] > least { vectors[(row, column)] / values[column] } else { 0.0 }
            },
        );
    let inverse = crate::numerics::algebra::product(scaled.as_ref(), vectors.transpose(), control)?;
    let precision = (0..width * width).map(|at| inverse[(at / width, at % width)]).collect();
    let log_determinant = values.iter().map(|value| if *value > 0.0 { value.ln() } else { f64::NEG_INFINITY }).sum();
    Ok(Fit { location, precision, log_determinant })
}

/// The quantile of the chi-squared distribution, by bisection of the series of its share.
fn chi_squared(freedom: usize, share: f64) -> f64 {
    let (mut low, mut high) = (0.0, freedom as f64 + 20.0 * (2.0 * freedom as f64).sqrt() + 20.0);
    for _ in 0..200 {
        let middle = (low + high) / 2.0;
        if share_below(freedom, middle) < share { low = middle } else { high = middle }
    }
    (low + high) / 2.0
}

/// The share of the chi-squared distribution below a number: the lower incomplete gamma function of a half of each, by its series.
fn share_below(freedom: usize, value: f64) -> f64 {
    let (shape, half) = (freedom as f64 / 2.0, value / 2.0);
    // The logarithm of the gamma function of shape + 1, down to that of 1 or of a half.
    let mut gamma = if freedom.is_multiple_of(2) { 0.0 } else { std::f64::consts::PI.sqrt().ln() };
    let mut factor = shape;
    while factor > 0.25 {
        gamma += factor.ln();
        factor -= 1.0;
    }
    let (mut term, mut sum, mut at) = (1.0, 1.0, shape);
    while term > sum * 1e-17 {
        at += 1.0;
        term *= half / at;
        sum += term;
    }
    (shape * half.ln() - half - gamma + sum.ln()).exp()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_those_of_scipy() {
        // scipy.stats.chi2.ppf
        for (freedom, share, wanted) in [
            (1, 0.5, 0.454_936_423_119_572_8),
            (2, 0.975, 7.377_758_908_227_871),
            (13, 0.975, 24.735_604_884_931_54),
            (100, 0.5, 99.334_129_235_988_46),
            (1000, 0.975, 1_089.530_912_774_913_5),
        ] {
            let found = chi_squared(freedom, share);
            assert!((found - wanted).abs() < 1e-8 * wanted, "{freedom} {share}: {found}");
        }
    }
}
