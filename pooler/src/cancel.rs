//! Cancel requests: a client's, and those that the pooler sends to servers for it.
//!
//! PostgreSQL's cancel strikes a process and not a statement, so it must strike only what belongs to who asked. A
//! statement that has not been sent is answered here. A read on a pipelined connection is answered here too, and its
//! late answer dropped; the server is asked only once nobody waits for that connection any more. A connection is lent to
//! nobody else before its server has got every cancel request that was sent for it, which the server shows by closing
//! the connection that brought it; and the client's own cancel request ends then, not before, as with a server.

use wire::startup::CancelKey;

use crate::after::After;
use crate::client::ClientKey;
use crate::config::SslMode;
use crate::net::{Io, Stream};
use crate::server::{Server, ServerKey, State};
use crate::shared::{Message, WorkerId, lock};
use crate::worker::{Turn, Worker};

/// What a client is told whose statement is cancelled before a server had it.
const MESSAGE: &str = "canceling statement due to user request";

/// Who asked to cancel: the connection that brought the request.
pub type Asker = (WorkerId, ClientKey);

impl Worker {
    /// Cancels what a client is doing: its wait for a server connection, or its statement on the server.
    pub fn cancel(&mut self, key: ClientKey, cancel: &CancelKey, asker: Asker) {
        let Some(client) = self.clients.get(key.0).filter(|client| client.cancel_key == *cancel) else {
            // It may have moved since its worker was looked up.
            let now = lock(&self.shared.cancels).get(cancel).copied().filter(|now| *now != (self.id, key));
            return match now {
                Some((worker, key)) => self.shared.tell(worker, Message::Cancel(key, cancel.clone(), asker)),
                None => self.answer_asker(asker),
            };
        };
        if client.lane.is_some() {
            return self.cancel_in_lane(key, asker);
        }
        let aligning =
            client.server.filter(|server| self.servers.get(server.0).is_some_and(|server| server.aligning.is_some()));
        if let Some(server) = aligning.filter(|_| !self.is_tied(key)) {
            // Its statement has not been sent, and the alignment goes on for whoever comes next.
            self.detach(server);
        }
        let Some(client) = self.clients.get(key.0) else { return self.answer_asker(asker) };
        if aligning.is_some() || client.waits.is_some() {
            self.refuse(key, "57014", MESSAGE);
            return self.answer_asker(asker);
        }
        match client.server {
            Some(target) => self.cancel_on_server(target, Some(asker)),
            None => self.answer_asker(asker),
        }
    }

    /// Ends the connection that brought a cancel request: it has had its effect, or has none.
    pub fn answer_asker(&self, (worker, key): Asker) {
        self.shared.tell(worker, Message::Cancelled(key));
    }

    /// Cancels the first of a client's units that were sent down a pipelined connection.
    fn cancel_in_lane(&mut self, key: ClientKey, asker: Asker) {
        let Some((server_key, _)) = self.clients.get(key.0).and_then(|client| client.lane) else { return };
        let Some(lane) = self.servers.get_mut(server_key.0).and_then(|server| server.lane.as_mut()) else { return };
        let Some(place) = lane.units.iter().position(|unit| unit.client == Some(key)) else {
            return self.answer_asker(asker);
        };
        if lane.alone {
            return self.cancel_on_server(server_key, Some(asker));
        }
        if place == 0 && lane.forwarded {
            // Part of its answer has been passed on, so the end must be the server's; nobody may stand behind it.
            self.rescue(server_key);
            return self.cancel_on_server(server_key, Some(asker));
        }
        self.forget_names(server_key, place);
        self.take_from_lane(server_key, place);
        self.answer_unit(key, "57014", MESSAGE);
        self.answer_asker(asker);
        self.later(After::Stop(server_key));
    }

    /// Has the server stop what it does on a pipelined connection, if nobody waits for any of it.
    pub fn stop_unwanted(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key.0).filter(|server| matches!(server.state, State::Lane)) else {
            return;
        };
        let held = server.held;
        let Some(lane) = server.lane.as_mut() else { return };
        let wanted = lane.units.iter().any(|unit| unit.client.is_some() || unit.writes);
        if !wanted && !lane.units.is_empty() && held == 0 {
            lane.closed = true;
            self.cancel_on_server(key, None);
        }
    }

    /// Sends a cancel request for what this server connection is doing.
    pub fn cancel_on_server(&mut self, target: ServerKey, asker: Option<Asker>) {
        let busy = |server: &&Server| {
            matches!(server.state, State::Relay) || !server.requests.is_empty() && server.aligning.is_none()
        };
        let Some(server) = self.servers.get(target.0).filter(busy) else {
            asker.into_iter().for_each(|asker| self.answer_asker(asker));
            return;
        };
        let (host, port, address, pool) = (server.host.clone(), server.port, server.address.clone(), server.pool);
        // What is hidden on the way of a statement is hidden on the way of its cancel request.
        let sslmode = match server.io.tls() {
            None => SslMode::Disable,
            Some(_) if server.sslmode.requires() => server.sslmode,
            Some(_) => SslMode::Require,
        };
        let cancel_key = server.cancel_key.clone();
        let slot = ServerKey(self.servers.vacant());
        let made = Stream::open(&address, &self.config.settings).and_then(|stream| {
            let mut io = Io::new(stream);
            self.watch_server(slot, &mut io)?;
            Ok(io)
        });
        match made {
            Ok(io) => {
                let mut carrier = Server::new(io, host, port, address, pool, self.now, self.shared.next_id());
                carrier.target = Some(target);
                carrier.asker = asker;
                carrier.cancel_key = cancel_key;
                carrier.sslmode = sslmode;
                self.servers.insert(carrier);
                if let Some(server) = self.servers.get_mut(target.0) {
                    server.held += 1;
                }
                self.server_connected(slot);
            }
            Err(error) => {
                crate::warning!("cannot send a cancel request to {host}:{port}: {error}");
                asker.into_iter().for_each(|asker| self.answer_asker(asker));
            }
        }
    }

    /// A connection that brought a cancel request has ended; `got` when the server has ended it itself.
    pub fn cancel_ended(&mut self, key: ServerKey, got: bool) {
        let Some(mut carrier) = self.servers.remove(key.0) else { return };
        self.unwatch(&mut carrier.io.stream);
        carrier.asker.into_iter().for_each(|asker| self.answer_asker(asker));
        let Some((target_key, target)) =
            carrier.target.and_then(|target| Some((target, self.servers.get_mut(target.0)?)))
        else {
            return;
        };
        // It may have been read, and strike whatever the server does when the postmaster comes to it.
        target.suspect |= !got && matches!(carrier.state, State::Cancelling);
        target.held = target.held.saturating_sub(1);
        if target.held > 0 {
            return;
        }
        if std::mem::take(&mut target.parked) {
            self.later(After::Free(target_key));
        } else if let Some(client) = target.lent {
            // Its alignment may wait for this.
            self.give_turn(Turn::Client(client));
        }
    }
}
