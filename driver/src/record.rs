//! `Record`: one row, read by position and by column name.
//!
//! A record is laid out as CPython lays out a tuple, with its hash and its descriptor before the items, so that a row
//! costs one allocation. It is handed to the garbage collector only when one of its values could be part of a cycle:
//! rows of numbers, text and dates, which are most rows, never are. Records of few columns are kept for reuse when
//! they die, as CPython keeps tuples.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;

use pyo3::exceptions::{PyKeyError, PyRuntimeError, PySystemError, PyTypeError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

pub mod form;
mod free_list;
pub mod iterate;
pub mod tuple;

use iterate::{RecordItems, over_values};

use crate::codec::python::new_ref;

/// The names of a row's columns, shared by all rows of a statement.
#[pyclass(frozen, module = "howdah._core", name = "RecordDescriptor")]
pub struct Descriptor {
    /// Column name to position; of columns of one name, the last.
    pub mapping: Py<PyDict>,
    /// Column names in order.
    pub keys: Py<PyTuple>,
}

#[pymethods]
impl Descriptor {
    #[new]
    #[pyo3(signature = (mapping, keys, /))]
    fn new(mapping: Py<PyDict>, keys: Py<PyTuple>) -> Self {
        Self { mapping, keys }
    }

    /// Makes a record of `values`.
    fn make_record<'py>(
        slf: &Bound<'py, Self>,
        class: &Bound<'py, PyType>,
        values: &Bound<'py, PyTuple>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let mut row = NewRecord::new(slf.py(), class, slf, values.len())?;
        for (place, value) in row.fields().iter_mut().zip(values.iter()) {
            *place = value.into_ptr();
        }
        Ok(row.finish(slf.py(), true))
    }
}

impl Descriptor {
    /// The descriptor of columns of these names.
    pub fn of_names<'py>(py: Python<'py>, names: &[Bound<'py, PyString>]) -> PyResult<Py<Self>> {
        let mapping = PyDict::new(py);
        for (position, name) in names.iter().enumerate() {
            mapping.set_item(name, position)?;
        }
        Py::new(py, Self { mapping: mapping.unbind(), keys: PyTuple::new(py, names)?.unbind() })
    }
}

/// The layout of a record.
#[repr(C)]
struct RecordObject {
    base: ffi::PyVarObject,
    /// The hash, or -1 when it was never asked for.
    hash: ffi::Py_hash_t,
    /// A `Descriptor`.
    desc: *mut ffi::PyObject,
    /// The first of as many values as `base` says; all of them are owned, none is null once a record is out.
    items: [*mut ffi::PyObject; 0],
}

impl RecordObject {
    /// The values.
    ///
    /// # Safety
    /// `this` points to a record, alive for `'a`.
    unsafe fn items<'a>(this: *mut Self) -> &'a [*mut ffi::PyObject] {
        // SAFETY: the object was allocated with room for `ob_size` pointers after the fixed part.
        unsafe {
            let count = usize::try_from(ffi::Py_SIZE(this.cast())).unwrap_or(0);
            std::slice::from_raw_parts((&raw const (*this).items).cast(), count)
        }
    }
}

/// A record whose values are being filled in. Values left null become None.
pub struct NewRecord(*mut RecordObject);

impl NewRecord {
    /// A record of `count` empty values, of the class `Record` or one derived from it.
    #[inline]
    pub fn new(
        py: Python<'_>,
        class: &Bound<'_, PyType>,
        desc: &Bound<'_, Descriptor>,
        count: usize,
    ) -> PyResult<NewRecord> {
        let size = ffi::Py_ssize_t::try_from(count)?;
        let plain = record_type(py)?;
        // SAFETY: both ways of allocation give an object of the class with room for `count` items; the fields that
        // `dealloc` reads are set before anything else can fail.
        unsafe {
            let object: *mut RecordObject = if class.as_ptr() == plain.cast() {
                free_list::take(plain, size)?.cast()
            } else {
                let class: *mut ffi::PyTypeObject = class.as_ptr().cast();
                let alloc = (*class).tp_alloc.unwrap_or(ffi::PyType_GenericAlloc);
                let object = alloc(class, size);
                if object.is_null() {
                    return Err(PyErr::fetch(py));
                }
                ffi::PyObject_GC_UnTrack(object.cast());
                object.cast()
            };
            (*object).hash = -1;
            (*object).desc = desc.clone().into_ptr();
            let items: *mut *mut ffi::PyObject = (&raw mut (*object).items).cast();
            for place in 0..count {
                *items.add(place) = ptr::null_mut();
            }
            Ok(NewRecord(object))
        }
    }

