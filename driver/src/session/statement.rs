//! Prepared statements: the server's descriptions of them, and the conversion of their arguments and rows.

use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple, PyType};
use wire::frame::Fields;

use super::codec_plan::{CodecPlan, formats};
use super::errors;
use super::session_state::may_change_session;
use super::settings::ConnectionSettings;
use crate::codec::registry::UNKNOWN;
use crate::codec::{Codec, RowDecoder};
use crate::columns::Field;
use crate::record::Descriptor;
use crate::record::form::Form;

/// One column of a statement's result.
#[derive(Debug)]
pub struct Column {
    /// Its name.
    pub name: Py<PyString>,
    /// Its type.
    pub oid: u32,
    /// How many bytes a value of its type takes; -1 where they differ.
    pub size: i16,
    /// What its type was declared with, the precision of a numeric for instance; -1 for nothing.
    pub modifier: i32,
}

/// A statement as the server knows it.
#[pyclass(frozen, weakref, module = "howdah._core", name = "PreparedStatementState")]
#[derive(Debug)]
pub struct Statement {
    /// Its name on the server; empty for the unnamed one.
    #[pyo3(get)]
    pub name: Py<PyString>,
    /// Its text.
    #[pyo3(get)]
    pub query: Py<PyString>,
    /// The class of its rows.
    #[pyo3(get)]
    pub record_class: Py<PyType>,
    /// Whether types keep their built-in form whatever the user has set.
    #[pyo3(get)]
    pub ignore_custom_codec: bool,
    settings: Py<ConnectionSettings>,
    /// The types that the program has declared, 0 for those that the server infers; `None` where values are to fit
    /// what it infers.
    declared: Option<Vec<u32>>,
    /// Whether running it may leave something in the session that a reset undoes.
    #[pyo3(get)]
    pub changes_session: bool,
    closed: AtomicBool,
    prepared: AtomicBool,
    refs: AtomicIsize,
    /// When it was last used, in the order of uses.
    pub used: AtomicU64,
    parameters: OnceLock<Vec<u32>>,
    columns: OnceLock<Vec<Column>>,
    plan: OnceLock<Arc<CodecPlan>>,
}

#[pymethods]
impl Statement {
    #[new]
    fn new(
        py: Python<'_>,
        name: Py<PyString>,
        query: Py<PyString>,
        record_class: Py<PyType>,
        ignore_custom_codec: bool,
        settings: Py<ConnectionSettings>,
    ) -> Self {
        Self {
            changes_session: query.bind(py).to_str().map_or(true, may_change_session),
            name,
            query,
            record_class,
            ignore_custom_codec,
            settings,
            declared: None,
            closed: AtomicBool::new(false),
            prepared: AtomicBool::new(true),
            refs: AtomicIsize::new(0),
            used: AtomicU64::new(0),
            parameters: OnceLock::new(),
            columns: OnceLock::new(),
            plan: OnceLock::new(),
        }
    }

    /// Whether it must not be used any more.
    #[getter]
    pub fn closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }

    /// Whether the server has parsed it already.
    #[getter]
    pub fn prepared(&self) -> bool {
        self.prepared.load(Ordering::Relaxed)
    }

    /// How many objects use it.
    #[getter]
    fn refs(&self) -> isize {
        self.refs.load(Ordering::Relaxed)
    }

    /// When it was last used, in the order of uses.
    #[getter(_used)]
    fn last_used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Notes that it is used now.
    pub(super) fn touch(&self) {
        let now = self.settings.get().clock.fetch_add(1, Ordering::Relaxed);
        self.used.store(now, Ordering::Relaxed);
    }

    fn attach(&self) {
        self.refs.fetch_add(1, Ordering::Relaxed);
    }

    fn detach(&self) {
        self.refs.fetch_sub(1, Ordering::Relaxed);
    }

    fn mark_closed(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    fn mark_unprepared(&self, py: Python<'_>) -> PyResult<()> {
        if self.name.bind(py).len()? != 0 {
            return Err(errors::internal(py, "named prepared statements cannot be marked unprepared"));
        }
        self.prepared.store(false, Ordering::Relaxed);
        Ok(())
    }

    /// The types of the parameters.
    fn _get_parameters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let settings = self.settings.get();
        let types =
            self.parameters().iter().map(|&oid| settings.describe_type(py, oid)).collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, types)
    }

    /// The names and types of the columns.
    fn _get_attributes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let settings = self.settings.get();
        let attribute = py.import("howdah.types")?.getattr("Attribute")?;
        let attributes = self
            .columns()
            .iter()
            .map(|column| attribute.call1((&column.name, settings.describe_type(py, column.oid)?)))
            .collect::<PyResult<Vec<_>>>()?;
        PyTuple::new(py, attributes)
    }

    /// For each column the bytes that its type takes, and what the type was declared with; -1 for neither.
    fn _get_sizes(&self) -> Vec<(i16, i32)> {
        self.columns().iter().map(|column| (column.size, column.modifier)).collect()
    }

    /// The parameters' types that were declared, 0 for one that the server infers; None where it infers all, and values
    /// have to fit.
    #[getter]
    fn types<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyTuple>>> {
        self.declared.as_ref().map(|types| PyTuple::new(py, types)).transpose()
    }

    /// The numbers of the types that must be asked for before the statement can be used.
    fn _init_types(&self) -> PyResult<std::collections::HashSet<u32>> {
        let settings = self.settings.get();
        let columns = self.columns().iter().map(|column| column.oid);
        Ok(self
            .parameters()
            .iter()
            .copied()
            .chain(columns)
            .filter(|&oid| !settings.knows(oid, self.ignore_custom_codec))
            .collect())
    }

    /// Compiles how the arguments and rows are turned.
    fn _init_codecs(&self, py: Python<'_>) -> PyResult<()> {
        self.compile(py).map(drop)
    }
}

