//! The description of a model that was trained elsewhere, made from its file and from the arguments of the import.

use std::collections::HashSet;

use forest::Ensemble;
use forest::ensemble::Transform;
use learn::foreign::Foreign;
use pgrx::PgSqlErrorCode;

use crate::error::{Error, Result};
use crate::features::MOST_FEATURES;
use crate::model_meta::{Class, FeatureColumn, LabelColumn, ModelMeta, Task};

/// What a label is called whose name a library's file does not have, and of several the beginning of that.
pub const UNNAMED_LABEL: &str = "label";

/// What can be told from a model itself.
pub struct Description {
    /// Its features' names; empty where it has none.
    names: Vec<String>,
    /// For each feature its categories, where it is a text to SQL; or none at all.
    categories: Vec<Option<Vec<String>>>,
    width: usize,
    outputs: usize,
    /// How many classes it tells apart; `None` for a regression.
    classes: Option<usize>,
    /// Their names, where it knows them.
    class_names: Vec<String>,
    objective: String,
}

/// What its owner says.
#[derive(Default)]
pub struct Given {
    pub task: Option<Task>,
    pub features: Option<Vec<String>>,
    /// How many features each of them is, where some are arrays; or none at all.
    pub sizes: Vec<u32>,
    pub classes: Option<Vec<String>>,
}

impl Description {
    /// `categories`: of each feature that is a text to SQL, or none at all.
    pub fn of_ensemble(ensemble: &Ensemble, categories: Vec<Option<Vec<String>>>) -> Description {
        let outputs = ensemble.num_outputs as usize;
        let classes = match ensemble.transform {
            Transform::Softmax | Transform::Argmax => Some(outputs),
            Transform::Hinge => Some(2),
            // Of several targets each is a probability of its own.
            _ if ensemble.objective.starts_with("binary:") && outputs == 1 => Some(2),
            _ => None,
        };
        Description {
            names: ensemble.feature_names.clone(),
            categories,
            width: ensemble.num_features as usize,
            outputs,
            classes,
            class_names: Vec::new(),
            objective: ensemble.objective.clone(),
        }
    }

    pub fn of_foreign(foreign: &Foreign) -> Description {
        Description {
            names: foreign.features.clone(),
            categories: foreign.categories.clone(),
            width: foreign.width,
            outputs: foreign.outputs,
            classes: foreign.classifies.then_some(foreign.outputs),
            class_names: foreign.classes.clone(),
            objective: foreign.objective.clone(),
        }
    }

    /// The description. Names and numbers that do not agree are an error.
    pub fn meta(self, given: &Given) -> Result<ModelMeta> {
        if self.width > MOST_FEATURES {
            return Err(Error::unsupported(format!(
                "the model has {} features: the limit is {MOST_FEATURES}",
                self.width
            )));
        }
        let task = if self.classes.is_some() { Task::Classification } else { Task::Regression };
        if let Some(asked) = given.task
            && asked != task
        {
            return Err(Error::invalid(format!(
                "the model is for {}, by its objective \"{}\", not for {}",
                task.name(),
                self.objective,
                asked.name()
            ))
            .hint("Leave task out."));
        }
        Ok(ModelMeta {
            task,
            columns: self.columns(given)?,
            labels: self.labels(given)?,
            pipeline: None,
            split: None,
            positive: None,
        })
    }

    fn columns(&self, given: &Given) -> Result<Vec<FeatureColumn>> {
        let names = match (&given.features, self.names.is_empty()) {
            (None, false) => self.names.clone(),
            (None, true) => (0..self.width).map(|index| format!("f{index}")).collect(),
            (Some(names), _) if given.sizes.iter().any(|size| *size != 1) => {
                let width = given.sizes.iter().map(|size| *size as usize).sum::<usize>();
                if width != self.width {
                    return Err(Error::invalid(format!(
                        "the columns have {}, and the model has {}",
                        learn::count(width, "feature"),
                        self.width
                    )));
                }
                check_features(names, given.sizes.len(), &[])?;
                return Ok(names.iter().zip(&given.sizes).map(|(name, size)| quantity(name, *size)).collect());
            }
            (Some(given), _) => {
                check_features(given, self.width, &self.names)?;
                given.clone()
            }
        };
        let mut categories = self.categories.iter().cloned();
        Ok(names
            .into_iter()
            .map(|name| {
                let quantity = quantity(&name, 1);
                match categories.next().flatten() {
                    Some(names) => FeatureColumn { pg_type: "text".to_owned(), categories: Some(names), ..quantity },
                    None => quantity,
                }
            })
            .collect())
    }

