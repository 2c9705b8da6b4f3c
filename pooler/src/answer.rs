//! What servers answer, passed on to their clients.

use std::rc::Rc;

use wire::backend::{self, Status, tag};
use wire::frame::HEADER;
use wire::header;

use crate::client::{Client, Discard, Sets};
use crate::route::SERIALIZABLE;
use crate::server::{Passing, Request, Server, ServerKey, State};
use crate::touch::Change;
use crate::worker::{Step, Turn, Worker};

/// A message that must be seen whole is not longer than this.
const WHOLE: usize = 4 * 1024 * 1024;
/// One that is not longer is passed on whole: should the server die within it, its client can still be told so.
const HELD: usize = 16 * 1024;

impl Worker {
    /// Works on a server's input; how many bytes are done with.
    pub fn server_input(&mut self, key: ServerKey, input: &[u8]) -> usize {
        if let Some(pool) = self.servers.get(key.0).and_then(|server| self.pools.get_mut(server.pool.0)) {
            pool.totals.sent += input.len() as u64;
        }
        let mut at = 0;
        while let Some(left) = input.get(at..).filter(|left| !left.is_empty()) {
            let Some(server) = self.servers.get(key.0) else { return input.len() };
            let step = match server.state {
                State::Connecting | State::Cancelling => Step::Took(left.len()),
                State::Login(_) => self.login_input(key, left),
                State::Preparing | State::Idle | State::Active | State::Lane => self.answer_input(key, left),
            };
            match step {
                Step::Took(count) => at += count,
                Step::More | Step::Stop => break,
            }
        }
        if self.servers.get(key.0).is_some_and(|server| matches!(server.state, State::Lane)) {
            self.spill(key);
        }
        at.min(input.len())
    }

    fn answer_input(&mut self, key: ServerKey, left: &[u8]) -> Step {
        let Some(server) = self.servers.get_mut(key.0) else { return Step::Took(left.len()) };
        let client = server.client.and_then(|client| self.clients.get_mut(client.0));
        if server.passing.0 > 0 {
            let count = server.passing.0.min(left.len());
            server.passing.0 -= count;
            if let (Some(Passing::On), Some(out), Some(part)) =
                (server.passing.1, sink(server, client), left.get(..count))
            {
                out.extend_from_slice(part);
            }
            return Step::Took(count);
        }
        let head = match header(left) {
            Ok(Some(head)) => head,
            Ok(None) => return Step::More,
            Err(error) => {
                self.server_gone(key, &format!("broken protocol: {error}"));
                return Step::Took(left.len());
            }
        };
        let ours = matches!(
            server.requests.front(),
            Some(Request::Align | Request::Clean | Request::Lookup | Request::Catalog)
        );
        let streamed = matches!(
            head.tag,
            tag::DATA_ROW
                | tag::COPY_DATA
                | tag::ROW_DESCRIPTION
                | tag::PARAMETER_DESCRIPTION
                | tag::FUNCTION_CALL_RESPONSE
                | tag::NOTIFICATION_RESPONSE
                | tag::NOTICE_RESPONSE
        ) && !matches!(server.requests.front(), Some(Request::Lookup | Request::Catalog));
        let Some(message) = left.get(..head.total()) else {
            if !streamed && head.body > WHOLE {
                self.server_gone(key, "a message of the server is too long");
                return Step::Took(left.len());
            }
            if !streamed || head.total() <= HELD {
                return Step::More;
            }
            self.answered(key, head.tag);
            let Some(server) = self.servers.get_mut(key.0) else { return Step::Took(left.len()) };
            let on = !ours && server.client.is_some() && !(stray(head.tag) && matches!(server.state, State::Lane));
            let client = server.client.and_then(|client| self.clients.get_mut(client.0));
            if let (true, Some(out)) = (on, sink(server, client)) {
                out.extend_from_slice(left);
            }
            server.passing = (head.total() - left.len(), Some(if on { Passing::On } else { Passing::Off }));
            return Step::Took(left.len());
        };
        // Rows are most of what comes: they need nothing else.
        if matches!(head.tag, tag::DATA_ROW | tag::COPY_DATA) && !ours {
            if let Some(out) = sink(server, client) {
                out.extend_from_slice(message);
            }
            return Step::Took(message.len());
        }
        let body = message.get(HEADER..).unwrap_or_default();
        if let Err(error) = self.answer(key, head.tag, message, body, ours) {
            self.server_gone(key, &format!("broken protocol: {error}"));
        }
        Step::Took(message.len())
    }

