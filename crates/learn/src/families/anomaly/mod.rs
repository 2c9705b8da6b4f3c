//! Which rows are unlike the others: families whose prediction is by how much the score of a row is above a threshold, so that
//! those above 0 are outliers. The one-class SVM is in [`crate::families::svm`].

pub(crate) mod histograms;
pub(crate) mod isolation_forest;
pub(crate) mod local_outlier_factor;
pub(crate) mod robust_covariance;
pub(crate) mod tails;
#[cfg(test)]
mod tests;

use crate::Error;
use crate::families::common::takes;
use crate::family::{Control, Given, Kind, Model, Parameter, Problem};
use crate::forms::{open_new, threshold};

const SHARE: Kind = Kind::Above(0.0, 0.5);

/// `contamination`, as PyOD has it.
pub(crate) const CONTAMINATION: Parameter = takes(
    "contamination",
    SHARE,
    "0.1",
    "The share of the training rows that are outliers, which the threshold follows from.",
);

/// `contamination` of algorithms that know a threshold of their own.
pub(crate) const CONTAMINATION_OR_AUTO: Parameter = takes(
    "contamination",
    Kind::Any(&[Kind::Choice(&["auto"]), SHARE]),
    "\"auto\"",
    "The share of the training rows that are outliers, which the threshold follows from; \"auto\" for the one of the paper.",
);

/// Operations between two looks for the end of a training.
const WORK: usize = 1 << 20;

/// Rows of so many operations each that are looked at before the next look for the end of a training.
fn at_once(work: usize) -> usize {
    (WORK / work.max(1)).clamp(1, 4096)
}

/// The scores of the training rows by a model.
fn scores(model: &Model, problem: &Problem<'_>, control: &mut Control<'_>) -> Result<Vec<f64>, Error> {
    let opened = open_new(model)?;
    let mut scores = Vec::new();
    room::reserve(&mut scores, problem.rows)?;
    let rows = at_once(opened.work());
    let mut values = vec![0.0f32; rows];
    for some in problem.features.chunks(rows * problem.width) {
        control.check()?;
        let values = &mut values[..some.len() / problem.width];
        opened.predict_rows(some, values);
        scores.extend(values.iter().copied().map(f64::from));
    }
    Ok(scores)
}

/// The model with the threshold that `contamination` says, by the scores of the training rows.
fn above_share(score: Model, mut scores: Vec<f64>, contamination: f64) -> Model {
    scores.sort_by(f64::total_cmp);
    let threshold = percentile(&scores, 1.0 - contamination);
    threshold::model(score, threshold)
}

/// The model with its own threshold, or with that of `contamination`.
fn above(
    score: Model,
    given: &Given,
    own: f64,
    scores: impl FnOnce(&Model) -> Result<Vec<f64>, Error>,
) -> Result<Model, Error> {
    match given.maybe_number("contamination") {
        None => Ok(threshold::model(score, own)),
        Some(share) => {
            let scores = scores(&score)?;
            Ok(above_share(score, scores, share))
        }
    }
}

/// A percentile of sorted numbers, between two of them in proportion, as NumPy's.
fn percentile(sorted: &[f64], share: f64) -> f64 {
    let at = share * (sorted.len().saturating_sub(1)) as f64;
    let (below, part) = (at.floor() as usize, at.fract());
    let value = |index: usize| sorted.get(index).copied().unwrap_or(0.0);
    let next = value((below + 1).min(sorted.len().saturating_sub(1)));
    value(below) + part * (next - value(below))
}
