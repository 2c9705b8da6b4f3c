//! The conversion of values: one codec for each PostgreSQL type, looked up by oid, compiled into row decoders and
//! argument encoders.
//!
//! - [`Registry`] is what one connection knows of types: the built-in ones ([`catalog`]), those learnt from the server
//!   by [`introspect`]'s query (arrays, composites, domains, enums, ranges), and those the program set by itself.
//! - [`Codec`] reads and writes the values of one type.
//! - [`RowDecoder`] is the codecs of a statement's columns, compiled once.
//! - [`Context`] is what all of them need while they run; it costs nothing to make and lives for one call.
//!
//! All bytes of a server are checked: a wrong length, count or type ends in `ProtocolError`, never in a read past the
//! value or in memory that no received byte backs.

use std::sync::Arc;

use pyo3::prelude::*;

pub mod array;
pub mod array_text;
pub mod bits;
pub mod catalog;
pub mod composite;
pub mod custom;
pub mod datetime;
pub mod fit;
pub mod geometry;
pub mod hstore;
pub mod introspect;
pub mod network;
pub mod number;
pub mod numeric;
pub mod object;
pub mod python;
pub mod range;
pub mod reader;
pub mod registry;
pub mod row;
pub mod scalar;
pub mod snapshot;
pub mod text;
pub mod uuid;

pub use fit::Manner;
pub use object::CodecMap;
pub use python::{Done, Imports, OrRaise, Raised, Value};
pub use registry::Registry;
pub use row::RowDecoder;
pub use scalar::Scalar;

/// Whether a value travels as text or in its type's binary form; the number is the protocol's format code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i16)]
pub enum Format {
    /// The type's text, in the client's encoding.
    Text = 0,
    /// What the type's `send` function writes.
    Binary = 1,
}

/// What kind of type a codec is for, as `howdah.types.Type.kind` says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Scalar,
    Array,
    Composite,
    Range,
    Multirange,
}

impl Kind {
    /// The word that programs see.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Scalar => "scalar",
            Kind::Array => "array",
            Kind::Composite => "composite",
            Kind::Range => "range",
            Kind::Multirange => "multirange",
        }
    }
}

/// What codecs need of the session: its types and its encoding.
pub type Settings = Registry;

/// How the values of one type are read and written.
#[derive(Debug)]
pub struct Codec {
    pub(crate) oid: u32,
    pub(crate) name: String,
    pub(crate) schema: String,
    pub(crate) kind: Kind,
    pub(crate) format: Format,
    pub(crate) body: Body,
}

/// What a codec does.
#[derive(Clone, Debug)]
pub(crate) enum Body {
    Scalar(Scalar),
    Array { element: Arc<Codec>, element_oid: u32, delimiter: u8 },
    Range { element: Arc<Codec> },
    Multirange { element: Arc<Codec> },
    Composite(Arc<composite::Composite>),
    Custom(Arc<custom::Custom>),
}

/// What codecs need while they run, made by [`Registry::context`].
pub struct Context<'a, 'py> {
    pub py: Python<'py>,
    pub registry: &'a Registry,
    pub imports: &'static Imports,
    /// Whether the client's encoding is UTF-8, so that Python's own fast path will do.
    pub utf8: bool,
    /// What becomes of values that their type does not hold whole.
    pub manner: Manner,
    /// Whether values are read and written as psycopg does, in place of asyncpg: see [`Registry::typed`].
    pub as_psycopg: bool,
    /// Whether the session's time zone is another than UTC.
    pub zoned: bool,
}

impl Codec {
    /// The type's number in `pg_type`.
    pub fn oid(&self) -> u32 {
        self.oid
    }

    /// The type's name; an array's is its element's with `[]` after it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The schema the type is in.
    pub fn schema(&self) -> &str {
        &self.schema
    }

