//! Reads models of XGBoost: JSON and UBJSON of 1.7 through 3.x.
//!
//! A file is parsed whole to plain values that borrow its bytes, then checked and copied part by part: `learner` gives
//! the number of features and outputs and the intercept (xgboost/objective.rs brings it to margin space),
//! `gradient_booster` the trees (xgboost/booster.rs, xgboost/tree.rs). Nothing of a file is trusted: every length, index
//! and child is checked against the rest.

mod booster;
mod categories;
pub mod document;
pub mod legacy;
mod objective;
mod tree;

use std::collections::BTreeMap;

use crate::ensemble::Ensemble;
use crate::error::Result;
use crate::image::WideNode;
use crate::value::{At, shorten};
pub use categories::categories;
use document::Syntax;

/// As many features as a compiled tree can number, and one more.
const MOST_FEATURES: u32 = WideNode::FEATURE;

/// What a caller may want otherwise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadOptions {
    /// Keep only the rounds up to the best one of early stopping (the attribute `best_iteration`), as XGBoost's Python
    /// classes predict. Without it all trees are kept, as `XGBoosterPredictFromDense` predicts by default.
    pub best_iteration: bool,
    /// Keep the cover and the gain of each node, for [`crate::Explainer`] and [`crate::importance`].
    pub covers: bool,
}

impl Default for ReadOptions {
    fn default() -> Self {
        Self { best_iteration: true, covers: false }
    }
}

/// Reads a model with the default options: the trees after the best round of early stopping are dropped.
///
/// `bytes` is a whole file as `save_model` or `XGBoosterSaveModelToBuffer` writes it, JSON or UBJSON by its content;
/// also the state that a pickled `Booster` carries.
///
/// # Errors
/// See [`read_with`].
pub fn read(bytes: &[u8]) -> Result<Ensemble> {
    read_with(bytes, ReadOptions::default())
}

/// Reads a model.
///
/// # Errors
/// [`crate::Error::Format`] for something that is neither JSON nor UBJSON, [`crate::Error::Syntax`] where it breaks off or is
/// malformed, [`crate::Error::Invalid`] where it contradicts itself, [`crate::Error::Unsupported`] for an objective or a booster
/// that this crate does not know.
pub fn read_with(bytes: &[u8], options: ReadOptions) -> Result<Ensemble> {
    let value = Syntax::of(bytes)?.parse(bytes)?;
    let root = At::root(&value);
    // The state in a pickle holds the model beside the training configuration.
    match root.get("Model")? {
        Some(model) => ensemble(model, bytes.len(), options),
        None => ensemble(root, bytes.len(), options),
    }
}

fn ensemble(root: At<'_, '_>, file_size: usize, options: ReadOptions) -> Result<Ensemble> {
    let learner = root.field("learner")?;
    let params = learner.field("learner_model_param")?;

    let num_feature = params.field("num_feature")?;
    let num_features = u32::try_from(num_feature.integer_text()?)
        .ok()
        .filter(|number| *number < MOST_FEATURES)
        .ok_or_else(|| num_feature.invalid("expected the number of features, between 0 and 2^30"))?;
    let num_outputs = num_outputs(params, file_size)?;

    let objective = learner.field("objective")?;
    let name = objective.field("name")?;
    let (transform, intercept) = objective::find(name.string()?, version(root)?)
        .ok_or_else(|| name.path.unsupported(format!("objective {:?}", shorten(name.string().unwrap_or_default()))))?;
    let attributes = attributes(learner)?;
    let best_iteration = match attributes.get("best_iteration").filter(|_| options.best_iteration) {
        None => None,
        Some(text) => Some(text.trim().parse::<usize>().map_err(|_| {
            let attributes = learner.path.field("attributes");
            attributes.field("best_iteration").invalid(format!("expected a round, found {:?}", shorten(text)))
        })?),
    };

    let reader = booster::Reader { num_features, num_outputs, best_iteration, covers: options.covers };
    let booster = reader.read(learner.field("gradient_booster")?)?;
    // Where XGBoost was to estimate the intercept and never trained, it takes the default as a margin as it is.
    let estimated = params.get("boost_from_average")?.is_some_and(|flag| flag.string() != Ok("0"));
    let intercept = if booster.untrained && estimated { objective::Intercept::Identity } else { intercept };
    let mut base_margin = base_margin(params.field("base_score")?, num_outputs, intercept)?;
    if booster.linear.is_some() {
        // XGBoost's gblinear begins every output with the intercept of the first.
        let first = base_margin.first().copied().unwrap_or_default();
        base_margin.fill(first);
    }

    Ok(Ensemble {
        num_features,
        num_outputs,
        base_margin,
        trees: booster.trees,
        linear: booster.linear,
        transform,
        objective: name.string()?.to_owned(),
        feature_names: feature_info(learner, "feature_names", num_features)?,
        feature_types: feature_info(learner, "feature_types", num_features)?,
        attributes,
    })
}

/// The version that wrote the file; before 1.0 where it does not say.
fn version(root: At<'_, '_>) -> Result<objective::Version> {
    let Some(version) = root.get("version")? else { return Ok((0, 0)) };
    match *version.ints()?.as_slice() {
        [major, minor, ..] => Ok((major, minor)),
        _ => Err(version.invalid("expected a major, a minor and a patch version")),
    }
}

/// The larger of the numbers of classes and of targets: one of them is 0 or 1.
fn num_outputs(params: At<'_, '_>, file_size: usize) -> Result<u32> {
    // A model of no rounds may have more outputs than bytes, but not a million.
    let limit = file_size.max(1 << 16);
    let mut outputs = 1;
    for key in ["num_class", "num_target"] {
        if let Some(param) = params.get(key)? {
            let n = param.integer_text()?;
            match u32::try_from(n) {
                Ok(n) if n as usize <= limit => outputs = outputs.max(n),
                _ => return Err(param.invalid(format!("{n} outputs in a file of {file_size} bytes"))),
            }
        }
    }
    Ok(outputs)
}

/// The intercept, written as `5E-1` before 3.1 and as `[5E-1]` or with one number an output since.
fn base_margin(base_score: At<'_, '_>, num_outputs: u32, intercept: objective::Intercept) -> Result<Vec<f32>> {
    let mut scores = base_score.floats_text()?;
    let outputs = num_outputs as usize;
    if let [score] = *scores.as_slice() {
        scores.resize(outputs, score);
    }
    if scores.len() != outputs {
        return Err(base_score.invalid(format!("{} numbers for {outputs} outputs", scores.len())));
    }
    intercept.margins(&scores).map_err(|what| base_score.invalid(what))
}

fn attributes(learner: At<'_, '_>) -> Result<BTreeMap<String, String>> {
    let Some(attributes) = learner.get("attributes")? else { return Ok(BTreeMap::new()) };
    let attribute = |(key, value): &(_, _)| -> Result<(String, String)> {
        let key: &std::borrow::Cow<'_, str> = key;
        let text = At { value, path: attributes.path.field(key) }.string()?;
        Ok((key.clone().into_owned(), text.to_owned()))
    };
    attributes.object()?.iter().map(attribute).collect()
}

fn feature_info(learner: At<'_, '_>, key: &str, num_features: u32) -> Result<Vec<String>> {
    let Some(info) = learner.get(key)? else { return Ok(Vec::new()) };
    let strings = info.strings()?;
    if strings.is_empty() || strings.len() == num_features as usize {
        Ok(strings)
    } else {
        Err(info.invalid(format!("{} strings for {num_features} features", strings.len())))
    }
}