    fn answer(&mut self, key: ServerKey, tag: u8, message: &[u8], body: &[u8], ours: bool) -> Result<(), wire::Error> {
        match tag {
            tag::PARAMETER_STATUS => {
                let (name, value) = backend::parameter_status(body)?;
                let Some(server) = self.servers.get_mut(key.0) else { return Ok(()) };
                let place = self.tracked.place(name);
                if let Some(place) = place {
                    server.vars.set(place, value);
                }
                server.note_standby(name, value);
                // In a lane it is nobody's doing: the server's configuration has changed.
                let shared = matches!(server.state, State::Lane);
                let kept = self.servers.get(key.0).is_some_and(|server| self.is_of_the_server(server, name));
                let Some(server) = self.servers.get_mut(key.0) else { return Ok(()) };
                if let (false, Some(client)) =
                    (ours || shared || kept, server.client.and_then(|client| self.clients.get_mut(client.0)))
                {
                    if let Some(place) = place {
                        client.vars.set(place, value);
                    }
                    client.io.out().extend_from_slice(message);
                }
                return Ok(());
            }
            tag::ERROR_RESPONSE => return self.answer_error(key, message, body, ours),
            tag::READY_FOR_QUERY => return self.answer_ready(key, message, backend::ready_for_query(body)?),
            tag::AUTHENTICATION | tag::BACKEND_KEY_DATA => {
                self.server_gone(key, "broken protocol: a login message after the login");
                return Ok(());
            }
            tag::DATA_ROW
                if matches!(self.servers.get(key.0).and_then(|s| s.requests.front()), Some(Request::Lookup)) =>
            {
                self.lookup_row(key, &backend::data_row(body)?);
                return Ok(());
            }
            tag::DATA_ROW
                if matches!(self.servers.get(key.0).and_then(|s| s.requests.front()), Some(Request::Catalog)) =>
            {
                self.catalog_row(key, &backend::data_row(body)?);
                return Ok(());
            }
            _ => (),
        }
        let lane = self.servers.get(key.0).is_some_and(|server| matches!(server.state, State::Lane));
        if lane && stray(tag) && self.servers.get(key.0).is_some_and(|server| server.requests.is_empty()) {
            return Ok(());
        }
        if tag == tag::COMMAND_COMPLETE && !lane {
            self.command_complete(key, backend::command_complete(body)?);
        }
        if tag == tag::COPY_IN_RESPONSE
            && let Some((server, client)) = self.answered_pair(key)
        {
            server.copying = true;
            if matches!(server.requests.front(), Some(Request::Execute(_))) {
                // The server ignores the Syncs that it finds in the stream of a COPY.
                server.requests.retain(|request| !matches!(request, Request::Sync));
                client.unsynced = true;
            }
        }
        let hidden = ours
            || matches!(
                (tag, self.servers.get(key.0).and_then(|server| server.requests.front())),
                (tag::PARSE_COMPLETE, Some(Request::Parse { hidden: true, .. }))
                    | (tag::CLOSE_COMPLETE, Some(Request::Evict(..)))
            );
        if !hidden && let Some(server) = self.servers.get_mut(key.0) {
            let client = server.client.and_then(|client| self.clients.get_mut(client.0));
            if let Some(out) = sink(server, client) {
                out.extend_from_slice(message);
            }
        }
        self.answered(key, tag);
        Ok(())
    }

