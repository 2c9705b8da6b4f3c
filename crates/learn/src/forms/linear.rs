//! A weighted sum of the features a value, and what is made of it: what all linear models predict by.

use crate::Error;
use crate::family::{Array, Form, Meaning, Model, Predict, Stored, Weights, WeightsOf};

/// Stored as `coefficients` (value by value, `width` each), `intercepts`, `means` (of the features in training, for
/// contributions), and the setting `link`.
pub(crate) const FORM: Form = Form { name: "linear", open };

/// What becomes of the sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    /// They are the values of a regression.
    Identity,
    /// They are scores of classes; of two classes there is one sum, for the second.
    Scores,
    /// Softmax makes probabilities of them; of two classes there is one sum, and the logistic function does.
    Softmax,
    /// The logistic function makes a probability of each, and they are divided by their sum (one against the rest).
    OneVersusRest,
    /// As before, with a line from -1 (0) to 1 (1) for the logistic function.
    Clipped,
}

const LINKS: [(&str, Link); 5] = [
    ("identity", Link::Identity),
    ("scores", Link::Scores),
    ("softmax", Link::Softmax),
    ("one_versus_rest", Link::OneVersusRest),
    ("clipped", Link::Clipped),
];

/// A linear model. `coefficients` has `width` numbers a sum, one sum after the other; `means` one number a feature.
pub(crate) fn model(coefficients: Vec<f64>, intercepts: Vec<f64>, means: Vec<f64>, link: Link) -> Model {
    let name = LINKS.iter().find(|(_, known)| *known == link).map_or("", |(name, _)| name);
    Model::new(&FORM)
        .set("link", name)
        .with("coefficients", coefficients)
        .with("intercepts", intercepts)
        .with("means", means)
}

struct Linear {
    coefficients: Array<f64>,
    intercepts: Array<f64>,
    means: Array<f64>,
    link: Link,
}

fn open(stored: &Stored) -> Result<Box<dyn Predict>, Error> {
    let intercepts: Array<f64> = stored.array("intercepts")?;
    let means: Array<f64> = stored.array("means")?;
    let length = intercepts.len().checked_mul(means.len()).ok_or_else(|| Error::Model("it is too large".into()))?;
    let link = stored.text("link")?;
    let link = LINKS
        .iter()
        .find(|(name, _)| *name == link)
        .map(|(_, link)| *link)
        .ok_or_else(|| Error::Model(format!("its link \"{link}\" is not known")))?;
    Ok(Box::new(Linear { coefficients: stored.array_of("coefficients", length)?, intercepts, means, link }))
}

impl Linear {
    fn sum(&self, row: &[f32], index: usize) -> f64 {
        let width = self.means.len();
        let coefficients = &self.coefficients[index * width..(index + 1) * width];
        let products = coefficients.iter().zip(row).map(|(coefficient, value)| coefficient * f64::from(*value));
        self.intercepts[index] + products.sum::<f64>()
    }

    /// What is made of the sums.
    fn answer(&self, values: &mut [f32], sum: impl Fn(usize) -> f64) {
        if self.is_binary() {
            let score = sum(0);
            let both = match self.link {
                Link::Scores | Link::Identity => [-score, score],
                Link::Softmax | Link::OneVersusRest => [logistic(-score), logistic(score)],
                Link::Clipped => [clipped(-score), clipped(score)],
            };
            for (value, class) in values.iter_mut().zip(both) {
                *value = class as f32;
            }
            return;
        }
        if matches!(self.link, Link::Identity | Link::Scores) {
            for (index, value) in values.iter_mut().enumerate() {
                *value = sum(index) as f32;
            }
            return;
        }
        let mut scores: Vec<f64> = (0..self.intercepts.len()).map(sum).collect();
        match self.link {
            Link::OneVersusRest => {
                scores.iter_mut().for_each(|score| *score = logistic(*score));
                shares(&mut scores);
            }
            Link::Clipped => {
                let order: Vec<f64> = scores.iter().map(|score| TIE * (1.0 + score / (1.0 + score.abs()))).collect();
                scores.iter_mut().for_each(|score| *score = clipped(*score));
                shares(&mut scores);
                scores.iter_mut().zip(order).for_each(|(score, more)| *score += more);
                shares(&mut scores);
            }
            _ => softmax(&mut scores),
        }
        for (value, score) in values.iter_mut().zip(scores) {
            *value = score as f32;
        }
    }

