//! `pgml.import_postgresml`: the models of a PostgresML 2.x schema, whose tables stand in a schema of another name.
//!
//! The tables are read with the caller's rights, like any others. Of what PostgresML stored, XGBoost's and LightGBM's own
//! files and its linear regressions are read; what its Python has pickled only Python reads.

use std::collections::HashMap;

use pgrx::spi::SpiHeapTupleData;
use pgrx::{IntoDatum, PgSqlErrorCode, Spi, pg_sys};
use serde_json::Value;

use super::description::Given;
use super::import;
use super::read::{self, Carried, Format};
use crate::access;
use crate::error::{Error, Result};
use crate::memory::GivenBack;
use crate::model_meta::Task;
use crate::registry::{self, argument};
use crate::sql::{Call, LONGEST_NAME, text_datum};

crate::sql_function!(pgml_import_postgresml, import_postgresml);

/// Where PostgresML keeps a model that is no language model.
const PATH: &str = "estimator.rmp";

/// A row of the old `models`, with what the others say of it.
struct Old {
    id: i64,
    project: String,
    task: String,
    algorithm: String,
    runtime: Option<String>,
    status: String,
    num_features: i32,
    hyperparams: String,
    metrics: String,
    /// Of the snapshot, as JSON.
    columns: Option<String>,
    /// Whether it is the one that answers for its project.
    is_deployed: bool,
}

/// What became of a model.
enum Outcome {
    Imported { id: i64, deployed: bool },
    There,
    Left(String),
}

fn import_postgresml(call: &Call) -> Result<pg_sys::Datum> {
    let _given_back = GivenBack;
    let schema = call.text(0, "schema_name", LONGEST_NAME)?.ok_or_else(|| Error::null_argument("schema_name"))?;
    registry::check_writable(c"pgml.import_postgresml()")?;
    let schema = Schema::find(&schema)?;
    let mut deployed = HashMap::new();
    let mut rows = Vec::new();
    for old in schema.models()? {
        pgrx::check_for_interrupts!();
        // Whether the project had a deployment before any of its models came.
        if !deployed.contains_key(&old.project) {
            deployed.insert(old.project.clone(), has_deployment(&old.project)?);
        }
        let deploy = old.is_deployed && !deployed[&old.project];
        let outcome = match carry(&schema, &old, deploy) {
            Ok(outcome) => outcome,
            Err(error) => Outcome::Left(error.message()?),
        };
        let (model, said, reason) = match outcome {
            Outcome::Imported { id, deployed: true } => (Some(id), "deployed", None),
            Outcome::Imported { id, deployed: false } => (Some(id), "imported", None),
            Outcome::There => (None, "there", Some("the project has a model of the same bytes".to_owned())),
            Outcome::Left(reason) => (None, "left", Some(reason)),
        };
        rows.push(vec![
            Some(text_datum(&old.project)),
            old.id.into_datum(),
            model.and_then(IntoDatum::into_datum),
            Some(text_datum(&old.algorithm)),
            Some(text_datum(said)),
            reason.map(|reason| text_datum(&reason)),
        ]);
    }
    call.rows(&rows)
}

fn has_deployment(project: &str) -> Result<bool> {
    match registry::find_project(project)? {
        Some(project) => Ok(registry::deployed_model(project.id)?.is_some()),
        None => Ok(false),
    }
}

fn carry(schema: &Schema, old: &Old, deploy: bool) -> Result<Outcome> {
    let left = |reason: String| Ok(Outcome::Left(reason));
    if old.status != "successful" {
        return left(format!("the training of the model has the status \"{}\"", old.status));
    }
    let Some(task) = Task::parse(&old.task).filter(|task| task.has_label()) else {
        return left(format!("the model is for {}, and models of this task cannot be imported", old.task));
    };
    access::require_training(&old.project, deploy)?;
    let Some(data) = schema.file(old.id)? else {
        return left(format!("the file \"{PATH}\" of the model is missing or too large"));
    };
    if is_pickle(&data) {
        return left("the model is a Python pickle, which only Python can read: train it again".to_owned());
    }
    let given = match described(old, task) {
        Ok(given) => given,
        Err(reason) => return left(reason),
    };
    let carried = match read_old(old, data, &given)? {
        Ok(carried) => carried,
        Err(reason) => return left(reason),
    };
    if carried.task != task {
        return left(format!(
            "the model in the file is for {}, but the project is for {}",
            carried.task.name(),
            task.name()
        ));
    }
    if carried.model.width() != usize::try_from(old.num_features).unwrap_or(0) {
        return left(format!(
            "the model has {}, but its row in the table models says {}",
            learn::count(carried.model.width(), "feature"),
            old.num_features
        ));
    }
    if let Some(project) = registry::find_project(&old.project)? {
        if project.task != task.name() {
            return left(format!("project \"{}\" exists here already, for {}", project.name, project.task));
        }
        if registry::has_file(project.id, &carried.bytes)? {
            return Ok(Outcome::There);
        }
    }
    let (id, deployed) =
        import::store(&old.project, &carried, old.hyperparams.clone(), old.metrics.clone(), Some(deploy))?;
    Ok(Outcome::Imported { id, deployed })
}

