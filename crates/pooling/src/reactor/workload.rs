//! The workload of a worker, by database, from which other workers decide whether to take over a part of it.

use std::collections::BTreeMap;

use crate::homes::CONSOLE;
use crate::model::workload::Workload;
use crate::state::Core;

/// Reports how busy this worker has been since its last report. The first worker then lets databases have more workers
/// or fewer.
pub fn tell_workload(core: &mut Core) {
    let mut statements: BTreeMap<String, u64> = BTreeMap::new();
    for (_, pool) in core.pools.iter() {
        *statements.entry(pool.name.database.to_string()).or_default() += pool.counts.totals.queries;
    }
    let since = |(name, now): (&String, &u64)| {
        let before = core.lifecycle.workload.statements.get(name).copied().unwrap_or(0);
        (name.clone(), now.saturating_sub(before))
    };
    let fresh: BTreeMap<String, u64> = statements.iter().map(since).collect();
    let (now, used) = (core.now, core.shared.outside.processor_time());
    let busy = core.lifecycle.workload.at.map_or(0.0, |(then, before)| {
        let passed = now.saturating_duration_since(then).as_secs_f64();
        used.saturating_sub(before).as_secs_f64() / passed.max(f64::EPSILON)
    });
    core.lifecycle.workload = Workload { at: Some((now, used)), statements };
    core.shared.homes.report(core.id, busy, &fresh);
    if core.id == CONSOLE {
        for (database, workers) in core.shared.homes.decide() {
            crate::info!("database {database} is served by {workers} workers now");
        }
    }
}
