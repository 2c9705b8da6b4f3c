//! Connections to servers: how they are opened, logged in and greeted.

use crate::model::failure::Failure;
use crate::model::keys::{ClientKey, PoolKey, ServerKey};
use crate::model::relay::Relay;
use crate::model::turn::{After, Step};
use balancer::ServerId;
use wire::backend::Status;
use wire::login::{Error, Event, Login, Terms};

use crate::config::{Config, Database, HostOrder};
use crate::credentials;
use crate::error::{self, Cause};
use crate::io::{Io, Socket};
use crate::link::Link;
use crate::log::{self, Level};
use crate::monitor::Incident;
use crate::monitor::address::Address;
use crate::permit::Permit;
use crate::pools::{addresses, leave};
use crate::resolve::Resolution;
use crate::router::members;
use crate::state::server::{Apart, Server};
use crate::state::{Core, sockets, turns};
use crate::sync::lock;

/// The purpose of a connection.
pub enum Purpose {
    /// A connection of its pool.
    Pool(Permit),
    /// A connection beside the pool.
    Apart(Apart, Permit),
}

/// The hosts of an entry; a Unix socket if it has none.
fn hosts(entry: &Database) -> Vec<&str> {
    if entry.hosts.is_empty() { vec![""] } else { entry.hosts.iter().map(String::as_str).collect() }
}

/// The login of a connection, and the connection as the login sees it.
fn login_of<'a>(server: &'a mut Server, config: &'a Config) -> Option<(&'a mut Login, Link<'a>)> {
    let (login, io, host) = server.login()?;
    Some((login, Link { io, connector: config.tls.connector.as_deref(), host }))
}

/// Begins to connect one more server to a pool; false when it failed at once.
pub fn connect(core: &mut Core, key: PoolKey, permit: Permit) -> bool {
    connect_for(core, key, Purpose::Pool(permit)).is_some()
}

/// Begins to connect a client of replication to the server of a pool.
pub fn connect_relay(core: &mut Core, key: PoolKey, client: ClientKey, permit: Permit) {
    connect_for(core, key, Purpose::Apart(Apart::Relay(Some(client)), permit));
}

/// Begins to connect to the server of a pool, to listen for all of its clients; none when it failed at once.
pub fn connect_subscriber(core: &mut Core, key: PoolKey, permit: Permit) -> Option<ServerKey> {
    connect_for(core, key, Purpose::Apart(Apart::Subscriber, permit))
}

fn connect_for(core: &mut Core, key: PoolKey, purpose: Purpose) -> Option<ServerKey> {
    if core.is_suspended() {
        return None;
    }
    let config = core.config.clone();
    let pool = core.pools.get(key)?;
    let entry = config.database(&pool.name.database)?;
    if let Some((home, id)) = pool.cluster_of.home {
        return connect_member(core, key, home, id, purpose);
    }
    let hosts = hosts(entry);
    let port = entry.port.unwrap_or(5432);
    let (first, count) = (pool.connections.next_host, hosts.len().max(1));
    let host_at = |turn: usize| hosts.get(first.wrapping_add(turn) % count).copied().unwrap_or_default();
    let mut turn = 0;
    let mut found = find_address(core, host_at(turn), port);
    // A name that cannot be looked up is as good as a host that cannot be reached: the next one is tried.
    while found.is_err() && turn + 1 < count {
        turn += 1;
        found = find_address(core, host_at(turn), port);
    }
    let host = host_at(turn).to_owned();
    // With the other order, a failure turns to the next one, in `connect_failed`.
    let next = turn + usize::from(!matches!(found, Ok(None)) && entry.load_balance_hosts != Some(HostOrder::First));
    if let Some(pool) = core.pools.get_mut(key) {
        pool.connections.next_host = first.wrapping_add(next);
    }
    connect_to(core, key, host, port, found, purpose)
}

