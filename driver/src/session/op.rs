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

#[derive(Debug, Default)]
enum Phase {
    #[default]
    New,
    /// The task waits for this future.
    Waiting(Py<PyAny>),
    /// No task waits: a thread looks for the outcome.
    Watched,
    /// A coroutine does the work.
    Inner(Py<PyAny>),
    Over,
}

/// What is inside an operation.
#[derive(Debug)]
pub struct State {
    phase: Phase,
    /// What is asked; taken apart when it starts, but for what a second try needs.
    pub request: Request,
    /// What came of it.
    pub outcome: Option<PyResult<Py<PyAny>>>,
    timeout: Option<Py<PyAny>>,
    /// When the time is up.
    pub deadline: Option<Instant>,
    /// The seconds of which the deadline was made.
    allowed: Option<f64>,
    /// Whether it must be started again, from the beginning.
    pub again: bool,
    /// Whether the session watches the deadline.
    armed: bool,
    /// What is to do the work from now on.
    inner: Option<Py<PyAny>>,
    /// The task for which a lease is asked.
    pub task: Option<Py<PyAny>>,
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
            Ok(state) => matches!(state.phase, Phase::New),
            Err(_) => false,
        };
        if forgotten {
            Python::attach(|py| self.complain(py));
        }
    }
}

/// What driving an operation comes to.
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
        let state = State {
            phase: Phase::New,
            request,
            outcome: None,
            timeout,
            deadline: None,
            allowed: None,
            again: false,
            armed: false,
            inner: None,
            task: None,
        };
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
            | Request::CopyIn(query) => Some(query.clone_ref(py).into_any()),
            _ => None,
        }
    }

    /// The seconds that it may take in all.
    pub fn allowed(&self) -> Option<f64> {
        self.state().allowed
    }

    /// What is inside.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The future that the task waits for.
    fn waits_for(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        match &self.state().phase {
            Phase::Waiting(future) => Some(future.clone_ref(py)),
            _ => None,
        }
    }

    /// Ends the operation, and wakes the task that waits for it.
    pub fn finish(&self, py: Python<'_>, outcome: PyResult<Py<PyAny>>) {
        {
            let mut state = self.state();
            if state.outcome.is_some() || matches!(state.phase, Phase::Over) {
                return;
            }
            state.outcome = Some(outcome);
        }
        self.wake(py);
    }

    /// Has a coroutine do the work from now on.
    pub fn go_on_with(&self, py: Python<'_>, coroutine: Py<PyAny>) {
        self.state().inner = Some(coroutine);
        self.wake(py);
    }

    /// Whether it is over.
    pub fn is_over(&self) -> bool {
        let state = self.state();
        state.outcome.is_some() || matches!(state.phase, Phase::Over)
    }

    /// When its time is up.
    pub fn deadline(&self) -> Option<Instant> {
        self.state().deadline
    }

    /// Whether the session watches the deadline already; from now on it does.
    pub fn armed(&self) -> bool {
        std::mem::replace(&mut self.state().armed, true)
    }

    /// The seconds that are left; None without a deadline.
    pub fn seconds_left(&self) -> Option<f64> {
        let deadline = self.state().deadline?;
        Some(deadline.saturating_duration_since(Instant::now()).as_secs_f64().max(0.000_001))
    }

    /// Whether it belongs to an operation that has begun, and so never waits for a turn of its own.
    pub fn passes(&self) -> bool {
        matches!(self.state().request, Request::CopyRead | Request::CopyEnd(_) | Request::Drain)
    }

    /// Has the operation started again by its task.
    pub fn retry(&self, py: Python<'_>) {
        self.state().again = true;
        self.wake(py);
    }

    fn wake(&self, py: Python<'_>) {
        if let Some(future) = self.waits_for(py) {
            // A cancelled future refuses the result; its task is being told of that.
            let _ = future.call_method1(py, pyo3::intern!(py, "set_result"), (py.None(),));
        }
    }

    /// The task does not wait any more. What came of the operation in the meantime, if anything, nobody will take.
    fn give_up(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let (outcome, inner) = {
            let mut state = this.state();
            (state.outcome.take(), state.inner.take())
        };
        if let Some(coroutine) = inner {
            coroutine.call_method0(py, pyo3::intern!(py, "close"))?;
        }
        match outcome {
            Some(Ok(value)) => Session::give_back(this.session.bind(py), this, value.bind(py)),
            Some(Err(_)) => Ok(()),
            None => Session::abandon(this.session.bind(py), slf),
        }
    }

    fn drive<'py>(slf: &Bound<'py, Self>, value: &Bound<'py, PyAny>) -> PyResult<Driven<'py>> {
        let py = slf.py();
        let this = slf.get();
        let mut state = this.state();
        match std::mem::take(&mut state.phase) {
            Phase::New => {
                let timeout = state.timeout.take();
                drop(state);
                this.limit(py, timeout)?;
                Self::begin(slf)
            }
            phase @ (Phase::Waiting(_) | Phase::Watched) => {
                drop(state);
                Self::resume(slf, phase)
            }
            Phase::Inner(coroutine) => {
                drop(state);
                let coroutine = coroutine.into_bound(py);
                let driven = send(&coroutine, value);
                if let Ok(Driven::Yield(_)) = driven {
                    this.state().phase = Phase::Inner(coroutine.unbind());
                } else {
                    this.state().phase = Phase::Over;
                }
                driven
            }
            Phase::Over => {
                state.phase = Phase::Over;
                Err(PyRuntimeError::new_err("cannot reuse already awaited operation"))
            }
        }
    }

    /// Goes on with an operation that a task or a thread has waited for.
    #[inline]
    fn resume<'py>(slf: &Bound<'py, Self>, phase: Phase) -> PyResult<Driven<'py>> {
        let py = slf.py();
        let this = slf.get();
        let mut state = this.state();
        if let Some(coroutine) = state.inner.take() {
            state.phase = Phase::Inner(coroutine);
            drop(state);
            return Self::drive(slf, py.None().bind(py));
        }
        if std::mem::take(&mut state.again) && state.outcome.is_none() {
            drop(state);
            return Self::begin(slf);
        }
        match state.outcome.take() {
            Some(Ok(value)) => {
                state.phase = Phase::Over;
                Ok(Driven::Return(value.into_bound(py)))
            }
            Some(Err(error)) => {
                state.phase = Phase::Over;
                drop(state);
                match Session::recover(this.session.bind(py), this, &error)? {
                    Some(coroutine) => {
                        this.state().phase = Phase::Inner(coroutine);
                        Self::drive(slf, py.None().bind(py))
                    }
                    None => Err(error),
                }
            }
            None => {
                // Driven without having been woken: go on waiting, for a future from now on.
                let future = match phase {
                    Phase::Waiting(future) => future.into_bound(py),
                    _ => this.session.get().new_future(py)?,
                };
                state.phase = Phase::Waiting(future.clone().unbind());
                Ok(Driven::Yield(block_on(future)?))
            }
        }
    }

    /// Takes down when its time is up.
    fn limit(&self, py: Python<'_>, timeout: Option<Py<PyAny>>) -> PyResult<()> {
        match self.session.get().seconds(py, timeout.as_ref()) {
            Ok(limit) => {
                let mut state = self.state();
                state.deadline = limit.map(|seconds| Instant::now() + Duration::from_secs_f64(seconds));
                state.allowed = limit;
                Ok(())
            }
            Err(error) => {
                self.state().phase = Phase::Over;
                Err(error)
            }
        }
    }

    /// Starts it for a thread that looks for the outcome by itself; false when it is to be driven instead.
    pub(crate) fn start_watched(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let this = slf.get();
        let timeout = {
            let mut state = this.state();
            if !matches!(state.phase, Phase::New) {
                return Ok(false);
            }
            state.timeout.take()
        };
        this.limit(slf.py(), timeout)?;
        let (phase, started) = match Session::start(this.session.bind(slf.py()), slf) {
            Ok(Started::Waits) => (Phase::Watched, Ok(true)),
            Ok(Started::Done(value)) => {
                this.state().outcome = Some(Ok(value));
                (Phase::Watched, Ok(true))
            }
            Ok(Started::Inner(coroutine)) => (Phase::Inner(coroutine), Ok(false)),
            Err(error) => (Phase::Over, Err(error)),
        };
        this.state().phase = phase;
        started
    }

    /// Whether there is something to go on with.
    pub(crate) fn is_woken(&self) -> bool {
        let state = self.state();
        state.outcome.is_some() || state.inner.is_some() || state.again
    }

    fn begin<'py>(slf: &Bound<'py, Self>) -> PyResult<Driven<'py>> {
        let py = slf.py();
        let this = slf.get();
        match Session::start(this.session.bind(py), slf) {
            Ok(Started::Waits) => {
                let mut state = this.state();
                if let Some(outcome) = state.outcome.take() {
                    state.phase = Phase::Over;
                    return outcome.map(|value| Driven::Return(value.into_bound(py)));
                }
                let future = this.session.get().new_future(py)?;
                state.phase = Phase::Waiting(future.clone().unbind());
                Ok(Driven::Yield(block_on(future)?))
            }
            Ok(Started::Done(value)) => {
                this.state().phase = Phase::Over;
                Ok(Driven::Return(value.into_bound(py)))
            }
            Ok(Started::Inner(coroutine)) => {
                this.state().phase = Phase::Inner(coroutine);
                Self::drive(slf, py.None().bind(py))
            }
            Err(error) => {
                this.state().phase = Phase::Over;
                Err(error)
            }
        }
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

