//! The arguments of `pgml.train`, checked as far as they can be without looking at any table.

use std::time::Duration;

use learn::auto;
use learn::preprocess::Spec;
use learn::split::{Sampling, TestSize};
use pgrx::{PgLogLevel, pg_sys};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::engine::ALGORITHMS;
use super::search::Search;
use super::series::Asked;
use crate::error::{Error, Result};
use crate::forecast;
use crate::model_meta::Task;
use crate::names;
use crate::registry::Snapshot;
use crate::sql::{Call, LONGEST_NAME};

/// Bytes of a relation's name or of a query in its place.
pub const LONGEST_QUERY: usize = 1 << 20;

/// The algorithm where none is asked for, as the functions are declared.
pub const ALGORITHM: &str = "linear";

/// The split where none is asked for, as the functions are declared.
const TEST_SIZE: f32 = 0.25;
const SAMPLING: Sampling = Sampling::Stratified;

/// Microseconds of a day, and of the longest time that an automatic choice may be given.
const DAY: i64 = 86_400_000_000;
const LONGEST_BUDGET: i64 = 30 * DAY;

/// Hyperparameters that seed the split, and what is random in the training.
pub const SEEDS: [&str; 2] = ["random_state", "seed"];

/// What a call of `pgml.train` asks for.
pub struct Request {
    pub project_name: String,
    pub task: Option<Task>,
    pub relation_name: Option<String>,
    /// The labels; several of a joint regression.
    pub y_column_name: Option<Vec<String>>,
    pub algorithm: String,
    pub hyperparams: Map<String, Value>,
    /// How others are searched for.
    pub search: Option<Search>,
    /// As it was given; [`TestSize`] can be made of it.
    pub test_size: f32,
    pub test_sampling: Sampling,
    pub automatic_deploy: bool,
    pub materialize_snapshot: bool,
    /// What is to be done to columns, each of which [`Spec::parse`] can read.
    pub preprocess: Map<String, Value>,
    /// By what models are compared; what the project has, or the task, where it is `None`.
    pub metric: Option<String>,
    /// Of a classification, the class that is looked for.
    pub positive_class: Option<String>,
    /// Whether the model is fitted again on all rows once its score is known; what `pgml.refit` says where it is `None`.
    pub refit: Option<bool>,
    /// What makes the series of a forecast.
    pub series: Asked,
    /// How long an automatic choice may look.
    pub time_budget: Option<Duration>,
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
        if algorithm != auto::NAME && !ALGORITHMS.contains(&algorithm.as_str()) {
            return Err(Error::unsupported(format!("algorithm \"{algorithm}\" is not supported"))
                .detail(format!("Supported are {}.", ALGORITHMS.join(", ")))
                .hint("Use algorithm => 'xgboost'."));
        }
        let hyperparams = object(call, 5, "hyperparams")?;
        let search = Search::read(
            call.enum_label(6).as_deref(),
            object(call, 7, "search_params")?,
            object(call, 8, "search_args")?,
        )?;
        let test_size = call.f32(9).ok_or_else(|| Error::null_argument("test_size"))?;
        TestSize::new(f64::from(test_size))?;
        let sampling = call.enum_label(10).ok_or_else(|| Error::null_argument("test_sampling"))?;
        match call.enum_label(11).as_deref() {
            None | Some("rust") => {}
            Some("python") => pgrx::ereport!(
                PgLogLevel::NOTICE,
                pgrx::PgSqlErrorCode::ERRCODE_SUCCESSFUL_COMPLETION,
                "runtime \"python\" is accepted, but has no effect: the model is trained as with runtime \"rust\""
            ),
            Some(runtime) => {
                return Err(
                    Error::unsupported(format!("runtime \"{runtime}\" is not supported")).hint("Leave runtime out.")
                );
            }
        }
        let preprocess = object(call, 14, "preprocess")?;
        for (column, spec) in &preprocess {
            Spec::parse(column, spec)?;
        }
        Ok(Request {
            project_name,
            task,
            relation_name: call.text(2, "relation_name", LONGEST_QUERY)?,
            y_column_name: labels(call)?,
            algorithm,
            hyperparams,
            search,
            test_size,
            test_sampling: known_sampling(&sampling)?,
            automatic_deploy: call.bool(12).unwrap_or(true),
            materialize_snapshot: call.bool(13).unwrap_or(false),
            preprocess,
            metric: call.text(15, "metric", LONGEST_NAME)?,
            positive_class: call.text(16, "positive_class", LONGEST_NAME)?,
            refit: call.bool(17),
            series: series(call)?,
            time_budget: time_budget(call)?,
        })
    }

    /// One of the rows, and in the way, of a project's last training.
    pub fn again(project_name: &str) -> Request {
        Request {
            project_name: project_name.to_owned(),
            task: None,
            relation_name: None,
            y_column_name: None,
            algorithm: String::new(),
            hyperparams: Map::new(),
            search: None,
            test_size: TEST_SIZE,
            test_sampling: SAMPLING,
            automatic_deploy: false,
            materialize_snapshot: false,
            preprocess: Map::new(),
            metric: None,
            positive_class: None,
            refit: None,
            series: Asked::default(),
            time_budget: None,
        }
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
            "search": self.search.as_ref().map(|search| search.method.name()),
            "search_params": self.search.as_ref().map(|search| &search.params),
            "search_args": self.search.as_ref().map(|search| &search.args),
            "test_size": self.test_size,
            "test_sampling": self.test_sampling.name(),
            "automatic_deploy": self.automatic_deploy,
            "materialize_snapshot": self.materialize_snapshot,
            "preprocess": self.preprocess,
            "metric": self.metric,
            "positive_class": self.positive_class,
            "refit": self.refit,
            "series": self.series,
            "time_budget": self.time_budget.map(|time| time.as_secs_f64()),
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
            y_column_name: match json.get("y_column_name")? {
                Value::Null => None,
                Value::String(name) => Some(vec![name.clone()]),
                names => {
                    Some(names.as_array()?.iter().map(|name| name.as_str().map(str::to_owned)).collect::<Option<_>>()?)
                }
            },
            algorithm: text("algorithm")?,
            hyperparams: json.get("hyperparams")?.as_object()?.clone(),
            search: {
                let map = |name: &str| json.get(name).and_then(Value::as_object).cloned().unwrap_or_default();
                Search::read(text("search").as_deref(), map("search_params"), map("search_args")).ok()?
            },
            test_size: json.get("test_size")?.as_f64()? as f32,
            test_sampling: Sampling::from_name(&text("test_sampling")?)?,
            automatic_deploy: flag("automatic_deploy")?,
            materialize_snapshot: flag("materialize_snapshot")?,
            preprocess: json.get("preprocess").and_then(Value::as_object).cloned().unwrap_or_default(),
            metric: text("metric"),
            positive_class: text("positive_class"),
            refit: flag("refit"),
            series: json.get("series").and_then(|series| Asked::deserialize(series).ok()).unwrap_or_default(),
            time_budget: json
                .get("time_budget")
                .and_then(Value::as_f64)
                .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()),
        })
    }

    /// The split of a training on the rows of the last one: that of the last one, where no other is asked for.
    pub fn split_after(&self, last: &Snapshot) -> (f32, Sampling) {
        let sampling = Sampling::from_name(&last.test_sampling).unwrap_or(SAMPLING);
        (
            if self.test_size == TEST_SIZE { last.test_size } else { self.test_size },
            if self.test_sampling == SAMPLING { sampling } else { self.test_sampling },
        )
    }

    /// Seed of the split, the one that the hyperparameters give the training too: 0 if they do not.
    pub fn seed(&self) -> u64 {
        let seed = SEEDS.into_iter().find_map(|name| self.hyperparams.get(name));
        seed.and_then(Value::as_i64).map_or(0, i64::cast_unsigned)
    }
}

