//! The end of a unit: its effects on the session, and the clients that learn of them.

use std::time::Instant;

use crate::model::client::Discard;
use crate::model::keys::ServerKey;
use crate::model::request::Request;
use crate::model::session::Unfollowed;
use crate::model::turn::{After, Turn};
use crate::model::vars::Tracked;
use balancer::Tried;
use wire::backend::{self, Status};

use crate::backend::{aligned, subscriber_asks};
use crate::config::PoolMode;
use crate::error::Error;
use crate::frontend::order;
use crate::frontend::replies::{emit_invented, undo};
use crate::pipeline::receive;
use crate::pools::align;
use crate::pools::counts::count_request;
use crate::router::freshness;
use crate::state::client::Client;
use crate::state::pool::Pool;
use crate::state::server::{Residue, Server};
use crate::state::{Core, answering, turns};

/// Works on the ReadyForQuery that ends a unit on a server.
pub fn answer_ready(core: &mut Core, key: ServerKey, message: &[u8], status: Status) -> Result<(), wire::Error> {
    let Some((server, mut client)) = answering(&mut core.servers, &mut core.clients, key) else { return Ok(()) };
    server.status = status;
    let Some((ended, unanswered)) = server.exchange.end_unit() else {
        turns::doom(core, key, "broken protocol: ReadyForQuery that nothing asked for");
        return Ok(());
    };
    if !server.is_pipelined() {
        let ran = std::mem::take(&mut server.exchange.ran);
        if let Some(client) = client.as_deref() {
            // Behind an error, the first request without an answer is the one that has failed.
            let last = unanswered.first().filter(|_| ran.error.is_some()).unwrap_or(&ended);
            let pool = core.pools.get(server.pool);
            count_request(&mut core.lifecycle.shapes, pool, (server, client), last, (&ran, core.now));
        }
    }
    undo(server, false, client.as_deref_mut(), unanswered);
    server.settle_definition();
    let failed = std::mem::take(&mut server.exchange.failed);
    match ended {
        Request::Prelude => (),
        Request::Restore { ends_unit: true } => unit_ended(core, key, Some(message), status, failed),
        Request::Restore { ends_unit: false } | Request::Settle => {
            if let Some(client) = client
                && std::mem::take(&mut client.checkout.behind_own)
                && let Some(key) = server.client()
            {
                core.schedule.give_turn(Turn::Client(key));
            }
            core.schedule.later(After::Free(key));
        }
        Request::Align => aligned::aligned(core, key),
        Request::Clean if server.exchange.requests.is_empty() && std::mem::take(&mut server.known.lost_count) => {
            align::forget_prepared(core, key);
        }
        Request::Clean | Request::Connect if server.exchange.requests.is_empty() => {
            if let Some(target) = server.end_reset() {
                (server.known.session.sets, server.known.session.read_only) = (target.sets, target.read_only);
            }
            core.schedule.later(After::Free(key));
        }
        Request::Clean | Request::Connect => (),
        Request::Lookup => core.schedule.later(After::LookedUp(key)),
        Request::Role => {
            let is_last = server.exchange.requests.is_empty();
            let standby = server.known.was_standby.then_some(After::Standby(key));
            standby.into_iter().chain(is_last.then_some(After::Free(key))).for_each(|after| core.schedule.later(after));
        }
        _ if server.is_pipelined() => receive::ready(core, key, message, status),
        Request::HiddenSync => unit_ended(core, key, None, status, failed),
        Request::Call { large_objects } => {
            if !large_objects {
                leave_anything(server, client);
            }
            unit_ended(core, key, Some(message), status, failed);
        }
        _ => unit_ended(core, key, Some(message), status, failed),
    }
    Ok(())
}

/// Notes that a client has called a function by the protocol. The function's effects are not known; some, nothing undoes.
fn leave_anything(server: &mut Server, client: Option<&mut Client>) {
    server.known.residue = Residue::Anything;
    server.life.retire = true;
    if let Some(client) = client {
        client.session.unfollowed = Unfollowed::Reading;
    }
}