    /// What kind of type it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The form in which values are asked for and sent.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The Python value of one field's bytes; NULL is the caller's affair.
    ///
    /// # Errors
    /// `ProtocolError` when the bytes are not a value of the type; whatever a custom decoder raises.
    pub fn decode<'py>(&self, py: Python<'py>, data: &[u8], settings: &Settings) -> PyResult<Bound<'py, PyAny>> {
        let cx = settings.context(py)?;
        self.decode_value(&cx, data).map_err(|raised| raised.into_err(py))
    }

    /// Appends the bytes of a value, without its length word; None is the caller's affair.
    ///
    /// # Errors
    /// What Python raises for a value of the wrong type or out of range. After an error `out` may hold part of a
    /// value.
    pub fn encode(
        &self,
        py: Python<'_>,
        value: &Bound<'_, PyAny>,
        out: &mut Vec<u8>,
        settings: &Settings,
    ) -> PyResult<()> {
        let cx = settings.context(py)?;
        self.encode_value(&cx, value, out).map_err(|raised| raised.into_err(py))
    }

    /// Whether no decoded value can ever be part of a reference cycle, so that a record of such values need not be
    /// known to the garbage collector.
    pub fn is_atomic(&self) -> bool {
        match &self.body {
            Body::Scalar(scalar) => scalar.is_atomic(),
            // A record of atoms cannot be changed to hold anything else.
            Body::Composite(composite) => composite.is_atomic(),
            _ => false,
        }
    }

    /// Whether values go through functions of the program.
    pub fn is_custom(&self) -> bool {
        match &self.body {
            Body::Scalar(_) => false,
            Body::Array { element, .. } | Body::Range { element } | Body::Multirange { element } => element.is_custom(),
            Body::Composite(composite) => composite.codecs.iter().any(|codec| codec.is_custom()),
            Body::Custom(_) => true,
        }
    }

    /// Whether values of the type can be sent at all.
    pub fn has_encoder(&self) -> bool {
        match &self.body {
            Body::Scalar(scalar) => scalar.has_encoder(),
            Body::Array { element, .. } | Body::Range { element } | Body::Multirange { element } => {
                element.has_encoder()
            }
            Body::Composite(composite) => composite.codecs.iter().all(|codec| codec.has_encoder()),
            Body::Custom(_) => true,
        }
    }

    /// Whether values of the type can be read at all.
    pub fn has_decoder(&self) -> bool {
        match &self.body {
            Body::Scalar(scalar) => scalar.has_decoder(),
            Body::Array { element, .. } | Body::Range { element } | Body::Multirange { element } => {
                element.has_decoder()
            }
            Body::Composite(composite) => composite.codecs.iter().all(|codec| codec.has_decoder()),
            Body::Custom(_) => true,
        }
    }

    #[inline]
    pub(crate) fn decode_value<'py>(&self, cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
        match &self.body {
            Body::Scalar(scalar) => scalar.decode(cx, data),
            _ => self.decode_compound(cx, data),
        }
    }

    fn decode_compound<'py>(&self, cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
        match &self.body {
            Body::Scalar(scalar) => scalar.decode(cx, data),
            Body::Array { element, delimiter, .. } => match self.format {
                Format::Binary => array::decode(cx, element, data),
                Format::Text => array_text::decode(cx, element, *delimiter, data),
            },
            Body::Range { element } => range::decode(cx, element, data),
            Body::Multirange { element } => range::decode_multi(cx, element, data),
            Body::Composite(composite) => composite.decode(cx, self, data),
            Body::Custom(custom) => custom.decode(cx, data),
        }
    }

    #[inline]
    pub(crate) fn encode_value(&self, cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
        match &self.body {
            Body::Scalar(scalar) => scalar.encode(cx, value, out),
            Body::Array { element, element_oid, delimiter } => match self.format {
                Format::Binary => array::encode(cx, element, *element_oid, value, out),
                Format::Text => array_text::encode(cx, element, *delimiter, value, out),
            },
            Body::Range { element } => range::encode(cx, element, value, out),
            Body::Multirange { element } => range::encode_multi(cx, element, value, out),
            Body::Composite(composite) => composite.encode(cx, self, value, out),
            Body::Custom(custom) => custom.encode(cx, value, out),
        }
    }

    /// Appends a value with its length word in front; None becomes NULL.
    #[inline]
    pub(crate) fn encode_field(&self, cx: &Context<'_, '_>, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
        if value.is_none() {
            out.extend_from_slice(&(-1_i32).to_be_bytes());
            return Ok(());
        }
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        self.encode_value(cx, value, out)?;
        patch_length(cx.py, out, start)
    }
}

/// Writes the size of everything after `start + 4` into the word at `start`.
#[inline]
pub(crate) fn patch_length(py: Python<'_>, out: &mut [u8], start: usize) -> Done {
    let size = out.len().saturating_sub(start + 4);
    match (i32::try_from(size), out.get_mut(start..start + 4)) {
        (Ok(size), Some(word)) => {
            word.copy_from_slice(&size.to_be_bytes());
            Ok(())
        }
        _ => Err(python::value_error(py, "value is too long")),
    }
}
