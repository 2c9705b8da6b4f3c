//! Requests on their way out: who may send, what is written, and when it is handed to the socket.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use pyo3::ffi;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyIterator, PyString, PyTuple};

use super::flight::{Flight, Kind, Shape};
use super::footprint::may_change_session;
use super::op::{Op, Request, Started};
use super::statement::{Program, Statement};
use super::{Exclusive, Session, Writing, brief, errors, outgoing};
use crate::columns::ColumnsBuilder;

/// Argument lists are handed over in pieces of about this size.
const PIECE: usize = 128 * 1024;
/// And so many of them in one turn of the loop: others have theirs, and an error of the server is heard.
const PIECES_A_TURN: usize = 2;
/// An outgoing buffer that grew larger is given back.
const KEEP: usize = 1024 * 1024;

/// The rest of the argument lists of a request.
pub(crate) struct Many {
    lists: Py<PyIterator>,
    statement: Py<Statement>,
    program: Arc<Program>,
    limit: u32,
    next: usize,
}

impl Session {
    /// Starts an operation: sends it, or has it wait for its turn.
    pub(crate) fn start(slf: &Bound<'_, Self>, op: &Bound<'_, Op>) -> PyResult<Started> {
        let py = slf.py();
        let this = slf.get();
        this.check_open(py)?;
        let deadline = op.get().deadline();
        {
            let mut writing = this.writing()?;
            if let Some(deadline) = deadline {
                Self::arm(slf, &mut writing, op, deadline)?;
            }
            if !op.get().passes() && !this.admit(py, &mut writing, op)? {
                return Ok(Started::Waits);
            }
        }
        Self::dispatch(slf, op)
    }

    /// Starts an operation whose turn has come.
    pub(crate) fn start_now(slf: &Bound<'_, Self>, op: &Bound<'_, Op>) {
        let py = slf.py();
        match slf.get().check_open(py).and_then(|()| Self::dispatch(slf, op)) {
            Ok(Started::Waits) => (),
            Ok(Started::Done(value)) => op.get().finish(py, Ok(value)),
            Ok(Started::Inner(coroutine)) => op.get().go_on_with(py, coroutine),
            Err(error) => op.get().finish(py, Err(error)),
        }
    }

    pub(crate) fn check_open(&self, py: Python<'_>) -> PyResult<()> {
        if self.is_closing.load(Ordering::Relaxed) || self.is_elsewhere() {
            return Err(self.closed_error(py));
        }
        Ok(())
    }

    pub(crate) fn note_change(&self, changes: bool) {
        if changes {
            self.changed.store(true, Ordering::Relaxed);
        }
    }

    fn dispatch(slf: &Bound<'_, Self>, op: &Bound<'_, Op>) -> PyResult<Started> {
        // The request is out of the operation's lock while encoders of the program's own may run.
        let request = std::mem::replace(&mut op.get().state().request, Request::Nothing);
        let result = Self::send(slf, op, &request);
        op.get().state().request = request;
        result
    }

