//! Whose turn it is: a transaction's block has the connection to itself, for the tasks of its context.
//!
//! A block sets the context variable [`variable`] to its lease in front of those it is inside of. Tasks that gather
//! and the like make inside the block inherit it and belong to the block; all others wait until it ends, in the order
//! in which they came. A lease whose task is over without having given it back (a fixture that began a block for the
//! test after it) holds nobody up.

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyTuple;
use std::sync::atomic::Ordering;

use super::op::{Op, Request};
use super::{Session, Writing};

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

/// An operation that waits, and the lease under which it was asked.
pub(crate) struct Waiting {
    pub op: Py<Op>,
    held: Option<Py<PyAny>>,
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
    let call = CURRENT_TASK
        .get_or_try_init(py, || PyResult::Ok(py.import("asyncio")?.getattr("current_task")?.unbind()))?;
    call.call0(py)
}

/// Whether the current context is inside the block of this lease.
fn holds(py: Python<'_>, token: &Py<PyAny>) -> PyResult<bool> {
    let mut value = std::ptr::null_mut();
    // SAFETY: the variable is one; the value is a new reference, or null without one.
    let mut chain = unsafe {
        if ffi::PyContextVar_Get(variable(py)?.as_ptr(), ffi::Py_None(), &mut value) < 0 {
            return Err(PyErr::fetch(py));
        }
        Bound::from_owned_ptr_or_opt(py, value)
    };
    while let Some(link) = chain {
        let Ok(link) = link.cast_into::<PyTuple>() else { return Ok(false) };
        if link.get_item(0)?.is(token) {
            return Ok(true);
        }
        chain = Some(link.get_item(1)?);
    }
    Ok(false)
}

impl Session {
    /// Whether an operation asked for now in the current context may be sent; if not it is put among the waiting.
    pub(crate) fn admit(
        &self,
        py: Python<'_>,
        writing: &mut Writing,
        op: &Bound<'_, Op>,
        lease: bool,
    ) -> PyResult<bool> {
        self.drop_dead_lease(py, writing)?;
        let held = match &writing.lease {
            Some(lease) if holds(py, &lease.token)? => Some(lease.token.clone_ref(py)),
            _ => None,
        };
        let mine = held.is_some();
        let free = writing.exclusive.is_none()
            && !self.cancelling.load(Ordering::Relaxed)
            && (writing.lease.is_none() || (mine && !lease))
            && (mine || writing.waiting.is_empty());
        if !free {
            writing.waiting.push_back(Waiting { op: op.clone().unbind(), held });
        }
        Ok(free)
    }

    /// Whether nobody has the connection, waits for it, or is being cancelled.
    pub(crate) fn is_free(&self, py: Python<'_>, writing: &mut Writing) -> PyResult<bool> {
        self.drop_dead_lease(py, writing)?;
        Ok(writing.lease.is_none()
            && writing.exclusive.is_none()
            && writing.waiting.is_empty()
            && !self.cancelling.load(Ordering::Relaxed))
    }

    /// Forgets a lease whose task is over.
    fn drop_dead_lease(&self, py: Python<'_>, writing: &mut Writing) -> PyResult<()> {
        if let Some(held) = &writing.lease
            && held.task.call_method0(py, intern!(py, "done"))?.is_truthy(py)?
        {
            writing.lease = None;
        }
        Ok(())
    }

    /// Gives the current task's context the lease.
    pub(crate) fn grant(&self, py: Python<'_>, writing: &mut Writing, task: Option<Py<PyAny>>) -> PyResult<Py<PyAny>> {
        let token = py.get_type::<PyAny>().call0()?.unbind();
        let task = match task {
            Some(task) => task,
            None => current_task(py)?,
        };
        writing.lease = Some(Lease { token: token.clone_ref(py), task });
        Ok(token)
    }

    /// Lets those go on who waited and need not any more.
    pub(crate) fn pump(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        loop {
            let ready = {
                let mut writing = this.writing()?;
                if writing.exclusive.is_some() || this.cancelling.load(Ordering::Relaxed) {
                    return Ok(());
                }
                let position = match &writing.lease {
                    None => (!writing.waiting.is_empty()).then_some(0),
                    Some(lease) => writing
                        .waiting
                        .iter()
                        .position(|waiting| waiting.held.as_ref().is_some_and(|held| held.is(&lease.token))),
                };
                position.and_then(|position| writing.waiting.remove(position))
            };
            let Some(waiting) = ready else { return Ok(()) };
            let op = waiting.op.bind(py);
            Session::start_now(slf, op);
        }
    }
}

/// The lease is a request like others, but is granted rather than sent.
pub(crate) fn is_lease(op: &Op) -> bool {
    matches!(op.state().request, Request::Lease)
}
