//! Clients' logins: the startup packet, the password, the greeting.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use wire::backend::{self, Authentication, Status};
use wire::frame::{self, HEADER};
use wire::frontend;
use wire::md5;
use wire::scram::{self, Binding, Secret};
use wire::startup::{self, CancelKey, Packet, Startup};

use crate::admin;
use crate::client::{Challenge, Client, ClientKey, State};
use crate::config::AuthType;
use crate::hba::Visitor;
use crate::net::{Peer, Stream};
use crate::server::{Request, ServerKey};
use crate::shared::{Message, lock};
use crate::tls::{self, Certificate, Session};
use crate::vars::assigned;
use crate::worker::{Step, Worker};

/// A password message is not longer than this.
const MAX_PASSWORD: usize = 8192;

impl Worker {
    /// Works on what a client sends before it has said who it is.
    pub fn startup_input(&mut self, key: ClientKey, left: &[u8]) -> Step {
        let plain = self.clients.get(key.0).is_some_and(|client| client.io.tls().is_none());
        if plain && left.first() == Some(&tls::HANDSHAKE) {
            self.accept_tls(key, b"", left);
            return Step::Took(left.len());
        }
        let (packet, length) = match startup::read(left) {
            Ok(Some(read)) => read,
            Ok(None) => return Step::More,
            Err(error) => {
                self.fatal(key, "08P01", &error.to_string());
                return Step::Took(left.len());
            }
        };
        let Some(client) = self.clients.get_mut(key.0) else { return Step::Took(left.len()) };
        match packet {
            Packet::SslRequest | Packet::GssEncRequest => {
                // What came with the request cannot have been encrypted, and must not be taken for what follows.
                if left.len() > length {
                    self.fatal(key, "08P01", "data came before the answer to a request for encryption");
                    return Step::Took(left.len());
                }
                if !plain {
                    self.fatal(key, "08P01", "encryption was asked for within TLS");
                    return Step::Took(left.len());
                }
                let over_tcp = matches!(client.io.stream, Stream::Tcp(_));
                if packet == Packet::SslRequest && over_tcp && self.config.tls.acceptor.is_some() {
                    self.accept_tls(key, b"S", b"");
                } else {
                    client.io.out().push(b'N');
                }
                Step::Took(length)
            }
            Packet::Cancel(cancel) => {
                let target = lock(&self.shared.cancels).get(&cancel).copied();
                let Some((worker, victim)) = target else {
                    self.close_client(key, "cancel request");
                    return Step::Took(left.len());
                };
                // As with a server, the connection ends when the request has had its effect.
                client.state = State::Cancels;
                self.shared.tell(worker, Message::Cancel(victim, cancel, (self.id, key)));
                Step::Took(left.len())
            }
            Packet::Startup(startup) => {
                if let Err((code, message)) = self.check_tls(key) {
                    self.fatal(key, code, message);
                    return Step::Took(left.len());
                }
                let database = startup.get("database").or_else(|| startup.get("user")).unwrap_or_default();
                let home = self.shared.home(if admin::is_console(database) { "" } else { database });
                if home != self.id {
                    let Some(mut client) = self.clients.remove(key.0) else { return Step::Took(left.len()) };
                    self.unwatch(&mut client.io.stream);
                    client.io.rest = left.to_vec();
                    self.shared.tell(home, Message::Moved(Box::new(client.io), client.since));
                    return Step::Took(left.len());
                }
                match self.begin_login(key, &startup) {
                    Ok(()) => Step::Took(length),
                    Err((code, message)) => {
                        self.fatal(key, code, &message);
                        Step::Took(left.len())
                    }
                }
            }
        }
    }

    /// Begins TLS with a client: `before` goes out first, `held` is what has come of it.
    fn accept_tls(&mut self, key: ClientKey, before: &[u8], held: &[u8]) {
        let Some(client) = self.clients.get_mut(key.0) else { return };
        let over_tcp = matches!(client.io.stream, Stream::Tcp(_));
        let Some(acceptor) = self.config.tls.acceptor.as_ref().filter(|_| over_tcp) else {
            return self.close_client(key, "TLS was begun but is not configured");
        };
        match Session::accept(acceptor, before, held) {
            Ok(session) => {
                client.io.begin_tls(session);
                self.give_turn(crate::worker::Turn::Client(key));
            }
            Err(error) => self.close_client(key, &format!("TLS: {error}")),
        }
    }

