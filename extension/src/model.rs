//! A model as a backend predicts with it: the shared compiled forest, and what its columns and classes are called.

use std::collections::HashMap;

use forest::ensemble::Transform;
use forest::{Ensemble, Forest};

use crate::cache::{self, Digest, Image, Opened, Used};
use crate::error::{Error, Result};
use crate::features::MOST_FEATURES;
use crate::memory;
use crate::model_meta::{self, Class, FeatureColumn, LabelColumn, ModelMeta, Task};

pub struct Model {
    forest: Forest<Image>,
    pub columns: Vec<Column>,
    answer: Answer,
    classes: Vec<Class>,
    used: Option<Used>,
}

/// An input column of the training relation, and the features it makes.
pub struct Column {
    pub name: String,
    /// The first of its features.
    pub offset: usize,
    /// Features it makes: 1, or the number of elements of an array column.
    pub size: usize,
    /// The code of each category, where the column is text.
    categories: Option<HashMap<Box<str>, f32>>,
    /// Whether its features are 1 for true and 0 for false.
    is_boolean: bool,
}

/// How the forest's values become the one value of a row.
enum Answer {
    /// Regression: the value itself.
    Value,
    /// Two classes and one value: the second class where the value is above this.
    Above(f32),
    /// One value a class: the class of the largest, the first of equals.
    Largest,
    /// The value is the class's index already.
    Index,
    /// Several targets: no single value.
    Several,
}

impl Model {
    /// Maps the compiled model of this digest; `stored` reads its bytes from the registry if it must be compiled.
    pub fn load(digest: &Digest, stored: impl FnOnce() -> Result<Vec<u8>>) -> Result<Model> {
        let Opened { forest, used } = cache::open(digest, || compile(&stored()?))?;
        let meta = std::str::from_utf8(forest.metadata())
            .map_err(|error| error.to_string())
            .and_then(|json| ModelMeta::from_json(json).map_err(|error| error.to_string()))
            .map_err(Error::corrupted)?;
        Ok(Model { used, ..Model::new(forest, meta)? })
    }

    fn new(forest: Forest<Image>, meta: ModelMeta) -> Result<Model> {
        let mut columns = Vec::with_capacity(meta.columns.len());
        let mut width = 0;
        for FeatureColumn { name, pg_type, size, categories } in meta.columns {
            let size = size as usize;
            let categories = categories
                .map(|names| names.into_iter().enumerate().map(|(code, name)| (name.into(), code as f32)).collect());
            let is_boolean = pg_type == "boolean" || pg_type == "boolean[]";
            columns.push(Column { name, offset: width, size, categories, is_boolean });
            width += size;
        }
        if width != forest.num_features() {
            return Err(Error::corrupted(format!(
                "the stored model has {} features, and its description {width}",
                forest.num_features()
            )));
        }
        let answer = match (meta.task, forest.num_values(), forest.transform()) {
            (_, _, Transform::Argmax) => Answer::Index,
            (_, 1, Transform::Hinge) => Answer::Index,
            (Task::Regression, 1, _) => Answer::Value,
            (Task::Regression, _, _) => Answer::Several,
            (Task::Classification, 1, Transform::Sigmoid) => Answer::Above(0.5),
            (Task::Classification, 1, _) => Answer::Above(0.0),
            (Task::Classification, _, _) => Answer::Largest,
        };
        let classes = meta.label.classes.unwrap_or_default();
        Ok(Model { forest, columns, answer, classes, used: None })
    }

    /// Keeps its file in the cache; to be called once a query.
    pub fn used(&self) {
        if let Some(used) = &self.used {
            used.now();
        }
    }

    /// Bytes, more or less, that it takes of the backend's own memory: its names and categories, and the forest where that
    /// is a private copy.
    pub fn weight(&self) -> usize {
        let copy = if self.used.is_some() { 0 } else { self.forest.image().len() };
        copy + 2 * self.forest.metadata().len()
    }

