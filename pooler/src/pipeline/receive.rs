//! What servers answer on pipelined connections: cut apart at each ReadyForQuery, and given to the client of each unit.

use balancer::Tried;
use wire::backend::{Report, Status};

use crate::backend::replies::{shown_name, write_renamed};
use crate::pipeline::retry;
use crate::reactor::turns;
use crate::router::{freshness, members};
use crate::state::Core;
use crate::state::cluster::SERIALIZABLE;
use crate::state::keys::ServerKey;
use crate::state::request::Request;
use crate::state::server::Residue;
use crate::state::turn::After;
use crate::state::turn::Turn;

/// A unit that answers more than this has its lane to itself until it ends.
pub const LONGEST_ANSWER: usize = 65_536;

/// History that is done with is thrown away when it is this much.
pub const COMPACT: usize = 65_536;

/// How often a unit is asked again on account of its neighbours.
pub const RETRIES: u8 = 8;

/// How often a write is sent again that replicas refuse: a promotion takes seconds, a tenth of one lies between two.
pub const REFUSALS: u8 = 100;

/// The answer of a lane's unit has grown too long to be kept: it is passed on as it comes, and the lane is the
/// unit's own until it ends.
pub fn spill(core: &mut Core, key: ServerKey) {
    let Some(server) = core.servers.get_mut(key.0) else { return };
    let Some(lane) = server.lane.as_mut() else { return };
    if !lane.forwarded && lane.stage.len() <= LONGEST_ANSWER {
        return;
    }
    lane.forwarded = true;
    lane.closed = true;
    let Some(client_key) = lane.head() else {
        lane.stage.clear();
        return;
    };
    if let Some(client) = core.clients.get_mut(client_key.0) {
        client.io.out().append(&mut lane.stage);
        core.schedule.unflushed.push(Turn::Client(client_key));
    }
}

/// An error in the answer to a lane's unit. It is the client's to see, unless the fault is ours or a neighbour's:
/// then the unit is asked again.
pub fn lane_error(core: &mut Core, key: ServerKey, message: &[u8], report: &Report) {
    let only_read = core.servers.get(key.0).is_some_and(|server| members::is_only_read(core, server));
    let Some(server) = core.servers.get_mut(key.0) else { return };
    let Some(lane) = server.lane.as_mut() else { return };
    let mut wrote_to_replica = false;
    let again = match (report.code.as_str(), server.exchange.requests.front()) {
        // It wrote where nothing may: on a replica, or against what was known of its functions. Nothing is done. The
        // session's own read-only transactions are the client's to see.
        ("25006", _) => {
            let member = core.pools.get(server.pool.0).is_some_and(|pool| pool.cluster_of.home.is_some());
            wrote_to_replica = member && (server.known.standby != Some(false) || only_read);
            let ours = server.known.session.read_only && !server.known.session.sets.concern_read_only();
            if (wrote_to_replica || ours)
                && let Some(shape) = lane.units.front().and_then(|unit| unit.shape.as_ref())
            {
                shape.lied();
            }
            wrote_to_replica || ours
        }
        // The plan of a statement of ours is stale: it is prepared afresh.
        (
            "0A000",
            Some(
                Request::Bind(Some(statement)) | Request::Describe(Some(statement)) | Request::Execute(Some(statement)),
            ),
        ) if report.routine == "RevalidateCachedQuery" => {
            statement.generation.set(statement.generation.get() + 1);
            true
        }
        // Such transactions go to the primary from now on.
        ("0A000", _) if report.routine == SERIALIZABLE => {
            core.pools.get(server.pool.0).is_some_and(|pool| pool.cluster_of.home.is_some())
        }
        // It was taken for unknown here when a neighbour's Parse failed, but another's has succeeded since.
        ("42P05", Some(Request::Parse { statement: Some(statement), unnamed: false, .. })) => {
            statement.generation.set(statement.generation.get() + 1);
            true
        }
        // A neighbour's Parse of the same statement has failed.
        ("26000", Some(Request::Bind(Some(statement)) | Request::Describe(Some(statement)))) => {
            server.known.statements.remove(statement);
            true
        }
        _ => false,
    };
    let Some(client_key) = lane.head() else { return };
    match core.clients.get_mut(client_key.0) {
        Some(client)
            if again
                && !lane.forwarded
                && (client.checkout.retries < RETRIES || wrote_to_replica && client.checkout.retries < REFUSALS) =>
        {
            client.checkout.retries = client.checkout.retries.saturating_add(1);
            // Its shape may not be remembered: what has been refused as a write is not taken for a read again.
            client.checkout.needs_own |= report.code == "25006" && !wrote_to_replica;
            lane.again = true;
            if wrote_to_replica {
                client.route.waiting_since.get_or_insert(client.times.request_since);
                let pool = server.pool;
                retry::wrote_to_replica(core, pool, client_key);
            }
        }
        client => {
            lane.failed = true;
            match client.and_then(|client| shown_name(&server.exchange.requests, client, &report.code)) {
                Some((internal, shown)) => write_renamed(&mut lane.stage, message, &internal, &shown),
                None => lane.stage.extend_from_slice(message),
            }
        }
    }
}

