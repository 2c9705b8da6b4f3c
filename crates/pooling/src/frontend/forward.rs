//! The messages of clients, passed on to their servers.

use crate::model::client::Discard;
use crate::model::exchange::{Copying, Exchange};
use crate::model::keys::ClientKey;
use crate::model::request::Request;
use crate::model::turn::{After, Step, Turn};
use wire::backend::{self, Status};
use wire::frame::HEADER;
use wire::frontend::{self, tag};
use wire::{Header, header};

use crate::backend::{copies, hub};
use crate::config::PoolMode;
use crate::error::Error;
use crate::frontend::messages::{self, pass_on};
use crate::frontend::{deallocate, leave, names, shapes};
use crate::pipeline::send;
use crate::pools::{checkout, free};
use crate::reactor::{moves, sockets, turns};
use crate::router::route;
use crate::state::Core;
use crate::state::traveller::Bound;

/// The size up to which a Query is looked at before it is passed on; of a longer one only the beginning is.
const LOOKED_AT: usize = 65_536;

/// The most Syncs that the pooler keeps behind a line of a COPY.
const SYNCS_OF_LINES: usize = 1000;

/// The longest name of a statement or portal.
const NAME: usize = 4096;

/// Works on the input of a client that has been greeted.
pub fn ready_input(core: &mut Core, key: ClientKey, left: &[u8]) -> Step {
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
        .or_else(|| behind_full_queue(core, key, head.tag))
        .or_else(|| behind_copy(core, key, head))
        .or_else(|| behind_own_units(core, key, head.tag))
        .or_else(|| deallocate::frees_statement(core, key, head, left))
    {
        return step;
    }
    // The last judgement is of that unit only: a later unit may be as long, and of another client in the same place.
    core.router.judged = None;
    let step = finds_connection(core, key, head.tag, left)
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
    if names::awaits_unnamed(core, key, head.tag, left)
        || head.tag == tag::BIND && names::awaits_portal(core, key, left)
        || head.tag == tag::BIND && shapes::awaits_shape(core, key, left)
    {
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

/// Holds a client back while a statement of the pooler's own is under way on its connection, or this is to be given back.
fn behind_own_errand(core: &mut Core, key: ClientKey) -> Option<Step> {
    let client = core.clients.get_mut(key.0)?;
    let server = core.servers.get(client.checkout.server()?.0)?;
    if server.is_aligning() || client.checkout.behind_own {
        return Some(Step::Stop);
    }
    // The next message is void if names before it have failed.
    if matches!(server.exchange.requests.back(), Some(Request::HiddenSync | Request::Restore { .. } | Request::Settle))
    {
        client.checkout.behind_own = true;
        return Some(Step::Stop);
    }
    None
}

/// Throws a message away that the server would skip: behind an error it reads on to the Sync of the unit, which is still
/// to come. So nothing has to be undone of it, and a client that goes on behind an error takes no memory.
fn is_skipped(core: &mut Core, key: ClientKey, head: Header) -> Option<Step> {
    let client = core.clients.get_mut(key.0)?;
    let exchange = &core.servers.get(client.checkout.server()?.0)?.exchange;
    let is_void = exchange.skips && exchange.skips_to_sync();
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

/// Holds a client back that has sent more requests than the pooler keeps, until the server has answered half of them.
fn behind_full_queue(core: &mut Core, key: ClientKey, tag: u8) -> Option<Step> {
    let client = core.clients.get_mut(key.0)?;
    let server = core.servers.get_mut(client.checkout.server()?.0)?;
    // The end of a unit that has failed must come before anything is answered.
    if !server.exchange.requests.are_full()
        || tag == tag::TERMINATE
        || server.exchange.skips_to_sync()
        || server.exchange.copying.is_open()
    {
        return None;
    }
    // A server may keep answers back until a Sync, which this client has not sent.
    if client.input.unsynced && server.exchange.requests.are_to_be_flushed() {
        wire::frame::write(server.io.out(), tag::FLUSH, |_| ());
    }
    client.checkout.behind_own = true;
    Some(Step::Stop)
}

/// Whether a message of this type may come while the server waits for lines of a COPY.
fn may_come_within_copy(tag: u8) -> bool {
    is_of_copy(tag) || matches!(tag, tag::SYNC | tag::FLUSH | tag::TERMINATE)
}

/// Keeps a Sync that comes where the server may be within a COPY, until the server has said whether it is: a server
/// ignores a Sync within a COPY, and answers one behind the error that has ended the COPY. Its client waits meanwhile.
fn behind_copy(core: &mut Core, key: ClientKey, head: Header) -> Option<Step> {
    // One with a body is refused.
    let tag = if head.body > 0 && head.tag == tag::SYNC { 0 } else { head.tag };
    let client = core.clients.get_mut(key.0)?;
    let server = core.servers.get_mut(client.checkout.server()?.0).filter(|server| !server.is_pipelined())?;
    if tag == tag::SYNC && server.exchange.syncs_of_lines().is_some_and(|syncs| *syncs >= SYNCS_OF_LINES) {
        leave::fatal(core, key, &Error::MessageType(tag));
        return Some(Step::Took(head.total()));
    }
    // The message may be one that the pooler answers itself, or that waits for the end of the COPY.
    if let Copying::Open { syncs, .. } = server.exchange.copying
        && !may_come_within_copy(tag)
    {
        copies::fail_copy(server, syncs);
    }
    let waits = server.exchange.sync_waits || matches!(server.exchange.copying, Copying::Ended { syncs: 1.. });
    if waits && tag != tag::TERMINATE {
        client.checkout.behind_own = true;
        return Some(Step::Stop);
    }
    if tag != tag::SYNC || server.exchange.syncs_of_lines().is_some() || !server.exchange.may_ignore_sync() {
        return None;
    }
    server.exchange.sync_waits = true;
    // What has run, if it is no COPY, is answered at a Flush.
    if client.input.unsynced {
        wire::frame::write(server.io.out(), tag::FLUSH, |_| ());
    }
    Some(Step::Took(HEADER))
}

/// Whether a message of this type is of the client's part of a COPY.
fn is_of_copy(tag: u8) -> bool {
    matches!(tag, tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL)
}

/// Holds a client back while its next message depends on units of its own that are under way.
fn behind_own_units(core: &mut Core, key: ClientKey, tag: u8) -> Option<Step> {
    // The data of a COPY belongs to the unit under way.
    let copied = is_of_copy(tag) || tag == tag::TERMINATE;
    if !copied && goes_first(core, key) {
        turns::give_turn(core, Turn::Client(key));
        return Some(Step::Stop);
    }
    if !copied && (a_repeated_cancel_may_strike(core, key) || must_follow(core, key)) {
        if let Some(client) = core.clients.get_mut(key.0) {
            client.checkout.behind_own = true;
        }
        return Some(Step::Stop);
    }
    names::behind_names(core, key, tag)
}

/// Chooses a server of the cluster for the unit at the front of a client's input, and sends it down a pipelined
/// connection if it may go there.
fn finds_connection(core: &mut Core, key: ClientKey, tag: u8, left: &[u8]) -> Option<Step> {
    let client = core.clients.get(key.0)?;
    let may_be_read = matches!(tag, tag::QUERY | tag::PARSE | tag::BIND | tag::DESCRIBE | tag::EXECUTE);
    let begins = may_be_read || matches!(tag, tag::CLOSE | tag::FUNCTION_CALL);
    if client.checkout.server().is_none()
        && client.route.home.is_some()
        && begins
        && let Some(step) = route::find_server(core, key, tag, left)
    {
        return Some(step);
    }
    let client = core.clients.get(key.0)?;
    let pipelines = may_be_read && !client.checkout.needs_own || client.checkout.pipelined().is_some();
    if pipelines && tag != tag::TERMINATE { send::pipeline(core, key, left) } else { None }
}

/// Answers messages that end the connection, or that need no server.
fn needs_no_server(core: &mut Core, key: ClientKey, head: Header, left: &[u8]) -> Option<Step> {
    let Some(client) = core.clients.get_mut(key.0) else { return Some(Step::Took(left.len())) };
    let has_server = client.checkout.server().is_some();
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
        tag::FLUSH | tag::COPY_DATA | tag::COPY_DONE | tag::COPY_FAIL if !has_server => {
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

/// Whether the next message begins a unit that a cancel request may strike which the pooler has repeated for the unit
/// before: the client has asked for one cancellation.
fn a_repeated_cancel_may_strike(core: &Core, key: ClientKey) -> bool {
    let Some(client) = core.clients.get(key.0).filter(|client| !client.input.unsynced) else { return false };
    let server = client.checkout.server().and_then(|server| core.servers.get(server.0));
    server.is_some_and(|server| {
        server.cancels.repeats && server.exchange.requests.last().is_none_or(Request::ends_clients_unit)
    })
}

/// Whether a client goes to another pool before its next message is looked at: nothing of it is under way.
fn goes_first(core: &Core, key: ClientKey) -> bool {
    let client = core.clients.get(key.0).filter(|client| client.moves_to == Some(Bound::Pool));
    client.is_some_and(moves::may_change_pool)
}

/// Whether the next unit of a client may be sent only when those before it on the connection that it has have been
/// answered: where these may open a transaction block, in statement pooling; on a replica, since it may write where no
/// transaction is open; and where the client goes to another pool.
fn must_follow(core: &Core, key: ClientKey) -> bool {
    // Behind an error the server reads on to the Sync of the unit, and answers nothing before it.
    let Some(client) = core.clients.get(key.0).filter(|client| !client.input.unsynced) else { return false };
    let leaves = client.moves_to == Some(Bound::Pool);
    if leaves && client.checkout.pipelined().is_some() {
        return true;
    }
    let Some(server) = client.checkout.server().and_then(|server| core.servers.get(server.0)) else { return false };
    let Some(pool) = core.pools.get(server.pool.0) else { return false };
    if !server.exchange.requests.last().is_some_and(Request::ends_clients_unit) {
        return false;
    }
    let elsewhere = pool.cluster_of.home.is_some_and(|(home, id)| {
        let cluster = core.pools.get(home.0).and_then(|home| home.cluster_of.cluster);
        let view = cluster.and_then(|place| core.router.clusters.get(place));
        view.is_some_and(|view| view.view().primary() != Some(id))
    });
    match pool.limits.mode {
        PoolMode::Session => false,
        PoolMode::Statement if server.exchange.requests.may_leave_open() => true,
        // Within a transaction the next unit belongs to it. The answer shows whether a transaction is open.
        _ => {
            let Exchange { requests, block, .. } = &server.exchange;
            let between = server.status == Status::Idle || requests.may_hold_transaction() || block.lost.is_some();
            (elsewhere || leaves) && between && !client.session.pins.any()
        }
    }
}
