//! Whose turn it is: a transaction's block has the connection to itself, for the tasks of its context.
//!
//! A block sets the context variable [`variable`] to its lease in front of those it is inside of. Tasks that gather
//! and the like make inside the block inherit it and belong to the block; all others wait until it ends, in the order
//! in which they came. A block within a block, a savepoint, has the connection in the same way: of the outer block's
//! tasks, those that were not made inside of it wait for it too, so that savepoints of different tasks never overlap.
//! A lease whose task is over without having given it back (a fixture that began a block for the test after it) holds
//! nobody up.

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use smallvec::SmallVec;
use std::sync::atomic::Ordering;

use super::deadline::no_timeout;
use super::op::Op;
use super::request::Request;
use super::{Exclusive, Session, Writing, errors};

/// One block's right to the connection.
pub(crate) struct Lease {
    token: Py<PyAny>,
    task: Py<PyAny>,
}

impl Lease {
    /// Whether it is the one of this token.
    pub fn is(&self, token: &Bound<'_, PyAny>) -> bool {
        self.token.is(token)
    }
}

/// The leases of a context, the innermost one first.
type Chain = SmallVec<[Py<PyAny>; 2]>;

/// An operation that waits, and the leases under which it was asked.
pub(crate) struct Waiting {
    pub op: Py<Op>,
    held: Chain,
}

static VARIABLE: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The context variable of leases: None, or a lease and the value outside of its block.
pub fn variable(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    VARIABLE
        .get_or_try_init(py, || {
            let class = py.import("contextvars")?.getattr("ContextVar")?;
            let keywords = pyo3::types::PyDict::new(py);
            keywords.set_item("default", py.None())?;
            PyResult::Ok(class.call(("howdah.leases",), Some(&keywords))?.unbind())
        })
        .map(|variable| variable.bind(py))
}

static CURRENT_TASK: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The task that runs.
pub(crate) fn current_task(py: Python<'_>) -> PyResult<Py<PyAny>> {
    let call =
        CURRENT_TASK.get_or_try_init(py, || PyResult::Ok(py.import("asyncio")?.getattr("current_task")?.unbind()))?;
    call.call0(py)
}

/// The leases that the current context has, or had.
fn chain(py: Python<'_>) -> PyResult<Chain> {
    let mut value = std::ptr::null_mut();
    // SAFETY: the variable is one; the value is a new reference, or null without one.
    let mut rest = unsafe {
        if ffi::PyContextVar_Get(variable(py)?.as_ptr(), ffi::Py_None(), &mut value) < 0 {
            return Err(PyErr::fetch(py));
        }
        Bound::from_owned_ptr_or_opt(py, value)
    };
    let mut found = Chain::new();
    while let Some(Ok(link)) = rest.map(Bound::cast_into::<PyTuple>) {
        found.push(link.get_item(0)?.unbind());
        rest = Some(link.get_item(1)?);
    }
    Ok(found)
}

/// Whether one of these leases is the one that has the connection now.
fn has_turn(leases: &[Lease], held: &Chain) -> bool {
    leases.last().is_none_or(|lease| held.iter().any(|token| token.is(&lease.token)))
}

impl Session {
    /// Whether an operation asked for now in the current context may be sent; if not it is put among the waiting.
    pub(crate) fn admit(&self, py: Python<'_>, writing: &mut Writing, op: &Bound<'_, Op>) -> PyResult<bool> {
        match self.must_wait(py, writing)? {
            Some(held) => {
                self.refuse_own_copy(py, writing)?;
                writing.waiting.push_back(Waiting { op: op.clone().unbind(), held });
                Ok(false)
            }
            None => Ok(true),
        }
    }

    /// Refuses what is asked by the task whose COPY the connection is busy with: it would wait for itself.
    fn refuse_own_copy(&self, py: Python<'_>, writing: &Writing) -> PyResult<()> {
        let Some(copier) = writing.copier.as_ref().filter(|_| writing.exclusive == Some(Exclusive::CopyIn)) else {
            return Ok(());
        };
        if copier.is_none(py) || !current_task(py)?.is(copier) {
            return Ok(());
        }
        let hint = "Read what is to be copied before the COPY, or over another connection.";
        let message = "cannot perform operation: another operation is in progress, the COPY whose data is being made";
        Err(errors::with_hint(py, "InterfaceError", message, hint))
    }

