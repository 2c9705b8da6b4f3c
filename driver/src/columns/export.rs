//! Arrow's C data and C stream interfaces, by which others read columns in place.
//!
//! Each structure that is given out owns its part of what it points to and a share of the batch's buffers; its release
//! function gives both up.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;

use pyo3::ffi;
use pyo3::prelude::*;

use super::Columns;
use super::build::{Filled, Kind};

/// `struct ArrowSchema`.
#[repr(C)]
pub struct Schema {
    pub format: *const c_char,
    pub name: *const c_char,
    metadata: *const c_char,
    flags: i64,
    pub n_children: i64,
    pub children: *mut *mut Schema,
    pub dictionary: *mut Schema,
    pub release: Option<unsafe extern "C" fn(*mut Schema)>,
    private: *mut c_void,
}

/// `struct ArrowArray`.
#[repr(C)]
pub struct Array {
    pub length: i64,
    pub null_count: i64,
    pub offset: i64,
    n_buffers: i64,
    pub n_children: i64,
    pub buffers: *mut *const c_void,
    pub children: *mut *mut Array,
    pub dictionary: *mut Array,
    pub release: Option<unsafe extern "C" fn(*mut Array)>,
    private: *mut c_void,
}

/// `struct ArrowArrayStream`.
#[repr(C)]
pub struct Stream {
    pub get_schema: Option<unsafe extern "C" fn(*mut Stream, *mut Schema) -> c_int>,
    pub get_next: Option<unsafe extern "C" fn(*mut Stream, *mut Array) -> c_int>,
    pub get_last_error: Option<unsafe extern "C" fn(*mut Stream) -> *const c_char>,
    pub release: Option<unsafe extern "C" fn(*mut Stream)>,
    private: *mut c_void,
}

const NULLABLE: i64 = 2;

struct SchemaOwner {
    _format: CString,
    _name: CString,
    children: Vec<*mut Schema>,
    dictionary: *mut Schema,
}

struct ArrayOwner {
    _batch: Arc<Vec<Filled>>,
    buffers: Vec<*const c_void>,
    children: Vec<*mut Array>,
    dictionary: *mut Array,
}

struct StreamOwner {
    names: Vec<String>,
    kinds: Vec<Kind>,
    batches: Vec<Arc<Vec<Filled>>>,
    next: usize,
}

unsafe extern "C" fn release_schema(schema: *mut Schema) {
    // SAFETY: the reader calls this once, with a structure made by `schema`; boxes are those made there.
    unsafe {
        let owner = Box::from_raw((*schema).private.cast::<SchemaOwner>());
        for child in owner.children.iter().copied().chain((!owner.dictionary.is_null()).then_some(owner.dictionary)) {
            // A reader may have moved a child away, which it then released by itself.
            if let Some(release) = (*child).release {
                release(child);
            }
            drop(Box::from_raw(child));
        }
        (*schema).release = None;
    }
}

fn schema(format: &str, name: &str, flags: i64, children: Vec<Schema>, dictionary: Option<Schema>) -> Schema {
    let text = |text: &str| CString::new(text.replace('\0', "")).unwrap_or_default();
    let mut owner = Box::new(SchemaOwner {
        _format: text(format),
        _name: text(name),
        children: children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect(),
        dictionary: dictionary.map_or(ptr::null_mut(), |dictionary| Box::into_raw(Box::new(dictionary))),
    });
    Schema {
        format: owner._format.as_ptr(),
        name: owner._name.as_ptr(),
        metadata: ptr::null(),
        flags,
        n_children: owner.children.len() as i64,
        children: owner.children.as_mut_ptr(),
        dictionary: owner.dictionary,
        release: Some(release_schema),
        private: Box::into_raw(owner).cast(),
    }
}

/// The schema of a column.
pub fn column_schema(name: &str, kind: &Kind) -> Schema {
    let format = match kind {
        Kind::Bool => "b",
        Kind::Fixed(_, format, _) => format,
        Kind::Date => "tdD",
        Kind::Timestamp(format) => format,
        Kind::Uuid => "w:16",
        Kind::Text(_) => "u",
        Kind::Binary => "z",
        Kind::Dictionary(_) => "i",
    };
    let dictionary = matches!(kind, Kind::Dictionary(_)).then(|| schema("u", "", 0, Vec::new(), None));
    schema(format, name, NULLABLE, Vec::new(), dictionary)
}

/// The schema of a result: a structure of its columns.
pub fn table_schema(names: &[String], kinds: &[Kind]) -> Schema {
    let children = names.iter().zip(kinds).map(|(name, kind)| column_schema(name, kind)).collect();
    schema("+s", "", 0, children, None)
}

unsafe extern "C" fn release_array(array: *mut Array) {
    // SAFETY: as for schemas.
    unsafe {
        let owner = Box::from_raw((*array).private.cast::<ArrayOwner>());
        for child in owner.children.iter().copied().chain((!owner.dictionary.is_null()).then_some(owner.dictionary)) {
            if let Some(release) = (*child).release {
                release(child);
            }
            drop(Box::from_raw(child));
        }
        (*array).release = None;
    }
}

