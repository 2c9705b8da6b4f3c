//! The messages of clients, passed on to their servers.

use std::time::Duration;

use crate::model::client::Discard;
use crate::model::exchange::Copying;
use crate::model::keys::ClientKey;
use crate::model::turn::{After, Step, Turn};
use wire::backend;
use wire::frame::HEADER;
use wire::frontend::{self, tag};
use wire::{Header, header};

use crate::backend::subscriber;
use crate::error::Error;
use crate::frontend::messages::{self, pass_on};
use crate::frontend::{copies, deallocate, order, shapes, shards};
use crate::pipeline::send;
use crate::pools::{checkout, free, leave};
use crate::router::route;
use crate::state::client::Client;
use crate::state::server::Server;
use crate::state::transfer::Bound;
use crate::state::{Core, served, sockets};

/// The size up to which a Query is looked at before it is passed on; of a longer one only the beginning is.
const LOOKED_AT: usize = 65_536;

/// The most Syncs that the pooler keeps behind a line of a COPY.
const SYNCS_OF_LINES: usize = 1000;

/// The longest name of a statement or portal.
const NAME: usize = 4096;

/// Works on the input of a client that has been greeted. If its `turn` in a pipelined connection has come, that is the time
/// that it has waited.
pub fn ready_input(core: &mut Core, key: ClientKey, left: &[u8], turn: Option<Duration>) -> Step {
    next_message(core, key, left, turn).unwrap_or_else(|error| {
        leave::fatal(core, key, &error);
        Step::Took(left.len())
    })
}

/// Works on the message at the front of a client's input.
fn next_message(core: &mut Core, key: ClientKey, left: &[u8], turn: Option<Duration>) -> Result<Step, Error> {
    let Some((client, mut server)) = served(&mut core.clients, &mut core.servers, key) else {
        return Ok(Step::Took(left.len()));
    };
    // The rest of a long message is thrown away, or passed on.
    if client.input.dropping > 0 {
        let count = client.input.dropping.min(left.len());
        client.input.dropping -= count;
        return Ok(Step::Took(count));
    }
    if client.input.passing > 0 {
        let step = pass_on(client, server, left);
        if client.input.passing == 0 {
            message_ended(core, key);
        }
        return Ok(step);
    }
    // The session of the client is being brought in line, or an answer is awaited that decides about its next message.
    if server.as_ref().is_some_and(|server| server.is_aligning() || client.checkout.behind_own) {
        return Ok(Step::Stop);
    }
    let Some(head) = header(left)? else { return Ok(Step::More) };
    if let Some(server) = server.as_deref_mut() {
        if is_skipped(server, head) {
            client.input.dropping = head.body;
            return Ok(Step::Took(HEADER));
        }
        if let Some(step) = within_copy(server, head)? {
            return Ok(step);
        }
    }
    let of_session = !is_of_copy(head.tag) && head.tag != tag::TERMINATE;
    if client.moves_to == Some(Bound::Pool) && of_session && client.may_change_pool() {
        core.schedule.give_turn(Turn::Client(key));
        return Ok(Step::Stop);
    }
    if let Some(server) = server.as_deref_mut() {
        let next = order::next(client, head.tag, left.get(HEADER..).unwrap_or_default());
        if order::awaits_answer(client, server, &core.pools, &core.router, next) {
            return Ok(Step::Stop);
        }
    }
    if client.prepared.renamed
        && let Some(sql) = deallocate::may_free(client, server.as_deref(), head, left)
        && let Some(step) = deallocate::frees_statement(core, key, sql, head)
    {
        return Ok(step);
    }
    if head.tag == tag::TERMINATE {
        return Ok(terminate(core, key, left));
    }
    if let Some(step) = finds_connection(core, key, head.tag, left, turn) {
        return Ok(step);
    }
    to_server(core, key, head, left)
}

