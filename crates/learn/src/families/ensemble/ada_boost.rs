//! AdaBoost: trees of few splits, each grown with more weight on the rows that those before it got wrong. For classes
//! SAMME (Zhu, Zou, Rosset and Hastie, 2009), for numbers AdaBoost.R2 (Drucker, 1997); the hyperparameters are
//! scikit-learn's.

use forest::double::Link;

use crate::Error;
use crate::families::ensemble::trees::bins::{Bins, MOST};
use crate::families::ensemble::trees::grow::{Criterion, Grower, Sample, Sums, Tree};
use crate::families::ensemble::trees::{
    RANDOM_STATE, all_rows, classes, leaf_values, plain, push, random, row, weighted_labels, weights,
};
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Task};
use crate::forms::trees::{self, Ensemble};
use crate::random::Random;

const ESTIMATOR: Parameter = row(
    "estimator",
    Kind::OrNull(&Kind::Refused("only null is possible: the estimators are trees")),
    "null",
    "Only null: the estimators are trees.",
);
const RATE: Parameter = row(
    "learning_rate",
    Kind::Above(0.0, f64::INFINITY),
    "1.0",
    "The factor of each tree's weight: smaller values need more trees.",
);

/// `ada_boost` for classes, as scikit-learn's AdaBoostClassifier.
pub(crate) const CLASSIFIER: Family = Family {
    name: "ada_boost",
    task: Task::Classification,
    parameters: &[crate::families::ensemble::trees::trees("50"), RATE, ESTIMATOR, RANDOM_STATE],
    joint: false,
    takes_categories: true,
    takes_missing: true,
    takes_weights: true,
    fit: classification,
    form: &trees::FORM,
};

/// `ada_boost` for numbers, as scikit-learn's AdaBoostRegressor.
pub(crate) const REGRESSOR: Family = Family {
    name: "ada_boost",
    task: Task::Regression,
    parameters: &[
        crate::families::ensemble::trees::trees("50"),
        RATE,
        row(
            "loss",
            Kind::Choice(&["linear", "square", "exponential"]),
            "\"linear\"",
            "The loss as a function of an error's ratio to the largest error.",
        ),
        ESTIMATOR,
        RANDOM_STATE,
    ],
    joint: false,
    takes_categories: true,
    takes_missing: true,
    takes_weights: true,
    fit: regression,
    form: &trees::FORM,
};

/// Makes the weights add up to 1.
fn normalise(weights: &mut [f64]) -> bool {
    let sum: f64 = weights.iter().sum();
    if !sum.is_finite() || sum <= 0.0 {
        return false;
    }
    weights.iter_mut().for_each(|weight| *weight /= sum);
    true
}

const GUESSES: &str = "the first tree is no better than a guess, and is the only one";

fn classification(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let mut weights = weights(problem)?;
    normalise(&mut weights);
    let bins = Bins::new(problem, MOST, control)?;
    let mut growth = plain(Criterion::Gini);
    (growth.max_depth, growth.tried) = (1, Some(problem.width));
    let mut grower = Grower::new(&bins, growth);
    let mut random = random(problem, given);
    let of_rows = classes(problem)?;
    let others = problem.classes.saturating_sub(1).max(1) as f64;
    let mut ensemble = Ensemble::new(problem.width, vec![0.0; problem.classes], problem.classes, Link::Softmax);
    let (of, rate) = (given.count("n_estimators"), given.number("learning_rate"));
    let (mut total, mut values, mut guesses) = (0.0, Vec::new(), false);
    for round in 0..of {
        let sums = Sums::Classes(&of_rows, problem.classes);
        let tree = grower.grow(all_rows(&weights)?, Sample { weights: &weights, sums }, &mut random, control)?;
        leaf_values(&tree, &weights, sums, &mut values)?;
        let answers: Vec<usize> = values.chunks_exact(problem.classes).map(largest).collect();
        let wrong = |leaf: usize, row: u32| of_rows[row as usize] as usize != answers[leaf];
        let error: f64 =
            members(&tree).filter(|(leaf, row)| wrong(*leaf, *row)).map(|(_, row)| weights[row as usize]).sum();
        let is_guess = error >= 1.0 - 1.0 / problem.classes as f64;
        guesses |= is_guess && round == 0;
        if is_guess && round > 0 {
            break;
        }
        let is_last = error <= 0.0 || is_guess;
        let weight = if is_last { 1.0 } else { rate * (((1.0 - error) / error).ln() + others.ln()) };
        for (value, answer) in values.chunks_exact_mut(problem.classes).zip(&answers) {
            value.fill(-weight / others);
            value[*answer] = weight;
        }
        push(&mut ensemble, &tree, &values)?;
        total += weight;
        for (_, row) in members(&tree).filter(|(leaf, row)| wrong(*leaf, *row)) {
            weights[row as usize] *= weight.exp();
        }
        control.progress(round as u64 + 1, of as u64)?;
        if is_last || !normalise(&mut weights) {
            break;
        }
    }
    ensemble.divisor = total * others;
    let model = ensemble.model();
    Ok(if guesses { model.warn(GUESSES) } else { model })
}

