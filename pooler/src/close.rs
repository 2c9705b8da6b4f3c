//! How connections end, and what those on the other side are told.

use std::io;

use wire::backend::{self, Status};

use crate::client::{ClientKey, Discard, State as ClientState};
use crate::config::PoolMode;
use crate::log::Subject;
use crate::monitor::Met;
use crate::pool::PoolKey;
use crate::server::{Passing, Request, Server, ServerKey, State};
use crate::shared::{Ending, lock};
use crate::worker::{Turn, Worker};

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
        if matches!(client.state, ClientState::Closing) && client.pool.is_none() && !client.counted {
            return;
        }
        backend::write_error(client.io.out(), "FATAL", code, message);
        self.count_error(code);
        if self.config.settings.log_pooler_errors {
            crate::warning!(of self.name_client(key); "{code} {message}");
        }
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
        if self.config.settings.log_disconnections && client.counted {
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
        let was_in_pool = matches!(client.state, ClientState::Ready | ClientState::Greeting);
        let user = client.user.clone();
        let counted = std::mem::take(&mut client.counted);
        lock(&self.shared.cancels).remove(&client.cancel_key);
        if counted {
            self.count_client(&user, false);
        }
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
        if server.requests.is_empty() && server.status == Status::Idle && !unfinished && server.passing.0 == 0 {
            self.give_back(server_key);
            return;
        }
        // What it was doing goes on on the server until the server notices; nobody else can use that connection.
        if let Some(server) = self.servers.get_mut(server_key.0) {
            server.client = None;
        }
        if let Some(client) = self.clients.get_mut(key.0) {
            client.server = None;
        }
        self.close_server(server_key, "client disconnected with something under way");
    }

    /// Closes a server connection that no client uses.
    pub fn close_server(&mut self, key: ServerKey, why: &str) {
        self.leave_lane(key, "57P01", why);
        let Some(mut server) = self.servers.remove(key.0) else { return };
        if self.config.settings.log_disconnections && server.target.is_none() {
            crate::info!(of self.name_server(&server); "closing because: {why}");
        }
        if matches!(server.state, State::Idle | State::Active | State::Preparing) && server.io.pending() == 0 {
            wire::frontend::write_terminate(server.io.out());
            let _ = server.io.flush();
        }
        self.unwatch(&mut server.io.stream);
        // A carrier of a cancel request was never one of the pool's.
        if let Some(target) = server.target {
            // The target may be gone, and its place another's, whose own cancel requests are still on their way.
            let found = self.servers.get_mut(target.0).filter(|found| found.cancel_key == server.cancel_key);
            let Some(target_server) = found else { return };
            target_server.held = target_server.held.saturating_sub(1);
            if target_server.held == 0 && std::mem::take(&mut target_server.parked) {
                self.offer(target);
            }
            return;
        }
        if server.requests.iter().any(|request| matches!(request, crate::server::Request::Catalog)) {
            self.catalog_lost(server.pool);
        }
        let Some(pool) = self.pools.get_mut(server.pool.0) else { return };
        pool.servers.retain(|other| *other != key);
        pool.idle.retain(|other| *other != key);
        if matches!(server.state, State::Connecting | State::Login(_)) {
            pool.connecting = pool.connecting.saturating_sub(1);
        }
        let user = pool.user.clone();
        self.count_server(&user, false);
    }

    /// A server connection is gone, or cannot go on: its client is told what that means for it.
    pub fn server_gone(&mut self, key: ServerKey, why: &str) {
        if self.connect_otherwise(key, why) {
            return;
        }
        let Some(server) = self.servers.get_mut(key.0) else { return };
        let pool_key = server.pool;
        let why = server.farewell.as_ref().map_or_else(|| why.to_owned(), |(_, message)| message.clone());
        let code = server.farewell.as_ref().map_or("08006", |(code, _)| code).to_owned();
        if matches!(server.state, State::Connecting | State::Login(_)) && server.target.is_none() {
            let may_pass = server.may_come_back();
            self.close_server(key, &why);
            self.connect_failed(pool_key, &why, may_pass);
            self.met(pool_key, Met::NoConnection);
            return;
        }
        if server.target.is_none() {
            self.met(pool_key, Met::Died);
        }
        let Some(server) = self.servers.get_mut(key.0) else { return };
        if matches!(server.state, State::Lane) {
            self.leave_lane(key, &code, &why);
            self.close_server(key, &why);
            self.grow(pool_key);
            return;
        }
        let client_key = server.client.take();
        let in_message = matches!(server.passing, (1.., Some(Passing::On)));
        let units = server.requests.iter().filter(|request| request.ends_clients_unit()).count();
        let begun = !server.requests.is_empty();
        // The unit at the head has been told of an error of its own.
        let failed = server.failed;
        let idle = server.status == Status::Idle;
        let is_errand = server.target.is_some();
        // What was being prepared was not, as far as the client will know.
        let names: Vec<Box<[u8]>> = server
            .requests
            .iter_mut()
            .filter_map(|request| match request {
                Request::Parse { name, .. } | Request::Invented { name, .. } => name.take(),
                _ => None,
            })
            .collect();
        if let Some(client) = client_key.and_then(|client| self.clients.get_mut(client.0)) {
            for name in names {
                client.statements.remove(&name);
            }
        }
        self.close_server(key, &why);
        if is_errand {
            return;
        }
        if let Some(client_key) = client_key {
            let session = self.pools.get(pool_key.0).is_some_and(|pool| pool.mode == PoolMode::Session);
            if let Some(client) = self.clients.get_mut(client_key.0) {
                client.server = None;
                if in_message && client.is_ready() {
                    // Half a message has been passed on: nothing more can be said.
                    self.close_client(client_key, &format!("server connection lost within a message: {why}"));
                } else if !client.is_ready() || session || client.pinned || !idle {
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
        self.grow(pool_key);
    }

    /// A client outside a transaction has lost its server: the statement in flight has failed, the client stays.
    fn tell_of_loss(&mut self, key: ClientKey, code: &str, why: &str, units: usize, begun: bool, failed: bool) {
        let Some(client) = self.clients.get_mut(key.0) else { return };
        client.transaction_since = None;
        (client.needs_own, client.behind_own) = (false, false);
        client.sets_in_transaction = None;
        client.bound = None;
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

    /// Closes the clients that have nothing under way: the pooler ends.
    pub fn close_idle_clients(&mut self) {
        if *lock(&self.shared.way) == Ending::WaitForClients {
            return;
        }
        let idle: Vec<ClientKey> = self
            .clients
            .iter()
            .filter(|(_, client)| client.is_idle() && !matches!(client.state, ClientState::Closing))
            .map(|(key, _)| ClientKey(key))
            .collect();
        for key in idle {
            self.fatal(key, "57P01", "the pooler is shutting down");
        }
    }
}
