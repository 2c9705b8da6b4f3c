//! Booleans, integers and floats.
//!
//! Integers are taken from anything with `__int__`, as asyncpg does, so that NumPy's scalars work; a `str` has none
//! and is refused by Python itself. What of a number with a fraction becomes of it is [`fit`]'s table's.

use pyo3::exceptions::PyOverflowError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyFloat, PyInt};

use super::Context;
use super::fit::{self, Manner};
use super::python::{self, Done, OrRaise, Raised, Value, overflow_error, type_error, type_name, value_error};
use super::reader::fixed;

/// Up to this every integer is a float8.
const EXACT: u64 = 1 << 53;

/// Appends a `bool`, and nothing but a `bool`.
pub fn encode_bool(py: Python<'_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    match value.cast_exact::<PyBool>() {
        Ok(truth) => {
            out.push(truth.is_true().into());
            Ok(())
        }
        Err(_) => Err(type_error(py, format!("a boolean is required (got type {})", type_name(value)))),
    }
}

/// The integer that a value stands for, `None` when it fits no 64 bits.
#[inline]
pub fn to_i64(cx: &Context<'_, '_>, kind: &str, value: &Bound<'_, PyAny>) -> Result<Option<i64>, Raised> {
    let py = cx.py;
    if value.is_exact_instance_of::<PyInt>() {
        let mut overflow = 0;
        // SAFETY: the object is an int, so the call cannot fail otherwise than by overflow.
        let number = unsafe { ffi::PyLong_AsLongLongAndOverflow(value.as_ptr(), &mut overflow) };
        return Ok((overflow == 0).then_some(number));
    }
    let converted = convert(cx, kind, value)?;
    let Some(converted) = converted else { return Ok(None) };
    let mut overflow = 0;
    // SAFETY: the object is live; a wrong type sets an exception, which is looked for.
    let number = unsafe { ffi::PyLong_AsLongLongAndOverflow(converted.as_ptr(), &mut overflow) };
    if overflow == 0 && number == -1 {
        python::check(py)?;
    }
    Ok((overflow == 0).then_some(number))
}

/// The same for unsigned numbers.
pub fn to_u64(cx: &Context<'_, '_>, kind: &str, value: &Bound<'_, PyAny>) -> Result<Option<u64>, Raised> {
    let py = cx.py;
    let Some(converted) = convert(cx, kind, value)? else { return Ok(None) };
    // SAFETY: the object is live; any failure sets an exception, which is looked for.
    let number = unsafe { ffi::PyLong_AsUnsignedLongLong(converted.as_ptr()) };
    if number == u64::MAX {
        match python::check(py) {
            Ok(()) => {}
            Err(raised) => return overflow_is_none(py, raised),
        }
    }
    Ok(Some(number))
}

/// `int(value)` for what is no int but has `__int__`; the value itself otherwise.
fn convert<'py>(
    cx: &Context<'_, 'py>,
    kind: &str,
    value: &Bound<'py, PyAny>,
) -> Result<Option<Bound<'py, PyAny>>, Raised> {
    let py = cx.py;
    if value.is_exact_instance_of::<PyInt>() || !value.get_type().hasattr("__int__").or_raise(py)? {
        return Ok(Some(value.clone()));
    }
    // SAFETY: a check of a live object's type.
    let whole = unsafe { ffi::PyIndex_Check(value.as_ptr()) } != 0;
    if !whole && cx.manner == Manner::Typed {
        return Err(fit::misfit(py, kind, value));
    }
    // SAFETY: the object is live; the answer is owned or null with an exception.
    let number = match unsafe { python::own(py, ffi::PyNumber_Long(value.as_ptr())) } {
        Ok(number) => number,
        Err(raised) => return overflow_is_none(py, raised),
    };
    let is_number = || value.get_type().hasattr("__float__");
    if !whole && cx.manner == Manner::Exact && is_number().or_raise(py)? && !value.eq(&number).or_raise(py)? {
        return Err(fit::cut_off(py, kind, value, &number));
    }
    Ok(Some(number))
}

