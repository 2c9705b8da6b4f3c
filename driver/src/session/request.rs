//! The requests of operations to the session.

use pyo3::prelude::*;
use pyo3::types::{PyString, PyTuple, PyType};

use super::in_flight::Shape;
use super::statement::Statement;

/// What is asked.
#[derive(Debug)]
pub enum Request {
    /// A query by its text, through the cache of statements.
    Fetch { query: Py<PyString>, args: Py<PyTuple>, record_class: Option<Py<PyType>>, limit: u32, shape: Shape },
    /// Bind, and Execute when `execute`, of a statement.
    Bind { statement: Py<Statement>, args: Py<PyAny>, portal: Vec<u8>, limit: u32, shape: Shape, execute: bool },
    /// Bind and Execute of a statement, for a result as columns; those named keep each different text once.
    Columns { statement: Py<Statement>, args: Py<PyAny>, dictionary: Vec<String> },
    /// Execute of a bound portal.
    Execute { statement: Py<Statement>, portal: Vec<u8>, limit: u32 },
    /// Many argument lists for one statement, as one unit.
    Many { statement: Py<Statement>, args: Py<PyAny>, rows: bool, declare: Option<Py<PyAny>> },
    /// Parse and Describe.
    Prepare(Py<Statement>),
    /// Commands as text.
    Simple(Py<PyString>),
    /// COMMIT or ROLLBACK, or nothing when the transaction's BEGIN has not been sent.
    Finish(Py<PyString>),
    /// Sends a stored BEGIN by itself.
    Begin,
    /// Close of a statement.
    CloseStatement(Py<Statement>),
    /// Close of a portal.
    ClosePortal(Vec<u8>),
    /// Begins COPY ... TO STDOUT.
    CopyOut(Py<PyString>),
    /// More bytes of the COPY, or None at its end.
    CopyRead,
    /// Begins COPY ... FROM STDIN, for a task.
    CopyIn(Py<PyString>, Py<PyAny>),
    /// Ends a COPY ... FROM STDIN, by failing with a reason or well.
    CopyEnd(Option<String>),
    /// Waits until the transport takes more.
    Drain,
    /// Waits for the connection to belong to the context of this task alone.
    Lease(Py<PyAny>),
    /// Only waits for its turn.
    Nothing,
}
