//! The end of an alignment, when the server has answered it: the client goes on, or gets another connection, or an
//! error ([`super::align`]).

use std::rc::Rc;

use crate::model::client::Verified;
use crate::model::keys::{ClientKey, ServerKey};
use crate::model::turn::{After, Turn};
use crate::model::vars::Vars;
use wire::backend::{self, Status};
use wire::sqlstate;

use crate::error::{Cause, Error};
use crate::frontend::verify::asked;
use crate::frontend::{enter, looked_up};
use crate::pools::{checkin, checkout, close, free, leave};
use crate::state::Core;
use crate::state::client::State as ClientState;
use crate::state::server::Residue;

/// The number of other server connections that a statement gets which could not be sent.
const STRIKES: u8 = 20;

/// Whether an error comes from a limit, a cancel request or the server's end, and not from the statement.
fn is_strike(code: &str) -> bool {
    // The classes: operator intervention (cancels too), insufficient resources, lost connections, errors of the system.
    matches!(
        code,
        sqlstate::LOCK_NOT_AVAILABLE
            | sqlstate::TRANSACTION_TIMEOUT
            | sqlstate::T_R_DEADLOCK_DETECTED
            | sqlstate::T_R_SERIALIZATION_FAILURE
    ) || ["57", "53", "08", "58", "XX"].iter().any(|class| code.starts_with(class))
}

/// Works on a server's answer to an alignment, or to the statements that undo another's.
pub fn aligned(core: &mut Core, key: ServerKey) {
    let Some(server) = core.servers.get_mut(key) else { return };
    // A transaction has begun if the client has sent a BEGIN before.
    if server.exchange.own_error.is_some() || server.status == Status::Failed {
        core.schedule.later(After::Unaligned(key));
        return;
    }
    let Some(target) = server.end_alignment() else { return };
    (server.known.session.sets, server.known.session.read_only) = (target.sets, target.read_only);
    let Some(client_key) = server.client() else {
        core.schedule.later(After::Free(key));
        return;
    };
    let Some(client) = core.clients.get_mut(client_key) else { return };
    if !client.is_ready() {
        let greets = matches!(client.state(), ClientState::Greeting);
        core.schedule.later(if greets { After::Verified(client_key) } else { After::Lookup(client_key) });
        return;
    }
    client.checkout.strikes = 0;
    client.times.request_since = core.now;
    if server.status == Status::Transaction {
        client.route.begun = None;
    }
    // The server has its own way to write some values.
    for (place, name) in core.parameters.tracked.names().enumerate() {
        if let (Some(own), Some(theirs)) = (client.session.vars.get(place), server.known.session.vars.get(place))
            && own != theirs
        {
            backend::write_parameter_status(client.io.out(), name, theirs);
            client.session.vars.set(place, theirs);
        }
    }
    core.schedule.give_turn(Turn::Client(client_key));
}

/// An alignment has failed.
pub fn unaligned(core: &mut Core, key: ServerKey) {
    let Some(server) = core.servers.get_mut(key) else { return };
    server.end_alignment();
    let report = server.exchange.own_error.take().unwrap_or_default();
    let (client, pool) = (server.client(), server.pool);
    let tied = client.is_some_and(|client| checkin::is_tied(core, client));
    checkin::detach(core, key);
    if is_strike(&report.code) || report.code.is_empty() {
        let why = format!("applying the client's settings has failed: {}", report.message);
        close::close_server(core, key, &why);
        match client {
            Some(client) if tied => leave::fatal(core, client, &Error::Closed(why)),
            Some(client) => ask_elsewhere(core, client, Cause { sqlstate: report.code, why: report.message }),
            None => (),
        }
        core.schedule.later(After::Grow(pool));
        return;
    }
    let server_key = key;
    if let Some(key) = client {
        let cause = Cause { sqlstate: report.code, why: report.message };
        match core.clients.get(key).map(|client| client.state()) {
            Some(ClientState::Login(..)) => {
                looked_up::lookup_failed(core, key, &Error::SettingsRefused(cause).to_string(), false);
            }
            // At login the client gets the error that a server would send itself.
            Some(ClientState::Greeting) => leave::fatal(core, key, &Error::StartupRefused(cause)),
            // What steers a transaction is sent with its BEGIN, and fails the transaction.
            Some(ClientState::Ready) if core.clients.get(key).is_some_and(|client| client.route.begun.is_some()) => {
                close::close_server(core, server_key, "the beginning of a client's transaction has failed");
                leave::refuse(core, key, &Error::SettingsRefused(cause));
            }
            _ => leave::fatal(core, key, &Error::SettingsRefused(cause)),
        }
    }
    // The server has undone the alignment as a whole; the case of a part that was done is not worth telling apart.
    if let Some(server) = core.servers.get_mut(key) {
        server.known.residue = Residue::Anything;
        free::free(core, key);
    }
}

/// A client's statement, none of which has been sent, gets another server connection.
pub fn ask_elsewhere(core: &mut Core, key: ClientKey, mut cause: Cause) {
    let Some(client) = core.clients.get_mut(key) else { return };
    client.checkout.strikes = client.checkout.strikes.saturating_add(1);
    if client.checkout.strikes > STRIKES {
        client.checkout.strikes = 0;
        if cause.sqlstate.is_empty() {
            cause = Cause::connection(&cause.why);
        }
        return leave::refuse(core, key, &Error::NotPrepared(cause));
    }
    client.route.waiting_since.get_or_insert(client.times.request_since);
    match client.state() {
        ClientState::Greeting => enter::greet(core, key),
        ClientState::Login(..) => drop(checkout::acquire(core, key, false)),
        _ => core.schedule.give_turn(Turn::Client(key)),
    }
}

/// Notes that a server has accepted the settings in a client's startup packet: the client is greeted with the values as
/// the server writes them.
pub fn startup_verified(core: &mut Core, key: ClientKey) {
    let Some(client) = core.clients.get(key) else { return };
    let (Some(server_key), Some(home)) = (client.checkout.server(), client.route.home) else { return };
    let asked = asked(client, &core.parameters.tracked);
    let Some(server) = core.servers.get_mut(server_key) else { return };
    let told = server.known.parameters.clone();
    let mut canonical = Vars::default();
    for place in 0..core.parameters.tracked.names().count() {
        if let (Some(_), Some(theirs)) = (client.session.startup.0.get(place), server.known.session.vars.get(place))
            && Some(place) != core.parameters.tracked.place("application_name")
        {
            canonical.set(place, theirs);
        }
    }
    let verified = Rc::new(Verified { vars: canonical, told });
    if let Some(client) = core.clients.get_mut(key) {
        client.session.take_verified(verified.clone());
    }
    if let (Some(asked), Some(pool)) = (asked, core.pools.get_mut(home)) {
        if pool.greetings.verified.len() >= MOST_VERIFIED {
            pool.greetings.verified.clear();
        }
        pool.greetings.verified.insert(asked.into(), verified);
    }
    checkin::detach(core, server_key);
    free::free(core, server_key);
    enter::greet(core, key);
}

/// The most startup packets whose settings are remembered as accepted, in one pool.
const MOST_VERIFIED: usize = 1000;
