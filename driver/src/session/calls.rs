//! What the Python classes call.

use std::sync::atomic::Ordering;

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyBytes, PyDict, PyString, PyTuple, PyType};

use super::flight::Shape;
use super::op::{Op, Request};
use super::settings::ConnectionSettings;
use super::statement::Statement;
use super::{Session, brief, errors, outgoing};
use crate::codec::python::append_buffer;
use crate::columns::import::ColumnSource;

static NO_TIMEOUT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The object that stands for "for ever", where None stands for the connection's own timeout.
pub fn no_timeout(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    NO_TIMEOUT
        .get_or_try_init(py, || Ok(py.import("builtins")?.getattr("object")?.call0()?.unbind()))
        .map(|object| object.bind(py))
}

/// The seconds of a timeout.
pub fn check_timeout(timeout: &Bound<'_, PyAny>) -> PyResult<f64> {
    let wrong = || -> PyResult<PyErr> {
        Ok(PyValueError::new_err(format!(
            "invalid timeout value: expected non-negative float (got {})",
            timeout.repr()?
        )))
    };
    if timeout.is_instance_of::<PyBool>() {
        return Err(wrong()?);
    }
    match timeout.extract::<f64>() {
        Ok(seconds) if !seconds.is_nan() => Ok(seconds),
        _ => match timeout.cast::<PyString>().ok().and_then(|text| text.to_str().ok()?.trim().parse().ok()) {
            Some(seconds) => Ok(seconds),
            None => Err(wrong()?),
        },
    }
}

fn name(text: &Bound<'_, PyString>) -> PyResult<Vec<u8>> {
    Ok(text.to_str()?.as_bytes().to_vec())
}

#[pymethods]
impl Session {
    /// A query by its text; `shape` is 0 for rows, 1 for one row, 2 for a value of `column`, 3 for the status.
    #[pyo3(signature = (query, args, timeout, record_class, limit, shape, column=None))]
    #[allow(clippy::too_many_arguments)]
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
    #[allow(clippy::too_many_arguments)]
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

