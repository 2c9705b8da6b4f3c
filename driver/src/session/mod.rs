//! One connection: requests in, bytes out; bytes in, answers out.
//!
//! A [`Session`] is at once the protocol that asyncio's transport feeds. What comes is cut into messages by [`inbox`]
//! and given to the request it answers by [`receive`]; an operation ([`op`], with its [`request`]) is let through by
//! [`send`] into one buffer, which is handed over once a turn of the loop, so that queries asked together travel
//! together. [`flight`] is a request on its way: requests are answered in the order in which they were sent, each to
//! its own ReadyForQuery, at which [`settle`] gives its operation the outcome, and each fails alone.
//!
//! Each verb has a module, with what Python calls, what is sent and what is done with the answers: [`prepare`],
//! [`bind`] (its rows in [`rows`]), [`query`], [`many`], [`copy_in`] and [`copy_out`]. [`cancel`], [`deadline`] and
//! [`end`] have what cuts all of them short.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Instant;

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyTuple, PyType};

pub mod bind;
pub mod block;
pub mod calls;
pub mod cancel;
pub mod codec_plan;
pub mod copy_in;
pub mod copy_out;
pub mod deadline;
pub mod end;
pub mod errors;
pub mod fork;
pub mod in_flight;
pub mod inbox;
pub mod lease;
pub mod login;
pub mod many;
pub mod op;
pub mod outgoing;
pub mod own;
pub mod prepare;
pub mod protocol;
pub mod query;
pub mod receive;
pub mod request;
pub mod rows;
pub mod send;
pub mod session_state;
pub mod settings;
pub mod settle;
pub mod statement;

use in_flight::InFlight;
use inbox::Inbox;
use login::Login;
use op::Op;
use settings::ConnectionSettings;

/// The side on which answers come.
#[derive(Default)]
pub(crate) struct Reading {
    inbox: Inbox,
    /// The request that is being answered.
    current: Option<InFlight>,
    login: Login,
}

/// Who has the connection's writing end to itself, so that everybody else waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exclusive {
    /// COPY ... FROM STDIN.
    CopyIn,
    /// Many argument lists, written piece by piece.
    Many,
    /// A text that begins a transaction first: with it goes the beginning, if it cannot be parsed.
    Begin,
}

/// The side on which requests go.
#[derive(Default)]
pub(crate) struct Writing {
    /// Bytes for the transport.
    out: Vec<u8>,
    /// Requests that are sent, or in `out`, behind the one that is being answered.
    flights: VecDeque<InFlight>,
    /// Operations that wait for their turn to be sent.
    waiting: VecDeque<lease::Waiting>,
    transport: Option<Py<PyAny>>,
    /// Whether a turn of the loop that hands `out` over is due.
    flush_due: bool,
    /// Whether the thread that asks hands `out` over itself, with the interpreter released.
    held: bool,
    /// How many requests the last handing over took, and this one will.
    batches: (usize, usize),
    /// Whether the transport holds bytes that the socket did not take.
    overflow: bool,
    exclusive: Option<Exclusive>,
    /// The task whose COPY ... FROM STDIN it is.
    copier: Option<Py<PyAny>>,
    /// The rest of the argument lists that are being written.
    many: Option<many::Many>,
    /// Whether the rest is not wanted: an earlier one has failed.
    many_failed: bool,
    /// How many requests are not answered.
    pending: usize,
    /// What is to begin a transaction with the next request.
    begin: Option<Vec<u8>>,
    /// The blocks that have the connection, each inside of the one before it.
    leases: Vec<lease::Lease>,
    /// How a COPY ended that nobody has asked about yet.
    copy_end: Option<PyResult<Py<PyAny>>>,
    /// The rest of that COPY's data.
    copy_rest: Option<Vec<u8>>,
    /// The tasks that wait until the transport takes more.
    draining: Vec<Py<Op>>,
    timer: Option<(Instant, Py<PyAny>)>,
    /// Operations with a deadline.
    deadlines: Vec<Py<Op>>,
    /// An error that the server sent unasked, mostly why it ends the session.
    last_words: Option<Vec<(u8, Vec<u8>)>>,
}

