//! The types that the commonest values have by themselves, by psycopg's rules; `dbapi/_declared.py` has the others'.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt, PyString, PyTuple};

const UNKNOWN: u32 = 0;
const BOOL: u32 = 16;
const INT8: u32 = 20;
const INT2: u32 = 21;
const INT4: u32 = 23;
const FLOAT8: u32 = 701;
const NUMERIC: u32 = 1700;

/// The type of a value, 0 where the server infers it; `None` for a value of another class.
#[inline]
pub fn own_type(value: &Borrowed<'_, '_, PyAny>) -> Option<u32> {
    if value.is_exact_instance_of::<PyInt>() {
        let mut overflow = 0;
        // SAFETY: the object is an int, so the call cannot fail otherwise than by overflow.
        let number = unsafe { ffi::PyLong_AsLongLongAndOverflow(value.as_ptr(), &mut overflow) };
        return Some(match number {
            _ if overflow != 0 => NUMERIC,
            number if i16::try_from(number).is_ok() => INT2,
            number if i32::try_from(number).is_ok() => INT4,
            _ => INT8,
        });
    }
    if value.is_exact_instance_of::<PyString>() || value.is_none() {
        Some(UNKNOWN)
    } else if value.is_exact_instance_of::<PyFloat>() {
        Some(FLOAT8)
    } else {
        value.is_exact_instance_of::<PyBool>().then_some(BOOL)
    }
}

/// Whether one type is that of integers of at least as many bytes as the other's.
pub fn holds(wide: u32, narrow: u32) -> bool {
    matches!((wide, narrow), (INT4 | INT8, INT2) | (INT8, INT4))
}

/// The types of values that are all of the commonest classes; empty if the server infers all, None with any other.
#[pyfunction]
#[pyo3(signature = (values, /))]
pub fn own_types<'py>(py: Python<'py>, values: &Bound<'py, PyTuple>) -> PyResult<Option<Bound<'py, PyTuple>>> {
    let Some(types) = values.iter_borrowed().map(|value| own_type(&value)).collect::<Option<Vec<u32>>>() else {
        return Ok(None);
    };
    let known = types.iter().any(|&oid| oid != UNKNOWN);
    (if known { PyTuple::new(py, types) } else { Ok(PyTuple::empty(py)) }).map(Some)
}
