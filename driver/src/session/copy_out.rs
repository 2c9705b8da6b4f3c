//! COPY ... TO STDOUT: data in, at the pace of its reader.

use std::sync::atomic::Ordering;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};

use super::in_flight::{InFlight, Verb, Waiter};
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
            if let Some(flight @ InFlight { verb: Verb::CopyOut(..), .. }) = &mut reading.current {
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
        let copied = match &mut reading.current {
            Some(InFlight { verb: Verb::CopyOut(_, Some(copied)), .. }) if !copied.is_empty() => {
                let bytes = PyBytes::new(py, copied);
                copied.clear();
                Some(bytes)
            }
            Some(InFlight { verb: Verb::CopyOut(..), waiter, .. }) => {
                *waiter = Waiter::Op(op.clone().unbind());
                None
            }
            _ => {
                drop(reading);
                return this.copy_rest(op);
            }
        };
        drop(reading);
        this.set_reading(py, true)?;
        Ok(copied.map_or(Started::Waits, |bytes| Started::Done(bytes.into_any().unbind())))
    }

    /// Takes what a COPY has left that is not being answered: its last bytes, or its end, or it is yet to begin.
    fn copy_rest(&self, op: &Bound<'_, Op>) -> PyResult<Started> {
        let py = op.py();
        let mut writing = self.writing()?;
        if let Some(rest) = writing.copy_rest.take() {
            return Ok(Started::Done(PyBytes::new(py, &rest).into_any().unbind()));
        }
        if let Some(end) = writing.copy_end.take() {
            return end.map(Started::Done);
        }
        match writing.flights.iter_mut().find(|flight| matches!(flight.verb, Verb::CopyOut(..))) {
            Some(flight) => {
                flight.waiter = Waiter::Op(op.clone().unbind());
                Ok(Started::Waits)
            }
            None => Err(errors::interface(py, "no COPY operation is in progress")),
        }
    }

    /// Gives copied bytes to who waits for them; holds up the server when nobody does.
    pub(super) fn hand_over(&self, py: Python<'_>, copied: &mut Vec<u8>, waiter: &mut Waiter) -> PyResult<()> {
        if copied.is_empty() {
            return Ok(());
        }
        if let Some(op) = waiter.take() {
            let bytes = PyBytes::new(py, copied).into_any().unbind();
            copied.clear();
            op.get().finish(py, Ok(bytes));
        } else if copied.len() > COPY_MUCH {
            self.set_reading(py, false)?;
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
    pub(super) fn copied(
        py: Python<'_>,
        copied: &mut Vec<u8>,
        waiter: &mut Waiter,
        inbox: &mut Inbox,
        message: Message,
    ) -> PyResult<()> {
        let op = if copied.is_empty() { waiter.take() } else { None };
        match op {
            Some(op) => {
                let run = inbox.run(message);
                let bytes = PyBytes::new_with(py, run.length, |place| {
                    inbox.take_run(run, place);
                    Ok(())
                })?;
                op.get().finish(py, Ok(bytes.into_any().unbind()));
            }
            None => copied.extend_from_slice(inbox.body(message)),
        }
        Ok(())
    }
}
