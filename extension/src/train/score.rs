//! How good a model is on test rows, predicted as `pgml.predict` will predict.

use learn::metrics::MOST_SCORES;
use learn::split::Split;
use serde_json::{Map, Value};

use super::columns::Data;
use super::compare::{GROUPS, Groups};
use super::interrupts;
use super::view::{Part, View};
use crate::error::{Error, Result};
use crate::measure::Measures;
use crate::memory;
use crate::metric::Metric;
use crate::model::Model;
use crate::model_meta::{LabelColumn, Task};

/// A model, and how its classes map to those of a training's rows.
pub struct Scorer {
    model: Model,
    /// Whether it is the deployed model, which has read the rows for itself.
    is_rival: bool,
    /// By class of the model: the class of the rows, if they have it. `None` if they are the same.
    classes: Option<Vec<Option<u32>>>,
}

/// Rows of which groups are left out in turn: the error of more is told from these.
const MOST_LEFT_OUT: usize = 100_000;

/// A metric of a model on some rows, and how it varies with them.
pub struct Grades {
    pub score: Option<f64>,
    /// Without each group of rows; empty where that is not known.
    without: Vec<f64>,
    /// Of all rows the part that these are of.
    looked_at: f64,
}

impl Grades {
    /// The standard error of the difference to another model's on the same rows, by the grouped jackknife.
    pub fn error_of_difference(&self, other: &Grades) -> Option<f64> {
        let differences: Vec<f64> = self.without.iter().zip(&other.without).map(|(one, other)| one - other).collect();
        if differences.len() < GROUPS {
            return None;
        }
        let count = differences.len() as f64;
        let mean = differences.iter().sum::<f64>() / count;
        let squares: f64 = differences.iter().map(|difference| (difference - mean).powi(2)).sum();
        Some((squares * (count - 1.0) / count * self.looked_at).sqrt())
    }
}

impl Scorer {
    /// Of a model that takes the features of the training.
    pub fn new(model: Model, data: &Data) -> Scorer {
        Scorer { classes: map_classes(&model.labels, &data.meta().labels), model, is_rival: false }
    }

    /// Of the deployed model, which has read the rows.
    pub fn of_rival(model: Model, data: &Data) -> Scorer {
        Scorer { is_rival: true, ..Scorer::new(model, data) }
    }

    /// The classes that the model knows and the rows do not have, and those that the rows have and the model does not know.
    pub fn classes_apart(&self, data: &Data) -> (Vec<String>, Vec<String>) {
        let theirs: Vec<&str> = self.model.classes().iter().map(|class| class.text.as_str()).collect();
        let mut unknown = data.class_names();
        let lost = theirs.iter().filter(|class| !unknown.iter().any(|own| own == *class));
        let lost = lost.map(|class| (*class).to_owned()).collect();
        unknown.retain(|class| !theirs.contains(&class.as_str()));
        (lost, unknown)
    }

    /// Metrics on the test rows; empty if there are none.
    pub fn score(&self, data: &Data, split: &Split) -> Result<Map<String, Value>> {
        self.measure(data, split, false).map(|(metrics, _)| metrics)
    }

    /// The same; and, where all is asked for, the metrics of each class, and what intervals around predictions are made of,
    /// if there is any.
    pub fn measure(&self, data: &Data, split: &Split, all: bool) -> Result<(Map<String, Value>, Option<Value>)> {
        if split.test_rows() == 0 {
            return Ok((Map::new(), None));
        }
        let mut view = self.view(data, split);
        let mut measures = self.measures(data, MOST_SCORES)?;
        if all {
            measures = measures.with_residuals();
        }
        self.predict(&mut view, |features, labels, values| self.add(&mut measures, features, labels, values))?;
        let mut metrics = measures.all()?;
        if all {
            let classes = data.class_names();
            metrics.extend(measures.by_class(&classes.iter().map(String::as_str).collect::<Vec<_>>()));
        }
        Ok((metrics, measures.conformal()))
    }

