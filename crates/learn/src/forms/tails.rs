//! How far out each feature of a row is, by the share of the training rows that are further out (ECOD: Li, Zhao, Hu, Botta,
//! Ionescu and Chen, "Unsupervised outlier detection using empirical cumulative distribution functions", 2022).

use crate::Error;
use crate::family::{Array, Control, Form, Meaning, Model, Predict, Stored};

/// Stored as `values` (the training rows, feature by feature, each in ascending order), `skews` (the sign of the skewness of
/// each feature), `means` (of the scores of each feature) and the settings `rows` and `width`.
pub(crate) const FORM: Form = Form { name: "tails", open };

/// Values whose scores are summed up between two looks for the end of a training.
const AT_ONCE: usize = 4096;

/// A model of these features, each in ascending order, and the signs of their skewness; the means are filled in.
pub(crate) fn model(rows: usize, values: Vec<f32>, skews: Vec<f64>, control: &mut Control<'_>) -> Result<Model, Error> {
    let width = skews.len();
    let mut means = Vec::with_capacity(width);
    for (sorted, skew) in values.chunks_exact(rows.max(1)).zip(&skews) {
        let mut sum = 0.0;
        for some in sorted.chunks(AT_ONCE) {
            control.check()?;
            some.iter().for_each(|value| sum += of_feature(sorted, *skew, *value));
        }
        means.push(sum / rows as f64);
    }
    Ok(Model::new(&FORM)
        .set("rows", rows)
        .set("width", width)
        .with("values", values)
        .with("skews", skews)
        .with("means", means))
}

/// The score of a value among those of the training rows. Beyond all of them it is as far out as the last.
fn of_feature(sorted: &[f32], skew: f64, value: f32) -> f64 {
    let rows = sorted.len() as f64;
    let share = |count: usize| -(count.max(1) as f64 / rows).ln();
    let left = share(sorted.partition_point(|other| *other <= value));
    let right = share(sorted.len() - sorted.partition_point(|other| *other < value));
    let by_skew = (if skew < 1.0 { left } else { 0.0 }) + (if skew > -1.0 { right } else { 0.0 });
    left.max(right).max(by_skew)
}

struct Tails {
    rows: usize,
    values: Array<f32>,
    skews: Array<f64>,
    means: Array<f64>,
}

fn open(stored: &Stored) -> Result<Box<dyn Predict>, Error> {
    let (rows, width) = (stored.count("rows")?, stored.count("width")?);
    let length = rows.checked_mul(width).filter(|length| *length > 0);
    let length = length.ok_or_else(|| Error::Model("it has no rows, or too many".into()))?;
    Ok(Box::new(Tails {
        rows,
        values: stored.array_of("values", length)?,
        skews: stored.array_of("skews", width)?,
        means: stored.array_of("means", width)?,
    }))
}

impl Tails {
    fn scores(&self, row: &[f32]) -> impl Iterator<Item = f64> {
        let features = self.values.chunks_exact(self.rows).zip(self.skews.iter());
        features.zip(row.to_vec()).map(|((sorted, skew), value)| of_feature(sorted, *skew, value))
    }
}

impl Predict for Tails {
    fn width(&self) -> usize {
        self.skews.len()
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

    fn work(&self) -> usize {
        self.width() * 2 * (self.rows.ilog2() as usize + 1)
    }
}
