//! Answers on their way in: each message to the request that is being answered, each answer to who waits for it.

use std::sync::atomic::Ordering;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use smallvec::SmallVec;
use wire::backend;
use wire::frame::Fields;

use super::flight::{Flight, Kind, Shape};
use super::statement::{Program, Statement};
use super::{Exclusive, Reading, Session, Writing, brief, errors, outgoing};
use crate::record::form::{self, Form};
use crate::record::tuple::NewTuple;
use crate::record::{NewRecord, record_class};

/// The server is held up when a COPY has brought so much that nobody has taken.
const COPY_MUCH: usize = 512 * 1024;

/// What the loop over messages has to do about one.
enum Next {
    /// Go on.
    More,
    /// The request is answered.
    Settled(u8),
}

impl Session {
    /// Reads what has come.
    pub(crate) fn receive(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        match Self::read_messages(slf) {
            Ok(true) => {
                if brief(&slf.get().cancel_waiters).is_some() {
                    Self::cancel_progress(slf)?;
                }
                Self::pump(slf)
            }
            Ok(false) => Ok(()),
            Err(error) => Self::broken(slf, error)
                .inspect_err(|other| other.clone_ref(py).write_unraisable(py, Some(slf.as_any()))),
        }
    }

    /// Whether any request was answered.
    fn read_messages(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let py = slf.py();
        let this = slf.get();
        let mut guard = this.reading()?;
        let mut settled = false;
        loop {
            let reading = &mut *guard;
            let message = match reading.inbox.message() {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(error) => return Err(errors::protocol(py, &error.to_string())),
            };
            if reading.current.is_none() && !matches!(message.tag, b'A' | b'N' | b'S') {
                reading.current = this.writing()?.flights.pop_front();
            }
            let Reading { inbox, current, login } = reading;
            let body = inbox.body(message);
            if message.tag == b'D'
                && let Some(flight) = current
                && let Some(program) = &flight.program
            {
                if flight.failure.is_none() && flight.kind.expects(b'D') {
                    let program = program.clone();
                    if let Err(error) = row(py, flight, &program, body) {
                        flight.failure = Some(error);
                    }
                }
                continue;
            }
            if message.tag == b'd'
                && let Some(flight) = current
                && flight.kind == Kind::CopyOut
                && !flight.abandoned
            {
                match flight.op.take_if(|_| flight.copying && flight.copied.is_empty()) {
                    Some(op) => {
                        let run = inbox.run(message);
                        let bytes = PyBytes::new_with(py, run.length, |place| {
                            inbox.take_run(run, place);
                            Ok(())
                        })?;
                        op.get().finish(py, Ok(bytes.into_any().unbind()));
                    }
                    None => flight.copied.extend_from_slice(body),
                }
                continue;
            }
            let next = match message.tag {
                b'R' => {
                    let mut out = Vec::new();
                    if body.starts_with(&[0; 4]) {
                        this.auth_received.store(true, Ordering::Relaxed);
                    }
                    if !current.as_ref().is_some_and(|flight| flight.kind == Kind::Startup) {
                        return Err(unexpected(py, message.tag));
                    }
                    match login.answer(body, &mut out) {
                        Ok(()) => {
                            let mut writing = this.writing()?;
                            writing.out.extend_from_slice(&out);
                            Self::flush(slf, &mut writing)?;
                            Next::More
                        }
                        Err(error) => return Err(login_error(py, &error)),
                    }
                }
                b'S' => {
                    let mut fields = Fields::new(b'S', body);
                    let name = fields.cstr("a parameter's name").map_err(|error| broken_message(py, &error))?;
                    let value = fields.cstr("a parameter's value").map_err(|error| broken_message(py, &error))?;
                    this.settings.get().set(py, name, value)?;
                    // At the start the server tells all; later, what has changed.
                    this.note_change(this.is_connected.load(Ordering::Relaxed));
                    Next::More
                }
                b'K' => {
                    let (pid, secret) = backend::backend_key_data(body).map_err(|error| broken_message(py, &error))?;
                    this.pid.store(pid, Ordering::Relaxed);
                    *brief(&this.secret) = secret.to_vec();
                    Next::More
                }
                b'v' => Next::More,
                b'A' => {
                    this.notification(py, body)?;
                    Next::More
                }
                b'N' => {
                    this.notice(py, body, current.as_ref())?;
                    Next::More
                }
                b'E' => {
                    let fields = error_fields(body);
                    match current {
                        Some(flight) if flight.kind == Kind::Startup => {
                            return Err(this.server_error(py, &fields, None));
                        }
                        Some(flight) => {
                            flight.error.get_or_insert(fields);
                            let mut writing = this.writing()?;
                            if flight.kind == Kind::ExecuteMany && writing.many.is_some() {
                                writing.many_failed = true;
                            }
                            Next::More
                        }
                        None => {
                            this.writing()?.last_words = Some(fields);
                            Next::More
                        }
                    }
                }
                b'Z' => Next::Settled(body.first().copied().unwrap_or(b'I')),
                tag => match current {
                    Some(flight) if flight.abandoned => {
                        if tag == b'G' {
                            Self::message(slf, flight, tag, body)?;
                        }
                        Next::More
                    }
                    Some(flight)
                        if flight.kind.expects(tag) || (flight.begins && matches!(tag, b'1' | b'2' | b'C' | b'I')) =>
                    {
                        Self::message(slf, flight, tag, body)?;
                        Next::More
                    }
                    _ => return Err(unexpected(py, tag)),
                },
            };
            if let Next::Settled(status) = next {
                let Some(flight) = current.take() else { return Err(unexpected(py, b'Z')) };
                settled = true;
                Self::settle(slf, flight, status)?;
            }
        }
        if let Some(flight) = guard.current.as_mut().filter(|flight| flight.kind == Kind::CopyOut) {
            this.hand_over(py, flight)?;
        }
        drop(guard);
        if this.writing()?.many_failed {
            Self::write_many(slf)?;
        }
        Ok(settled)
    }

