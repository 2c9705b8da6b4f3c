//! Units of pipelined connections that are repeated on another connection, or that the pooler answers itself: because a
//! server dies, a client cancels or leaves, or a unit before them takes long.

use crate::model::keys::{ClientKey, PoolKey, ServerKey};
use crate::model::turn::Turn;
use wire::backend::{self, Status};

use crate::error::{Cause, Error, Severity};
use crate::monitor::Incident;
use crate::pools::{leave, pipelines, prepared};
use crate::router::{freshness, members};
use crate::state::client::Client;
use crate::state::server::Server;
use crate::state::{Core, Schedule, answering, tell};

/// The most times that a unit is retried which was at the head when its server died.
const ATTEMPTS: u8 = 1;

/// Takes back a client's units from the one at `from` on (in the pipelined connection's order), to be retried: the
/// pipelined connection's late answers to them are dropped.
pub fn retry_units(core: &mut Core, key: ServerKey, client_key: ClientKey, from: usize) {
    let Some(server) = core.servers.get_mut(key) else { return };
    let pool = core.pools.get_mut(server.pool);
    let Some(pipeline) = server.pipeline_mut() else { return };
    let mut start = pipeline.done;
    let mut bytes = Vec::new();
    let mut count = 0;
    let mut unnamed = None;
    let mut names = Vec::new();
    for (place, unit) in pipeline.units.iter_mut().enumerate() {
        let end = start + unit.size;
        if place >= from && unit.client == Some(client_key) {
            bytes.extend_from_slice(pipeline.history.get(start..end).unwrap_or_default());
            unit.client = None;
            let before = unit.unnamed.take();
            names.append(&mut unit.names);
            if count == 0 {
                unnamed = before;
            }
            count += 1;
        }
        start = end;
    }
    if let Some(client) = core.clients.get_mut(client_key) {
        // Units behind the first may have prepared another, which those before them must not meet.
        if count > 0 {
            client.prepared.unnamed = unnamed;
        }
        // Statements that they prepare are prepared when they are sent again, which may never be.
        for name in names {
            client.prepared.statements.remove(&name);
        }
        bytes.append(&mut client.io.rest);
        client.io.rest = bytes;
        client.checkout.answered(count);
        client.checkout.behind_own = client.checkout.pipelined().is_some();
    }
    if let Some(pool) = pool {
        pool.counts.totals.pipelining.retried += count as u64;
    }
    core.schedule.give_turn(Turn::Client(client_key));
}

/// Ends a pipelined connection that is being closed: clients that wait for an answer get one from another server, or an
/// error.
pub fn leave(core: &mut Core, key: ServerKey, cause: &Cause) {
    let Some((server, client)) = answering(&mut core.servers, &mut core.clients, key) else { return };
    // What follows comes behind all that the server has answered.
    if server.pipeline().is_some_and(|pipeline| pipeline.forwarded) {
        spill(server, client, &mut core.schedule);
    }
    let in_message = server.exchange.passing.0 > 0;
    let member = core.pools.get(server.pool).and_then(|pool| pool.cluster_of.home);
    let Some(pipeline) = server.pipeline() else { return };
    let (forwarded, failed) = (pipeline.forwarded, pipeline.failed && pipeline.forwarded);
    let writes = pipeline.units.front().is_some_and(|unit| unit.writes);
    if let Some(head) = pipeline.head() {
        let tried = core.clients.get(head).map_or(0, |client| client.checkout.attempts);
        if failed {
            // The client has got an error already.
            prepared::take_back(core, key, 0);
            pipelines::disown(core, key, 0);
            end_unit(core, head);
        } else if forwarded && in_message {
            leave::close_client(core, head, &format!("server connection lost within a message: {}", cause.why));
        } else if writes {
            // If the write was committed all the same, its client's reads see it.
            if let Some(client) = core.clients.get_mut(head) {
                freshness::owe(client, &core.pools, &core.router);
            }
            answer_head(core, key, &Error::OutcomeUnknown(cause.clone()));
        } else if forwarded || tried >= ATTEMPTS {
            answer_head(core, key, &Error::LostInRead(cause.clone()));
        } else if let Some(client) = core.clients.get_mut(head) {
            client.checkout.attempts += 1;
        }
    }
    if let Some((_, id)) = member {
        let pipeline = core.servers.get(key).and_then(|server| server.pipeline());
        for client in pipeline.into_iter().flat_map(|pipeline| &pipeline.units).filter_map(|unit| unit.client) {
            if let Some(client) = core.clients.get_mut(client) {
                client.route.tried.add(id);
            }
        }
    }
    while let Some(client) = core
        .servers
        .get(key)
        .and_then(|server| server.pipeline())
        .and_then(|pipeline| pipeline.units.iter().find_map(|unit| unit.client))
    {
        retry_units(core, key, client, 0);
    }
    pipelines::end(core, key);
}

