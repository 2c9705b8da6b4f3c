//! A sample row with the prediction of the library that trained the model: the imported model must predict the same.

use pgrx::PgSqlErrorCode;
use serde_json::{Map, Value};

use crate::error::{Error, Result};
use crate::model::{Column, Model};
use crate::nearest;

/// What float32 and another library's exp make of the same sum, and no more.
const TOLERANCE: f64 = 1e-5;

/// That the model predicts for the sample what is expected.
pub fn check(model: &Model, sample: &Value, expected: &Value) -> Result<()> {
    let row = row(model, sample)?;
    let mut values = vec![0.0; model.num_values()];
    model.predict_values(&row, &mut values)?;
    if let Value::String(label) = expected {
        let predicted = model.predict_label(&row, &mut values)?;
        return if predicted == label { Ok(()) } else { Err(differs(&format!("{predicted:?}"), expected)) };
    }
    let classes = model.classes().len();
    if model.gives_probabilities() && classes > 0 {
        values = model.predict_proba(&row)?;
    }
    let same = |value: f32, expected: &Value| {
        let expected = expected.as_f64().unwrap_or(f64::NAN);
        (f64::from(value) - expected).abs() <= TOLERANCE * expected.abs().max(1.0)
    };
    let agrees = match (expected, values.as_slice()) {
        (Value::Number(_), [value]) => same(*value, expected),
        // As most libraries tell it: the probability of the second class.
        (Value::Number(_), [_, second]) if classes == 2 => same(*second, expected),
        (Value::Array(items), values) if items.len() == values.len() => {
            values.iter().zip(items).all(|(value, expected)| same(*value, expected))
        }
        _ => {
            return Err(Error::invalid(format!(
                "expected is {expected}, and the model predicts {}",
                learn::count(values.len(), "number")
            ))
            .hint("Give a number, an array of numbers (the probability of each class), or the class as a text."));
        }
    };
    match agrees {
        true => Ok(()),
        false => Err(differs(&format!("{values:?}"), expected)),
    }
}

fn differs(predicted: &str, expected: &Value) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_DATA_EXCEPTION,
        format!("the model predicts {predicted} for the sample, and {expected} is expected"),
    )
    .hint("Check that the sample has the model's features in the model's order, and that all trees of the model made the expected prediction.")
}

/// The row that the sample is: an array in the order of the features, or an object by columns.
fn row(model: &Model, sample: &Value) -> Result<Vec<f32>> {
    let mut row = vec![f32::NAN; model.width()];
    match sample {
        Value::Array(items) => {
            if items.len() != row.len() {
                return Err(Error::invalid(format!(
                    "the sample has {}, and the model has {}",
                    learn::count(items.len(), "feature"),
                    row.len()
                )));
            }
            for column in &model.columns {
                let range = column.offset..column.offset + column.size;
                fill(column, &mut row[range.clone()], &items[range])?;
            }
        }
        Value::Object(fields) => by_name(model, fields, &mut row)?,
        _ => return Err(Error::invalid("sample must be a JSON array or object")),
    }
    Ok(row)
}

fn by_name(model: &Model, fields: &Map<String, Value>, row: &mut [f32]) -> Result<()> {
    let names: Vec<String> = model.columns.iter().map(|column| column.name.clone()).collect();
    if let Some(name) = fields.keys().find(|name| !names.contains(name)) {
        let code = PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN;
        return Err(Error::new(code, format!("the sample has \"{name}\", which is no feature of the model"))
            .hint(nearest::hint(name, &names)));
    }
    for column in &model.columns {
        let features = &mut row[column.offset..column.offset + column.size];
        match (fields.get(&column.name), features) {
            (Some(Value::Array(items)), features) if items.len() == features.len() => {
                fill(column, features, items)?;
            }
            (Some(item), features @ [_]) => fill(column, features, std::slice::from_ref(item))?,
            (Some(Value::Null), _) => {}
            (Some(_), features) => {
                let name = &column.name;
                return Err(Error::invalid(format!("\"{name}\" of the sample must be an array of {}", features.len())));
            }
            (None, _) => {
                let code = PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN;
                return Err(Error::new(code, format!("the sample lacks \"{}\", a feature of the model", column.name)));
            }
        }
    }
    Ok(())
}

fn fill(column: &Column, features: &mut [f32], items: &[Value]) -> Result<()> {
    let origins = column.origins.iter().copied().chain(std::iter::repeat(0.0));
    for ((feature, item), origin) in features.iter_mut().zip(items).zip(origins) {
        *feature = number(column, item, origin)?;
    }
    Ok(())
}

fn number(column: &Column, value: &Value, origin: f64) -> Result<f32> {
    let wrong = || {
        let what = if column.is_category() { "a text or null" } else { "a number, a boolean or null" };
        Error::invalid(format!("\"{}\" of the sample is {value}, not {what}", column.name))
    };
    match value {
        Value::Null => Ok(f32::NAN),
        Value::String(text) if column.is_category() => column.category(text).ok_or_else(wrong),
        _ if column.is_category() => Err(wrong()),
        Value::Bool(flag) => Ok(f32::from(u8::from(*flag))),
        Value::Number(number) => {
            let number = number.as_f64().map(|number| (number - origin) as f32).filter(|number| number.is_finite());
            number.ok_or_else(wrong)
        }
        _ => Err(wrong()),
    }
}
