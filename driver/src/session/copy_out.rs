//! COPY ... TO STDOUT: data in, at the pace of its reader.

use std::sync::atomic::Ordering;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use super::flight::{Flight, Kind};
use super::inbox::{Inbox, Message};
use super::op::{Op, Started};
use super::request::Request;
use super::{Session, errors};

/// The server is held up when a COPY has brought so much that nobody has taken.
const COPY_MUCH: usize = 512 * 1024;

#[pymethods]
impl Session {
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
}

impl Session {
    pub(super) fn copy_read(slf: &Bound<'_, Self>, op: &Bound<'_, Op>) -> PyResult<Started> {
        let py = slf.py();
        let this = slf.get();
        let mut reading = this.reading()?;
        let copied = match reading.current.as_mut().filter(|flight| flight.kind == Kind::CopyOut) {
            Some(flight) if !flight.copied.is_empty() => {
                let bytes = PyBytes::new(py, &flight.copied);
                flight.copied.clear();
                Some(bytes)
            }
            Some(flight) => {
                flight.op = Some(op.clone().unbind());
                None
            }
            None => {
                drop(reading);
                let mut writing = this.writing()?;
                if let Some(rest) = writing.copy_rest.take() {
                    return Ok(Started::Done(PyBytes::new(py, &rest).into_any().unbind()));
                }
                return match writing.copy_end.take() {
                    Some(end) => end.map(Started::Done),
                    None => match writing.flights.iter_mut().find(|flight| flight.kind == Kind::CopyOut) {
                        Some(flight) => {
                            flight.op = Some(op.clone().unbind());
                            Ok(Started::Waits)
                        }
                        None => Err(errors::interface(py, "no COPY operation is in progress")),
                    },
                };
            }
        };
        drop(reading);
        this.set_reading(py, true)?;
        Ok(copied.map_or(Started::Waits, |bytes| Started::Done(bytes.into_any().unbind())))
    }

    /// Gives copied bytes to who waits for them; holds up the server when nobody does.
    pub(super) fn hand_over(&self, py: Python<'_>, flight: &mut Flight) -> PyResult<()> {
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

    /// Has the transport read, or not read: the server is held up when nobody takes what it copies.
    pub(crate) fn set_reading(&self, py: Python<'_>, on: bool) -> PyResult<()> {
        if self.paused_reading.swap(!on, Ordering::Relaxed) != on {
            return Ok(());
        }
        let transport = self.writing()?.transport.as_ref().map(|transport| transport.clone_ref(py));
        if let Some(transport) = transport {
            let name = if on { intern!(py, "resume_reading") } else { intern!(py, "pause_reading") };
            transport.call_method0(py, name)?;
        }
        Ok(())
    }

    /// Takes data: all that has come of it, for who waits.
    pub(super) fn copied(py: Python<'_>, flight: &mut Flight, inbox: &mut Inbox, message: Message) -> PyResult<()> {
        match flight.op.take_if(|_| flight.copying && flight.copied.is_empty()) {
            Some(op) => {
                let run = inbox.run(message);
                let bytes = PyBytes::new_with(py, run.length, |place| {
                    inbox.take_run(run, place);
                    Ok(())
                })?;
                op.get().finish(py, Ok(bytes.into_any().unbind()));
            }
            None => flight.copied.extend_from_slice(inbox.body(message)),
        }
        Ok(())
    }
}