    /// Features a row has.
    pub fn width(&self) -> usize {
        self.forest.num_features()
    }

    /// What a prediction takes, in trees walked and values made.
    pub fn work(&self) -> usize {
        self.forest.num_trees().max(self.forest.num_values()).max(1)
    }

    /// Values that the forest gives a row: the length of a scratch buffer.
    pub fn num_values(&self) -> usize {
        self.forest.num_values()
    }

    /// The prediction for one row of `width()` features, NaN where missing. `scratch` has `num_values()` elements.
    #[inline]
    pub fn predict(&self, row: &[f32], scratch: &mut [f32]) -> Result<f32> {
        self.forest.predict_row(row, scratch).map_err(misfit)?;
        self.answer(scratch)
    }

    /// Appends the prediction of each row. `rows` holds whole rows; `scratch` is reused between calls.
    pub fn predict_rows(&self, rows: &[f32], scratch: &mut Vec<f32>, out: &mut Vec<f32>) -> Result<()> {
        let values = self.num_values();
        let length = rows.len() / self.width().max(1) * values;
        memory::reserve(scratch, length.saturating_sub(scratch.len()))?;
        scratch.resize(length, 0.0);
        self.forest.predict_batch(rows, scratch).map_err(misfit)?;
        if matches!(self.answer, Answer::Value) {
            out.extend_from_slice(scratch);
            return Ok(());
        }
        for row in scratch.chunks_exact(values) {
            out.push(self.answer(row)?);
        }
        Ok(())
    }

    /// The probability of each class, in the order of the classes.
    pub fn predict_proba(&self, row: &[f32]) -> Result<Vec<f32>> {
        let mut values = vec![0.0; self.num_values()];
        self.forest.predict_row(row, &mut values).map_err(misfit)?;
        match (&self.answer, self.forest.transform()) {
            (Answer::Above(_), Transform::Sigmoid) => Ok(vec![1.0 - values[0], values[0]]),
            (Answer::Largest, Transform::Softmax) => Ok(values),
            (Answer::Value | Answer::Several, _) => Err(Error::unsupported("a regression model has no probabilities")
                .hint("Use pgml.predict for the predicted value.")),
            _ => Err(Error::unsupported(format!(
                "a model of objective \"{}\" has no probabilities",
                self.forest.objective()
            ))
            .hint("Train with objective binary:logistic or multi:softprob, the defaults.")),
        }
    }

    /// The predicted class as text, as the label column prints it.
    pub fn predict_label(&self, row: &[f32], scratch: &mut [f32]) -> Result<&str> {
        self.forest.predict_row(row, scratch).map_err(misfit)?;
        let index = self.class_index(scratch).ok_or_else(|| {
            Error::unsupported("a regression model has no labels").hint("Use pgml.predict for the predicted value.")
        })?;
        self.class(index).map(|class| class.text.as_str())
    }

    /// What a larger margin of this output speaks for: the class, as text; of two classes with one margin, the second.
    /// Of a model with several targets, the target's number. `None` in regression.
    pub fn output_name(&self, output: usize, outputs: usize) -> Option<String> {
        match self.answer {
            Answer::Value => None,
            Answer::Several => Some(output.to_string()),
            _ => {
                let class = if outputs == 1 { 1 } else { output };
                self.classes.get(class).map(|class| class.text.clone())
            }
        }
    }

    #[inline]
    fn answer(&self, values: &[f32]) -> Result<f32> {
        if let Answer::Value = self.answer {
            return Ok(values[0]);
        }
        match self.class_index(values) {
            Some(index) => self.class(index).map(|class| class.value),
            None => Err(Error::unsupported(format!("the model predicts {} targets, not one", self.num_values()))),
        }
    }

