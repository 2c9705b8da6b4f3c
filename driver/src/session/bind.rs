//! Bind and Execute: a statement's arguments out, its rows in.

use std::sync::atomic::Ordering;

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple, PyType};

use super::calls::name;
use super::in_flight::{Answer, Execution, InFlight, Shape, Verb};
use super::op::{Op, Started};
use super::request::Request;
use super::statement::Statement;
use super::{Session, errors, outgoing};
use crate::columns::ColumnsBuilder;

#[pymethods]
impl Session {
    /// A query by its text; `shape` is 0 for rows, 1 for one row, 2 for a value of `column`, 3 for the status.
    #[pyo3(signature = (query, args, timeout, record_class, limit, shape, column=None))]
    #[expect(clippy::too_many_arguments, reason = "Python gives them one by one")]
    fn fetch<'py>(
        slf: &Bound<'py, Self>,
        query: Py<PyString>,
        args: Py<PyTuple>,
        timeout: Option<Py<PyAny>>,
        record_class: Option<Py<PyType>>,
        limit: u32,
        shape: u8,
        column: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, Op>> {
        let shape = Shape::of_code(shape, column);
        Op::make(slf, Request::Fetch { query, args, record_class, limit, shape }, timeout)
    }

    /// Bind and Execute of a statement.
    #[pyo3(signature = (statement, args, portal, limit, shape, timeout, column=None))]
    #[expect(clippy::too_many_arguments, reason = "Python gives them one by one")]
    fn bind_run<'py>(
        slf: &Bound<'py, Self>,
        statement: Py<Statement>,
        args: Py<PyAny>,
        portal: &Bound<'py, PyString>,
        limit: u32,
        shape: u8,
        timeout: Option<Py<PyAny>>,
        column: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, Op>> {
        let shape = Shape::of_code(shape, column);
        let portal = name(portal)?;
        Op::make(slf, Request::Bind { statement, args, portal, limit, shape, execute: true }, timeout)
    }

    /// Bind and Execute of a statement, for its result as columns.
    #[pyo3(signature = (statement, args, dictionary, timeout))]
    fn columns<'py>(
        slf: &Bound<'py, Self>,
        statement: Py<Statement>,
        args: Py<PyAny>,
        dictionary: Vec<String>,
        timeout: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, Op>> {
        Op::make(slf, Request::Columns { statement, args, dictionary }, timeout)
    }

    /// Bind and Execute of a statement, in asyncpg's form.
    #[pyo3(signature = (state, args, portal_name, limit, return_extra, timeout))]
    fn bind_execute<'py>(
        slf: &Bound<'py, Self>,
        state: Py<Statement>,
        args: Py<PyAny>,
        portal_name: &Bound<'py, PyString>,
        limit: u32,
        return_extra: bool,
        timeout: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, Op>> {
        let shape = if return_extra { Shape::Extra } else { Shape::Rows };
        let portal = name(portal_name)?;
        Op::make(slf, Request::Bind { statement: state, args, portal, limit, shape, execute: true }, timeout)
    }

    /// Binds a portal without executing it.
    #[pyo3(signature = (state, args, portal_name, timeout))]
    fn bind<'py>(
        slf: &Bound<'py, Self>,
        state: Py<Statement>,
        args: Py<PyAny>,
        portal_name: &Bound<'py, PyString>,
        timeout: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, Op>> {
        let portal = name(portal_name)?;
        let request = Request::Bind { statement: state, args, portal, limit: 0, shape: Shape::Nothing, execute: false };
        Op::make(slf, request, timeout)
    }

    /// Executes a bound portal: rows, the command's tag, and whether there are no more rows.
    #[pyo3(signature = (state, portal_name, limit, return_extra, timeout))]
    fn execute<'py>(
        slf: &Bound<'py, Self>,
        state: Py<Statement>,
        portal_name: &Bound<'py, PyString>,
        limit: u32,
        return_extra: bool,
        timeout: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, Op>> {
        let _ = return_extra;
        Op::make(slf, Request::Execute { statement: state, portal: name(portal_name)?, limit }, timeout)
    }
}

