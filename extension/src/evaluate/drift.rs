//! `pgml.drift`: how far the rows of a relation have moved from those that a model was trained on.
//!
//! What the rows of a training were like stands in `pgml.snapshots.columns`: quantiles, and how often each category was met.
//! These are values of the data, which only who may export reads; here nothing but three numbers a column is told.

use std::collections::HashMap;

use learn::metrics::drift::{Categories, Moved, Numbers};
use learn::preprocess::bucket;
use pgrx::{IntoDatum, PgSqlErrorCode, pg_sys};
use serde_json::Value;

use super::rows::Relation;
use crate::access::{self, Privilege};
use crate::error::{Error, Result};
use crate::features::{Kind, MOST_FEATURES, Word};
use crate::memory::{GivenBack, OwnContext};
use crate::names;
use crate::registry;
use crate::sql::{Call, text_datum};
use crate::train::categories::bucket_name;
use crate::train::columns::no_column;
use crate::train::cursor::Receiver;

crate::sql_function!(pgml_drift_project, of_project);
crate::sql_function!(pgml_drift_model, of_model);

/// Rows between two looks for interrupts.
const ROWS_AT_ONCE: u64 = 4096;

/// A column beside what it was in the training.
pub struct Column {
    pub name: String,
    /// From 0, in the relation.
    position: usize,
    kind: Kind,
    compared: Compared,
    /// Rows with a category that training has not seen.
    unseen: u64,
    /// Rows without a value, and the share of those in the training; of arrays the latter is not known.
    pub missing: u64,
    pub missing_before: Option<f64>,
}

/// The name of a column, how far the shares of its parts have moved, the Kolmogorov-Smirnov statistic, and how many rows have
/// a category that training has not seen.
pub type ColumnDrift = (String, Option<Moved>, Option<f64>, Option<u64>);

enum Compared {
    Numbers(Numbers),
    /// With the index of each category that was met in the training, or of each bucket of a hash.
    Categories {
        compared: Categories,
        indexes: HashMap<String, usize>,
        hashed: bool,
    },
}

pub struct Columns {
    pub columns: Vec<Column>,
    /// The names of columns of the training that are not in the relation as they were, and what is wrong with each.
    pub unlike: Vec<(String, Error)>,
    pub rows: u64,
    values: Vec<f32>,
    word: String,
}

/// `pgml.drift(project_name, relation_name) RETURNS TABLE (feature text, psi double precision, ks double precision,
/// rows bigint, p_value double precision, unseen bigint)`.
fn of_project(call: &Call) -> Result<pg_sys::Datum> {
    let name = call.text(0, "project_name", names::LONGEST)?.ok_or_else(|| Error::null_argument("project_name"))?;
    access::require(&name, Privilege::See)?;
    let Some(project) = registry::find_project(&name)? else { return Err(names::no_such_project(&name)) };
    let Some(model) = registry::deployed_model(project.id)? else {
        return Err(Error::undefined(format!("project \"{name}\" has no deployed model"))
            .hint("Give the id of a model, or deploy one with pgml.deploy(project_name, strategy)."));
    };
    drift(call, model)
}

/// The same, of `pgml.drift(model_id, relation_name)`.
fn of_model(call: &Call) -> Result<pg_sys::Datum> {
    let model = call.i64(0).ok_or_else(|| Error::null_argument("model_id"))?;
    access::require_of_model(model, Privilege::See)?;
    drift(call, model)
}

