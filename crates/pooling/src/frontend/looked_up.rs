//! The end of an `auth_query`, with a result or an error.

use crate::model::keys::{ClientKey, PoolKey, ServerKey};
use crate::model::request::Request;
use crate::model::turn::Turn;
use wire::{frame, frontend};

use crate::error::Error;
use crate::frontend::challenge;
use crate::password::Stored;
use crate::pools::{checkin, free, leave};
use crate::state::login::Phase;
use crate::state::server::Residue;
use crate::state::{Core, sockets};

/// Asks the server that was checked out to a client for its password.
pub fn lookup(core: &mut Core, key: ClientKey) {
    let Some(client) = core.clients.get(key) else { return };
    let (Some(Phase::Lookup(lookup)), Some(server_key)) = (client.login_phase(), client.checkout.server()) else {
        return;
    };
    let Some(server) = core.servers.get_mut(server_key) else { return };
    let (query, user) = (&lookup.query, &client.identity.user);
    let out = server.io.out();
    frontend::write_parse(out, b"", &[query.as_bytes(), b"\0\0\0"].concat());
    frame::write(out, frontend::tag::BIND, |out| {
        out.extend_from_slice(b"\0\0\0\0\0\x01");
        out.extend_from_slice(&i32::try_from(user.len()).unwrap_or(-1).to_be_bytes());
        out.extend_from_slice(user.as_bytes());
        out.extend_from_slice(b"\0\0");
    });
    frame::write(out, frontend::tag::EXECUTE, |out| out.extend_from_slice(b"\0\0\0\0\0"));
    frontend::write_sync(out);
    server.known.unnamed = None;
    server.exchange.requests.push_back(Request::Lookup);
    sockets::flush_server(core, server_key);
}

/// `auth_query` has been answered: its server is free, and the login goes on.
pub fn lookup_done(core: &mut Core, key: ServerKey) {
    let Some(server) = core.servers.get_mut(key) else { return };
    let (client, report) = (server.client(), server.exchange.own_error.take());
    // A function in it may do anything.
    server.known.residue = server.known.residue.max(Residue::Anything);
    checkin::detach(core, key);
    free::free(core, key);
    match (client, report) {
        (Some(client), Some(report)) => lookup_failed(core, client, &report.message, true),
        (Some(client), None) => end_lookup(core, client, None),
        (None, _) => (),
    }
}

/// Ends a look-up whose query has failed on the server, or that no server could serve. The error is for the log, not
/// for clients that have not logged in.
pub fn lookup_failed(core: &mut Core, key: ClientKey, why: &str, by_query: bool) {
    let Some(client) = core.clients.get(key) else { return };
    let Some(Phase::Lookup(lookup)) = client.login_phase() else { return };
    crate::warning!(of core.name_client(key); "auth_query: {why}");
    if lookup.own && (by_query || client.route.pool.is_some_and(|pool| was_refused(core, pool))) {
        // Perhaps there is no such database. A client without a password does not hear of that.
        end_lookup(core, key, Some(Stored::Nobody));
    } else {
        leave::fatal(core, key, &Error::LookupFailed);
    }
}

/// Whether a server has refused a pool, or one of the pools of a cluster's servers, and not for a while only.
fn was_refused(core: &Core, key: PoolKey) -> bool {
    let members = core.pools.get(key).into_iter().flat_map(|pool| &pool.cluster_of.members);
    let pools = members.map(|(_, member)| *member).chain([key]).filter_map(|key| core.pools.get(key));
    pools.filter_map(|pool| pool.connections.failure.as_ref()).any(|failure| !failure.may_pass)
}

/// Says in the log what a look-up waits for, whose client's time for its login is up. The client is not authenticated, and does
/// not hear of it; `why` is the reason why it has no server connection.
pub fn log_late(core: &Core, key: ClientKey, why: Option<Error>) {
    let Some(client) = core.clients.get(key) else { return };
    let Some(Phase::Lookup(_)) = client.login_phase() else { return };
    match why.filter(|_| client.checkout.server().is_none()) {
        Some(why) => crate::warning!(of core.name_client(key); "auth_query: client_login_timeout: {why}"),
        None => {
            crate::warning!(of core.name_client(key); "auth_query: client_login_timeout: the query is still running")
        }
    }
}

fn end_lookup(core: &mut Core, key: ClientKey, stored: Option<Stored>) {
    let Some(client) = core.clients.get_mut(key) else { return };
    let Some((login, phase)) = client.leave_login() else { return };
    let Phase::Lookup(lookup) = phase else { return client.enter_login(login, phase) };
    client.checkout.stop_waiting();
    let pool = client.route.pool.take();
    client.route.home = None;
    if let Some(pool) = pool.and_then(|pool| core.pools.get_mut(pool)) {
        pool.forget(key);
    }
    if lookup.lacks_password {
        return leave::fatal(core, key, &Error::LookupFailed);
    }
    let stored = stored.unwrap_or(lookup.stored);
    core.shared.secrets.saw(&stored);
    if let Err(refusal) = challenge::looked_up(core, key, login, stored) {
        leave::fatal(core, key, &refusal);
    }
    sockets::flush_client(core, key);
    core.schedule.give_turn(Turn::Client(key));
}
