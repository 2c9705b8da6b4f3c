//! A model as a backend predicts with it: the compiled model, which all backends share, and the names of its columns
//! and classes.

use std::cell::RefCell;
use std::collections::HashMap;

use forest::ensemble::Transform;
use forest::{Ensemble, Explainer};
use learn::family::{Meaning, Predict, Splits, Stored, Weights};
use learn::preprocess::{Making, Pipeline, bucket};
use learn::side::Rule;
use pgrx::pg_sys;

use crate::cache::{self, Digest, Opened, Used};
use crate::compiled::{self, Compiled};
use crate::error::{Error, Result};
use crate::exchange::description::{Description, Given};
use crate::features::{MOST_FEATURES, Moment, bool_word};
use crate::memory;
use crate::model_meta::{self, Class, FeatureColumn, LabelColumn, ModelMeta, Task};

/// Whole numbers up to here are float32, and not all beyond.
const LARGEST_WHOLE: f32 = (1 << 24) as f32;

pub struct Model {
    compiled: Compiled,
    pub task: Task,
    pub columns: Vec<Column>,
    /// Features of a row as SQL gives it.
    width: usize,
    /// Taken off the features of a row, one each; none where nothing is.
    origins: Vec<f64>,
    /// What is done to a row before the model sees it.
    pipeline: Option<Pipeline>,
    /// The row that the pipeline made last.
    finished: RefCell<Vec<f32>>,
    answer: Answer,
    pub labels: Vec<LabelColumn>,
    /// Which rows were held out of its training, where that is known.
    pub split: Option<Rule>,
    /// The index of the class that is looked for, where there is one.
    pub positive: Option<usize>,
    used: Option<Used>,
}

/// An input column of the training relation, and the features it makes.
pub struct Column {
    pub name: String,
    /// The first of its features.
    pub offset: usize,
    /// Features it makes: 1, the number of elements of an array column, or of parts of a moment.
    pub size: usize,
    /// Where it is a column of dates or timestamps.
    pub moment: Option<Moment>,
    /// The code of each category, where the column is text.
    categories: Option<HashMap<Box<str>, f32>>,
    /// Whether a value is known by its bucket alone.
    hashed: bool,
    /// Buckets that no training row has.
    empty: Vec<u32>,
    /// Taken off its values, one for each of its features; none where nothing is.
    pub origins: Vec<f64>,
    /// Whether its features are 1 for true and 0 for false.
    is_boolean: bool,
    /// Whether it is of a type of whole numbers.
    is_whole: bool,
    is_date: bool,
    /// The type that a literal without one is read as, where it is not the text of a category or a number.
    pub literal: Option<pg_sys::Oid>,
}

impl Column {
    /// Of a description, with the number of features before it.
    fn of(described: FeatureColumn, offset: usize) -> Column {
        let FeatureColumn { name, pg_type, size, categories, hashed, empty, origins } = described;
        let size = size as usize;
        let categories = categories
            .map(|names| names.into_iter().enumerate().map(|(code, name)| (name.into(), code as f32)).collect());
        let literal = match pg_type.as_str() {
            "smallint" | "integer" | "bigint" if categories.is_some() => Some(pg_sys::INT8OID),
            "boolean" => Some(pg_sys::BOOLOID),
            "date" => Some(pg_sys::DATEOID),
            "timestamp without time zone" => Some(pg_sys::TIMESTAMPOID),
            "timestamp with time zone" => Some(pg_sys::TIMESTAMPTZOID),
            array if array.ends_with("[]") => Some(pg_sys::FLOAT8ARRAYOID),
            _ => None,
        };
        Column {
            name,
            offset,
            size,
            moment: Moment::named(&pg_type, size),
            categories,
            hashed,
            empty,
            origins,
            is_boolean: pg_type == "boolean" || pg_type == "boolean[]",
            is_whole: matches!(pg_type.as_str(), "smallint" | "integer" | "bigint"),
            is_date: pg_type == "date",
            literal,
        }
    }
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

impl Answer {
    fn of(compiled: &Compiled, task: Task) -> Answer {
        match compiled {
            Compiled::Forest(forest) => match (task, forest.num_values(), forest.transform()) {
                (_, _, Transform::Argmax) => Answer::Index,
                (_, 1, Transform::Hinge) => Answer::Index,
                (Task::Regression, 1, _) => Answer::Value,
                (Task::Classification, 1, Transform::Sigmoid) => Answer::Above(0.5),
                (Task::Classification, 1, _) => Answer::Above(0.0),
                (Task::Classification, _, _) => Answer::Largest,
                (_, _, _) => Answer::Several,
            },
            Compiled::Family(learned) => match (learned.predict.meaning(), learned.predict.values()) {
                (Meaning::Values, 1) | (Meaning::Cluster, _) => Answer::Value,
                (Meaning::Values | Meaning::Components, _) => Answer::Several,
                (Meaning::Probabilities | Meaning::Scores, _) => Answer::Largest,
            },
        }
    }
}

impl Model {
    /// Maps the compiled model of this digest; `stored` reads its bytes from the registry if it must be compiled.
    pub fn load(digest: &Digest, stored: impl FnOnce() -> Result<Vec<u8>>) -> Result<Model> {
        let Opened { compiled, used } = cache::open(digest, || compile(&stored()?))?;
        Ok(Model { used, ..Model::new(compiled)? })
    }

