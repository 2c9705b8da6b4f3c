//! Requests that are on their way: each ends with the server's ReadyForQuery, and they end in the order of sending.

use std::sync::Arc;

use pyo3::prelude::*;
use wire::backend;

use super::op::Op;
use super::program::Program;
use super::receive::broken_message;
use super::settle::rows_of;
use super::statement::Statement;
use crate::columns::ColumnsBuilder;

/// What a request asks, which decides the answers that may come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// The session's beginning.
    Startup,
    /// Parse and Describe.
    Prepare,
    /// Any of Parse, Bind and Execute.
    Execute,
    /// Many Binds and Executes.
    ExecuteMany,
    /// A Query.
    Simple,
    /// A Query of COPY ... TO STDOUT.
    CopyOut,
    /// A Query of COPY ... FROM STDIN.
    CopyIn,
    /// Close of a statement or portal.
    Close,
}

impl Kind {
    /// Whether an honest server may answer such a request with such a message (apart from ReadyForQuery, errors,
    /// notices and the like, which may come at any time).
    pub fn expects(self, tag: u8) -> bool {
        match self {
            Kind::Startup => matches!(tag, b'R' | b'K' | b'v'),
            Kind::Prepare => matches!(tag, b'1' | b't' | b'T' | b'n'),
            Kind::Execute => {
                matches!(tag, b'1' | b'2' | b'D' | b'C' | b's' | b'I' | b'G' | b'H' | b'W' | b'd' | b'c' | b'T' | b'n')
            }
            Kind::ExecuteMany => matches!(tag, b'1' | b'2' | b'D' | b'C' | b's' | b'I'),
            Kind::Simple => matches!(tag, b'T' | b'D' | b'C' | b'I' | b'G' | b'H' | b'W' | b'd' | b'c'),
            Kind::CopyOut => matches!(tag, b'H' | b'd' | b'c' | b'C' | b'T' | b'D' | b'I'),
            Kind::CopyIn => matches!(tag, b'G' | b'C' | b'T' | b'D' | b'I'),
            Kind::Close => tag == b'3',
        }
    }
}

/// In which form an operation's answer is given.
#[derive(Debug)]
pub enum Shape {
    /// All rows, as a list of records.
    Rows,
    /// The first row, or None.
    Row,
    /// One value of the first row, or None.
    Value(Py<PyAny>),
    /// The command's tag as text.
    Status,
    /// A list of records, the command's tag as bytes or None, and whether the portal is exhausted.
    Extra,
    /// The bytes of the first value of the first row.
    Bytes,
    /// All rows, as columns.
    Columns,
    /// Nothing but that it succeeded.
    Nothing,
}

impl Shape {
    /// The same shape.
    pub fn clone_ref(&self, py: Python<'_>) -> Self {
        match self {
            Shape::Rows => Shape::Rows,
            Shape::Row => Shape::Row,
            Shape::Value(column) => Shape::Value(column.clone_ref(py)),
            Shape::Status => Shape::Status,
            Shape::Extra => Shape::Extra,
            Shape::Bytes => Shape::Bytes,
            Shape::Columns => Shape::Columns,
            Shape::Nothing => Shape::Nothing,
        }
    }

    /// The shape as Python says it: a number and, for a value, the column.
    pub fn code(&self, py: Python<'_>) -> (u8, Option<Py<PyAny>>) {
        match self {
            Shape::Rows => (0, None),
            Shape::Row => (1, None),
            Shape::Value(column) => (2, Some(column.clone_ref(py))),
            Shape::Status => (3, None),
            Shape::Extra => (4, None),
            Shape::Nothing | Shape::Columns => (5, None),
            Shape::Bytes => (6, None),
        }
    }