fn overflow_is_none<T>(py: Python<'_>, raised: Raised) -> Result<Option<T>, Raised> {
    let err = raised.into_err(py);
    if err.is_instance_of::<PyOverflowError>(py) { Ok(None) } else { Err(Raised::from_err(py, err)) }
}

/// Appends an int2.
pub fn encode_int2(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    match to_i64(cx, "int2", value)?.and_then(|number| i16::try_from(number).ok()) {
        Some(number) => out.extend_from_slice(&number.to_be_bytes()),
        None => return Err(overflow_error(cx.py, "value out of int16 range")),
    }
    Ok(())
}

/// Appends an int4.
#[inline]
pub fn encode_int4(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    match to_i64(cx, "int4", value)?.and_then(|number| i32::try_from(number).ok()) {
        Some(number) => out.extend_from_slice(&number.to_be_bytes()),
        None => return Err(overflow_error(cx.py, "value out of int32 range")),
    }
    Ok(())
}

/// Appends an int8.
#[inline]
pub fn encode_int8(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    match to_i64(cx, "int8", value)? {
        Some(number) => out.extend_from_slice(&number.to_be_bytes()),
        None => return Err(overflow_error(cx.py, "value out of int64 range")),
    }
    Ok(())
}

/// Appends an oid or another unsigned number of four bytes.
pub fn encode_uint4(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    match to_u64(cx, "an unsigned number", value)?.and_then(|number| u32::try_from(number).ok()) {
        Some(number) => out.extend_from_slice(&number.to_be_bytes()),
        None => return Err(overflow_error(cx.py, "value out of uint32 range")),
    }
    Ok(())
}

/// Appends an xid8 or another unsigned number of eight bytes.
pub fn encode_uint8(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    match to_u64(cx, "an unsigned number", value)? {
        Some(number) => out.extend_from_slice(&number.to_be_bytes()),
        None => return Err(overflow_error(cx.py, "value out of uint64 range")),
    }
    Ok(())
}

/// The float that a value stands for.
#[inline]
pub fn to_f64(py: Python<'_>, value: &Bound<'_, PyAny>) -> Result<f64, Raised> {
    // SAFETY: the object is live; a wrong type sets an exception, which is looked for.
    let number = unsafe { ffi::PyFloat_AsDouble(value.as_ptr()) };
    if number == -1.0 {
        python::check(py)?;
    }
    Ok(number)
}

/// Refuses what has more digits than a float, where the server is to have them.
#[inline]
fn check_float(cx: &Context<'_, '_>, kind: &str, value: &Bound<'_, PyAny>) -> Done {
    if cx.manner != Manner::Typed || value.is_exact_instance_of::<PyFloat>() {
        return Ok(());
    }
    let py = cx.py;
    let fits = if value.is_exact_instance_of::<PyInt>() {
        to_i64(cx, kind, value)?.is_some_and(|number| number.unsigned_abs() <= EXACT)
    } else {
        !value.is_instance(cx.imports.decimal.bind(py).as_any()).or_raise(py)?
    };
    if fits { Ok(()) } else { Err(fit::misfit(py, kind, value)) }
}

/// Appends a float4; what rounds to infinity without being infinite is refused.
pub fn encode_float4(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    let py = cx.py;
    check_float(cx, "float4", value)?;
    let double = to_f64(py, value)?;
    let single = double as f32;
    if single.is_infinite() && !double.is_infinite() {
        return Err(value_error(py, "value out of float32 range"));
    }
    out.extend_from_slice(&single.to_be_bytes());
    Ok(())
}

/// A float4: the number that it is; as psycopg the one that its shortest digits say, 1.1 and not 1.100000023841858.
#[inline]
pub fn decode_float4<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    let single = f32::from_be_bytes(fixed(cx.py, data)?);
    let double = f64::from(single);
    // A whole number of few digits has no others.
    if !cx.as_psycopg || !single.is_finite() || (single.fract() == 0.0 && single.abs() < 16_777_216.0) {
        return python::float(cx.py, double);
    }
    python::float(cx.py, format!("{single:e}").parse().unwrap_or(double))
}

/// Appends a float8.
#[inline]
pub fn encode_float8(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    check_float(cx, "float8", value)?;
    out.extend_from_slice(&to_f64(cx.py, value)?.to_be_bytes());
    Ok(())
}
