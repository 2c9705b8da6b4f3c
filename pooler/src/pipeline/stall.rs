//! Units at the head of a pipelined connection that take long: those behind them are retried elsewhere.

use std::time::Instant;

use crate::backend::cancel;
use crate::pipeline::retry;
use crate::state::Core;
use crate::state::keys::ServerKey;
use crate::state::pipeline::Lane;

/// Looks for units at the head that take long, to be answered or to be read: who stands behind them is asked again
/// elsewhere, and a head that nobody waits for is stopped.
pub fn look_after_lanes(core: &mut Core) {
    let Some(bound) = core.config.settings.pipeline_stall.limit() else { return };
    let now = core.now;
    let overdue =
        |lane: &Lane| !lane.rescued && !lane.units.is_empty() && now.saturating_duration_since(lane.looked_at) >= bound;
    let lanes = core.pipelines.active_lanes.iter().copied();
    let stalled: Vec<ServerKey> = lanes
        .filter(|key| core.servers.get(key.0).and_then(|server| server.lane.as_deref()).is_some_and(overdue))
        .collect();
    for key in stalled {
        let Some(server) = core.servers.get_mut(key.0) else { continue };
        let pool = server.pool;
        let Some(lane) = server.lane.as_mut() else { continue };
        lane.looked_at = now;
        if let Some(shape) = lane.units.front().and_then(|unit| unit.shape.clone()) {
            shape.took(now.saturating_duration_since(lane.head_since), now);
        }
        let head = lane.head();
        let behind = lane.units.iter().filter(|unit| unit.client.is_some() && unit.client != head).count();
        // Nobody joins those who wait already.
        lane.closed = true;
        if core.pools.get_mut(pool.0).is_some_and(|pool| pool.counts.retries.spend(behind)) {
            retry::rescue(core, key);
            cancel::stop_unwanted(core, key);
        }
    }
}

/// How long a poll may wait so that a stalled lane is noticed in time.
pub fn lane_deadline(core: &Core) -> Option<Instant> {
    let bound = core.config.settings.pipeline_stall.limit()?;
    let lanes = core.pipelines.active_lanes.iter().filter_map(|key| core.servers.get(key.0)?.lane.as_ref());
    lanes.filter(|lane| !lane.rescued && !lane.units.is_empty()).map(|lane| lane.looked_at + bound).min()
}
