//! Columns that others lend by Arrow's C interfaces, written as rows of a binary COPY.
//!
//! [`convert`] decides once a column how its values are read and written, [`place`] reads a value, [`write`] writes it.

use std::ffi::CStr;
use std::sync::{Mutex, MutexGuard};

use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use self::convert::Converter;
use self::write::write_row;
use super::arrow::{Array, Schema, Stream};
use crate::codec::Codec;

mod convert;
mod place;
mod write;

/// What is lent: a stream of batches, or one.
struct Lent {
    stream: Option<Box<Stream>>,
    schema: Box<Schema>,
    batch: Option<Box<Array>>,
    row: usize,
    columns: Vec<Converter>,
}

// SAFETY: Arrow's structures may be used from any thread, by one at a time, which the mutex around this sees to.
unsafe impl Send for Lent {}

impl Drop for Lent {
    fn drop(&mut self) {
        // SAFETY: each structure is owned here and released at most once.
        unsafe {
            if let Some(batch) = self.batch.as_deref_mut()
                && let Some(release) = batch.release
            {
                release(batch);
            }
            if let Some(release) = self.schema.release {
                release(&mut *self.schema);
            }
            if let Some(stream) = self.stream.as_deref_mut()
                && let Some(release) = stream.release
            {
                release(stream);
            }
        }
    }
}

/// Columns to be copied into a table.
#[pyclass(frozen, module = "howdah._core")]
pub struct ColumnSource(Mutex<Lent>);

/// Takes the content of a capsule over, so that its own destructor finds nothing to do.
fn take<T>(capsule: &Bound<'_, PyAny>, name: &CStr, released: impl FnOnce(&mut T)) -> PyResult<Box<T>> {
    let capsule = capsule.cast::<PyCapsule>()?;
    // SAFETY: a capsule of this name holds such a structure (that is the interface); it is moved out, and marked.
    unsafe {
        let content: *mut T = ffi::PyCapsule_GetPointer(capsule.as_ptr(), name.as_ptr()).cast();
        if content.is_null() {
            return Err(PyErr::fetch(capsule.py()));
        }
        let taken = Box::new(std::ptr::read(content));
        released(&mut *content);
        Ok(taken)
    }
}

#[pymethods]
impl ColumnSource {
    #[new]
    fn new(columns: &Bound<'_, PyAny>) -> PyResult<Self> {
        let (stream, mut schema, batch);
        if let Ok(lend) = columns.getattr("__arrow_c_stream__") {
            let mut taken: Box<Stream> =
                take(&lend.call0()?, c"arrow_array_stream", |stream: &mut Stream| stream.release = None)?;
            // SAFETY: all zeroes are a released schema, which the stream fills.
            schema = unsafe { Box::new(std::mem::zeroed::<Schema>()) };
            let get = taken.get_schema.ok_or_else(|| PyValueError::new_err("a released stream"))?;
            // SAFETY: the stream's own function, with room for a schema.
            if unsafe { get(&mut *taken, &mut *schema) } != 0 {
                return Err(failed(&mut taken));
            }
            (stream, batch) = (Some(taken), None);
        } else if let Ok(lend) = columns.getattr("__arrow_c_array__") {
            let pair = lend.call0()?.cast_into::<PyTuple>()?;
            schema = take(&pair.get_item(0)?, c"arrow_schema", |schema: &mut Schema| schema.release = None)?;
            let taken = take(&pair.get_item(1)?, c"arrow_array", |array: &mut Array| array.release = None)?;
            (stream, batch) = (None, Some(taken));
        } else {
            return Err(PyTypeError::new_err(
                "expected columns with Arrow's interface (__arrow_c_stream__ or __arrow_c_array__): \
                 a pyarrow, polars or pandas table, or what fetch_columns() gives",
            ));
        }
        if format(&schema) != "+s" {
            return Err(PyTypeError::new_err("expected a table of columns, got one column"));
        }
        Ok(Self(Mutex::new(Lent { stream, schema, batch, row: 0, columns: Vec::new() })))
    }

    /// The names of the columns.
    #[getter]
    fn names(&self) -> Vec<String> {
        let lent = self.lent();
        children(&lent.schema).iter().map(|child| text(child.name)).collect()
    }
}

/// The error of a stream.
fn failed(stream: &mut Stream) -> PyErr {
    // SAFETY: the stream's own function; its text is good until the next call.
    let why = unsafe { stream.get_last_error.map(|get| text(get(stream))) };
    PyValueError::new_err(format!("the columns cannot be read: {}", why.unwrap_or_default()))
}

fn text(pointer: *const std::ffi::c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: texts of the interface end with a zero byte.
    unsafe { CStr::from_ptr(pointer).to_string_lossy().into_owned() }
}

fn format(schema: &Schema) -> String {
    text(schema.format)
}

fn children(schema: &Schema) -> Vec<&Schema> {
    let count = usize::try_from(schema.n_children).unwrap_or(0);
    // SAFETY: a schema has as many children as it says, for as long as it lives.
    (0..count).map(|place| unsafe { &**schema.children.add(place) }).collect()
}

impl ColumnSource {
    fn lent(&self) -> MutexGuard<'_, Lent> {
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Appends rows of a binary COPY until there are `enough` bytes; whether there may be more.
    pub fn write(&self, codecs: &[std::sync::Arc<Codec>], out: &mut Vec<u8>, enough: usize) -> PyResult<bool> {
        let mut lent = self.lent();
        let lent = &mut *lent;
        if lent.columns.is_empty() {
            let columns = children(&lent.schema);
            if columns.len() != codecs.len() {
                return Err(PyValueError::new_err(format!(
                    "there are {} columns to copy into {}",
                    columns.len(),
                    codecs.len()
                )));
            }
            let converters = columns.iter().zip(codecs).map(|(schema, codec)| Converter::of(schema, codec));
            lent.columns = converters.collect::<PyResult<_>>()?;
        }
        loop {
            if let Some(batch) = &lent.batch {
                let rows = usize::try_from(batch.length).unwrap_or(0);
                while lent.row < rows {
                    if out.len() >= enough {
                        return Ok(true);
                    }
                    write_row(batch, &lent.columns, lent.row, out)?;
                    lent.row += 1;
                }
            }
            if let Some(mut batch) = lent.batch.take()
                && let Some(release) = batch.release
            {
                // SAFETY: released once, and not read any more.
                unsafe { release(&mut *batch) }
            }
            lent.row = 0;
            let Some(stream) = lent.stream.as_deref_mut() else { return Ok(false) };
            let Some(get) = stream.get_next else { return Ok(false) };
            // SAFETY: the stream's own function, with room for an array; all zeroes are a released one.
            let next = unsafe {
                let mut next = Box::new(std::mem::zeroed::<Array>());
                if get(stream, &mut *next) != 0 {
                    return Err(failed(stream));
                }
                next
            };
            if next.release.is_none() {
                return Ok(false);
            }
            lent.batch = Some(next);
        }
    }
}
