//! The answers of servers on pipelined connections: cut apart at each ReadyForQuery, and given to the client of each
//! unit.

use std::time::{Duration, Instant};

use crate::model::keys::{ClientKey, PoolKey, ServerKey};
use crate::model::pipeline::{Pipeline, Unit};
use crate::model::slots::Slots;
use crate::model::turn::{After, Turn};
use balancer::Tried;
use wire::backend::{Report, Status};
use wire::sqlstate;

use crate::frontend::replies::{emit_invented, shown_name, write_renamed};
use crate::metrics::shapes::Shapes;
use crate::pools::{counts, retry};
use crate::router::{freshness, members};
use crate::state::client::Client;
use crate::state::cluster::{SERIALIZABLE, UNLOGGED};
use crate::state::pool::Pool;
use crate::state::server::{Residue, Server};
use crate::state::{Core, Schedule, turns};

/// The most times that a unit is retried after an error by the fault of the pooler or a neighbour.
const RETRIES: u8 = 8;

/// The most times that a write is sent again which replicas refuse: a promotion takes seconds, a tenth of one lies
/// between two.
const REFUSALS: u8 = 100;

/// Works on an error in the answer to a pipelined connection's unit. The client gets it, unless the fault is the
/// pooler's or a neighbour's: then the unit is retried.
pub fn error(core: &mut Core, key: ServerKey, message: &[u8], report: &Report) {
    let Some(server) = core.servers.get_mut(key) else { return };
    let only_read = members::is_only_read(server, &core.pools, &core.router);
    let is_member = core.pools.get(server.pool).is_some_and(|pool| pool.cluster_of.home.is_some());
    // The unit wrote on a replica or in a read-only transaction of the pooler's, and has done nothing. The error of the
    // session's own read-only transactions is for the client.
    // So does the error of a function that reads an unlogged relation, which only the primary has.
    let refused = report.code == sqlstate::READ_ONLY_SQL_TRANSACTION
        || report.code == sqlstate::FEATURE_NOT_SUPPORTED && report.routine == UNLOGGED;
    let wrote_to_replica = refused && is_member && (server.known.standby != Some(false) || only_read);
    let session = &server.known.session;
    let ours = refused && session.read_only && !session.sets.concern_read_only();
    // A serializable transaction that a standby cannot do goes to the primary from now on.
    let misrouted = report.code == sqlstate::FEATURE_NOT_SUPPORTED && report.routine == SERIALIZABLE && is_member;
    let forgets = server.exchange.forgets_statement(&mut server.known.statements, report);
    let (Some(pipeline), exchange) = server.pipeline_and_exchange() else { return };
    // A statement before it in the unit may have committed itself, as CREATE DATABASE does.
    let may_have_written = pipeline.units.front().is_some_and(|unit| unit.writes) && pipeline.has_run();
    let again = forgets && !may_have_written || wrote_to_replica || ours || misrouted;
    if (wrote_to_replica || ours)
        && let Some(fingerprint) = pipeline.units.front().and_then(|unit| unit.fingerprint.as_ref())
    {
        fingerprint.was_misjudged();
    }
    let Some(client_key) = pipeline.head().filter(|_| !pipeline.muted) else { return };
    let client = core.clients.get_mut(client_key);
    let may_again = |client: &Client| {
        let retries = client.checkout.retries;
        again && !pipeline.forwarded && (retries < RETRIES || wrote_to_replica && retries < REFUSALS)
    };
    match client {
        Some(client) if may_again(client) => {
            client.checkout.retries = client.checkout.retries.saturating_add(1);
            // The fingerprint may not be remembered: a unit that was refused as a write is not taken for a read again.
            client.checkout.needs_own |= refused && !wrote_to_replica;
            pipeline.again = true;
            if wrote_to_replica {
                client.route.waiting_since.get_or_insert(client.times.request_since);
                let pool = server.pool;
                retry::wrote_to_replica(core, pool, client_key);
            }
        }
        client => {
            pipeline.failed = true;
            match client.and_then(|client| shown_name(&exchange.requests, client, &report.code)) {
                Some((internal, shown)) => write_renamed(&mut pipeline.stage, message, &internal, &shown),
                None => pipeline.stage.extend_from_slice(message),
            }
        }
    }
}

