//! Sockets as the event loop watches them, and what is sent on them.

use std::io;

use crate::model::keys::{ClientKey, ServerKey};
use crate::model::turn::{After, HIGH_WATER, Turn};

use crate::io::Io;
use crate::state::Core;

/// The token by which events name a connection; the listeners and the mailbox have the numbers between.
fn token_of(turn: Turn) -> usize {
    match turn {
        Turn::Client(key) => key.0.token(0),
        Turn::Server(key) => key.0.token(1),
    }
}

/// Sends a client its output; a server that waited for that goes on.
pub fn flush_client(core: &mut Core, key: ClientKey) {
    let Some(client) = core.clients.get_mut(key) else { return };
    let before = client.io.pending();
    if before == 0 {
        return;
    }
    let flushed = client.io.flush();
    match flushed.and_then(|()| client.io.watch_room(&*core.reactor.network, token_of(Turn::Client(key)))) {
        Ok(()) => {
            let server = client.checkout.connection();
            if before > HIGH_WATER && client.io.pending() <= HIGH_WATER {
                core.schedule.give_turn(Turn::Client(key));
                if let Some(server) = server {
                    core.schedule.give_turn(Turn::Server(server));
                }
            }
        }
        Err(error) => core.schedule.later(After::Leave(key, error.to_string())),
    }
}

/// Sends a server its output; a client that waited for that goes on.
pub fn flush_server(core: &mut Core, key: ServerKey) {
    let Some(server) = core.servers.get_mut(key) else { return };
    let before = server.io.pending();
    if before == 0 || matches!(server.state(), crate::state::server::State::Connecting) {
        return;
    }
    let flushed = server.io.flush();
    match flushed.and_then(|()| server.io.watch_room(&*core.reactor.network, token_of(Turn::Server(key)))) {
        Ok(()) => {
            let client = server.client();
            if let (true, Some(client)) = (before > HIGH_WATER && server.io.pending() <= HIGH_WATER, client) {
                core.schedule.give_turn(Turn::Client(client));
            }
        }
        // The last message of the server may still be read, and gives the reason.
        Err(_) => {
            server.io.readable = true;
            server.io.out().clear();
            core.schedule.give_turn(Turn::Server(key));
        }
    }
}

/// Watches a client's socket under its key.
pub fn watch_client(core: &Core, key: ClientKey, io: &mut Io) -> io::Result<()> {
    io.watch(&*core.reactor.network, token_of(Turn::Client(key)), false)
}

/// Watches a server's socket, which is being connected, under its key.
pub fn watch_server(core: &Core, key: ServerKey, io: &mut Io) -> io::Result<()> {
    io.watch(&*core.reactor.network, token_of(Turn::Server(key)), true)
}

/// Stops watching a socket.
pub fn unwatch(core: &Core, io: &Io) {
    io.unwatch(&*core.reactor.network);
}

/// Sends as much as possible to a client that is being closed; whether it can be sent more.
pub fn flush_last(core: &mut Core, key: ClientKey) -> bool {
    let Some(client) = core.clients.get_mut(key) else { return false };
    client.io.flush().is_ok()
        && client.io.watch_room(&*core.reactor.network, token_of(Turn::Client(key))).is_ok()
        && (client.io.pending() > 0 || client.io.half_close().is_ok())
}
