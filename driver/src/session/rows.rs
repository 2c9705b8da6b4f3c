//! Rows on their way in: each becomes a record, another class's object, a value, or a place in columns.

use pyo3::prelude::*;
use pyo3::types::PyBytes;
use smallvec::SmallVec;

use super::errors;
use super::flight::{Flight, Shape};
use super::program::Program;
use crate::record::form::{self, Form};
use crate::record::tuple::NewTuple;
use crate::record::{NewRecord, record_class};

/// Reads one row.
#[inline]
pub(super) fn row(py: Python<'_>, flight: &mut Flight, program: &Program, body: &[u8]) -> PyResult<()> {
    let columns = program.decoder.codecs().len();
    let (count, values) = body.split_first_chunk::<2>().ok_or_else(|| errors::protocol(py, "a row is too short"))?;
    let count = usize::from(u16::from_be_bytes(*count));
    if count != columns {
        return Err(errors::protocol(
            py,
            &format!(
                "the number of columns in the result row ({count}) is different from what was described ({columns})"
            ),
        ));
    }
    if let Some(columns) = &mut flight.columns {
        return columns.push_row(py, values, &program.settings);
    }
    if let Shape::Bytes = &flight.shape {
        if flight.value.is_none() {
            let value = values
                .split_first_chunk::<4>()
                .and_then(|(length, rest)| rest.get(..usize::try_from(i32::from_be_bytes(*length)).ok()?));
            flight.value = Some(value.map_or_else(|| py.None(), |value| PyBytes::new(py, value).into_any().unbind()));
        }
        return Ok(());
    }
    if let Shape::Value(column) = &flight.shape
        && let Ok(column) = column.extract::<usize>(py)
        && column < count
    {
        if flight.value.is_some() {
            return Ok(());
        }
        let mut fields = Fields0(SmallVec::from_elem(std::ptr::null_mut(), count));
        program.decoder.decode_row(py, values, &mut fields.0, &program.settings)?;
        // SAFETY: the decoder has filled the places with references, or left null for NULL; one is taken out.
        flight.value = fields.0.get_mut(column).and_then(|place| unsafe {
            Bound::from_owned_ptr_or_opt(py, std::mem::replace(place, std::ptr::null_mut())).map(Bound::unbind)
        });
        if flight.value.is_none() {
            flight.value = Some(py.None());
        }
        return Ok(());
    }
    if program.form != Form::Record && !matches!(flight.shape, Shape::Value(_)) {
        return other_row(py, flight, program, values, count);
    }
    // A value by its column's name is looked up in a record.
    let class = if program.form == Form::Record { program.record_class.bind(py) } else { record_class(py)? };
    let mut record = NewRecord::new(py, class, program.descriptor.bind(py), count)?;
    program.decoder.decode_row(py, values, record.fields(), &program.settings)?;
    let record = record.finish(py, program.tracked);
    if let Shape::Value(column) = &flight.shape {
        if flight.value.is_none() {
            flight.value = Some(record.get_item(column)?.unbind());
        }
        return Ok(());
    }
    flight.rows.push(record.unbind());
    Ok(())
}

/// Reads one row that does not become a record.
#[inline(never)]
fn other_row(py: Python<'_>, flight: &mut Flight, program: &Program, values: &[u8], count: usize) -> PyResult<()> {
    let mut tuple = NewTuple::new(py, count)?;
    program.decoder.decode_row(py, values, tuple.fields(), &program.settings)?;
    let (class, descriptor) = (program.record_class.bind(py), program.descriptor.get());
    flight.rows.push(form::finish(program.form, tuple, class, descriptor, program.tracked)?.unbind());
    Ok(())
}

/// The values of one row, given up when they are not taken.
struct Fields0(SmallVec<[*mut pyo3::ffi::PyObject; 16]>);

impl Drop for Fields0 {
    fn drop(&mut self) {
        for place in &self.0 {
            // SAFETY: each place is null or owns a reference; rows are read by attached threads.
            unsafe { pyo3::ffi::Py_XDECREF(*place) }
        }
    }
}
