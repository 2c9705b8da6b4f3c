//! `pgml.import_model`: a model that was trained elsewhere becomes a model of a project.

use pgrx::{IntoDatum, pg_sys};
use serde_json::Value;

use super::description::Given;
use super::read::{self, Carried, Format};
use super::sample;
use crate::access;
use crate::error::{Error, Result};
use crate::features::MOST_FEATURES;
use crate::memory::GivenBack;
use crate::model_meta::Task;
use crate::names;
use crate::registry::{self, NewModel};
use crate::sql::{Call, LONGEST_NAME, text_datum};

crate::sql_function!(pgml_import_model, import_model);

/// Bytes of a model: read in seconds, and within memory that is in proportion.
pub const LONGEST_MODEL: usize = 256 << 20;

/// Classes of a model.
const MOST_CLASSES: usize = 1 << 16;

fn import_model(call: &Call) -> Result<pg_sys::Datum> {
    let _given_back = GivenBack;
    let required = |name| move || Error::null_argument(name);
    let project = call.text(0, "project_name", names::LONGEST)?.ok_or_else(required("project_name"))?;
    if project.trim().is_empty() {
        return Err(Error::invalid("project_name must not be empty"));
    }
    let format = call.text(2, "format", LONGEST_NAME)?.map(|name| Format::parse(&name)).transpose()?;
    let task = call.text(3, "task", LONGEST_NAME)?.map(|name| parse_task(&name)).transpose()?;
    let features = call.text_array(4, "features", MOST_FEATURES, LONGEST_NAME)?;
    let classes = call.text_array(5, "classes", MOST_CLASSES, LONGEST_NAME)?;
    let (sample, expected) = (call.json(6, "sample")?, call.json(7, "expected")?);
    let deploy = call.bool(8);
    registry::check_writable(c"pgml.import_model()")?;
    let deploying = deploys(&project, deploy)?;
    access::require_training(&project, deploying)?;

    let data = call.bytes(1, "data", LONGEST_MODEL)?.ok_or_else(required("data"))?;
    let format = format.unwrap_or_else(|| Format::of(&data));
    let carried = read::read(data, format, &Given { task, features, classes, sizes: Vec::new() })?;
    match (given(sample), given(expected)) {
        (Some(sample), Some(expected)) => sample::check(&carried.model, &sample, &expected)?,
        (None, None) => {}
        _ => return Err(Error::invalid("sample and expected are given together, or not at all")),
    }
    pgrx::check_for_interrupts!();
    let (model, deployed) = store(&project, &carried, "{}".to_owned(), "{}".to_owned(), deploy)?;
    call.rows(&[vec![
        Some(text_datum(&project)),
        Some(text_datum(carried.task.name())),
        Some(text_datum(&carried.algorithm)),
        deployed.into_datum(),
        model.into_datum(),
    ]])
}

/// JSON's null is as NULL.
fn given(value: Option<Value>) -> Option<Value> {
    value.filter(|value| !value.is_null())
}

fn parse_task(name: &str) -> Result<Task> {
    Task::parse(name).ok_or_else(|| {
        Error::invalid(format!("there is no task \"{name}\""))
            .hint("Use regression, classification, clustering or decomposition.")
    })
}

/// Whether a model that comes into the project now is to be deployed: where nothing else is said, the first one is.
pub fn deploys(project: &str, asked: Option<bool>) -> Result<bool> {
    match asked {
        Some(asked) => Ok(asked),
        None => match registry::find_project(project)? {
            Some(project) => Ok(registry::deployed_model(project.id)?.is_none()),
            None => Ok(true),
        },
    }
}

/// Writes the model down, for the current role; gives its id, and whether it is deployed. The role was found to be
/// allowed to before, and is asked for again here.
pub fn store(
    name: &str,
    carried: &Carried,
    hyperparams: String,
    metrics: String,
    deploy: Option<bool>,
) -> Result<(i64, bool)> {
    let task = carried.task.name();
    let deploying = deploys(name, deploy)?;
    let project = registry::project_to_add_to(name, task, deploying)?;
    if project.task != task {
        return Err(Error::invalid(format!("project \"{name}\" is for {}, and the model for {task}", project.task))
            .hint("Use another project_name."));
    }
    let model_id = registry::next_id(c"models_id_seq")?;
    registry::insert_model(&NewModel {
        id: model_id,
        project_id: project.id,
        snapshot_id: None,
        num_features: i32::try_from(carried.model.width()).unwrap_or(i32::MAX),
        algorithm: &carried.algorithm,
        hyperparams,
        metrics,
        search: None,
    })?;
    registry::insert_file(model_id, carried.path, &carried.bytes)?;
    if deploying {
        registry::insert_deployment(project.id, model_id, "specific")?;
    }
    Ok((model_id, deploying))
}
