//! Connections to servers: made, logged in, greeted by.

use balancer::ServerId;
use wire::backend::Status;
use wire::login::{Error, Event, Login, Terms};

use crate::after::After;
use crate::client::ClientKey;
use crate::common::Permit;
use crate::config::{Config, Database, HostOrder};
use crate::credentials;
use crate::monitor::{Address, Met};
use crate::net::{Io, Stream};
use crate::pool::{Failure, PoolKey};
use crate::relay::Relay;
use crate::resolve::Found;
use crate::server::{Apart, Server, ServerKey, State};
use crate::shared::lock;
use crate::tls::Link;
use crate::worker::{Step, Worker};

/// What a connection is made for.
enum Purpose {
    /// For its pool.
    Pool(Permit),
    /// For something else.
    Apart(Apart),
}

/// The hosts of an entry; a Unix socket when none is said.
fn hosts(entry: &Database) -> Vec<&str> {
    if entry.hosts.is_empty() { vec![""] } else { entry.hosts.iter().map(String::as_str).collect() }
}

/// The login of a connection, and the connection as the login sees it.
fn login_of<'a>(server: &'a mut Server, config: &'a Config) -> Option<(&'a mut Login, Link<'a>)> {
    let State::Login(login) = &mut server.state else { return None };
    let connector = config.tls.connector.as_deref();
    Some((login, Link { io: &mut server.io, connector, host: &server.host }))
}

impl Worker {
    /// Begins to connect one more server to a pool; false when it failed at once.
    pub fn connect(&mut self, key: PoolKey, permit: Permit) -> bool {
        self.connect_for(key, Purpose::Pool(permit))
    }

    /// Begins to connect a client of replication to the server of a pool; false when it failed at once.
    pub fn connect_relay(&mut self, key: PoolKey, client: ClientKey) -> bool {
        self.connect_for(key, Purpose::Apart(Apart::Relay(client)))
    }

    /// Begins to connect to the server of a pool, to listen for all of its clients; false when it failed at once.
    pub fn connect_hub(&mut self, key: PoolKey) -> bool {
        self.connect_for(key, Purpose::Apart(Apart::Hub))
    }

    fn connect_for(&mut self, key: PoolKey, purpose: Purpose) -> bool {
        if self.is_suspended() {
            return false;
        }
        let config = self.config.clone();
        let Some(pool) = self.pools.get(key.0) else { return false };
        let Some(entry) = config.database(&pool.database) else { return false };
        if let Some((home, id)) = pool.home {
            return self.connect_member(key, home, id, purpose);
        }
        let hosts = hosts(entry);
        let host = hosts.get(pool.next_host % hosts.len().max(1)).copied().unwrap_or_default().to_owned();
        let port = entry.port.unwrap_or(5432);
        let found = self.find_address(&host, port);
        // With the other order, a failure turns to the next one, in `connect_failed`.
        if !matches!(found, Ok(None))
            && entry.load_balance_hosts != Some(HostOrder::First)
            && let Some(pool) = self.pools.get_mut(key.0)
        {
            pool.next_host = pool.next_host.wrapping_add(1);
        }
        self.connect_to(key, host, port, found, purpose)
    }

    /// Begins to connect to one server of a cluster.
    fn connect_member(&mut self, key: PoolKey, home: PoolKey, id: ServerId, purpose: Purpose) -> bool {
        let cluster = self.pools.get(home.0).and_then(|pool| pool.cluster).and_then(|place| self.clusters.get(place));
        let Some(view) = cluster else { return false };
        let Some(listed) = view.view().server(id) else { return false };
        let (host, port) = (listed.host.clone(), listed.port);
        let reached = view.address(id).cloned();
        let found = reached.map_or_else(|| self.find_address(&host, port), |address| Ok(Some(address)));
        self.connect_to(key, host, port, found, purpose)
    }

