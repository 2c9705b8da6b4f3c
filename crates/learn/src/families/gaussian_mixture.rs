//! A mixture of normal distributions that most probably made the rows, by expectation and maximisation (Dempster, Laird
//! and Rubin, 1977), from the clusters of k-means.

use crate::Error;
use crate::families::cluster::common::{self, RANDOM_STATE};
use crate::families::cluster::k_means::{Points, Search, first_centres, k_means};
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Task};
use crate::forms::mixture::{self, Parts, log_density, triangle};
use crate::random::Random;

/// `gaussian_mixture`, as scikit-learn's GaussianMixture.
pub(crate) const GAUSSIAN_MIXTURE: Family = Family {
    name: "gaussian_mixture",
    task: Task::Clustering,
    parameters: &[
        Parameter {
            name: "n_components",
            kind: Kind::Integer(1, i32::MAX as i64),
            default: "1",
            about: "The number of distributions in the mixture.",
        },
        Parameter {
            name: "covariance_type",
            kind: Kind::Choice(&["full", "tied", "diag", "spherical"]),
            default: "\"full\"",
            about: "The covariance of each distribution: a full one, one for all, variances only, or a single variance.",
        },
        Parameter {
            name: "tol",
            kind: Kind::Number(0.0, f64::INFINITY),
            default: "0.001",
            about: "A run ends when the mean log-likelihood of the rows grows by less.",
        },
        Parameter {
            name: "reg_covar",
            kind: Kind::Number(0.0, f64::INFINITY),
            default: "0.000001",
            about: "Added to variances, so that none is 0.",
        },
        Parameter {
            name: "max_iter",
            kind: Kind::Integer(1, i32::MAX as i64),
            default: "100",
            about: "The maximum number of iterations of a run.",
        },
        Parameter {
            name: "n_init",
            kind: Kind::Integer(1, 1_000_000),
            default: "1",
            about: "The number of runs with other initial distributions; the best is kept.",
        },
        Parameter {
            name: "init_params",
            kind: Kind::Choice(&["kmeans", "k-means++", "random_from_data", "random"]),
            default: "\"kmeans\"",
            about: "The choice of the initial distributions: from clusters, from rows far from each other, from rows at random, or from random shares of all rows.",
        },
        Parameter {
            name: "weights_init",
            kind: Kind::OrNull(&Kind::Refused("it is not supported")),
            default: "null",
            about: "Not supported.",
        },
        Parameter {
            name: "means_init",
            kind: Kind::OrNull(&Kind::Refused("it is not supported")),
            default: "null",
            about: "Not supported.",
        },
        Parameter {
            name: "precisions_init",
            kind: Kind::OrNull(&Kind::Refused("it is not supported")),
            default: "null",
            about: "Not supported.",
        },
        Parameter { name: "warm_start", kind: Kind::Ignored, default: "false", about: "No effect." },
        Parameter { name: "verbose", kind: Kind::Ignored, default: "0", about: "No effect." },
        Parameter { name: "verbose_interval", kind: Kind::Ignored, default: "10", about: "No effect." },
        RANDOM_STATE,
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit,
    form: &mixture::FORM,
};

/// What covariances may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Covariances {
    Full,
    Tied,
    Diagonal,
    Spherical,
}

/// Operations between two looks for the end of a training.
const AT_ONCE: usize = 1 << 20;

/// Looks for the end of a training whenever enough was done.
#[derive(Default)]
struct Pace {
    done: usize,
}

impl Pace {
    fn spend(&mut self, operations: usize, control: &mut Control<'_>) -> Result<(), Error> {
        self.done = self.done.saturating_add(operations);
        if self.done < AT_ONCE {
            return Ok(());
        }
        self.done = 0;
        control.check()
    }
}

