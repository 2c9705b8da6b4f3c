use std::collections::BTreeMap;

use crate::admin::seen::PoolSeen;
use crate::error::Blame;
use crate::metrics::Stats;
use crate::metrics::shapes::Shape;

/// The counts of one worker.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// The pools of the worker, and the counts of each.
    pub pools: Vec<(PoolSeen, Stats)>,
    /// The pooler's own errors that clients were sent, by SQLSTATE and by blame.
    pub errors: BTreeMap<(String, Blame), u64>,
    /// The statements of databases with shards, by database, where they went, and by which rule.
    pub routes: BTreeMap<(String, &'static str, &'static str), u64>,
    /// Clients that are logging in.
    pub login_clients: usize,
    /// The counts of statements by shape.
    pub shapes: Vec<Shape>,
}
