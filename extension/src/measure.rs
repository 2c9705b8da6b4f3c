//! The metrics of a model, row by row: in a training, of the rows that it was not trained on, and in `pgml.evaluate`.

use learn::family::Control;
use learn::metrics::conformal::{Residuals, Summary};
use learn::metrics::{self, Named};
use serde_json::{Map, Value, json};

use crate::error::Result;
use crate::model::Model;
use crate::model_meta::Task;
use crate::train::interrupts;

/// The seed of the sample that a silhouette is of, where there are many rows.
const SEED: u64 = 0;

/// With more classes the metrics of each are left out.
const MOST_CLASSES: usize = 100;

/// What the metrics are made of.
pub struct Measures {
    sums: Sums,
    /// Where they are asked for, how far the predictions of a regression of one label are off.
    residuals: Option<Residuals>,
    /// The row being taken, as the model sees it.
    finished: Vec<f32>,
}

enum Sums {
    /// One for each target.
    Regression(Vec<metrics::Regression>),
    Classification {
        sums: metrics::Classification,
        /// Whether the model's values are probabilities of the rows' classes.
        probabilities: bool,
    },
    Clustering(metrics::Clustering),
    Decomposition(metrics::Decomposition),
    Outliers(metrics::Outliers),
}

impl Measures {
    /// Of rows with so many classes, which are the model's own where `same_classes` is set. At most so many
    /// probabilities are kept for what needs all of them.
    pub fn new(model: &Model, classes: usize, same_classes: bool, most_scores: usize) -> Result<Measures> {
        let width = model.finished_width();
        let sums = match model.task {
            // Labels are times, and how far a hazard is from them means nothing.
            Task::Regression if model.gives_hazards() => Sums::Regression(Vec::new()),
            Task::Regression => Sums::Regression(vec![metrics::Regression::new(); model.labels.len().max(1)]),
            Task::Classification => Sums::Classification {
                sums: metrics::Classification::new(u32::try_from(classes).unwrap_or(u32::MAX))
                    .keeping(most_scores)
                    .of_class(model.positive.and_then(|class| u32::try_from(class).ok())),
                probabilities: model.gives_probabilities() && same_classes,
            },
            Task::Clustering => Sums::Clustering(metrics::Clustering::new(width, SEED)),
            Task::Decomposition => Sums::Decomposition(metrics::Decomposition::new(width, model.num_values())?),
            Task::Anomaly => Sums::Outliers(metrics::Outliers::default()),
            // Its models predict no rows.
            Task::Forecast => Sums::Regression(Vec::new()),
        };
        Ok(Measures { sums, residuals: None, finished: Vec::new() })
    }

    /// The same, where another class of the rows than the model's own is looked for.
    pub fn of_class(mut self, positive: Option<u32>) -> Measures {
        if let Sums::Classification { sums, .. } = &mut self.sums {
            *sums = std::mem::replace(sums, metrics::Classification::new(0)).of_class(positive);
        }
        self
    }

    /// The same, with what intervals around predictions are made of.
    pub fn with_residuals(self) -> Measures {
        let one = matches!(&self.sums, Sums::Regression(each) if each.len() == 1);
        Measures { residuals: one.then(Residuals::default), ..self }
    }

    /// Takes the features of a row, its labels, the model's values and the class, among those of the rows, that these
    /// speak for.
    pub fn add(&mut self, model: &Model, row: &[f32], labels: &[f32], values: &[f32], class: u32) -> Result<()> {
        match &mut self.sums {
            Sums::Regression(each) => {
                let values = model.estimates(values);
                for ((sums, label), value) in each.iter_mut().zip(labels).zip(values) {
                    sums.add(f64::from(*label), f64::from(*value));
                }
                if let (Some(residuals), [label], [value]) = (&mut self.residuals, labels, values) {
                    residuals.add(f64::from(*label), f64::from(*value))?;
                }
            }
            Sums::Classification { sums, probabilities } => {
                let label = labels.first().copied().unwrap_or(0.0) as u32;
                match (probabilities, values) {
                    // Of two classes one probability is enough.
                    (true, [_, second]) => sums.add(label, &[*second]),
                    (true, values) => sums.add(label, values),
                    (false, _) => sums.add_class(label, class),
                }
            }
            Sums::Clustering(sums) => {
                model.finish(row, &mut self.finished)?;
                sums.add(&self.finished, values.first().map_or(-1, |value| *value as i32))?;
            }
            Sums::Decomposition(sums) => {
                model.finish(row, &mut self.finished)?;
                sums.add(&self.finished, values);
            }
            Sums::Outliers(sums) => sums.add(values.first().map_or(f64::NAN, |score| f64::from(*score))),
        }
        Ok(())
    }