    /// Sums of metrics of the rows, which are to keep at most so many scores.
    pub fn measures(&self, data: &Data, most_scores: usize) -> Result<Measures> {
        let (classes, same) = (data.classes().unwrap_or(2), self.classes.is_none());
        Ok(Measures::new(&self.model, classes, same, most_scores)?.of_class(data.positive))
    }

    /// Adds a row, which the model predicts these values for.
    pub fn add(&self, measures: &mut Measures, features: &[f32], labels: &[f32], values: &[f32]) -> Result<()> {
        measures.add(&self.model, features, labels, values, self.class(values))
    }

    /// Predicts one row.
    pub fn predict_row(&self, row: &[f32], values: &mut Vec<f32>) -> Result<()> {
        self.model.predict_all(row, values)
    }

    /// Calls with the features, the labels and the predicted values of each test row.
    pub fn predict_tests(
        &self,
        data: &Data,
        split: &Split,
        take: impl FnMut(&[f32], &[f32], &[f32]) -> Result<()>,
    ) -> Result<()> {
        self.predict(&mut self.view(data, split), take)
    }

    /// The metric on the test rows.
    pub fn value(&self, data: &Data, split: &Split, metric: &Metric) -> Result<Option<f64>> {
        match metric.is_own() {
            false => Ok(metric.of(&self.score(data, split)?)),
            true if split.test_rows() == 0 => Ok(None),
            true => {
                let (labels, predictions) = self.pairs(data, split)?.into_iter().unzip();
                metric.of_pairs(labels, predictions)
            }
        }
    }

    /// The label and the prediction of each test row: of two classes 0 or 1 and the probability of the second, of more their
    /// numbers from 0.
    fn pairs(&self, data: &Data, split: &Split) -> Result<Vec<(f64, f64)>> {
        if self.model.labels.len() != 1 {
            return Err(Error::unsupported("an aggregate function takes one label, and the model has several"));
        }
        let mut pairs = Vec::new();
        memory::reserve(&mut pairs, usize::try_from(split.test_rows()).unwrap_or(usize::MAX))?;
        let of_two = data.classes() == Some(2) && self.classes.is_none() && self.model.gives_probabilities();
        let mut view = self.view(data, split);
        self.predict(&mut view, |_, labels, values| {
            let prediction = match (self.model.task, self.model.class_scores(values)) {
                (Task::Classification, Some([.., second])) if of_two => *second,
                (Task::Classification, _) => self.class(values) as f32,
                _ => self.model.estimates(values).first().copied().unwrap_or(f32::NAN),
            };
            pairs.push((f64::from(labels.first().copied().unwrap_or(f32::NAN)), f64::from(prediction)));
            Ok(())
        })?;
        Ok(pairs)
    }

    /// The same, where an aggregate function makes the metric.
    fn grade_pairs(&self, data: &Data, split: &Split, metric: &Metric, groups: &Groups) -> Result<Grades> {
        let pairs = self.pairs(data, split)?;
        let of = |without: Option<usize>| {
            let rows = if without.is_some() { MOST_LEFT_OUT } else { usize::MAX };
            let kept = pairs.iter().take(rows).enumerate().filter(|(row, _)| without != Some(groups.get(*row)));
            let (labels, predictions) = kept.map(|(_, pair)| *pair).unzip();
            interrupts::check();
            metric.of_pairs(labels, predictions)
        };
        let without: Result<Option<Vec<f64>>> = (0..GROUPS).map(|group| of(Some(group))).collect();
        let looked_at = pairs.len().min(MOST_LEFT_OUT) as f64 / pairs.len().max(1) as f64;
        Ok(Grades { score: of(None)?, without: without?.unwrap_or_default(), looked_at })
    }