    /// The places of the values: each takes an owned reference.
    #[inline]
    pub fn fields(&mut self) -> &mut [*mut ffi::PyObject] {
        // SAFETY: nobody else has the record yet.
        unsafe {
            let items = RecordObject::items(self.0);
            std::slice::from_raw_parts_mut(items.as_ptr().cast_mut(), items.len())
        }
    }

    /// The record; `tracked` when a value of it could be part of a reference cycle.
    #[inline(always)]
    pub fn finish(mut self, py: Python<'_>, tracked: bool) -> Bound<'_, PyAny> {
        for place in self.fields() {
            if place.is_null() {
                // SAFETY: None is a valid object and the place owns the new reference.
                unsafe { *place = new_ref(ffi::Py_None()) };
            }
        }
        let object: *mut ffi::PyObject = self.0.cast();
        std::mem::forget(self);
        // SAFETY: the record is whole and owned; it was untracked, and derived classes may hold anything.
        unsafe {
            if tracked || ffi::Py_TYPE(object) != record_type(py).unwrap_or(ptr::null_mut()) {
                ffi::PyObject_GC_Track(object.cast());
            }
            Bound::from_owned_ptr(py, object)
        }
    }
}

impl Drop for NewRecord {
    fn drop(&mut self) {
        // SAFETY: the record is owned by this value alone, and `dealloc` takes null values.
        unsafe { ffi::Py_DECREF(self.0.cast()) }
    }
}

static RECORD: PyOnceLock<Py<PyType>> = PyOnceLock::new();

/// The class `Record`.
pub fn record_class(py: Python<'_>) -> PyResult<&Bound<'_, PyType>> {
    RECORD.get_or_try_init(py, || create(py)).map(|class| class.bind(py))
}

#[inline(always)]
fn record_type(py: Python<'_>) -> PyResult<*mut ffi::PyTypeObject> {
    match RECORD.get(py) {
        Some(class) => Ok(class.as_ptr().cast()),
        None => Ok(record_class(py)?.as_ptr().cast()),
    }
}

fn create(py: Python<'_>) -> PyResult<Py<PyType>> {
    const DOC: &CStr = c"One row: a sequence of values and a mapping from the names of columns to them.";
    let method = |name: &'static CStr, call: ffi::PyCFunction, flags: c_int, doc: &'static CStr| ffi::PyMethodDef {
        ml_name: name.as_ptr(),
        ml_meth: ffi::PyMethodDefPointer { PyCFunction: call },
        ml_flags: flags,
        ml_doc: doc.as_ptr(),
    };
    // The type keeps a pointer to its methods for as long as the process lives.
    let methods = Box::leak(Box::new([
        method(c"keys", keys, ffi::METH_NOARGS, c"Iterate over the names of the columns."),
        method(c"values", values, ffi::METH_NOARGS, c"Iterate over the values."),
        method(c"items", items, ffi::METH_NOARGS, c"Iterate over pairs of name and value."),
        method(c"get", get, ffi::METH_VARARGS, c"Return the value of a column, or a default (None) without such."),
        // SAFETY: all zeroes are the end mark of a list of methods.
        unsafe { std::mem::zeroed() },
    ]));
    let slot = |slot: c_int, pfunc: *mut c_void| ffi::PyType_Slot { slot, pfunc };
    let mut slots = [
        slot(ffi::Py_tp_doc, DOC.as_ptr().cast_mut().cast()),
        slot(ffi::Py_tp_dealloc, dealloc as *mut c_void),
        slot(ffi::Py_tp_traverse, traverse as *mut c_void),
        slot(ffi::Py_tp_repr, repr as *mut c_void),
        slot(ffi::Py_tp_hash, hash as *mut c_void),
        slot(ffi::Py_tp_richcompare, richcompare as *mut c_void),
        slot(ffi::Py_tp_iter, iter as *mut c_void),
        slot(ffi::Py_tp_new, refuse_new as *mut c_void),
        slot(ffi::Py_tp_methods, methods.as_mut_ptr().cast()),
        slot(ffi::Py_sq_length, length as *mut c_void),
        slot(ffi::Py_sq_item, item as *mut c_void),
        slot(ffi::Py_sq_contains, contains as *mut c_void),
        slot(ffi::Py_mp_length, length as *mut c_void),
        slot(ffi::Py_mp_subscript, subscript as *mut c_void),
        slot(0, ptr::null_mut()),
    ];
    let mut spec = ffi::PyType_Spec {
        name: c"howdah.Record".as_ptr(),
        basicsize: c_int::try_from(size_of::<RecordObject>())?,
        itemsize: c_int::try_from(size_of::<*mut ffi::PyObject>())?,
        flags: u32::try_from(ffi::Py_TPFLAGS_DEFAULT | ffi::Py_TPFLAGS_BASETYPE | ffi::Py_TPFLAGS_HAVE_GC)?,
        slots: slots.as_mut_ptr(),
    };
    // SAFETY: the spec is complete, and what it points to outlives the call (its methods outlive the type).
    let class = unsafe { Bound::from_owned_ptr_or_err(py, ffi::PyType_FromSpec(&mut spec))? };
    Ok(class.cast_into::<PyType>().map_err(PyErr::from)?.unbind())
}

/// Runs a slot's body, and leaves its error for the interpreter.
///
/// # Safety
/// Called by the interpreter, attached to its thread.
unsafe fn guarded<T>(failed: T, body: impl for<'py> FnOnce(Python<'py>) -> PyResult<T>) -> T {
    // SAFETY: slots are only called by an attached thread.
    let py = unsafe { Python::assume_attached() };
    // A panic must not cross into C; there is none that is known of.
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| body(py))) {
        Ok(Ok(value)) => value,
        Ok(Err(error)) => {
            error.restore(py);
            failed
        }
        Err(_) => {
            PySystemError::new_err("howdah: a record's method panicked").restore(py);
            failed
        }
    }
}

