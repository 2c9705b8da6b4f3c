//! The counts of a worker, for the threads that ask for them.

use std::time::Instant;

use crate::admin::measured::Measured;
use crate::admin::pools;
use crate::metrics::shapes::Shape;
use crate::model::fingerprint::NotPipelined;
use crate::model::keys::PoolKey;
use crate::state::Core;

/// The counts of this worker.
pub fn measure(core: &Core) -> Measured {
    let stats = core.pools.iter().map(|(_, pool)| pool.counts.stats.clone());
    Measured {
        pools: pools::pools_seen(core).into_iter().zip(stats).collect(),
        errors: core.lifecycle.errors.clone(),
        routes: core
            .lifecycle
            .routes
            .iter()
            .map(|((name, to, by), count)| ((name.to_string(), *to, *by), *count))
            .collect(),
        login_clients: core.clients.values().filter(|client| client.is_logging_in()).count(),
        shapes: shapes(core),
    }
}

/// The counts by shape of this worker.
pub fn shapes(core: &Core) -> Vec<Shape> {
    let now = core.now;
    let seen = |(pool, shape): (PoolKey, &Shape)| Shape { why: why(core, pool, shape, now), ..shape.clone() };
    core.lifecycle.shapes.iter().map(seen).collect()
}

/// Why a statement of a shape would not be pipelined now: only that, which its session alone does not keep from it.
fn why(core: &Core, pool: PoolKey, shape: &Shape, now: Instant) -> Option<&'static str> {
    if !core.pools.get(pool).is_some_and(|pool| pool.limits.pipelining) {
        return Some("off");
    }
    let Some(key) = shape.key else { return Some(NotPipelined::Text.name()) };
    let fingerprint = core.router.fingerprints.get(shape.database.as_str())?.of_key(key)?;
    fingerprint.way(now).unwrap_or_else(Some).map(NotPipelined::name)
}
