//! Weighted sums of the features around their means: the components of a decomposition.

use crate::Error;
use crate::family::{Array, Form, Meaning, Model, Predict, Stored, Weights, WeightsOf};

/// Stored as `components` (one after the other, a number for each feature) and `means` (of the features, taken away first).
pub(crate) const FORM: Form = Form { name: "projection", open };

/// A model of these components.
pub(crate) fn model(components: Vec<f64>, means: Vec<f64>) -> Model {
    Model::new(&FORM).with("components", components).with("means", means)
}

struct Projection {
    components: Array<f64>,
    means: Array<f64>,
}

fn open(stored: &Stored) -> Result<Box<dyn Predict>, Error> {
    let (components, means): (Array<f64>, Array<f64>) = (stored.array("components")?, stored.array("means")?);
    match means.is_empty() || components.len() % means.len() != 0 {
        true => Err(Error::Model("its components and means do not go together".into())),
        false => Ok(Box::new(Projection { components, means })),
    }
}

impl Predict for Projection {
    fn width(&self) -> usize {
        self.means.len()
    }

    fn values(&self) -> usize {
        self.components.len() / self.means.len()
    }

    fn meaning(&self) -> Meaning {
        Meaning::Components
    }

    fn predict(&self, row: &[f32], values: &mut [f32]) {
        for (component, value) in self.components.chunks_exact(self.means.len()).zip(values) {
            let terms = component.iter().zip(row).zip(self.means.iter());
            *value = terms.map(|((weight, value), mean)| weight * (f64::from(*value) - mean)).sum::<f64>() as f32;
        }
    }

    fn weights(&self) -> Vec<Weights> {
        let components = self.components.chunks_exact(self.means.len()).enumerate();
        components
            .map(|(index, component)| Weights {
                of: WeightsOf::Component(index),
                numbers: component.to_vec(),
                intercept: Some(
                    -component.iter().zip(self.means.iter()).map(|(weight, mean)| weight * mean).sum::<f64>(),
                ),
            })
            .collect()
    }
}