unsafe extern "C" fn dealloc(this: *mut ffi::PyObject) {
    // SAFETY: the interpreter gives a dead record; each value, null or owned, is given up once.
    unsafe {
        ffi::PyObject_GC_UnTrack(this.cast());
        let record: *mut RecordObject = this.cast();
        for &item in RecordObject::items(record) {
            ffi::Py_XDECREF(item);
        }
        ffi::Py_XDECREF((*record).desc);
        free_list::give(
            this,
            RECORD.get(Python::assume_attached()).map_or(ptr::null_mut(), |class| class.as_ptr().cast()),
        );
    }
}

unsafe extern "C" fn traverse(this: *mut ffi::PyObject, visit: ffi::visitproc, arg: *mut c_void) -> c_int {
    // SAFETY: the collector gives a live record and its own visitor.
    unsafe {
        let record: *mut RecordObject = this.cast();
        let fixed = [ffi::Py_TYPE(this).cast::<ffi::PyObject>(), (*record).desc];
        for &object in fixed.iter().chain(RecordObject::items(record)) {
            if !object.is_null() {
                let stop = visit(object, arg);
                if stop != 0 {
                    return stop;
                }
            }
        }
        0
    }
}

unsafe extern "C" fn refuse_new(
    class: *mut ffi::PyTypeObject,
    _args: *mut ffi::PyObject,
    _kwargs: *mut ffi::PyObject,
) -> *mut ffi::PyObject {
    // SAFETY: called by the interpreter with a type.
    unsafe {
        guarded(ptr::null_mut(), |_py| {
            let name = CStr::from_ptr((*class).tp_name).to_string_lossy().into_owned();
            Err(PyTypeError::new_err(format!("cannot create '{name}' instances")))
        })
    }
}

unsafe extern "C" fn length(this: *mut ffi::PyObject) -> ffi::Py_ssize_t {
    // SAFETY: `this` is a record.
    unsafe { ffi::Py_SIZE(this) }
}

unsafe extern "C" fn item(this: *mut ffi::PyObject, position: ffi::Py_ssize_t) -> *mut ffi::PyObject {
    // SAFETY: `this` is a record; the reference given out is new.
    unsafe {
        match usize::try_from(position).ok().and_then(|position| RecordObject::items(this.cast()).get(position)) {
            Some(&item) => new_ref(item),
            None => {
                ffi::PyErr_SetString(ffi::PyExc_IndexError, c"record index out of range".as_ptr());
                ptr::null_mut()
            }
        }
    }
}

/// The descriptor of a record.
///
/// # Safety
/// `this` is a live record.
unsafe fn descriptor<'py>(py: Python<'py>, this: *mut ffi::PyObject) -> PyResult<Borrowed<'py, 'py, Descriptor>> {
    // SAFETY: the descriptor lives as long as the record, and only `NewRecord` sets it.
    unsafe { Ok(Borrowed::from_ptr(py, (*this.cast::<RecordObject>()).desc).cast_unchecked::<Descriptor>()) }
}

