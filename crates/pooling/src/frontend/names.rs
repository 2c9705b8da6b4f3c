//! The names that clients give their prepared statements, while the units that give them are in flight.
//!
//! The pooler notes a name when it sends its Parse, since later messages of the same unit rely on the name. Whether the
//! name is valid is known only when the server has answered: after an error in a unit, the server skips the rest of the
//! unit. So a unit of the extended protocol waits for the earlier units of its client that prepare or forget
//! statements, and so does a unit behind a Parse of the pooler's own that the server connection needed. In practice
//! only the first use of a statement waits, and messages behind a statement that forgets names (such as DEALLOCATE ALL)
//! in the same unit.

use crate::model::keys::{ClientKey, ServerKey};
use crate::model::request::Request;
use crate::model::turn::{Step, Turn};
use wire::frame::HEADER;
use wire::frontend::{self, tag};

use crate::reactor::turns;
use crate::state::Core;

/// Holds back a client whose next unit may use names that depend on how those before it are answered.
pub fn behind_names(core: &mut Core, key: ClientKey, tag: u8) -> Option<Step> {
    // The data of a COPY, and a Sync, belong to the unit under way.
    let begins = matches!(tag, tag::QUERY | tag::EXECUTE | tag::FUNCTION_CALL);
    let names = matches!(tag, tag::PARSE | tag::BIND | tag::DESCRIBE | tag::CLOSE);
    if (begins || names)
        && let Some(step) = behind_reset(core, key)
    {
        return Some(step);
    }
    let client = core.clients.get_mut(key.0)?;
    // What follows in its unit may be skipped behind an Execute that fails.
    if !names && (tag != tag::EXECUTE || client.input.unsynced) {
        return None;
    }
    if client.input.unsynced {
        return behind_forgetting(core, key);
    }
    let depends = if let Some((pipeline, _)) = client.checkout.pipelined() {
        let pipeline = core.servers.get(pipeline.0)?.pipeline()?;
        pipeline.units.iter().any(|unit| unit.client == Some(key) && !unit.names.is_empty())
    } else {
        let server = core.servers.get(client.checkout.server()?.0)?;
        server.exchange.requests.are_about_names(server.status)
    };
    if !depends {
        return None;
    }
    client.checkout.behind_own = true;
    Some(Step::Stop)
}

/// Holds back a client within a unit with a request that forgets names, until the server has said that they are gone:
/// names that are prepared behind it stay.
fn behind_forgetting(core: &mut Core, key: ClientKey) -> Option<Step> {
    // A unit may have many thousand messages: its requests are searched only if one of them may forget names.
    let client = core.clients.get_mut(key.0).filter(|client| client.input.forgets)?;
    let server = core.servers.get_mut(client.checkout.server()?.0)?;
    let status = server.status;
    // A Query without a Sync before it ends no unit of the extended protocol.
    let forgets = |request: &Request| {
        matches!(request, Request::Execute(_) | Request::Query(..)) && request.is_about_names(status)
    };
    let skipped = server.exchange.skips_to_sync();
    let mut unit = server.exchange.requests.iter().rev().take_while(|request| !request.ends_failed_unit(true));
    if skipped || !unit.any(forgets) {
        client.input.forgets = false;
        return None;
    }
    wire::frame::write(server.io.out(), tag::FLUSH, |_| ());
    client.checkout.behind_own = true;
    Some(Step::Stop)
}

/// Holds back a Bind or Describe of the statement without a name, if an earlier unit changes which statement that is, and
/// has not been answered.
pub fn awaits_unnamed(core: &mut Core, key: ClientKey, tag: u8, left: &[u8]) -> bool {
    let body = left.get(HEADER..).unwrap_or_default();
    let is_unnamed = match tag {
        tag::BIND => frontend::bind(body).is_some_and(|names| names.statement.is_empty()),
        tag::DESCRIBE => body.starts_with(b"S\0"),
        _ => false,
    };
    let Some((client, server)) = core.pair(key).filter(|_| is_unnamed) else { return false };
    let exchange = &server.exchange;
    let waits = !server.is_pipelined() && exchange.requests.unsettle_unnamed();
    client.checkout.behind_own |= waits;
    waits
}

/// Holds back a Bind to a portal whose name the client has given already, until the server has answered everything before
/// it: then either that portal is gone, or the server refuses the name.
pub fn awaits_portal(core: &mut Core, key: ClientKey, left: &[u8]) -> bool {
    let Some(names) = frontend::bind(left.get(HEADER..).unwrap_or_default()) else { return false };
    let Some((client, server)) = core.pair(key) else { return false };
    if server.is_pipelined()
        || server.exchange.requests.is_empty()
        || server.exchange.skips_to_sync()
        || !client.prepared.portals.may_be_taken(names.portal)
    {
        return false;
    }
    if client.input.unsynced && server.exchange.requests.are_to_be_flushed() {
        wire::frame::write(server.io.out(), tag::FLUSH, |_| ());
    }
    client.checkout.behind_own = true;
    true
}

/// Lets a client go on that waits within a unit for the answer to a part of it. In a pipelined connection only whole
/// units wait.
pub fn look_again(core: &mut Core, key: ServerKey) {
    let Some(client_key) = core.servers.get(key.0).and_then(|server| server.holder()) else { return };
    if core.clients.get_mut(client_key.0).is_some_and(|client| std::mem::take(&mut client.checkout.behind_own)) {
        turns::give_turn(core, Turn::Client(client_key));
    }
}

/// Holds back a client during a RESET of its own that restores values of its startup: the session is brought in line
/// first.
fn behind_reset(core: &mut Core, key: ClientKey) -> Option<Step> {
    let client = core.clients.get_mut(key.0)?;
    if client.input.unsynced || client.session.startup.1.is_empty() && client.session.startup.0.is_empty() {
        return None;
    }
    let requests = &core.servers.get(client.checkout.server()?.0)?.exchange.requests;
    // A RESET that has finished is restored when its unit has ended, which another message reports.
    if !requests.reset() && (requests.is_empty() || !client.session.pending.has_resets()) {
        return None;
    }
    client.checkout.behind_own = true;
    Some(Step::Stop)
}
