//! Units at the head of a pipelined connection that take long: those behind them are retried elsewhere.

use std::time::Instant;

use crate::model::fingerprint::SLOW;
use crate::model::keys::ServerKey;
use crate::model::pipeline::Pipeline;

use crate::backend::cancel;
use crate::pools::retry;
use crate::state::Core;

/// Looks for units at the head that take long, to be answered or to be read: the units behind them are retried
/// elsewhere, and a head without a client is stopped.
pub fn look_for_stalls(core: &mut Core) {
    let Some(bound) = core.config.settings.pipeline_stall.limit() else { return };
    let now = core.now;
    let overdue = |pipeline: &Pipeline| {
        !pipeline.rescued && !pipeline.units.is_empty() && now.saturating_duration_since(pipeline.looked_at) >= bound
    };
    let connections = core.pipelines.active.iter().copied();
    let stalled: Vec<ServerKey> = connections
        .filter(|key| core.servers.get(*key).and_then(|server| server.pipeline()).is_some_and(overdue))
        .collect();
    for key in stalled {
        let Some(server) = core.servers.get_mut(key) else { continue };
        let pool = server.pool;
        let Some(pipeline) = server.pipeline_mut() else { continue };
        pipeline.looked_at = now;
        let slow = now.saturating_duration_since(pipeline.head_since) >= SLOW;
        if let Some(fingerprint) = pipeline.units.front().and_then(|unit| unit.fingerprint.as_ref()).filter(|_| slow) {
            fingerprint.is_slow(now);
        }
        let head = pipeline.head();
        let behind = pipeline.units.iter().filter(|unit| unit.client.is_some() && unit.client != head).count();
        // No unit joins those that wait already.
        pipeline.closed = true;
        if core.pools.get_mut(pool).is_some_and(|pool| pool.counts.retries.spend(behind)) {
            retry::rescue(core, key);
            cancel::stop_unwanted(core, key);
        }
    }
}

/// The time until which a poll may wait so that a stalled pipelined connection is noticed.
pub fn deadline(core: &Core) -> Option<Instant> {
    let bound = core.config.settings.pipeline_stall.limit()?;
    let connections = core.pipelines.active.iter().filter_map(|key| core.servers.get(*key)?.pipeline());
    connections
        .filter(|pipeline| !pipeline.rescued && !pipeline.units.is_empty())
        .map(|pipeline| pipeline.looked_at + bound)
        .min()
}
