//! What Python sees of columns: the whole result, and one column of it.
//!
//! Both speak Arrow's PyCapsule interface, and a column of numbers or moments NumPy's array interface too. What Python
//! asks for value by value is made when it is asked for.

use std::ffi::CStr;
use std::sync::{Arc, OnceLock};

use pyo3::exceptions::{PyAttributeError, PyIndexError, PyKeyError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyString, PyTuple};

use super::Batch;
use super::arrow::{Array, Schema, Source, Stream, names};
use super::column::{Column, Values};
use crate::codec::python::{self, OrRaise, Value};
use crate::codec::{Context, Registry, Scalar};

/// A result as columns.
///
/// `pyarrow.table(columns)`, `polars.DataFrame(columns)`, `pandas.DataFrame.from_arrow(columns)` and DuckDB take it
/// without copying its values; ``columns["name"]`` is one column, of which `numpy.asarray` makes an array.
#[pyclass(frozen, mapping, module = "howdah._core")]
#[derive(Debug)]
pub struct Columns {
    batches: Arc<Vec<Batch>>,
}

/// One column of a result.
#[pyclass(frozen, sequence, module = "howdah._core", name = "Column")]
#[derive(Debug)]
pub struct ColumnObject {
    source: Source,
    place: usize,
    /// Booleans a byte each, made when NumPy asks for them.
    unpacked: OnceLock<Vec<u8>>,
}

impl Columns {
    /// Of at least one batch.
    pub(super) fn new(batches: Vec<Batch>) -> Self {
        Columns { batches: Arc::new(batches) }
    }

    fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        self.batches.first().map_or(&[][..], |batch| batch.columns.as_slice()).iter().map(Column::name)
    }

    fn source(&self) -> Source {
        Source { batches: self.batches.clone(), column: None }
    }
}

#[pymethods]
impl Columns {
    /// How many rows there are.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batches.iter().map(|batch| batch.rows).sum()
    }

    /// How many columns there are.
    #[getter]
    fn num_columns(&self) -> usize {
        self.names().count()
    }

    /// The names of the columns, in order.
    #[getter]
    fn column_names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        PyList::new(py, self.names())
    }

    /// The names of the columns, in order.
    #[getter(names)]
    fn name_tuple<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.names())
    }

    /// The names of the columns, in order.
    fn keys<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        self.column_names(py)
    }

    /// How many rows there are.
    fn __len__(&self) -> usize {
        self.num_rows()
    }

    fn __contains__(&self, name: &str) -> bool {
        self.names().any(|known| known == name)
    }

    /// A column by its name or its position.
    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<ColumnObject> {
        let place = match key.cast::<PyString>() {
            Ok(name) => {
                let name = name.to_str()?;
                self.names().position(|known| known == name).ok_or_else(|| PyKeyError::new_err(name.to_owned()))?
            }
            Err(_) => index(key.extract()?, self.num_columns(), "column index out of range")?,
        };
        let source = Source { batches: self.batches.clone(), column: Some(place) };
        Ok(ColumnObject { source, place, unpacked: OnceLock::new() })
    }

    /// A dict of lists of Python objects.
    fn to_pydict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (place, name) in self.names().enumerate() {
            let source = Source { batches: self.batches.clone(), column: Some(place) };
            dict.set_item(name, ColumnObject { source, place, unpacked: OnceLock::new() }.to_pylist(py)?)?;
        }
        Ok(dict)
    }

    /// A DataFrame of pandas.
    fn to_pandas<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        show(slf, "to_pandas")
    }

    /// The first rows as a table, for notebooks.
    fn _repr_html_<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyAny>> {
        show(slf, "to_html")
    }

    fn __repr__(&self) -> String {
        let names: Vec<_> = self.names().collect();
        format!("<Columns of {} rows: {}>", self.num_rows(), names.join(", "))
    }

    /// The types of the columns, by Arrow's PyCapsule interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        capsule(py, self.source().schema(), names::SCHEMA)
    }

    /// The rows as one struct array, by Arrow's PyCapsule interface.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let _ = requested_schema;
        one_array(py, &self.source())
    }

    /// The rows as a stream of batches, by Arrow's PyCapsule interface.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        // Another type is asked for as a wish only.
        let _ = requested_schema;
        one_stream(py, self.source())
    }
}