    /// A model of one's own, of bytes as they are stored.
    pub fn of_bytes(stored: &[u8]) -> Result<Model> {
        Model::new(cache::private(compile(stored)?)?)
    }

    fn new(compiled: Compiled) -> Result<Model> {
        let description = match &compiled {
            Compiled::Forest(forest) => std::str::from_utf8(forest.metadata()),
            Compiled::Family(learned) => Ok(learned.description.as_str()),
        };
        let meta = description
            .map_err(|error| error.to_string())
            .and_then(|json| ModelMeta::from_json(json).map_err(|error| error.to_string()))
            .map_err(Error::corrupted)?;
        let mut columns = Vec::with_capacity(meta.columns.len());
        let mut width = 0;
        for described in meta.columns {
            let column = Column::of(described, width);
            width += column.size;
            columns.push(column);
        }
        let finished = meta.pipeline.as_ref().map_or(width, Pipeline::width);
        let fits = meta.pipeline.as_ref().is_none_or(|pipeline| pipeline.raw_width() == width);
        if finished != compiled.width() || !fits {
            return Err(Error::corrupted(format!(
                "the model has {} features, and its description {finished}",
                compiled.width()
            )));
        }
        let classes = meta.labels.first().and_then(|label| label.classes.as_deref()).unwrap_or_default();
        let named = meta.positive.as_ref().and_then(|text| classes.iter().position(|class| class.text == *text));
        let positive = named.or((classes.len() == 2).then_some(1));
        let answer = Answer::of(&compiled, meta.task);
        let mut origins = Vec::new();
        if columns.iter().any(|column: &Column| !column.origins.is_empty()) {
            origins = (columns.iter())
                .flat_map(|column| column.origins.iter().copied().chain(std::iter::repeat(0.0)).take(column.size))
                .collect();
        }
        Ok(Model {
            compiled,
            task: meta.task,
            columns,
            width,
            origins,
            pipeline: meta.pipeline,
            finished: RefCell::default(),
            answer,
            labels: meta.labels,
            split: meta.split,
            positive,
            used: None,
        })
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
        let copy = |bytes: usize| if self.used.is_some() { 0 } else { bytes };
        match &self.compiled {
            Compiled::Forest(forest) => copy(forest.image().len()) + 2 * forest.metadata().len(),
            Compiled::Family(learned) => copy(learned.bytes) + 3 * learned.description.len(),
        }
    }

    /// Features a row has.
    pub fn width(&self) -> usize {
        self.width
    }

    /// What is taken off the features of a row, read as float64, before they are rounded to float32: one each, or none.
    pub fn origins(&self) -> &[f64] {
        &self.origins
    }

