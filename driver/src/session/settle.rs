//! The end of a request: its outcome, to its operation.

use std::sync::atomic::Ordering;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use wire::backend::tag;
use wire::frame::Fields;
use wire::sqlstate;

use super::in_flight::{Answer, Batch, Execution, InFlight, Total, Verb, Waiter};
use super::{Exclusive, Session, brief, errors};

impl Session {
    /// A request is answered: who waits for it gets the result.
    pub(super) fn settle(slf: &Bound<'_, Self>, mut flight: InFlight, status: u8) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        this.status.store(status, Ordering::Relaxed);
        if flight.begins {
            this.beginning.fetch_sub(1, Ordering::Relaxed);
            if status == b'I' && flight.error.is_some() && flight.verb.prefix() > 0 {
                return Self::fail_block(slf, flight);
            }
        }
        if matches!(flight.verb, Verb::Startup) {
            return this.begun(py);
        }
        let next_abandoned = {
            let mut writing = this.writing()?;
            let writing = &mut *writing;
            writing.pending = writing.pending.saturating_sub(1);
            let ends = match writing.exclusive {
                Some(Exclusive::CopyIn) => matches!(flight.verb, Verb::CopyIn(_)),
                Some(Exclusive::Begin) => flight.verb.prefix() > 0,
                _ => false,
            };
            if ends {
                writing.exclusive = None;
            }
            writing.flights.front().is_some_and(InFlight::is_abandoned)
        };
        if flight.cancelled {
            this.cancelled_is_over(py)?;
        } else if next_abandoned {
            // The server comes to a request that nobody waits for; the next turn of the loop asks to cancel it.
            let call = slf.getattr(intern!(py, "_cancel_if_abandoned"))?;
            this.loop_.call_method1(py, intern!(py, "call_soon"), (call,))?;
        }
        let hit = !flight.is_abandoned()
            && this.cancelling.load(Ordering::Relaxed)
            && !flight.cancelled
            && status == b'I'
            && flight
                .error
                .as_ref()
                .is_some_and(|fields| field(fields, b'C') == Some(sqlstate::QUERY_CANCELED.as_bytes()));
        if hit
            && matches!(flight.verb, Verb::Execute(_) | Verb::Prepare(_))
            && let Some(op) = flight.waiter.take()
        {
            // A request to cancel another one came too late for that, and hit this.
            op.get().retry(py);
            return Ok(());
        }
        if let Verb::Prepare(statement) = &flight.verb
            && flight.is_abandoned()
            && flight.error.is_none()
        {
            this.forget_statement(py, statement)?;
        }
        this.deliver(py, flight)
    }

    /// The session has begun.
    fn begun(&self, py: Python<'_>) -> PyResult<()> {
        self.writing()?.pending -= 1;
        self.is_connected.store(true, Ordering::Relaxed);
        let connected = brief(&self.connected).take();
        match connected {
            Some(connected) => resolve(py, &connected, Ok(py.None())),
            None => Ok(()),
        }
    }

    /// Tells who cancels that the cancelled request is over.
    fn cancelled_is_over(&self, py: Python<'_>) -> PyResult<()> {
        let over = brief(&self.cancel_waiters).as_ref().map(|(_, over)| over.clone_ref(py));
        match over {
            Some(over) => resolve(py, &over, Ok(py.None())),
            None => Ok(()),
        }
    }

    /// Gives an outcome to who waits for it; that of a COPY is kept until somebody asks.
    fn deliver(&self, py: Python<'_>, flight: InFlight) -> PyResult<()> {
        let InFlight { mut verb, waiter, error, .. } = flight;
        if let Waiter::Gone = waiter {
            return Ok(());
        }
        let rest = match &mut verb {
            Verb::CopyOut(_, copied) => copied.take().filter(|rest| !rest.is_empty()),
            _ => None,
        };
        let is_copy = matches!(verb, Verb::CopyOut(..) | Verb::CopyIn(_));
        let outcome = self.outcome(py, verb, error);
        match waiter {
            Waiter::Op(op) => match rest.filter(|_| outcome.is_ok()) {
                Some(rest) => {
                    self.writing()?.copy_end = Some(outcome);
                    op.get().finish(py, Ok(PyBytes::new(py, &rest).into_any().unbind()));
                }
                None => op.get().finish(py, outcome),
            },
            Waiter::Nobody if is_copy => {
                let mut writing = self.writing()?;
                writing.copy_rest = rest;
                writing.copy_end = Some(outcome);
            }
            Waiter::Nobody | Waiter::Gone => (),
        }
        Ok(())
    }

