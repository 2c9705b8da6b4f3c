//! What a session knows of its server: the parameters it reports, and the types.

use std::sync::{Arc, Mutex};

use pyo3::exceptions::PyAttributeError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};

use crate::codec::{Codec, Registry, Settings};

/// The parameters that the server has reported, as attributes; and the types that the session knows.
#[pyclass(frozen, subclass, module = "howdah.protocol")]
pub struct ConnectionSettings {
    values: Py<PyDict>,
    /// The parameters as they were at the session's beginning.
    first: Py<PyDict>,
    registry: Mutex<Registry>,
    /// Python's name of the client's encoding; `None` for UTF-8.
    encoding: Mutex<Option<String>>,
}

#[pymethods]
impl ConnectionSettings {
    fn __getattr__<'py>(&self, name: &Bound<'py, PyString>) -> PyResult<Bound<'py, PyAny>> {
        self.values.bind(name.py()).get_item(name)?.ok_or_else(|| PyAttributeError::new_err(name.clone().unbind()))
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
            first: PyDict::new(py).unbind(),
            registry: Mutex::new(Registry::new()),
            encoding: Mutex::new(None),
        }
    }

    /// Takes a parameter's report; whether it is now another than at the session's beginning.
    pub fn set(&self, py: Python<'_>, name: &[u8], value: &[u8], beginning: bool) -> PyResult<bool> {
        let name = self.decode_text(py, name)?;
        let value = self.decode_text(py, value)?;
        if name.to_str()? == "client_encoding" {
            let python: String = py.import("howdah.protocol")?.call_method1("python_encoding", (&value,))?.extract()?;
            let mut encoding = self.encoding.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            *encoding = (python != "utf-8").then_some(python);
        }
        if beginning {
            self.first.bind(py).set_item(&name, &value)?;
        }
        let differs = match self.first.bind(py).get_item(&name)? {
            Some(first) => !first.eq(&value)?,
            None => true,
        };
        self.values.bind(py).set_item(name, value)?;
        Ok(differs)
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
        match self.encoding() {
            None => Ok(text.to_str()?.as_bytes().to_vec()),
            Some(encoding) => text.call_method1("encode", (encoding,))?.extract(),
        }
    }

    /// Whether values of a type can be turned.
    pub fn knows(&self, _py: Python<'_>, oid: u32) -> bool {
        self.lock().lookup(oid).is_some()
    }

    /// The codec of a type.
    pub fn codec(&self, _py: Python<'_>, oid: u32, _builtin: bool) -> Option<Arc<Codec>> {
        self.lock().lookup(oid)
    }

    /// What codecs need to know of the session.
    pub fn for_codecs(&self) -> Settings {
        Settings::default()
    }

    /// A `howdah.types.Type`.
    pub fn describe_type<'py>(&self, py: Python<'py>, oid: u32) -> PyResult<Bound<'py, PyAny>> {
        py.import("howdah.types")?.getattr("Type")?.call1((oid, "text", "scalar", "pg_catalog"))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Registry> {
        self.registry.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}