    /// In rows that came as numbers, puts the codes of categories in place of those that are numbers themselves. Refuses
    /// numbers that may have been others before they became float32.
    pub fn number_categories(&self, rows: &mut [f32]) -> Result<()> {
        for column in self.columns.iter().filter(|column| column.has_number_categories()) {
            for value in rows.iter_mut().skip(column.offset).step_by(self.width.max(1)) {
                if value.abs() > LARGEST_WHOLE {
                    return Err(Error::invalid(format!(
                        "{value} in an array may be another category of column \"{}\", since features in arrays are real",
                        column.name
                    ))
                    .hint("Give an argument for each column, or a row."));
                }
                *value = column.category_of_number(f64::from(*value));
            }
        }
        Ok(())
    }

    /// What a prediction takes, in trees walked and values made.
    pub fn work(&self) -> usize {
        match &self.compiled {
            Compiled::Forest(forest) => forest.num_trees().max(forest.num_values()).max(1),
            Compiled::Family(learned) => learned.predict.work().max(1),
        }
    }

    /// Values that a prediction has: the length of a scratch buffer.
    pub fn num_values(&self) -> usize {
        match &self.compiled {
            Compiled::Forest(forest) => forest.num_values(),
            Compiled::Family(learned) => learned.predict.values(),
        }
    }

    /// What the values of a prediction are, where a family that is no forest says so.
    fn meaning(&self) -> Option<Meaning> {
        match &self.compiled {
            Compiled::Forest(_) => None,
            Compiled::Family(learned) => Some(learned.predict.meaning()),
        }
    }

    /// All values of the prediction for one row of `width()` features, NaN where missing. `values` has `num_values()`
    /// elements.
    #[inline]
    pub fn predict_values(&self, row: &[f32], values: &mut [f32]) -> Result<()> {
        match (&self.compiled, &self.pipeline) {
            (Compiled::Forest(forest), None) => forest.predict_row(row, values).map_err(misfit),
            _ => self.predict_rows_of(row, values),
        }
    }

    /// As [`Model::predict_values`], of many rows.
    fn predict_rows_of(&self, rows: &[f32], values: &mut [f32]) -> Result<()> {
        if let (Compiled::Family(learned), Some(pipeline)) = (&self.compiled, self.pipeline.as_ref())
            && pipeline.width() >= MANY_ZEROS * self.width
            && predict_cells(learned.predict.as_ref(), pipeline, self.width, rows, values)
        {
            return Ok(());
        }
        let mut finished = self.finished.borrow_mut();
        let rows = match &self.pipeline {
            None => rows,
            Some(pipeline) => {
                finished.clear();
                memory::reserve(&mut finished, rows.len() / self.width.max(1) * pipeline.width())?;
                for row in rows.chunks_exact(self.width) {
                    pipeline.apply(row, &mut finished);
                }
                &*finished
            }
        };
        match &self.compiled {
            Compiled::Forest(forest) if values.len() == forest.num_values() => {
                forest.predict_row(rows, values).map_err(misfit)
            }
            Compiled::Forest(forest) => forest.predict_batch(rows, values).map_err(misfit),
            Compiled::Family(learned) => {
                self.refuse_missing(learned.predict.as_ref(), rows)?;
                if rows.len() / learned.predict.width() * learned.predict.values() != values.len() {
                    return Err(Error::corrupted("a row does not have as many features as the model"));
                }
                learned.predict.predict_rows(rows, values);
                Ok(())
            }
        }
    }

    /// Names the column of a feature that is missing, or not known, where the model has no answer to that.
    fn refuse_missing(&self, predict: &dyn Predict, rows: &[f32]) -> Result<()> {
        let Some(at) = predict.refused(rows) else { return Ok(()) };
        let feature = at % self.compiled.width();
        let raw =
            self.pipeline.as_ref().map_or(feature, |pipeline| pipeline.sources().get(feature).copied().unwrap_or(0));
        let column = self.columns.iter().rev().find(|column| column.offset <= raw);
        let name = column.map_or("", |column| column.name.as_str());
        Err(Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED,
            format!("column \"{name}\" is NULL, NaN or a category that does not occur in the training rows, and the model takes no missing values"),
        )
        .hint("Train with preprocess and \"impute\" for that column, or with an algorithm that takes missing values."))
    }

    /// Whether it predicts whatever is missing.
    pub fn takes_missing(&self) -> bool {
        match &self.compiled {
            Compiled::Forest(_) => true,
            Compiled::Family(learned) => learned.predict.takes_missing(),
        }
    }

