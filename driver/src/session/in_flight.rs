//! Requests that are on their way: each ends with the server's ReadyForQuery, and they end in the order of sending.
//!
//! What a request asks is a [`Verb`], which has what comes of it as well: rows belong to an execution and copied bytes
//! to a COPY, so that nothing else can have any.

use std::sync::Arc;

use pyo3::prelude::*;
use wire::backend;

use super::codec_plan::CodecPlan;
use super::op::Op;
use super::receive::broken_message;
use super::settle::rows_of;
use super::statement::Statement;
use crate::columns::ColumnsBuilder;

/// A request's kind and its results so far, which decide the messages that may follow.
#[derive(Debug)]
pub enum Verb {
    /// The session's beginning.
    Startup,
    /// Parse and Describe.
    Prepare(Py<Statement>),
    /// Any of Parse, Bind and Execute.
    Execute(Execution),
    /// Many Binds and Executes.
    Many(Batch),
    /// A Query.
    Query(Text),
    /// A Query of COPY ... TO STDOUT, and the bytes that nobody has taken yet once copying has begun.
    CopyOut(Text, Option<Vec<u8>>),
    /// A Query of COPY ... FROM STDIN.
    CopyIn(Text),
    /// Close of a statement or portal.
    Close,
}

/// An execution of a statement.
#[derive(Debug)]
pub struct Execution {
    /// The statement.
    pub statement: Py<Statement>,
    /// How its rows are read.
    pub plan: Arc<CodecPlan>,
    /// The result so far.
    pub answer: Answer,
    /// Why a row could not be read.
    pub failure: Option<PyErr>,
}

/// The result of an execution, in the form that was asked for.
#[derive(Debug)]
pub enum Answer {
    /// All rows.
    Rows(Vec<Py<PyAny>>),
    /// The first row.
    Row(Option<Py<PyAny>>),
    /// One value of the first row.
    Value { column: Py<PyAny>, value: Option<Py<PyAny>> },
    /// The bytes of the first value of the first row.
    Bytes(Option<Py<PyAny>>),
    /// All rows, as columns.
    Columns(Box<ColumnsBuilder>),
    /// The command's tag.
    Status(Tag),
    /// All rows, the command's tag, and whether the portal had more rows than were asked for.
    Extra { rows: Vec<Py<PyAny>>, tag: Tag, suspended: bool },
    /// Nothing but that it succeeded.
    Nothing,
}

/// The tag of the last command that completed.
pub type Tag = Option<Box<[u8]>>;

/// Executions of one statement with many argument lists.
#[derive(Debug)]
pub struct Batch {
    /// The statement.
    pub statement: Py<Statement>,
    /// The result so far.
    pub total: Total,
    /// Why a row could not be read, or an argument list not be written.
    pub failure: Option<PyErr>,
}

/// The results of many executions.
#[derive(Debug)]
pub enum Total {
    /// How many rows the commands have told of.
    Count(u64),
    /// All rows, and how they are read.
    Rows(Arc<CodecPlan>, Vec<Py<PyAny>>),
}

/// Commands as text.
#[derive(Debug, Default)]
pub struct Text {
    /// The text, for errors.
    pub query: Option<Py<PyAny>>,
    /// How long the commands are that were put before the program's own.
    pub prefix: usize,
    /// The result so far.
    pub tag: Tag,
}

impl Verb {
    /// Whether an honest server may answer such a request with such a message (apart from ReadyForQuery, errors,
    /// notices and the like, which may come at any time).
    pub fn expects(&self, tag: u8) -> bool {
        match self {
            Verb::Startup => matches!(tag, b'R' | b'K' | b'v'),
            Verb::Prepare(_) => matches!(tag, b'1' | b't' | b'T' | b'n'),
            Verb::Execute(_) => {
                matches!(tag, b'1' | b'2' | b'D' | b'C' | b's' | b'I' | b'G' | b'H' | b'W' | b'd' | b'c' | b'T' | b'n')
            }
            Verb::Many(_) => matches!(tag, b'1' | b'2' | b'D' | b'C' | b's' | b'I'),
            Verb::Query(_) => matches!(tag, b'T' | b'D' | b'C' | b'I' | b'G' | b'H' | b'W' | b'd' | b'c'),
            Verb::CopyOut(_, copied) => match tag {
                b'd' => copied.is_some(),
                _ => matches!(tag, b'H' | b'c' | b'C' | b'T' | b'D' | b'I'),
            },
            Verb::CopyIn(_) => matches!(tag, b'G' | b'C' | b'T' | b'D' | b'I'),
            Verb::Close => tag == b'3',
        }
    }

    /// The text of what is asked, for errors.
    pub fn query(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        match self {
            Verb::Prepare(statement)
            | Verb::Execute(Execution { statement, .. })
            | Verb::Many(Batch { statement, .. }) => Some(statement.get().query.clone_ref(py).into_any()),
            Verb::Query(text) | Verb::CopyOut(text, _) | Verb::CopyIn(text) => {
                text.query.as_ref().map(|query| query.clone_ref(py))
            }
            Verb::Startup | Verb::Close => None,
        }
    }

