//! The consequences of a lost server connection for the client that has it.

use crate::model::client::Discard;
use crate::model::exchange::Passing;
use crate::model::keys::{ClientKey, ServerKey};
use crate::model::request::Request;
use crate::model::requests::{Undone, undone};
use crate::model::session::{Pending, Unfollowed};
use crate::model::turn::{After, Turn};
use wire::backend::{self, Status};
use wire::sqlstate;

use crate::backend::{aligned, cancel, subscriber, subscriber_asks};
use crate::config::PoolMode;
use crate::error::{Cause, Error, Severity};
use crate::frontend::looked_up;
use crate::frontend::replies::undo;
use crate::monitor::Incident;
use crate::pools::close::{self, SERVER_CLOSED};
use crate::pools::{checkin, connect, leave, relay, retry};
use crate::router::{fingerprints, freshness, members};
use crate::state::server::{Apart, Server, State};
use crate::state::{Core, answering, tell};

/// Ends a server connection that is lost or cannot go on: its client gets the error that fits its unit.
pub fn server_gone(core: &mut Core, key: ServerKey, why: &str) {
    if connect::connect_otherwise(core, key, why) {
        return;
    }
    let Some(server) = core.servers.get_mut(key) else { return };
    if server.cancels.target.is_some() {
        let got = why == SERVER_CLOSED && matches!(server.state(), State::Cancelling);
        return cancel::cancel_ended(core, key, got);
    }
    match server.apart {
        Some(Apart::Relay(_)) => return relay::relay_gone(core, key, why),
        Some(Apart::Subscriber) => return subscriber::subscriber_gone(core, key, why),
        None => (),
    }
    let pool_key = server.pool;
    let cause = server.life.fatal_error.clone().unwrap_or_else(|| Cause::connection(why));
    if matches!(server.exchange.requests.front(), Some(Request::Connect)) {
        let may_pass = server.life.fatal_error.is_none();
        close::close_server(core, key, &cause.why);
        return connect::connect_failed(core, pool_key, &cause, may_pass, true);
    }
    match server.state() {
        State::Connecting | State::Login(_) => return not_connected(core, key, &cause),
        State::Pipelined(_) => {
            members::met(core, pool_key, Incident::Died);
            retry::leave(core, key, &cause);
            close::close_server(core, key, &cause.why);
        }
        State::Aligning(..) | State::Preparing(Some(_)) => {
            members::met(core, pool_key, Incident::Died);
            lost_in_alignment(core, key, cause);
        }
        _ => {
            members::met(core, pool_key, Incident::Died);
            lost(core, key, cause);
        }
    }
    core.schedule.later(After::Grow(pool_key));
}

/// A server has not let the pooler in.
fn not_connected(core: &mut Core, key: ServerKey, cause: &Cause) {
    let Some(server) = core.servers.get(key) else { return };
    let (pool, may_pass) = (server.pool, server.may_come_back());
    // too_many_connections: connections of the pooler's own make way, and it is tried again before a client is refused.
    let makes_room = cause.sqlstate == sqlstate::TOO_MANY_CONNECTIONS && fingerprints::leave_room(core, pool);
    close::close_unlogged(core, key, &cause.why);
    connect::connect_failed(core, pool, cause, may_pass, !makes_room);
    // A ban would keep the reads of all users away.
    if !cause.is_refusal() {
        members::met(core, pool, Incident::NoConnection);
    }
}

/// A server connection is lost before anything of its client's has been sent.
fn lost_in_alignment(core: &mut Core, key: ServerKey, cause: Cause) {
    let client = core.servers.get(key).and_then(|server| server.client());
    let tied = client.is_some_and(|client| checkin::is_tied(core, client));
    checkin::detach(core, key);
    close::close_server(core, key, &cause.why);
    match client {
        Some(client) if tied => leave::fatal(core, client, &Error::Lost(cause)),
        Some(client) => aligned::ask_elsewhere(core, client, cause),
        None => (),
    }
}

/// The progress of a server with its client's requests when it was lost.
struct Loss {
    /// The number of the client's units that have not been answered.
    units: usize,
    /// Whether requests were under way.
    begun: bool,
    /// Whether the unit at the head has got an error of its own.
    failed: bool,
    /// Whether the client's unit goes on: a Flush was sent as a Sync.
    open: bool,
    /// Whether the last request ends its unit.
    ends: bool,
    /// Whether half a message has been passed on.
    in_message: bool,
    /// Whether no transaction was open.
    idle: bool,
    /// Whether the client broke the protocol. As in PostgreSQL, such a client loses its connection: the meaning of its
    /// bytes is not known.
    out_of_step: bool,
}

