//! Arrays in binary form: dimensions, then elements with their lengths, as nested lists.

use std::sync::Arc;

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyMemoryView, PyString, PyTuple};

use super::python::{self, Done, Filling, OrRaise, Raised, Value, protocol_error, type_error, type_name, value_error};
use super::reader::{Reader, fixed};
use super::{Body, Codec, Context, Scalar, datetime, number, text};

/// The most dimensions that PostgreSQL knows.
pub const MAX_DIMENSIONS: usize = 6;

/// Element types whose decoder is compiled into the loop.
pub const PLAIN: [Scalar; 7] =
    [Scalar::Int4, Scalar::Int8, Scalar::Int2, Scalar::Float8, Scalar::Float4, Scalar::Text, Scalar::Timestamptz];

/// A list, of lists where there is more than one dimension. Lower bounds are dropped.
pub fn decode<'py>(cx: &Context<'_, 'py>, element: &Codec, data: &[u8]) -> Value<'py> {
    let py = cx.py;
    let mut reader = Reader::new(data);
    let count = reader.i32(py)?;
    reader.array::<8>(py)?;
    if count == 0 {
        reader.end(py)?;
        return Filling::list(py, 0).map(Filling::finish);
    }
    let Ok(count) = usize::try_from(count) else {
        return Err(protocol_error(py, format!("unexpected array dimensions value: {count}")));
    };
    if count > MAX_DIMENSIONS {
        return Err(protocol_error(
            py,
            format!("number of array dimensions ({count}) exceed the maximum expected ({MAX_DIMENSIONS})"),
        ));
    }
    let mut dimensions = [0_usize; MAX_DIMENSIONS];
    let mut total = 1_usize;
    for place in dimensions.iter_mut().take(count) {
        let size = reader.i32(py)?;
        let Ok(size) = usize::try_from(size) else {
            return Err(protocol_error(py, format!("unexpected array dimension size: {size}")));
        };
        reader.i32(py)?;
        *place = size;
        total = match total.checked_mul(size) {
            Some(total) => total,
            None => return Err(protocol_error(py, "array length overflow")),
        };
    }
    if total == 0 {
        reader.end(py)?;
        return Filling::list(py, 0).map(Filling::finish);
    }
    // Every element has at least its length word, so no list can be larger than what was received.
    reader.backed(py, total, 4)?;
    let dimensions = dimensions.get(..count).unwrap_or_default();
    let result = match &element.body {
        Body::Scalar(scalar) if scalar.is_plain() => decode_plain(cx, *scalar, &mut reader, dimensions)?,
        _ => nested(py, &mut reader, dimensions, &|data| element.decode_value(cx, data))?,
    };
    reader.end(py)?;
    Ok(result)
}

fn decode_plain<'py>(
    cx: &Context<'_, 'py>,
    scalar: Scalar,
    reader: &mut Reader<'_>,
    dimensions: &[usize],
) -> Value<'py> {
    let py = cx.py;
    match scalar {
        Scalar::Int4 => {
            nested(py, reader, dimensions, &|data| python::int(py, i32::from_be_bytes(fixed(py, data)?).into()))
        }
        Scalar::Int8 => nested(py, reader, dimensions, &|data| python::int(py, i64::from_be_bytes(fixed(py, data)?))),
        Scalar::Int2 => {
            nested(py, reader, dimensions, &|data| python::int(py, i16::from_be_bytes(fixed(py, data)?).into()))
        }
        Scalar::Float8 => {
            nested(py, reader, dimensions, &|data| python::float(py, f64::from_be_bytes(fixed(py, data)?)))
        }
        Scalar::Float4 => nested(py, reader, dimensions, &|data| number::decode_float4(cx, data)),
        Scalar::Text => nested(py, reader, dimensions, &|data| text::decode(cx, data)),
        Scalar::Timestamptz => nested(py, reader, dimensions, &|data| datetime::decode_timestamptz(cx, data)),
        other => nested(py, reader, dimensions, &|data| other.decode(cx, data)),
    }
}

/// Lists within lists; at most as deep as there are dimensions, which are at most six.
fn nested<'py>(
    py: Python<'py>,
    reader: &mut Reader<'_>,
    dimensions: &[usize],
    read: &impl Fn(&[u8]) -> Value<'py>,
) -> Value<'py> {
    let Some((&size, inner)) = dimensions.split_first() else {
        return Filling::list(py, 0).map(Filling::finish);
    };
    let mut list = Filling::list(py, size)?;
    if inner.is_empty() {
        for _ in 0..size {
            match reader.field(py)? {
                Some(data) => list.push(read(data)?),
                None => list.push(py.None().into_bound(py)),
            }
        }
    } else {
        for _ in 0..size {
            list.push(nested(py, reader, inner, read)?);
        }
    }
    Ok(list.finish())
}

/// Whether a value can be an array: sized and iterable, but neither text nor bytes nor a mapping.
pub fn is_array(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>) -> Result<bool, Raised> {
    let py = cx.py;
    if value.is_exact_instance_of::<PyList>() || value.is_exact_instance_of::<PyTuple>() {
        return Ok(true);
    }
    if value.is_instance_of::<PyString>()
        || value.is_instance_of::<PyBytes>()
        || value.is_instance_of::<PyByteArray>()
        || value.is_instance_of::<PyMemoryView>()
    {
        return Ok(false);
    }
    let is = |class: &Py<PyAny>| value.is_instance(class.bind(py)).or_raise(py);
    Ok(is(&cx.imports.abc_iterable)? && is(&cx.imports.abc_sized)? && !is(&cx.imports.abc_mapping)?)
}

