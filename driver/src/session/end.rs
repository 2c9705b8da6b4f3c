//! The end of a session: asked for, or come over it.

use std::sync::atomic::Ordering;

use pyo3::intern;
use pyo3::prelude::*;

use super::in_flight::{InFlight, Verb, Waiter};
use super::settle::{field, resolve};
use super::{Session, Writing, brief, errors, outgoing};

#[pymethods]
impl Session {
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

impl Session {
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
        let mut flights: Vec<InFlight> = self.reading()?.current.take().into_iter().collect();
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
        // A COPY between its operations gets the error at the next one.
        let is_copy = |flight: &InFlight| matches!(flight.verb, Verb::CopyOut(..) | Verb::CopyIn(_));
        if flights.iter().any(|flight| is_copy(flight) && matches!(flight.waiter, Waiter::Nobody)) {
            let error = PyErr::from_value(error(py).into_bound(py));
            self.writing()?.copy_end = Some(Err(error));
        }
        let ops = flights.into_iter().filter_map(|mut flight| flight.waiter.take());
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
        if cause.is_some() {
            // What could not be sent was sent too late: the server has said why it is gone.
            Self::hear_the_rest(slf)?;
        }
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
