//! Pipelining across clients: statements of different clients, sent down one server connection one behind another.
//!
//! A *unit* is a Query, or messages of the extended protocol up to their Sync. A unit that is proven to be a read and
//! to leave the session unchanged needs no connection to itself: each unit is a transaction of its own, so it can
//! neither see nor disturb its waiting. A server connection that carries such units is a *pipelined connection*;
//! answers come in the order in which the units were sent, and are cut apart at each ReadyForQuery.
//!
//! The answer of a unit is held back until it is complete. So until then the unit can be repeated on another
//! connection, and its client does not notice: when the server dies, when a neighbour's cancel request strikes the
//! unit, or when a neighbour takes too long. `docs/design/2026-11-21-pipelining.md` has the rules and their reasons.

use std::rc::Rc;
use std::time::Duration;

use crate::model::client::Discard;
use crate::model::extent::{self, Said};
use crate::model::fingerprint::{Fingerprint, NotPipelined};
use crate::model::keys::{ClientKey, PoolKey, ServerKey};
use crate::model::pipeline::Unit;
use crate::model::turn::{After, Step, Turn};
use wire::backend::Status;

use crate::frontend::{messages, shapes};
use crate::pools::{checkout, pipelines, room};
use crate::router::fingerprints;
use crate::router::unit::{self, Dispatch, Front};
use crate::state::server::Server;
use crate::state::{Core, Pair, served};

/// Sends the unit at the front of a client's input down a pipelined connection, if it is a read. `None` if it is none:
/// then the client needs a connection of its own.
///
/// The unit is `front`, if it has been read for the choice of a server. A client whose `turn` has come, after it has waited
/// so long, goes before those that wait.
pub fn pipeline<'a>(
    core: &mut Core,
    key: ClientKey,
    input: &'a [u8],
    front: Option<Front<'a>>,
    turn: Option<Duration>,
) -> Option<Step> {
    let (client, server) = served(&mut core.clients, &mut core.servers, key)?;
    let pool_key = client.route.pool?;
    if client.session.pins.any() || client.input.unsynced || client.input.discard != Discard::No {
        return None;
    }
    if !core.pools.get(pool_key)?.limits.pipelining {
        // Earlier units are in a pipelined connection still, when the configuration has changed.
        return client.checkout.wait_for_own();
    }
    let has_own = server.is_some();
    // While a cancel request of its client is on its way, a checked out connection stays its own.
    let untouched = |server: &Server| {
        server.status == Status::Idle && server.cancels.under_way == 0 && server.exchange.requests.is_empty()
    };
    if server.as_deref().is_some_and(|server| !untouched(server)) {
        return None;
    }
    let Some(Front { unit, may_share, runs }) = front.or_else(|| Front::read(core, key, pool_key, input, false)) else {
        return Some(Step::More);
    };
    let unit = unit.filter(|_| may_share);
    if unit.as_ref().is_some_and(|unit| unit.uses_unnamed() && prepares_in_flight(core, key)) {
        // Which statement that is, the answer shows.
        return core.clients.get_mut(key)?.checkout.wait_for_own();
    }
    let (client, pool) = (core.clients.get_mut(key)?, core.pools.get_mut(pool_key)?);
    let doubtful = fingerprints::is_doubtful(&core.router, pool, core.now);
    let runs = if may_share { runs } else { Err(NotPipelined::Protocol) };
    let way = unit::way(client, pool, runs, doubtful, core.now);
    match (&unit, way) {
        (Some(unit), Dispatch::Shared(fingerprint)) if !has_own => share(core, key, pool_key, unit, fingerprint, turn),
        (Some(unit), Dispatch::Shared(fingerprint)) => send_on_own(core, key, unit, fingerprint, (false, false)),
        (Some(unit), Dispatch::Alone(fingerprint, writes)) => send_on_own(core, key, unit, fingerprint, (true, writes)),
        (_, way) => {
            if let Dispatch::Unpipelined(why) = way {
                pool.count_unpipelined(why);
            }
            let step = client.checkout.wait_for_own();
            client.checkout.needs_own |= step.is_none();
            step
        }
    }
}

/// Whether a client's unit in flight prepares a statement without a name.
fn prepares_in_flight(core: &Core, key: ClientKey) -> bool {
    let pipelined = core.clients.get(key).and_then(|client| client.checkout.pipelined());
    let pipeline = pipelined.and_then(|(server, _)| core.servers.get(server)?.pipeline());
    pipeline.is_some_and(|pipeline| pipeline.units.iter().any(|unit| unit.client == Some(key) && unit.prepares))
}

/// Sends a unit down a pipelined connection that other clients share, or makes its client wait for room.
fn share(
    core: &mut Core,
    key: ClientKey,
    pool_key: PoolKey,
    unit: &extent::Unit<'_>,
    fingerprint: Option<Rc<Fingerprint>>,
    turn: Option<Duration>,
) -> Option<Step> {
    let client = core.clients.get(key)?;
    let goes_first = turn.is_some() || client.checkout.pipelined().is_some();
    let queue = core.pools.get(pool_key).is_some_and(|pool| !pool.queue.sharing.is_empty());
    if (goes_first || !queue)
        && let Some(server) = choose(core, key, pool_key)
    {
        return send_down(core, key, server, unit, fingerprint, (false, turn.unwrap_or_default()));
    }
    let (client, pool) = (core.clients.get_mut(key)?, core.pools.get_mut(pool_key)?);
    if client.checkout.server().is_some() || client.checkout.wait_for_own().is_some() {
        return Some(Step::Stop);
    }
    // The client waits for room in a pipelined connection, behind the clients before it.
    client.checkout.reads_only = true;
    client.checkout.wait(client.route.waiting_since.take().unwrap_or(core.now));
    if goes_first {
        pool.queue.sharing.push_front(key)
    } else {
        pool.queue.sharing.push_back(key)
    }
    core.schedule.later(After::Grow(pool_key));
    Some(Step::Stop)
}