fn drift(call: &Call, model: i64) -> Result<pg_sys::Datum> {
    let _given_back = GivenBack;
    let (mut found, rows) = {
        let _context = OwnContext::begin(c"pgml drift");
        let relation = Relation::of(call, 1)?;
        let mut columns = columns_of(model, &relation)?;
        relation.read(&mut columns)?;
        (columns.columns.into_iter().map(Column::drift).collect::<Vec<_>>(), columns.rows)
    };
    let stability = |moved: &Option<Moved>| moved.map_or(f64::NEG_INFINITY, |moved| moved.stability);
    found.sort_by(|(_, a, ..), (_, b, ..)| stability(b).total_cmp(&stability(a)));
    let rows = i64::try_from(rows).unwrap_or(i64::MAX);
    let row = |(name, moved, distance, unseen): ColumnDrift| {
        let (stability, chance) = (moved.map(|moved| moved.stability), moved.map(|moved| moved.chance));
        vec![
            Some(text_datum(&name)),
            stability.into_datum(),
            distance.into_datum(),
            rows.into_datum(),
            chance.into_datum(),
            unseen.and_then(|unseen| i64::try_from(unseen).unwrap_or(i64::MAX).into_datum()),
        ]
    };
    call.rows(found.into_iter().map(row).collect::<Vec<_>>())
}

/// The columns that are known from the training, which must all be in the relation.
pub fn columns_of(model: i64, relation: &Relation) -> Result<Columns> {
    let mut columns = columns_in(model, relation)?;
    match columns.unlike.is_empty() {
        true => Ok(columns),
        false => Err(columns.unlike.swap_remove(0).1),
    }
}

/// The columns that are known from the training and are in the relation, and what is wrong with the others.
pub fn columns_in(model: i64, relation: &Relation) -> Result<Columns> {
    let (before, analysis) = registry::snapshot_of_model(model)?.unwrap_or_default();
    let rows = analysis.get("samples").and_then(Value::as_u64).unwrap_or(0);
    let (mut columns, mut unlike) = (Vec::new(), Vec::new());
    for column in before.as_array().into_iter().flatten() {
        let (Some(name), Some(statistics)) = (column.get("name").and_then(Value::as_str), column.get("statistics"))
        else {
            continue;
        };
        if column.get("label").and_then(Value::as_bool) == Some(true) {
            continue;
        }
        let size = match column.get("array").and_then(Value::as_bool) {
            Some(true) => column.get("size").and_then(Value::as_u64).unwrap_or(1),
            _ => 1,
        };
        let Some(compared) = Compared::with(statistics, rows.saturating_mul(size)) else { continue };
        let Some(position) = relation.columns().iter().position(|other| other.name == name) else {
            let error = no_column(name, "which the model was trained with", relation.columns());
            unlike.push((name.to_owned(), error));
            continue;
        };
        let type_oid = relation.columns().get(position).map_or(pg_sys::InvalidOid, |column| column.type_oid);
        let Some(kind) = compared.kind_as_trained(column, type_oid) else {
            let error = Error::new(
                PgSqlErrorCode::ERRCODE_DATATYPE_MISMATCH,
                format!(
                    "column \"{name}\" is of type {}, and was of another type in training",
                    crate::features::type_name(type_oid)
                ),
            )
            .hint("Cast the column to the type that the model was trained with.");
            unlike.push((name.to_owned(), error));
            continue;
        };
        let missing = statistics.get("missing").and_then(Value::as_u64).unwrap_or(0);
        let is_array = column.get("array").and_then(Value::as_bool) == Some(true);
        columns.push(Column {
            name: name.to_owned(),
            position,
            kind,
            compared,
            unseen: 0,
            missing: 0,
            missing_before: (!is_array).then(|| (missing as f64 / rows.max(1) as f64).min(1.0)),
        });
    }
    if columns.is_empty() && unlike.is_empty() {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("the statistics of the training rows of model {model} are not stored"),
        )
        .hint("The model was trained by an older version of pgml, or elsewhere: train it again."));
    }
    Ok(Columns { columns, unlike, rows: 0, values: Vec::new(), word: String::new() })
}

impl Compared {
    /// The kind of a column of that type, if it is that of the column that was trained with.
    fn kind_as_trained(&self, trained: &Value, type_oid: pg_sys::Oid) -> Option<Kind> {
        match (Kind::of(type_oid)?, self) {
            // Text is not a code, and a code not text.
            (kind, Compared::Categories { .. }) if Word::of(kind).is_some() => {
                let codes = ["int2", "int4", "int8", "bool"];
                let trained = trained.get("pg_type").and_then(Value::as_str).unwrap_or("");
                let alike = codes.contains(&trained) == matches!(kind, Kind::Number(_));
                (alike && (trained == "date") == matches!(kind, Kind::Many(_))).then_some(kind)
            }
            (kind @ (Kind::Number(_) | Kind::Many(_)), Compared::Numbers(_)) => Some(kind),
            _ => None,
        }
    }

