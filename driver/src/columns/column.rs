//! One column's buffers, and how a type's bytes get into them.

use std::collections::HashMap;

use pyo3::exceptions::PyOverflowError;
use pyo3::prelude::*;
use pyo3::types::PyString;

use super::Field;
use super::bits::{Bits, Validity};
use super::decimal;
use crate::codec::python::{self, Done, OrRaise, Raised, exception, protocol_error};
use crate::codec::reader::{Reader, fixed};
use crate::codec::{Body, Codec, Context, Format, Scalar, text};

/// PostgreSQL counts from 2000, Arrow from 1970.
pub(super) const DAYS: i32 = 10_957;
pub(super) const MICROSECONDS: i64 = 946_684_800_000_000;
/// `pg_lsn`, whose number nobody knows it by.
const LSN: u32 = 3220;
/// The microseconds of a day.
const DAY: i64 = 86_400_000_000;
/// The most digits of Arrow's 128-bit decimals.
const DIGITS: i32 = 38;

/// A column.
#[derive(Debug)]
pub struct Column {
    pub(super) name: String,
    pub(super) validity: Validity,
    pub(super) values: Values,
    len: usize,
    /// Whether a date or a timestamp of it is infinite.
    is_infinite: bool,
}

/// Texts or byte strings, one after the other; each ends where the next begins.
#[derive(Debug)]
pub struct Strings {
    pub(super) offsets: Vec<i32>,
    pub(super) data: Vec<u8>,
}

/// How text comes out of a value.
#[derive(Clone, Copy, Debug)]
pub enum Form {
    /// As it is.
    Plain,
    /// Behind a byte that says which version of jsonb or jsonpath it is.
    Versioned,
}

/// The values of a column; where one is NULL, something stands in its place that has no meaning: NaN in floats and
/// the least number in timestamps, which NumPy reads as NaN and NaT.
#[derive(Debug)]
pub enum Values {
    Bool(Bits),
    Int2(Vec<i16>),
    Int4(Vec<i32>),
    Int8(Vec<i64>),
    Uint4(Vec<u32>),
    Uint8(Vec<u64>),
    Float4(Vec<f32>),
    Float8(Vec<f64>),
    /// Days since 1970.
    Date(Vec<i32>),
    /// Microseconds since midnight.
    Time(Vec<i64>),
    /// Microseconds since 1970; infinities are the ends of the range.
    Timestamp(Vec<i64>),
    Timestamptz(Vec<i64>),
    /// Microseconds, a month being 30 days and a year 365, as in the timedeltas that `fetch` gives.
    Interval(Vec<i64>),
    Decimal {
        values: Vec<i128>,
        precision: u8,
        scale: u8,
    },
    Uuid(Vec<[u8; 16]>),
    Text {
        strings: Strings,
        form: Form,
    },
    Bytes(Strings),
    Dictionary {
        places: Vec<i32>,
        known: HashMap<Box<[u8]>, i32>,
        words: Strings,
        form: Form,
    },
    List {
        offsets: Vec<i32>,
        element: Box<Column>,
    },
    Struct {
        oids: Vec<u32>,
        fields: Vec<Column>,
    },
}

impl Strings {
    fn new() -> Self {
        Strings { offsets: vec![0], data: Vec::new() }
    }

    /// Ends the string that was appended to `data`.
    #[inline]
    fn end(&mut self, py: Python<'_>) -> Done {
        match i32::try_from(self.data.len()) {
            Ok(end) => {
                self.offsets.push(end);
                Ok(())
            }
            Err(_) => Err(too_long(py)),
        }
    }

    /// The string at a place.
    pub fn get(&self, place: usize) -> &[u8] {
        match (self.offsets.get(place), self.offsets.get(place + 1)) {
            (Some(&start), Some(&end)) => self.data.get(start as usize..end as usize).unwrap_or_default(),
            _ => &[],
        }
    }

    /// Makes sure that each string is UTF-8: the whole is, and no character lies across an end.
    fn check_utf8(&self, py: Python<'_>) -> Done {
        let whole = std::str::from_utf8(&self.data);
        let fine = whole.is_ok_and(|whole| self.offsets.iter().all(|end| whole.is_char_boundary(*end as usize)));
        if fine { Ok(()) } else { Err(protocol_error(py, "text of the server is not UTF-8")) }
    }
}

#[cold]
fn too_long(py: Python<'_>) -> Raised {
    python::overflow_error(py, "a column holds at most 2 GB of text in one batch")
}

