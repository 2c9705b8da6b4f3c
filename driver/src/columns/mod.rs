//! Results as columns: each value goes straight from the wire into its column's buffer.
//!
//! [`build`] fills the buffers while rows come, [`export`] lends them by Arrow's C interfaces and NumPy's without
//! copying; [`matrix`] is arrays of `real`.

use std::sync::Arc;

use pyo3::exceptions::{PyIndexError, PyKeyError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString, PyTuple};

pub mod build;
pub mod export;
pub mod matrix;

use build::{Filled, Kind};

/// A result as columns: an Arrow stream of one batch (of more, where a column's text is longer than a batch can hold).
#[pyclass(frozen, module = "howdah")]
pub struct Columns {
    pub(crate) names: Vec<String>,
    pub(crate) batches: Vec<Arc<Vec<Filled>>>,
    pub(crate) kinds: Vec<Kind>,
}

/// One column of a result.
#[pyclass(frozen, module = "howdah")]
pub struct Column {
    name: String,
    kind: Kind,
    batch: Arc<Vec<Filled>>,
    position: usize,
}

impl Column {
    fn filled(&self) -> PyResult<&Filled> {
        self.batch.get(self.position).ok_or_else(|| PyIndexError::new_err("no such column"))
    }
}

#[pymethods]
impl Columns {
    /// The names of the columns.
    #[getter]
    fn names<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.names)
    }

    /// How many rows there are.
    #[getter]
    fn num_rows(&self) -> usize {
        self.batches.iter().map(|batch| batch.first().map_or(0, |column| column.rows)).sum()
    }

    fn __len__(&self) -> usize {
        self.names.len()
    }

    fn __repr__(&self) -> String {
        format!("<Columns {} x {}: {}>", self.num_rows(), self.names.len(), self.names.join(", "))
    }

    fn __getitem__(&self, key: &Bound<'_, PyAny>) -> PyResult<Column> {
        let position = match key.cast::<PyString>() {
            Ok(name) => {
                let name = name.to_str()?;
                self.names.iter().position(|other| other == name).ok_or_else(|| PyKeyError::new_err(name.to_owned()))?
            }
            Err(_) => key.extract::<usize>()?,
        };
        let (Some(name), Some(kind)) = (self.names.get(position), self.kinds.get(position)) else {
            return Err(PyIndexError::new_err("column index out of range"));
        };
        let [batch] = self.batches.as_slice() else {
            return Err(PyTypeError::new_err("the result is in several batches: read it as an Arrow stream"));
        };
        Ok(Column { name: name.clone(), kind: kind.clone(), batch: batch.clone(), position })
    }

    /// Lends the columns as an Arrow C stream.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let _ = requested_schema;
        export::stream(py, self)
    }

    /// Tells the columns' types as an Arrow C schema.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        export::schema_capsule(py, export::table_schema(&self.names, &self.kinds))
    }
}

#[pymethods]
impl Column {
    /// The column's name.
    #[getter]
    fn name(&self) -> &str {
        &self.name
    }

    /// How many values are NULL.
    #[getter]
    fn null_count(&self) -> PyResult<usize> {
        Ok(self.filled()?.nulls)
    }

    fn __len__(&self) -> PyResult<usize> {
        Ok(self.filled()?.rows)
    }

    /// Lends the column as an Arrow C array, with its schema.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let _ = requested_schema;
        let schema = export::schema_capsule(py, export::column_schema(&self.name, &self.kind))?;
        let array = export::array_capsule(py, export::column_array(&self.batch, self.position))?;
        PyTuple::new(py, [schema, array])
    }

    /// Lends the values to NumPy; floating-point ones with NaN for NULL.
    #[getter]
    fn __array_interface__<'py>(slf: &Bound<'py, Self>) -> PyResult<Bound<'py, PyDict>> {
        let py = slf.py();
        let this = slf.get();
        let filled = this.filled()?;
        let Some((code, _)) = this.kind.numpy() else {
            return Err(PyTypeError::new_err(format!(
                "column {:?} has no NumPy form: read it by its Arrow interface",
                this.name
            )));
        };
        if filled.nulls > 0 && !code.starts_with("<f") {
            return Err(PyTypeError::new_err(format!(
                "column {:?} has {} NULLs, for which NumPy has no value: read it by its Arrow interface",
                this.name, filled.nulls
            )));
        }
        let dict = PyDict::new(py);
        dict.set_item("version", 3)?;
        dict.set_item("typestr", code)?;
        dict.set_item("shape", (filled.rows,))?;
        // The address stays good for as long as the column lives, which NumPy keeps alive.
        dict.set_item("data", (filled.values.as_ptr() as usize, true))?;
        Ok(dict)
    }
}
