//! The pools of a worker as plain values.

use std::collections::HashMap;

use crate::admin::seen::{Part, PoolSeen};
use crate::metrics::server_name;
use crate::pools::checks;
use crate::state::Core;
use crate::state::pool::Pool;

/// The pools of this worker, in the order of their keys.
pub fn pools_seen(core: &Core) -> Vec<PoolSeen> {
    let mut places = HashMap::new();
    let mut pools: Vec<PoolSeen> = Vec::with_capacity(core.pools.len());
    for (key, pool) in core.pools.iter() {
        places.insert(key, pools.len());
        pools.push(pool_seen(core, pool));
    }
    for client in core.clients.values() {
        if let Some(pool) = client.route.home.and_then(|home| places.get(&home)).and_then(|&place| pools.get_mut(place))
        {
            pool.count_client(client, core.now);
        }
    }
    for server in core.servers.values() {
        if let Some(pool) = places.get(&server.pool).and_then(|&place| pools.get_mut(place)) {
            pool.count_server(server, checks::is_to_be_checked(core, server));
        }
    }
    pools
}

/// A pool, without its clients and server connections.
fn pool_seen(core: &Core, pool: &Pool) -> PoolSeen {
    let part = match pool.cluster_of.home {
        Some(_) => Part::Server(server_of(core, pool)),
        None if pool.cluster_of.cluster.is_some() => Part::Clients,
        None => Part::Whole,
    };
    // Connections are made in the pools of the servers.
    let (database, user) = (&*pool.name.database, &*pool.name.user);
    let sizes = match part {
        Part::Clients => (0, 0),
        _ if pool.name.unproven => (pool.limits.size, 0),
        _ => (core.config.pool_size(database, user), core.config.reserve(database, user)),
    };
    PoolSeen {
        database: pool.name.database.to_string(),
        user: pool.name.user.to_string(),
        part,
        mode: match pool.limits.mode {
            crate::config::PoolMode::Session => "session",
            crate::config::PoolMode::Transaction => "transaction",
            crate::config::PoolMode::Statement => "statement",
        },
        size: sizes.0,
        reserve: sizes.1,
        failure: pool.connections.failure.as_ref().map(|failure| failure.cause.why.clone()),
        totals: pool.counts.totals,
        period: pool.counts.periods[1].since(&pool.counts.periods[0]),
        paused: pool.limits.paused,
        statements: pool.statements.ids().collect(),
        ..PoolSeen::default()
    }
}

/// The server that a pool of one of several servers leads to.
fn server_of(core: &Core, pool: &Pool) -> String {
    let listed = pool.cluster_of.home.and_then(|(home, id)| {
        let view = core.router.clusters.get(core.pools.get(home)?.cluster_of.cluster?)?;
        view.view().server(id)
    });
    match listed {
        Some(server) => server_name(&server.host, server.port),
        // The server has left the configuration: its open connections show the address.
        None => pool.counts.stats.servers().first().map(|server| server.name()).unwrap_or_default(),
    }
}