/// What Python makes of columns, by a function of `howdah.show`.
fn show<'py>(columns: &Bound<'py, Columns>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    columns.py().import("howdah.show")?.call_method1(name, (columns,))
}

impl ColumnObject {
    fn batches(&self) -> impl Iterator<Item = &Column> {
        self.source.batches.iter().filter_map(|batch| batch.columns.get(self.place))
    }

    /// The only batch, which the array interfaces need.
    fn only(&self) -> Option<&Column> {
        let mut all = self.batches();
        let first = all.next()?;
        all.next().is_none().then_some(first)
    }

    fn nulls(&self) -> usize {
        self.batches().map(|column| column.validity.nulls()).sum()
    }
}

#[pymethods]
impl ColumnObject {
    /// The column's name.
    #[getter]
    fn name(&self) -> &str {
        self.batches().next().map_or("", Column::name)
    }

    /// How many values are NULL.
    #[getter]
    fn null_count(&self) -> usize {
        self.nulls()
    }

    fn __len__(&self) -> usize {
        self.batches().map(Column::len).sum()
    }

    /// A value as a Python object, None for NULL.
    fn __getitem__<'py>(&self, py: Python<'py>, place: isize) -> PyResult<Bound<'py, PyAny>> {
        let mut place = index(place, self.__len__(), "row index out of range")?;
        let registry = Registry::new();
        let cx = registry.context(py)?;
        for column in self.batches() {
            if place < column.len() {
                return column.value(&cx, place).map_err(|raised| raised.into_err(py));
            }
            place -= column.len();
        }
        Err(PyIndexError::new_err("row index out of range"))
    }

    /// A list of the values as Python objects, None for NULL.
    fn to_pylist<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let registry = Registry::new();
        let cx = registry.context(py)?;
        let list = PyList::empty(py);
        for column in self.batches() {
            for place in 0..column.len() {
                list.append(column.value(&cx, place).map_err(|raised| raised.into_err(py))?)?;
            }
        }
        Ok(list)
    }

    fn __repr__(&self) -> String {
        format!("<Column {} of {} values, {} of them NULL>", self.name(), self.__len__(), self.nulls())
    }

    /// NumPy's view of the values, without copying: numbers, booleans, timestamps and intervals.
    ///
    /// NULLs are NaN and NaT; integers and booleans with NULLs have no such view.
    #[getter]
    fn __array_interface__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let none = || PyAttributeError::new_err("__array_interface__");
        let column = self.only().ok_or_else(none)?;
        column.check_finite()?;
        let holes = column.validity.nulls() > 0;
        let (kind, start): (&str, *const u8) = match &column.values {
            Values::Float4(values) => ("<f4", values.as_ptr().cast()),
            Values::Float8(values) => ("<f8", values.as_ptr().cast()),
            Values::Timestamp(values) | Values::Timestamptz(values) => ("<M8[us]", values.as_ptr().cast()),
            Values::Interval(values) => ("<m8[us]", values.as_ptr().cast()),
            _ if holes => return Err(none()),
            Values::Int2(values) => ("<i2", values.as_ptr().cast()),
            Values::Int4(values) => ("<i4", values.as_ptr().cast()),
            Values::Int8(values) => ("<i8", values.as_ptr().cast()),
            Values::Uint4(values) => ("<u4", values.as_ptr().cast()),
            Values::Uint8(values) => ("<u8", values.as_ptr().cast()),
            Values::Bool(bits) => {
                let unpack = || (0..bits.len()).map(|place| bits.get(place).into()).collect();
                ("|b1", self.unpacked.get_or_init(unpack).as_ptr())
            }
            _ => return Err(none()),
        };
        let interface = PyDict::new(py);
        interface.set_item("version", 3)?;
        interface.set_item("shape", (column.len(),))?;
        interface
            .set_item("typestr", if cfg!(target_endian = "big") { kind.replace('<', ">") } else { kind.into() })?;
        // Read-only: Arrow's readers may look at the same memory.
        interface.set_item("data", (start as usize, true))?;
        Ok(interface)
    }

    /// An array of NumPy, for the columns that have no view: dates, and Python objects of everything else.
    #[pyo3(signature = (dtype = None, copy = None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if copy == Some(false) {
            return Err(PyValueError::new_err("this column has no view: its values must be copied"));
        }
        let numpy = py.import("numpy")?;
        let is_date = self.batches().any(|column| matches!(column.values, Values::Date(_)));
        let kind = if is_date { "datetime64[D]" } else { "object" };
        let arguments = PyDict::new(py);
        arguments.set_item("dtype", dtype.unwrap_or(PyString::new(py, kind).into_any()))?;
        numpy.call_method("array", (self.to_pylist(py)?,), Some(&arguments))
    }

    /// The type of the column, by Arrow's PyCapsule interface.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        capsule(py, self.source.schema(), names::SCHEMA)
    }

    /// The values as one array, by Arrow's PyCapsule interface.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let _ = requested_schema;
        one_array(py, &self.source)
    }

    /// The values as a stream of arrays, by Arrow's PyCapsule interface.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = requested_schema;
        one_stream(py, self.source.clone())
    }
}

