//! How connections end, and what those on the other side are told.

use std::io;

use wire::backend::{self, Status};

use crate::after::After;
use crate::answer::undo;
use crate::client::{Client, ClientKey, Discard, State as ClientState};
use crate::config::PoolMode;
use crate::log::Subject;
use crate::monitor::Met;
use crate::pool::PoolKey;
use crate::relay::Relay;
use crate::server::{Apart, Passing, Request, Server, ServerKey, State};
use crate::session::Pending;
use crate::shared::{Ending, lock};
use crate::worker::{Turn, Worker};

/// Why a server connection is lost when the server has ended it without a word.
pub const SERVER_CLOSED: &str = "the server closed the connection";
/// What clients hear when the pooler ends.
const SHUTTING_DOWN: &str = "the pooler is shutting down";

impl Worker {
    /// A client as the log names it.
    pub fn name_client(&self, key: ClientKey) -> Subject {
        self.clients.get(key.0).map_or_else(Subject::default, |client| Subject {
            database: client.database.to_string(),
            user: client.user.to_string(),
            client: Some(format!("{}:{}", client.peer.host(), client.peer.port())),
            server: None,
        })
    }

    /// A pool as the log names it.
    pub fn name_pool(&self, key: PoolKey) -> Subject {
        self.pools.get(key.0).map_or_else(Subject::default, |pool| Subject {
            database: pool.database.to_string(),
            user: pool.user.to_string(),
            ..Subject::default()
        })
    }

    /// A server connection as the log names it.
    pub fn name_server(&self, server: &Server) -> Subject {
        let host = if server.host.is_empty() { "unix" } else { &server.host };
        Subject { server: Some(format!("{host}:{}", server.port)), ..self.name_pool(server.pool) }
    }

    /// Tells a client why it is closed, and closes it.
    pub fn fatal(&mut self, key: ClientKey, code: &str, message: &str) {
        let Some(client) = self.clients.get_mut(key.0) else { return };
        if matches!(client.state, ClientState::Closing) {
            return;
        }
        let within = |relay: &Relay| !relay.is_between_messages();
        if matches!(client.state, ClientState::Relay) && client.relay.as_deref().is_some_and(within) {
            // In the middle of a message of its server nothing can be said that would be understood.
            return self.close_client(key, message);
        }
        backend::write_error(client.io.out(), "FATAL", code, message);
        self.count_error(code);
        if self.config.settings.log_pooler_errors {
            crate::warning!(of self.name_client(key); "{code} {message}");
        }
        self.let_go(key);
    }

    /// Closes a client whose server has ended the connection, once what the server has said is sent.
    pub fn end_client(&mut self, key: ClientKey, why: &str) {
        if self.config.settings.log_disconnections {
            crate::info!(of self.name_client(key); "closing because: {why}");
        }
        self.let_go(key);
    }

    /// Takes a client out of everything, and closes its connection when it has what was to be sent.
    fn let_go(&mut self, key: ClientKey) {
        self.leave(key);
        // The message may be lost if the socket is closed with unread input: so it is half closed, and the rest read.
        let Some(client) = self.clients.get_mut(key.0) else { return };
        client.state = ClientState::Closing;
        client.since = self.now;
        client.io.rest = Vec::new();
        // Before a TLS handshake is done nothing can be said that would be understood.
        let mute = client.io.is_handshaking();
        if mute || !self.flush_last(key) {
            self.drop_client(key);
        }
    }

    /// Closes a client's connection without a word.
    pub fn close_client(&mut self, key: ClientKey, why: &str) {
        let Some(client) = self.clients.get(key.0) else { return };
        if self.config.settings.log_disconnections && client.seat.is_taken() {
            crate::info!(of self.name_client(key); "closing because: {why}");
        }
        self.leave(key);
        self.drop_client(key);
    }

    /// A client's connection is gone.
    pub fn client_gone(&mut self, key: ClientKey, error: Option<io::Error>) {
        let why = error.map_or("client unexpected eof".to_owned(), |error| error.to_string());
        self.close_client(key, &why);
    }

    fn drop_client(&mut self, key: ClientKey) {
        if let Some(mut client) = self.clients.remove(key.0) {
            self.unwatch(&mut client.io.stream);
        }
    }

