//! Rows: the codecs of a statement's columns, compiled once into steps that name the hot types themselves.

use std::sync::Arc;

use pyo3::ffi;
use pyo3::prelude::*;

use super::python::{Done, Raised, protocol_error};
use super::reader::Reader;
use super::{Body, Codec, Context, Scalar, Settings};

/// How one column is read.
#[derive(Clone, Debug)]
enum Step {
    Scalar(Scalar),
    Codec(Arc<Codec>),
}

/// Reads the rows of one statement.
#[derive(Clone, Debug)]
pub struct RowDecoder {
    steps: Vec<Step>,
    codecs: Vec<Arc<Codec>>,
}

impl RowDecoder {
    /// The decoder of rows of these columns.
    pub fn new(codecs: &[Arc<Codec>]) -> Self {
        let step = |codec: &Arc<Codec>| match codec.body {
            Body::Scalar(scalar) => Step::Scalar(scalar),
            _ => Step::Codec(codec.clone()),
        };
        RowDecoder { steps: codecs.iter().map(step).collect(), codecs: codecs.to_vec() }
    }

    /// The columns' codecs.
    pub fn codecs(&self) -> &[Arc<Codec>] {
        &self.codecs
    }

    /// Reads a DataRow's body after its count into `fields`, one place a column; a place is left alone for NULL.
    ///
    /// The places filled hold references that the caller owns, after an error too.
    ///
    /// # Errors
    /// `ProtocolError` when the row is not of these columns or a value not of its type; what a custom decoder raises.
    #[inline]
    pub fn decode_row(
        &self,
        py: Python<'_>,
        body: &[u8],
        fields: &mut [*mut ffi::PyObject],
        settings: &Settings,
    ) -> PyResult<()> {
        let cx = settings.context(py)?;
        self.fill(&cx, body, fields).map_err(|raised| raised.into_err(py))
    }

    #[inline]
    fn fill(&self, cx: &Context<'_, '_>, body: &[u8], fields: &mut [*mut ffi::PyObject]) -> Done {
        if self.steps.len() != fields.len() {
            return Err(wrong_count(cx, fields.len(), self.steps.len()));
        }
        let mut reader = Reader::new(body);
        for (step, field) in self.steps.iter().zip(fields) {
            let Some(data) = reader.field(cx.py)? else { continue };
            let value = match step {
                Step::Scalar(scalar) => scalar.decode(cx, data)?,
                Step::Codec(codec) => codec.decode_value(cx, data)?,
            };
            *field = value.into_ptr();
        }
        reader.end(cx.py)
    }
}

#[cold]
fn wrong_count(cx: &Context<'_, '_>, found: usize, expected: usize) -> Raised {
    protocol_error(cx.py, format!("unexpected number of columns in a row: {found}, expected {expected}"))
}
