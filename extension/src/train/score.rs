//! How good a model is on test rows, predicted as `pgml.predict` will predict.

use std::collections::HashMap;

use forest::Forest;
use forest::ensemble::Transform;
use learn::metrics::{self, Named};
use learn::split::Split;
use serde_json::{Map, Value, json};

use super::columns::Data;
use super::interrupts;
use super::view::View;
use crate::error::{Error, Result};
use crate::model_meta::{ATTRIBUTE, ModelMeta, Task};

/// A model and how the features and classes of a training's rows map to its own.
pub struct Scorer {
    task: Task,
    forest: Forest<Vec<u8>>,
    /// By feature of the model; `None` if the rows have the model's own features.
    features: Option<Vec<Mapped>>,
    /// By class of the model: the class of the rows, if they have it. `None` if they are the same.
    classes: Option<Vec<Option<u32>>>,
    /// Whether a margin, not a probability, is what it gives: its sign tells the class.
    raw: bool,
}

/// Where a feature of the model is in the rows.
struct Mapped {
    position: usize,
    /// Of a categorical feature: the model's code for each of the rows' codes.
    codes: Option<Vec<f32>>,
}

impl Scorer {
    /// `None` if the model needs features that the rows do not have, or another task.
    pub fn new(model: &[u8], data: &Data) -> Result<Option<Scorer>> {
        let ensemble = forest::xgboost::read(model).map_err(unreadable)?;
        let meta = ensemble.attributes.get(ATTRIBUTE).map(|json| ModelMeta::from_json(json)).transpose();
        let Ok(Some(meta)) = meta else { return Ok(None) };
        let own = data.meta();
        if meta.task != own.task {
            return Ok(None);
        }
        let features = match meta.columns == own.columns {
            true => None,
            false => match map_features(&meta, data) {
                Some(features) => Some(features),
                None => return Ok(None),
            },
        };
        let classes = map_classes(&meta, &own);
        let raw = ensemble.objective == "binary:logitraw";
        let image = forest::compile(&ensemble, &[]).map_err(unreadable)?;
        let forest = Forest::open(image).map_err(unreadable)?;
        Ok(Some(Scorer { task: meta.task, forest, features, classes, raw }))
    }

    /// Metrics on the test rows; empty if there are none.
    pub fn score(&self, data: &Data, split: &Split) -> Result<Map<String, Value>> {
        if split.test_rows() == 0 {
            return Ok(Map::new());
        }
        let mut view = View::new(data, split, true, u64::MAX);
        let named = match self.task {
            Task::Regression => {
                let mut regression = metrics::Regression::new();
                self.predict(&mut view, |label, values| {
                    regression.add(f64::from(label), values.first().copied().map_or(f64::NAN, f64::from));
                })?;
                regression.all()
            }
            Task::Classification => {
                let classes = data.label.classes.as_ref().map_or(2, |classes| classes.len());
                let mut classification = metrics::Classification::new(u32::try_from(classes).unwrap_or(u32::MAX));
                self.predict(&mut view, |label, values| {
                    let probabilities = matches!(self.forest.transform(), Transform::Sigmoid | Transform::Softmax);
                    if probabilities && self.classes.is_none() {
                        classification.add(label as u32, values);
                    } else {
                        classification.add_class(label as u32, self.class(values));
                    }
                })?;
                classification.all()
            }
        };
        Ok(to_json(named))
    }

    /// The class of the rows that the model's values speak for; one that no row has if the rows do not know it.
    fn class(&self, values: &[f32]) -> u32 {
        let first = values.first().copied().unwrap_or(f32::NAN);
        let class = match self.forest.transform() {
            Transform::Argmax | Transform::Hinge => first as u32,
            _ if self.raw => u32::from(first > 0.0),
            _ => metrics::class_of(values),
        };
        match &self.classes {
            None => class,
            Some(classes) => {
                let unknown = u32::try_from(classes.len()).unwrap_or(u32::MAX);
                classes.get(class as usize).copied().flatten().unwrap_or(unknown)
            }
        }
    }

    /// Calls with the label and the predicted values of each row.
    fn predict(&self, view: &mut View<'_>, mut take: impl FnMut(f32, &[f32])) -> Result<()> {
        let (width, values) = (self.forest.num_features(), self.forest.num_values().max(1));
        let (mut mapped, mut out) = (Vec::new(), Vec::new());
        while let Some((features, labels)) = view.chunk()? {
            out.resize(labels.len() * values, 0.0);
            let rows = match &self.features {
                None => features,
                Some(map) => {
                    mapped.clear();
                    for row in features.chunks_exact(features.len() / labels.len().max(1)) {
                        mapped.extend(map.iter().map(|feature| feature.of(row)));
                    }
                    &mapped
                }
            };
            if rows.len() != labels.len() * width {
                return Err(Error::corrupted("a model does not have the features that it says it has"));
            }
            self.forest.predict_batch(rows, &mut out).map_err(unreadable)?;
            for (label, values) in labels.iter().zip(out.chunks_exact(values)) {
                take(*label, values);
            }
            interrupts::check();
        }
        Ok(())
    }
}

impl Mapped {
    fn of(&self, row: &[f32]) -> f32 {
        let value = row.get(self.position).copied().unwrap_or(f32::NAN);
        match &self.codes {
            Some(codes) if !value.is_nan() => codes.get(value as usize).copied().unwrap_or(f32::NAN),
            _ => value,
        }
    }
}

/// Finds the model's columns among those of the rows, by name; `None` if one is missing or is something else.
fn map_features(meta: &ModelMeta, data: &Data) -> Option<Vec<Mapped>> {
    let mut starts = HashMap::new();
    let mut start = 0;
    for feature in &data.features {
        starts.insert(feature.name.as_str(), (start, feature));
        start += feature.size;
    }
    let mut mapped = Vec::new();
    for column in &meta.columns {
        let (start, feature) = starts.get(column.name.as_str())?;
        if feature.size != column.size as usize || feature.categories.is_some() != column.categories.is_some() {
            return None;
        }
        let codes = column.categories.as_ref().zip(feature.categories.as_ref()).map(|(known, sorted)| {
            let index = |text: &String| known.binary_search(text).unwrap_or(known.len()) as f32;
            sorted.values.iter().map(|category| index(&category.text)).collect::<Vec<f32>>()
        });
        for position in *start..start + feature.size {
            mapped.push(Mapped { position, codes: codes.clone() });
        }
    }
    Some(mapped)
}

fn map_classes(meta: &ModelMeta, own: &ModelMeta) -> Option<Vec<Option<u32>>> {
    let (theirs, ours) = (meta.label.classes.as_ref()?, own.label.classes.as_ref()?);
    if theirs == ours {
        return None;
    }
    let index = |text: &String| ours.iter().position(|class| class.text == *text);
    Some(theirs.iter().map(|class| index(&class.text).and_then(|index| u32::try_from(index).ok())).collect())
}

fn to_json(metrics: Vec<Named>) -> Map<String, Value> {
    metrics.into_iter().filter_map(|(name, value)| value.map(|value| (name.to_owned(), json!(value)))).collect()
}

fn unreadable(error: impl std::fmt::Display) -> Error {
    Error::corrupted(format!("a stored model cannot be read: {error}"))
}