    /// Takes a client out of everything that knows it, its server first.
    fn leave(&mut self, key: ClientKey) {
        let Some(client) = self.clients.get_mut(key.0) else { return };
        client.waits = None;
        self.forget_in_lane(key);
        let Some(client) = self.clients.get_mut(key.0) else { return };
        let pool_key = client.pool.take();
        let home = client.home.take();
        let server_key = client.server;
        client.place = None;
        let was_in_pool = matches!(client.state, ClientState::Ready | ClientState::Greeting | ClientState::Relay);
        lock(&self.shared.cancels).remove(&client.cancel_key);
        client.seat.leave();
        if let Some(pool) = pool_key.filter(|key| Some(*key) != home).and_then(|key| self.pools.get_mut(key.0)) {
            pool.forget(key);
        }
        if let Some(pool) = home.and_then(|key| self.pools.get_mut(key.0)) {
            pool.forget(key);
            pool.greeting.retain(|waiting| *waiting != key);
            if was_in_pool {
                pool.clients = pool.clients.saturating_sub(1);
                if pool.clients == 0 {
                    pool.unused_since = Some(self.now);
                }
            }
        }
        let Some(server_key) = server_key else { return };
        let unfinished = self.clients.get(key.0).is_some_and(|client| client.unsynced || client.passing > 0);
        let Some(server) = self.servers.get(server_key.0) else { return };
        let at_rest = server.requests.is_empty() && server.status == Status::Idle && server.passing.0 == 0;
        // An alignment goes on without it: nothing of the client's has been sent.
        let usable = server.apart.is_none() && (at_rest && !unfinished || server.aligning.is_some());
        self.detach(server_key);
        // What it was doing goes on on the server until the server notices; nobody else can use that connection.
        let why = "client disconnected with something under way";
        self.later(if usable { After::Free(server_key) } else { After::Close(server_key, why) });
    }

    /// Closes a server connection that no client uses.
    pub fn close_server(&mut self, key: ServerKey, why: &str) {
        self.leave_lane(key, "57P01", why);
        debug_assert!(self.servers.get(key.0).is_none_or(|server| server.target.is_none()), "a carrier is no server");
        let Some(mut server) = self.servers.remove(key.0) else { return };
        if self.config.settings.log_disconnections {
            crate::info!(of self.name_server(&server); "closing because: {why}");
        }
        if matches!(server.state, State::Idle | State::Active | State::Preparing | State::Hub)
            && server.io.pending() == 0
        {
            wire::frontend::write_terminate(server.io.out());
            let _ = server.io.flush();
        }
        self.unwatch(&mut server.io.stream);
        let Some(pool) = self.pools.get_mut(server.pool.0) else { return };
        pool.servers.retain(|other| *other != key);
        pool.idle.retain(|other| *other != key);
        if server.apart.is_some() {
            pool.apart = pool.apart.saturating_sub(1);
        } else if matches!(server.state, State::Connecting | State::Login(_)) {
            pool.connecting = pool.connecting.saturating_sub(1);
        }
        let (user, pool_key) = (pool.user.clone(), server.pool);
        self.count_server(&user, false);
        drop(server);
        self.pass_room_on(pool_key);
    }