impl Loss {
    fn of(server: &Server) -> Self {
        let (failed, skips) = (server.exchange.failed, server.exchange.skips());
        let requests = &server.exchange.requests;
        let ends = |(undone, request): &(Undone, &Request)| undone.ends_unit && request.ends_clients_unit();
        Self {
            units: undone(requests.iter(), skips).filter(ends).count(),
            ends: undone(requests.iter(), skips).last().is_some_and(|last| ends(&last)),
            // A question of the pooler's own is no part of a unit.
            begun: requests.iter().any(|request| !matches!(request, Request::Settle)),
            failed,
            open: requests.iter().any(|request| matches!(request, Request::HiddenSync)),
            in_message: matches!(server.exchange.passing, (1.., Some(Passing::On))),
            idle: server.status == Status::Idle,
            out_of_step: server
                .life
                .fatal_error
                .as_ref()
                .is_some_and(|cause| cause.sqlstate == sqlstate::PROTOCOL_VIOLATION),
        }
    }
}

/// Ends a server connection that was lost, with a client or without one.
fn lost(core: &mut Core, key: ServerKey, cause: Cause) {
    // The outcome of its statements is unknown: a later read must see them if they were committed.
    let Some((server, mut client)) = answering(&mut core.servers, &mut core.clients, key) else { return };
    if let Some(client) = client.as_deref_mut() {
        freshness::note_loss(server, client, &core.pools, &core.router);
    }
    // The client has sent these Syncs, and the server has not got them.
    let syncs = server.exchange.copying.lost();
    let ends_unit = syncs > 0;
    server.exchange.requests.extend((0..syncs).map(|_| Request::Sync));
    let (loss, pool_key, client_key) = (Loss::of(server), server.pool, server.let_go());
    // Statements that were being prepared or closed were not, as far as the client will know.
    let skips = server.exchange.skips();
    let unanswered = std::mem::take(&mut server.exchange.requests);
    undo(server, skips, client, unanswered);
    close::close_server(core, key, &cause.why);
    let session = core.pools.get(pool_key).is_some_and(|pool| pool.limits.mode == PoolMode::Session);
    let Some((key, client)) = client_key.and_then(|key| Some((key, core.clients.get_mut(key)?))) else { return };
    client.checkout.give_back();
    let ends_unit = ends_unit || loss.ends && client.input.passing == 0;
    client.input.unsynced = (client.input.unsynced || loss.open) && !ends_unit;
    if client.login_phase().is_some() {
        // The words of the server are for the log alone.
        looked_up::lookup_failed(core, key, &Error::Lost(cause).to_string(), false);
    } else if loss.in_message && client.is_ready() {
        // The client would not understand another message.
        leave::close_client(core, key, &format!("server connection lost within a message: {}", cause.why));
    } else if !client.is_ready() || session || client.session.is_bound() || !loss.idle || loss.out_of_step {
        let error = if loss.idle { Error::Lost(cause) } else { Error::LostInTransaction(cause) };
        leave::fatal(core, key, &error);
    } else {
        tell_of_loss(core, key, cause, &loss);
    }
}

/// Ends the unit in flight of a client outside a transaction that has lost its server; the client stays.
fn tell_of_loss(core: &mut Core, key: ClientKey, cause: Cause, loss: &Loss) {
    let Loss { units, begun, failed, .. } = *loss;
    let Some(client) = core.clients.get_mut(key) else { return };
    client.times.transaction_since = None;
    // A read outside of a transaction that no server has fails that, too.
    client.route.fail_begun();
    let status = client.route.status();
    subscriber_asks::settle_subscriptions(client, true, true);
    (client.checkout.needs_own, client.checkout.behind_own) = (false, false);
    client.session.pending = Pending::default();
    client.prepared.portals.clear();
    client.session.unfollowed = Unfollowed::Nothing;
    // Statements that were answered before a Sync are not committed before it either.
    if begun || client.input.unsynced {
        let error = Error::OutcomeUnknown(cause);
        let unsynced = client.input.unsynced;
        for unit in 0..units {
            if unit > 0 || !failed {
                tell::error(core, key, &error, Severity::Error);
            }
            core.clients
                .get_mut(key)
                .into_iter()
                .for_each(|client| backend::write_ready_for_query(client.io.out(), status));
        }
        if (unsynced || units == 0) && (units > 0 || !failed) {
            tell::error(core, key, &error, Severity::Error);
        }
    }
    let Some(client) = core.clients.get_mut(key) else { return };
    if client.input.unsynced {
        client.input.discard = Discard::ToSync;
    }
    core.schedule.give_turn(Turn::Client(key));
}
