//! The common form of JSON and UBJSON: a tree of values that borrows the bytes from which it was parsed.
//!
//! Nearly all bytes of a model are arrays of numbers. Those stay where they are, as checked text or as big-endian
//! words, until somebody asks for integers or floats: a parsed model costs little more memory than its file, and a
//! decimal number goes to float32 in one rounding, as in XGBoost, not by way of a double.

use std::borrow::Cow;
use std::fmt;

use crate::error::{Error, Result};
use crate::json;

/// More levels than any model has (about nine), few enough for any stack.
pub(crate) const MAX_DEPTH: u32 = 64;

/// How many values apart from arrays of numbers a file may still have. A value takes more memory than the byte or two
/// that may stand for it; models have far fewer than this.
pub(crate) struct Budget(usize);

impl Budget {
    pub(crate) fn of(file: &[u8]) -> Self {
        Self((1 << 18) + file.len() / 4)
    }

    /// Whether there was one left.
    pub(crate) fn spend(&mut self) -> bool {
        match self.0.checked_sub(1) {
            Some(left) => {
                self.0 = left;
                true
            }
            None => false,
        }
    }
}

#[derive(Debug)]
pub(crate) enum Value<'a> {
    Null,
    Bool(bool),
    Number(Number<'a>),
    String(Cow<'a, str>),
    /// An array of numbers only, not empty.
    Numbers(Numbers<'a>),
    Array(Vec<Value<'a>>),
    Object(Vec<(Cow<'a, str>, Value<'a>)>),
}

impl Value<'_> {
    /// True or false; `None` for anything else.
    pub(crate) fn truth(&self) -> Option<bool> {
        match self {
            Value::Bool(truth) => Some(*truth),
            _ => None,
        }
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Number<'a> {
    /// Of the grammar of JSON, or `NaN`, `Infinity`, `-Infinity`.
    Text(&'a str),
    Int(i64),
    Float(f32),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Numbers<'a> {
    /// What stands between the brackets of a JSON array whose elements were checked to be numbers.
    Text(&'a str),
    /// Big-endian words; `bytes.len()` is a multiple of the width of `kind`.
    Packed { kind: Kind, bytes: &'a [u8] },
}

/// The number types of UBJSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    I8,
    U8,
    I16,
    I32,
    I64,
    F32,
    F64,
}

impl Kind {
    pub(crate) fn of_marker(marker: u8) -> Option<Self> {
        Some(match marker {
            b'i' => Self::I8,
            b'U' => Self::U8,
            b'I' => Self::I16,
            b'l' => Self::I32,
            b'L' => Self::I64,
            b'd' => Self::F32,
            b'D' => Self::F64,
            _ => return None,
        })
    }

    pub(crate) fn width(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 => 2,
            Self::I32 | Self::F32 => 4,
            Self::I64 | Self::F64 => 8,
        }
    }

    /// `None` if `word` is not as wide as the kind.
    pub(crate) fn number(self, word: &[u8]) -> Option<Number<'static>> {
        Some(match self {
            Self::I8 => Number::Int(i8::from_be_bytes(word.try_into().ok()?).into()),
            Self::U8 => Number::Int(u8::from_be_bytes(word.try_into().ok()?).into()),
            Self::I16 => Number::Int(i16::from_be_bytes(word.try_into().ok()?).into()),
            Self::I32 => Number::Int(i32::from_be_bytes(word.try_into().ok()?).into()),
            Self::I64 => Number::Int(i64::from_be_bytes(word.try_into().ok()?)),
            Self::F32 => Number::Float(f32::from_be_bytes(word.try_into().ok()?)),
            Self::F64 => Number::Float(f64::from_be_bytes(word.try_into().ok()?) as f32),
        })
    }
}

impl Number<'_> {
    fn int(self) -> Option<i64> {
        match self {
            Number::Text(text) => text.parse().ok(),
            Number::Int(n) => Some(n),
            Number::Float(_) => None,
        }
    }

    fn double(self) -> Option<f64> {
        match self {
            Number::Text("Infinity") => Some(f64::INFINITY),
            Number::Text("-Infinity") => Some(f64::NEG_INFINITY),
            Number::Text(text) => text.parse().ok(),
            Number::Int(n) => Some(n as f64),
            Number::Float(x) => Some(x.into()),
        }
    }

    fn float(self) -> Option<f32> {
        match self {
            Number::Text("NaN") => Some(f32::NAN),
            Number::Text("Infinity") => Some(f32::INFINITY),
            Number::Text("-Infinity") => Some(f32::NEG_INFINITY),
            // To XGBoost, -0 is an integer and so has no sign.
            Number::Text("-0") => Some(0.0),
            Number::Text(text) => text.parse().ok(),
            Number::Int(n) => Some(n as f32),
            Number::Float(x) => Some(x),
        }
    }
}

/// One step from a value to a part of it; the chain leads back to the root of the file.
#[derive(Clone, Copy)]
pub(crate) struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    step: Step<'p>,
}

#[derive(Clone, Copy)]
enum Step<'p> {
    Root,
    Field(&'p str),
    Index(usize),
}

impl<'p> Path<'p> {
    pub(crate) const ROOT: Path<'static> = Path { parent: None, step: Step::Root };

    pub(crate) fn field(&'p self, name: &'p str) -> Path<'p> {
        Path { parent: Some(self), step: Step::Field(name) }
    }

    pub(crate) fn index(&'p self, index: usize) -> Path<'p> {
        Path { parent: Some(self), step: Step::Index(index) }
    }

    pub(crate) fn invalid(&self, what: impl Into<String>) -> Error {
        Error::Invalid { path: self.to_string(), what: what.into() }
    }

    pub(crate) fn unsupported(&self, what: impl Into<String>) -> Error {
        Error::Unsupported { path: self.to_string(), what: what.into() }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        match self.step {
            Step::Root => Ok(()),
            Step::Field(name) if self.parent.is_none_or(|parent| matches!(parent.step, Step::Root)) => {
                f.write_str(name)
            }
            Step::Field(name) => write!(f, ".{name}"),
            Step::Index(index) => write!(f, "[{index}]"),
        }
    }
}

/// A value and where it stands.
#[derive(Clone, Copy)]
pub(crate) struct At<'v, 'p> {
    pub(crate) value: &'v Value<'v>,
    pub(crate) path: Path<'p>,
}

impl<'v> At<'v, 'static> {
    pub(crate) fn root(value: &'v Value<'v>) -> Self {
        At { value, path: Path::ROOT }
    }
}

