//! Prepared statements: what the server said of them, and how their arguments and rows are turned.

use std::sync::atomic::{AtomicBool, AtomicIsize, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pyo3::exceptions::PyAssertionError;
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple, PyType};
use wire::frame::Fields;

use super::errors;
use super::footprint::may_change_session;
use super::settings::ConnectionSettings;
use crate::codec::{Codec, Format, Kind, RowDecoder, Settings};
use crate::columns::Field;
use crate::columns::matrix::{REALS, Reals};
use crate::record::Descriptor;
use crate::record::form::Form;

/// One column of a statement's result.
#[derive(Debug)]
pub struct Column {
    /// Its name.
    pub name: Py<PyString>,
    /// Its type.
    pub oid: u32,
    /// What its type was declared with, the precision of a numeric for instance; -1 for nothing.
    pub modifier: i32,
}

/// How a statement's arguments are written and its rows read; made once.
pub struct Program {
    encoders: Vec<Arc<Codec>>,
    /// Reads the columns.
    pub decoder: RowDecoder,
    /// The names of the columns.
    pub descriptor: Py<Descriptor>,
    /// The class of the rows.
    pub record_class: Py<PyType>,
    /// What becomes of a row.
    pub form: Form,
    /// Whether a row may hold values that the garbage collector must know.
    pub tracked: bool,
    /// The count and formats of the parameters, and their count again.
    head: Vec<u8>,
    /// The count and formats of the columns.
    tail: Vec<u8>,
    /// How values look.
    pub settings: Settings,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Program").field("parameters", &self.encoders.len()).finish_non_exhaustive()
    }
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
    program: OnceLock<Arc<Program>>,
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
            closed: AtomicBool::new(false),
            prepared: AtomicBool::new(true),
            refs: AtomicIsize::new(0),
            used: AtomicU64::new(0),
            parameters: OnceLock::new(),
            columns: OnceLock::new(),
            program: OnceLock::new(),
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
    fn touch(&self) {
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
            fields.bytes(2, "a column's size").map_err(wire_error)?;
            let modifier = fields.i32("a column's modifier").map_err(wire_error)?;
            fields.bytes(2, "a column's format").map_err(wire_error)?;
            columns.push(Column { name, oid, modifier });
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
    pub fn compile(&self, py: Python<'_>) -> PyResult<Arc<Program>> {
        if let Some(program) = self.program.get() {
            return Ok(program.clone());
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
                settings
                    .codec(column.oid, self.ignore_custom_codec)
                    .ok_or_else(|| errors::internal(py, &format!("no decoder for OID {}", column.oid)))
            })
            .collect::<PyResult<Vec<_>>>()?;
        let names: Vec<_> = self.columns().iter().map(|column| column.name.bind(py).clone()).collect();
        let mut head = formats(encoders.iter().map(|codec| codec.format()));
        head.extend_from_slice(&(encoders.len() as u16).to_be_bytes());
        let program = Arc::new(Program {
            tail: formats(decoders.iter().map(|codec| codec.format())),
            head,
            descriptor: Descriptor::of_names(py, &names)?,
            record_class: self.record_class.clone_ref(py),
            form: Form::of(self.record_class.bind(py))?,
            tracked: !decoders.iter().all(|codec| codec.is_atomic()),
            decoder: RowDecoder::new(&decoders),
            encoders,
            settings: settings.for_codecs(),
        });
        Ok(self.program.get_or_init(|| program).clone())
    }
}

/// The count of format codes and the codes: one for all where they agree.
pub fn formats(each: impl Iterator<Item = Format>) -> Vec<u8> {
    let mut codes: Vec<i16> = each.map(|format| format as i16).collect();
    if codes.iter().all(|code| codes.first() == Some(code)) {
        codes.truncate(1);
    }
    let mut out = (codes.len() as u16).to_be_bytes().to_vec();
    for code in codes {
        out.extend_from_slice(&code.to_be_bytes());
    }
    out
}

impl Program {
    /// Appends Bind. On failure nothing is appended.
    ///
    /// `element` is the position in a sequence of argument lists, for the error.
    pub fn bind(
        &self,
        py: Python<'_>,
        out: &mut Vec<u8>,
        portal: &[u8],
        name: &[u8],
        args: &Bound<'_, PyAny>,
        element: Option<usize>,
    ) -> PyResult<()> {
        self.bind_for(py, out, portal, name, args, element, &self.tail)
    }

