//! The exceptions that a session raises, which are classes of `howdah.exceptions`.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyModule};

static EXCEPTIONS: PyOnceLock<Py<PyModule>> = PyOnceLock::new();

fn exceptions(py: Python<'_>) -> PyResult<&Bound<'_, PyModule>> {
    EXCEPTIONS.get_or_try_init(py, || py.import("howdah.exceptions").map(Bound::unbind)).map(|module| module.bind(py))
}

/// An exception of the named class.
#[cold]
pub fn new(py: Python<'_>, class: &str, message: &str) -> PyErr {
    let made = || PyResult::Ok(PyErr::from_value(exceptions(py)?.getattr(class)?.call1((message,))?));
    made().unwrap_or_else(|error| error)
}

/// An exception with a hint.
#[cold]
pub fn with_hint(py: Python<'_>, class: &str, message: &str, hint: &str) -> PyErr {
    let made = || {
        let keywords = PyDict::new(py);
        keywords.set_item("hint", hint)?;
        PyResult::Ok(PyErr::from_value(exceptions(py)?.getattr(class)?.call((message,), Some(&keywords))?))
    };
    made().unwrap_or_else(|error| error)
}

/// Something that must not happen did: a bug here.
#[cold]
pub fn internal(py: Python<'_>, message: &str) -> PyErr {
    new(py, "InternalClientError", message)
}

/// The server does not keep to the protocol.
#[cold]
pub fn protocol(py: Python<'_>, message: &str) -> PyErr {
    new(py, "ProtocolError", message)
}

/// The operation cannot be done as the session stands.
#[cold]
pub fn interface(py: Python<'_>, message: &str) -> PyErr {
    new(py, "InterfaceError", message)
}

/// The time, in seconds, is up: `asyncio.TimeoutError`.
#[cold]
pub fn timeout(py: Python<'_>, seconds: Option<f64>) -> PyErr {
    // What a statement's preparation has left of them is not worth its digits.
    let rounded = |seconds: f64| {
        let scale = if seconds >= 10.0 { 1.0 } else { 1000.0 };
        (seconds * scale).round() / scale
    };
    let of = seconds.map_or_else(String::new, |seconds| format!(" of {} seconds", rounded(seconds)));
    let message = format!("no answer within the timeout{of}");
    let made = || PyResult::Ok(PyErr::from_value(py.import("asyncio")?.getattr("TimeoutError")?.call1((message,))?));
    made().unwrap_or_else(|error| error)
}

/// Whether an exception is of the named class.
pub fn is(py: Python<'_>, error: &PyErr, class: &str) -> PyResult<bool> {
    error.get_type(py).is_subclass(&exceptions(py)?.getattr(class)?)
}

/// The exception for an error of the server, whose fields are keyed by their letters.
#[cold]
pub fn server(py: Python<'_>, fields: &Bound<'_, PyDict>, query: Option<&Py<PyAny>>) -> PyErr {
    let made = || {
        let keywords = PyDict::new(py);
        keywords.set_item("query", query)?;
        let class = exceptions(py)?.getattr("PostgresError")?;
        PyResult::Ok(PyErr::from_value(class.call_method("new", (fields,), Some(&keywords))?))
    };
    made().unwrap_or_else(|error| error)
}

/// Two threads at once, or a codec that calls back into the session that runs it.
#[cold]
pub fn busy() -> PyErr {
    PyRuntimeError::new_err("howdah: the connection is used by two threads at once, or from within its own decoder")
}
