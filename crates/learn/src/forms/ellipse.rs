//! How far a row is from the middle of the training rows, in the units of their covariance (Mahalanobis' squared distance).

use crate::Error;
use crate::family::{Array, Form, Meaning, Model, Predict, Stored};

/// Stored as `location` and `precision` (row by row, the inverse of the covariance), and the setting `width`.
pub(crate) const FORM: Form = Form { name: "ellipse", open };

/// A model of this middle and this inverse of the covariance.
pub(crate) fn model(location: Vec<f64>, precision: Vec<f64>) -> Model {
    Model::new(&FORM).set("width", location.len()).with("location", location).with("precision", precision)
}

/// The squared distance of a row.
pub(crate) fn distance(location: &[f64], precision: &[f64], row: &[f32]) -> f64 {
    let gaps: Vec<f64> = row.iter().zip(location).map(|(value, middle)| f64::from(*value) - middle).collect();
    let products = precision.chunks_exact(location.len().max(1)).zip(&gaps);
    products.map(|(line, gap)| gap * line.iter().zip(&gaps).map(|(a, b)| a * b).sum::<f64>()).sum()
}

struct Ellipse {
    location: Array<f64>,
    precision: Array<f64>,
}

fn open(stored: &Stored) -> Result<Box<dyn Predict>, Error> {
    let width = stored.count("width")?;
    let square = width.checked_mul(width).ok_or_else(|| Error::Model("it has too many features".into()))?;
    Ok(Box::new(Ellipse {
        location: stored.array_of("location", width)?,
        precision: stored.array_of("precision", square)?,
    }))
}

impl Predict for Ellipse {
    fn width(&self) -> usize {
        self.location.len()
    }

    fn values(&self) -> usize {
        1
    }

    fn meaning(&self) -> Meaning {
        Meaning::Values
    }

    fn predict(&self, row: &[f32], values: &mut [f32]) {
        values[0] = distance(&self.location, &self.precision, row) as f32;
    }

    fn work(&self) -> usize {
        self.width() * self.width()
    }
}
