//! Pools by their names, and the sizes that the configuration gives them.

use std::rc::Rc;
use std::time::Instant;

use crate::model::keys::PoolKey;
use crate::model::quota::Quota;

use crate::catalog::hubless::Hubless;
use crate::common::PoolName;
use crate::monitor::ClusterView;
use crate::state::Core;
use crate::state::pool::Pool;

/// The pool of this database and user, made on first use. Clients of a database whose entry gives a user share that
/// user's pool ([`crate::config::Config::pool_user`]).
pub fn pool_of(core: &mut Core, database: &Rc<str>, user: &Rc<str>) -> PoolKey {
    let name = (database.clone(), user.clone());
    if let Some(&key) = core.pool_names.get(&name) {
        return key;
    }
    let common = PoolName { database: database.to_string(), user: user.to_string(), server: None };
    let common = core.shared.commons.join(common, core.id);
    let pool = Pool::new(database.clone(), user.clone(), common);
    let key = core.pools.insert(pool);
    core.pool_names.insert(name, key);
    size_pool(core, key);
    key
}

/// Gives a pool the sizes in the configuration.
pub fn size_pool(core: &mut Core, key: PoolKey) {
    let Some(pool) = core.pools.get_mut(key) else { return };
    let (config, settings) = (&core.config, &core.config.settings);
    let database = config.database(&pool.name.database);
    pool.limits.mode = config.pool_mode(&pool.name.database, &pool.name.user);
    pool.limits.pipelining = Pool::may_pipeline(pool.limits.mode, settings);
    let front = config.front_of(&pool.name.database);
    let share = |all| core.shared.assignment.share(core.id, front, all);
    let size = config.pool_size(&pool.name.database, &pool.name.user);
    // Clients that were here before the pool had fewer connections than workers are served by one.
    pool.limits.size = share(size).max(size.min(1));
    let minimum = database.and_then(|entry| entry.min_pool_size).unwrap_or(settings.min_pool_size);
    pool.limits.minimum = share(minimum).min(pool.limits.size);
    pool.limits.lifetime = database.and_then(|entry| entry.server_lifetime).unwrap_or(settings.server_lifetime).limit();
    pool.limits.reserve = share(config.reserve(&pool.name.database, &pool.name.user));
    pool.limits.quota =
        Quota { database: config.database_servers(&pool.name.database), user: config.user_servers(&pool.name.user) };
    pool.cluster_of.serializable = false;
    let shards = database.map(|entry| entry.shards.iter().map(|name| name.as_str().into()).collect());
    pool.cluster_of.shards = shards.unwrap_or_default();
    pool.cluster_of.multi_shard_writes = database.and_then(|entry| entry.multi_shard_writes).unwrap_or(false);
    pool.cluster_of.hubless = database.and_then(Hubless::of).map(Rc::new);
    pool.limits.paused = crate::pause::is_paused(&core.shared, &pool.name.database, &pool.name.user);
    let database = pool.name.database.clone();
    let cluster = cluster_behind(core, &database);
    if let Some(pool) = core.pools.get_mut(key) {
        pool.cluster_of.cluster = cluster;
    }
}

/// The number of connections that a pool may have now: its size, and the reserve if a client has waited for long.
pub fn most(core: &Core, pool: &Pool) -> usize {
    let first = pool.queue.waiting.front().and_then(|key| core.clients.get(*key));
    let oldest = first.and_then(|client| client.checkout.waits());
    let long =
        |since: Instant| core.now.saturating_duration_since(since) >= core.config.settings.reserve_pool_timeout.0;
    pool.limits.size + if oldest.is_some_and(long) { pool.limits.reserve } else { 0 }
}

/// The pool of this name on this worker.
pub fn pool_named(core: &Core, name: &PoolName) -> Option<PoolKey> {
    let key = core.pool_names.get(&(name.database.as_str().into(), name.user.as_str().into())).copied()?;
    match name.server {
        None => Some(key),
        Some(server) => {
            let members = &core.pools.get(key)?.cluster_of.members;
            members.iter().find(|(id, _)| *id == server).map(|(_, member)| *member)
        }
    }
}

/// The cluster behind a pool of clients, by its place among the worker's views.
fn cluster_behind(core: &mut Core, database: &str) -> Option<usize> {
    let name = core.config.cluster_of(database)?;
    if let Some(place) = core.router.clusters.iter().position(|view| view.name() == name) {
        return Some(place);
    }
    let seed = (core.id.0 as u64).wrapping_mul(0x9e37_79b9).wrapping_add(core.router.clusters.len() as u64);
    let view = ClusterView::new(&core.shared.board, name, seed)?;
    core.router.clusters.push(view);
    Some(core.router.clusters.len() - 1)
}