    fn answered_pair(&mut self, key: ServerKey) -> Option<(&mut Server, &mut Client)> {
        let server = self.servers.get_mut(key.0)?;
        let client = self.clients.get_mut(server.client?.0)?;
        Some((server, client))
    }

    /// Notes that the request at the head has been answered, if this type of message answers it.
    fn answered(&mut self, key: ServerKey, tag: u8) {
        let Some(server) = self.servers.get_mut(key.0) else { return };
        let done = matches!(
            (server.requests.front(), tag),
            (Some(Request::Parse { .. }), tag::PARSE_COMPLETE)
                | (Some(Request::Bind(_)), tag::BIND_COMPLETE)
                | (Some(Request::Close | Request::Evict(..)), tag::CLOSE_COMPLETE)
                | (Some(Request::Describe(_)), tag::ROW_DESCRIPTION | tag::NO_DATA)
                | (
                    Some(Request::Execute(_)),
                    tag::COMMAND_COMPLETE | tag::EMPTY_QUERY_RESPONSE | tag::PORTAL_SUSPENDED
                )
        );
        if done {
            server.requests.pop_front();
            if tag == tag::PARSE_COMPLETE
                && let Some(pool) = self.pools.get_mut(server.pool.0)
            {
                pool.totals.server_parses += 1;
            }
            let client = server.client.and_then(|client| self.clients.get_mut(client.0));
            emit_invented(server, client);
        }
    }

    /// What a finished command has done to the session.
    fn command_complete(&mut self, key: ServerKey, text: &[u8]) {
        let Some(server) = self.servers.get_mut(key.0) else { return };
        let touch = match server.requests.front() {
            Some(Request::Query(touch)) => Some(touch),
            Some(Request::Execute(Some(statement))) => Some(&statement.touch),
            Some(Request::Execute(None) | Request::Call) => None,
            _ => return,
        };
        let Some(client) = server.client.and_then(|client| self.clients.get_mut(client.0)) else { return };
        match text {
            b"SET" | b"RESET" => match touch.and_then(|touch| touch.set.as_ref()) {
                Some(change) => {
                    let before = client.sets_in_transaction.as_ref().unwrap_or(&client.sets);
                    client.sets_in_transaction =
                        Some(changed(before, change, |name| self.tracked.place(name).is_some()));
                }
                // One that is not tracked, or lasts for the transaction: to be sure, it is undone in the end.
                None => server.dirty = true,
            },
            [b'C' | b'A' | b'D', b'R' | b'L', ..] => client.changed_catalog = true,
            b"LISTEN" | b"PREPARE" => client.pinned = true,
            b"DISCARD ALL" => {
                client.pinned = false;
                client.sets = Sets::default();
                client.sets_in_transaction = None;
                server.sets = Sets::default();
                client.statements.clear();
                server.known.clear();
                server.dirty = false;
            }
            b"DEALLOCATE ALL" => {
                client.statements.clear();
                server.known.clear();
            }
            // Of the whole transaction or to a savepoint: the text does not tell which SETs are left.
            b"ROLLBACK" if client.sets_in_transaction.take().is_some() => server.dirty = true,
            _ => (),
        }
        if let Some(touch) = touch {
            client.pinned |= touch.pins && text != b"DISCARD ALL";
            server.dirty |= touch.dirties;
        }
    }

