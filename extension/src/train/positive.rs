//! The class that is looked for: f1, precision, recall and the curves of a classification are of it.

use serde_json::{Map, Value, json};

use super::columns::Data;
use super::defaults::quoted;
use super::label::Classes;
use super::request::Request;
use crate::error::{Error, Result};
use crate::registry::{self, Project};

/// The index of the class that the training names, or the last one of its project did. Otherwise it is, of two classes,
/// true, the greater number, or the text that fewer rows have; of more there is none. docs/design/scores.md
/// has the reasons.
pub fn of(request: &Request, project: Option<&Project>, data: &Data) -> Result<Option<u32>> {
    let Some(label) = data.labels.first() else { return Ok(None) };
    let Some(classes) = &label.classes else { return Ok(None) };
    let names = data.class_names();
    let index = |name: &String| names.iter().position(|class| class == name);
    let found = match &request.positive_class {
        Some(name) => Some(index(name).ok_or_else(|| {
            Error::invalid(format!("positive_class \"{name}\" is not a class of label \"{}\"", label.name))
                .hint(crate::nearest::hint(name, &names))
        })?),
        None => {
            let before = project.map(|project| registry::positive_class(project.id)).transpose()?.flatten();
            before.as_ref().and_then(index).or_else(|| unnamed(classes))
        }
    };
    Ok(found.and_then(|index| u32::try_from(index).ok()))
}

fn unnamed(classes: &Classes) -> Option<usize> {
    match (classes, classes.members().as_slice()) {
        (Classes::Text(_), [first, second]) => Some(usize::from(second <= first)),
        (_, [_, _]) => Some(1),
        _ => None,
    }
}

/// What is to be said where the positive class is the first one: for the libraries it is the second, which their
/// `scale_pos_weight` weighs and some metrics of XGBoost's are of.
pub fn of_other(hyperparams: &Map<String, Value>, data: &Data) -> Vec<String> {
    let names = data.class_names();
    let ([first, second], Some(0)) = (names.as_slice(), data.positive) else { return Vec::new() };
    let mut said = Vec::new();
    if let Some(weight) = hyperparams.get("scale_pos_weight").filter(|weight| weight.as_f64() != Some(1.0)) {
        let instead = Map::from_iter([("class_weight".to_owned(), json!({ first: weight }))]);
        said.push(format!(
            "scale_pos_weight weighs class \"{second}\", which is the second one, and not the positive class \"{first}\": \
             hyperparams => '{}' weighs that one",
            quoted(&instead)
        ));
    }
    let metrics = match hyperparams.get("eval_metric") {
        Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
        given => Vec::from_iter(given.and_then(Value::as_str)),
    };
    let of_second = |name: &&str| OF_SECOND.contains(&name.split('@').next().unwrap_or_default());
    if let Some(metric) = metrics.into_iter().find(of_second) {
        said.push(format!(
            "eval_metric {metric}, in the learning curve and for early stopping, is of class \"{second}\", which is the second \
             one, and not of the positive class \"{first}\", as f1 and average_precision are: \
             auc and logloss are of both, and positive_class => '{}' looks for the other",
            second.replace('\'', "''")
        ));
    }
    said
}

/// XGBoost's metrics that are of the second of two classes.
const OF_SECOND: &[&str] = &["aucpr", "pre", "map", "ndcg", "ams"];