/// Tells sub-arrays from elements, remembering the last type that was an element's: asking the abstract classes costs
/// more than writing an integer.
struct Elements {
    last: *mut ffi::PyTypeObject,
}

impl Elements {
    fn new() -> Self {
        Elements { last: std::ptr::null_mut() }
    }

    /// Whether a value within an array is an array itself; a tuple is taken for a composite.
    fn is_sub_array(&mut self, cx: &Context<'_, '_>, value: &Bound<'_, PyAny>) -> Result<bool, Raised> {
        let class = value.get_type_ptr();
        if class == self.last {
            return Ok(false);
        }
        let array = !value.is_instance_of::<PyTuple>() && is_array(cx, value)?;
        if !array {
            self.last = class;
        }
        Ok(array)
    }
}

/// The sizes of the dimensions, the first element's of each level being the measure.
pub fn shape(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>) -> Result<Vec<usize>, Raised> {
    let py = cx.py;
    if !is_array(cx, value)? {
        let found = type_name(value);
        return Err(type_error(py, format!("a sized iterable container expected (got type '{found}')")));
    }
    let mut sizes = Vec::new();
    measure(cx, value, &mut sizes, &mut Elements::new())?;
    Ok(sizes)
}

fn measure(cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, sizes: &mut Vec<usize>, elements: &mut Elements) -> Done {
    let py = cx.py;
    let size = value.len().or_raise(py)?;
    if i32::try_from(size).is_err() {
        return Err(value_error(py, "too many elements in array value"));
    }
    sizes.push(size);
    if sizes.len() > MAX_DIMENSIONS {
        return Err(value_error(
            py,
            format!("number of array dimensions ({}) exceed the maximum expected ({MAX_DIMENSIONS})", sizes.len()),
        ));
    }
    let ragged = || value_error(py, "non-homogeneous array");
    // None: nothing seen. Some(None): elements. Some(Some(n)): arrays of n.
    let mut seen: Option<Option<usize>> = None;
    for item in value.try_iter().or_raise(py)? {
        let item = item.or_raise(py)?;
        if elements.is_sub_array(cx, &item)? {
            let length = item.len().or_raise(py)?;
            match seen {
                None => {
                    seen = Some(Some(length));
                    measure(cx, &item, sizes, elements)?;
                }
                Some(Some(expected)) if expected == length => {}
                Some(_) => return Err(ragged()),
            }
        } else {
            if matches!(seen, Some(Some(_))) {
                return Err(ragged());
            }
            seen = Some(None);
        }
    }
    Ok(())
}

/// Appends an array of any iterable and sized container, nested to the same depth everywhere.
pub fn encode(
    cx: &Context<'_, '_>,
    element: &Arc<Codec>,
    element_oid: u32,
    value: &Bound<'_, PyAny>,
    out: &mut Vec<u8>,
) -> Done {
    let py = cx.py;
    let sizes = shape(cx, value)?;
    out.extend_from_slice(&(sizes.len() as i32).to_be_bytes());
    out.extend_from_slice(&0_i32.to_be_bytes());
    out.extend_from_slice(&element_oid.to_be_bytes());
    for size in &sizes {
        out.extend_from_slice(&(*size as i32).to_be_bytes());
        out.extend_from_slice(&1_i32.to_be_bytes());
    }
    if sizes.len() == 1 {
        let mut written = 0;
        for (index, item) in value.try_iter().or_raise(py)?.enumerate() {
            let item = item.or_raise(py)?;
            element.encode_field(cx, &item, out).or_else(|raised| element_error(py, raised, Some(index)))?;
            written += 1;
        }
        return if Some(&written) == sizes.first() { Ok(()) } else { Err(value_error(py, "non-homogeneous array")) };
    }
    write(cx, element, value, &sizes, out)
}

fn write(
    cx: &Context<'_, '_>,
    element: &Arc<Codec>,
    value: &Bound<'_, PyAny>,
    sizes: &[usize],
    out: &mut Vec<u8>,
) -> Done {
    let py = cx.py;
    let Some((&size, inner)) = sizes.split_first() else { return Ok(()) };
    let mut written = 0;
    for item in value.try_iter().or_raise(py)? {
        let item = item.or_raise(py)?;
        if inner.is_empty() {
            element.encode_field(cx, &item, out).or_else(|raised| element_error(py, raised, None))?;
        } else {
            write(cx, element, &item, inner, out)?;
        }
        written += 1;
    }
    if written == size { Ok(()) } else { Err(value_error(py, "non-homogeneous array")) }
}

/// Says which element was of the wrong type; other errors say so by themselves.
#[cold]
pub fn element_error(py: Python<'_>, raised: Raised, index: Option<usize>) -> Done {
    let err = raised.into_err(py);
    if !err.is_instance_of::<pyo3::exceptions::PyTypeError>(py) {
        return Err(Raised::from_err(py, err));
    }
    let cause = err.value(py).str().map_or_else(|_| String::new(), |text| text.to_string());
    Err(match index {
        Some(index) => value_error(py, format!("invalid array element at index {index}: {cause}")),
        None => value_error(py, format!("invalid array element: {cause}")),
    })
}