    /// What the statistics of a column say of so many values; `None` where they say too little.
    fn with(statistics: &Value, values: u64) -> Option<Compared> {
        let missing = statistics.get("missing").and_then(Value::as_u64).unwrap_or(0);
        if let Some(categories) = statistics.get("categories").and_then(Value::as_object) {
            let members = |category: &Value| category.get("members").and_then(Value::as_u64).unwrap_or(0);
            let all: Vec<u64> = categories.values().map(members).collect();
            let (compared, indexes) = Categories::new(&all, missing);
            let hashed = statistics.get("hashed").and_then(Value::as_bool) == Some(true);
            let indexes = categories.keys().cloned().zip(indexes).collect();
            return Some(Compared::Categories { compared, indexes, hashed });
        }
        let points = statistics.get("quantiles")?.as_array()?;
        let points: Vec<f32> = points.iter().filter_map(|point| Some(point.as_f64()? as f32)).collect();
        Some(Compared::Numbers(Numbers::new(&points, missing as f64 / values.max(1) as f64, values)))
    }
}

impl Column {
    pub fn drift(self) -> ColumnDrift {
        match self.compared {
            Compared::Numbers(numbers) => (self.name, numbers.moved(), numbers.kolmogorov_smirnov(), None),
            Compared::Categories { compared, .. } => (self.name, compared.moved(), None, Some(self.unseen)),
        }
    }
}

impl Receiver for Columns {
    fn row(&mut self, values: &[pg_sys::Datum], nulls: &[bool]) -> Result<()> {
        self.rows += 1;
        if self.rows.is_multiple_of(ROWS_AT_ONCE) {
            crate::train::interrupts::check();
        }
        for column in &mut self.columns {
            let datum = match (values.get(column.position), nulls.get(column.position)) {
                (Some(datum), Some(false)) => Some(*datum),
                _ => None,
            };
            column.missing += u64::from(datum.is_none());
            match (&mut column.compared, column.kind, datum) {
                (Compared::Numbers(numbers), _, None) => numbers.add(f32::NAN),
                (Compared::Numbers(numbers), Kind::Number(number), Some(datum)) => {
                    // SAFETY: the column is of the number's type, and not NULL.
                    let value = unsafe { number.read(datum) };
                    column.missing += u64::from(value.is_nan());
                    numbers.add(value);
                }
                (Compared::Numbers(numbers), Kind::Many(many), Some(datum)) => {
                    self.values.clear();
                    // SAFETY: the column is of the type that this was made for, and not NULL.
                    unsafe { many.read(datum, MOST_FEATURES, &mut self.values)? };
                    // Of a moment the seconds, which come last, are compared.
                    let first = if many.is_moment() { self.values.len().saturating_sub(1) } else { 0 };
                    self.values.iter().skip(first).for_each(|value| numbers.add(*value));
                }
                (Compared::Categories { compared, .. }, _, None) => compared.add_missing(),
                (Compared::Categories { compared, indexes, hashed }, kind, Some(datum)) => {
                    let Some(word) = Word::of(kind) else { continue };
                    // SAFETY: the column is of the word's type, and not NULL.
                    let text = unsafe { word.read(datum, &mut self.word) }?;
                    let index = match hashed {
                        true => {
                            let bucket = bucket(text, u32::try_from(indexes.len()).unwrap_or(u32::MAX));
                            indexes.get(&bucket_name(bucket as usize))
                        }
                        false => indexes.get(text),
                    };
                    column.unseen += u64::from(index.is_none());
                    compared.add(index.copied());
                }
                _ => {}
            }
        }
        Ok(())
    }
}
