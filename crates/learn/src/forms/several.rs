//! Models side by side: one for each target of a joint regression, where the algorithm itself knows of one target.

use serde_json::{Map, Value};

use crate::Error;
use crate::family::{Explainer, Form, Meaning, Model, Predict, Splits, Stored, Weights, WeightsOf};

/// Stored as the arrays of its parts, `0/coefficients` for `coefficients` of the first, and the setting `parts`: the
/// form and the settings of each.
pub(crate) const FORM: Form = Form { name: "several", open };

/// The models of the targets, in their order. Their warnings say which target they are about.
pub(crate) fn model(parts: Vec<Model>) -> Model {
    let mut whole = Model::new(&FORM);
    let mut settings = Vec::with_capacity(parts.len());
    for (index, part) in parts.into_iter().enumerate() {
        let mut described = Map::new();
        described.insert("form".into(), part.form().into());
        described.insert("settings".into(), Value::Object(part.settings().clone()));
        settings.push(Value::Object(described));
        whole = whole.with_part(index, part);
    }
    whole.set("parts", settings)
}

struct Several {
    parts: Vec<Box<dyn Predict>>,
    width: usize,
    values: usize,
}

fn open(stored: &Stored) -> Result<Box<dyn Predict>, Error> {
    let damaged = |what: &str| Error::Model(what.into());
    let described = stored.setting("parts")?.as_array().ok_or_else(|| damaged("its parts are not a list"))?;
    let mut parts: Vec<Box<dyn Predict>> = Vec::with_capacity(described.len());
    for (index, part) in described.iter().enumerate() {
        let form = part.get("form").and_then(Value::as_str).ok_or_else(|| damaged("a part has no form"))?;
        let settings =
            part.get("settings").and_then(Value::as_object).ok_or_else(|| damaged("a part has no settings"))?;
        // Without this a few bytes could nest as deep as they like.
        if form == FORM.name {
            return Err(damaged("a part has parts itself"));
        }
        let opened = super::open(&stored.part(index, form, settings.clone()))?;
        if opened.meaning() != Meaning::Values {
            return Err(damaged("a part is not a regression"));
        }
        if parts.first().is_some_and(|first| first.width() != opened.width()) {
            return Err(damaged("its parts take rows of different widths"));
        }
        parts.push(opened);
    }
    let width = parts.first().map_or(0, |part| part.width());
    let values = parts.iter().map(|part| part.values()).sum();
    Ok(Box::new(Several { parts, width, values }))
}

impl Predict for Several {
    fn width(&self) -> usize {
        self.width
    }

    fn values(&self) -> usize {
        self.values
    }

    fn meaning(&self) -> Meaning {
        Meaning::Values
    }

    fn takes_missing(&self) -> bool {
        self.parts.iter().all(|part| part.takes_missing())
    }

    fn predict(&self, row: &[f32], values: &mut [f32]) {
        let mut rest = values;
        for part in &self.parts {
            let (own, others) = rest.split_at_mut(part.values());
            part.predict(row, own);
            rest = others;
        }
    }

    fn contributions(&self, row: &[f32], contributions: &mut [f32]) -> bool {
        let mut rest = contributions;
        for part in &self.parts {
            let (own, others) = rest.split_at_mut(part.values() * (self.width + 1));
            if !part.contributions(row, own) {
                return false;
            }
            rest = others;
        }
        true
    }

    fn explainers(&self) -> Result<Vec<Explainer>, forest::Error> {
        let parts: Result<Vec<_>, _> = self.parts.iter().map(|part| part.explainers()).collect();
        let parts = parts?;
        // Parts that are not all of trees have contributions of another kind.
        let all = parts.iter().all(|part| !part.is_empty());
        Ok(if all { parts.into_iter().flatten().collect() } else { Vec::new() })
    }

    fn splits(&self) -> Option<Vec<Splits>> {
        let mut all = vec![Splits::default(); self.width];
        for part in &self.parts {
            for (sum, splits) in all.iter_mut().zip(part.splits()?) {
                *sum = sum.and(splits);
            }
        }
        Some(all)
    }

    fn weights(&self) -> Vec<Weights> {
        let parts: Vec<Vec<Weights>> = self.parts.iter().map(|part| part.weights()).collect();
        if parts.iter().any(Vec::is_empty) {
            return Vec::new();
        }
        let whole = parts.into_iter().flatten().enumerate();
        whole.map(|(index, weights)| Weights { of: WeightsOf::Value(index), ..weights }).collect()
    }

    fn work(&self) -> usize {
        self.parts.iter().map(|part| part.work()).sum()
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::forms::linear::{self, Link};

    fn part(coefficient: f64) -> Model {
        linear::model(vec![coefficient], vec![1.0], vec![0.0], Link::Identity)
    }

    #[test]
    fn each_part_gives_its_value() {
        let opened = crate::forms::open_new(&model(vec![part(2.0), part(3.0).warn("slow")])).unwrap();
        let mut values = [0.0; 2];
        opened.predict(&[10.0], &mut values);
        assert_eq!(values, [21.0, 31.0]);
        let mut contributions = [0.0; 4];
        assert!(opened.contributions(&[10.0], &mut contributions));
        assert_eq!(contributions, [20.0, 1.0, 30.0, 1.0]);
        assert_eq!(model(vec![part(2.0), part(3.0).warn("slow")]).warnings, ["target 2: slow"]);
    }

    #[test]
    fn damaged_parts_are_refused() {
        let wide = linear::model(vec![1.0, 1.0], vec![0.0], vec![0.0, 0.0], Link::Identity);
        let scores = linear::model(vec![1.0], vec![0.0], vec![0.0], Link::Scores);
        for (parts, why) in [
            (vec![part(1.0), wide], "different widths"),
            (vec![part(1.0), scores], "not a regression"),
            (vec![model(vec![part(1.0)])], "has parts itself"),
            (vec![], "no features"),
        ] {
            let error = crate::forms::open_new(&model(parts)).err().unwrap().to_string();
            assert!(error.contains(why), "{error}");
        }
        let bytes = model(vec![part(1.0)]).to_bytes(&[]).unwrap();
        let text = |from: &str, to: &str| {
            let at = bytes.windows(from.len()).position(|window| window == from.as_bytes()).unwrap();
            let mut bytes = bytes.clone();
            bytes[at..at + to.len()].copy_from_slice(to.as_bytes());
            Stored::read(Bytes::from(bytes)).and_then(|stored| crate::forms::open(&stored)).err().unwrap().to_string()
        };
        assert!(text("0/means", "1/means").contains("lacks \"means\""));
        assert!(text("\\\"linear\\\"", "\\\"lineaR\\\"").contains("not known"));
    }
}
