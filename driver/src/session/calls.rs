//! The methods for the Python classes that belong to no single verb: the properties and the state of the session.

use std::sync::atomic::Ordering;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyString, PyType};

use super::op::Op;
use super::request::Request;
use super::settings::ConnectionSettings;
use super::{Session, brief};

/// The bytes of a statement's or a portal's name.
pub(super) fn name(text: &Bound<'_, PyString>) -> PyResult<Vec<u8>> {
    Ok(text.to_str()?.as_bytes().to_vec())
}

#[pymethods]
impl Session {
    /// Waits until the transport takes more.
    fn drain<'py>(slf: &Bound<'py, Self>, timeout: Option<Py<PyAny>>) -> PyResult<Bound<'py, Op>> {
        Op::make(slf, Request::Drain, timeout)
    }

    /// Whether the transport holds more than it likes to.
    fn is_writing_paused(&self) -> bool {
        self.paused_writing.load(Ordering::Relaxed)
    }

    fn _flush(slf: &Bound<'_, Self>) -> PyResult<()> {
        let mut writing = slf.get().writing()?;
        writing.flush_due = false;
        Session::flush(slf, &mut writing)
    }

    fn _write_more(slf: &Bound<'_, Self>) -> PyResult<()> {
        Session::write_many(slf)
    }

    fn set_connection(&self, connection: &Bound<'_, PyAny>) -> PyResult<()> {
        let weak = connection.py().import("weakref")?.getattr("ref")?.call1((connection,))?;
        *brief(&self.connection) = Some(weak.unbind());
        Ok(())
    }

    fn get_connection(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.connection(py).map(Bound::unbind)
    }

    fn get_server_pid(&self) -> i32 {
        self.pid.load(Ordering::Relaxed)
    }

    #[getter]
    fn backend_pid(&self) -> i32 {
        self.get_server_pid()
    }

    #[getter]
    fn backend_secret<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        PyBytes::new(py, &brief(&self.secret))
    }

    fn get_settings(&self, py: Python<'_>) -> Py<ConnectionSettings> {
        self.settings.clone_ref(py)
    }

    fn get_record_class(&self, py: Python<'_>) -> Py<PyType> {
        self.record_class.clone_ref(py)
    }

    /// The statements of the connection's own class of records, by their queries.
    #[getter]
    fn _statements(&self, py: Python<'_>) -> Py<PyDict> {
        self.cache.clone_ref(py)
    }

    #[getter]
    fn addr(&self, py: Python<'_>) -> Py<PyAny> {
        self.addr.clone_ref(py)
    }

    #[getter]
    fn transport(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        Ok(self.writing()?.transport.as_ref().map(|transport| transport.clone_ref(py)))
    }

    #[getter]
    fn queries_count(&self) -> u64 {
        self.queries.load(Ordering::Relaxed)
    }

    #[getter]
    fn _auth_received(&self) -> bool {
        self.auth_received.load(Ordering::Relaxed)
    }

    #[getter]
    fn is_ssl(&self) -> bool {
        self.is_ssl.load(Ordering::Relaxed)
    }

    #[setter]
    fn set_is_ssl(&self, value: bool) {
        self.is_ssl.store(value, Ordering::Relaxed);
    }

    pub(super) fn is_closed(&self) -> bool {
        self.is_closing.load(Ordering::Relaxed) || self.is_elsewhere()
    }

    /// Fails when nothing can be asked any more, and says why.
    fn _check_open(&self, py: Python<'_>) -> PyResult<()> {
        self.check_open(py)
    }

    fn is_connected(&self) -> bool {
        !self.is_closed() && self.is_connected.load(Ordering::Relaxed)
    }

    fn is_in_failed_transaction(&self) -> bool {
        self.status.load(Ordering::Relaxed) == b'E'
    }

    /// Whether the session is in a transaction.
    fn is_in_transaction(&self) -> bool {
        self.in_transaction()
    }

    /// Whether any request is not answered.
    fn is_busy(&self) -> PyResult<bool> {
        Ok(self.writing()?.pending > 0)
    }

    /// Whether nothing was sent since the last reset that may have changed the session, and nothing is under way.
    fn is_unchanged(&self) -> PyResult<bool> {
        Ok(!self.changed.load(Ordering::Relaxed)
            && !self.in_transaction()
            && !self.cancelling.load(Ordering::Relaxed)
            && !self.is_closed()
            && self.writing()?.pending == 0)
    }

    /// Whether the server has said unasked that something is wrong: it is about to close the connection.
    pub(super) fn is_dismissed(&self) -> PyResult<bool> {
        Ok(self.writing()?.last_words.is_some())
    }

    /// A reset was sent.
    fn forget_changes(&self) {
        self.changed.store(false, Ordering::Relaxed);
    }

    /// Whether PREPARE was executed since this was asked last.
    fn take_prepared(&self) -> bool {
        self.prepared.swap(false, Ordering::Relaxed)
    }
}
