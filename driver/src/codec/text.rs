//! Text in the client's encoding, bytes, and the JSON types, whose binary form is text behind a version.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use super::Context;
use super::python::{self, Done, OrRaise, Value, type_error, type_name, value_error};
use super::reader::Reader;

/// The longest value the protocol's length word can announce.
const LONGEST: usize = i32::MAX as usize;

/// Text of the server.
#[inline]
pub fn decode<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    if cx.utf8 { python::utf8(cx.py, data) } else { decode_encoded(cx, data) }
}

#[cold]
fn decode_encoded<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    let py = cx.py;
    let name = cx.registry.encoding();
    PyBytes::new(py, data).call_method1("decode", (name,)).or_raise(py)
}

/// Appends a `str`; anything else is an error, as PostgreSQL's types are strict and so is asyncpg.
#[inline]
pub fn encode(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    let py = cx.py;
    let Ok(text) = value.cast::<PyString>() else {
        return Err(type_error(py, format!("expected str, got {}", type_name(value))));
    };
    if cx.utf8 {
        let data = python::as_utf8(py, text)?;
        if data.len() > LONGEST {
            return Err(value_error(py, "string too long"));
        }
        out.extend_from_slice(data);
        return Ok(());
    }
    let encoded = text.call_method1("encode", (cx.registry.encoding(),)).or_raise(py)?;
    python::append_buffer(&encoded, out).map(|_| ())
}

/// Appends anything with the buffer protocol.
pub fn encode_bytes(_py: Python<'_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    python::append_buffer(value, out).map(|_| ())
}

/// The binary forms of jsonb and jsonpath: a version byte, which is 1, and the text.
pub fn decode_versioned<'py>(cx: &Context<'_, 'py>, name: &str, data: &[u8]) -> Value<'py> {
    let mut reader = Reader::new(data);
    let version = reader.u8(cx.py)?;
    if version != 1 {
        return Err(value_error(cx.py, format!("unexpected {name} format: {version}")));
    }
    decode(cx, reader.rest())
}

/// Appends text behind the version byte.
pub fn encode_versioned(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    out.push(1);
    encode(cx, value, out)
}