    /// Whether a client that begins a session does so over what is asked for.
    fn check_tls(&self, key: ClientKey) -> Result<(), (&'static str, &'static str)> {
        let Some(client) = self.clients.get(key.0) else { return Ok(()) };
        match client.io.tls() {
            // Without that anybody's TLS could be led here: ALPN says that PostgreSQL is meant.
            Some(session) if session.is_direct() && session.alpn() != Some(tls::ALPN) => {
                Err(("08P01", "direct TLS without the protocol postgresql by ALPN"))
            }
            None if self.config.settings.client_tls_sslmode.requires()
                && matches!(client.io.stream, Stream::Tcp(_)) =>
            {
                Err(("28000", "SSL required"))
            }
            _ => Ok(()),
        }
    }

    /// How a client has to prove who it is; `None` when it may not come in.
    fn method(&self, client: &Client) -> Option<AuthType> {
        let config = &self.config;
        if config.settings.auth_type != AuthType::Hba {
            return Some(config.settings.auth_type);
        }
        let address = match (&client.io.stream, &client.peer) {
            (Stream::Unix(_), _) => None,
            (Stream::Tcp(_), Peer::Tcp(address)) => Some(address.ip()),
            // It was gone before it could be asked for its address.
            (Stream::Tcp(_), Peer::Unix) => return None,
        };
        let tls = client.io.tls().is_some();
        config.hba.method(&Visitor { address, tls, database: &client.database, user: &client.user })
    }

    fn begin_login(&mut self, key: ClientKey, startup: &Startup<'_>) -> Result<(), (&'static str, String)> {
        let config = self.config.clone();
        let settings = &config.settings;
        let Some(client) = self.clients.get_mut(key.0) else { return Ok(()) };
        let user = startup.get("user").filter(|user| !user.is_empty());
        let user = user.ok_or(("28000", "no PostgreSQL user name specified in startup packet".to_owned()))?;
        let database = startup.get("database").filter(|name| !name.is_empty()).unwrap_or(user);
        client.user = user.into();
        client.database = database.into();
        client.minor = startup.minor;
        let console = admin::is_console(database);
        if self.shared.ending.load(Ordering::Relaxed) {
            return Err(("57P01", "the pooler is shutting down".to_owned()));
        }
        if settings.max_client_conn > 0
            && self.shared.clients.load(Ordering::Relaxed) >= settings.max_client_conn
            && !(console && settings.admin_users.has(user))
        {
            return Err(("53300", "no more connections allowed (max_client_conn)".to_owned()));
        }
        let of_user = lock(&self.shared.by_user).get(user).map_or(0, |(_, clients)| *clients);
        let most = config.user_clients(user);
        if most > 0 && of_user >= most {
            return Err(("53300", "client connections exceeded (max_user_client_connections)".to_owned()));
        }
        client.counted = true;
        let user: Rc<str> = client.user.clone();
        self.count_client(&user, true);
        if !console {
            let entry = config.database(database);
            if entry.is_none() {
                return Err(("3D000", format!("no such database: {database}")));
            }
            if lock(&self.shared.disabled).contains(database) {
                return Err(("57P03", format!("database \"{database}\" is disabled")));
            }
            let most = config.database_clients(database);
            if most > 0 {
                let of_database = self.clients.iter().filter(|(_, other)| &*other.database == database).count();
                if of_database > most {
                    return Err(("53300", "client connections exceeded (max_db_client_connections)".to_owned()));
                }
            }
        }
        self.take_parameters(key, startup)?;
        let Some(method) = self.clients.get(key.0).and_then(|client| self.method(client)) else {
            return Err((
                "28000",
                format!("no line of the HBA file lets user \"{user}\" in to \"{database}\" from here"),
            ));
        };
        let known = config.passwords.get(&*user).map(|password| Arc::from(password.as_str()));
        let Some(client) = self.clients.get_mut(key.0) else { return Ok(()) };
        client.secret = known;
        let entry = config.database(database);
        let auth_user = entry.and_then(|entry| entry.auth_user.clone()).unwrap_or_else(|| settings.auth_user.clone());
        if client.secret.is_none() && !auth_user.is_empty() && !console && method != AuthType::Any {
            client.state = State::Lookup;
            let auth_dbname = entry.and_then(|entry| entry.auth_dbname.as_ref()).unwrap_or(&settings.auth_dbname);
            let database = if auth_dbname.is_empty() { client.database.clone() } else { auth_dbname.as_str().into() };
            let pool = self.pool_of(&database, &auth_user.into());
            if let Some(client) = self.clients.get_mut(key.0) {
                client.pool = Some(pool);
                client.home = Some(pool);
            }
            self.acquire(key, false);
            return Ok(());
        }
        self.challenge(key);
        Ok(())
    }

