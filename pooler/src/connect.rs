//! Connections to servers: made, logged in, greeted by; and the errand of a cancel request.

use balancer::ServerId;
use wire::backend::{self, Authentication, Status, tag};
use wire::frame::HEADER;
use wire::frontend;
use wire::md5;
use wire::scram::{self, Binding, Credential, Secret};
use wire::startup::{self, CancelKey};

use crate::after::After;
use crate::config::{ChannelBinding, Database, HostOrder, SslMode};
use crate::monitor::Met;
use crate::net::{Io, Stream};
use crate::pool::{Failure, PoolKey};
use crate::resolve::Found;
use crate::server::{Login, Server, ServerKey, State};
use crate::shared::lock;
use crate::tls::Session;
use crate::worker::{Step, Worker};

/// A message of a login is not longer than this.
const MAX_MESSAGE: usize = 65_536;

/// The hosts of an entry; a Unix socket when none is said.
fn hosts(entry: &Database) -> Vec<&str> {
    if entry.hosts.is_empty() { vec![""] } else { entry.hosts.iter().map(String::as_str).collect() }
}

/// Whether a connection that is being made is to ask for TLS, at this attempt.
fn wants_tls(server: &Server) -> bool {
    match server.sslmode {
        SslMode::Disable => false,
        SslMode::Allow => server.second_attempt,
        SslMode::Prefer => !server.second_attempt,
        SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => true,
    }
}

impl Worker {
    /// Begins to connect one more server to a pool; false when it failed at once.
    pub fn connect(&mut self, key: PoolKey) -> bool {
        let config = self.config.clone();
        let Some(pool) = self.pools.get(key.0) else { return false };
        let Some(entry) = config.database(&pool.database) else { return false };
        if let Some((home, id)) = pool.home {
            return self.connect_member(key, home, id);
        }
        let hosts = hosts(entry);
        let host = hosts.get(pool.next_host % hosts.len().max(1)).copied().unwrap_or_default().to_owned();
        let port = entry.port.unwrap_or(5432);
        let found = self.find_host(&host);
        // Who waits goes on when it has been looked up.
        if found == Found::Pending {
            return false;
        }
        // With the other order, a failure turns to the next one, in `connect_failed`.
        if entry.load_balance_hosts != Some(HostOrder::First)
            && let Some(pool) = self.pools.get_mut(key.0)
        {
            pool.next_host = pool.next_host.wrapping_add(1);
        }
        let place = match found {
            Found::At(place) => place,
            Found::Pending => return false,
            Found::Failed(why) => {
                self.connect_failed(key, &why, true);
                return false;
            }
        };
        let stream = match Stream::connect(&place, port, &config.settings) {
            Ok(stream) => stream,
            Err(error) => {
                self.connect_failed(key, &format!("cannot connect to {host}:{port}: {error}"), true);
                return false;
            }
        };
        self.take_up(key, host, port, stream)
    }

    /// Begins to connect to one server of a cluster.
    fn connect_member(&mut self, key: PoolKey, home: PoolKey, id: ServerId) -> bool {
        let cluster = self.pools.get(home.0).and_then(|pool| pool.cluster).and_then(|place| self.clusters.get(place));
        let Some(view) = cluster else { return false };
        let Some(listed) = view.view().server(id) else { return false };
        let (host, port) = (listed.host.clone(), listed.port);
        let opened = match view.address(id) {
            Some(address) => Stream::open(address, &self.config.settings),
            None => Stream::connect(&host, port, &self.config.settings),
        };
        match opened {
            Ok(stream) => self.take_up(key, host, port, stream),
            Err(error) => {
                self.connect_failed(key, &format!("cannot connect to {host}:{port}: {error}"), true);
                self.met(key, Met::NoConnection);
                false
            }
        }
    }

    /// Makes a server connection of the pool out of a socket that is being connected.
    fn take_up(&mut self, key: PoolKey, host: String, port: u16, stream: Stream) -> bool {
        let slot = ServerKey(self.servers.vacant());
        let mut io = Io::new(stream);
        if let Err(error) = self.watch_server(slot, &mut io) {
            self.connect_failed(key, &format!("cannot watch a socket: {error}"), true);
            return false;
        }
        let mut server = Server::new(io, host, port, key, self.now, self.shared.next_id());
        // On a Unix socket there is nobody to hide from, and PostgreSQL speaks no TLS there.
        if matches!(server.io.stream, Stream::Tcp(_)) {
            server.sslmode = self.config.settings.server_tls_sslmode;
        }
        if let Some(pool) = self.pools.get_mut(key.0) {
            server.place = pool.stats.place(&server.host, port);
            pool.connecting += 1;
            pool.servers.push(slot);
            let user = pool.user.clone();
            self.count_server(&user, true);
        }
        self.servers.insert(server);
        self.server_connected(slot);
        true
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
        if wants_tls(server) {
            startup::write_ssl_request(server.io.out());
            server.state = State::Login(Login::TlsAsked);
        } else {
            self.introduce(key);
        }
        self.flush_server(key);
    }

