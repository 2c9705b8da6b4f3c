//! Reads CatBoost's models in its JSON format, as far as their trees are symmetric and split numbers only: what it keeps
//! of categories is hashed, and is refused.

use crate::double::{Link, MOST_FEATURES, Node, Noted, TreeArrays};
use crate::error::{Error, Result};
use crate::json;
use crate::value::{At, Value};

/// A model of CatBoost's.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// How many features a row has.
    pub width: usize,
    /// One for each feature; empty where it has no name.
    pub feature_names: Vec<String>,
    /// The classes, in the order of the outputs, as texts; empty where the file does not say.
    pub class_names: Vec<String>,
    /// As in the file: `Logloss`.
    pub objective: String,
    /// The trees; a leaf has a value for each output.
    pub arrays: TreeArrays,
    /// What is added to the sums, one for each output.
    pub base: Vec<f64>,
    /// What becomes of the sums.
    pub link: Link,
}

/// The most levels of a tree: CatBoost has 16.
const DEEPEST: usize = 16;

/// Whether a parsed object may be such a model, by its fields.
pub fn is_one(bytes: &[u8]) -> bool {
    let has = |name: &[u8]| bytes.windows(name.len()).any(|window| window == name);
    bytes.trim_ascii_start().starts_with(b"{") && has(b"\"oblivious_trees\"") && has(b"\"scale_and_bias\"")
}

/// Reads a model.
///
/// # Errors
/// [`Error::Syntax`] where it is not JSON, [`Error::Invalid`] where it contradicts itself, and [`Error::Unsupported`]
/// where it has categories, or trees that are not symmetric.
pub fn read(bytes: &[u8]) -> Result<Model> {
    let value = json::parse(bytes)?;
    let root = At::root(&value);
    let info = root.field("features_info")?;
    if let Some(features) = info.get("categorical_features")?
        && features.items().is_ok_and(|items| !items.is_empty())
    {
        return Err(features.path.unsupported("a model with categories"));
    }
    let features = features(&info)?;
    let (scale, base) = scale_and_bias(&root)?;
    let trees = root.get("oblivious_trees")?.ok_or_else(|| Error::Unsupported {
        path: "trees".into(),
        what: "a model whose trees are not symmetric".into(),
    })?;
    let mut arrays = TreeArrays::new(base.len(), base.len());
    for (index, item) in trees.items()?.iter().enumerate() {
        let tree = At { value: item, path: trees.path.index(index) };
        push(&tree, &features, scale, &mut arrays)?;
    }
    let objective = objective(&root)?;
    let class_names = class_names(&root)?;
    let link = match objective.as_str() {
        "Logloss" | "CrossEntropy" | "Focal" if base.len() == 1 => Link::Logistic,
        "MultiClass" => Link::Softmax,
        "MultiClassOneVsAll" => Link::OneVersusRest,
        "Poisson" | "Tweedie" => Link::Exp,
        // Several labels at once, and a variance beside the mean, are made of the sums in ways of their own.
        "MultiLogloss" | "MultiCrossEntropy" | "RMSEWithUncertainty" => return Err(unknown_loss(&objective)),
        _ if !class_names.is_empty() => return Err(unknown_loss(&objective)),
        _ => Link::Identity,
    };
    let width = features.iter().map(|feature| feature.column + 1).max().unwrap_or(0);
    let mut feature_names = vec![String::new(); width];
    for feature in features {
        feature_names[feature.column] = feature.name;
    }
    Ok(Model { width, feature_names, class_names, objective, arrays, base, link })
}

/// A feature of numbers, in the order of the trees' own numbers.
struct Feature {
    column: usize,
    name: String,
    missing_right: bool,
}

fn features(info: &At<'_, '_>) -> Result<Vec<Feature>> {
    let list = info.field("float_features")?;
    let mut features = Vec::new();
    for (index, item) in list.items()?.iter().enumerate() {
        let feature = At { value: item, path: list.path.index(index) };
        let own = feature.field("feature_index")?;
        if own.integer_text()? != index as i64 {
            return Err(own.invalid("is not in its place"));
        }
        let column = feature.field("flat_feature_index")?;
        let number = column.integer_text()?;
        let number = usize::try_from(number).ok().filter(|number| *number < MOST_FEATURES as usize);
        let treatment = feature.get("nan_value_treatment")?.map(|treatment| treatment.string()).transpose()?;
        features.push(Feature {
            // Without categories, there is no other feature between two.
            column: number.filter(|number| *number == index).ok_or_else(|| column.invalid("is not in its place"))?,
            name: feature.get("feature_id")?.map_or(Ok(""), |name| name.string())?.to_owned(),
            missing_right: treatment == Some("AsTrue"),
        });
    }
    Ok(features)
}