/// A unit in a lane has been answered: its client gets the answer, the next is at the head.
pub fn lane_ready(core: &mut Core, key: ServerKey, message: &[u8], status: Status) {
    let now = core.now;
    let Some(server) = core.servers.get_mut(key.0) else { return };
    let pool_key = server.pool;
    let Some(lane) = server.lane.as_mut() else { return };
    if status != Status::Idle {
        turns::doom(core, key, "a statement that was taken for a read has left a transaction open");
        return;
    }
    if std::mem::take(&mut lane.again) {
        lane.stage.clear();
        if let Some(client) = lane.head() {
            retry::ask_again(core, key, client, 0);
        }
    }
    let Some(server) = core.servers.get_mut(key.0) else { return };
    let Some(lane) = server.lane.as_mut() else { return };
    let Some(unit) = lane.units.pop_front() else {
        turns::doom(core, key, "broken protocol: an answer that nothing asked for");
        return;
    };
    let took = now.saturating_duration_since(lane.head_since);
    (lane.head_since, lane.looked_at, lane.failed) = (now, now, false);
    lane.done += unit.size;
    if lane.units.is_empty() {
        lane.history.clear();
        lane.done = 0;
    } else if lane.done >= COMPACT {
        lane.history.drain(..lane.done);
        lane.done = 0;
    }
    if let Some(shape) = &unit.shape {
        shape.took(took, now);
        if let Some(kept) = unit.kept {
            shape.keeping.took(kept, took, now);
        }
        if shape.verdict.opaque {
            server.known.residue = server.known.residue.max(Residue::Anything);
        }
    }
    lane.forwarded = false;
    if let Some(pool) = core.pools.get_mut(pool_key.0) {
        if !lane.alone {
            pool.note_service(took);
            pool.counts.totals.pipelined += 1;
            pool.counts.retries.earn();
        }
        pool.counts.totals.queries += 1;
        pool.counts.totals.transactions += 1;
        pool.counts.totals.query_time += took;
        pool.counts.stats.queried(server.at.place, took);
        pool.counts.totals.transaction_time += took;
    }
    if let Some(client) = unit.client
        && !server.known.session.read_only
    {
        freshness::owe(core, client, key);
    }
    let Some(server) = core.servers.get_mut(key.0) else { return };
    let Some(lane) = server.lane.as_mut() else { return };
    match unit.client.and_then(|key| core.clients.get_mut(key.0).map(|client| (key, client))) {
        Some((client_key, client)) => {
            client.deeds.queries += 1;
            client.deeds.transactions += 1;
            client.io.out().append(&mut lane.stage);
            client.take_news();
            client.io.out().extend_from_slice(message);
            (client.checkout.attempts, client.checkout.retries, client.route.tried) = (0, 0, Tried::default());
            client.times.request_since = now;
            client.checkout.answered(1);
            if client.checkout.pipelined().is_none() && std::mem::take(&mut client.checkout.behind_own) {
                turns::give_turn(core, Turn::Client(client_key));
            }
            core.schedule.unflushed.push(Turn::Client(client_key));
        }
        None => lane.stage.clear(),
    }
    let Some(server) = core.servers.get_mut(key.0) else { return };
    let Some(lane) = server.lane.as_mut() else { return };
    if lane.units.is_empty() {
        turns::later(core, After::Free(key));
    } else {
        // The next unit may begin with an answer that the server is not asked for.
        crate::backend::replies::emit_invented(server, None);
        turns::later(core, After::Share(pool_key));
        turns::later(core, After::Stop(key));
    }
}
