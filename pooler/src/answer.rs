//! What servers answer, passed on to their clients.

use std::collections::VecDeque;
use std::fmt::Write;
use std::rc::Rc;

use classify::{Discard as Discards, Kind, Verdict};
use wire::backend::{self, Status, tag};
use wire::frame::HEADER;
use wire::header;

use crate::after::After;
use crate::client::{Client, Discard};
use crate::config::PoolMode;
use crate::route::SERIALIZABLE;
use crate::server::{Passing, Request, Residue, Server, ServerKey, State};
use crate::session::{Change, Outcome, Sets};
use crate::shape::may_set;
use crate::vars::{OWN, Tracked, assigned};
use crate::worker::{Step, Turn, Worker};

/// More portals are not known beyond the units that they are of, however long a client pipelines.
const MOST_PORTALS: usize = 1000;
/// A message that must be seen whole is not longer than this.
const WHOLE: usize = 64 * 1024 * 1024;
/// One that is not longer is passed on whole: should the server die within it, its client can still be told so.
const HELD: usize = 16 * 1024;
/// In statement pooling a transaction ends with the unit in which it began.
const NO_BLOCKS: &str = "transaction blocks not allowed in statement pooling mode";

impl Worker {
    /// Works on a server's input; how many bytes are done with.
    pub fn server_input(&mut self, key: ServerKey, input: &[u8]) -> usize {
        if let Some(pool) = self.servers.get(key.0).and_then(|server| self.pools.get_mut(server.pool.0)) {
            pool.totals.sent += input.len() as u64;
        }
        let mut at = 0;
        while let Some(left) = input.get(at..).filter(|left| !left.is_empty()) {
            let Some(server) = self.servers.get(key.0) else { return input.len() };
            if server.doomed.is_some() {
                return input.len();
            }
            let step = match server.state {
                State::Connecting | State::Cancelling => Step::Took(left.len()),
                State::Login(_) => self.login_input(key, left),
                State::Relay => self.relay_to_client(key, left),
                State::Hub => self.hub_input(key, left),
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
        let client = server.client().and_then(|client| self.clients.get_mut(client.0));
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
                self.doom(key, &format!("broken protocol: {error}"));
                return Step::Took(left.len());
            }
        };
        let ours = matches!(
            server.requests.front(),
            Some(Request::Prelude | Request::Restore { .. } | Request::Align | Request::Clean | Request::Lookup)
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
        ) && !matches!(server.requests.front(), Some(Request::Lookup));
        let Some(message) = left.get(..head.total()) else {
            if !streamed && head.body > WHOLE {
                self.doom(key, "a message of the server is too long");
                return Step::Took(left.len());
            }
            if !streamed || head.total() <= HELD {
                return Step::More;
            }
            self.answered(key, head.tag);
            // The rest of it may come when somebody else has the connection.
            let astray = self.is_astray(key, head.tag);
            let Some(server) = self.servers.get_mut(key.0) else { return Step::Took(left.len()) };
            let on = !ours && server.client().is_some() && !astray;
            let client = server.client().and_then(|client| self.clients.get_mut(client.0));
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
            self.doom(key, &format!("broken protocol: {error}"));
        }
        Step::Took(message.len())
    }

