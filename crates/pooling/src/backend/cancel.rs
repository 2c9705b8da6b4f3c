//! Cancel requests: a client's, and those that the pooler sends to servers for it.
//!
//! PostgreSQL's cancel request strikes a process and not a statement, so the pooler must send it only while that
//! process runs a statement of the client that asked. If the statement has not been sent, the pooler answers it itself.
//! The same holds for a read on a pipelined connection, whose late answer is dropped; its server gets a cancel request
//! only when no other client waits for that connection. No other client gets a server connection before its server has
//! received every cancel request that was sent for it, which the server shows by closing the connection that carried
//! the request. Only then does the client's own cancel request end, as with a server.
//!
//! PostgreSQL ignores a cancel request that comes before its process has read the statement. A client cannot know that
//! its statement has waited here and was sent to a server only a moment ago. So the pooler repeats a cancel request if
//! the server received it soon after the statement and has not begun to answer; the client's own request ends after the
//! repetition.

use std::time::Duration;

use crate::model::cancel::{Asker, Repeat};
use crate::model::exchange::Exchange;
use crate::model::keys::{ClientKey, ServerKey};
use crate::model::request::Request;
use crate::model::turn::{After, Turn};
use wire::startup::CancelKey;

use crate::config::SslMode;
use crate::error::Error;
use crate::io::Io;
use crate::pools::{checkin, connect, leave, pipelines, prepared, retry};
use crate::shared::Message;
use crate::state::server::{Server, State};
use crate::state::{Core, sockets};
use crate::sync::lock;

/// The time after a statement for which its server may get the cancel request first: its process has not had the
/// processor yet.
const EARLY: Duration = Duration::from_millis(500);

/// Cancels the work of a client: its wait for a server connection, or its statement on the server.
pub fn cancel(core: &mut Core, key: ClientKey, cancel: &CancelKey, asker: Asker) {
    let Some(client) = core.clients.get(key).filter(|client| client.identity.cancel_key == *cancel) else {
        // The client may have moved since its worker was looked up.
        let now = lock(&core.shared.cancels).get(cancel).copied().filter(|now| *now != (core.id, key));
        return match now {
            Some((worker, key)) => core.shared.tell(worker, Message::Cancel(key, cancel.clone(), asker)),
            None => answer_asker(core, asker),
        };
    };
    if client.checkout.pipelined().is_some() {
        return cancel_pipelined(core, key, asker);
    }
    let aligning =
        client.checkout.server().filter(|server| core.servers.get(*server).is_some_and(|server| server.is_aligning()));
    if let Some(server) = aligning.filter(|_| !checkin::is_tied(core, key)) {
        // The statement has not been sent, and the alignment goes on for the next client.
        checkin::detach(core, server);
    }
    let Some(client) = core.clients.get(key) else { return answer_asker(core, asker) };
    if aligning.is_some() || client.checkout.waits().is_some() {
        leave::refuse(core, key, &Error::Cancelled);
        return answer_asker(core, asker);
    }
    match client.checkout.server() {
        Some(target) => cancel_on_server(core, target, Some(asker)),
        None => answer_asker(core, asker),
    }
}

/// Ends the connection that brought a cancel request: the request has had its effect, or has none.
fn answer_asker(core: &Core, (worker, key): Asker) {
    core.shared.tell(worker, Message::Cancelled(key));
}

/// Cancels the first of a client's units that were sent down a pipelined connection.
fn cancel_pipelined(core: &mut Core, key: ClientKey, asker: Asker) {
    let Some((server_key, _)) = core.clients.get(key).and_then(|client| client.checkout.pipelined()) else { return };
    let Some(pipeline) = core.servers.get_mut(server_key).and_then(|server| server.pipeline_mut()) else { return };
    let Some(place) = pipeline.units.iter().position(|unit| unit.client == Some(key)) else {
        return answer_asker(core, asker);
    };
    if pipeline.alone {
        return cancel_on_server(core, server_key, Some(asker));
    }
    if place == 0 && pipeline.forwarded {
        // Part of the answer has been passed on, so the end must be the server's; no unit may stand behind this one.
        retry::rescue(core, server_key);
        return cancel_on_server(core, server_key, Some(asker));
    }
    prepared::take_back(core, server_key, place);
    pipelines::disown(core, server_key, place);
    retry::answer_unit(core, key, &Error::Cancelled);
    answer_asker(core, asker);
    core.schedule.later(After::Stop(server_key));
}

/// Has the server stop the units of a pipelined connection, if no client waits for any of them.
pub fn stop_unwanted(core: &mut Core, key: ServerKey) {
    let Some(server) = core.servers.get_mut(key).filter(|server| server.is_pipelined()) else {
        return;
    };
    let held = server.cancels.under_way;
    let Some(pipeline) = server.pipeline_mut() else { return };
    let wanted = pipeline.units.iter().any(|unit| unit.client.is_some() || unit.writes);
    if !wanted && !pipeline.units.is_empty() && held == 0 {
        pipeline.closed = true;
        cancel_on_server(core, key, None);
    }
}

