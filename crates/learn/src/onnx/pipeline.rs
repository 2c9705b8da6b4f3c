//! Operators of scikit-learn's pipelines, ONNX's ML domain, but for trees and support vector machines.

use std::rc::Rc;

use forest::error::Result;

use super::elementwise::{applied, two};
use super::lower::{Call, Lower};
use super::message::Data;
use super::network::{dense, spread_over};
use super::value::{Constant, Kind, Lanes, Value};
use crate::forms::program::{Binary, Spread, Step, Unary};

const DOMAIN: &str = "ai.onnx.ml";

pub(super) const OPERATORS: &[(&str, &str, Lower)] = &[
    (DOMAIN, "Scaler", scaler),
    (DOMAIN, "Normalizer", normalizer),
    (DOMAIN, "Imputer", imputer),
    (DOMAIN, "OneHotEncoder", one_hot),
    (DOMAIN, "LabelEncoder", label_encoder),
    (DOMAIN, "LinearRegressor", linear_regressor),
    (DOMAIN, "LinearClassifier", linear_classifier),
    (DOMAIN, "ZipMap", zip_map),
];

/// Constants of a row of `width` numbers, of which one may stand for all.
fn row<'a>(call: &Call<'a, '_>, name: &str, numbers: Vec<f64>, width: usize) -> Result<Value<'a>> {
    match numbers.len() {
        1 => Ok(Value::Constant(Constant::scalar(numbers[0], Kind::Float))),
        length if length == width => {
            let data = Rc::new(Data::Numbers(numbers));
            Ok(Value::Constant(Constant { data, dims: vec![width], kind: Kind::Float }))
        }
        length => Err(call.node.invalid(format!("its {name} has {length} numbers for {width} features"))),
    }
}

fn scaler<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let (lanes, width) = call.table(0)?;
    let mut value = Value::Lanes(lanes);
    for (name, function) in [("offset", Binary::Sub), ("scale", Binary::Mul)] {
        let numbers = call.node.floats(name)?.into_iter().map(f64::from).collect::<Vec<_>>();
        if !numbers.is_empty() {
            let numbers = row(call, name, numbers, width)?;
            value = two(call, function, &value, &numbers)?;
        }
    }
    Ok(vec![value])
}

fn normalizer<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let (lanes, width) = call.table(0)?;
    let spread = match call.node.text("norm", "MAX")? {
        "L1" => Spread::L1,
        "L2" => Spread::L2,
        "MAX" => Spread::Max,
        other => return Err(call.node.unsupported(&format!("norm {other}"))),
    };
    let lanes = Lanes { dims: vec![width], ..lanes };
    Ok(vec![Value::Lanes(spread_over(call, &lanes, &[0], spread)?)])
}

fn imputer<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let (lanes, width) = call.table(0)?;
    let floats = call.node.has("imputed_value_floats")?;
    let (numbers, replaced) = match floats {
        true => {
            let numbers = call.node.floats("imputed_value_floats")?.into_iter().map(f64::from).collect();
            (numbers, call.node.float("replaced_value_float", 0.0)?)
        }
        false => {
            let numbers = call.node.ints("imputed_value_int64s")?.into_iter().map(|int| int as f64).collect::<Vec<_>>();
            (numbers, call.node.int("replaced_value_int64", 0)? as f32)
        }
    };
    let numbers = row(call, "imputed values", numbers, width)?;
    let value = Value::Lanes(lanes);
    if replaced.is_nan() {
        return Ok(vec![two(call, Binary::OrElse, &value, &numbers)?]);
    }
    // A number stands for what is missing, and NaN is as little known to it as any other.
    let dims = call.common(&[&value, &numbers])?;
    let stands = Value::Constant(Constant::scalar(replaced.into(), Kind::Float));
    let test = two(call, Binary::Equal, &value, &stands)?;
    let (test, then) = (call.operand(&test, &dims)?, call.operand(&numbers, &dims)?);
    let otherwise = call.operand(&value, &dims)?;
    let count = call.afford(&dims)?;
    let at = call.program.push(Step::Choose { test, then, otherwise, count }, count);
    Ok(vec![Value::Lanes(Lanes::from(at, dims, Kind::Float))])
}

