//! A session that no event loop runs for: the thread that asks waits for the socket itself.
//!
//! The synchronous interface (`howdah.dbapi`) makes its connections on an event loop of its own that runs only while it
//! is needed: to connect, for TLS, to cancel, for large writes. A plain query needs none of it. Its request was written
//! to the socket when it was asked, so that all there is to do is to wait for bytes, with the interpreter released, and
//! to hand them to [`Session::receive`], as the loop's transport would.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

use super::Session;
use super::in_flight::Shape;
use super::op::{Driven, Op, send};
use super::request::Request;
use super::send::send_now;
use super::statement::Statement;

/// Signals are looked after this often: one that comes right before the wait does not end it.
const SIGNALS: Duration = Duration::from_millis(100);

/// Small answers are read into so much memory at first, with the interpreter released.
const SMALL: usize = 1024;

/// The outcome of a wait for the socket.
enum Heard {
    /// This number of bytes was received.
    Bytes(usize),
    /// Nothing for now.
    Nothing,
    /// The connection has ended, which is for the transport to find out.
    End,
}

#[pymethods]
impl Session {
    /// Whether the connection stands and nothing came while nobody asked; false where it takes the loop to know.
    ///
    /// The question does not wait, and so the interpreter is not released for it: to get it back would take longer.
    fn is_quiet(&self) -> PyResult<bool> {
        let socket = self.socket.load(Ordering::Relaxed);
        if socket < 0 || self.is_closed() || self.is_dismissed()? {
            return Ok(false);
        }
        let mut byte = 0_u8;
        // SAFETY: one byte is writable; the socket is the transport's, which is open.
        let count = unsafe { libc::recv(socket, (&raw mut byte).cast(), 1, libc::MSG_PEEK | libc::MSG_DONTWAIT) };
        Ok(count < 0 && std::io::Error::last_os_error().kind() == std::io::ErrorKind::WouldBlock)
    }

    /// Bind and Execute of a statement, as [`Session::bind_execute`], on this thread: `(True, answer, None)`, or
    /// `(False, future, operation)` when it waits for something that takes the loop.
    fn ask<'py>(
        slf: &Bound<'py, Self>,
        statement: Py<Statement>,
        args: Py<PyAny>,
        timeout: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let py = slf.py();
        statement.get().touch();
        let portal = Vec::new();
        let request = Request::Bind { statement, args, portal, limit: 0, shape: Shape::Extra, execute: true };
        let op = Op::make(slf, request, timeout)?;
        match Self::drive(slf, &op) {
            Ok(Driven::Return(answer)) => (true, answer, py.None()).into_pyobject(py),
            Ok(Driven::Yield(future)) => (false, future, op).into_pyobject(py),
            Err(error) => {
                Op::close(&op)?;
                Err(error)
            }
        }
    }

    /// Drives an awaitable on this thread: `(True, result)`, or `(False, future)` when it waits for something that
    /// takes the loop.
    fn block<'py>(slf: &Bound<'py, Self>, awaitable: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyTuple>> {
        match Self::drive(slf, awaitable)? {
            Driven::Return(value) => (true, value).into_pyobject(slf.py()),
            Driven::Yield(future) => (false, future).into_pyobject(slf.py()),
        }
    }
}

impl Session {
    /// Drives an awaitable to its result, or to a future that takes the loop.
    fn drive<'py>(slf: &Bound<'py, Self>, awaitable: &Bound<'py, PyAny>) -> PyResult<Driven<'py>> {
        let py = slf.py();
        if let Ok(op) = awaitable.cast::<Op>() {
            // The usual case, for which no future has to be made.
            Self::watch(slf, op)?;
        }
        loop {
            match send(awaitable, py.None().bind(py))? {
                Driven::Return(value) => return Ok(Driven::Return(value)),
                Driven::Yield(future) => {
                    if !Self::wait_for(slf, &future)? {
                        return Ok(Driven::Yield(future));
                    }
                }
            }
        }
    }