fn index(place: isize, len: usize, message: &'static str) -> PyResult<usize> {
    let place = if place < 0 { place.checked_add_unsigned(len) } else { Some(place) };
    let place = place.and_then(|place| usize::try_from(place).ok()).filter(|place| *place < len);
    place.ok_or_else(|| PyIndexError::new_err(message))
}

/// Refuses what Arrow does not know, in the columns that are asked for.
fn check_finite(source: &Source) -> PyResult<()> {
    let mut columns = source.batches.iter().flat_map(|batch| match source.column {
        Some(place) => batch.columns.get(place..=place).unwrap_or_default(),
        None => &batch.columns,
    });
    columns.try_for_each(|column| column.check_finite())
}

fn one_stream(py: Python<'_>, source: Source) -> PyResult<Bound<'_, PyAny>> {
    check_finite(&source)?;
    capsule(py, Stream::new(source), names::STREAM)
}

fn one_array<'py>(py: Python<'py>, source: &Source) -> PyResult<Bound<'py, PyTuple>> {
    if source.batches.len() > 1 {
        return Err(PyValueError::new_err("the result is in several batches: read it by __arrow_c_stream__"));
    }
    check_finite(source)?;
    let schema = capsule(py, source.schema(), names::SCHEMA)?;
    PyTuple::new(py, [schema, capsule(py, source.array(0), names::ARRAY)?])
}

/// A structure of Arrow's that frees itself when it is dropped without having been moved out.
trait Structure {}
impl Structure for Schema {}
impl Structure for Array {}
impl Structure for Stream {}

/// Puts a structure into a capsule, which drops it: that releases it unless its reader has moved it out.
fn capsule<'py, T: Structure>(py: Python<'py>, structure: T, name: &'static CStr) -> PyResult<Bound<'py, PyAny>> {
    unsafe extern "C" fn destroy<T: Structure>(capsule: *mut ffi::PyObject) {
        // SAFETY: the capsule was made below with this very name and a boxed structure of this type.
        unsafe {
            let name = ffi::PyCapsule_GetName(capsule);
            let structure = ffi::PyCapsule_GetPointer(capsule, name);
            if !structure.is_null() {
                drop(Box::from_raw(structure.cast::<T>()));
            }
        }
    }
    let structure = Box::into_raw(Box::new(structure));
    // SAFETY: the name is static; the capsule owns the box from here on, or it is taken back.
    unsafe {
        let made = ffi::PyCapsule_New(structure.cast(), name.as_ptr(), Some(destroy::<T>));
        if made.is_null() {
            drop(Box::from_raw(structure));
        }
        Bound::from_owned_ptr_or_err(py, made)
    }
}

