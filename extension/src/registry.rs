//! Reads and writes of the registry: the tables projects, snapshots, models, files and deployments.
//!
//! Every name in these statements is qualified, operators and functions too, so that they mean the same whatever the
//! caller's search_path. They run with the rights of the registry's owner: no other role writes to its tables, and what
//! the caller may have of it, `access` has decided before. Only tables of the caller's own are made with its own rights.

use std::ffi::{CStr, CString};

use learn::curve::Curve;
use pgrx::datum::DatumWithOid;
use pgrx::spi::{SpiHeapTupleData, SpiResult, SpiTupleTable};
use pgrx::{IntoDatum, PgSqlErrorCode, Spi, pg_sys};

use crate::access;
use crate::error::{Error, Result};
use crate::owner::{AsOwner, owner_of};
use crate::{jobs, lookup, names};

/// A row of pgml.projects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Project {
    pub id: i64,
    pub name: String,
    pub task: String,
    /// The metric by which its models are compared, where one was named.
    pub metric: Option<String>,
}

/// What a project is, of a row of three columns and one that may be NULL.
fn project(tuple: &SpiHeapTupleData) -> SpiResult<Project> {
    Ok(Project { id: value(tuple, 1)?, name: value(tuple, 2)?, task: value(tuple, 3)?, metric: tuple.get(4)? })
}

/// Refuses what writes where nothing can be written, on a standby above all.
pub fn prevent_if_read_only(function: &CStr) {
    // SAFETY: raises its own ERROR (25006); the string is NUL-terminated.
    unsafe { pg_sys::PreventCommandIfReadOnly(function.as_ptr()) };
}

/// What an SQL function of the extension needs before it changes the registry: a server that may be written to, and
/// tables that are as new as the library and may be written to, too.
pub fn check_writable(function: &CStr) -> Result<()> {
    prevent_if_read_only(function);
    let projects = relation_oid(c"projects")?;
    // SAFETY: a catalog look-up; the name is NUL-terminated.
    if unsafe { pg_sys::get_attnum(projects, c"owner".as_ptr()) } <= 0 {
        return Err(outdated());
    }
    // Of no row: where another server writes the registry, a trigger refuses it now, and not after hours of training.
    update("DELETE FROM pgml.projects WHERE false", &[], |_| Ok(()))?;
    jobs::go_on(names::snapshot().get())
}

fn outdated() -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("the tables of pgml are older than its library, which is {}", env!("CARGO_PKG_VERSION")),
    )
    .hint("Run ALTER EXTENSION pgml UPDATE. Predictions go on meanwhile.")
}

/// Whether the registry has a table that it has not in older versions of pgml. One of that name that another role made is
/// not the registry's: its triggers would run with the rights of the registry's owner.
fn has(table: &CStr) -> Result<bool> {
    let found = find_relation(table);
    Ok(found != pg_sys::InvalidOid && owner_of(found) == owner_of(relation_oid(c"projects")?))
}

/// The table of trials, since pgml 3.2.0.
const TRIALS: &CStr = c"trials";
/// That of learning curves, since pgml 3.4.0.
const CURVES: &CStr = c"learning_curves";

/// Oid of a table of the registry.
pub fn relation_oid(name: &CStr) -> Result<pg_sys::Oid> {
    let relation = find_relation(name);
    if relation == pg_sys::InvalidOid {
        return Err(Error::new(
            PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
            format!("relation \"pgml.{}\" does not exist", name.to_string_lossy()),
        )
        .hint("Drop and create the extension pgml again."));
    }
    Ok(relation)
}

/// Oid of a type in the extension's schema; 0 if there is none.
pub fn type_named(name: &CStr) -> pg_sys::Oid {
    // SAFETY: as in `find_relation`; the keys are those of the cache.
    unsafe {
        let namespace = pg_sys::get_namespace_oid(c"pgml".as_ptr(), true);
        pg_sys::GetSysCacheOid(
            pg_sys::SysCacheIdentifier::TYPENAMENSP as std::ffi::c_int,
            i16::try_from(pg_sys::Anum_pg_type_oid).unwrap_or(1),
            pg_sys::Datum::from(name.as_ptr()),
            pg_sys::Datum::from(namespace),
            pg_sys::Datum::from(0),
            pg_sys::Datum::from(0),
        )
    }
}

/// Oid of a relation in the extension's schema; 0 if there is none.
fn find_relation(name: &CStr) -> pg_sys::Oid {
    // SAFETY: NUL-terminated strings; both functions read the catalog caches inside the open transaction.
    unsafe {
        let namespace = pg_sys::get_namespace_oid(c"pgml".as_ptr(), true);
        pg_sys::get_relname_relid(name.as_ptr(), namespace)
    }
}

/// Rows of a statement that reads, with the rights of the registry's owner.
pub fn select<T>(
    statement: &str,
    arguments: &[DatumWithOid],
    mut row: impl FnMut(&SpiHeapTupleData) -> SpiResult<T>,
) -> Result<Vec<T>> {
    let _owner = AsOwner::begin()?;
    Spi::connect(|client| collect(client.select(statement, None, arguments)?, &mut row))
}

/// Rows of a statement that writes (its RETURNING), with the rights of the registry's owner.
pub fn update<T>(
    statement: &str,
    arguments: &[DatumWithOid],
    mut row: impl FnMut(&SpiHeapTupleData) -> SpiResult<T>,
) -> Result<Vec<T>> {
    let _owner = AsOwner::begin()?;
    Spi::connect_mut(|client| collect(client.update(statement, None, arguments)?, &mut row))
}

/// Runs a statement with the rights of the caller.
fn run_as_caller(statement: &str) -> Result<()> {
    Spi::connect_mut(|client| client.update(statement, None, &[]).map(|_| ()))?;
    Ok(())
}

/// What `row` makes of each row.
pub fn collect<T>(table: SpiTupleTable, row: &mut impl FnMut(&SpiHeapTupleData) -> SpiResult<T>) -> Result<Vec<T>> {
    let mut rows = Vec::with_capacity(table.len());
    for tuple in table {
        rows.push(row(&tuple)?);
    }
    Ok(rows)
}

/// An argument of a statement.
pub fn argument<'a, T: IntoDatum>(value: T) -> DatumWithOid<'a> {
    // SAFETY: the oid is the type's own; the datum is made for the length of the call.
    unsafe { DatumWithOid::new(value, T::type_oid()) }
}

/// A role, for `$n::pg_catalog.oid`; as a number, since an oid of 0, which stands for PUBLIC, would be NULL.
pub fn role_argument<'a>(role: pg_sys::Oid) -> DatumWithOid<'a> {
    argument(i64::from(role.to_u32()))
}

/// A column that the table declares NOT NULL.
pub fn value<T: IntoDatum + pgrx::FromDatum>(tuple: &SpiHeapTupleData, column: usize) -> SpiResult<T> {
    tuple.get(column)?.ok_or(pgrx::spi::SpiError::InvalidPosition)
}

/// The names in an array that comes as JSON: as an array they would not be checked to be in UTF-8.
fn names(tuple: &SpiHeapTupleData, column: usize) -> SpiResult<Option<Vec<String>>> {
    let json: Option<String> = tuple.get(column)?;
    let names: Option<Vec<Option<String>>> = json.and_then(|json| serde_json::from_str(&json).ok());
    Ok(names.map(|names| names.into_iter().flatten().collect()))
}

