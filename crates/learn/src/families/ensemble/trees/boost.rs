//! Gradient boosting (Friedman, 2001): each tree is grown by the derivatives of a loss at what those before it say.
//!
//! Of the first derivatives alone, and a leaf then answers what is best for its rows; or, with `newton`, of both, as
//! LightGBM and scikit-learn's histogram-based boosting grow them.

use forest::double::Link;

use super::bins::Bins;
use super::grow::{Grower, Growth, Sample, Sums, Tree};
use super::loss::{Loss, quantile};
use super::{all_rows, push};
use crate::Error;
use crate::family::{Control, Problem};
use crate::forms::trees::Ensemble;
use crate::random::Random;

/// Scores that are looked at between two looks for the end of the training.
const STEP: usize = 100_000;

/// How trees are boosted.
pub(crate) struct Boosting {
    pub(crate) loss: Loss,
    pub(crate) rate: f64,
    pub(crate) rounds: usize,
    /// The share of the rows that each round has.
    pub(crate) subsample: f64,
    pub(crate) newton: bool,
    pub(crate) early: Option<Early>,
}

/// When to stop before all rounds are done.
pub(crate) struct Early {
    /// The share of rows that are held back to measure on; 0 to measure on the rows that are trained on.
    pub(crate) share: f64,
    /// Rounds without any gain.
    pub(crate) patience: usize,
    /// What is no gain.
    pub(crate) tolerance: f64,
}

/// A training under way.
struct Run<'a> {
    problem: &'a Problem<'a>,
    boosting: &'a Boosting,
    weights: &'a [f64],
    /// Of all rows, row by row.
    scores: Vec<f64>,
    /// Where errors turn linear.
    delta: f64,
}

/// Boosts trees; `weights` are those of the rows.
pub(crate) fn boost(
    problem: &Problem<'_>,
    bins: &Bins,
    growth: Growth,
    boosting: &Boosting,
    weights: &[f64],
    random: &mut Random,
    control: &mut Control<'_>,
) -> Result<Ensemble, Error> {
    let (train, held) = hold_back(problem, boosting, weights, random)?;
    let outputs = boosting.loss.scores();
    let (labels, own): (Vec<f32>, Vec<f64>) =
        train.iter().map(|row| (problem.labels[*row as usize], weights[*row as usize])).unzip();
    let base = boosting.loss.base(&labels, &own);
    let mut scores = Vec::new();
    room::reserve(&mut scores, problem.rows.checked_mul(outputs).ok_or(Error::Memory)?)?;
    (0..problem.rows).for_each(|_| scores.extend_from_slice(&base));
    let mut run = Run { problem, boosting, weights, scores, delta: f64::INFINITY };
    let mut ensemble = Ensemble::new(problem.width, base, 1, link(boosting.loss));
    ensemble.scale = if boosting.loss == Loss::Exponential { 2.0 } else { 1.0 };
    let mut grower = Grower::new(bins, growth);
    let (mut sums, mut seconds) = (Vec::new(), Vec::new());
    room::reserve(&mut sums, problem.rows * outputs)?;
    room::reserve(&mut seconds, problem.rows * outputs)?;
    sums.resize(problem.rows * outputs, 0.0);
    seconds.resize(problem.rows * outputs, 0.0);
    let measured = if held.is_empty() { &train } else { &held };
    let mut losses = if boosting.early.is_some() { vec![run.measure(measured)] } else { Vec::new() };
    for round in 0..boosting.rounds {
        run.derive(&train, &mut sums, &mut seconds, control)?;
        let (rows, others) = run.draw(&train, random)?;
        for output in 0..outputs {
            let part = output * problem.rows..(output + 1) * problem.rows;
            let (sums, seconds) = (&sums[part.clone()], &seconds[part]);
            let sample =
                Sample { weights: if boosting.newton { seconds } else { weights }, sums: Sums::Numbers(sums, 1) };
            let tree = grower.grow(rows.clone(), sample, random, control)?;
            let values: Vec<f64> = (0..tree.leaves.len())
                .map(|leaf| boosting.rate * run.answer(&tree, leaf, sums, seconds, grower.growth().l2))
                .collect();
            run.add(&tree, &values, output, &[&others, &held], control)?;
            push(&mut ensemble, &tree, &values)?;
        }
        control.progress(round as u64 + 1, boosting.rounds as u64)?;
        if let Some(early) = &boosting.early {
            losses.push(run.measure(measured));
            let recent = losses.len().saturating_sub(early.patience);
            // None of the recent rounds is better than the one before them.
            let is_over =
                recent > 0 && losses[recent..].iter().all(|loss| *loss >= losses[recent - 1] - early.tolerance);
            if is_over {
                break;
            }
        }
    }
    Ok(ensemble)
}