    fn answer(&mut self, key: ServerKey, tag: u8, message: &[u8], body: &[u8], ours: bool) -> Result<(), wire::Error> {
        match tag {
            tag::PARAMETER_STATUS => {
                let (name, value) = backend::parameter_status_bytes(body)?;
                let Some(server) = self.servers.get_mut(key.0) else { return Ok(()) };
                let mut place = self.tracked.place(name);
                match (place, std::str::from_utf8(value)) {
                    (Some(place), Ok(value)) => server.session.vars.set(place, value),
                    // In an encoding in which it cannot be said again: it lasts until the connection is given back.
                    (Some(unsaid), Err(_)) => {
                        server.session.vars.take(unsaid);
                        server.residue = server.residue.max(Residue::Settings);
                        if let Some(client) = server.client().and_then(|client| self.clients.get_mut(client.0)) {
                            client.vars.take(unsaid);
                        }
                        place = None;
                    }
                    (None, _) => (),
                }
                let value = std::str::from_utf8(value).unwrap_or_default();
                server.note_standby(name, value);
                server.note_told(name, value);
                // In a lane it is nobody's doing: the server's configuration has changed.
                let shared = matches!(server.state, State::Lane);
                let kept = self.servers.get(key.0).is_some_and(|server| self.is_of_the_server(server, name));
                let Some(server) = self.servers.get_mut(key.0) else { return Ok(()) };
                // What an error undoes is the client's, even where a statement of ours at the end of its unit met it.
                let failed = server.failed;
                let ours = ours && !failed;
                if let (false, Some(client)) =
                    (ours || shared || kept, server.client().and_then(|client| self.clients.get_mut(client.0)))
                {
                    // What is reset gets the value that the client started with, and it hears of that.
                    let started = match place {
                        Some(place) => client.startup.0.get(place).is_some(),
                        None => client.startup.1.get(name).is_some(),
                    };
                    if started && !failed && client.pending.resets(name) {
                        return Ok(());
                    }
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
                self.doom(key, "broken protocol: a login message after the login");
                return Ok(());
            }
            tag::DATA_ROW
                if matches!(self.servers.get(key.0).and_then(|s| s.requests.front()), Some(Request::Clean)) =>
            {
                if let (Some(server), [Some(made), Some(known)]) =
                    (self.servers.get_mut(key.0), &*backend::data_row(body)?)
                {
                    server.lost_count = *made != b"0" || *known != server.known.len().to_string().as_bytes();
                }
                return Ok(());
            }
            tag::DATA_ROW
                if matches!(self.servers.get(key.0).and_then(|s| s.requests.front()), Some(Request::Lookup)) =>
            {
                self.lookup_row(key, &backend::data_row(body)?);
                return Ok(());
            }
            _ => (),
        }
        if self.is_astray(key, tag) || tag == tag::NOTIFICATION_RESPONSE && self.is_told_otherwise(key, body) {
            return Ok(());
        }
        let lane = self.servers.get(key.0).is_some_and(|server| matches!(server.state, State::Lane));
        if tag == tag::COMMAND_COMPLETE && !lane {
            self.leaves(key, End::Command(backend::command_complete(body)?));
        }
        if tag == tag::PORTAL_SUSPENDED && !lane {
            self.leaves(key, End::Suspended);
        }
        if tag == tag::COPY_IN_RESPONSE
            && let Some((server, client)) = self.answered_pair(key)
        {
            // The server ignores the Syncs that it finds in the stream of a COPY, which ends where its client ended it.
            let end = server.requests.iter().position(|request| matches!(request, Request::CopyEnd));
            server.copying = end.is_none();
            let mut at = 0;
            server.requests.retain(|request| {
                at += 1;
                !matches!(request, Request::Sync) || end.is_some_and(|end| at > end)
            });
            // The unit goes on, unless the client has ended it behind the COPY; what it has begun since goes on too.
            let extended = matches!(server.requests.front(), Some(Request::Execute(_)));
            client.unsynced |= extended && !server.requests.iter().any(|request| matches!(request, Request::Sync));
            // What has been waiting for the end of the unit may be of the unit.
            self.look_again(key);
        }
        let hidden = ours
            || matches!(
                (tag, self.servers.get(key.0).and_then(|server| server.requests.front())),
                (tag::PARSE_COMPLETE, Some(Request::Parse { hidden: true, .. }))
                    | (tag::CLOSE_COMPLETE, Some(Request::Evict(..)))
            );
        if !hidden && let Some(server) = self.servers.get_mut(key.0) {
            let client = server.client().and_then(|client| self.clients.get_mut(client.0));
            if let Some(out) = sink(server, client) {
                out.extend_from_slice(message);
            }
        }
        let taken = self.servers.get(key.0).and_then(|server| server.requests.front());
        if tag == tag::PARSE_COMPLETE && matches!(taken, Some(Request::Parse { taken: Some(_), .. })) {
            // It should have refused a name that it knows: what it knows is not what was thought, and others' statements
            // may have another text there now.
            self.doom(key, "the server has lost prepared statements");
            return Ok(());
        }
        self.answered(key, tag);
        Ok(())
    }

    /// Whether a message of this type is for nobody.
    fn is_astray(&self, key: ServerKey, tag: u8) -> bool {
        let Some(server) = self.servers.get(key.0) else { return true };
        let lane = matches!(server.state, State::Lane);
        // Who listens has a connection to itself; what comes in a lane is for nobody, whose work may be under way.
        if lane && tag == tag::NOTIFICATION_RESPONSE {
            return true;
        }
        // Such as that the server goes down: nobody has work there, and no client is tied to the connection.
        stray(tag) && server.requests.is_empty() && (lane || self.may_be_given_back(key))
    }

    fn answered_pair(&mut self, key: ServerKey) -> Option<(&mut Server, &mut Client)> {
        let server = self.servers.get_mut(key.0)?;
        let client = self.clients.get_mut(server.client()?.0)?;
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
            let done = server.requests.pop_front();
            server.has_set |= done.as_ref().is_some_and(may_set);
            server.finished = 0;
            pop_copy_ends(server);
            if tag == tag::PARSE_COMPLETE
                && let Some(pool) = self.pools.get_mut(server.pool.0)
            {
                pool.totals.server_parses += 1;
            }
            let client = server.client().and_then(|client| self.clients.get_mut(client.0));
            emit_invented(server, client);
            if matches!(done, Some(Request::Execute(_))) {
                self.look_again(key);
            }
        }
    }

