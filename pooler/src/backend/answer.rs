//! What servers answer, passed on to their clients.

use classify::{Discard as Discards, Kind, Verdict};
use std::fmt::Write;
use wire::backend::{self, Status, tag};
use wire::frame::HEADER;
use wire::header;

use crate::backend::replies::{emit_invented, pop_copy_ends, shown_name, sink, undo, write_renamed};
use crate::backend::{align, aligned, hub_asks};
use crate::config::PoolMode;
use crate::frontend::{lookup, names};
use crate::pipeline::receive;
use crate::pools::{free, welcome};
use crate::reactor::turns;
use crate::router::fingerprints::may_set;
use crate::router::{freshness, route};
use crate::session::{Change, Outcome, Sets};
use crate::state::Core;
use crate::state::client::{Client, Discard};
use crate::state::cluster::SERIALIZABLE;
use crate::state::keys::ServerKey;
use crate::state::request::Request;
use crate::state::server::{Passing, Residue, Server, State};
use crate::state::turn::After;
use crate::state::turn::{Step, Turn};
use crate::vars::{OWN, Tracked, assigned};

/// More portals are not known beyond the units that they are of, however long a client pipelines.
pub const MOST_PORTALS: usize = 1000;

/// A message that must be seen whole is not longer than this.
pub const WHOLE: usize = 64 * 1024 * 1024;

/// One that is not longer is passed on whole: should the server die within it, its client can still be told so.
pub const HELD: usize = 16 * 1024;

/// In statement pooling a transaction ends with the unit in which it began.
pub const NO_BLOCKS: &str = "transaction blocks not allowed in statement pooling mode";