impl Statement {
    /// A statement of which the server has said nothing yet.
    pub fn make(
        py: Python<'_>,
        name: Py<PyString>,
        query: Py<PyString>,
        record_class: Py<PyType>,
        ignore_custom_codec: bool,
        settings: Py<ConnectionSettings>,
    ) -> Self {
        Self::new(py, name, query, record_class, ignore_custom_codec, settings)
    }

    /// The same with types that the program declares, for values that fit no type but their own.
    pub fn declaring(mut self, types: Option<Vec<u32>>) -> Self {
        self.declared = types;
        self
    }

    /// Its text, as it travels.
    pub fn query(&self, py: Python<'_>) -> PyResult<Vec<u8>> {
        self.settings.get().encode_text(self.query.bind(py))
    }

    /// The types that the program has declared.
    pub fn declared(&self) -> &[u32] {
        self.declared.as_deref().unwrap_or_default()
    }

    /// The same for each parameter.
    pub fn declared_of_all(&self) -> Vec<u32> {
        let mut types = self.declared().to_vec();
        types.resize(self.parameters().len(), 0);
        types
    }

    /// How the values of parameters of such types are written, whatever the server says of the statement: text where
    /// the type is 0. Its rows are not read.
    pub fn plan_for(&self, py: Python<'_>, types: &[u32]) -> PyResult<CodecPlan> {
        let settings = self.settings.get();
        let encoders = types.iter().map(|&oid| match oid {
            0 => Ok(UNKNOWN.clone()),
            oid => settings
                .codec(oid, self.ignore_custom_codec)
                .ok_or_else(|| errors::internal(py, &format!("no encoder for OID {oid}"))),
        });
        self.plan_of(py, encoders.collect::<PyResult<_>>()?, &[], &[])
    }

    fn plan_of(
        &self,
        py: Python<'_>,
        encoders: Vec<Arc<Codec>>,
        decoders: &[Arc<Codec>],
        columns: &[Column],
    ) -> PyResult<CodecPlan> {
        let settings = self.settings.get();
        let names: Vec<_> = columns.iter().map(|column| column.name.bind(py).clone()).collect();
        let mut head = formats(encoders.iter().map(|codec| codec.format()));
        head.extend_from_slice(&(encoders.len() as u16).to_be_bytes());
        let types = settings.for_codecs();
        Ok(CodecPlan {
            tail: formats(decoders.iter().map(|codec| codec.format())),
            head,
            descriptor: Descriptor::of_names(py, &names)?,
            record_class: self.record_class.clone_ref(py),
            form: Form::of(self.record_class.bind(py))?,
            tracked: !decoders.iter().all(|codec| codec.is_atomic()),
            decoder: RowDecoder::new(decoders),
            encoders,
            settings: if self.declared.is_some() { types.typed() } else { types },
        })
    }

    /// Whether any object uses it.
    pub fn in_use(&self) -> bool {
        self.refs.load(Ordering::Relaxed) != 0
    }

    /// It must not be used any more.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// The types of the parameters.
    pub fn parameters(&self) -> &[u32] {
        self.parameters.get().map_or(&[], Vec::as_slice)
    }

    /// The columns of the result.
    pub fn columns(&self) -> &[Column] {
        self.columns.get().map_or(&[], Vec::as_slice)
    }

    /// Takes a ParameterDescription.
    pub fn set_parameters(&self, body: &[u8]) -> Result<(), wire::Error> {
        let mut fields = Fields::new(b't', body);
        let count = fields.i16("the number of parameters")? as u16;
        let mut oids = Vec::new();
        for _ in 0..count {
            oids.push(fields.i32("a parameter's type")? as u32);
        }
        let _ = self.parameters.set(oids);
        Ok(())
    }

