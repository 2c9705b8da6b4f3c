//! Deadlines of operations, watched by one timer.

use std::sync::atomic::Ordering;
use std::time::Instant;

use pyo3::exceptions::PyValueError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBool, PyString};

use super::op::Op;
use super::{Session, Writing, errors};

static NO_TIMEOUT: PyOnceLock<Py<PyAny>> = PyOnceLock::new();

/// The object that stands for "for ever", where None stands for the connection's own timeout.
pub fn no_timeout(py: Python<'_>) -> PyResult<&Bound<'_, PyAny>> {
    NO_TIMEOUT
        .get_or_try_init(py, || Ok(py.import("builtins")?.getattr("object")?.call0()?.unbind()))
        .map(|object| object.bind(py))
}

/// The seconds of a timeout.
pub fn check_timeout(timeout: &Bound<'_, PyAny>) -> PyResult<f64> {
    let wrong = || -> PyResult<PyErr> {
        Ok(PyValueError::new_err(format!(
            "invalid timeout value: expected non-negative float (got {})",
            timeout.repr()?
        )))
    };
    if timeout.is_instance_of::<PyBool>() {
        return Err(wrong()?);
    }
    match timeout.extract::<f64>() {
        Ok(seconds) if !seconds.is_nan() => Ok(seconds),
        _ => match timeout.cast::<PyString>().ok().and_then(|text| text.to_str().ok()?.trim().parse().ok()) {
            Some(seconds) => Ok(seconds),
            None => Err(wrong()?),
        },
    }
}

#[pymethods]
impl Session {
    fn _on_timer(slf: &Bound<'_, Self>) -> PyResult<()> {
        Session::on_timer(slf)
    }

    /// The seconds of a timeout that was given, or of the connection's own; None for ever.
    fn _get_timeout(&self, py: Python<'_>, timeout: Option<Py<PyAny>>) -> PyResult<Option<f64>> {
        self.seconds(py, timeout.as_ref())
    }
}

impl Session {
    /// The seconds that an operation may take: what was said, or else the connection's `command_timeout`.
    pub fn seconds(&self, py: Python<'_>, timeout: Option<&Py<PyAny>>) -> PyResult<Option<f64>> {
        let given = timeout.map(|timeout| timeout.bind(py).clone()).filter(|timeout| !timeout.is_none());
        let seconds = match given {
            Some(timeout) if timeout.is(no_timeout(py)?) => None,
            Some(timeout) => Some(check_timeout(&timeout)?),
            None => match self.connection(py) {
                Some(connection) => {
                    connection.getattr(intern!(py, "_config"))?.getattr(intern!(py, "command_timeout"))?.extract()?
                }
                None => None,
            },
        };
        match seconds {
            Some(seconds) if seconds <= 0.0 => Err(errors::timeout(py, Some(seconds))),
            // A year is as good as for ever, and fits a Duration.
            Some(seconds) if seconds < 31_536_000.0 => Ok(Some(seconds)),
            _ => Ok(None),
        }
    }

    /// Sees to it that the operation ends when its time is up.
    pub(super) fn arm(
        slf: &Bound<'_, Self>,
        writing: &mut Writing,
        op: &Bound<'_, Op>,
        deadline: Instant,
    ) -> PyResult<()> {
        if op.get().armed() {
            return Ok(());
        }
        if writing.deadlines.len() > 2 * (writing.pending + writing.waiting.len()) + 16 {
            writing.deadlines.retain(|op| !op.get().is_over());
        }
        writing.deadlines.push(op.clone().unbind());
        Self::set_timer(slf, writing, deadline)
    }

    pub(super) fn set_timer(slf: &Bound<'_, Self>, writing: &mut Writing, deadline: Instant) -> PyResult<()> {
        let py = slf.py();
        if let Some((due, handle)) = &writing.timer {
            if *due <= deadline {
                return Ok(());
            }
            handle.call_method0(py, intern!(py, "cancel"))?;
        }
        let seconds = deadline.saturating_duration_since(Instant::now()).as_secs_f64();
        let call = slf.getattr(intern!(py, "_on_timer"))?;
        let handle = slf.get().loop_.call_method1(py, intern!(py, "call_later"), (seconds, call))?;
        writing.timer = Some((deadline, handle));
        Ok(())
    }

    /// Ends the operations whose time is up.
    pub(crate) fn on_timer(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let mut late = Vec::new();
        {
            let mut writing = this.writing()?;
            writing.timer = None;
            // The loop's clock is coarser than ours.
            let now = Instant::now() + std::time::Duration::from_millis(1);
            let mut next: Option<Instant> = None;
            writing.deadlines.retain(|op| {
                if op.get().is_over() {
                    return false;
                }
                let Some(deadline) = op.get().deadline() else { return false };
                if deadline <= now {
                    late.push(op.clone_ref(py));
                    return false;
                }
                next = Some(next.map_or(deadline, |next| next.min(deadline)));
                true
            });
            if let Some(next) = next {
                Self::set_timer(slf, &mut writing, next)?;
            }
        }
        let mut stuck = false;
        for op in late {
            // Who waits for a cancelled request to end, and does not see it, cannot use the connection any more.
            stuck |= this.cancelling.load(Ordering::Relaxed)
                && this.writing()?.waiting.iter().any(|waiting| waiting.op.is(&op));
            Self::abandon(slf, op.bind(py))?;
            op.get().finish(py, Err(errors::timeout(py, op.get().allowed())));
        }
        match this.connection(py) {
            Some(connection) if stuck => connection.call_method0(intern!(py, "terminate")).map(drop),
            _ => Ok(()),
        }
    }
}
