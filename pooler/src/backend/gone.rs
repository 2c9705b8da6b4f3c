//! What the loss of a server connection means for the client that has it.

use wire::backend::{self, Status};

use crate::backend::close::{self, SERVER_CLOSED};
use crate::backend::replies::undo;
use crate::backend::{aligned, cancel, connect, down, hub, hub_asks, relay};
use crate::config::PoolMode;
use crate::frontend::leave;
use crate::monitor::Met;
use crate::pipeline::retry;
use crate::pools::checkin;
use crate::reactor::turns;
use crate::router::{fingerprints, freshness, members};
use crate::session::Pending;
use crate::state::Core;
use crate::state::client::Discard;
use crate::state::keys::{ClientKey, ServerKey};
use crate::state::request::Request;
use crate::state::server::{Apart, Passing, State};
use crate::state::turn::After;
use crate::state::turn::Turn;

/// A server connection is gone, or cannot go on: its client is told what that means for it.
pub fn server_gone(core: &mut Core, key: ServerKey, why: &str) {
    if connect::connect_otherwise(core, key, why) {
        return;
    }
    let Some(server) = core.servers.get_mut(key.0) else { return };
    if server.cancels.target.is_some() {
        let got = why == SERVER_CLOSED && matches!(server.state, State::Cancelling);
        return cancel::cancel_ended(core, key, got);
    }
    match server.apart {
        Some(Apart::Relay(_)) => return relay::relay_gone(core, key, why),
        Some(Apart::Hub) => return hub::hub_gone(core, key, why),
        None => (),
    }
    let pool_key = server.pool;
    let why = server.life.farewell.as_ref().map_or_else(|| why.to_owned(), |(_, message)| message.clone());
    let code = server.life.farewell.as_ref().map_or("08006", |(code, _)| code).to_owned();
    if matches!(server.state, State::Connecting | State::Login(_)) {
        let may_pass = server.may_come_back();
        // too_many_connections
        if code == "53300" {
            fingerprints::leave_room(core, pool_key);
        }
        close::close_server(core, key, &why);
        down::connect_failed(core, pool_key, &why, may_pass);
        members::met(core, pool_key, Met::NoConnection);
        return;
    }
    members::met(core, pool_key, Met::Died);
    let Some(server) = core.servers.get_mut(key.0) else { return };
    if matches!(server.state, State::Lane) {
        retry::leave_lane(core, key, &code, &why);
        close::close_server(core, key, &why);
        turns::later(core, After::Grow(pool_key));
        return;
    }
    if server.known.aligning.is_some() {
        // Nothing of its client's has been sent.
        let client = server.client();
        let tied = client.is_some_and(|client| checkin::is_tied(core, client));
        checkin::detach(core, key);
        close::close_server(core, key, &why);
        match client {
            Some(client) if tied => leave::fatal(core, client, &code, &format!("server connection lost: {why}")),
            Some(client) => aligned::ask_elsewhere(core, client, &code, &why),
            None => (),
        }
        turns::later(core, After::Grow(pool_key));
        return;
    }
    // Its outcome is unknown: if it was committed, it is seen.
    freshness::note_commit(core, key);
    let Some(server) = core.servers.get_mut(key.0) else { return };
    let client_key = server.lent.take();
    let in_message = matches!(server.exchange.passing, (1.., Some(Passing::On)));
    // The unit at the head has been told of an error of its own.
    let (failed, skips) = (server.exchange.failed, server.exchange.skips);
    let skipped = |request: &&Request| failed && !request.ends_failed_unit(skips);
    let units =
        server.exchange.requests.iter().skip_while(skipped).filter(|request| request.ends_clients_unit()).count();
    // A Flush was sent as a Sync: for the client its unit goes on.
    let open = server.exchange.requests.iter().any(|request| matches!(request, Request::HiddenSync));
    let begun = !server.exchange.requests.is_empty();
    let idle = server.status == Status::Idle;
    // As in PostgreSQL, who breaks the protocol loses its connection: nobody knows what of its bytes was read as what.
    let out_of_step = server.life.farewell.as_ref().is_some_and(|(code, _)| code == "08P01");
    // What was being prepared or closed was not, as far as the client will know.
    let unanswered = std::mem::take(&mut server.exchange.requests);
    undo(server, client_key.and_then(|client| core.clients.get_mut(client.0)), unanswered.into_iter());
    close::close_server(core, key, &why);
    if let Some(client_key) = client_key {
        let session = core.pools.get(pool_key.0).is_some_and(|pool| pool.limits.mode == PoolMode::Session);
        if let Some(client) = core.clients.get_mut(client_key.0) {
            client.checkout.give_back();
            client.input.unsynced |= open;
            if in_message && client.is_ready() {
                // Half a message has been passed on: nothing more can be said.
                leave::close_client(core, client_key, &format!("server connection lost within a message: {why}"));
            } else if !client.is_ready() || session || client.session.pins.any() || !idle || out_of_step {
                let message = if idle {
                    format!("server connection lost: {why}")
                } else {
                    format!("server connection lost in a transaction: {why}")
                };
                leave::fatal(core, client_key, &code, &message);
            } else {
                tell_of_loss(core, client_key, &code, &why, units, begun, failed);
            }
        }
    }
    turns::later(core, After::Grow(pool_key));
}

/// A client outside a transaction has lost its server: the statement in flight has failed, the client stays.
fn tell_of_loss(core: &mut Core, key: ClientKey, code: &str, why: &str, units: usize, begun: bool, failed: bool) {
    let Some(client) = core.clients.get_mut(key.0) else { return };
    client.times.transaction_since = None;
    hub_asks::ears_settle(client, true, true);
    (client.checkout.needs_own, client.checkout.behind_own) = (false, false);
    client.session.pending = Pending::default();
    client.prepared.portals.clear();
    client.session.unclear = false;
    // What was answered before a Sync is not committed before it either.
    if begun || client.input.unsynced {
        let message = format!("server connection lost, the outcome of the statement is unknown: {why}");
        let out = client.io.out();
        for unit in 0..units {
            if unit > 0 || !failed {
                backend::write_error(out, "ERROR", code, &message);
            }
            backend::write_ready_for_query(out, Status::Idle);
        }
        if (client.input.unsynced || units == 0) && (units > 0 || !failed) {
            backend::write_error(client.io.out(), "ERROR", code, &message);
        }
    }
    if client.input.unsynced {
        client.input.discard = Discard::Unit;
    }
    turns::give_turn(core, Turn::Client(key));
}