fn scale_and_bias(root: &At<'_, '_>) -> Result<(f64, Vec<f64>)> {
    let both = root.field("scale_and_bias")?;
    let [scale, bias] = both.items()? else { return Err(both.invalid("expected a number and an array of numbers")) };
    let scale = At { value: scale, path: both.path.index(0) }.double()?;
    let bias = At { value: bias, path: both.path.index(1) };
    let base = bias.doubles()?;
    if base.is_empty() || !base.iter().chain([&scale]).all(|value| value.is_finite()) {
        return Err(both.invalid("is empty, or not finite"));
    }
    Ok((scale, base))
}

fn objective(root: &At<'_, '_>) -> Result<String> {
    let Some(info) = root.get("model_info")? else { return Ok(String::new()) };
    let Some(params) = info.get("params")? else { return Ok(String::new()) };
    let Ok(Some(loss)) = params.get("loss_function") else { return Ok(String::new()) };
    Ok(loss.field("type")?.string()?.to_owned())
}

fn unknown_loss(name: &str) -> Error {
    Error::Unsupported {
        path: "model_info.params.loss_function".into(),
        what: format!("a model of the loss function \"{name}\""),
    }
}

/// The names, each at the place of its output.
fn class_names(root: &At<'_, '_>) -> Result<Vec<String>> {
    let Some(info) = root.get("model_info")? else { return Ok(Vec::new()) };
    let Some(params) = info.get("class_params")? else { return Ok(Vec::new()) };
    let Some(list) = params.get("class_names")? else { return Ok(Vec::new()) };
    if let Value::Array(items) = list.value
        && let Some(truths) = items.iter().map(Value::truth).collect::<Option<Vec<bool>>>()
    {
        return Ok(truths.iter().map(bool::to_string).collect());
    }
    if let Ok(numbers) = list.doubles() {
        return Ok(numbers.iter().map(f64::to_string).collect());
    }
    list.strings()
}

fn push(tree: &At<'_, '_>, features: &[Feature], scale: f64, arrays: &mut TreeArrays) -> Result<()> {
    let list = tree.field("splits")?;
    let splits = list.items().unwrap_or_default();
    if splits.len() > DEEPEST {
        return Err(list.invalid("has more levels than CatBoost allows"));
    }
    let (leaves, size) = (1_usize << splits.len(), arrays.size);
    let values = tree.field("leaf_values")?;
    let numbers = values.doubles()?;
    if numbers.len() != leaves * size || numbers.iter().any(|value| !value.is_finite()) {
        return Err(values.invalid(format!("expected {} finite numbers", leaves * size)));
    }
    let mut nodes = Vec::new();
    // In a leaf's number, CatBoost has the last split in the highest bit: so it is the root, where explanations begin.
    for (level, (index, item)) in splits.iter().enumerate().rev().enumerate() {
        let split = At { value: item, path: list.path.index(index) };
        let kind = split.field("split_type")?;
        if kind.string()? != "FloatFeature" {
            return Err(kind.path.unsupported(format!("a split of type {}", kind.string()?)));
        }
        let index = split.field("float_feature_index")?;
        let feature = usize::try_from(index.integer_text()?).ok().and_then(|index| features.get(index));
        let feature = feature.ok_or_else(|| index.invalid("is a feature that there is not"))?;
        let border = split.field("border")?;
        // What is above the border goes right; borders are float32.
        let threshold = (border.double()? as f32).next_up();
        if threshold.is_nan() {
            return Err(border.invalid("is not a number"));
        }
        for place in 0..1_u32 << level {
            let child = 2 * ((1 << level) - 1 + place) + 1;
            nodes.push(Node::numeric(feature.column as u32, threshold, !feature.missing_right, child, child + 1));
        }
    }
    nodes.extend((0..leaves as u32).map(Node::leaf));
    let values: Vec<f64> = numbers.iter().map(|value| value * scale).collect();
    let covers = leaf_weights(tree, leaves)?.map_or_else(Vec::new, |weights| covers(&weights));
    let noted = Noted { covers: &covers, gains: &[] };
    arrays.push(&nodes, &[], noted, &values).map_err(|_| tree.invalid("is more than there is memory for"))
}

/// The weight of the training rows in each leaf, where the file has it.
fn leaf_weights(tree: &At<'_, '_>, leaves: usize) -> Result<Option<Vec<f64>>> {
    let Some(field) = tree.get("leaf_weights")? else { return Ok(None) };
    let weights = field.doubles()?;
    match weights.len() {
        0 => Ok(None),
        count if count == leaves => Ok(Some(weights)),
        _ => Err(field.invalid(format!("expected {leaves} numbers"))),
    }
}