    /// Where a host is; nothing while its name is being looked up: who waits goes on when it has been.
    fn find_address(&self, host: &str, port: u16) -> Result<Option<Address>, String> {
        match self.find_host(host) {
            Found::At(place) => {
                Address::literal(&place, port).map(Some).ok_or_else(|| format!("{place} is not an address"))
            }
            Found::Pending => Ok(None),
            Found::Failed(why) => Err(why),
        }
    }

    /// Begins to connect to a server that was found, or not.
    fn connect_to(
        &mut self,
        key: PoolKey,
        host: String,
        port: u16,
        found: Result<Option<Address>, String>,
        purpose: Purpose,
    ) -> bool {
        let opened = match found {
            Ok(None) => return false,
            Ok(Some(address)) => match Stream::open(&address, &self.config.settings) {
                Ok(stream) => Ok((stream, address)),
                Err(error) => Err(format!("cannot connect to {host}:{port}: {error}")),
            },
            Err(why) => Err(why),
        };
        match opened {
            Ok((stream, address)) => self.take_up(key, (host, port), address, stream, purpose),
            Err(why) => {
                if let Purpose::Apart(apart) = purpose {
                    self.not_apart(key, apart, &why);
                    return false;
                }
                // It is counted no longer.
                drop(purpose);
                self.connect_failed(key, &why, true);
                self.met(key, Met::NoConnection);
                false
            }
        }
    }

    /// Makes a server connection of the pool out of a socket that is being connected.
    fn take_up(
        &mut self,
        key: PoolKey,
        (host, port): (String, u16),
        address: Address,
        stream: Stream,
        purpose: Purpose,
    ) -> bool {
        let slot = ServerKey(self.servers.vacant());
        let mut io = Io::new(stream);
        if let Err(error) = self.watch_server(slot, &mut io) {
            let why = format!("cannot watch a socket: {error}");
            match purpose {
                Purpose::Apart(apart) => self.not_apart(key, apart, &why),
                Purpose::Pool(permit) => {
                    drop(permit);
                    self.connect_failed(key, &why, true);
                }
            }
            return false;
        }
        let mut server = Server::new(io, host, port, address, key, self.now, self.shared.next_id());
        server.sslmode = credentials::terms(&self.config.settings, &server.io.stream).sslmode;
        (server.apart, server.permit) = match purpose {
            Purpose::Pool(permit) => (None, Some(permit)),
            Purpose::Apart(apart) => (Some(apart), None),
        };
        let apart = server.apart;
        if let Some(pool) = self.pools.get_mut(key.0) {
            server.place = pool.stats.place(&server.host, port);
            if apart.is_some() {
                pool.apart += 1;
            } else {
                pool.connecting += 1;
                pool.servers.push(slot);
            }
            let user = pool.user.clone();
            self.count_server(&user, true);
        }
        if let Some(Apart::Relay(key)) = apart {
            server.lent = Some(key);
            self.clients.get_mut(key.0).into_iter().for_each(|client| client.server = Some(slot));
        }
        self.servers.insert(server);
        if apart == Some(Apart::Hub) {
            self.hub_begun(slot);
        }
        self.server_connected(slot);
        true
    }

    /// A connection that is no pool's cannot be made.
    fn not_apart(&mut self, key: PoolKey, apart: Apart, why: &str) {
        match apart {
            Apart::Relay(client) => self.fatal(client, "08006", &format!("replication connection: {why}")),
            Apart::Hub => self.hub_failed(key, why),
        }
    }

