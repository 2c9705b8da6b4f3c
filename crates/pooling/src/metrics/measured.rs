use std::collections::BTreeMap;

use crate::admin::seen::PoolSeen;
use crate::error::Blame;
use crate::metrics::stats::Stats;

/// What one worker has counted.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// Its pools, and what each has counted.
    pub pools: Vec<(PoolSeen, Stats)>,
    /// Errors that the pooler itself told clients, by SQLSTATE and by whose fault they are.
    pub errors: BTreeMap<(String, Blame), u64>,
    /// Clients that are logging in.
    pub login_clients: usize,
}