/// What a coroutine's `send` or `throw` comes to.
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
        let py = slf.py();
        let this = slf.get();
        let phase = std::mem::take(&mut this.state().phase);
        match phase {
            Phase::Inner(coroutine) => {
                let coroutine = coroutine.into_bound(py);
                let result = match (value, traceback) {
                    (None, None) => coroutine.call_method1("throw", (kind,)),
                    _ => coroutine.call_method1("throw", (kind, value, traceback)),
                };
                let driven = returned(py, result);
                let next =
                    if let Ok(Driven::Yield(_)) = driven { Phase::Inner(coroutine.unbind()) } else { Phase::Over };
                this.state().phase = next;
                as_generator(driven?)
            }
            phase => {
                this.state().phase = Phase::Over;
                if let Phase::Waiting(_) | Phase::Watched = phase {
                    Op::give_up(slf)?;
                }
                let instance = match value {
                    Some(value) if !value.is_none() && value.is_instance(kind).unwrap_or(false) => value.clone(),
                    _ if kind.is_instance_of::<PyType>() => kind.call0()?,
                    _ => kind.clone(),
                };
                Err(PyErr::from_value(instance))
            }
        }
    }

    fn close(slf: &Bound<'_, Self>) -> PyResult<()> {
        let this = slf.get();
        let phase = std::mem::replace(&mut this.state().phase, Phase::Over);
        match phase {
            Phase::Waiting(_) | Phase::Watched => Op::give_up(slf),
            Phase::Inner(coroutine) => coroutine.call_method0(slf.py(), "close").map(drop),
            _ => Ok(()),
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
