//! Bringing the session on a server connection in line with a client's, and undoing what clients have left there.
//!
//! The pooler sends nothing of a client before its alignment has succeeded. If a time limit, a cancel request or the
//! loss of the connection has ended an alignment, the client is not at fault: its statement has not been sent, and gets
//! another connection. If the server refuses an alignment, the client's settings are at fault (an invalid value, a role
//! that was dropped), and the client gets the error.

use crate::model::keys::{ClientKey, PoolKey, ServerKey};
use crate::model::request::Request;
use crate::model::session::{Alignment, Sets, Target};
use crate::model::slots::Slots;
use crate::model::vars::Vars;
use wire::backend::Status;
use wire::frontend;

use crate::router::members;
use crate::state::client::{Client, State as ClientState};
use crate::state::pool::Pool;
use crate::state::server::{Residue, Server};
use crate::state::{Core, served, sockets};

/// Undoes the effects of a function beside settings. DISCARD ALL would also drop the prepared statements, and must be a
/// statement alone. The count of prepared statements, those of SQL and those of the protocol, says whether `DEALLOCATE
/// ALL` must follow.
const UNDO_ANYTHING: &str = "CLOSE ALL;UNLISTEN *;SELECT pg_catalog.pg_advisory_unlock_all();DISCARD TEMP;DISCARD SEQUENCES;\
     SELECT pg_catalog.count(*) FILTER (WHERE from_sql), pg_catalog.count(*) FILTER (WHERE NOT from_sql) \
     FROM pg_catalog.pg_prepared_statements;";

/// Sends a server a statement of the pooler's own.
fn ask(server: &mut Server, sql: &str, request: Request) {
    frontend::write_query(server.io.out(), sql);
    server.exchange.requests.push_back(request);
    // As in PostgreSQL, a Query ends the unnamed statement.
    server.known.unnamed = None;
}

fn ask_all(server: &mut Server, alignment: &Alignment, request: Request) {
    if !alignment.first.is_empty() {
        ask(server, &alignment.first, Request::Prelude);
    }
    ask(server, &alignment.rest, request);
}

/// Forgets all prepared statements.
const DEALLOCATE: &str = "DEALLOCATE ALL";

/// The settings that a session needs for a client: for one that is logging in, those of the pool.
pub fn target(client: &Client, pools: &Slots<PoolKey, Pool>) -> Target {
    if !matches!(client.state(), ClientState::Login(..)) {
        let (sets, vars) = (client.session.sets.clone(), client.session.vars.clone());
        return Target { sets, vars, read_only: client.checkout.reads_only };
    }
    let vars = client.route.home.and_then(|home| pools.get(home)).map(|pool| pool.greetings.defaults.clone());
    Target { sets: Sets::default(), vars: vars.unwrap_or_default(), read_only: false }
}

/// Whether a client's statement may be sent on the connection that it has: between units the session is brought in
/// line first, and the client waits.
pub fn align(core: &mut Core, key: ClientKey) -> bool {
    let Some((client, Some(server))) = served(&mut core.clients, &mut core.servers, key) else { return false };
    if server.is_aligning() {
        return false;
    }
    let within = !server.exchange.requests.is_empty() || server.status != Status::Idle || client.input.unsynced;
    if within || client.input.passing > 0 {
        return true;
    }
    let mut target = target(client, &core.pools);
    target.read_only |= members::is_only_read(server, &core.pools, &core.router);
    let meets = server.known.session.meets(&target);
    if meets {
        client.session.vars.unite(&mut server.known.session.vars);
    }
    let alignment =
        if meets { Alignment::default() } else { server.known.session.alignment(&target, &core.parameters.tracked) };
    let begins = client.route.begun.as_ref().filter(|begun| begun.is_due);
    if alignment.rest.is_empty() && begins.is_none() {
        server.known.session.sets = target.sets;
        return true;
    }
    // A cancel request for an earlier statement of the client's is still on its way, and would strike the alignment.
    if server.cancels.under_way > 0 {
        return false;
    }
    // The settings are of the session, so they are in force before its transaction begins.
    match begins.filter(|_| alignment.rest.is_empty()) {
        Some(begun) => ask(server, &begun.sql, Request::Align),
        None => ask_all(server, &alignment, Request::Align),
    }
    server.begin_alignment(target, core.now);
    if let Some(server) = client.checkout.server() {
        sockets::flush_server(core, server);
    }
    false
}