/// Begins to connect to one server of a cluster.
fn connect_member(core: &mut Core, key: PoolKey, home: PoolKey, id: ServerId, purpose: Purpose) -> Option<ServerKey> {
    let cluster =
        core.pools.get(home).and_then(|pool| pool.cluster_of.cluster).and_then(|place| core.router.clusters.get(place));
    let view = cluster?;
    let listed = view.view().server(id)?;
    let (host, port) = (listed.host.clone(), listed.port);
    let reached = view.address(id).cloned();
    let found = reached.map_or_else(|| find_address(core, &host, port), |address| Ok(Some(address)));
    connect_to(core, key, host, port, found, purpose)
}

/// The address of a host; none while its name is being looked up: the clients that wait go on when that is done.
fn find_address(core: &Core, host: &str, port: u16) -> Result<Option<Address>, String> {
    match addresses::find_host(core, host) {
        Resolution::At(place) => {
            Address::literal(&place, port).map(Some).ok_or_else(|| format!("{place} is not an address"))
        }
        Resolution::Pending => Ok(None),
        Resolution::Failed(why) => Err(why),
    }
}

/// Begins to connect to a server that was found, or not.
fn connect_to(
    core: &mut Core,
    key: PoolKey,
    host: String,
    port: u16,
    found: Result<Option<Address>, String>,
    purpose: Purpose,
) -> Option<ServerKey> {
    let opened = match found {
        Ok(None) => return None,
        Ok(Some(address)) => match core.reactor.network.connect(&address, &core.config.settings) {
            Ok(socket) => Ok((socket, address)),
            Err(error) => Err(format!("cannot connect to {host}:{port}: {error}")),
        },
        Err(why) => Err(why),
    };
    match opened {
        Ok((socket, address)) => take_up(core, key, (host, port), address, socket, purpose),
        Err(why) => {
            if let Purpose::Apart(apart, _) = purpose {
                not_apart(core, key, apart, &why);
                return None;
            }
            // The connection is not counted any more.
            drop(purpose);
            connect_failed(core, key, &Cause::connection(&why), true, true);
            members::met(core, key, Incident::NoConnection);
            None
        }
    }
}

/// Makes a server connection of the pool out of a socket that is being connected.
fn take_up(
    core: &mut Core,
    key: PoolKey,
    (host, port): (String, u16),
    address: Address,
    socket: Box<dyn Socket>,
    purpose: Purpose,
) -> Option<ServerKey> {
    let slot = core.servers.vacant();
    let mut io = Io::of_server(socket);
    if let Err(error) = sockets::watch_server(core, slot, &mut io) {
        let why = format!("cannot watch a socket: {error}");
        match purpose {
            Purpose::Apart(apart, _) => not_apart(core, key, apart, &why),
            Purpose::Pool(permit) => {
                drop(permit);
                connect_failed(core, key, &Cause::connection(&why), true, true);
            }
        }
        return None;
    }
    let mut server = Server::new(io, host, port, address, key, core.now, core.shared.next_id());
    server.at.sslmode = credentials::terms(&core.config.settings, &*server.io.socket).sslmode;
    (server.apart, server.permit) = match purpose {
        Purpose::Pool(permit) => (None, Some(permit)),
        Purpose::Apart(apart, permit) => (Some(apart), Some(permit)),
    };
    let apart = server.apart;
    if let Some(pool) = core.pools.get_mut(key) {
        server.at.place = pool.counts.stats.place(&server.at.host, port);
        if apart.is_none() {
            pool.connections.connecting += 1;
            pool.connections.servers.push(slot);
        }
    }
    if let Some(Apart::Relay(Some(key))) = apart {
        core.clients.get_mut(key).into_iter().for_each(|client| _ = client.checkout.take(slot));
    }
    core.servers.insert(server);
    server_connected(core, slot);
    Some(slot)
}

/// A connection that is no pool's cannot be made.
fn not_apart(core: &mut Core, key: PoolKey, apart: Apart, why: &str) {
    match apart {
        Apart::Relay(client) => client.into_iter().for_each(|client| {
            leave::fatal(core, client, &error::Error::ReplicationLost(Cause::connection(why)));
        }),
        Apart::Subscriber => core.schedule.later(After::SubscriberFailed(key, why.to_owned())),
    }
}

