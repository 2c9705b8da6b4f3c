//! Rows as plain tuples, for those who ask for `record_class=tuple`.

use std::ptr;

use pyo3::ffi;
use pyo3::prelude::*;

use crate::codec::python::new_ref;

/// A tuple whose values are being filled in. Values left null become None.
pub struct NewTuple(*mut ffi::PyObject);

impl NewTuple {
    /// A tuple of `count` empty places.
    #[inline]
    pub fn new(py: Python<'_>, count: usize) -> PyResult<NewTuple> {
        let size = ffi::Py_ssize_t::try_from(count)?;
        // SAFETY: a new tuple, or null with an error. Its places are null, which traversal and destruction expect.
        let tuple = unsafe { ffi::PyTuple_New(size) };
        if tuple.is_null() {
            return Err(PyErr::fetch(py));
        }
        Ok(NewTuple(tuple))
    }

    /// The places of the values: each takes an owned reference.
    #[inline]
    pub fn fields(&mut self) -> &mut [*mut ffi::PyObject] {
        // SAFETY: the tuple has room for so many pointers, and nobody else has it yet.
        unsafe {
            let count = usize::try_from(ffi::Py_SIZE(self.0)).unwrap_or(0);
            let items: *mut *mut ffi::PyObject = (&raw mut (*self.0.cast::<ffi::PyTupleObject>()).ob_item).cast();
            std::slice::from_raw_parts_mut(items, count)
        }
    }

    /// The tuple; `tracked` when a value of it could be part of a reference cycle.
    #[inline]
    pub fn finish(mut self, py: Python<'_>, tracked: bool) -> Bound<'_, PyAny> {
        for place in self.fields() {
            if place.is_null() {
                // SAFETY: None is a valid object and the place owns the new reference.
                unsafe { *place = new_ref(ffi::Py_None()) };
            }
        }
        let tuple = std::mem::replace(&mut self.0, ptr::null_mut());
        // SAFETY: the tuple is whole and owned. The empty one is shared by all, and never tracked.
        unsafe {
            if !tracked && ffi::Py_SIZE(tuple) > 0 {
                ffi::PyObject_GC_UnTrack(tuple.cast());
            }
            Bound::from_owned_ptr(py, tuple)
        }
    }
}

impl Drop for NewTuple {
    fn drop(&mut self) {
        // SAFETY: the tuple is owned by this value alone, or has been handed on and the pointer is null.
        unsafe { ffi::Py_XDECREF(self.0) }
    }
}
