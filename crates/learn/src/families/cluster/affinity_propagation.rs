//! Affinity propagation (Frey and Dueck, 2007): rows tell each other how well one would stand for the other, and how
//! much others want it to, until it is clear which rows stand for all. A row belongs to the nearest of those.

use faer::Mat;

use crate::Error;
use crate::families::cluster::common::{self, RANDOM_STATE};
use crate::family::{Control, Family, Given, Kind, Model, Parameter, Problem, Task, large_zeros};
use crate::forms::centroids;
use crate::numerics::distance::squared;
use crate::numerics::helper_thread::on_helper_thread;
use crate::random::Random;

/// Rows of which there is room for what all tell each other: 2.4 GB.
const MOST: usize = 10_000;

/// `affinity_propagation`, as scikit-learn's AffinityPropagation.
pub(crate) const AFFINITY_PROPAGATION: Family = Family {
    name: "affinity_propagation",
    task: Task::Clustering,
    parameters: &[
        Parameter {
            name: "damping",
            kind: Kind::Number(0.5, 0.9999999),
            default: "0.5",
            about: "The damping factor: the share of the previous messages that is kept, against oscillation.",
        },
        Parameter {
            name: "max_iter",
            kind: Kind::Integer(1, i32::MAX as i64),
            default: "200",
            about: "The maximum number of iterations.",
        },
        Parameter {
            name: "convergence_iter",
            kind: Kind::Integer(1, i32::MAX as i64),
            default: "15",
            about: "The training ends when the exemplars have stayed the same for this number of iterations.",
        },
        Parameter {
            name: "preference",
            kind: Kind::OrNull(&Kind::Number(f64::NEG_INFINITY, f64::INFINITY)),
            default: "null",
            about: "The preference of each row to be an exemplar, compared with negative squared distances: a larger value gives more clusters; null for the median of those.",
        },
        Parameter {
            name: "affinity",
            kind: Kind::Choice(&["euclidean"]),
            default: "\"euclidean\"",
            about: "The similarity of two rows: their negative squared distance.",
        },
        Parameter { name: "copy", kind: Kind::Ignored, default: "true", about: "No effect." },
        Parameter { name: "verbose", kind: Kind::Ignored, default: "false", about: "No effect." },
        RANDOM_STATE,
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: false,
    fit,
    form: &centroids::FORM,
};

/// What rows tell each other. Column `to` has what all rows say of it.
struct Messages {
    similar: Mat<f64>,
    responsible: Mat<f64>,
    available: Mat<f64>,
}

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    common::unweighted(problem, "affinity_propagation")?;
    problem.at_most("affinity_propagation", MOST)?;
    control.check()?;
    if (1..problem.rows).all(|row| problem.row(row) == problem.row(0)) {
        return Ok(model_of(problem, &[0]));
    }
    let similar = similarities(problem, given, control)?;
    let (rows, width) = (problem.rows, problem.width);
    let (responsible, available) = (large_zeros(rows, rows, control)?, large_zeros(rows, rows, control)?);
    let mut messages = Messages { similar, responsible, available };
    let (damping, patience) = (given.number("damping"), given.count("convergence_iter"));
    let most = given.count("max_iter");
    let (mut before, mut same, mut settled) = (Vec::new(), 0, false);
    for iteration in 0..most {
        control.progress(iteration as u64, most as u64)?;
        messages.tell_responsibility(damping, control)?;
        messages.tell_availability(damping, control)?;
        let now = messages.exemplars();
        same = if now == before { same + 1 } else { 1 };
        before = now;
        settled = same >= patience && iteration >= patience;
        if settled && !before.is_empty() {
            break;
        }
    }
    if before.is_empty() {
        let nobody = centroids::labelled(Vec::new(), Vec::new(), width, None);
        return Ok(nobody.warn("no exemplars were found: raise damping, max_iter or preference"));
    }
    let model = model_of(problem, &refined(&messages.similar, &before, control)?);
    Ok(if settled { model } else { model.warn("the exemplars may not be the best ones: raise damping or max_iter") })
}

fn model_of(problem: &Problem<'_>, exemplars: &[usize]) -> Model {
    let centres = exemplars.iter().flat_map(|row| problem.row(*row)).map(|value| f64::from(*value)).collect();
    centroids::model(centres, problem.width)
}

