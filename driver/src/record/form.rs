//! The form of a row: a record, a tuple, a dict, or the object that a class makes of the values by their columns'
//! names.

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple, PyType};

use super::tuple::NewTuple;
use super::{Descriptor, record_class};

/// The form of a statement's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// `Record`, or a class derived from it.
    Record,
    /// A plain tuple.
    Tuple,
    /// A dict from the columns' names.
    Dict,
    /// What the class gives when it is called with the values as keyword arguments.
    Call,
}

impl Form {
    /// The form of rows of a class.
    pub fn of(class: &Bound<'_, PyType>) -> PyResult<Form> {
        let py = class.py();
        Ok(if class.is_subclass(record_class(py)?)? {
            Form::Record
        } else if class.is(py.get_type::<PyTuple>()) {
            Form::Tuple
        } else if class.is(py.get_type::<PyDict>()) {
            Form::Dict
        } else {
            Form::Call
        })
    }
}

/// Values on the way to becoming a row that is not a record.
pub fn finish<'py>(
    form: Form,
    values: NewTuple,
    class: &Bound<'py, PyType>,
    descriptor: &Descriptor,
    tracked: bool,
) -> PyResult<Bound<'py, PyAny>> {
    let py = class.py();
    let tuple = values.finish(py, tracked);
    match form {
        Form::Dict => {
            let dict = PyDict::new(py);
            for (name, value) in descriptor.keys.bind(py).iter().zip(tuple.cast::<PyTuple>()?.iter()) {
                dict.set_item(name, value)?;
            }
            Ok(dict.into_any())
        }
        Form::Call => {
            let values = tuple.cast::<PyTuple>()?;
            let places: smallvec::SmallVec<[*mut ffi::PyObject; 16]> =
                values.iter_borrowed().map(|value| value.as_ptr()).collect();
            // SAFETY: the values are alive while the tuple is, and as many as the names; the result is new, or null
            // with an error.
            unsafe {
                let made = ffi::PyObject_Vectorcall(class.as_ptr(), places.as_ptr(), 0, descriptor.keys.as_ptr());
                Bound::from_owned_ptr_or_err(py, made)
            }
        }
        Form::Tuple | Form::Record => Ok(tuple),
    }
}