/// The project of that name.
pub fn find_project(name: &str) -> Result<Option<Project>> {
    let rows = select(
        // The tables of before pgml 3.3.0 have no metric.
        "SELECT p.id, p.name, p.task::pg_catalog.text, pg_catalog.to_jsonb(p) OPERATOR(pg_catalog.->>) 'metric'
         FROM pgml.projects p WHERE p.name OPERATOR(pg_catalog.=) $1",
        &[argument(name)],
        project,
    )?;
    Ok(rows.into_iter().next())
}

/// The model that answers for a project now.
pub fn deployed_model(project_id: i64) -> Result<Option<i64>> {
    let rows = select(
        "SELECT model_id FROM pgml.deployments WHERE project_id OPERATOR(pg_catalog.=) $1
         ORDER BY id USING OPERATOR(pg_catalog.>) LIMIT 1",
        &[argument(project_id)],
        |tuple| value(tuple, 1),
    )?;
    Ok(rows.into_iter().next())
}

/// A row of pgml.models, as far as deploying needs it.
#[derive(Debug, Clone)]
pub struct Candidate {
    pub id: i64,
    pub algorithm: String,
    pub status: String,
    pub metrics: serde_json::Value,
    /// The labels that it was trained for; `None` where that is not recorded.
    pub labels: Option<Vec<String>>,
}

/// Models of a project, the newest first.
pub fn models(project_id: i64) -> Result<Vec<Candidate>> {
    let rows = select(
        "SELECT m.id, m.algorithm, m.status, m.metrics::pg_catalog.text, pg_catalog.array_to_json(s.y_column_name)::pg_catalog.text
         FROM pgml.models m LEFT JOIN pgml.snapshots s ON s.id OPERATOR(pg_catalog.=) m.snapshot_id
         WHERE m.project_id OPERATOR(pg_catalog.=) $1
         ORDER BY m.created_at USING OPERATOR(pg_catalog.>), m.id USING OPERATOR(pg_catalog.>)",
        &[argument(project_id)],
        |tuple| {
            let metrics: Option<String> = tuple.get(4)?;
            Ok(Candidate {
                id: value(tuple, 1)?,
                algorithm: value(tuple, 2)?,
                status: value(tuple, 3)?,
                metrics: metrics.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default(),
                labels: names(tuple, 5)?,
            })
        },
    )?;
    Ok(rows)
}

/// What the data of each model's training were, as a text that another training of the same rows has too.
pub fn data_of_models(project_id: i64) -> Result<Vec<(i64, String)>> {
    select(
        "SELECT m.id, pg_catalog.md5(pg_catalog.concat_ws(' ', s.test_size, s.test_sampling, s.columns))
         FROM pgml.models m INNER JOIN pgml.snapshots s ON s.id OPERATOR(pg_catalog.=) m.snapshot_id
         WHERE m.project_id OPERATOR(pg_catalog.=) $1",
        &[argument(project_id)],
        |tuple| Ok((value(tuple, 1)?, value(tuple, 2)?)),
    )
}

/// The project that a model belongs to.
pub fn project_of_model(model_id: i64) -> Result<Option<Project>> {
    let rows = select(
        "SELECT p.id, p.name, p.task::pg_catalog.text, pg_catalog.to_jsonb(p) OPERATOR(pg_catalog.->>) 'metric'
         FROM pgml.models m
         INNER JOIN pgml.projects p ON p.id OPERATOR(pg_catalog.=) m.project_id
         WHERE m.id OPERATOR(pg_catalog.=) $1",
        &[argument(model_id)],
        project,
    )?;
    Ok(rows.into_iter().next())
}

/// Records by which metric the models of a project are compared from now on.
pub fn set_metric(project_id: i64, metric: &str) -> Result<()> {
    let projects = relation_oid(c"projects")?;
    // SAFETY: a catalog look-up; the name is NUL-terminated.
    if unsafe { pg_sys::get_attnum(projects, c"metric".as_ptr()) } <= 0 {
        return Err(outdated());
    }
    update(
        "UPDATE pgml.projects SET metric = $2 WHERE id OPERATOR(pg_catalog.=) $1",
        &[argument(project_id), argument(metric)],
        |_| Ok(()),
    )?;
    Ok(())
}

/// Models that were deployed for a project, the latest deployment first, each as often as it was deployed.
pub fn deployments(project_id: i64) -> Result<Vec<i64>> {
    select(
        "SELECT model_id FROM pgml.deployments WHERE project_id OPERATOR(pg_catalog.=) $1
         ORDER BY id USING OPERATOR(pg_catalog.>)",
        &[argument(project_id)],
        |tuple| value(tuple, 1),
    )
}

/// Records a deployment. The trigger on the table tells every connection.
pub fn insert_deployment(project_id: i64, model_id: i64, strategy: &str) -> Result<()> {
    keep_model(project_id, model_id)?;
    update(
        "INSERT INTO pgml.deployments (project_id, model_id, strategy) VALUES ($1, $2, $3::pgml.strategy)",
        &[argument(project_id), argument(model_id), argument(strategy)],
        |_| Ok(()),
    )?;
    // A model that is deployed is on trial no more.
    end_trial(project_id, Some(model_id)).map(drop)
}

/// Keeps a row from being deleted until the end of the transaction, which is about to add what belongs to it. False if it
/// was deleted before.
fn keep(statement: &str, arguments: &[DatumWithOid]) -> Result<bool> {
    let kept: Vec<i64> = update(&format!("{statement} FOR KEY SHARE"), arguments, |tuple| value(tuple, 1))?;
    Ok(!kept.is_empty())
}

fn keep_model(project_id: i64, model_id: i64) -> Result<()> {
    let statement = "SELECT id FROM pgml.models
         WHERE id OPERATOR(pg_catalog.=) $1 AND project_id OPERATOR(pg_catalog.=) $2";
    match keep(statement, &[argument(model_id), argument(project_id)])? {
        true => Ok(()),
        false => Err(names::no_such_model(model_id)),
    }
}

fn keep_project(id: i64) -> Result<bool> {
    keep("SELECT id FROM pgml.projects WHERE id OPERATOR(pg_catalog.=) $1", &[argument(id)])
}

/// Keeps a snapshot, as `keep` does.
pub fn keep_snapshot(id: i64) -> Result<bool> {
    keep("SELECT id FROM pgml.snapshots WHERE id OPERATOR(pg_catalog.=) $1", &[argument(id)])
}

/// Records that a model is on trial, in place of any other of the project: a canary with its share, or a shadow.
pub fn set_trial(project_id: i64, model_id: i64, strategy: &str, share: Option<f64>) -> Result<()> {
    if !has(TRIALS)? {
        return Err(outdated());
    }
    keep_model(project_id, model_id)?;
    update(
        "INSERT INTO pgml.trials AS t (project_id, model_id, strategy, share) VALUES ($1, $2, $3::pgml.strategy, $4)
         ON CONFLICT (project_id) DO UPDATE SET model_id = EXCLUDED.model_id, strategy = EXCLUDED.strategy,
             share = EXCLUDED.share, created_at = EXCLUDED.created_at",
        &[argument(project_id), argument(model_id), argument(strategy), argument(share)],
        |_| Ok(()),
    )?;
    Ok(())
}