impl Column {
    /// An empty column, and the format in which its values must come.
    pub(super) fn new(field: &Field) -> (Self, Format) {
        let (values, format) = match Values::of(&field.codec, field.modifier) {
            Some(values) => (values, Format::Binary),
            None => (Values::Text { strings: Strings::new(), form: Form::Plain }, Format::Text),
        };
        let values = match values {
            Values::Text { strings: words, form } if field.dictionary => {
                Values::Dictionary { places: Vec::new(), known: HashMap::new(), words, form }
            }
            values => values,
        };
        (Column { name: field.name.clone(), validity: Validity::default(), values, len: 0, is_infinite: false }, format)
    }

    fn part(name: &str, codec: &Codec) -> Option<Self> {
        let values = Values::of(codec, -1)?;
        Some(Column { name: name.to_owned(), validity: Validity::default(), values, len: 0, is_infinite: false })
    }

    /// The column's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many values and NULLs it has.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Takes one value.
    #[inline]
    pub(super) fn push(&mut self, cx: &Context<'_, '_>, data: &[u8]) -> Done {
        let py = cx.py;
        match &mut self.values {
            Values::Int4(values) => values.push(i32::from_be_bytes(fixed(py, data)?)),
            Values::Int8(values) => values.push(i64::from_be_bytes(fixed(py, data)?)),
            Values::Float8(values) => values.push(f64::from_be_bytes(fixed(py, data)?)),
            Values::Text { strings, form: Form::Plain } if cx.utf8 => {
                strings.data.extend_from_slice(data);
                strings.end(py)?;
            }
            Values::Timestamp(values) | Values::Timestamptz(values) => {
                let micros = i64::from_be_bytes(fixed(py, data)?);
                // Infinities are the ends of both ranges.
                self.is_infinite |= matches!(micros, i64::MIN | i64::MAX);
                values.push(if micros == i64::MIN { micros } else { micros.saturating_add(MICROSECONDS) });
            }
            Values::Date(values) => {
                let day = i32::from_be_bytes(fixed(py, data)?);
                self.is_infinite |= matches!(day, i32::MIN | i32::MAX);
                values.push(if day == i32::MIN { day } else { day.saturating_add(DAYS) });
            }
            Values::Bool(values) => {
                let [byte] = fixed(py, data)?;
                values.push(byte == 1);
            }
            Values::Float4(values) => values.push(f32::from_be_bytes(fixed(py, data)?)),
            Values::Int2(values) => values.push(i16::from_be_bytes(fixed(py, data)?)),
            values => values.push_rare(cx, data)?,
        }
        self.validity.push();
        self.len += 1;
        Ok(())
    }

    /// Refuses dates and timestamps that are infinite, which Arrow and NumPy do not know: they would be the year 294247.
    pub(super) fn check_finite(&self) -> PyResult<()> {
        if self.is_infinite {
            let message = format!(
                "column \"{}\" has an infinite date or timestamp, which Arrow and NumPy do not know: cast it to text, or leave \
                 it out with nullif or isfinite",
                self.name
            );
            return Err(PyOverflowError::new_err(message));
        }
        match &self.values {
            Values::List { element, .. } => element.check_finite(),
            Values::Struct { fields, .. } => fields.iter().try_for_each(|field| field.check_finite()),
            _ => Ok(()),
        }
    }

    /// Takes a NULL.
    pub(super) fn push_null(&mut self) {
        self.validity.push_null(self.len);
        self.len += 1;
        self.values.push_null();
    }

    /// Makes sure of what Arrow's readers rely on.
    pub(super) fn check(&mut self, py: Python<'_>) -> Done {
        match &mut self.values {
            Values::Text { strings, .. } | Values::Dictionary { words: strings, .. } => strings.check_utf8(py),
            Values::List { element, .. } => element.check(py),
            Values::Struct { fields, .. } => fields.iter_mut().try_for_each(|field| field.check(py)),
            _ => Ok(()),
        }
    }
}