    /// How long the commands are that were put before the program's own text.
    pub fn prefix(&self) -> usize {
        match self {
            Verb::Query(text) | Verb::CopyOut(text, _) | Verb::CopyIn(text) => text.prefix,
            _ => 0,
        }
    }

    /// Why something could not be read or written on our side.
    pub fn failure(&mut self) -> Option<&mut Option<PyErr>> {
        match self {
            Verb::Execute(execution) => Some(&mut execution.failure),
            Verb::Many(batch) => Some(&mut batch.failure),
            _ => None,
        }
    }

    /// The tag, where it is asked for.
    pub fn tag(&mut self) -> Option<&mut Tag> {
        match self {
            Verb::Execute(Execution { answer: Answer::Status(tag) | Answer::Extra { tag, .. }, .. }) => Some(tag),
            Verb::Query(text) | Verb::CopyOut(text, _) | Verb::CopyIn(text) => Some(&mut text.tag),
            _ => None,
        }
    }

    /// Whether a stored BEGIN can travel in front of it.
    pub fn carries_begin(&self) -> bool {
        matches!(self, Verb::Prepare(_) | Verb::Execute(_) | Verb::Many(_) | Verb::Close)
    }
}

impl Answer {
    /// One to which nothing has come.
    pub fn to(shape: Shape) -> Self {
        match shape {
            Shape::Rows => Answer::Rows(Vec::new()),
            Shape::Row => Answer::Row(None),
            Shape::Value(column) => Answer::Value { column, value: None },
            Shape::Bytes => Answer::Bytes(None),
            Shape::Status => Answer::Status(None),
            Shape::Extra => Answer::Extra { rows: Vec::new(), tag: None, suspended: false },
            Shape::Nothing => Answer::Nothing,
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
            Shape::Nothing => (5, None),
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

/// The waiter for the answer to a request.
#[derive(Debug)]
pub enum Waiter {
    /// An operation.
    Op(Py<Op>),
    /// Nobody for the moment: a COPY between its operations, or the session's beginning.
    Nobody,
    /// Nobody any more: who did was cancelled, or timed out. The answer is not read.
    Gone,
}

impl Waiter {
    /// The operation, to be told; nobody waits after that.
    pub fn take(&mut self) -> Option<Py<Op>> {
        if !matches!(self, Waiter::Op(_)) {
            return None;
        }
        match std::mem::replace(self, Waiter::Nobody) {
            Waiter::Op(op) => Some(op),
            Waiter::Nobody | Waiter::Gone => None,
        }
    }
}

/// A request on its way.
#[derive(Debug)]
pub struct InFlight {
    /// What was asked.
    pub verb: Verb,
    /// Who waits for the answer.
    pub waiter: Waiter,
    /// Whether the server was asked to cancel it.
    pub cancelled: bool,
    /// Whether it begins a transaction first.
    pub begins: bool,
    /// The server's error, by the letters of its fields.
    pub error: Option<Vec<(u8, Vec<u8>)>>,
}

impl InFlight {
    /// A request of which nothing has been answered.
    pub fn new(verb: Verb, op: &Bound<'_, Op>) -> Self {
        Self { waiter: Waiter::Op(op.clone().unbind()), ..Self::unasked(verb) }
    }

    /// A request that no operation waits for.
    pub fn unasked(verb: Verb) -> Self {
        Self { verb, waiter: Waiter::Nobody, cancelled: false, begins: false, error: None }
    }

    /// Whether nobody waits for the answer any more.
    pub fn is_abandoned(&self) -> bool {
        matches!(self.waiter, Waiter::Gone)
    }

    /// Nobody waits for the answer any more: it is not read.
    pub fn abandon(&mut self) {
        self.waiter = Waiter::Gone;
        match &mut self.verb {
            Verb::Execute(execution) => execution.answer = Answer::Nothing,
            Verb::Many(batch) => batch.total = Total::Count(0),
            Verb::CopyOut(_, copied) => *copied = None,
            _ => (),
        }
    }

    /// Whether an honest server may answer it with such a message.
    pub fn expects(&self, tag: u8) -> bool {
        self.verb.expects(tag) || (self.begins && matches!(tag, b'1' | b'2' | b'C' | b'I'))
    }

    /// Takes a CommandComplete.
    pub fn complete(&mut self, py: Python<'_>, body: &[u8]) -> PyResult<()> {
        let told = || backend::command_complete(body).map_err(|error| broken_message(py, &error));
        if let Verb::Many(Batch { total: Total::Count(count), .. }) = &mut self.verb {
            *count += rows_of(told()?);
        } else if let Some(tag) = self.verb.tag() {
            *tag = Some(told()?.into());
        }
        Ok(())
    }

    /// Takes what says that a command has no tag (a BindComplete comes after the BEGIN that was put before it).
    pub fn forget_tag(&mut self) {
        if let Some(tag) = self.verb.tag() {
            *tag = None;
        }
    }

    /// Takes a PortalSuspended.
    pub fn suspend(&mut self) {
        if let Verb::Execute(Execution { answer: Answer::Extra { suspended, .. }, .. }) = &mut self.verb {
            *suspended = true;
        }
    }
}
