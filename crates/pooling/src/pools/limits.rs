//! The limits that several pools share, `max_db_connections` and `max_user_connections`, and the choice of the
//! connection that is closed when a limit leaves no room.
//!
//! Each connection has a [`Permit`] from before it is opened: all workers together keep within the limits. If a limit
//! leaves a pool no room for a connection, the connection of another pool that has been idle longest is closed. If none
//! is idle because clients follow each other, a pool whose client has waited for [`STARVING`] queues for the limit
//! ([`crate::model::limits`]), and a pool that has more connections gives up the first of them that becomes free. No
//! connection is chosen before: a client may keep the chosen one for ever.

use std::time::Duration;

use crate::model::keys::{PoolKey, ServerKey, WorkerId};
use crate::model::limits::{Use, Waiter};
use crate::model::quota::{Limit, Quota};

use crate::permit::Permit;
use crate::pools::{close, waiting};
use crate::shared::Message;
use crate::state::pool::Pool;
use crate::state::server::{Server, State};
use crate::state::{Core, size};
use crate::sync::lock;

/// The time that a client waits before its pool gets a connection at the cost of a pool that has more.
const STARVING: Duration = Duration::from_secs(1);

/// The limit that keeps a pool from one more server connection.
pub fn limit_reached(core: &Core, pool: &Pool) -> Option<Limit> {
    let Quota { database: 0, user: 0 } = pool.limits.quota else {
        let names = (&*pool.name.database, &*pool.name.user);
        return lock(&core.shared.counts.servers).reached(core.id.0, names, pool.limits.quota, Use::Pool);
    };
    None
}

/// The limits under which a pool's connections are counted.
fn limits_of(pool: &Pool) -> impl Iterator<Item = Limit> {
    pool.limits.quota.limits(&pool.name.database, &pool.name.user).map(|(limit, _)| limit)
}

/// The number of connections that a limit allows; 0 for no limit.
pub fn most(core: &Core, limit: &Limit) -> usize {
    match limit {
        Limit::Database(database) => core.config.database_servers(database),
        Limit::User(user) => core.config.user_servers(user),
    }
}

fn is_reached(core: &Core, limit: &Limit) -> bool {
    let most = most(core, limit);
    most > 0 && lock(&core.shared.counts.servers).count(limit) >= most
}

fn covers(limit: &Limit, pool: &Pool) -> bool {
    limit.covers(&pool.name.database, &pool.name.user)
}

/// The limit that is exceeded by the connections that a pool shares it with: it was lowered.
pub fn limit_exceeded(core: &Core, pool: &Pool) -> Option<Limit> {
    lock(&core.shared.counts.servers).exceeded(&pool.name.database, &pool.name.user, pool.limits.quota)
}

fn is_exceeded(core: &Core, limit: &Limit) -> bool {
    let most = most(core, limit);
    most > 0 && lock(&core.shared.counts.servers).count(limit) > most
}

/// Whether a pool has fewer server connections than its size.
pub fn is_within_size(core: &Core, key: PoolKey) -> bool {
    core.pools.get(key).is_some_and(|pool| pool.connections.servers.len() < pool.limits.size)
}

fn take(core: &Core, pool: &Pool, what: Use) -> Result<Permit, Limit> {
    let names = (&*pool.name.database, &*pool.name.user);
    Permit::take(&core.shared.counts, core.id, names, pool.limits.quota, what)
}

/// A place for one more server connection of a pool, if the limits of its database and user leave room.
pub fn permit(core: &Core, key: PoolKey) -> Option<Permit> {
    let taken = take(core, core.pools.get(key)?, Use::Pool);
    taken.map_err(|limit| core.shared.library.leave_room(&limit)).ok()
}

/// Whether a connection that reads a catalog has one of the places that a pool lacks; it is being closed then.
pub fn catalog_makes_way(core: &Core, key: PoolKey) -> bool {
    let Some(pool) = core.pools.get(key) else { return false };
    let left = limits_of(pool).map(|limit| core.shared.library.leave_room(&limit));
    left.fold(false, |any, left| any | left)
}

