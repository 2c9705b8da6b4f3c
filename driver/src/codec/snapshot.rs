//! What PostgreSQL says of its own rows and transactions: `tid`, `txid_snapshot` and `pg_snapshot`, as tuples.

use pyo3::exceptions::PyOverflowError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};

use super::Context;
use super::python::{self, Done, Filling, OrRaise, Raised, Value, overflow_error, type_error, value_error};
use super::reader::Reader;

/// `(block, offset)` of a row.
pub fn decode_tid<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    let py = cx.py;
    let mut reader = Reader::new(data);
    let (block, offset) = (reader.u32(py)?, reader.u16(py)?);
    reader.end(py)?;
    let mut pair = Filling::tuple(py, 2)?;
    pair.push(python::int(py, block.into())?);
    pair.push(python::int(py, offset.into())?);
    Ok(pair.finish())
}

/// Appends `(block, offset)`.
pub fn encode_tid(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    let py = cx.py;
    listed(value)?;
    if value.len().or_raise(py)? != 2 {
        return Err(value_error(py, "invalid number of elements in tid tuple, expecting 2"));
    }
    let block = unsigned(py, &value.get_item(0).or_raise(py)?)?.and_then(|number| u32::try_from(number).ok());
    let Some(block) = block else {
        return Err(overflow_error(py, "tuple id block value out of uint32 range"));
    };
    let offset = unsigned(py, &value.get_item(1).or_raise(py)?)?.and_then(|number| u16::try_from(number).ok());
    let Some(offset) = offset else {
        return Err(overflow_error(py, "tuple id offset value out of uint16 range"));
    };
    out.extend_from_slice(&block.to_be_bytes());
    out.extend_from_slice(&offset.to_be_bytes());
    Ok(())
}

/// `(xmin, xmax, (running, …))`.
pub fn decode<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    let py = cx.py;
    let mut reader = Reader::new(data);
    let count = reader.u32(py)? as usize;
    let (xmin, xmax) = (reader.u64(py)?, reader.u64(py)?);
    reader.backed(py, count, 8)?;
    let mut running = Filling::tuple(py, count)?;
    for _ in 0..count {
        running.push(python::uint(py, reader.u64(py)?)?);
    }
    reader.end(py)?;
    let mut result = Filling::tuple(py, 3)?;
    result.push(python::uint(py, xmin)?);
    result.push(python::uint(py, xmax)?);
    result.push(running.finish());
    Ok(result.finish())
}

/// Appends `(xmin, xmax, (running, …))`.
pub fn encode(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    let py = cx.py;
    listed(value)?;
    if value.len().or_raise(py)? != 3 {
        return Err(value_error(py, "invalid number of elements in txid_snapshot tuple, expecting 4"));
    }
    let running = value.get_item(2).or_raise(py)?;
    let Ok(count) = i32::try_from(running.len().or_raise(py)?) else {
        return Err(value_error(py, "txid_snapshot value is too long"));
    };
    out.extend_from_slice(&count.to_be_bytes());
    for place in 0..2 {
        let number = number(py, &value.get_item(place).or_raise(py)?)?;
        out.extend_from_slice(&number.to_be_bytes());
    }
    for place in 0..count as usize {
        let number = number(py, &running.get_item(place).or_raise(py)?)?;
        out.extend_from_slice(&number.to_be_bytes());
    }
    Ok(())
}

fn listed(value: &Bound<'_, PyAny>) -> Done {
    if value.is_instance_of::<PyTuple>() || value.is_instance_of::<PyList>() {
        return Ok(());
    }
    let class = python::repr_of(value.get_type().as_any());
    Err(type_error(value.py(), format!("list or tuple expected (got type {class})")))
}

/// An unsigned number, with Python's own errors.
fn number(py: Python<'_>, value: &Bound<'_, PyAny>) -> Result<u64, Raised> {
    // SAFETY: the object is live; any failure sets an exception, which is looked for.
    let number = unsafe { ffi::PyLong_AsUnsignedLongLong(value.as_ptr()) };
    if number == u64::MAX {
        python::check(py)?;
    }
    Ok(number)
}

/// An unsigned number, `None` when it does not fit.
fn unsigned(py: Python<'_>, value: &Bound<'_, PyAny>) -> Result<Option<u64>, Raised> {
    match number(py, value) {
        Ok(number) => Ok(Some(number)),
        Err(raised) => {
            let err = raised.into_err(py);
            if err.is_instance_of::<PyOverflowError>(py) { Ok(None) } else { Err(Raised::from_err(py, err)) }
        }
    }
}