    /// Binds of many argument lists, each executed, all or none.
    #[pyo3(signature = (state, args, portal_name, timeout, return_rows))]
    fn bind_execute_many<'py>(
        slf: &Bound<'py, Self>,
        state: Py<Statement>,
        args: Py<PyAny>,
        portal_name: &Bound<'py, PyString>,
        timeout: Option<Py<PyAny>>,
        return_rows: bool,
    ) -> PyResult<Bound<'py, Op>> {
        let _ = portal_name;
        Op::make(slf, Request::Many { statement: state, args, rows: return_rows }, timeout)
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

    /// Parse and Describe.
    #[pyo3(signature = (stmt_name, query, timeout, *, state=None, ignore_custom_codec=false, record_class))]
    fn prepare<'py>(
        slf: &Bound<'py, Self>,
        stmt_name: Py<PyString>,
        query: Py<PyString>,
        timeout: Option<Py<PyAny>>,
        state: Option<Py<Statement>>,
        ignore_custom_codec: bool,
        record_class: Option<Py<PyType>>,
    ) -> PyResult<Bound<'py, Op>> {
        let py = slf.py();
        let this = slf.get();
        let statement = match state {
            Some(state) => state,
            None => {
                let class = record_class.unwrap_or_else(|| this.record_class.clone_ref(py));
                let settings = this.settings.clone_ref(py);
                Py::new(py, Statement::make(py, stmt_name, query, class, ignore_custom_codec, settings))?
            }
        };
        Op::make(slf, Request::Prepare(statement), timeout)
    }

    /// Commands as text; the status of the last one.
    #[pyo3(signature = (query, timeout))]
    fn query<'py>(slf: &Bound<'py, Self>, query: Py<PyString>, timeout: Option<Py<PyAny>>) -> PyResult<Bound<'py, Op>> {
        Op::make(slf, Request::Simple(query), timeout)
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

    /// Stores a command that begins a transaction: it travels with the next request.
    fn begin(&self, sql: &Bound<'_, PyString>) -> PyResult<()> {
        self.check_open(sql.py())?;
        let mut text = self.settings.get().encode_text(sql)?;
        if !text.trim_ascii_end().ends_with(b";") {
            text.push(b';');
        }
        self.writing()?.begin = Some(text);
        Ok(())
    }

    /// Ends a transaction; nothing travels when its beginning has not.
    #[pyo3(signature = (sql, timeout=None))]
    fn finish<'py>(slf: &Bound<'py, Self>, sql: Py<PyString>, timeout: Option<Py<PyAny>>) -> PyResult<Bound<'py, Op>> {
        Op::make(slf, Request::Finish(sql), timeout)
    }

    /// Sends a stored beginning by itself.
    #[pyo3(signature = (timeout=None))]
    fn begin_now<'py>(slf: &Bound<'py, Self>, timeout: Option<Py<PyAny>>) -> PyResult<Bound<'py, Op>> {
        Op::make(slf, Request::Begin, timeout)
    }

    /// Waits until the connection belongs to the caller's context alone; gives the lease.
    #[pyo3(signature = (task=None))]
    fn lease<'py>(slf: &Bound<'py, Self>, task: Option<Py<PyAny>>) -> PyResult<Bound<'py, Op>> {
        let task = match task {
            Some(task) => task,
            None => super::lease::current_task(slf.py())?,
        };
        let op = Op::make(slf, Request::Lease, Some(no_timeout(slf.py())?.clone().unbind()))?;
        op.get().state().task = Some(task);
        Ok(op)
    }

    /// The lease for the current task, if nothing stands in its way; else None.
    fn lease_now(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.check_open(py)?;
        self.grant_now(py)
    }

    /// Gives a lease back.
    pub(crate) fn unlease(slf: &Bound<'_, Self>, token: &Bound<'_, PyAny>) -> PyResult<()> {
        {
            let mut writing = slf.get().writing()?;
            if let Some(place) = writing.leases.iter().position(|lease| lease.is(token)) {
                // With those inside of it.
                writing.leases.truncate(place);
            }
        }
        Session::pump(slf)
    }

    /// Waits until nothing is being cancelled and nobody else has the connection.
    #[pyo3(signature = (timeout=None))]
    fn turn<'py>(slf: &Bound<'py, Self>, timeout: Option<Py<PyAny>>) -> PyResult<Bound<'py, Op>> {
        Op::make(slf, Request::Nothing, timeout)
    }

    /// Begins COPY ... TO STDOUT.
    fn copy_out_begin<'py>(
        slf: &Bound<'py, Self>,
        query: Py<PyString>,
        timeout: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, Op>> {
        Op::make(slf, Request::CopyOut(query), timeout)
    }

    /// The next bytes of the COPY, or its status as text at the end.
    fn copy_out_read<'py>(slf: &Bound<'py, Self>, timeout: Option<Py<PyAny>>) -> PyResult<Bound<'py, Op>> {
        Op::make(slf, Request::CopyRead, timeout)
    }

    /// Gives the COPY that is read up.
    pub(crate) fn copy_out_abort(slf: &Bound<'_, Self>) -> PyResult<()> {
        let this = slf.get();
        let mut cancel = false;
        {
            let mut reading = this.reading()?;
            if let Some(flight) = reading.current.as_mut().filter(|flight| flight.kind == super::flight::Kind::CopyOut)
            {
                flight.abandon();
                cancel = true;
            }
            let mut writing = this.writing()?;
            writing.copy_end = None;
            writing.copy_rest = None;
        }
        this.set_reading(slf.py(), true)?;
        if cancel { Session::request_cancel(slf) } else { Ok(()) }
    }

    /// Begins COPY ... FROM STDIN.
    fn copy_in_begin<'py>(
        slf: &Bound<'py, Self>,
        query: Py<PyString>,
        timeout: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, Op>> {
        Op::make(slf, Request::CopyIn(query), timeout)
    }

    /// Writes data of the COPY; false when the server has ended it.
    fn copy_in_write(slf: &Bound<'_, Self>, data: &Bound<'_, PyAny>) -> PyResult<bool> {
        if let Ok(bytes) = data.cast::<PyBytes>() {
            return Session::copy_write(slf, bytes.as_bytes());
        }
        let mut bytes = Vec::new();
        append_buffer(data, &mut bytes).map_err(|raised| raised.into_err(slf.py()))?;
        Session::copy_write(slf, &bytes)
    }

    /// Writes rows of a binary COPY until the transport holds much; whether there may be more rows.
    fn copy_in_rows(
        slf: &Bound<'_, Self>,
        statement: &Bound<'_, Statement>,
        rows: &Bound<'_, PyAny>,
    ) -> PyResult<bool> {
        let py = slf.py();
        let program = statement.get().compile(py)?;
        let mut out = Vec::with_capacity(320 * 1024);
        let mut rows = rows.try_iter()?;
        while out.len() < 256 * 1024 {
            match rows.next() {
                Some(row) => {
                    let row = row?;
                    program
                        .copy_row(py, &mut out, &row)
                        .map_err(|(column, error)| statement.get().row_refused(py, error, &row, column))?;
                }
                None => {
                    Session::copy_write(slf, &out)?;
                    return Ok(false);
                }
            }
        }
        Session::copy_write(slf, &out)
    }

    /// Writes rows of a binary COPY from columns; whether there may be more.
    fn copy_in_columns(
        slf: &Bound<'_, Self>,
        statement: &Bound<'_, Statement>,
        source: &Bound<'_, ColumnSource>,
    ) -> PyResult<bool> {
        let fields = statement.get().fields(slf.py(), &[])?;
        let codecs: Vec<_> = fields.into_iter().map(|field| field.codec).collect();
        let mut out = Vec::with_capacity(320 * 1024);
        let more = source.get().write(&codecs, &mut out, 256 * 1024)?;
        Ok(Session::copy_write(slf, &out)? && more)
    }

    /// Fails when a column of the statement has no binary form.
    fn check_binary(&self, statement: &Bound<'_, Statement>) -> PyResult<()> {
        let py = statement.py();
        statement.get().compile(py)?.check_binary(py)
    }

    /// Ends a COPY ... FROM STDIN: well, or for a reason; its status.
    #[pyo3(signature = (reason, timeout))]
    fn copy_in_end<'py>(
        slf: &Bound<'py, Self>,
        reason: Option<String>,
        timeout: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, Op>> {
        Op::make(slf, Request::CopyEnd(reason), timeout)
    }

    /// Gives a COPY ... FROM STDIN up.
    fn copy_in_abort(slf: &Bound<'_, Self>, reason: &str) -> PyResult<()> {
        Session::copy_abort(slf, reason)
    }

    /// The futures of a cancellation that is under way.
    fn _cancellation(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        match &*brief(&self.cancel_waiters) {
            Some((sent, over)) => vec![sent.clone_ref(py), over.clone_ref(py)],
            None => Vec::new(),
        }
    }

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

    fn _on_timer(slf: &Bound<'_, Self>) -> PyResult<()> {
        Session::on_timer(slf)
    }

    fn _cancel_sent(slf: &Bound<'_, Self>, future: &Bound<'_, PyAny>) -> PyResult<()> {
        let py = slf.py();
        if !future.call_method0(intern!(py, "cancelled"))?.is_truthy()? {
            // Only looked at, so that asyncio does not complain of it.
            future.call_method0(intern!(py, "exception"))?;
        }
        Session::cancel_progress(slf)
    }

    fn _cancel_if_abandoned(slf: &Bound<'_, Self>) -> PyResult<()> {
        let this = slf.get();
        let abandoned = {
            let mut reading = this.reading()?;
            let mut writing = this.writing()?;
            reading.current.as_mut().or(writing.flights.front_mut()).is_some_and(|flight| flight.abandoned)
        };
        if abandoned { Session::request_cancel(slf) } else { Ok(()) }
    }

    /// Cancels what the server is doing for this session.
    fn _request_cancel(slf: &Bound<'_, Self>) -> PyResult<()> {
        Session::request_cancel(slf)
    }

    fn _is_cancelling(&self) -> bool {
        self.cancelling.load(Ordering::Relaxed)
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

    fn is_closed(&self) -> bool {
        self.is_closing.load(Ordering::Relaxed) || self.is_elsewhere()
    }

    /// Fails when nothing can be asked any more, and says why.
    fn _check_open(&self, py: Python<'_>) -> PyResult<()> {
        self.check_open(py)
    }

    fn is_connected(&self) -> bool {
        !self.is_closed() && self.is_connected.load(Ordering::Relaxed)
    }

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
    fn is_dismissed(&self) -> PyResult<bool> {
        Ok(self.writing()?.last_words.is_some())
    }

    /// A reset was sent.
    fn forget_changes(&self) {
        self.changed.store(false, Ordering::Relaxed);
    }

    /// The seconds of a timeout that was given, or of the connection's own; None for ever.
    fn _get_timeout(&self, py: Python<'_>, timeout: Option<Py<PyAny>>) -> PyResult<Option<f64>> {
        self.seconds(py, timeout.as_ref())
    }

    /// Drops the connection at once.
    fn abort(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let closing = this.is_closing.swap(true, Ordering::Relaxed);
        if this.is_elsewhere() {
            // The socket, and what watches it, are the other process's too: nothing is said, nothing taken away.
            this.socket.store(-1, Ordering::Relaxed);
            return Ok(());
        }
        let transport = {
            let mut writing = this.writing()?;
            if !closing {
                outgoing::terminate(&mut writing.out);
                Session::flush(slf, &mut writing)?;
            }
            writing.transport.take()
        };
        this.socket.store(-1, Ordering::Relaxed);
        this.fail_lost(py, None, None)?;
        if let Some(transport) = transport {
            transport.call_method0(py, intern!(py, "abort"))?;
        }
        Ok(())
    }

    /// Begins a polite end: the future is done when the server has closed the connection.
    fn _terminate<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        let py = slf.py();
        let this = slf.get();
        let future = this.new_future(py)?;
        *brief(&this.closed) = Some(future.clone().unbind());
        let mut writing = this.writing()?;
        outgoing::terminate(&mut writing.out);
        Session::flush(slf, &mut writing)?;
        Ok(future)
    }

    /// No operation may begin from now on.
    fn _set_closing(&self) {
        self.is_closing.store(true, Ordering::Relaxed);
    }
}