    fn class_index(&self, values: &[f32]) -> Option<usize> {
        match self.answer {
            Answer::Value | Answer::Several => None,
            Answer::Above(threshold) => Some(usize::from(values[0] > threshold)),
            Answer::Index => Some(values[0] as usize),
            Answer::Largest => {
                let mut best = 0;
                for (index, value) in values.iter().enumerate() {
                    if *value > values[best] {
                        best = index;
                    }
                }
                Some(best)
            }
        }
    }

    fn class(&self, index: usize) -> Result<&Class> {
        self.classes
            .get(index)
            .ok_or_else(|| Error::corrupted(format!("the model predicted class {index} of {}", self.classes.len())))
    }
}

/// A buffer of the wrong length: a mistake of ours, since callers read rows by `width()`.
#[cold]
fn misfit(error: forest::PredictError) -> Error {
    Error::new(pgrx::PgSqlErrorCode::ERRCODE_INTERNAL_ERROR, error.to_string())
}

impl Column {
    /// The code of a category: one past the known ones for a value never seen in training, which trees treat as
    /// belonging to no category set. `None` where the column is not text.
    pub fn category(&self, value: &str) -> Option<f32> {
        let categories = self.categories.as_ref()?;
        Some(categories.get(value).copied().unwrap_or(categories.len() as f32))
    }

    pub fn is_category(&self) -> bool {
        self.categories.is_some()
    }

    pub fn is_boolean(&self) -> bool {
        self.is_boolean
    }

    /// The categories by their codes; empty where the column is not text.
    pub fn category_names(&self) -> Vec<&str> {
        let mut names: Vec<(&str, f32)> =
            self.categories.iter().flatten().map(|(name, code)| (&**name, *code)).collect();
        names.sort_unstable_by(|(_, a), (_, b)| a.total_cmp(b));
        names.into_iter().map(|(name, _)| name).collect()
    }
}

/// From the bytes in `pgml.files` to a compiled image, which carries the description that training stored in the model.
pub fn compile(stored: &[u8]) -> Result<Vec<u8>> {
    let ensemble = forest::xgboost::read(stored)
        .map_err(|error| Error::corrupted(format!("the stored model cannot be read: {error}")))?;
    if ensemble.num_features as usize > MOST_FEATURES {
        return Err(Error::unsupported(format!(
            "the model has {} features, and {MOST_FEATURES} are the most that can be predicted with",
            ensemble.num_features
        )));
    }
    let meta = describe(&ensemble)?.to_json();
    forest::compile(&ensemble, meta.as_bytes())
        .map_err(|error| Error::corrupted(format!("the stored model cannot be compiled: {error}")))
}

/// What training wrote into the model; for a model that was trained elsewhere, what can be told from the model itself:
/// its feature names, and classes 0, 1, 2, ... where its objective makes classes.
fn describe(ensemble: &Ensemble) -> Result<ModelMeta> {
    if let Some(json) = ensemble.attributes.get(model_meta::ATTRIBUTE) {
        return ModelMeta::from_json(json).map_err(|error| Error::corrupted(error.to_string()));
    }
    let classes = match ensemble.transform {
        Transform::Softmax | Transform::Argmax => Some(ensemble.num_outputs),
        Transform::Hinge => Some(2),
        _ if ensemble.objective.starts_with("binary:") => Some(2),
        _ => None,
    };
    let name = |index: u32| match ensemble.feature_names.get(index as usize) {
        Some(name) => name.clone(),
        None => format!("f{index}"),
    };
    let column = |index| FeatureColumn { name: name(index), pg_type: "real".to_owned(), size: 1, categories: None };
    Ok(ModelMeta {
        task: if classes.is_some() { Task::Classification } else { Task::Regression },
        columns: (0..ensemble.num_features).map(column).collect(),
        label: LabelColumn {
            name: "label".to_owned(),
            pg_type: "real".to_owned(),
            classes: classes
                .map(|count| (0..count).map(|index| Class { text: index.to_string(), value: index as f32 }).collect()),
        },
    })
}
