//! The iterators over a record's values and items.

use std::sync::{Mutex, MutexGuard};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;

/// A record on its way, until its end; and the position that is next.
struct Walk(Mutex<(Option<Py<PyAny>>, usize)>);

impl Walk {
    fn new(record: Py<PyAny>) -> Self {
        Self(Mutex::new((Some(record), 0)))
    }

    fn state(&self) -> MutexGuard<'_, (Option<Py<PyAny>>, usize)> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The next value and its position; the record is let go at the end.
    fn next<'py>(&self, py: Python<'py>) -> Option<(usize, Bound<'py, PyAny>)> {
        let mut state = self.state();
        let (record, position) = (state.0.as_ref()?.bind(py).clone(), state.1);
        if position >= length(&record) {
            state.0 = None;
            drop(state);
            return None;
        }
        state.1 += 1;
        drop(state);
        Some((position, record.get_item(position).ok()?))
    }

    fn left(&self, py: Python<'_>) -> usize {
        let state = self.state();
        state.0.as_ref().map_or(0, |record| length(record.bind(py)).saturating_sub(state.1))
    }
}

/// The number of values of a record.
fn length(record: &Bound<'_, PyAny>) -> usize {
    // SAFETY: only records are given to these iterators, and they are of variable size.
    usize::try_from(unsafe { ffi::Py_SIZE(record.as_ptr()) }).unwrap_or(0)
}

/// Iterates over the values of a record.
#[pyclass(frozen, module = "howdah")]
pub struct RecordIterator(Walk);

impl RecordIterator {
    /// An iterator at the start of `record`.
    pub fn new(record: Py<PyAny>) -> Self {
        Self(Walk::new(record))
    }
}

#[pymethods]
impl RecordIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyAny>> {
        self.0.next(py).map(|(_, value)| value)
    }

    fn __length_hint__(&self, py: Python<'_>) -> usize {
        self.0.left(py)
    }
}

/// Iterates over the pairs of name and value of a record.
#[pyclass(frozen, module = "howdah")]
pub struct RecordItems {
    walk: Walk,
    keys: Py<PyTuple>,
}

impl RecordItems {
    /// An iterator at the start of `record`.
    pub fn new(record: Py<PyAny>, keys: Py<PyTuple>) -> Self {
        Self { walk: Walk::new(record), keys }
    }
}

#[pymethods]
impl RecordItems {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        let (position, value) = self.walk.next(py)?;
        Some((self.keys.bind(py).get_item(position).ok()?, value))
    }

    fn __length_hint__(&self, py: Python<'_>) -> usize {
        self.walk.left(py)
    }
}
