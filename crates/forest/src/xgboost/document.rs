//! Models as files: an attribute is added to one without another byte of it changing, and one is written as JSON.
//!
//! The library that trained is not asked for either: it is not there where models only come, go and predict.

use std::fmt::Write;

use crate::error::{Error, Result};
use crate::value::{Number, Numbers, Value};
use crate::{json, ubj};

/// How a model's bytes are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// Text.
    Json,
    /// Universal Binary JSON.
    Ubj,
}

impl Syntax {
    /// How these bytes seem to be written, by their beginning.
    ///
    /// # Errors
    /// [`Error::Format`] where it is neither way.
    pub fn of(bytes: &[u8]) -> Result<Syntax> {
        let space = bytes.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        match bytes.get(space..).unwrap_or_default() {
            [] => Err(Error::Format("it is empty".into())),
            [b'{', b'"' | b'}' | b' ' | b'\t' | b'\n' | b'\r', ..] => Ok(Syntax::Json),
            [b'{', ..] if space == 0 => Ok(Syntax::Ubj),
            [b'b', b'i', b'n', b'f', ..] => {
                Err(Error::Format("it is of XGBoost's old binary format; save it again as JSON or UBJSON".into()))
            }
            _ => Err(Error::Format("it is neither JSON nor UBJSON".into())),
        }
    }

    pub(super) fn parse(self, bytes: &[u8]) -> Result<Value<'_>> {
        match self {
            Syntax::Json => json::parse(bytes),
            Syntax::Ubj => ubj::parse(bytes),
        }
    }

    fn member<'a>(self, object: &'a [u8], name: &str) -> Result<Option<&'a [u8]>> {
        match self {
            Syntax::Json => json::member(object, name),
            Syntax::Ubj => ubj::member(object, name),
        }
    }

    /// A field that is a text, as the first of an object whose brace is before it.
    fn field(self, name: &str, text: &str, is_alone: bool) -> Vec<u8> {
        let mut field = Vec::new();
        match self {
            Syntax::Json => {
                let mut json = String::new();
                write_string(&mut json, name);
                json.push(':');
                write_string(&mut json, text);
                json.push_str(if is_alone { "" } else { "," });
                field.extend_from_slice(json.as_bytes());
            }
            Syntax::Ubj => {
                key(&mut field, name);
                field.push(b'S');
                key(&mut field, text);
            }
        }
        field
    }
}

/// A length and a text.
fn key(field: &mut Vec<u8>, text: &str) {
    field.push(b'L');
    field.extend_from_slice(&(text.len() as u64).to_be_bytes());
    field.extend_from_slice(text.as_bytes());
}

/// The model alone, of a file that may hold the training's state around it.
///
/// # Errors
/// Those of [`super::read`].
pub fn model(bytes: &[u8]) -> Result<&[u8]> {
    Ok(Syntax::of(bytes)?.member(bytes, "Model")?.unwrap_or(bytes))
}

/// The model alone, of a file that may hold the training's state around it, with one more attribute. The attribute must
/// not be there yet; the file is one that [`super::read`] can read.
///
/// # Errors
/// Those of [`super::read`], and [`Error::Unsupported`] for a file that is written as XGBoost writes none.
pub fn with_attribute(bytes: &[u8], name: &str, text: &str) -> Result<Vec<u8>> {
    let syntax = Syntax::of(bytes)?;
    let model = model(bytes)?;
    let missing = || Error::Invalid { path: "learner".into(), what: "missing".into() };
    let learner = syntax.member(model, "learner")?.ok_or_else(missing)?;
    let (object, field) = match syntax.member(learner, "attributes")? {
        Some(attributes) => (attributes, syntax.field(name, text, is_empty(syntax, attributes)?)),
        None => {
            let mut field = match syntax {
                Syntax::Json => b"\"attributes\":{".to_vec(),
                Syntax::Ubj => Vec::new(),
            };
            if syntax == Syntax::Ubj {
                key(&mut field, "attributes");
                field.push(b'{');
            }
            field.extend(syntax.field(name, text, true));
            field.push(b'}');
            if syntax == Syntax::Json && !is_empty(syntax, learner)? {
                field.push(b',');
            }
            (learner, field)
        }
    };
    // A counted object has its count there, and would have to have it changed.
    if syntax == Syntax::Ubj && object.get(1) == Some(&b'#') {
        return Err(Error::Unsupported { path: "learner.attributes".into(), what: "a count of fields".into() });
    }
    // A part of the same bytes: where it begins says where its brace is.
    let brace = object.as_ptr() as usize - model.as_ptr() as usize;
    let (before, after) = model.split_at(brace + 1);
    Ok([before, &field, after].concat())
}

fn is_empty(syntax: Syntax, object: &[u8]) -> Result<bool> {
    match syntax.parse(object)? {
        Value::Object(fields) => Ok(fields.is_empty()),
        _ => Err(Error::Invalid { path: "learner.attributes".into(), what: "expected an object".into() }),
    }
}