    /// Takes one message of an answer.
    fn message(slf: &Bound<'_, Self>, flight: &mut Flight, tag: u8, body: &[u8]) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        match tag {
            b'2' => flight.tag = None,
            b'C' => {
                let wanted = !matches!(flight.shape, Shape::Rows | Shape::Row | Shape::Value(_));
                if wanted {
                    let tag = backend::command_complete(body).map_err(|error| broken_message(py, &error))?;
                    flight.count += rows_of(tag);
                    flight.tag = Some(tag.into());
                }
            }
            b'I' => flight.tag = None,
            b's' => flight.suspended = true,
            b't' => {
                if let Some(statement) = &flight.statement {
                    statement.get().set_parameters(body).map_err(|error| broken_message(py, &error))?;
                }
            }
            b'T' if flight.kind == Kind::Prepare => {
                if let Some(statement) = &flight.statement {
                    statement.get().set_columns(py, body)?;
                }
            }
            b'G' if flight.kind == Kind::CopyIn && !flight.abandoned => {
                flight.copying = true;
                if let Some(op) = flight.op.take() {
                    op.get().finish(py, Ok(py.None()));
                }
            }
            b'G' => {
                // Nobody has anything to copy.
                let mut writing = this.writing()?;
                outgoing::copy_fail(&mut writing.out, "COPY FROM STDIN needs copy_to_table()");
                if flight.kind == Kind::Execute {
                    outgoing::sync(&mut writing.out);
                }
                Self::flush(slf, &mut writing)?;
            }
            b'W' => return Err(errors::protocol(py, "COPY in both directions is not supported")),
            b'H' if flight.kind == Kind::CopyOut => {
                flight.copying = true;
                if let Some(op) = flight.op.take() {
                    op.get().finish(py, Ok(py.None()));
                }
            }
            _ => (),
        }
        Ok(())
    }

    /// Gives copied bytes to who waits for them; holds up the server when nobody does.
    fn hand_over(&self, py: Python<'_>, flight: &mut Flight) -> PyResult<()> {
        if flight.copying && !flight.copied.is_empty() {
            if let Some(op) = flight.op.take() {
                let bytes = PyBytes::new(py, &flight.copied).into_any().unbind();
                flight.copied.clear();
                op.get().finish(py, Ok(bytes));
            } else if flight.copied.len() > COPY_MUCH && !flight.abandoned {
                self.set_reading(py, false)?;
            }
        }
        Ok(())
    }

    /// A request is answered: who waits for it gets the result.
    fn settle(slf: &Bound<'_, Self>, mut flight: Flight, status: u8) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.status.store(status, Ordering::Relaxed);
        if flight.begins {
            this.beginning.fetch_sub(1, Ordering::Relaxed);
        }
        if flight.kind == Kind::Startup {
            this.writing()?.pending -= 1;
            this.is_connected.store(true, Ordering::Relaxed);
            if let Some(connected) = brief(&this.connected).take() {
                resolve(py, &connected, Ok(py.None()))?;
            }
            return Ok(());
        }
        let next_abandoned = {
            let mut writing = this.writing()?;
            let writing = &mut *writing;
            writing.pending = writing.pending.saturating_sub(1);
            if writing.exclusive == Some(Exclusive::CopyIn) && flight.kind == Kind::CopyIn {
                writing.exclusive = None;
            }
            writing.flights.front().is_some_and(|flight| flight.abandoned)
        };
        if flight.cancelled {
            let over = brief(&this.cancel_waiters).as_ref().map(|(_, over)| over.clone_ref(py));
            if let Some(over) = over {
                resolve(py, &over, Ok(py.None()))?;
            }
        } else if next_abandoned {
            // The server comes to a request that nobody waits for; the next turn of the loop asks to cancel it.
            let call = slf.getattr(intern!(py, "_cancel_if_abandoned"))?;
            this.loop_.call_method1(py, intern!(py, "call_soon"), (call,))?;
        }
        let hit = !flight.abandoned
            && this.cancelling.load(Ordering::Relaxed)
            && !flight.cancelled
            && status == b'I'
            && flight.error.as_ref().is_some_and(|fields| field(fields, b'C') == Some(b"57014"));
        if hit
            && matches!(flight.kind, Kind::Execute | Kind::Prepare)
            && let Some(op) = flight.op.take()
        {
            // A request to cancel another one came too late for that, and hit this.
            op.get().retry(py);
            return Ok(());
        }
        if flight.kind == Kind::Prepare
            && flight.abandoned
            && flight.error.is_none()
            && let Some(statement) = &flight.statement
        {
            this.forget_statement(py, statement)?;
        }
        let outcome = this.outcome(py, &mut flight);
        match flight.op.take() {
            Some(op) if flight.kind == Kind::CopyOut && outcome.is_ok() && !flight.copied.is_empty() => {
                this.writing()?.copy_end = Some(outcome);
                op.get().finish(py, Ok(PyBytes::new(py, &flight.copied).into_any().unbind()));
            }
            Some(op) => op.get().finish(py, outcome),
            None if !flight.abandoned && matches!(flight.kind, Kind::CopyIn | Kind::CopyOut) => {
                let mut writing = this.writing()?;
                writing.copy_rest = (!flight.copied.is_empty()).then(|| std::mem::take(&mut flight.copied));
                writing.copy_end = Some(outcome);
            }
            None => (),
        }
        Ok(())
    }

    /// Has a statement closed that was prepared for somebody who does not wait for it any more.
    pub(crate) fn forget_statement(&self, py: Python<'_>, statement: &Py<Statement>) -> PyResult<()> {
        match self.connection(py) {
            Some(connection) => connection.call_method1(intern!(py, "_maybe_gc_stmt"), (statement,)).map(drop),
            None => Ok(()),
        }
    }

    /// What came of a request.
    fn outcome(&self, py: Python<'_>, flight: &mut Flight) -> PyResult<Py<PyAny>> {
        // Of many argument lists, one that the server refused came before one that could not be written.
        let server_first = flight.kind == Kind::ExecuteMany && flight.error.is_some();
        if let Some(failure) = flight.failure.take_if(|_| !server_first) {
            return Err(failure);
        }
        if let Some(mut fields) = flight.error.take() {
            if flight.prefix > 0
                && let Some((_, position)) = fields.iter_mut().find(|(letter, _)| *letter == b'P')
                && let Some(number) = std::str::from_utf8(position).ok().and_then(|text| text.parse::<usize>().ok())
            {
                *position = number.saturating_sub(flight.prefix).to_string().into_bytes();
            }
            let query = flight
                .query
                .take()
                .or_else(|| flight.statement.as_ref().map(|statement| statement.get().query.clone_ref(py).into_any()));
            return Err(self.server_error(py, &fields, query.as_ref()));
        }
        let rows = |flight: &mut Flight| -> PyResult<Py<PyAny>> {
            Ok(PyList::new(py, std::mem::take(&mut flight.rows))?.into_any().unbind())
        };
        if flight.kind == Kind::Prepare {
            return Ok(flight.statement.take().map_or_else(|| py.None(), |statement| statement.into_any()));
        }
        match &flight.shape {
            Shape::Rows => rows(flight),
            Shape::Row => Ok(flight.rows.drain(..).next().unwrap_or_else(|| py.None())),
            Shape::Columns => match flight.columns.take() {
                Some(columns) => Ok(Py::new(py, columns.finish(py)?)?.into_any()),
                None => Ok(py.None()),
            },
            Shape::Value(_) | Shape::Bytes => Ok(flight.value.take().unwrap_or_else(|| py.None())),
            Shape::Status => {
                let tag = flight.tag.as_deref().unwrap_or_default();
                Ok(self.settings.get().decode_text(py, tag)?.into_any().unbind())
            }
            Shape::Extra => {
                let tag = flight.tag.take().map(|tag| PyBytes::new(py, &tag));
                let rows = rows(flight)?;
                Ok((rows, tag, !flight.suspended).into_pyobject(py)?.into_any().unbind())
            }
            Shape::Nothing if flight.kind == Kind::ExecuteMany => {
                Ok(flight.count.into_pyobject(py)?.into_any().unbind())
            }
            Shape::Nothing => Ok(py.None()),
        }
    }

    /// The exception of an error of the server.
    pub(crate) fn server_error(&self, py: Python<'_>, fields: &[(u8, Vec<u8>)], query: Option<&Py<PyAny>>) -> PyErr {
        match self.fields_dict(py, fields) {
            Ok(dict) => errors::server(py, &dict, query),
            Err(error) => error,
        }
    }

    fn fields_dict<'py>(&self, py: Python<'py>, fields: &[(u8, Vec<u8>)]) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (letter, value) in fields {
            dict.set_item(char::from(*letter).to_string(), self.settings.get().decode_text(py, value)?)?;
        }
        Ok(dict)
    }

    fn notification(&self, py: Python<'_>, body: &[u8]) -> PyResult<()> {
        let mut fields = Fields::new(b'A', body);
        let wrong = |error: wire::Error| broken_message(py, &error);
        let pid = fields.i32("a process id").map_err(wrong)?;
        let settings = self.settings.get();
        let channel = settings.decode_text(py, fields.cstr("a channel").map_err(wrong)?)?;
        let payload = settings.decode_text(py, fields.cstr("a payload").map_err(wrong)?)?;
        if let Some(connection) = self.connection(py) {
            connection.call_method1(intern!(py, "_process_notification"), (pid, channel, payload))?;
        }
        Ok(())
    }

    fn notice(&self, py: Python<'_>, body: &[u8], flight: Option<&Flight>) -> PyResult<()> {
        let Some(connection) = self.connection(py) else { return Ok(()) };
        let query = flight.and_then(|flight| match (&flight.query, &flight.statement) {
            (Some(query), _) => Some(query.clone_ref(py)),
            (None, Some(statement)) => Some(statement.get().query.clone_ref(py).into_any()),
            _ => None,
        });
        let fields = self.fields_dict(py, &error_fields(body))?;
        connection.call_method1(intern!(py, "_process_log_message"), (fields, query)).map(drop)
    }

    /// The server does not keep to the protocol, or the login failed: the session is over.
    pub(crate) fn broken(slf: &Bound<'_, Self>, error: PyErr) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let connected = brief(&this.connected).take();
        if let Some(connected) = connected {
            this.is_closing.store(true, Ordering::Relaxed);
            let transport = this.writing()?.transport.as_ref().map(|transport| transport.clone_ref(py));
            resolve(py, &connected, Err(error))?;
            if let Some(transport) = transport {
                transport.call_method0(py, intern!(py, "close"))?;
            }
            return Ok(());
        }
        this.fail_all(py, &mut |py| error.clone_ref(py).into_value(py).into_any())?;
        slf.call_method0(intern!(py, "abort")).map(drop)
    }

    /// Fails every operation.
    pub(crate) fn fail_all(&self, py: Python<'_>, error: &mut dyn FnMut(Python<'_>) -> Py<PyAny>) -> PyResult<()> {
        let mut flights: Vec<Flight> = self.reading()?.current.take().into_iter().collect();
        let (waiting, draining) = {
            let mut writing = self.writing()?;
            let writing: &mut Writing = &mut writing;
            flights.extend(std::mem::take(&mut writing.flights));
            writing.many = None;
            writing.pending = 0;
            writing.exclusive = None;
            writing.begin = None;
            writing.out.clear();
            if let Some((_, handle)) = writing.timer.take() {
                handle.call_method0(py, intern!(py, "cancel"))?;
            }
            writing.deadlines.clear();
            (std::mem::take(&mut writing.waiting), std::mem::take(&mut writing.draining))
        };
        self.beginning.store(0, Ordering::Relaxed);
        let ops = flights.into_iter().filter_map(|flight| flight.op);
        for op in ops.chain(waiting.into_iter().map(|waiting| waiting.op)).chain(draining) {
            op.get().finish(py, Err(PyErr::from_value(error(py).into_bound(py))));
        }
        let waiters = brief(&self.cancel_waiters).take();
        self.cancelling.store(false, Ordering::Relaxed);
        if let Some((sent, over)) = waiters {
            resolve(py, &sent, Ok(py.None()))?;
            resolve(py, &over, Ok(py.None()))?;
        }
        Ok(())
    }

    /// The transport has lost the connection.
    pub(crate) fn lost(slf: &Bound<'_, Self>, cause: Option<Bound<'_, PyAny>>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.is_connected.store(false, Ordering::Relaxed);
        this.socket.store(-1, Ordering::Relaxed);
        let connected = brief(&this.connected).take();
        if let Some(connected) = connected {
            let last = this.writing()?.last_words.take();
            let error = match (last, &cause) {
                (Some(fields), _) => this.server_error(py, &fields, None),
                (None, Some(cause)) => PyErr::from_value(cause.clone()),
                (None, None) => {
                    errors::new(py, "ConnectionDoesNotExistError", "connection was closed in the middle of operation")
                }
            };
            resolve(py, &connected, Err(error))?;
        }
        let was_closing = this.is_closing.swap(true, Ordering::Relaxed);
        if !was_closing && let Some(connection) = this.connection(py) {
            connection.call_method0(intern!(py, "_cleanup"))?;
        }
        let last = {
            let mut reading = this.reading()?;
            let said = reading.current.as_mut().and_then(|flight| flight.error.take());
            said.or(this.writing()?.last_words.take())
        };
        this.fail_lost(py, last.as_deref(), cause.as_ref())?;
        let closed = brief(&this.closed).take();
        if let Some(closed) = closed {
            resolve(py, &closed, Ok(py.None()))?;
        }
        this.writing()?.transport = None;
        Ok(())
    }

    /// Fails every operation because the connection is gone.
    pub(crate) fn fail_lost(
        &self,
        py: Python<'_>,
        said: Option<&[(u8, Vec<u8>)]>,
        cause: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        self.fail_all(py, &mut |py| {
            let mut message = "connection was closed in the middle of operation".to_owned();
            let mut from = cause.map(|cause| PyErr::from_value(cause.clone()));
            if let Some(fields) = said {
                let error = self.server_error(py, fields, None);
                let text = field(fields, b'M').map(|text| String::from_utf8_lossy(text).into_owned());
                message = format!("{message}: {}", text.unwrap_or_default());
                error.set_cause(py, from.take());
                from = Some(error);
            }
            let error = errors::new(py, "ConnectionDoesNotExistError", &message);
            if from.is_some() {
                error.set_cause(py, from);
            }
            error.into_value(py).into_any()
        })
    }
}

