//! Received messages: each goes to the request that it answers, each result to the operation that waits for it.

use std::sync::atomic::Ordering;

use pyo3::intern;
use pyo3::prelude::*;
use wire::backend::{self, tag};
use wire::frame::Fields;

use super::in_flight::{InFlight, Verb};
use super::login::Login;
use super::settle::error_fields;
use super::{Reading, Session, brief, errors};

impl Session {
    /// Reads what has come.
    pub(crate) fn receive(slf: &Bound<'_, Self>) -> PyResult<()> {
        let py = slf.py();
        match Self::read_messages(slf) {
            Ok(true) => {
                if brief(&slf.get().cancel_waiters).is_some() {
                    Self::cancel_progress(slf)?;
                }
                Self::pump(slf)
            }
            Ok(false) => Ok(()),
            Err(error) => Self::broken(slf, error)
                .inspect_err(|other| other.clone_ref(py).write_unraisable(py, Some(slf.as_any()))),
        }
    }

    /// Whether any request was answered.
    fn read_messages(slf: &Bound<'_, Self>) -> PyResult<bool> {
        let py = slf.py();
        let this = slf.get();
        let mut guard = this.reading()?;
        let mut settled = false;
        loop {
            let reading = &mut *guard;
            let message = match reading.inbox.message() {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(error) => return Err(errors::protocol(py, &error.to_string())),
            };
            if reading.current.is_none() && !is_unasked(message.tag) {
                reading.current = this.writing()?.flights.pop_front();
            }
            let Reading { inbox, current, login } = reading;
            let tag = message.tag;
            if tag == tag::DATA_ROW
                && let Some(flight) = current
                && flight.reads_rows()
            {
                flight.take_row(py, inbox.body(message));
            } else if tag == tag::COPY_DATA
                && let Some(InFlight { verb: Verb::CopyOut(_, Some(copied)), waiter, .. }) = current
            {
                Self::copied(py, copied, waiter, inbox, message)?;
            } else if tag == tag::READY_FOR_QUERY {
                let status = inbox.body(message).first().copied().unwrap_or(b'I');
                let Some(flight) = current.take() else { return Err(unexpected(py, tag)) };
                settled = true;
                Self::settle(slf, flight, status)?;
            } else if tag == tag::AUTHENTICATION {
                if !matches!(current, Some(InFlight { verb: Verb::Startup, .. })) {
                    return Err(unexpected(py, tag));
                }
                Self::authenticate(slf, login, inbox.body(message))?;
            } else {
                Self::other_message(slf, current.as_mut(), tag, inbox.body(message))?;
            }
        }
        if let Some(InFlight { verb: Verb::CopyOut(_, Some(copied)), waiter, .. }) = &mut guard.current {
            this.hand_over(py, copied, waiter)?;
        }
        drop(guard);
        if this.writing()?.many_failed {
            Self::write_many(slf)?;
        }
        Ok(settled)
    }

    /// Answers a message of the exchange by which the user logs in.
    fn authenticate(slf: &Bound<'_, Self>, login: &mut Login, body: &[u8]) -> PyResult<()> {
        let this = slf.get();
        if body.starts_with(&[0; 4]) {
            this.auth_received.store(true, Ordering::Relaxed);
        }
        let mut out = Vec::new();
        login.check(body).map_err(|refusal| errors::interface(slf.py(), &refusal))?;
        login.answer(body, &mut out).map_err(|error| login_error(slf.py(), &error))?;
        let mut writing = this.writing()?;
        writing.out.extend_from_slice(&out);
        Self::flush(slf, &mut writing)
    }

    /// Takes a message that is not one of many: unasked, or of an answer.
    fn other_message(slf: &Bound<'_, Self>, current: Option<&mut InFlight>, tag: u8, body: &[u8]) -> PyResult<()> {
        let py = slf.py();
        let this = slf.get();
        match tag {
            tag::PARAMETER_STATUS => this.parameter(py, body),
            tag::BACKEND_KEY_DATA => {
                let (pid, secret) = backend::backend_key_data(body).map_err(|error| broken_message(py, &error))?;
                this.pid.store(pid, Ordering::Relaxed);
                *brief(&this.secret) = secret.to_vec();
                Ok(())
            }
            tag::NEGOTIATE_PROTOCOL_VERSION => Ok(()),
            tag::NOTIFICATION_RESPONSE => this.notification(py, body),
            tag::NOTICE_RESPONSE => this.notice(py, body, current.as_deref()),
            tag::ERROR_RESPONSE => this.error_response(py, current, body),
            _ => match current {
                Some(flight) if flight.is_abandoned() => {
                    if tag == tag::COPY_IN_RESPONSE {
                        Self::message(slf, flight, tag, body)
                    } else {
                        Ok(())
                    }
                }
                Some(flight) if flight.expects(tag) => Self::message(slf, flight, tag, body),
                _ => Err(unexpected(py, tag)),
            },
        }
    }