    /// The metric on the test rows, and on all of them but those of each group in turn.
    pub fn grade(&self, data: &Data, split: &Split, metric: &Metric, groups: &Groups) -> Result<Grades> {
        if metric.is_own() {
            return self.grade_pairs(data, split, metric, groups);
        }
        let (classes, same) = (data.classes().unwrap_or(2), self.classes.is_none());
        let jackknife = self.model.task.has_label();
        let parts = if jackknife { GROUPS + 1 } else { 1 };
        let mut all = Measures::new(&self.model, classes, same, MOST_SCORES / parts)?.of_class(data.positive);
        let mut without = Vec::new();
        for _ in 1..parts {
            without.push(Measures::new(&self.model, classes, same, MOST_SCORES / parts)?.of_class(data.positive));
        }
        let mut rows = 0;
        let mut view = self.view(data, split);
        self.predict(&mut view, |features, labels, values| {
            let class = self.class(values);
            all.add(&self.model, features, labels, values, class)?;
            if rows < MOST_LEFT_OUT {
                let group = groups.get(rows);
                for (_, others) in without.iter_mut().enumerate().filter(|(number, _)| *number != group) {
                    others.add(&self.model, features, labels, values, class)?;
                }
            }
            rows += 1;
            Ok(())
        })?;
        let without: Result<Option<Vec<f64>>> =
            without.iter().map(|others| Ok(metric.of(&others.all()?))).collect::<Result<_>>();
        let looked_at = rows.min(MOST_LEFT_OUT) as f64 / rows.max(1) as f64;
        Ok(Grades { score: metric.of(&all.all()?), without: without?.unwrap_or_default(), looked_at })
    }

    /// The class of the rows that the model's values speak for; one that no row has if the rows do not know it.
    fn class(&self, values: &[f32]) -> u32 {
        let class = self.model.class_index(values).unwrap_or(usize::MAX);
        match &self.classes {
            None => u32::try_from(class).unwrap_or(u32::MAX),
            Some(classes) => {
                let unknown = u32::try_from(classes.len()).unwrap_or(u32::MAX);
                classes.get(class).copied().flatten().unwrap_or(unknown)
            }
        }
    }

    /// The rows that a split holds out: of a rival those of its own spool.
    fn view<'a>(&self, data: &'a Data, split: &'a Split) -> View<'a> {
        match data.rival.as_ref().filter(|_| self.is_rival) {
            Some(rival) => View::of_rival(data, rival, split),
            None => View::new(data, split, true, u64::MAX),
        }
    }

    /// Calls with the features, the labels and the predicted values of each row.
    fn predict(&self, view: &mut View<'_>, mut take: impl FnMut(&[f32], &[f32], &[f32]) -> Result<()>) -> Result<()> {
        let (width, values) = (self.model.width().max(1), self.model.num_values().max(1));
        let mut out = Vec::new();
        while let Some(Part { rows: count, features: rows, labels, .. }) = view.chunk()? {
            if rows.len() != count * width {
                return Err(Error::corrupted("a model's features differ from its description"));
            }
            let targets = labels.len() / count.max(1);
            // A model that is slow is given fewer rows between two looks for interrupts.
            let at_once = ((1 << 24) / self.model.work().max(1)).clamp(1, count.max(1));
            for (block, rows) in rows.chunks(at_once * width).enumerate() {
                out.clear();
                self.model.predict_all(rows, &mut out)?;
                let first = block * at_once;
                for (row, values) in out.chunks_exact(values).enumerate() {
                    let labels = labels.get((first + row) * targets..(first + row + 1) * targets).unwrap_or(&[]);
                    let features = rows.get(row * width..(row + 1) * width).unwrap_or(&[]);
                    take(features, labels, values)?;
                }
                interrupts::check();
            }
        }
        Ok(())
    }
}

fn map_classes(theirs: &[LabelColumn], ours: &[LabelColumn]) -> Option<Vec<Option<u32>>> {
    let (theirs, ours) = (theirs.first()?.classes.as_ref()?, ours.first()?.classes.as_ref()?);
    if theirs == ours {
        return None;
    }
    let index = |text: &String| ours.iter().position(|class| class.text == *text);
    Some(theirs.iter().map(|class| index(&class.text).and_then(|index| u32::try_from(index).ok())).collect())
}
