//! The awaitable of one operation.
//!
//! It stands where asyncpg has a stack of coroutines: a task that awaits it drives it directly (by `am_send`, without
//! an exception for the result), it starts the operation when it is first driven, as a coroutine would, gives the task
//! one future of asyncio's to wait for, and answers with the result when the task comes back. What needs several
//! round trips or Python's help (an unknown statement, a type to ask for) is a coroutine that it drives in turn.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyRuntimeError, PyStopIteration};
#[cfg(Py_3_10)]
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyType;

use super::request::Request;
use super::{Session, errors};

/// How far an operation is.
#[derive(Debug)]
enum Phase {
    /// Nobody has awaited it. The timeout is in seconds; None is the connection's own.
    New {
        timeout: Option<Py<PyAny>>,
    },
    /// The session has it.
    Pending {
        waiter: Waiter,
        news: Option<News>,
    },
    /// A coroutine does the work.
    Inner(Py<PyAny>),
    Over,
}

/// The task that waits for a pending operation.
#[derive(Debug)]
enum Waiter {
    /// Nobody as yet: it is being started.
    Nobody,
    /// The task that waits for this future.
    Task(Py<PyAny>),
    /// A thread, which looks by itself.
    Thread,
}

/// The result with which a pending operation continues.
#[derive(Debug)]
enum News {
    /// What came of it.
    Outcome(PyResult<Py<PyAny>>),
    /// This coroutine is to do the work from now on.
    Inner(Py<PyAny>),
    /// It must be started again, from the beginning.
    Again,
}

/// How long an operation may take.
#[derive(Debug)]
struct Limit {
    seconds: f64,
    deadline: Instant,
    /// Whether the session watches the deadline.
    armed: bool,
}

/// The state of an operation.
#[derive(Debug)]
pub struct State {
    phase: Phase,
    /// What is asked.
    pub request: Request,
    limit: Option<Limit>,
}

impl State {
    /// Takes what a pending operation goes on with, if it is of use; gives the future of the task that waits for it.
    fn tell(&mut self, py: Python<'_>, told: &mut Option<News>) -> Option<Py<PyAny>> {
        let Phase::Pending { waiter, news } = &mut self.phase else { return None };
        match (&*news, &*told) {
            (None, _) | (Some(News::Again), Some(News::Outcome(_))) => *news = told.take(),
            _ => return None,
        }
        match waiter {
            Waiter::Task(future) => Some(future.clone_ref(py)),
            Waiter::Nobody | Waiter::Thread => None,
        }
    }
}

/// An operation of a session, to be awaited once.
#[pyclass(frozen, module = "howdah._core", name = "Operation")]
#[derive(Debug)]
pub struct Op {
    /// The session.
    pub session: Py<Session>,
    state: Mutex<State>,
}

/// One that nobody has awaited has done nothing, and says so as a coroutine does.
impl Drop for Op {
    fn drop(&mut self) {
        let forgotten = match self.state.get_mut() {
            Ok(state) => matches!(state.phase, Phase::New { .. }),
            Err(_) => false,
        };
        if forgotten {
            Python::attach(|py| self.complain(py));
        }
    }
}

