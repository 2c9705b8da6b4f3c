//! A session's knowledge of its server: the parameters that it reports, and the types.

use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::codec::object::kind_of;
use crate::codec::registry::Named;
use crate::codec::{Codec, Registry, Settings};

/// The parameters that the server has reported, as attributes; and the types that the session knows.
#[pyclass(frozen, subclass, module = "howdah.protocol")]
pub struct ConnectionSettings {
    values: Py<PyDict>,
    registry: Registry,
    /// Counts uses of statements, so that the one not used longest is known.
    pub clock: AtomicU64,
    /// Python's name of the client's encoding; `None` for UTF-8.
    encoding: Mutex<Option<String>>,
}

#[pymethods]
impl ConnectionSettings {
    fn __getattr__<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        self.values.bind(name.py()).get_item(name)?.ok_or_else(|| PyAttributeError::new_err(name.clone().unbind()))
    }

    /// The parameters that the server has reported.
    fn as_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        self.values.bind(py).copy()
    }

    /// Takes types that the server was asked for.
    fn register_data_types(&self, py: Python<'_>, types: &Bound<'_, PyAny>) -> PyResult<()> {
        self.registry.register(py, types)
    }

    #[expect(clippy::too_many_arguments, reason = "asyncpg's method, argument by argument")]
    fn add_python_codec(
        &self,
        py: Python<'_>,
        typeoid: u32,
        typename: &str,
        typeschema: &str,
        typeinfos: &Bound<'_, PyAny>,
        typekind: &str,
        encoder: Py<PyAny>,
        decoder: Py<PyAny>,
        format: &Bound<'_, PyAny>,
    ) -> PyResult<()> {
        let named = Named { oid: typeoid, name: typename, schema: typeschema, kind: kind_of(typekind) };
        self.registry.set_custom(py, named, Some(typeinfos), encoder, decoder, &format.str()?.to_string_lossy())
    }

    fn remove_python_codec(&self, typeoid: u32, _typename: &str, _typeschema: &str) {
        self.registry.remove_custom(typeoid);
    }

    #[expect(clippy::too_many_arguments, reason = "asyncpg's method, argument by argument")]
    fn set_builtin_type_codec(
        &self,
        py: Python<'_>,
        typeoid: u32,
        typename: &str,
        typeschema: &str,
        typekind: &str,
        alias_to: &Bound<'_, PyAny>,
        format: Option<&str>,
    ) -> PyResult<()> {
        let named = Named { oid: typeoid, name: typename, schema: typeschema, kind: kind_of(typekind) };
        self.registry.set_builtin_alias(py, named, alias_to, format)
    }

    /// Has the values of results stay PostgreSQL's text.
    fn keep_texts(&self) {
        self.registry.keep_texts();
    }

    /// Has values cut off to what their type holds of them, as asyncpg does.
    fn set_truncates(&self, truncates: bool) {
        self.registry.set_truncates(truncates);
    }

    fn clear_type_cache(&self) {
        self.registry.clear();
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("<ConnectionSettings {}>", self.values.bind(py).repr()?))
    }
}

impl ConnectionSettings {
    /// Of a session that has not begun.
    pub fn new(py: Python<'_>) -> Self {
        Self {
            values: PyDict::new(py).unbind(),
            registry: Registry::new(),
            clock: AtomicU64::new(1),
            encoding: Mutex::new(None),
        }
    }

    /// Takes a parameter's report.
    pub fn set(&self, py: Python<'_>, name: &[u8], value: &[u8]) -> PyResult<()> {
        let name = self.decode_text(py, name)?;
        let value = self.decode_text(py, value)?;
        if name.to_str()? == "client_encoding" {
            let python: String = py.import("howdah.protocol")?.call_method1("python_encoding", (&value,))?.extract()?;
            let mut encoding = self.encoding.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            self.registry.set_encoding(&python);
            *encoding = (python != "utf-8").then_some(python);
        }
        if name.to_str()? == "TimeZone" {
            let zone = py.import("howdah.protocol")?.call_method1("session_zone", (&value,))?;
            self.registry.set_zone((!zone.is_none()).then(|| zone.unbind()));
        }
        self.values.bind(py).set_item(name, value)
    }

    /// Python's name of the client's encoding; `None` for UTF-8.
    pub fn encoding(&self) -> Option<String> {
        self.encoding.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).clone()
    }

    /// Text from the server.
    pub fn decode_text<'py>(&self, py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyString>> {
        match (self.encoding(), std::str::from_utf8(bytes)) {
            (None, Ok(text)) => Ok(PyString::new(py, text)),
            (encoding, _) => {
                let encoding = encoding.unwrap_or_else(|| "utf-8".into());
                let bytes = pyo3::types::PyBytes::new(py, bytes);
                // What the server says of itself must never make its message unreadable.
                Ok(bytes.call_method1("decode", (encoding, "replace"))?.cast_into()?)
            }
        }
    }

    /// Text for the server.
    pub fn encode_text(&self, text: &Bound<'_, PyString>) -> PyResult<Vec<u8>> {
        let bytes: Vec<u8> = match self.encoding() {
            None => text.to_str()?.as_bytes().to_vec(),
            Some(encoding) => text.call_method1("encode", (encoding,))?.extract()?,
        };
        // In a message it would be the text's end, and what follows another field.
        match bytes.iter().position(|&byte| byte == 0) {
            None => Ok(bytes),
            Some(place) => {
                let message = format!("the query has a null character at byte {place}, which SQL cannot hold");
                Err(super::errors::interface(text.py(), &message))
            }
        }
    }

    /// Whether values of a type can be turned.
    pub fn knows(&self, oid: u32, builtin: bool) -> bool {
        self.codec(oid, builtin).is_some()
    }

    /// Whether the values of results stay PostgreSQL's text.
    pub fn keeps_texts(&self) -> bool {
        self.registry.keeps_texts()
    }

    /// The codec of a type; `builtin` to leave out those of the program.
    pub fn codec(&self, oid: u32, builtin: bool) -> Option<Arc<Codec>> {
        if builtin { self.registry.lookup_builtin(oid) } else { self.registry.lookup(oid) }
    }

    /// What codecs need to know of the session.
    pub fn for_codecs(&self) -> Settings {
        self.registry.clone()
    }

    /// A `howdah.types.Type`.
    pub fn describe_type<'py>(&self, py: Python<'py>, oid: u32) -> PyResult<Bound<'py, PyAny>> {
        let codec = self.registry.lookup(oid);
        let (name, kind, schema) = match &codec {
            Some(codec) => (codec.name(), codec.kind().name(), codec.schema()),
            None => ("unknown", "scalar", "pg_catalog"),
        };
        py.import("howdah.types")?.getattr("Type")?.call1((oid, name, kind, schema))
    }
}