    /// Takes note of what the request at the head may have left in its session, now that it has run: to its end, to
    /// the last row that was asked for, or into an error, which undoes neither locks of the session nor what a function
    /// has prepared.
    fn leaves(&mut self, key: ServerKey, end: End<'_>) {
        let Some(server) = self.servers.get_mut(key.0) else { return };
        let verdict = match server.requests.front() {
            Some(Request::Query(verdict, _)) => verdict.clone(),
            Some(Request::Execute(Some(statement))) => statement.verdict(),
            Some(Request::Execute(None)) => None,
            _ => return,
        };
        let known = verdict.as_deref();
        let undone = matches!(end, End::Error) && known.is_some_and(|verdict| verdict.pins);
        let residue = if undone || known.is_none_or(|verdict| verdict.opaque) {
            Residue::Anything
        } else if known.is_some_and(|verdict| verdict.dirties) {
            Residue::Settings
        } else {
            Residue::Nothing
        };
        server.residue = server.residue.max(residue);
        server.retire |= known.is_some_and(|verdict| verdict.lasting);
        let Some(client) = server.client().and_then(|client| self.clients.get_mut(client.0)) else { return };
        client.unclear |= known.is_none_or(|verdict| verdict.opaque);
        let place = server.finished;
        match end {
            End::Command(text) => {
                server.finished += 1;
                self.command_complete(key, text, known, place);
            }
            End::Suspended => client.pins.finished(b"", known),
            // Cancelled while it empties temporary tables, it has dropped statements, and no error brings them back.
            End::Error if known.and_then(|verdict| verdict.kind_of(place)) == Some(&Kind::Discard(Discards::All)) => {
                server.known.doubt();
            }
            End::Error => (),
        }
    }