/// All rows of a tree, with their leaves.
fn members(tree: &Tree) -> impl Iterator<Item = (usize, u32)> {
    (0..tree.leaves.len()).flat_map(|leaf| tree.rows_of(leaf).iter().map(move |row| (leaf, *row)))
}

/// The index of the largest of these, the first of several.
fn largest(values: &[f64]) -> usize {
    (0..values.len()).fold(0, |best, index| if values[index] > values[best] { index } else { best })
}

fn regression(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let mut weights = weights(problem)?;
    normalise(&mut weights);
    let bins = Bins::new(problem, MOST, control)?;
    let mut growth = plain(Criterion::SquaredError);
    (growth.max_depth, growth.tried) = (3, Some(problem.width));
    let mut grower = Grower::new(&bins, growth);
    let mut random = random(problem, given);
    let mut ensemble = Ensemble::new(problem.width, vec![0.0], 1, Link::Identity);
    let (of, rate) = (given.count("n_estimators"), given.number("learning_rate"));
    let (mut drawn, mut labels, mut values, mut errors) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut guesses = false;
    for round in 0..of {
        let rows = draw(&weights, &mut random, &mut drawn)?;
        weighted_labels(problem, &drawn, &mut labels)?;
        let sums = Sums::Numbers(&labels, 1);
        let tree = grower.grow(rows, Sample { weights: &drawn, sums }, &mut random, control)?;
        leaf_values(&tree, &drawn, sums, &mut values)?;
        errors.clear();
        room::reserve(&mut errors, problem.rows)?;
        errors.extend((0..problem.rows).map(|row| {
            let answer = values[tree.leaf_of(problem.row(row))];
            if weights[row] > 0.0 { (answer - f64::from(problem.labels[row])).abs() } else { 0.0 }
        }));
        let most = errors.iter().copied().fold(0.0, f64::max);
        for error in &mut errors {
            let share = if most > 0.0 { *error / most } else { 0.0 };
            *error = match given.word("loss") {
                "square" => share * share,
                "exponential" => 1.0 - (-share).exp(),
                _ => share,
            };
        }
        let error: f64 = errors.iter().zip(&weights).map(|(error, weight)| error * weight).sum();
        guesses |= error >= 0.5 && round == 0;
        if error >= 0.5 && round > 0 {
            break;
        }
        let is_last = error <= 0.0 || error >= 0.5;
        let beta = error / (1.0 - error);
        push(&mut ensemble, &tree, &values)?;
        ensemble.weights.push(if is_last { 1.0 } else { -rate * beta.ln() });
        for (weight, error) in weights.iter_mut().zip(&errors) {
            *weight *= beta.powf((1.0 - error) * rate);
        }
        control.progress(round as u64 + 1, of as u64)?;
        if is_last || !normalise(&mut weights) {
            break;
        }
    }
    let model = ensemble.model();
    Ok(if guesses { model.warn(GUESSES) } else { model })
}

/// As many rows as there are, each as probable as its weight says; how often each was drawn.
fn draw(weights: &[f64], random: &mut Random, drawn: &mut Vec<f64>) -> Result<Vec<u32>, Error> {
    let rows = all_rows(weights)?;
    let mut ends = Vec::new();
    room::reserve(&mut ends, rows.len())?;
    let mut end = 0.0;
    ends.extend(rows.iter().map(|row| {
        end += weights[*row as usize];
        end
    }));
    drawn.clear();
    room::reserve(drawn, weights.len())?;
    drawn.resize(weights.len(), 0.0);
    for _ in 0..weights.len() {
        let at = random.unit() * end;
        let index = ends.partition_point(|end| *end <= at).min(rows.len() - 1);
        drawn[rows[index] as usize] += 1.0;
    }
    Ok(rows.into_iter().filter(|row| drawn[*row as usize] > 0.0).collect())
}
