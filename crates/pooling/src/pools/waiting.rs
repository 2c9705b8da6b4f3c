//! The pools that wait for a connection, and the pools beside them under a limit.

use std::time::{Duration, Instant};

use crate::model::keys::PoolKey;

use crate::state::Core;
use crate::state::pool::Pool;
use crate::state::server::{Server, State};

/// The number of connections that waiting clients need, beside those that will soon be free.
pub fn waiting_for_more(core: &Core, key: PoolKey) -> usize {
    let Some(pool) = core.pools.get(key) else { return 0 };
    // However many clients wait to share, one more connection is enough for now.
    let sharing = usize::from(!pool.queue.sharing.is_empty());
    let waiting = pool.queue.waiting.len()
        + sharing
        + usize::from(!pool.queue.greeting.is_empty() && pool.greetings.welcome.is_none());
    if waiting == 0 { 0 } else { waiting.saturating_sub(soon_free(core, key)) }
}

/// The pools that wait for a connection and share a limit with this one, the one that has waited longest first.
pub fn kept_waiting_by(core: &Core, key: PoolKey) -> Vec<(PoolKey, Instant)> {
    let Some(pool) = core.pools.get(key).filter(|pool| !pool.limits.quota.is_unlimited()) else { return Vec::new() };
    let shares = |other: &Pool| {
        pool.limits.quota.database > 0 && other.name.database == pool.name.database
            || pool.limits.quota.user > 0 && other.name.user == pool.name.user
    };
    let mut waiting = waiting(core, shares);
    waiting.retain(|(other, _)| *other != key);
    waiting
}

/// Those of these pools that wait for a connection, the one that has waited longest first.
pub fn waiting(core: &Core, of: impl Fn(&Pool) -> bool) -> Vec<(PoolKey, Instant)> {
    let pools = core.pools.iter().filter(|(_, pool)| !pool.limits.paused && of(pool));
    let mut waiting: Vec<(PoolKey, Instant)> =
        pools.filter_map(|(key, pool)| Some((key, waits_since(core, pool)?))).collect();
    waiting.sort_by_key(|(_, since)| *since);
    waiting
}

/// The time since when a client waits for a connection of this pool.
pub fn waits_since(core: &Core, pool: &Pool) -> Option<Instant> {
    pool.oldest(&core.clients).into_iter().chain(greets_since(core, pool)).min()
}

/// The time since when a client waits to be greeted for a first connection of this pool, or of one of its members.
pub fn greets_since(core: &Core, pool: &Pool) -> Option<Instant> {
    let first = pool.queue.greeting.first().and_then(|key| core.clients.get(*key));
    first.map(|client| client.identity.since)
}

/// The time after which waiting clients do not count on a check or reset any more.
const PATIENCE: Duration = Duration::from_secs(1);

/// Connections of a pool that will soon be free: they are being checked or reset.
fn soon_free(core: &Core, key: PoolKey) -> usize {
    let Some(pool) = core.pools.get(key) else { return 0 };
    let soon = |server: &Server| {
        matches!(server.state(), State::Preparing(_))
            && server.cancels.under_way == 0
            && core.now.saturating_duration_since(server.life.state_since) < PATIENCE
    };
    pool.connections.servers.iter().filter(|key| core.servers.get(**key).is_some_and(soon)).count()
}