    fn answer_error(&mut self, key: ServerKey, message: &[u8], body: &[u8], ours: bool) -> Result<(), wire::Error> {
        let report = backend::report(body)?;
        let Some(server) = self.servers.get_mut(key.0) else { return Ok(()) };
        if matches!(report.severity.as_str(), "FATAL" | "PANIC") {
            // What the client is told depends on what it has under way; that is seen when the connection closes.
            server.farewell = Some((report.code, report.message));
            return Ok(());
        }
        server.failed = true;
        server.copying = false;
        if matches!(server.requests.front(), Some(Request::Catalog)) {
            crate::warning!("cannot read the catalog: {}", report.message);
            return Ok(());
        }
        if ours {
            let what = match server.requests.front() {
                Some(Request::Clean) => "cannot reset a server session",
                Some(Request::Lookup) => "auth_query failed",
                _ => "cannot set a client's parameters on a server",
            };
            let text = format!("{what}: {}", report.message);
            if report.code == "57014" && matches!(server.requests.front(), Some(Request::Align)) {
                // Its client was quick to cancel: it is told so, and stays.
                server.farewell = Some((report.code, report.message));
                self.server_gone(key, &text);
                return Ok(());
            }
            let client = server.client;
            server.client = None;
            if let Some(client) = client {
                if let Some(client) = self.clients.get_mut(client.0) {
                    client.server = None;
                }
                self.fatal(client, &report.code, &text);
            }
            self.close_server(key, &text);
            return Ok(());
        }
        let pool = server.pool;
        if report.routine == SERIALIZABLE {
            self.is_serializable_by_default(pool);
        }
        let Some(server) = self.servers.get_mut(key.0) else { return Ok(()) };
        if matches!(server.state, State::Lane) {
            self.lane_error(key, message, &report);
            return Ok(());
        }
        // What the server knows is not what was thought: whoever uses the statement next prepares it afresh.
        match (report.code.as_str(), server.requests.front()) {
            ("26000", Some(Request::Bind(Some(statement)) | Request::Describe(Some(statement)))) => {
                server.known.remove(statement);
            }
            ("42P05", Some(Request::Parse { statement: Some(statement), unnamed: false, .. })) => {
                statement.generation.set(statement.generation.get() + 1);
            }
            _ => (),
        }
        // The plan of a statement of ours is stale: the next to use it prepares it afresh.
        if report.code == "0A000"
            && report.routine == "RevalidateCachedQuery"
            && let Some(
                Request::Bind(Some(statement)) | Request::Describe(Some(statement)) | Request::Execute(Some(statement)),
            ) = server.requests.front()
        {
            statement.generation.set(statement.generation.get() + 1);
        }
        if let Some(client) = server.client.and_then(|client| self.clients.get_mut(client.0)) {
            client.io.out().extend_from_slice(message);
        }
        Ok(())
    }

    fn answer_ready(&mut self, key: ServerKey, message: &[u8], status: Status) -> Result<(), wire::Error> {
        let now = self.now;
        let Some(server) = self.servers.get_mut(key.0) else { return Ok(()) };
        let mut client = server.client.and_then(|client| self.clients.get_mut(client.0));
        server.status = status;
        server.copying = false;
        let ended = loop {
            match server.requests.pop_front() {
                Some(request) if request.ends_unit() => break request,
                // Only after an error are there requests without an answer.
                Some(request) => undo(server, client.as_deref_mut(), request),
                None => {
                    self.server_gone(key, "broken protocol: ReadyForQuery that nothing asked for");
                    return Ok(());
                }
            }
        };
        server.failed = false;
        match ended {
            Request::Clean => {
                self.cleaned(key);
                return Ok(());
            }
            Request::Align => {
                server.answered = false;
                emit_invented(server, client);
                return Ok(());
            }
            Request::Lookup => {
                self.lookup_done(key);
                return Ok(());
            }
            Request::Catalog => {
                self.catalog_done(key);
                return Ok(());
            }
            _ => (),
        }
        if matches!(server.state, State::Lane) {
            self.lane_ready(key, message, status);
            return Ok(());
        }
        let Some(client) = client else { return Ok(()) };
        if status == Status::Idle
            && let Some(sets) = client.sets_in_transaction.take()
        {
            client.sets = sets.clone();
            server.sets = sets;
        }
        client.io.out().extend_from_slice(message);
        emit_invented(server, Some(client));
        let behind_own = std::mem::take(&mut client.behind_own).then_some(server.client).flatten();
        if let Some(pool) = self.pools.get_mut(server.pool.0) {
            pool.totals.queries += 1;
            let span = now.saturating_duration_since(client.request_since);
            pool.totals.query_time += span;
            pool.stats.queried(server.place, span);
            if status == Status::Idle {
                pool.totals.transactions += 1;
                let since = client.transaction_since.unwrap_or(client.request_since);
                pool.totals.transaction_time += now.saturating_duration_since(since);
            }
        }
        if status == Status::Idle {
            client.transaction_since = None;
            client.attempts = 0;
            if std::mem::take(&mut client.changed_catalog) {
                let pool = server.pool;
                self.catalog_changed(pool);
            }
        }
        if let Some(client) = behind_own {
            self.give_turn(Turn::Client(client));
        }
        let Some((server, client)) = self.answered_pair(key) else { return Ok(()) };
        client.request_since = now;
        server.state_since = now;
        if client.discard != Discard::No {
            return Ok(());
        }
        if self.may_be_given_back(key) {
            // The client hears first: it may be waiting, and the next one is not yet.
            if let Some(client) = self.servers.get(key.0).and_then(|server| server.client) {
                self.flush_client(client);
            }
            if self.servers.contains(key.0) {
                self.give_back(key);
            }
        }
        Ok(())
    }
}