    /// Says what a connection to a server is for: a session, or a cancel request.
    fn introduce(&mut self, key: ServerKey) {
        let Some(server) = self.servers.get_mut(key.0) else { return };
        if !server.errand.is_empty() {
            let errand = std::mem::take(&mut server.errand);
            server.io.out().extend_from_slice(&errand);
            server.state = State::Cancelling;
        } else {
            server.state = State::Login(Login::Started);
            let Some(pool) = self.pools.get(server.pool.0) else { return };
            let entry = self.config.database(&pool.database).cloned().unwrap_or_default();
            let user = entry.user.as_deref().unwrap_or(&pool.user);
            let database = entry.dbname.as_deref().unwrap_or(&pool.database);
            let mut parameters = vec![("user", user), ("database", database)];
            for (name, value) in [
                ("client_encoding", &entry.client_encoding),
                ("DateStyle", &entry.datestyle),
                ("TimeZone", &entry.timezone),
            ] {
                parameters.extend(value.as_deref().map(|value| (name, value)));
            }
            startup::write_startup(server.io.out(), parameters);
        }
    }

    /// Works on a server's answer to the question whether it speaks TLS.
    fn tls_answer(&mut self, key: ServerKey, left: &[u8]) -> Result<(), String> {
        let Some(server) = self.servers.get_mut(key.0) else { return Ok(()) };
        match left {
            b"S" => {
                let connector = self.config.tls.connector.as_ref().ok_or("TLS has been turned off meanwhile")?;
                let session = Session::connect(connector, &server.host).map_err(|error| format!("TLS: {error}"))?;
                server.io.begin_tls(session);
            }
            b"N" if server.sslmode.requires() => return Err("the server does not support TLS".to_owned()),
            b"N" => (),
            // It would be taken for the first bytes of TLS, or of the server, though anybody may have put it there.
            [b'S' | b'N', ..] => return Err("data came with the answer to a request for encryption".to_owned()),
            _ => return Err("this is not a PostgreSQL server".to_owned()),
        }
        self.introduce(key);
        self.flush_server(key);
        Ok(())
    }

    /// A connection to a server has failed in its login: whether it is tried once more, without TLS in `prefer`, with
    /// it in `allow`. Only while the server may have refused it for that: before any password was asked for.
    pub fn connect_otherwise(&mut self, key: ServerKey, why: &str) -> bool {
        let settings = &self.config.settings;
        let Some(server) = self.servers.get_mut(key.0) else { return false };
        let early = matches!(server.state, State::Login(Login::Started | Login::TlsAsked)) && server.target.is_none();
        let limit = settings.server_connect_timeout.limit();
        let late = limit.is_some_and(|limit| self.now.saturating_duration_since(server.since) >= limit);
        if server.second_attempt || !early || late {
            return false;
        }
        // invalid_authorization_specification: pg_hba.conf has no line for such a connection.
        let refused = server.farewell.as_ref().map(|(code, _)| code == "28000");
        let otherwise = match server.sslmode {
            SslMode::Allow => refused == Some(true) && self.config.tls.connector.is_some(),
            SslMode::Prefer => server.io.tls().is_some() && refused != Some(false),
            _ => false,
        };
        if !otherwise {
            return false;
        }
        let (host, port) = (server.host.clone(), server.port);
        let Ok(stream) = Stream::connect(&host, port, settings) else { return false };
        let mut io = Io::new(stream);
        // What comes on it is an event; before that it is not even connected.
        io.readable = false;
        if self.watch_server(key, &mut io).is_err() {
            return false;
        }
        let Some(server) = self.servers.get_mut(key.0) else { return false };
        let how = if server.sslmode == SslMode::Allow { "with" } else { "without" };
        crate::info!("{host}:{port}: {why}; trying {how} TLS");
        let mut old = std::mem::replace(&mut server.io, io);
        server.state = State::Connecting;
        server.second_attempt = true;
        server.farewell = None;
        server.refused = false;
        server.welcome.clear();
        self.unwatch(&mut old.stream);
        self.server_connected(key);
        true
    }

