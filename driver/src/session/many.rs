//! Many argument lists for one statement, as one unit, written piece by piece while the transport takes them.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyIterator, PyString, PyTuple};

use super::codec_plan::CodecPlan;
use super::in_flight::{Batch, InFlight, Total, Verb};
use super::op::{Op, Started};
use super::own::{holds, own_type};
use super::request::Request;
use super::statement::Statement;
use super::{Exclusive, Session, outgoing};

/// Argument lists are handed over in pieces of about this size.
const PIECE: usize = 128 * 1024;
/// The most of them in one turn of the event loop, so that other tasks run and an error of the server is read.
const PIECES_A_TURN: usize = 2;

/// The rest of the argument lists of a request.
pub(crate) struct Many {
    lists: Py<PyIterator>,
    statement: Py<Statement>,
    plan: Arc<CodecPlan>,
    limit: u32,
    next: usize,
    /// Gives the types of a list's values, where they are declared.
    declare: Option<Py<PyAny>>,
    /// The types that were declared last, 0 for one that the server infers.
    types: Vec<u32>,
    /// How values are written for these if they are not the statement's: it has no name then.
    other: Option<CodecPlan>,
}

#[pymethods]
impl Session {
    /// Binds of many argument lists, each executed, all or none.
    ///
    /// `declare` gives the types of an argument list, and the list for these: the statement is parsed again, without a
    /// name, for a list of other types.
    #[pyo3(signature = (state, args, portal_name, timeout, return_rows, declare=None))]
    fn bind_execute_many<'py>(
        slf: &Bound<'py, Self>,
        state: Py<Statement>,
        args: Py<PyAny>,
        portal_name: &Bound<'py, PyString>,
        timeout: Option<Py<PyAny>>,
        return_rows: bool,
        declare: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, Op>> {
        let _ = portal_name;
        Op::make(slf, Request::Many { statement: state, args, rows: return_rows, declare }, timeout)
    }
}

impl Session {
    pub(super) fn send_many(
        slf: &Bound<'_, Self>,
        op: &Bound<'_, Op>,
        statement: &Py<Statement>,
        args: &Bound<'_, PyAny>,
        rows: bool,
        declare: Option<&Py<PyAny>>,
    ) -> PyResult<Started> {
        let py = slf.py();
        let plan = statement.get().compile(py)?;
        slf.get().note_change(statement.get().changes_session);
        let lists = args.try_iter()?.unbind();
        let total = if rows { Total::Rows(plan.clone(), Vec::new()) } else { Total::Count(0) };
        let batch = Batch { statement: statement.clone_ref(py), total, failure: None };
        let flight = InFlight::new(Verb::Many(batch), op);
        let mut many = Many {
            lists,
            statement: statement.clone_ref(py),
            plan,
            limit: if rows { 0 } else { 1 },
            next: 0,
            declare: declare.map(|declare| declare.clone_ref(py)),
            types: statement.get().declared_of_all(),
            other: None,
        };
        // The first piece is written before anything is promised, so that a bad first argument costs nothing.
        let mut piece = Vec::new();
        if !statement.get().prepared() {
            let query = slf.get().settings.get().encode_text(statement.get().query.bind(py))?;
            let name = statement.get().name.bind(py).to_str()?.as_bytes();
            outgoing::parse_as(&mut piece, name, &query, statement.get().declared());
        }
        let more = many.write(py, &mut piece)?;
        if more {
            let mut writing = slf.get().writing()?;
            writing.exclusive = Some(Exclusive::Many);
            writing.many = Some(many);
        } else {
            outgoing::sync(&mut piece);
        }
        let started = Self::push(slf, flight, |out| {
            out.extend_from_slice(&piece);
            Ok(())
        })?;
        if more {
            Self::write_many(slf)?;
        }
        Ok(started)
    }