    /// The result of a request.
    fn outcome(&self, py: Python<'_>, mut verb: Verb, error: Option<Vec<(u8, Vec<u8>)>>) -> PyResult<Py<PyAny>> {
        // Of many argument lists, one that the server refused came before one that could not be written.
        let server_first = matches!(verb, Verb::Many(_)) && error.is_some();
        if let Some(failure) = verb.failure().and_then(|failure| failure.take_if(|_| !server_first)) {
            return Err(failure);
        }
        if let Some(mut fields) = error {
            if verb.prefix() > 0
                && let Some((_, position)) = fields.iter_mut().find(|(letter, _)| *letter == b'P')
                && let Some(number) = std::str::from_utf8(position).ok().and_then(|text| text.parse::<usize>().ok())
            {
                *position = number.saturating_sub(verb.prefix()).to_string().into_bytes();
            }
            return Err(self.server_error(py, &fields, verb.query(py).as_ref()));
        }
        match verb {
            Verb::Prepare(statement) => Ok(statement.into_any()),
            Verb::Execute(Execution { answer, .. }) => self.answer(py, answer),
            Verb::Many(Batch { total: Total::Count(count), .. }) => Ok(count.into_pyobject(py)?.into_any().unbind()),
            Verb::Many(Batch { total: Total::Rows(_, rows), .. }) => list(py, rows),
            Verb::Query(text) | Verb::CopyOut(text, _) | Verb::CopyIn(text) => self.status(py, text.tag.as_deref()),
            Verb::Startup | Verb::Close => Ok(py.None()),
        }
    }

    /// The result of an execution.
    fn answer(&self, py: Python<'_>, answer: Answer) -> PyResult<Py<PyAny>> {
        match answer {
            Answer::Rows(rows) => list(py, rows),
            Answer::Row(found) | Answer::Value { value: found, .. } | Answer::Bytes(found) => {
                Ok(found.unwrap_or_else(|| py.None()))
            }
            Answer::Columns(columns) => Ok(Py::new(py, columns.finish(py)?)?.into_any()),
            Answer::Status(tag) => self.status(py, tag.as_deref()),
            Answer::Extra { rows, tag, suspended } => {
                let tag = tag.map(|tag| PyBytes::new(py, &tag));
                Ok((list(py, rows)?, tag, !suspended).into_pyobject(py)?.into_any().unbind())
            }
            Answer::Nothing => Ok(py.None()),
        }
    }

    /// A command's tag as text.
    fn status(&self, py: Python<'_>, tag: Option<&[u8]>) -> PyResult<Py<PyAny>> {
        Ok(self.settings.get().decode_text(py, tag.unwrap_or_default())?.into_any().unbind())
    }

    /// The exception of an error of the server.
    pub(crate) fn server_error(&self, py: Python<'_>, fields: &[(u8, Vec<u8>)], query: Option<&Py<PyAny>>) -> PyErr {
        match self.fields_dict(py, fields) {
            Ok(dict) => errors::server(py, &dict, query),
            Err(error) => error,
        }
    }

    pub(super) fn fields_dict<'py>(&self, py: Python<'py>, fields: &[(u8, Vec<u8>)]) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (letter, value) in fields {
            dict.set_item(char::from(*letter).to_string(), self.settings.get().decode_text(py, value)?)?;
        }
        Ok(dict)
    }
}

fn list(py: Python<'_>, rows: Vec<Py<PyAny>>) -> PyResult<Py<PyAny>> {
    Ok(PyList::new(py, rows)?.into_any().unbind())
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
pub(super) fn error_fields(body: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut fields = Fields::new(tag::ERROR_RESPONSE, body);
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

pub(super) fn field(fields: &[(u8, Vec<u8>)], letter: u8) -> Option<&[u8]> {
    fields.iter().find(|(other, _)| *other == letter).map(|(_, value)| value.as_slice())
}

/// How many rows a command's tag tells of; none where it tells of none.
pub(super) fn rows_of(tag: &[u8]) -> u64 {
    let number = tag.rsplit(|&byte| byte == b' ').next().unwrap_or_default();
    std::str::from_utf8(number).ok().and_then(|number| number.parse().ok()).unwrap_or(0)
}