fn link(loss: Loss) -> Link {
    match loss {
        Loss::Squared | Loss::Absolute | Loss::Huber(_) | Loss::Quantile(_) => Link::Identity,
        Loss::Poisson | Loss::Gamma => Link::Exp,
        Loss::Logistic | Loss::Exponential => Link::Logistic,
        Loss::Softmax(_) => Link::Softmax,
    }
}

/// The rows to train on, and those to measure on: of each class its share.
fn hold_back(
    problem: &Problem<'_>,
    boosting: &Boosting,
    weights: &[f64],
    random: &mut Random,
) -> Result<(Vec<u32>, Vec<u32>), Error> {
    let mut rows = all_rows(weights)?;
    let share = boosting.early.as_ref().map_or(0.0, |early| early.share);
    if share <= 0.0 {
        return Ok((rows, Vec::new()));
    }
    random.shuffle(&mut rows);
    let class = |row: u32| if problem.classes > 0 { problem.labels[row as usize] as usize } else { 0 };
    let mut counts = vec![0_usize; problem.classes.max(1)];
    rows.iter().for_each(|row| counts[class(*row)] += 1);
    let mut wanted: Vec<usize> = counts.iter().map(|count| (*count as f64 * share) as usize).collect();
    let (mut train, mut held) = (Vec::new(), Vec::new());
    room::reserve(&mut train, rows.len())?;
    room::reserve(&mut held, rows.len())?;
    for row in rows {
        let left = &mut wanted[class(row)];
        if *left > 0 {
            *left -= 1;
            held.push(row);
        } else {
            train.push(row);
        }
    }
    train.sort_unstable();
    held.sort_unstable();
    Ok((train, held))
}

