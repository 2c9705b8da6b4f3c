//! Replication connections: each client gets a connection of its own to the primary, under its own user, and the
//! messages of both sides are passed on unchanged.
//!
//! Such a connection belongs to no pool. It does not count against `pool_size`, since it is never given back, but
//! against `max_db_connections` and `max_user_connections`. It ends with its client, and the client with it. The pooler
//! follows the ends of the server's messages, so that it can send the client an error between two of them, and so that
//! an orderly shutdown knows which connections may be ended.

use crate::model::keys::{ClientKey, PoolKey, ServerKey};
use crate::model::limits::Use;
use crate::model::relay::Relay;
use crate::model::turn::{Step, Turn};
use wire::backend::{self, Status};

use crate::error::{Cause, Error};
use crate::pools::{close, connect, leave, limits};
use crate::router::members;
use crate::state::client::State as ClientState;
use crate::state::login::Introduction;
use crate::state::server::State;
use crate::state::{Core, Pair, cancel, sockets};

/// Gives a client with a proven identity a place as a replication connection.
pub fn enter_relay(core: &mut Core, key: ClientKey, pool_key: PoolKey, introduction: Introduction) {
    let Some(replication) = introduction.replication else { return };
    let (Some(client), Some(pool)) = (core.clients.get_mut(key), core.pools.get_mut(pool_key)) else { return };
    (client.route.pool, client.route.home) = (Some(pool_key), Some(pool_key));
    client.relay = Some(Box::new(Relay::new(replication, introduction.parameters)));
    client.pass_to(ClientState::Greeting);
    client.route.waiting_since = Some(core.now);
    pool.queue.clients += 1;
    pool.queue.unused_since = None;
    begin_relay(core, key);
}

/// Connects a replication client to its server, if there is one and the limits leave room; else it waits.
fn begin_relay(core: &mut Core, key: ClientKey) {
    let Some(home) = core.clients.get(key).and_then(|client| client.route.home) else { return };
    let Some(pool_key) = members::primary_pool(core, home) else { return };
    if core.pools.get(pool_key).is_none_or(|pool| pool.limits.paused) {
        return;
    }
    if let Some(permit) = limits::make_room_apart(core, pool_key, Use::Relay) {
        connect::connect_relay(core, pool_key, key, permit);
    }
}

/// Tries again to connect the replication clients that wait.
pub fn tick_relays(core: &mut Core) {
    let waits = |client: &crate::state::client::Client| {
        client.relay.is_some() && client.checkout.server().is_none() && matches!(client.state(), ClientState::Greeting)
    };
    let waiting = core.clients.keys_of(waits);
    for key in waiting {
        begin_relay(core, key);
    }
}

/// Notes that the server has accepted a replication client: the client is greeted, and both talk to each other from
/// here on.
pub fn relay_ready(core: &mut Core, key: ServerKey) {
    let Some(server) = core.servers.get_mut(key) else { return };
    let Some(client_key) = server.holder() else { return };
    server.begin_apart(core.now);
    let welcome = std::mem::take(&mut server.known.parameters);
    if let Some(pool) = core.pools.get_mut(server.pool) {
        pool.counts.totals.assignments += 1;
    }
    let Some(cancel_key) = cancel::new_cancel_key(core, client_key) else {
        return leave::fatal(core, client_key, &Error::Random);
    };
    let Some(client) = core.clients.get_mut(client_key) else { return };
    let out = client.io.out();
    for (name, value) in &welcome {
        backend::write_parameter_status(out, name, value);
    }
    backend::write_backend_key_data(out, cancel_key.pid, &cancel_key.secret);
    backend::write_ready_for_query(out, Status::Idle);
    client.pass_to(ClientState::Relay);
    client.route.waiting_since = None;
    client.times.request_since = core.now;
    sockets::flush_client(core, client_key);
    core.schedule.give_turn(Turn::Client(client_key));
    core.schedule.give_turn(Turn::Server(key));
}

/// Passes on bytes of a replication client.
pub fn relay_to_server(core: &mut Core, key: ClientKey, left: &[u8]) -> Step {
    let now = core.now;
    if let Some(Pair { client, server, .. }) = core.pair(key) {
        client.times.request_since = now;
        if let Some(relay) = &mut client.relay {
            relay.asked();
        }
        server.io.out().extend_from_slice(left);
    }
    Step::Took(left.len())
}

/// Passes on bytes of a replication client's server.
pub fn relay_to_client(core: &mut Core, key: ServerKey, left: &[u8]) -> Step {
    let holder = core.servers.get(key).and_then(|server| server.holder());
    if let Some(client) = holder.and_then(|client| core.clients.get_mut(client)) {
        if let Some(relay) = &mut client.relay {
            relay.follow(left);
        }
        client.io.out().extend_from_slice(left);
    }
    Step::Took(left.len())
}

/// Ends a server connection of a replication client that is lost or could not be had: the client goes with it.
pub fn relay_gone(core: &mut Core, key: ServerKey, why: &str) {
    let Some(server) = core.servers.get_mut(key) else { return };
    let established = matches!(server.state(), State::Relay);
    let cause = server.life.fatal_error.take().unwrap_or_else(|| Cause::connection(why));
    let client = server.let_go();
    close::close_server(core, key, &cause.why);
    let Some(client_key) = client else { return };
    if let Some(client) = core.clients.get_mut(client_key) {
        client.checkout.give_back();
    }
    if established {
        // The server has said itself why, if it could.
        leave::end_client(core, client_key, &cause.why);
    } else {
        leave::fatal(core, client_key, &Error::ReplicationLost(cause));
    }
}