/// Ends the trial in a project, of this model if it is given; whether there was one.
pub fn end_trial(project_id: i64, model_id: Option<i64>) -> Result<bool> {
    if !has(TRIALS)? {
        return Ok(false);
    }
    let ended: Vec<i64> = update(
        "DELETE FROM pgml.trials WHERE project_id OPERATOR(pg_catalog.=) $1
         AND ($2 IS NULL OR model_id OPERATOR(pg_catalog.=) $2) RETURNING model_id",
        &[argument(project_id), argument(model_id)],
        |tuple| value(tuple, 1),
    )?;
    Ok(!ended.is_empty())
}

/// `relkind` of a relation.
pub fn relation_kind(relation: pg_sys::Oid) -> Result<u8> {
    // SAFETY: a catalog look-up; it gives 0 for an oid that is no relation.
    let kind = unsafe { pg_sys::get_rel_relkind(relation) };
    Ok(kind as u8)
}

/// Schema and name of a relation, quoted where needed.
pub fn relation_name(relation: pg_sys::Oid) -> Result<String> {
    // SAFETY: catalog look-ups that give null for what is not there, else palloc'd C strings.
    unsafe {
        let name = pg_sys::get_rel_name(relation);
        let namespace = pg_sys::get_namespace_name(pg_sys::get_rel_namespace(relation));
        if name.is_null() || namespace.is_null() {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_UNDEFINED_TABLE,
                format!("relation with oid {} does not exist", relation.to_u32()),
            ));
        }
        let qualified = pg_sys::quote_qualified_identifier(namespace, name);
        Ok(CStr::from_ptr(qualified).to_string_lossy().into_owned())
    }
}

/// Names of a relation's columns that are declared NOT NULL.
pub fn not_null_columns(relation: pg_sys::Oid) -> Result<Vec<String>> {
    select(
        "SELECT attname::pg_catalog.text FROM pg_catalog.pg_attribute
         WHERE attrelid OPERATOR(pg_catalog.=) $1 AND attnum OPERATOR(pg_catalog.>) 0 AND attnotnull",
        &[argument(relation)],
        |tuple| value(tuple, 1),
    )
}

/// The columns that name the rows of a table, by their numbers: those of its primary key, and of each unique index that knows no
/// exceptions, the shorter ones first.
pub fn keys(relation: pg_sys::Oid) -> Result<Vec<Vec<i16>>> {
    let found: Vec<(String, i16)> = select(
        "SELECT indkey::pg_catalog.text, indnkeyatts FROM pg_catalog.pg_index
         WHERE indrelid OPERATOR(pg_catalog.=) $1 AND indisunique AND indisvalid AND indpred IS NULL AND indexprs IS NULL
         ORDER BY indisprimary DESC, indnkeyatts, indexrelid",
        &[argument(relation)],
        |tuple| Ok((value(tuple, 1)?, value(tuple, 2)?)),
    )?;
    let columns = |(key, count): (String, i16)| {
        key.split(' ').take(count.max(0) as usize).filter_map(|number| number.parse().ok()).collect()
    };
    Ok(found.into_iter().map(columns).collect())
}

/// `typname` of a type.
pub fn type_name(type_oid: pg_sys::Oid) -> Result<String> {
    let rows = select(
        "SELECT typname::pg_catalog.text FROM pg_catalog.pg_type WHERE oid OPERATOR(pg_catalog.=) $1",
        &[argument(type_oid)],
        |tuple| value(tuple, 1),
    )?;
    rows.into_iter()
        .next()
        .ok_or_else(|| Error::undefined(format!("type with oid {} does not exist", type_oid.to_u32())))
}

/// What is known of the data that a project's last model was trained on.
#[derive(Debug, Clone)]
pub struct Snapshot {
    pub id: i64,
    pub relation_name: String,
    pub y_column_name: Vec<String>,
    pub test_size: f32,
    pub test_sampling: String,
    pub materialized: bool,
    /// The role that gave `relation_name`; 0 where nobody knows.
    pub owner: pg_sys::Oid,
    /// What was asked to be done to columns.
    pub preprocess: serde_json::Map<String, serde_json::Value>,
}

/// The snapshot that a project used last.
pub fn last_snapshot(project_id: i64) -> Result<Option<Snapshot>> {
    let rows = select(
        "SELECT s.id, s.relation_name, pg_catalog.array_to_json(s.y_column_name)::pg_catalog.text, s.test_size, s.test_sampling::pg_catalog.text, s.materialized,
                s.owner::pg_catalog.oid, s.analysis::pg_catalog.text
         FROM pgml.models m INNER JOIN pgml.snapshots s ON s.id OPERATOR(pg_catalog.=) m.snapshot_id
         WHERE m.project_id OPERATOR(pg_catalog.=) $1
         ORDER BY m.id USING OPERATOR(pg_catalog.>) LIMIT 1",
        &[argument(project_id)],
        |tuple| {
            Ok(Snapshot {
                id: value(tuple, 1)?,
                relation_name: value(tuple, 2)?,
                y_column_name: names(tuple, 3)?.unwrap_or_default(),
                test_size: value(tuple, 4)?,
                test_sampling: value(tuple, 5)?,
                materialized: tuple.get(6)?.unwrap_or(false),
                owner: tuple.get(7)?.unwrap_or(pg_sys::InvalidOid),
                preprocess: tuple.get::<String>(8)?.and_then(|text| preprocess_of(&text)).unwrap_or_default(),
            })
        },
    )?;
    Ok(rows.into_iter().next())
}

/// What the last training of a project for series made them by.
pub fn last_series(project_id: i64) -> Result<Option<crate::train::SeriesAsked>> {
    let rows = select(
        "SELECT (s.analysis OPERATOR(pg_catalog.->) 'series')::pg_catalog.text
         FROM pgml.models m INNER JOIN pgml.snapshots s ON s.id OPERATOR(pg_catalog.=) m.snapshot_id
         WHERE m.project_id OPERATOR(pg_catalog.=) $1
         ORDER BY m.id USING OPERATOR(pg_catalog.>) LIMIT 1",
        &[argument(project_id)],
        |tuple| tuple.get::<String>(1),
    )?;
    Ok(rows.into_iter().flatten().next().and_then(|text| serde_json::from_str(&text).ok()))
}

/// The class that the last model of a project looks for which has one.
pub fn positive_class(project_id: i64) -> Result<Option<String>> {
    let rows = select(
        "SELECT metrics OPERATOR(pg_catalog.->>) 'positive_class' FROM pgml.models
         WHERE project_id OPERATOR(pg_catalog.=) $1
         AND metrics OPERATOR(pg_catalog.->>) 'positive_class' IS NOT NULL
         ORDER BY id USING OPERATOR(pg_catalog.>) LIMIT 1",
        &[argument(project_id)],
        |tuple| value(tuple, 1),
    )?;
    Ok(rows.into_iter().next())
}