/// A place for one more server connection of a pool for a waiting client, at the cost of idle connections in other
/// pools. None if there is no room.
pub fn make_room(core: &mut Core, key: PoolKey) -> Option<Permit> {
    make_room_for(core, key, Use::Pool)
}

/// A place for a connection beside the pool, at the cost of idle ones. None if there is no room.
pub fn make_room_apart(core: &mut Core, key: PoolKey, what: Use) -> Option<Permit> {
    loop {
        let pool = core.pools.get(key)?;
        match take(core, pool, what) {
            Ok(permit) => return Some(permit),
            // Another connection would have to serve clients, not only be closed.
            Err(_) if is_barred(core, pool, what) => return None,
            Err(_) => match pool.connections.idle.front().copied() {
                Some(idle) => close::close_server(
                    core,
                    idle,
                    "a connection for LISTEN or replication needs the place of this connection",
                ),
                None => return make_room_for(core, key, what),
            },
        }
    }
}

fn is_barred(core: &Core, pool: &Pool, what: Use) -> bool {
    let servers = lock(&core.shared.counts.servers);
    servers.bars(&pool.name.database, &pool.name.user, pool.limits.quota, what).is_some()
}

fn make_room_for(core: &mut Core, key: PoolKey, what: Use) -> Option<Permit> {
    loop {
        let limit = match take(core, core.pools.get(key)?, what) {
            Ok(permit) => return Some(permit),
            Err(limit) => limit,
        };
        let Some(idle) = longest_idle(core, &limit, Some(key)) else {
            ask_others(core, &limit);
            return None;
        };
        let why = reason(core, &limit);
        close::close_server(core, idle, &why);
    }
}

/// Asks the other workers that have connections under a limit for an idle one.
fn ask_others(core: &Core, limit: &Limit) {
    core.shared.library.leave_room(limit);
    let others = lock(&core.shared.counts.servers).others(core.id.0, limit);
    for other in others {
        core.shared.tell(WorkerId(other), Message::MakeRoom(limit.clone(), core.id));
    }
}

/// Closes an idle connection for a client of another worker, if the limit is still reached.
pub fn make_room_for_another(core: &mut Core, limit: Limit, asker: WorkerId) {
    if !is_reached(core, &limit) {
        return;
    }
    if let Some(idle) = longest_idle(core, &limit, None) {
        let why = reason(core, &limit);
        close::close_server(core, idle, &why);
        core.shared.tell(asker, Message::Room(limit));
    }
}

/// The connection that has been idle longest among those that a limit covers, in another pool than this.
fn longest_idle(core: &Core, limit: &Limit, apart: Option<PoolKey>) -> Option<ServerKey> {
    let may_go = |server: &Server| {
        matches!(server.state(), State::Idle)
            && Some(server.pool) != apart
            && core.pools.get(server.pool).is_some_and(|pool| covers(limit, pool))
    };
    let idle = core.servers.iter().filter(|(_, server)| may_go(server));
    idle.min_by_key(|(_, server)| server.life.state_since).map(|(key, _)| key)
}

/// Queues for the pools whose clients have waited for long, and has pipelined connections end where their places are
/// wanted: one would never be free if units always followed.
pub fn tick_limits(core: &mut Core) {
    let waiters = core.pools.values().filter_map(|pool| waiter(core, pool)).collect();
    lock(&core.shared.counts.servers).replace(core.id.0, waiters, core.now);
    let wanted = core.pools.keys();
    for key in wanted {
        let Some(pool) = core.pools.get_mut(key) else { continue };
        pool.connections.gave_way = false;
        if wanted_place(core, key).is_none() {
            continue;
        }
        let Some(pool) = core.pools.get(key) else { continue };
        // The next one is closed when this one's units take long.
        let units = |key: &ServerKey| {
            let pipeline = core.servers.get(*key).and_then(|server| server.pipeline());
            pipeline.filter(|pipeline| !pipeline.closed).map(|pipeline| (pipeline.units.len(), *key))
        };
        let least = pool.connections.pipelined.iter().filter_map(units).min_by_key(|(units, _)| *units);
        let least = least.and_then(|(_, key)| core.servers.get_mut(key));
        if let Some(pipeline) = least.and_then(|server| server.pipeline_mut()) {
            pipeline.closed = true;
        }
    }
}