/// Goes on with a connection when its socket says that it is connected, or not to be.
pub fn server_connected(core: &mut Core, key: ServerKey) {
    let Some(server) = core.servers.get_mut(key) else { return };
    match server.io.socket.connected() {
        Ok(false) => return,
        Ok(true) => (),
        Err(error) => {
            let why = format!("cannot connect to {}:{}: {error}", server.at.host, server.at.port);
            turns::doom(core, key, &why);
            return;
        }
    }
    let login = server.life.again.take().or_else(|| login_to(core, key).map(Box::new));
    let (Some(login), Some(server)) = (login, core.servers.get_mut(key)) else { return };
    server.begin_login(login);
    let config = &core.config;
    let Some((login, mut link)) = login_of(server, config) else { return };
    match login.begin(&mut link) {
        Ok(event) => login_event(core, key, event),
        Err(error) => not_let_in(core, key, &error),
    }
}

/// The first exchange on a connection to a server: a login, or a cancel request.
fn login_to(core: &Core, key: ServerKey) -> Option<Login> {
    let server = core.servers.get(key)?;
    if server.cancels.target.is_some() {
        return Some(Login::cancel(server.at.sslmode, &server.cancels.key));
    }
    let pool = core.pools.get(server.pool)?;
    let entry = core.config.database(&pool.name.database).cloned().unwrap_or_default();
    let user: &str = &pool.name.user;
    let account = lock(&core.shared.learnt).account(&core.config, &pool.name.database, &entry, user);
    let database = entry.dbname.as_deref().unwrap_or(&pool.name.database);
    let mut parameters = vec![("user", user), ("database", database)];
    for (name, value) in
        [("client_encoding", &entry.client_encoding), ("DateStyle", &entry.datestyle), ("TimeZone", &entry.timezone)]
    {
        parameters.extend(value.as_deref().map(|value| (name, value)));
    }
    let relay = server.holder().and_then(|client| core.clients.get(client)).and_then(|client| client.relay.as_deref());
    let subscriber = [("client_encoding", "UTF8"), ("application_name", "howdah listen")];
    let subscriber = subscriber.into_iter().filter(|_| server.apart == Some(Apart::Subscriber));
    for (name, value) in relay.into_iter().flat_map(Relay::parameters).chain(subscriber) {
        parameters.retain(|(given, _)| !given.eq_ignore_ascii_case(name));
        parameters.push((name, value));
    }
    let terms = Terms { sslmode: server.at.sslmode, ..credentials::terms(&core.config.settings, &*server.io.socket) };
    Some(Login::session(terms, account, parameters))
}

/// Whether a login that has failed is tried once more over another connection, with or without TLS.
pub fn connect_otherwise(core: &mut Core, key: ServerKey, why: &str) -> bool {
    let settings = &core.config.settings;
    let Some(server) = core.servers.get_mut(key) else { return false };
    let limit = settings.server_connect_timeout.limit();
    let late = limit.is_some_and(|limit| core.now.saturating_duration_since(server.life.since) >= limit);
    let encrypted = server.io.tls().is_some();
    let Some((login, ..)) = server.login() else { return false };
    if late || !login.second_attempt(encrypted) {
        return false;
    }
    let how = if login.wants_tls() { "with" } else { "without" };
    let (host, port) = (server.at.host.clone(), server.at.port);
    let Ok(socket) = core.reactor.network.connect(&server.at.address, settings) else { return false };
    let mut io = Io::of_server(socket);
    // The first event will set this; before it the socket is not even connected.
    io.readable = false;
    if sockets::watch_server(core, key, &mut io).is_err() {
        return false;
    }
    let Some(server) = core.servers.get_mut(key) else { return false };
    crate::info!("{host}:{port}: {why}; trying {how} TLS");
    let old = server.connect_again(io);
    (server.life.fatal_error, server.life.refused) = (None, false);
    server.known.parameters.clear();
    sockets::unwatch(core, &old);
    server_connected(core, key);
    true
}