/// What a model was made by and of.
pub struct Recipe {
    pub algorithm: String,
    pub hyperparams: serde_json::Map<String, serde_json::Value>,
    pub preprocess: serde_json::Map<String, serde_json::Value>,
    /// That it was trained and tested on, where that is known.
    pub rows: Option<u64>,
}

impl Recipe {
    /// How many more rows than another it was made of; `None` where it was made otherwise, or by no more rows.
    pub fn rows_more(&self, other: &Recipe) -> Option<u64> {
        let alike = self.algorithm == other.algorithm
            && self.hyperparams == other.hyperparams
            && self.preprocess == other.preprocess;
        self.rows?.checked_sub(other.rows?).filter(|more| alike && *more > 0)
    }
}

/// That of a model which was trained here.
pub fn recipe_of_model(model_id: i64) -> Result<Option<Recipe>> {
    let rows = select(
        "SELECT m.algorithm, m.hyperparams::pg_catalog.text, s.analysis::pg_catalog.text
         FROM pgml.models m INNER JOIN pgml.snapshots s ON s.id OPERATOR(pg_catalog.=) m.snapshot_id
         WHERE m.id OPERATOR(pg_catalog.=) $1",
        &[argument(model_id)],
        |tuple| {
            let json = |column: usize| -> SpiResult<serde_json::Value> {
                let text: Option<String> = tuple.get(column)?;
                Ok(text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default())
            };
            let (hyperparams, analysis) = (json(2)?, json(3)?);
            let object =
                |json: Option<&serde_json::Value>| json.and_then(|json| json.as_object().cloned()).unwrap_or_default();
            Ok(Recipe {
                algorithm: value(tuple, 1)?,
                hyperparams: object(Some(&hyperparams)),
                preprocess: object(analysis.get("preprocess")),
                rows: analysis.get("samples").and_then(serde_json::Value::as_u64),
            })
        },
    )?;
    Ok(rows.into_iter().next())
}

/// Whether a relation has a column of that name.
pub fn has_column(relation: pg_sys::Oid, name: &str) -> bool {
    // SAFETY: a NUL-terminated string; reads the catalog caches inside the open transaction.
    CString::new(name).is_ok_and(|name| unsafe { pg_sys::get_attnum(relation, name.as_ptr()) } > 0)
}

/// The columns and the analysis of the snapshot that a model was trained on, as they were written down.
pub fn snapshot_of_model(model_id: i64) -> Result<Option<(serde_json::Value, serde_json::Value)>> {
    let rows = select(
        "SELECT s.columns::pg_catalog.text, s.analysis::pg_catalog.text
         FROM pgml.models m INNER JOIN pgml.snapshots s ON s.id OPERATOR(pg_catalog.=) m.snapshot_id
         WHERE m.id OPERATOR(pg_catalog.=) $1",
        &[argument(model_id)],
        |tuple| {
            let json =
                |text: Option<String>| text.and_then(|text| serde_json::from_str(&text).ok()).unwrap_or_default();
            Ok((json(tuple.get(1)?), json(tuple.get(2)?)))
        },
    )?;
    Ok(rows.into_iter().next())
}

/// The id and the relation's name of the data that a model was trained on.
pub fn data_of_model(model_id: i64) -> Result<Option<(i64, String)>> {
    let rows = select(
        "SELECT s.id, s.relation_name FROM pgml.models m
         INNER JOIN pgml.snapshots s ON s.id OPERATOR(pg_catalog.=) m.snapshot_id
         WHERE m.id OPERATOR(pg_catalog.=) $1",
        &[argument(model_id)],
        |tuple| Ok((value(tuple, 1)?, value(tuple, 2)?)),
    )?;
    Ok(rows.into_iter().next())
}

/// What the analysis of a snapshot says was done to columns.
fn preprocess_of(analysis: &str) -> Option<serde_json::Map<String, serde_json::Value>> {
    let analysis: serde_json::Value = serde_json::from_str(analysis).ok()?;
    analysis.get("preprocess")?.as_object().cloned()
}

/// The next id of a table of the registry.
pub fn next_id(sequence: &CStr) -> Result<i64> {
    let sequence = relation_oid(sequence)?;
    let rows = update("SELECT pg_catalog.nextval($1)", &[argument(sequence)], |tuple| value::<i64>(tuple, 1))?;
    rows.into_iter().next().ok_or_else(|| Error::corrupted("a sequence gave no number"))
}

/// Records a snapshot.
pub fn insert_snapshot(snapshot: &Snapshot, columns: &serde_json::Value, analysis: &serde_json::Value) -> Result<()> {
    update(
        "INSERT INTO pgml.snapshots
             (id, relation_name, y_column_name, test_size, test_sampling, status, columns, analysis, materialized,
              owner)
         VALUES ($1, $2, $3, $4, $5::pgml.sampling, 'successful', $6::pg_catalog.jsonb, $7::pg_catalog.jsonb, $8,
                 $9::pg_catalog.oid)",
        &[
            argument(snapshot.id),
            argument(snapshot.relation_name.as_str()),
            argument(snapshot.y_column_name.clone()),
            argument(snapshot.test_size),
            argument(snapshot.test_sampling.as_str()),
            argument(columns.to_string()),
            argument(analysis.to_string()),
            argument(snapshot.materialized),
            role_argument(snapshot.owner),
        ],
        |_| Ok(()),
    )?;
    Ok(())
}

/// What every role may do with a new project.
const GRANTED_TO_PUBLIC: &str = "predict";

/// The project of that name, made for the current role if there is none.
fn ensure_project(name: &str, task: &str) -> Result<Project> {
    let made: Vec<i64> = update(
        "INSERT INTO pgml.projects (name, task, owner) VALUES ($1, $2::pgml.task, $3::pg_catalog.oid)
         ON CONFLICT (name) DO NOTHING RETURNING id",
        &[argument(name), argument(task), role_argument(access::user())],
        |tuple| value(tuple, 1),
    )?;
    if let Some(id) = made.first() {
        grant(*id, pg_sys::InvalidOid, GRANTED_TO_PUBLIC)?;
    }
    // A concurrent training may have made it meanwhile; a new snapshot sees it.
    find_project(name)?.ok_or_else(|| {
        Error::new(
            PgSqlErrorCode::ERRCODE_T_R_SERIALIZATION_FAILURE,
            format!("project \"{name}\" was made by a concurrent transaction"),
        )
    })
}

/// The project that the current role adds a model to, made if need be, and locked until the end of the transaction.
///
/// # Errors
/// 42501 where the role may not train it, or deploy for it if `deploying`; 42704 where another session deleted it just now.
pub fn project_to_add_to(name: &str, task: &str, deploying: bool) -> Result<Project> {
    // Before, since it may have been deleted during the training, and making one is a right of its own.
    access::require_training(name, deploying)?;
    let project = ensure_project(name, task)?;
    // And after: another role may have made it meanwhile.
    access::require_training(name, deploying)?;
    let again = "Train or import the model again: this makes the project anew.";
    lock_project(project.id, name).map_err(|error| error.hint(again))?;
    match keep_project(project.id)? {
        true => Ok(project),
        false => Err(deleted(name).hint(again)),
    }
}

