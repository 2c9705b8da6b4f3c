//! Query: commands as text, and the transactions that they begin and end.

use std::sync::atomic::Ordering;

use pyo3::prelude::*;
use pyo3::types::PyString;

use super::in_flight::{InFlight, Text, Verb};
use super::op::{Op, Started};
use super::request::Request;
use super::session_state::may_change_session;
use super::{Exclusive, Session, outgoing};

#[pymethods]
impl Session {
    /// Commands as text; the status of the last one.
    #[pyo3(signature = (query, timeout))]
    fn query<'py>(slf: &Bound<'py, Self>, query: Py<PyString>, timeout: Option<Py<PyAny>>) -> PyResult<Bound<'py, Op>> {
        Op::make(slf, Request::Simple(query), timeout)
    }

    /// Stores a command that begins a transaction: it travels with the next request.
    fn begin(&self, sql: &Bound<'_, PyString>) -> PyResult<()> {
        self.check_open(sql.py())?;
        let mut text = self.settings.get().encode_text(sql)?;
        if !text.trim_ascii_end().ends_with(b";") {
            text.push(b';');
        }
        self.writing()?.begin = Some(text);
        Ok(())
    }

    /// Ends a transaction; nothing travels when its beginning has not.
    #[pyo3(signature = (sql, timeout=None))]
    fn finish<'py>(slf: &Bound<'py, Self>, sql: Py<PyString>, timeout: Option<Py<PyAny>>) -> PyResult<Bound<'py, Op>> {
        Op::make(slf, Request::Finish(sql), timeout)
    }

    /// Sends a stored beginning by itself.
    #[pyo3(signature = (timeout=None))]
    fn begin_now<'py>(slf: &Bound<'py, Self>, timeout: Option<Py<PyAny>>) -> PyResult<Bound<'py, Op>> {
        Op::make(slf, Request::Begin, timeout)
    }
}

impl Session {
    /// Ends a transaction; one of which nothing was sent needs no end.
    pub(super) fn send_finish(slf: &Bound<'_, Self>, op: &Bound<'_, Op>, query: &Py<PyString>) -> PyResult<Started> {
        if slf.get().writing()?.begin.take().is_some() {
            return Ok(Started::Done(slf.py().None()));
        }
        Self::send_query(slf, op, query, Verb::Query)
    }

    /// Sends a stored beginning by itself, if there is one.
    pub(super) fn send_begin(slf: &Bound<'_, Self>, op: &Bound<'_, Op>) -> PyResult<Started> {
        let this = slf.get();
        let begin = this.writing()?.begin.take();
        let Some(begin) = begin else { return Ok(Started::Done(slf.py().None())) };
        this.beginning.fetch_add(1, Ordering::Relaxed);
        let mut flight = InFlight::new(Verb::Query(Text::default()), op);
        flight.begins = true;
        Self::push(slf, flight, |out| {
            outgoing::query(out, &begin);
            Ok(())
        })
    }

    pub(super) fn send_query(
        slf: &Bound<'_, Self>,
        op: &Bound<'_, Op>,
        query: &Py<PyString>,
        verb: impl FnOnce(Text) -> Verb,
    ) -> PyResult<Started> {
        let py = slf.py();
        let this = slf.get();
        let text = this.settings.get().encode_text(query.bind(py))?;
        if !this.changed.load(Ordering::Relaxed) {
            this.note_change(query.bind(py).to_str().map_or(true, may_change_session));
        }
        // As one Query with what it begins: then its failure is the failure of all.
        let begin = this.writing()?.begin.take();
        let begins = begin.is_some();
        if begins {
            this.beginning.fetch_add(1, Ordering::Relaxed);
        }
        let begin = begin.unwrap_or_default();
        let query = Some(query.clone_ref(py).into_any());
        let mut flight = InFlight::new(verb(Text { query, prefix: begin.len(), tag: None }), op);
        flight.begins = begins;
        let text = if begins { [begin, text].concat() } else { text };
        let started = Self::push(slf, flight, |out| {
            outgoing::query(out, &text);
            Ok(())
        })?;
        if begins {
            this.writing()?.exclusive = Some(Exclusive::Begin);
        }
        Ok(started)
    }

    /// Has the server fail the transaction that a text was to begin: it has refused the whole text, its beginning too, and
    /// what follows must not be run outside of it. The text's request is over when that is done.
    pub(super) fn fail_block(slf: &Bound<'_, Self>, mut flight: InFlight) -> PyResult<()> {
        let mut writing = slf.get().writing()?;
        flight.begins = false;
        outgoing::query(&mut writing.out, b"BEGIN; ROLLBACK TO SAVEPOINT refused");
        writing.flights.push_back(flight);
        Self::flush(slf, &mut writing)
    }
}