/// Makes a pipelined connection of a connection that is checked out to the client, and sends its unit down it; if it is
/// to be `alone`, no other client's unit follows.
fn send_on_own(
    core: &mut Core,
    key: ClientKey,
    unit: &extent::Unit<'_>,
    fingerprint: Option<Rc<Fingerprint>>,
    (alone, writes): (bool, bool),
) -> Option<Step> {
    if let Some(step) = core.clients.get_mut(key)?.checkout.wait_for_own() {
        return Some(step);
    }
    // A unit that may be retried runs in a read-only transaction: a wrong guess fails, and has done nothing.
    if !checkout::acquire(core, key, !writes) {
        return Some(Step::Stop);
    }
    if writes && shapes::is_unsure(&mut core.pair(key)?, unit) {
        core.clients.get_mut(key)?.checkout.needs_own = true;
        return None;
    }
    let client = core.clients.get_mut(key)?;
    let (server, pool) = (client.checkout.give_back()?, client.route.pool?);
    pipelines::open(core, server, alone);
    let sent = send_down(core, key, server, unit, fingerprint, (writes, Duration::ZERO));
    core.schedule.later(After::Share(pool));
    sent
}

/// The pipelined connection that a client's unit goes down, made of an idle connection where that is better.
fn choose(core: &mut Core, key: ClientKey, pool_key: PoolKey) -> Option<ServerKey> {
    core.clients.get_mut(key)?.checkout.reads_only = true;
    let client = core.clients.get(key)?;
    let pool = core.pools.get(pool_key)?;
    if pool.limits.paused {
        return None;
    }
    if let Some((own, _)) = client.checkout.pipelined() {
        let server = core.servers.get(own)?;
        return room::has_room(client, server, core.config.settings.pipeline_depth.max(1) * 4).then_some(own);
    }
    let best = room::emptiest(core, pool, client);
    let room = pool.limits.size;
    let few = pool.connections.pipelined.len() < room::usual(core, pool).min(room);
    if room::is_short(pool) || (best.is_some() && !few) {
        return best;
    }
    if pool.connections.idle.is_empty() {
        if best.is_some() && pool.connections.connecting == 0 && pool.connections.servers.len() < room {
            core.schedule.later(After::Widen(pool_key));
        }
        return best;
    }
    let Some((server, in_line)) = checkout::take_idle(core, pool_key, key) else { return best };
    if in_line {
        pipelines::open(core, server, false);
        return Some(server);
    }
    // The session of the connection is brought in line first: until then it is checked out, and this client waits for
    // it.
    if let Some(client) = core.clients.get_mut(key) {
        client.checkout.wait(client.route.waiting_since.take().unwrap_or(core.now));
    }
    checkout::assign(core, server, key);
    None
}

/// Sends a unit down a pipelined connection, which its client has waited for so long.
fn send_down(
    core: &mut Core,
    key: ClientKey,
    server_key: ServerKey,
    unit: &extent::Unit<'_>,
    fingerprint: Option<Rc<Fingerprint>>,
    (writes, waited): (bool, Duration),
) -> Option<Step> {
    let now = core.now;
    let client = core.clients.get_mut(key)?;
    client.input.unsynced = false;
    client.route.waiting_since = None;
    client.route.owed.until = None;
    if client.checkout.pipelined().is_none() {
        client.times.request_since = now;
    }
    client.checkout.send(server_key);
    let mut pair = core.pair(key)?;
    if writes && let Some(fingerprint) = &fingerprint {
        fingerprints::foresee_definition(&mut pair, Some(&fingerprint.verdict));
    }
    let unnamed = pair.client.prepared.unnamed.clone();
    let mut names = Vec::new();
    for message in &unit.messages {
        if let Said::Parse(parse) = message.said {
            names.extend(pair.client.prepared.new_name(&parse));
        }
        messages::pass_said(&mut pair, message);
    }
    let Pair { client, server, context, .. } = pair;
    client.session.vars.unite(&mut server.known.session.vars);
    client.prepared.portals.clear();
    client.times.transaction_since = None;
    let (pool_key, place) = (server.pool, server.at.place);
    let pipeline = server.pipeline_mut()?;
    if pipeline.units.is_empty() {
        (pipeline.head_since, pipeline.looked_at) = (now, now);
    }
    pipeline.history.extend_from_slice(unit.bytes);
    // A client that is alone in a pipelined connection got the connection as its own, and has been counted then.
    if !pipeline.alone
        && let Some(pool) = context.pools.get_mut(pool_key)
    {
        pool.counts.stats.waited(place, waited);
        pool.queue.served = Some(now);
    }
    let size = unit.bytes.len();
    let prepares = unit.prepares_unnamed();
    pipeline.units.push_back(Unit { client: Some(key), fingerprint, size, writes, unnamed, names, prepares });
    if !std::mem::replace(&mut pipeline.unflushed, true) {
        core.schedule.unflushed.push(Turn::Server(server_key));
    }
    Some(Step::Took(unit.bytes.len()))
}
