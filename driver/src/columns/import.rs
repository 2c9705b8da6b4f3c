//! Columns that others lend by Arrow's C interfaces, written as rows of a binary COPY.

use std::ffi::{CStr, c_void};
use std::sync::{Mutex, MutexGuard};

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple};

use super::arrow::{Array, Schema, Stream};
use super::decimal;
use crate::codec::{Body, Codec};

/// Microseconds from 1970-01-01, where Arrow counts from, to 2000-01-01, where PostgreSQL does.
const EPOCH: i64 = 946_684_800_000_000;
const DAYS: i64 = 10_957;

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

/// How values of a column are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Read {
    Bool,
    /// Width in bytes, and whether there is a sign.
    Int(usize, bool),
    Float32,
    Float64,
    /// Offsets of 32 or 64 bits.
    Bytes(usize),
    /// Short ones in place, others elsewhere.
    Views,
    Fixed(usize),
    /// Values a second.
    Time(i64),
    Days,
    /// The width of a time of the day, and values a second.
    Clock(usize, i64),
    /// Values a second.
    Duration(i64),
    /// Months, days and nanoseconds.
    Months,
    /// The width, and digits behind the point.
    Decimal(usize, i32),
    /// Offsets of 32 or 64 bits into a column of elements.
    List(usize),
}

/// How they are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Write {
    Bool,
    Int(usize),
    Float4,
    Float8,
    /// With this byte in front, as jsonb has it.
    Bytes(Option<u8>),
    Date,
    Timestamp,
    Time,
    Interval,
    Numeric,
    Oid,
    /// The elements' type.
    Array(u32),
}

#[derive(Clone, Debug)]
struct Converter {
    read: Read,
    write: Write,
    /// The width of positions in a dictionary.
    dictionary: Option<Read>,
    /// How the elements of a list are read and written.
    element: Option<Box<Converter>>,
}

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

impl Read {
    fn of(format: &str) -> Option<Read> {
        let unit = |unit: &str| match unit {
            "s" => Some(1),
            "m" => Some(1_000),
            "u" => Some(1_000_000),
            "n" => Some(1_000_000_000),
            _ => None,
        };
        Some(match format {
            "b" => Read::Bool,
            "c" => Read::Int(1, true),
            "C" => Read::Int(1, false),
            "s" => Read::Int(2, true),
            "S" => Read::Int(2, false),
            "i" => Read::Int(4, true),
            "I" => Read::Int(4, false),
            "l" => Read::Int(8, true),
            "L" => Read::Int(8, false),
            "f" => Read::Float32,
            "g" => Read::Float64,
            "u" | "z" => Read::Bytes(4),
            "U" | "Z" => Read::Bytes(8),
            "vu" | "vz" => Read::Views,
            "+l" => Read::List(4),
            "+L" => Read::List(8),
            "tdD" => Read::Days,
            "tdm" => Read::Time(1_000),
            "tts" => Read::Clock(4, 1),
            "ttm" => Read::Clock(4, 1_000),
            "ttu" => Read::Clock(8, 1_000_000),
            "ttn" => Read::Clock(8, 1_000_000_000),
            "tin" => Read::Months,
            _ if format.starts_with("d:") => return Read::decimal(format.get(2..)?),
            _ if format.starts_with("tD") => Read::Duration(unit(format.get(2..)?)?),
            _ => match (format.strip_prefix("w:"), format.strip_prefix("ts")) {
                (Some(width), _) => Read::Fixed(width.parse().ok()?),
                (_, Some(rest)) => Read::Time(unit(rest.get(..1)?)?),
                _ => return None,
            },
        })
    }
}

