//! A mixture of normal distributions: a row belongs to the one that most probably made it.

use crate::Error;
use crate::family::{Array, Form, Meaning, Model, Predict, Stored, Weights, WeightsOf};

/// Stored as `means` (distribution by distribution, `width` numbers each), `scales` and `offsets` (one number each), and
/// the setting `width`. The logarithm of a density and its weight is the offset less half the squared length of the
/// scaled difference from the mean. The `scales` of a distribution are `width` factors, or the lower triangle of a
/// matrix, row by row.
pub(crate) const FORM: Form = Form { name: "mixture", open };

/// A model of these distributions.
pub(crate) fn model(parts: &Parts) -> Model {
    Model::new(&FORM)
        .set("width", parts.width)
        .with("means", parts.means.clone())
        .with("scales", parts.scales.clone())
        .with("offsets", parts.offsets.clone())
}

/// Distributions, as the form stores them.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) width: usize,
    pub(crate) means: Vec<f64>,
    pub(crate) scales: Vec<f64>,
    pub(crate) offsets: Vec<f64>,
}

/// The number of elements of a triangular matrix of `width` rows.
pub(crate) fn triangle(width: usize) -> usize {
    width * (width + 1) / 2
}

/// The logarithm of the density of a row, and of the distribution's weight.
pub(crate) fn log_density<T: Copy + Into<f64>>(row: &[T], mean: &[f64], scales: &[f64], offset: f64) -> f64 {
    let width = mean.len();
    let gap = |feature: usize| -> f64 { row[feature].into() - mean[feature] };
    let squares: f64 = match scales.len() == width && width > 1 {
        true => (0..width).map(|feature| (gap(feature) * scales[feature]).powi(2)).sum(),
        false => {
            let mut squares = 0.0;
            for feature in 0..width {
                let factors = &scales[triangle(feature)..triangle(feature + 1)];
                let sum: f64 = factors.iter().enumerate().map(|(other, factor)| factor * gap(other)).sum();
                squares += sum * sum;
            }
            squares
        }
    };
    offset - squares / 2.0
}

struct Mixture {
    width: usize,
    means: Array<f64>,
    scales: Array<f64>,
    offsets: Array<f64>,
}

fn open(stored: &Stored) -> Result<Box<dyn Predict>, Error> {
    let too_large = || Error::Model("it is too large".into());
    let width = stored.count("width")?;
    let offsets: Array<f64> = stored.array("offsets")?;
    let scales: Array<f64> = stored.array("scales")?;
    let means = stored.array_of("means", offsets.len().checked_mul(width).ok_or_else(too_large)?)?;
    let full = width.checked_add(1).and_then(|more| more.checked_mul(width)).ok_or_else(too_large)? / 2;
    let fits = |each: usize| offsets.len().checked_mul(each) == Some(scales.len());
    match !offsets.is_empty() && (fits(width) || fits(full)) {
        true => Ok(Box::new(Mixture { width, means, scales, offsets })),
        false => Err(Error::Model("its scales and offsets do not go together".into())),
    }
}

impl Predict for Mixture {
    fn width(&self) -> usize {
        self.width
    }

    fn values(&self) -> usize {
        1
    }

    fn meaning(&self) -> Meaning {
        Meaning::Cluster
    }

    fn predict(&self, row: &[f32], values: &mut [f32]) {
        let each = self.scales.len() / self.offsets.len();
        let mut best = (0, f64::NEG_INFINITY);
        let parts = self.means.chunks_exact(self.width).zip(self.scales.chunks_exact(each)).zip(self.offsets.iter());
        for (index, ((mean, scales), offset)) in parts.enumerate() {
            let density = log_density(row, mean, scales, *offset);
            if density > best.1 {
                best = (index, density);
            }
        }
        values[0] = best.0 as f32;
    }

    fn weights(&self) -> Vec<Weights> {
        let weights = |(cluster, mean): (i32, &[f64])| Weights {
            of: WeightsOf::Cluster(cluster),
            numbers: mean.to_vec(),
            intercept: None,
        };
        (0..).zip(self.means.chunks_exact(self.width.max(1))).map(weights).collect()
    }

    fn work(&self) -> usize {
        self.scales.len() + self.means.len()
    }
}
