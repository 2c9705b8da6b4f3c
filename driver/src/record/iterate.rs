//! The iterators over a record's values and items.
//!
//! Values are what loops over rows take, so their iterator is a type of C's kind, which costs a value no more than a
//! tuple's iterator does.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyTuple, PyType};

use super::{RecordObject, refuse_new};
use crate::codec::python::new_ref;

/// The layout of an iterator over values.
#[repr(C)]
struct Values {
    base: ffi::PyObject,
    /// The record, owned; null when it was let go.
    record: *mut ffi::PyObject,
    /// The position that is next.
    next: AtomicUsize,
}

static VALUES: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// An iterator over the values of a record.
///
/// # Safety
/// `record` is a live record.
pub unsafe fn over_values(py: Python<'_>, record: *mut ffi::PyObject) -> PyResult<*mut ffi::PyObject> {
    let class: *mut ffi::PyTypeObject = VALUES.get_or_try_init(py, || create(py))?.as_ptr().cast();
    // SAFETY: the new object has the layout of its class, and all its fields are set before it is given out.
    unsafe {
        let object = ffi::PyObject_New::<Values>(class);
        if object.is_null() {
            return Err(PyErr::fetch(py));
        }
        (*object).record = new_ref(record);
        (&raw mut (*object).next).write(AtomicUsize::new(0));
        Ok(object.cast())
    }
}

fn create(py: Python<'_>) -> PyResult<Py<PyType>> {
    // The type keeps a pointer to its methods for as long as the process lives.
    let methods = Box::leak(Box::new([
        ffi::PyMethodDef {
            ml_name: c"__length_hint__".as_ptr(),
            ml_meth: ffi::PyMethodDefPointer { PyCFunction: length_hint },
            ml_flags: ffi::METH_NOARGS,
            ml_doc: c"How many values are left.".as_ptr(),
        },
        // SAFETY: all zeroes are the end mark of a list of methods.
        unsafe { std::mem::zeroed() },
    ]));
    let slot = |slot: c_int, pfunc: *mut c_void| ffi::PyType_Slot { slot, pfunc };
    let mut slots = [
        slot(ffi::Py_tp_dealloc, dealloc as *mut c_void),
        slot(ffi::Py_tp_iter, ffi::PyObject_SelfIter as *mut c_void),
        slot(ffi::Py_tp_iternext, next as *mut c_void),
        slot(ffi::Py_tp_new, refuse_new as *mut c_void),
        slot(ffi::Py_tp_methods, methods.as_mut_ptr().cast()),
        slot(0, ptr::null_mut()),
    ];
    let mut spec = ffi::PyType_Spec {
        name: c"howdah.RecordIterator".as_ptr(),
        basicsize: c_int::try_from(size_of::<Values>())?,
        itemsize: 0,
        flags: u32::try_from(ffi::Py_TPFLAGS_DEFAULT)?,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the spec is complete, and what it points to outlives the call (its methods outlive the type).
    let class = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&mut spec))? };
    Ok(class.cast_into::<PyType>().map_err(PyErr::from)?.unbind())
}

unsafe extern "C" fn next(this: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: `this` is such an iterator, which owns its record; the reference given out is new.
    unsafe {
        let this: *mut Values = this.cast();
        if (*this).record.is_null() {
            return ptr::null_mut();
        }
        // Threads that share an iterator may see a value twice, as with a tuple's; never one that is not there.
        let position = (*this).next.load(Ordering::Relaxed);
        match RecordObject::items((*this).record.cast()).get(position) {
            Some(&value) => {
                (*this).next.store(position + 1, Ordering::Relaxed);
                new_ref(value)
            }
            None => {
                // At its end it lets the record go, as a tuple's does: there too not where threads run beside each other.
                #[cfg(not(Py_GIL_DISABLED))]
                ffi::Py_XDECREF(std::mem::replace(&mut (*this).record, ptr::null_mut()));
                ptr::null_mut()
            }
        }
    }
}

unsafe extern "C" fn length_hint(this: *mut ffi::PyObject, _none: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as for `next`.
    unsafe {
        let this: *mut Values = this.cast();
        let record = (*this).record;
        let count = if record.is_null() { 0 } else { RecordObject::items(record.cast()).len() };
        ffi::PyLong_FromSize_t(count.saturating_sub((*this).next.load(Ordering::Relaxed)))
    }
}

unsafe extern "C" fn dealloc(this: *mut ffi::PyObject) {
    // SAFETY: the interpreter gives a dead iterator: its record and its type are given up once.
    unsafe {
        let class = ffi::Py_TYPE(this);
        ffi::Py_XDECREF((*this.cast::<Values>()).record);
        match (*class).tp_free {
            Some(free) => free(this.cast()),
            None => ffi::PyObject_Free(this.cast()),
        }
        ffi::Py_DECREF(class.cast());
    }
}

/// Iterates over the pairs of name and value of a record.
#[pyclass(frozen, module = "howdah")]
pub struct RecordItems {
    /// The iterator over the values.
    values: Py<PyAny>,
    keys: Py<PyTuple>,
    next: AtomicUsize,
}

impl RecordItems {
    /// An iterator at the start of a record.
    ///
    /// # Safety
    /// `record` is a live record.
    pub unsafe fn new(py: Python<'_>, record: *mut ffi::PyObject, keys: Py<PyTuple>) -> PyResult<Self> {
        // SAFETY: what comes back is a new reference.
        let values = unsafe { Bound::from_owned_ptr(py, over_values(py, record)?).unbind() };
        Ok(Self { values, keys, next: AtomicUsize::new(0) })
    }
}

#[pymethods]
impl RecordItems {
    fn __iter__(slf: PyRef<'_, Self>) -> PyRef<'_, Self> {
        slf
    }

    fn __next__<'py>(&self, py: Python<'py>) -> Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
        // SAFETY: the object is such an iterator; the reference is new, or null at the end.
        let value = unsafe { Bound::from_owned_ptr_or_opt(py, next(self.values.as_ptr()))? };
        let position = self.next.fetch_add(1, Ordering::Relaxed);
        Some((self.keys.bind(py).get_item(position).ok()?, value))
    }

    fn __length_hint__(&self, py: Python<'_>) -> PyResult<usize> {
        // SAFETY: the object is such an iterator; the reference is new, or null with an error.
        unsafe { Bound::from_owned_ptr_or_err(py, length_hint(self.values.as_ptr(), ptr::null_mut()))?.extract() }
    }
}