    /// Reads until a future is done; false when that takes the loop.
    fn wait_for(slf: &Bound<'_, Self>, future: &Bound<'_, PyAny>) -> PyResult<bool> {
        while !future.call_method0(intern!(slf.py(), "done"))?.is_truthy()? {
            if !Self::step(slf)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Starts an operation that has not begun, and reads until it can go on, or the loop is needed for that.
    fn watch(slf: &Bound<'_, Self>, op: &Bound<'_, Op>) -> PyResult<()> {
        slf.get().writing()?.held = true;
        let started = Op::start_watched(op);
        slf.get().writing()?.held = false;
        if started? {
            while !op.get().is_woken() && Self::step(slf)? {}
        }
        Ok(())
    }

    /// Sends what is to be sent, waits for a while, and reads what has come; false when that takes the loop.
    fn step(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let py = slf.py();
        let this = slf.get();
        let Some(patience) = this.patience()? else {
            Self::flush(slf, &mut *this.writing()?)?;
            return Ok(false);
        };
        let socket = this.socket.load(Ordering::Relaxed);
        let millis = i32::try_from(patience.as_millis()).unwrap_or(0);
        let out = this.writing()?.take_out();
        // Of a large answer there is the beginning of a message; what follows goes straight to where it is read.
        let small = this.reading()?.inbox.unread() == 0;
        let mut first = [0; SMALL];
        let (sent, readable, mut heard) = py.detach(|| {
            let sent = send_now(socket, &out);
            // What a server says before it closes the connection is read though nothing can be sent any more.
            let readable = is_readable(socket, if sent == out.len() { millis } else { 0 });
            let heard = if readable && small { receive_from(socket, &mut first) } else { Heard::Nothing };
            (sent, readable, heard)
        });
        this.writing()?.put_back(py, out, sent)?;
        if let Heard::Bytes(count) = heard {
            this.reading()?.inbox.feed(first.get(..count).unwrap_or_default());
        }
        if matches!(heard, Heard::Bytes(SMALL)) {
            this.hear(socket)?;
        } else if readable && !small {
            heard = this.hear(socket)?;
        }
        match heard {
            Heard::Bytes(_) => Self::receive(slf)?,
            Heard::Nothing if readable => (),
            Heard::Nothing => Self::ring(slf)?,
            Heard::End => return Ok(false),
        }
        // What has come is read by now: nothing of it is lost to what interrupts.
        py.check_signals()?;
        Ok(true)
    }

    /// How long the socket may be waited for; `None` when the loop has to run.
    fn patience(&self) -> PyResult<Option<Duration>> {
        let plain = self.socket.load(Ordering::Relaxed) >= 0
            && !self.paused_writing.load(Ordering::Relaxed)
            && !self.paused_reading.load(Ordering::Relaxed)
            && !self.cancelling.load(Ordering::Relaxed)
            && !self.is_closing.load(Ordering::Relaxed);
        let writing = self.writing()?;
        if !plain || writing.overflow || writing.flush_due || writing.many.is_some() {
            return Ok(None);
        }
        let timer = writing.timer.as_ref().map(|(due, _)| due.saturating_duration_since(Instant::now()));
        // Rounded up, as what is waited for in is milliseconds.
        Ok(Some(timer.map_or(SIGNALS, |left| SIGNALS.min(left + Duration::from_millis(1)))))
    }

    /// Reads what the socket has, to where it is read.
    fn hear(&self, socket: i32) -> PyResult<Heard> {
        let mut reading = self.reading()?;
        let heard = receive_from(socket, reading.inbox.space());
        if let Heard::Bytes(count) = heard {
            reading.inbox.filled(count);
        }
        Ok(heard)
    }

    /// Reads what the socket still has; the transport, which reads no more, closes it after this.
    pub(super) fn hear_the_rest(slf: &Bound<'_, Self>) -> PyResult<()> {
        let socket = slf.get().socket.load(Ordering::Relaxed);
        while socket >= 0 && matches!(slf.get().hear(socket)?, Heard::Bytes(_)) {
            Self::receive(slf)?;
        }
        Ok(())
    }

    /// Does what the timer is for, if it is due.
    fn ring(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let handle = {
            let mut writing = slf.get().writing()?;
            writing.timer.take_if(|(due, _)| *due <= Instant::now())
        };
        let Some((_, handle)) = handle else { return Ok(()) };
        handle.call_method0(py, intern!(py, "cancel"))?;
        Self::on_timer(slf)
    }
}

/// Waits for a socket to have something to read, or to have ended.
fn is_readable(socket: i32, millis: i32) -> bool {
    let mut entry = libc::pollfd { fd: socket, events: libc::POLLIN, revents: 0 };
    // SAFETY: one entry, alive for the call.
    unsafe { libc::poll(&mut entry, 1, millis) > 0 }
}

/// Reads what a socket has.
fn receive_from(socket: i32, space: &mut [u8]) -> Heard {
    // SAFETY: the slice is writable for its length.
    let count = unsafe { libc::recv(socket, space.as_mut_ptr().cast(), space.len(), libc::MSG_DONTWAIT) };
    match usize::try_from(count) {
        Ok(0) => Heard::End,
        Ok(count) => Heard::Bytes(count),
        Err(_) => match std::io::Error::last_os_error().kind() {
            std::io::ErrorKind::Interrupted | std::io::ErrorKind::WouldBlock => Heard::Nothing,
            _ => Heard::End,
        },
    }
}
