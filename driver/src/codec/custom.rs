//! Codecs that a program sets for itself: Python functions around a text, bytes or a tuple.

use std::sync::Arc;

use pyo3::prelude::*;

use super::python::{self, Done, Value};
use super::{Codec, Context, Format, Scalar, text};

/// What the functions exchange with the codec.
#[derive(Clone, Debug)]
pub enum Exchange {
    /// The type's text or bytes.
    Whole(Format),
    /// The numbers of a type of dates and times.
    Tuple(Scalar),
    /// The attributes of a composite type.
    Composite(Arc<Codec>),
}

/// A pair of functions.
#[derive(Debug)]
pub struct Custom {
    pub encoder: Py<PyAny>,
    pub decoder: Py<PyAny>,
    pub exchange: Exchange,
}

impl Custom {
    /// What the decoder makes of the value.
    pub fn decode<'py>(&self, cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
        let exchanged = match &self.exchange {
            Exchange::Whole(Format::Text) => text::decode(cx, data)?,
            Exchange::Whole(Format::Binary) => python::bytes(cx.py, data)?,
            Exchange::Tuple(scalar) => scalar.decode(cx, data)?,
            Exchange::Composite(codec) => codec.decode_value(cx, data)?,
        };
        python::call_one(self.decoder.bind(cx.py), &exchanged)
    }

    /// Appends what the encoder makes of the value.
    pub fn encode(&self, cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
        let exchanged = python::call_one(&self.encoder.bind(cx.py).clone(), &value.clone().unbind().into_bound(cx.py))?;
        match &self.exchange {
            Exchange::Whole(Format::Text) => text::encode(cx, &exchanged, out),
            Exchange::Whole(Format::Binary) => text::encode_bytes(cx.py, &exchanged, out),
            Exchange::Tuple(scalar) => scalar.encode(cx, &exchanged, out),
            Exchange::Composite(codec) => codec.encode_value(cx, &exchanged, out),
        }
    }
}