    /// Whether it predicts a row in which some values may be missing.
    pub fn takes(&self, row: &[f32]) -> Result<bool> {
        let Compiled::Family(learned) = &self.compiled else { return Ok(true) };
        if self.takes_missing() || !row.iter().any(|value| value.is_nan()) {
            return Ok(true);
        }
        let mut finished = Vec::new();
        self.finish(row, &mut finished)?;
        Ok(learned.predict.refused(&finished).is_none())
    }

    /// The prediction for one row of `width()` features, NaN where missing. `scratch` has `num_values()` elements.
    #[inline]
    pub fn predict(&self, row: &[f32], scratch: &mut [f32]) -> Result<f32> {
        self.predict_values(row, scratch)?;
        self.answer(scratch)
    }

    /// Appends the prediction of each row. `rows` holds whole rows; `scratch` is reused between calls.
    pub fn predict_rows(&self, rows: &[f32], scratch: &mut Vec<f32>, out: &mut Vec<f32>) -> Result<()> {
        self.predict_all(rows, scratch)?;
        if matches!(self.answer, Answer::Value) {
            out.extend_from_slice(scratch);
            return Ok(());
        }
        for row in scratch.chunks_exact(self.num_values()) {
            out.push(self.answer(row)?);
        }
        Ok(())
    }

    /// All values of each row's prediction, in place of what `values` held.
    pub fn predict_all(&self, rows: &[f32], values: &mut Vec<f32>) -> Result<()> {
        let length = rows.len() / self.width().max(1) * self.num_values();
        memory::reserve(values, length.saturating_sub(values.len()))?;
        values.resize(length, 0.0);
        match (&self.compiled, &self.pipeline) {
            (Compiled::Forest(forest), None) => forest.predict_batch(rows, values).map_err(misfit),
            _ => self.predict_rows_of(rows, values),
        }
    }

    /// The probability of each class, in the order of the classes.
    pub fn predict_proba(&self, row: &[f32]) -> Result<Vec<f32>> {
        let mut values = vec![0.0; self.num_values()];
        self.predict_values(row, &mut values)?;
        let forest = match &self.compiled {
            Compiled::Family(learned) => {
                return match learned.predict.meaning() {
                    Meaning::Probabilities => Ok(values),
                    Meaning::Scores => Err(Error::unsupported("the algorithm of the model gives no probabilities")
                        .hint("Use pgml.predict or pgml.predict_label for the class.")),
                    _ => Err(no_probabilities()),
                };
            }
            Compiled::Forest(forest) => forest,
        };
        match (&self.answer, forest.transform()) {
            (Answer::Above(_), Transform::Sigmoid) => Ok(vec![1.0 - values[0], values[0]]),
            (Answer::Largest, Transform::Softmax) => Ok(values),
            (Answer::Value | Answer::Several, _) => Err(no_probabilities()),
            _ => {
                Err(Error::unsupported(format!("a model of objective \"{}\" has no probabilities", forest.objective()))
                    .hint("Train with objective binary:logistic or multi:softprob, the defaults."))
            }
        }
    }

    /// Whether its values are hazards, which no label is near to.
    pub fn gives_hazards(&self) -> bool {
        matches!(&self.compiled, Compiled::Forest(forest) if forest.objective() == "survival:cox")
    }

    /// Whether its values are probabilities of classes, of which two may share one value.
    pub fn gives_probabilities(&self) -> bool {
        match &self.compiled {
            Compiled::Family(_) => self.meaning() == Some(Meaning::Probabilities),
            Compiled::Forest(forest) => matches!(forest.transform(), Transform::Sigmoid | Transform::Softmax),
        }
    }

    /// Contributions of the features of each row, and what is expected, for each value; `None` for a forest, which an
    /// explainer has them of, and where the algorithm does not know them.
    pub fn contributions(&self, row: &[f32]) -> Result<Option<Vec<f32>>> {
        let Compiled::Family(learned) = &self.compiled else { return Ok(None) };
        let mut finished = Vec::new();
        self.finish(row, &mut finished)?;
        self.refuse_missing(learned.predict.as_ref(), &finished)?;
        let mut contributions = memory::filled(0.0, learned.predict.values() * (learned.predict.width() + 1))?;
        if !learned.predict.contributions(&finished, &mut contributions) {
            return Ok(None);
        }
        Ok(Some(contributions))
    }