/// What a call of `pgml.snapshot` asks for.
pub struct SnapshotRequest {
    pub relation_name: String,
    pub y_column_name: Option<String>,
    pub test_size: f32,
    pub test_sampling: Sampling,
    pub preprocess: Map<String, Value>,
}

impl SnapshotRequest {
    pub fn read(call: &Call) -> Result<SnapshotRequest> {
        let relation_name =
            call.text(0, "relation_name", LONGEST_QUERY)?.ok_or_else(|| Error::null_argument("relation_name"))?;
        let test_size = call.f32(2).ok_or_else(|| Error::null_argument("test_size"))?;
        TestSize::new(f64::from(test_size))?;
        let sampling = call.enum_label(3).ok_or_else(|| Error::null_argument("test_sampling"))?;
        Ok(SnapshotRequest {
            relation_name,
            y_column_name: call.text(1, "y_column_name", LONGEST_NAME)?,
            test_size,
            test_sampling: known_sampling(&sampling)?,
            preprocess: object(call, 4, "preprocess")?,
        })
    }
}

fn known_sampling(name: &str) -> Result<Sampling> {
    Sampling::from_name(name).ok_or_else(|| Error::unsupported(format!("test_sampling \"{name}\" is not supported")))
}

fn parse_task(name: &str) -> Result<Task> {
    // PostgresML called it so before it was a clustering.
    let known = if name == "cluster" { Some(Task::Clustering) } else { Task::parse(name) };
    known.ok_or_else(|| {
        Error::unsupported(format!("task \"{name}\" is not supported"))
            .detail("Supported are regression, classification, clustering, decomposition, anomaly and forecast.")
    })
}