/// One connection to a server, which is at once the protocol that asyncio's transport feeds.
#[pyclass(frozen, subclass, weakref, module = "howdah._core")]
pub struct Session {
    pub(crate) reading: Mutex<Reading>,
    pub(crate) writing: Mutex<Writing>,
    settings: Py<ConnectionSettings>,
    loop_: Py<PyAny>,
    /// The future that is done when the session has begun.
    connected: Mutex<Option<Py<PyAny>>>,
    /// Ended when the transport says that the connection is lost.
    closed: Mutex<Option<Py<PyAny>>>,
    params: Py<PyAny>,
    addr: Py<PyAny>,
    record_class: Py<PyType>,
    /// A weak reference to the `Connection`.
    connection: Mutex<Option<Py<PyAny>>>,
    /// Query to statement, for the class of records that is the session's own.
    cache: Py<PyDict>,
    /// The transaction status of the last ReadyForQuery.
    status: AtomicU8,
    /// How many BEGINs are under way.
    beginning: AtomicI32,
    is_closing: AtomicBool,
    is_connected: AtomicBool,
    is_ssl: AtomicBool,
    paused_writing: AtomicBool,
    paused_reading: AtomicBool,
    /// Whether a request to cancel is under way.
    cancelling: AtomicBool,
    /// The futures of that: the request is delivered; the cancelled query is over.
    cancel_waiters: Mutex<Option<(Py<PyAny>, Py<PyAny>)>>,
    socket: AtomicI32,
    pid: AtomicI32,
    secret: Mutex<Vec<u8>>,
    queries: AtomicU64,
    /// How many rows of the COPY FROM STDIN were begun.
    copied: AtomicU64,
    /// Whether something was sent since the last reset that may have changed the session.
    changed: AtomicBool,
    /// Whether PREPARE was executed.
    prepared: AtomicBool,
    /// Whether the server has let the user in (AuthenticationOk).
    auth_received: AtomicBool,
    /// The process that made it, by the forks up to it.
    generation: u32,
}

/// A lock that is only ever held for moments and by one thread; a second one is an error rather than a wait.
fn lock<T>(mutex: &Mutex<T>) -> PyResult<MutexGuard<'_, T>> {
    match mutex.try_lock() {
        Ok(guard) => Ok(guard),
        Err(std::sync::TryLockError::Poisoned(poisoned)) => Ok(poisoned.into_inner()),
        Err(std::sync::TryLockError::WouldBlock) => Err(errors::busy()),
    }
}

/// A small lock that is never held while Python runs.
fn brief<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

static FUTURE: PyOnceLock<(Py<PyAny>, Py<PyTuple>)> = PyOnceLock::new();

impl Session {
    fn writing(&self) -> PyResult<MutexGuard<'_, Writing>> {
        lock(&self.writing)
    }

    fn reading(&self) -> PyResult<MutexGuard<'_, Reading>> {
        lock(&self.reading)
    }

    /// A new future of the loop.
    pub fn new_future<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let (class, names) = FUTURE.get_or_try_init(py, || {
            let class = py.import("asyncio")?.getattr("Future")?.unbind();
            PyResult::Ok((class, PyTuple::new(py, [intern!(py, "loop")])?.unbind()))
        })?;
        let args = [self.loop_.as_ptr()];
        // SAFETY: one keyword argument, named by the tuple; the result is new or null with an error.
        unsafe {
            let future = ffi::PyObject_Vectorcall(class.as_ptr(), args.as_ptr(), 0, names.as_ptr());
            Bound::from_owned_ptr_or_err(py, future)
        }
    }

    /// The `Connection`, unless it is gone.
    fn connection<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        let weak = brief(&self.connection).as_ref()?.clone_ref(py);
        weak.call0(py).ok().map(|connection| connection.into_bound(py)).filter(|connection| !connection.is_none())
    }

    /// The error of an operation that finds the connection lost or closed.
    fn closed_error(&self, py: Python<'_>) -> PyErr {
        if self.is_elsewhere() {
            return errors::interface(
                py,
                "the connection belongs to the process that made it: after a fork, connect anew in the child",
            );
        }
        errors::interface(py, "connection is closed")
    }

    /// Whether the server has said that the session is in a transaction, or a BEGIN is on its way.
    fn in_transaction_now(&self) -> bool {
        self.status.load(Ordering::Relaxed) != b'I' || self.beginning.load(Ordering::Relaxed) > 0
    }

    /// Whether the session is in a transaction, or will be with the next request.
    fn in_transaction(&self) -> bool {
        self.status.load(Ordering::Relaxed) != b'I'
            || self.beginning.load(Ordering::Relaxed) > 0
            || self.writing().is_ok_and(|writing| writing.begin.is_some())
    }
}
