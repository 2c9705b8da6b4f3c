//! The answers of servers, passed on to their clients.

use crate::model::exchange::{Copying, Passing, Ran};
use crate::model::keys::{PoolKey, ServerKey};
use crate::model::request::Request;
use crate::model::slots::Slots;
use crate::model::turn::Step;
use wire::backend::{self, tag};
use wire::frame::HEADER;
use wire::{Header, header};

use crate::backend::effects::{self, End};
use crate::backend::{errors, ready, subscriber_asks};
use crate::frontend::replies::{emit_invented, sink};
use crate::frontend::{lookup, order, shapes};
use crate::pools::counts::count_request;
use crate::pools::{free, settle, welcome};
use crate::state::client::Client;
use crate::state::pool::Pool;
use crate::state::server::{Residue, Server};
use crate::state::{Core, answering, turns};

/// The length of the longest message that must be seen whole.
const WHOLE: usize = 64 * 1024 * 1024;

/// The length of the longest message that is passed on whole: if the server dies within one, its client can still get
/// an error.
const HELD: usize = 16 * 1024;

/// Works on the messages of a server on a connection that is logged in.
pub fn answer_input(core: &mut Core, key: ServerKey, left: &[u8]) -> Step {
    let Some((server, client)) = answering(&mut core.servers, &mut core.clients, key) else {
        return Step::Took(left.len());
    };
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
    let ours = server.exchange.requests.front().is_some_and(Request::is_ours);
    server.exchange.answered |= !ours;
    let Some(message) = left.get(..head.total()) else {
        return begin_long(core, key, head, left, ours);
    };
    // Rows are most of the messages, and need nothing else.
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

/// Works on the beginning of a message. A long one that needs not be seen whole is passed on as it comes.
fn begin_long(core: &mut Core, key: ServerKey, head: Header, left: &[u8], ours: bool) -> Step {
    let Some(server) = core.servers.get_mut(key) else { return Step::Took(left.len()) };
    let streamed = matches!(
        head.tag,
        tag::DATA_ROW
            | tag::COPY_DATA
            | tag::FUNCTION_CALL_RESPONSE
            | tag::NOTIFICATION_RESPONSE
            | tag::NOTICE_RESPONSE
    ) && !matches!(server.exchange.requests.front(), Some(Request::Lookup));
    if !streamed && head.body > WHOLE {
        turns::doom(core, key, "a message of the server is too long");
        return Step::Took(left.len());
    }
    if !streamed || head.total() <= HELD {
        return Step::More;
    }
    answered(core, key, head.tag);
    let Some((server, client)) = answering(&mut core.servers, &mut core.clients, key) else {
        return Step::Took(left.len());
    };
    // The rest of the message may come when another client has the connection.
    let on = !ours && server.client().is_some() && !is_astray(server, client.as_deref(), &core.pools, head.tag);
    if let (true, Some(out)) = (on, sink(server, client)) {
        out.extend_from_slice(left);
    }
    server.exchange.passing = (head.total() - left.len(), Some(if on { Passing::On } else { Passing::Off }));
    Step::Took(left.len())
}

/// Works on a whole message; `ours` where it answers a statement of the pooler's own.
fn answer(
    core: &mut Core,
    key: ServerKey,
    tag: u8,
    message: &[u8],
    body: &[u8],
    ours: bool,
) -> Result<(), wire::Error> {
    match tag {
        tag::PARAMETER_STATUS => return parameter_status(core, key, message, body, ours),
        tag::ERROR_RESPONSE => return errors::answer_error(core, key, message, body, ours),
        tag::READY_FOR_QUERY => return ready::answer_ready(core, key, message, backend::ready_for_query(body)?),
        tag::AUTHENTICATION | tag::BACKEND_KEY_DATA => {
            turns::doom(core, key, "broken protocol: a login message after the login");
            return Ok(());
        }
        tag::DATA_ROW if ours => return row_of_ours(core, key, body),
        _ => (),
    }
    if matches!(tag, tag::PARAMETER_DESCRIPTION | tag::ROW_DESCRIPTION | tag::NO_DATA) {
        shapes::described(core, key, tag, body)?;
    }
    let Some((server, mut client)) = answering(&mut core.servers, &mut core.clients, key) else { return Ok(()) };
    if is_astray(server, client.as_deref(), &core.pools, tag)
        || tag == tag::NOTIFICATION_RESPONSE && subscriber_asks::is_told_otherwise(client.as_deref(), body)
    {
        return Ok(());
    }
    let end = match tag {
        tag::COMMAND_COMPLETE => Some(End::Command(backend::command_complete(body)?)),
        tag::PORTAL_SUSPENDED => Some(End::Suspended),
        tag::BIND_COMPLETE => Some(End::Bound),
        _ => None,
    };
    // For the counts by shape.
    match (tag, end) {
        (_, Some(End::Command(command))) if !ours => server.exchange.ran.end(command),
        (tag::PORTAL_SUSPENDED | tag::EMPTY_QUERY_RESPONSE, _) if !ours => server.exchange.ran.end(b""),
        _ => (),
    }
    if let Some(end) = end.filter(|_| !server.is_pipelined()) {
        effects::leaves(server, client.as_deref_mut(), &core.pipelines.subscribers, end);
    }
    if tag == tag::COPY_IN_RESPONSE {
        server.exchange.copying = Copying::Open { syncs: 0, early: true };
        order::look_again(server, client.as_deref_mut(), &mut core.schedule);
    }
    let asked = server.exchange.requests.front();
    // The server should have refused a name that it knows: its statements are not the expected ones, and other clients'
    // statements may have another text there now.
    let is_lost = tag == tag::PARSE_COMPLETE && matches!(asked, Some(Request::Parse { taken: Some(_), .. }));
    // A notification is its client's, whatever is asked for it meanwhile.
    let hidden = ours && tag != tag::NOTIFICATION_RESPONSE
        || matches!(
            (tag, asked),
            (tag::PARSE_COMPLETE, Some(Request::Parse { hidden: true, .. }))
                | (tag::CLOSE_COMPLETE, Some(Request::Evict(..)))
                | (tag::PARAMETER_DESCRIPTION | tag::ROW_DESCRIPTION | tag::NO_DATA, Some(Request::Check(_)))
        );
    if !hidden && let Some(out) = sink(server, client) {
        out.extend_from_slice(message);
    }
    if is_lost {
        turns::doom(core, key, "the server has lost prepared statements");
    } else {
        answered(core, key, tag);
    }
    Ok(())
}

/// Notes the value of a parameter that a server reports: its client has it from now on, unless the change is not the
/// client's.
fn parameter_status(
    core: &mut Core,
    key: ServerKey,
    message: &[u8],
    body: &[u8],
    ours: bool,
) -> Result<(), wire::Error> {
    let (name, value) = backend::parameter_status_bytes(body)?;
    let Some((server, client)) = answering(&mut core.servers, &mut core.clients, key) else { return Ok(()) };
    let mut place = core.parameters.tracked.place(name);
    match (place, std::str::from_utf8(value)) {
        (Some(place), Ok(value)) => server.known.session.vars.set(place, value),
        // The value cannot be sent again in this encoding: it lasts until the connection is given back.
        (Some(unsaid), Err(_)) => {
            server.known.session.vars.take(unsaid);
            server.known.residue = server.known.residue.max(Residue::Settings);
            if let Some(client) = client {
                client.session.vars.take(unsaid);
            }
            place = None;
        }
        (None, _) => (),
    }
    let value = std::str::from_utf8(value).unwrap_or_default();
    server.note_standby(name, value);
    server.note_told(name, value);
    // In a pipelined connection no client has changed it: the server's configuration has changed.
    let shared = server.is_pipelined();
    let kept = core.servers.get(key).is_some_and(|server| welcome::is_of_the_server(core, server, name));
    let Some((server, client)) = answering(&mut core.servers, &mut core.clients, key) else { return Ok(()) };
    // A change that an error undoes is the client's, even where a statement of the pooler's at the end of its unit met
    // the error.
    let failed = server.exchange.failed;
    let ours = ours && !failed;
    if let (false, Some(client)) = (ours || shared || kept, client) {
        // A parameter that is reset gets the value that the client started with, and the client gets a report of that.
        let started = match place {
            Some(place) => client.session.startup.0.get(place).is_some(),
            None => client.session.startup.1.get(name).is_some(),
        };
        if started && !failed && client.session.resets(name) {
            return Ok(());
        }
        if let Some(place) = place {
            client.session.vars.set(place, value);
        }
        client.io.out().extend_from_slice(message);
    }
    Ok(())
}

/// A row that answers a query of the pooler's own.
fn row_of_ours(core: &mut Core, key: ServerKey, body: &[u8]) -> Result<(), wire::Error> {
    let Some(server) = core.servers.get_mut(key) else { return Ok(()) };
    match server.exchange.requests.front() {
        Some(Request::Clean) => {
            if let [Some(made), Some(known)] = &*backend::data_row(body)? {
                let counted = server.known.statements.len().to_string();
                server.known.lost_count |= *made != b"0" || *known != counted.as_bytes();
            }
        }
        Some(Request::Settle) => settle::answered(core, key, &backend::data_row(body)?),
        Some(Request::Lookup) => lookup::lookup_row(core, key, &backend::data_row(body)?),
        Some(Request::Role) => server.known.was_standby = *backend::data_row(body)? == [Some(&b"t"[..])],
        _ => (),
    }
    Ok(())
}

/// Whether a message of this type is for no client.
fn is_astray(server: &Server, client: Option<&Client>, pools: &Slots<PoolKey, Pool>, tag: u8) -> bool {
    if !matches!(tag, tag::NOTIFICATION_RESPONSE | tag::NOTICE_RESPONSE) {
        return false;
    }
    let pipeline = server.is_pipelined();
    // A client that listens has a connection to itself; a notification in a pipelined connection is for no client,
    // though a unit may be under way.
    if pipeline && tag == tag::NOTIFICATION_RESPONSE {
        return true;
    }
    // For example, the server goes down: no request is under way there, and no client is tied to the connection.
    server.exchange.requests.is_empty() && (pipeline || free::may_be_given_back(server, client, pools))
}

/// Notes that the request at the head has been answered, if this type of message answers it.
fn answered(core: &mut Core, key: ServerKey, tag: u8) {
    let Some((server, mut client)) = answering(&mut core.servers, &mut core.clients, key) else { return };
    if !server.exchange.is_answered_by(tag) {
        return;
    }
    let was_full = server.exchange.requests.are_full();
    let done = server.exchange.requests.pop_front();
    if let (false, Some(done @ Request::Execute(_))) = (server.is_pipelined(), &done) {
        let ran = std::mem::replace(&mut server.exchange.ran, Ran { since: Some(core.now), ..Ran::default() });
        if let Some(client) = client.as_deref() {
            let pool = core.pools.get(server.pool);
            count_request(&mut core.lifecycle.shapes, pool, (server, client), done, (&ran, core.now));
        }
    }
    server.exchange.has_set |= done.as_ref().is_some_and(Request::may_set);
    server.exchange.head_is_done();
    if let Some(Request::Parse { statement: Some(statement), copy: copy @ 1.., .. }) = &done {
        server.known.statements.is_made(statement, *copy);
    }
    if tag == tag::PARSE_COMPLETE
        && let Some(pool) = core.pools.get_mut(server.pool)
    {
        pool.counts.totals.prepared.server_parses += 1;
    }
    emit_invented(server, client.as_deref_mut());
    let has_room = was_full && !server.exchange.requests.are_full();
    let is_last = server.exchange.requests.is_empty();
    if has_room || is_last || matches!(done, Some(Request::Execute(_) | Request::Check(_))) {
        order::look_again(server, client, &mut core.schedule);
    }
}
