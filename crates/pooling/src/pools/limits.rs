//! The limits that several pools share, `max_db_connections` and `max_user_connections`, and the choice of the
//! connection that is closed when a limit leaves no room.
//!
//! Each connection holds a [`Berth`] from before it is opened: all workers together keep within the limits. If a limit
//! leaves a pool no room for a connection, the connection of another pool that has been idle longest is closed. If none
//! is idle because clients follow each other, a client that has waited for [`STARVING`] is served nonetheless: the pools
//! that have more connections are *in debt*, and the first of their connections that becomes free is closed. No
//! connection is chosen before: a client may keep the chosen one for ever. Other workers that have connections under the
//! limit are asked likewise. The places that become free are kept for the client's pool by a [`Claim`].

use std::time::Duration;

use crate::model::claims::Claim;
use crate::model::keys::{PoolKey, ServerKey, WorkerId};
use crate::model::quota::{Limit, Quota};
use crate::model::tally::Use;

use crate::backend::close;
use crate::berth::Berth;
use crate::pools::{neighbours, size};
use crate::shared::Message;
use crate::state::Core;
use crate::state::pool::{Debt, Pool};
use crate::state::server::{Server, State};
use crate::sync::lock;

/// The time that a client waits before its pool gets a connection at the cost of a pool that has more.
const STARVING: Duration = Duration::from_secs(1);

/// The time after which a debt is forgotten, unless the client still starves.
const LAPSE: Duration = Duration::from_millis(500);

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
    let Quota { database, user } = pool.limits.quota;
    let database = (database > 0).then(|| Limit::Database((*pool.name.database).into()));
    database.into_iter().chain((user > 0).then(|| Limit::User((*pool.name.user).into())))
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
    limits_of(pool).find(|limit| is_exceeded(core, limit))
}

fn is_exceeded(core: &Core, limit: &Limit) -> bool {
    let most = most(core, limit);
    most > 0 && lock(&core.shared.counts.servers).count(limit) > most
}

/// Whether a pool has fewer server connections than its size.
pub fn is_within_size(core: &Core, key: PoolKey) -> bool {
    core.pools.get(key.0).is_some_and(|pool| pool.connections.servers.len() < pool.limits.size)
}

fn take(core: &Core, pool: &Pool, what: Use) -> Result<Berth, Limit> {
    let names = (&*pool.name.database, &*pool.name.user);
    Berth::take(&core.shared.counts, core.id, names, pool.limits.quota, what)
}

/// A place for one more server connection of a pool, if the limits of its database and user leave room.
pub fn berth(core: &Core, key: PoolKey) -> Option<Berth> {
    let taken = take(core, core.pools.get(key.0)?, Use::Pool);
    taken.map_err(|limit| core.shared.library.leave_room(&limit)).ok()
}

/// Whether a connection that reads a catalog has one of the places that a pool lacks; it is being closed then.
pub fn catalog_makes_way(core: &Core, key: PoolKey) -> bool {
    let Some(pool) = core.pools.get(key.0) else { return false };
    let left = limits_of(pool).map(|limit| core.shared.library.leave_room(&limit));
    left.fold(false, |any, left| any | left)
}

/// A place for one more server connection of a pool for a waiting client, at the cost of idle connections in other
/// pools. None if there is no room.
pub fn make_room(core: &mut Core, key: PoolKey) -> Option<Berth> {
    make_room_for(core, key, Use::Pool)
}

