//! Rows on their way in: each becomes a record, another class's object, a value, or a place in columns.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyType};
use smallvec::SmallVec;

use super::codec_plan::CodecPlan;
use super::errors;
use super::in_flight::{Answer, Execution, InFlight, Total, Verb};
use crate::record::form::{self, Form};
use crate::record::tuple::NewTuple;
use crate::record::{NewRecord, record_class};

impl InFlight {
    /// Whether the rows of the answer are read.
    #[inline]
    pub(super) fn reads_rows(&self) -> bool {
        match &self.verb {
            Verb::Execute(execution) => !matches!(execution.answer, Answer::Status(_) | Answer::Nothing),
            Verb::Many(batch) => matches!(batch.total, Total::Rows(..)),
            _ => false,
        }
    }

    /// Reads one row, unless one before could not be read.
    #[inline]
    pub(super) fn take_row(&mut self, py: Python<'_>, body: &[u8]) {
        let (taken, failure) = match &mut self.verb {
            Verb::Execute(execution) if execution.failure.is_none() => {
                (execution.take_row(py, body), &mut execution.failure)
            }
            Verb::Many(batch) if batch.failure.is_none() => {
                let Total::Rows(plan, rows) = &mut batch.total else { return };
                let taken = values(py, plan, body)
                    .and_then(|(values, count)| object(py, plan, values, count))
                    .map(|object| rows.push(object));
                (taken, &mut batch.failure)
            }
            _ => return,
        };
        if let Err(error) = taken {
            *failure = Some(error);
        }
    }
}

impl Execution {
    /// Reads one row.
    #[inline]
    fn take_row(&mut self, py: Python<'_>, body: &[u8]) -> PyResult<()> {
        let plan = &*self.plan;
        let (values, count) = values(py, plan, body)?;
        match &mut self.answer {
            Answer::Rows(rows) | Answer::Extra { rows, .. } => rows.push(object(py, plan, values, count)?),
            Answer::Row(row) => {
                let object = object(py, plan, values, count)?;
                row.get_or_insert(object);
            }
            Answer::Value { column, value } => {
                if value.is_none() {
                    *value = Some(one_value(py, plan, values, count, column)?);
                }
            }
            Answer::Bytes(value) => {
                value.get_or_insert_with(|| first_bytes(py, values));
            }
            Answer::Columns(columns) => columns.push_row(py, values, &plan.settings)?,
            Answer::Status(_) | Answer::Nothing => (),
        }
        Ok(())
    }
}

/// The values of a row, and how many there are: as many as were described.
#[inline]
fn values<'a>(py: Python<'_>, plan: &CodecPlan, body: &'a [u8]) -> PyResult<(&'a [u8], usize)> {
    let columns = plan.decoder.codecs().len();
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
    Ok((values, count))
}

/// The object that is made of a row.
#[inline]
fn object(py: Python<'_>, plan: &CodecPlan, values: &[u8], count: usize) -> PyResult<Py<PyAny>> {
    if plan.form != Form::Record {
        return other_object(py, plan, values, count);
    }
    record(py, plan, plan.record_class.bind(py), values, count).map(Bound::unbind)
}

#[inline]
fn record<'py>(
    py: Python<'py>,
    plan: &CodecPlan,
    class: &Bound<'py, PyType>,
    values: &[u8],
    count: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let mut record = NewRecord::new(py, class, plan.descriptor.bind(py), count)?;
    plan.decoder.decode_row(py, values, record.fields(), &plan.settings)?;
    Ok(record.finish(py, plan.tracked))
}

/// The object that is made of a row and is not a record.
#[inline(never)]
fn other_object(py: Python<'_>, plan: &CodecPlan, values: &[u8], count: usize) -> PyResult<Py<PyAny>> {
    let mut tuple = NewTuple::new(py, count)?;
    plan.decoder.decode_row(py, values, tuple.fields(), &plan.settings)?;
    let (class, descriptor) = (plan.record_class.bind(py), plan.descriptor.get());
    Ok(form::finish(plan.form, tuple, class, descriptor, plan.tracked)?.unbind())
}

/// One value of a row.
fn one_value(py: Python<'_>, plan: &CodecPlan, values: &[u8], count: usize, column: &Py<PyAny>) -> PyResult<Py<PyAny>> {
    let Some(column) = column.extract::<usize>(py).ok().filter(|column| *column < count) else {
        // By its column's name, or counted from the end, it is looked up in a record.
        let class = if plan.form == Form::Record { plan.record_class.bind(py) } else { record_class(py)? };
        return Ok(record(py, plan, class, values, count)?.get_item(column)?.unbind());
    };
    let mut fields = Fields0(SmallVec::from_elem(std::ptr::null_mut(), count));
    plan.decoder.decode_row(py, values, &mut fields.0, &plan.settings)?;
    // SAFETY: the decoder has filled the places with references, or left null for NULL; one is taken out.
    let value = fields.0.get_mut(column).and_then(|place| unsafe {
        Bound::from_owned_ptr_or_opt(py, std::mem::replace(place, std::ptr::null_mut())).map(Bound::unbind)
    });
    Ok(value.unwrap_or_else(|| py.None()))
}

/// The bytes of a row's first value; None for NULL.
fn first_bytes(py: Python<'_>, values: &[u8]) -> Py<PyAny> {
    values
        .split_first_chunk::<4>()
        .and_then(|(length, rest)| rest.get(..usize::try_from(i32::from_be_bytes(*length)).ok()?))
        .map_or_else(|| py.None(), |value| PyBytes::new(py, value).into_any().unbind())
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