/// Gives the client the answers that were waiting for those before them.
pub fn emit_invented(server: &mut Server, client: Option<&mut Client>) {
    let mut client = client;
    while !server.failed {
        let Some(&Request::Invented { tag, .. }) = server.requests.front() else { return };
        let Some(out) = sink(server, client.as_deref_mut()) else { return };
        backend::write_empty(out, tag);
        server.requests.pop_front();
    }
}

/// Where what a server answers goes: to the client that it is lent to, or in a lane to the stage.
pub fn sink<'a>(server: &'a mut Server, client: Option<&'a mut Client>) -> Option<&'a mut Vec<u8>> {
    match (&server.state, &mut server.lane) {
        (State::Lane, Some(lane)) => Some(&mut lane.stage),
        _ => client.map(|client| client.io.out()),
    }
}

/// Whether a message can come without having been asked for, so that in a lane it is not for who is at the head.
fn stray(tag: u8) -> bool {
    matches!(tag, tag::NOTIFICATION_RESPONSE | tag::NOTICE_RESPONSE)
}

/// Forgets what a request would have done, had an error not come first.
fn undo(server: &mut Server, client: Option<&mut Client>, request: Request) {
    match request {
        Request::Parse { statement, name, unnamed, .. } => {
            if let Some(statement) = &statement {
                if unnamed {
                    server.unnamed = None;
                } else {
                    server.known.remove(statement);
                }
            }
            if let (Some(client), Some(name)) = (client, name) {
                let theirs = client.statements.get(&name);
                if theirs.zip(statement.as_ref()).is_some_and(|(theirs, ours)| Rc::ptr_eq(theirs, ours)) {
                    client.statements.remove(&name);
                }
            }
        }
        // It was not closed after all.
        Request::Evict(statement, generation) => server.known.restore(&statement, generation),
        Request::Invented { name: Some(name), closed, .. } => {
            if let Some(client) = client {
                match closed {
                    Some(statement) => client.statements.insert(name, statement),
                    None => client.statements.remove(&name),
                };
            }
        }
        _ => (),
    }
}

/// What a client has SET, after one more.
fn changed(before: &Sets, change: &Change, tracked: impl Fn(&str) -> bool) -> Sets {
    let mut after = before.clone();
    match change {
        // Tracked parameters are carried by their values.
        Change::Set { name, .. } if tracked(name) => (),
        Change::Set { name, statement } => {
            let sets = Rc::make_mut(&mut after);
            // SET SESSION AUTHORIZATION resets the role.
            if name.contains("authorization") {
                sets.remove("role");
            }
            sets.insert(name.clone(), statement.clone());
        }
        Change::Reset { name } => {
            Rc::make_mut(&mut after).remove(name);
        }
        Change::ResetAll => Rc::make_mut(&mut after).retain(|name, _| name == "role" || name.contains("authorization")),
    }
    after
}