/// Works on a message whose connection, if it needs one, is known.
fn to_server(core: &mut Core, key: ClientKey, head: Header, left: &[u8]) -> Result<Step, Error> {
    let Some((client, server)) = served(&mut core.clients, &mut core.servers, key) else {
        return Ok(Step::Took(left.len()));
    };
    if let Some(step) = needs_no_server(client, server.as_deref(), head)? {
        return Ok(step);
    }
    if let Some(step) = is_discarded(client, head, left) {
        return Ok(step);
    }
    if !is_there(head, left)? {
        return Ok(Step::More);
    }
    if matches!(head.tag, tag::QUERY | tag::EXECUTE) && subscriber::awaits_subscriber(core, key, head, left) {
        return Ok(Step::Stop);
    }
    if !checkout::acquire(core, key, false) {
        subscriber::waits(core, key);
        return Ok(Step::Stop);
    }
    let Some(mut pair) = core.pair(key) else { return Ok(Step::Took(head.total())) };
    if matches!(head.tag, tag::BIND | tag::DESCRIBE) && shapes::awaits_shape(&mut pair, head, left) {
        return Ok(Step::Stop);
    }
    Ok(Step::Took(messages::pass_message(&mut pair, head, left)?))
}

/// Notes that the last part of a long message has been passed on.
fn message_ended(core: &mut Core, key: ClientKey) {
    let words = core.clients.get_mut(key).and_then(|client| client.input.words.take());
    if let Some((words, mut pair)) = words.zip(core.pair(key)) {
        messages::long_query_ended(&mut pair, *words);
    }
    // The unit may have ended while its client was still within a message. What comes next is another unit, for which
    // the client has to ask for a connection again.
    let Some((client, Some(server))) = served(&mut core.clients, &mut core.servers, key) else { return };
    if free::may_be_given_back(server, Some(client), &core.pools) {
        client.checkout.behind_own = true;
        client.checkout.server().into_iter().for_each(|server| core.schedule.later(After::Free(server)));
    }
}

/// Whether the server would skip a message: behind an error it reads on to the Sync of the unit, which is still to come. So
/// nothing has to be undone of it, and a client that goes on behind an error takes no memory.
fn is_skipped(server: &Server, head: Header) -> bool {
    let may_be_skipped = matches!(
        head.tag,
        tag::QUERY | tag::FUNCTION_CALL | tag::PARSE | tag::BIND | tag::DESCRIBE | tag::EXECUTE | tag::CLOSE
    ) || is_of_copy(head.tag);
    may_be_skipped && server.exchange.skips_to_sync()
}

/// Keeps a Sync that comes within a COPY: a server ignores it there, and answers it behind the error that has ended the
/// COPY. Another message that is no part of a COPY ends it: a server would end the session.
fn within_copy(server: &mut Server, head: Header) -> Result<Option<Step>, Error> {
    let Copying::Open { syncs, .. } = &mut server.exchange.copying else { return Ok(None) };
    match head.tag {
        tag::SYNC if head.body == 0 && *syncs < SYNCS_OF_LINES => {
            *syncs += 1;
            return Ok(Some(Step::Took(HEADER)));
        }
        tag::SYNC => return Err(Error::MessageType(head.tag)),
        tag if is_of_copy(tag) || matches!(tag, tag::FLUSH | tag::TERMINATE) => (),
        _ => copies::fail_copy(server),
    }
    Ok(None)
}

/// Whether a message of this type is of the client's part of a COPY.
fn is_of_copy(tag: u8) -> bool {
    matches!(tag, tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL)
}