pub fn answer_input(core: &mut Core, key: ServerKey, left: &[u8]) -> Step {
    let Some(server) = core.servers.get_mut(key.0) else { return Step::Took(left.len()) };
    let client = server.client().and_then(|client| core.clients.get_mut(client.0));
    if server.exchange.passing.0 > 0 {
        let count = server.exchange.passing.0.min(left.len());
        server.exchange.passing.0 -= count;
        if let (Some(Passing::On), Some(out), Some(part)) =
            (server.exchange.passing.1, sink(server, client), left.get(..count))
        {
            out.extend_from_slice(part);
        }
        return Step::Took(count);
    }
    let head = match header(left) {
        Ok(Some(head)) => head,
        Ok(None) => return Step::More,
        Err(error) => {
            turns::doom(core, key, &format!("broken protocol: {error}"));
            return Step::Took(left.len());
        }
    };
    let ours = matches!(
        server.exchange.requests.front(),
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
    ) && !matches!(server.exchange.requests.front(), Some(Request::Lookup));
    let Some(message) = left.get(..head.total()) else {
        if !streamed && head.body > WHOLE {
            turns::doom(core, key, "a message of the server is too long");
            return Step::Took(left.len());
        }
        if !streamed || head.total() <= HELD {
            return Step::More;
        }
        answered(core, key, head.tag);
        // The rest of it may come when somebody else has the connection.
        let astray = is_astray(core, key, head.tag);
        let Some(server) = core.servers.get_mut(key.0) else { return Step::Took(left.len()) };
        let on = !ours && server.client().is_some() && !astray;
        let client = server.client().and_then(|client| core.clients.get_mut(client.0));
        if let (true, Some(out)) = (on, sink(server, client)) {
            out.extend_from_slice(left);
        }
        server.exchange.passing = (head.total() - left.len(), Some(if on { Passing::On } else { Passing::Off }));
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
    if let Err(error) = answer(core, key, head.tag, message, body, ours) {
        turns::doom(core, key, &format!("broken protocol: {error}"));
    }
    Step::Took(message.len())
}

fn answer(
    core: &mut Core,
    key: ServerKey,
    tag: u8,
    message: &[u8],
    body: &[u8],
    ours: bool,
) -> Result<(), wire::Error> {
    match tag {
        tag::PARAMETER_STATUS => {
            let (name, value) = backend::parameter_status_bytes(body)?;
            let Some(server) = core.servers.get_mut(key.0) else { return Ok(()) };
            let mut place = core.parameters.tracked.place(name);
            match (place, std::str::from_utf8(value)) {
                (Some(place), Ok(value)) => server.known.session.vars.set(place, value),
                // In an encoding in which it cannot be said again: it lasts until the connection is given back.
                (Some(unsaid), Err(_)) => {
                    server.known.session.vars.take(unsaid);
                    server.known.residue = server.known.residue.max(Residue::Settings);
                    if let Some(client) = server.client().and_then(|client| core.clients.get_mut(client.0)) {
                        client.session.vars.take(unsaid);
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
            let kept = core.servers.get(key.0).is_some_and(|server| welcome::is_of_the_server(core, server, name));
            let Some(server) = core.servers.get_mut(key.0) else { return Ok(()) };
            // What an error undoes is the client's, even where a statement of ours at the end of its unit met it.
            let failed = server.exchange.failed;
            let ours = ours && !failed;
            if let (false, Some(client)) =
                (ours || shared || kept, server.client().and_then(|client| core.clients.get_mut(client.0)))
            {
                // What is reset gets the value that the client started with, and it hears of that.
                let started = match place {
                    Some(place) => client.session.startup.0.get(place).is_some(),
                    None => client.session.startup.1.get(name).is_some(),
                };
                if started && !failed && client.session.pending.resets(name) {
                    return Ok(());
                }
                if let Some(place) = place {
                    client.session.vars.set(place, value);
                }
                client.io.out().extend_from_slice(message);
            }
            return Ok(());
        }
        tag::ERROR_RESPONSE => return answer_error(core, key, message, body, ours),
        tag::READY_FOR_QUERY => return answer_ready(core, key, message, backend::ready_for_query(body)?),
        tag::AUTHENTICATION | tag::BACKEND_KEY_DATA => {
            turns::doom(core, key, "broken protocol: a login message after the login");
            return Ok(());
        }
        tag::DATA_ROW
            if matches!(core.servers.get(key.0).and_then(|s| s.exchange.requests.front()), Some(Request::Clean)) =>
        {
            if let (Some(server), [Some(made), Some(known)]) = (core.servers.get_mut(key.0), &*backend::data_row(body)?)
            {
                server.known.lost_count =
                    *made != b"0" || *known != server.known.statements.len().to_string().as_bytes();
            }
            return Ok(());
        }
        tag::DATA_ROW
            if matches!(core.servers.get(key.0).and_then(|s| s.exchange.requests.front()), Some(Request::Lookup)) =>
        {
            lookup::lookup_row(core, key, &backend::data_row(body)?);
            return Ok(());
        }
        _ => (),
    }
    if is_astray(core, key, tag) || tag == tag::NOTIFICATION_RESPONSE && hub_asks::is_told_otherwise(core, key, body) {
        return Ok(());
    }
    let lane = core.servers.get(key.0).is_some_and(|server| matches!(server.state, State::Lane));
    if tag == tag::COMMAND_COMPLETE && !lane {
        leaves(core, key, End::Command(backend::command_complete(body)?));
    }
    if tag == tag::PORTAL_SUSPENDED && !lane {
        leaves(core, key, End::Suspended);
    }
    if tag == tag::COPY_IN_RESPONSE
        && let Some((server, client)) = answered_pair(core, key)
    {
        // The server ignores the Syncs that it finds in the stream of a COPY, which ends where its client ended it.
        let end = server.exchange.requests.iter().position(|request| matches!(request, Request::CopyEnd));
        server.exchange.copying = end.is_none();
        let mut at = 0;
        server.exchange.requests.retain(|request| {
            at += 1;
            !matches!(request, Request::Sync) || end.is_some_and(|end| at > end)
        });
        // The unit goes on, unless the client has ended it behind the COPY; what it has begun since goes on too.
        let extended = matches!(server.exchange.requests.front(), Some(Request::Execute(_)));
        client.input.unsynced |=
            extended && !server.exchange.requests.iter().any(|request| matches!(request, Request::Sync));
        // What has been waiting for the end of the unit may be of the unit.
        names::look_again(core, key);
    }
    let hidden = ours
        || matches!(
            (tag, core.servers.get(key.0).and_then(|server| server.exchange.requests.front())),
            (tag::PARSE_COMPLETE, Some(Request::Parse { hidden: true, .. }))
                | (tag::CLOSE_COMPLETE, Some(Request::Evict(..)))
        );
    if !hidden && let Some(server) = core.servers.get_mut(key.0) {
        let client = server.client().and_then(|client| core.clients.get_mut(client.0));
        if let Some(out) = sink(server, client) {
            out.extend_from_slice(message);
        }
    }
    let taken = core.servers.get(key.0).and_then(|server| server.exchange.requests.front());
    if tag == tag::PARSE_COMPLETE && matches!(taken, Some(Request::Parse { taken: Some(_), .. })) {
        // It should have refused a name that it knows: what it knows is not what was thought, and others' statements
        // may have another text there now.
        turns::doom(core, key, "the server has lost prepared statements");
        return Ok(());
    }
    answered(core, key, tag);
    Ok(())
}

/// Whether a message of this type is for nobody.
fn is_astray(core: &Core, key: ServerKey, tag: u8) -> bool {
    let Some(server) = core.servers.get(key.0) else { return true };
    let lane = matches!(server.state, State::Lane);
    // Who listens has a connection to itself; what comes in a lane is for nobody, whose work may be under way.
    if lane && tag == tag::NOTIFICATION_RESPONSE {
        return true;
    }
    // Such as that the server goes down: nobody has work there, and no client is tied to the connection.
    stray(tag) && server.exchange.requests.is_empty() && (lane || free::may_be_given_back(core, key))
}

fn answered_pair(core: &mut Core, key: ServerKey) -> Option<(&mut Server, &mut Client)> {
    let server = core.servers.get_mut(key.0)?;
    let client = core.clients.get_mut(server.client()?.0)?;
    Some((server, client))
}

/// Notes that the request at the head has been answered, if this type of message answers it.
fn answered(core: &mut Core, key: ServerKey, tag: u8) {
    let Some(server) = core.servers.get_mut(key.0) else { return };
    let done = matches!(
        (server.exchange.requests.front(), tag),
        (Some(Request::Parse { .. }), tag::PARSE_COMPLETE)
            | (Some(Request::Bind(_)), tag::BIND_COMPLETE)
            | (Some(Request::Close | Request::Evict(..)), tag::CLOSE_COMPLETE)
            | (Some(Request::Describe(_)), tag::ROW_DESCRIPTION | tag::NO_DATA)
            | (Some(Request::Execute(_)), tag::COMMAND_COMPLETE | tag::EMPTY_QUERY_RESPONSE | tag::PORTAL_SUSPENDED)
    );
    if done {
        let done = server.exchange.requests.pop_front();
        server.exchange.has_set |= done.as_ref().is_some_and(may_set);
        server.exchange.finished = 0;
        pop_copy_ends(server);
        if tag == tag::PARSE_COMPLETE
            && let Some(pool) = core.pools.get_mut(server.pool.0)
        {
            pool.counts.totals.server_parses += 1;
        }
        let client = server.client().and_then(|client| core.clients.get_mut(client.0));
        emit_invented(server, client);
        if matches!(done, Some(Request::Execute(_))) {
            names::look_again(core, key);
        }
    }
}

/// Takes note of what the request at the head may have left in its session, now that it has run: to its end, to
/// the last row that was asked for, or into an error, which undoes neither locks of the session nor what a function
/// has prepared.
fn leaves(core: &mut Core, key: ServerKey, end: End<'_>) {
    let Some(server) = core.servers.get_mut(key.0) else { return };
    let verdict = match server.exchange.requests.front() {
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
    server.known.residue = server.known.residue.max(residue);
    server.life.retire |= known.is_some_and(|verdict| verdict.lasting);
    let Some(client) = server.client().and_then(|client| core.clients.get_mut(client.0)) else { return };
    client.session.unclear |= known.is_none_or(|verdict| verdict.opaque);
    let place = server.exchange.finished;
    match end {
        End::Command(text) => {
            server.exchange.finished += 1;
            command_complete(core, key, text, known, place);
        }
        End::Suspended => client.session.pins.finished(b"", known),
        // Cancelled while it empties temporary tables, it has dropped statements, and no error brings them back.
        End::Error if known.and_then(|verdict| verdict.kind_of(place)) == Some(&Kind::Discard(Discards::All)) => {
            server.known.statements.doubt();
        }
        End::Error => (),
    }
}

/// What the command in this place of its text, which has finished with this tag, has done to the session.
fn command_complete(core: &mut Core, key: ServerKey, text: &[u8], verdict: Option<&Verdict>, place: usize) {
    let listener = core.servers.get(key.0).and_then(|server| server.lent);
    let kind = verdict.and_then(|verdict| verdict.kind_of(place));
    let heard = listener.is_some_and(|listener| hub_asks::is_heard(core, listener, text, kind));
    let Some(server) = core.servers.get_mut(key.0) else { return };
    let Some(client) = server.client().and_then(|client| core.clients.get_mut(client.0)) else { return };
    match client.session.pending.finished(text, kind) {
        Outcome::Noted => (),
        Outcome::Unknown => server.known.residue = server.known.residue.max(Residue::Settings),
        Outcome::Unread => {
            server.known.residue = server.known.residue.max(Residue::Settings);
            client.session.pins.hold();
        }
        Outcome::Discarded => {
            client.prepared.statements.clear();
            server.known.statements.clear();
            server.known.residue = Residue::Nothing;
        }
    }
    if let Some(ears) = client.ears.as_mut().filter(|_| heard || text != b"LISTEN") {
        ears.finished(text, kind);
    }
    if heard {
        // It is undone before others get the connection.
        server.known.residue = server.known.residue.max(Residue::Anything);
    } else {
        client.session.pins.finished(text, verdict);
    }
    if verdict.is_none_or(|verdict| verdict.is_ddl) && client.creates_temporary() {
        client.session.pins.hold();
    }
    client.session.unclear |= matches!(text, b"SET" | b"RESET");
    if text == b"DEALLOCATE ALL" {
        client.prepared.statements.clear();
        server.known.statements.clear();
    }
}

fn answer_error(core: &mut Core, key: ServerKey, message: &[u8], body: &[u8], ours: bool) -> Result<(), wire::Error> {
    let report = backend::report(body)?;
    let Some(server) = core.servers.get_mut(key.0) else { return Ok(()) };
    if matches!(report.severity.as_str(), "FATAL" | "PANIC") {
        // What the client is told depends on what it has under way; that is seen when the connection closes.
        server.life.farewell = Some((report.code, report.message));
        return Ok(());
    }
    // Only a client's unit is told of its error.
    let of_unit = matches!(server.exchange.requests.front(), Some(Request::Restore { ends_unit: true }));
    server.exchange.failed = !ours || of_unit;
    server.exchange.skips = server.exchange.requests.front().is_some_and(|request| !request.ends_unit());
    server.exchange.copying = false;
    if ours {
        match server.exchange.requests.front() {
            Some(Request::Restore { ends_unit: true }) => {
                if let Some((_, client)) = answered_pair(core, key) {
                    client.io.out().extend_from_slice(message);
                }
            }
            // The client hears that its transaction has failed when it goes on.
            Some(Request::Prelude | Request::Restore { ends_unit: false }) => (),
            Some(Request::Align | Request::Lookup) => server.exchange.own_error = Some(report),
            _ => turns::doom(core, key, &format!("cannot reset a server session: {}", report.message)),
        }
        return Ok(());
    }
    let pool = server.pool;
    if report.routine == SERIALIZABLE {
        route::is_serializable_by_default(core, pool);
    }
    let Some(server) = core.servers.get_mut(key.0) else { return Ok(()) };
    if matches!(server.state, State::Lane) {
        receive::lane_error(core, key, message, &report);
        return Ok(());
    }
    leaves(core, key, End::Error);
    let Some(server) = core.servers.get_mut(key.0) else { return Ok(()) };
    // What the server knows is not what was thought: whoever uses the statement next prepares it afresh.
    match (report.code.as_str(), server.exchange.requests.front()) {
        ("26000", Some(Request::Bind(Some(statement)) | Request::Describe(Some(statement)))) => {
            server.known.statements.remove(statement);
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
        ) = server.exchange.requests.front()
    {
        statement.generation.set(statement.generation.get() + 1);
    }
    let Some((server, client)) = answered_pair(core, key) else { return Ok(()) };
    match shown_name(&server.exchange.requests, client, &report.code) {
        Some((internal, shown)) => write_renamed(client.io.out(), message, &internal, &shown),
        None => client.io.out().extend_from_slice(message),
    }
    names::look_again(core, key);
    Ok(())
}

fn answer_ready(core: &mut Core, key: ServerKey, message: &[u8], status: Status) -> Result<(), wire::Error> {
    let Some(server) = core.servers.get_mut(key.0) else { return Ok(()) };
    let mut client = server.client().and_then(|client| core.clients.get_mut(client.0));
    server.status = status;
    server.exchange.copying = false;
    (server.exchange.finished, server.exchange.has_set) = (0, false);
    let skips = std::mem::take(&mut server.exchange.skips);
    let mut unanswered = Vec::new();
    let ended = loop {
        match server.exchange.requests.pop_front() {
            Some(request) if request.ends_failed_unit(skips) => break request,
            // Only after an error are there requests without an answer.
            Some(request) => unanswered.push(request),
            None => {
                turns::doom(core, key, "broken protocol: ReadyForQuery that nothing asked for");
                return Ok(());
            }
        }
    };
    undo(server, client.as_deref_mut(), unanswered.into_iter());
    pop_copy_ends(server);
    server.settle_definition();
    let failed = std::mem::take(&mut server.exchange.failed);
    match ended {
        Request::Prelude => (),
        Request::Restore { ends_unit: true } => unit_ended(core, key, Some(message), status, failed),
        Request::Restore { ends_unit: false } => {
            if let Some(client) = client
                && std::mem::take(&mut client.checkout.behind_own)
                && let Some(key) = server.client()
            {
                turns::give_turn(core, Turn::Client(key));
            }
        }
        Request::Align => aligned::aligned(core, key),
        Request::Clean if server.exchange.requests.is_empty() && std::mem::take(&mut server.known.lost_count) => {
            align::forget_prepared(core, key);
        }
        Request::Clean if server.exchange.requests.is_empty() => {
            if let Some(target) = server.known.aligning.take() {
                (server.known.session.sets, server.known.session.read_only) = (target.sets, target.read_only);
            }
            turns::later(core, After::Free(key));
        }
        Request::Clean => (),
        Request::Lookup => turns::later(core, After::LookedUp(key)),
        _ if matches!(server.state, State::Lane) => receive::lane_ready(core, key, message, status),
        Request::HiddenSync => unit_ended(core, key, None, status, failed),
        Request::Call => {
            // Its answer has no tag, and nobody knows what the function does.
            server.known.residue = Residue::Anything;
            unit_ended(core, key, Some(message), status, failed);
        }
        _ => unit_ended(core, key, Some(message), status, failed),
    }
    Ok(())
}

/// A client's unit has ended on the connection that it has: `ready` is what tells the client so.
fn unit_ended(core: &mut Core, key: ServerKey, ready: Option<&[u8]>, status: Status, failed: bool) {
    let now = core.now;
    let Some(server) = core.servers.get_mut(key.0) else { return };
    let blocks = core.pools.get(server.pool.0).is_none_or(|pool| pool.limits.mode != PoolMode::Statement);
    if status != Status::Idle && !blocks {
        // Nothing more of what the server says is passed on.
        server.life.doomed = Some(NO_BLOCKS.to_owned());
        if let Some(client) = server.client() {
            turns::later(core, After::Expel(client, NO_BLOCKS));
        }
        return;
    }
    let Some(client) = server.client().and_then(|client| core.clients.get_mut(client.0)) else { return };
    let restore =
        if status == Status::Transaction { restored(client, &core.parameters.tracked) } else { String::new() };
    if !restore.is_empty() {
        // The client is told of the end when this has ended, unless what it said behind has been sent already.
        let ends_unit = ready.is_some() && server.exchange.requests.is_empty();
        wire::frontend::write_query(server.io.out(), &restore);
        server.exchange.requests.push_back(Request::Restore { ends_unit });
        server.known.unnamed = None;
        if ends_unit {
            return;
        }
    }
    if status == Status::Idle {
        // What an error has ended, the server has undone.
        if failed {
            client.session.pending.drop_all();
            client.session.pins.rolled_back();
        } else {
            client.session.pending.keep();
        }
        if !client.session.pending.is_empty() {
            believe(server, client, &core.parameters.tracked);
        }
        client.session.pins.committed();
        hub_asks::ears_settle(client, failed, server.exchange.requests.is_empty());
        // A Bind of the next unit may be on its way already, and its Execute not.
        if server.exchange.requests.is_empty() || client.prepared.portals.len() > MOST_PORTALS {
            client.prepared.portals.clear();
        }
        client.session.unclear = false;
    }
    // A unit that ends within a transaction may have committed another before.
    freshness::note_commit(core, key);
    let Some(server) = core.servers.get_mut(key.0) else { return };
    let Some(client) = server.client().and_then(|client| core.clients.get_mut(client.0)) else { return };
    match ready {
        Some(message) => {
            if status == Status::Idle {
                client.take_news();
            }
            client.io.out().extend_from_slice(message);
        }
        // The client has not ended its unit: what it sends up to there is void.
        None if failed => client.input.discard = Discard::Unit,
        None => (),
    }
    emit_invented(server, Some(client));
    let behind_own = std::mem::take(&mut client.checkout.behind_own).then_some(server.client()).flatten();
    if let Some(pool) = core.pools.get_mut(server.pool.0) {
        pool.counts.totals.queries += 1;
        client.deeds.queries += 1;
        let span = now.saturating_duration_since(client.times.request_since);
        pool.counts.totals.query_time += span;
        pool.counts.stats.queried(server.at.place, span);
        if status == Status::Idle {
            pool.counts.totals.transactions += 1;
            client.deeds.transactions += 1;
            let since = client.times.transaction_since.unwrap_or(client.times.request_since);
            pool.counts.totals.transaction_time += now.saturating_duration_since(since);
        }
    }
    client.times.request_since = now;
    server.life.state_since = now;
    if status == Status::Idle {
        client.times.transaction_since = None;
        client.checkout.attempts = 0;
    }
    if let Some(client) = behind_own {
        turns::give_turn(core, Turn::Client(client));
    }
    turns::later(core, After::Free(key));
}

/// How far a statement has run.
#[derive(Clone, Copy)]
pub enum End<'a> {
    /// To its end, which has this tag.
    Command(&'a [u8]),
    /// To the last row that was asked for.
    Suspended,
    /// Into an error.
    Error,
}

/// Believes what transactions that have committed have changed in their session.
pub fn believe(server: &mut Server, client: &mut Client, tracked: &Tracked) {
    // What the client asked for at startup is what a reset leads back to; the server follows before the next unit.
    for (place, name) in tracked.names().enumerate() {
        if let Some(value) = client.session.startup.0.get(place).filter(|_| client.session.pending.resets(name))
            && client.session.vars.get(place) != Some(value)
        {
            backend::write_parameter_status(client.io.out(), name, value);
            client.session.vars.set(place, value);
        }
    }
    for change in client.session.pending.take() {
        server.known.session.sets.apply_unless(&change, &Sets::default(), tracked);
        // Where the pooler has made transactions read-only for a write too, its client may have undone that.
        server.known.session.read_only &= change.name().is_some_and(|name| name != OWN);
        client.session.sets.apply_unless(&change, &client.session.startup.1, tracked);
        // Gone with a reset is also what the configuration has set for everybody.
        if !server.known.session.base.is_empty() && !matches!(change, Change::Set { .. }) {
            server.known.residue = server.known.residue.max(Residue::Settings);
        }
    }
}

/// What sets the parameters that a client has reset in its transaction to the values that it started with; the client
/// is told of them.
pub fn restored(client: &mut Client, tracked: &Tracked) -> String {
    if client.session.pending.is_empty() {
        return String::new();
    }
    let mut statements = Vec::new();
    for (place, name) in tracked.names().enumerate() {
        let Some(value) = client.session.startup.0.get(place).filter(|_| client.session.pending.resets(name)) else {
            continue;
        };
        statements.push((name.to_owned(), format!("SET {name}={}", assigned(name, value))));
        if client.session.vars.get(place) != Some(value) {
            backend::write_parameter_status(client.io.out(), name, value);
            client.session.vars.set(place, value);
        }
    }
    let sets = client.session.startup.1.iter().filter(|(name, _)| client.session.pending.resets(name));
    statements.extend(sets.map(|(name, statement)| (name.to_owned(), statement.to_owned())));
    let mut sql = String::new();
    let encoding = tracked.place("client_encoding").and_then(|place| client.session.vars.get(place));
    let plain = encoding.is_some_and(classify::lexable_encoding);
    for (name, statement) in statements {
        // Within a transaction the encoding is the client's own, which may take what is beyond ASCII for something else.
        if !plain && !statement.is_ascii() {
            continue;
        }
        let _ = write!(sql, "{statement};");
        if let Some(local) = client.session.pending.local(&name) {
            let _ = write!(sql, "{local};");
        }
        client.session.pending.restore(name, statement);
    }
    sql
}

/// Whether a message can come without having been asked for.
pub fn stray(tag: u8) -> bool {
    matches!(tag, tag::NOTIFICATION_RESPONSE | tag::NOTICE_RESPONSE)
}