/// The weight of the training rows that came to each node of a symmetric tree whose levels lie one after another, by
/// those of its leaves.
pub fn covers(weights: &[f64]) -> Vec<f32> {
    let mut levels = vec![weights.to_vec()];
    while let Some(level) = levels.last().filter(|level| level.len() > 1) {
        levels.push(level.chunks(2).map(|pair| pair.iter().sum()).collect());
    }
    levels.iter().rev().flatten().map(|weight| *weight as f32).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As CatBoost 1.2.10 wrote it: two symmetric trees of depth 2 and 1.
    const MODEL: &str = r#"{"features_info":{"float_features":[
        {"borders":[-0.9058629274368286],"feature_id":"a","feature_index":0,"flat_feature_index":0,"has_nans":false,"nan_value_treatment":"AsIs"},
        {"borders":[0.20828455686569214],"feature_id":"b","feature_index":1,"flat_feature_index":1,"has_nans":true,"nan_value_treatment":"AsTrue"}]},
        "model_info":{"params":{"loss_function":{"params":{},"type":"RMSE"}}},
        "oblivious_trees":[
        {"leaf_values":[1,2,3,4],"leaf_weights":[1,1,1,1],"splits":[
        {"border":-0.9058629274368286,"float_feature_index":0,"split_index":0,"split_type":"FloatFeature"},
        {"border":0.20828455686569214,"float_feature_index":1,"split_index":1,"split_type":"FloatFeature"}]},
        {"leaf_values":[10,20],"leaf_weights":[1,1],"splits":[
        {"border":0.20828455686569214,"float_feature_index":1,"split_index":1,"split_type":"FloatFeature"}]}],
        "scale_and_bias":[1,[0.5]]}"#;

    #[test]
    fn a_model_is_read() {
        assert!(is_one(MODEL.as_bytes()));
        let model = read(MODEL.as_bytes()).unwrap();
        assert_eq!((model.width, model.link, &model.base[..]), (2, Link::Identity, &[0.5][..]));
        assert_eq!(model.feature_names, ["a", "b"]);
        let trees = model.arrays.trees();
        trees.check(2).unwrap();
        for (row, expected) in [
            ([-1.0, 0.0], 11.0),
            ([0.0, 0.0], 12.0),
            ([-1.0, 1.0], 23.0),
            ([0.0, f32::NAN], 24.0),
            ([f32::NAN, 0.0], 11.0),
            ([-0.905_862_9, 0.208_284_56], 11.0),
        ] {
            let mut sum = [0.0];
            trees.sums(&row, &mut sum);
            assert_eq!(sum[0], expected, "{row:?}");
        }
    }

    #[test]
    fn what_becomes_of_the_sums_must_be_known() {
        let of = |loss: &str, classes: &str| {
            let params = format!("\"params\":{{\"loss_function\":{{\"params\":{{}},\"type\":\"{loss}\"}}}}{classes}");
            let from = r#""params":{"loss_function":{"params":{},"type":"RMSE"}}"#;
            read(MODEL.replacen(from, &params, 1).as_bytes())
        };
        let truths = r#","class_params":{"class_names":[false,true]}"#;
        for loss in ["Logloss", "CrossEntropy", "Focal"] {
            let model = of(loss, truths).unwrap();
            assert_eq!((model.link, model.class_names), (Link::Logistic, vec!["false".to_owned(), "true".to_owned()]));
        }
        for (loss, classes) in
            [("RMSEWithUncertainty", ""), ("MultiLogloss", ""), ("MultiCrossEntropy", ""), ("Own", truths)]
        {
            let error = of(loss, classes).unwrap_err();
            assert!(matches!(&error, Error::Unsupported { what, .. } if what.contains(loss)), "{error}");
        }
        assert_eq!(of("Quantile", "").unwrap().link, Link::Identity);
    }

    #[test]
    fn what_is_damaged_is_refused() {
        for (from, to) in [
            ("[1,2,3,4]", "[1,2,3]"),
            ("\"float_feature_index\":0", "\"float_feature_index\":2"),
            ("\"float_feature_index\":0", "\"float_feature_index\":-1"),
            ("\"split_type\":\"FloatFeature\"", "\"split_type\":\"OnlineCtr\""),
            ("\"flat_feature_index\":1", "\"flat_feature_index\":4"),
            ("[1,[0.5]]", "[1,[]]"),
            ("[1,[0.5]]", "[1,[0.5,1]]"),
            ("[1,[0.5]]", "[1]"),
            ("\"oblivious_trees\"", "\"trees\""),
        ] {
            let damaged = MODEL.replacen(from, to, 1);
            assert_ne!(damaged, MODEL);
            assert!(read(damaged.as_bytes()).is_err(), "{to}");
        }
        for end in 0..MODEL.len() {
            assert!(read(&MODEL.as_bytes()[..end]).is_err());
        }
    }
}
