//! The pools of the servers of a cluster.

use std::time::Duration;

use crate::model::keys::PoolKey;
use crate::model::slots::Slots;
use balancer::ServerId;

use crate::common::PoolName;
use crate::monitor::{ClusterView, Incident};
use crate::state::pool::Pool;
use crate::state::server::Server;
use crate::state::{Core, Router, size};

/// The pool of the server for writes; none while there is no primary.
pub fn primary_pool(core: &mut Core, home: PoolKey) -> Option<PoolKey> {
    if !is_cluster(core, home) {
        return Some(home);
    }
    let place = core.pools.get(home)?.cluster_of.cluster?;
    let primary = core.router.clusters.get(place)?.view().primary()?;
    member(core, home, primary)
}

/// The time for which a server to which no connection could be made is left out, unless the monitor says more before.
pub const SHUN: Duration = Duration::from_secs(1);

/// Parameters by which a session shows whether it may write: their values for a client are the primary's.
pub const ACCESS: [&str; 3] = ["in_hot_standby", "default_transaction_read_only", "transaction_read_only"];

/// The pool of one server, made on first use.
pub fn member(core: &mut Core, home: PoolKey, id: ServerId) -> Option<PoolKey> {
    let pool = core.pools.get(home)?;
    if let Some(&(_, key)) = pool.cluster_of.members.iter().find(|(member, _)| *member == id) {
        return Some(key);
    }
    let name =
        PoolName { database: pool.name.database.to_string(), user: pool.name.user.to_string(), server: Some(id) };
    let common = core.shared.commons.join(name, core.id);
    let mut made = Pool::new(pool.name.database.clone(), pool.name.user.clone(), common);
    made.cluster_of.home = Some((home, id));
    let key = core.pools.insert(made);
    size::size_pool(core, key);
    core.pools.get_mut(home)?.cluster_of.members.push((id, key));
    Some(key)
}

/// The home of a pool: itself if there is one server only.
pub fn home_of(pools: &Slots<PoolKey, Pool>, key: PoolKey) -> PoolKey {
    pools.get(key).and_then(|pool| pool.cluster_of.home).map_or(key, |(home, _)| home)
}

/// Whether a pool has clients only: their units go down connections of its members.
pub fn is_cluster(core: &Core, key: PoolKey) -> bool {
    core.pools.get(key).is_some_and(Pool::is_cluster)
}

/// The server of a cluster that a pool leads to, and the cluster's view.
pub fn place_of<'a>(
    pools: &Slots<PoolKey, Pool>,
    router: &'a Router,
    member: PoolKey,
) -> Option<(ServerId, &'a ClusterView)> {
    let (home, id) = pools.get(member)?.cluster_of.home?;
    let view = router.clusters.get(pools.get(home)?.cluster_of.cluster?)?;
    Some((id, view))
}

/// Whether a server must not be written to, but might allow it: it is no standby, or does not report that it is one.
pub fn is_only_read(server: &Server, pools: &Slots<PoolKey, Pool>, router: &Router) -> bool {
    let listed = place_of(pools, router, server.pool).and_then(|(id, view)| view.view().server(id));
    listed.is_some_and(|listed| listed.only_read) && server.known.standby != Some(true)
}

/// Whether the server of a pool is taken for the primary of its cluster.
pub fn is_primary(core: &Core, member: PoolKey) -> bool {
    place_of(&core.pools, &core.router, member).is_some_and(|(id, view)| view.view().primary() == Some(id))
}

/// Reports to the monitor what was met on the server of a pool.
pub fn met(core: &Core, pool: PoolKey, met: Incident) {
    if let Some((id, view)) = place_of(&core.pools, &core.router, pool) {
        core.shared.met(view.name(), id, met, core.now);
    }
}
