//! A connection's turn: its bytes are read and processed, and its buffered output is sent.

use std::io;

use crate::model::keys::{ClientKey, ServerKey};
use crate::model::turn::{HIGH_WATER, Turn};

use crate::backend::{gone, subscriber_asks};
use crate::frontend::enter;
use crate::io::{Event, Got};
use crate::pools::{connect, depart, leave};
use crate::reactor::{after, feed};
use crate::state::client::{self, Client};
use crate::state::server::Server;
use crate::state::{Core, answering, served, sockets};

/// The number of bytes that are read at once.
pub const READ: usize = 65_536;

/// Works on an event of a client's socket.
pub fn client_event(core: &mut Core, key: ClientKey, event: Event) {
    core.reactor.busy_poll.speak(key, core.now);
    let Some(client) = core.clients.get_mut(key) else { return };
    client.io.hangup |= event.closed;
    client.io.readable |= event.readable || client.io.hangup;
    sockets::flush_client(core, key);
    client_turn(core, key);
}

/// Works on an event of a server connection's socket.
pub fn server_event(core: &mut Core, key: ServerKey, event: Event) {
    let Some(server) = core.servers.get_mut(key) else { return };
    server.io.hangup |= event.closed;
    server.io.readable |= event.readable || server.io.hangup;
    if matches!(server.state(), crate::state::server::State::Connecting) {
        connect::server_connected(core, key);
    }
    sockets::flush_server(core, key);
    server_turn(core, key);
}

/// Reads bytes of a client and works on them.
pub fn client_turn(core: &mut Core, key: ClientKey) {
    let Some(client) = core.clients.get(key).filter(|client| !client.input.suspended) else { return };
    let (proven, moves) = (matches!(client.state(), client::State::Proven(_)), client.moves_to.is_some());
    if proven {
        enter::enter(core, key);
    }
    if moves && depart::moves_away(core, key) {
        return;
    }
    let mut scratch = std::mem::take(&mut core.reactor.scratch);
    read_client(core, key, &mut scratch);
    core.reactor.scratch = scratch;
    let server = core.clients.get(key).and_then(|client| client.checkout.server());
    if let Some(server) = server {
        sockets::flush_server(core, server);
    }
    sockets::flush_client(core, key);
    after::run_after(core);
}

fn read_client(core: &mut Core, key: ClientKey, scratch: &mut [u8]) {
    let Some((client, server)) = served(&mut core.clients, &mut core.servers, key) else { return };
    // A client that hangs up in the queue is not served: a connection would be made ready in vain.
    if client.io.hangup && client.checkout.waits().is_some() {
        return leave::client_gone(core, key, None);
    }
    // Earlier bytes come first: the client may have had to wait for a server.
    if !client.io.rest.is_empty() && may_go_on(client, server.as_deref()) {
        feed::feed_client(core, key, &[], None);
    }
    let Some((client, server)) = served(&mut core.clients, &mut core.servers, key) else { return };
    if !client.io.readable || !may_go_on(client, server.as_deref()) {
        return;
    }
    match client.io.read(scratch) {
        Got::Bytes(count) => {
            if let Some(bytes) = scratch.get(..count) {
                feed::feed_client(core, key, bytes, None);
            }
            if core.clients.get(key).is_some_and(|client| client.io.readable) {
                core.schedule.give_turn(Turn::Client(key));
            }
        }
        Got::Nothing => (),
        Got::Closed(error) => leave::client_gone(core, key, error),
    }
}

/// Whether a client's input may be worked on: the client does not wait, and its server keeps up.
fn may_go_on(client: &Client, server: Option<&Server>) -> bool {
    let waits = client.checkout.waits().is_some()
        || client.checkout.behind_own
        || client.subscriptions.as_ref().is_some_and(|subscriptions| subscriptions.awaits())
        || client.input.console_waits.is_some()
        || client.io.pending() > HIGH_WATER;
    // Messages that come before the login has ended stay in the socket.
    let stays_there = match client.state() {
        client::State::Login(_, phase) => !phase.awaits_client(),
        client::State::Proven(_) | client::State::Greeting => true,
        _ => false,
    };
    !waits && !stays_there && server.is_none_or(|server| server.io.pending() <= HIGH_WATER)
}

/// Reads bytes of a server and works on them.
pub fn server_turn(core: &mut Core, key: ServerKey) {
    let Some(server) = core.servers.get(key).filter(|server| !server.life.suspended) else { return };
    let client = server.client();
    let mut scratch = std::mem::take(&mut core.reactor.scratch);
    read_server(core, key, &mut scratch);
    core.reactor.scratch = scratch;
    if let Some(client) = client {
        sockets::flush_client(core, client);
        subscriber_asks::tell_news(core, client);
    }
    // Units for a pipelined connection are gathered until the turn ends: clients that are still to be read add more.
    if core.servers.get(key).and_then(|server| server.pipeline()).is_none_or(|pipeline| !pipeline.unflushed) {
        sockets::flush_server(core, key);
    }
    after::run_after(core);
}

fn read_server(core: &mut Core, key: ServerKey, scratch: &mut [u8]) {
    let Some((server, client)) = answering(&mut core.servers, &mut core.clients, key) else { return };
    let is_slow = client.is_some_and(|client| client.io.pending() > HIGH_WATER);
    // An error of the socket of a doomed connection would hide the reason for its end.
    if is_slow || !server.io.readable || server.life.doomed.is_some() {
        return;
    }
    match server.io.read(scratch) {
        Got::Bytes(count) => {
            if let Some(fresh) = scratch.get(..count) {
                feed::feed_server(core, key, fresh);
            }
            if core.servers.get(key).is_some_and(|server| server.io.readable) {
                core.schedule.give_turn(Turn::Server(key));
            }
        }
        Got::Nothing => (),
        Got::Closed(error) => {
            // TLS that could not be agreed on will not be the next time.
            server.life.refused |= error.as_ref().is_some_and(|error| error.kind() == io::ErrorKind::InvalidData);
            let why = error.map_or(crate::pools::close::SERVER_CLOSED.to_owned(), |error| error.to_string());
            gone::server_gone(core, key, &why);
        }
    }
}
