//! Operations that are given up: unsent, or cancelled on the server.

use std::sync::atomic::Ordering;

use pyo3::intern;
use pyo3::prelude::*;

use super::in_flight::{InFlight, Waiter};
use super::op::Op;
use super::request::Request;
use super::{Session, brief};

#[pymethods]
impl Session {
    /// The futures of a cancellation that is under way.
    fn _cancellation(&self, py: Python<'_>) -> Vec<Py<PyAny>> {
        match &*brief(&self.cancel_waiters) {
            Some((sent, over)) => vec![sent.clone_ref(py), over.clone_ref(py)],
            None => Vec::new(),
        }
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
            reading.current.as_mut().or(writing.flights.front_mut()).is_some_and(|flight| flight.is_abandoned())
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
}

impl Session {
    /// Gives an operation up: what it asked is cancelled on the server, or never sent.
    pub(crate) fn abandon(slf: &Bound<'_, Self>, op: &Bound<'_, Op>) -> PyResult<()> {
        let this = slf.get();
        let mine = |flight: &InFlight| matches!(&flight.waiter, Waiter::Op(other) if other.is(op));
        let mut cancel = false;
        {
            let mut reading = this.reading()?;
            let mut writing = this.writing()?;
            let writing = &mut *writing;
            writing.waiting.retain(|waiting| !waiting.op.is(op));
            writing.draining.retain(|other| !other.is(op));
            let first = reading.current.is_none();
            if let Some(flight) = reading.current.as_mut().filter(|flight| mine(flight)) {
                flight.abandon();
                cancel = true;
            } else if let Some((position, flight)) =
                writing.flights.iter_mut().enumerate().find(|(_, flight)| mine(flight))
            {
                flight.abandon();
                cancel = position == 0 && first;
            }
            if writing.many.is_some() && cancel {
                writing.many_failed = true;
            }
        }
        if cancel {
            Self::request_cancel(slf)?;
        }
        Self::pump(slf)
    }

    /// Ends what an operation has begun whose task was cancelled before it learned of that.
    pub(crate) fn give_back(slf: &Bound<'_, Self>, op: &Op, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let request = std::mem::replace(&mut op.state().request, Request::Nothing);
        match request {
            Request::Lease(_) => Self::unlease(slf, value),
            Request::CopyIn(..) => Self::copy_abort(slf, "COPY was cancelled"),
            Request::CopyOut(_) => Self::copy_out_abort(slf),
            Request::Prepare(statement) => slf.get().forget_statement(slf.py(), &statement),
            _ => Ok(()),
        }
    }

    /// Asks the server to cancel the request that it is at.
    pub(crate) fn request_cancel(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if this.is_closing.load(Ordering::Relaxed) || this.cancelling.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        {
            let mut reading = this.reading()?;
            let mut writing = this.writing()?;
            Self::flush(slf, &mut writing)?;
            if let Some(flight) = reading.current.as_mut().or(writing.flights.front_mut()) {
                flight.cancelled = true;
            }
        }
        let (sent, over) = (this.new_future(py)?, this.new_future(py)?);
        sent.call_method1(intern!(py, "add_done_callback"), (slf.getattr(intern!(py, "_cancel_sent"))?,))?;
        *brief(&this.cancel_waiters) = Some((sent.clone().unbind(), over.clone().unbind()));
        match this.connection(py) {
            Some(connection) => connection.call_method1(intern!(py, "_cancel_current_command"), (sent, over)).map(drop),
            None => slf.call_method0(intern!(py, "abort")).map(drop),
        }
    }

    /// Goes on with what had to wait for the cancelled request to end and for the request to cancel to arrive.
    pub(crate) fn cancel_progress(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let done = |future: &Py<PyAny>| future.call_method0(py, intern!(py, "done"))?.is_truthy(py);
        let finished = match &*brief(&this.cancel_waiters) {
            Some((sent, over)) => done(sent)? && done(over)?,
            None => true,
        };
        if finished {
            *brief(&this.cancel_waiters) = None;
            this.cancelling.store(false, Ordering::Relaxed);
            // The next one may have been given up in the meantime.
            let next = {
                let mut reading = this.reading()?;
                let mut writing = this.writing()?;
                let front = reading.current.as_mut().or(writing.flights.front_mut());
                front.is_some_and(|flight| flight.is_abandoned())
            };
            if next {
                Self::request_cancel(slf)?;
            }
            Self::pump(slf)?;
        }
        Ok(())
    }
}
