//! ECOD, see [`tails`].

use super::{CONTAMINATION, above_share, scores};
use crate::Error;
use crate::families::common::ignored;
use crate::family::{Control, Family, Given, Model, Problem, Task};
use crate::forms::tails;

/// `ecod`, as PyOD's ECOD.
pub(crate) const ECOD: Family = Family {
    name: "ecod",
    task: Task::Anomaly,
    parameters: &[CONTAMINATION, ignored("n_jobs", "1")],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: false,
    fit,
    form: &tails::FORM,
};

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let mut values = Vec::new();
    room::reserve(&mut values, problem.features.len())?;
    let mut skews = Vec::with_capacity(problem.width);
    for feature in 0..problem.width {
        control.check()?;
        let first = values.len();
        values.extend(problem.features.iter().skip(feature).step_by(problem.width));
        let column: &mut [f32] = &mut values[first..];
        column.sort_unstable_by(f32::total_cmp);
        skews.push(sign_of_skewness(column));
    }
    let model = tails::model(problem.rows, values, skews, control)?;
    let scores = scores(&model, problem, control)?;
    Ok(above_share(model, scores, given.number("contamination")))
}

/// The sign of the third moment around the mean; 0 where all values are the same.
fn sign_of_skewness(values: &[f32]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().map(|value| f64::from(*value)).sum::<f64>() / count;
    let moment = |power: i32| values.iter().map(|value| (f64::from(*value) - mean).powi(power)).sum::<f64>() / count;
    // As SciPy, which takes what rounding leaves of a constant for none.
    if moment(2) <= (f64::EPSILON * mean).powi(2) || moment(3) == 0.0 { 0.0 } else { moment(3).signum() }
}