    /// What the command in this place of its text, which has finished with this tag, has done to the session.
    fn command_complete(&mut self, key: ServerKey, text: &[u8], verdict: Option<&Verdict>, place: usize) {
        let listener = self.servers.get(key.0).and_then(|server| server.lent);
        let kind = verdict.and_then(|verdict| verdict.kind_of(place));
        let heard = listener.is_some_and(|listener| self.is_heard(listener, text, kind));
        let Some(server) = self.servers.get_mut(key.0) else { return };
        let Some(client) = server.client().and_then(|client| self.clients.get_mut(client.0)) else { return };
        match client.pending.finished(text, kind) {
            Outcome::Noted => (),
            Outcome::Unknown => server.residue = server.residue.max(Residue::Settings),
            Outcome::Unread => {
                server.residue = server.residue.max(Residue::Settings);
                client.pins.hold();
            }
            Outcome::Discarded => {
                client.statements.clear();
                server.known.clear();
                server.residue = Residue::Nothing;
            }
        }
        if let Some(ears) = client.ears.as_mut().filter(|_| heard || text != b"LISTEN") {
            ears.finished(text, kind);
        }
        if heard {
            // It is undone before others get the connection.
            server.residue = server.residue.max(Residue::Anything);
        } else {
            client.pins.finished(text, verdict);
        }
        if verdict.is_none_or(|verdict| verdict.is_ddl) && client.creates_temporary() {
            client.pins.hold();
        }
        client.unclear |= matches!(text, b"SET" | b"RESET");
        if text == b"DEALLOCATE ALL" {
            client.statements.clear();
            server.known.clear();
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
        // Only a client's unit is told of its error.
        let of_unit = matches!(server.requests.front(), Some(Request::Restore { ends_unit: true }));
        server.failed = !ours || of_unit;
        server.skips = server.requests.front().is_some_and(|request| !request.ends_unit());
        server.copying = false;
        if ours {
            match server.requests.front() {
                Some(Request::Restore { ends_unit: true }) => {
                    if let Some((_, client)) = self.answered_pair(key) {
                        client.io.out().extend_from_slice(message);
                    }
                }
                // The client hears that its transaction has failed when it goes on.
                Some(Request::Prelude | Request::Restore { ends_unit: false }) => (),
                Some(Request::Align | Request::Lookup) => server.own_error = Some(report),
                _ => self.doom(key, &format!("cannot reset a server session: {}", report.message)),
            }
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
        self.leaves(key, End::Error);
        let Some(server) = self.servers.get_mut(key.0) else { return Ok(()) };
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
        let Some((server, client)) = self.answered_pair(key) else { return Ok(()) };
        match shown_name(&server.requests, client, &report.code) {
            Some((internal, shown)) => write_renamed(client.io.out(), message, &internal, &shown),
            None => client.io.out().extend_from_slice(message),
        }
        self.look_again(key);
        Ok(())
    }

    fn answer_ready(&mut self, key: ServerKey, message: &[u8], status: Status) -> Result<(), wire::Error> {
        let Some(server) = self.servers.get_mut(key.0) else { return Ok(()) };
        let mut client = server.client().and_then(|client| self.clients.get_mut(client.0));
        server.status = status;
        server.copying = false;
        (server.finished, server.has_set) = (0, false);
        let skips = std::mem::take(&mut server.skips);
        let mut unanswered = Vec::new();
        let ended = loop {
            match server.requests.pop_front() {
                Some(request) if request.ends_failed_unit(skips) => break request,
                // Only after an error are there requests without an answer.
                Some(request) => unanswered.push(request),
                None => {
                    self.doom(key, "broken protocol: ReadyForQuery that nothing asked for");
                    return Ok(());
                }
            }
        };
        undo(server, client.as_deref_mut(), unanswered.into_iter());
        pop_copy_ends(server);
        server.settle_definition();
        let failed = std::mem::take(&mut server.failed);
        match ended {
            Request::Prelude => (),
            Request::Restore { ends_unit: true } => self.unit_ended(key, Some(message), status, failed),
            Request::Restore { ends_unit: false } => {
                if let Some(client) = client
                    && std::mem::take(&mut client.behind_own)
                    && let Some(key) = server.client()
                {
                    self.give_turn(Turn::Client(key));
                }
            }
            Request::Align => self.aligned(key),
            Request::Clean if server.requests.is_empty() && std::mem::take(&mut server.lost_count) => {
                self.forget_prepared(key);
            }
            Request::Clean if server.requests.is_empty() => {
                if let Some(target) = server.aligning.take() {
                    (server.session.sets, server.session.read_only) = (target.sets, target.read_only);
                }
                self.later(After::Free(key));
            }
            Request::Clean => (),
            Request::Lookup => self.later(After::LookedUp(key)),
            _ if matches!(server.state, State::Lane) => self.lane_ready(key, message, status),
            Request::HiddenSync => self.unit_ended(key, None, status, failed),
            Request::Call => {
                // Its answer has no tag, and nobody knows what the function does.
                server.residue = Residue::Anything;
                self.unit_ended(key, Some(message), status, failed);
            }
            _ => self.unit_ended(key, Some(message), status, failed),
        }
        Ok(())
    }

    /// A client's unit has ended on the connection that it has: `ready` is what tells the client so.
    fn unit_ended(&mut self, key: ServerKey, ready: Option<&[u8]>, status: Status, failed: bool) {
        let now = self.now;
        let Some(server) = self.servers.get_mut(key.0) else { return };
        let blocks = self.pools.get(server.pool.0).is_none_or(|pool| pool.mode != PoolMode::Statement);
        if status != Status::Idle && !blocks {
            // Nothing more of what the server says is passed on.
            server.doomed = Some(NO_BLOCKS.to_owned());
            if let Some(client) = server.client() {
                self.later(After::Expel(client, NO_BLOCKS));
            }
            return;
        }
        let Some(client) = server.client().and_then(|client| self.clients.get_mut(client.0)) else { return };
        let restore = if status == Status::Transaction { restored(client, &self.tracked) } else { String::new() };
        if !restore.is_empty() {
            // The client is told of the end when this has ended, unless what it said behind has been sent already.
            let ends_unit = ready.is_some() && server.requests.is_empty();
            wire::frontend::write_query(server.io.out(), &restore);
            server.requests.push_back(Request::Restore { ends_unit });
            server.unnamed = None;
            if ends_unit {
                return;
            }
        }
        if status == Status::Idle {
            // What an error has ended, the server has undone.
            if failed {
                client.pending.drop_all();
                client.pins.rolled_back();
            } else {
                client.pending.keep();
            }
            if !client.pending.is_empty() {
                believe(server, client, &self.tracked);
            }
            client.pins.committed();
            Self::ears_settle(client, failed, server.requests.is_empty());
            // A Bind of the next unit may be on its way already, and its Execute not.
            if server.requests.is_empty() || client.portals.len() > MOST_PORTALS {
                client.portals.clear();
            }
            client.unclear = false;
        }
        // A unit that ends within a transaction may have committed another before.
        self.note_commit(key);
        let Some(server) = self.servers.get_mut(key.0) else { return };
        let Some(client) = server.client().and_then(|client| self.clients.get_mut(client.0)) else { return };
        match ready {
            Some(message) => {
                if status == Status::Idle {
                    client.take_news();
                }
                client.io.out().extend_from_slice(message);
            }
            // The client has not ended its unit: what it sends up to there is void.
            None if failed => client.discard = Discard::Unit,
            None => (),
        }
        emit_invented(server, Some(client));
        let behind_own = std::mem::take(&mut client.behind_own).then_some(server.client()).flatten();
        if let Some(pool) = self.pools.get_mut(server.pool.0) {
            pool.totals.queries += 1;
            client.deeds.queries += 1;
            let span = now.saturating_duration_since(client.request_since);
            pool.totals.query_time += span;
            pool.stats.queried(server.place, span);
            if status == Status::Idle {
                pool.totals.transactions += 1;
                client.deeds.transactions += 1;
                let since = client.transaction_since.unwrap_or(client.request_since);
                pool.totals.transaction_time += now.saturating_duration_since(since);
            }
        }
        client.request_since = now;
        server.state_since = now;
        if status == Status::Idle {
            client.transaction_since = None;
            client.attempts = 0;
        }
        if let Some(client) = behind_own {
            self.give_turn(Turn::Client(client));
        }
        self.later(After::Free(key));
    }
}

/// How far a statement has run.
#[derive(Clone, Copy)]
enum End<'a> {
    /// To its end, which has this tag.
    Command(&'a [u8]),
    /// To the last row that was asked for.
    Suspended,
    /// Into an error.
    Error,
}

/// Believes what transactions that have committed have changed in their session.
fn believe(server: &mut Server, client: &mut Client, tracked: &Tracked) {
    // What the client asked for at startup is what a reset leads back to; the server follows before the next unit.
    for (place, name) in tracked.names().enumerate() {
        if let Some(value) = client.startup.0.get(place).filter(|_| client.pending.resets(name))
            && client.vars.get(place) != Some(value)
        {
            backend::write_parameter_status(client.io.out(), name, value);
            client.vars.set(place, value);
        }
    }
    for change in client.pending.take() {
        server.session.sets.apply_unless(&change, &Sets::default(), tracked);
        // Where the pooler has made transactions read-only for a write too, its client may have undone that.
        server.session.read_only &= change.name().is_some_and(|name| name != OWN);
        client.sets.apply_unless(&change, &client.startup.1, tracked);
        // Gone with a reset is also what the configuration has set for everybody.
        if !server.session.base.is_empty() && !matches!(change, Change::Set { .. }) {
            server.residue = server.residue.max(Residue::Settings);
        }
    }
}

/// What sets the parameters that a client has reset in its transaction to the values that it started with; the client
/// is told of them.
fn restored(client: &mut Client, tracked: &Tracked) -> String {
    if client.pending.is_empty() {
        return String::new();
    }
    let mut statements = Vec::new();
    for (place, name) in tracked.names().enumerate() {
        let Some(value) = client.startup.0.get(place).filter(|_| client.pending.resets(name)) else { continue };
        statements.push((name.to_owned(), format!("SET {name}={}", assigned(name, value))));
        if client.vars.get(place) != Some(value) {
            backend::write_parameter_status(client.io.out(), name, value);
            client.vars.set(place, value);
        }
    }
    let sets = client.startup.1.iter().filter(|(name, _)| client.pending.resets(name));
    statements.extend(sets.map(|(name, statement)| (name.to_owned(), statement.to_owned())));
    let mut sql = String::new();
    let encoding = tracked.place("client_encoding").and_then(|place| client.vars.get(place));
    let plain = encoding.is_some_and(classify::lexable_encoding);
    for (name, statement) in statements {
        // Within a transaction the encoding is the client's own, which may take what is beyond ASCII for something else.
        if !plain && !statement.is_ascii() {
            continue;
        }
        let _ = write!(sql, "{statement};");
        if let Some(local) = client.pending.local(&name) {
            let _ = write!(sql, "{local};");
        }
        client.pending.restore(name, statement);
    }
    sql
}

/// Ends of COPYs that no request stands before any more: the server has ignored them.
fn pop_copy_ends(server: &mut Server) {
    while matches!(server.requests.front(), Some(Request::CopyEnd)) {
        server.requests.pop_front();
    }
}

/// What an error shows of a statement's name on the server, and what its client is shown instead.
pub fn shown_name(requests: &VecDeque<Request>, client: &Client, code: &str) -> Option<(Vec<u8>, Box<[u8]>)> {
    let statement = match (code, requests.front()?) {
        // That a Bind does not fit its statement is a violation of the protocol.
        ("26000" | "08P01", Request::Bind(Some(statement)) | Request::Describe(Some(statement))) => statement,
        ("26000", Request::Bind(None) | Request::Describe(None)) => {
            let internal = [b"prepared statement \"", NO_UNNAMED, b"\""].concat();
            return Some((internal, b"unnamed prepared statement".as_slice().into()));
        }
        ("42P05", Request::Parse { name: Some(name), taken: Some(statement), .. }) => {
            return Some((statement.name(), name.clone()));
        }
        _ => return None,
    };
    // A Close behind it in its unit has taken the name from the client already.
    let closed = requests.iter().filter_map(|request| match request {
        Request::Invented { name: Some(name), closed: Some(closed), .. } => Some((name, closed)),
        _ => None,
    });
    let named = client.statements.iter().chain(closed).find(|(_, known)| Rc::ptr_eq(known, statement));
    let name = named.map(|(name, _)| name.clone());
    // One that servers keep without a name has none for its client either.
    (name.is_some() || statement.is_shared()).then(|| (statement.name(), name.unwrap_or_default()))
}

/// What is bound on the server for a client that has no unnamed statement: the server may have another client's, so it
/// must not be asked for that.
pub const NO_UNNAMED: &[u8] = b"howdah has no unnamed statement";

/// Appends a message in which one name stands for another.
pub fn write_renamed(out: &mut Vec<u8>, message: &[u8], internal: &[u8], shown: &[u8]) {
    let body = message.get(HEADER..).unwrap_or_default();
    let Some(at) = memchr::memmem::find(body, internal) else {
        out.extend_from_slice(message);
        return;
    };
    let (before, after) = (body.get(..at).unwrap_or_default(), body.get(at + internal.len()..).unwrap_or_default());
    wire::frame::write(out, tag::ERROR_RESPONSE, |out| {
        out.extend_from_slice(before);
        out.extend_from_slice(shown);
        out.extend_from_slice(after);
    });
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

/// Whether a message can come without having been asked for.
fn stray(tag: u8) -> bool {
    matches!(tag, tag::NOTIFICATION_RESPONSE | tag::NOTICE_RESPONSE)
}

/// Forgets what requests would have done, had an error not come first: the last of them first, since each has begun with
/// what those before it had done. The first is the one that has failed; the others were skipped. What units behind them have
/// made of the client's statement without a name stays.
pub fn undo(
    server: &mut Server,
    mut client: Option<&mut Client>,
    requests: impl DoubleEndedIterator<Item = Request> + ExactSizeIterator,
) {
    let replaced = match server.state {
        State::Lane => client.as_ref().is_some_and(|client| client.lane.is_some_and(|(_, units)| units > 1)),
        _ => server.requests.iter().any(Request::is_about_unnamed),
    };
    for (place, request) in requests.enumerate().rev() {
        let skipped = place > 0;
        undo_one(server, client.as_deref_mut(), request, skipped, replaced);
    }
}

fn undo_one(server: &mut Server, mut client: Option<&mut Client>, request: Request, skipped: bool, replaced: bool) {
    match request {
        Request::Parse { statement, name, unnamed, hidden, before, .. } => {
            if let Some(statement) = &statement {
                if unnamed {
                    server.unnamed = None;
                } else {
                    server.known.remove(statement);
                }
            }
            if let Some(client) = client.as_deref_mut().filter(|_| name.is_none() && !hidden)
                && client
                    .unnamed
                    .as_ref()
                    .zip(statement.as_ref())
                    .is_some_and(|(theirs, ours)| Rc::ptr_eq(theirs, ours))
            {
                // As in PostgreSQL, one that fails has ended the one before it too.
                client.unnamed = before.filter(|_| skipped);
            }
            if let (Some(client), Some(name)) = (client, name) {
                let theirs = client.statements.get(&name);
                if theirs.zip(statement.as_ref()).is_some_and(|(theirs, ours)| Rc::ptr_eq(theirs, ours)) {
                    client.statements.remove(&name);
                }
            }
        }
        Request::Query(_, unnamed) if skipped => {
            if let Some(client) = client.filter(|_| !replaced) {
                client.unnamed = unnamed;
            }
        }
        // It was not closed after all.
        Request::Evict(statement, generation) => server.known.restore(&statement, generation),
        Request::Invented { name: None, closed, .. } => {
            if let Some(client) = client.filter(|_| !replaced) {
                client.unnamed = closed;
            }
        }
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
