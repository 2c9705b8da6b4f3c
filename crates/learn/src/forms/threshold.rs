//! A score, and the number above which it tells an outlier: what models of outliers predict by.

use serde_json::Value;

use crate::Error;
use crate::family::{Explainer, Form, Meaning, Model, Predict, Splits, Stored};

/// Stored as the arrays of the score, which is part 0, and the settings `score` (its form and its settings) and
/// `threshold`.
pub(crate) const FORM: Form = Form { name: "threshold", open };

/// The model that predicts by how much a score is above the threshold.
pub(crate) fn model(score: Model, threshold: f64) -> Model {
    let described = serde_json::json!({ "form": score.form(), "settings": score.settings() });
    let warnings = score.warnings.clone();
    let mut whole = Model::new(&FORM).set("score", described).set("threshold", threshold).with_part(0, score);
    whole.warnings = warnings;
    whole
}

struct Threshold {
    score: Box<dyn Predict>,
    threshold: f64,
}

fn open(stored: &Stored) -> Result<Box<dyn Predict>, Error> {
    let damaged = |what: &str| Error::Model(what.into());
    let described = stored.setting("score")?;
    let form = described.get("form").and_then(Value::as_str).ok_or_else(|| damaged("its score has no form"))?;
    let settings = described.get("settings").and_then(Value::as_object);
    let settings = settings.ok_or_else(|| damaged("its score has no settings"))?;
    // Without this a few bytes could nest as deep as they like.
    if form == FORM.name {
        return Err(damaged("its score has a threshold itself"));
    }
    let score = super::open(&stored.part(0, form, settings.clone()))?;
    if score.meaning() != Meaning::Values || score.values() != 1 {
        return Err(damaged("its score is not one number"));
    }
    let threshold = stored.number("threshold")?;
    if threshold.is_finite() {
        Ok(Box::new(Threshold { score, threshold }))
    } else {
        Err(damaged("its threshold is no number"))
    }
}

impl Threshold {
    fn above(&self, values: &mut [f32]) {
        for value in values {
            *value = (f64::from(*value) - self.threshold) as f32;
        }
    }
}

impl Predict for Threshold {
    fn width(&self) -> usize {
        self.score.width()
    }

    fn values(&self) -> usize {
        1
    }

    fn meaning(&self) -> Meaning {
        Meaning::Values
    }

    fn takes_missing(&self) -> bool {
        self.score.takes_missing()
    }

    fn predict(&self, row: &[f32], values: &mut [f32]) {
        self.score.predict(row, values);
        self.above(values);
    }

    fn predict_rows(&self, rows: &[f32], values: &mut [f32]) {
        self.score.predict_rows(rows, values);
        self.above(values);
    }

    fn contributions(&self, row: &[f32], contributions: &mut [f32]) -> bool {
        let known = self.score.contributions(row, contributions);
        if let (true, Some(expected)) = (known, contributions.last_mut()) {
            *expected = (f64::from(*expected) - self.threshold) as f32;
        }
        known
    }

    fn explainers(&self) -> Result<Vec<Explainer>, forest::Error> {
        self.score.explainers()
    }

    fn splits(&self) -> Option<Vec<Splits>> {
        self.score.splits()
    }

    fn work(&self) -> usize {
        self.score.work()
    }
}
