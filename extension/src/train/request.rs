//! The arguments of `pgml.train`, checked as far as they can be without looking at any table.

use learn::split::{Sampling, TestSize};
use pgrx::PgLogLevel;
use serde_json::{Map, Value, json};

use super::engine::ALGORITHMS;
use crate::error::{Error, Result};
use crate::model_meta::Task;
use crate::names;
use crate::sql::{Call, LONGEST_NAME};

/// Bytes of a relation's name or of a query in its place.
const LONGEST_QUERY: usize = 1 << 20;

/// What a call of `pgml.train` asks for.
pub struct Request {
    pub project_name: String,
    pub task: Option<Task>,
    pub relation_name: Option<String>,
    pub y_column_name: Option<String>,
    pub algorithm: String,
    pub hyperparams: Map<String, Value>,
    /// As it was given; [`TestSize`] can be made of it.
    pub test_size: f32,
    pub test_sampling: Sampling,
    pub automatic_deploy: bool,
    pub materialize_snapshot: bool,
}

impl Request {
    pub fn read(call: &Call) -> Result<Request> {
        let project_name =
            call.text(0, "project_name", names::LONGEST)?.ok_or_else(|| Error::null_argument("project_name"))?;
        if project_name.trim().is_empty() {
            return Err(Error::invalid("project_name must not be empty"));
        }
        let task = call.text(1, "task", LONGEST_NAME)?.map(|name| parse_task(&name)).transpose()?;
        let algorithm = call.enum_label(4).ok_or_else(|| Error::null_argument("algorithm"))?;
        if !ALGORITHMS.contains(&algorithm.as_str()) {
            return Err(Error::unsupported(format!("algorithm \"{algorithm}\" is not supported"))
                .detail(format!("Supported are {}.", ALGORITHMS.join(" and ")))
                .hint("Use algorithm => 'xgboost'."));
        }
        let hyperparams = object(call, 5, "hyperparams")?;
        if call.enum_label(6).is_some() || !object(call, 7, "search_params")?.is_empty() {
            return Err(later("hyperparameter search"));
        }
        if !object(call, 8, "search_args")?.is_empty() {
            return Err(later("hyperparameter search"));
        }
        let test_size = call.f32(9).ok_or_else(|| Error::null_argument("test_size"))?;
        TestSize::new(f64::from(test_size))?;
        let sampling = call.enum_label(10).ok_or_else(|| Error::null_argument("test_sampling"))?;
        match call.enum_label(11).as_deref() {
            None | Some("rust") => {}
            Some("python") => pgrx::ereport!(
                PgLogLevel::NOTICE,
                pgrx::PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
                "runtime \"python\" is accepted, but nothing here runs Python: the model is trained by the same library"
            ),
            Some(runtime) => {
                return Err(
                    Error::unsupported(format!("runtime \"{runtime}\" is not supported")).hint("Leave runtime out.")
                );
            }
        }
        if !object(call, 14, "preprocess")?.is_empty() {
            return Err(later("preprocess")
                .hint("Text columns and missing values need none: XGBoost takes categories and NULLs as they are."));
        }
        Ok(Request {
            project_name,
            task,
            relation_name: call.text(2, "relation_name", LONGEST_QUERY)?,
            y_column_name: call.text(3, "y_column_name", LONGEST_NAME)?,
            algorithm,
            hyperparams,
            test_size,
            test_sampling: Sampling::from_name(&sampling)
                .ok_or_else(|| Error::unsupported(format!("test_sampling \"{sampling}\" is not supported")))?,
            automatic_deploy: call.bool(12).unwrap_or(true),
            materialize_snapshot: call.bool(13).unwrap_or(false),
        })
    }

    /// For the queue of trainings.
    pub fn to_json(&self) -> Value {
        json!({
            "project_name": self.project_name,
            "task": self.task.map(Task::name),
            "relation_name": self.relation_name,
            "y_column_name": self.y_column_name,
            "algorithm": self.algorithm,
            "hyperparams": self.hyperparams,
            "test_size": self.test_size,
            "test_sampling": self.test_sampling.name(),
            "automatic_deploy": self.automatic_deploy,
            "materialize_snapshot": self.materialize_snapshot,
        })
    }

    /// What [`Request::to_json`] wrote; `None` for anything else.
    pub fn from_json(json: &Value) -> Option<Request> {
        let text = |name: &str| json.get(name)?.as_str().map(str::to_owned);
        let flag = |name: &str| json.get(name)?.as_bool();
        Some(Request {
            project_name: text("project_name")?,
            task: text("task").and_then(|name| Task::parse(&name)),
            relation_name: text("relation_name"),
            y_column_name: text("y_column_name"),
            algorithm: text("algorithm")?,
            hyperparams: json.get("hyperparams")?.as_object()?.clone(),
            test_size: json.get("test_size")?.as_f64()? as f32,
            test_sampling: Sampling::from_name(&text("test_sampling")?)?,
            automatic_deploy: flag("automatic_deploy")?,
            materialize_snapshot: flag("materialize_snapshot")?,
        })
    }

    /// Seed of the split, the one that the hyperparameters give the training too: 0 if they do not.
    pub fn seed(&self) -> u64 {
        let seed = ["random_state", "seed"].into_iter().find_map(|name| self.hyperparams.get(name));
        seed.and_then(Value::as_i64).map_or(0, i64::cast_unsigned)
    }
}

fn parse_task(name: &str) -> Result<Task> {
    Task::parse(name).ok_or_else(|| {
        Error::unsupported(format!("task \"{name}\" is not supported"))
            .detail("Supported are regression and classification.")
    })
}

fn later(what: &str) -> Error {
    Error::unsupported(format!("{what} is not supported yet")).detail("It comes in a later release.")
}

/// A `jsonb` argument that is an object; empty for NULL.
fn object(call: &Call, index: usize, name: &str) -> Result<Map<String, Value>> {
    match call.json(index, name)? {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(map)) => Ok(map),
        Some(other) => Err(Error::invalid(format!("{name} must be a JSON object, not {other}"))),
    }
}
