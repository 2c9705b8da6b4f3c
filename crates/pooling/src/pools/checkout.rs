//! The checkout of server connections: first come, first served in each pool.

use crate::model::keys::{ClientKey, PoolKey, ServerKey};
use crate::model::turn::{After, Turn};
use balancer::Want;

use crate::pools::{align, checks, leave, order, welcome};
use crate::router::{choose, members};
use crate::state::Core;
use crate::state::client::State as ClientState;

/// The number of idle connections that are looked at for one whose session is in line.
pub const LOOKED_AT: usize = 16;

/// Checks a server connection out for a client, `reads_only` for a unit in a read-only transaction: true if the client
/// has one now whose session is in line. Otherwise the client waits, for a connection or for its alignment.
pub fn acquire(core: &mut Core, key: ClientKey, reads_only: bool) -> bool {
    let Some(client) = core.clients.get_mut(key) else { return false };
    client.checkout.reads_only = reads_only;
    if client.checkout.server().is_some() {
        return align::align(core, key);
    }
    let Some(pool_key) = client.route.pool else { return false };
    if members::is_cluster(core, pool_key) && !choose::route(core, key, Want::Any, 0) {
        let looks_up = core.clients.get(key).is_some_and(|client| client.login_phase().is_some());
        if let Some(why) = looks_up.then(|| welcome::why_no_lookup(core, pool_key)).flatten() {
            leave::refuse(core, key, &why);
        }
        return false;
    }
    let Some(client) = core.clients.get_mut(key) else { return false };
    let Some(pool_key) = client.route.pool else { return false };
    let Some(pool) = core.pools.get_mut(pool_key) else { return false };
    client.checkout.wait(client.route.waiting_since.take().unwrap_or(core.now));
    client.checkout.told_to_wait = false;
    let again = client.checkout.strikes > 0;
    let (paused, first) = (pool.limits.paused, pool.queue.waiting.is_empty());
    let idle = if paused { None } else { take_idle(core, pool_key, key) }.map(|(server, _)| server);
    if let Some(server) = idle.filter(|_| first) {
        assign(core, server, key);
        let server = core.servers.get(server);
        return server.is_some_and(|server| server.client() == Some(key) && !server.is_aligning());
    }
    if let Some(pool) = core.pools.get_mut(pool_key) {
        if again { pool.queue.waiting.push_front(key) } else { pool.queue.waiting.push_back(key) }
    }
    // Clients before it wait for connections that are being checked: they get this one, and it gets one of those.
    if let Some(server) = idle
        && !assign_to_next(core, server, pool_key)
        && let Some(pool) = core.pools.get_mut(pool_key)
    {
        pool.connections.idle.push_back(server);
    }
    core.schedule.later(After::Grow(pool_key));
    false
}

/// Checks this server connection out for the next client that waits in its pool; whether there was one.
pub fn assign_to_next(core: &mut Core, server: ServerKey, pool_key: PoolKey) -> bool {
    while let Some(next) = order::next(core, pool_key, server) {
        if core.clients.get(next).is_some_and(|client| client.checkout.waits().is_some()) {
            assign(core, server, next);
            core.schedule.give_turn(Turn::Client(next));
            return true;
        }
    }
    false
}

/// Takes an idle server connection of a pool for a client: one whose session is in line already, if there is one among
/// the next ones, and whether it is. A connection that must be checked first is checked, and not taken.
pub fn take_idle(core: &mut Core, pool_key: PoolKey, key: ClientKey) -> Option<(ServerKey, bool)> {
    let target = align::target(core.clients.get(key)?, &core.pools);
    let pool = core.pools.get_mut(pool_key)?;
    let oldest_first = core.config.settings.server_round_robin;
    let count = pool.connections.idle.len();
    let place = |nth: usize| if oldest_first { nth } else { count - 1 - nth };
    let servers = &core.servers;
    let meets = |at: &usize| {
        let server = pool.connections.idle.get(*at).and_then(|key| servers.get(*key));
        server.is_some_and(|server| server.known.session.meets(&target))
    };
    let suits = (0..count.min(LOOKED_AT)).map(place).find(meets);
    let server = pool.connections.idle.remove(suits.or((count > 0).then(|| place(0)))?)?;
    (!checks::check(core, server)).then_some((server, suits.is_some()))
}

/// Checks this server connection out for this client, and brings its session in line.
pub fn assign(core: &mut Core, server_key: ServerKey, key: ClientKey) {
    let (Some(server), Some(client)) = (core.servers.get_mut(server_key), core.clients.get_mut(key)) else {
        return;
    };
    server.check_out(key, core.now);
    let since = client.checkout.take(server_key);
    client.times.request_since = core.now;
    client.route.owed.until = None;
    let waited = since.map_or_else(Default::default, |since| core.now.saturating_duration_since(since));
    if let Some(pool) = core.pools.get_mut(server.pool) {
        pool.counts.totals.wait_time += waited;
        pool.counts.stats.waited(server.at.place, waited);
        pool.counts.totals.assignments += 1;
        pool.queue.served = Some(core.now);
    }
    if align::align(core, key)
        && let Some(client) = core.clients.get_mut(key)
    {
        // It waits in line again, though nothing was asked here that could end its strikes.
        client.checkout.strikes = 0;
        match client.state() {
            ClientState::Login(..) => core.schedule.later(After::Lookup(key)),
            ClientState::Greeting => core.schedule.later(After::Verified(key)),
            _ => (),
        }
    }
}