/// A pool a client of which has waited too long, if only limits keep the pool from one more connection.
fn waiter(core: &Core, pool: &Pool) -> Option<Waiter> {
    if pool.limits.quota.is_unlimited() || pool.limits.paused {
        return None;
    }
    // Units that wait where the members of a cluster have their home wait for a server, and not for room.
    let since = if pool.is_cluster() { waiting::greets_since(core, pool) } else { waiting::waits_since(core, pool) }?;
    let retry = core.config.settings.server_login_retry.0;
    let may_open = |pool: &Pool| {
        let failure = pool.connections.failure.as_ref();
        !failure.is_some_and(|failure| failure.holds(core.now, retry))
            && pool.connections.servers.len() < size::most(core, pool)
    };
    let members = pool.cluster_of.members.iter().filter_map(|(_, member)| core.pools.get(*member));
    let (connecting, may_open) = if pool.is_cluster() {
        (members.clone().any(|member| member.connections.connecting > 0), members.clone().any(may_open))
    } else {
        (pool.connections.connecting > 0, may_open(pool))
    };
    if core.now.saturating_duration_since(since) < STARVING || connecting || !may_open {
        return None;
    }
    Some(Waiter {
        worker: core.id.0,
        database: (*pool.name.database).into(),
        user: (*pool.name.user).into(),
        quota: pool.limits.quota,
        since,
        has: taking_turns(core, pool),
    })
}

/// The number of a pool's connections that serve clients in turn: not those that a client has kept for long.
fn taking_turns(core: &Core, pool: &Pool) -> usize {
    let is_kept = |server: &Server| {
        matches!(server.state(), State::Active(_))
            && core.now.saturating_duration_since(server.life.state_since) >= STARVING
    };
    pool.connections.servers.iter().filter(|key| core.servers.get(**key).is_some_and(|server| !is_kept(server))).count()
}

/// The limit under which a pool is to give up a connection, and the worker of the pool that waits for its place.
fn wanted_place(core: &Core, key: PoolKey) -> Option<(Limit, WorkerId)> {
    let pool = core.pools.get(key).filter(|pool| !pool.limits.quota.is_unlimited())?;
    if let Some(limit) = limit_exceeded(core, pool) {
        return Some((limit, core.id));
    }
    let (names, has) = ((&*pool.name.database, &*pool.name.user), pool.connections.servers.len());
    let own = waiting::waits_since(core, pool);
    let wanted = lock(&core.shared.counts.servers).wanted(core.id.0, names, has, own);
    wanted.map(|(limit, worker)| (limit, WorkerId(worker)))
}

/// Whether a connection of this pool, which has become free, is to be closed, for a pool that waits or since a limit was
/// lowered: the limit, and the worker to be told. Between two ticks a pool gives up one for others: who waits takes it.
pub fn gives_way(core: &mut Core, key: PoolKey) -> Option<(Limit, WorkerId)> {
    core.pools.get(key).filter(|pool| !pool.connections.gave_way)?;
    let (limit, to) = wanted_place(core, key)?;
    let is_exceeded = is_exceeded(core, &limit);
    core.pools.get_mut(key)?.connections.gave_way = !is_exceeded;
    Some((limit, to))
}

/// The reason for which a connection is closed under a limit.
pub fn reason(core: &Core, limit: &Limit) -> String {
    let setting = limit.setting();
    match is_exceeded(core, limit) {
        true => format!("there are more connections than {setting}"),
        false => format!("a client of another pool waits for a connection ({setting})"),
    }
}