    /// What explains a model of trees, the outputs of the first before those of the next; `stored` reads the bytes of a
    /// forest, whose compiled model does not tell. None of a model that is not of trees.
    pub fn explainers(
        &self,
        stored: impl FnOnce() -> Result<Vec<u8>>,
    ) -> Result<std::result::Result<Vec<Explainer>, forest::Error>> {
        Ok(match &self.compiled {
            Compiled::Forest(_) => Explainer::read(&stored()?).map(|explainer| vec![explainer]),
            Compiled::Family(learned) => learned.predict.explainers(),
        })
    }

    /// The row that the model sees for a row that SQL gives.
    pub fn finish(&self, row: &[f32], finished: &mut Vec<f32>) -> Result<()> {
        finished.clear();
        memory::reserve(finished, self.compiled.width())?;
        match &self.pipeline {
            None => finished.extend_from_slice(row),
            Some(pipeline) => pipeline.apply(row, finished),
        }
        Ok(())
    }

    /// Features of a row as the model sees it.
    pub fn finished_width(&self) -> usize {
        self.compiled.width()
    }

    /// For each feature that the model sees the feature of the row that it was made of; `None` where they are the same.
    pub fn sources(&self) -> Option<Vec<usize>> {
        self.pipeline.as_ref().map(Pipeline::sources)
    }

    /// The features as the model sees them: their names, with the category of one that is 1 for a category, and how they are
    /// made of a row.
    pub fn finished_names(&self) -> Vec<(String, Making)> {
        let raw = self.feature_names();
        let untouched = |raw: usize| Making { raw, category: None, indicator: false, offset: 0.0, divisor: 1.0 };
        let mut makings = match &self.pipeline {
            Some(pipeline) => pipeline.makings(),
            None => (0..raw.len()).map(untouched).collect(),
        };
        // An origin is taken off before.
        for making in makings.iter_mut().filter(|making| !making.indicator) {
            making.offset += self.origins.get(making.raw).copied().unwrap_or(0.0);
        }
        let mut categories: Vec<Vec<&str>> = vec![Vec::new(); raw.len()];
        for column in self.columns.iter().filter(|column| column.is_category()) {
            if let Some(names) = categories.get_mut(column.offset) {
                *names = column.category_names();
            }
        }
        let named = |making: Making| {
            let name = raw.get(making.raw).map_or("", String::as_str);
            let names = categories.get(making.raw);
            match making.category.and_then(|category| names?.get(category)) {
                Some(category) => (format!("{name}={category}"), making),
                None if making.indicator => (format!("{name} IS NULL"), making),
                None => (name.to_owned(), making),
            }
        };
        makings.into_iter().map(named).collect()
    }

    /// Its coefficients, centres or components; empty where it is made of other things.
    pub fn weights(&self) -> Vec<Weights> {
        match &self.compiled {
            Compiled::Forest(_) => Vec::new(),
            Compiled::Family(learned) => learned.predict.weights(),
        }
    }

    /// Whether it takes exactly these columns.
    pub fn same_columns(&self, columns: &[FeatureColumn]) -> bool {
        self.columns.len() == columns.len()
            && self.columns.iter().zip(columns).all(|(own, other)| {
                let names = own.category_names();
                let same_categories = match &other.categories {
                    None => !own.is_category(),
                    Some(categories) => own.is_category() && names.iter().eq(categories.iter()),
                };
                own.name == other.name
                    && own.size == other.size as usize
                    && own.hashed == other.hashed
                    && own.empty == other.empty
                    && own.origins == other.origins
                    && same_categories
            })
    }