/// Sends a cancel request for the statement on this server connection.
pub fn cancel_on_server(core: &mut Core, target: ServerKey, asker: Option<Asker>) {
    let busy = |server: &&Server| {
        matches!(server.state(), State::Relay) || !server.exchange.requests.is_empty() && !server.is_aligning()
    };
    let Some(server) = core.servers.get(target).filter(busy) else {
        asker.into_iter().for_each(|asker| answer_asker(core, asker));
        return;
    };
    let (host, port, address, pool) = (server.at.host.clone(), server.at.port, server.at.address.clone(), server.pool);
    // A cancel request is hidden on its way as the statement is.
    let sslmode = match server.io.tls() {
        None => SslMode::Disable,
        Some(_) if server.at.sslmode.requires() => server.at.sslmode,
        Some(_) => SslMode::Require,
    };
    let (cancel_key, early) = (server.cancels.key.clone(), unanswered(server));
    let slot = core.servers.vacant();
    let made = core.reactor.network.connect(&address, &core.config.settings).and_then(|socket| {
        let mut io = Io::new(socket);
        sockets::watch_server(core, slot, &mut io)?;
        Ok(io)
    });
    match made {
        Ok(io) => {
            let mut carrier = Server::new(io, host, port, address, pool, core.now, core.shared.next_id());
            carrier.cancels.target = Some(target);
            carrier.cancels.early = early;
            carrier.cancels.asker = asker;
            carrier.cancels.key = cancel_key;
            carrier.at.sslmode = sslmode;
            core.servers.insert(carrier);
            if let Some(server) = core.servers.get_mut(target) {
                server.cancels.under_way += 1;
            }
            connect::server_connected(core, slot);
        }
        Err(error) => {
            crate::warning!("cannot send a cancel request to {host}:{port}: {error}");
            asker.into_iter().for_each(|asker| answer_asker(core, asker));
        }
    }
}

/// The number of the statement under way on this server connection, for one client alone, unless the server has begun
/// to answer. None while statements of the client are on their way behind it: the server may have struck the first
/// already without a word of that having come, and a repeated request would strike the next.
fn unanswered(server: &Server) -> Option<u64> {
    let of_one = match server.state() {
        State::Active(holder) => holder.is_some(),
        State::Pipelined(pipeline) => pipeline.alone,
        _ => false,
    };
    let Exchange { requests, answered, begun, .. } = &server.exchange;
    let behind = requests.iter().rev().skip(1).any(Request::ends_unit);
    let waits = of_one && !requests.is_empty() && !answered && !behind;
    waits.then_some(*begun)
}

/// Repeats the cancel requests that may have come before their statements, for statements that still run. SUSPEND does
/// not wait for that, and while all connections are held their answers are not known.
pub fn repeat(core: &mut Core) {
    let suspended = !core.lets_in();
    for Repeat { server: key, number, asker } in std::mem::take(&mut core.schedule.repeats) {
        if !suspended && core.servers.get(key).and_then(unanswered) == Some(number) {
            cancel_on_server(core, key, asker);
            if let Some(server) = core.servers.get_mut(key) {
                server.cancels.repeats = server.cancels.under_way > 0;
            }
        } else {
            asker.into_iter().for_each(|asker| answer_asker(core, asker));
        }
    }
}

/// Notes the end of a connection that brought a cancel request; `got` when the server has ended it itself.
pub fn cancel_ended(core: &mut Core, key: ServerKey, got: bool) {
    let Some(carrier) = core.servers.remove(key) else { return };
    sockets::unwatch(core, &carrier.io);
    let asker = carrier.cancels.asker;
    let target = carrier.cancels.target.and_then(|key| Some((key, core.servers.get(key)?)));
    let early = target.and_then(|(server, target)| {
        let soon = core.now.saturating_duration_since(target.life.state_since) < EARLY;
        let number = carrier.cancels.early.filter(|number| got && soon && unanswered(target) == Some(*number))?;
        Some(Repeat { server, number, asker })
    });
    match early {
        Some(early) => core.schedule.repeats.push(early),
        None => asker.into_iter().for_each(|asker| answer_asker(core, asker)),
    }
    let Some((target_key, target)) =
        carrier.cancels.target.and_then(|target| Some((target, core.servers.get_mut(target)?)))
    else {
        return;
    };
    // The server may have read the request, and the postmaster may strike a later statement by it.
    target.cancels.suspect |= !got && matches!(carrier.state(), State::Cancelling);
    target.cancels.under_way = target.cancels.under_way.saturating_sub(1);
    if target.cancels.under_way > 0 {
        return;
    }
    target.cancels.repeats = false;
    if std::mem::take(&mut target.cancels.frees) {
        core.schedule.later(After::Free(target_key));
    } else if let Some(key) = target.holder() {
        // The client's alignment may wait for this, or its next unit.
        core.clients.get_mut(key).into_iter().for_each(|client| client.checkout.behind_own = false);
        core.schedule.give_turn(Turn::Client(key));
    }
}