    /// [`Program::bind`] with other formats for the columns.
    #[expect(clippy::too_many_arguments, reason = "a message and its parts")]
    pub fn bind_for(
        &self,
        py: Python<'_>,
        out: &mut Vec<u8>,
        portal: &[u8],
        name: &[u8],
        args: &Bound<'_, PyAny>,
        element: Option<usize>,
        tail: &[u8],
    ) -> PyResult<()> {
        let begin = out.len();
        let result = self.bind_args(py, out, portal, name, args, element);
        out.extend_from_slice(tail);
        match result {
            Ok(()) => match i32::try_from(out.len() - begin - 1) {
                Ok(length) => {
                    if let Some(place) = out.get_mut(begin + 1..begin + 5) {
                        place.copy_from_slice(&length.to_be_bytes());
                    }
                    Ok(())
                }
                Err(_) => {
                    out.truncate(begin);
                    Err(errors::new(py, "InterfaceError", "query arguments are too large: a message is at most 1 GB"))
                }
            },
            Err(error) => {
                out.truncate(begin);
                Err(error)
            }
        }
    }

    fn bind_args(
        &self,
        py: Python<'_>,
        out: &mut Vec<u8>,
        portal: &[u8],
        name: &[u8],
        args: &Bound<'_, PyAny>,
        element: Option<usize>,
    ) -> PyResult<()> {
        out.extend_from_slice(b"B\0\0\0\0");
        out.extend_from_slice(portal);
        out.push(0);
        out.extend_from_slice(name);
        out.push(0);
        out.extend_from_slice(&self.head);
        if let Ok(args) = args.cast::<PyTuple>() {
            self.check_count(py, args.len())?;
            for (position, (codec, arg)) in self.encoders.iter().zip(args.iter_borrowed()).enumerate() {
                self.argument(py, out, codec, &arg, position, element)?;
            }
        } else {
            self.bind_sequence(py, out, args, element)?;
        }
        Ok(())
    }

    fn bind_sequence(
        &self,
        py: Python<'_>,
        out: &mut Vec<u8>,
        args: &Bound<'_, PyAny>,
        element: Option<usize>,
    ) -> PyResult<()> {
        // SAFETY: a check of a live object's type.
        if unsafe { ffi::PySequence_Check(args.as_ptr()) } == 0 {
            let kind = args.get_type().name()?.to_string();
            return Err(match element {
                Some(element) => errors::new(
                    py,
                    "DataError",
                    &format!(
                        "invalid input in executemany() argument sequence element #{element}: expected a sequence, \
                         got {kind}"
                    ),
                ),
                None => errors::internal(py, &format!("Bind: expected a sequence, got {kind}")),
            });
        }
        self.check_count(py, args.len()?)?;
        for (position, codec) in self.encoders.iter().enumerate() {
            let arg = args.get_item(position)?;
            self.argument(py, out, codec, &arg, position, element)?;
        }
        Ok(())
    }

    #[inline]
    fn argument(
        &self,
        py: Python<'_>,
        out: &mut Vec<u8>,
        codec: &Codec,
        arg: &Bound<'_, PyAny>,
        position: usize,
        element: Option<usize>,
    ) -> PyResult<()> {
        if arg.is_none() {
            out.extend_from_slice(&[0xff; 4]);
            return Ok(());
        }
        let begin = out.len();
        out.extend_from_slice(&[0; 4]);
        if codec.oid() == REALS
            && let Ok(reals) = arg.cast_exact::<Reals>()
        {
            out.extend_from_slice(&reals.get().bytes);
            return patch(py, out, begin);
        }
        if let Err(error) = codec.encode(py, arg, out, &self.settings) {
            out.truncate(begin + 4);
            let Some(value) = member(py, arg) else { return Err(refused(py, error, codec, arg, position, element)) };
            codec
                .encode(py, &value, out, &self.settings)
                .map_err(|error| refused(py, error, codec, arg, position, element))?;
        }
        patch(py, out, begin)
    }

    fn check_count(&self, py: Python<'_>, given: usize) -> PyResult<()> {
        let wanted = self.encoders.len();
        if given > 32767 {
            return Err(errors::new(py, "InterfaceError", "the number of query arguments cannot exceed 32767"));
        }
        if given == wanted {
            return Ok(());
        }
        let mut hint = String::from("Check the query against the passed list of arguments.");
        if wanted == 0 {
            hint.push_str(
                "  Note that parameters are supported only in SELECT, INSERT, UPDATE, DELETE, MERGE and VALUES \
                 statements, and will *not* work in statements  like CREATE VIEW or DECLARE CURSOR.",
            );
        }
        let message = format!(
            "the server expects {wanted} argument{} for this query, {given} {} passed",
            if wanted == 1 { "" } else { "s" },
            if given == 1 { "was" } else { "were" },
        );
        Err(errors::with_hint(py, "InterfaceError", &message, &hint))
    }