    /// What intervals around predictions are made of, as it is kept in `pgml.models.residuals`.
    pub fn conformal(&self) -> Option<Value> {
        let Summary { rows, distances } = self.residuals.as_ref()?.summary()?;
        // As few digits as tell them apart.
        let short = |distance: &f32| distance.to_string().parse::<f64>().unwrap_or_default();
        Some(json!({ "rows": rows, "distances": distances.iter().map(short).collect::<Vec<_>>() }))
    }

    /// The metrics of each class, by these names of the classes, and which one is looked for; nothing of what has none, and
    /// nothing of the single classes where they are too many to read.
    pub fn by_class(&self, names: &[&str]) -> Map<String, Value> {
        let mut found = Map::new();
        let Sums::Classification { sums, .. } = &self.sums else { return found };
        if let Some(name) = sums.positive().and_then(|class| names.get(class as usize)) {
            found.insert("positive_class".into(), json!(name));
        }
        if names.len() <= MOST_CLASSES {
            let classes = names.iter().zip(sums.by_class()).map(|(name, class)| {
                let metrics = json!({
                    "precision": class.precision(), "recall": class.recall(), "f1": class.f1(),
                    "rows": class.rows, "predicted": class.predicted,
                });
                ((*name).to_owned(), metrics)
            });
            found.insert("classes".into(), Value::Object(classes.collect()));
        }
        found
    }

    /// The metrics that are defined for the rows, by their names.
    pub fn all(&self) -> Result<Map<String, Value>> {
        let named = match &self.sums {
            Sums::Regression(each) => mean_of(each.iter().map(metrics::Regression::all).collect()),
            Sums::Classification { sums, .. } => sums.all(),
            Sums::Clustering(sums) => {
                let mut ask = |_| {
                    interrupts::check();
                    Ok(())
                };
                sums.all(&mut Control::new(&mut ask))?
            }
            Sums::Decomposition(sums) => sums.all(),
            Sums::Outliers(sums) => sums.all(),
        };
        Ok(to_json(named))
    }
}

/// The mean of each metric over several targets.
fn mean_of(each: Vec<Vec<Named>>) -> Vec<Named> {
    let count = each.len().max(1) as f64;
    let Some((first, others)) = each.split_first() else { return Vec::new() };
    let sum = |name: &str, value: Option<f64>| {
        others.iter().try_fold(value?, |sum, metrics| {
            let (_, value) = metrics.iter().find(|(other, _)| *other == name)?;
            value.map(|value| sum + value)
        })
    };
    first.iter().map(|(name, value)| (*name, sum(name, *value).map(|sum| sum / count))).collect()
}

/// Those that are defined.
pub fn to_json(metrics: Vec<Named>) -> Map<String, Value> {
    metrics.into_iter().filter_map(|(name, value)| value.map(|value| (name.to_owned(), json!(value)))).collect()
}

/// What [`Measures::conformal`] made.
pub fn conformal(residuals: &Value) -> Option<Summary> {
    let distances = residuals.get("distances")?.as_array()?;
    let distances: Option<Vec<f32>> = distances.iter().map(|distance| Some(distance.as_f64()? as f32)).collect();
    Some(Summary { rows: residuals.get("rows")?.as_u64()?, distances: distances? })
}
