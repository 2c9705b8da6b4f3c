//! Received bytes are given to the part that reads them, by the state of the connection.

use std::time::Duration;

use crate::model::keys::{ClientKey, ServerKey};
use crate::model::turn::{Step, Turn};

use crate::admin::session;
use crate::backend::{answer, subscriber};
use crate::frontend::{challenge, startup};
use crate::pools::{connect, relay, retry};
use crate::reactor::forward;
use crate::state::client::State;
use crate::state::server::State as ServerState;
use crate::state::{Core, answering};

/// Works on a server's input; gives the number of bytes that are done with.
fn server_input(core: &mut Core, key: ServerKey, input: &[u8]) -> usize {
    if let Some(pool) = core.servers.get(key).and_then(|server| core.pools.get_mut(server.pool)) {
        pool.counts.totals.sent += input.len() as u64;
    }
    let mut at = 0;
    while let Some(left) = input.get(at..).filter(|left| !left.is_empty()) {
        let Some(server) = core.servers.get(key) else { return input.len() };
        if server.life.doomed.is_some() {
            return input.len();
        }
        let step = match server.state() {
            ServerState::Connecting | ServerState::Cancelling => Step::Took(left.len()),
            ServerState::Login(_) => connect::login_input(core, key, left),
            ServerState::Relay => relay::relay_to_client(core, key, left),
            ServerState::Subscriber => subscriber::subscriber_input(core, key, left),
            ServerState::Preparing(_)
            | ServerState::Idle
            | ServerState::Active(_)
            | ServerState::Aligning(..)
            | ServerState::Pipelined(_) => answer::answer_input(core, key, left),
        };
        match step {
            Step::Took(count) => at += count,
            Step::More | Step::Stop => break,
        }
    }
    if let Some((server, client)) = answering(&mut core.servers, &mut core.clients, key) {
        retry::spill(server, client, &mut core.schedule);
    }
    at.min(input.len())
}

/// Works on a client's input; gives the number of bytes that are done with.
fn client_input(core: &mut Core, key: ClientKey, input: &[u8], mut turn: Option<Duration>) -> usize {
    if let Some(pool) = core.clients.get(key).and_then(|c| c.route.pool).and_then(|key| core.pools.get_mut(key)) {
        pool.counts.totals.received += input.len() as u64;
    }
    let mut at = 0;
    while let Some(left) = input.get(at..).filter(|left| !left.is_empty()) {
        let Some(client) = core.clients.get(key) else { return input.len() };
        let step = match client.state() {
            State::Startup => startup::startup_input(core, key, left),
            State::Login(..) => challenge::password_input(core, key, left),
            State::Proven(_) | State::Greeting => Step::Stop,
            State::Ready => forward::ready_input(core, key, left, turn.take()),
            State::Relay => relay::relay_to_server(core, key, left),
            State::Console => session::console_input(core, key, left),
            State::Closing | State::Cancels => Step::Took(left.len()),
        };
        match step {
            Step::Took(count) => at += count,
            Step::More | Step::Stop => break,
        }
    }
    at.min(input.len())
}

/// Works on new bytes of a client, after its earlier ones; bytes that must wait are kept. The `turn` is for its next unit:
/// the client has waited so long for room in a pipelined connection, and there is some.
pub fn feed_client(core: &mut Core, key: ClientKey, fresh: &[u8], turn: Option<Duration>) {
    let Some(client) = core.clients.get_mut(key) else { return };
    if client.io.rest.is_empty() {
        let taken = client_input(core, key, fresh, turn);
        if let (Some(client), Some(left)) = (core.clients.get_mut(key), fresh.get(taken..))
            && !left.is_empty()
        {
            // Units that are to be retried may have been put there meanwhile.
            client.io.rest.extend_from_slice(left);
        }
    } else {
        let mut held = std::mem::take(&mut client.io.rest);
        held.extend_from_slice(fresh);
        let taken = client_input(core, key, &held, turn);
        if let Some(client) = core.clients.get_mut(key) {
            held.drain(..taken.min(held.len()));
            if client.io.rest.is_empty() {
                client.io.rest = if held.is_empty() { Vec::new() } else { held };
            } else {
                client.io.rest.append(&mut held);
            }
        }
    }
    // Bytes that came during the wait are still in the socket, and no event will report them again.
    if fresh.is_empty() && core.clients.get(key).is_some_and(|client| client.io.readable) {
        core.schedule.give_turn(Turn::Client(key));
    }
}

/// Works on new bytes of a server, after its earlier ones; an incomplete message is kept.
pub fn feed_server(core: &mut Core, key: ServerKey, fresh: &[u8]) {
    let Some(server) = core.servers.get_mut(key) else { return };
    if server.io.rest.is_empty() {
        let taken = server_input(core, key, fresh);
        if let (Some(server), Some(left)) = (core.servers.get_mut(key), fresh.get(taken..))
            && !left.is_empty()
        {
            server.io.rest = left.to_vec();
        }
    } else {
        let mut held = std::mem::take(&mut server.io.rest);
        held.extend_from_slice(fresh);
        let taken = server_input(core, key, &held);
        if let Some(server) = core.servers.get_mut(key) {
            held.drain(..taken.min(held.len()));
            server.io.rest = if held.is_empty() { Vec::new() } else { held };
        }
    }
}
