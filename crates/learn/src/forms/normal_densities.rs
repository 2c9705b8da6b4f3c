//! Normal densities of each class, each feature independent of the others: the form of naive Bayes.

use super::linear::softmax;
use crate::Error;
use crate::family::{Array, Form, Meaning, Predict, Stored};

/// Stored as `means` and `variances` (class by class), `priors` (their logarithms), and the `expected` logarithm of each
/// feature's density over the training rows (class by class, for contributions).
pub(crate) const FORM: Form = Form { name: "normal_densities", open };

struct Densities {
    means: Array<f64>,
    variances: Array<f64>,
    priors: Array<f64>,
    expected: Array<f64>,
    /// For each class the constant part of the logarithm of its density, with the prior.
    constants: Vec<f64>,
    width: usize,
}

fn open(stored: &Stored) -> Result<Box<dyn Predict>, Error> {
    let priors: Array<f64> = stored.array("priors")?;
    let means: Array<f64> = stored.array("means")?;
    let variances: Array<f64> = stored.array_of("variances", means.len())?;
    let expected = stored.array_of("expected", means.len())?;
    if priors.is_empty() || !means.len().is_multiple_of(priors.len()) {
        return Err(Error::Model("its means do not match its classes and features".into()));
    }
    if !variances.iter().all(|variance| *variance > 0.0) {
        return Err(Error::Model("a variance is not above 0".into()));
    }
    let width = means.len() / priors.len();
    let constant = |(class, prior): (usize, &f64)| {
        let own = &variances[class * width..(class + 1) * width];
        prior - 0.5 * own.iter().map(|variance| (std::f64::consts::TAU * variance).ln()).sum::<f64>()
    };
    let constants = priors.iter().enumerate().map(constant).collect();
    Ok(Box::new(Densities { means, variances, priors, expected, constants, width }))
}

impl Predict for Densities {
    fn width(&self) -> usize {
        self.width
    }

    fn values(&self) -> usize {
        self.priors.len()
    }

    fn meaning(&self) -> Meaning {
        Meaning::Probabilities
    }

    fn predict(&self, row: &[f32], values: &mut [f32]) {
        let mut scores: Vec<f64> = self.constants.clone();
        let classes = self.means.chunks_exact(self.width).zip(self.variances.chunks_exact(self.width));
        for (score, (means, variances)) in scores.iter_mut().zip(classes) {
            let away = row.iter().zip(means).zip(variances);
            *score -=
                0.5 * away.map(|((value, mean), variance)| (f64::from(*value) - mean).powi(2) / variance).sum::<f64>();
        }
        softmax(&mut scores);
        for (value, score) in values.iter_mut().zip(scores) {
            *value = score as f32;
        }
    }

    fn contributions(&self, row: &[f32], contributions: &mut [f32]) -> bool {
        for (class, own) in contributions.chunks_exact_mut(self.width + 1).enumerate() {
            let mut base = self.priors[class];
            for (feature, value) in row.iter().enumerate() {
                let index = class * self.width + feature;
                let variance = self.variances[index];
                let away = (f64::from(*value) - self.means[index]).powi(2);
                let density = -0.5 * ((std::f64::consts::TAU * variance).ln() + away / variance);
                base += self.expected[index];
                own[feature] = (density - self.expected[index]) as f32;
            }
            own[self.width] = base as f32;
        }
        true
    }

    fn work(&self) -> usize {
        2 * self.means.len()
    }
}
