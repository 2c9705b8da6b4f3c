//! Pipelined connections: opened, ended, and flushed at the end of a turn.

use crate::reactor::sockets;
use crate::reactor::turns;
use crate::state::Core;
use crate::state::keys::{ClientKey, ServerKey};
use crate::state::pipeline::Lane;
use crate::state::server::State;
use crate::state::turn::After;
use crate::state::turn::{Step, Turn};

/// Nobody waits any more for the answer of the unit in this place; whose it was.
pub fn take_from_lane(core: &mut Core, key: ServerKey, place: usize) -> Option<ClientKey> {
    core.servers.get_mut(key.0)?.lane.as_mut()?.units.get_mut(place)?.client.take()
}

/// Takes a client that is leaving out of its lane: nobody waits for its answers.
pub fn forget_in_lane(core: &mut Core, key: ClientKey) {
    let Some(server_key) = core.clients.get_mut(key.0).and_then(|client| client.checkout.leave_pipeline()) else {
        return;
    };
    let Some(server) = core.servers.get_mut(server_key.0) else { return };
    let head = server.client() == Some(key);
    if head {
        server.io.readable = true;
    }
    if let Some(lane) = &mut server.lane {
        for unit in lane.units.iter_mut().filter(|unit| unit.client == Some(key)) {
            unit.client = None;
        }
    }
    turns::later(core, After::Stop(server_key));
    // It may have been the one whose slowness held the lane.
    turns::give_turn(core, Turn::Server(server_key));
}

/// Units of one client are answered in order: what may not follow the others down their lane waits until they are
/// answered.
pub fn behind_own(core: &mut Core, key: ClientKey) -> Option<Step> {
    let client = core.clients.get_mut(key.0)?;
    client.checkout.pipelined()?;
    client.checkout.behind_own = true;
    Some(Step::Stop)
}

/// Makes a lane of a server connection that nobody uses.
pub fn open_lane(core: &mut Core, server_key: ServerKey, alone: bool) {
    let now = core.now;
    let Some(server) = core.servers.get_mut(server_key.0) else { return };
    server.state = State::Lane;
    server.life.state_since = now;
    server.lent = None;
    let lane = server.lane.get_or_insert_with(|| Box::new(Lane::new(now)));
    lane.restart(now);
    lane.closed = alone;
    lane.alone = alone;
    if !alone && let Some(pool) = core.pools.get_mut(server.pool.0) {
        pool.connections.lanes.push(server_key);
        pool.counts.totals.assignments += 1;
    }
    core.pipelines.active_lanes.push(server_key);
}

/// Sends what the turn has gathered: to servers first, who have work to do with it.
pub fn flush_lanes(core: &mut Core) {
    let mut unflushed = std::mem::take(&mut core.schedule.unflushed);
    for turn in &unflushed {
        if let Turn::Server(key) = *turn {
            if let Some(lane) = core.servers.get_mut(key.0).and_then(|server| server.lane.as_mut()) {
                lane.unflushed = false;
            }
            sockets::flush_server(core, key);
        }
    }
    for turn in unflushed.drain(..) {
        if let Turn::Client(key) = turn {
            sockets::flush_client(core, key);
        }
    }
    // Flushing can bring new work for the next turn, but nothing is lost from this list.
    if core.schedule.unflushed.is_empty() {
        core.schedule.unflushed = unflushed;
    }
}

/// A server connection is no lane any more.
pub fn end_lane(core: &mut Core, key: ServerKey) {
    core.pipelines.active_lanes.retain(|lane| *lane != key);
    let Some(server) = core.servers.get_mut(key.0) else { return };
    server.state = State::Active;
    server.lent = None;
    if let Some(pool) = core.pools.get_mut(server.pool.0) {
        pool.connections.lanes.retain(|lane| *lane != key);
    }
}

/// How many units are in flight in lanes.
pub fn in_flight(core: &Core) -> usize {
    let lanes = core.pipelines.active_lanes.iter().filter_map(|key| core.servers.get(key.0)?.lane.as_ref());
    lanes.map(|lane| lane.units.len()).sum()
}