/// Reads one row.
#[inline]
fn row(py: Python<'_>, flight: &mut Flight, program: &Program, body: &[u8]) -> PyResult<()> {
    let columns = program.decoder.codecs().len();
    let (count, values) = body.split_first_chunk::<2>().ok_or_else(|| errors::protocol(py, "a row is too short"))?;
    let count = usize::from(u16::from_be_bytes(*count));
    if count != columns {
        return Err(errors::protocol(
            py,
            &format!(
                "the number of columns in the result row ({count}) is different from what was described ({columns})"
            ),
        ));
    }
    if let Some(columns) = &mut flight.columns {
        return columns.push_row(py, values, &program.settings);
    }
    if let Shape::Bytes = &flight.shape {
        if flight.value.is_none() {
            let value = values
                .split_first_chunk::<4>()
                .and_then(|(length, rest)| rest.get(..usize::try_from(i32::from_be_bytes(*length)).ok()?));
            flight.value = Some(value.map_or_else(|| py.None(), |value| PyBytes::new(py, value).into_any().unbind()));
        }
        return Ok(());
    }
    if let Shape::Value(column) = &flight.shape
        && let Ok(column) = column.extract::<usize>(py)
        && column < count
    {
        if flight.value.is_some() {
            return Ok(());
        }
        let mut fields = Fields0(SmallVec::from_elem(std::ptr::null_mut(), count));
        program.decoder.decode_row(py, values, &mut fields.0, &program.settings)?;
        // SAFETY: the decoder has filled the places with references, or left null for NULL; one is taken out.
        flight.value = fields.0.get_mut(column).and_then(|place| unsafe {
            Bound::from_owned_ptr_or_opt(py, std::mem::replace(place, std::ptr::null_mut())).map(Bound::unbind)
        });
        if flight.value.is_none() {
            flight.value = Some(py.None());
        }
        return Ok(());
    }
    if program.form != Form::Record && !matches!(flight.shape, Shape::Value(_)) {
        return other_row(py, flight, program, values, count);
    }
    // A value by its column's name is looked up in a record.
    let class = if program.form == Form::Record { program.record_class.bind(py) } else { record_class(py)? };
    let mut record = NewRecord::new(py, class, program.descriptor.bind(py), count)?;
    program.decoder.decode_row(py, values, record.fields(), &program.settings)?;
    let record = record.finish(py, program.tracked);
    if let Shape::Value(column) = &flight.shape {
        if flight.value.is_none() {
            flight.value = Some(record.get_item(column)?.unbind());
        }
        return Ok(());
    }
    flight.rows.push(record.unbind());
    Ok(())
}

