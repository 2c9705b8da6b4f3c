//! Pipelined connections: opened, ended, and flushed at the end of a turn.

use crate::model::keys::{ClientKey, ServerKey};
use crate::model::turn::{After, Turn};

use crate::state::{Core, sockets};

/// Gives up the answer of the unit in this place; gives its client.
pub fn disown(core: &mut Core, key: ServerKey, place: usize) -> Option<ClientKey> {
    core.servers.get_mut(key)?.pipeline_mut()?.units.get_mut(place)?.client.take()
}

/// Takes a client that is leaving out of this pipelined connection: its answers are given up.
pub fn forget_client(core: &mut Core, server_key: ServerKey, key: ClientKey) {
    let Some(server) = core.servers.get_mut(server_key) else { return };
    server.io.readable |= server.client() == Some(key);
    if let Some(pipeline) = server.pipeline_mut() {
        for unit in pipeline.units.iter_mut().filter(|unit| unit.client == Some(key)) {
            unit.client = None;
        }
    }
    core.schedule.later(After::Stop(server_key));
    // The client may have been the slow reader that held the pipelined connection.
    core.schedule.give_turn(Turn::Server(server_key));
}

/// Makes a pipelined connection of a server connection that no client uses.
pub fn open(core: &mut Core, server_key: ServerKey, alone: bool) {
    let Some(server) = core.servers.get_mut(server_key) else { return };
    server.begin_pipeline(alone, core.now);
    if !alone && let Some(pool) = core.pools.get_mut(server.pool) {
        pool.connections.pipelined.push(server_key);
        pool.counts.totals.assignments += 1;
    }
    core.pipelines.active.push(server_key);
}

/// Sends the output that the turn has gathered: to servers first, since they have work to do with it.
pub fn flush(core: &mut Core) {
    let mut unflushed = std::mem::take(&mut core.schedule.unflushed);
    for turn in &unflushed {
        if let Turn::Server(key) = *turn {
            if let Some(pipeline) = core.servers.get_mut(key).and_then(|server| server.pipeline_mut()) {
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

/// Makes a server connection a pipelined connection no longer.
pub fn end(core: &mut Core, key: ServerKey) {
    core.pipelines.active.retain(|pipeline| *pipeline != key);
    let Some(server) = core.servers.get_mut(key) else { return };
    server.end_pipeline();
    if let Some(pool) = core.pools.get_mut(server.pool) {
        pool.connections.pipelined.retain(|pipeline| *pipeline != key);
    }
}

/// The number of units in flight in pipelined connections.
pub fn in_flight(core: &Core) -> usize {
    let connections = core.pipelines.active.iter().filter_map(|key| core.servers.get(*key)?.pipeline());
    connections.map(|pipeline| pipeline.units.len()).sum()
}
