//! The hstore extension's type as a `dict`: a count, then keys and values with their lengths.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::python::{Done, OrRaise, Value, type_error, type_name, value_error};
use super::reader::Reader;
use super::{Context, patch_length, text};

/// A `dict` of `str` to `str` or None.
pub fn decode<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    let py = cx.py;
    let mut reader = Reader::new(data);
    let count = reader.u32(py)? as usize;
    reader.backed(py, count, 8)?;
    let result = PyDict::new(py);
    for _ in 0..count {
        let Some(key) = reader.field(py)? else {
            return Err(value_error(py, "null value not allowed in hstore key"));
        };
        let key = text::decode(cx, key)?;
        let value = match reader.field(py)? {
            Some(value) => text::decode(cx, value)?,
            None => py.None().into_bound(py),
        };
        result.set_item(key, value).or_raise(py)?;
    }
    reader.end(py)?;
    Ok(result.into_any())
}

/// Appends a mapping, or pairs, of `str` to `str` or None.
pub fn encode(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    let py = cx.py;
    let count = value.len().or_raise(py)?;
    let Ok(count) = i32::try_from(count) else {
        return Err(value_error(py, "hstore value is too large"));
    };
    out.extend_from_slice(&count.to_be_bytes());
    let items =
        if value.hasattr("items").or_raise(py)? { value.call_method0("items").or_raise(py)? } else { value.clone() };
    for pair in items.try_iter().or_raise(py)? {
        let pair = pair.or_raise(py)?;
        let Ok((key, item)) = pair.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>() else {
            let found = type_name(value);
            return Err(type_error(
                py,
                format!("a mapping or pairs of keys and values are expected (got type '{found}')"),
            ));
        };
        if key.is_none() {
            return Err(value_error(py, "null value not allowed in hstore key"));
        }
        for part in [key, item] {
            if part.is_none() {
                out.extend_from_slice(&(-1_i32).to_be_bytes());
                continue;
            }
            let start = out.len();
            out.extend_from_slice(&[0; 4]);
            text::encode(cx, &part, out)?;
            patch_length(py, out, start)?;
        }
    }
    Ok(())
}