/// Undoes the state that a client may have left on a free server connection; whether there was anything to undo.
pub fn clean_up(core: &mut Core, key: ServerKey) -> bool {
    let settings = &core.config.settings;
    let Some(server) = core.servers.get_mut(key) else { return false };
    let residue = std::mem::take(&mut server.known.residue);
    if residue == Residue::Nothing {
        return false;
    }
    let custom = if residue == Residue::Session { settings.server_reset_query.as_str() } else { "" };
    let words = custom.to_ascii_uppercase();
    let discards = words.contains("DISCARD ALL");
    let left = if residue == Residue::Session { server.known.session_residue } else { residue };
    let mut undo = server.known.session.reset();
    if left == Residue::Anything {
        undo.rest.push_str(UNDO_ANYTHING);
    }
    // The effects of `server_reset_query` are not known, so everything is undone once more.
    let undoes = !discards && (left > Residue::Nothing || !custom.is_empty());
    if custom.is_empty() && !undoes {
        return false;
    }
    server.known.session_residue = Residue::Nothing;
    let target = Target { sets: Sets::default(), vars: Vars::default(), read_only: false };
    server.prepare(Some(target), core.now);
    if !undo.first.is_empty() {
        ask(server, &undo.first, Request::Prelude);
    }
    if !custom.is_empty() {
        ask(server, custom, Request::Clean);
        if !undoes && !server.known.session.base.is_empty() {
            let base = server.known.session.base.clone();
            ask(server, &base, Request::Clean);
        }
    }
    if undoes {
        ask(server, &undo.rest, Request::Clean);
    }
    if discards || words.contains("DEALLOCATE") {
        server.known.statements.clear();
    }
    sockets::flush_server(core, key);
    true
}

/// Runs a query of the configuration on a server connection that no client has, in the pool's own session.
pub fn run_own(core: &mut Core, key: ServerKey, sql: &str) {
    let Some(server) = core.servers.get_mut(key) else { return };
    let target = Target { sets: Sets::default(), vars: Vars::default(), read_only: false };
    let reset = (!server.known.session.meets(&target)).then(|| server.known.session.reset());
    server.prepare(reset.is_some().then_some(target), core.now);
    if let Some(reset) = reset {
        ask_all(server, &reset, Request::Clean);
    }
    ask(server, sql, Request::Clean);
    sockets::flush_server(core, key);
}

/// Runs the `connect_query` on a server connection that no client has had yet.
pub fn run_connect_query(core: &mut Core, key: ServerKey, sql: &str) {
    let Some(server) = core.servers.get_mut(key) else { return };
    server.prepare(None, core.now);
    ask(server, sql, Request::Connect);
    sockets::flush_server(core, key);
}

/// Asks on a server connection that no client has had yet whether its server is a standby.
pub fn ask_role(core: &mut Core, key: ServerKey) {
    let Some(server) = core.servers.get_mut(key) else { return };
    ask(server, "SELECT pg_catalog.pg_is_in_recovery()", Request::Role);
    sockets::flush_server(core, key);
}

/// Has a server drop its prepared statements, on a connection that no client has.
pub fn forget_prepared(core: &mut Core, key: ServerKey) {
    let Some(server) = core.servers.get_mut(key) else { return };
    server.known.statements.clear();
    // DEALLOCATE runs under no limit of a client's.
    if !server.known.session.lift_limits().is_empty() {
        return run_own(core, key, DEALLOCATE);
    }
    ask(server, DEALLOCATE, Request::Clean);
    sockets::flush_server(core, key);
}