    /// Writes more of the argument lists, if the transport takes them, and the rest in later turns of the loop.
    pub(crate) fn write_many(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        for _ in 0..PIECES_A_TURN {
            let many = {
                let mut writing = this.writing()?;
                let writing = &mut *writing;
                Self::flush(slf, writing)?;
                if this.paused_writing.load(Ordering::Relaxed) {
                    return Ok(());
                }
                writing.many.take()
            };
            let Some(mut many) = many else { return Ok(()) };
            let mut piece = Vec::with_capacity(PIECE + PIECE / 4);
            let written = many.write(py, &mut piece);
            let mut writing = this.writing()?;
            let dead = this.is_closing.load(Ordering::Relaxed);
            let failed = writing.many_failed || dead;
            match written {
                Ok(true) if !failed => {
                    writing.out.extend_from_slice(&piece);
                    writing.many = Some(many);
                    continue;
                }
                Ok(_) => {
                    if !failed {
                        writing.out.extend_from_slice(&piece);
                    }
                }
                Err(error) => {
                    if !this.in_transaction_now() && !failed {
                        // What was sent is one implicit transaction, which must not be committed by the Sync.
                        outgoing::parse(&mut writing.out, b"", b"ROLLBACK");
                        writing.out.extend_from_slice(b"B\0\0\0\x0c\0\0\0\0\0\0\0\0");
                        outgoing::execute(&mut writing.out, b"", 0);
                    }
                    // Being the exclusive writer, its request is the last.
                    let mut reading = this.reading()?;
                    if let Some(InFlight { verb: Verb::Many(batch), .. }) =
                        writing.flights.back_mut().or(reading.current.as_mut())
                    {
                        batch.failure.get_or_insert(error);
                    }
                }
            }
            if !dead {
                outgoing::sync(&mut writing.out);
            }
            writing.exclusive = None;
            writing.many_failed = false;
            Self::flush(slf, &mut writing)?;
            drop(writing);
            return Self::pump(slf);
        }
        let call = slf.getattr(intern!(py, "_write_more"))?;
        this.loop_.call_method1(py, intern!(py, "call_soon"), (call,)).map(drop)
    }
}

impl Many {
    /// Appends argument lists until a piece is full; whether there may be more.
    fn write(&mut self, py: Python<'_>, out: &mut Vec<u8>) -> PyResult<bool> {
        let name = self.statement.get().name.bind(py).to_str()?.as_bytes().to_vec();
        let mut lists = self.lists.bind(py).clone();
        loop {
            let Some(list) = lists.next() else { return Ok(false) };
            let list: Bound<'_, PyAny> = list?;
            let list = match list.cast_into::<PyTuple>() {
                Ok(tuple) => tuple.into_any(),
                Err(other) => other.into_inner(),
            };
            let list = self.declared(py, out, &name, list)?;
            match &self.other {
                Some(other) => other.bind(py, out, b"", b"", &list, Some(self.next))?,
                None => self.plan.bind(py, out, b"", &name, &list, Some(self.next))?,
            }
            outgoing::execute(out, b"", self.limit);
            self.next += 1;
            if out.len() >= PIECE {
                return Ok(true);
            }
        }
    }

    /// Declares the types of an argument list, if they are others than the last one's; the list for them.
    ///
    /// An integer goes by the type of the last one that needs at least as many bytes.
    fn declared<'py>(
        &mut self,
        py: Python<'py>,
        out: &mut Vec<u8>,
        name: &[u8],
        list: Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let Some(declare) = &self.declare else { return Ok(list) };
        let Ok(values) = list.cast::<PyTuple>() else { return Ok(list) };
        // Of a wrong number is told who writes them.
        if values.len() != self.types.len() || values.iter_borrowed().zip(&self.types).all(|(v, &oid)| suits(&v, oid)) {
            return Ok(list);
        }
        let (mut types, list) = declare.call1(py, (values,))?.extract::<(Vec<u32>, Bound<'_, PyAny>)>(py)?;
        types.resize(values.len(), 0);
        let types: Vec<u32> = types
            .into_iter()
            .zip(&self.types)
            .zip(values.iter_borrowed())
            .map(|((new, &last), value)| if value.is_none() || holds(last, new) { last } else { new })
            .collect();
        if types == self.types {
            return Ok(list);
        }
        let statement = self.statement.get();
        let first = statement.declared_of_all();
        if types == first && !name.is_empty() {
            self.other = None;
        } else {
            // What the server has inferred it would infer again; only a parameter that was declared it has not.
            let inferred = |((&oid, &first), &parameter)| if oid == 0 && first == 0 { parameter } else { oid };
            let whole: Vec<u32> = types.iter().zip(&first).zip(statement.parameters()).map(inferred).collect();
            outgoing::parse_as(out, b"", &statement.query(py)?, &whole);
            self.other = Some(statement.plan_for(py, &whole)?);
        }
        self.types = types;
        Ok(list)
    }
}

/// Whether a value is surely of the type, or of any.
#[inline]
fn suits(value: &Borrowed<'_, '_, PyAny>, oid: u32) -> bool {
    value.is_none() || own_type(value).is_some_and(|own| own == oid || holds(oid, own))
}
