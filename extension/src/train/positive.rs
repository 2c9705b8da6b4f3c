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

/// What is to be said where the libraries' `scale_pos_weight`, which weighs the second class, does not weigh the positive one.
pub fn weighs_other(hyperparams: &Map<String, Value>, data: &Data) -> Option<String> {
    let weight = hyperparams.get("scale_pos_weight").filter(|weight| weight.as_f64() != Some(1.0))?;
    let names = data.class_names();
    let ([first, second], Some(0)) = (names.as_slice(), data.positive) else { return None };
    let instead = json!({ "class_weight": { first: weight } });
    Some(format!(
        "scale_pos_weight weighs class \"{second}\", which is the second one, and not the positive class \"{first}\": \
         hyperparams => '{}' weighs that one",
        quoted(instead.as_object()?)
    ))
}