/// Reads one row that does not become a record.
#[inline(never)]
fn other_row(py: Python<'_>, flight: &mut Flight, program: &Program, values: &[u8], count: usize) -> PyResult<()> {
    let mut tuple = NewTuple::new(py, count)?;
    program.decoder.decode_row(py, values, tuple.fields(), &program.settings)?;
    let (class, descriptor) = (program.record_class.bind(py), program.descriptor.get());
    flight.rows.push(form::finish(program.form, tuple, class, descriptor, program.tracked)?.unbind());
    Ok(())
}

/// The values of one row, given up when they are not taken.
struct Fields0(SmallVec<[*mut pyo3::ffi::PyObject; 16]>);

impl Drop for Fields0 {
    fn drop(&mut self) {
        for place in &self.0 {
            // SAFETY: each place is null or owns a reference; rows are read by attached threads.
            unsafe { pyo3::ffi::Py_XDECREF(*place) }
        }
    }
}

/// How many rows a command's tag tells of; none where it tells of none.
fn rows_of(tag: &[u8]) -> u64 {
    let number = tag.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
    std::str::from_utf8(number).ok().and_then(|number| number.parse().ok()).unwrap_or(0)
}

/// Gives a future its result, unless it is over.
pub(crate) fn resolve(py: Python<'_>, future: &Py<PyAny>, outcome: PyResult<Py<PyAny>>) -> PyResult<()> {
    let future = future.bind(py);
    if future.call_method0(intern!(py, "done"))?.is_truthy()? {
        return Ok(());
    }
    match outcome {
        Ok(value) => future.call_method1(intern!(py, "set_result"), (value,)).map(drop),
        Err(error) => future.call_method1(intern!(py, "set_exception"), (error.into_value(py),)).map(drop),
    }
}

/// The fields of an ErrorResponse or NoticeResponse.
fn error_fields(body: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut fields = Fields::new(b'E', body);
    let mut found = Vec::new();
    while let Ok(letter) = fields.u8("a field's letter") {
        if letter == 0 {
            break;
        }
        let Ok(value) = fields.cstr("a field's value") else { break };
        found.push((letter, value.to_vec()));
    }
    found
}

fn field(fields: &[(u8, Vec<u8>)], letter: u8) -> Option<&[u8]> {
    fields.iter().find(|(other, _)| *other == letter).map(|(_, value)| value.as_slice())
}

#[cold]
fn unexpected(py: Python<'_>, tag: u8) -> PyErr {
    errors::protocol(py, &format!("unexpected message {:?} from the server", char::from(tag)))
}

#[cold]
fn broken_message(py: Python<'_>, error: &wire::Error) -> PyErr {
    errors::protocol(py, &error.to_string())
}

#[cold]
fn login_error(py: Python<'_>, error: &wire::login::Error) -> PyErr {
    errors::interface(py, &super::login::complaint(error))
}
