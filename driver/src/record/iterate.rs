//! The iterators over a record's values and items.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Iterates over the values of a record.
#[pyclass(frozen, module = "howdah")]
pub struct RecordIterator {
    record: Py<PyAny>,
    next: AtomicUsize,
}

impl RecordIterator {
    /// An iterator at the start of `record`.
    pub fn new(record: Py<PyAny>) -> Self {
        Self { record, next: AtomicUsize::new(0) }
    }
}

/// The number of values of a record.
fn length(py: Python<'_>, record: &Py<PyAny>) -> usize {
    // SAFETY: only records are given to these iterators, and they are of variable size.
    usize::try_from(unsafe { ffi::Py_SIZE(record.bind(py).as_ptr()) }).unwrap_or(0)
}

#[pymethods]
impl RecordIterator {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        let position = self.next.load(Ordering::Relaxed);
        if position >= length(py, &self.record) {
            return None;
        }
        self.next.store(position + 1, Ordering::Relaxed);
        self.record.bind(py).get_item(position).ok().map(Bound::unbind)
    }

    fn __length_hint__(&self, py: Python<'_>) -> usize {
        length(py, &self.record).saturating_sub(self.next.load(Ordering::Relaxed))
    }
}

/// Iterates over the pairs of name and value of a record.
#[pyclass(frozen, module = "howdah")]
pub struct RecordItems {
    record: Py<PyAny>,
    keys: Py<PyTuple>,
    next: AtomicUsize,
}

impl RecordItems {
    /// An iterator at the start of `record`.
    pub fn new(record: Py<PyAny>, keys: Py<PyTuple>) -> Self {
        Self { record, keys, next: AtomicUsize::new(0) }
    }
}

#[pymethods]
impl RecordItems {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        if self.__length_hint__(py) == 0 {
            return None;
        }
        let position = self.next.fetch_add(1, Ordering::Relaxed);
        Some((self.keys.bind(py).get_item(position).ok()?, self.record.bind(py).get_item(position).ok()?))
    }

    fn __length_hint__(&self, py: Python<'_>) -> usize {
        let whole = length(py, &self.record).min(self.keys.bind(py).len());
        whole.saturating_sub(self.next.load(Ordering::Relaxed))
    }
}