/// Answers the unit at the head with an error in the server's place; its late answer is dropped.
fn answer_head(core: &mut Core, key: ServerKey, error: &Error) {
    let Some(pipeline) = core.servers.get_mut(key).and_then(|server| server.pipeline_mut()) else { return };
    pipeline.drop_answer();
    prepared::take_back(core, key, 0);
    let Some(client_key) = pipelines::disown(core, key, 0) else { return };
    answer_unit(core, client_key, error);
}

/// Answers a unit of a client, the first that it has in its pipelined connection, with an error.
pub fn answer_unit(core: &mut Core, client_key: ClientKey, error: &Error) {
    tell::error(core, client_key, error, Severity::Error);
    end_unit(core, client_key);
}

/// Ends a unit of a client, the first that it has in its pipelined connection.
fn end_unit(core: &mut Core, client_key: ClientKey) {
    let Some(client) = core.clients.get_mut(client_key) else { return };
    backend::write_ready_for_query(client.io.out(), Status::Idle);
    client.checkout.attempts = 0;
    client.checkout.answered(1);
    if client.checkout.pipelined().is_none() && std::mem::take(&mut client.checkout.behind_own) {
        core.schedule.give_turn(Turn::Client(client_key));
    }
    core.schedule.unflushed.push(Turn::Client(client_key));
}

/// Retries the units behind the head of a pipelined connection elsewhere. The units run in read-only transactions, so
/// their late runs on the pipelined connection change nothing.
pub fn rescue(core: &mut Core, key: ServerKey) {
    let Some(pipeline) = core.servers.get_mut(key).and_then(|server| server.pipeline_mut()) else { return };
    (pipeline.closed, pipeline.rescued) = (true, true);
    let head = pipeline.head();
    let mut place = 0;
    while let Some(pipeline) = core.servers.get(key).and_then(|server| server.pipeline()) {
        let Some(unit) = pipeline.units.get(place) else { return };
        if let Some(client) = unit.client.filter(|client| Some(*client) != head) {
            retry_units(core, key, client, place);
        }
        place += 1;
    }
}

/// Notes that a write has met a replica: the monitor hears of it, and the server is not chosen again for it.
pub fn wrote_to_replica(core: &mut Core, pool: PoolKey, client: ClientKey) {
    members::met(core, pool, Incident::ReadOnly);
    let member = core.pools.get(pool).and_then(|pool| pool.cluster_of.home);
    if let (Some((_, id)), Some(client)) = (member, core.clients.get_mut(client)) {
        client.route.tried.add(id);
    }
}

/// The length of an answer beyond which a unit has its pipelined connection to itself until it ends.
const LONGEST_ANSWER: usize = 65_536;

/// Passes on an answer of a pipelined connection's unit that has grown too long to be kept; the pipelined connection is
/// the unit's own until it ends.
pub fn spill(server: &mut Server, client: Option<&mut Client>, schedule: &mut Schedule) {
    let Some(pipeline) = server.pipeline_mut() else { return };
    if pipeline.again {
        return pipeline.drop_answer();
    }
    if !pipeline.forwarded && pipeline.stage.len() <= LONGEST_ANSWER {
        return;
    }
    (pipeline.forwarded, pipeline.closed) = (true, true);
    match pipeline.head().zip(client) {
        Some((key, client)) => {
            pipeline.pass_answer(client.io.out());
            schedule.unflushed.push(Turn::Client(key));
        }
        None => pipeline.drop_answer(),
    }
}