/// Zeros, if there is room for them: with thousands of features they are gigabytes.
fn zeros(length: usize) -> Result<Vec<f64>, Error> {
    let mut zeros = Vec::new();
    room::reserve(&mut zeros, length)?;
    zeros.resize(length, 0.0);
    Ok(zeros)
}

/// What stays the same while distributions are improved.
struct Mixing<'a> {
    points: Points<'a>,
    count: usize,
    covariances: Covariances,
    least: f64,
}

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let count = common::at_most_rows(problem, given, "n_components", given.count("n_components"))?;
    let values = common::values(problem)?;
    let weights = common::weights(problem);
    let points = Points { values: &values, width: problem.width, weights: &weights };
    let covariances = match given.word("covariance_type") {
        "tied" => Covariances::Tied,
        "diag" => Covariances::Diagonal,
        "spherical" => Covariances::Spherical,
        _ => Covariances::Full,
    };
    let mixing = Mixing { points, count, covariances, least: given.number("reg_covar") };
    let mut random = common::random(problem, given);
    let (most, enough) = (given.count("max_iter"), given.number("tol"));
    let mut best: Option<(f64, Parts, bool)> = None;
    for _ in 0..given.count("n_init") {
        let mut shares = mixing.first_shares(given.word("init_params"), &mut random, control)?;
        let mut parts = mixing.maximise(&shares, control)?;
        let (mut likelihood, mut settled) = (f64::NEG_INFINITY, false);
        for iteration in 0..most {
            control.progress(iteration as u64, most as u64)?;
            let now = mixing.expect(&parts, &mut shares, control)?;
            parts = mixing.maximise(&shares, control)?;
            settled = (now - likelihood).abs() < enough;
            likelihood = now;
            if settled {
                break;
            }
        }
        if best.as_ref().is_none_or(|best| likelihood > best.0) {
            best = Some((likelihood, parts, settled));
        }
    }
    let (_, parts, settled) = best.ok_or(Error::Diverged("no distributions were found"))?;
    let model = mixture::model(&parts);
    Ok(if settled {
        model
    } else {
        model.warn("the distributions may not be the best ones: raise max_iter, tol or n_init")
    })
}

