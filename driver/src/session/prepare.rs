//! Prepare: Parse and Describe of a statement, and Close of statements and portals.

use pyo3::prelude::*;
use pyo3::types::{PyString, PyType};
use wire::backend::tag;

use super::calls::name;
use super::in_flight::{InFlight, Verb};
use super::op::{Op, Started};
use super::receive::broken_message;
use super::request::Request;
use super::statement::Statement;
use super::{Session, errors, outgoing};
use pyo3::intern;

#[pymethods]
impl Session {
    /// Parse and Describe.
    ///
    /// `types` are those that the program declares, 0 for one that the server infers, which makes it a statement for
    /// values that fit no type but their own; None is none.
    #[pyo3(signature = (stmt_name, query, timeout, *, state=None, ignore_custom_codec=false, record_class, types=None))]
    #[expect(clippy::too_many_arguments, reason = "asyncpg's method, argument by argument")]
    fn prepare<'py>(
        slf: &Bound<'py, Self>,
        stmt_name: Py<PyString>,
        query: Py<PyString>,
        timeout: Option<Py<PyAny>>,
        state: Option<Py<Statement>>,
        ignore_custom_codec: bool,
        record_class: Option<Py<PyType>>,
        types: Option<Vec<u32>>,
    ) -> PyResult<Bound<'py, Op>> {
        let py = slf.py();
        let this = slf.get();
        let statement = match state {
            Some(state) => state,
            None => {
                let class = record_class.unwrap_or_else(|| this.record_class.clone_ref(py));
                let settings = this.settings.clone_ref(py);
                let made = Statement::make(py, stmt_name, query, class, ignore_custom_codec, settings);
                Py::new(py, made.declaring(types))?
            }
        };
        Op::make(slf, Request::Prepare(statement), timeout)
    }

    /// Closes a statement on the server.
    fn close_statement<'py>(
        slf: &Bound<'py, Self>,
        state: Py<Statement>,
        timeout: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, Op>> {
        if state.get().in_use() {
            return Err(errors::internal(slf.py(), "cannot close prepared statement; it is in use"));
        }
        state.get().close();
        Op::make(slf, Request::CloseStatement(state), timeout)
    }

    /// Closes a portal on the server.
    fn close_portal<'py>(
        slf: &Bound<'py, Self>,
        portal_name: &Bound<'py, PyString>,
        timeout: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, Op>> {
        Op::make(slf, Request::ClosePortal(name(portal_name)?), timeout)
    }
}

impl Session {
    /// Writes Parse and Describe.
    pub(super) fn send_prepare(
        slf: &Bound<'_, Self>,
        op: &Bound<'_, Op>,
        statement: &Py<Statement>,
    ) -> PyResult<Started> {
        let py = slf.py();
        let flight = InFlight::new(Verb::Prepare(statement.clone_ref(py)), op);
        let query = slf.get().settings.get().encode_text(statement.get().query.bind(py))?;
        let name = statement.get().name.bind(py).to_str()?.as_bytes();
        Self::push(slf, flight, |out| {
            outgoing::parse_as(out, name, &query, statement.get().declared());
            outgoing::describe_statement(out, name);
            outgoing::sync(out);
            Ok(())
        })
    }

    /// Writes Close of a statement.
    pub(super) fn send_close_statement(
        slf: &Bound<'_, Self>,
        op: &Bound<'_, Op>,
        statement: &Py<Statement>,
    ) -> PyResult<Started> {
        let name = statement.get().name.bind(slf.py()).to_str()?.as_bytes();
        Self::push(slf, InFlight::new(Verb::Close, op), |out| {
            outgoing::close_statement(out, name);
            outgoing::sync(out);
            Ok(())
        })
    }

    /// Writes Close of a portal.
    pub(super) fn send_close_portal(slf: &Bound<'_, Self>, op: &Bound<'_, Op>, portal: &[u8]) -> PyResult<Started> {
        Self::push(slf, InFlight::new(Verb::Close, op), |out| {
            outgoing::close_portal(out, portal);
            outgoing::sync(out);
            Ok(())
        })
    }

    /// Takes a message about a statement that is being prepared.
    pub(super) fn described(py: Python<'_>, statement: &Statement, tag: u8, body: &[u8]) -> PyResult<()> {
        match tag {
            tag::PARAMETER_DESCRIPTION => statement.set_parameters(body).map_err(|error| broken_message(py, &error)),
            tag::ROW_DESCRIPTION => statement.set_columns(py, body),
            _ => Ok(()),
        }
    }

    /// Has a statement closed that was prepared for somebody who does not wait for it any more.
    pub(crate) fn forget_statement(&self, py: Python<'_>, statement: &Py<Statement>) -> PyResult<()> {
        match self.connection(py) {
            Some(connection) => connection.call_method1(intern!(py, "_maybe_gc_stmt"), (statement,)).map(drop),
            None => Ok(()),
        }
    }
}
