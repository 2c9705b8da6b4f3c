//! Errors of servers: the statements that they belong to, and their meaning for the pooler's own statements.

use crate::model::keys::ServerKey;
use crate::model::request::Request;
use wire::backend::{self, Report};
use wire::sqlstate;

use crate::backend::effects::{self, End};
use crate::error::{Cause, Severity};
use crate::frontend::replies::{shown_name, write_renamed};
use crate::frontend::{copies, order, shapes};
use crate::pipeline::receive;
use crate::pools::settle;
use crate::router::fingerprints::fingerprints_of;
use crate::router::route;
use crate::state::cluster::SERIALIZABLE;
use crate::state::{Core, answering, turns};

/// Works on an error from a server.
pub fn answer_error(
    core: &mut Core,
    key: ServerKey,
    message: &[u8],
    body: &[u8],
    ours: bool,
) -> Result<(), wire::Error> {
    let report = backend::report(body)?;
    let Some(server) = core.servers.get_mut(key) else { return Ok(()) };
    if matches!(report.severity.as_str(), "FATAL" | "PANIC") {
        // The error for the client depends on its unit; that is seen when the connection closes.
        server.life.fatal_error = Some(Cause { sqlstate: report.code, why: report.message });
        return Ok(());
    }
    // Only a client's unit fails by its error.
    let of_unit = matches!(server.exchange.requests.front(), Some(Request::Restore { ends_unit: true }));
    server.exchange.failed = !ours || of_unit;
    let copying = std::mem::take(&mut server.exchange.copying);
    if ours {
        error_of_ours(core, key, message, report);
        return Ok(());
    }
    server.exchange.ran.error = Some(report.code.as_bytes().try_into().unwrap_or(*b"XX000"));
    let pool = server.pool;
    if report.code == sqlstate::T_R_SERIALIZATION_FAILURE && memchr::memmem::find(body, MOVED).is_some() {
        slot_moves(core, key);
    }
    if report.routine == SERIALIZABLE {
        route::is_serializable_by_default(core, pool);
    }
    let Some(server) = core.servers.get_mut(key) else { return Ok(()) };
    if server.is_pipelined() {
        receive::error(core, key, message, &report);
        return Ok(());
    }
    let Some((server, mut client)) = answering(&mut core.servers, &mut core.clients, key) else { return Ok(()) };
    if let Some(client) = client.as_deref_mut() {
        copies::send_syncs(server, client, copying.failed());
    }
    effects::leaves(server, client.as_deref_mut(), &core.pipelines.subscribers, End::Error);
    server.exchange.forgets_statement(&mut server.known.statements, &report);
    let Some(client) = client else { return Ok(()) };
    let refused = matches!(server.exchange.requests.front(), Some(Request::Refuse))
        && matches!(&*report.code, sqlstate::INVALID_SQL_STATEMENT_NAME | sqlstate::INVALID_CURSOR_NAME);
    if refused || shapes::is_of_other_columns(server, client, &report) {
        let refusal = client.route.refusal.take().filter(|_| refused);
        refusal.as_deref().unwrap_or(&shapes::CHANGED).write(client.io.out(), Severity::Error);
    } else if let Some((internal, shown)) = shown_name(&server.exchange.requests, client, &report.code) {
        write_renamed(client.io.out(), message, &internal, &shown);
    } else {
        client.io.out().extend_from_slice(message);
    }
    order::look_again(server, Some(client), &mut core.schedule);
    Ok(())
}

/// Works on an error of a statement of the pooler's own.
fn error_of_ours(core: &mut Core, key: ServerKey, message: &[u8], report: Report) {
    let Some(server) = core.servers.get_mut(key) else { return };
    match server.exchange.requests.front() {
        Some(Request::Restore { ends_unit: true }) => {
            if let Some((_, Some(client))) = answering(&mut core.servers, &mut core.clients, key) {
                client.io.out().extend_from_slice(message);
            }
        }
        // The client hears that its transaction has failed when it goes on.
        Some(Request::Prelude | Request::Restore { ends_unit: false }) => (),
        Some(Request::Settle) => settle::failed(core, key),
        Some(Request::Role) => {
            turns::doom(core, key, &format!("cannot ask a server whether it is a standby: {}", report.message));
        }
        Some(Request::Connect) => {
            let why = format!("connect_query failed: {}", report.message);
            server.life.fatal_error = Some(Cause { sqlstate: report.code, why: why.clone() });
            turns::doom(core, key, &why);
        }
        Some(Request::Align | Request::Lookup) => server.exchange.own_error = Some(report),
        _ => turns::doom(core, key, &format!("cannot reset a server session: {}", report.message)),
    }
}

/// The constraint that a shard names when a slot moves elsewhere.
const MOVED: &[u8] = b"howdah_shards_moved";

/// Has the map of a client's shards read at once, since a slot has moved.
fn slot_moves(core: &mut Core, key: ServerKey) {
    let client = core.servers.get(key).and_then(|server| server.client());
    let Some(home) = client.and_then(|client| core.clients.get(client)?.route.home) else { return };
    if let Some(fingerprints) = fingerprints_of(&mut core.context(), home) {
        fingerprints.knowledge().changed();
    }
}
