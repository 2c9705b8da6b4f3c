//! How clients are refused what they wait for, and how they leave.

use std::io;

use crate::model::client::Discard;
use crate::model::keys::ClientKey;
use crate::model::turn::{After, Turn};
use wire::backend::Status;

use crate::error::{Error, Severity};
use crate::pools::{checkin, pipelines};
use crate::state::client::State as ClientState;
use crate::state::{Core, sockets, tell};
use crate::sync::lock;

/// Answers the statement that a client waits to send with an error; the client stays connected.
pub fn refuse(core: &mut Core, key: ClientKey, error: &Error) {
    let Some(client) = core.clients.get_mut(key) else { return };
    if client.login_phase().is_some() {
        return core.schedule.later(After::LookupRefused(key, error.to_string()));
    }
    if !client.is_ready() {
        return fatal(core, key, error);
    }
    client.checkout.stop_waiting();
    client.checkout.needs_own = false;
    // The next unit's wait is its own.
    (client.route.waiting_since, client.route.unmapped_since, client.route.owed.until) = (None, None, None);
    client.activity.errors += 1;
    client.route.fail_begun();
    // A unit ends with its first error.
    if client.input.discard == Discard::No {
        client.input.discard = Discard::Unit;
        error.write(client.io.out(), Severity::Error);
    }
    let pool = client.route.pool;
    tell::note(core, key, error);
    if let Some(pool) = pool.and_then(|pool| core.pools.get_mut(pool)) {
        pool.counts.totals.refused += 1;
        pool.forget(key);
    }
    core.schedule.give_turn(Turn::Client(key));
}

/// Sends a client the reason why it is closed, and closes it.
pub fn fatal(core: &mut Core, key: ClientKey, error: &Error) {
    let Some(client) = core.clients.get_mut(key) else { return };
    if matches!(client.state(), ClientState::Closing) {
        return;
    }
    if tell::is_within_message(core, key) {
        // The client would take the error for the rest of the message.
        return close_client(core, key, &error.to_string());
    }
    tell::error(core, key, error, Severity::Fatal);
    end_client(core, key, &error.to_string());
}

/// Closes a client as soon as the rest of its output is sent.
pub fn end_client(core: &mut Core, key: ClientKey, why: &str) {
    if core.config.settings.log_disconnections {
        let age = age(core, key);
        crate::info!(of core.name_client(key); "closing because: {why} (age={age}s)");
    }
    let_go(core, key);
}

/// Takes a client out of everything that knows it, and closes its connection when the rest of the output is sent.
fn let_go(core: &mut Core, key: ClientKey) {
    leave(core, key);
    // The message may be lost if the socket is closed with unread input: so it is half closed, and the rest read.
    let Some(client) = core.clients.get_mut(key) else { return };
    client.pass_to(ClientState::Closing);
    client.identity.since = core.now;
    client.io.rest = Vec::new();
    // Before the end of a TLS handshake the client would not understand an error.
    let mute = client.io.is_handshaking();
    if mute || !sockets::flush_last(core, key) {
        drop_client(core, key);
    }
}

/// Closes a client's connection without an error message.
pub fn close_client(core: &mut Core, key: ClientKey, why: &str) {
    let Some(client) = core.clients.get(key) else { return };
    if core.config.settings.log_disconnections && client.identity.permit.is_taken() {
        let age = age(core, key);
        crate::info!(of core.name_client(key); "closing because: {why} (age={age}s)");
    }
    leave(core, key);
    drop_client(core, key);
}

/// The age of a client's connection in seconds.
fn age(core: &Core, key: ClientKey) -> u64 {
    core.clients.get(key).map_or(0, |client| core.now.saturating_duration_since(client.identity.since).as_secs())
}

/// A client's connection is gone.
pub fn client_gone(core: &mut Core, key: ClientKey, error: Option<io::Error>) {
    let why = error.map_or("client unexpected eof".to_owned(), |error| error.to_string());
    close_client(core, key, &why);
}

fn drop_client(core: &mut Core, key: ClientKey) {
    if let Some(client) = core.clients.remove(key) {
        sockets::unwatch(core, &client.io);
    }
}

/// Takes a client out of everything that knows it, its server first.
fn leave(core: &mut Core, key: ClientKey) {
    let Some(client) = core.clients.get_mut(key) else { return };
    client.checkout.stop_waiting();
    let (pool_key, home) = (client.route.pool.take(), client.route.home.take());
    let (pipelined, server_key) = (client.checkout.leave_pipeline(), client.checkout.server());
    let unfinished = client.input.unsynced || client.input.passing > 0;
    client.identity.place = None;
    let was_in_pool = matches!(client.state(), ClientState::Ready | ClientState::Greeting | ClientState::Relay);
    lock(&core.shared.cancels).remove(&client.identity.cancel_key);
    client.identity.permit.leave();
    if let Some(server) = pipelined {
        pipelines::forget_client(core, server, key);
    }
    if let Some(pool) = pool_key.filter(|key| Some(*key) != home).and_then(|key| core.pools.get_mut(key)) {
        pool.forget(key);
    }
    if let Some(pool) = home.and_then(|key| core.pools.get_mut(key)) {
        pool.forget(key);
        pool.queue.greeting.retain(|waiting| *waiting != key);
        if was_in_pool {
            pool.queue.clients = pool.queue.clients.saturating_sub(1);
            if pool.queue.clients == 0 {
                pool.queue.unused_since = Some(core.now);
            }
        }
    }
    let Some((server_key, server)) = server_key.and_then(|key| Some((key, core.servers.get(key)?))) else { return };
    let at_rest =
        server.exchange.requests.is_empty() && server.status == Status::Idle && server.exchange.passing.0 == 0;
    // An alignment goes on without it: nothing of the client's has been sent.
    let usable = server.apart.is_none() && (at_rest && !unfinished || server.is_aligning());
    checkin::detach(core, server_key);
    // The statement goes on until the server notices; no other client can use that connection.
    let why = "the client disconnected during a statement or a transaction";
    core.schedule.later(if usable { After::Free(server_key) } else { After::Close(server_key, why) });
}
