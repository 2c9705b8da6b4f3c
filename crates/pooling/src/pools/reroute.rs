//! Waiting clients that choose a server again because theirs has failed or the cluster has changed.

use crate::model::keys::{ClientKey, PoolKey};
use crate::model::turn::Turn;

use crate::monitor::Refreshed;
use crate::pools::{checkout, close, welcome};
use crate::router::members;
use crate::state::client::Client;
use crate::state::pool::Pool;
use crate::state::{Core, turns};

/// Lets the clients that wait in a pool choose again: those of a member because its server cannot serve them, those of
/// a home because another server may. Those that go to another pool go there.
pub fn reroute(core: &mut Core, key: PoolKey) {
    let Some(pool) = core.pools.get_mut(key) else { return };
    let waiting = std::mem::take(&mut pool.queue.waiting);
    let sharing = std::mem::take(&mut pool.queue.sharing);
    let (home, id) = pool.cluster_of.home.map_or((key, None), |(home, id)| (home, Some(id)));
    for key in waiting.into_iter().chain(sharing) {
        let Some(client) = core.clients.get_mut(key) else { continue };
        let Some(since) = client.checkout.stop_waiting() else { continue };
        client.route.waiting_since = Some(since);
        client.checkout.needs_own = false;
        if let Some(id) = id {
            client.route.tried.add(id);
        }
        client.route.pool = Some(home);
        if client.is_ready() {
            core.schedule.give_turn(Turn::Client(key));
        } else {
            // The client waits for its password to be looked up.
            checkout::acquire(core, key, false);
        }
    }
    welcome::welcome_from_a_member(core, home);
}

/// Lets clients choose again that wait in a member for a write: its server may have been the primary.
fn reroute_writes(core: &mut Core, member: PoolKey) {
    reroute_some(core, member, |client| client.route.owed.writes);
}

/// Lets clients choose again that wait in a member for a read whose commits its server may not show by now: it may have
/// been restarted since it was chosen.
pub fn reroute_doubtful(core: &mut Core, member: PoolKey) {
    let Some((id, view)) = members::place_of(&core.pools, &core.router, member) else { return };
    if view.view().primary() != Some(id) {
        let freshness = view.freshness().clone();
        reroute_some(core, member, |client| !freshness.covers(id, client.route.owed.sees));
    }
}

/// Lets clients of this kind choose again that wait in a member and have been greeted.
pub fn reroute_some(core: &mut Core, member: PoolKey, kind: impl Fn(&Client) -> bool) {
    let Some(pool) = core.pools.get_mut(member) else { return };
    let clients = &core.clients;
    let goes = |key: &ClientKey| clients.get(*key).is_some_and(|client| client.is_ready() && kind(client));
    let (waiting, stay) = std::mem::take(&mut pool.queue.waiting).into_iter().partition(goes);
    let (sharing, share) = std::mem::take(&mut pool.queue.sharing).into_iter().partition(goes);
    (pool.queue.waiting, pool.queue.sharing) = (waiting, sharing);
    reroute(core, member);
    if let Some(pool) = core.pools.get_mut(member) {
        (pool.queue.waiting, pool.queue.sharing) = (stay, share);
    }
}

/// Takes over the monitor's posts.
pub fn look_at_clusters(core: &mut Core) {
    for place in 0..core.router.clusters.len() {
        let Some(view) = core.router.clusters.get_mut(place) else { return };
        if view.refresh(&core.shared.board) != Refreshed::Changed {
            continue;
        }
        let is_home = |pool: &Pool| pool.cluster_of.cluster == Some(place) && pool.cluster_of.home.is_none();
        for home in core.pools.keys_of(is_home) {
            regroup(core, home, place);
        }
    }
}

/// Brings the members of a home in line with a new view.
fn regroup(core: &mut Core, home: PoolKey, place: usize) {
    let members = core.pools.get(home).map(|pool| pool.cluster_of.members.clone()).unwrap_or_default();
    for (id, member) in members {
        let Some(view) = core.router.clusters.get(place) else { return };
        let listed = view.view().server(id).is_some();
        let standing = view.view().server(id).map_or("gone", |server| server.standing.word());
        let keeps = view.view().keeps(id);
        let wanted = listed && keeps && view.view().serves(id);
        let Some(pool) = core.pools.get_mut(member) else { continue };
        if wanted {
            // A lifted ban, since others are no better, is no news about the server.
            if pool.connections.standing.replace(standing) != Some(standing) {
                pool.connections.failure = None;
                reroute_writes(core, member);
            }
            continue;
        }
        pool.connections.standing = None;
        let servers = pool.connections.servers.clone();
        reroute(core, member);
        if !keeps {
            // The answers to statements under way there would not come, or their effects not last.
            for server in servers {
                turns::doom(core, server, &format!("the server is {standing}"));
            }
        } else if !listed {
            close::retire(core, &servers);
        }
    }
    reroute(core, home);
}

/// Lets clients try again that found no server: the monitor may have posted nothing since.
pub fn tick_clusters(core: &mut Core) {
    let waits = |pool: &Pool| pool.is_cluster() && !(pool.queue.waiting.is_empty() && pool.queue.greeting.is_empty());
    for home in core.pools.keys_of(waits) {
        reroute(core, home);
    }
}

/// Lets reads that wait for replicas choose again when a replica has come nearer, or they have waited long enough.
pub fn look_at_replay(core: &mut Core) {
    let due = core.router.replay_due.is_some_and(|due| core.now >= due);
    if due || std::mem::take(&mut core.router.replayed) {
        core.router.replay_due = None;
        tick_clusters(core);
    }
}