    /// Works on what a server says while we log in.
    pub fn login_input(&mut self, key: ServerKey, left: &[u8]) -> Step {
        let asked = |server: &Server| matches!(server.state, State::Login(Login::TlsAsked));
        if self.servers.get(key.0).is_some_and(asked) {
            if let Err(why) = self.tls_answer(key, left) {
                self.login_failed(key, &why);
            }
            return Step::Took(left.len());
        }
        let message = match wire::header(left) {
            Ok(None) => return Step::More,
            Ok(Some(head)) if head.body <= MAX_MESSAGE => left.get(HEADER..head.total()).map(|body| (head, body)),
            _ => {
                self.login_failed(key, "this is not a PostgreSQL server");
                return Step::Took(left.len());
            }
        };
        let Some((head, body)) = message else { return Step::More };
        match self.login_message(key, head.tag, body) {
            Ok(()) => Step::Took(head.total()),
            Err(why) => {
                self.login_failed(key, &why);
                Step::Took(left.len())
            }
        }
    }

    /// A login cannot go on, whoever found out. What the server said itself is told apart by its SQLSTATE.
    fn login_failed(&mut self, key: ServerKey, why: &str) {
        if let Some(server) = self.servers.get_mut(key.0) {
            server.refused = server.farewell.is_none();
        }
        self.doom(key, why);
    }

    fn login_message(&mut self, key: ServerKey, tag: u8, body: &[u8]) -> Result<(), String> {
        let text = |error: wire::Error| error.to_string();
        match tag {
            tag::AUTHENTICATION => self.authenticate(key, &backend::authentication(body).map_err(text)?),
            tag::PARAMETER_STATUS => {
                let (name, value) = backend::parameter_status(body).map_err(text)?;
                let Some(server) = self.servers.get_mut(key.0) else { return Ok(()) };
                if let Some(place) = self.tracked.place(name) {
                    server.session.vars.set(place, value);
                }
                server.note_standby(name, value);
                server.welcome.push((name.to_owned(), value.to_owned()));
                Ok(())
            }
            tag::BACKEND_KEY_DATA => {
                let (pid, secret) = backend::backend_key_data(body).map_err(text)?;
                if let Some(server) = self.servers.get_mut(key.0) {
                    server.cancel_key = CancelKey { pid, secret: secret.to_vec() };
                }
                Ok(())
            }
            tag::ERROR_RESPONSE => {
                let report = backend::report(body).map_err(text)?;
                if let Some(server) = self.servers.get_mut(key.0) {
                    server.farewell = Some((report.code, report.message.clone()));
                }
                Err(report.message)
            }
            tag::READY_FOR_QUERY => {
                let Some(server) = self.servers.get_mut(key.0) else { return Ok(()) };
                // From here on its answers are to what is asked; nobody has it before the input has been worked on.
                server.state = State::Preparing;
                server.status = Status::Idle;
                self.later(After::LoggedIn(key));
                Ok(())
            }
            tag::NOTICE_RESPONSE | tag::NEGOTIATE_PROTOCOL_VERSION => Ok(()),
            other => Err(format!("the server sent a message '{}' in its login", char::from(other))),
        }
    }

