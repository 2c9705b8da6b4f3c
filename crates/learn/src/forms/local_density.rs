//! How much less dense the training rows are around a row than around its nearest neighbours among them (LOF: Breunig, Kriegel,
//! Ng and Sander, "LOF: identifying density-based local outliers", 2000).

use serde_json::Value;

use super::neighbours::{self, Neighbours};
use crate::Error;
use crate::family::{Array, Control, Form, Meaning, Model, Predict, Stored};

/// Stored as part 0, the training rows as [`neighbours`] stores them, its `settings`, and by the rows' places there `reaches`
/// (the distance to the last of the neighbours of each) and `densities`.
pub(crate) const FORM: Form = Form { name: "local_density", open };

/// Rows whose neighbours are searched between two looks for the end of a training.
const AT_ONCE: usize = 128;

/// What is added to a mean distance before it divides, as scikit-learn does.
const LEAST: f64 = 1e-10;

/// A model, and the factors of the training rows themselves, each without itself among its neighbours. `rows` are of
/// [`neighbours::model`] with one neighbour more.
pub(crate) fn model(rows: Model, features: &[f32], control: &mut Control<'_>) -> Result<(Model, Vec<f64>), Error> {
    let opened = neighbours::open_rows(&super::stored_of(&rows)?)?;
    let width = opened.width();
    let count = features.len() / width;
    // Of each row so many, one row after another.
    let each = opened.most() - 1;
    let (mut distances, mut others) = (Vec::new(), Vec::new());
    room::reserve(&mut distances, count.saturating_mul(each))?;
    room::reserve(&mut others, count.saturating_mul(each))?;
    for (first, some) in features.chunks(AT_ONCE * width).enumerate() {
        control.check()?;
        opened.find(some, |row, nearest| {
            let mut nearest: Vec<(f64, usize)> = nearest.collect();
            let own = nearest.iter().position(|(_, other)| *other == first * AT_ONCE + row);
            // Where it is not among them, all are as near.
            nearest.remove(own.unwrap_or(0));
            distances.extend(nearest.iter().map(|(distance, _)| *distance));
            others.extend(nearest.iter().map(|(_, other)| *other as u32));
        });
    }
    let (mut reaches, mut densities, mut factors) = (Vec::new(), Vec::new(), Vec::new());
    for numbers in [&mut reaches, &mut densities, &mut factors] {
        room::reserve(numbers, count)?;
    }
    reaches.extend(distances.chunks_exact(each).map(|nearest| nearest[each - 1]));
    for (nearest, others) in distances.chunks(AT_ONCE * each).zip(others.chunks(AT_ONCE * each)) {
        control.check()?;
        let nearest = nearest.chunks_exact(each).zip(others.chunks_exact(each));
        densities.extend(nearest.map(|(nearest, others)| density(nearest, others, &reaches)));
    }
    for (some, own) in others.chunks(AT_ONCE * each).zip(densities.chunks(AT_ONCE)) {
        control.check()?;
        factors.extend(some.chunks_exact(each).zip(own).map(|(others, own)| factor(others, *own, &densities)));
    }
    let settings = rows.settings().clone();
    let model = Model::new(&FORM).set("settings", Value::Object(settings)).with_part(0, rows);
    Ok((model.with("reaches", reaches).with("densities", densities), factors))
}

/// One over the mean distance to these neighbours, each at least as far as it is from its own last one.
fn density(distances: &[f64], nearest: &[u32], reaches: &[f64]) -> f64 {
    let sum: f64 = distances.iter().zip(nearest).map(|(distance, row)| distance.max(reaches[*row as usize])).sum();
    1.0 / (sum / nearest.len() as f64 + LEAST)
}

fn factor(nearest: &[u32], own: f64, densities: &[f64]) -> f64 {
    nearest.iter().map(|row| densities[*row as usize] / own).sum::<f64>() / nearest.len() as f64
}

struct LocalDensity {
    rows: Neighbours,
    reaches: Array<f64>,
    densities: Array<f64>,
}

fn open(stored: &Stored) -> Result<Box<dyn Predict>, Error> {
    let settings = stored.setting("settings")?.as_object();
    let settings = settings.ok_or_else(|| Error::Model("its rows have no settings".into()))?;
    let rows = neighbours::open_rows(&stored.part(0, neighbours::FORM.name, settings.clone()))?;
    let count = rows.rows();
    if rows.most() < 2 {
        return Err(Error::Model("it has no neighbours".into()));
    }
    Ok(Box::new(LocalDensity {
        rows,
        reaches: stored.array_of("reaches", count)?,
        densities: stored.array_of("densities", count)?,
    }))
}

impl Predict for LocalDensity {
    fn width(&self) -> usize {
        self.rows.width()
    }

    fn values(&self) -> usize {
        1
    }

    fn meaning(&self) -> Meaning {
        Meaning::Values
    }

    fn predict(&self, row: &[f32], values: &mut [f32]) {
        self.predict_rows(row, values);
    }

    fn predict_rows(&self, rows: &[f32], values: &mut [f32]) {
        self.rows.find(rows, |row, nearest| {
            // The last is there for the training rows, which find themselves.
            let nearest = nearest.take(self.rows.most() - 1).map(|(distance, row)| (distance, row as u32));
            let (distances, nearest): (Vec<f64>, Vec<u32>) = nearest.unzip();
            let own = density(&distances, &nearest, &self.reaches);
            values[row] = factor(&nearest, own, &self.densities) as f32;
        });
    }

    fn work(&self) -> usize {
        self.rows.work()
    }
}
