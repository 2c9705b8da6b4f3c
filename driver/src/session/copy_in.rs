//! COPY ... FROM STDIN: data out until its end, while the session is the writer's alone.

use std::sync::atomic::Ordering;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use super::in_flight::{InFlight, Verb, Waiter};
use super::lease::current_task;
use super::op::{Op, Started};
use super::request::Request;
use super::statement::Statement;
use super::{Exclusive, Session, errors, outgoing};
use crate::codec::python::append_buffer;
use crate::columns::import::ColumnSource;

#[pymethods]
impl Session {
    /// Begins COPY ... FROM STDIN.
    fn copy_in_begin<'py>(
        slf: &Bound<'py, Self>,
        query: Py<PyString>,
        timeout: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, Op>> {
        Op::make(slf, Request::CopyIn(query, current_task(slf.py())?), timeout)
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
        let plan = statement.get().compile(py)?;
        let mut out = Vec::with_capacity(320 * 1024);
        let mut rows = rows.try_iter()?;
        while out.len() < 256 * 1024 {
            match rows.next() {
                Some(row) => {
                    let row = row?;
                    let number = slf.get().copied.fetch_add(1, Ordering::Relaxed);
                    plan.copy_row(py, &mut out, &row, number).map_err(|(column, error)| match column {
                        Some(column) => statement.get().row_refused(py, error, &row, column),
                        None => error,
                    })?;
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
}

impl Session {
    /// Begins a COPY ... FROM STDIN, from now on the only one to write.
    pub(super) fn send_copy_in(
        slf: &Bound<'_, Self>,
        op: &Bound<'_, Op>,
        query: &Py<PyString>,
        task: &Py<PyAny>,
    ) -> PyResult<Started> {
        let started = Self::send_query(slf, op, query, Verb::CopyIn)?;
        let mut writing = slf.get().writing()?;
        writing.exclusive = Some(Exclusive::CopyIn);
        let before = writing.copier.replace(task.clone_ref(slf.py()));
        drop(writing);
        // What goes may run code of the program's.
        drop(before);
        slf.get().copied.store(0, Ordering::Relaxed);
        Ok(started)
    }

    /// The server is ready for data, which only a COPY ... FROM STDIN has.
    pub(super) fn copy_in_ready(slf: &Bound<'_, Self>, flight: &mut InFlight) -> PyResult<()> {
        let py = slf.py();
        if matches!(flight.verb, Verb::CopyIn(_)) && !flight.is_abandoned() {
            if let Some(op) = flight.waiter.take() {
                op.get().finish(py, Ok(py.None()));
            }
            return Ok(());
        }
        let mut writing = slf.get().writing()?;
        outgoing::copy_fail(&mut writing.out, "COPY FROM STDIN needs copy_to_table()");
        if matches!(flight.verb, Verb::Execute(_)) {
            outgoing::sync(&mut writing.out);
        }
        Self::flush(slf, &mut writing)
    }

    pub(super) fn copy_end(slf: &Bound<'_, Self>, op: &Bound<'_, Op>, reason: Option<&str>) -> PyResult<Started> {
        let py = slf.py();
        let this = slf.get();
        let mut reading = this.reading()?;
        let mut writing = this.writing()?;
        if writing.exclusive == Some(Exclusive::CopyIn) {
            writing.exclusive = None;
        }
        if let Some(end) = writing.copy_end.take() {
            drop(writing);
            drop(reading);
            Self::pump(slf)?;
            return end.map(Started::Done);
        }
        match reason {
            None => outgoing::copy_done(&mut writing.out),
            Some(reason) => outgoing::copy_fail(&mut writing.out, reason),
        }
        Self::flush(slf, &mut writing)?;
        let writing = &mut *writing;
        let copying = |flight: &&mut InFlight| matches!(flight.verb, Verb::CopyIn(_));
        match reading.current.as_mut().filter(copying).or(writing.flights.iter_mut().find(copying)) {
            Some(flight) => flight.waiter = Waiter::Op(op.clone().unbind()),
            None => return Err(errors::interface(py, "no COPY operation is in progress")),
        }
        Ok(Started::Waits)
    }

    /// Gives a COPY ... FROM STDIN up: nobody waits for its end.
    pub(crate) fn copy_abort(slf: &Bound<'_, Self>, reason: &str) -> PyResult<()> {
        let this = slf.get();
        if this.is_closing.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut under_way = false;
        {
            let mut reading = this.reading()?;
            let mut writing = this.writing()?;
            if writing.exclusive == Some(Exclusive::CopyIn) {
                writing.exclusive = None;
            }
            if writing.copy_end.take().is_none() {
                outgoing::copy_fail(&mut writing.out, reason);
                Self::flush(slf, &mut writing)?;
                let copying = |flight: &&mut InFlight| matches!(flight.verb, Verb::CopyIn(_));
                let writing = &mut *writing;
                if let Some(flight) =
                    reading.current.as_mut().filter(copying).or(writing.flights.iter_mut().find(copying))
                {
                    flight.abandon();
                    under_way = true;
                }
            }
        }
        // It may be waiting for a lock, and not read what it is sent.
        if under_way { Self::request_cancel(slf) } else { Self::pump(slf) }
    }

    /// Writes data of a COPY; false when the server has ended it already.
    pub(crate) fn copy_write(slf: &Bound<'_, Self>, data: &[u8]) -> PyResult<bool> {
        let this = slf.get();
        let mut writing = this.writing()?;
        if writing.copy_end.is_some() {
            return Ok(false);
        }
        this.check_open(slf.py())?;
        if writing.exclusive != Some(Exclusive::CopyIn) {
            return Ok(false);
        }
        // Well below the limit of a message.
        for piece in data.chunks(64 * 1024 * 1024) {
            outgoing::copy_data(&mut writing.out, piece);
        }
        Self::flush(slf, &mut writing)?;
        Ok(true)
    }
}