    fn authenticate(&mut self, key: ServerKey, what: &Authentication<'_>) -> Result<(), String> {
        let Some(server) = self.servers.get(key.0) else { return Ok(()) };
        let Some(pool) = self.pools.get(server.pool.0) else { return Ok(()) };
        let entry = self.config.database(&pool.database);
        let user = entry.and_then(|entry| entry.user.clone()).unwrap_or_else(|| pool.user.to_string());
        let stored = entry
            .and_then(|entry| entry.password.clone())
            .or_else(|| self.config.passwords.get(&user).cloned())
            .or_else(|| self.found.get(user.as_str()).map(|secret| secret.to_string()));
        let missing = || format!("no password is known for user \"{user}\" on the server");
        let binding = self.config.settings.server_channel_binding;
        let Some(server) = self.servers.get_mut(key.0) else { return Ok(()) };
        let end_point = server.io.tls().and_then(Session::end_point).filter(|_| binding != ChannelBinding::Disable);
        let State::Login(login) = &mut server.state else { return Ok(()) };
        let scram =
            matches!(what, Authentication::Sasl(_) | Authentication::SaslContinue(_) | Authentication::SaslFinal(_));
        if binding == ChannelBinding::Require && !scram && !matches!(login, Login::Proven) {
            return Err("server_channel_binding = require: the server asks for no SCRAM".to_owned());
        }
        match what {
            Authentication::Ok => {
                // A server that asks for SCRAM and then does without has not shown that it knows the secret.
                if matches!(login, Login::ScramFirst(_) | Login::ScramFinal(_)) {
                    return Err("the server ended SCRAM without proving that it knows the secret".to_owned());
                }
                *login = Login::Accepted;
            }
            Authentication::CleartextPassword => {
                let password = stored.filter(|stored| !md5::is_stored(stored) && Secret::read(stored).is_none());
                frontend::write_password(server.io.out(), password.ok_or_else(missing)?.as_bytes());
            }
            Authentication::Md5Password(salt) => {
                let stored = stored.filter(|stored| Secret::read(stored).is_none()).ok_or_else(missing)?;
                let stored = if md5::is_stored(&stored) { stored } else { md5::stored(&user, stored.as_bytes()) };
                frontend::write_password(server.io.out(), md5::response(&stored, *salt).as_bytes());
            }
            Authentication::Sasl(mechanisms) => {
                let (mechanism, bound) = match &end_point {
                    Some(hash) if mechanisms.contains(&scram::MECHANISM_PLUS) => {
                        (scram::MECHANISM_PLUS, Binding::EndPoint(hash))
                    }
                    _ if binding == ChannelBinding::Require => {
                        return Err("server_channel_binding = require: the server does not offer it".to_owned());
                    }
                    _ if !mechanisms.contains(&scram::MECHANISM) => {
                        return Err(format!("the server offers only {}", mechanisms.join(", ")));
                    }
                    Some(_) => (scram::MECHANISM, Binding::Declined),
                    None => (scram::MECHANISM, Binding::No),
                };
                let stored = stored.ok_or_else(missing)?;
                let credential = match Secret::read(&stored) {
                    None if md5::is_stored(&stored) => {
                        return Err(format!("an MD5 password cannot log in by SCRAM (user \"{user}\")"));
                    }
                    None => Credential::Password(stored.into_bytes()),
                    Some(secret) => {
                        let client_key = lock(&self.shared.keys).get(&user).copied();
                        let client_key = client_key.ok_or_else(|| {
                            format!(
                                "the SCRAM secret of user \"{user}\" is of use only after a client's login by SCRAM"
                            )
                        })?;
                        Credential::Keys { client_key, server_key: secret.server_key }
                    }
                };
                let nonce = scram::nonce().map_err(|error| error.to_string())?;
                let (client, first) = scram::Client::start_bound(credential, &nonce, bound);
                frontend::write_sasl_initial(server.io.out(), mechanism, &first);
                *login = Login::ScramFirst(Box::new(client));
            }
            Authentication::SaslContinue(data) => {
                let Login::ScramFirst(client) = std::mem::replace(login, Login::Started) else {
                    return Err("the server goes on with a SCRAM that was not begun".to_owned());
                };
                let (proven, proof) = client.proof(data).map_err(|error| error.to_string())?;
                frontend::write_sasl_response(server.io.out(), &proof);
                *login = Login::ScramFinal(Box::new(proven));
            }
            Authentication::SaslFinal(data) => {
                let Login::ScramFinal(proven) = std::mem::replace(login, Login::Proven) else {
                    return Err("the server ends a SCRAM that was not begun".to_owned());
                };
                proven.finish(data).map_err(|error| error.to_string())?;
            }
            Authentication::Other(number) => {
                return Err(format!("the server asks for authentication method {number}, which is not supported"));
            }
        }
        self.flush_server(key);
        Ok(())
    }

    pub fn logged_in(&mut self, key: ServerKey) {
        if self.config.settings.log_connections
            && let Some(server) = self.servers.get(key.0)
        {
            crate::info!(of self.name_server(server); "new connection to server");
        }
        let Some(server) = self.servers.get_mut(key.0) else { return };
        let welcome = std::mem::take(&mut server.welcome);
        let vars = server.session.vars.clone();
        let pool_key = server.pool;
        let Some(pool) = self.pools.get_mut(pool_key.0) else { return };
        pool.connecting = pool.connecting.saturating_sub(1);
        let was_down = pool.failure.take().is_some();
        for name in self.tracked.note_silent(&vars) {
            crate::warning!(
                "the server does not report \"{name}\" (track_extra_parameters): it is carried as other SETs are"
            );
        }
        self.welcomed(pool_key, welcome, vars);
        let home = self.home_of(pool_key);
        let Some(pool) = self.pools.get_mut(home.0) else { return };
        let greeting = std::mem::take(&mut pool.greeting);
        let query = self.config.database(&pool.database).and_then(|entry| entry.connect_query.clone());
        match query {
            Some(query) => self.run_own(key, &query),
            None => self.later(After::Free(key)),
        }
        for client in greeting {
            self.greet(client);
        }
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
        if pool.servers.is_empty() || pool.home.is_some() {
            self.refuse_while_down(key, &format!("cannot connect to the server: {why}"));
        }
    }
}
