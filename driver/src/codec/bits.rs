//! `bit` and `varbit`: a count of bits and the bytes that hold them, as `howdah.types.BitString`.

use pyo3::prelude::*;

use super::Context;
use super::python::{self, Done, OrRaise, Value, value_error};
use super::reader::Reader;

/// A `BitString`.
pub fn decode<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    let py = cx.py;
    let mut reader = Reader::new(data);
    let size = reader.i32(py)?;
    let held = python::bytes(py, reader.rest())?;
    cx.imports.bit_string(py)?.call_method1("frombytes", (held, size)).or_raise(py)
}

/// Appends a `BitString`, or bytes, every bit of which counts.
pub fn encode(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    let py = cx.py;
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    let bits = if value.is_instance(cx.imports.bit_string(py)?).or_raise(py)? {
        let held = value.getattr("bytes").or_raise(py)?;
        python::append_buffer(&held, out)?;
        value.len().or_raise(py)?
    } else {
        python::append_buffer(value, out)?.saturating_mul(8)
    };
    match (i32::try_from(bits), out.get_mut(start..start + 4)) {
        (Ok(bits), Some(word)) => {
            word.copy_from_slice(&bits.to_be_bytes());
            Ok(())
        }
        _ => Err(value_error(py, "bit value too long")),
    }
}
