//! Dead records kept for reuse, by their number of columns.
//!
//! A result of a thousand rows frees a thousand records, which the next result needs again; taking them from here
//! saves the allocator's work and does not count as an allocation for the garbage collector. Builds without the
//! global lock go to the allocator instead.

use pyo3::ffi;
use pyo3::prelude::*;

#[cfg(not(Py_GIL_DISABLED))]
mod list {
    use pyo3::ffi;
    use std::cell::UnsafeCell;

    /// Records of at most this many columns are kept.
    const COLUMNS: usize = 16;
    /// Records kept for each number of columns; CPython keeps 2,000 tuples of each length.
    const EACH: usize = 2048;

    struct Lists(UnsafeCell<[Vec<*mut ffi::PyObject>; COLUMNS + 1]>);
    // SAFETY: only touched by threads that hold the global interpreter lock, for moments in which it is not released.
    unsafe impl Sync for Lists {}
    static LISTS: Lists = Lists(UnsafeCell::new([const { Vec::new() }; COLUMNS + 1]));

    /// # Safety
    /// The caller holds the global lock.
    #[inline]
    pub unsafe fn pop(size: ffi::Py_ssize_t) -> Option<*mut ffi::PyObject> {
        // SAFETY: as promised; the reference ends here.
        unsafe { (*LISTS.0.get()).get_mut(usize::try_from(size).ok()?)?.pop() }
    }

    /// # Safety
    /// The caller holds the global lock and owns the memory of a dead record.
    #[inline]
    pub unsafe fn push(object: *mut ffi::PyObject, size: ffi::Py_ssize_t) -> bool {
        // SAFETY: as promised; the reference ends here.
        let list = unsafe { (*LISTS.0.get()).get_mut(usize::try_from(size).unwrap_or(usize::MAX)) };
        match list {
            Some(list) if list.len() < EACH => {
                list.push(object);
                true
            }
            _ => false,
        }
    }
}

/// An untracked object of the class `Record` with room for `size` values, its own fields not set.
///
/// # Safety
/// `class` is the class `Record`, and the thread is attached.
#[inline]
pub unsafe fn take(class: *mut ffi::PyTypeObject, size: ffi::Py_ssize_t) -> PyResult<*mut ffi::PyObject> {
    // SAFETY: an object from the list has room for exactly `size` values and begins a new life here.
    unsafe {
        #[cfg(not(Py_GIL_DISABLED))]
        if let Some(object) = list::pop(size) {
            return Ok(ffi::PyObject_InitVar(object.cast(), class, size).cast());
        }
        let object = ffi::PyObject_GC_NewVar::<ffi::PyObject>(class, size);
        if object.is_null() { Err(PyErr::fetch(Python::assume_attached())) } else { Ok(object.cast()) }
    }
}

/// Takes the memory of a dead record whose values are given up: to keep it, or to free it.
///
/// # Safety
/// `object` is dead and untracked; `plain` is the class `Record`.
pub unsafe fn give(object: *mut ffi::PyObject, plain: *mut ffi::PyTypeObject) {
    // SAFETY: the type's reference that the object held is given up exactly once, after its last use.
    unsafe {
        let class = ffi::Py_TYPE(object);
        #[cfg(not(Py_GIL_DISABLED))]
        if class == plain && list::push(object, ffi::Py_SIZE(object)) {
            ffi::Py_DECREF(class.cast());
            return;
        }
        #[cfg(Py_GIL_DISABLED)]
        let _ = plain;
        match (*class).tp_free {
            Some(free) => free(object.cast()),
            None => ffi::PyObject_GC_Del(object.cast()),
        }
        ffi::Py_DECREF(class.cast());
    }
}