/// Chooses a server of the cluster for the unit at the front of a client's input, and sends it down a pipelined
/// connection if it may go there.
fn finds_connection(core: &mut Core, key: ClientKey, tag: u8, left: &[u8], turn: Option<Duration>) -> Option<Step> {
    let may_be_read = matches!(tag, tag::QUERY | tag::PARSE | tag::BIND | tag::DESCRIBE | tag::EXECUTE);
    let begins = may_be_read || matches!(tag, tag::CLOSE | tag::FUNCTION_CALL);
    let mut front = None;
    // A client whose turn has come has its server, unless its rows have moved since.
    let turn = turn.filter(|_| shards::is_still_there(core, key));
    if begins
        && turn.is_none()
        && let Some(step) = shards::find_shard(core, key, tag, left)
    {
        return Some(step);
    }
    if begins && turn.is_none() {
        match route::find_server(core, key, tag, left) {
            Ok(read) => front = read,
            Err(step) => return Some(step),
        }
    }
    let client = core.clients.get(key)?;
    let pipelines = may_be_read && !client.checkout.needs_own || client.checkout.pipelined().is_some();
    if pipelines { send::pipeline(core, key, left, front, turn) } else { None }
}

/// Closes a client that leaves.
fn terminate(core: &mut Core, key: ClientKey, left: &[u8]) -> Step {
    // Messages that were sent before are the server's to run, though no client waits for the answer.
    if let Some(server) = core.clients.get(key).and_then(|client| client.checkout.server()) {
        sockets::flush_server(core, server);
    }
    leave::close_client(core, key, "client close request");
    Step::Took(left.len())
}

/// Answers messages that need no server.
fn needs_no_server(client: &mut Client, server: Option<&Server>, head: Header) -> Result<Option<Step>, Error> {
    let copies = server.is_some_and(|server| server.exchange.copying.is_open());
    match head.tag {
        tag::QUERY | tag::PARSE | tag::BIND | tag::DESCRIBE | tag::EXECUTE | tag::CLOSE | tag::FUNCTION_CALL => {
            Ok(None)
        }
        // A server would answer with an error and wait for a Sync, though nothing was asked; or close the connection.
        tag::FLUSH | tag::SYNC if head.body > 0 => {
            let length = i64::try_from(head.total() - 1).unwrap_or(i64::MAX);
            Err(wire::Error::Length { tag: head.tag, length }.into())
        }
        // A Sync on its own needs no server, and neither do messages of a COPY that has ended.
        tag::SYNC if server.is_none() && client.input.discard == Discard::No => {
            client.input.unsynced = false;
            backend::write_ready_for_query(client.io.out(), client.route.status());
            Ok(Some(Step::Took(HEADER)))
        }
        tag if tag == tag::FLUSH && server.is_none() || is_of_copy(tag) && !copies => {
            client.input.dropping = head.body;
            Ok(Some(Step::Took(HEADER)))
        }
        tag::SYNC | tag::FLUSH | tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL => Ok(None),
        other => Err(Error::MessageType(other)),
    }
}

/// Throws messages of a refused unit away.
fn is_discarded(client: &mut Client, head: Header, left: &[u8]) -> Option<Step> {
    if client.input.discard == Discard::No {
        return None;
    }
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
        backend::write_ready_for_query(client.io.out(), client.route.status());
    }
    Some(Step::Took(HEADER))
}

/// Whether the part of a message has come that must be seen before it is passed on: all of it, or its names.
fn is_there(head: Header, left: &[u8]) -> Result<bool, Error> {
    let come = left.get(HEADER..head.total()).or_else(|| left.get(HEADER..)).unwrap_or_default();
    let is_whole = left.len() >= head.total();
    let wanted = match head.tag {
        tag::QUERY => head.body.min(LOOKED_AT),
        tag::PARSE | tag::SYNC | tag::FLUSH => head.body,
        tag::DESCRIBE | tag::CLOSE | tag::EXECUTE if head.body > NAME => return Err(Error::LongStatementName),
        tag::DESCRIBE | tag::CLOSE | tag::EXECUTE => head.body,
        tag::FUNCTION_CALL => head.body.min(4),
        tag::BIND if frontend::bind(come).is_none() => {
            return if !is_whole && come.len() <= 2 * NAME { Ok(false) } else { Err(Error::MalformedBind) };
        }
        _ => 0,
    };
    Ok(left.len() >= HEADER + wanted)
}
