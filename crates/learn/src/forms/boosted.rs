//! A forest of XGBoost's as one of many models that are stored side by side. A model that stands alone is stored as XGBoost
//! saves it.

use forest::ensemble::Transform;
use forest::xgboost::{ReadOptions, read, read_with};
use forest::{Explainer, Forest, ImageBytes, importance};

use crate::Error;
use crate::family::{Array, Form, Meaning, Model, Predict, Splits, Stored};

/// Stored as `model` (XGBoost's UBJ) and the setting `classes` (whether its values are of classes); where it has been made
/// ready for many processes, as `image` (the compiled forest), too.
pub(crate) const FORM: Form = Form { name: "boosted", open };

/// The array of the compiled forest.
pub(crate) const IMAGE: &str = "image";

/// A model that XGBoost has saved, of classes or of numbers.
pub(crate) fn model(saved: Vec<u8>, classes: bool) -> Model {
    Model::new(&FORM).set("classes", classes).with("model", saved)
}

/// Compiles the forest of a stored model.
pub(crate) fn image(stored: &Stored) -> Result<Vec<u8>, Error> {
    let ensemble = read(&stored.array::<u8>("model")?).map_err(damaged)?;
    forest::compile(&ensemble, b"").map_err(damaged)
}

fn damaged(error: impl std::fmt::Display) -> Error {
    Error::Model(error.to_string())
}

/// A forest where it lies in a stored model.
struct Image(Array<u8>);

impl AsRef<[u8]> for Image {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

// SAFETY: the array keeps its bytes alive, and nobody writes to them: they are of a stored model, or our own.
unsafe impl ImageBytes for Image {}

struct Boosted {
    forest: Forest<Image>,
    saved: Array<u8>,
    classes: bool,
}

fn open(stored: &Stored) -> Result<Box<dyn Predict>, Error> {
    let bytes = match stored.array::<u8>(IMAGE) {
        // The image of a forest begins at an address that is a multiple of 8.
        Ok(image) if image.as_ptr().addr().is_multiple_of(8) => image,
        Ok(image) => Array::from_vec(image.to_vec()),
        Err(_) => Array::from_vec(image(stored)?),
    };
    let forest = match stored.is_checked() && stored.array::<u8>(IMAGE).is_ok() {
        // SAFETY: who said that the model was checked has opened this image before.
        true => unsafe { Forest::open_again(Image(bytes)) },
        false => Forest::open(Image(bytes)),
    };
    let opened =
        Boosted { forest: forest.map_err(damaged)?, saved: stored.array("model")?, classes: stored.flag("classes")? };
    match (opened.classes, opened.forest.transform(), opened.forest.num_values()) {
        (false, ..) | (true, Transform::Sigmoid, 1) | (true, Transform::Softmax, 2..) => Ok(Box::new(opened)),
        _ => Err(Error::Model("its objective gives no probabilities".into())),
    }
}

impl Boosted {
    /// Whether one value, of the second of two classes, stands for both.
    fn is_binary(&self) -> bool {
        self.classes && self.forest.num_values() == 1
    }
}

impl Predict for Boosted {
    fn width(&self) -> usize {
        self.forest.num_features()
    }

    fn values(&self) -> usize {
        if self.is_binary() { 2 } else { self.forest.num_values() }
    }

    fn meaning(&self) -> Meaning {
        if self.classes { Meaning::Probabilities } else { Meaning::Values }
    }

    fn takes_missing(&self) -> bool {
        true
    }

    fn predict(&self, row: &[f32], values: &mut [f32]) {
        let (own, second) = if self.is_binary() { values.split_at_mut(1) } else { (values, &mut [][..]) };
        // Both are of the right length.
        let _ = self.forest.predict_row(row, own);
        if let ([first], [second]) = (own, second) {
            *second = *first;
            *first = 1.0 - *second;
        }
    }

    fn predict_rows(&self, rows: &[f32], values: &mut [f32]) {
        if !self.is_binary() {
            let _ = self.forest.predict_batch(rows, values);
            return;
        }
        let count = values.len() / 2;
        let _ = self.forest.predict_batch(rows, &mut values[..count]);
        for row in (0..count).rev() {
            let second = values[row];
            values[2 * row..2 * row + 2].copy_from_slice(&[1.0 - second, second]);
        }
    }

    fn explainers(&self) -> Result<Vec<Explainer>, forest::Error> {
        Explainer::read(&self.saved).map(|explainer| vec![explainer])
    }

    fn splits(&self) -> Option<Vec<Splits>> {
        let ensemble = read_with(&self.saved, ReadOptions { covers: true, ..ReadOptions::default() }).ok()?;
        importance::of_ensemble(&ensemble)
    }

    fn work(&self) -> usize {
        self.forest.num_trees().max(1)
    }
}
