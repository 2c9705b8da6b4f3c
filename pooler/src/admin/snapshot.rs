//! What one worker holds, as plain values that can go to another.

use std::time::{Duration, Instant};

use crate::admin::pools;
use crate::admin::seen::{Line, Snapshot, replication};
use crate::pools::checks;
use crate::state::Core;
use crate::state::client::State as ClientState;
use crate::state::server::State;
use crate::state::traveller::Deeds;
use crate::tls::Session;

/// What this worker holds.
pub fn snapshot(core: &Core) -> Snapshot {
    let age = |since: Instant| core.now.saturating_duration_since(since);
    let mut snapshot = Snapshot::default();
    let name_place = core.parameters.tracked.place("application_name").unwrap_or_default();
    for (_, client) in core.clients.iter() {
        let state = match client.state {
            ClientState::Ready if client.input.suspended => "suspended",
            ClientState::Ready if client.checkout.waits().is_some() => "waiting",
            ClientState::Ready if client.checkout.server().is_some() || client.checkout.pipelined().is_some() => {
                "active"
            }
            ClientState::Ready => "idle",
            ClientState::Relay if client.input.suspended => "suspended",
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
            user: client.identity.user.to_string(),
            database: client.identity.database.to_string(),
            replication: replication(Some(client)),
            state,
            address: (client.identity.peer.host(), client.identity.peer.port()),
            local: (local.host(), local.port()),
            age: age(client.identity.since),
            request_age: age(client.times.request_since),
            wait: client.checkout.waits().map(age).unwrap_or_default(),
            close_needed: false,
            id: client.id,
            link: client.checkout.server().and_then(|key| core.servers.get(key.0)).map(|server| server.id),
            remote_pid: 0,
            application_name: client.session.vars.get(name_place).unwrap_or_default().to_owned(),
            statements: client.prepared.statements.len(),
            descriptors: (
                client.io.stream.descriptor(),
                client
                    .checkout
                    .server()
                    .and_then(|key| core.servers.get(key.0))
                    .map(|other| other.io.stream.descriptor()),
            ),
            held: (client.io.rest.len(), client.io.pending()),
            tls: client.io.tls().map(Session::describe).unwrap_or_default(),
            deeds: client.deeds,
        });
    }
    for (_, server) in core.servers.iter().filter(|(_, server)| server.cancels.target.is_none()) {
        let Some(pool) = core.pools.get(server.pool.0) else { continue };
        let local = server.io.stream.local();
        snapshot.servers.push(Line {
            kind: "S",
            user: pool.name.user.to_string(),
            database: pool.name.database.to_string(),
            replication: replication(server.holder.and_then(|key| core.clients.get(key.0))),
            state: match server.state {
                _ if server.life.suspended => "suspended",
                State::Connecting | State::Login(_) => "new",
                State::Preparing => "tested",
                State::Idle if checks::is_to_be_checked(core, server) => "used",
                State::Idle => "idle",
                State::Active | State::Pipelined | State::Relay | State::Hub => "active",
                State::Cancelling => "active_cancel",
            },
            address: (
                if server.at.host.is_empty() { "unix".to_owned() } else { server.at.host.clone() },
                server.at.port,
            ),
            local: (local.host(), local.port()),
            age: age(server.life.since),
            request_age: age(server.life.state_since),
            wait: Duration::ZERO,
            close_needed: server.life.retire,
            id: server.id,
            link: server.client().and_then(|key| core.clients.get(key.0)).map(|client| client.id),
            remote_pid: server.cancels.key.pid,
            application_name: server.known.session.vars.get(name_place).unwrap_or_default().to_owned(),
            statements: server.known.statements.len(),
            descriptors: (
                server.io.stream.descriptor(),
                server.client().and_then(|key| core.clients.get(key.0)).map(|other| other.io.stream.descriptor()),
            ),
            held: (server.io.rest.len(), server.io.pending()),
            tls: server.io.tls().map(Session::describe).unwrap_or_default(),
            deeds: Deeds::default(),
        });
    }
    snapshot.pools = pools::pools_seen(core);
    snapshot
}
