//! A registry as a Python object: the types of a connection without the connection, for tests and for measurements.

use std::sync::Arc;

use pyo3::exceptions::PyLookupError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyTuple};

use crate::columns::{Columns, ColumnsBuilder, Field};

use super::registry::Named;
use super::{Codec, Kind, Registry, RowDecoder, catalog, introspect};

/// Turns values into what travels and back.
#[pyclass(frozen, module = "howdah._core")]
pub struct CodecMap {
    registry: Registry,
}

impl CodecMap {
    fn codec(&self, oid: u32) -> PyResult<Arc<Codec>> {
        self.registry.lookup(oid).ok_or_else(|| PyLookupError::new_err(format!("no codec for type {oid}")))
    }
}

/// What `howdah.types.Type.kind` calls a kind.
pub fn kind_of(name: &str) -> Kind {
    match name {
        "array" => Kind::Array,
        "composite" => Kind::Composite,
        "range" => Kind::Range,
        "multirange" => Kind::Multirange,
        _ => Kind::Scalar,
    }
}

#[pymethods]
impl CodecMap {
    #[new]
    #[pyo3(signature = (encoding = "utf-8"))]
    fn new(encoding: &str) -> Self {
        let registry = Registry::new();
        registry.set_encoding(encoding);
        CodecMap { registry }
    }

    /// Learns types from rows of the introspection query.
    fn register_data_types(&self, py: Python<'_>, types: &Bound<'_, PyAny>) -> PyResult<()> {
        self.registry.register(py, types)
    }

    /// Sets functions of the program's own for a type.
    #[expect(clippy::too_many_arguments, reason = "asyncpg's method, argument by argument")]
    fn add_python_codec(
        &self,
        py: Python<'_>,
        typeoid: u32,
        typename: &str,
        typeschema: &str,
        typeinfos: &Bound<'_, PyAny>,
        typekind: &str,
        encoder: Py<PyAny>,
        decoder: Py<PyAny>,
        format: &str,
    ) -> PyResult<()> {
        let named = Named { oid: typeoid, name: typename, schema: typeschema, kind: kind_of(typekind) };
        self.registry.set_custom(py, named, Some(typeinfos), encoder, decoder, format)
    }

    /// Forgets the program's functions for a type.
    fn remove_python_codec(&self, typeoid: u32, _typename: &str, _typeschema: &str) {
        self.registry.remove_custom(typeoid);
    }

    /// Makes a type look like a built-in one.
    #[expect(clippy::too_many_arguments, reason = "asyncpg's method, argument by argument")]
    fn set_builtin_type_codec(
        &self,
        py: Python<'_>,
        typeoid: u32,
        typename: &str,
        typeschema: &str,
        typekind: &str,
        alias_to: &Bound<'_, PyAny>,
        format: Option<&str>,
    ) -> PyResult<()> {
        let named = Named { oid: typeoid, name: typename, schema: typeschema, kind: kind_of(typekind) };
        self.registry.set_builtin_alias(py, named, alias_to, format)
    }

    /// Forgets the types learnt.
    fn clear_type_cache(&self) {
        self.registry.clear();
    }

    /// Whether a type is known.
    fn knows(&self, oid: u32) -> bool {
        self.registry.lookup(oid).is_some()
    }

    /// `(name, schema, kind, format)` of a type, the format being 0 for text and 1 for binary.
    fn describe(&self, oid: u32) -> PyResult<(String, String, &'static str, i16)> {
        let codec = self.codec(oid)?;
        Ok((codec.name.clone(), codec.schema.clone(), codec.kind.name(), codec.format as i16))
    }

    /// The value of one field's bytes.
    fn decode<'py>(&self, py: Python<'py>, oid: u32, data: &[u8]) -> PyResult<Bound<'py, PyAny>> {
        self.codec(oid)?.decode(py, data, &self.registry)
    }

    /// The bytes of one value.
    fn encode<'py>(&self, oid: u32, value: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyBytes>> {
        let mut out = Vec::new();
        self.codec(oid)?.encode(value.py(), value, &mut out, &self.registry)?;
        Ok(PyBytes::new(value.py(), &out))
    }

    /// Reads the body of a row of these types, as often as asked for, and gives the values once, as a tuple.
    #[pyo3(signature = (oids, body, times = 1))]
    fn decode_row<'py>(
        &self,
        py: Python<'py>,
        oids: Vec<u32>,
        body: &[u8],
        times: usize,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let codecs = oids.iter().map(|oid| self.codec(*oid)).collect::<PyResult<Vec<_>>>()?;
        let decoder = RowDecoder::new(&codecs);
        let mut fields = vec![std::ptr::null_mut::<ffi::PyObject>(); codecs.len()];
        let mut values = PyTuple::empty(py);
        for _ in 0..times {
            let done = decoder.decode_row(py, body, &mut fields, &self.registry);
            // The places' references are taken over before anything can fail.
            let taken: Vec<_> = fields
                .iter_mut()
                // SAFETY: a place is null or holds a reference that the decoder gave away.
                .map(|place| unsafe {
                    Bound::from_owned_ptr_or_opt(py, std::mem::replace(place, std::ptr::null_mut()))
                })
                .collect();
            done?;
            values = PyTuple::new(py, taken)?;
        }
        Ok(values)
    }

    /// Reads the bodies of rows into columns. `fields` are `(name, oid, type modifier, dictionary)`.
    fn columns(
        &self,
        py: Python<'_>,
        fields: Vec<(String, u32, i32, bool)>,
        bodies: Vec<Vec<u8>>,
    ) -> PyResult<Columns> {
        let field = |(name, oid, modifier, dictionary)| {
            self.codec(oid).map(|codec| Field { name, codec, modifier, dictionary })
        };
        let mut builder = ColumnsBuilder::new(fields.into_iter().map(field).collect::<PyResult<_>>()?);
        for body in &bodies {
            builder.push_row(py, body, &self.registry)?;
        }
        builder.finish(py)
    }
}

/// Puts what belongs to codecs into the module.
pub fn publish(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    module.add_class::<CodecMap>()?;
    module.add("BUILTIN_TYPE_OID_MAP", type_map(py)?)?;
    module.add("BUILTIN_TYPE_NAME_MAP", name_map(py)?)?;
    module.add("INTRO_LOOKUP_TYPES", introspect::query(true))?;
    module.add("INTRO_LOOKUP_TYPES_13", introspect::query(false))?;
    module.add("TYPE_BY_NAME", introspect::TYPE_BY_NAME)
}

/// The numbers of the built-in types with their names, as asyncpg publishes them.
pub fn type_map(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let map = PyDict::new(py);
    for (oid, name) in catalog::names() {
        map.set_item(oid, name)?;
    }
    Ok(map)
}

/// The names of the built-in types with their numbers, other names included.
pub fn name_map(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let map = PyDict::new(py);
    for (name, oid) in catalog::numbers() {
        map.set_item(name, oid)?;
    }
    Ok(map)
}