    /// The splits by each feature that the model sees, of trees; `stored` reads the model's bytes where the compiled model
    /// does not tell.
    pub fn splits(&self, stored: impl FnOnce() -> Result<Vec<u8>>) -> Result<Option<Vec<Splits>>> {
        if let Compiled::Family(learned) = &self.compiled {
            return Ok(learned.predict.splits());
        }
        let options = forest::xgboost::ReadOptions { covers: true, ..Default::default() };
        let ensemble = forest::xgboost::read_with(&stored()?, options)
            .map_err(|error| Error::corrupted(format!("the stored model cannot be read: {error}")))?;
        Ok(forest::importance::of_ensemble(&ensemble))
    }

    /// The names of the features: a column's name, of an array's elements `name[1]` and so on, of a moment `name.year`.
    pub fn feature_names(&self) -> Vec<String> {
        self.columns.iter().flat_map(|column| (1..=column.size).map(|element| column.feature_name(element))).collect()
    }

    /// The predicted class as text, as the label column prints it.
    pub fn predict_label(&self, row: &[f32], scratch: &mut [f32]) -> Result<&str> {
        self.predict_values(row, scratch)?;
        let index = self.class_index(scratch).ok_or_else(|| {
            Error::unsupported(format!("a model of {} has no labels", self.task.name()))
                .hint("Use pgml.predict for the predicted value.")
        })?;
        self.class(index).map(|class| class.text.as_str())
    }

    /// What a larger margin of this output speaks for: the class, as text; of two classes with one margin, the second.
    /// Of a model with several targets, the target's number. `None` in regression.
    pub fn output_name(&self, output: usize, outputs: usize) -> Option<String> {
        match self.answer {
            Answer::Value => None,
            Answer::Several => Some(match self.labels.get(output) {
                Some(label) if self.labels.len() == outputs => label.name.clone(),
                _ => output.to_string(),
            }),
            _ => {
                let class = if outputs == 1 { 1 } else { output };
                self.classes().get(class).map(|class| class.text.clone())
            }
        }
    }

    #[inline]
    fn answer(&self, values: &[f32]) -> Result<f32> {
        match self.answer {
            Answer::Value => return Ok(values[0]),
            // As PostgresML: the first component.
            Answer::Several if self.task == Task::Decomposition => {
                return Ok(values.first().copied().unwrap_or(f32::NAN));
            }
            _ => {}
        }
        match self.class_index(values) {
            Some(index) => self.class(index).map(|class| class.value),
            None => {
                let targets = self.num_values();
                Err(Error::unsupported(format!("the model predicts {targets} targets, not one"))
                    .hint("Use pgml.predict_joint."))
            }
        }
    }

    pub fn class_index(&self, values: &[f32]) -> Option<usize> {
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

    /// Of a regression's values those that stand for its labels: of several quantiles of one label the middle one.
    pub fn estimates<'a>(&self, values: &'a [f32]) -> &'a [f32] {
        match (self.labels.len(), values.len()) {
            (1, several) if several > 1 => values.get(several / 2..several / 2 + 1).unwrap_or(values),
            _ => values,
        }
    }

    /// Of a classification's values those that speak for a class the more the higher they are: one for each class, or of two
    /// classes that of the second. `None` where the value is the class itself.
    pub fn class_scores<'a>(&self, values: &'a [f32]) -> Option<&'a [f32]> {
        match (&self.answer, values) {
            (Answer::Above(_), [score, ..]) => Some(std::slice::from_ref(score)),
            (Answer::Largest, [_, second]) => Some(std::slice::from_ref(second)),
            (Answer::Largest, values) => Some(values),
            _ => None,
        }
    }

    /// The classes, in the order of the values; empty where there are none.
    pub fn classes(&self) -> &[Class] {
        self.labels.first().and_then(|label| label.classes.as_deref()).unwrap_or(&[])
    }

    fn class(&self, index: usize) -> Result<&Class> {
        let classes = self.classes();
        classes
            .get(index)
            .ok_or_else(|| Error::corrupted(format!("the model predicted class {index} of {}", classes.len())))
    }
}

/// So many times wider than a row is the row that the model sees where it is mostly zeros.
const MANY_ZEROS: usize = 8;

