//! How a statement's arguments are written and its rows read.

use std::sync::Arc;

use pyo3::exceptions::{PyAssertionError, PyTypeError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyDict, PyString, PyTuple, PyType};

use super::errors;
use super::statement::short;
use crate::codec::catalog::{JSON, JSONB, NAME, TEXT};
use crate::codec::registry::UNKNOWN;
use crate::codec::{Codec, Format, Kind, RowDecoder, Settings};
use crate::columns::matrix::{REALS, Reals};
use crate::record::Descriptor;
use crate::record::form::Form;

/// The hint to who gives a list where one value is wanted.
const ONE_VALUE: &str =
    "A parameter takes one value: compare with those of a list by `= any(...)` in place of `in (...)`.";

/// The hint to who gives no text where the server has found no better type than text, as for `pgml.predict('p', $1)`.
const TAKEN_FOR_TEXT: &str = "The server takes this parameter for text. If it is not, cast it in the query: to \
                              `int`, `float8` or, for an array of features, `real[]`.";

/// The hint to who gives an object where JSON is text, as in asyncpg.
const JSON_IS_TEXT: &str = "JSON is text here: pass json.dumps(value), or call `await connection.decode_json()` once.";

/// How a statement's arguments are written and its rows read; made once.
pub struct CodecPlan {
    pub(super) encoders: Vec<Arc<Codec>>,
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
    pub(super) head: Vec<u8>,
    /// The count and formats of the columns.
    pub(super) tail: Vec<u8>,
    /// How values look.
    pub settings: Settings,
}

impl std::fmt::Debug for CodecPlan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CodecPlan").field("parameters", &self.encoders.len()).finish_non_exhaustive()
    }
}

impl CodecPlan {
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

