//! The counts of a worker, for the threads that ask for them.

use crate::admin::pools;
use crate::metrics::measured::Measured;
use crate::state::Core;

/// The counts of this worker.
pub fn measure(core: &Core) -> Measured {
    let stats = core.pools.iter().map(|(_, pool)| pool.counts.stats.clone());
    Measured {
        pools: pools::pools_seen(core).into_iter().zip(stats).collect(),
        errors: core.lifecycle.errors.clone(),
        login_clients: core.clients.iter().filter(|(_, client)| client.is_logging_in()).count(),
    }
}
