//! Composite types as `Record`, and rows without a declared type as tuples.

use std::sync::Arc;

use std::cell::Cell;

use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::record::{Descriptor, NewRecord, record_class};

use super::python::{self, Done, Filling, OrRaise, Raised, Value, exception_with, internal_error, value_error};
use super::reader::Reader;
use super::{Codec, Context, catalog};

/// The attributes of a composite type.
#[derive(Debug)]
pub struct Composite {
    pub names: Vec<String>,
    /// The declared types, which are sent and checked; a domain's codec is its base type's.
    pub oids: Vec<u32>,
    pub codecs: Vec<Arc<Codec>>,
    pub(crate) descriptor: Py<Descriptor>,
}

impl Composite {
    /// A type of these attributes.
    pub fn new(py: Python<'_>, names: Vec<String>, oids: Vec<u32>, codecs: Vec<Arc<Codec>>) -> PyResult<Self> {
        let objects: Vec<_> = names.iter().map(|name| PyString::new(py, name)).collect();
        let descriptor = Descriptor::of_names(py, &objects)?;
        Ok(Composite { names, oids, codecs, descriptor })
    }

    /// Whether values are records of atoms.
    pub fn is_atomic(&self) -> bool {
        self.codecs.iter().all(|codec| codec.is_atomic())
    }

    /// A `Record`.
    pub fn decode<'py>(&self, cx: &Context<'_, 'py>, codec: &Codec, data: &[u8]) -> Value<'py> {
        let py = cx.py;
        let mut reader = Reader::new(data);
        let count = reader.u32(py)? as usize;
        if count != self.oids.len() {
            let message =
                format!("unexpected number of attributes of composite type: {count}, expected {}", self.oids.len());
            return Err(outdated(py, &message, codec, None));
        }
        let class = record_class(py).or_raise(py)?;
        let mut record = NewRecord::new(py, class, self.descriptor.bind(py), count).or_raise(py)?;
        let attributes = self.oids.iter().zip(&self.codecs).zip(record.fields());
        for (place, ((&oid, attribute), field)) in attributes.enumerate() {
            let received = reader.u32(py)?;
            if received != oid {
                let message = format!(
                    "unexpected data type of composite type attribute {place}: {}, expected {}",
                    catalog::shown(received),
                    catalog::shown(oid),
                );
                return Err(outdated(py, &message, codec, Some(place)));
            }
            if let Some(data) = reader.field(py)? {
                *field = attribute.decode_value(cx, data)?.into_ptr();
            }
        }
        reader.end(py)?;
        Ok(record.finish(py, !self.is_atomic()))
    }

    /// Appends a value of a mapping by names, or of anything iterable by order.
    pub fn encode(&self, cx: &Context<'_, '_>, codec: &Codec, value: &Bound<'_, PyAny>, out: &mut Vec<u8>) -> Done {
        let py = cx.py;
        if value.is_instance(cx.imports.abc_mapping.bind(py)).or_raise(py)? {
            let mut values = vec![None; self.names.len()];
            for key in value.try_iter().or_raise(py)? {
                let key = key.or_raise(py)?;
                let name = key.cast::<PyString>().ok().and_then(|name| name.to_str().ok());
                let place = name.and_then(|name| self.names.iter().position(|known| known == name));
                let Some(place) = place.and_then(|place| values.get_mut(place)) else {
                    let shown = python::repr_of(&key);
                    let message = format!("{shown} is not a valid element of composite type {}", codec.name);
                    return Err(value_error(py, message));
                };
                *place = Some(value.get_item(&key).or_raise(py)?);
            }
            let none = py.None().into_bound(py);
            return self.write(cx, values.iter().map(|value| Ok(value.as_ref().unwrap_or(&none).clone())), out);
        }
        // A composite is as long as it says it is; the server compares that with its type.
        value.len().or_raise(py)?;
        self.write(cx, value.try_iter().or_raise(py)?, out)
    }

    fn write<'py>(
        &self,
        cx: &Context<'_, 'py>,
        values: impl Iterator<Item = PyResult<Bound<'py, PyAny>>>,
        out: &mut Vec<u8>,
    ) -> Done {
        let py = cx.py;
        let start = out.len();
        out.extend_from_slice(&[0; 4]);
        let mut count = 0_i32;
        let mut attributes = self.oids.iter().zip(&self.codecs);
        for value in values {
            let value = value.or_raise(py)?;
            let Some((oid, codec)) = attributes.next() else {
                return Err(super::python::raise::<pyo3::exceptions::PyIndexError>(py, "tuple index out of range"));
            };
            out.extend_from_slice(&oid.to_be_bytes());
            codec.encode_field(cx, &value, out)?;
            count += 1;
        }
        if let Some(word) = out.get_mut(start..start + 4) {
            word.copy_from_slice(&count.to_be_bytes());
        }
        Ok(())
    }
}

/// The type has changed since it was asked for; the connection asks again when it sees this.
#[cold]
fn outdated(py: Python<'_>, message: &str, codec: &Codec, position: Option<usize>) -> Raised {
    let made = || -> PyResult<PyErr> {
        let class = py.import("howdah.exceptions")?.getattr("OutdatedSchemaCacheError")?;
        let keywords = pyo3::types::PyDict::new(py);
        keywords.set_item("schema", &codec.schema)?;
        keywords.set_item("data_type", &codec.name)?;
        if let Some(position) = position {
            keywords.set_item("position", position)?;
        }
        Ok(PyErr::from_value(class.call((message,), Some(&keywords))?))
    };
    Raised::from_err(py, made().unwrap_or_else(|err| err))
}

/// How deep records may lie within records: each level takes stack, and a thread may have little of it. Python's own
/// limit is for its own stack, and thousands in some of its versions.
const DEEPEST: u32 = 250;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// A tuple of a row whose type is `record`. Types in it must be known already, as asyncpg has it.
pub fn decode_anonymous<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    let depth = DEPTH.get();
    if depth >= DEEPEST {
        let message = "maximum recursion depth exceeded while reading a record";
        return Err(super::python::raise::<pyo3::exceptions::PyRecursionError>(cx.py, message));
    }
    DEPTH.set(depth + 1);
    let result = decode_row(cx, data);
    DEPTH.set(depth);
    result
}

fn decode_row<'py>(cx: &Context<'_, 'py>, data: &[u8]) -> Value<'py> {
    let py = cx.py;
    let mut reader = Reader::new(data);
    let count = reader.u32(py)? as usize;
    reader.backed(py, count, 8)?;
    let mut row = Filling::tuple(py, count)?;
    for place in 0..count {
        let oid = reader.u32(py)?;
        let Some(data) = reader.field(py)? else {
            row.push(py.None().into_bound(py));
            continue;
        };
        match cx.registry.lookup(oid) {
            Some(codec) if codec.has_decoder() => row.push(codec.decode_value(cx, data)?),
            _ => {
                let message = format!("no decoder for composite type element in position {place} of type OID {oid}");
                return Err(internal_error(py, message));
            }
        }
    }
    reader.end(py)?;
    Ok(row.finish())
}

/// Rows without a declared type cannot be sent.
#[cold]
pub fn anonymous_input(py: Python<'_>) -> Raised {
    let err = exception_with(
        py,
        "UnsupportedClientFeatureError",
        "input of anonymous composite types is not supported",
        &[
            ("hint", "Consider declaring an explicit composite type and using it to cast the argument."),
            ("detail", "PostgreSQL does not implement anonymous composite type input."),
        ],
    );
    Raised::from_err(py, err)
}
