//! Pipelined connections: opened, ended, and flushed at the end of a turn.

use crate::model::keys::{ClientKey, ServerKey};
use crate::model::pipeline::Pipeline;
use crate::model::turn::{After, Step, Turn};

use crate::reactor::{sockets, turns};
use crate::state::Core;

/// Nobody waits any more for the answer of the unit in this place; whose it was.
pub fn disown(core: &mut Core, key: ServerKey, place: usize) -> Option<ClientKey> {
    core.servers.get_mut(key.0)?.pipeline.as_mut()?.units.get_mut(place)?.client.take()
}

/// Takes a client that is leaving out of its pipelined connection: nobody waits for its answers.
pub fn forget_client(core: &mut Core, key: ClientKey) {
    let Some(server_key) = core.clients.get_mut(key.0).and_then(|client| client.checkout.leave_pipeline()) else {
        return;
    };
    let Some(server) = core.servers.get_mut(server_key.0) else { return };
    let head = server.client() == Some(key);
    if head {
        server.io.readable = true;
    }
    if let Some(pipeline) = &mut server.pipeline {
        for unit in pipeline.units.iter_mut().filter(|unit| unit.client == Some(key)) {
            unit.client = None;
        }
    }
    turns::later(core, After::Stop(server_key));
    // It may have been the one whose slowness held the pipelined connection.
    turns::give_turn(core, Turn::Server(server_key));
}

/// Units of one client are answered in order: what may not follow the others down their pipelined connection waits
/// until they are answered.
pub fn behind_own(core: &mut Core, key: ClientKey) -> Option<Step> {
    let client = core.clients.get_mut(key.0)?;
    client.checkout.pipelined()?;
    client.checkout.behind_own = true;
    Some(Step::Stop)
}

/// Makes a pipelined connection of a server connection that nobody uses.
pub fn open(core: &mut Core, server_key: ServerKey, alone: bool) {
    let now = core.now;
    let Some(server) = core.servers.get_mut(server_key.0) else { return };
    server.begin_pipeline(now);
    let pipeline = server.pipeline.get_or_insert_with(|| Box::new(Pipeline::new(now)));
    pipeline.restart(now);
    pipeline.closed = alone;
    pipeline.alone = alone;
    if !alone && let Some(pool) = core.pools.get_mut(server.pool.0) {
        pool.connections.pipelined.push(server_key);
        pool.counts.totals.assignments += 1;
    }
    core.pipelines.active.push(server_key);
}

/// Sends what the turn has gathered: to servers first, who have work to do with it.
pub fn flush(core: &mut Core) {
    let mut unflushed = std::mem::take(&mut core.schedule.unflushed);
    for turn in &unflushed {
        if let Turn::Server(key) = *turn {
            if let Some(pipeline) = core.servers.get_mut(key.0).and_then(|server| server.pipeline.as_mut()) {
                pipeline.unflushed = false;
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

/// A server connection is no pipelined connection any more.
pub fn end(core: &mut Core, key: ServerKey) {
    core.pipelines.active.retain(|pipeline| *pipeline != key);
    let Some(server) = core.servers.get_mut(key.0) else { return };
    server.end_pipeline();
    if let Some(pool) = core.pools.get_mut(server.pool.0) {
        pool.connections.pipelined.retain(|pipeline| *pipeline != key);
    }
}

/// How many units are in flight in pipelined connections.
pub fn in_flight(core: &Core) -> usize {
    let connections = core.pipelines.active.iter().filter_map(|key| core.servers.get(key.0)?.pipeline.as_ref());
    connections.map(|pipeline| pipeline.units.len()).sum()
}