impl Run<'_> {
    fn scores_of(&self, row: u32) -> &[f64] {
        let outputs = self.boosting.loss.scores();
        &self.scores[row as usize * outputs..(row as usize + 1) * outputs]
    }

    fn label(&self, row: u32) -> f64 {
        f64::from(self.problem.labels[row as usize])
    }

    fn error(&self, row: u32) -> f64 {
        self.label(row) - self.scores_of(row)[0]
    }

    /// The mean loss of these rows.
    fn measure(&self, rows: &[u32]) -> f64 {
        let (mut sum, mut total) = (0.0, 0.0);
        for row in rows {
            let weight = self.weights[*row as usize];
            sum += weight * self.boosting.loss.of(self.scores_of(*row), self.label(*row), self.delta);
            total += weight;
        }
        sum / total.max(f64::MIN_POSITIVE)
    }

    /// The derivatives of all rows, times their weights, output by output.
    fn derive(
        &mut self,
        rows: &[u32],
        sums: &mut [f64],
        seconds: &mut [f64],
        control: &mut Control<'_>,
    ) -> Result<(), Error> {
        if let Loss::Huber(share) = self.boosting.loss {
            let mut errors: Vec<(f64, f64)> =
                rows.iter().map(|row| (self.error(*row).abs(), self.weights[*row as usize])).collect();
            self.delta = quantile(&mut errors, share);
        }
        // With many classes a row takes as long as many.
        let step = (STEP / self.boosting.loss.scores()).max(1);
        for rows in rows.chunks(step) {
            control.check()?;
            for row in rows {
                let weight = self.weights[*row as usize];
                self.boosting.loss.derivatives(
                    self.scores_of(*row),
                    self.label(*row),
                    self.delta,
                    |output, first, second| {
                        let at = output * self.problem.rows + *row as usize;
                        sums[at] = weight * first;
                        seconds[at] = weight * second;
                    },
                );
            }
        }
        Ok(())
    }

    /// The rows of a round, and the others.
    fn draw(&self, train: &[u32], random: &mut Random) -> Result<(Vec<u32>, Vec<u32>), Error> {
        let mut rows = Vec::new();
        room::reserve(&mut rows, train.len())?;
        rows.extend_from_slice(train);
        let size = ((self.boosting.subsample * train.len() as f64) as usize).max(1);
        let mut others = Vec::new();
        if size < rows.len() {
            random.shuffle(&mut rows);
            others = rows.split_off(size);
            rows.sort_unstable();
        }
        Ok((rows, others))
    }

    /// What a leaf says.
    fn answer(&self, tree: &Tree, leaf: usize, sums: &[f64], seconds: &[f64], l2: f64) -> f64 {
        let rows = tree.rows_of(leaf);
        let loss = self.boosting.loss;
        if matches!(loss, Loss::Absolute | Loss::Quantile(_) | Loss::Huber(_)) {
            let mut errors: Vec<(f64, f64)> =
                rows.iter().map(|row| (self.error(*row), self.weights[*row as usize])).collect();
            if let Some(answer) = loss.answer(&mut errors, self.delta) {
                return answer;
            }
        }
        let (mut first, mut second) = (0.0, l2);
        for row in rows {
            first += sums[*row as usize];
            second += seconds[*row as usize];
        }
        // Friedman's step for many classes, which share what they gain.
        let factor = match loss {
            Loss::Softmax(classes) if !self.boosting.newton => (classes as f64 - 1.0) / classes as f64,
            _ => 1.0,
        };
        if second.abs() < 1e-150 { 0.0 } else { factor * first / second }
    }

    /// Adds a tree's values to the scores of the rows that it has grown from, and of others.
    fn add(
        &mut self,
        tree: &Tree,
        values: &[f64],
        output: usize,
        others: &[&[u32]],
        control: &mut Control<'_>,
    ) -> Result<(), Error> {
        let outputs = self.boosting.loss.scores();
        for (leaf, value) in values.iter().enumerate() {
            for row in tree.rows_of(leaf) {
                self.scores[*row as usize * outputs + output] += value;
            }
        }
        for (number, row) in others.iter().copied().flatten().enumerate() {
            let leaf = tree.leaf_of(self.problem.row(*row as usize));
            self.scores[*row as usize * outputs + output] += values[leaf];
            if number % 100_000 == 0 {
                control.check()?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::families::testing::classification;

    #[test]
    fn many_classes_are_looked_at_with_an_ear_for_the_end() {
        let (rows, classes) = (3000, 400);
        let labels: Vec<f32> = (0..rows).map(|row| (row % classes) as f32).collect();
        let problem = classification(&labels, 1, &labels);
        let boosting =
            Boosting { loss: Loss::Softmax(classes), rate: 0.1, rounds: 1, subsample: 1.0, newton: false, early: None };
        let weights = vec![1.0; rows];
        let mut run = Run {
            problem: &problem,
            boosting: &boosting,
            weights: &weights,
            scores: vec![0.0; rows * classes],
            delta: f64::INFINITY,
        };
        let all: Vec<u32> = (0..rows as u32).collect();
        let (mut sums, mut seconds) = (vec![0.0; rows * classes], vec![0.0; rows * classes]);
        let mut checks = 0;
        let mut ask = |_| {
            checks += 1;
            Ok(())
        };
        run.derive(&all, &mut sums, &mut seconds, &mut Control::new(&mut ask)).unwrap();
        assert!(checks >= rows * classes / STEP, "{checks}");
        let share = 1.0 / classes as f64;
        // Output by output: the first row is of class 0, the second of class 1.
        assert!((sums[0] - (1.0 - share)).abs() < 1e-12 && (sums[rows] + share).abs() < 1e-12);
        assert!((sums[rows + 1] - (1.0 - share)).abs() < 1e-12);
    }
}
