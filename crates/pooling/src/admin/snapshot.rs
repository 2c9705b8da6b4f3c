//! The clients, server connections and pools of one worker, as plain values that can go to another worker.

use std::time::{Duration, Instant};

use classify::Reasons;

use crate::model::vars::Vars;

use crate::admin::pools;
use crate::admin::seen::{Line, Snapshot, SocketSeen, TimesSeen, replication};
use crate::io::{Cipher, Io};
use crate::pools::checks;
use crate::state::Core;
use crate::state::client::{Client, State as ClientState};
use crate::state::server::{Server, State};
use crate::state::transfer::Activity;

/// The state of a client without a proven identity.
const LOGIN: &str = "login";

/// The pools and connections of this worker.
pub fn snapshot(core: &Core) -> Snapshot {
    let clients: Vec<Line> = core.clients.values().filter_map(|client| client_line(core, client)).collect();
    let own = core.servers.iter().filter(|(_, server)| server.cancels.target.is_none());
    Snapshot {
        login_clients: clients.iter().filter(|line| line.state == LOGIN).count(),
        clients,
        servers: own.filter_map(|(_, server)| server_line(core, server)).collect(),
        pools: pools::pools_seen(core),
        shapes: Vec::new(),
    }
}

/// A client, unless it is leaving.
fn client_line(core: &Core, client: &Client) -> Option<Line> {
    let server = client.checkout.server().and_then(|key| core.servers.get(key));
    Some(Line {
        kind: "C",
        user: client.identity.user.to_string(),
        database: client.identity.database.to_string(),
        replication: replication(Some(client)),
        state: client_state(client)?,
        socket: socket_seen(
            &client.io,
            (client.identity.peer.host(), client.identity.peer.port()),
            server.map(|server| &server.io),
        ),
        times: TimesSeen {
            age: age(core, client.identity.since),
            request_age: age(core, client.times.request_since),
            wait: client.checkout.waits().map(|since| age(core, since)).unwrap_or_default(),
        },
        close_needed: false,
        id: client.id,
        link: server.map(|server| server.id),
        remote_pid: 0,
        application_name: application_name(core, &client.session.vars),
        statements: client.prepared.statements.len(),
        pinned: pinned(core, client),
        activity: client.activity,
    })
}

/// What pins a client to its server connection, and since when.
fn pinned(core: &Core, client: &Client) -> Option<(Reasons, Duration)> {
    let pins = &client.session.pins;
    Some((pins.reasons(), age(core, pins.since()?)))
}

/// A socket, and the one on the other side of the pooler.
fn socket_seen(io: &Io, address: (String, u16), other: Option<&Io>) -> SocketSeen {
    let local = io.socket.local();
    SocketSeen {
        address,
        local: (local.host(), local.port()),
        descriptors: (io.socket.descriptor(), other.map(|other| other.socket.descriptor())),
        held: (io.rest.len(), io.pending()),
        tls: io.tls().map(Cipher::describe).unwrap_or_default(),
    }
}

/// The state of a client in PgBouncer's words; none for one that is leaving.
fn client_state(client: &Client) -> Option<&'static str> {
    Some(match client.state() {
        ClientState::Ready | ClientState::Relay if client.input.suspended => "suspended",
        ClientState::Ready if client.checkout.waits().is_some() => "waiting",
        ClientState::Ready if client.checkout.server().is_some() || client.checkout.pipelined().is_some() => "active",
        ClientState::Ready => "idle",
        ClientState::Console | ClientState::Relay => "active",
        ClientState::Closing => return None,
        _ => LOGIN,
    })
}

/// A server connection.
fn server_line(core: &Core, server: &Server) -> Option<Line> {
    let pool = core.pools.get(server.pool)?;
    let client = server.client().and_then(|key| core.clients.get(key));
    let host = if server.at.host.is_empty() { "unix" } else { &server.at.host };
    Some(Line {
        kind: "S",
        user: pool.name.user.to_string(),
        database: pool.name.database.to_string(),
        replication: replication(server.holder().and_then(|key| core.clients.get(key))),
        state: server_state(core, server),
        socket: socket_seen(&server.io, (host.to_owned(), server.at.port), client.map(|client| &client.io)),
        times: TimesSeen {
            age: age(core, server.life.since),
            request_age: age(core, server.life.state_since),
            wait: Duration::ZERO,
        },
        close_needed: server.life.retire,
        id: server.id,
        link: client.map(|client| client.id),
        remote_pid: server.cancels.key.pid,
        application_name: application_name(core, &server.known.session.vars),
        statements: server.known.statements.len(),
        pinned: server.holder().and_then(|key| pinned(core, core.clients.get(key)?)),
        activity: Activity::default(),
    })
}

/// The state of a server connection in PgBouncer's words.
fn server_state(core: &Core, server: &Server) -> &'static str {
    match server.state() {
        _ if server.life.suspended => "suspended",
        State::Connecting | State::Login(_) => "new",
        State::Preparing(_) => "tested",
        State::Idle if checks::is_to_be_checked(core, server) => "used",
        State::Idle => "idle",
        State::Active(_) | State::Aligning(..) | State::Pipelined(_) | State::Relay | State::Subscriber => "active",
        State::Cancelling => "active_cancel",
    }
}

fn age(core: &Core, since: Instant) -> Duration {
    core.now.saturating_duration_since(since)
}

fn application_name(core: &Core, vars: &Vars) -> String {
    let place = core.parameters.tracked.place("application_name").unwrap_or_default();
    vars.get(place).unwrap_or_default().to_owned()
}