impl<'v, 'p> At<'v, 'p> {
    pub(crate) fn invalid(&self, what: impl Into<String>) -> Error {
        self.path.invalid(what)
    }

    pub(crate) fn object(&self) -> Result<&'v [(Cow<'v, str>, Value<'v>)]> {
        match self.value {
            Value::Object(fields) => Ok(fields),
            other => Err(self.invalid(format!("expected an object, found {}", other.noun()))),
        }
    }

    /// The field, or `None` where it is absent. Of fields of the same name the last one counts, as in XGBoost.
    pub(crate) fn get<'q>(&'q self, name: &'q str) -> Result<Option<At<'v, 'q>>> {
        let fields = self.object()?;
        let found = fields.iter().rev().find(|(key, _)| key == name);
        Ok(found.map(|(_, value)| At { value, path: self.path.field(name) }))
    }

    pub(crate) fn field<'q>(&'q self, name: &'q str) -> Result<At<'v, 'q>> {
        self.get(name)?.ok_or_else(|| self.path.field(name).invalid("missing"))
    }

    pub(crate) fn items(&self) -> Result<&'v [Value<'v>]> {
        match self.value {
            Value::Array(items) => Ok(items),
            other => Err(self.invalid(format!("expected an array of values, found {}", other.noun()))),
        }
    }

    pub(crate) fn string(&self) -> Result<&'v str> {
        match self.value {
            Value::String(text) => Ok(text),
            other => Err(self.invalid(format!("expected a string, found {}", other.noun()))),
        }
    }

    pub(crate) fn strings(&self) -> Result<Vec<String>> {
        let items = self.items()?;
        let string = |(i, value)| At { value, path: self.path.index(i) }.string().map(str::to_owned);
        items.iter().enumerate().map(string).collect()
    }

    /// Texts, and numbers and booleans as SQL prints them: a float that is whole without its fraction.
    pub(crate) fn names(&self) -> Result<Vec<String>> {
        let number = |text: &str| text.strip_suffix(".0").unwrap_or(text).to_owned();
        if let Value::Numbers(Numbers::Text(text)) = self.value {
            return Ok(text.split(',').map(|text| number(text.trim())).collect());
        }
        let name = |(i, value): (usize, &Value<'_>)| match value {
            Value::Number(Number::Text(text)) => Ok(number(text)),
            Value::Bool(truth) => Ok(truth.to_string()),
            value => At { value, path: self.path.index(i) }.string().map(str::to_owned),
        };
        self.items()?.iter().enumerate().map(name).collect()
    }

    /// An integer that XGBoost writes as a string, as it does all parameters.
    pub(crate) fn integer_text(&self) -> Result<i64> {
        let text = match self.value {
            Value::Number(number) => return number.int().ok_or_else(|| self.invalid("expected an integer")),
            _ => self.string()?,
        };
        text.trim().parse().map_err(|_| self.invalid(format!("expected an integer, found {:?}", shorten(text))))
    }

    /// A number, or an array of them, that XGBoost writes as JSON within a string.
    pub(crate) fn floats_text(&self) -> Result<Vec<f32>> {
        let text = self.string()?;
        let bad = || self.invalid(format!("expected a number or an array of numbers, found {:?}", shorten(text)));
        match json::parse(text.as_bytes()) {
            Ok(Value::Number(number)) => Ok(vec![number.float().ok_or_else(bad)?]),
            Ok(value @ Value::Numbers(_)) => At { value: &value, path: self.path }.floats(),
            _ => Err(bad()),
        }
    }

    pub(crate) fn ints(&self) -> Result<Vec<i64>> {
        self.numbers("an integer", |number| number.int())
    }

    pub(crate) fn floats(&self) -> Result<Vec<f32>> {
        self.numbers("a number", |number| number.float())
    }

    pub(crate) fn double(&self) -> Result<f64> {
        match self.value {
            Value::Number(number) => number.double().ok_or_else(|| self.invalid("expected a number")),
            other => Err(self.invalid(format!("expected a number, found {}", other.noun()))),
        }
    }

    pub(crate) fn doubles(&self) -> Result<Vec<f64>> {
        self.numbers("a number", |number| number.double())
    }

    fn numbers<T>(&self, wanted: &str, convert: impl Fn(Number<'_>) -> Option<T>) -> Result<Vec<T>> {
        let bad = |i, found: &str| self.path.index(i).invalid(format!("expected {wanted}, found {}", shorten(found)));
        match self.value {
            Value::Numbers(Numbers::Text(text)) => {
                let element = |(i, text): (usize, &str)| {
                    let text = text.trim_ascii();
                    convert(Number::Text(text)).ok_or_else(|| bad(i, text))
                };
                text.split(',').enumerate().map(element).collect()
            }
            Value::Numbers(Numbers::Packed { kind, bytes }) => {
                let element = |(i, word): (usize, &[u8])| {
                    kind.number(word).and_then(&convert).ok_or_else(|| bad(i, "another type of number"))
                };
                bytes.chunks_exact(kind.width()).enumerate().map(element).collect()
            }
            // Old versions write flags as booleans.
            Value::Array(items) => {
                let element = |(i, item): (usize, &Value<'_>)| match item {
                    Value::Number(number) => convert(*number).ok_or_else(|| bad(i, "another type of number")),
                    Value::Bool(flag) => convert(Number::Int((*flag).into())).ok_or_else(|| bad(i, "a boolean")),
                    other => Err(bad(i, other.noun())),
                };
                items.iter().enumerate().map(element).collect()
            }
            other => Err(self.invalid(format!("expected an array of numbers, found {}", other.noun()))),
        }
    }
}

impl Value<'_> {
    fn noun(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Numbers(_) => "an array of numbers",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        }
    }
}

/// At most 40 characters of text from a file, for a message.
pub(crate) fn shorten(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(40) {
        None => Cow::Borrowed(text),
        Some((end, _)) => Cow::Owned(format!("{}...", &text[..end])),
    }
}