/// Whether Python wrote these bytes: a pickle of protocol 2 or later.
fn is_pickle(data: &[u8]) -> bool {
    matches!(data, [0x80, 2..=5, .., b'.'])
}

/// Reads the bytes as PostgresML's algorithm wrote them, or says why not.
fn read_old(old: &Old, data: Vec<u8>, given: &Given) -> Result<std::result::Result<Carried, String>> {
    // Before some version the numbers of features and classes stood before the model.
    let behind = |data: &[u8]| data.get(16..).unwrap_or_default().to_vec();
    match (old.algorithm.as_str(), old.runtime.as_deref()) {
        ("xgboost", _) => {
            let first = read::read(data.clone(), Format::XgBoost, given);
            match first {
                Err(_) if data.get(16).is_some_and(|byte| *byte == b'b' || *byte == b'{') => {
                    read::read(behind(&data), Format::XgBoost, given).map(Ok)
                }
                first => first.map(Ok),
            }
        }
        ("lightgbm", _) => {
            let text = if data.starts_with(b"tree") { data } else { behind(&data) };
            read::read(text, Format::LightGbm, given).map(Ok)
        }
        (algorithm, runtime) => Ok(Err(format!(
            "the form in which PostgresML's {} stored {algorithm} is not read: train it again",
            runtime.unwrap_or("python")
        ))),
    }
}

/// What the snapshot says of the features and classes; why it cannot be gone by, where it cannot.
fn described(old: &Old, task: Task) -> std::result::Result<Given, String> {
    let columns: Option<Value> = old.columns.as_deref().and_then(|columns| serde_json::from_str(columns).ok());
    let Some(Value::Array(mut columns)) = columns else {
        return Ok(Given::default());
    };
    columns.sort_by_key(|column| column.get("position").and_then(Value::as_u64));
    let text = |column: &Value, field: &str| column.get(field).and_then(Value::as_str).unwrap_or_default().to_owned();
    let (mut names, mut sizes, mut classes) = (Vec::new(), Vec::new(), None);
    for column in &columns {
        let name = text(column, "name");
        if column.get("label").and_then(Value::as_bool) == Some(true) {
            if task == Task::Classification {
                classes = categories(column);
            }
            continue;
        }
        if categories(column).is_some() {
            return Err(format!(
                "column \"{name}\" is of categories, whose codes differ from those of this extension: train it again"
            ));
        }
        if let Some(what) = prepared(column) {
            return Err(format!("column \"{name}\" is prepared by {what} before the model sees it: train it again"));
        }
        names.push(name);
        let size = column.get("size").and_then(Value::as_u64).and_then(|size| u32::try_from(size).ok());
        sizes.push(size.unwrap_or(1).max(1));
    }
    Ok(Given { task: None, features: Some(names), sizes, classes })
}

/// The categories of a column of text by their codes; `None` of numbers.
fn categories(column: &Value) -> Option<Vec<String>> {
    let categories = column.get("statistics")?.get("categories")?.as_object()?;
    let mut coded: Vec<(f64, &String)> =
        categories.iter().filter_map(|(name, known)| Some((known.get("value")?.as_f64()?, name))).collect();
    coded.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    (!coded.is_empty()).then(|| coded.into_iter().map(|(_, name)| name.clone()).collect())
}

/// What is done to a column of numbers, if anything is.
fn prepared(column: &Value) -> Option<String> {
    let done = column.get("preprocessor")?.as_object()?;
    let nothing = [("encode", "native"), ("impute", "error"), ("scale", "preserve")];
    let (field, what) = done.iter().find(|(field, what)| {
        !what.is_null() && !what.as_str().is_some_and(|what| nothing.contains(&(field.as_str(), what)))
    })?;
    Some(format!("{field} {what}"))
}

/// The schema, as a name in SQL.
struct Schema(String);

impl Schema {
    fn find(name: &str) -> Result<Schema> {
        let known = std::ffi::CString::new(name).map_err(|error| Error::invalid(error.to_string()))?;
        // SAFETY: a catalog look-up of a C string.
        if unsafe { pg_sys::get_namespace_oid(known.as_ptr(), true) } == pg_sys::InvalidOid {
            let code = PgSqlErrorCode::ERRCODE_INVALID_SCHEMA_NAME;
            return Err(Error::new(code, format!("schema \"{name}\" does not exist"))
                .hint("docs/guide/postgresml.md says how the tables of PostgresML come into it."));
        }
        if name == "pgml" {
            return Err(Error::invalid("the tables of schema \"pgml\" are those of this extension")
                .hint("Restore those of PostgresML under another name, such as postgresml."));
        }
        Ok(Schema(format!("\"{}\"", name.replace('"', "\"\""))))
    }