impl Values {
    /// The buffers for a type's binary form, if Arrow has one for it.
    fn of(codec: &Codec, modifier: i32) -> Option<Self> {
        let text = |form| Values::Text { strings: Strings::new(), form };
        if codec.format != Format::Binary {
            return None;
        }
        let scalar = match &codec.body {
            Body::Array { element, .. } => {
                return Some(Values::List { offsets: vec![0], element: Box::new(Column::part("item", element)?) });
            }
            Body::Composite(composite) => {
                let parts = composite.names.iter().zip(&composite.codecs);
                let fields = parts.map(|(name, codec)| Column::part(name, codec)).collect::<Option<_>>()?;
                return Some(Values::Struct { oids: composite.oids.clone(), fields });
            }
            Body::Scalar(scalar) => *scalar,
            _ => return None,
        };
        Some(match scalar {
            Scalar::Bool => Values::Bool(Bits::default()),
            Scalar::Int2 => Values::Int2(Vec::new()),
            Scalar::Int4 => Values::Int4(Vec::new()),
            Scalar::Int8 if codec.oid != LSN => Values::Int8(Vec::new()),
            Scalar::Uint4 => Values::Uint4(Vec::new()),
            Scalar::Uint8 => Values::Uint8(Vec::new()),
            Scalar::Float4 => Values::Float4(Vec::new()),
            Scalar::Float8 => Values::Float8(Vec::new()),
            Scalar::Text | Scalar::TextOut => text(Form::Plain),
            Scalar::Jsonb | Scalar::Jsonpath => text(Form::Versioned),
            Scalar::Bytea | Scalar::ByteaOut => Values::Bytes(Strings::new()),
            Scalar::Numeric => {
                let (precision, scale) = precision(modifier)?;
                Values::Decimal { values: Vec::new(), precision, scale }
            }
            Scalar::Uuid => Values::Uuid(Vec::new()),
            Scalar::Date => Values::Date(Vec::new()),
            Scalar::Time => Values::Time(Vec::new()),
            Scalar::Timestamp => Values::Timestamp(Vec::new()),
            Scalar::Timestamptz => Values::Timestamptz(Vec::new()),
            Scalar::Interval => Values::Interval(Vec::new()),
            _ => return None,
        })
    }

    fn push_rare(&mut self, cx: &Context<'_, '_>, data: &[u8]) -> Done {
        let py = cx.py;
        match self {
            Values::Uint4(values) => values.push(u32::from_be_bytes(fixed(py, data)?)),
            Values::Uint8(values) => values.push(u64::from_be_bytes(fixed(py, data)?)),
            Values::Time(values) => values.push(i64::from_be_bytes(fixed(py, data)?)),
            Values::Uuid(values) => values.push(fixed(py, data)?),
            Values::Interval(values) => {
                let mut reader = Reader::new(data);
                let (micros, days, months) = (reader.i64(py)?, reader.i32(py)?, reader.i32(py)?);
                reader.end(py)?;
                let days = i64::from(days) + i64::from(months / 12) * 365 + i64::from(months % 12) * 30;
                match days.checked_mul(DAY).and_then(|days| days.checked_add(micros)) {
                    Some(all) => values.push(all),
                    None => return Err(python::overflow_error(py, "interval is too long: cast the column to text")),
                }
            }
            Values::Decimal { values, precision, scale } => {
                values.push(decimal::scaled(data, *precision, *scale).map_err(|error| bad_number(py, error))?);
            }
            Values::Text { strings, form } => {
                form.append(cx, data, &mut strings.data)?;
                strings.end(py)?;
            }
            Values::Bytes(strings) => {
                strings.data.extend_from_slice(data);
                strings.end(py)?;
            }
            Values::Dictionary { places, known, words, form } => {
                let plain = matches!(form, Form::Plain) && cx.utf8;
                let mut word = Vec::new();
                if !plain {
                    form.append(cx, data, &mut word)?;
                }
                let word = if plain { data } else { &word };
                let place = match known.get(word) {
                    Some(place) => *place,
                    None => {
                        let Ok(place) = i32::try_from(known.len()) else { return Err(too_long(py)) };
                        words.data.extend_from_slice(word);
                        words.end(py)?;
                        known.insert(word.into(), place);
                        place
                    }
                };
                places.push(place);
            }
            Values::List { offsets, element } => push_list(cx, data, offsets, element)?,
            Values::Struct { oids, fields } => push_struct(cx, data, oids, fields)?,
            // The hot ones are all in `Column::push`.
            _ => return Err(python::internal_error(py, "a column without a way to fill it")),
        }
        Ok(())
    }

