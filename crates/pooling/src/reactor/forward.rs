//! The messages of clients, passed on to their servers.

use std::time::Duration;

use crate::model::client::Discard;
use crate::model::exchange::Copying;
use crate::model::keys::ClientKey;
use crate::model::turn::{After, Step};
use wire::backend::{self, Status};
use wire::frame::HEADER;
use wire::frontend::{self, tag};
use wire::{Header, header};

use crate::backend::hub;
use crate::error::Error;
use crate::frontend::messages::{self, pass_on};
use crate::frontend::{copies, deallocate, order, shapes};
use crate::pipeline::send;
use crate::pools::{checkout, free, leave};
use crate::router::route;
use crate::router::unit::Front;
use crate::state::{Core, sockets, turns};

/// The size up to which a Query is looked at before it is passed on; of a longer one only the beginning is.
const LOOKED_AT: usize = 65_536;

/// The most Syncs that the pooler keeps behind a line of a COPY.
const SYNCS_OF_LINES: usize = 1000;

/// The longest name of a statement or portal.
const NAME: usize = 4096;

/// Works on the input of a client that has been greeted. If its `turn` in a pipelined connection has come, that is the time
/// that it has waited.
pub fn ready_input(core: &mut Core, key: ClientKey, left: &[u8], turn: Option<Duration>) -> Step {
    if let Some(step) = rest_of_message(core, key, left).or_else(|| behind_own_errand(core, key)) {
        return step;
    }
    let head = match header(left) {
        Ok(Some(head)) => head,
        Ok(None) => return Step::More,
        Err(error) => {
            leave::fatal(core, key, &error.into());
            return Step::Took(left.len());
        }
    };
    if let Some(step) = is_skipped(core, key, head)
        .or_else(|| within_copy(core, key, head))
        .or_else(|| order::awaits_answer(core, key, head.tag, left))
        .or_else(|| deallocate::frees_statement(core, key, head, left))
    {
        return step;
    }
    let step = finds_connection(core, key, head.tag, left, turn)
        .or_else(|| needs_no_server(core, key, head, left))
        .or_else(|| is_discarded(core, key, head, left))
        .or_else(|| is_not_there_yet(core, key, head, left));
    if let Some(step) = step {
        return step;
    }
    if matches!(head.tag, tag::QUERY | tag::EXECUTE) && hub::awaits_hub(core, key, head, left) {
        return Step::Stop;
    }
    if !checkout::acquire(core, key, false) {
        hub::waits(core, key);
        return Step::Stop;
    }
    if head.tag == tag::BIND && shapes::awaits_shape(core, key, left) {
        return Step::Stop;
    }
    match messages::pass_message(core, key, head, left) {
        Ok(count) => Step::Took(count),
        Err(error) => {
            leave::fatal(core, key, &error.into());
            Step::Took(left.len())
        }
    }
}

/// Throws the rest of a long message away, or passes it on.
fn rest_of_message(core: &mut Core, key: ClientKey, left: &[u8]) -> Option<Step> {
    let Some(client) = core.clients.get_mut(key.0) else { return Some(Step::Took(left.len())) };
    if client.input.dropping > 0 {
        let count = client.input.dropping.min(left.len());
        client.input.dropping -= count;
        return Some(Step::Took(count));
    }
    if client.input.passing == 0 {
        return None;
    }
    let server_key = client.checkout.server();
    let step = pass_on(client, server_key.and_then(|server| core.servers.get_mut(server.0)), left);
    if client.input.passing == 0 {
        messages::long_query_ended(core, key);
        // The unit may have ended while its client was still within a message. What comes next is another unit, for which
        // the client has to ask for a connection again.
        if let Some(server) = server_key.filter(|server| free::may_be_given_back(core, *server)) {
            let client = core.clients.get_mut(key.0)?;
            client.checkout.behind_own = true;
            turns::later(core, After::Free(server));
        }
    }
    Some(step)
}

/// Holds a client back while its session is brought in line, or an answer is awaited that decides about its next message.
fn behind_own_errand(core: &mut Core, key: ClientKey) -> Option<Step> {
    let client = core.clients.get(key.0)?;
    let server = core.servers.get(client.checkout.server()?.0)?;
    (server.is_aligning() || client.checkout.behind_own).then_some(Step::Stop)
}