    /// Takes the parameters of a startup packet over into the session.
    fn take_parameters(&mut self, key: ClientKey, startup: &Startup<'_>) -> Result<(), (&'static str, String)> {
        let config = self.config.clone();
        let Some(client) = self.clients.get_mut(key.0) else { return Ok(()) };
        let mut options = Vec::new();
        let mut given: Vec<(String, String)> = Vec::new();
        for &(name, value) in &startup.parameters {
            match name {
                "user" | "database" => (),
                "replication" if matches!(value, "0" | "off" | "false" | "no") => (),
                "replication" => return Err(("0A000", "replication connections are not supported".to_owned())),
                _ if name.starts_with("_pq_.") => options.push(name),
                _ if config.settings.ignore_startup_parameters.has(name) => (),
                "options" => given.extend(options_of(value).map_err(|message| ("08P01", message))?),
                _ => given.push((name.to_owned(), value.to_owned())),
            }
        }
        if startup.minor > 2 || startup.minor == 1 || !options.is_empty() {
            client.minor = if startup.minor >= 2 { 2 } else { 0 };
            backend::write_negotiate_version(client.io.out(), client.minor, &options);
        }
        for (name, mut value) in given {
            if name == "application_name" && config.settings.application_name_add_host {
                value = format!("{value} - {}:{}", client.peer.host(), client.peer.port());
            }
            match self.tracked.place(&name) {
                Some(place) => client.vars.set(place, &value),
                None if name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.') => {
                    let statement = format!("SET {name} = {}", assigned(&name, &value));
                    client.sets.set(&name.to_lowercase(), statement);
                }
                None => return Err(("08P01", format!("unsupported startup parameter: {name}"))),
            }
        }
        Ok(())
    }

    /// Asks a client for its password, as the configuration says.
    fn challenge(&mut self, key: ClientKey) {
        let auth_type = self.clients.get(key.0).and_then(|client| self.method(client));
        let (Some(auth_type), Some(client)) = (auth_type, self.clients.get_mut(key.0)) else {
            return self.fatal(key, "28000", "not let in");
        };
        if admin::is_console(&client.database) && admin::is_own_user(client) {
            client.admin = true;
            self.accepted(key);
            return;
        }
        let secret = client.secret.clone();
        let scram = auth_type == AuthType::Scram
            || auth_type == AuthType::Md5 && secret.as_deref().is_some_and(|secret| Secret::read(secret).is_some());
        let (challenge, authentication) = match auth_type {
            AuthType::Any => return self.accepted(key),
            AuthType::Trust if secret.is_some() => return self.accepted(key),
            AuthType::Trust => return self.wrong_password(key),
            AuthType::Cert if secret.is_some() && is_certified(client) => return self.accepted(key),
            AuthType::Cert => {
                let message = format!("certificate authentication failed for user \"{}\"", client.user);
                return self.fatal(key, "28000", &message);
            }
            AuthType::Plain => (Challenge::Plain, Authentication::CleartextPassword),
            _ if scram && client.io.tls().and_then(Session::end_point).is_some() => {
                let both = vec![scram::MECHANISM_PLUS, scram::MECHANISM];
                (Challenge::ScramFirst, Authentication::Sasl(both))
            }
            _ if scram => (Challenge::ScramFirst, Authentication::Sasl(vec![scram::MECHANISM])),
            _ => {
                let mut salt = [0; 4];
                if getrandom::fill(&mut salt).is_err() {
                    return self.fatal(key, "58000", "no random bytes from the operating system");
                }
                (Challenge::Md5(salt), Authentication::Md5Password(salt))
            }
        };
        client.state = State::Password(challenge);
        backend::write_authentication(client.io.out(), &authentication);
        self.flush_client(key);
    }

    /// Works on what a client sends as its password.
    pub fn password_input(&mut self, key: ClientKey, left: &[u8]) -> Step {
        let message = match wire::header(left) {
            Ok(Some(head)) if head.tag != frontend::tag::PASSWORD || head.body > MAX_PASSWORD => {
                Err("expected a password".to_owned())
            }
            Ok(Some(_)) => frame::message(left).map_err(|error| error.to_string()),
            Ok(None) => return Step::More,
            Err(error) => Err(error.to_string()),
        };
        let message = match message {
            Ok(Some(message)) => message,
            Ok(None) => return Step::More,
            Err(error) => {
                self.fatal(key, "08P01", &error);
                return Step::Took(left.len());
            }
        };
        let total = HEADER + message.body.len();
        match self.check_password(key, message.body) {
            Ok(()) => Step::Took(total),
            Err(wire::Error::Verification) => {
                self.wrong_password(key);
                Step::Took(left.len())
            }
            Err(error) => {
                self.fatal(key, "08P01", &error.to_string());
                Step::Took(left.len())
            }
        }
    }

    fn check_password(&mut self, key: ClientKey, body: &[u8]) -> Result<(), wire::Error> {
        let Some(client) = self.clients.get_mut(key.0) else { return Ok(()) };
        let (user, database) = (client.user.clone(), client.database.clone());
        let secret = client.secret.clone();
        let State::Password(challenge) = std::mem::replace(&mut client.state, State::Closing) else { return Ok(()) };
        let right = match challenge {
            Challenge::Plain => {
                let password = frontend::password(body)?;
                secret.is_some_and(|secret| is_password(&user, &secret, password))
            }
            Challenge::Md5(salt) => {
                let response = frontend::password(body)?;
                secret.is_some_and(|secret| {
                    let stored = if md5::is_stored(&secret) {
                        secret.to_string()
                    } else {
                        md5::stored(&user, secret.as_bytes())
                    };
                    same(md5::response(&stored, salt).as_bytes(), response)
                })
            }
            Challenge::ScramFirst => {
                let (mechanism, first) = frontend::sasl_initial(body)?;
                let end_point = client.io.tls().and_then(Session::end_point);
                let binding = match (mechanism, &end_point) {
                    (scram::MECHANISM_PLUS, Some(hash)) => Binding::EndPoint(hash),
                    (scram::MECHANISM, Some(_)) => Binding::Declined,
                    (scram::MECHANISM, None) => Binding::No,
                    _ => return Err(wire::Error::Scram("the mechanism is none of those that were offered")),
                };
                let known = secret.and_then(|secret| secret_of(&secret));
                // Who is not known is asked like anybody else, and fails in the end.
                let secret = match known {
                    Some(secret) => secret,
                    None => Secret::derive(scram::nonce()?.as_bytes(), scram::nonce()?.as_bytes(), 1)
                        .with_iterations(scram::ITERATIONS),
                };
                let (server, answer) = scram::Server::start_bound(secret, first, &scram::nonce()?, binding)?;
                client.state = State::Password(Challenge::ScramFinal(Box::new(server)));
                backend::write_authentication(client.io.out(), &Authentication::SaslContinue(&answer));
                return Ok(());
            }
            Challenge::ScramFinal(server) => {
                let accepted = server.finish(body)?;
                backend::write_authentication(client.io.out(), &Authentication::SaslFinal(&accepted.message));
                lock(&self.shared.learnt).key(&self.config, &database, &user, accepted.client_key);
                true
            }
        };
        if !right {
            return Err(wire::Error::Verification);
        }
        self.accepted(key);
        Ok(())
    }

    fn wrong_password(&mut self, key: ClientKey) {
        let user = self.clients.get(key.0).map(|client| client.user.clone()).unwrap_or_default();
        self.fatal(key, "28P01", &format!("password authentication failed for user \"{user}\""));
    }

    /// A client is who it says it is.
    fn accepted(&mut self, key: ClientKey) {
        let settings = &self.config.settings;
        if settings.log_connections {
            crate::info!(of self.name_client(key); "login");
        }
        let Some(client) = self.clients.get_mut(key.0) else { return };
        if admin::is_console(&client.database) {
            client.admin |= settings.admin_users.has(&client.user);
            let may = client.admin || settings.stats_users.has(&client.user);
            if !may && settings.auth_type != AuthType::Any {
                self.fatal(key, "42501", "not allowed");
                return;
            }
            client.admin |= settings.auth_type == AuthType::Any;
            backend::write_authentication(client.io.out(), &Authentication::Ok);
            client.state = State::Console;
            self.greet_on_console(key);
            return;
        }
        backend::write_authentication(client.io.out(), &Authentication::Ok);
        client.state = State::Greeting;
        let (database, user) = (client.database.clone(), client.user.clone());
        if let Some(secret) = &client.secret {
            lock(&self.shared.learnt).password(&self.config, &database, &user, secret.clone());
        }
        if let Some(cluster) = self.config.cluster_of(&database) {
            self.shared.board.user(cluster, &user);
        }
        let pool_key = self.pool_of(&database, &user);
        if let Some(client) = self.clients.get_mut(key.0) {
            client.pool = Some(pool_key);
            client.home = Some(pool_key);
        }
        let Some(pool) = self.pools.get_mut(pool_key.0) else { return };
        pool.clients += 1;
        pool.unused_since = None;
        if let Some(why) = pool.why_down(self.now, self.config.settings.server_login_retry.0) {
            self.fatal(key, "08006", &why);
            return;
        }
        if pool.welcome.is_some() {
            self.greet(key);
        } else {
            pool.greeting.push(key);
            if let Some(client) = self.clients.get_mut(key.0) {
                client.waiting_since = Some(self.now);
            }
            self.later(crate::after::After::Grow(pool_key));
        }
        self.flush_client(key);
    }

    /// Tells a client what a server tells when a session begins; then it may begin.
    pub fn greet(&mut self, key: ClientKey) {
        let mut random = [0; 36];
        if getrandom::fill(&mut random).is_err() {
            return self.fatal(key, "58000", "no random bytes from the operating system");
        }
        let Some(home) = self.clients.get(key.0).and_then(|client| client.home) else { return };
        let Some(pool) = self.pools.get(home.0) else { return };
        let Some(welcome) = pool.welcome.clone() else { return };
        let told: Vec<&str> =
            welcome.iter().map(|(name, value)| self.greets_with(home, &welcome, name, value)).collect();
        let Some(client) = self.clients.get_mut(key.0) else { return };
        // What servers do not tell is carried as other SETs are.
        for &place in self.tracked.silent() {
            if let (Some(value), Some(name)) = (client.vars.take(place), self.tracked.names().nth(place)) {
                client.sets.set(&name.to_lowercase(), format!("SET {name} = {}", assigned(name, &value)));
            }
        }
        client.startup = (client.vars.clone(), client.sets.clone());
        client.vars.fill(&pool.defaults);
        for ((name, _), value) in welcome.iter().zip(told) {
            let own = self.tracked.place(name).and_then(|place| client.vars.get(place));
            let value = own.unwrap_or(value).to_owned();
            backend::write_parameter_status(client.io.out(), name, &value);
        }
        let [a, b, c, d, secret @ ..] = random;
        // A process id is positive; a secret has four bytes before protocol 3.2.
        let pid = i32::from_be_bytes([a & 0x7f, b, c, d]).max(1);
        let length = if client.minor >= 2 { secret.len() } else { 4 };
        client.cancel_key = CancelKey { pid, secret: secret.get(..length).unwrap_or_default().to_vec() };
        lock(&self.shared.cancels).insert(client.cancel_key.clone(), (self.id, key));
        let cancel_key = client.cancel_key.clone();
        backend::write_backend_key_data(client.io.out(), cancel_key.pid, &cancel_key.secret);
        let message = &self.config.settings.login_notify_message;
        if !message.is_empty() {
            backend::write_notice(client.io.out(), "NOTICE", "00000", message);
        }
        backend::write_ready_for_query(client.io.out(), Status::Idle);
        client.state = State::Ready;
        client.secret = None;
        client.waiting_since = None;
        client.request_since = self.now;
        self.flush_client(key);
        self.give_turn(crate::worker::Turn::Client(key));
    }

    /// Asks the server that was lent to a client in `Lookup` for its password.
    pub fn lookup(&mut self, key: ClientKey) {
        let Some(client) = self.clients.get_mut(key.0) else { return };
        let Some(server_key) = client.server else { return };
        let Some(server) = self.servers.get_mut(server_key.0) else { return };
        let own = self.config.database(&client.database).and_then(|entry| entry.auth_query.as_ref());
        let query = own.unwrap_or(&self.config.settings.auth_query);
        let out = server.io.out();
        frontend::write_parse(out, b"", &[query.as_bytes(), b"\0\0\0"].concat());
        frame::write(out, frontend::tag::BIND, |out| {
            out.extend_from_slice(b"\0\0\0\0\0\x01");
            out.extend_from_slice(&i32::try_from(client.user.len()).unwrap_or(-1).to_be_bytes());
            out.extend_from_slice(client.user.as_bytes());
            out.extend_from_slice(b"\0\0");
        });
        frame::write(out, frontend::tag::EXECUTE, |out| out.extend_from_slice(b"\0\0\0\0\0"));
        frontend::write_sync(out);
        server.unnamed = None;
        server.requests.push_back(Request::Lookup);
        self.flush_server(server_key);
    }

    /// A row of `auth_query`: the user and the stored password.
    pub fn lookup_row(&mut self, key: ServerKey, row: &[Option<&[u8]>]) {
        let Some(client) = self.servers.get(key.0).and_then(|server| server.client) else { return };
        let Some(client) = self.clients.get_mut(client.0) else { return };
        if let [Some(user), Some(password), ..] = row
            && *user == client.user.as_bytes()
        {
            client.secret = std::str::from_utf8(password).ok().map(Arc::from);
        }
    }

    /// `auth_query` has been answered: its server is free, and the login goes on.
    pub fn lookup_done(&mut self, key: ServerKey) {
        let Some(client_key) = self.servers.get(key.0).and_then(|server| server.client) else { return };
        let report = self.servers.get_mut(key.0).and_then(|server| server.own_error.take());
        self.detach(key);
        self.free(key);
        if let Some(report) = report {
            return self.fatal(client_key, &report.code, &format!("auth_query failed: {}", report.message));
        }
        if let Some(client) = self.clients.get_mut(client_key.0) {
            client.pool = None;
            client.home = None;
        }
        self.challenge(client_key);
        self.flush_client(client_key);
        self.give_turn(crate::worker::Turn::Client(client_key));
    }
}