/// Squared distances below 0, and the preference for rows themselves.
fn similarities(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Mat<f64>, Error> {
    let mut similar = large_zeros(problem.rows, problem.rows, control)?;
    let mut all = Vec::new();
    room::reserve(&mut all, problem.rows * problem.rows)?;
    for to in 0..problem.rows {
        control.check()?;
        for (from, value) in similar.col_as_slice_mut(to).iter_mut().enumerate() {
            *value = -squared(problem.row(from), problem.row(to));
            all.push(*value);
        }
    }
    let preference = match given.maybe_number("preference") {
        Some(preference) => preference,
        None => on_helper_thread(all.len() as f64, control, move || median(&mut all))?,
    };
    let mut random = common::random(problem, given);
    for to in 0..problem.rows {
        control.check()?;
        similar[(to, to)] = preference;
        blur(similar.col_as_slice_mut(to), &mut random);
    }
    Ok(similar)
}

/// A difference in the last digits, so that nobody waits for ever between two that are equal.
fn blur(values: &mut [f64], random: &mut Random) {
    for value in values {
        *value += (f64::EPSILON * *value + f64::MIN_POSITIVE * 100.0) * random.normal();
    }
}

fn median(values: &mut [f64]) -> f64 {
    let middle = values.len() / 2;
    let even = values.len().is_multiple_of(2);
    let (lower, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    match even {
        true => (lower.iter().copied().fold(f64::NEG_INFINITY, f64::max) + upper) / 2.0,
        false => upper,
    }
}

impl Messages {
    /// How much better each row would stand for another than all the others would.
    fn tell_responsibility(&mut self, damping: f64, control: &mut Control<'_>) -> Result<(), Error> {
        let rows = self.similar.nrows();
        let mut best = vec![(0usize, f64::NEG_INFINITY); rows];
        let mut second = vec![f64::NEG_INFINITY; rows];
        for to in 0..rows {
            control.check()?;
            let both = self.available.col_as_slice(to).iter().zip(self.similar.col_as_slice(to));
            for ((sum, best), second) in both.map(|(a, b)| a + b).zip(&mut best).zip(&mut second) {
                if sum > best.1 {
                    *second = best.1;
                    *best = (to, sum);
                } else {
                    *second = second.max(sum);
                }
            }
        }
        for to in 0..rows {
            control.check()?;
            let similar = self.similar.col_as_slice(to);
            for (from, value) in self.responsible.col_as_slice_mut(to).iter_mut().enumerate() {
                let other = if best[from].0 == to { second[from] } else { best[from].1 };
                let other = if other.is_finite() { other } else { 0.0 };
                *value = damping * *value + (1.0 - damping) * (similar[from] - other);
            }
        }
        Ok(())
    }

    /// How much others want a row to stand for them.
    fn tell_availability(&mut self, damping: f64, control: &mut Control<'_>) -> Result<(), Error> {
        for to in 0..self.similar.nrows() {
            control.check()?;
            let responsible = self.responsible.col_as_slice(to);
            let itself = responsible[to];
            let wanted: f64 = responsible.iter().map(|value| value.max(0.0)).sum::<f64>() - itself.max(0.0);
            for (from, value) in self.available.col_as_slice_mut(to).iter_mut().enumerate() {
                let now = match from == to {
                    true => wanted,
                    false => (itself + wanted - responsible[from].max(0.0)).min(0.0),
                };
                *value = damping * *value + (1.0 - damping) * now;
            }
        }
        Ok(())
    }

    /// The rows that stand for others.
    fn exemplars(&self) -> Vec<usize> {
        (0..self.similar.nrows())
            .filter(|row| self.available[(*row, *row)] + self.responsible[(*row, *row)] > 0.0)
            .collect()
    }
}

/// For the rows that belong to each, the one that all of them together are most alike to.
fn refined(similar: &Mat<f64>, exemplars: &[usize], control: &mut Control<'_>) -> Result<Vec<usize>, Error> {
    let mut members: Vec<Vec<usize>> = vec![Vec::new(); exemplars.len()];
    for row in 0..similar.nrows() {
        control.check()?;
        let mut best = 0;
        for (index, exemplar) in exemplars.iter().enumerate() {
            if similar[(row, *exemplar)] > similar[(row, exemplars[best])] {
                best = index;
            }
        }
        let own = exemplars.iter().position(|exemplar| *exemplar == row);
        members[own.unwrap_or(best)].push(row);
    }
    let mut refined = Vec::with_capacity(exemplars.len());
    for of_one in &members {
        let mut best = (f64::NEG_INFINITY, of_one[0]);
        for candidate in of_one {
            control.check()?;
            let sum: f64 = of_one.iter().map(|row| similar[(*row, *candidate)]).sum();
            if sum > best.0 {
                best = (sum, *candidate);
            }
        }
        refined.push(best.1);
    }
    refined.sort_unstable();
    Ok(refined)
}