impl Column {
    /// A value as the Python object that `fetch` would give, of a record a dict; None for NULL.
    fn value<'py>(&self, cx: &Context<'_, 'py>, place: usize) -> Value<'py> {
        let py = cx.py;
        if self.validity.is_null(place) {
            return Ok(py.None().into_bound(py));
        }
        let text = |bytes: &[u8]| python::utf8(py, bytes);
        match &self.values {
            Values::Bool(bits) => python::boolean(py, bits.get(place)),
            Values::Int2(values) => python::int(py, at(values, place).into()),
            Values::Int4(values) => python::int(py, at(values, place).into()),
            Values::Int8(values) => python::int(py, at(values, place)),
            Values::Uint4(values) => python::int(py, at(values, place).into()),
            Values::Uint8(values) => python::uint(py, at(values, place)),
            Values::Float4(values) => python::float(py, at(values, place).into()),
            Values::Float8(values) => python::float(py, at(values, place)),
            Values::Date(values) => Scalar::Date.decode(cx, &wire_day(at(values, place)).to_be_bytes()),
            Values::Time(values) => Scalar::Time.decode(cx, &at(values, place).to_be_bytes()),
            Values::Timestamp(values) => Scalar::Timestamp.decode(cx, &wire_micros(at(values, place)).to_be_bytes()),
            Values::Timestamptz(values) => {
                Scalar::Timestamptz.decode(cx, &wire_micros(at(values, place)).to_be_bytes())
            }
            Values::Interval(values) => {
                // Days of none make the microseconds the whole of it.
                let mut wire = at(values, place).to_be_bytes().to_vec();
                wire.extend_from_slice(&[0; 8]);
                Scalar::Interval.decode(cx, &wire)
            }
            Values::Decimal { values, scale, .. } => {
                let digits = format!("{}E-{scale}", at(values, place));
                python::call_one(cx.imports.create_decimal.bind(py), text(digits.as_bytes())?.as_any())
            }
            Values::Uuid(values) => cx.imports.uuid.decode(py, &at(values, place)),
            Values::Text { strings, .. } => text(strings.get(place)),
            Values::Bytes(strings) => python::bytes(py, strings.get(place)),
            Values::Dictionary { places, words, .. } => {
                text(words.get(usize::try_from(at(places, place)).unwrap_or(usize::MAX)))
            }
            Values::List { offsets, element } => {
                let (start, end) = (at(offsets, place) as usize, at(offsets, place + 1) as usize);
                let list = PyList::empty(py);
                for place in start..end {
                    list.append(element.value(cx, place)?).or_raise(py)?;
                }
                Ok(list.into_any())
            }
            Values::Struct { fields, .. } => {
                let dict = PyDict::new(py);
                for field in fields {
                    dict.set_item(field.name(), field.value(cx, place)?).or_raise(py)?;
                }
                Ok(dict.into_any())
            }
        }
    }
}

/// The value at a place that exists; every place asked for has been compared with the length.
fn at<T: Copy + Default>(values: &[T], place: usize) -> T {
    values.get(place).copied().unwrap_or_default()
}

fn wire_day(day: i32) -> i32 {
    if day == i32::MIN || day == i32::MAX { day } else { day.saturating_sub(super::column::DAYS) }
}

fn wire_micros(micros: i64) -> i64 {
    if micros == i64::MIN || micros == i64::MAX { micros } else { micros.saturating_sub(super::column::MICROSECONDS) }
}