/// Whether a client has shown a certificate for the user that it says it is. That a trusted authority has signed it was
/// verified in the handshake.
fn is_certified(client: &Client) -> bool {
    let shown = client.io.tls().and_then(Session::peer_certificate);
    let name = shown.and_then(|shown| Certificate::read(shown)).and_then(|certificate| certificate.common_name());
    name == Some(&*client.user)
}

/// Whether `password` is the one that is stored.
fn is_password(user: &str, stored: &str, password: &[u8]) -> bool {
    if md5::is_stored(stored) {
        return same(md5::stored(user, password).as_bytes(), stored.as_bytes());
    }
    match Secret::read(stored) {
        Some(secret) => same(&Secret::derive(password, &secret.salt, secret.iterations).stored_key, &secret.stored_key),
        None => same(stored.as_bytes(), password),
    }
}

/// Compares without telling by the time it takes where the difference lies.
fn same(left: &[u8], right: &[u8]) -> bool {
    left.len() == right.len() && left.iter().zip(right).fold(0, |difference, (a, b)| difference | (a ^ b)) == 0
}

/// The SCRAM secret of a stored password; an MD5 one has none.
fn secret_of(stored: &str) -> Option<Secret> {
    if let Some(secret) = Secret::read(stored) {
        return Some(secret);
    }
    if md5::is_stored(stored) {
        return None;
    }
    let salt = scram::nonce().ok()?;
    Some(Secret::derive(stored.as_bytes(), salt.as_bytes().get(..16)?, scram::ITERATIONS))
}

/// The parameters in a startup packet's `options`: `-c name=value` and `--name=value`, a backslash before a space.
pub(crate) fn options_of(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut words: Vec<String> = vec![String::new()];
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => words.last_mut().into_iter().for_each(|word| word.extend(characters.next())),
            c if c.is_whitespace() => words.push(String::new()),
            c => words.last_mut().into_iter().for_each(|word| word.push(c)),
        }
    }
    let mut words = words.into_iter().filter(|word| !word.is_empty());
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let pair = if word == "-c" {
            words.next()
        } else {
            word.strip_prefix("--").or_else(|| word.strip_prefix("-c")).map(str::to_owned)
        };
        let pair = pair.as_deref().and_then(|pair| pair.split_once('='));
        let (name, value) = pair.ok_or_else(|| format!("unsupported startup parameter in options: {word}"))?;
        found.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    #[test]
    fn options_are_read_as_postgresql_reads_them() {
        let options = super::options_of(r"-c a.b=1 --search-path=x\ y  -cc=3").unwrap();
        let options: Vec<(&str, &str)> = options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(options, [("a.b", "1"), ("search_path", "x y"), ("c", "3")]);
        assert!(super::options_of("-x").is_err());
    }
}