/// The outcome of a step of an operation.
pub enum Driven<'py> {
    /// The task must wait for this.
    Yield(Bound<'py, PyAny>),
    /// The result.
    Return(Bound<'py, PyAny>),
}

/// How the start of an operation went.
pub enum Started {
    /// It is on its way, or waits for its turn.
    Waits,
    /// It is over already.
    Done(Py<PyAny>),
    /// This coroutine must do it.
    Inner(Py<PyAny>),
}

impl Op {
    /// An operation that has not begun. `timeout` is in seconds; None is the connection's own.
    pub fn make<'py>(
        session: &Bound<'py, Session>,
        request: Request,
        timeout: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, Op>> {
        let state = State { phase: Phase::New { timeout }, request, limit: None };
        Bound::new(session.py(), Op { session: session.clone().unbind(), state: Mutex::new(state) })
    }

    /// Warns that nobody has awaited it.
    #[cold]
    fn complain(&self, py: Python<'_>) {
        // It may die while an exception is on its way.
        let raised = PyErr::take(py);
        let warn = || -> PyResult<()> {
            let what = match self.query(py) {
                Some(query) => format!("the query {}", query.bind(py).repr()?),
                None => "an operation of the connection".to_owned(),
            };
            let message = std::ffi::CString::new(format!("{what} was never awaited"))?;
            PyErr::warn(py, &py.get_type::<pyo3::exceptions::PyRuntimeWarning>(), &message, 1)
        };
        if let Err(error) = warn() {
            error.write_unraisable(py, None);
        }
        if let Some(raised) = raised {
            raised.restore(py);
        }
    }

    /// The text of what it asks, where it has one.
    fn query(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        match &self.state().request {
            Request::Fetch { query, .. }
            | Request::Simple(query)
            | Request::CopyOut(query)
            | Request::CopyIn(query, _) => Some(query.clone_ref(py).into_any()),
            _ => None,
        }
    }

    /// What is inside.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn set_phase(&self, phase: Phase) {
        self.state().phase = phase;
    }

    /// Takes the phase, in whose place the operation is over until another is set.
    fn take_phase(&self) -> Phase {
        std::mem::replace(&mut self.state().phase, Phase::Over)
    }

    /// Says what the operation goes on with, and wakes the task that waits for it.
    fn tell(&self, py: Python<'_>, news: News) {
        // What is of no use is dropped without the lock: that may run Python.
        let mut news = Some(news);
        let future = self.state().tell(py, &mut news);
        if let Some(future) = future {
            // A cancelled future refuses the result; its task is being told of that.
            let _ = future.call_method1(py, pyo3::intern!(py, "set_result"), (py.None(),));
        }
    }

    /// Ends the operation, and wakes the task that waits for it.
    pub fn finish(&self, py: Python<'_>, outcome: PyResult<Py<PyAny>>) {
        self.tell(py, News::Outcome(outcome));
    }

    /// Has a coroutine do the work from now on.
    pub fn go_on_with(&self, py: Python<'_>, coroutine: Py<PyAny>) {
        self.tell(py, News::Inner(coroutine));
    }

    /// Has the operation started again by its task.
    pub fn retry(&self, py: Python<'_>) {
        self.tell(py, News::Again);
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        matches!(self.state().phase, Phase::Over | Phase::Pending { news: Some(News::Outcome(_)), .. })
    }

    /// When its time is up.
    pub fn deadline(&self) -> Option<Instant> {
        self.state().limit.as_ref().map(|limit| limit.deadline)
    }

    /// The seconds that it may take in all.
    pub fn allowed(&self) -> Option<f64> {
        self.state().limit.as_ref().map(|limit| limit.seconds)
    }

    /// The seconds that are left; None without a deadline.
    pub fn seconds_left(&self) -> Option<f64> {
        let deadline = self.deadline()?;
        Some(deadline.saturating_duration_since(Instant::now()).as_secs_f64().max(0.000_001))
    }

    /// Whether the session watches the deadline already, or there is none; from now on it does.
    pub fn armed(&self) -> bool {
        self.state().limit.as_mut().is_none_or(|limit| std::mem::replace(&mut limit.armed, true))
    }

    /// Whether it belongs to an operation that has begun, and so never waits for a turn of its own.
    pub fn passes(&self) -> bool {
        matches!(self.state().request, Request::CopyRead | Request::CopyEnd(_) | Request::Drain)
    }

    /// The task does not wait any more for what was pending. Nobody will take what came of it meanwhile, if anything.
    fn give_up(slf: &Bound<'_, Self>, news: Option<News>) -> PyResult<()> {
        let session = slf.get().session.bind(slf.py());
        match news {
            Some(News::Outcome(Ok(value))) => Session::give_back(session, slf.get(), value.bind(slf.py())),
            Some(News::Outcome(Err(_))) => Ok(()),
            Some(News::Inner(coroutine)) => {
                coroutine.call_method0(slf.py(), pyo3::intern!(slf.py(), "close"))?;
                Session::abandon(session, slf)
            }
            Some(News::Again) | None => Session::abandon(session, slf),
        }
    }

    fn drive<'py>(slf: &Bound<'py, Self>, value: &Bound<'py, PyAny>) -> PyResult<Driven<'py>> {
        let this = slf.get();
        let mut state = this.state();
        match &mut state.phase {
            Phase::New { timeout } => {
                let timeout = timeout.take();
                drop(state);
                this.limit(slf.py(), timeout)?;
                Self::begin(slf)
            }
            Phase::Pending { .. } => {
                drop(state);
                Self::resume(slf)
            }
            Phase::Inner(_) => {
                drop(state);
                Self::step(slf, |coroutine| send(coroutine, value))
            }
            Phase::Over => Err(PyRuntimeError::new_err("cannot reuse already awaited operation")),
        }
    }

    /// Has the coroutine that does the work take a step.
    fn step<'py>(
        slf: &Bound<'py, Self>,
        take: impl FnOnce(&Bound<'py, PyAny>) -> PyResult<Driven<'py>>,
    ) -> PyResult<Driven<'py>> {
        let this = slf.get();
        // The step runs without the state's lock; nobody else can drive the operation meanwhile.
        let Phase::Inner(coroutine) = this.take_phase() else {
            return Err(errors::internal(slf.py(), "no coroutine does the work"));
        };
        let coroutine = coroutine.into_bound(slf.py());
        let driven = take(&coroutine);
        if let Ok(Driven::Yield(_)) = driven {
            this.set_phase(Phase::Inner(coroutine.unbind()));
        }
        driven
    }

    /// Hands the work over to a coroutine, and begins with it.
    fn hand_over<'py>(slf: &Bound<'py, Self>, coroutine: Py<PyAny>) -> PyResult<Driven<'py>> {
        slf.get().set_phase(Phase::Inner(coroutine));
        let nothing = slf.py().None().into_bound(slf.py());
        Self::step(slf, |coroutine| send(coroutine, &nothing))
    }

    /// Takes down when its time is up.
    fn limit(&self, py: Python<'_>, timeout: Option<Py<PyAny>>) -> PyResult<()> {
        let seconds = self.session.get().seconds(py, timeout.as_ref()).inspect_err(|_| self.set_phase(Phase::Over))?;
        if let Some(seconds) = seconds {
            let deadline = Instant::now() + Duration::from_secs_f64(seconds);
            self.state().limit = Some(Limit { seconds, deadline, armed: false });
        }
        Ok(())
    }

    /// Starts it for a task.
    fn begin<'py>(slf: &Bound<'py, Self>) -> PyResult<Driven<'py>> {
        let py = slf.py();
        let this = slf.get();
        this.set_phase(Phase::Pending { waiter: Waiter::Nobody, news: None });
        match Session::start(this.session.bind(py), slf) {
            Ok(Started::Waits) => Self::resume(slf),
            Ok(Started::Done(value)) => {
                this.set_phase(Phase::Over);
                Ok(Driven::Return(value.into_bound(py)))
            }
            Ok(Started::Inner(coroutine)) => Self::hand_over(slf, coroutine),
            Err(error) => {
                this.set_phase(Phase::Over);
                Err(error)
            }
        }
    }

    /// Goes on with an operation that is pending.
    #[inline]
    fn resume<'py>(slf: &Bound<'py, Self>) -> PyResult<Driven<'py>> {
        let py = slf.py();
        let this = slf.get();
        if !this.is_woken() {
            return Self::wait(slf);
        }
        match this.take_phase() {
            Phase::Pending { news: Some(News::Outcome(Ok(value))), .. } => Ok(Driven::Return(value.into_bound(py))),
            Phase::Pending { news: Some(News::Outcome(Err(error))), .. } => {
                match Session::recover(this.session.bind(py), this, &error)? {
                    Some(coroutine) => Self::hand_over(slf, coroutine),
                    None => Err(error),
                }
            }
            Phase::Pending { news: Some(News::Inner(coroutine)), .. } => Self::hand_over(slf, coroutine),
            Phase::Pending { news: Some(News::Again), .. } => Self::begin(slf),
            _ => Err(errors::internal(py, "the operation is not pending")),
        }
    }

    /// Has the task wait for news.
    fn wait<'py>(slf: &Bound<'py, Self>) -> PyResult<Driven<'py>> {
        let py = slf.py();
        let this = slf.get();
        // Driven without having been woken, it has a future already.
        let known = match &this.state().phase {
            Phase::Pending { waiter: Waiter::Task(future), .. } => Some(future.clone_ref(py)),
            _ => None,
        };
        let future = match known {
            Some(future) => future.into_bound(py),
            None => this.session.get().new_future(py)?,
        };
        if let Phase::Pending { waiter, .. } = &mut this.state().phase {
            *waiter = Waiter::Task(future.clone().unbind());
        }
        Ok(Driven::Yield(block_on(future)?))
    }

    /// Starts it for a thread that looks for the outcome by itself; false when it is to be driven instead.
    pub(crate) fn start_watched(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let this = slf.get();
        let timeout = match &mut this.state().phase {
            Phase::New { timeout } => timeout.take(),
            _ => return Ok(false),
        };
        this.limit(slf.py(), timeout)?;
        this.set_phase(Phase::Pending { waiter: Waiter::Thread, news: None });
        match Session::start(this.session.bind(slf.py()), slf) {
            Ok(Started::Waits) => Ok(true),
            Ok(Started::Done(value)) => {
                this.finish(slf.py(), Ok(value));
                Ok(true)
            }
            Ok(Started::Inner(coroutine)) => {
                this.set_phase(Phase::Inner(coroutine));
                Ok(false)
            }
            Err(error) => {
                this.set_phase(Phase::Over);
                Err(error)
            }
        }
    }

    /// Whether there is something to go on with.
    pub(crate) fn is_woken(&self) -> bool {
        !matches!(self.state().phase, Phase::Pending { news: None, .. })
    }
}

