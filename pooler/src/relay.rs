//! Replication connections: each client gets a connection of its own to the primary, as the user that it is, and all that
//! either side says is passed on as it is.
//!
//! Such a connection is no pool's: it does not count against `pool_size`, since it is never given back, but against
//! `max_db_connections` and `max_user_connections`. It ends with its client, and its client with it. Where messages end is
//! followed on the server's side, so that the client can be told something between two of them, and so that a drain knows
//! what may be ended.

use wire::backend::{self, Status, tag};
use wire::frame::HEADER;
use wire::startup::CancelKey;

use crate::client::{ClientKey, State as ClientState};
use crate::pool::PoolKey;
use crate::refusal::Refusal;
use crate::server::{ServerKey, State};
use crate::shared::lock;
use crate::startup::Introduction;
use crate::worker::{Step, Turn, Worker};

/// Which kind of replication a client asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replication {
    /// `replication=true`: of the whole server.
    Physical,
    /// `replication=database`.
    Logical,
}

impl Replication {
    /// What stands for it in a startup packet, as PostgreSQL reads it: `database`, or a Boolean in any of its spellings.
    pub fn read(value: &str) -> Result<Option<Self>, Refusal> {
        if value == "database" {
            return Ok(Some(Self::Logical));
        }
        let word = value.to_ascii_lowercase();
        let begins = |whole: &str, least: usize| word.len() >= least && whole.starts_with(&word);
        if begins("true", 1) || begins("yes", 1) || word == "on" || word == "1" {
            Ok(Some(Self::Physical))
        } else if begins("false", 1) || begins("no", 1) || begins("off", 2) || word == "0" {
            Ok(None)
        } else {
            Err(Refusal::Replication(value.to_owned()))
        }
    }

    /// Its name on the console.
    pub fn word(self) -> &'static str {
        match self {
            Self::Physical => "physical",
            Self::Logical => "logical",
        }
    }

    /// What stands for it in a startup packet.
    fn value(self) -> &'static str {
        match self {
            Self::Physical => "true",
            Self::Logical => "database",
        }
    }
}

/// What goes on on a connection, as what the server says shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Doing {
    /// The last command has been answered.
    #[default]
    Nothing,
    /// A command is being answered, or a backup is being sent.
    Command,
    /// Changes are streamed, for as long as both sides like.
    Streaming,
}

/// A replication connection.
#[derive(Debug)]
pub struct Relay {
    /// What kind it is.
    pub replication: Replication,
    /// What the client has asked for in its startup packet.
    parameters: Vec<(String, String)>,
    doing: Doing,
    /// The first bytes of a header that has not come whole.
    header: Vec<u8>,
    /// Bytes of a message that are still to come.
    left: usize,
}

impl Relay {
    /// What a client asks for.
    pub fn new(replication: Replication, parameters: Vec<(String, String)>) -> Self {
        Self { replication, parameters, doing: Doing::Nothing, header: Vec::new(), left: 0 }
    }

    /// What its login at the server asks for, beside the user and the database.
    pub fn parameters(&self) -> impl Iterator<Item = (&str, &str)> {
        let own = self.parameters.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        own.chain([("replication", self.replication.value())])
    }

    /// Follows what the server says.
    fn follow(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let skipped = self.left.min(bytes.len());
            self.left -= skipped;
            bytes = bytes.get(skipped..).unwrap_or_default();
            let lacking = HEADER.saturating_sub(self.header.len()).min(bytes.len());
            if self.left > 0 || lacking == 0 {
                return;
            }
            self.header.extend_from_slice(bytes.get(..lacking).unwrap_or_default());
            bytes = bytes.get(lacking..).unwrap_or_default();
            // What is no message is its receiver's to complain of.
            let Ok(Some(head)) = wire::header(&self.header) else { return };
            self.header.clear();
            self.left = head.body;
            self.doing = match head.tag {
                tag::READY_FOR_QUERY => Doing::Nothing,
                tag::COPY_BOTH_RESPONSE => Doing::Streaming,
                tag::COPY_DONE | tag::COMMAND_COMPLETE => Doing::Command,
                _ => self.doing,
            };
        }
    }

    /// The client has said something.
    fn asked(&mut self) {
        if self.doing == Doing::Nothing {
            self.doing = Doing::Command;
        }
    }

    /// Whether the client may be told something: the server is not in the middle of a message.
    pub fn is_between_messages(&self) -> bool {
        self.left == 0 && self.header.is_empty()
    }

    /// Whether it may be ended without the loss of anything that comes to an end by itself.
    fn may_end(&self) -> bool {
        self.doing != Doing::Command
    }
}

