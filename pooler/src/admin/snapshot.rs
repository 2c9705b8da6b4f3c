//! What one worker holds, as plain values that can go to another.

use std::time::{Duration, Instant};

use super::PoolSeen;
use crate::client::{Client, Deeds, State as ClientState};
use crate::server::State;
use crate::tls::Session;
use crate::worker::Worker;

/// A client or a server connection.
#[derive(Debug, Clone)]
pub struct Line {
    /// `C` or `S`.
    pub kind: &'static str,
    /// The user.
    pub user: String,
    /// The database.
    pub database: String,
    /// What kind of replication it is for: `none`, `physical` or `logical`.
    pub replication: &'static str,
    /// What it does.
    pub state: &'static str,
    /// The address on the other side.
    pub address: (String, u16),
    /// The address on this side.
    pub local: (String, u16),
    /// How long ago it was connected.
    pub age: Duration,
    /// How long ago its last request was.
    pub request_age: Duration,
    /// How long it has waited.
    pub wait: Duration,
    /// Whether it will be closed when it is free.
    pub close_needed: bool,
    /// Its id.
    pub id: u64,
    /// The id of the other side it is linked with.
    pub link: Option<u64>,
    /// The process id on the server.
    pub remote_pid: i32,
    /// Its `application_name`.
    pub application_name: String,
    /// Prepared statements that it has.
    pub statements: usize,
    /// The file descriptors of its socket, and of the other side's.
    pub descriptors: (i32, Option<i32>),
    /// Bytes held that came from it, and bytes held for it.
    pub held: (usize, usize),
    /// The version and cipher of TLS; empty without.
    pub tls: String,
    /// What a client has done.
    pub deeds: Deeds,
}

/// What one worker holds.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Pools.
    pub pools: Vec<PoolSeen>,
    /// Clients.
    pub clients: Vec<Line>,
    /// Server connections.
    pub servers: Vec<Line>,
    /// Clients that are logging in.
    pub login_clients: usize,
}

/// The kind of replication that a client is there for.
fn replication(client: Option<&Client>) -> &'static str {
    client.and_then(|client| client.relay.as_ref()).map_or("none", |relay| relay.replication.word())
}

impl Worker {
    /// What this worker holds.
    pub fn snapshot(&self) -> Snapshot {
        let age = |since: Instant| self.now.saturating_duration_since(since);
        let mut snapshot = Snapshot::default();
        let name_place = self.tracked.place("application_name").unwrap_or_default();
        for (_, client) in self.clients.iter() {
            let state = match client.state {
                ClientState::Ready if client.suspended => "suspended",
                ClientState::Ready if client.waits.is_some() => "waiting",
                ClientState::Ready if client.server.is_some() || client.lane.is_some() => "active",
                ClientState::Ready => "idle",
                ClientState::Relay if client.suspended => "suspended",
                ClientState::Console | ClientState::Relay => "active",
                ClientState::Closing => continue,
                _ => {
                    snapshot.login_clients += 1;
                    "login"
                }
            };
            let local = client.io.stream.local();
            snapshot.clients.push(Line {
                kind: "C",
                user: client.user.to_string(),
                database: client.database.to_string(),
                replication: replication(Some(client)),
                state,
                address: (client.peer.host(), client.peer.port()),
                local: (local.host(), local.port()),
                age: age(client.since),
                request_age: age(client.request_since),
                wait: client.waits.map(age).unwrap_or_default(),
                close_needed: false,
                id: client.id,
                link: client.server.and_then(|key| self.servers.get(key.0)).map(|server| server.id),
                remote_pid: 0,
                application_name: client.vars.get(name_place).unwrap_or_default().to_owned(),
                statements: client.statements.len(),
                descriptors: (
                    client.io.stream.descriptor(),
                    client.server.and_then(|key| self.servers.get(key.0)).map(|other| other.io.stream.descriptor()),
                ),
                held: (client.io.rest.len(), client.io.pending()),
                tls: client.io.tls().map(Session::describe).unwrap_or_default(),
                deeds: client.deeds,
            });
        }
        for (_, server) in self.servers.iter().filter(|(_, server)| server.target.is_none()) {
            let Some(pool) = self.pools.get(server.pool.0) else { continue };
            let local = server.io.stream.local();
            snapshot.servers.push(Line {
                kind: "S",
                user: pool.user.to_string(),
                database: pool.database.to_string(),
                replication: replication(server.lent.and_then(|key| self.clients.get(key.0))),
                state: match server.state {
                    _ if server.suspended => "suspended",
                    State::Connecting | State::Login(_) => "new",
                    State::Preparing => "tested",
                    State::Idle if self.is_to_be_checked(server) => "used",
                    State::Idle => "idle",
                    State::Active | State::Lane | State::Relay | State::Hub => "active",
                    State::Cancelling => "active_cancel",
                },
                address: (if server.host.is_empty() { "unix".to_owned() } else { server.host.clone() }, server.port),
                local: (local.host(), local.port()),
                age: age(server.since),
                request_age: age(server.state_since),
                wait: Duration::ZERO,
                close_needed: server.retire,
                id: server.id,
                link: server.client().and_then(|key| self.clients.get(key.0)).map(|client| client.id),
                remote_pid: server.cancel_key.pid,
                application_name: server.session.vars.get(name_place).unwrap_or_default().to_owned(),
                statements: server.known.len(),
                descriptors: (
                    server.io.stream.descriptor(),
                    server.client().and_then(|key| self.clients.get(key.0)).map(|other| other.io.stream.descriptor()),
                ),
                held: (server.io.rest.len(), server.io.pending()),
                tls: server.io.tls().map(Session::describe).unwrap_or_default(),
                deeds: Deeds::default(),
            });
        }
        snapshot.pools = self.pools_seen();
        snapshot
    }
}
