//! Models that other libraries have trained and saved, as models of this library: LightGBM's text, CatBoost's JSON and
//! ONNX.
//!
//! What was read is kept with the model, so that it can be given out again as its library wrote it.

use forest::double::Link;

use crate::family::{Array, Model, Stored};
use crate::forms::trees::Ensemble;

/// A model that was read, and what it says of itself.
pub struct Foreign {
    /// To be stored.
    pub model: Model,
    /// The algorithm by the name that it has in SQL.
    pub algorithm: &'static str,
    /// The features' names; empty where they have none.
    pub features: Vec<String>,
    /// For each feature its categories by their codes, where the model knows them; or none at all.
    pub categories: Vec<Option<Vec<String>>>,
    /// How many features a row has.
    pub width: usize,
    /// How many outputs it has: classes, or targets.
    pub outputs: usize,
    /// Whether it tells classes apart.
    pub classifies: bool,
    /// The classes in the order of the outputs, where the model knows them.
    pub classes: Vec<String>,
    /// What it was trained for, in its library's words.
    pub objective: String,
}

/// The library that a model was read from, and its bytes as they were.
pub struct Source {
    /// As in SQL: `lightgbm`.
    pub library: String,
    /// As the library saved it.
    pub bytes: Array<u8>,
}

/// The setting and the array that keep it.
const LIBRARY: &str = "library";
const SOURCE: &str = "source";

/// The model, with what it was read from.
pub(crate) fn with_source(model: Model, library: &'static str, source: &[u8]) -> Model {
    model.set(LIBRARY, library).with(SOURCE, source.to_vec())
}

/// What a stored model was read from; `None` where it was trained here.
pub fn source(stored: &Stored) -> Option<Source> {
    let library = stored.text(LIBRARY).ok()?.to_owned();
    Some(Source { library, bytes: stored.array(SOURCE).ok()? })
}

/// Reads a model that LightGBM saved as text.
///
/// # Errors
/// Those of [`forest::lightgbm::read`].
pub fn lightgbm(bytes: &[u8]) -> Result<Foreign, forest::Error> {
    let read = forest::lightgbm::read(bytes)?;
    let is_default = read.feature_names.iter().enumerate().all(|(index, name)| *name == format!("Column_{index}"));
    let outputs = read.link.values(read.arrays.outputs);
    Ok(Foreign {
        algorithm: "lightgbm",
        features: if is_default { Vec::new() } else { read.feature_names.clone() },
        categories: read.categories.clone(),
        width: read.width,
        outputs,
        classifies: classifies(read.link),
        classes: Vec::new(),
        objective: read.objective.clone(),
        model: with_source(Ensemble::from(read).model(), "lightgbm", bytes),
    })
}

/// LightGBM's text of a model whose features have no names, with these names. LightGBM takes no blanks in a name, and none of
/// the signs of JSON: they become `_`. Names that are not unlike each other then, or are too few, are not given.
pub fn lightgbm_with_names(text: &[u8], names: &[String]) -> Vec<u8> {
    let forbidden = |sign: char| sign.is_whitespace() || sign.is_control() || "\",:[]{}".contains(sign);
    let names: Vec<String> = names.iter().map(|name| name.replace(forbidden, "_")).collect();
    let defaults: Vec<String> = (0..names.len()).map(|index| format!("Column_{index}")).collect();
    let unlike: std::collections::HashSet<&String> = names.iter().collect();
    let known = format!("feature_names={}", defaults.join(" "));
    let (Ok(text), true) =
        (std::str::from_utf8(text), unlike.len() == names.len() && !names.iter().any(String::is_empty))
    else {
        return text.to_vec();
    };
    if !text.lines().any(|line| line == known) {
        return text.as_bytes().to_vec();
    }
    let by_default: std::collections::HashMap<&str, &String> =
        defaults.iter().map(String::as_str).zip(&names).collect();
    let mut named = String::with_capacity(text.len() + 64 * names.len());
    for line in text.split_inclusive('\n') {
        if line.trim_end() == known {
            named.push_str(&format!("feature_names={}\n", names.join(" ")));
            continue;
        }
        // Of the importances: Column_2=17.
        match line.split_once('=').and_then(|(name, rest)| Some((by_default.get(name)?, rest))) {
            Some((name, rest)) => named.push_str(&format!("{name}={rest}")),
            None => named.push_str(line),
        }
    }
    named.into_bytes()
}

/// Reads a model that CatBoost saved as JSON.
///
/// # Errors
/// Those of [`forest::catboost::read`].
pub fn catboost(bytes: &[u8]) -> Result<Foreign, forest::Error> {
    let read = forest::catboost::read(bytes)?;
    let has_names =
        read.feature_names.iter().enumerate().any(|(index, name)| !name.is_empty() && *name != index.to_string());
    let mut ensemble = Ensemble::new(read.width, read.base, read.arrays.size, read.link);
    let outputs = read.link.values(read.arrays.outputs);
    ensemble.arrays = read.arrays;
    Ok(Foreign {
        algorithm: "catboost",
        features: if has_names { read.feature_names } else { Vec::new() },
        categories: Vec::new(),
        width: ensemble.width,
        outputs,
        classifies: classifies(read.link),
        classes: read.class_names,
        objective: read.objective,
        model: with_source(ensemble.model(), "catboost", bytes),
    })
}

/// Reads a model in the ONNX format: scikit-learn's pipelines, and small networks. Where the model does not say whether
/// its values are scores of classes, `classifies` does.
///
/// # Errors
/// [`forest::Error::Syntax`] and [`forest::Error::Invalid`] where it is damaged, and [`forest::Error::Unsupported`] with the
/// names of the operators that are not known.
pub fn onnx(bytes: &[u8], classifies: Option<bool>) -> Result<Foreign, forest::Error> {
    crate::onnx::read(bytes, classifies)
}

/// Whether these bytes may be an ONNX model.
pub fn is_onnx(bytes: &[u8]) -> bool {
    crate::onnx::is_one(bytes)
}

fn classifies(link: Link) -> bool {
    matches!(link, Link::Probabilities | Link::Logistic | Link::Softmax | Link::OneVersusRest)
}