    fn labels(&self, given: &Given) -> Result<Vec<LabelColumn>> {
        let label = |name: String, pg_type: &str, classes| LabelColumn { name, pg_type: pg_type.to_owned(), classes };
        let Some(count) = self.classes else {
            if given.classes.is_some() {
                return Err(
                    Error::invalid("classes are given, and the model is for regression").hint("Leave classes out.")
                );
            }
            return Ok(match self.outputs {
                1 => vec![label(UNNAMED_LABEL.to_owned(), "real", None)],
                several => (0..several).map(|index| label(format!("{UNNAMED_LABEL}{index}"), "real", None)).collect(),
            });
        };
        let names = match &given.classes {
            Some(names) => {
                check_classes(names, count, &self.class_names)?;
                names.clone()
            }
            None if self.class_names.len() == count => self.class_names.clone(),
            None => (0..count).map(|index| index.to_string()).collect(),
        };
        let numbers: Option<Vec<f32>> =
            names.iter().map(|name| name.parse::<f32>().ok().filter(|number| number.is_finite())).collect();
        let pg_type = if numbers.is_some() { "real" } else { "text" };
        let values = numbers.unwrap_or_else(|| (0..count).map(|index| index as f32).collect());
        let classes = names.into_iter().zip(values).map(|(text, value)| Class { text, value }).collect();
        Ok(vec![label(UNNAMED_LABEL.to_owned(), pg_type, Some(classes))])
    }
}

/// A column of numbers, or of arrays of so many.
fn quantity(name: &str, size: u32) -> FeatureColumn {
    let pg_type = if size == 1 { "real" } else { "real[]" };
    FeatureColumn {
        name: name.to_owned(),
        pg_type: pg_type.to_owned(),
        size,
        categories: None,
        hashed: false,
        empty: Vec::new(),
        origins: Vec::new(),
    }
}

/// That these are names for the features of a model, and those of the model, where it has any.
pub fn check_features(given: &[String], width: usize, own: &[String]) -> Result<()> {
    if given.len() != width {
        return Err(Error::invalid(format!(
            "features has {}, and the model has {}",
            learn::count(given.len(), "name"),
            learn::count(width, "feature")
        )));
    }
    let mut seen = HashSet::new();
    if let Some(name) = given.iter().find(|name| !seen.insert(name.as_str())) {
        let code = PgSqlErrorCode::ERRCODE_DUPLICATE_COLUMN;
        return Err(Error::new(code, format!("features has \"{name}\" twice")));
    }
    if given.iter().any(String::is_empty) {
        return Err(Error::invalid("features has an empty name"));
    }
    match own.iter().zip(given).position(|(own, given)| own != given) {
        Some(index) => Err(Error::invalid(format!(
            "feature {} of the model is \"{}\", and features has \"{}\" in its place",
            index + 1,
            own[index],
            given[index]
        ))
        .hint("The model knows its features: leave features out.")),
        None => Ok(()),
    }
}

/// That these are names for the classes of a model, and those of the model, where it has any.
pub fn check_classes(given: &[String], count: usize, own: &[String]) -> Result<()> {
    if given.len() != count {
        return Err(Error::invalid(format!(
            "classes has {}, and the model has {}",
            learn::count(given.len(), "name"),
            learn::count(count, "class")
        )));
    }
    let mut seen = HashSet::new();
    if let Some(name) = given.iter().find(|name| !seen.insert(name.as_str())) {
        return Err(Error::invalid(format!("classes has \"{name}\" twice")));
    }
    match own.iter().zip(given).position(|(own, given)| own != given) {
        Some(index) => Err(Error::invalid(format!(
            "class {index} of the model is \"{}\", and classes has \"{}\" in its place",
            own[index], given[index]
        ))
        .hint("The model knows its classes: leave classes out.")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description(classes: Option<usize>) -> Description {
        Description {
            names: vec!["a".into(), "b".into()],
            categories: vec![None, Some(vec!["x".into()])],
            width: 2,
            outputs: classes.unwrap_or(1),
            classes,
            class_names: Vec::new(),
            objective: "multi:softprob".into(),
        }
    }

    fn names(names: &[&str]) -> Option<Vec<String>> {
        Some(names.iter().map(|name| (*name).to_owned()).collect())
    }

    #[test]
    fn classes_that_are_numbers_are_values() {
        let given = Given { classes: names(&["1", "2.5", "7"]), ..Given::default() };
        let meta = description(Some(3)).meta(&given);
        let values = meta.ok().and_then(|meta| meta.labels.into_iter().next()).and_then(|label| label.classes);
        let values: Vec<f32> = values.unwrap_or_default().iter().map(|class| class.value).collect();
        assert_eq!(values, [1.0, 2.5, 7.0]);
    }

    #[test]
    fn what_does_not_agree_is_an_error() {
        for given in [
            Given { features: names(&["a"]), ..Given::default() },
            Given { features: names(&["b", "a"]), ..Given::default() },
            Given { features: names(&["a", "a"]), ..Given::default() },
            Given { classes: names(&["x", "y"]), ..Given::default() },
            Given { classes: names(&["x", "y", "x"]), ..Given::default() },
            Given { task: Some(Task::Regression), ..Given::default() },
        ] {
            assert!(description(Some(3)).meta(&given).is_err());
        }
        assert!(description(None).meta(&Given { classes: names(&["x"]), ..Given::default() }).is_err());
    }

    #[test]
    fn several_targets_have_a_label_each() {
        let meta = Description { outputs: 3, ..description(None) }.meta(&Given::default());
        assert_eq!(meta.map(|meta| meta.labels.len()).unwrap_or_default(), 3);
    }
}
