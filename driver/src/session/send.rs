//! Requests on their way out: the right to send, the bytes that are written, and the moment when they go to the socket.

use std::sync::atomic::Ordering;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::in_flight::{InFlight, Verb};
use super::op::{Op, Started};
use super::request::Request;
use super::{Session, Writing, outgoing};

/// An outgoing buffer that grew larger is given back.
const KEEP: usize = 1024 * 1024;

impl Session {
    /// Starts an operation: sends it, or has it wait for its turn.
    pub(crate) fn start(slf: &Bound<'_, Self>, op: &Bound<'_, Op>) -> PyResult<Started> {
        let py = slf.py();
        let this = slf.get();
        if let Err(closed) = this.check_open(py) {
            // The connection was lost while nobody waited for the COPY that this goes on with.
            let end = this.writing()?.copy_end.take().filter(|_| op.get().passes());
            return end.map_or(Err(closed), |end| end.map(Started::Done));
        }
        let deadline = op.get().deadline();
        {
            let mut writing = this.writing()?;
            if let Some(deadline) = deadline {
                Self::arm(slf, &mut writing, op, deadline)?;
            }
            if !op.get().passes() && !this.admit(py, &mut writing, op)? {
                return Ok(Started::Waits);
            }
        }
        Self::dispatch(slf, op)
    }

    /// Starts an operation whose turn has come.
    pub(crate) fn start_now(slf: &Bound<'_, Self>, op: &Bound<'_, Op>) {
        let py = slf.py();
        match slf.get().check_open(py).and_then(|()| Self::dispatch(slf, op)) {
            Ok(Started::Waits) => (),
            Ok(Started::Done(value)) => op.get().finish(py, Ok(value)),
            Ok(Started::Inner(coroutine)) => op.get().go_on_with(py, coroutine),
            Err(error) => op.get().finish(py, Err(error)),
        }
    }

    pub(crate) fn check_open(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_closing.load(Ordering::Relaxed) || self.is_elsewhere() {
            return Err(self.closed_error(py));
        }
        Ok(())
    }

    pub(crate) fn note_change(&self, changes: bool) {
        if changes {
            self.changed.store(true, Ordering::Relaxed);
        }
    }

    fn dispatch(slf: &Bound<'_, Self>, op: &Bound<'_, Op>) -> PyResult<Started> {
        // The request is out of the operation's lock while encoders of the program's own may run.
        let request = std::mem::replace(&mut op.get().state().request, Request::Nothing);
        let result = Self::send(slf, op, &request);
        op.get().state().request = request;
        result
    }

    fn send(slf: &Bound<'_, Self>, op: &Bound<'_, Op>, request: &Request) -> PyResult<Started> {
        let py = slf.py();
        let this = slf.get();
        match request {
            Request::Fetch { .. } => Self::send_fetch(slf, op, request),
            Request::Bind { statement, args, portal, limit, shape, execute } => {
                let (statement, args) = (statement.bind(py), args.bind(py));
                Self::send_bind(slf, op, statement, args, portal, *limit, shape.clone_ref(py), *execute)
            }
            Request::Columns { statement, args, dictionary } => {
                Self::send_columns(slf, op, statement.bind(py), args.bind(py), dictionary)
            }
            Request::Execute { statement, portal, limit } => Self::send_execute(slf, op, statement, portal, *limit),
            Request::Many { statement, args, rows, declare } => {
                Self::send_many(slf, op, statement, args.bind(py), *rows, declare.as_ref())
            }
            Request::Prepare(statement) => Self::send_prepare(slf, op, statement),
            Request::Simple(query) => Self::send_query(slf, op, query, Verb::Query),
            Request::CopyOut(query) => Self::send_query(slf, op, query, |text| Verb::CopyOut(text, None)),
            Request::CopyIn(query, task) => Self::send_copy_in(slf, op, query, task),
            Request::Finish(query) => Self::send_finish(slf, op, query),
            Request::Begin => Self::send_begin(slf, op),
            Request::CloseStatement(statement) => Self::send_close_statement(slf, op, statement),
            Request::ClosePortal(portal) => Self::send_close_portal(slf, op, portal),
            Request::CopyRead => Self::copy_read(slf, op),
            Request::CopyEnd(reason) => Self::copy_end(slf, op, reason.as_deref()),
            Request::Drain => {
                if !this.paused_writing.load(Ordering::Relaxed) {
                    return Ok(Started::Done(py.None()));
                }
                this.writing()?.draining.push(op.clone().unbind());
                Ok(Started::Waits)
            }
            Request::Lease(task) => {
                let mut writing = this.writing()?;
                this.grant(py, &mut writing, task.clone_ref(py)).map(Started::Done)
            }
            Request::Nothing => Ok(Started::Done(py.None())),
        }
    }