impl Worker {
    /// Gives a client that has proven who it is a place as a replication connection.
    pub fn enter_relay(&mut self, key: ClientKey, pool_key: PoolKey, introduction: Introduction) {
        let Some(replication) = introduction.replication else { return };
        let (Some(client), Some(pool)) = (self.clients.get_mut(key.0), self.pools.get_mut(pool_key.0)) else { return };
        (client.pool, client.home) = (Some(pool_key), Some(pool_key));
        client.relay = Some(Box::new(Relay::new(replication, introduction.parameters)));
        client.state = ClientState::Greeting;
        client.waiting_since = Some(self.now);
        pool.clients += 1;
        pool.unused_since = None;
        self.begin_relay(key);
    }

    /// Connects a replication client to its server, if there is one and the limits leave room; else it waits.
    fn begin_relay(&mut self, key: ClientKey) {
        let Some(home) = self.clients.get(key.0).and_then(|client| client.home) else { return };
        let Some(pool_key) = self.primary_pool(home) else { return };
        if self.pools.get(pool_key.0).is_none_or(|pool| pool.paused) {
            return;
        }
        if self.make_room_apart(pool_key) {
            self.connect_relay(pool_key, key);
        }
    }

    /// The pool of the server that is written to; none while there is no primary.
    pub fn primary_pool(&mut self, home: PoolKey) -> Option<PoolKey> {
        if !self.is_cluster(home) {
            return Some(home);
        }
        let place = self.pools.get(home.0)?.cluster?;
        let primary = self.clusters.get(place)?.view().primary()?;
        self.member(home, primary)
    }

    /// Tries again for those who wait.
    pub fn tick_relays(&mut self) {
        let waits = |client: &crate::client::Client| {
            client.relay.is_some() && client.server.is_none() && matches!(client.state, ClientState::Greeting)
        };
        let waiting: Vec<ClientKey> =
            self.clients.iter().filter(|(_, client)| waits(client)).map(|(key, _)| ClientKey(key)).collect();
        for key in waiting {
            self.begin_relay(key);
        }
    }