/// An input that may be of texts: its lanes.
fn columns<'a>(call: &mut Call<'a, '_>) -> Result<Lanes> {
    match call.value(0)? {
        Value::Lanes(lanes) => Ok(lanes),
        _ => Err(call.node.unsupported("an input that is not of columns")),
    }
}

/// The code of a category for a lane of texts, which is a feature itself: nothing makes texts of texts.
fn code<'a>(call: &mut Call<'a, '_>, lane: u32, category: &str) -> Result<f32> {
    let code = call.texts.code(lane as usize, category);
    code.map(|code| code as f32).ok_or_else(|| call.node.unsupported("texts that are no input of the graph"))
}

fn one_hot<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let lanes = columns(call)?;
    let (ints, texts) = (call.node.ints("cats_int64s")?, call.node.texts("cats_strings")?);
    if (lanes.kind == Kind::Text) != ints.is_empty() || (ints.is_empty() == texts.is_empty()) {
        return Err(call.node.unsupported("categories that are not of the input's type"));
    }
    let size = ints.len().max(texts.len());
    let strict = call.node.int("zeros", 1)? == 0;
    let dims: Vec<usize> = lanes.dims.iter().copied().chain([size]).collect();
    let count = call.afford(&dims)?;
    let (mut from, mut categories) = (Vec::with_capacity(count), Vec::with_capacity(count));
    for lane in lanes.lanes.iter() {
        let first = categories.len();
        match ints.is_empty() {
            true => {
                for text in &texts {
                    categories.push(code(call, *lane, text)?);
                }
            }
            // Whole numbers that float32 has not would be others.
            false => categories.extend(ints.iter().map(|int| *int as f32)),
        }
        // What was not met in training is nobody's row where the model says so and the column is the row's own.
        if strict && (*lane as usize) < call.width {
            call.program.known(*lane as usize, categories[first..].to_vec());
        }
        from.extend(std::iter::repeat_n(*lane, size));
    }
    if ints.iter().any(|int| *int as f32 as i64 != *int) {
        return Err(call.node.unsupported("a category beyond 2^24"));
    }
    let left = call.gather(&from)?;
    let right = call.constants(&categories)?;
    let at = call.program.push(Step::Binary { function: Binary::Equal, left, right, count }, count);
    Ok(vec![Value::Lanes(Lanes::from(at, dims, Kind::Float))])
}

/// Pairs of a key and what it stands for, and what all others do.
struct Pairs<'a> {
    keys: Keys<'a>,
    values: Keys<'a>,
    default: f32,
    default_text: &'a str,
}

enum Keys<'a> {
    Numbers(Vec<f64>),
    Texts(Vec<&'a str>),
}

impl Keys<'_> {
    fn len(&self) -> usize {
        match self {
            Keys::Numbers(numbers) => numbers.len(),
            Keys::Texts(texts) => texts.len(),
        }
    }
}

fn listed<'a>(call: &Call<'a, '_>, name: &str) -> Result<Keys<'a>> {
    let node = call.node;
    if let Some(tensor) = node.tensor(&format!("{name}_tensor"))? {
        return Ok(match tensor.data {
            Data::Numbers(numbers) => Keys::Numbers(numbers),
            Data::Texts(texts) => Keys::Texts(texts),
        });
    }
    if node.has(&format!("{name}_strings"))? {
        return node.texts(&format!("{name}_strings")).map(Keys::Texts);
    }
    if node.has(&format!("{name}_int64s"))? {
        return Ok(Keys::Numbers(node.ints(&format!("{name}_int64s"))?.into_iter().map(|int| int as f64).collect()));
    }
    Ok(Keys::Numbers(node.floats(&format!("{name}_floats"))?.into_iter().map(f64::from).collect()))
}

fn pairs<'a>(call: &Call<'a, '_>) -> Result<Pairs<'a>> {
    let (keys, values) = (listed(call, "keys")?, listed(call, "values")?);
    let node = call.node;
    if keys.len() != values.len() || keys.len() == 0 {
        return Err(node.unsupported("keys and values that are not as many"));
    }
    let default = match node.tensor("default_tensor")?.map(|tensor| tensor.data) {
        Some(Data::Numbers(numbers)) => numbers.first().copied().unwrap_or(0.0) as f32,
        _ if node.has("values_int64s")? => node.int("default_int64", -1)? as f32,
        _ => node.float("default_float", -0.0)?,
    };
    Ok(Pairs { keys, values, default, default_text: node.text("default_string", "_Unused")? })
}