/// Notes the end of a client's unit on its connection: `ready` is the message that the client gets for it.
fn unit_ended(core: &mut Core, key: ServerKey, ready: Option<&[u8]>, status: Status, failed: bool) {
    let Some((server, client)) = answering(&mut core.servers, &mut core.clients, key) else { return };
    let blocks = core.pools.get(server.pool).is_none_or(|pool| pool.limits.mode != PoolMode::Statement);
    if status != Status::Idle && !blocks {
        return refuse_block(core, key);
    }
    let Some(client) = client else { return };
    let tracked = &core.parameters.tracked;
    // A Query ends its unit without a Sync, also one that messages of the extended protocol have begun.
    if ready.is_some() && server.exchange.requests.is_empty() {
        client.input.unsynced &= client.input.passing > 0 || client.input.discard != Discard::No;
    }
    // What its client says up to the next Sync still runs with the server's own values.
    if status == Status::Transaction
        && !client.input.unsynced
        && client.session.is_to_restore(tracked)
        && restores_first(server, client, tracked, ready.is_some())
    {
        return;
    }
    if status == Status::Idle {
        transaction_ended(server, client, tracked, failed);
    }
    // A unit that ends within a transaction may have committed another before.
    freshness::note_commit(server, client, &core.pools, &core.router);
    if let Some(begun) = &mut client.route.begun {
        begun.has_failed |= failed;
    }
    match ready {
        Some(_) if client.route.begun.is_some() => {
            backend::write_ready_for_query(client.io.out(), client.route.status());
        }
        Some(message) => {
            if status == Status::Idle {
                client.take_news();
            }
            client.io.out().extend_from_slice(message);
        }
        // The client has not ended its unit: its messages up to the end are void.
        None if failed => client.input.discard = Discard::ToSync,
        None => (),
    }
    emit_invented(server, Some(client));
    order::look_again(server, Some(client), &mut core.schedule);
    count_unit(server, client, core.pools.get_mut(server.pool), core.now, status);
    core.schedule.later(After::Free(key));
}

/// Closes a client that has opened a transaction block in statement pooling.
fn refuse_block(core: &mut Core, key: ServerKey) {
    let Some((server, client)) = answering(&mut core.servers, &mut core.clients, key) else { return };
    // No further message of the server is passed on.
    server.life.doomed = Some(Error::NoBlocks.to_string());
    let Some(client_key) = server.client() else { return };
    if let Some(client) = client {
        // A client that reads the end of its BEGIN takes the error behind that for another result. The client has mostly not
        // got the end yet, since the server sends it together with the ReadyForQuery. It stays where something stands behind
        // it, such as a changed parameter or the warning for a second BEGIN.
        for tag in ["BEGIN", "START TRANSACTION"] {
            let mut end = Vec::new();
            backend::write_command_complete(&mut end, tag);
            client.io.retract(&end);
        }
    }
    core.schedule.later(After::Expel(client_key, Box::new(Error::NoBlocks)));
}

/// Sets again, within the transaction, the parameters that its client has reset in it. Whether the client gets the end
/// of its unit after that.
fn restores_first(server: &mut Server, client: &mut Client, tracked: &Tracked, tells: bool) -> bool {
    let restore = client.session.restored(tracked, client.io.out());
    if restore.is_empty() {
        return false;
    }
    // Later messages of the client may have been sent already.
    let ends_unit = tells && server.exchange.requests.is_empty();
    wire::frontend::write_query(server.io.out(), &restore);
    server.exchange.requests.push_back(Request::Restore { ends_unit });
    server.known.unnamed = None;
    ends_unit
}

/// Notes the end of a client's unit outside a transaction: its changes to the session count, unless it has failed.
fn transaction_ended(server: &mut Server, client: &mut Client, tracked: &Tracked, failed: bool) {
    // What functions have set lasts until the connection is given back.
    if server.known.residue == Residue::Nothing || client.session.unfollowed < Unfollowed::Reading {
        client.session.unfollowed = Unfollowed::Nothing;
    }
    let (session, told) = (&mut server.known.session, client.io.out());
    if client.session.transaction_ended(session, tracked, failed, told) {
        server.known.residue = server.known.residue.max(Residue::Settings);
    }
    let last = server.exchange.requests.is_empty();
    subscriber_asks::settle_subscriptions(client, failed, last);
    // Portals of the next unit may be bound already.
    client.prepared.portals.transaction_ended(server.exchange.requests.bound_and_answered());
}

/// Counts a unit that has ended, and the transaction with it.
fn count_unit(server: &mut Server, client: &mut Client, pool: Option<&mut Pool>, now: Instant, status: Status) {
    if let Some(pool) = pool {
        pool.counts.totals.queries += 1;
        client.activity.queries += 1;
        let span = now.saturating_duration_since(client.times.request_since);
        pool.counts.totals.query_time += span;
        pool.counts.stats.queried(server.at.place, span);
        if status == Status::Idle {
            pool.counts.totals.transactions += 1;
            client.activity.transactions += 1;
            let since = client.times.transaction_since.unwrap_or(client.times.request_since);
            pool.counts.totals.transaction_time += now.saturating_duration_since(since);
        }
    }
    client.times.request_since = now;
    server.life.state_since = now;
    if status == Status::Idle {
        client.times.transaction_since = None;
        client.checkout.attempts = 0;
        client.route.tried = Tried::default();
    }
}
