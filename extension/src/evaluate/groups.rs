//! `pgml.groups`: the groups of rows that each have a model, and how good these are. What is known was stored with the model in its
//! training.

use pgrx::{IntoDatum, JsonB, pg_sys};
use serde_json::{Map, Value};

use crate::access::Privilege;
use crate::error::{Error, Result};
use crate::model_meta::GROUPS_PATH;
use crate::names;
use crate::sql::{Call, text_datum};
use crate::{lookup, memory};

crate::sql_function!(pgml_groups, groups);

/// `pgml.groups(project or model) RETURNS TABLE (groups jsonb, rows bigint, fallback boolean, held_out bigint, metric text, score double
/// precision, fallback_score double precision, reason text)`.
fn groups(call: &Call) -> Result<pg_sys::Datum> {
    let _given_back = memory::GivenBack;
    // The groups are values of the training rows.
    let target = super::target(call, Privilege::Export)?;
    let model = names::id_of(&target)?;
    let bytes = lookup::bytes_at(model, |path| path == GROUPS_PATH, names::snapshot().get())?;
    if bytes.is_empty() {
        return Err(Error::unsupported(format!("{target} has no groups"))
            .hint("pgml.train(..., group_by => 'store') trains a model for each group."));
    }
    let known: Value = serde_json::from_slice(&bytes).map_err(|error| Error::corrupted(error.to_string()))?;
    let list = |name: &str| known.get(name).and_then(Value::as_array).cloned().unwrap_or_default();
    let columns: Vec<String> = list("columns").iter().filter_map(|name| Some(name.as_str()?.to_owned())).collect();
    let metric = known.get("metric").and_then(Value::as_str);
    call.rows(list("groups").iter().map(|group| row(group, &columns, metric)))
}

fn row(group: &Value, columns: &[String], metric: Option<&str>) -> [Option<pg_sys::Datum>; 8] {
    let at = |index: usize| group.get(index).unwrap_or(&Value::Null);
    let key = at(0).as_array().map(|values| {
        let named = columns.iter().cloned().zip(values.iter().cloned());
        JsonB(Value::Object(named.collect::<Map<_, _>>()))
    });
    let reason = at(2).as_str();
    [
        key.into_datum(),
        at(1).as_i64().into_datum(),
        reason.is_some().into_datum(),
        at(3).as_i64().into_datum(),
        metric.map(text_datum),
        at(4).as_f64().into_datum(),
        at(5).as_f64().into_datum(),
        reason.map(text_datum),
    ]
}