/// The model as JSON, as XGBoost reads it: every number as it was, to the bit.
///
/// # Errors
/// Those of the syntax.
pub fn to_json(bytes: &[u8]) -> Result<String> {
    let syntax = Syntax::of(bytes)?;
    let value = syntax.parse(bytes)?;
    let mut json = String::with_capacity(2 * bytes.len());
    write_value(&mut json, &value);
    Ok(json)
}

fn write_value(json: &mut String, value: &Value<'_>) {
    match value {
        Value::Null => json.push_str("null"),
        Value::Bool(flag) => json.push_str(if *flag { "true" } else { "false" }),
        Value::Number(number) => write_number(json, *number),
        Value::String(text) => write_string(json, text),
        Value::Numbers(Numbers::Text(text)) => {
            let _ = write!(json, "[{text}]");
        }
        Value::Numbers(Numbers::Packed { kind, bytes }) => {
            let numbers = bytes.chunks_exact(kind.width()).filter_map(|word| kind.number(word));
            write_list(json, ('[', ']'), numbers, |json, number| write_number(json, number));
        }
        Value::Array(items) => write_list(json, ('[', ']'), items.iter(), write_value),
        Value::Object(fields) => write_list(json, ('{', '}'), fields.iter(), |json, (name, value)| {
            write_string(json, name);
            json.push(':');
            write_value(json, value);
        }),
    }
}

pub(super) fn write_list<T>(
    json: &mut String,
    (open, close): (char, char),
    items: impl Iterator<Item = T>,
    mut write: impl FnMut(&mut String, T),
) {
    json.push(open);
    for (index, item) in items.enumerate() {
        if index > 0 {
            json.push(',');
        }
        write(json, item);
    }
    json.push(close);
}

pub(super) fn write_number(json: &mut String, number: Number<'_>) {
    let _ = match number {
        Number::Text(text) => write!(json, "{text}"),
        Number::Int(number) => write!(json, "{number}"),
        Number::Float(number) if number.is_nan() => write!(json, "NaN"),
        Number::Float(f32::INFINITY) => write!(json, "Infinity"),
        Number::Float(f32::NEG_INFINITY) => write!(json, "-Infinity"),
        // With an exponent: without one, XGBoost takes it for an integer.
        Number::Float(number) => write!(json, "{number:e}"),
    };
}

pub(super) fn write_string(json: &mut String, text: &str) {
    json.push('"');
    for character in text.chars() {
        match character {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\n' => json.push_str("\\n"),
            '\r' => json.push_str("\\r"),
            '\t' => json.push_str("\\t"),
            other if other < ' ' => {
                let _ = write!(json, "\\u{:04x}", u32::from(other));
            }
            other => json.push(other),
        }
    }
    json.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped() {
        let text = "a \"b\" \\ \n \u{1} é";
        let mut json = String::new();
        write_string(&mut json, text);
        match json::parse(json.as_bytes()) {
            Ok(Value::String(read)) => assert_eq!(read, text),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn numbers_keep_their_bits() {
        for number in [0.0_f32, 1.0, -1.5, 1e-45, f32::MAX, f32::INFINITY, 0.1, f32::MIN_POSITIVE] {
            let mut json = String::new();
            write_number(&mut json, Number::Float(number));
            let read = json::parse(format!("[{json}]").as_bytes()).map(|value| format!("{value:?}"));
            let floats = match json::parse(format!("[{json}]").as_bytes()) {
                Ok(value) => crate::value::At::root(&value).floats().unwrap_or_default(),
                Err(error) => panic!("{error}"),
            };
            assert_eq!(floats.first().map(|float| float.to_bits()), Some(number.to_bits()), "{json} {read:?}");
        }
    }

    #[test]
    fn a_learner_without_attributes_gets_them() {
        for (before, after) in [
            (r#"{"learner":{}}"#, r#"{"learner":{"attributes":{"a":"b\"c"}}}"#),
            (r#"{ "learner" : { "x":1}}"#, r#"{ "learner" : {"attributes":{"a":"b\"c"}, "x":1}}"#),
            (r#"{"learner":{"attributes":{}}}"#, r#"{"learner":{"attributes":{"a":"b\"c"}}}"#),
            (r#"{"learner":{"attributes":{"z":"1"}}}"#, r#"{"learner":{"attributes":{"a":"b\"c","z":"1"}}}"#),
            (r#"{"Model":{"learner":{}},"Config":{}}"#, r#"{"learner":{"attributes":{"a":"b\"c"}}}"#),
        ] {
            let added = with_attribute(before.as_bytes(), "a", "b\"c").map(String::from_utf8);
            assert_eq!(added, Ok(Ok(after.to_owned())));
        }
    }

    #[test]
    fn what_has_no_learner_is_an_error() {
        for bytes in [&b"{}"[..], b"[]", b"", b"{\"learner\":3}", b"{\"learner\":{\"attributes\":[]}}", b"{L", b"{#"] {
            assert!(with_attribute(bytes, "a", "b").is_err(), "{bytes:?}");
        }
    }
}