/// A row for pgml.models.
pub struct NewModel<'a> {
    pub id: i64,
    pub project_id: i64,
    /// What it was trained on, where that is known.
    pub snapshot_id: Option<i64>,
    pub num_features: i32,
    pub algorithm: &'a str,
    pub hyperparams: String,
    pub metrics: String,
    /// `grid` or `random`, and what was asked for, where the hyperparameters were searched for.
    pub search: Option<(&'a str, String, String)>,
}

/// Records a trained model.
pub fn insert_model(model: &NewModel<'_>) -> Result<()> {
    let none = || "{}".to_owned();
    let (search, params, args) = match &model.search {
        Some((name, params, args)) => (Some(*name), params.clone(), args.clone()),
        None => (None, none(), none()),
    };
    update(
        "INSERT INTO pgml.models
             (id, project_id, snapshot_id, num_features, algorithm, runtime, hyperparams, status, metrics, search,
              search_params, search_args)
         VALUES ($1, $2, $3, $4, $5, 'rust', $6::pg_catalog.jsonb, 'successful', $7::pg_catalog.jsonb, $8,
                 $9::pg_catalog.jsonb, $10::pg_catalog.jsonb)",
        &[
            argument(model.id),
            argument(model.project_id),
            argument(model.snapshot_id),
            argument(model.num_features),
            argument(model.algorithm),
            argument(model.hyperparams.as_str()),
            argument(model.metrics.as_str()),
            argument(search),
            argument(params),
            argument(args),
        ],
        |_| Ok(()),
    )?;
    Ok(())
}

/// Records how far a model's predictions are off; the tables of before pgml 3.2.0 have no room for that.
pub fn set_residuals(model_id: i64, residuals: &serde_json::Value) -> Result<()> {
    let models = relation_oid(c"models")?;
    // SAFETY: a catalog look-up; the name is NUL-terminated.
    if unsafe { pg_sys::get_attnum(models, c"residuals".as_ptr()) } <= 0 {
        return Ok(());
    }
    update(
        "UPDATE pgml.models SET residuals = $2::pg_catalog.jsonb WHERE id OPERATOR(pg_catalog.=) $1",
        &[argument(model_id), argument(residuals.to_string())],
        |_| Ok(()),
    )?;
    Ok(())
}

/// Records the learning curve of a model; the tables of before pgml 3.4.0 have no room for that.
pub fn insert_curve(model_id: i64, curve: &Curve) -> Result<()> {
    if curve.series.is_empty() || !has(CURVES)? {
        return Ok(());
    }
    for series in &curve.series {
        let (rounds, values): (Vec<i32>, Vec<f64>) =
            series.points.iter().map(|(round, value)| (i32::try_from(*round).unwrap_or(i32::MAX), *value)).unzip();
        update(
            "INSERT INTO pgml.learning_curves (model_id, part, metric, rounds, \"values\") VALUES ($1, $2, $3, $4, $5)",
            &[
                argument(model_id),
                argument(series.part.name()),
                argument(series.metric.as_str()),
                argument(rounds),
                argument(values),
            ],
            |_| Ok(()),
        )?;
    }
    Ok(())
}

/// A series of a stored learning curve: part, metric, rounds and values.
pub type StoredSeries = (String, String, Vec<i32>, Vec<f64>);

/// The learning curve of a model, as it is stored.
pub fn learning_curve(model_id: i64) -> Result<Vec<StoredSeries>> {
    select(
        "SELECT part, metric, rounds, \"values\" FROM pgml.learning_curves
         WHERE model_id OPERATOR(pg_catalog.=) $1 ORDER BY metric, part USING OPERATOR(pg_catalog.>)",
        &[argument(model_id)],
        |tuple| Ok((value(tuple, 1)?, value(tuple, 2)?, value(tuple, 3)?, value(tuple, 4)?)),
    )
}

/// Says what a model is about; `None` keeps what is.
pub fn describe_model(model_id: i64, description: Option<&str>, tags: Option<Vec<String>>) -> Result<()> {
    update(
        "UPDATE pgml.models SET description = CASE WHEN $2 IS NULL THEN description
                 WHEN $2 OPERATOR(pg_catalog.<>) '' THEN $2 END,
             tags = COALESCE($3, tags)
         WHERE id OPERATOR(pg_catalog.=) $1",
        &[argument(model_id), argument(description), argument(tags)],
        |_| Ok(()),
    )?;
    Ok(())
}

/// All that the registry knows of a model but its bytes: `project`, `model`, `snapshot` (null where there is none) and
/// `deployed`.
pub fn all_of_model(model_id: i64) -> Result<serde_json::Value> {
    let rows: Vec<String> = select(
        "SELECT pg_catalog.jsonb_build_object(
             'project', pg_catalog.to_jsonb(p),
             'model', pg_catalog.to_jsonb(m),
             'snapshot', pg_catalog.to_jsonb(s),
             'deployed', m.id OPERATOR(pg_catalog.=) (SELECT d.model_id FROM pgml.deployments d
                 WHERE d.project_id OPERATOR(pg_catalog.=) p.id ORDER BY d.id USING OPERATOR(pg_catalog.>) LIMIT 1)
             )::pg_catalog.text
         FROM pgml.models m INNER JOIN pgml.projects p ON p.id OPERATOR(pg_catalog.=) m.project_id
         LEFT JOIN pgml.snapshots s ON s.id OPERATOR(pg_catalog.=) m.snapshot_id
         WHERE m.id OPERATOR(pg_catalog.=) $1",
        &[argument(model_id)],
        |tuple| value(tuple, 1),
    )?;
    let text = rows.into_iter().next().ok_or_else(|| names::no_such_model(model_id))?;
    serde_json::from_str(&text).map_err(|error| Error::corrupted(format!("model {model_id} cannot be read: {error}")))
}

/// What of a project is watched.
pub struct Watch {
    pub relation_name: String,
    pub time_column: Option<String>,
    /// As text; with a time column.
    pub period: Option<String>,
    pub thresholds: serde_json::Value,
    /// The role that gave `relation_name`.
    pub owner: pg_sys::Oid,
}

/// Whether a text is an interval above 0.
pub fn is_period(text: &str) -> Result<bool> {
    let rows = select(
        "SELECT $1::pg_catalog.interval OPERATOR(pg_catalog.>) '0'::pg_catalog.interval",
        &[argument(text)],
        |tuple| value(tuple, 1),
    )?;
    Ok(rows.first() == Some(&true))
}

/// Records what of a project is watched from now on.
pub fn set_watch(project_id: i64, watch: &Watch) -> Result<()> {
    if !keep_project(project_id)? {
        return Err(Error::undefined("the project was deleted by another session"));
    }
    update(
        "INSERT INTO pgml.watches AS w (project_id, relation_name, time_column, period, thresholds, owner)
         VALUES ($1, $2, $3, $4::pg_catalog.interval, $5::pg_catalog.jsonb, $6::pg_catalog.oid)
         ON CONFLICT (project_id) DO UPDATE SET relation_name = EXCLUDED.relation_name,
             time_column = EXCLUDED.time_column, period = EXCLUDED.period, thresholds = EXCLUDED.thresholds,
             owner = EXCLUDED.owner, created_at = EXCLUDED.created_at",
        &[
            argument(project_id),
            argument(watch.relation_name.as_str()),
            argument(watch.time_column.as_deref()),
            argument(watch.period.as_deref()),
            argument(watch.thresholds.to_string()),
            role_argument(watch.owner),
        ],
        |_| Ok(()),
    )?;
    Ok(())
}

