//! The commits of a session that its reads must see.

use crate::model::keys::{ClientKey, ServerKey};
use classify::{Consistency, Role};
use wire::backend::Status;

use crate::replay::NEVER;
use crate::state::Core;
use crate::state::server::Server;

/// Notes the end of a client's unit on its connection, or the loss of that: from now on the client's reads must see the
/// commits of the unit. The client has not got its answer yet.
pub fn note_commit(core: &mut Core, key: ServerKey) {
    let Some(server) = core.servers.get_mut(key.0) else { return };
    let Some(client) = server.client().and_then(|client| core.clients.get_mut(client.0)) else { return };
    let wrote = client.route.owed.writes || server.exchange.writes;
    // Units under way behind it may write too, and writes in an open transaction are not committed yet.
    server.exchange.writes &= !server.exchange.requests.is_empty() || server.status != Status::Idle;
    if wrote && let Some(client) = server.client() {
        owe(core, client, key);
    }
}

/// Notes that a unit that may have written on this server has ended; its client has not got the answer.
pub fn owe(core: &mut Core, client: ClientKey, server: ServerKey) {
    if core.servers.get(server.0).is_none_or(|server| server.known.standby == Some(true)) {
        return;
    }
    let Some(client) = core.clients.get_mut(client.0) else { return };
    let cluster = client.route.home.and_then(|home| core.pools.get(home.0)).and_then(|home| home.cluster_of.cluster);
    let Some(view) = cluster.and_then(|place| core.router.clusters.get(place)) else { return };
    let routing = view.routing();
    let splits = routing.splitting || client.route.role == Some(Role::Auto);
    let followed = match client.route.owed.consistency(routing) {
        Consistency::Off => routing.read_your_writes != Consistency::Off,
        Consistency::Session => splits,
        Consistency::Database => true,
    };
    if followed {
        client.route.owed.stamp = view.freshness().commit();
    }
}

/// Notes a new connection to a server: if that is a replica, it may have been restarted.
pub fn doubt_replay(core: &Core, server: &Server) {
    let Some((home, id)) = core.pools.get(server.pool.0).and_then(|pool| pool.cluster_of.home) else { return };
    let cluster = core.pools.get(home.0).and_then(|home| home.cluster_of.cluster);
    if let Some(view) = cluster.and_then(|place| core.router.clusters.get(place)) {
        view.freshness().doubt(id);
    }
}

/// Whether a client's read shall wait for a replica to replay the commits that it must see, rather than go to the
/// primary; if so, it waits from now on.
pub fn awaits_replay(core: &mut Core, key: ClientKey, place: usize, stamp: u64) -> bool {
    let bound = core.config.settings.read_your_writes_wait.0;
    let Some(view) = core.router.clusters.get(place) else { return false };
    let likely = view.freshness().delay().is_some_and(|delay| u128::from(delay) <= bound.as_millis());
    let Some(client) = core.clients.get_mut(key.0) else { return false };
    if stamp == NEVER || client.route.owed.until.is_none() && !likely {
        return false;
    }
    let until = *client.route.owed.until.get_or_insert(core.now + bound);
    if core.now >= until {
        return false;
    }
    view.freshness().want(core.shared.board.moment(until));
    core.router.replay_due = Some(core.router.replay_due.map_or(until, |due| due.min(until)));
    true
}