    /// Takes a RowDescription.
    pub fn set_columns(&self, py: Python<'_>, body: &[u8]) -> PyResult<()> {
        let settings = self.settings.get();
        let wire_error = |error: wire::Error| errors::protocol(py, &error.to_string());
        let mut fields = Fields::new(b'T', body);
        let count = fields.i16("the number of columns").map_err(wire_error)? as u16;
        let mut columns = Vec::new();
        for _ in 0..count {
            let name = settings.decode_text(py, fields.cstr("a column's name").map_err(wire_error)?)?.unbind();
            fields.bytes(6, "a column's table").map_err(wire_error)?;
            let oid = fields.i32("a column's type").map_err(wire_error)? as u32;
            let size = fields.i16("a column's size").map_err(wire_error)?;
            let modifier = fields.i32("a column's modifier").map_err(wire_error)?;
            fields.bytes(2, "a column's format").map_err(wire_error)?;
            columns.push(Column { name, oid, size, modifier });
        }
        let _ = self.columns.set(columns);
        Ok(())
    }

    /// The columns for a result that is not to become Python objects; those named keep each different text once.
    pub fn fields(&self, py: Python<'_>, dictionary: &[String]) -> PyResult<Vec<Field>> {
        let settings = self.settings.get();
        let field = |column: &Column| {
            let name: String = column.name.extract(py)?;
            let codec = settings
                .codec(column.oid, true)
                // A type that the program spoke of before the server was asked: it comes as text.
                .or_else(|| settings.codec(column.oid, false))
                .ok_or_else(|| errors::internal(py, &format!("no decoder for OID {}", column.oid)))?;
            let dictionary = dictionary.contains(&name);
            Ok(Field { name, codec, modifier: column.modifier, dictionary })
        };
        self.columns().iter().map(field).collect()
    }

    /// How arguments and rows are turned; fails when a type is not known.
    pub fn compile(&self, py: Python<'_>) -> PyResult<Arc<CodecPlan>> {
        if let Some(plan) = self.plan.get() {
            return Ok(plan.clone());
        }
        let settings = self.settings.get();
        let encoders = self
            .parameters()
            .iter()
            .map(|&oid| {
                settings
                    .codec(oid, self.ignore_custom_codec)
                    .ok_or_else(|| errors::internal(py, &format!("no encoder for OID {oid}")))
            })
            .collect::<PyResult<Vec<_>>>()?;
        let decoders = self
            .columns()
            .iter()
            .map(|column| {
                // Queries of the driver's own are read as they are meant.
                if settings.keeps_texts() && !self.ignore_custom_codec {
                    return Ok(UNKNOWN.clone());
                }
                settings
                    .codec(column.oid, self.ignore_custom_codec)
                    .ok_or_else(|| errors::internal(py, &format!("no decoder for OID {}", column.oid)))
            })
            .collect::<PyResult<Vec<_>>>()?;
        let plan = Arc::new(self.plan_of(py, encoders, &decoders, self.columns())?);
        Ok(self.plan.get_or_init(|| plan).clone())
    }
}

impl Statement {
    /// The error about a row that is to be copied, with the row and the column of which it is.
    #[cold]
    pub fn row_refused(&self, py: Python<'_>, error: PyErr, row: &Bound<'_, PyAny>, column: usize) -> PyErr {
        let describe = || -> PyResult<PyErr> {
            let name = match self.columns.get().and_then(|columns| columns.get(column)) {
                Some(column) => column.name.bind(py).to_string(),
                None => String::new(),
            };
            let of = format!("(column {name:?} of the row {})", short(row)?);
            // Its own class, as asyncpg's is; one that takes more than a message stays as it is.
            let message = match errors::is(py, &error, "DataError")? {
                // With its hint it would be longer.
                true => error.value(py).getattr("args")?.get_item(0)?.str()?,
                false => error.value(py).str()?,
            };
            let new = PyErr::from_value(error.get_type(py).call1((format!("{message} {of}"),))?);
            if let Some(hint) = error.value(py).getattr_opt("hint")? {
                new.value(py).setattr("hint", hint)?;
            }
            new.set_cause(py, Some(error.clone_ref(py)));
            Ok(new)
        };
        describe().unwrap_or(error)
    }
}

/// How Python shows a value, cut short.
pub(super) fn short(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let shown = value.repr()?.to_string();
    Ok(if shown.chars().count() > 40 { shown.chars().take(40).collect::<String>() + "..." } else { shown })
}

/// The bytes of a Python string that is UTF-8 inside, without copying; fails on lone surrogates.
pub fn utf8<'a>(text: &'a Bound<'_, PyString>) -> PyResult<&'a [u8]> {
    text.to_str().map(str::as_bytes)
}