    /// Goes on with a connection when its socket says that it is connected, or not to be.
    pub fn server_connected(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key.0) else { return };
        match server.io.stream.connected() {
            Ok(false) => return,
            Ok(true) => (),
            Err(error) => {
                let why = format!("cannot connect to {}:{}: {error}", server.host, server.port);
                self.server_gone(key, &why);
                return;
            }
        }
        let login = server.again.take().or_else(|| self.login_to(key).map(Box::new));
        let (Some(login), Some(server)) = (login, self.servers.get_mut(key.0)) else { return };
        server.state = State::Login(login);
        let config = &self.config;
        let Some((login, mut link)) = login_of(server, config) else { return };
        match login.begin(&mut link) {
            Ok(event) => self.login_event(key, event),
            Err(error) => self.not_let_in(key, &error),
        }
    }

    /// What a connection to a server begins with: a login, or a cancel request.
    fn login_to(&self, key: ServerKey) -> Option<Login> {
        let server = self.servers.get(key.0)?;
        if server.target.is_some() {
            return Some(Login::cancel(server.sslmode, &server.cancel_key));
        }
        let pool = self.pools.get(server.pool.0)?;
        let entry = self.config.database(&pool.database).cloned().unwrap_or_default();
        let user = entry.user.as_deref().unwrap_or(&pool.user);
        let account = lock(&self.shared.learnt).account(&self.config, &pool.database, &entry, user);
        let database = entry.dbname.as_deref().unwrap_or(&pool.database);
        let mut parameters = vec![("user", user), ("database", database)];
        for (name, value) in [
            ("client_encoding", &entry.client_encoding),
            ("DateStyle", &entry.datestyle),
            ("TimeZone", &entry.timezone),
        ] {
            parameters.extend(value.as_deref().map(|value| (name, value)));
        }
        let relay =
            server.lent.and_then(|client| self.clients.get(client.0)).and_then(|client| client.relay.as_deref());
        let hub = [("client_encoding", "UTF8"), ("application_name", "howdah listen")];
        let hub = hub.into_iter().filter(|_| server.apart == Some(Apart::Hub));
        for (name, value) in relay.into_iter().flat_map(Relay::parameters).chain(hub) {
            parameters.retain(|(given, _)| !given.eq_ignore_ascii_case(name));
            parameters.push((name, value));
        }
        let terms = Terms { sslmode: server.sslmode, ..credentials::terms(&self.config.settings, &server.io.stream) };
        Some(Login::session(terms, account, parameters))
    }

    /// A connection to a server has failed in its login: whether it is tried once more, secured otherwise.
    pub fn connect_otherwise(&mut self, key: ServerKey, why: &str) -> bool {
        let settings = &self.config.settings;
        let Some(server) = self.servers.get_mut(key.0) else { return false };
        let limit = settings.server_connect_timeout.limit();
        let late = limit.is_some_and(|limit| self.now.saturating_duration_since(server.since) >= limit);
        let encrypted = server.io.tls().is_some();
        let State::Login(login) = &mut server.state else { return false };
        if late || !login.second_attempt(encrypted) {
            return false;
        }
        let how = if login.wants_tls() { "with" } else { "without" };
        let (host, port) = (server.host.clone(), server.port);
        let Ok(stream) = Stream::open(&server.address, settings) else { return false };
        let mut io = Io::new(stream);
        // What comes on it is an event; before that it is not even connected.
        io.readable = false;
        if self.watch_server(key, &mut io).is_err() {
            return false;
        }
        let Some(server) = self.servers.get_mut(key.0) else { return false };
        crate::info!("{host}:{port}: {why}; trying {how} TLS");
        let mut old = std::mem::replace(&mut server.io, io);
        if let State::Login(login) = std::mem::replace(&mut server.state, State::Connecting) {
            server.again = Some(login);
        }
        (server.farewell, server.refused) = (None, false);
        server.welcome.clear();
        self.unwatch(&mut old.stream);
        self.server_connected(key);
        true
    }

    /// Works on what a server says while we log in.
    pub fn login_input(&mut self, key: ServerKey, left: &[u8]) -> Step {
        let config = &self.config;
        let server = self.servers.get_mut(key.0);
        let Some((login, mut link)) = server.and_then(|server| login_of(server, config)) else {
            return Step::Took(left.len());
        };
        match login.receive(left, &mut link) {
            Ok(Some((count, event))) => {
                self.login_event(key, event);
                Step::Took(count)
            }
            Ok(None) => Step::More,
            Err(error) => {
                self.not_let_in(key, &error);
                Step::Took(left.len())
            }
        }
    }

    fn login_event(&mut self, key: ServerKey, event: Event<'_>) {
        let Some(server) = self.servers.get_mut(key.0) else { return };
        match event {
            Event::Nothing => self.flush_server(key),
            Event::Parameter { name, value } => {
                if let Some(place) = self.tracked.place(name) {
                    server.session.vars.set(place, value);
                }
                server.note_standby(name, value);
                server.welcome.push((name.to_owned(), value.to_owned()));
            }
            Event::Key(cancel_key) => server.cancel_key = cancel_key,
            Event::Ready => {
                // From here on its answers are to what is asked; nobody has it before the input has been worked on.
                server.state = State::Preparing;
                server.status = Status::Idle;
                self.later(After::LoggedIn(key));
            }
            Event::Requested => {
                server.state = State::Cancelling;
                self.flush_server(key);
            }
        }
    }

    /// A login to a server has failed.
    fn not_let_in(&mut self, key: ServerKey, error: &Error) {
        let why = credentials::explain(error);
        if let Some(server) = self.servers.get_mut(key.0) {
            server.farewell = Some((error.sqlstate().to_owned(), why.clone()));
        }
        self.doom(key, &why);
    }

    /// A server has let us in: those who wait for it are told.
    pub fn logged_in(&mut self, key: ServerKey) {
        match self.servers.get(key.0).and_then(|server| server.apart) {
            Some(Apart::Relay(_)) => return self.relay_ready(key),
            Some(Apart::Hub) => return self.hub_ready(key),
            None => (),
        }
        self.note_way(key);
        if self.config.settings.log_connections
            && let Some(server) = self.servers.get(key.0)
        {
            crate::info!(of self.name_server(server); "new connection to server");
        }
        let Some(server) = self.servers.get(key.0) else { return };
        self.doubt_replay(server);
        let Some(server) = self.servers.get_mut(key.0) else { return };
        let welcome = server.welcome.clone();
        let vars = server.session.vars.clone();
        let pool_key = server.pool;
        let Some(pool) = self.pools.get_mut(pool_key.0) else { return };
        pool.connecting = pool.connecting.saturating_sub(1);
        let was_down = pool.failure.take().is_some();
        for name in self.tracked.note_silent(&vars) {
            self.warn_of_silent(&name);
        }
        let home = self.home_of(pool_key);
        let Some(pool) = self.pools.get(home.0) else { return };
        let query = self.config.database(&pool.database).and_then(|entry| entry.connect_query.clone());
        match query {
            Some(query) => {
                if let Some(server) = self.servers.get_mut(key.0).filter(|_| classify::only_sets(&query)) {
                    server.session.base = format!("{query}\n;").into();
                }
                self.run_own(key, &query);
            }
            None => self.later(After::Free(key)),
        }
        self.greet_by(pool_key, welcome, vars);
        // One attempt at a time is made while a server is down; now the others follow.
        if was_down {
            self.grow(pool_key);
        }
    }

    /// Notes that a pool cannot get a server. While it has none, those who have not logged in hear why, and so do the
    /// others unless they may wait for the server to come back.
    pub fn connect_failed(&mut self, key: PoolKey, why: &str, may_pass: bool) {
        crate::warning!(of self.name_pool(key); "{why}");
        let longest = self.config.settings.server_login_retry.0;
        let Some(pool) = self.pools.get_mut(key.0) else { return };
        pool.failure = Some(Failure::after(pool.failure.as_ref(), self.now, why, may_pass, longest));
        let entry = self.config.database(&pool.database);
        if entry.is_some_and(|entry| entry.load_balance_hosts == Some(HostOrder::First)) {
            pool.next_host = pool.next_host.wrapping_add(1);
        }
        if pool.common.total() == 0 || pool.home.is_some() {
            self.refuse_while_down(key, &format!("cannot connect to the server: {why}"));
        }
    }
}
