//! The effects on pools of a change of the configuration, or of the addresses of a host.

use crate::model::keys::PoolKey;

use crate::config::Database;
use crate::io::Peer;
use crate::pools::{close, free, grow, reroute, upkeep, welcome};
use crate::state::{Core, size};

/// Gives a pool the sizes in the configuration. Its waiting clients choose a server again if the database has become
/// one on several servers, or on one.
pub fn resize_pool(core: &mut Core, key: PoolKey) {
    size::size_pool(core, key);
    let Some(pool) = core.pools.get(key) else { return };
    if pool.cluster_of.cluster.is_some() == pool.cluster_of.home.is_some() {
        return;
    }
    let servers = pool.connections.servers.clone();
    reroute::reroute(core, key);
    close::retire(core, &servers);
}

/// Puts the new configuration in force on this worker.
pub fn take_config(core: &mut Core) {
    let old = std::mem::replace(&mut core.config, core.shared.config());
    let secured_otherwise = crate::credentials::secures_otherwise(&old.settings, &core.config.settings);
    let keys = core.pools.keys();
    for key in keys {
        let Some(pool) = core.pools.get(key) else { continue };
        let servers = pool.connections.servers.clone();
        let before = old.database(&pool.name.database);
        let Some(entry) = core.config.database(&pool.name.database) else {
            // The database is gone: idle connections are closed now, the others when they are free.
            close::retire(core, &servers);
            continue;
        };
        let moved = before.is_some_and(|before| leads_elsewhere(before, entry));
        resize_pool(core, key);
        if moved || secured_otherwise {
            close::retire(core, &servers);
            close::retire_subscriber(core, key);
            welcome::forget(core, key);
            // An attempt that failed before may succeed now.
            if let Some(pool) = core.pools.get_mut(key) {
                pool.connections.failure = None;
            }
        }
        free::serve_queue(core, key);
    }
    retire_the_laden(core);
    upkeep::keep_pools(core);
}

/// Closes the server connections that know more prepared statements than are now kept.
fn retire_the_laden(core: &mut Core) {
    let most = core.config.settings.kept_statements();
    let laden = core.servers.keys_of(|server| server.known.statements.len() > most);
    close::retire(core, &laden);
}

/// Notes that a name has been looked up: the clients that waited for that go on. Connections to its former addresses
/// are closed when they are free.
pub fn resolved(core: &mut Core, host: &str, changed: bool) {
    if changed {
        let addresses = core.shared.resolver.addresses(host);
        crate::info!("the addresses of {host} have changed");
        let elsewhere = |server: &crate::state::server::Server| {
            server.cancels.target.is_none()
                && server.at.host == host
                && matches!(server.io.socket.peer(), Peer::Tcp(peer) if !addresses.contains(&peer.ip().to_canonical()))
        };
        let moved = core.servers.keys_of(elsewhere);
        close::retire(core, &moved);
    }
    let keys = core.pools.keys();
    for key in keys {
        let waits = |pool: &crate::state::pool::Pool| {
            !pool.queue.waiting.is_empty() || !pool.queue.sharing.is_empty() || !pool.queue.greeting.is_empty()
        };
        if core.pools.get(key).is_some_and(waits) {
            grow::grow(core, key);
        }
    }
}

/// Whether connections made for one entry are of no use for the other.
fn leads_elsewhere(old: &Database, new: &Database) -> bool {
    let place = |entry: &Database| (entry.hosts.clone(), entry.port, entry.dbname.clone());
    let login = |entry: &Database| (entry.user.clone(), entry.password.clone());
    let session = |entry: &Database| {
        let Database { client_encoding, datestyle, timezone, connect_query, .. } = entry.clone();
        (client_encoding, datestyle, timezone, connect_query)
    };
    place(old) != place(new) || login(old) != login(new) || session(old) != session(new)
}
