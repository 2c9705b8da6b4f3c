//! How clients are told of errors, and how they leave.

use std::io;

use crate::model::client::Discard;
use crate::model::keys::ClientKey;
use crate::model::relay::Relay;
use crate::model::turn::{After, Turn};
use wire::backend::Status;

use crate::error::{Error, Severity};
use crate::pipeline::connection;
use crate::pools::checkin;
use crate::reactor::{sockets, turns};
use crate::state::Core;
use crate::state::client::State as ClientState;
use crate::sync::lock;

/// Answers the statement that a client waits to send with an error; the client stays connected.
pub fn refuse(core: &mut Core, key: ClientKey, error: &Error) {
    let Some(client) = core.clients.get_mut(key.0) else { return };
    if client.login_phase().is_some() {
        return turns::later(core, After::LookupRefused(key, error.to_string()));
    }
    if !client.is_ready() {
        return fatal(core, key, error);
    }
    client.checkout.stop_waiting();
    client.checkout.needs_own = false;
    client.deeds.errors += 1;
    // One error ends a unit, however many would come.
    if std::mem::replace(&mut client.input.discard, Discard::Unit) == Discard::No {
        error.write(client.io.out(), Severity::Error);
    }
    note(core, key, error);
    if let Some(pool) =
        core.clients.get(key.0).and_then(|client| client.route.pool).and_then(|key| core.pools.get_mut(key.0))
    {
        pool.counts.totals.refused += 1;
        pool.forget(key);
    }
    turns::give_turn(core, Turn::Client(key));
}

/// Tells a client why it is closed, and closes it.
pub fn fatal(core: &mut Core, key: ClientKey, error: &Error) {
    let Some(client) = core.clients.get_mut(key.0) else { return };
    if matches!(client.state, ClientState::Closing) {
        return;
    }
    let within = |relay: &Relay| !relay.is_between_messages();
    if matches!(client.state, ClientState::Relay) && client.relay.as_deref().is_some_and(within) {
        // In the middle of a message of its server nothing can be said that would be understood.
        return close_client(core, key, &error.to_string());
    }
    tell(core, key, error, Severity::Fatal);
    let_go(core, key);
}

/// Closes a client whose server has ended the connection, once what the server has said is sent.
pub fn end_client(core: &mut Core, key: ClientKey, why: &str) {
    if core.config.settings.log_disconnections {
        crate::info!(of core.name_client(key); "closing because: {why}");
    }
    let_go(core, key);
}

/// Takes a client out of everything, and closes its connection when it has what was to be sent.
fn let_go(core: &mut Core, key: ClientKey) {
    leave(core, key);
    // The message may be lost if the socket is closed with unread input: so it is half closed, and the rest read.
    let Some(client) = core.clients.get_mut(key.0) else { return };
    client.state = ClientState::Closing;
    client.identity.since = core.now;
    client.io.rest = Vec::new();
    // Before a TLS handshake is done nothing can be said that would be understood.
    let mute = client.io.is_handshaking();
    if mute || !sockets::flush_last(core, key) {
        drop_client(core, key);
    }
}

/// Closes a client's connection without a word.
pub fn close_client(core: &mut Core, key: ClientKey, why: &str) {
    let Some(client) = core.clients.get(key.0) else { return };
    if core.config.settings.log_disconnections && client.identity.seat.is_taken() {
        crate::info!(of core.name_client(key); "closing because: {why}");
    }
    leave(core, key);
    drop_client(core, key);
}

/// A client's connection is gone.
pub fn client_gone(core: &mut Core, key: ClientKey, error: Option<io::Error>) {
    let why = error.map_or("client unexpected eof".to_owned(), |error| error.to_string());
    close_client(core, key, &why);
}

fn drop_client(core: &mut Core, key: ClientKey) {
    if let Some(client) = core.clients.remove(key.0) {
        sockets::unwatch(core, &client.io);
    }
}

/// Takes a client out of everything that knows it, its server first.
fn leave(core: &mut Core, key: ClientKey) {
    let Some(client) = core.clients.get_mut(key.0) else { return };
    client.checkout.stop_waiting();
    connection::forget_client(core, key);
    let Some(client) = core.clients.get_mut(key.0) else { return };
    let pool_key = client.route.pool.take();
    let home = client.route.home.take();
    let server_key = client.checkout.server();
    client.identity.place = None;
    let was_in_pool = matches!(client.state, ClientState::Ready | ClientState::Greeting | ClientState::Relay);
    lock(&core.shared.cancels).remove(&client.identity.cancel_key);
    client.identity.seat.leave();
    if let Some(pool) = pool_key.filter(|key| Some(*key) != home).and_then(|key| core.pools.get_mut(key.0)) {
        pool.forget(key);
    }
    if let Some(pool) = home.and_then(|key| core.pools.get_mut(key.0)) {
        pool.forget(key);
        pool.queue.greeting.retain(|waiting| *waiting != key);
        if was_in_pool {
            pool.queue.clients = pool.queue.clients.saturating_sub(1);
            if pool.queue.clients == 0 {
                pool.queue.unused_since = Some(core.now);
            }
        }
    }
    let Some(server_key) = server_key else { return };
    let unfinished = core.clients.get(key.0).is_some_and(|client| client.input.unsynced || client.input.passing > 0);
    let Some(server) = core.servers.get(server_key.0) else { return };
    let at_rest =
        server.exchange.requests.is_empty() && server.status == Status::Idle && server.exchange.passing.0 == 0;
    // An alignment goes on without it: nothing of the client's has been sent.
    let usable = server.apart.is_none() && (at_rest && !unfinished || server.known.aligning.is_some());
    checkin::detach(core, server_key);
    // What it was doing goes on on the server until the server notices; nobody else can use that connection.
    let why = "client disconnected with something under way";
    turns::later(core, if usable { After::Free(server_key) } else { After::Close(server_key, why) });
}

/// Tells a client of an error of the pooler's own.
pub fn tell(core: &mut Core, key: ClientKey, error: &Error, severity: Severity) {
    let Some(client) = core.clients.get_mut(key.0) else { return };
    error.write(client.io.out(), severity);
    note(core, key, error);
}

/// Counts and logs an error that the pooler itself tells a client.
fn note(core: &mut Core, key: ClientKey, error: &Error) {
    *core.lifecycle.errors.entry((error.sqlstate().to_owned(), error.blame())).or_default() += 1;
    if core.config.settings.log_pooler_errors {
        crate::warning!(of core.name_client(key); "{} {error}", error.sqlstate());
    }
}