    /// Takes one message of an answer.
    fn message(slf: &Bound<'_, Self>, flight: &mut InFlight, tag: u8, body: &[u8]) -> PyResult<()> {
        let py = slf.py();
        match tag {
            tag::BIND_COMPLETE | tag::EMPTY_QUERY_RESPONSE => flight.forget_tag(),
            tag::COMMAND_COMPLETE => {
                if body == b"PREPARE\0" {
                    slf.get().prepared.store(true, Ordering::Relaxed);
                }
                flight.complete(py, body)?;
            }
            tag::PORTAL_SUSPENDED => flight.suspend(),
            tag::PARAMETER_DESCRIPTION | tag::ROW_DESCRIPTION => {
                if let Verb::Prepare(statement) = &flight.verb {
                    Self::described(py, statement.get(), tag, body)?;
                }
            }
            tag::COPY_IN_RESPONSE => Self::copy_in_ready(slf, flight)?,
            tag::COPY_BOTH_RESPONSE => {
                return Err(errors::protocol(py, "COPY in both directions is not supported"));
            }
            tag::COPY_OUT_RESPONSE => {
                if let Verb::CopyOut(_, copied) = &mut flight.verb {
                    copied.get_or_insert_default();
                    if let Some(op) = flight.waiter.take() {
                        op.get().finish(py, Ok(py.None()));
                    }
                }
            }
            _ => (),
        }
        Ok(())
    }

    /// Takes a ParameterStatus.
    fn parameter(&self, py: Python<'_>, body: &[u8]) -> PyResult<()> {
        let mut fields = Fields::new(tag::PARAMETER_STATUS, body);
        let name = fields.cstr("a parameter's name").map_err(|error| broken_message(py, &error))?;
        let value = fields.cstr("a parameter's value").map_err(|error| broken_message(py, &error))?;
        self.settings.get().set(py, name, value)?;
        // At the start the server tells all; later, what has changed.
        self.note_change(self.is_connected.load(Ordering::Relaxed));
        Ok(())
    }

    /// Takes an ErrorResponse, whose request goes on to its ReadyForQuery.
    fn error_response(&self, py: Python<'_>, current: Option<&mut InFlight>, body: &[u8]) -> PyResult<()> {
        let fields = error_fields(body);
        match current {
            Some(InFlight { verb: Verb::Startup, .. }) => return Err(self.server_error(py, &fields, None)),
            Some(flight) => {
                flight.error.get_or_insert(fields);
                let mut writing = self.writing()?;
                if matches!(flight.verb, Verb::Many(_)) && writing.many.is_some() {
                    writing.many_failed = true;
                }
            }
            None => self.writing()?.last_words = Some(fields),
        }
        Ok(())
    }

    fn notification(&self, py: Python<'_>, body: &[u8]) -> PyResult<()> {
        let mut fields = Fields::new(tag::NOTIFICATION_RESPONSE, body);
        let wrong = |error: wire::Error| broken_message(py, &error);
        let pid = fields.i32("a process id").map_err(wrong)?;
        let settings = self.settings.get();
        let channel = settings.decode_text(py, fields.cstr("a channel").map_err(wrong)?)?;
        let payload = settings.decode_text(py, fields.cstr("a payload").map_err(wrong)?)?;
        if let Some(connection) = self.connection(py) {
            connection.call_method1(intern!(py, "_process_notification"), (pid, channel, payload))?;
        }
        Ok(())
    }

    fn notice(&self, py: Python<'_>, body: &[u8], flight: Option<&InFlight>) -> PyResult<()> {
        let Some(connection) = self.connection(py) else { return Ok(()) };
        let query = flight.and_then(|flight| flight.verb.query(py));
        let fields = self.fields_dict(py, &error_fields(body))?;
        connection.call_method1(intern!(py, "_process_log_message"), (fields, query)).map(drop)
    }
}

/// Whether a message may come at any time, without a request.
#[inline]
fn is_unasked(tag: u8) -> bool {
    matches!(tag, tag::NOTIFICATION_RESPONSE | tag::NOTICE_RESPONSE | tag::PARAMETER_STATUS)
}

#[cold]
fn unexpected(py: Python<'_>, tag: u8) -> PyErr {
    errors::protocol(py, &format!("unexpected message {:?} from the server", char::from(tag)))
}

#[cold]
pub(super) fn broken_message(py: Python<'_>, error: &wire::Error) -> PyErr {
    errors::protocol(py, &error.to_string())
}

#[cold]
fn login_error(py: Python<'_>, error: &wire::login::Error) -> PyErr {
    errors::interface(py, &super::login::complaint(error))
}
