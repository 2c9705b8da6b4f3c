//! Ranges and multiranges: a byte of flags and up to two bounds, as `howdah.types.Range` and lists of them.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::python::{
    self, Done, Filling, OrRaise, Value, overflow_error, protocol_error, type_error, type_name, value_error,
};
use super::reader::Reader;
use super::{Codec, Context, patch_length};

const EMPTY: u8 = 0x01;
const LOWER_INCLUSIVE: u8 = 0x02;
const UPPER_INCLUSIVE: u8 = 0x04;
const LOWER_INFINITE: u8 = 0x08;
const UPPER_INFINITE: u8 = 0x10;

fn has_lower(flags: u8) -> bool {
    flags & (EMPTY | LOWER_INFINITE) == 0
}

fn has_upper(flags: u8) -> bool {
    flags & (EMPTY | UPPER_INFINITE) == 0
}

/// A `Range`.
pub fn decode<'py>(cx: &Context<'_, 'py>, element: &Codec, data: &[u8]) -> Value<'py> {
    let py = cx.py;
    let mut reader = Reader::new(data);
    let flags = reader.u8(py)?;
    let mut bound = |there: bool| -> Value<'py> {
        match there.then(|| reader.field(py)).transpose()?.flatten() {
            Some(data) => element.decode_value(cx, data),
            None => Ok(py.None().into_bound(py)),
        }
    };
    let lower = bound(has_lower(flags))?;
    let upper = bound(has_upper(flags))?;
    reader.end(py)?;
    let keywords = PyDict::new(py);
    let filled = keywords
        .set_item("lower_inc", flags & LOWER_INCLUSIVE != 0)
        .and_then(|()| keywords.set_item("upper_inc", flags & UPPER_INCLUSIVE != 0))
        .and_then(|()| keywords.set_item("empty", flags & EMPTY != 0));
    filled.or_raise(py)?;
    cx.imports.range(py)?.call((lower, upper), Some(&keywords)).or_raise(py)
}

/// A list of `Range`.
pub fn decode_multi<'py>(cx: &Context<'_, 'py>, element: &Codec, data: &[u8]) -> Value<'py> {
    let py = cx.py;
    let mut reader = Reader::new(data);
    let count = reader.i32(py)?;
    let Ok(count) = usize::try_from(count) else {
        return Err(protocol_error(py, format!("unexpected multirange size value: {count}")));
    };
    reader.backed(py, count, 4)?;
    let mut list = Filling::list(py, count)?;
    for _ in 0..count {
        let Some(data) = reader.field(py)? else {
            return Err(protocol_error(py, "unexpected NULL element in multirange value"));
        };
        list.push(decode(cx, element, data)?);
    }
    reader.end(py)?;
    Ok(list.finish())
}

/// Appends a `Range`, or a list or tuple of no, one or two bounds, both inclusive.
pub fn encode(cx: &Context<'_, '_>, element: &Arc<Codec>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    let py = cx.py;
    let none = || py.None().into_bound(py);
    let (mut lower, mut upper) = (none(), none());
    let mut flags = 0;
    if value.is_instance_of::<PyTuple>() || value.is_instance_of::<PyList>() {
        match value.len().or_raise(py)? {
            2 => {
                lower = value.get_item(0).or_raise(py)?;
                upper = value.get_item(1).or_raise(py)?;
                flags |= LOWER_INCLUSIVE | UPPER_INCLUSIVE;
                if lower.is_none() {
                    flags |= LOWER_INFINITE;
                }
                if upper.is_none() {
                    flags |= UPPER_INFINITE;
                }
            }
            1 => {
                lower = value.get_item(0).or_raise(py)?;
                flags |= LOWER_INCLUSIVE | UPPER_INFINITE;
            }
            0 => flags |= EMPTY,
            found => return Err(value_error(py, format!("expected 0, 1 or 2 elements in range (got {found})"))),
        }
    } else if value.is_instance(cx.imports.range(py)?).or_raise(py)? {
        let is = |name: &str| value.getattr(name).and_then(|answer| answer.is_truthy()).or_raise(py);
        if is("isempty")? {
            flags |= EMPTY;
        } else {
            lower = value.getattr("lower").or_raise(py)?;
            upper = value.getattr("upper").or_raise(py)?;
            if is("lower_inc")? {
                flags |= LOWER_INCLUSIVE;
            } else if lower.is_none() {
                flags |= LOWER_INFINITE;
            }
            if is("upper_inc")? {
                flags |= UPPER_INCLUSIVE;
            } else if upper.is_none() {
                flags |= UPPER_INFINITE;
            }
        }
    } else {
        let class = python::repr_of(value.get_type().as_any());
        return Err(type_error(py, format!("list, tuple or Range object expected (got type {class})")));
    }
    out.push(flags);
    for (there, bound) in [(has_lower(flags), lower), (has_upper(flags), upper)] {
        if there {
            // A bound of None is the element type's affair to refuse; PostgreSQL has no NULL in ranges.
            let start = out.len();
            out.extend_from_slice(&[0; 4]);
            element.encode_value(cx, &bound, out)?;
            patch_length(py, out, start)?;
        }
    }
    Ok(())
}

/// Appends a sequence of what [`encode`] takes.
pub fn encode_multi(cx: &Context<'_, '_>, element: &Arc<Codec>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    let py = cx.py;
    if !value.is_instance(cx.imports.abc_sequence.bind(py)).or_raise(py)? {
        return Err(type_error(py, format!("expected a sequence (got type '{}')", type_name(value))));
    }
    let count_at = out.len();
    out.extend_from_slice(&[0; 4]);
    let mut count = 0_i32;
    for item in value.try_iter().or_raise(py)? {
        let item = item.or_raise(py)?;
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        encode(cx, element, &item, out)?;
        patch_length(py, out, start)?;
        count = match count.checked_add(1) {
            Some(count) => count,
            None => return Err(overflow_error(py, "too many elements in multirange value")),
        };
    }
    if let Some(word) = out.get_mut(count_at..count_at + 4) {
        word.copy_from_slice(&count.to_be_bytes());
    }
    Ok(())
}