impl Mixing<'_> {
    /// The share of each row that each distribution begins with, row by row.
    fn first_shares(&self, from: &str, random: &mut Random, control: &mut Control<'_>) -> Result<Vec<f64>, Error> {
        let (rows, count) = (self.points.len(), self.count);
        let mut shares = Vec::new();
        room::reserve(&mut shares, rows.checked_mul(count).ok_or(Error::Memory)?)?;
        shares.resize(rows * count, 0.0);
        match from {
            "kmeans" => {
                let search = Search { clusters: count, spread: true, starts: 1, iterations: 300, tolerance: 1e-4 };
                let found = k_means(self.points, &search, random, control)?;
                for (row, cluster) in found.nearest.iter().enumerate() {
                    shares[row * count + *cluster as usize] = 1.0;
                }
            }
            "random" => {
                for row in shares.chunks_exact_mut(count) {
                    row.iter_mut().for_each(|share| *share = 1.0 - random.unit());
                    let sum: f64 = row.iter().sum();
                    row.iter_mut().for_each(|share| *share /= sum);
                }
            }
            _ => {
                let centres = first_centres(self.points, count, from == "k-means++", random, control)?;
                // A row each, and the others to whom they are nearest.
                let found = crate::families::cluster::k_means::settle(self.points, centres, vec![0; rows], control)?;
                for (row, cluster) in found.nearest.iter().enumerate() {
                    shares[row * count + *cluster as usize] = 1.0;
                }
            }
        }
        Ok(shares)
    }

    /// The shares that distributions have in each row; the mean logarithm of the rows' densities.
    fn expect(&self, parts: &Parts, shares: &mut [f64], control: &mut Control<'_>) -> Result<f64, Error> {
        let width = self.points.width;
        let each = parts.scales.len() / self.count;
        let (mut sum, mut weight, mut pace) = (0.0, 0.0, Pace::default());
        for (row, shares) in shares.chunks_exact_mut(self.count).enumerate() {
            for (index, share) in shares.iter_mut().enumerate() {
                pace.spend(each, control)?;
                let mean = &parts.means[index * width..(index + 1) * width];
                let scales = &parts.scales[index * each..(index + 1) * each];
                *share = log_density(self.points.row(row), mean, scales, parts.offsets[index]);
            }
            let largest = shares.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            let largest = if largest.is_finite() { largest } else { 0.0 };
            let total: f64 = shares.iter().map(|log| (log - largest).exp()).sum();
            let logarithm = largest + total.ln();
            shares.iter_mut().for_each(|log| *log = (*log - logarithm).exp());
            sum += logarithm * self.points.weights[row];
            weight += self.points.weights[row];
        }
        match sum.is_finite() {
            true => Ok(sum / weight),
            false => Err(Error::Diverged("the densities of rows are not numbers: raise reg_covar")),
        }
    }

    /// The distributions that most probably made the rows, of which they have these shares.
    fn maximise(&self, shares: &[f64], control: &mut Control<'_>) -> Result<Parts, Error> {
        let (width, count) = (self.points.width, self.count);
        let mut sizes = vec![10.0 * f64::EPSILON; count];
        let mut means = zeros(count.checked_mul(width).ok_or(Error::Memory)?)?;
        let mut pace = Pace::default();
        for (row, shares) in shares.chunks_exact(count).enumerate() {
            pace.spend(count * width, control)?;
            for (index, share) in shares.iter().enumerate() {
                let share = share * self.points.weights[row];
                sizes[index] += share;
                for (mean, value) in means[index * width..(index + 1) * width].iter_mut().zip(self.points.row(row)) {
                    *mean += share * value;
                }
            }
        }
        for (mean, size) in means.chunks_exact_mut(width).zip(&sizes) {
            mean.iter_mut().for_each(|sum| *sum /= size);
        }
        let mut spreads = Vec::with_capacity(count);
        for index in 0..count {
            let mut spread = self.spread(shares, index, &means[index * width..(index + 1) * width], control)?;
            if self.covariances != Covariances::Tied {
                spread.iter_mut().for_each(|sum| *sum /= sizes[index]);
            }
            spreads.push(spread);
        }
        let total: f64 = sizes.iter().sum();
        if self.covariances == Covariances::Tied {
            let mut all = zeros(triangle(width))?;
            for spread in &spreads {
                control.check()?;
                all.iter_mut().zip(spread).for_each(|(all, sum)| *all += sum / total);
            }
            spreads = vec![all; count];
        }
        let (mut scales, mut offsets) = (Vec::new(), Vec::with_capacity(count));
        for (spread, size) in spreads.into_iter().zip(&sizes) {
            let (scale, log_determinant) = self.scale(spread, control)?;
            room::reserve(&mut scales, scale.len())?;
            scales.extend_from_slice(&scale);
            let constant = width as f64 / 2.0 * std::f64::consts::TAU.ln();
            offsets.push((size / total).ln() - constant + log_determinant);
        }
        Ok(Parts { width, means, scales, offsets })
    }

    /// Sums of the products of differences from the mean: the lower triangle, or the squares only.
    fn spread(&self, shares: &[f64], index: usize, mean: &[f64], control: &mut Control<'_>) -> Result<Vec<f64>, Error> {
        let width = self.points.width;
        let squares = matches!(self.covariances, Covariances::Diagonal | Covariances::Spherical);
        let mut sums = zeros(if squares { width } else { triangle(width) })?;
        let (mut gaps, mut pace) = (vec![0.0; width], Pace::default());
        for row in 0..self.points.len() {
            pace.spend(sums.len(), control)?;
            let share = shares[row * self.count + index] * self.points.weights[row];
            if share == 0.0 {
                continue;
            }
            for ((gap, value), mean) in gaps.iter_mut().zip(self.points.row(row)).zip(mean) {
                *gap = value - mean;
            }
            if squares {
                sums.iter_mut().zip(&gaps).for_each(|(sum, gap)| *sum += share * gap * gap);
                continue;
            }
            let mut at = 0;
            for a in 0..width {
                let factor = share * gaps[a];
                for gap in &gaps[..=a] {
                    sums[at] += factor * gap;
                    at += 1;
                }
            }
        }
        Ok(sums)
    }

    /// What differences are multiplied by so that they have variance 1, and the logarithm of its determinant.
    fn scale(&self, mut spread: Vec<f64>, control: &mut Control<'_>) -> Result<(Vec<f64>, f64), Error> {
        const NOT_POSITIVE: Error =
            Error::Diverged("a covariance is not positive: raise reg_covar, or take fewer components");
        let width = self.points.width;
        match self.covariances {
            Covariances::Full | Covariances::Tied => {
                for feature in 0..width {
                    spread[triangle(feature) + feature] += self.least;
                }
                let inverse = inverse_factor(&spread, width, control)?.ok_or(NOT_POSITIVE)?;
                let log = (0..width).map(|feature| inverse[triangle(feature) + feature].ln()).sum();
                return Ok((inverse, log));
            }
            Covariances::Spherical => {
                let mean = spread.iter().sum::<f64>() / width as f64;
                spread.fill(mean);
            }
            Covariances::Diagonal => {}
        }
        let scales: Vec<f64> = spread.iter().map(|variance| (variance + self.least).sqrt().recip()).collect();
        match scales.iter().all(|scale| scale.is_finite()) {
            true => Ok((scales.clone(), scales.iter().map(|scale| scale.ln()).sum())),
            false => Err(NOT_POSITIVE),
        }
    }
}

