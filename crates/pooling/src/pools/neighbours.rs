//! The messages of a worker to the others that serve the same pool.

use std::time::{Duration, Instant};

use crate::model::Micros;
use crate::model::keys::{PoolKey, WorkerId};
use wire::backend::Status;

use crate::common::PoolName;
use crate::shared::Message;
use crate::state::Core;
use crate::state::pool::Pool;
use crate::state::server::{Residue, Server, State};

/// The number of connections that waiting clients need, beside those that will soon be free.
pub fn waiting_for_more(core: &Core, key: PoolKey) -> usize {
    let Some(pool) = core.pools.get(key.0) else { return 0 };
    // However many clients wait to share, one more connection is enough for now.
    let sharing = usize::from(!pool.queue.sharing.is_empty());
    let waiting = pool.queue.waiting.len()
        + sharing
        + usize::from(!pool.queue.greeting.is_empty() && pool.greetings.welcome.is_none());
    if waiting == 0 { 0 } else { waiting.saturating_sub(soon_free(core, key)) }
}

/// Whether a connection that is free may be handed over.
pub fn may_travel(server: &Server) -> bool {
    matches!(server.state(), State::Idle)
        && server.exchange.requests.is_empty()
        && server.status == Status::Idle
        && server.known.residue == Residue::Nothing
        && server.known.definition.is_none()
        && server.cancels.under_way == 0
        && !server.cancels.suspect
        && !server.life.retire
        && !server.life.suspended
        && server.life.doomed.is_none()
        && server.io.rest.is_empty()
        && server.io.pending() == 0
        && !server.io.hangup
}

/// A moment as all workers count it.
pub fn micros(core: &Core, moment: Instant) -> Micros {
    let since = moment.saturating_duration_since(core.shared.started);
    Micros(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

/// The time since when a client waits for a connection of this pool, as all workers count it.
pub fn hunger(core: &Core, pool: &Pool) -> Option<Micros> {
    waits_since(core, pool).filter(|_| !pool.limits.paused).map(|since| micros(core, since))
}

/// Lets another worker open a connection in the place of one that was closed.
pub fn pass_room_on(core: &Core, key: PoolKey) {
    let Some(pool) = core.pools.get(key.0).filter(|pool| pool.common.is_shared()) else { return };
    if let Some(other) = pool.common.in_need(pool.limits.size) {
        tell_member(core, key, other, Message::Wanted);
    }
}

/// Gets clients that have waited long a connection of another worker's that never becomes free.
pub fn claim_share(core: &Core, key: PoolKey) {
    let Some(pool) = core.pools.get(key.0).filter(|pool| pool.common.is_shared()) else { return };
    let stall = core.config.settings.pipeline_stall.0;
    let long = |since: Instant| core.now.saturating_duration_since(since) >= stall;
    if waits_since(core, pool).is_some_and(long)
        && let Some(debtor) = pool.common.creditor(pool.limits.size)
    {
        tell_member(core, key, debtor, Message::Wanted);
    }
}

/// Sends a message to another worker that has the same pool.
pub fn tell_member(core: &Core, key: PoolKey, worker: WorkerId, message: fn(Box<PoolName>) -> Message) {
    if let Some(pool) = core.pools.get(key.0) {
        core.shared.tell(worker, message(Box::new(pool.common.name().clone())));
    }
}

/// Notes whether the pool must give up a connection, though none becomes free.
pub fn look_at_debt(core: &mut Core, key: PoolKey) {
    if let Some(pool) = core.pools.get_mut(key.0) {
        pool.connections.owes = pool.common.is_shared() && pool.common.owes(pool.limits.size);
    }
}

/// The pools that wait for a connection and share a limit with this one, the one that has waited longest first.
pub fn kept_waiting_by(core: &Core, key: PoolKey) -> Vec<(PoolKey, Instant)> {
    let Some(pool) = core.pools.get(key.0).filter(|pool| !pool.limits.quota.is_unlimited()) else { return Vec::new() };
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
        pools.filter_map(|(key, pool)| Some((PoolKey(key), waits_since(core, pool)?))).collect();
    waiting.sort_by_key(|(_, since)| *since);
    waiting
}

/// The time since when a client waits for a connection of this pool.
pub fn waits_since(core: &Core, pool: &Pool) -> Option<Instant> {
    pool.oldest(&core.clients).into_iter().chain(greets_since(core, pool)).min()
}

/// The time since when a client waits to be greeted for a first connection of this pool, or of one of its members.
pub fn greets_since(core: &Core, pool: &Pool) -> Option<Instant> {
    let first = pool.queue.greeting.first().and_then(|key| core.clients.get(key.0));
    first.map(|client| client.identity.since)
}

/// The time after which waiting clients do not count on a check or reset any more.
const PATIENCE: Duration = Duration::from_secs(1);

/// Connections of a pool that will soon be free: they are being checked or reset.
fn soon_free(core: &Core, key: PoolKey) -> usize {
    let Some(pool) = core.pools.get(key.0) else { return 0 };
    let soon = |server: &Server| {
        matches!(server.state(), State::Preparing(_))
            && server.cancels.under_way == 0
            && core.now.saturating_duration_since(server.life.state_since) < PATIENCE
    };
    pool.connections.servers.iter().filter(|key| core.servers.get(key.0).is_some_and(soon)).count()
}
