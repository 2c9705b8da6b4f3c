//! How values travel: one codec a PostgreSQL type, looked up by oid, compiled into row decoders and argument encoders.

use std::sync::Arc;

use pyo3::prelude::*;

/// Whether a value travels as text or in its type's binary form; the number is the protocol's format code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i16)]
pub enum Format {
    /// The type's text, in the client's encoding.
    Text = 0,
    /// What the type's `send` function writes.
    Binary = 1,
}

/// What of the session decides how values look.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The client's encoding as the server names it; UTF-8 when empty.
    pub client_encoding: String,
}

/// How the values of one type are read and written.
#[derive(Debug)]
pub struct Codec {
    /// The type's number in `pg_type`.
    pub oid: u32,
}

impl Codec {
    /// The form in which the type's values are asked for and sent.
    pub fn format(&self) -> Format {
        Format::Text
    }

    /// Whether no decoded value can ever be part of a reference cycle.
    pub fn is_atomic(&self) -> bool {
        true
    }

    /// The Python value of one field's bytes; NULL is the caller's affair.
    pub fn decode<'py>(&self, py: Python<'py>, bytes: &[u8], _settings: &Settings) -> PyResult<Bound<'py, PyAny>> {
        let text = String::from_utf8_lossy(bytes);
        Ok(pyo3::types::PyString::new(py, &text).into_any())
    }

    /// Appends the bytes of a value, without its length word; None is the caller's affair.
    pub fn encode(&self, value: &Bound<'_, PyAny>, out: &mut Vec<u8>, _settings: &Settings) -> PyResult<()> {
        out.extend_from_slice(value.str()?.to_cow()?.as_bytes());
        Ok(())
    }
}

/// The types that a connection knows.
#[derive(Debug, Default)]
pub struct Registry {}

impl Registry {
    /// A registry of the built-in types.
    pub fn new() -> Self {
        Self::default()
    }

    /// The codec of a type; `None` when the type must be asked for first.
    pub fn lookup(&self, oid: u32) -> Option<Arc<Codec>> {
        Some(Arc::new(Codec { oid }))
    }
}