    /// The server has let a replication client in: it is told so, and both talk to each other from here on.
    pub fn relay_ready(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key.0) else { return };
        let Some(client_key) = server.lent else { return };
        server.state = State::Relay;
        server.state_since = self.now;
        let welcome = std::mem::take(&mut server.welcome);
        if let Some(pool) = self.pools.get_mut(server.pool.0) {
            pool.totals.assignments += 1;
        }
        let Some(cancel_key) = self.new_cancel_key(client_key) else {
            return self.refuse_login(client_key, Refusal::Random);
        };
        let Some(client) = self.clients.get_mut(client_key.0) else { return };
        let out = client.io.out();
        for (name, value) in &welcome {
            backend::write_parameter_status(out, name, value);
        }
        backend::write_backend_key_data(out, cancel_key.pid, &cancel_key.secret);
        backend::write_ready_for_query(out, Status::Idle);
        client.state = ClientState::Relay;
        client.waiting_since = None;
        client.request_since = self.now;
        self.flush_client(client_key);
        self.give_turn(Turn::Client(client_key));
        self.give_turn(Turn::Server(key));
    }

    /// Passes on what a replication client says.
    pub fn relay_to_server(&mut self, key: ClientKey, left: &[u8]) -> Step {
        let now = self.now;
        if let Some((client, server)) = self.pair(key) {
            client.request_since = now;
            if let Some(relay) = &mut client.relay {
                relay.asked();
            }
            server.io.out().extend_from_slice(left);
        }
        Step::Took(left.len())
    }

    /// Passes on what the server of a replication client says.
    pub fn relay_to_client(&mut self, key: ServerKey, left: &[u8]) -> Step {
        let lent = self.servers.get(key.0).and_then(|server| server.lent);
        if let Some(client) = lent.and_then(|client| self.clients.get_mut(client.0)) {
            if let Some(relay) = &mut client.relay {
                relay.follow(left);
            }
            client.io.out().extend_from_slice(left);
        }
        Step::Took(left.len())
    }

    /// The server connection of a replication client is gone, or was not to be had: the client goes with it.
    pub fn relay_gone(&mut self, key: ServerKey, why: &str) {
        let Some(server) = self.servers.get_mut(key.0) else { return };
        let established = matches!(server.state, State::Relay);
        let (code, why) = server.farewell.take().unwrap_or_else(|| ("08006".to_owned(), why.to_owned()));
        let client = server.lent.take();
        self.close_server(key, &why);
        let Some(client_key) = client else { return };
        if let Some(client) = self.clients.get_mut(client_key.0) {
            client.server = None;
        }
        if established {
            // The server has said itself why, if it could.
            self.end_client(client_key, &why);
        } else {
            self.fatal(client_key, &code, &format!("replication connection: {why}"));
        }
    }

    /// Whether a replication connection is ended by a drain: what it does would not end by itself, or it does nothing.
    pub fn drains(&self, key: ClientKey) -> bool {
        let Some(client) = self.clients.get(key.0) else { return false };
        match client.state {
            ClientState::Relay => client.relay.as_ref().is_some_and(|relay| relay.may_end()),
            _ => false,
        }
    }

    /// Gives a client the key by which it cancels what it does.
    pub fn new_cancel_key(&mut self, key: ClientKey) -> Option<CancelKey> {
        let mut random = [0; 36];
        getrandom::fill(&mut random).ok()?;
        let client = self.clients.get_mut(key.0)?;
        let [a, b, c, d, secret @ ..] = random;
        // A process id is positive; a secret has four bytes before protocol 3.2.
        let pid = i32::from_be_bytes([a & 0x7f, b, c, d]).max(1);
        let length = if client.minor >= 2 { secret.len() } else { 4 };
        client.cancel_key = CancelKey { pid, secret: secret.get(..length).unwrap_or_default().to_vec() };
        lock(&self.shared.cancels).insert(client.cancel_key.clone(), (self.id, key));
        Some(client.cancel_key.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_read_as_postgresql_reads_it() {
        for (value, kind) in [
            ("database", Some(Replication::Logical)),
            ("true", Some(Replication::Physical)),
            ("T", Some(Replication::Physical)),
            ("on", Some(Replication::Physical)),
            ("1", Some(Replication::Physical)),
            ("ye", Some(Replication::Physical)),
            ("false", None),
            ("OFF", None),
            ("no", None),
            ("0", None),
        ] {
            assert_eq!(Replication::read(value).unwrap(), kind, "{value}");
        }
        for wrong in ["", "o", "Database", "2", "truest", "yesno"] {
            assert!(Replication::read(wrong).is_err(), "{wrong}");
        }
    }

    fn message(tag: u8, body: usize) -> Vec<u8> {
        let mut bytes = Vec::new();
        wire::frame::write(&mut bytes, tag, |out| out.resize(out.len() + body, b'x'));
        bytes
    }

    #[test]
    fn messages_are_followed_however_they_are_cut() {
        let said = [
            message(tag::COPY_BOTH_RESPONSE, 3),
            message(tag::COPY_DATA, 40),
            message(tag::COPY_DONE, 0),
            message(tag::COMMAND_COMPLETE, 5),
            message(tag::READY_FOR_QUERY, 1),
        ];
        let whole = said.concat();
        let ends: Vec<usize> = said
            .iter()
            .scan(0, |at, part| {
                *at += part.len();
                Some(*at)
            })
            .collect();
        for size in 1..whole.len() {
            let mut relay = Relay::new(Replication::Physical, Vec::new());
            relay.asked();
            let mut at = 0;
            for part in whole.chunks(size) {
                relay.follow(part);
                at += part.len();
                assert_eq!(relay.is_between_messages(), ends.contains(&at), "{size} {at}");
            }
            assert_eq!(relay.doing, Doing::Nothing);
        }
    }

    #[test]
    fn a_command_is_waited_for_and_a_stream_is_not() {
        let mut relay = Relay::new(Replication::Physical, Vec::new());
        assert!(relay.may_end(), "nothing has been asked");
        relay.asked();
        assert!(!relay.may_end());
        relay.follow(&message(tag::ROW_DESCRIPTION, 9));
        relay.follow(&message(tag::COPY_OUT_RESPONSE, 3));
        assert!(!relay.may_end(), "a backup");
        relay.follow(&message(tag::READY_FOR_QUERY, 1));
        assert!(relay.may_end());
        relay.asked();
        relay.follow(&message(tag::COPY_BOTH_RESPONSE, 3));
        relay.asked();
        assert!(relay.may_end(), "a stream");
        relay.follow(&message(tag::COPY_DONE, 0));
        assert!(!relay.may_end(), "its end is being said");
    }
}
