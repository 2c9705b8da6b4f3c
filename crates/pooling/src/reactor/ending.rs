//! The end of the pooler.

use std::sync::atomic::Ordering;

use wire::backend::Status;

use crate::admin::suspend;
use crate::config::PoolMode;
use crate::error::{Error, Severity};
use crate::pools::leave;
use crate::shared::Ending;
use crate::state::client::{self, Client, State as ClientState};
use crate::state::{Core, tell};
use crate::sync::lock;

/// Closes the clients that have nothing under way: the pooler ends. Clients of the console may stay.
pub fn close_idle_clients(core: &mut Core) {
    if *lock(&core.shared.orders.way) == Ending::WaitForClients {
        return;
    }
    let goes = |client: &Client| client.is_ready() && (client.is_idle() || is_at_rest(core, client));
    for key in core.clients.keys_of(|client| goes(client) || drains(client)) {
        leave::fatal(core, key, &Error::Ending);
    }
}

/// Whether a client that keeps its server connection, because of a pin, has nothing under way there. In session pooling
/// the session is the client's work, as in PgBouncer: temporary tables and all, it lasts until the client leaves.
fn is_at_rest(core: &Core, client: &Client) -> bool {
    let pool = client.route.pool.and_then(|pool| core.pools.get(pool));
    if pool.is_some_and(|pool| pool.limits.mode == PoolMode::Session) {
        return false;
    }
    let server = client.checkout.server().and_then(|server| core.servers.get(server));
    server.is_some_and(|server| {
        server.exchange.requests.is_empty() && server.status == Status::Idle && !server.is_aligning()
    }) && client.input.is_between_units()
        && client.io.rest.is_empty()
}

/// Sends the remaining clients the error that the pooler has ended.
pub fn say_goodbye(core: &mut Core) {
    let hears = |client: &Client| client.is_ready() || client.is_on_console();
    for key in core.clients.keys_of(hears) {
        if tell::is_within_message(core, key) {
            continue;
        }
        if let Some(client) = core.clients.get_mut(key) {
            Error::Ending.write(client.io.out(), Severity::Fatal);
            // Output that is not sent by now is lost with the process.
            let _ = client.io.flush();
        }
    }
}

/// Whether a drain ends a replication connection: its command would not end by itself, or it runs none.
fn drains(client: &Client) -> bool {
    matches!(client.state(), ClientState::Relay) && client.relay.as_ref().is_some_and(|relay| relay.may_end())
}

/// Begins to end the pooler, in this way.
pub fn begin_to_end(core: &mut Core, way: Ending) {
    core.shared.orders.ending.store(true, Ordering::Relaxed);
    {
        let mut most_urgent = lock(&core.shared.orders.way);
        *most_urgent = way.max(*most_urgent);
    }
    core.entrance.listeners.close(&*core.reactor.network);
    // Clients of a suspended pooler could not end their work.
    crate::state::suspension::end(&core.shared);
    suspend::end_suspension(core);
    if way == Ending::AtOnce {
        core.clients.clear();
        core.servers.clear();
    }
    core.lifecycle.ending.get_or_insert(core.now);
    close_idle_clients(core);
}

/// Whether a client that came before another process took the sockets over has still to log in.
fn awaits_logins(core: &Core) -> bool {
    core.shared.takeover.is_handed_over() && core.shared.counts.unauthenticated.load(Ordering::Relaxed) > 0
}

/// Whether the worker has no client left to serve.
pub fn is_over(core: &Core) -> bool {
    let Some(since) = core.lifecycle.ending else { return false };
    let late = core.config.settings.shutdown_timeout.limit();
    // A client of the console, or one that has not logged in, is not waited for.
    let is_waited_for =
        |client: &Client| client.identity.permit.is_waited_for() || matches!(client.state(), client::State::Closing);
    // The process that takes clients over has those of an answer only when it has the whole answer.
    let successor = core.shared.takeover.successor().and_then(|successor| core.clients.get(successor));
    let is_handing = successor.is_some_and(|successor| successor.is_on_console() && successor.io.pending() > 0);
    // The console asks all workers, so none goes before the last client of all has.
    let done = !is_handing
        && !core.clients.values().any(is_waited_for)
        && (*lock(&core.shared.orders.way) == Ending::AtOnce
            || core.shared.counts.clients.load(Ordering::Relaxed) == 0 && !awaits_logins(core));
    done || late.is_some_and(|limit| core.now.saturating_duration_since(since) > limit)
}
