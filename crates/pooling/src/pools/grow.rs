//! The number of further connections that a pool opens.

use crate::model::keys::PoolKey;
use crate::model::quota::Limit;
use crate::model::turn::After;

use crate::pools::{connect, limits, waiting, welcome};
use crate::router::members;
use crate::state::{Core, size};

/// Opens connections for waiting clients, as far as the limits allow.
pub fn grow(core: &mut Core, key: PoolKey) {
    if members::is_cluster(core, key) {
        return welcome::welcome_from_a_member(core, key);
    }
    let Some(pool) = core.pools.get(key) else { return };
    let settings = &core.config.settings;
    if pool.limits.paused {
        return;
    }
    let failure = pool.connections.failure.as_ref().filter(|_| pool.cluster_of.home.is_none());
    let (down, retry) = (failure.is_some(), settings.server_login_retry.0);
    if failure.is_some_and(|failure| failure.holds(core.now, retry)) {
        if let Some(error) = pool.why_down(core.now, retry) {
            core.schedule.later(After::Refuse(key, Box::new(error)));
        }
        return;
    }
    let limit = size::most(core, pool);
    let mut wanted = waiting::waiting_for_more(core, key).saturating_sub(pool.connections.connecting);
    // A waiting client goes before idle connections of other pools; filling a pool up does not.
    let needed = wanted;
    if pool.queue.clients > 0 || pool.limits.kept {
        wanted = wanted.max(pool.limits.minimum.saturating_sub(pool.connections.servers.len()));
    }
    // One attempt shows as well as many whether a server is back.
    if down {
        wanted = wanted.min(1_usize.saturating_sub(pool.connections.connecting));
    }
    for number in 0..wanted {
        if core.pools.get(key).is_none_or(|pool| pool.connections.servers.len() >= limit) {
            break;
        }
        let permit = if number < needed { limits::make_room(core, key) } else { limits::permit(core, key) };
        let Some(permit) = permit else { break };
        if !connect::connect(core, key, permit) {
            break;
        }
    }
}

/// Opens connections for the clients that a limit has kept waiting, the one that has waited longest first.
pub fn grow_under(core: &mut Core, limit: &Limit) {
    for (key, _) in waiting::waiting(core, |pool| limit.covers(&pool.name.database, &pool.name.user)) {
        grow(core, key);
    }
}

/// Opens one more connection, for a pipelined connection, if no limit and no failure forbids it.
pub fn grow_by_one(core: &mut Core, key: PoolKey) {
    let failing = core.pools.get(key).is_none_or(|pool| {
        let failure = pool.connections.failure.as_ref();
        failure.is_some_and(|failure| failure.holds(core.now, core.config.settings.server_login_retry.0))
    });
    if !failing
        && limits::is_within_size(core, key)
        && let Some(permit) = limits::permit(core, key)
    {
        connect::connect(core, key, permit);
    }
}