/// The inverse of the Cholesky factor of a matrix, all of them lower triangles; `None` where it is not positive.
fn inverse_factor(matrix: &[f64], width: usize, control: &mut Control<'_>) -> Result<Option<Vec<f64>>, Error> {
    let at = |row: usize, column: usize| triangle(row) + column;
    let mut pace = Pace::default();
    let mut factor = zeros(triangle(width))?;
    for row in 0..width {
        for column in 0..=row {
            pace.spend(column, control)?;
            let products: f64 = (0..column).map(|k| factor[at(row, k)] * factor[at(column, k)]).sum();
            let rest = matrix[at(row, column)] - products;
            factor[at(row, column)] = match row == column {
                true if rest > 0.0 && rest.is_finite() => rest.sqrt(),
                true => return Ok(None),
                false => rest / factor[at(column, column)],
            };
        }
    }
    let mut inverse = zeros(triangle(width))?;
    for row in 0..width {
        let diagonal = factor[at(row, row)];
        inverse[at(row, row)] = diagonal.recip();
        for column in 0..row {
            pace.spend(row - column, control)?;
            let products: f64 = (column..row).map(|k| factor[at(row, k)] * inverse[at(k, column)]).sum();
            inverse[at(row, column)] = -products / diagonal;
        }
    }
    Ok(Some(inverse))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::fit;
    use crate::families::testing::{given, unlabelled};

    #[test]
    fn a_training_of_many_features_looks_for_its_end_within_a_row() {
        let (rows, width) = (8, 600);
        let mut random = Random::new(5);
        let features: Vec<f32> = (0..rows * width).map(|_| random.normal() as f32).collect();
        let given = given(&GAUSSIAN_MIXTURE, r#"{"n_components": 1, "max_iter": 1}"#).unwrap();
        let mut checks = 0;
        let mut ask = |_| {
            checks += 1;
            Ok(())
        };
        fit(&GAUSSIAN_MIXTURE, &unlabelled(&features, width), &given, &mut Control::new(&mut ask)).unwrap();
        assert!(checks > 100, "{checks}");
    }
}