    /// Whether one sum speaks for two classes.
    fn is_binary(&self) -> bool {
        self.link != Link::Identity && self.intercepts.len() == 1
    }
}

/// The logistic function.
pub(crate) fn logistic(score: f64) -> f64 {
    match score >= 0.0 {
        true => 1.0 / (1.0 + (-score).exp()),
        false => score.exp() / (1.0 + score.exp()),
    }
}

/// A line from 0 at -1 to 1 at 1, and constant beyond.
fn clipped(score: f64) -> f64 {
    (score.clamp(-1.0, 1.0) + 1.0) / 2.0
}

/// What a probability may be more for its score, so that the largest score has the largest one where several are clipped.
const TIE: f64 = 5e-6;

/// Divides by the sum; all are alike where it is 0.
fn shares(parts: &mut [f64]) {
    let (sum, count) = (parts.iter().sum::<f64>(), parts.len() as f64);
    for part in parts {
        *part = if sum > 0.0 { *part / sum } else { 1.0 / count };
    }
}

/// Turns scores into probabilities that add up to 1.
pub(crate) fn softmax(scores: &mut [f64]) {
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    for score in scores.iter_mut() {
        *score = (*score - largest).exp();
    }
    let sum: f64 = scores.iter().sum();
    for score in scores {
        *score /= sum;
    }
}

impl Predict for Linear {
    fn width(&self) -> usize {
        self.means.len()
    }

    fn values(&self) -> usize {
        if self.is_binary() { 2 } else { self.intercepts.len() }
    }

    fn meaning(&self) -> Meaning {
        match self.link {
            Link::Identity => Meaning::Values,
            Link::Scores => Meaning::Scores,
            Link::Softmax | Link::OneVersusRest | Link::Clipped => Meaning::Probabilities,
        }
    }

    fn predict(&self, row: &[f32], values: &mut [f32]) {
        self.answer(values, |index| self.sum(row, index));
    }

    fn predict_cells(&self, cells: &[(u32, f32)], values: &mut [f32]) -> bool {
        let width = self.means.len();
        self.answer(values, |index| {
            let coefficients = &self.coefficients[index * width..(index + 1) * width];
            let products = cells.iter().map(|(feature, value)| coefficients[*feature as usize] * f64::from(*value));
            self.intercepts[index] + products.sum::<f64>()
        });
        true
    }

    fn weights(&self) -> Vec<Weights> {
        let sums = self.coefficients.chunks_exact(self.means.len().max(1)).zip(self.intercepts.iter()).enumerate();
        sums.map(|(index, (numbers, intercept))| Weights {
            // Of two classes with one sum, that of the second.
            of: WeightsOf::Value(if self.is_binary() { 1 } else { index }),
            numbers: numbers.to_vec(),
            intercept: Some(*intercept),
        })
        .collect()
    }

    fn contributions(&self, row: &[f32], contributions: &mut [f32]) -> bool {
        let width = self.means.len();
        for (index, value) in contributions.chunks_exact_mut(width + 1).enumerate() {
            // Of two classes with one sum, the first has the same with the other sign.
            let (sum, sign) = match self.is_binary() {
                true => (0, if index == 0 { -1.0 } else { 1.0 }),
                false => (index, 1.0),
            };
            let coefficients = &self.coefficients[sum * width..(sum + 1) * width];
            let mut expected = self.intercepts[sum];
            for (feature, coefficient) in coefficients.iter().enumerate() {
                expected += coefficient * self.means[feature];
                value[feature] = (sign * coefficient * (f64::from(row[feature]) - self.means[feature])) as f32;
            }
            value[width] = (sign * expected) as f32;
        }
        true
    }
}
