//! Geometric types: doubles in a fixed order, as the classes of `howdah.types`.

use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyTuple};

use super::Context;
use super::number::to_f64;
use super::python::{Done, Filling, OrRaise, Raised, Value, value_error};
use super::reader::Reader;

fn doubles<const N: usize>(cx: &Context<'_, '_>, data: &[u8]) -> Result<[f64; N], Raised> {
    let mut reader = Reader::new(data);
    let mut numbers = [0.0; N];
    for number in &mut numbers {
        *number = reader.f64(cx.py)?;
    }
    reader.end(cx.py)?;
    Ok(numbers)
}

fn point<'py>(cx: &Context<'_, 'py>, x: f64, y: f64) -> Value<'py> {
    cx.imports.point(cx.py)?.call1((x, y)).or_raise(cx.py)
}

/// A `Point`.
pub fn decode_point<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    let [x, y] = doubles(cx, data)?;
    point(cx, x, y)
}

/// A `Box` of its upper right and lower left corners.
pub fn decode_box<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    let [high_x, high_y, low_x, low_y] = doubles(cx, data)?;
    let corners = (point(cx, high_x, high_y)?, point(cx, low_x, low_y)?);
    cx.imports.shape(cx.py, "Box")?.call1(corners).or_raise(cx.py)
}

/// A `Line` of the coefficients of `Ax + By + C = 0`.
pub fn decode_line<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    let [a, b, c] = doubles(cx, data)?;
    cx.imports.shape(cx.py, "Line")?.call1((a, b, c)).or_raise(cx.py)
}

/// A `LineSegment` of its two ends.
pub fn decode_lseg<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    let [x1, y1, x2, y2] = doubles(cx, data)?;
    cx.imports.shape(cx.py, "LineSegment")?.call1(((x1, y1), (x2, y2))).or_raise(cx.py)
}

/// A `Circle` of its centre and radius.
pub fn decode_circle<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    let [x, y, radius] = doubles(cx, data)?;
    cx.imports.shape(cx.py, "Circle")?.call1(((x, y), radius)).or_raise(cx.py)
}

fn decode_points<'py>(cx: &Context<'_, 'py>, reader: &mut Reader<'_>) -> Result<Bound<'py, PyTuple>, Raised> {
    let py = cx.py;
    let count = reader.u32(py)? as usize;
    reader.backed(py, count, 16)?;
    let mut points = Filling::tuple(py, count)?;
    for _ in 0..count {
        let (x, y) = (reader.f64(py)?, reader.f64(py)?);
        points.push(point(cx, x, y)?);
    }
    reader.end(py)?;
    points.finish().cast_into::<PyTuple>().map_err(PyErr::from).or_raise(py)
}

/// A `Path`, open or closed.
pub fn decode_path<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    let py = cx.py;
    let mut reader = Reader::new(data);
    let closed = reader.u8(py)? == 1;
    let points = decode_points(cx, &mut reader)?;
    let keywords = PyDict::new(py);
    keywords.set_item("is_closed", closed).or_raise(py)?;
    cx.imports.shape(py, "Path")?.call(points, Some(&keywords)).or_raise(py)
}

/// A `Polygon`.
pub fn decode_polygon<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    let points = decode_points(cx, &mut Reader::new(data))?;
    cx.imports.shape(cx.py, "Polygon")?.call1(points).or_raise(cx.py)
}

fn put(py: Python<'_>, holder: &Bound<'_, PyAny>, place: usize, out: &mut Vec<u8>) -> Done {
    let number = to_f64(py, &holder.get_item(place).or_raise(py)?)?;
    out.extend_from_slice(&number.to_be_bytes());
    Ok(())
}

/// Appends a point: anything with two numbers.
pub fn encode_point(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    put(cx.py, value, 0, out)?;
    put(cx.py, value, 1, out)
}

/// Appends a box or a segment: anything with two points.
pub fn encode_pair(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    let py = cx.py;
    let (first, second) = (value.get_item(0).or_raise(py)?, value.get_item(1).or_raise(py)?);
    encode_point(cx, &first, out)?;
    encode_point(cx, &second, out)
}

/// Appends a line: anything with three numbers.
pub fn encode_line(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    put(cx.py, value, 0, out)?;
    put(cx.py, value, 1, out)?;
    put(cx.py, value, 2, out)
}

/// Appends a circle: a point and a number.
pub fn encode_circle(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    let centre = value.get_item(0).or_raise(cx.py)?;
    encode_point(cx, &centre, out)?;
    put(cx.py, value, 1, out)
}

fn encode_points(cx: &Context<'_, '_>, kind: &str, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    let py = cx.py;
    let count = value.len().or_raise(py)?;
    let fits = i32::try_from(count.saturating_mul(16).saturating_add(5)).is_ok();
    let (true, Ok(announced)) = (fits, i32::try_from(count)) else {
        return Err(value_error(py, format!("{kind} value too long")));
    };
    out.extend_from_slice(&announced.to_be_bytes());
    let start = out.len();
    for point in value.try_iter().or_raise(py)? {
        encode_point(cx, &point.or_raise(py)?, out)?;
    }
    if out.len() - start != count * 16 {
        return Err(value_error(py, format!("{kind} value changed while it was sent")));
    }
    Ok(())
}

/// Appends a path: a tuple is closed, a list open, a `Path` knows.
pub fn encode_path(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    let py = cx.py;
    let closed = if value.is_instance_of::<PyTuple>() {
        true
    } else if value.is_instance_of::<PyList>() {
        false
    } else if value.is_instance(&cx.imports.shape(py, "Path")?).or_raise(py)? {
        value.getattr("is_closed").or_raise(py)?.is_truthy().or_raise(py)?
    } else {
        false
    };
    out.push(closed.into());
    encode_points(cx, "path", value, out)
}

/// Appends a polygon: points.
pub fn encode_polygon(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
    encode_points(cx, "polygon", value, out)
}