/// A borrowed value of a record by its column's name; `None` without such a column.
///
/// # Safety
/// `this` is a live record, `name` any object.
unsafe fn by_name(
    py: Python<'_>,
    this: *mut ffi::PyObject,
    name: *mut ffi::PyObject,
) -> PyResult<Option<*mut ffi::PyObject>> {
    // SAFETY: the mapping is a dict; what it returns is borrowed from it and used at once.
    unsafe {
        let position = ffi::PyDict_GetItemWithError(descriptor(py, this)?.get().mapping.as_ptr(), name);
        if position.is_null() {
            return match PyErr::take(py) {
                Some(error) => Err(error),
                None => Ok(None),
            };
        }
        let position = ffi::PyNumber_AsSsize_t(position, ffi::PyExc_IndexError);
        if position == -1 {
            drop(PyErr::take(py));
        }
        match usize::try_from(position).ok().and_then(|position| RecordObject::items(this.cast()).get(position)) {
            Some(&item) => Ok(Some(item)),
            None => Err(PyRuntimeError::new_err("invalid record descriptor")),
        }
    }
}

unsafe extern "C" fn subscript(this: *mut ffi::PyObject, key: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: `this` is a record and `key` an object, both alive; results are new references.
    unsafe {
        guarded(ptr::null_mut(), |py| {
            if ffi::PyUnicode_CheckExact(key) != 0 {
                return match by_name(py, this, key)? {
                    Some(item) => Ok(new_ref(item)),
                    None => Err(PyKeyError::new_err(Bound::from_borrowed_ptr(py, key).unbind())),
                };
            }
            if ffi::PyIndex_Check(key) != 0 {
                let mut position = ffi::PyNumber_AsSsize_t(key, ffi::PyExc_IndexError);
                if position == -1
                    && let Some(error) = PyErr::take(py)
                {
                    return Err(error);
                }
                if position < 0 {
                    position += ffi::Py_SIZE(this);
                }
                let found = item(this, position);
                return if found.is_null() { Err(PyErr::fetch(py)) } else { Ok(found) };
            }
            if ffi::PySlice_Check(key) != 0 {
                let values = as_tuple(py, this)?;
                return values.as_any().get_item(Bound::from_borrowed_ptr(py, key)).map(Bound::into_ptr);
            }
            match by_name(py, this, key)? {
                Some(item) => Ok(new_ref(item)),
                None => Err(PyKeyError::new_err(Bound::from_borrowed_ptr(py, key).unbind())),
            }
        })
    }
}

/// The values as a tuple.
///
/// # Safety
/// `this` is a live record.
unsafe fn as_tuple(py: Python<'_>, this: *mut ffi::PyObject) -> PyResult<Bound<'_, PyTuple>> {
    // SAFETY: every value of a record is a live object.
    unsafe { PyTuple::new(py, RecordObject::items(this.cast()).iter().map(|&item| Bound::from_borrowed_ptr(py, item))) }
}

unsafe extern "C" fn contains(this: *mut ffi::PyObject, key: *mut ffi::PyObject) -> c_int {
    // SAFETY: `this` is a record.
    unsafe {
        guarded(-1, |py| match ffi::PyDict_Contains(descriptor(py, this)?.get().mapping.as_ptr(), key) {
            -1 => Err(PyErr::fetch(py)),
            found => Ok(found),
        })
    }
}

/// Hashes as a tuple of the same values does, so that the two are equal as keys.
unsafe extern "C" fn hash(this: *mut ffi::PyObject) -> ffi::Py_hash_t {
    const PRIME_1: u64 = 11_400_714_785_074_694_791;
    const PRIME_2: u64 = 14_029_467_366_897_019_727;
    const PRIME_5: u64 = 2_870_177_450_012_600_261;
    // SAFETY: `this` is a live record.
    unsafe {
        let record: *mut RecordObject = this.cast();
        if (*record).hash != -1 {
            return (*record).hash;
        }
        let items = RecordObject::items(record);
        let mut sum = PRIME_5;
        for &item in items {
            let lane = ffi::PyObject_Hash(item);
            if lane == -1 {
                return -1;
            }
            sum = sum.wrapping_add((lane as u64).wrapping_mul(PRIME_2)).rotate_left(31).wrapping_mul(PRIME_1);
        }
        sum = sum.wrapping_add(items.len() as u64 ^ PRIME_5 ^ 3_527_539);
        let sum = if sum == u64::MAX { 1_546_275_796 } else { sum as ffi::Py_hash_t };
        (*record).hash = sum;
        sum
    }
}

unsafe extern "C" fn richcompare(left: *mut ffi::PyObject, right: *mut ffi::PyObject, op: c_int) -> *mut ffi::PyObject {
    // SAFETY: the interpreter gives two live objects; tuples made here are dropped here.
    unsafe {
        guarded(ptr::null_mut(), |py| {
            let plain = record_type(py)?;
            let tuple = |object: *mut ffi::PyObject| -> PyResult<Option<Bound<'_, PyTuple>>> {
                if ffi::PyTuple_Check(object) != 0 {
                    Ok(Some(Bound::from_borrowed_ptr(py, object).cast_into_unchecked()))
                } else if ffi::PyObject_TypeCheck(object, plain) != 0 {
                    as_tuple(py, object).map(Some)
                } else {
                    Ok(None)
                }
            };
            match (tuple(left)?, tuple(right)?) {
                (Some(left), Some(right)) => {
                    // Plain tuples on both sides, so that a derived class of the right does not take over and ask us.
                    let whole = |tuple: &Bound<'_, PyTuple>| {
                        let count = ffi::PyTuple_Size(tuple.as_ptr());
                        Bound::from_owned_ptr_or_err(py, ffi::PyTuple_GetSlice(tuple.as_ptr(), 0, count))
                    };
                    let answer = ffi::PyObject_RichCompare(whole(&left)?.as_ptr(), whole(&right)?.as_ptr(), op);
                    if answer.is_null() { Err(PyErr::fetch(py)) } else { Ok(answer) }
                }
                _ => Ok(new_ref(ffi::Py_NotImplemented())),
            }
        })
    }
}