/// Marks a future as one that a task is to wait for.
fn block_on(future: Bound<'_, PyAny>) -> PyResult<Bound<'_, PyAny>> {
    future.setattr(pyo3::intern!(future.py(), "_asyncio_future_blocking"), true)?;
    Ok(future)
}

/// Drives a coroutine one step.
#[cfg(Py_3_10)]
pub(crate) fn send<'py>(coroutine: &Bound<'py, PyAny>, value: &Bound<'py, PyAny>) -> PyResult<Driven<'py>> {
    let py = coroutine.py();
    let mut result = std::ptr::null_mut();
    // SAFETY: both are live objects; the result is a new reference unless the send failed.
    unsafe {
        match ffi::PyIter_Send(coroutine.as_ptr(), value.as_ptr(), &mut result) {
            ffi::PySendResult::PYGEN_NEXT => Ok(Driven::Yield(Bound::from_owned_ptr(py, result))),
            ffi::PySendResult::PYGEN_RETURN => Ok(Driven::Return(Bound::from_owned_ptr(py, result))),
            ffi::PySendResult::PYGEN_ERROR => Err(PyErr::fetch(py)),
        }
    }
}

/// Drives a coroutine one step.
#[cfg(not(Py_3_10))]
pub(crate) fn send<'py>(coroutine: &Bound<'py, PyAny>, value: &Bound<'py, PyAny>) -> PyResult<Driven<'py>> {
    returned(coroutine.py(), coroutine.call_method1("send", (value,)))
}

/// The outcome of a coroutine's `send` or `throw`.
fn returned<'py>(py: Python<'py>, result: PyResult<Bound<'py, PyAny>>) -> PyResult<Driven<'py>> {
    match result {
        Ok(yielded) => Ok(Driven::Yield(yielded)),
        Err(error) if error.is_instance_of::<PyStopIteration>(py) => {
            Ok(Driven::Return(error.value(py).getattr("value")?))
        }
        Err(error) => Err(error),
    }
}

/// Gives what driving came to in the way of generators.
fn as_generator(driven: Driven<'_>) -> PyResult<Bound<'_, PyAny>> {
    match driven {
        Driven::Yield(value) => Ok(value),
        Driven::Return(value) => Err(PyStopIteration::new_err((value.unbind(),))),
    }
}

#[pymethods]
impl Op {
    /// What asyncio calls a task of it by.
    #[getter]
    fn __name__(&self, py: Python<'_>) -> PyResult<String> {
        let Some(query) = self.query(py) else { return Ok("Operation".to_owned()) };
        let text: String = query.bind(py).str()?.to_string();
        let short: String = text.chars().take(60).collect();
        Ok(format!("{short}{}", if short.len() < text.len() { "..." } else { "" }))
    }

    #[getter]
    fn __qualname__(&self, py: Python<'_>) -> PyResult<String> {
        self.__name__(py)
    }

    fn __await__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        as_generator(Op::drive(slf, slf.py().None().bind(slf.py()))?)
    }

    fn send<'py>(slf: &Bound<'py, Self>, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        as_generator(Op::drive(slf, value)?)
    }

    #[pyo3(signature = (kind, value=None, traceback=None))]
    fn throw<'py>(
        slf: &Bound<'py, Self>,
        kind: &Bound<'py, PyAny>,
        value: Option<&Bound<'py, PyAny>>,
        traceback: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if matches!(slf.get().state().phase, Phase::Inner(_)) {
            let driven = Op::step(slf, |coroutine| {
                let result = match (value, traceback) {
                    (None, None) => coroutine.call_method1("throw", (kind,)),
                    _ => coroutine.call_method1("throw", (kind, value, traceback)),
                };
                returned(coroutine.py(), result)
            });
            return as_generator(driven?);
        }
        if let Phase::Pending { news, .. } = slf.get().take_phase() {
            Op::give_up(slf, news)?;
        }
        let instance = match value {
            Some(value) if !value.is_none() && value.is_instance(kind).unwrap_or(false) => value.clone(),
            _ if kind.is_instance_of::<PyType>() => kind.call0()?,
            _ => kind.clone(),
        };
        Err(PyErr::from_value(instance))
    }

    pub(super) fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        match slf.get().take_phase() {
            Phase::Pending { news, .. } => Op::give_up(slf, news),
            Phase::Inner(coroutine) => coroutine.call_method0(slf.py(), "close").map(drop),
            Phase::New { .. } | Phase::Over => Ok(()),
        }
    }
}