    /// The shape that Python says.
    pub fn of_code(code: u8, column: Option<Py<PyAny>>) -> Self {
        match (code, column) {
            (0, _) => Shape::Rows,
            (1, _) => Shape::Row,
            (2, Some(column)) => Shape::Value(column),
            (3, _) => Shape::Status,
            (4, _) => Shape::Extra,
            (6, _) => Shape::Bytes,
            _ => Shape::Nothing,
        }
    }
}

/// A request on its way.
#[derive(Debug)]
pub struct Flight {
    /// What was asked.
    pub kind: Kind,
    /// In which form the answer is given.
    pub shape: Shape,
    /// Who waits for the answer.
    pub op: Option<Py<Op>>,
    /// Whether the one who waited was cancelled or timed out.
    pub abandoned: bool,
    /// Whether the server was asked to cancel it.
    pub cancelled: bool,
    /// Whether it begins a transaction first.
    pub begins: bool,
    /// How long the commands are that were put before the program's own.
    pub prefix: usize,
    /// Of what statement.
    pub statement: Option<Py<Statement>>,
    /// How its rows are read.
    pub program: Option<Arc<Program>>,
    /// The rows so far.
    pub rows: Vec<Py<PyAny>>,
    /// The columns so far, when those are asked for.
    pub columns: Option<Box<ColumnsBuilder>>,
    /// The one value that is asked for, when only one is.
    pub value: Option<Py<PyAny>>,
    /// How many rows the commands of many argument lists have told of.
    pub count: u64,
    /// The tag of the last command that completed.
    pub tag: Option<Box<[u8]>>,
    /// Whether the portal had more rows than were asked for.
    pub suspended: bool,
    /// The server's error, by the letters of its fields.
    pub error: Option<Vec<(u8, Vec<u8>)>>,
    /// What went wrong on our side.
    pub failure: Option<PyErr>,
    /// Bytes of COPY that nobody has taken yet.
    pub copied: Vec<u8>,
    /// Whether the server has said that copying may begin, or has begun.
    pub copying: bool,
    /// The text of the query, for errors.
    pub query: Option<Py<PyAny>>,
}

impl Flight {
    /// A request of which nothing has been answered.
    pub fn new(kind: Kind, shape: Shape, op: &Bound<'_, Op>) -> Self {
        Self { op: Some(op.clone().unbind()), shape, ..Self::startup(kind) }
    }

    /// A request that no operation waits for.
    pub fn startup(kind: Kind) -> Self {
        Self {
            kind,
            shape: Shape::Nothing,
            op: None,
            abandoned: false,
            cancelled: false,
            begins: false,
            prefix: 0,
            statement: None,
            program: None,
            rows: Vec::new(),
            columns: None,
            value: None,
            count: 0,
            tag: None,
            suspended: false,
            error: None,
            failure: None,
            copied: Vec::new(),
            copying: false,
            query: None,
        }
    }

    /// Nobody waits for the answer any more: it is not read.
    pub fn abandon(&mut self) {
        self.abandoned = true;
        self.op = None;
        self.program = None;
        self.rows.clear();
        self.columns = None;
        self.copied.clear();
    }

    /// Whether an honest server may answer it with such a message.
    pub fn expects(&self, tag: u8) -> bool {
        self.kind.expects(tag) || (self.begins && matches!(tag, b'1' | b'2' | b'C' | b'I'))
    }

    /// Takes a CommandComplete.
    pub fn complete(&mut self, py: Python<'_>, body: &[u8]) -> PyResult<()> {
        if !matches!(self.shape, Shape::Rows | Shape::Row | Shape::Value(_)) {
            let tag = backend::command_complete(body).map_err(|error| broken_message(py, &error))?;
            self.count += rows_of(tag);
            self.tag = Some(tag.into());
        }
        Ok(())
    }

    /// Whether a stored BEGIN can travel in front of it.
    pub fn carries_begin(&self) -> bool {
        !matches!(self.kind, Kind::Startup | Kind::Simple | Kind::CopyIn | Kind::CopyOut)
    }
}
