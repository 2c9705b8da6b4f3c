//! `pgml.export_model`: a model in the format of the library that reads it.

use bytes::Bytes;
use forest::xgboost::document::{self, Syntax};
use learn::family::Stored;
use learn::foreign::{self, Source};
use pgrx::{IntoDatum, pg_sys};

use crate::access::{self, Privilege};
use crate::error::{Error, Result};
use crate::memory::GivenBack;
use crate::model::Model;
use crate::sql::{Call, LONGEST_NAME};
use crate::{lookup, names, registry, text};

crate::sql_function!(pgml_export_model, export_model);
crate::sql_function!(pgml_export_project, export_project);

/// `pgml.export_model(model_id, format)`.
fn export_model(call: &Call) -> Result<pg_sys::Datum> {
    let Some(model_id) = call.i64(0) else { return Err(Error::null_argument("model_id")) };
    access::require_of_model(model_id, Privilege::Export)?;
    export(call, model_id)
}

/// `pgml.export_model(project_name, format)`: the deployed model.
fn export_project(call: &Call) -> Result<pg_sys::Datum> {
    let name = call.text(0, "project_name", names::LONGEST)?.ok_or_else(|| Error::null_argument("project_name"))?;
    export(call, deployed(&name)?)
}

/// The deployed model of a project, for one who may export it.
pub fn deployed(name: &str) -> Result<i64> {
    access::require(name, Privilege::Export)?;
    let project = registry::find_project(name)?.ok_or_else(|| names::no_such_project(name))?;
    registry::deployed_model(project.id)?.ok_or_else(|| {
        Error::undefined(format!("project \"{name}\" has no deployed model"))
            .hint("The view pgml.trained_models lists the models.")
    })
}

fn export(call: &Call, model_id: i64) -> Result<pg_sys::Datum> {
    let _given_back = GivenBack;
    let format = call.text(1, "format", LONGEST_NAME)?;
    let stored = stored_bytes(model_id)?;
    pgrx::check_for_interrupts!();
    let bytes = written(model_id, stored, format.as_deref())?;
    Ok(bytes.into_datum().unwrap_or(pg_sys::Datum::from(0)))
}

/// The bytes of a model, which it must have.
pub fn stored_bytes(model_id: i64) -> Result<Vec<u8>> {
    let stored = names::with_latest(|snapshot| lookup::model_bytes(model_id, snapshot))?;
    if stored.is_empty() {
        if names::with_latest(|snapshot| lookup::digest_at(model_id, text::stored::is_path, snapshot))?.is_some() {
            return Err(Error::unsupported(format!("model {model_id} is a transformer, which is not exported"))
                .hint("Use the files that it was loaded from."));
        }
        return Err(Error::undefined(format!("model {model_id} has no stored bytes")));
    }
    Ok(stored)
}

/// The stored bytes in that format; without one, in that of the library that reads them.
fn written(model_id: i64, stored: Vec<u8>, format: Option<&str>) -> Result<Vec<u8>> {
    let damaged = |error: &dyn std::fmt::Display| Error::corrupted(format!("the stored model cannot be read: {error}"));
    if Stored::is_one(&stored) {
        let read = Stored::read(Bytes::from(stored)).map_err(|error| damaged(&error))?;
        let source = foreign::source(&read);
        return match (format, source) {
            (None, Some(source)) => library_file(model_id, &read, source),
            (None | Some("safetensors"), _) => Ok(read.bytes().to_vec()),
            (Some(format), Some(source)) if format == source.library => library_file(model_id, &read, source),
            (Some(format), Some(source)) => Err(not_of(model_id, format, &[&source.library, "safetensors"])),
            (Some(format), None) => Err(not_of(model_id, format, &["safetensors"])),
        };
    }
    let syntax = Syntax::of(&stored).map_err(|error| damaged(&error))?;
    match (format, syntax) {
        (None | Some("xgboost"), _) | (Some("ubj"), Syntax::Ubj) | (Some("json"), Syntax::Json) => Ok(stored),
        (Some("json"), Syntax::Ubj) => {
            document::to_json(&stored).map(String::into_bytes).map_err(|error| damaged(&error))
        }
        (Some(format), Syntax::Ubj) => Err(not_of(model_id, format, &["xgboost", "ubj", "json"])),
        (Some(format), Syntax::Json) => Err(not_of(model_id, format, &["xgboost", "json"])),
    }
}

/// The file of the library that trained the model: as it was imported, or, of one that was trained here, with the names of
/// the features, which the library was not told.
fn library_file(model_id: i64, read: &Stored, source: Source) -> Result<Vec<u8>> {
    if source.library != "lightgbm" || registry::snapshot_of_model(model_id)?.is_none() {
        return Ok(source.bytes.to_vec());
    }
    let names: Vec<String> =
        Model::of_bytes(read.bytes())?.finished_names().into_iter().map(|(name, _)| name).collect();
    Ok(foreign::lightgbm_with_names(&source.bytes, &names))
}

fn not_of(model_id: i64, format: &str, possible: &[&str]) -> Error {
    Error::unsupported(format!("model {model_id} cannot be exported as \"{format}\""))
        .detail(format!("It can be exported as {}.", possible.join(", ")))
}
