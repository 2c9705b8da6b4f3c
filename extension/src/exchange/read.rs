//! From the bytes of an import, which may be hostile, to a model that can be stored: the library that wrote them, and
//! their meaning.

use bytes::Bytes;
use forest::xgboost::document::{self, Syntax};
use forest::xgboost::{self, ReadOptions, legacy};
use learn::family::Stored;
use learn::foreign::{self, Foreign};
use pgrx::PgSqlErrorCode;

use super::description::{Description, Given, check_classes, check_features};
use crate::error::{Error, Result};
use crate::model::Model;
use crate::model_meta::{self, ModelMeta, Task};

/// The formats that are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    XgBoost,
    LightGbm,
    CatBoost,
    Onnx,
    /// Of this extension's own.
    SafeTensors,
}

impl Format {
    pub const ALL: [(&'static str, Format); 5] = [
        ("xgboost", Format::XgBoost),
        ("lightgbm", Format::LightGbm),
        ("catboost", Format::CatBoost),
        ("onnx", Format::Onnx),
        ("safetensors", Format::SafeTensors),
    ];

    pub fn parse(name: &str) -> Result<Format> {
        let known = Format::ALL.iter().find(|(known, _)| *known == name);
        known.map(|(_, format)| *format).ok_or_else(|| {
            Error::invalid(format!("there is no format \"{name}\""))
                .hint("Use xgboost, lightgbm, catboost, onnx or safetensors.")
        })
    }

    /// By what the bytes begin with, and for the two that are JSON by what they have.
    pub fn of(bytes: &[u8]) -> Format {
        if Stored::is_one(bytes) {
            Format::SafeTensors
        } else if forest::lightgbm::is_one(bytes) {
            Format::LightGbm
        } else if forest::catboost::is_one(bytes) {
            Format::CatBoost
        } else if foreign::is_onnx(bytes) {
            Format::Onnx
        } else {
            Format::XgBoost
        }
    }
}

/// A model on its way into the registry.
pub struct Carried {
    /// Where it will stand in `pgml.files`.
    pub path: &'static str,
    pub bytes: Vec<u8>,
    pub algorithm: String,
    pub task: Task,
    /// Ready to predict.
    pub model: Model,
}

/// Reads a model; `given` is what is said of it beside its bytes.
pub fn read(bytes: Vec<u8>, format: Format, given: &Given) -> Result<Carried> {
    match format {
        Format::XgBoost => of_xgboost(bytes, given),
        Format::LightGbm => foreign(foreign::lightgbm(&bytes).map_err(refused)?, given),
        Format::CatBoost => foreign(foreign::catboost(&bytes).map_err(refused)?, given),
        Format::Onnx => {
            let classifies = given.task.map(|task| task == Task::Classification);
            foreign(foreign::onnx(&bytes, classifies).map_err(refused)?, given)
        }
        Format::SafeTensors => own(bytes, given),
    }
}

fn of_xgboost(bytes: Vec<u8>, given: &Given) -> Result<Carried> {
    let bytes = match legacy::is_one(&bytes) {
        true => legacy::to_json(&bytes).map_err(refused)?.into_bytes(),
        false => bytes,
    };
    // With the statistics of its nodes, so that a model whose statistics nobody can read is refused now, and not when
    // its first prediction is to be explained.
    let ensemble =
        xgboost::read_with(&bytes, ReadOptions { covers: true, ..ReadOptions::default() }).map_err(refused)?;
    let (bytes, meta) = match ensemble.attributes.get(model_meta::ATTRIBUTE) {
        Some(json) => {
            let meta = described(json, given)?;
            (document::model(&bytes).map_err(refused)?.to_vec(), meta)
        }
        None => {
            let categories = xgboost::categories(&bytes).map_err(refused)?;
            if !categories.is_empty() && categories.len() != ensemble.num_features as usize {
                let code = PgSqlErrorCode::ERRCODE_INVALID_BINARY_REPRESENTATION;
                return Err(Error::new(code, "the model cannot be read: it names the categories of other features"));
            }
            let meta = Description::of_ensemble(&ensemble, categories).meta(given)?;
            drop(ensemble);
            (document::with_attribute(&bytes, model_meta::ATTRIBUTE, &meta.to_json()).map_err(refused)?, meta)
        }
    };
    let path = match Syntax::of(&bytes).map_err(refused)? {
        Syntax::Json => model_meta::XGBOOST_TEXT_PATH,
        Syntax::Ubj => model_meta::XGBOOST_PATH,
    };
    carried(path, bytes, "xgboost".to_owned(), meta.task)
}

fn foreign(foreign: Foreign, given: &Given) -> Result<Carried> {
    let meta = Description::of_foreign(&foreign).meta(given)?;
    let algorithm = foreign.algorithm.to_owned();
    let attributes =
        [(model_meta::ATTRIBUTE.to_owned(), meta.to_json()), (model_meta::ALGORITHM.to_owned(), algorithm.clone())];
    let bytes = foreign.model.to_bytes(&attributes)?;
    carried(model_meta::FAMILY_PATH, bytes, algorithm, meta.task)
}

fn own(bytes: Vec<u8>, given: &Given) -> Result<Carried> {
    let unreadable = |error: learn::Error| {
        Error::new(PgSqlErrorCode::ERRCODE_INVALID_BINARY_REPRESENTATION, format!("the model cannot be read: {error}"))
    };
    let stored = Stored::read(Bytes::from(bytes)).map_err(unreadable)?;
    let json = stored.attribute(model_meta::ATTRIBUTE).unwrap_or_default();
    let meta = described(json, given)?;
    learn::forms::check(&stored).map_err(unreadable)?;
    let algorithm = stored.attribute(model_meta::ALGORITHM).unwrap_or(stored.form()).to_owned();
    let bytes = stored.bytes().to_vec();
    drop(stored);
    carried(model_meta::FAMILY_PATH, bytes, algorithm, meta.task)
}

/// The description that the model brings along, with which what is said of it must agree.
fn described(json: &str, given: &Given) -> Result<ModelMeta> {
    let meta = ModelMeta::from_json(json)
        .map_err(|error| Error::new(PgSqlErrorCode::ERRCODE_INVALID_BINARY_REPRESENTATION, error.to_string()))?;
    if let Some(asked) = given.task
        && asked != meta.task
    {
        return Err(Error::invalid(format!("the model is for {}, not for {}", meta.task.name(), asked.name()))
            .hint("Leave task out."));
    }
    if let Some(features) = &given.features {
        let own: Vec<String> = meta.columns.iter().map(|column| column.name.clone()).collect();
        check_features(features, own.len(), &own)?;
    }
    if let Some(classes) = &given.classes {
        let own = meta.labels.first().and_then(|label| label.classes.as_deref()).unwrap_or_default();
        let own: Vec<String> = own.iter().map(|class| class.text.clone()).collect();
        check_classes(classes, own.len(), &own)?;
    }
    Ok(meta)
}

fn carried(path: &'static str, bytes: Vec<u8>, algorithm: String, task: Task) -> Result<Carried> {
    pgrx::check_for_interrupts!();
    let model = Model::of_bytes(&bytes).map_err(Error::of_input)?;
    let (classes, values) = (model.classes().len(), model.num_values());
    if task == Task::Classification && values > 1 && classes != values {
        let code = PgSqlErrorCode::ERRCODE_INVALID_BINARY_REPRESENTATION;
        return Err(Error::new(code, format!("the model has {values} outputs for {}", learn::count(classes, "class"))));
    }
    Ok(Carried { path, bytes, algorithm, task, model })
}

fn refused(error: forest::Error) -> Error {
    match error {
        forest::Error::Unsupported { .. } => Error::unsupported(format!("the model cannot be taken: {error}")),
        error => Error::new(
            PgSqlErrorCode::ERRCODE_INVALID_BINARY_REPRESENTATION,
            format!("the model cannot be read: {error}"),
        )
        .hint("Models are taken as XGBoost (JSON, UBJSON or its old binary format), LightGBM (text), CatBoost (JSON), skl2onnx (ONNX) and pgml.export_model save them."),
    }
}
