//! `pgml.load_transformer`: a model of Hugging Face's, from its folder on the server.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use encoder::{Encoder, Files, Options, Task};
use pgrx::{IntoDatum, PgSqlErrorCode, pg_sys};

use super::{interrupted, refused, stored};
use crate::access;
use crate::error::{Error, Result};
use crate::exchange::deploys;
use crate::memory::{self, GivenBack};
use crate::names;
use crate::registry::{self, NewModel};
use crate::sql::{Call, text_datum};

crate::sql_function!(pgml_load_transformer, load_transformer);

/// What `pgml.models` calls it.
const ALGORITHM: &str = "transformers";

/// Bytes of a file of weights, and of the others.
const LONGEST: (usize, usize) = (2 << 30, 64 << 20);

/// Bytes that are read between two looks for a cancellation.
const AT_ONCE: u64 = 16 << 20;

/// `pgml.load_transformer(project_name, path, deploy)`.
fn load_transformer(call: &Call) -> Result<pg_sys::Datum> {
    let _given_back = GivenBack;
    let project = call.text(0, "project_name", names::LONGEST)?.ok_or_else(|| Error::null_argument("project_name"))?;
    if project.trim().is_empty() {
        return Err(Error::invalid("project_name must not be empty"));
    }
    let path = call.text(1, "path", 4096)?.ok_or_else(|| Error::null_argument("path"))?;
    require_reading_files()?;
    registry::check_writable(c"pgml.load_transformer()")?;
    let deploying = deploys(&project, call.bool(2))?;
    access::require_training(&project, deploying)?;
    let folder = Path::new(&path);
    if !folder.is_absolute() {
        return Err(Error::new(PgSqlErrorCode::ERRCODE_INVALID_NAME, "path must be absolute")
            .hint("It names a folder on the server, with config.json, tokenizer.json and model.safetensors."));
    }
    let (bytes, task) = read(folder)?;
    let (model, task) = store(&project, &bytes, task, deploying)?;
    call.rows(&[vec![
        Some(text_datum(&project)),
        Some(text_datum(task)),
        Some(text_datum(ALGORITHM)),
        deploying.into_datum(),
        model.into_datum(),
    ]])
}

/// Files on the server are read by those who may read them by COPY.
fn require_reading_files() -> Result<()> {
    // SAFETY: look-ups in the catalog caches, within a transaction; the name ends with a zero byte.
    let may = unsafe {
        let role = pg_sys::get_role_oid(c"pg_read_server_files".as_ptr(), true);
        pg_sys::superuser_arg(access::user()) || access::acts_as(role)
    };
    if may {
        return Ok(());
    }
    let code = PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE;
    Err(Error::new(code, "permission denied to load a transformer from a file")
        .detail("Only roles with privileges of the role \"pg_read_server_files\" may load transformers."))
}

/// What is to be stored of the model in that folder, and what it is for.
fn read(folder: &Path) -> Result<(Vec<u8>, Task)> {
    let weights = match contents(&folder.join(encoder::WEIGHTS), LONGEST.0)? {
        Some(weights) => weights,
        None => return Err(no_weights(folder)),
    };
    let mut texts = std::collections::BTreeMap::new();
    for name in encoder::FILES {
        if let Some(text) = contents(&folder.join(name), LONGEST.1)? {
            texts.insert(name, text);
        }
    }
    let unusable = |error| refused(error).of_input().detail(format!("The folder is \"{}\".", folder.display()));
    let bytes = encoder::stored(&Files { texts, weights: &weights }).map_err(unusable)?;
    drop(weights);
    interrupted();
    // All of it is used once, so that what is stored can be used.
    let image = encoder::image(&bytes, Vec::new()).map_err(unusable)?;
    let encoder = Encoder::open(image.into()).map_err(unusable)?;
    let text = "a text".to_owned();
    let tried = match encoder.task() {
        Task::Embedding => encoder.embed(&[text], &Options::default(), &interrupted).map(|all| all.concat()),
        Task::Score => encoder.scores("a query", &[text], &interrupted),
    };
    match tried.map_err(unusable)?.iter().all(|value| value.is_finite()) {
        true => Ok((bytes, encoder.task())),
        false => Err(Error::new(
            PgSqlErrorCode::ERRCODE_INVALID_BINARY_REPRESENTATION,
            "the weights are of no use: a text has no finite numbers by them",
        )),
    }
}

fn no_weights(folder: &Path) -> Error {
    let code = PgSqlErrorCode::ERRCODE_UNDEFINED_FILE;
    let error = Error::new(code, format!("there is no {} in \"{}\"", encoder::WEIGHTS, folder.display()));
    let other = ["pytorch_model.bin", "model.safetensors.index.json"];
    match other.into_iter().find(|name| folder.join(name).exists()) {
        Some(name) => error
            .detail(format!("There is {name}."))
            .hint("Save the model as one file of safetensors: model.save_pretrained(folder, max_shard_size=\"10GB\")."),
        None => error
            .hint("path names the folder that Transformers' save_pretrained, or sentence-transformers' save, wrote."),
    }
}

/// The bytes of a file, `None` where there is none.
fn contents(path: &Path, at_most: usize) -> Result<Option<Vec<u8>>> {
    let failed = |error: std::io::Error| {
        let code = match error.kind() {
            std::io::ErrorKind::PermissionDenied => PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
            _ => PgSqlErrorCode::ERRCODE_IO_ERROR,
        };
        Error::new(code, format!("could not read file \"{}\": {error}", path.display()))
    };
    let data = match std::fs::metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        data => data.map_err(failed)?,
    };
    // A pipe, say, would have the server wait for it.
    if !data.is_file() {
        let code = PgSqlErrorCode::ERRCODE_WRONG_OBJECT_TYPE;
        return Err(Error::new(code, format!("\"{}\" is no regular file", path.display())));
    }
    let size = usize::try_from(data.len()).unwrap_or(usize::MAX);
    if size > at_most {
        return Err(crate::sql::too_long(&path.display().to_string(), size, at_most));
    }
    let mut bytes = Vec::new();
    memory::reserve(&mut bytes, size)?;
    let mut file = File::open(path).map_err(failed)?.take(data.len());
    while (&mut file).take(AT_ONCE).read_to_end(&mut bytes).map_err(failed)? > 0 {
        interrupted();
    }
    Ok(Some(bytes))
}

/// Writes the model down, for the current role; gives its id, and the task of its project.
fn store(name: &str, bytes: &[u8], task: Task, deploying: bool) -> Result<(i64, &'static str)> {
    let task = match task {
        Task::Embedding => "embedding",
        Task::Score => "text_pair_classification",
    };
    let project = registry::project_to_add_to(name, task, deploying)?;
    if project.task != task {
        return Err(Error::invalid(format!("project \"{name}\" is for {}, and the model for {task}", project.task))
            .hint("Use another project_name."));
    }
    let id = registry::next_id(c"models_id_seq")?;
    registry::insert_model(&NewModel {
        id,
        project_id: project.id,
        snapshot_id: None,
        num_features: 1,
        algorithm: ALGORITHM,
        hyperparams: "{}".to_owned(),
        metrics: "{}".to_owned(),
        search: None,
    })?;
    registry::insert_file(id, stored::PATH, bytes)?;
    if deploying {
        registry::insert_deployment(project.id, id, "specific")?;
    }
    Ok((id, task))
}