    /// [`CodecPlan::bind`] with other formats for the columns.
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
        let head = out.len();
        out.extend_from_slice(&self.head);
        let mut texts = Vec::new();
        if let Ok(args) = args.cast::<PyTuple>() {
            self.check_count(py, args.len())?;
            for (position, (codec, arg)) in self.encoders.iter().zip(args.iter_borrowed()).enumerate() {
                self.argument(py, out, codec, &arg, position, element, &mut texts)?;
            }
        } else {
            self.bind_sequence(py, out, args, element, &mut texts)?;
        }
        if !texts.is_empty() {
            let format = |(position, codec): (usize, &Arc<Codec>)| match texts.contains(&position) {
                true => Format::Text,
                false => codec.format(),
            };
            let mut with_texts = formats(self.encoders.iter().enumerate().map(format));
            with_texts.extend_from_slice(&(self.encoders.len() as u16).to_be_bytes());
            out.splice(head..head + self.head.len(), with_texts);
        }
        Ok(())
    }

    fn bind_sequence(
        &self,
        py: Python<'_>,
        out: &mut Vec<u8>,
        args: &Bound<'_, PyAny>,
        element: Option<usize>,
        texts: &mut Vec<usize>,
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
            self.argument(py, out, codec, &arg, position, element, texts)?;
        }
        Ok(())
    }

    /// Appends an argument; notes in `texts` that it is text where the codec's form is another.
    #[inline]
    #[expect(clippy::too_many_arguments, reason = "what is written, and what an error says of it")]
    fn argument(
        &self,
        py: Python<'_>,
        out: &mut Vec<u8>,
        codec: &Codec,
        arg: &Bound<'_, PyAny>,
        position: usize,
        element: Option<usize>,
        texts: &mut Vec<usize>,
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
        // The server cuts the text of a name to its 63 bytes, and refuses a longer one in binary.
        if self.settings.is_typed() && (codec.oid() == NAME && !codec.is_custom() || is_literal(py, arg)?) {
            UNKNOWN
                .encode(py, arg, out, &self.settings)
                .map_err(|error| refused(py, error, codec, arg, position, element))?;
            texts.push(position);
        } else if let Err(error) = codec.encode(py, arg, out, &self.settings) {
            out.truncate(begin + 4);
            let error = match member(py, arg) {
                Some(value) => codec.encode(py, &value, out, &self.settings).err(),
                None => Some(error),
            };
            // A list of texts, whose elements have a codec of the program's.
            let listed = (error.is_some() && codec.is_custom() && arg.is_instance_of::<PyString>())
                .then(|| arg.getattr("values").ok())
                .flatten();
            let error = match listed {
                Some(values) => {
                    out.truncate(begin + 4);
                    codec.encode(py, &values, out, &self.settings).err()
                }
                None => error,
            };
            if let Some(error) = error {
                out.truncate(begin + 4);
                if self.settings.is_typed() && !codec.is_custom() && arg.is_instance_of::<PyString>() {
                    // What the server makes of a text is the server's to say.
                    UNKNOWN
                        .encode(py, arg, out, &self.settings)
                        .map_err(|error| refused(py, error, codec, arg, position, element))?;
                    texts.push(position);
                } else {
                    return Err(refused(py, error, codec, arg, position, element));
                }
            }
        }
        patch(py, out, begin)
    }

    fn check_count(&self, py: Python<'_>, given: usize) -> PyResult<()> {
        let wanted = self.encoders.len();
        if given > usize::from(u16::MAX) {
            let message = format!(
                "the number of query arguments cannot exceed 65535, which is the server's limit: {given} given"
            );
            return Err(errors::new(py, "InterfaceError", &message));
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
    /// An error comes with the position of the column that it is about; `number` is that of the row, from 0.
    pub fn copy_row(
        &self,
        py: Python<'_>,
        out: &mut Vec<u8>,
        row: &Bound<'_, PyAny>,
        number: u64,
    ) -> Result<(), (Option<usize>, PyErr)> {
        let codecs = self.decoder.codecs();
        self.check_record(row, number)?;
        out.extend_from_slice(&(codecs.len() as u16).to_be_bytes());
        for (position, codec) in codecs.iter().enumerate() {
            let at = |error| (Some(position), error);
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

    /// Refuses a record that has more values than there are columns, or that has no order.
    #[inline]
    fn check_record(&self, row: &Bound<'_, PyAny>, number: u64) -> Result<(), (Option<usize>, PyErr)> {
        let columns = self.decoder.codecs().len();
        let given = match row.cast::<PyTuple>() {
            Ok(row) => row.len(),
            Err(_) if row.is_instance_of::<PyDict>() => {
                let message = format!(
                    "element #{number} of the records is a dict: expected a sequence of values in the order of the \
                     columns, such as tuple(record.values())"
                );
                return Err((None, PyTypeError::new_err(message)));
            }
            // What has no length says so when its values are read.
            Err(_) => row.len().unwrap_or(0),
        };
        if given <= columns {
            return Ok(());
        }
        let shown = short(row).map_err(|error| (None, error))?;
        let message = format!("element #{number} of the records has {given} values for {columns} columns: {shown}");
        Err((None, PyValueError::new_err(message)))
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

/// Whether a value is a text that the server reads, whatever codec its type has: what `howdah.dbapi.Json` becomes.
#[inline]
fn is_literal(py: Python<'_>, arg: &Bound<'_, PyAny>) -> PyResult<bool> {
    static LITERAL: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    if arg.is_exact_instance_of::<PyString>() || !arg.is_instance_of::<PyString>() {
        return Ok(false);
    }
    Ok(arg.get_type().is(LITERAL.import(py, "howdah.dbapi._declared", "Literal")?))
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
        if errors::is(py, &error, "DataError")? {
            let value = error.value(py);
            let why = value.getattr("args")?.get_item(0)?;
            let message = format!("invalid input for query argument {place}: {} ({why})", short(arg)?);
            let new = errors::new(py, "DataError", &message);
            new.value(py).setattr("hint", value.getattr("hint")?)?;
            return Ok(new);
        }
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
        let mut hints = Vec::new();
        // What is atomic has no value that could be written as a list.
        if listed && codec.kind() == Kind::Scalar && codec.is_atomic() {
            hints.push(ONE_VALUE);
        }
        if codec.oid() == TEXT && !arg.is_instance_of::<PyString>() {
            hints.push(TAKEN_FOR_TEXT);
        }
        if matches!(codec.oid(), JSON | JSONB) && !arg.is_instance_of::<PyString>() {
            hints.push(JSON_IS_TEXT);
        }
        if !hints.is_empty() {
            new.value(py).setattr("hint", hints.join(" "))?;
        }
        new.set_cause(py, Some(error.clone_ref(py)));
        Ok(new)
    };
    describe().unwrap_or_else(|other| other)
}