    fn send(slf: &Bound<'_, Self>, op: &Bound<'_, Op>, request: &Request) -> PyResult<Started> {
        let py = slf.py();
        let this = slf.get();
        match request {
            Request::Fetch { query, args, record_class, limit, shape } => {
                if record_class.is_none()
                    && let Some(statement) = this.cached(py, query)?
                {
                    statement
                        .get()
                        .used
                        .store(this.settings.get().clock.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
                    let shape = shape.clone_ref(py);
                    return Self::send_bind(slf, op, &statement, args.bind(py).as_any(), b"", *limit, shape, true);
                }
                let timeout = op.get().seconds_left();
                let (code, column) = shape.code(py);
                this.need_connection(py)?
                    .call_method1(
                        intern!(py, "_fetch_unprepared"),
                        (query, args, *limit, code, column, record_class, timeout),
                    )
                    .map(|coroutine| Started::Inner(coroutine.unbind()))
            }
            Request::Bind { statement, args, portal, limit, shape, execute } => Self::send_bind(
                slf,
                op,
                statement.bind(py),
                args.bind(py),
                portal,
                *limit,
                shape.clone_ref(py),
                *execute,
            ),
            Request::Columns { statement, args, dictionary } => {
                Self::send_columns(slf, op, statement.bind(py), args.bind(py), dictionary)
            }
            Request::Execute { statement, portal, limit } => {
                let mut flight = Flight::new(Kind::Execute, Shape::Extra, op);
                flight.program = Some(statement.get().compile(py)?);
                flight.statement = Some(statement.clone_ref(py));
                Self::push(slf, flight, |out| {
                    outgoing::execute(out, portal, *limit);
                    outgoing::sync(out);
                    Ok(())
                })
            }
            Request::Many { statement, args, rows } => Self::send_many(slf, op, statement, args.bind(py), *rows),
            Request::Prepare(statement) => {
                let mut flight = Flight::new(Kind::Prepare, Shape::Nothing, op);
                flight.statement = Some(statement.clone_ref(py));
                let query = this.settings.get().encode_text(statement.get().query.bind(py))?;
                let name = statement.get().name.bind(py).to_str()?.as_bytes();
                Self::push(slf, flight, |out| {
                    outgoing::parse(out, name, &query);
                    outgoing::describe_statement(out, name);
                    outgoing::sync(out);
                    Ok(())
                })
            }
            Request::Simple(query) => Self::send_query(slf, op, query, Kind::Simple),
            Request::CopyOut(query) => Self::send_query(slf, op, query, Kind::CopyOut),
            Request::CopyIn(query) => {
                let started = Self::send_query(slf, op, query, Kind::CopyIn)?;
                this.writing()?.exclusive = Some(Exclusive::CopyIn);
                Ok(started)
            }
            Request::Finish(query) => {
                if this.writing()?.begin.take().is_some() {
                    return Ok(Started::Done(py.None()));
                }
                Self::send_query(slf, op, query, Kind::Simple)
            }
            Request::Begin => {
                let begin = this.writing()?.begin.take();
                let Some(begin) = begin else { return Ok(Started::Done(py.None())) };
                this.beginning.fetch_add(1, Ordering::Relaxed);
                let mut flight = Flight::new(Kind::Simple, Shape::Status, op);
                flight.begins = true;
                Self::push(slf, flight, |out| {
                    outgoing::query(out, &begin);
                    Ok(())
                })
            }
            Request::CloseStatement(statement) => {
                let name = statement.get().name.bind(py).to_str()?.as_bytes();
                Self::push(slf, Flight::new(Kind::Close, Shape::Nothing, op), |out| {
                    outgoing::close_statement(out, name);
                    outgoing::sync(out);
                    Ok(())
                })
            }
            Request::ClosePortal(portal) => Self::push(slf, Flight::new(Kind::Close, Shape::Nothing, op), |out| {
                outgoing::close_portal(out, portal);
                outgoing::sync(out);
                Ok(())
            }),
            Request::CopyRead => Self::copy_read(slf, op),
            Request::CopyEnd(reason) => Self::copy_end(slf, op, reason.as_deref()),
            Request::Drain => {
                if !this.paused_writing.load(Ordering::Relaxed) {
                    return Ok(Started::Done(py.None()));
                }
                this.writing()?.draining.push(op.clone().unbind());
                Ok(Started::Waits)
            }
            Request::Lease => {
                let task = op.get().state().task.take();
                let mut writing = this.writing()?;
                this.grant(py, &mut writing, task).map(Started::Done)
            }
            Request::Nothing => Ok(Started::Done(py.None())),
        }
    }

    fn need_connection<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.connection(py).ok_or_else(|| self.closed_error(py))
    }

