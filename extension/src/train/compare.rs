//! Whether a newly trained model takes the place of the deployed one: it does unless that one is better, both measured
//! on the test rows of this training.

use learn::split::Split;
use pgrx::PgSqlErrorCode;
use serde_json::{Map, Value};

use super::columns::Data;
use super::report;
use super::score::Scorer;
use crate::deploy::key_metric;
use crate::error::Result;
use crate::model_meta::Task;
use crate::registry::{self, Project};
use crate::{lookup, names};

/// `metrics` are those of the new model.
pub fn is_better(
    project: &Project,
    task: Task,
    metrics: &Map<String, Value>,
    data: &Data,
    split: &Split,
) -> Result<bool> {
    let Some(deployed) = registry::deployed_model(project.id)? else { return Ok(true) };
    let name = key_metric(task);
    let Some(new) = metrics.get(name).and_then(Value::as_f64) else {
        report::warning(&format!(
            "the new model has no {name}, because there are no test rows: model {deployed} stays deployed"
        ));
        return Ok(false);
    };
    let current = match on_these_rows(deployed, name, data, split) {
        Err(error) if error.code() == Some(PgSqlErrorCode::ERRCODE_NULL_VALUE_NOT_ALLOWED) => {
            report::warning(&format!(
                "model {deployed}, which is deployed, takes no missing values and cannot predict all test rows: the \
                 new model replaces it"
            ));
            return Ok(true);
        }
        other => other?,
    };
    let (current, where_from) = match current {
        Some(score) => (Some(score), "on the same rows"),
        // Other features, so the rows of its own training are all there is to go by.
        None => (recorded(project, deployed, name)?, "when it was trained"),
    };
    let Some(current) = current else { return Ok(true) };
    report::info(&format!("Comparing to deployed model {deployed}: {name} {current:.6} {where_from}"));
    if new >= current {
        return Ok(true);
    }
    report::warning(&format!(
        "the new model's {name} {new:.6} is worse than {current:.6} of model {deployed}, which stays deployed"
    ));
    Ok(false)
}

fn on_these_rows(model_id: i64, metric: &str, data: &Data, split: &Split) -> Result<Option<f64>> {
    let bytes = names::with_latest(|snapshot| lookup::model_bytes(model_id, snapshot))?;
    if bytes.is_empty() {
        return Ok(None);
    }
    let Some(scorer) = Scorer::new(&bytes, data)? else { return Ok(None) };
    Ok(scorer.score(data, split)?.get(metric).and_then(Value::as_f64))
}

fn recorded(project: &Project, model_id: i64, metric: &str) -> Result<Option<f64>> {
    let models = registry::models(project.id)?;
    let model = models.iter().find(|model| model.id == model_id);
    Ok(model.and_then(|model| model.metrics.get(metric)).and_then(Value::as_f64))
}
