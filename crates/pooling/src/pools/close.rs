//! How server connections are closed.

use crate::model::keys::{PoolKey, ServerKey};

use crate::error::Cause;
use crate::pools::retry;
use crate::state::server::{Apart, State};
use crate::state::{Core, sockets};

/// Closes these server connections, each when no client uses it.
pub fn retire(core: &mut Core, servers: &[ServerKey]) {
    for &key in servers {
        let Some(server) = core.servers.get_mut(key) else { continue };
        server.life.retire = true;
        if matches!(server.state(), State::Idle) {
            close_server(core, key, "the connection had been marked to be closed");
        }
    }
}

/// Has the subscriber of a pool closed: the database leads elsewhere, or may.
pub fn retire_subscriber(core: &mut Core, pool: PoolKey) {
    for (_, server) in core.servers.iter_mut() {
        server.life.retire |= server.pool == pool && server.apart == Some(Apart::Subscriber);
    }
}

/// The reason for a lost server connection that the server has ended without an error.
pub const SERVER_CLOSED: &str = "the server closed the connection";

/// Closes a server connection that no client uses.
pub fn close_server(core: &mut Core, key: ServerKey, why: &str) {
    if core.config.settings.log_disconnections
        && let Some(server) = core.servers.get(key)
    {
        let age = core.now.saturating_duration_since(server.life.since).as_secs();
        crate::info!(of core.name_server(server); "closing because: {why} (age={age}s)");
    }
    close_unlogged(core, key, why);
}

/// Closes a server connection that no client uses, where the log has the reason already.
pub fn close_unlogged(core: &mut Core, key: ServerKey, why: &str) {
    retry::leave(core, key, &Cause::shutdown(why));
    debug_assert!(
        core.servers.get(key).is_none_or(|server| server.cancels.target.is_none()),
        "a connection for a cancel request is closed as a server connection"
    );
    let Some(mut server) = core.servers.remove(key) else { return };
    if matches!(
        server.state(),
        State::Idle | State::Active(_) | State::Aligning(..) | State::Preparing(_) | State::Subscriber
    ) && server.io.pending() == 0
    {
        wire::frontend::write_terminate(server.io.out());
        let _ = server.io.flush();
    }
    sockets::unwatch(core, &server.io);
    let Some(pool) = core.pools.get_mut(server.pool) else { return };
    pool.connections.servers.retain(|other| *other != key);
    pool.connections.idle.retain(|other| *other != key);
    if server.apart.is_none() && matches!(server.state(), State::Connecting | State::Login(_)) {
        pool.connections.connecting = pool.connections.connecting.saturating_sub(1);
    }
}
