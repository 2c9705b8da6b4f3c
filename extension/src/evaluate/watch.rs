//! `pgml.watch` and `pgml.unwatch`: what is compared with a project's deployed model, and which thresholds say that
//! something is wrong.

use pgrx::{IntoDatum, JsonB, PgSqlErrorCode, pg_sys};
use serde_json::{Map, Value, json};

use super::check::moment_type;
use super::drift;
use super::rows::Relation;
use crate::access::{self, Privilege};
use crate::error::{Error, Result};
use crate::metric;
use crate::model_meta::Task;
use crate::names;
use crate::nearest;
use crate::registry::{self, Project, Watch};
use crate::sql::{Call, LONGEST_NAME};
use crate::train::columns::no_column;
use crate::train::request::LONGEST_QUERY;
use crate::train::source::Source;

crate::sql_function!(pgml_watch, watch);
crate::sql_function!(pgml_unwatch, unwatch);

/// When a check crosses a threshold; `None` never.
#[derive(Debug, Clone, PartialEq)]
pub struct Thresholds {
    /// The population stability index of a column.
    pub drift: Option<f64>,
    /// And how probable it has to be by chance at most.
    pub p_value: f64,
    /// By how much the share of missing values of a column is above that of the training.
    pub missing: Option<f64>,
    /// The share of rows with a category that training has not seen.
    pub unseen: Option<f64>,
    /// By which part of it the project's metric is worse than in the training.
    pub decline: Option<f64>,
    /// Bounds of metrics.
    pub metrics: Map<String, Value>,
    pub min_rows: Option<f64>,
    pub max_rows: Option<f64>,
    /// With fewer rows nothing is said of shares and metrics.
    pub enough_rows: f64,
}

impl Default for Thresholds {
    fn default() -> Thresholds {
        Thresholds {
            drift: Some(0.25),
            p_value: 0.001,
            missing: Some(0.1),
            unseen: Some(0.05),
            decline: Some(0.1),
            metrics: Map::new(),
            min_rows: Some(1.0),
            max_rows: None,
            enough_rows: 30.0,
        }
    }
}

impl Thresholds {
    /// Those that are given, and the defaults of the others.
    pub fn read(given: &Value) -> Result<Thresholds> {
        let mut all = Thresholds::default();
        let Some(given) = given.as_object() else {
            return Err(
                Error::invalid("thresholds is not a JSON object").hint("Write thresholds => '{\"drift\": 0.1}'.")
            );
        };
        for (name, value) in given {
            let least = |least: f64, most: f64| match value.as_f64() {
                _ if value.is_null() => Ok(None),
                Some(number) if (least..=most).contains(&number) => Ok(Some(number)),
                _ => Err(Error::invalid(format!(
                    "threshold \"{name}\" cannot be {value}: it is a number from {least} to {most}"
                ))),
            };
            match name.as_str() {
                "drift" => all.drift = least(0.0, f64::MAX)?,
                "p_value" => all.p_value = least(0.0, 1.0)?.unwrap_or(1.0),
                "missing" => all.missing = least(0.0, 1.0)?,
                "unseen" => all.unseen = least(0.0, 1.0)?,
                "decline" => all.decline = least(0.0, f64::MAX)?,
                "min_rows" => all.min_rows = least(0.0, f64::MAX)?,
                "max_rows" => all.max_rows = least(0.0, f64::MAX)?,
                "enough_rows" => all.enough_rows = least(0.0, f64::MAX)?.unwrap_or(0.0),
                "metrics" => {
                    let bounds = value.as_object().filter(|bounds| bounds.values().all(Value::is_number));
                    let Some(bounds) = bounds else {
                        return Err(Error::invalid(format!(
                            "threshold \"metrics\" cannot be {value}: it has a number for each metric"
                        ))
                        .hint("Write \"metrics\": {\"f1\": 0.8}."));
                    };
                    all.metrics.clone_from(bounds);
                }
                _ => {
                    let names: Vec<String> =
                        all.to_json().as_object().map(|all| all.keys().cloned().collect()).unwrap_or_default();
                    return Err(
                        Error::invalid(format!("there is no threshold \"{name}\"")).hint(nearest::hint(name, &names))
                    );
                }
            }
        }
        Ok(all)
    }