    fn push_null(&mut self) {
        match self {
            Values::Bool(values) => values.push(false),
            Values::Int2(values) => values.push(0),
            Values::Int4(values) => values.push(0),
            Values::Int8(values) | Values::Time(values) => values.push(0),
            Values::Uint4(values) => values.push(0),
            Values::Uint8(values) => values.push(0),
            Values::Float4(values) => values.push(f32::NAN),
            Values::Float8(values) => values.push(f64::NAN),
            Values::Date(values) => values.push(i32::MIN),
            Values::Timestamp(values) | Values::Timestamptz(values) | Values::Interval(values) => values.push(i64::MIN),
            Values::Decimal { values, .. } => values.push(0),
            Values::Uuid(values) => values.push([0; 16]),
            Values::Text { strings, .. } | Values::Bytes(strings) => repeat_last(&mut strings.offsets),
            Values::Dictionary { places, .. } => places.push(0),
            Values::List { offsets, .. } => repeat_last(offsets),
            Values::Struct { fields, .. } => fields.iter_mut().for_each(Column::push_null),
        }
    }
}

fn repeat_last(offsets: &mut Vec<i32>) {
    let last = offsets.last().copied().unwrap_or(0);
    offsets.push(last);
}

/// Precision and scale of a column declared with them, when Arrow's decimals have room.
fn precision(modifier: i32) -> Option<(u8, u8)> {
    let modifier = modifier.checked_sub(4).filter(|modifier| *modifier >= 0)?;
    let precision = modifier >> 16 & 0xffff;
    // Eleven bits, signed since PostgreSQL 15.
    let scale = ((modifier & 0x7ff) ^ 1024) - 1024;
    // A negative scale stands for zeros before the point.
    let (precision, scale) = if scale < 0 { (precision - scale, 0) } else { (precision.max(scale), scale) };
    (1..=DIGITS).contains(&precision).then_some((precision as u8, scale as u8))
}

impl Form {
    fn append(&self, cx: &Context<'_, '_>, data: &[u8], out: &mut Vec<u8>) -> Done {
        let py = cx.py;
        let value = match self {
            Form::Plain if cx.utf8 => {
                out.extend_from_slice(data);
                return Ok(());
            }
            Form::Versioned if cx.utf8 => {
                let mut reader = Reader::new(data);
                if reader.u8(py)? != 1 {
                    return Err(protocol_error(py, "unexpected version of a JSON value"));
                }
                out.extend_from_slice(reader.rest());
                return Ok(());
            }
            Form::Plain => text::decode(cx, data)?,
            Form::Versioned => text::decode_versioned(cx, "JSON", data)?,
        };
        let value = value.cast::<PyString>().map_err(PyErr::from).or_raise(py)?;
        out.extend_from_slice(python::as_utf8(py, value)?);
        Ok(())
    }
}

fn push_list(cx: &Context<'_, '_>, data: &[u8], offsets: &mut Vec<i32>, element: &mut Column) -> Done {
    let py = cx.py;
    let mut reader = Reader::new(data);
    let dimensions = reader.i32(py)?;
    reader.array::<8>(py)?;
    match dimensions {
        0 => {}
        1 => {
            let size = usize::try_from(reader.i32(py)?);
            let Ok(size) = size else { return Err(protocol_error(py, "unexpected array dimension size")) };
            reader.i32(py)?;
            reader.backed(py, size, 4)?;
            for _ in 0..size {
                match reader.field(py)? {
                    Some(data) => element.push(cx, data)?,
                    None => element.push_null(),
                }
            }
        }
        _ => {
            let message = "arrays of more than one dimension have no form in columns: unnest them";
            return Err(Raised::from_err(py, exception(py, "UnsupportedClientFeatureError", message)));
        }
    }
    reader.end(py)?;
    let Ok(end) = i32::try_from(element.len) else { return Err(too_long(py)) };
    offsets.push(end);
    Ok(())
}

fn push_struct(cx: &Context<'_, '_>, data: &[u8], oids: &[u32], fields: &mut [Column]) -> Done {
    let py = cx.py;
    let mut reader = Reader::new(data);
    if reader.u32(py)? as usize != fields.len() {
        return Err(protocol_error(py, "unexpected number of attributes of a composite value"));
    }
    for (field, oid) in fields.iter_mut().zip(oids) {
        if reader.u32(py)? != *oid {
            return Err(protocol_error(py, "unexpected type of an attribute of a composite value"));
        }
        match reader.field(py)? {
            Some(data) => field.push(cx, data)?,
            None => field.push_null(),
        }
    }
    reader.end(py)
}

#[cold]
fn bad_number(py: Python<'_>, error: decimal::Error) -> Raised {
    match error {
        decimal::Error::Malformed => protocol_error(py, error.to_string()),
        _ => python::value_error(py, error.to_string()),
    }
}