    pub(super) fn need_connection<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.connection(py).ok_or_else(|| self.closed_error(py))
    }

    /// Writes a request, and has it sent with this turn of the loop.
    pub(super) fn push(
        slf: &Bound<'_, Self>,
        mut flight: InFlight,
        write: impl FnOnce(&mut Vec<u8>) -> PyResult<()>,
    ) -> PyResult<Started> {
        let this = slf.get();
        let counts = !matches!(flight.verb, Verb::Prepare(_) | Verb::Close);
        let mut writing = this.writing()?;
        let Writing { out, begin, .. } = &mut *writing;
        let start = out.len();
        let begins = begin.as_deref().filter(|_| flight.verb.carries_begin());
        if let Some(sql) = begins {
            outgoing::parse(out, b"", sql);
            out.extend_from_slice(b"B\0\0\0\x0c\0\0\0\0\0\0\0\0");
            outgoing::execute(out, b"", 0);
        }
        let begins = begins.is_some();
        if let Err(error) = write(out) {
            out.truncate(start);
            return Err(error);
        }
        if begins {
            *begin = None;
            flight.begins = true;
            this.beginning.fetch_add(1, Ordering::Relaxed);
        }
        writing.flights.push_back(flight);
        writing.pending += 1;
        if counts {
            this.queries.fetch_add(1, Ordering::Relaxed);
        }
        Self::flush_soon(slf, &mut writing)?;
        Ok(Started::Waits)
    }

    /// Hands over what is written: now, when this is all there is, or else together with what this turn of the loop
    /// adds to it. A thread that waits for the answer hands it over itself.
    fn flush_soon(slf: &Bound<'_, Self>, writing: &mut Writing) -> PyResult<()> {
        writing.batches.1 += 1;
        if writing.flush_due || writing.held {
            return Ok(());
        }
        if writing.batches.0 <= 1 && writing.pending <= 1 {
            return Self::flush(slf, writing);
        }
        writing.flush_due = true;
        let py = slf.py();
        let call = slf.getattr(intern!(py, "_flush"))?;
        slf.get().loop_.call_method1(py, intern!(py, "call_soon"), (call,)).map(drop)
    }

    /// Hands over what is written.
    pub(crate) fn flush(slf: &Bound<'_, Self>, writing: &mut Writing) -> PyResult<()> {
        let py = slf.py();
        let out = writing.take_out();
        let Some(transport) = writing.transport.as_ref().filter(|_| !out.is_empty()) else { return Ok(()) };
        if writing.overflow {
            let left: usize = transport.call_method0(py, intern!(py, "get_write_buffer_size"))?.extract(py)?;
            writing.overflow = left > 0;
        }
        let socket = slf.get().socket.load(Ordering::Relaxed);
        let sent = if socket >= 0 && !writing.overflow { send_now(socket, &out) } else { 0 };
        writing.put_back(py, out, sent)
    }

    /// Goes on with what waited for the transport to take more.
    pub(crate) fn go_on(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let draining = std::mem::take(&mut slf.get().writing()?.draining);
        for op in draining {
            op.get().finish(py, Ok(py.None()));
        }
        Self::write_many(slf)
    }
}

impl Writing {
    /// Takes what is to be handed over.
    pub(super) fn take_out(&mut self) -> Vec<u8> {
        self.batches = (self.batches.1, 0);
        std::mem::take(&mut self.out)
    }

    /// Gives the transport what the socket has not taken, and keeps the memory for what comes next.
    pub(super) fn put_back(&mut self, py: Python<'_>, mut out: Vec<u8>, sent: usize) -> PyResult<()> {
        if let Some(rest) = out.get(sent..).filter(|rest| !rest.is_empty())
            && let Some(transport) = &self.transport
        {
            let transport = transport.clone_ref(py);
            self.overflow = true;
            transport.call_method1(py, intern!(py, "write"), (PyBytes::new(py, rest),))?;
        }
        if out.capacity() <= KEEP && self.out.is_empty() {
            out.clear();
            self.out = out;
        }
        Ok(())
    }
}

/// Sends what a socket takes at once; how many bytes that was.
pub(super) fn send_now(socket: i32, bytes: &[u8]) -> usize {
    let mut sent = 0;
    while let Some(rest) = bytes.get(sent..).filter(|rest| !rest.is_empty()) {
        // SAFETY: the slice is readable for its length.
        let count =
            unsafe { libc::send(socket, rest.as_ptr().cast(), rest.len(), libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT) };
        match usize::try_from(count) {
            Ok(count) => sent += count,
            Err(_) if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => (),
            // Full, or broken; the transport waits for the one and tells of the other.
            Err(_) => break,
        }
    }
    sent
}
