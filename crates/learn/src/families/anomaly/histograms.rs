//! HBOS, see [`histograms`].

use super::{CONTAMINATION, above_share, scores};
use crate::Error;
use crate::families::common::takes;
use crate::family::{Control, Family, Given, Kind, Model, Problem, Task};
use crate::forms::histograms::{self, Bins};

/// `hbos`, as PyOD's HBOS.
pub(crate) const HBOS: Family = Family {
    name: "hbos",
    task: Task::Anomaly,
    parameters: &[
        takes("n_bins", Kind::Integer(2, 100_000), "10", "The number of bins of a feature."),
        takes("alpha", Kind::Number(0.0, 1.0), "0.1", "What is added to the densities, so that none is 0."),
        takes(
            "tol",
            Kind::Number(0.0, 1.0),
            "0.5",
            "How far outside of the bins a value may be to be of the outermost one, in widths of a bin.",
        ),
        CONTAMINATION,
    ],
    joint: false,
    takes_categories: false,
    takes_missing: false,
    takes_weights: false,
    fit,
    form: &histograms::FORM,
};

fn fit(problem: &Problem<'_>, given: &Given, control: &mut Control<'_>) -> Result<Model, Error> {
    let (count, alpha) = (given.count("n_bins"), given.number("alpha"));
    let mut bins = Bins { count, edges: Vec::new(), scores: Vec::new(), tol: given.number("tol") };
    room::reserve(&mut bins.edges, problem.width.saturating_mul(count + 1))?;
    room::reserve(&mut bins.scores, problem.width.saturating_mul(count))?;
    let mut means = Vec::with_capacity(problem.width);
    for feature in 0..problem.width {
        control.check()?;
        let values = || problem.features.iter().skip(feature).step_by(problem.width);
        let (edges, densities) = histogram(values(), count);
        // A bin without rows and without alpha is as unlikely as can be told.
        bins.scores.extend(densities.iter().map(|density| -(density + alpha).max(f64::MIN_POSITIVE).log2()));
        bins.edges.extend(edges);
        means.push(values().map(|value| bins.score(feature, *value)).sum::<f64>() / problem.rows as f64);
    }
    let model = histograms::model(bins, means);
    let scores = scores(&model, problem, control)?;
    Ok(above_share(model, scores, given.number("contamination")))
}

/// The edges of bins of one width and the share of the values in each per width, as NumPy's `histogram`.
fn histogram<'a>(values: impl Iterator<Item = &'a f32> + Clone, count: usize) -> (Vec<f64>, Vec<f64>) {
    let values = values.map(|value| f64::from(*value));
    let (mut least, mut most) = (f64::INFINITY, f64::NEG_INFINITY);
    for value in values.clone() {
        (least, most) = (least.min(value), most.max(value));
    }
    if least == most {
        (least, most) = (least - 0.5, most + 0.5);
    }
    let width = (most - least) / count as f64;
    let mut edges: Vec<f64> = (0..=count).map(|edge| least + width * edge as f64).collect();
    edges[count] = most;
    let (mut rows, mut all) = (vec![0.0; count], 0.0);
    for value in values {
        let bin = edges.partition_point(|edge| *edge <= value).clamp(1, count) - 1;
        rows[bin] += 1.0;
        all += 1.0;
    }
    let widths = edges.windows(2).map(|pair| pair[1] - pair[0]);
    let densities = rows.iter().zip(widths).map(|(rows, width)| if width > 0.0 { rows / (all * width) } else { 0.0 });
    (edges.clone(), densities.collect())
}
