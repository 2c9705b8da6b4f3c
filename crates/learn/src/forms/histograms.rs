//! How few training rows have a value like each feature of a row, by histograms (HBOS: Goldstein and Dengel,
//! "Histogram-based outlier score", 2012).

use crate::Error;
use crate::family::{Array, Form, Meaning, Model, Predict, Stored};

/// Stored as `edges` (of the bins, feature by feature, in ascending order), `scores` (of the bins), `means` (of the scores of
/// the training rows, one for each feature) and the settings `width`, `bins` and `tol`.
pub(crate) const FORM: Form = Form { name: "histograms", open };

/// The bins of all features.
pub(crate) struct Bins {
    pub(crate) count: usize,
    pub(crate) edges: Vec<f64>,
    pub(crate) scores: Vec<f64>,
    /// A value that is further outside of the bins than this share of a bin's width is not of the outermost bin.
    pub(crate) tol: f64,
}

impl Bins {
    /// The score of a value of this feature.
    pub(crate) fn score(&self, feature: usize, value: f32) -> f64 {
        let edges = &self.edges[feature * (self.count + 1)..(feature + 1) * (self.count + 1)];
        of_feature(edges, &self.scores[feature * self.count..(feature + 1) * self.count], self.tol, value)
    }
}

/// A model of these bins; `means` are those of the training rows' scores.
pub(crate) fn model(bins: Bins, means: Vec<f64>) -> Model {
    Model::new(&FORM)
        .set("width", means.len())
        .set("bins", bins.count)
        .set("tol", bins.tol)
        .with("edges", bins.edges)
        .with("scores", bins.scores)
        .with("means", means)
}

/// The score of the bin of a value; of one that is far outside, the largest of all bins.
fn of_feature(edges: &[f64], scores: &[f64], tol: f64, value: f32) -> f64 {
    let (value, bins) = (f64::from(value), scores.len());
    let far = || scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    match edges.partition_point(|edge| *edge < value) {
        0 if edges[0] - value <= (edges[1] - edges[0]) * tol => scores[0],
        above if above > bins && value - edges[bins] <= (edges[bins] - edges[bins - 1]) * tol => scores[bins - 1],
        bin if (1..=bins).contains(&bin) => scores[bin - 1],
        _ => far(),
    }
}

struct Histograms {
    bins: usize,
    tol: f64,
    edges: Array<f64>,
    scores: Array<f64>,
    means: Array<f64>,
}

fn open(stored: &Stored) -> Result<Box<dyn Predict>, Error> {
    let (width, bins) = (stored.count("width")?, stored.count("bins")?);
    let too_large = || Error::Model("it has no bins, or too many".into());
    let scores = width.checked_mul(bins).filter(|length| *length > 0).ok_or_else(too_large)?;
    let edges = scores.checked_add(width).ok_or_else(too_large)?;
    Ok(Box::new(Histograms {
        bins,
        tol: stored.number("tol")?,
        edges: stored.array_of("edges", edges)?,
        scores: stored.array_of("scores", scores)?,
        means: stored.array_of("means", width)?,
    }))
}

impl Histograms {
    fn scores(&self, row: &[f32]) -> impl Iterator<Item = f64> {
        let features = self.edges.chunks_exact(self.bins + 1).zip(self.scores.chunks_exact(self.bins));
        features.zip(row.to_vec()).map(|((edges, scores), value)| of_feature(edges, scores, self.tol, value))
    }
}

impl Predict for Histograms {
    fn width(&self) -> usize {
        self.means.len()
    }

    fn values(&self) -> usize {
        1
    }

    fn meaning(&self) -> Meaning {
        Meaning::Values
    }

    fn predict(&self, row: &[f32], values: &mut [f32]) {
        values[0] = self.scores(row).sum::<f64>() as f32;
    }

    fn contributions(&self, row: &[f32], contributions: &mut [f32]) -> bool {
        super::put_contributions(self.scores(row), &self.means, contributions);
        true
    }
}