/// What of a project is watched.
pub fn watch(project_id: i64) -> Result<Option<Watch>> {
    let rows = select(
        "SELECT relation_name, time_column, period::pg_catalog.text, thresholds::pg_catalog.text,
             owner::pg_catalog.oid
         FROM pgml.watches WHERE project_id OPERATOR(pg_catalog.=) $1",
        &[argument(project_id)],
        |tuple| {
            Ok(Watch {
                relation_name: value(tuple, 1)?,
                time_column: tuple.get(2)?,
                period: tuple.get(3)?,
                thresholds: tuple
                    .get::<String>(4)?
                    .and_then(|text| serde_json::from_str(&text).ok())
                    .unwrap_or_default(),
                owner: tuple.get(5)?.unwrap_or(pg_sys::InvalidOid),
            })
        },
    )?;
    Ok(rows.into_iter().next())
}

/// Ends the watch of a project, and forgets its checks; whether there was one.
pub fn end_watch(project_id: i64) -> Result<bool> {
    let statement = "DELETE FROM pgml.watches WHERE project_id OPERATOR(pg_catalog.=) $1 RETURNING project_id";
    let ended: Vec<i64> = update(statement, &[argument(project_id)], |tuple| value(tuple, 1))?;
    let statement = "DELETE FROM pgml.watch_checks WHERE project_id OPERATOR(pg_catalog.=) $1";
    update(statement, &[argument(project_id)], |_| Ok(()))?;
    Ok(!ended.is_empty())
}

/// Checks of a project that are kept.
const MOST_CHECKS: i64 = 1000;

/// Records a check. Gives the results of the one before.
pub fn insert_check(project_id: i64, model_id: i64, results: &serde_json::Value) -> Result<serde_json::Value> {
    let before: Vec<String> = update(
        "SELECT results::pg_catalog.text FROM pgml.watch_checks WHERE project_id OPERATOR(pg_catalog.=) $1
         ORDER BY id USING OPERATOR(pg_catalog.>) LIMIT 1",
        &[argument(project_id)],
        |tuple| value(tuple, 1),
    )?;
    update(
        "INSERT INTO pgml.watch_checks (project_id, model_id, results) VALUES ($1, $2, $3::pg_catalog.jsonb)",
        &[argument(project_id), argument(model_id), argument(results.to_string())],
        |_| Ok(()),
    )?;
    update(
        "DELETE FROM pgml.watch_checks WHERE project_id OPERATOR(pg_catalog.=) $1
         AND id OPERATOR(pg_catalog.<=) (SELECT id FROM pgml.watch_checks WHERE project_id OPERATOR(pg_catalog.=) $1
             ORDER BY id USING OPERATOR(pg_catalog.>) OFFSET $2 LIMIT 1)",
        &[argument(project_id), argument(MOST_CHECKS)],
        |_| Ok(()),
    )?;
    Ok(before.first().and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default())
}

/// Sends a notification when the transaction commits.
pub fn notify(channel: &str, payload: &str) -> Result<()> {
    update("SELECT pg_catalog.pg_notify($1, $2)", &[argument(channel), argument(payload)], |_| Ok(())).map(drop)
}

/// Bytes of a part of a file: small enough for every client and for COPY.
const PART_BYTES: usize = 64 << 20;

/// Stores a model's file in parts.
pub fn insert_file(model_id: i64, path: &str, bytes: &[u8]) -> Result<()> {
    for (part, data) in (0i32..).zip(bytes.chunks(PART_BYTES)) {
        update(
            "INSERT INTO pgml.files (model_id, path, part, data) VALUES ($1, $2, $3, $4)",
            &[argument(model_id), argument(path), argument(part), argument(data)],
            |_| Ok(()),
        )?;
    }
    Ok(())
}

/// Whether a model of the project has these bytes.
pub fn has_file(project_id: i64, bytes: &[u8]) -> Result<bool> {
    let found: Vec<i64> = select(
        "SELECT m.id FROM pgml.models m INNER JOIN pgml.files f ON f.model_id OPERATOR(pg_catalog.=) m.id
         WHERE m.project_id OPERATOR(pg_catalog.=) $1
         AND f.digest OPERATOR(pg_catalog.=) pg_catalog.sha256($2) AND f.part OPERATOR(pg_catalog.=) 0 LIMIT 1",
        &[argument(project_id), argument(bytes.get(..PART_BYTES).unwrap_or(bytes))],
        |tuple| value(tuple, 1),
    )?;
    Ok(!found.is_empty())
}

/// Gives a role (0 for PUBLIC) a privilege on a project.
pub fn grant(project_id: i64, role: pg_sys::Oid, privilege: &str) -> Result<()> {
    if !keep_project(project_id)? {
        return Err(Error::undefined("the project was deleted by another session"));
    }
    update(
        "INSERT INTO pgml.privileges (project_id, grantee, privilege, grantor)
         VALUES ($1, $2::pg_catalog.oid, $3, $4::pg_catalog.oid) ON CONFLICT DO NOTHING",
        &[argument(project_id), role_argument(role), argument(privilege), role_argument(access::user())],
        |_| Ok(()),
    )?;
    Ok(())
}

/// Takes a privilege from a role.
pub fn revoke(project_id: i64, role: pg_sys::Oid, privilege: &str) -> Result<()> {
    update(
        "DELETE FROM pgml.privileges WHERE project_id OPERATOR(pg_catalog.=) $1
         AND grantee::pg_catalog.oid OPERATOR(pg_catalog.=) $2::pg_catalog.oid AND privilege OPERATOR(pg_catalog.=) $3",
        &[argument(project_id), role_argument(role), argument(privilege)],
        |_| Ok(()),
    )?;
    Ok(())
}

/// What goes with a row of a table that was deleted.
fn dependents(table: &CStr) -> &'static [&'static str] {
    match table.to_bytes() {
        b"projects" => &[
            "DELETE FROM pgml.watches WHERE project_id OPERATOR(pg_catalog.=) $1",
            "DELETE FROM pgml.watch_checks WHERE project_id OPERATOR(pg_catalog.=) $1",
            "DELETE FROM pgml.trials WHERE project_id OPERATOR(pg_catalog.=) $1",
            "DELETE FROM pgml.deployments WHERE project_id OPERATOR(pg_catalog.=) $1",
            "DELETE FROM pgml.models WHERE project_id OPERATOR(pg_catalog.=) $1",
            "DELETE FROM pgml.privileges WHERE project_id OPERATOR(pg_catalog.=) $1",
        ],
        b"models" => &[
            "DELETE FROM pgml.trials WHERE model_id OPERATOR(pg_catalog.=) $1",
            "DELETE FROM pgml.deployments WHERE model_id OPERATOR(pg_catalog.=) $1",
            "DELETE FROM pgml.files WHERE model_id OPERATOR(pg_catalog.=) $1",
            "DELETE FROM pgml.learning_curves WHERE model_id OPERATOR(pg_catalog.=) $1",
        ],
        b"snapshots" => &["UPDATE pgml.models SET snapshot_id = NULL WHERE snapshot_id OPERATOR(pg_catalog.=) $1"],
        _ => &[],
    }
}