impl Session {
    /// Sends a query whose statement is known; else a coroutine of the connection's prepares it first.
    pub(super) fn send_fetch(slf: &Bound<'_, Self>, op: &Bound<'_, Op>, request: &Request) -> PyResult<Started> {
        let py = slf.py();
        let this = slf.get();
        let Request::Fetch { query, args, record_class, limit, shape } = request else {
            return Err(errors::internal(py, "not a query"));
        };
        if record_class.is_none()
            && let Some(statement) = this.cached(py, query)?
        {
            statement.get().used.store(this.settings.get().clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
            let shape = shape.clone_ref(py);
            return Self::send_bind(slf, op, &statement, args.bind(py).as_any(), b"", *limit, shape, true);
        }
        let timeout = op.get().seconds_left();
        let (code, column) = shape.code(py);
        this.need_connection(py)?
            .call_method1(intern!(py, "_fetch_unprepared"), (query, args, *limit, code, column, record_class, timeout))
            .map(|coroutine| Started::Inner(coroutine.unbind()))
    }

    /// Writes Execute of a bound portal.
    pub(super) fn send_execute(
        slf: &Bound<'_, Self>,
        op: &Bound<'_, Op>,
        statement: &Py<Statement>,
        portal: &[u8],
        limit: u32,
    ) -> PyResult<Started> {
        let py = slf.py();
        let plan = statement.get().compile(py)?;
        let answer = Answer::to(Shape::Extra);
        let execution = Execution { statement: statement.clone_ref(py), plan, answer, failure: None };
        Self::push(slf, InFlight::new(Verb::Execute(execution), op), |out| {
            outgoing::execute(out, portal, limit);
            outgoing::sync(out);
            Ok(())
        })
    }

    /// The statement that was prepared for a query's text.
    #[inline]
    pub(super) fn cached<'py>(&self, py: Python<'py>, query: &Py<PyString>) -> PyResult<Option<Bound<'py, Statement>>> {
        // SAFETY: a dict and a string, both alive; what is found is borrowed, and kept at once.
        let found = unsafe {
            let found = ffi::PyDict_GetItemWithError(self.cache.as_ptr(), query.as_ptr());
            Bound::from_borrowed_ptr_or_opt(py, found)
        };
        match found {
            Some(found) => Ok(found.cast_into::<Statement>().ok().filter(|statement| !statement.get().closed())),
            None => match PyErr::take(py) {
                Some(error) => Err(error),
                None => Ok(None),
            },
        }
    }

    #[expect(clippy::too_many_arguments, reason = "Python gives them one by one")]
    pub(super) fn send_bind(
        slf: &Bound<'_, Self>,
        op: &Bound<'_, Op>,
        statement: &Bound<'_, Statement>,
        args: &Bound<'_, PyAny>,
        portal: &[u8],
        limit: u32,
        shape: Shape,
        execute: bool,
    ) -> PyResult<Started> {
        let py = slf.py();
        let this = slf.get();
        let state = statement.get();
        let plan = state.compile(py)?;
        let execution = Execution {
            statement: statement.clone().unbind(),
            plan: plan.clone(),
            answer: Answer::to(shape),
            failure: None,
        };
        this.note_change(state.changes_session);
        Self::push(slf, InFlight::new(Verb::Execute(execution), op), |out| {
            let name = state.name.bind(py).to_str()?.as_bytes();
            if !state.prepared() {
                let query = this.settings.get().encode_text(state.query.bind(py))?;
                outgoing::parse_as(out, name, &query, state.declared());
            }
            plan.bind(py, out, portal, name, args, None)?;
            if execute {
                outgoing::execute(out, portal, limit);
            }
            outgoing::sync(out);
            Ok(())
        })
    }

    pub(super) fn send_columns(
        slf: &Bound<'_, Self>,
        op: &Bound<'_, Op>,
        statement: &Bound<'_, Statement>,
        args: &Bound<'_, PyAny>,
        dictionary: &[String],
    ) -> PyResult<Started> {
        let py = slf.py();
        let this = slf.get();
        let state = statement.get();
        let plan = state.compile(py)?;
        let builder = ColumnsBuilder::new(state.fields(py, dictionary)?);
        let formats = builder.formats();
        let answer = Answer::Columns(Box::new(builder));
        let execution = Execution { statement: statement.clone().unbind(), plan: plan.clone(), answer, failure: None };
        this.note_change(state.changes_session);
        Self::push(slf, InFlight::new(Verb::Execute(execution), op), |out| {
            let name = state.name.bind(py).to_str()?.as_bytes();
            if !state.prepared() {
                let query = this.settings.get().encode_text(state.query.bind(py))?;
                outgoing::parse_as(out, name, &query, state.declared());
            }
            plan.bind_for(py, out, b"", name, args, None, &formats)?;
            outgoing::execute(out, b"", 0);
            outgoing::sync(out);
            Ok(())
        })
    }

    /// A second try of a query whose statement has become invalid: a coroutine that does it, if there is one.
    pub(crate) fn recover(slf: &Bound<'_, Self>, op: &Op, error: &PyErr) -> PyResult<Option<Py<PyAny>>> {
        let py = slf.py();
        let state = op.state();
        let Request::Fetch { query, args, record_class, limit, shape } = &state.request else { return Ok(None) };
        if !errors::is(py, error, "InvalidCachedStatementError")? && !errors::is(py, error, "OutdatedSchemaCacheError")?
        {
            return Ok(None);
        }
        let Some(connection) = slf.get().connection(py) else { return Ok(None) };
        let (code, column) = shape.code(py);
        let (query, args, record_class) =
            (query.clone_ref(py), args.clone_ref(py), record_class.as_ref().map(|class| class.clone_ref(py)));
        let limit = *limit;
        drop(state);
        let timeout = op.seconds_left();
        connection
            .call_method1(
                intern!(py, "_fetch_again"),
                (error.value(py), query, args, limit, code, column, record_class, timeout),
            )
            .map(|coroutine| Some(coroutine.unbind()))
    }
}