fn array(
    batch: &Arc<Vec<Filled>>,
    (length, nulls): (usize, usize),
    buffers: Vec<*const c_void>,
    children: Vec<Array>,
    dictionary: Option<Array>,
) -> Array {
    let mut owner = Box::new(ArrayOwner {
        _batch: batch.clone(),
        buffers,
        children: children.into_iter().map(|child| Box::into_raw(Box::new(child))).collect(),
        dictionary: dictionary.map_or(ptr::null_mut(), |dictionary| Box::into_raw(Box::new(dictionary))),
    });
    Array {
        length: length as i64,
        null_count: nulls as i64,
        offset: 0,
        n_buffers: owner.buffers.len() as i64,
        n_children: owner.children.len() as i64,
        buffers: owner.buffers.as_mut_ptr(),
        children: owner.children.as_mut_ptr(),
        dictionary: owner.dictionary,
        release: Some(release_array),
        private: Box::into_raw(owner).cast(),
    }
}

fn buffers(filled: &Filled) -> Vec<*const c_void> {
    let validity = if filled.nulls > 0 { filled.validity.as_ptr().cast() } else { ptr::null() };
    if filled.offsets.is_empty() {
        vec![validity, filled.values.as_ptr().cast()]
    } else {
        vec![validity, filled.offsets.as_ptr().cast(), filled.values.as_ptr().cast()]
    }
}

/// One column of a batch.
pub fn column_array(batch: &Arc<Vec<Filled>>, position: usize) -> Array {
    let Some(filled) = batch.get(position) else { return array(batch, (0, 0), Vec::new(), Vec::new(), None) };
    let dictionary = filled
        .dictionary
        .as_deref()
        .map(|texts| array(batch, (texts.rows, 0), buffers(texts), Vec::new(), None));
    array(batch, (filled.rows, filled.nulls), buffers(filled), Vec::new(), dictionary)
}

fn batch_array(batch: &Arc<Vec<Filled>>) -> Array {
    let rows = batch.first().map_or(0, |column| column.rows);
    let children = (0..batch.len()).map(|position| column_array(batch, position)).collect();
    array(batch, (rows, 0), vec![ptr::null()], children, None)
}

unsafe extern "C" fn get_schema(stream: *mut Stream, out: *mut Schema) -> c_int {
    // SAFETY: the reader gives the stream that it was given and room for a schema.
    unsafe {
        let owner = &*(*stream).private.cast::<StreamOwner>();
        out.write(table_schema(&owner.names, &owner.kinds));
    }
    0
}

unsafe extern "C" fn get_next(stream: *mut Stream, out: *mut Array) -> c_int {
    // SAFETY: as above; a released array says that there are no more.
    unsafe {
        let owner = &mut *(*stream).private.cast::<StreamOwner>();
        match owner.batches.get(owner.next) {
            Some(batch) => {
                owner.next += 1;
                out.write(batch_array(batch));
            }
            None => out.write(std::mem::zeroed()),
        }
    }
    0
}

unsafe extern "C" fn get_last_error(_stream: *mut Stream) -> *const c_char {
    ptr::null()
}

unsafe extern "C" fn release_stream(stream: *mut Stream) {
    // SAFETY: called once, with the stream that was made here.
    unsafe {
        drop(Box::from_raw((*stream).private.cast::<StreamOwner>()));
        (*stream).release = None;
    }
}

/// The capsule of a stream of the columns.
pub fn stream<'py>(py: Python<'py>, columns: &Columns) -> PyResult<Bound<'py, PyAny>> {
    let owner = Box::new(StreamOwner {
        names: columns.names.clone(),
        kinds: columns.kinds.clone(),
        batches: columns.batches.clone(),
        next: 0,
    });
    let stream = Stream {
        get_schema: Some(get_schema),
        get_next: Some(get_next),
        get_last_error: Some(get_last_error),
        release: Some(release_stream),
        private: Box::into_raw(owner).cast(),
    };
    capsule(py, stream, c"arrow_array_stream", destroy_stream)
}

/// The capsule of a schema.
pub fn schema_capsule(py: Python<'_>, schema: Schema) -> PyResult<Bound<'_, PyAny>> {
    capsule(py, schema, c"arrow_schema", destroy_schema)
}

/// The capsule of an array.
pub fn array_capsule(py: Python<'_>, array: Array) -> PyResult<Bound<'_, PyAny>> {
    capsule(py, array, c"arrow_array", destroy_array)
}

fn capsule<'py, T>(
    py: Python<'py>,
    content: T,
    name: &'static CStr,
    destroy: unsafe extern "C" fn(*mut ffi::PyObject),
) -> PyResult<Bound<'py, PyAny>> {
    let content = Box::into_raw(Box::new(content));
    // SAFETY: the destructor takes back exactly this box; on failure nothing else has it.
    unsafe {
        let capsule = ffi::PyCapsule_New(content.cast(), name.as_ptr(), Some(destroy));
        if capsule.is_null() {
            drop(Box::from_raw(content));
        }
        Bound::from_owned_ptr_or_err(py, capsule)
    }
}

macro_rules! destroyer {
    ($function:ident, $type:ty, $name:literal) => {
        unsafe extern "C" fn $function(capsule: *mut ffi::PyObject) {
            // SAFETY: only capsules made by `capsule` with this name and type come here; a reader that took the
            // content over has marked it released.
            unsafe {
                let content: *mut $type = ffi::PyCapsule_GetPointer(capsule, $name.as_ptr()).cast();
                if content.is_null() {
                    ffi::PyErr_Clear();
                    return;
                }
                let mut content = Box::from_raw(content);
                if let Some(release) = content.release {
                    release(&mut *content);
                }
            }
        }
    };
}

destroyer!(destroy_stream, Stream, c"arrow_array_stream");
destroyer!(destroy_schema, Schema, c"arrow_schema");
destroyer!(destroy_array, Array, c"arrow_array");
