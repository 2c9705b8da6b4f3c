//! Naive Bayes: within a class each feature has a normal distribution of its own, independent of the others. The means and
//! variances are all there is to learn. The same as scikit-learn's GaussianNB.

use crate::Error;
use crate::families::common::{NOT_NEGATIVE, takes};
use crate::family::{Control, Family, Given, Kind, Model, Problem, Task};
use crate::forms::normal_densities;

/// `naive_bayes`, as scikit-learn's GaussianNB.
pub(crate) const NAIVE_BAYES: Family = Family {
    name: "naive_bayes",
    task: Task::Classification,
    parameters: &[
        takes(
            "priors",
            Kind::OrNull(&Kind::Numbers),
            "null",
            "The prior probability of each class; null for its frequency.",
        ),
        takes(
            "var_smoothing",
            NOT_NEGATIVE,
            "1e-9",
            "The share of the largest variance of a feature that is added to all variances.",
        ),
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: true,
    fit,
    form: &normal_densities::FORM,
};

/// Sums of weights, means and variances of groups of rows, one after the other.
struct Groups {
    weights: Vec<f64>,
    means: Vec<f64>,
    variances: Vec<f64>,
}

impl Groups {
    fn new(
        problem: &Problem<'_>,
        groups: usize,
        group_of: impl Fn(usize) -> usize,
        weight: impl Fn(usize) -> f64,
        control: &mut Control<'_>,
    ) -> Result<Groups, Error> {
        let width = problem.width;
        let mut sums = Groups {
            weights: vec![0.0; groups],
            means: vec![0.0; groups * width],
            variances: vec![0.0; groups * width],
        };
        let block = (1 << 17) / width + 1;
        for row in 0..problem.rows {
            if row % block == 0 {
                control.check()?;
            }
            let (group, weight) = (group_of(row), weight(row));
            sums.weights[group] += weight;
            let means = &mut sums.means[group * width..(group + 1) * width];
            for (mean, value) in means.iter_mut().zip(problem.row(row)) {
                *mean += weight * f64::from(*value);
            }
        }
        let total = |weights: &[f64], group: usize| weights[group].max(f64::MIN_POSITIVE);
        for (index, mean) in sums.means.iter_mut().enumerate() {
            *mean /= total(&sums.weights, index / width);
        }
        for row in 0..problem.rows {
            if row % block == 0 {
                control.check()?;
            }
            let (group, weight) = (group_of(row), weight(row));
            let means = &sums.means[group * width..(group + 1) * width];
            let variances = &mut sums.variances[group * width..(group + 1) * width];
            for ((variance, mean), value) in variances.iter_mut().zip(means).zip(problem.row(row)) {
                *variance += weight * (f64::from(*value) - mean).powi(2);
            }
        }
        for (index, variance) in sums.variances.iter_mut().enumerate() {
            *variance /= total(&sums.weights, index / width);
        }
        Ok(sums)
    }
}

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let (width, classes) = (problem.width, problem.classes);
    let class_of = problem.class_of_rows();
    let all = Groups::new(problem, 1, |_| 0, |_| 1.0, control)?;
    let mut own = Groups::new(problem, classes, |row| class_of[row], |row| problem.weight(row), control)?;
    let more = given.number("var_smoothing") * all.variances.iter().copied().fold(0.0, f64::max);
    for variance in &mut own.variances {
        *variance += more;
    }
    if own.variances.iter().zip(0..).any(|(variance, index)| *variance <= 0.0 && own.weights[index / width] > 0.0) {
        // A feature that is the same in all rows of a class has a density without a bound.
        let least = own.variances.iter().copied().filter(|variance| *variance > 0.0).fold(1.0, f64::min) * 1e-9;
        for variance in &mut own.variances {
            *variance = variance.max(least);
        }
    }
    // A class whose rows all have the weight 0 is never meant, whatever its densities are.
    for (index, variance) in own.variances.iter_mut().enumerate() {
        if own.weights[index / width] <= 0.0 {
            *variance = 1.0;
        }
    }
    let priors = match given.numbers("priors") {
        None => {
            let total: f64 = own.weights.iter().sum();
            own.weights.iter().map(|weight| weight / total).collect()
        }
        Some(priors) if priors.len() != classes => {
            return Err(given.refuse("priors", format!("one number for each of the {classes} classes")));
        }
        Some(priors) if priors.iter().any(|prior| *prior < 0.0) || (priors.iter().sum::<f64>() - 1.0).abs() > 1e-6 => {
            return Err(given.refuse("priors", "numbers that are at least 0 and add up to 1"));
        }
        Some(priors) => priors,
    };
    // A logarithm of 0 that is still a number.
    let priors: Vec<f64> = priors.iter().map(|prior: &f64| prior.ln().max(f64::MIN / 4.0)).collect();
    let expected: Vec<f64> = (0..classes * width)
        .map(|index| {
            let (feature, variance) = (index % width, own.variances[index]);
            let away = all.variances[feature] + (all.means[feature] - own.means[index]).powi(2);
            -0.5 * ((std::f64::consts::TAU * variance).ln() + away / variance)
        })
        .collect();
    Ok(Model::new(&normal_densities::FORM)
        .with("means", own.means)
        .with("variances", own.variances)
        .with("priors", priors)
        .with("expected", expected))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::testing::{classification, fit_of};

    #[test]
    fn contributions_add_up_to_the_log_densities() {
        let features = [0.0, 5.0, 1.0, 4.0, 2.0, 6.0, 9.0, 1.0, 8.0, 0.0, 7.0, 2.0];
        let model = fit_of(&NAIVE_BAYES, &classification(&features, 2, &[0.0, 0.0, 0.0, 1.0, 1.0, 1.0]), "{}");
        let (mut values, mut parts) = ([0.0; 2], [0.0; 6]);
        model.predict(&[4.0, 3.5], &mut values);
        assert!(model.contributions(&[4.0, 3.5], &mut parts));
        let score = |class: usize| f64::from(parts[3 * class] + parts[3 * class + 1] + parts[3 * class + 2]);
        let odds = f64::from(values[1] / values[0]).ln();
        assert!((score(1) - score(0) - odds).abs() < 1e-4, "{values:?} {parts:?}");
    }
}