/// The label or labels: `pgml.train` takes a text, `pgml.train_joint` an array of texts.
fn labels(call: &Call) -> Result<Option<Vec<String>>> {
    let Some(names) = call.texts(3, "y_column_name", LONGEST_NAME)? else { return Ok(None) };
    let twice = names.iter().enumerate().find(|(index, name)| names.iter().take(*index).any(|other| other == *name));
    if let Some((_, name)) = twice {
        return Err(Error::invalid(format!("y_column_name has \"{name}\" twice")));
    }
    match names.is_empty() {
        true => Err(Error::invalid("y_column_name is empty").hint("Give the name of a column, or NULL.")),
        false => Ok(Some(names)),
    }
}

/// The arguments of a forecast, which `pgml.train_joint` does not have.
fn series(call: &Call) -> Result<Asked> {
    let horizon = call.i32(20);
    if let Some(steps) = horizon.filter(|steps| !(1..=forecast::MOST_STEPS).contains(steps)) {
        return Err(Error::invalid(format!("horizon must be from 1 to {} steps: {steps}", forecast::MOST_STEPS)));
    }
    Ok(Asked {
        time_column: call.text(18, "time_column", LONGEST_NAME)?,
        group_by: call.text(19, "group_by", 10 * LONGEST_NAME)?,
        horizon,
        frequency: forecast::frequency(call, 21)?,
    })
}

/// How long an automatic choice may look, which `pgml.train_joint` does not have.
fn time_budget(call: &Call) -> Result<Option<Duration>> {
    let Some(datum) = call.datum(22) else { return Ok(None) };
    // SAFETY: an interval, as declared: a pointer to PostgreSQL's structure, which lives as long as the call.
    let interval = unsafe { &*datum.cast_mut_ptr::<pg_sys::Interval>() };
    let whole = i64::from(interval.day).checked_mul(DAY).and_then(|days| days.checked_add(interval.time));
    let time = whole.filter(|time| interval.month == 0 && (1..=LONGEST_BUDGET).contains(time));
    let time = time.ok_or_else(|| {
        let given = call.interval(22).unwrap_or_default();
        Error::invalid(format!("time_budget cannot be {given}")).hint("Give a time of up to 30 days, as '10 minutes'.")
    })?;
    Ok(Some(Duration::from_micros(time.unsigned_abs())))
}

/// A `jsonb` argument that is an object; empty for NULL.
fn object(call: &Call, index: usize, name: &str) -> Result<Map<String, Value>> {
    match call.json(index, name)? {
        None | Some(Value::Null) => Ok(Map::new()),
        Some(Value::Object(map)) => Ok(map),
        Some(other) => Err(Error::invalid(format!("{name} must be a JSON object, not {other}"))),
    }
}