/// Predicts whole rows by what is not 0 in them; false where that cannot be, or a value is missing.
fn predict_cells(predict: &dyn Predict, pipeline: &Pipeline, width: usize, rows: &[f32], values: &mut [f32]) -> bool {
    let (count, mut cells) = (predict.values().max(1), Vec::new());
    rows.len() / width.max(1) * count == values.len()
        && rows
            .chunks_exact(width.max(1))
            .zip(values.chunks_exact_mut(count))
            .all(|(row, values)| pipeline.cells(row, &mut cells) && predict.predict_cells(&cells, values))
}

#[cold]
fn no_probabilities() -> Error {
    Error::unsupported("only a classification has probabilities").hint("Use pgml.predict for the predicted value.")
}

/// A buffer of the wrong length: a mistake of ours, since callers read rows by `width()`.
#[cold]
fn misfit(error: forest::PredictError) -> Error {
    Error::new(pgrx::PgSqlErrorCode::ERRCODE_INTERNAL_ERROR, error.to_string())
}

impl Column {
    /// The name of the feature that is its element of that number, from 1.
    pub fn feature_name(&self, element: usize) -> String {
        match self.moment {
            Some(moment) => {
                let part = element.checked_sub(1).and_then(|index| moment.parts.get(index));
                format!("{}.{}", self.name, part.map_or("", |part| part.name()))
            }
            None if self.size == 1 => self.name.clone(),
            None => format!("{}[{element}]", self.name),
        }
    }

    /// The code of a category: NaN for a value that training has not seen, which is a missing one to every model. `None`
    /// where the column is not text.
    pub fn category(&self, value: &str) -> Option<f32> {
        let categories = self.categories.as_ref()?;
        if self.hashed {
            return Some(self.known(bucket(value, u32::try_from(categories.len()).unwrap_or(u32::MAX)) as f32));
        }
        self.code(value)
    }

    /// A code, or NaN where it is that of a bucket without a training row.
    fn known(&self, code: f32) -> f32 {
        if self.empty.binary_search(&(code as u32)).is_ok() { f32::NAN } else { code }
    }

    /// The code of a category by its name, which of a hashed column is that of a bucket.
    pub fn code(&self, name: &str) -> Option<f32> {
        self.categories.as_ref().map(|categories| categories.get(name).map_or(f32::NAN, |code| self.known(*code)))
    }

    pub fn is_category(&self) -> bool {
        self.categories.is_some()
    }

    /// Whether its categories are numbers or booleans.
    pub fn has_number_categories(&self) -> bool {
        self.is_category() && (self.is_whole || self.is_boolean)
    }

    /// Whether its categories are dates.
    pub fn has_date_categories(&self) -> bool {
        self.is_category() && self.is_date
    }

    /// The code of a category that is a number, or a boolean as 0 or 1.
    pub fn category_of_number(&self, value: f64) -> f32 {
        let whole = value.fract() == 0.0 && value.abs() < 9.2e18;
        let code = match (self.is_boolean, value) {
            (true, 0.0) => self.category(bool_word(false)),
            (true, 1.0) => self.category(bool_word(true)),
            (false, value) if whole => self.category(&(value as i64).to_string()),
            _ => None,
        };
        code.unwrap_or(f32::NAN)
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
    if Stored::is_one(stored) {
        return compiled::image_of_family(stored);
    }
    let ensemble = forest::xgboost::read(stored)
        .map_err(|error| Error::corrupted(format!("the model cannot be read: {error}")))?;
    if ensemble.num_features as usize > MOST_FEATURES {
        return Err(Error::unsupported(format!(
            "the model has {} features: the limit is {MOST_FEATURES}",
            ensemble.num_features
        )));
    }
    let meta = describe(&ensemble)?.to_json();
    forest::compile(&ensemble, meta.as_bytes())
        .map_err(|error| Error::corrupted(format!("the model cannot be compiled: {error}")))
}

/// What training wrote into the model; for a model that was trained elsewhere, what can be told from the model itself:
/// its feature names, and classes 0, 1, 2, ... where its objective makes classes.
pub fn describe(ensemble: &Ensemble) -> Result<ModelMeta> {
    if let Some(json) = ensemble.attributes.get(model_meta::ATTRIBUTE) {
        return ModelMeta::from_json(json).map_err(|error| Error::corrupted(error.to_string()));
    }
    Description::of_ensemble(ensemble, Vec::new()).meta(&Given::default())
}
