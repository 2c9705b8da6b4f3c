//! Cancel requests: a client's, and those that the pooler sends to servers for it.
//!
//! PostgreSQL's cancel strikes a process and not a statement, so it must strike only what belongs to who asked. A
//! statement that has not been sent is answered here. A read on a pipelined connection is answered here too, and its
//! late answer dropped; the server is asked only once nobody waits for that connection any more. A connection is
//! checked out to nobody else before its server has got every cancel request that was sent for it, which the server
//! shows by closing the connection that brought it; and the client's own cancel request ends then, not before, as with
//! a server.

use crate::model::keys::{ClientKey, ServerKey};
use crate::model::turn::{After, Turn};
use wire::startup::CancelKey;

use crate::backend::connect;
use crate::config::SslMode;
use crate::error::Error;
use crate::frontend::{leave, prepared};
use crate::io::Io;
use crate::pipeline::{connection, retry};
use crate::pools::checkin;
use crate::reactor::{sockets, turns};
use crate::shared::Message;
use crate::state::Core;
use crate::state::cancel::Asker;
use crate::state::server::{Server, State};
use crate::sync::lock;

/// Cancels what a client is doing: its wait for a server connection, or its statement on the server.
pub fn cancel(core: &mut Core, key: ClientKey, cancel: &CancelKey, asker: Asker) {
    let Some(client) = core.clients.get(key.0).filter(|client| client.identity.cancel_key == *cancel) else {
        // It may have moved since its worker was looked up.
        let now = lock(&core.shared.cancels).get(cancel).copied().filter(|now| *now != (core.id, key));
        return match now {
            Some((worker, key)) => core.shared.tell(worker, Message::Cancel(key, cancel.clone(), asker)),
            None => answer_asker(core, asker),
        };
    };
    if client.checkout.pipelined().is_some() {
        return cancel_pipelined(core, key, asker);
    }
    let aligning = client
        .checkout
        .server()
        .filter(|server| core.servers.get(server.0).is_some_and(|server| server.known.aligning.is_some()));
    if let Some(server) = aligning.filter(|_| !checkin::is_tied(core, key)) {
        // Its statement has not been sent, and the alignment goes on for whoever comes next.
        checkin::detach(core, server);
    }
    let Some(client) = core.clients.get(key.0) else { return answer_asker(core, asker) };
    if aligning.is_some() || client.checkout.waits().is_some() {
        leave::refuse(core, key, &Error::Cancelled);
        return answer_asker(core, asker);
    }
    match client.checkout.server() {
        Some(target) => cancel_on_server(core, target, Some(asker)),
        None => answer_asker(core, asker),
    }
}

/// Ends the connection that brought a cancel request: it has had its effect, or has none.
fn answer_asker(core: &Core, (worker, key): Asker) {
    core.shared.tell(worker, Message::Cancelled(key));
}

/// Cancels the first of a client's units that were sent down a pipelined connection.
fn cancel_pipelined(core: &mut Core, key: ClientKey, asker: Asker) {
    let Some((server_key, _)) = core.clients.get(key.0).and_then(|client| client.checkout.pipelined()) else { return };
    let Some(pipeline) = core.servers.get_mut(server_key.0).and_then(|server| server.pipeline.as_mut()) else { return };
    let Some(place) = pipeline.units.iter().position(|unit| unit.client == Some(key)) else {
        return answer_asker(core, asker);
    };
    if pipeline.alone {
        return cancel_on_server(core, server_key, Some(asker));
    }
    if place == 0 && pipeline.forwarded {
        // Part of its answer has been passed on, so the end must be the server's; nobody may stand behind it.
        retry::rescue(core, server_key);
        return cancel_on_server(core, server_key, Some(asker));
    }
    prepared::forget_names(core, server_key, place);
    connection::disown(core, server_key, place);
    retry::answer_unit(core, key, &Error::Cancelled);
    answer_asker(core, asker);
    turns::later(core, After::Stop(server_key));
}

/// Has the server stop what it does on a pipelined connection, if nobody waits for any of it.
pub fn stop_unwanted(core: &mut Core, key: ServerKey) {
    let Some(server) = core.servers.get_mut(key.0).filter(|server| matches!(server.state, State::Pipelined)) else {
        return;
    };
    let held = server.cancels.under_way;
    let Some(pipeline) = server.pipeline.as_mut() else { return };
    let wanted = pipeline.units.iter().any(|unit| unit.client.is_some() || unit.writes);
    if !wanted && !pipeline.units.is_empty() && held == 0 {
        pipeline.closed = true;
        cancel_on_server(core, key, None);
    }
}

/// Sends a cancel request for what this server connection is doing.
pub fn cancel_on_server(core: &mut Core, target: ServerKey, asker: Option<Asker>) {
    let busy = |server: &&Server| {
        matches!(server.state, State::Relay) || !server.exchange.requests.is_empty() && server.known.aligning.is_none()
    };
    let Some(server) = core.servers.get(target.0).filter(busy) else {
        asker.into_iter().for_each(|asker| answer_asker(core, asker));
        return;
    };
    let (host, port, address, pool) = (server.at.host.clone(), server.at.port, server.at.address.clone(), server.pool);
    // What is hidden on the way of a statement is hidden on the way of its cancel request.
    let sslmode = match server.io.tls() {
        None => SslMode::Disable,
        Some(_) if server.at.sslmode.requires() => server.at.sslmode,
        Some(_) => SslMode::Require,
    };
    let cancel_key = server.cancels.key.clone();
    let slot = ServerKey(core.servers.vacant());
    let made = core.reactor.network.connect(&address, &core.config.settings).and_then(|socket| {
        let mut io = Io::new(socket);
        sockets::watch_server(core, slot, &mut io)?;
        Ok(io)
    });
    match made {
        Ok(io) => {
            let mut carrier = Server::new(io, host, port, address, pool, core.now, core.shared.next_id());
            carrier.cancels.target = Some(target);
            carrier.cancels.asker = asker;
            carrier.cancels.key = cancel_key;
            carrier.at.sslmode = sslmode;
            core.servers.insert(carrier);
            if let Some(server) = core.servers.get_mut(target.0) {
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

/// A connection that brought a cancel request has ended; `got` when the server has ended it itself.
pub fn cancel_ended(core: &mut Core, key: ServerKey, got: bool) {
    let Some(carrier) = core.servers.remove(key.0) else { return };
    sockets::unwatch(core, &carrier.io);
    carrier.cancels.asker.into_iter().for_each(|asker| answer_asker(core, asker));
    let Some((target_key, target)) =
        carrier.cancels.target.and_then(|target| Some((target, core.servers.get_mut(target.0)?)))
    else {
        return;
    };
    // It may have been read, and strike whatever the server does when the postmaster comes to it.
    target.cancels.suspect |= !got && matches!(carrier.state, State::Cancelling);
    target.cancels.under_way = target.cancels.under_way.saturating_sub(1);
    if target.cancels.under_way > 0 {
        return;
    }
    if std::mem::take(&mut target.cancels.frees) {
        turns::later(core, After::Free(target_key));
    } else if let Some(client) = target.holder() {
        // Its alignment may wait for this.
        turns::give_turn(core, Turn::Client(client));
    }
}