fn label_encoder<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let pairs = pairs(call)?;
    let value = call.value(0)?;
    if let Value::Class { index, names } = value {
        return renamed(call, index, &names, &pairs);
    }
    let lanes = columns(call)?;
    let Keys::Numbers(values) = &pairs.values else {
        return Err(call.node.unsupported("texts for features"));
    };
    let whole = call.node.has("values_int64s")?;
    let mut made = Vec::with_capacity(lanes.lanes.len());
    for lane in lanes.lanes.iter() {
        let mut missing = pairs.default;
        let mut table: Vec<[f32; 2]> = Vec::with_capacity(values.len());
        for index in 0..values.len() {
            let key = match &pairs.keys {
                Keys::Numbers(keys) if lanes.kind != Kind::Text => keys[index] as f32,
                Keys::Texts(keys) if lanes.kind == Kind::Text => code(call, *lane, keys[index])?,
                _ => return Err(call.node.unsupported("keys that are not of the input's type")),
            };
            match key.is_nan() {
                true => missing = values[index] as f32,
                false => table.push([key, values[index] as f32]),
            }
        }
        table.sort_by(|a, b| a[0].total_cmp(&b[0]));
        call.spend(2 * table.len())?;
        let pair_count = table.len();
        let numbers = call.program.numbers(table.into_iter().flatten().chain([pairs.default, missing]));
        let from = *lane as usize;
        let at = call.program.push(Step::Look { from, count: 1, numbers, pairs: pair_count }, 1);
        made.push(u32::try_from(at).unwrap_or(u32::MAX));
    }
    let kind = if whole { Kind::Int } else { Kind::Float };
    Ok(vec![Value::Lanes(Lanes { lanes: made.into(), dims: lanes.dims, kind })])
}

/// Classes by other names.
fn renamed<'a>(call: &Call<'a, '_>, index: Lanes, names: &[String], pairs: &Pairs<'a>) -> Result<Vec<Value<'a>>> {
    let place = |name: &String| match &pairs.keys {
        Keys::Texts(keys) => keys.iter().position(|key| key == name),
        Keys::Numbers(keys) => keys.iter().position(|key| key.to_string() == *name),
    };
    let value = |name: &String| match (&pairs.values, place(name)) {
        (Keys::Texts(values), Some(place)) => Some(values[place].to_owned()),
        (Keys::Texts(_), None) => Some(pairs.default_text.to_owned()),
        (Keys::Numbers(values), Some(place)) => Some(values[place].to_string()),
        (Keys::Numbers(_), None) => None,
    };
    let names: Option<Vec<String>> = names.iter().map(value).collect();
    let names = names.ok_or_else(|| call.node.unsupported("classes that have no value"))?;
    Ok(vec![Value::Class { index, names: Rc::new(names) }])
}

/// What becomes of a model's sums at its end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Transform {
    None,
    Softmax,
    Logistic,
}

pub(super) fn transform(call: &Call<'_, '_>) -> Result<Transform> {
    match call.node.text("post_transform", "NONE")? {
        "NONE" => Ok(Transform::None),
        "SOFTMAX" => Ok(Transform::Softmax),
        "LOGISTIC" => Ok(Transform::Logistic),
        other => Err(call.node.unsupported(&format!("post_transform {other}"))),
    }
}

pub(super) fn transformed<'a>(call: &mut Call<'a, '_>, scores: Lanes, transform: Transform) -> Result<Lanes> {
    match transform {
        Transform::None => Ok(scores),
        Transform::Softmax => spread_over(call, &scores, &[scores.dims.len().saturating_sub(1)], Spread::Softmax),
        Transform::Logistic => match applied(call, Value::Lanes(scores), Unary::Sigmoid, 0.0)? {
            Value::Lanes(lanes) => Ok(lanes),
            _ => Err(call.node.unsupported("scores that are not of numbers")),
        },
    }
}

