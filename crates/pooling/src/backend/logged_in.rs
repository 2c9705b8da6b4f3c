//! The steps after a successful login to a server.

use crate::model::keys::ServerKey;
use crate::model::turn::After;

use crate::backend::subscriber;
use crate::io::Peer;
use crate::log::{self, Level};
use crate::pools::{align, grow, relay, reroute, roles, welcome};
use crate::router::{fingerprints, freshness, members};
use crate::state::Core;
use crate::state::server::Apart;

/// Notes that a server has accepted the pooler's login: the clients that wait for it go on.
pub fn logged_in(core: &mut Core, key: ServerKey) {
    if core.servers.get(key).is_some_and(|server| server.known.standby == Some(true)) {
        roles::found_standby(core, key);
    }
    match core.servers.get(key).and_then(|server| server.apart) {
        Some(Apart::Relay(_)) => return relay::relay_ready(core, key),
        Some(Apart::Subscriber) => return subscriber::subscriber_ready(core, key),
        None => (),
    }
    fingerprints::note_way(core, key);
    if core.config.settings.log_connections
        && let Some(server) = core.servers.get(key)
    {
        let server_name = core.name_server(server);
        match server.io.socket.local() {
            Peer::Tcp(address) => crate::info!(of server_name; "new connection to server (from {address})"),
            Peer::Unix => crate::info!(of server_name; "new connection to server"),
        }
    }
    let Some(server) = core.servers.get(key) else { return };
    freshness::doubt_replay(core, server);
    reroute::reroute_doubtful(core, server.pool);
    let Some(server) = core.servers.get_mut(key) else { return };
    let welcome = server.known.parameters.clone();
    let vars = server.known.session.vars.clone();
    let pool_key = server.pool;
    let Some(pool) = core.pools.get_mut(pool_key) else { return };
    pool.connections.connecting = pool.connections.connecting.saturating_sub(1);
    let was_down = pool.connections.failure.take().is_some();
    if was_down {
        let pool = core.name_pool(pool_key);
        let text = format_args!("server connections can be made again");
        log::event(Level::Log, Some(&pool), "found", (&pool.database, ""), text);
    }
    for name in core.parameters.tracked.note_silent(&vars) {
        welcome::warn_of_silent(&name);
    }
    let home = members::home_of(&core.pools, pool_key);
    // Units for the primary are sent to a server only when it has said its role.
    let asks = home != pool_key && core.servers.get(key).is_some_and(|server| server.known.standby.is_none());
    if asks {
        align::ask_role(core, key);
    }
    let Some(pool) = core.pools.get(home) else { return };
    let query = core.config.database(&pool.name.database).and_then(|entry| entry.connect_query.clone());
    match query {
        Some(query) => {
            if let Some(server) = core.servers.get_mut(key).filter(|_| classify::only_sets(&query)) {
                server.known.session.base = format!("{query}\n;").into();
            }
            align::run_connect_query(core, key, &query);
        }
        None if asks => (),
        None => core.schedule.later(After::Free(key)),
    }
    welcome::greet_by(core, pool_key, welcome, vars);
    // While a server is down there is one attempt at a time; now the others follow.
    if was_down {
        grow::grow(core, pool_key);
    }
}