/// Gives the type the slot by which tasks drive coroutines without exceptions; PyO3 has no name for it.
#[cfg(Py_3_10)]
pub fn install(py: Python<'_>) -> PyResult<()> {
    unsafe extern "C" fn am_send(
        slf: *mut ffi::PyObject,
        value: *mut ffi::PyObject,
        result: *mut *mut ffi::PyObject,
    ) -> ffi::PySendResult {
        // SAFETY: the interpreter calls the slot of a type with an object of it, attached, and takes the reference.
        unsafe {
            let py = Python::assume_attached();
            let slf = Bound::from_borrowed_ptr(py, slf).cast_into_unchecked::<Op>();
            let value = if value.is_null() { ffi::Py_None() } else { value };
            match Op::drive(&slf, &Bound::from_borrowed_ptr(py, value)) {
                Ok(Driven::Yield(value)) => {
                    *result = value.into_ptr();
                    ffi::PySendResult::PYGEN_NEXT
                }
                Ok(Driven::Return(value)) => {
                    *result = value.into_ptr();
                    ffi::PySendResult::PYGEN_RETURN
                }
                Err(error) => {
                    error.restore(py);
                    *result = std::ptr::null_mut();
                    ffi::PySendResult::PYGEN_ERROR
                }
            }
        }
    }
    let class = py.get_type::<Op>();
    // SAFETY: the type is ours and not in use yet; as a heap type with `__await__` it has these slots of its own.
    unsafe {
        let slots = (*class.as_type_ptr()).tp_as_async;
        if slots.is_null() {
            return Err(errors::internal(py, "the type of operations has no asynchronous slots"));
        }
        (*slots).am_send = Some(am_send);
        ffi::PyType_Modified(class.as_type_ptr());
    }
    Ok(())
}

/// Python 3.9 drives everything as iterators.
#[cfg(not(Py_3_10))]
pub fn install(_py: Python<'_>) -> PyResult<()> {
    let _ = errors::internal;
    Ok(())
}