/// Throws a message away that the server would skip: behind an error it reads on to the Sync of the unit, which is still
/// to come. So nothing has to be undone of it, and a client that goes on behind an error takes no memory.
fn is_skipped(core: &mut Core, key: ClientKey, head: Header) -> Option<Step> {
    let client = core.clients.get_mut(key.0)?;
    let exchange = &core.servers.get(client.checkout.server()?.0)?.exchange;
    let is_void = exchange.skips_to_sync();
    let may_be_skipped = matches!(
        head.tag,
        tag::QUERY | tag::FUNCTION_CALL | tag::PARSE | tag::BIND | tag::DESCRIBE | tag::EXECUTE | tag::CLOSE
    ) || is_of_copy(head.tag);
    if !is_void || !may_be_skipped {
        return None;
    }
    client.input.dropping = head.body;
    Some(Step::Took(HEADER))
}

/// Keeps a Sync that comes within a COPY: a server ignores it there, and answers it behind the error that has ended the
/// COPY. Another message that is no part of a COPY ends it: a server would end the session.
fn within_copy(core: &mut Core, key: ClientKey, head: Header) -> Option<Step> {
    let client = core.clients.get_mut(key.0)?;
    let server = core.servers.get_mut(client.checkout.server()?.0).filter(|server| !server.is_pipelined())?;
    let Copying::Open { syncs, .. } = &mut server.exchange.copying else { return None };
    match head.tag {
        tag::SYNC if head.body == 0 && *syncs < SYNCS_OF_LINES => {
            *syncs += 1;
            return Some(Step::Took(HEADER));
        }
        tag::SYNC => {
            leave::fatal(core, key, &Error::MessageType(head.tag));
            return Some(Step::Took(head.total()));
        }
        tag if is_of_copy(tag) || matches!(tag, tag::FLUSH | tag::TERMINATE) => (),
        _ => copies::fail_copy(server),
    }
    None
}

/// Whether a message of this type is of the client's part of a COPY.
fn is_of_copy(tag: u8) -> bool {
    matches!(tag, tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL)
}

/// Chooses a server of the cluster for the unit at the front of a client's input, and sends it down a pipelined
/// connection if it may go there.
fn finds_connection(core: &mut Core, key: ClientKey, tag: u8, left: &[u8], turn: Option<Duration>) -> Option<Step> {
    let client = core.clients.get(key.0)?;
    let may_be_read = matches!(tag, tag::QUERY | tag::PARSE | tag::BIND | tag::DESCRIBE | tag::EXECUTE);
    let begins = may_be_read || matches!(tag, tag::CLOSE | tag::FUNCTION_CALL);
    let mut front = None;
    // A client whose turn has come has its server.
    if let Some(home) = route::routes(core, client).filter(|_| begins && turn.is_none()) {
        let Some(read) = Front::read(core, key, home, left, true) else { return Some(Step::More) };
        if let Some(step) = route::find_server(core, key, tag, left, &read) {
            return Some(step);
        }
        front = Some(read);
    }
    let client = core.clients.get(key.0)?;
    let pipelines = may_be_read && !client.checkout.needs_own || client.checkout.pipelined().is_some();
    if pipelines && tag != tag::TERMINATE { send::pipeline(core, key, left, front, turn) } else { None }
}