/// Deletes what belongs to a row of `table` that was deleted.
pub fn forget_dependents(table: &CStr, id: i64) -> Result<()> {
    let _owner = AsOwner::begin()?;
    Spi::connect_mut(|_| {
        for statement in dependents(table) {
            // The tables of before pgml 3.4.0, which brought all of these.
            let is_new = ["pgml.learning_curves", "pgml.watches", "pgml.watch_checks"];
            if is_new.iter().any(|table| statement.contains(table)) && !has(CURVES)? {
                continue;
            }
            let statement = CString::new(*statement).map_err(|error| Error::invalid(error.to_string()))?;
            // SAFETY: connected to SPI; the arrays have the one element that the statement takes. As the system's own
            // referential checks do it, a transaction with one snapshot for all its statements looks for rows that were
            // added since, too: deleting these is a serialization failure, and leaving them would be an orphan.
            let done = unsafe {
                let (mut types, mut values) = ([pg_sys::INT8OID], [pg_sys::Datum::from(id)]);
                let plan = pg_sys::SPI_prepare(statement.as_ptr(), 1, types.as_mut_ptr());
                let (latest, check) = if pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32 {
                    pg_sys::CommandCounterIncrement();
                    (pg_sys::GetLatestSnapshot(), pg_sys::GetTransactionSnapshot())
                } else {
                    (std::ptr::null_mut(), std::ptr::null_mut())
                };
                pg_sys::SPI_execute_snapshot(plan, values.as_mut_ptr(), std::ptr::null(), latest, check, false, true, 0)
            };
            if done < 0 {
                return Err(Error::corrupted(format!("SPI failed with {done}")));
            }
        }
        Ok(())
    })
}

/// Deletes a snapshot that no model was trained on, with the rows that it kept.
pub fn forget_snapshot(id: i64) -> Result<()> {
    let materialized: Vec<bool> = update(
        "DELETE FROM pgml.snapshots s WHERE s.id OPERATOR(pg_catalog.=) $1
         AND NOT EXISTS (SELECT FROM pgml.models m WHERE m.snapshot_id OPERATOR(pg_catalog.=) s.id)
         RETURNING s.materialized",
        &[argument(id)],
        |tuple| Ok(tuple.get(1)?.unwrap_or(false)),
    )?;
    if materialized.contains(&true) { drop_materialized(id) } else { Ok(()) }
}

/// Drops `pgml.snapshot_<id>`, unless it is read just now (who deletes is not to wait for a training), or is none of the
/// registry's owner's business.
fn drop_materialized(id: i64) -> Result<()> {
    let name = format!("snapshot_{id}");
    let relation = relation_named(&name)?;
    if relation == pg_sys::InvalidOid {
        return Ok(());
    }
    let is_owned =
        access::role_acts_as(crate::owner::owner_of(relation_oid(c"projects")?), crate::owner::owner_of(relation));
    let is_table = relation_kind(relation)? == pg_sys::RELKIND_RELATION;
    // SAFETY: a lock that ends with the transaction, on a relation that may be gone: that is looked at then.
    let is_free =
        || unsafe { pg_sys::ConditionalLockRelationOid(relation, pg_sys::AccessExclusiveLock as pg_sys::LOCKMODE) };
    if is_owned && is_table && is_free() && relation_named(&name)? == relation {
        update(&format!("DROP TABLE pgml.{name}"), &[], |_| Ok(())).map(|_| ())
    } else {
        pgrx::warning!(
            "table pgml.{name} was not dropped; the models trained on its rows are deleted: drop the table when it is not in use"
        );
        Ok(())
    }
}

/// Gives a project another name.
pub fn rename_project(project_id: i64, name: &str) -> Result<()> {
    let statement = "UPDATE pgml.projects SET name = $2 WHERE id OPERATOR(pg_catalog.=) $1";
    update(statement, &[argument(project_id), argument(name)], |_| Ok(())).map(|_| ())
}

/// Deletes a project, and what belongs to it.
pub fn delete_project(project_id: i64) -> Result<()> {
    let statement = "DELETE FROM pgml.projects WHERE id OPERATOR(pg_catalog.=) $1";
    update(statement, &[argument(project_id)], |_| Ok(())).map(|_| ())
}

/// Deletes a model, and what belongs to it.
pub fn delete_model(model_id: i64) -> Result<()> {
    let statement = "DELETE FROM pgml.models WHERE id OPERATOR(pg_catalog.=) $1";
    update(statement, &[argument(model_id)], |_| Ok(())).map(|_| ())
}

/// Columns, indexes and constraints whose expressions predict by the id of one of these models: PostgreSQL knows that they
/// need the function, and their text has the id.
pub fn users_of_models(ids: Vec<i64>) -> Result<Vec<String>> {
    select(
        "WITH users AS (
             SELECT DISTINCT d.classid, d.objid, p.proname
             FROM pg_catalog.pg_extension e
             INNER JOIN pg_catalog.pg_depend m ON m.refclassid OPERATOR(pg_catalog.=) 'pg_catalog.pg_extension'::pg_catalog.regclass
                 AND m.refobjid OPERATOR(pg_catalog.=) e.oid
                 AND m.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_proc'::pg_catalog.regclass
             INNER JOIN pg_catalog.pg_proc p ON p.oid OPERATOR(pg_catalog.=) m.objid
             INNER JOIN pg_catalog.pg_depend d ON d.refclassid OPERATOR(pg_catalog.=) m.classid
                 AND d.refobjid OPERATOR(pg_catalog.=) m.objid
             WHERE e.extname OPERATOR(pg_catalog.=) 'pgml'
         ), texts AS (
             SELECT u.proname, pg_catalog.format('column %I of table %s', a.attname, f.adrelid::pg_catalog.regclass) AS name,
                 pg_catalog.pg_get_expr(f.adbin, f.adrelid) AS text
             FROM users u
             INNER JOIN pg_catalog.pg_attrdef f ON f.oid OPERATOR(pg_catalog.=) u.objid
             INNER JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) f.adrelid
                 AND a.attnum OPERATOR(pg_catalog.=) f.adnum
             WHERE u.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_attrdef'::pg_catalog.regclass
             UNION ALL
             SELECT u.proname, pg_catalog.format('index %s', i.indexrelid::pg_catalog.regclass),
                 pg_catalog.pg_get_indexdef(i.indexrelid)
             FROM users u
             INNER JOIN pg_catalog.pg_index i ON i.indexrelid OPERATOR(pg_catalog.=) u.objid
             WHERE u.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_class'::pg_catalog.regclass
             UNION ALL
             SELECT u.proname, pg_catalog.format('constraint %I of table %s', c.conname, c.conrelid::pg_catalog.regclass),
                 pg_catalog.pg_get_constraintdef(c.oid)
             FROM users u
             INNER JOIN pg_catalog.pg_constraint c ON c.oid OPERATOR(pg_catalog.=) u.objid
             WHERE u.classid OPERATOR(pg_catalog.=) 'pg_catalog.pg_constraint'::pg_catalog.regclass
         )
         SELECT DISTINCT t.name FROM texts t,
             LATERAL pg_catalog.regexp_matches(t.text, pg_catalog.concat($2, t.proname, $3), 'g') AS found
         WHERE found[1]::pg_catalog.int8 OPERATOR(pg_catalog.=) ANY ($1)",
        &[argument(ids), argument(r"\m"), argument(r"\((?:\w+ => )?\(?'?([0-9]+)'?\)?::bigint")],
        |tuple| value(tuple, 1),
    )
}