    /// A server connection is gone, or cannot go on: its client is told what that means for it.
    pub fn server_gone(&mut self, key: ServerKey, why: &str) {
        if self.connect_otherwise(key, why) {
            return;
        }
        let Some(server) = self.servers.get_mut(key.0) else { return };
        if server.target.is_some() {
            let got = why == SERVER_CLOSED && matches!(server.state, State::Cancelling);
            return self.cancel_ended(key, got);
        }
        match server.apart {
            Some(Apart::Relay(_)) => return self.relay_gone(key, why),
            Some(Apart::Hub) => return self.hub_gone(key, why),
            None => (),
        }
        let pool_key = server.pool;
        let why = server.farewell.as_ref().map_or_else(|| why.to_owned(), |(_, message)| message.clone());
        let code = server.farewell.as_ref().map_or("08006", |(code, _)| code).to_owned();
        if matches!(server.state, State::Connecting | State::Login(_)) {
            let may_pass = server.may_come_back();
            // too_many_connections
            if code == "53300" {
                self.leave_room(pool_key);
            }
            self.close_server(key, &why);
            self.connect_failed(pool_key, &why, may_pass);
            self.met(pool_key, Met::NoConnection);
            return;
        }
        self.met(pool_key, Met::Died);
        let Some(server) = self.servers.get_mut(key.0) else { return };
        if matches!(server.state, State::Lane) {
            self.leave_lane(key, &code, &why);
            self.close_server(key, &why);
            self.later(After::Grow(pool_key));
            return;
        }
        if server.aligning.is_some() {
            // Nothing of its client's has been sent.
            let client = server.client();
            let tied = client.is_some_and(|client| self.is_tied(client));
            self.detach(key);
            self.close_server(key, &why);
            match client {
                Some(client) if tied => self.fatal(client, &code, &format!("server connection lost: {why}")),
                Some(client) => self.ask_elsewhere(client, &code, &why),
                None => (),
            }
            self.later(After::Grow(pool_key));
            return;
        }
        // Its outcome is unknown: if it was committed, it is seen.
        self.note_commit(key);
        let Some(server) = self.servers.get_mut(key.0) else { return };
        let client_key = server.lent.take();
        let in_message = matches!(server.passing, (1.., Some(Passing::On)));
        // The unit at the head has been told of an error of its own.
        let (failed, skips) = (server.failed, server.skips);
        let skipped = |request: &&Request| failed && !request.ends_failed_unit(skips);
        let units = server.requests.iter().skip_while(skipped).filter(|request| request.ends_clients_unit()).count();
        // A Flush was sent as a Sync: for the client its unit goes on.
        let open = server.requests.iter().any(|request| matches!(request, Request::HiddenSync));
        let begun = !server.requests.is_empty();
        let idle = server.status == Status::Idle;
        // As in PostgreSQL, who breaks the protocol loses its connection: nobody knows what of its bytes was read as what.
        let out_of_step = server.farewell.as_ref().is_some_and(|(code, _)| code == "08P01");
        // What was being prepared or closed was not, as far as the client will know.
        let unanswered = std::mem::take(&mut server.requests);
        undo(server, client_key.and_then(|client| self.clients.get_mut(client.0)), unanswered.into_iter());
        self.close_server(key, &why);
        if let Some(client_key) = client_key {
            let session = self.pools.get(pool_key.0).is_some_and(|pool| pool.mode == PoolMode::Session);
            if let Some(client) = self.clients.get_mut(client_key.0) {
                client.server = None;
                client.unsynced |= open;
                if in_message && client.is_ready() {
                    // Half a message has been passed on: nothing more can be said.
                    self.close_client(client_key, &format!("server connection lost within a message: {why}"));
                } else if !client.is_ready() || session || client.pins.any() || !idle || out_of_step {
                    let message = if idle {
                        format!("server connection lost: {why}")
                    } else {
                        format!("server connection lost in a transaction: {why}")
                    };
                    self.fatal(client_key, &code, &message);
                } else {
                    self.tell_of_loss(client_key, &code, &why, units, begun, failed);
                }
            }
        }
        self.later(After::Grow(pool_key));
    }

    /// A client outside a transaction has lost its server: the statement in flight has failed, the client stays.
    fn tell_of_loss(&mut self, key: ClientKey, code: &str, why: &str, units: usize, begun: bool, failed: bool) {
        let Some(client) = self.clients.get_mut(key.0) else { return };
        client.transaction_since = None;
        Self::ears_settle(client, true, true);
        (client.needs_own, client.behind_own) = (false, false);
        client.pending = Pending::default();
        client.portals.clear();
        client.unclear = false;
        // What was answered before a Sync is not committed before it either.
        if begun || client.unsynced {
            let message = format!("server connection lost, the outcome of the statement is unknown: {why}");
            let out = client.io.out();
            for unit in 0..units {
                if unit > 0 || !failed {
                    backend::write_error(out, "ERROR", code, &message);
                }
                backend::write_ready_for_query(out, Status::Idle);
            }
            if (client.unsynced || units == 0) && (units > 0 || !failed) {
                backend::write_error(client.io.out(), "ERROR", code, &message);
            }
        }
        if client.unsynced {
            client.discard = Discard::Unit;
        }
        self.give_turn(Turn::Client(key));
    }

    /// Closes the clients that have nothing under way: the pooler ends. Who looks on by the console may stay.
    pub fn close_idle_clients(&mut self) {
        if *lock(&self.shared.way) == Ending::WaitForClients {
            return;
        }
        let goes = |client: &Client| client.is_ready() && client.is_idle();
        let keys = self.clients.iter().map(|(key, client)| (ClientKey(key), goes(client)));
        let idle: Vec<ClientKey> = keys.filter(|(key, goes)| *goes || self.drains(*key)).map(|(key, _)| key).collect();
        for key in idle {
            self.fatal(key, "57P01", SHUTTING_DOWN);
        }
    }

    /// Tells those who are still there that the pooler has ended.
    pub fn say_goodbye(&mut self) {
        for (_, client) in self.clients.iter_mut() {
            if client.is_ready() || client.is_on_console() {
                backend::write_error(client.io.out(), "FATAL", "57P01", SHUTTING_DOWN);
                // What is not sent by now is lost with the process.
                let _ = client.io.flush();
            }
        }
    }
}