/// Answers messages that end the connection, or that need no server.
fn needs_no_server(core: &mut Core, key: ClientKey, head: Header, left: &[u8]) -> Option<Step> {
    let Some(client) = core.clients.get_mut(key.0) else { return Some(Step::Took(left.len())) };
    let server = client.checkout.server().and_then(|server| core.servers.get(server.0));
    let (has_server, copies) = (server.is_some(), server.is_some_and(|server| server.exchange.copying.is_open()));
    match head.tag {
        tag::TERMINATE => {
            // Messages that were sent before are the server's to run, though no client waits for the answer.
            if let Some(server) = client.checkout.server() {
                sockets::flush_server(core, server);
            }
            leave::close_client(core, key, "client close request");
            Some(Step::Took(left.len()))
        }
        tag::QUERY | tag::PARSE | tag::BIND | tag::DESCRIBE | tag::EXECUTE | tag::CLOSE | tag::FUNCTION_CALL => None,
        // A server would answer with an error and wait for a Sync, though nothing was asked; or close the connection.
        tag::FLUSH | tag::SYNC if head.body > 0 => {
            let length = i64::try_from(head.total() - 1).unwrap_or(i64::MAX);
            leave::fatal(core, key, &wire::Error::Length { tag: head.tag, length }.into());
            Some(Step::Took(left.len()))
        }
        // A Sync on its own needs no server, and neither do messages of a COPY that has ended.
        tag::SYNC if !has_server && client.input.discard == Discard::No => {
            client.input.unsynced = false;
            backend::write_ready_for_query(client.io.out(), Status::Idle);
            Some(Step::Took(HEADER))
        }
        tag if tag == tag::FLUSH && !has_server || is_of_copy(tag) && !copies => {
            client.input.dropping = head.body;
            Some(Step::Took(HEADER))
        }
        tag::SYNC | tag::FLUSH | tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL => None,
        other => {
            leave::fatal(core, key, &Error::MessageType(other));
            Some(Step::Took(left.len()))
        }
    }
}

/// Throws messages of a refused unit away.
fn is_discarded(core: &mut Core, key: ClientKey, head: Header, left: &[u8]) -> Option<Step> {
    let client = core.clients.get_mut(key.0).filter(|client| client.input.discard != Discard::No)?;
    // The first byte shows whether a Parse is of the unnamed statement.
    if head.tag == tag::PARSE && head.body > 0 && left.len() <= HEADER {
        return Some(Step::More);
    }
    client.input.dropping = head.body;
    // As in PostgreSQL, a failed Parse or Query has ended the statement without a name before it, and one that is skipped
    // behind an error has not.
    let is_about_unnamed =
        head.tag == tag::QUERY || head.tag == tag::PARSE && left.get(HEADER).is_none_or(|first| *first == 0);
    if is_about_unnamed && client.input.discard == Discard::Unit {
        client.prepared.unnamed = None;
    }
    if matches!(head.tag, tag::PARSE | tag::BIND | tag::DESCRIBE | tag::EXECUTE | tag::CLOSE) {
        client.input.discard = Discard::ToSync;
    }
    let ends = match head.tag {
        tag::QUERY | tag::FUNCTION_CALL => client.input.discard == Discard::Unit,
        tag => tag == tag::SYNC,
    };
    if ends {
        client.input.discard = Discard::No;
        client.input.unsynced = false;
        backend::write_ready_for_query(client.io.out(), Status::Idle);
    }
    Some(Step::Took(HEADER))
}

/// Waits for the part of a message that must be seen before it is passed on: all of it, or its names.
fn is_not_there_yet(core: &mut Core, key: ClientKey, head: Header, left: &[u8]) -> Option<Step> {
    let come = left.get(HEADER..head.total()).or_else(|| left.get(HEADER..)).unwrap_or_default();
    let is_whole = left.len() >= head.total();
    let wanted = match head.tag {
        tag::QUERY => head.body.min(LOOKED_AT),
        tag::PARSE | tag::SYNC | tag::FLUSH => head.body,
        tag::DESCRIBE | tag::CLOSE | tag::EXECUTE if head.body > NAME => {
            leave::fatal(core, key, &Error::LongStatementName);
            return Some(Step::Took(left.len()));
        }
        tag::DESCRIBE | tag::CLOSE | tag::EXECUTE => head.body,
        tag::FUNCTION_CALL => head.body.min(4),
        tag::BIND if frontend::bind(come).is_none() => {
            if !is_whole && come.len() <= 2 * NAME {
                return Some(Step::More);
            }
            leave::fatal(core, key, &Error::MalformedBind);
            return Some(Step::Took(left.len()));
        }
        _ => 0,
    };
    (left.len() < HEADER + wanted).then_some(Step::More)
}