    /// What is asked in the current context can be sent: `None`; or has to wait, under these leases.
    fn must_wait(&self, py: Python<'_>, writing: &mut Writing) -> PyResult<Option<Chain>> {
        let open = writing.exclusive.is_none() && !self.cancelling.load(Ordering::Relaxed);
        if writing.leases.is_empty() && writing.waiting.is_empty() {
            return if open { Ok(None) } else { chain(py).map(Some) };
        }
        self.forget_the_dead(py, writing)?;
        let held = chain(py)?;
        // Who is inside of the block does not wait behind those who wait for its end.
        let mine = !writing.leases.is_empty() && has_turn(&writing.leases, &held);
        let free = open && (mine || (writing.leases.is_empty() && writing.waiting.is_empty()));
        Ok((!free).then_some(held))
    }

    /// The lease for the current task, if it needs not be waited for.
    pub(crate) fn grant_now(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        let mut writing = self.writing()?;
        match self.must_wait(py, &mut writing)? {
            Some(_) => Ok(None),
            None => self.grant(py, &mut writing, current_task(py)?).map(Some),
        }
    }

    /// Drops the leases whose tasks are over.
    fn forget_the_dead(&self, py: Python<'_>, writing: &mut Writing) -> PyResult<()> {
        let mut place = 0;
        while let Some(lease) = writing.leases.get(place) {
            if lease.task.call_method0(py, intern!(py, "done"))?.is_truthy(py)? {
                writing.leases.remove(place);
            } else {
                place += 1;
            }
        }
        Ok(())
    }

    /// Gives a task the lease.
    pub(crate) fn grant(&self, py: Python<'_>, writing: &mut Writing, task: Py<PyAny>) -> PyResult<Py<PyAny>> {
        let token = py.get_type::<PyAny>().call0()?.unbind();
        writing.leases.push(Lease { token: token.clone_ref(py), task });
        Ok(token)
    }

    /// Starts the operations that no longer have to wait.
    pub(crate) fn pump(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        loop {
            let ready = {
                let mut writing = this.writing()?;
                if writing.waiting.is_empty() || writing.exclusive.is_some() || this.cancelling.load(Ordering::Relaxed)
                {
                    return Ok(());
                }
                this.forget_the_dead(py, &mut writing)?;
                let leases = &writing.leases;
                let position = writing.waiting.iter().position(|waiting| has_turn(leases, &waiting.held));
                position.and_then(|position| writing.waiting.remove(position))
            };
            let Some(waiting) = ready else { return Ok(()) };
            let op = waiting.op.bind(py);
            Session::start_now(slf, op);
        }
    }
}

#[pymethods]
impl Session {
    /// Waits until the connection belongs to the caller's context alone; gives the lease.
    #[pyo3(signature = (task=None))]
    fn lease<'py>(slf: &Bound<'py, Self>, task: Option<Py<PyAny>>) -> PyResult<Bound<'py, Op>> {
        let task = match task {
            Some(task) => task,
            None => current_task(slf.py())?,
        };
        Op::make(slf, Request::Lease(task), Some(no_timeout(slf.py())?.clone().unbind()))
    }

    /// The lease for the current task, if nothing stands in its way; else None.
    fn lease_now(&self, py: Python<'_>) -> PyResult<Option<Py<PyAny>>> {
        self.check_open(py)?;
        self.grant_now(py)
    }

    /// Gives a lease back.
    pub(crate) fn unlease(slf: &Bound<'_, Self>, token: &Bound<'_, PyAny>) -> PyResult<()> {
        {
            let mut writing = slf.get().writing()?;
            if let Some(place) = writing.leases.iter().position(|lease| lease.is(token)) {
                // With those inside of it.
                writing.leases.truncate(place);
            }
        }
        Session::pump(slf)
    }

    /// Waits until nothing is being cancelled and nobody else has the connection.
    #[pyo3(signature = (timeout=None))]
    fn turn<'py>(slf: &Bound<'py, Self>, timeout: Option<Py<PyAny>>) -> PyResult<Bound<'py, Op>> {
        Op::make(slf, Request::Nothing, timeout)
    }
}