    /// The statement that was prepared for a query's text.
    #[inline]
    fn cached<'py>(&self, py: Python<'py>, query: &Py<PyString>) -> PyResult<Option<Bound<'py, Statement>>> {
        // SAFETY: a dict and a string, both alive; what is found is borrowed, and kept at once.
        let found = unsafe {
            let found = ffi::PyDict_GetItemWithError(self.cache.as_ptr(), query.as_ptr());
            Bound::from_borrowed_ptr_or_opt(py, found)
        };
        match found {
            Some(found) => Ok(found.cast_into::<Statement>().ok().filter(|statement| !statement.get().closed())),
            None => match PyErr::take(py) {
                Some(error) => Err(error),
                None => Ok(None),
            },
        }
    }

    /// Writes a request, and has it sent with this turn of the loop.
    fn push(
        slf: &Bound<'_, Self>,
        mut flight: Flight,
        write: impl FnOnce(&mut Vec<u8>) -> PyResult<()>,
    ) -> PyResult<Started> {
        let this = slf.get();
        let counts = !matches!(flight.kind, Kind::Prepare | Kind::Close);
        let mut writing = this.writing()?;
        let Writing { out, begin, .. } = &mut *writing;
        let start = out.len();
        let begins = begin.as_deref().filter(|_| flight.carries_begin());
        if let Some(sql) = begins {
            outgoing::parse(out, b"", sql);
            out.extend_from_slice(b"B\0\0\0\x0c\0\0\0\0\0\0\0\0");
            outgoing::execute(out, b"", 0);
        }
        let begins = begins.is_some();
        if let Err(error) = write(out) {
            out.truncate(start);
            return Err(error);
        }
        if begins {
            *begin = None;
            flight.begins = true;
            this.beginning.fetch_add(1, Ordering::Relaxed);
        }
        writing.flights.push_back(flight);
        writing.pending += 1;
        if counts {
            this.queries.fetch_add(1, Ordering::Relaxed);
        }
        Self::flush_soon(slf, &mut writing)?;
        Ok(Started::Waits)
    }

    #[allow(clippy::too_many_arguments)]
    fn send_bind(
        slf: &Bound<'_, Self>,
        op: &Bound<'_, Op>,
        statement: &Bound<'_, Statement>,
        args: &Bound<'_, PyAny>,
        portal: &[u8],
        limit: u32,
        shape: Shape,
        execute: bool,
    ) -> PyResult<Started> {
        let py = slf.py();
        let this = slf.get();
        let state = statement.get();
        let program = state.compile(py)?;
        let mut flight = Flight::new(Kind::Execute, shape, op);
        flight.program = Some(program.clone());
        flight.statement = Some(statement.clone().unbind());
        this.note_change(state.changes_session);
        Self::push(slf, flight, |out| {
            let name = state.name.bind(py).to_str()?.as_bytes();
            if !state.prepared() {
                let query = this.settings.get().encode_text(state.query.bind(py))?;
                outgoing::parse(out, name, &query);
            }
            program.bind(py, out, portal, name, args, None)?;
            if execute {
                outgoing::execute(out, portal, limit);
            }
            outgoing::sync(out);
            Ok(())
        })
    }

    fn send_columns(
        slf: &Bound<'_, Self>,
        op: &Bound<'_, Op>,
        statement: &Bound<'_, Statement>,
        args: &Bound<'_, PyAny>,
        dictionary: &[String],
    ) -> PyResult<Started> {
        let py = slf.py();
        let this = slf.get();
        let state = statement.get();
        let program = state.compile(py)?;
        let builder = ColumnsBuilder::new(state.fields(py, dictionary)?);
        let formats = builder.formats();
        let mut flight = Flight::new(Kind::Execute, Shape::Columns, op);
        flight.program = Some(program.clone());
        flight.statement = Some(statement.clone().unbind());
        flight.columns = Some(Box::new(builder));
        this.note_change(state.changes_session);
        Self::push(slf, flight, |out| {
            let name = state.name.bind(py).to_str()?.as_bytes();
            if !state.prepared() {
                let query = this.settings.get().encode_text(state.query.bind(py))?;
                outgoing::parse(out, name, &query);
            }
            program.bind_for(py, out, b"", name, args, None, &formats)?;
            outgoing::execute(out, b"", 0);
            outgoing::sync(out);
            Ok(())
        })
    }

    fn send_query(slf: &Bound<'_, Self>, op: &Bound<'_, Op>, query: &Py<PyString>, kind: Kind) -> PyResult<Started> {
        let py = slf.py();
        let this = slf.get();
        let text = this.settings.get().encode_text(query.bind(py))?;
        if !this.changed.load(Ordering::Relaxed) {
            this.note_change(query.bind(py).to_str().map_or(true, may_change_session));
        }
        let mut flight = Flight::new(kind, Shape::Status, op);
        flight.query = Some(query.clone_ref(py).into_any());
        // As one Query with what it begins: then its failure is the failure of all.
        let begin = this.writing()?.begin.take();
        let text = match begin {
            Some(begin) => {
                flight.begins = true;
                flight.prefix = begin.len();
                this.beginning.fetch_add(1, Ordering::Relaxed);
                [begin, text].concat()
            }
            None => text,
        };
        Self::push(slf, flight, |out| {
            outgoing::query(out, &text);
            Ok(())
        })
    }

    fn send_many(
        slf: &Bound<'_, Self>,
        op: &Bound<'_, Op>,
        statement: &Py<Statement>,
        args: &Bound<'_, PyAny>,
        rows: bool,
    ) -> PyResult<Started> {
        let py = slf.py();
        let program = statement.get().compile(py)?;
        slf.get().note_change(statement.get().changes_session);
        let lists = args.try_iter()?.unbind();
        let shape = if rows { Shape::Rows } else { Shape::Nothing };
        let mut flight = Flight::new(Kind::ExecuteMany, shape, op);
        flight.program = rows.then(|| program.clone());
        flight.statement = Some(statement.clone_ref(py));
        let mut many =
            Many { lists, statement: statement.clone_ref(py), program, limit: if rows { 0 } else { 1 }, next: 0 };
        // The first piece is written before anything is promised, so that a bad first argument costs nothing.
        let mut piece = Vec::new();
        if !statement.get().prepared() {
            let query = slf.get().settings.get().encode_text(statement.get().query.bind(py))?;
            outgoing::parse(&mut piece, statement.get().name.bind(py).to_str()?.as_bytes(), &query);
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
                    if let Some(flight) = writing.flights.back_mut().or(reading.current.as_mut()) {
                        flight.failure.get_or_insert(error);
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

    /// Hands over what is written: now, when this is all there is, or else together with what this turn of the loop
    /// adds to it.
    fn flush_soon(slf: &Bound<'_, Self>, writing: &mut Writing) -> PyResult<()> {
        writing.batches.1 += 1;
        if writing.flush_due {
            return Ok(());
        }
        if writing.batches.0 <= 1 && writing.pending <= 1 {
            return Self::flush(slf, writing);
        }
        writing.flush_due = true;
        let py = slf.py();
        let call = slf.getattr(intern!(py, "_flush"))?;
        slf.get().loop_.call_method1(py, intern!(py, "call_soon"), (call,)).map(drop)
    }

    /// Hands over what is written.
    pub(crate) fn flush(slf: &Bound<'_, Self>, writing: &mut Writing) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        writing.batches = (writing.batches.1, 0);
        if writing.out.is_empty() {
            return Ok(());
        }
        let Some(transport) = &writing.transport else {
            writing.out.clear();
            return Ok(());
        };
        if writing.overflow {
            let left: usize = transport.call_method0(py, intern!(py, "get_write_buffer_size"))?.extract(py)?;
            writing.overflow = left > 0;
        }
        let mut sent = 0;
        let socket = this.socket.load(Ordering::Relaxed);
        if socket >= 0 && !writing.overflow {
            while let Some(rest) = writing.out.get(sent..).filter(|rest| !rest.is_empty()) {
                // SAFETY: the slice is readable for its length; the socket is the transport's, which is open.
                let count = unsafe {
                    libc::send(socket, rest.as_ptr().cast(), rest.len(), libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
                };
                match usize::try_from(count) {
                    Ok(count) => sent += count,
                    Err(_) if std::io::Error::last_os_error().kind() == std::io::ErrorKind::Interrupted => (),
                    // Full, or broken; the transport waits for the one and tells of the other.
                    Err(_) => break,
                }
            }
        }
        if let Some(rest) = writing.out.get(sent..).filter(|rest| !rest.is_empty()) {
            let transport = transport.clone_ref(py);
            let rest = PyBytes::new(py, rest);
            writing.out.clear();
            writing.overflow = true;
            transport.call_method1(py, intern!(py, "write"), (rest,))?;
        } else {
            writing.out.clear();
        }
        if writing.out.capacity() > KEEP {
            writing.out = Vec::new();
        }
        Ok(())
    }

    /// Sees to it that the operation ends when its time is up.
    fn arm(slf: &Bound<'_, Self>, writing: &mut Writing, op: &Bound<'_, Op>, deadline: Instant) -> PyResult<()> {
        if op.get().armed() {
            return Ok(());
        }
        if writing.deadlines.len() > 2 * (writing.pending + writing.waiting.len()) + 16 {
            writing.deadlines.retain(|op| !op.get().is_over());
        }
        writing.deadlines.push(op.clone().unbind());
        Self::set_timer(slf, writing, deadline)
    }

    fn set_timer(slf: &Bound<'_, Self>, writing: &mut Writing, deadline: Instant) -> PyResult<()> {
        let py = slf.py();
        if let Some((due, handle)) = &writing.timer {
            if *due <= deadline {
                return Ok(());
            }
            handle.call_method0(py, intern!(py, "cancel"))?;
        }
        let seconds = deadline.saturating_duration_since(Instant::now()).as_secs_f64();
        let call = slf.getattr(intern!(py, "_on_timer"))?;
        let handle = slf.get().loop_.call_method1(py, intern!(py, "call_later"), (seconds, call))?;
        writing.timer = Some((deadline, handle));
        Ok(())
    }

    /// Ends the operations whose time is up.
    pub(crate) fn on_timer(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let mut late = Vec::new();
        {
            let mut writing = this.writing()?;
            writing.timer = None;
            // The loop's clock is coarser than ours.
            let now = Instant::now() + std::time::Duration::from_millis(1);
            let mut next: Option<Instant> = None;
            writing.deadlines.retain(|op| {
                if op.get().is_over() {
                    return false;
                }
                let Some(deadline) = op.get().deadline() else { return false };
                if deadline <= now {
                    late.push(op.clone_ref(py));
                    return false;
                }
                next = Some(next.map_or(deadline, |next| next.min(deadline)));
                true
            });
            if let Some(next) = next {
                Self::set_timer(slf, &mut writing, next)?;
            }
        }
        let mut stuck = false;
        for op in late {
            // Who waits for a cancelled request to end, and does not see it, cannot use the connection any more.
            stuck |= this.cancelling.load(Ordering::Relaxed)
                && this.writing()?.waiting.iter().any(|waiting| waiting.op.is(&op));
            Self::abandon(slf, op.bind(py))?;
            op.get().finish(py, Err(errors::timeout(py, op.get().allowed())));
        }
        match this.connection(py) {
            Some(connection) if stuck => connection.call_method0(intern!(py, "terminate")).map(drop),
            _ => Ok(()),
        }
    }

    /// Gives an operation up: what it asked is cancelled on the server, or never sent.
    pub(crate) fn abandon(slf: &Bound<'_, Self>, op: &Bound<'_, Op>) -> PyResult<()> {
        let this = slf.get();
        let mine = |flight: &Flight| flight.op.as_ref().is_some_and(|other| other.is(op));
        let mut cancel = false;
        {
            let mut reading = this.reading()?;
            let mut writing = this.writing()?;
            let writing = &mut *writing;
            writing.waiting.retain(|waiting| !waiting.op.is(op));
            writing.draining.retain(|other| !other.is(op));
            let first = reading.current.is_none();
            if let Some(flight) = reading.current.as_mut().filter(|flight| mine(flight)) {
                flight.abandon();
                cancel = true;
            } else if let Some((position, flight)) =
                writing.flights.iter_mut().enumerate().find(|(_, flight)| mine(flight))
            {
                flight.abandon();
                cancel = position == 0 && first;
            }
            if writing.many.is_some() && cancel {
                writing.many_failed = true;
            }
        }
        if cancel {
            Self::request_cancel(slf)?;
        }
        Self::pump(slf)
    }

    /// Ends what an operation has begun whose task was cancelled before it learned of that.
    pub(crate) fn give_back(slf: &Bound<'_, Self>, op: &Op, value: &Bound<'_, PyAny>) -> PyResult<()> {
        let request = std::mem::replace(&mut op.state().request, Request::Nothing);
        match request {
            Request::Lease => Self::unlease(slf, value),
            Request::CopyIn(_) => Self::copy_abort(slf, "COPY was cancelled"),
            Request::CopyOut(_) => Self::copy_out_abort(slf),
            Request::Prepare(statement) => slf.get().forget_statement(slf.py(), &statement),
            _ => Ok(()),
        }
    }

    /// Asks the server to cancel the request that it is at.
    pub(crate) fn request_cancel(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        if this.is_closing.load(Ordering::Relaxed) || this.cancelling.swap(true, Ordering::Relaxed) {
            return Ok(());
        }
        {
            let mut reading = this.reading()?;
            let mut writing = this.writing()?;
            Self::flush(slf, &mut writing)?;
            if let Some(flight) = reading.current.as_mut().or(writing.flights.front_mut()) {
                flight.cancelled = true;
            }
        }
        let (sent, over) = (this.new_future(py)?, this.new_future(py)?);
        sent.call_method1(intern!(py, "add_done_callback"), (slf.getattr(intern!(py, "_cancel_sent"))?,))?;
        *brief(&this.cancel_waiters) = Some((sent.clone().unbind(), over.clone().unbind()));
        match this.connection(py) {
            Some(connection) => connection.call_method1(intern!(py, "_cancel_current_command"), (sent, over)).map(drop),
            None => slf.call_method0(intern!(py, "abort")).map(drop),
        }
    }

    /// Goes on with what had to wait for the cancelled request to end and for the request to cancel to arrive.
    pub(crate) fn cancel_progress(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        let done = |future: &Py<PyAny>| future.call_method0(py, intern!(py, "done"))?.is_truthy(py);
        let finished = match &*brief(&this.cancel_waiters) {
            Some((sent, over)) => done(sent)? && done(over)?,
            None => true,
        };
        if finished {
            *brief(&this.cancel_waiters) = None;
            this.cancelling.store(false, Ordering::Relaxed);
            // The next one may have been given up in the meantime.
            let next = {
                let mut reading = this.reading()?;
                let mut writing = this.writing()?;
                let front = reading.current.as_mut().or(writing.flights.front_mut());
                front.is_some_and(|flight| flight.abandoned)
            };
            if next {
                Self::request_cancel(slf)?;
            }
            Self::pump(slf)?;
        }
        Ok(())
    }

    fn copy_read(slf: &Bound<'_, Self>, op: &Bound<'_, Op>) -> PyResult<Started> {
        let py = slf.py();
        let this = slf.get();
        let mut reading = this.reading()?;
        let copied = match reading.current.as_mut().filter(|flight| flight.kind == Kind::CopyOut) {
            Some(flight) if !flight.copied.is_empty() => {
                let bytes = PyBytes::new(py, &flight.copied);
                flight.copied.clear();
                Some(bytes)
            }
            Some(flight) => {
                flight.op = Some(op.clone().unbind());
                None
            }
            None => {
                drop(reading);
                let mut writing = this.writing()?;
                if let Some(rest) = writing.copy_rest.take() {
                    return Ok(Started::Done(PyBytes::new(py, &rest).into_any().unbind()));
                }
                return match writing.copy_end.take() {
                    Some(end) => end.map(Started::Done),
                    None => match writing.flights.iter_mut().find(|flight| flight.kind == Kind::CopyOut) {
                        Some(flight) => {
                            flight.op = Some(op.clone().unbind());
                            Ok(Started::Waits)
                        }
                        None => Err(errors::interface(py, "no COPY operation is in progress")),
                    },
                };
            }
        };
        drop(reading);
        this.set_reading(py, true)?;
        Ok(copied.map_or(Started::Waits, |bytes| Started::Done(bytes.into_any().unbind())))
    }

    /// Has the transport read, or not read: the server is held up when nobody takes what it copies.
    pub(crate) fn set_reading(&self, py: Python<'_>, on: bool) -> PyResult<()> {
        if self.paused_reading.swap(!on, Ordering::Relaxed) != on {
            return Ok(());
        }
        let transport = self.writing()?.transport.as_ref().map(|transport| transport.clone_ref(py));
        if let Some(transport) = transport {
            let name = if on { intern!(py, "resume_reading") } else { intern!(py, "pause_reading") };
            transport.call_method0(py, name)?;
        }
        Ok(())
    }

    fn copy_end(slf: &Bound<'_, Self>, op: &Bound<'_, Op>, reason: Option<&str>) -> PyResult<Started> {
        let py = slf.py();
        let this = slf.get();
        let mut reading = this.reading()?;
        let mut writing = this.writing()?;
        if writing.exclusive == Some(Exclusive::CopyIn) {
            writing.exclusive = None;
        }
        if let Some(end) = writing.copy_end.take() {
            drop(writing);
            drop(reading);
            Self::pump(slf)?;
            return end.map(Started::Done);
        }
        match reason {
            None => outgoing::copy_done(&mut writing.out),
            Some(reason) => outgoing::copy_fail(&mut writing.out, reason),
        }
        Self::flush(slf, &mut writing)?;
        let writing = &mut *writing;
        let copying = |flight: &&mut Flight| flight.kind == Kind::CopyIn;
        match reading.current.as_mut().filter(copying).or(writing.flights.iter_mut().find(copying)) {
            Some(flight) => flight.op = Some(op.clone().unbind()),
            None => return Err(errors::interface(py, "no COPY operation is in progress")),
        }
        Ok(Started::Waits)
    }

    /// Gives a COPY ... FROM STDIN up: nobody waits for its end.
    pub(crate) fn copy_abort(slf: &Bound<'_, Self>, reason: &str) -> PyResult<()> {
        let this = slf.get();
        if this.is_closing.load(Ordering::Relaxed) {
            return Ok(());
        }
        let mut under_way = false;
        {
            let mut reading = this.reading()?;
            let mut writing = this.writing()?;
            if writing.exclusive == Some(Exclusive::CopyIn) {
                writing.exclusive = None;
            }
            if writing.copy_end.take().is_none() {
                outgoing::copy_fail(&mut writing.out, reason);
                Self::flush(slf, &mut writing)?;
                let copying = |flight: &&mut Flight| flight.kind == Kind::CopyIn;
                let writing = &mut *writing;
                if let Some(flight) =
                    reading.current.as_mut().filter(copying).or(writing.flights.iter_mut().find(copying))
                {
                    flight.abandon();
                    under_way = true;
                }
            }
        }
        // It may be waiting for a lock, and not read what it is sent.
        if under_way { Self::request_cancel(slf) } else { Self::pump(slf) }
    }

    /// Writes data of a COPY; false when the server has ended it already.
    pub(crate) fn copy_write(slf: &Bound<'_, Self>, data: &[u8]) -> PyResult<bool> {
        let this = slf.get();
        this.check_open(slf.py())?;
        let mut writing = this.writing()?;
        if writing.copy_end.is_some() || writing.exclusive != Some(Exclusive::CopyIn) {
            return Ok(false);
        }
        // Well below the limit of a message.
        for piece in data.chunks(64 * 1024 * 1024) {
            outgoing::copy_data(&mut writing.out, piece);
        }
        Self::flush(slf, &mut writing)?;
        Ok(true)
    }

    /// Goes on with what waited for the transport to take more.
    pub(crate) fn go_on(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        let draining = std::mem::take(&mut slf.get().writing()?.draining);
        for op in draining {
            op.get().finish(py, Ok(py.None()));
        }
        Self::write_many(slf)
    }

    /// A second try of a query whose statement has become invalid: a coroutine that does it, if there is one.
    pub(crate) fn recover(slf: &Bound<'_, Self>, op: &Op, error: &PyErr) -> PyResult<Option<Py<PyAny>>> {
        let py = slf.py();
        let state = op.state();
        let Request::Fetch { query, args, record_class, limit, shape } = &state.request else { return Ok(None) };
        if !errors::is(py, error, "InvalidCachedStatementError")? && !errors::is(py, error, "OutdatedSchemaCacheError")?
        {
            return Ok(None);
        }
        let Some(connection) = slf.get().connection(py) else { return Ok(None) };
        let (code, column) = shape.code(py);
        let (query, args, record_class) =
            (query.clone_ref(py), args.clone_ref(py), record_class.as_ref().map(|class| class.clone_ref(py)));
        let limit = *limit;
        drop(state);
        let timeout = op.seconds_left();
        connection
            .call_method1(
                intern!(py, "_fetch_again"),
                (error.value(py), query, args, limit, code, column, record_class, timeout),
            )
            .map(|coroutine| Some(coroutine.unbind()))
    }
}

impl Many {
    /// Appends argument lists until a piece is full; whether there may be more.
    fn write(&mut self, py: Python<'_>, out: &mut Vec<u8>) -> PyResult<bool> {
        let name = self.statement.get().name.bind(py).to_str()?.as_bytes();
        let mut lists = self.lists.bind(py).clone();
        loop {
            let Some(list) = lists.next() else { return Ok(false) };
            let list: Bound<'_, PyAny> = list?;
            let list = match list.cast_into::<PyTuple>() {
                Ok(tuple) => tuple.into_any(),
                Err(other) => other.into_inner(),
            };
            self.program.bind(py, out, b"", name, &list, Some(self.next))?;
            outgoing::execute(out, b"", self.limit);
            self.next += 1;
            if out.len() >= PIECE {
                return Ok(true);
            }
        }
    }
}