/// Works on the messages of a server during the login.
pub fn login_input(core: &mut Core, key: ServerKey, left: &[u8]) -> Step {
    let config = &core.config;
    let server = core.servers.get_mut(key);
    let Some((login, mut link)) = server.and_then(|server| login_of(server, config)) else {
        return Step::Took(left.len());
    };
    match login.receive(left, &mut link) {
        Ok(Some((count, event))) => {
            login_event(core, key, event);
            Step::Took(count)
        }
        Ok(None) => Step::More,
        Err(error) => {
            not_let_in(core, key, &error);
            Step::Took(left.len())
        }
    }
}

fn login_event(core: &mut Core, key: ServerKey, event: Event<'_>) {
    let Some(server) = core.servers.get_mut(key) else { return };
    match event {
        Event::Nothing => sockets::flush_server(core, key),
        Event::Parameter { name, value } => {
            if let Some(place) = core.parameters.tracked.place(name) {
                server.known.session.vars.set(place, value);
            }
            server.note_standby(name, value);
            server.known.parameters.push((name.to_owned(), value.to_owned()));
        }
        Event::Key(cancel_key) => server.cancels.key = cancel_key,
        Event::Ready => {
            // From here on the server's answers are to requests; no client has the connection before the input has been
            // worked on.
            server.prepare(None, core.now);
            server.status = Status::Idle;
            core.schedule.later(After::LoggedIn(key));
        }
        Event::Requested => {
            server.has_brought();
            sockets::flush_server(core, key);
        }
    }
}

/// The length of a SQLSTATE.
const SQLSTATE: usize = 5;

/// A login to a server has failed. Clients read the SQLSTATE of a server's refusal; the pooler's own reasons not to go on
/// are failures of the connection to them.
fn not_let_in(core: &mut Core, key: ServerKey, error: &Error) {
    let why = credentials::explain(error);
    if let Some(server) = core.servers.get_mut(key) {
        server.life.fatal_error = Some(match error {
            Error::Refused(report) if report.code.len() == SQLSTATE => {
                Cause { sqlstate: report.code.clone(), why: why.clone() }
            }
            _ => Cause::connection(&why),
        });
    }
    turns::doom(core, key, &why);
}

/// Notes that a pool cannot get a server connection. While it has none, clients that have not logged in get the reason,
/// and so do the others unless they may wait for the server to come back.
pub fn connect_failed(core: &mut Core, key: PoolKey, cause: &Cause, may_pass: bool, refuses: bool) {
    let longest = core.config.settings.server_login_retry.0;
    let Some(pool) = core.pools.get_mut(key) else { return };
    let before = pool.connections.failure.take();
    let mut failure = Failure::after(before.as_ref(), core.now, cause.clone(), may_pass, longest);
    let logs = failure.logs();
    let hosts = core.config.database(&pool.name.database).map_or(1, |entry| entry.hosts.len());
    failure.refuses = refuses && (cause.is_refusal() || failure.is_of_all(hosts));
    let refuses = failure.refuses;
    pool.connections.failure = Some(failure);
    if logs {
        let (pool, why) = (core.name_pool(key), &cause.why);
        let text = format_args!("no server connection could be made: {why}");
        log::event(Level::Warning, Some(&pool), "lost", (&pool.database, ""), text);
    }
    let Some(pool) = core.pools.get_mut(key) else { return };
    let entry = core.config.database(&pool.name.database);
    if entry.is_some_and(|entry| entry.load_balance_hosts == Some(HostOrder::First)) {
        pool.connections.next_host = pool.connections.next_host.wrapping_add(1);
    }
    if pool.cluster_of.home.is_some() || refuses && pool.connections.servers.is_empty() {
        core.schedule.later(After::Refuse(key, Box::new(error::Error::CannotConnect(cause.clone()))));
    }
}