unsafe extern "C" fn repr(this: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: `this` is a live record; entering and leaving the recursion guard are paired.
    unsafe {
        guarded(ptr::null_mut(), |py| {
            match ffi::Py_ReprEnter(this) {
                0 => (),
                more if more > 0 => return Ok(PyString::new(py, "<Record ...>").into_ptr()),
                _ => return Err(PyErr::fetch(py)),
            }
            let text = repr_text(py, this);
            ffi::Py_ReprLeave(this);
            Ok(PyString::new(py, &text?).into_ptr())
        })
    }
}

/// # Safety
/// `this` is a live record.
unsafe fn repr_text(py: Python<'_>, this: *mut ffi::PyObject) -> PyResult<String> {
    // SAFETY: as the caller promises.
    unsafe {
        let values = RecordObject::items(this.cast());
        let keys = descriptor(py, this)?.get().keys.bind(py);
        let mut text = format!("<{}", Bound::from_borrowed_ptr(py, this).get_type().name()?);
        for (position, &value) in values.iter().enumerate() {
            let key = keys.get_item(position).map_err(|_| PyRuntimeError::new_err("invalid record mapping"))?;
            text.push(' ');
            text.push_str(&key.str()?.to_string_lossy());
            text.push('=');
            text.push_str(&Bound::from_borrowed_ptr(py, value).repr()?.to_string_lossy());
        }
        text.push('>');
        Ok(text)
    }
}

unsafe extern "C" fn iter(this: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: `this` is a live record.
    unsafe { guarded(ptr::null_mut(), |py| over_values(py, this)) }
}

unsafe extern "C" fn values(this: *mut ffi::PyObject, _none: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: as for `iter`.
    unsafe { iter(this) }
}

unsafe extern "C" fn keys(this: *mut ffi::PyObject, _none: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: `this` is a live record.
    unsafe {
        guarded(ptr::null_mut(), |py| {
            Ok(descriptor(py, this)?.get().keys.bind(py).as_any().try_iter()?.into_any().into_ptr())
        })
    }
}

unsafe extern "C" fn items(this: *mut ffi::PyObject, _none: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: `this` is a live record.
    unsafe {
        guarded(ptr::null_mut(), |py| {
            let keys = descriptor(py, this)?.get().keys.clone_ref(py);
            Ok(Bound::new(py, RecordItems::new(py, this, keys)?)?.into_ptr())
        })
    }
}

unsafe extern "C" fn get(this: *mut ffi::PyObject, args: *mut ffi::PyObject) -> *mut ffi::PyObject {
    // SAFETY: `this` is a live record and `args` a tuple.
    unsafe {
        guarded(ptr::null_mut(), |py| {
            let args = Bound::from_borrowed_ptr(py, args).cast_into_unchecked::<PyTuple>();
            if args.is_empty() || args.len() > 2 {
                let given = args.len();
                return Err(PyTypeError::new_err(format!("Record.get() expected 1 or 2 arguments, got {given}")));
            }
            match by_name(py, this, args.get_item(0)?.as_ptr())? {
                Some(item) => Ok(new_ref(item)),
                None if args.len() == 2 => Ok(args.get_item(1)?.into_ptr()),
                None => Ok(new_ref(ffi::Py_None())),
            }
        })
    }
}