    /// Appends one row of a binary COPY.
    ///
    /// An error comes with the position of the column that it is about.
    pub fn copy_row(&self, py: Python<'_>, out: &mut Vec<u8>, row: &Bound<'_, PyAny>) -> Result<(), (usize, PyErr)> {
        let codecs = self.decoder.codecs();
        out.extend_from_slice(&(codecs.len() as u16).to_be_bytes());
        for (position, codec) in codecs.iter().enumerate() {
            let at = |error| (position, error);
            let value = row.get_item(position).map_err(at)?;
            if value.is_none() {
                out.extend_from_slice(&[0xff; 4]);
                continue;
            }
            let begin = out.len();
            out.extend_from_slice(&[0; 4]);
            codec.encode(py, &value, out, &self.settings).map_err(at)?;
            patch(py, out, begin).map_err(at)?;
        }
        Ok(())
    }

    /// Fails when a column's type has no binary form to copy in.
    pub fn check_binary(&self, py: Python<'_>) -> PyResult<()> {
        for codec in self.decoder.codecs() {
            if codec.format() != Format::Binary {
                return Err(errors::internal(
                    py,
                    &format!("no binary format encoder for type {} (OID {})", codec.name(), codec.oid()),
                ));
            }
        }
        Ok(())
    }
}

/// The value of a member of an enumeration.
#[cold]
fn member<'py>(py: Python<'py>, arg: &Bound<'py, PyAny>) -> Option<Bound<'py, PyAny>> {
    let class = py.import("enum").ok()?.getattr("Enum").ok()?;
    if arg.is_instance(&class).ok()? { arg.getattr("value").ok() } else { None }
}

/// Writes the length of a value into the word in front of it.
#[inline]
fn patch(py: Python<'_>, out: &mut [u8], begin: usize) -> PyResult<()> {
    let length = i32::try_from(out.len() - begin - 4)
        .map_err(|_| errors::new(py, "InterfaceError", "a value is too large: a message is at most 1 GB"))?;
    if let Some(place) = out.get_mut(begin..begin + 4) {
        place.copy_from_slice(&length.to_be_bytes());
    }
    Ok(())
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
            let message = format!("{} (column {name:?} of the row {})", error.value(py).str()?, short(row)?);
            // Its own class, as asyncpg's is; one that takes more than a message stays as it is.
            let new = PyErr::from_value(error.get_type(py).call1((message,))?);
            new.set_cause(py, Some(error.clone_ref(py)));
            Ok(new)
        };
        describe().unwrap_or(error)
    }
}

/// How Python shows a value, cut short.
fn short(value: &Bound<'_, PyAny>) -> PyResult<String> {
    let shown = value.repr()?.to_string();
    Ok(if shown.chars().count() > 40 { shown.chars().take(40).collect::<String>() + "..." } else { shown })
}

/// The hint to who gives a list where one value is wanted.
const ONE_VALUE: &str =
    "A parameter takes one value: compare with those of a list by `= any(...)` in place of `in (...)`.";

/// Says which argument could not be written, and why.
#[cold]
fn refused(
    py: Python<'_>,
    error: PyErr,
    codec: &Codec,
    arg: &Bound<'_, PyAny>,
    position: usize,
    element: Option<usize>,
) -> PyErr {
    let describe = || -> PyResult<PyErr> {
        let place = match element {
            Some(element) => format!("${} in element #{element} of executemany() sequence", position + 1),
            None => format!("${}", position + 1),
        };
        if error.is_instance_of::<PyAssertionError>(py) || errors::is(py, &error, "InternalClientError")? {
            return Ok(error.clone_ref(py));
        }
        if errors::is(py, &error, "InterfaceError")? {
            let message = error.value(py).getattr("args")?.get_item(0)?;
            let whole = format!("query argument {place}: {message}");
            let named = error.value(py).call_method1("with_msg", (whole,))?;
            return Ok(PyErr::from_value(named));
        }
        let message = format!("invalid input for query argument {place}: {} ({})", short(arg)?, error.value(py).str()?);
        let new = errors::new(py, "DataError", &message);
        let kind = arg.get_type().name()?;
        let listed = ["list", "tuple", "set", "frozenset"].iter().any(|known| kind == *known);
        // What is atomic has no value that could be written as a list.
        if listed && codec.kind() == Kind::Scalar && codec.is_atomic() {
            new.value(py).setattr("hint", ONE_VALUE)?;
        }
        new.set_cause(py, Some(error.clone_ref(py)));
        Ok(new)
    };
    describe().unwrap_or_else(|other| other)
}

/// The bytes of a Python string that is UTF-8 inside, without copying; fails on lone surrogates.
pub fn utf8<'a>(text: &'a Bound<'_, PyString>) -> PyResult<&'a [u8]> {
    text.to_str().map(str::as_bytes)
}
