//! Server connections that are free: cleaned, and checked out to the next client in line.

use crate::model::keys::{PoolKey, ServerKey};
use crate::model::slots::Slots;
use wire::backend::Status;

use crate::config::PoolMode;
use crate::pools::{align, checkin, checkout, checks, close, grow, limits, pipelines, settle, waiting};
use crate::router::fingerprints;
use crate::shared::Message;
use crate::state::client::Client;
use crate::state::pool::Pool;
use crate::state::server::{Server, State};
use crate::state::{Core, answering, turns};

/// Works on a server connection that may be free: it is taken from its client, cleaned, and offered to the next.
pub fn free(core: &mut Core, key: ServerKey) {
    if settle::asks(core, key) {
        return;
    }
    let Some((server, client)) = answering(&mut core.servers, &mut core.clients, key) else { return };
    let used = !matches!(server.state(), State::Preparing(_));
    match server.state() {
        State::Pipelined(pipeline) if pipeline.units.is_empty() => pipelines::end(core, key),
        State::Active(None) => (),
        State::Active(_) if may_be_given_back(server, client.as_deref(), &core.pools) => checkin::detach(core, key),
        State::Preparing(_) => (),
        _ => return,
    }
    if used {
        fingerprints::doubt_session(core, key);
    }
    let Some(server) = core.servers.get_mut(key) else { return };
    if !server.exchange.requests.is_empty() {
        return;
    }
    // A cancel request that is on its way must not strike a later statement.
    if server.cancels.under_way > 0 {
        server.prepare(None, core.now);
        server.cancels.frees = true;
        return;
    }
    if server.status != Status::Idle || server.exchange.own_error.is_some() {
        close::close_server(
            core,
            key,
            "a statement that the pooler itself sent has failed, or has left a transaction open",
        );
        return;
    }
    if !align::clean_up(core, key) {
        offer(core, key);
    }
}

/// Gives a free server connection to the next waiting client, or to the pool.
fn offer(core: &mut Core, key: ServerKey) {
    let Some(server) = core.servers.get_mut(key) else { return };
    let taken =
        matches!(server.state(), State::Idle) || server.client().is_some() || !server.exchange.requests.is_empty();
    debug_assert!(!taken, "a server connection is given back twice: {:?}", server.state());
    if taken {
        crate::warning!(
            "a server connection in use was given back ({:?}), which is a bug: it is closed",
            server.state()
        );
        return turns::doom(core, key, "the connection was given back twice");
    }
    let pool_key = server.pool;
    server.rest(core.now);
    let Some(server) = core.servers.get(key) else { return };
    let (old, retire) = (checks::is_old(core, server), server.life.retire || server.cancels.suspect);
    let Some(pool) = core.pools.get(pool_key) else { return };
    let total = pool.connections.servers.len();
    let many = total > pool.limits.size + pool.limits.reserve;
    let spare = total > pool.limits.size && pool.is_unwanted();
    let why = if retire {
        "the connection had been marked to be closed"
    } else if old {
        "the connection had reached server_lifetime"
    } else if many || spare {
        "the pool had more connections than its size"
    } else if let Some((limit, worker)) = limits::gives_way(core, pool_key) {
        let why = limits::reason(core, &limit);
        close::close_server(core, key, &why);
        if worker != core.id {
            return core.shared.tell(worker, Message::Room(limit));
        }
        return grow_in_turn(core, pool_key);
    } else {
        return hand_out(core, key);
    };
    close::close_server(core, key, why);
    grow_in_turn(core, pool_key);
}

/// Checks a free server connection out for the next waiting client, or puts it into the pool.
fn hand_out(core: &mut Core, key: ServerKey) {
    let Some(pool_key) = core.servers.get(key).map(|server| server.pool) else { return };
    let Some(pool) = core.pools.get_mut(pool_key) else { return };
    if !pool.limits.paused && checkout::assign_to_next(core, key, pool_key) {
        return;
    }
    if let Some(pool) = core.pools.get_mut(pool_key) {
        pool.connections.idle.push_back(key);
    }
    offer_place(core, pool_key);
}

/// Checks free connections out for waiting clients, as after RESUME.
pub fn serve_queue(core: &mut Core, key: PoolKey) {
    while let Some(pool) = core.pools.get_mut(key) {
        if pool.limits.paused || pool.is_unwanted() {
            return;
        }
        let Some(server) = pool.connections.idle.pop_back() else { break };
        hand_out(core, server);
    }
    grow::grow(core, key);
}

/// Whether a server connection is free for others: no request is under way, no transaction is open, and its client is
/// not pinned.
pub fn may_be_given_back(server: &Server, client: Option<&Client>, pools: &Slots<PoolKey, Pool>) -> bool {
    let Some(client) = client.filter(|_| server.exchange.requests.is_empty() && server.status == Status::Idle) else {
        return false;
    };
    if !client.is_ready() {
        return true;
    }
    let mode = pools.get(server.pool).map_or(PoolMode::Session, |pool| pool.limits.mode);
    mode.lends() && !client.session.pins.any() && !client.input.unsynced && client.input.passing == 0
}

/// Opens connections for the clients that wait, after one of a pool was closed: the client that has waited longest
/// comes first.
fn grow_in_turn(core: &mut Core, key: PoolKey) {
    let mut keys = waiting::kept_waiting_by(core, key);
    let own = core.pools.get(key).and_then(|pool| waiting::waits_since(core, pool));
    let place = keys.iter().position(|(_, since)| own.is_some_and(|own| own < *since));
    keys.insert(place.unwrap_or(keys.len()), (key, core.now));
    for (key, _) in keys {
        grow::grow(core, key);
    }
}

/// Lets the pools grow that a limit keeps waiting, at the cost of idle connections of this pool.
fn offer_place(core: &mut Core, key: PoolKey) {
    for (key, _) in waiting::kept_waiting_by(core, key) {
        grow::grow(core, key);
    }
}
