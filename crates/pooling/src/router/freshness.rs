//! The commits of a session that its reads must see.

use std::time::{Duration, Instant};

use crate::model::keys::PoolKey;
use crate::model::slots::Slots;
use classify::{Consistency, Role};
use wire::backend::Status;

use crate::monitor::ClusterView;
use crate::monitor::replay::NEVER;
use crate::router::members::place_of;
use crate::state::client::Client;
use crate::state::pool::Pool;
use crate::state::server::Server;
use crate::state::{Core, Router};

/// Notes the end of a client's unit on its connection: from now on the client's reads must see the commits of the unit.
/// The client has not got its answer yet.
pub fn note_commit(server: &mut Server, client: &mut Client, pools: &Slots<PoolKey, Pool>, router: &Router) {
    // A server says before the end of a unit that it is no standby any more.
    if has_written(server, client) && server.known.standby != Some(true) {
        owe(client, pools, router);
    }
}

/// Notes that a connection is lost: the unit under way may have committed, also on a server that was a standby when it was
/// last heard of.
pub fn note_loss(server: &mut Server, client: &mut Client, pools: &Slots<PoolKey, Pool>, router: &Router) {
    if has_written(server, client) {
        owe(client, pools, router);
    }
}

/// Whether what has ended on a connection may have written.
fn has_written(server: &mut Server, client: &Client) -> bool {
    let wrote = client.route.owed.writes || server.exchange.writes;
    // Units under way behind it may write too, and writes in an open transaction are not committed yet.
    server.exchange.writes &= !server.exchange.requests.is_empty() || server.status != Status::Idle;
    wrote
}

/// Notes that a unit of a client may have committed; the client has not got the answer.
pub fn owe(client: &mut Client, pools: &Slots<PoolKey, Pool>, router: &Router) {
    let cluster = client.route.serving().and_then(|home| pools.get(home)).and_then(|home| home.cluster_of.cluster);
    let Some(view) = cluster.and_then(|place| router.clusters.get(place)) else { return };
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
    if let Some((id, view)) = place_of(&core.pools, &core.router, server.pool) {
        view.freshness().doubt(id);
    }
}

/// The time until which a client's read shall wait for a replica to replay the commits that it must see, at most `bound`
/// from now; none if it shall rather go to the primary.
pub fn awaits_replay(
    client: &mut Client,
    view: &ClusterView,
    stamp: u64,
    now: Instant,
    bound: Duration,
) -> Option<Instant> {
    let likely = view.freshness().delay().is_some_and(|delay| u128::from(delay) <= bound.as_millis());
    if stamp == NEVER || client.route.owed.until.is_none() && !likely {
        return None;
    }
    Some(*client.route.owed.until.get_or_insert(now + bound)).filter(|until| now < *until)
}