    /// All models, those of a project together, the oldest first.
    fn models(&self) -> Result<Vec<Old>> {
        let schema = &self.0;
        let statement = format!(
            "SELECT m.id::pg_catalog.int8, p.name::pg_catalog.text, p.task::pg_catalog.text,
                    m.algorithm::pg_catalog.text, m.runtime::pg_catalog.text, m.status::pg_catalog.text,
                    m.num_features::pg_catalog.int4, m.hyperparams::pg_catalog.text, m.metrics::pg_catalog.text,
                    s.columns::pg_catalog.text,
                    m.id OPERATOR(pg_catalog.=) (
                        SELECT d.model_id FROM {schema}.deployments d
                        WHERE d.project_id OPERATOR(pg_catalog.=) p.id
                        ORDER BY d.id USING OPERATOR(pg_catalog.>) LIMIT 1)
             FROM {schema}.models m INNER JOIN {schema}.projects p ON p.id OPERATOR(pg_catalog.=) m.project_id
             LEFT JOIN {schema}.snapshots s ON s.id OPERATOR(pg_catalog.=) m.snapshot_id
             ORDER BY p.name USING OPERATOR(pg_catalog.<), m.id USING OPERATOR(pg_catalog.<)"
        );
        let row = |tuple: &SpiHeapTupleData| {
            let text = |column: usize| Ok::<_, pgrx::spi::SpiError>(tuple.get::<String>(column)?.unwrap_or_default());
            let object = |text: String| if text.is_empty() { "{}".to_owned() } else { text };
            Ok(Old {
                id: registry::value(tuple, 1)?,
                project: text(2)?,
                task: text(3)?,
                algorithm: text(4)?,
                runtime: tuple.get(5)?,
                status: text(6)?,
                num_features: tuple.get(7)?.unwrap_or(0),
                hyperparams: object(text(8)?),
                metrics: object(text(9)?),
                columns: tuple.get(10)?,
                is_deployed: tuple.get(11)?.unwrap_or(false),
            })
        };
        Spi::connect(|client| registry::collect(client.select(&statement, None, &[])?, &mut { row }))
    }

    /// The bytes of a model; `None` where it has none, or more than are read.
    fn file(&self, model: i64) -> Result<Option<Vec<u8>>> {
        let statement = format!(
            "SELECT data FROM {}.files WHERE model_id OPERATOR(pg_catalog.=) $1
             AND path::pg_catalog.text OPERATOR(pg_catalog.=) $2
             AND pg_catalog.octet_length(data) OPERATOR(pg_catalog.<=) $3
             ORDER BY part USING OPERATOR(pg_catalog.<) LIMIT 1",
            self.0
        );
        let most = i32::try_from(import::LONGEST_MODEL).unwrap_or(i32::MAX);
        let files: Vec<Vec<u8>> = Spi::connect(|client| {
            let found = client.select(&statement, Some(1), &[argument(model), argument(PATH), argument(most)])?;
            registry::collect(found, &mut |tuple: &SpiHeapTupleData| registry::value(tuple, 1))
        })?;
        Ok(files.into_iter().next())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_done_to_a_column_is_told() {
        for (done, expected) in [
            (json!({ "encode": "native", "impute": "error", "scale": "preserve" }), None),
            (json!({}), None),
            (json!({ "encode": "native", "impute": "error", "scale": "standard" }), Some("scale \"standard\"")),
            (json!({ "encode": "one_hot" }), Some("encode \"one_hot\"")),
            (json!({ "encode": { "ordinal": ["a"] } }), Some("encode {\"ordinal\":[\"a\"]}")),
            (json!({ "impute": "mean" }), Some("impute \"mean\"")),
        ] {
            assert_eq!(prepared(&json!({ "preprocessor": done })).as_deref(), expected);
        }
    }

    #[test]
    fn categories_come_by_their_codes() {
        let column = json!({ "statistics": { "categories": {
            "b": { "value": 2.0, "members": 3 }, "__NULL__": { "value": 0.0, "members": 0 }, "a": { "value": 1.0 }
        } } });
        assert_eq!(categories(&column), Some(vec!["__NULL__".to_owned(), "a".to_owned(), "b".to_owned()]));
        assert_eq!(categories(&json!({ "statistics": { "categories": null } })), None);
        assert_eq!(categories(&json!({})), None);
    }
}