/// The `count` weighted sums of a linear model.
fn sums<'a>(call: &mut Call<'a, '_>, count: usize, coefficients: &[f64], intercepts: &[f64]) -> Result<Lanes> {
    let (lanes, width) = call.table(0)?;
    if count.checked_mul(width) != Some(coefficients.len()) || width == 0 || count == 0 {
        let found = coefficients.len();
        return Err(call.node.invalid(format!("{found} coefficients for {count} sums of {width} features")));
    }
    if !intercepts.is_empty() && intercepts.len() != count {
        return Err(call.node.invalid(format!("{} intercepts for {count} sums", intercepts.len())));
    }
    let matrix = coefficients.iter().map(|number| *number as f32);
    let more = (0..count).map(|index| intercepts.get(index).copied().unwrap_or(0.0) as f32);
    dense(call, &lanes, width, matrix, more, count, vec![count])
}

fn linear_regressor<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let transform = transform(call)?;
    let targets = call.node.int("targets", 1)?;
    let targets = usize::try_from(targets).map_err(|_| call.node.invalid("it has no targets"))?;
    let (coefficients, intercepts) = (call.node.doubles("coefficients")?, call.node.doubles("intercepts")?);
    let sums = sums(call, targets, &coefficients, &intercepts)?;
    Ok(vec![Value::Lanes(transformed(call, sums, transform)?)])
}

/// The classes of a classifier, as it has them.
pub(super) fn classes(call: &Call<'_, '_>) -> Result<Vec<String>> {
    for name in ["classlabels_strings", "classlabels_int64s", "classlabels_ints"] {
        if call.node.has(name)? {
            let names = call.node.texts(name)?.into_iter().map(str::to_owned).collect::<Vec<_>>();
            let ints = call.node.ints(name)?;
            return Ok(if names.is_empty() { ints.iter().map(i64::to_string).collect() } else { names });
        }
    }
    Ok(Vec::new())
}

/// A score of the second of two classes, as one of each.
pub(super) fn both<'a>(call: &mut Call<'a, '_>, score: &Lanes, transform: Transform) -> Result<Lanes> {
    let score = Value::Lanes(score.clone());
    let (first, second) = match transform {
        Transform::Logistic => {
            let second = applied(call, score.clone(), Unary::Sigmoid, 0.0)?;
            let less = applied(call, score, Unary::Neg, 0.0)?;
            (applied(call, less, Unary::Sigmoid, 0.0)?, second)
        }
        _ => (applied(call, score.clone(), Unary::Neg, 0.0)?, score),
    };
    pair(call, &first, &second)
}

/// Two scores beside each other.
pub(super) fn pair<'a>(call: &mut Call<'a, '_>, first: &Value<'a>, second: &Value<'a>) -> Result<Lanes> {
    match (first, second) {
        (Value::Lanes(first), Value::Lanes(second)) => {
            let lanes = first.lanes.iter().chain(second.lanes.iter()).copied().collect();
            Ok(Lanes { lanes, dims: vec![2], kind: Kind::Float })
        }
        _ => Err(call.node.unsupported("scores that are not of numbers")),
    }
}

/// The class of the largest score, and the scores: the outputs of a classifier.
pub(super) fn classified<'a>(call: &mut Call<'a, '_>, scores: Lanes, names: Vec<String>) -> Result<Vec<Value<'a>>> {
    use super::network::folded;
    use crate::forms::program::Fold;
    let index = folded(call, &scores, &[0], false, Fold::ArgMax, Kind::Int)?;
    Ok(vec![Value::Class { index, names: Rc::new(names) }, Value::Lanes(scores)])
}

fn linear_classifier<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let transform = transform(call)?;
    let names = classes(call)?;
    let (_, width) = call.table(0)?;
    let (coefficients, intercepts) = (call.node.doubles("coefficients")?, call.node.doubles("intercepts")?);
    let count = coefficients.len().checked_div(width).unwrap_or(0);
    if count != names.len() && !(count == 1 && names.len() == 2) {
        return Err(call.node.invalid(format!("{count} sums for {} classes", names.len())));
    }
    let sums = sums(call, count, &coefficients, &intercepts)?;
    let scores = match count {
        1 if names.len() == 2 => both(call, &sums, transform)?,
        _ => transformed(call, sums, transform)?,
    };
    classified(call, scores, names)
}

fn zip_map<'a>(call: &mut Call<'a, '_>) -> Result<Vec<Value<'a>>> {
    let scores = call.lanes(0)?;
    let names = classes(call)?;
    if names.len() != scores.lanes.len() {
        return Err(call.node.invalid(format!("{} scores for {} classes", scores.lanes.len(), names.len())));
    }
    Ok(vec![Value::Map { scores, names: Rc::new(names) }])
}