impl Read {
    /// A decimal, described by its precision, its scale and perhaps its bits.
    fn decimal(described: &str) -> Option<Read> {
        let mut parts = described.split(',');
        let (_, scale) = (parts.next()?, parts.next()?.parse().ok()?);
        match parts.next().unwrap_or("128") {
            "32" => Some(Read::Decimal(4, scale)),
            "64" => Some(Read::Decimal(8, scale)),
            "128" => Some(Read::Decimal(16, scale)),
            _ => None,
        }
    }
}

impl Converter {
    fn of(schema: &Schema, codec: &Codec) -> PyResult<Converter> {
        // SAFETY: null, or a schema that lives as long as its parent.
        let dictionary = unsafe { schema.dictionary.as_ref() };
        let shown = dictionary.map_or_else(|| format(schema), format);
        let refused = || {
            PyTypeError::new_err(format!(
                "column {:?} of Arrow's type {shown:?} cannot be copied into a column of type {}",
                text(schema.name),
                codec.name()
            ))
        };
        let read = Read::of(&shown).ok_or_else(refused)?;
        let dictionary = match dictionary {
            Some(_) => Some(Read::of(&format(schema)).ok_or_else(refused)?),
            None => None,
        };
        if let (Body::Array { element, element_oid, .. }, Read::List(_)) = (&codec.body, read) {
            let child = children(schema).into_iter().next().ok_or_else(refused)?;
            let element = Some(Box::new(Converter::of(child, element)?));
            if matches!(element.as_deref(), Some(Converter { read: Read::List(_), .. })) {
                return Err(refused());
            }
            return Ok(Converter { read, write: Write::Array(*element_oid), dictionary, element });
        }
        let write = match (codec.oid(), read) {
            (16, Read::Bool) => Write::Bool,
            (21, Read::Int(..) | Read::Bool) => Write::Int(2),
            (23, Read::Int(..) | Read::Bool) => Write::Int(4),
            (20, Read::Int(..) | Read::Bool) => Write::Int(8),
            (700, Read::Int(..) | Read::Float32 | Read::Float64) => Write::Float4,
            (701, Read::Int(..) | Read::Float32 | Read::Float64) => Write::Float8,
            (1082, Read::Days | Read::Time(_)) => Write::Date,
            (1114 | 1184, Read::Time(_) | Read::Days) => Write::Timestamp,
            (26, Read::Int(..)) => Write::Oid,
            (1083, Read::Clock(..)) => Write::Time,
            (1186, Read::Duration(_) | Read::Months) => Write::Interval,
            (1700, Read::Decimal(..) | Read::Int(..)) => Write::Numeric,
            (2950, Read::Fixed(16)) | (17, Read::Fixed(_) | Read::Bytes(_) | Read::Views) => Write::Bytes(None),
            (3802, Read::Bytes(_) | Read::Views) => Write::Bytes(Some(1)),
            (25 | 1043 | 1042 | 19 | 114, Read::Bytes(_) | Read::Views) => Write::Bytes(None),
            // Labels of enums, which are numbered by the database.
            (16_384.., Read::Bytes(_) | Read::Views) => Write::Bytes(None),
            _ => return Err(refused()),
        };
        Ok(Converter { read, write, dictionary, element: None })
    }
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

fn write_row(batch: &Array, columns: &[Converter], row: usize, out: &mut Vec<u8>) -> PyResult<()> {
    out.extend_from_slice(&(columns.len() as u16).to_be_bytes());
    for (place, converter) in columns.iter().enumerate() {
        if usize::try_from(batch.n_children).unwrap_or(0) <= place {
            return Err(PyValueError::new_err("a batch has fewer columns than its schema"));
        }
        // SAFETY: the batch has so many children; the row is one of its rows, counted from its own offset.
        unsafe {
            let column = &**batch.children.add(place);
            let row = row + usize::try_from(batch.offset).unwrap_or(0);
            write_value(column, converter, row, out)?;
        }
    }
    Ok(())
}

/// # Safety
/// The column has the converter's type, and `row` is one of its rows.
unsafe fn write_value(column: &Array, converter: &Converter, row: usize, out: &mut Vec<u8>) -> PyResult<()> {
    // SAFETY: buffers of Arrow's arrays hold as many values as their offset and length say.
    unsafe {
        let at = row + usize::try_from(column.offset).unwrap_or(0);
        if is_null(column, at) {
            out.extend_from_slice(&[0xff; 4]);
            return Ok(());
        }
        let (column, at) = match (converter.dictionary, column.dictionary.as_ref()) {
            (Some(positions), Some(dictionary)) => {
                let position = usize::try_from(integer(column, positions, at)).unwrap_or(usize::MAX);
                if position >= usize::try_from(dictionary.length).unwrap_or(0) {
                    return Err(PyValueError::new_err("a position is outside of its dictionary"));
                }
                (dictionary, position + usize::try_from(dictionary.offset).unwrap_or(0))
            }
            _ => (column, at),
        };
        if is_null(column, at) {
            out.extend_from_slice(&[0xff; 4]);
            return Ok(());
        }
        if let (Write::Array(oid), Some(element)) = (converter.write, &converter.element) {
            return write_array(column, converter.read, oid, element, at, out);
        }
        let mut put = |bytes: &[u8]| -> PyResult<()> {
            let length = i32::try_from(bytes.len()).map_err(|_| PyOverflowError::new_err("a value is too long"))?;
            out.extend_from_slice(&length.to_be_bytes());
            out.extend_from_slice(bytes);
            Ok(())
        };
        match converter.write {
            Write::Bool => put(&[u8::from(integer(column, Read::Bool, at) != 0)]),
            Write::Int(width) => {
                let value = integer(column, converter.read, at);
                let fits = match width {
                    2 => i16::try_from(value).is_ok(),
                    4 => i32::try_from(value).is_ok(),
                    _ => i64::try_from(value).is_ok(),
                };
                if !fits {
                    return Err(PyOverflowError::new_err(format!(
                        "{value} is out of range for a column of {width} bytes"
                    )));
                }
                let bytes = value.to_be_bytes();
                put(bytes.get(16 - width..).unwrap_or_default())
            }
            Write::Float4 => put(&(float(column, converter.read, at) as f32).to_be_bytes()),
            Write::Float8 => put(&float(column, converter.read, at).to_be_bytes()),
            Write::Bytes(front) => {
                let bytes = bytes(column, converter.read, at);
                match front {
                    None => put(bytes),
                    Some(front) => put(&[&[front], bytes].concat()),
                }
            }
            Write::Oid => {
                let value = integer(column, converter.read, at);
                let value = u32::try_from(value).map_err(|_| {
                    PyOverflowError::new_err(format!("{value} is out of range for a column of type oid"))
                })?;
                put(&value.to_be_bytes())
            }
            Write::Numeric => match converter.read {
                Read::Decimal(16, scale) => {
                    let value: i128 = buffer(column, 1).cast::<i128>().add(at).read_unaligned();
                    put(&decimal::unscaled(value, scale))
                }
                Read::Decimal(width, scale) => {
                    put(&decimal::unscaled(integer(column, Read::Int(width, true), at), scale))
                }
                read => put(&decimal::unscaled(integer(column, read, at), 0)),
            },
            Write::Time => {
                let (width, unit) = if let Read::Clock(width, unit) = converter.read { (width, unit) } else { (8, 1) };
                let micros = (integer(column, Read::Int(width, true), at) * 1_000_000).div_euclid(i128::from(unit));
                match i64::try_from(micros).ok().filter(|micros| (0..=86_400_000_000).contains(micros)) {
                    Some(micros) => put(&micros.to_be_bytes()),
                    None => Err(PyOverflowError::new_err("a time of the day is out of range")),
                }
            }
            Write::Interval => {
                let (micros, days, months) = match converter.read {
                    Read::Duration(unit) => {
                        let value = integer(column, Read::Int(8, true), at);
                        ((value * 1_000_000).div_euclid(i128::from(unit)), 0, 0)
                    }
                    _ => {
                        let parts: *const i32 = buffer(column, 1).cast::<i32>().add(at * 4);
                        let nanos = parts.add(2).cast::<i64>().read_unaligned();
                        (i128::from(nanos.div_euclid(1000)), parts.add(1).read(), parts.read())
                    }
                };
                let micros =
                    i64::try_from(micros).map_err(|_| PyOverflowError::new_err("an interval is out of range"))?;
                let mut bytes = [0; 16];
                let (first, rest) = bytes.split_at_mut(8);
                let (second, third) = rest.split_at_mut(4);
                first.copy_from_slice(&micros.to_be_bytes());
                second.copy_from_slice(&days.to_be_bytes());
                third.copy_from_slice(&months.to_be_bytes());
                put(&bytes)
            }
            // Written above.
            Write::Array(_) => Ok(()),
            Write::Date => {
                let days = match converter.read {
                    Read::Time(unit) => {
                        (integer(column, Read::Int(8, true), at) as i64).div_euclid(unit.saturating_mul(86_400))
                    }
                    _ => integer(column, Read::Int(4, true), at) as i64,
                };
                let days =
                    i32::try_from(days - DAYS).map_err(|_| PyOverflowError::new_err("a date is out of range"))?;
                put(&days.to_be_bytes())
            }
            Write::Timestamp => {
                let micros = match converter.read {
                    Read::Time(unit) => {
                        let value = integer(column, Read::Int(8, true), at);
                        i64::try_from((value * 1_000_000).div_euclid(i128::from(unit))).ok()
                    }
                    _ => i64::try_from(integer(column, Read::Int(4, true), at) * 86_400_000_000).ok(),
                };
                let micros = micros
                    .and_then(|micros| micros.checked_sub(EPOCH))
                    .ok_or_else(|| PyOverflowError::new_err("a timestamp is out of range"))?;
                put(&micros.to_be_bytes())
            }
        }
    }
}

/// Writes a list as an array of one dimension.
///
/// # Safety
/// The column is a list of what `element` reads, and `at` is a place of it.
unsafe fn write_array(
    column: &Array,
    read: Read,
    oid: u32,
    element: &Converter,
    at: usize,
    out: &mut Vec<u8>,
) -> PyResult<()> {
    // SAFETY: offsets are in the second buffer; a list has one child, of as many values as they say.
    unsafe {
        let (start, end) = if read == Read::List(4) {
            let offsets: *const i32 = buffer(column, 1).cast();
            (i64::from(*offsets.add(at)), i64::from(*offsets.add(at + 1)))
        } else {
            let offsets: *const i64 = buffer(column, 1).cast();
            (*offsets.add(at), *offsets.add(at + 1))
        };
        let (Ok(start), Ok(end)) = (usize::try_from(start), usize::try_from(end)) else {
            return Err(PyValueError::new_err("a list has an offset below zero"));
        };
        if column.n_children < 1 || end < start {
            return Err(PyValueError::new_err("a list without its elements"));
        }
        let too_long = |_| PyOverflowError::new_err("a list is too long");
        let count = i32::try_from(end - start).map_err(too_long)?;
        let place = out.len();
        let dimensions: i32 = if count == 0 { 0 } else { 1 };
        for word in [0, dimensions, 0, oid.cast_signed()] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        if count > 0 {
            for word in [count, 1] {
                out.extend_from_slice(&word.to_be_bytes());
            }
        }
        let child = &**column.children;
        for row in start..end {
            write_value(child, element, row, out)?;
        }
        let length = i32::try_from(out.len() - place - 4).map_err(too_long)?;
        if let Some(word) = out.get_mut(place..place + 4) {
            word.copy_from_slice(&length.to_be_bytes());
        }
        Ok(())
    }
}

/// # Safety
/// `place` is one of the column's buffers.
unsafe fn buffer(column: &Array, place: usize) -> *const c_void {
    // SAFETY: as promised.
    unsafe { *column.buffers.add(place) }
}

/// # Safety
/// `at` is a place of the column.
unsafe fn is_null(column: &Array, at: usize) -> bool {
    // SAFETY: the first buffer is the validity bitmap, or null.
    unsafe {
        let validity: *const u8 = buffer(column, 0).cast();
        column.null_count != 0 && !validity.is_null() && *validity.add(at / 8) >> (at % 8) & 1 == 0
    }
}

/// # Safety
/// The column has that type, and `at` is a place of it.
unsafe fn integer(column: &Array, read: Read, at: usize) -> i128 {
    // SAFETY: values of the type lie one behind the other in the second buffer.
    unsafe {
        let values = buffer(column, 1);
        match read {
            Read::Bool => i128::from(*values.cast::<u8>().add(at / 8) >> (at % 8) & 1),
            Read::Int(1, true) => i128::from(*values.cast::<i8>().add(at)),
            Read::Int(1, false) => i128::from(*values.cast::<u8>().add(at)),
            Read::Int(2, true) => i128::from(*values.cast::<i16>().add(at)),
            Read::Int(2, false) => i128::from(*values.cast::<u16>().add(at)),
            Read::Int(4, true) => i128::from(*values.cast::<i32>().add(at)),
            Read::Int(4, false) => i128::from(*values.cast::<u32>().add(at)),
            Read::Int(_, true) => i128::from(*values.cast::<i64>().add(at)),
            Read::Int(_, false) => i128::from(*values.cast::<u64>().add(at)),
            _ => 0,
        }
    }
}

/// # Safety
/// As for [`integer`].
unsafe fn float(column: &Array, read: Read, at: usize) -> f64 {
    // SAFETY: as for integers.
    unsafe {
        match read {
            Read::Float32 => f64::from(*buffer(column, 1).cast::<f32>().add(at)),
            Read::Float64 => *buffer(column, 1).cast::<f64>().add(at),
            _ => integer(column, read, at) as f64,
        }
    }
}

/// # Safety
/// As for [`integer`].
unsafe fn bytes(column: &Array, read: Read, at: usize) -> &[u8] {
    // SAFETY: offsets are in the second buffer and what they point into in the third; fixed widths lie in the second.
    unsafe {
        let (start, end, values): (usize, usize, *const u8) = match read {
            Read::Bytes(4) => {
                let offsets: *const i32 = buffer(column, 1).cast();
                (*offsets.add(at) as usize, *offsets.add(at + 1) as usize, buffer(column, 2).cast())
            }
            Read::Bytes(_) => {
                let offsets: *const i64 = buffer(column, 1).cast();
                (*offsets.add(at) as usize, *offsets.add(at + 1) as usize, buffer(column, 2).cast())
            }
            Read::Fixed(width) => (at * width, (at + 1) * width, buffer(column, 1).cast()),
            Read::Views => {
                // A length, and then either up to 12 bytes or a prefix, the number of a buffer and a place in it.
                let view: *const i32 = buffer(column, 1).cast::<i32>().add(at * 4);
                let length = usize::try_from(view.read()).unwrap_or(0);
                if length <= 12 {
                    (4, 4 + length, view.cast())
                } else {
                    let number = usize::try_from(view.add(2).read()).unwrap_or(usize::MAX);
                    let start = usize::try_from(view.add(3).read()).unwrap_or(0);
                    if number.saturating_add(3) >= usize::try_from(column.n_buffers).unwrap_or(0) {
                        return &[];
                    }
                    (start, start + length, buffer(column, 2 + number).cast())
                }
            }
            _ => return &[],
        };
        if end <= start || values.is_null() {
            return &[];
        }
        std::slice::from_raw_parts(values.add(start), end - start)
    }
}