/// A place for a connection beside the pool, at the cost of idle ones. None if there is no room.
pub fn make_room_apart(core: &mut Core, key: PoolKey, what: Use) -> Option<Berth> {
    loop {
        let pool = core.pools.get(key.0)?;
        match take(core, pool, what) {
            Ok(berth) => return Some(berth),
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

fn make_room_for(core: &mut Core, key: PoolKey, what: Use) -> Option<Berth> {
    loop {
        let limit = match take(core, core.pools.get(key.0)?, what) {
            Ok(berth) => return Some(berth),
            Err(limit) => limit,
        };
        let Some(idle) = longest_idle(core, &limit, Some(key)) else {
            ask_others(core, &limit, None);
            return None;
        };
        let why = reason(core, &limit);
        close::close_server(core, idle, &why);
    }
}

/// Asks the other workers that have connections under a limit for room: for an idle connection, and for a client that
/// starves, for one of a pool that has more connections than its `fewer`.
fn ask_others(core: &Core, limit: &Limit, fewer: Option<usize>) {
    core.shared.library.leave_room(limit);
    let others = lock(&core.shared.counts.servers).others(core.id.0, limit);
    for other in others {
        core.shared.tell(WorkerId(other), Message::MakeRoom(limit.clone(), fewer, core.id));
    }
}

/// Makes room for a client of another worker, if the limit is still reached.
pub fn make_room_for_another(core: &mut Core, limit: Limit, fewer: Option<usize>, asker: WorkerId) {
    if !is_reached(core, &limit) {
        return;
    }
    if let Some(idle) = longest_idle(core, &limit, None) {
        let why = reason(core, &limit);
        close::close_server(core, idle, &why);
        core.shared.tell(asker, Message::Room(limit));
    } else if let Some(fewer) = fewer {
        put_in_debt(core, &limit, fewer, asker, None);
    }
}

/// The connection that has been idle longest among those that a limit covers, in another pool than this.
fn longest_idle(core: &Core, limit: &Limit, apart: Option<PoolKey>) -> Option<ServerKey> {
    let may_go = |server: &Server| {
        matches!(server.state(), State::Idle)
            && Some(server.pool) != apart
            && core.pools.get(server.pool.0).is_some_and(|pool| covers(limit, pool))
    };
    let idle = core.servers.iter().filter(|(_, server)| may_go(server));
    idle.min_by_key(|(_, server)| server.life.state_since).map(|(key, _)| ServerKey(key))
}

/// Puts pools in debt: those that exceed a limit which was lowered, and those that have more connections than a pool
/// whose clients have waited for long.
pub fn find_debtors(core: &mut Core) {
    let exceeded: Vec<Limit> = core.pools.iter().filter_map(|(_, pool)| limit_exceeded(core, pool)).collect();
    for limit in exceeded {
        put_in_debt(core, &limit, 0, core.id, None);
    }
    let starving: Vec<(PoolKey, Claim)> =
        core.pools.iter().filter_map(|(key, pool)| Some((PoolKey(key), claim(core, pool)?))).collect();
    let claims = starving.iter().map(|(_, claim)| claim.clone()).collect();
    lock(&core.shared.counts.servers).claims().replace(core.id.0, claims, neighbours::micros(core, core.now));
    for (key, claim) in starving {
        let Some(pool) = core.pools.get(key.0) else { continue };
        let names = (&*claim.database, &*claim.user);
        let stands = lock(&core.shared.counts.servers).claims().stands(core.id.0, names);
        let reached: Vec<Limit> = limits_of(pool).filter(|limit| stands && is_reached(core, limit)).collect();
        let fewer = taking_turns(core, pool);
        for limit in &reached {
            put_in_debt(core, limit, fewer, core.id, Some(key));
            ask_others(core, limit, Some(fewer));
        }
    }
}

/// The claim of a pool a client of which has waited too long, if only limits keep the pool from one more connection.
fn claim(core: &Core, pool: &Pool) -> Option<Claim> {
    // Units that wait where the members of a cluster have their home wait for a server, and not for room.
    let since =
        if pool.is_cluster() { neighbours::greets_since(core, pool) } else { neighbours::waits_since(core, pool) }?;
    let retry = core.config.settings.server_login_retry.0;
    let may_open = |pool: &Pool| {
        let failure = pool.connections.failure.as_ref();
        !failure.is_some_and(|failure| failure.holds(core.now, retry))
            && pool.connections.servers.len() < size::most(core, pool)
    };
    let members = pool.cluster_of.members.iter().filter_map(|(_, member)| core.pools.get(member.0));
    let (connecting, may_open) = if pool.is_cluster() {
        (members.clone().any(|member| member.connections.connecting > 0), members.clone().any(may_open))
    } else {
        (pool.connections.connecting > 0, may_open(pool))
    };
    let is_long = core.now.saturating_duration_since(since) >= STARVING;
    if !is_long || pool.limits.quota.is_unlimited() || pool.limits.paused || connecting || !may_open {
        return None;
    }
    // With its last place free, a limit is reached again as soon as another pool has a client.
    let is_short = |limit: &Limit| lock(&core.shared.counts.servers).count(limit) + 1 >= most(core, limit);
    let short: Vec<Limit> = limits_of(pool).filter(is_short).collect();
    (!short.is_empty()).then(|| Claim {
        since: neighbours::micros(core, since),
        database: (*pool.name.database).into(),
        user: (*pool.name.user).into(),
        of_database: short.iter().any(|limit| matches!(limit, Limit::Database(_))),
        of_user: short.iter().any(|limit| matches!(limit, Limit::User(_))),
    })
}

/// The number of a pool's connections that serve clients in turn: not those that a client has kept for long.
fn taking_turns(core: &Core, pool: &Pool) -> usize {
    let is_kept = |server: &Server| {
        matches!(server.state(), State::Active(_))
            && core.now.saturating_duration_since(server.life.state_since) >= STARVING
    };
    pool.connections.servers.iter().filter(|key| core.servers.get(key.0).is_some_and(|server| !is_kept(server))).count()
}

/// Puts the pools in debt, apart from this one, that a limit covers and that have more connections than a pool that starves
/// has taking turns. Only a connection that becomes free pays.
fn put_in_debt(core: &mut Core, limit: &Limit, fewer: usize, to: WorkerId, apart: Option<PoolKey>) {
    for (key, pool) in core.pools.iter_mut() {
        if !covers(limit, pool) || pool.connections.servers.len() <= fewer || apart == Some(PoolKey(key)) {
            continue;
        }
        pool.connections.debt = Some(Debt { limit: limit.clone(), to, until: core.now + LAPSE });
        // A pipelined connection would never be free if units always followed. The next one is closed when this one's
        // units take long.
        let servers = &core.servers;
        let units = |key: &ServerKey| {
            let pipeline = servers.get(key.0).and_then(|server| server.pipeline());
            pipeline.filter(|pipeline| !pipeline.closed).map(|pipeline| (pipeline.units.len(), *key))
        };
        let least = pool.connections.pipelined.iter().filter_map(units).min_by_key(|(units, _)| *units);
        let least = least.and_then(|(_, key)| core.servers.get_mut(key.0));
        if let Some(pipeline) = least.and_then(|server| server.pipeline_mut()) {
            pipeline.closed = true;
        }
    }
}

/// The debt that a connection of this pool, which has become free, is to pay: it pays that of all pools, so that those
/// that still starve afterwards are seen.
pub fn take_debt(core: &mut Core, key: PoolKey) -> Option<Debt> {
    let debt = core.pools.get_mut(key.0)?.connections.debt.take()?;
    let holds = debt.until >= core.now && is_reached(core, &debt.limit);
    for (_, pool) in core.pools.iter_mut() {
        pool.connections.debt.take_if(|other| other.limit == debt.limit);
    }
    holds.then_some(debt)
}

/// The reason for which a connection is closed under a limit.
pub fn reason(core: &Core, limit: &Limit) -> String {
    let setting = limit.setting();
    match is_exceeded(core, limit) {
        true => format!("there are more connections than {setting}"),
        false => format!("a client of another pool waits for a connection ({setting})"),
    }
}