    fn to_json(&self) -> Value {
        json!({
            "drift": self.drift, "p_value": self.p_value, "missing": self.missing, "unseen": self.unseen,
            "decline": self.decline, "metrics": self.metrics, "min_rows": self.min_rows, "max_rows": self.max_rows,
            "enough_rows": self.enough_rows,
        })
    }
}

/// The project that the first argument names, for a caller who may deploy for it.
pub fn project(call: &Call) -> Result<Project> {
    let name = call.text(0, "project_name", names::LONGEST)?.ok_or_else(|| Error::null_argument("project_name"))?;
    access::require(&name, Privilege::Deploy)?;
    registry::find_project(&name)?.ok_or_else(|| names::no_such_project(&name))
}

/// The deployed model.
pub fn deployed(project: &Project) -> Result<i64> {
    registry::deployed_model(project.id)?.ok_or_else(|| {
        Error::undefined(format!("project \"{}\" has no deployed model", project.name))
            .hint("Deploy one with pgml.deploy(project_name, strategy).")
    })
}

/// `pgml.watch(project_name, relation_name, time_column, period, thresholds) RETURNS jsonb`.
fn watch(call: &Call) -> Result<pg_sys::Datum> {
    registry::check_writable(c"pgml.watch()")?;
    let project = project(call)?;
    let model = deployed(&project)?;
    if Task::parse(&project.task) == Some(Task::Forecast) {
        return Err(Error::unsupported(format!(
            "project \"{}\" forecasts series, which are not watched",
            project.name
        ))
        .hint("pgml.backtest says how good its forecasts would have been."));
    }
    let relation =
        call.text(1, "relation_name", LONGEST_QUERY)?.ok_or_else(|| Error::null_argument("relation_name"))?;
    let time_column = call.text(2, "time_column", LONGEST_NAME)?;
    let period = call.interval(3).filter(|_| time_column.is_some());
    let thresholds = Thresholds::read(&call.json(4, "thresholds")?.unwrap_or_else(|| json!({})))?;
    if let Some(task) = Task::parse(&project.task) {
        let names = metric::names(task)?;
        if let Some(unknown) = thresholds.metrics.keys().find(|name| !names.contains(&name.as_str())) {
            return Err(Error::invalid(format!("a {} has no metric \"{unknown}\"", task.name()))
                .hint(format!("The metrics are {}.", names.join(", "))));
        }
    }
    if let Some(period) = &period
        && !registry::is_period(period)?
    {
        return Err(Error::invalid(format!("period must be above 0: {period}")));
    }
    let source = Source::resolve(&relation)?;
    let rows = Relation::of_source(&source, None)?;
    if let Some(name) = &time_column {
        let Some(column) = rows.columns().iter().find(|column| column.name == *name) else {
            return Err(no_column(name, "which is the time_column", rows.columns()));
        };
        if moment_type(column.type_oid).is_none() {
            let found = crate::features::type_name(column.type_oid);
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
                format!("time_column \"{name}\" is of type {found}: it must be a date or a timestamp"),
            ));
        }
    }
    // What is to be compared is there, and of the types of the training.
    if let Err(error) = drift::columns_of(model, &rows)
        && error.code() != Some(PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE)
    {
        return Err(error);
    }
    let thresholds = thresholds.to_json();
    registry::set_watch(
        project.id,
        &Watch {
            relation_name: source.name,
            time_column,
            period,
            thresholds: thresholds.clone(),
            owner: access::user(),
        },
    )?;
    Ok(JsonB(thresholds).into_datum().unwrap_or(pg_sys::Datum::from(0)))
}

/// `pgml.unwatch(project_name) RETURNS boolean`.
fn unwatch(call: &Call) -> Result<pg_sys::Datum> {
    registry::check_writable(c"pgml.unwatch()")?;
    let ended = registry::end_watch(project(call)?.id)?;
    Ok(ended.into_datum().unwrap_or(pg_sys::Datum::from(0)))
}