/// Ends an answered unit of a pipelined connection: its client gets the answer, the next unit is at the head.
pub fn ready(core: &mut Core, key: ServerKey, message: &[u8], status: Status) {
    if status != Status::Idle {
        return turns::doom(core, key, "a statement that was taken for a read has left a transaction open");
    }
    let Some(pipeline) = core.servers.get_mut(key).and_then(|server| server.pipeline_mut()) else { return };
    if std::mem::take(&mut pipeline.again) {
        pipeline.drop_answer();
        if let Some(client) = pipeline.head() {
            retry::retry_units(core, key, client, 0);
        }
    }
    let Some(server) = core.servers.get_mut(key) else { return };
    let Some((unit, took)) = server.pipeline_mut().and_then(|pipeline| pipeline.finish_head(core.now)) else {
        return turns::doom(core, key, "broken protocol: an answer that nothing asked for");
    };
    let mut client = unit.client.and_then(|client| core.clients.get_mut(client));
    learn(server, &unit, took, core.now);
    count_unit(server, &mut core.pools, &mut core.lifecycle.shapes, &unit, took);
    if let Some(client) = client.as_deref_mut()
        && !server.known.session.read_only
        && server.known.standby != Some(true)
    {
        freshness::owe(client, &core.pools, &core.router);
    }
    let Some(pipeline) = server.pipeline_mut() else { return };
    match unit.client.zip(client) {
        Some((key, client)) => tell(pipeline, (key, client), message, core.now, &mut core.schedule),
        // An answer without a client is thrown away.
        None => pipeline.drop_answer(),
    }
    if pipeline.units.is_empty() {
        core.schedule.later(After::Free(key));
    } else {
        core.schedule.later(After::Share(server.pool));
        // The next unit may begin with an answer of the pooler's own.
        emit_invented(server, None);
        core.schedule.later(After::Stop(key));
    }
}

/// Notes the duration of a unit, and what it may have left.
fn learn(server: &mut Server, unit: &Unit, took: Duration, now: Instant) {
    let alone = server.pipeline().is_some_and(|pipeline| pipeline.alone);
    if let Some(fingerprint) = &unit.fingerprint {
        fingerprint.took(took, alone, now);
        if fingerprint.verdict.opaque {
            server.known.residue = server.known.residue.max(Residue::Anything);
        }
    }
}

/// Counts a unit that its server has answered.
fn count_unit(server: &mut Server, pools: &mut Slots<PoolKey, Pool>, shapes: &mut Shapes, unit: &Unit, took: Duration) {
    let alone = server.pipeline().is_some_and(|pipeline| pipeline.alone);
    if let Some(pool) = pools.get_mut(server.pool) {
        pool.count_pipelined(server.at.place, took, alone);
    }
    let ran = std::mem::take(&mut server.exchange.ran);
    // A unit without a client is retried.
    if unit.client.is_some() && (ran.ended || ran.error.is_some()) {
        let verdict = unit.fingerprint.as_ref().map(|fingerprint| &*fingerprint.verdict);
        counts::count(shapes, pools.get(server.pool), server, verdict, &ran, took);
    }
}

/// Gives a client the answer to its unit.
fn tell(
    pipeline: &mut Pipeline,
    (key, client): (ClientKey, &mut Client),
    message: &[u8],
    now: Instant,
    schedule: &mut Schedule,
) {
    client.activity.queries += 1;
    client.activity.transactions += 1;
    pipeline.pass_answer(client.io.out());
    client.take_news();
    client.io.out().extend_from_slice(message);
    (client.checkout.attempts, client.checkout.retries, client.route.tried) = (0, 0, Tried::default());
    client.times.request_since = now;
    client.checkout.answered(1);
    schedule.unflushed.push(Turn::Client(key));
    if client.checkout.pipelined().is_none() && std::mem::take(&mut client.checkout.behind_own) {
        schedule.give_turn(Turn::Client(key));
    }
}