/// Gives a project to another role.
pub fn set_owner(project_id: i64, role: pg_sys::Oid) -> Result<()> {
    update(
        "UPDATE pgml.projects SET owner = $2::pg_catalog.oid WHERE id OPERATOR(pg_catalog.=) $1",
        &[argument(project_id), role_argument(role)],
        |_| Ok(()),
    )?;
    Ok(())
}

/// Whether the current role may make projects: it may INSERT into `pgml.projects`.
pub fn may_make_projects() -> Result<bool> {
    let relation = relation_oid(c"projects")?;
    // SAFETY: a catalog look-up, of a relation that exists.
    let granted =
        unsafe { pg_sys::pg_class_aclcheck(relation, access::user(), pg_sys::AclMode::from(pg_sys::ACL_INSERT)) };
    Ok(granted == pg_sys::AclResult::ACLCHECK_OK)
}

/// Refuses a role that may not make tables in the extension's schema, in PostgreSQL's words and with the way out.
fn require_making_tables() -> Result<()> {
    if Spi::get_one("SELECT pg_catalog.has_schema_privilege('pgml', 'CREATE')")?.unwrap_or(false) {
        return Ok(());
    }
    let role = pgrx::spi::quote_identifier(access::role_name(access::user()));
    Err(Error::new(PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE, "permission denied for schema pgml".to_owned())
        .hint(format!(
            "The statement makes a table in this schema, which requires GRANT CREATE ON SCHEMA pgml TO {role}."
        )))
}

/// Makes `pgml.snapshot_<id>` from the rows of a statement; gives its oid.
pub fn materialize(id: i64, statement: &str) -> Result<pg_sys::Oid> {
    require_making_tables()?;
    run_as_caller(&format!("CREATE TABLE pgml.snapshot_{id} AS {statement}"))?;
    let name = CString::new(format!("snapshot_{id}")).map_err(|error| Error::invalid(error.to_string()))?;
    relation_oid(&name)
}

/// Oid of `pgml.<name>`; 0 if there is none.
fn relation_named(name: &str) -> Result<pg_sys::Oid> {
    let name = CString::new(name).map_err(|error| Error::invalid(error.to_string()))?;
    Ok(find_relation(&name))
}

/// A relation in the extension's schema, as it is until the end of the transaction.
pub struct LockedRelation {
    pub relation: pg_sys::Oid,
    pub owner: pg_sys::Oid,
}

/// The relation `pgml.<name>`, locked against what would make another one of it.
pub fn find_locked(name: &str) -> Result<Option<LockedRelation>> {
    let name = CString::new(name).map_err(|error| Error::invalid(error.to_string()))?;
    loop {
        let relation = find_relation(&name);
        if relation == pg_sys::InvalidOid {
            return Ok(None);
        }
        // SAFETY: a lock that is released with the transaction, on a relation that may be gone: that is looked at then.
        unsafe { pg_sys::LockRelationOid(relation, pg_sys::AccessShareLock as pg_sys::LOCKMODE) };
        if find_relation(&name) == relation {
            return Ok(Some(LockedRelation { relation, owner: crate::owner::owner_of(relation) }));
        }
    }
}

/// How many rows the table `pgml.<name>` has, if the caller may read it.
pub fn count_as_caller(name: &str) -> Result<i64> {
    let count = Spi::connect(|client| {
        client.select(&format!("SELECT pg_catalog.count(*) FROM pgml.{name}"), None, &[])?.first().get_one::<i64>()
    })?;
    Ok(count.unwrap_or(0))
}

/// Names and types of a plain table's columns, as its definition has them; `None` for anything else.
fn columns_of_table(relation: pg_sys::Oid) -> Result<Option<String>> {
    let found: Vec<String> = select(
        "SELECT pg_catalog.string_agg(pg_catalog.format('\"%s\" %s', attname, \
             pg_catalog.format_type(atttypid, atttypmod)), ', ' ORDER BY attnum) \
         FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_class c ON c.oid OPERATOR(pg_catalog.=) a.attrelid \
         WHERE a.attrelid OPERATOR(pg_catalog.=) $1 AND attnum OPERATOR(pg_catalog.>) 0 AND NOT attisdropped \
             AND c.relkind OPERATOR(pg_catalog.=) 'r'::pg_catalog.\"char\" \
         GROUP BY c.oid",
        &[argument(relation)],
        |tuple| value(tuple, 1),
    )?;
    Ok(found.into_iter().next())
}

/// Makes the table `pgml.<name>` anew, with these column definitions and rows, both written as SQL; gives its name. Every
/// role may read the table. The one that was `found` goes, which is the current role's own; the names of the registry are
/// not for use here. One with the same columns stays, with the views on it, and only its rows go.
pub fn remake_table(name: &str, found: Option<&LockedRelation>, columns: &str, rows: &[String]) -> Result<String> {
    let table = format!("pgml.{name}");
    let before = found.map(|found| columns_of_table(found.relation)).transpose()?;
    if before.as_ref().is_some_and(|before| before.as_deref() == Some(columns)) {
        run_as_caller(&format!("TRUNCATE {table}"))?;
    } else {
        require_making_tables()?;
        if found.is_some() {
            run_as_caller(&format!("DROP TABLE {table}"))?;
        }
        run_as_caller(&format!("CREATE TABLE {table} ({columns})"))?;
        run_as_caller(&format!("GRANT SELECT ON {table} TO PUBLIC"))?;
    }
    if !rows.is_empty() {
        run_as_caller(&format!("INSERT INTO {table} VALUES {}", rows.join(", ")))?;
    }
    Ok(table)
}

/// Makes what is added to one project, and what deletes it or a model of it, come one after another until the end of the
/// transaction.
///
/// # Errors
/// 42704 where the project was deleted by the transaction that had the lock before.
pub fn lock_project(project_id: i64, name: &str) -> Result<()> {
    let relation = relation_oid(c"projects")?;
    // The lock's key has 32 bits: projects 2^32 apart wait for each other, and that is all.
    let object = pg_sys::Oid::from(project_id as u32);
    // SAFETY: a lock of the lock manager's, on a number of our own; released with the transaction.
    unsafe {
        pg_sys::LockDatabaseObject(relation, object, 0, pg_sys::ShareUpdateExclusiveLock as pg_sys::LOCKMODE);
    }
    match names::with_latest(|snapshot| lookup::project(project_id, snapshot))? {
        Some(_) => Ok(()),
        None => Err(deleted(name)),
    }
}

/// A project is not the one any more to which a training was to add a model.
pub fn gone(project: &str) -> Error {
    Error::undefined(format!("project \"{project}\" was deleted or renamed while the model was trained"))
        .hint("Train the model again: this makes the project anew, if it is not there.")
}

fn deleted(project: &str) -> Error {
    Error::undefined(format!("project \"{project}\" was deleted by another session"))
}
