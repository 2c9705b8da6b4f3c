//! Clients' logins: from the startup packet to the proof.
//!
//! A client proves who it is on the worker that accepted it, or on the one that looks its password up. Only then it comes
//! to the worker of its database, and is told whether it may have that ([`crate::enter`]). Until then all users and
//! databases look alike to it ([`crate::password`], [`crate::refusal`]).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use wire::backend::{self, Authentication};
use wire::frame::{self, HEADER};
use wire::frontend;
use wire::scram::{self, Binding, Secret};
use wire::startup::Startup;

use crate::admin;
use crate::client::{Client, ClientKey, State};
use crate::config::AuthType;
use crate::derive::Job;
use crate::enter::Proven;
use crate::hba::{Method, Visitor};
use crate::lookup::Lookup;
use crate::net::{Peer, Stream};
use crate::password::{self, Exchange, Plain, Stored};
use crate::refusal::Refusal;
use crate::relay::Replication;
use crate::shared::WorkerId;
use crate::startup::Introduction;
use crate::tls::{self, Certificate, Session};
use crate::worker::{Step, Turn, Worker};

/// A password message is not longer than this.
const MAX_PASSWORD: usize = 8192;

/// A login that is under way.
#[derive(Debug)]
pub struct Login {
    introduction: Introduction,
    /// How the client has to prove who it is.
    method: AuthType,
    /// Whether it is the account that the pooler runs as, on the console.
    own_account: bool,
    /// The key that it has shown to have by SCRAM.
    client_key: Option<scram::Key>,
}

/// How far a login has come.
#[derive(Debug)]
pub enum Phase {
    /// `auth_query` is to find the password.
    Lookup(Lookup),
    /// The client's answer is awaited.
    Challenge(Challenge),
    /// A secret is being derived.
    Deriving {
        /// What it is for.
        then: Derivation,
        /// Tells that it is still wanted.
        _awaited: Arc<()>,
    },
}

/// What a client was asked.
#[derive(Debug)]
pub enum Challenge {
    /// Its password as it is.
    Plain(Stored),
    /// Its password hashed with this salt.
    Md5(Stored, [u8; 4]),
    /// The first message of SCRAM.
    ScramFirst(Stored),
    /// The last message of SCRAM.
    ScramFinal(Stored, Box<scram::Server>),
}

/// What is done with a secret when it has been derived.
#[derive(Debug)]
pub enum Derivation {
    /// It is compared with what is stored: it is that of a password that the client sent as it is.
    Compare(Stored),
    /// It is what the client must prove to know; this was its first message.
    Prove(Stored, Vec<u8>),
}

impl Login {
    /// How far a client has come.
    pub fn phase(client: &Client) -> Option<&Phase> {
        if let State::Login(_, phase) = &client.state { Some(phase) } else { None }
    }

    /// How far a client has come, to change.
    pub fn phase_mut(client: &mut Client) -> Option<&mut Phase> {
        if let State::Login(_, phase) = &mut client.state { Some(phase) } else { None }
    }

    /// Takes the login of a client up where it is; what becomes of it is for the caller to say.
    pub fn leave(client: &mut Client) -> Option<(Box<Self>, Phase)> {
        match std::mem::replace(&mut client.state, State::Startup) {
            State::Login(login, phase) => Some((login, *phase)),
            other => {
                client.state = other;
                None
            }
        }
    }

    /// Puts a client into a phase of its login.
    pub fn enter(self: Box<Self>, client: &mut Client, phase: Phase) {
        client.state = State::Login(self, Box::new(phase));
    }
}

impl Phase {
    /// Whether the client is to say something.
    pub fn awaits_client(&self) -> bool {
        matches!(self, Self::Challenge(_))
    }
}

impl Worker {
    /// Begins a client's login; the worker that it has to go to for that, if it is another one.
    pub fn begin_login(&mut self, key: ClientKey, startup: &Startup<'_>) -> Result<Option<WorkerId>, Refusal> {
        let config = self.config.clone();
        let settings = &config.settings;
        self.check_tls(key)?;
        let mut introduction = Introduction::read(startup, settings)?;
        let Some(client) = self.clients.get_mut(key.0) else { return Ok(None) };
        client.user = introduction.user.as_str().into();
        client.database = introduction.database.as_str().into();
        let console = admin::is_console(&client.database);
        // Who came before another process took the sockets over has nobody else to turn to.
        if self.shared.ending.load(Ordering::Relaxed) && !console && !self.shared.succession.is_handed_over() {
            return Err(Refusal::Ending);
        }
        let full =
            settings.max_client_conn > 0 && self.shared.clients.load(Ordering::Relaxed) >= settings.max_client_conn;
        // An administrator comes in all the same. Whether it is one is seen when it has proven who it is.
        if full && !console {
            return Err(Refusal::Full);
        }
        let Some(client) = self.clients.get(key.0) else { return Ok(None) };
        if console && introduction.replication.is_some() {
            return Err(Refusal::ReplicationOfConsole);
        }
        let own_account = console && admin::is_own_user(client);
        // What a certificate or the system proves needs no password, and without that no user is looked up.
        let method = if own_account { AuthType::Any } else { self.method(client, introduction.replication)? };
        let known = config.passwords.get(&introduction.user).map(|text| Stored::read(text));
        let is_looked_up = known.is_none() && method != AuthType::Any;
        let lookup = if is_looked_up { Lookup::of(&config, &introduction.database) } else { None };
        if let Some(worker) = lookup.as_ref().map(|lookup| self.looks_up(lookup)).filter(|worker| *worker != self.id) {
            return Ok(Some(worker));
        }
        let Some(client) = self.clients.get_mut(key.0) else { return Ok(None) };
        introduction.write_negotiation(client.io.out());
        let login = Box::new(Login { introduction, method, own_account, client_key: None });
        match lookup {
            Some(lookup) => self.begin_lookup(key, login, lookup)?,
            None => self.looked_up(key, login, known.unwrap_or(Stored::Nobody))?,
        }
        Ok(None)
    }

    /// Whether a client that begins a session does so over what is asked for.
    fn check_tls(&self, key: ClientKey) -> Result<(), Refusal> {
        let Some(client) = self.clients.get(key.0) else { return Ok(()) };
        match client.io.tls() {
            // Without that anybody's TLS could be led here: ALPN says that PostgreSQL is meant.
            Some(session) if session.is_direct() && session.alpn() != Some(tls::ALPN) => {
                Err(Refusal::Protocol("direct TLS without the protocol postgresql by ALPN".to_owned()))
            }
            None if self.config.settings.client_tls_sslmode.requires()
                && matches!(client.io.stream, Stream::Tcp(_)) =>
            {
                Err(Refusal::TlsRequired)
            }
            _ => Ok(()),
        }
    }

    /// How a client has to prove who it is, where that has not been proven already.
    fn method(&self, client: &Client, replication: Option<Replication>) -> Result<AuthType, Refusal> {
        let config = &self.config;
        let (auth, map) = match config.settings.auth_type {
            AuthType::Hba => {
                self.method_by_hba(client, replication).map(|method| (method.auth, method.map.as_deref()))?
            }
            auth => (auth, None),
        };
        let user = &*client.user;
        match auth {
            AuthType::Cert if !certified(client).is_some_and(|name| config.ident.allows(map, name, user)) => {
                Err(Refusal::Certificate(user.to_owned()))
            }
            AuthType::Peer if !admin::account_of(client).is_some_and(|name| config.ident.allows(map, &name, user)) => {
                Err(Refusal::Peer(user.to_owned()))
            }
            auth => Ok(auth),
        }
    }

    fn method_by_hba(&self, client: &Client, replication: Option<Replication>) -> Result<&Method, Refusal> {
        let config = &self.config;
        let (user, database) = (client.user.to_string(), client.database.to_string());
        let refusal = Refusal::Hba { user, database };
        let address = match (&client.io.stream, &client.peer) {
            (Stream::Unix(_), _) => None,
            (Stream::Tcp(_), Peer::Tcp(address)) => Some(address.ip()),
            // It was gone before it could be asked for its address.
            (Stream::Tcp(_), Peer::Unix) => return Err(refusal),
        };
        let tls = client.io.tls().is_some();
        let physical = replication == Some(Replication::Physical);
        let visitor = Visitor { address, tls, physical, database: &client.database, user: &client.user };
        config.hba.method(&visitor).ok_or(refusal)
    }

    /// Goes on with a login when it is known what is stored of the user's password.
    pub fn looked_up(&mut self, key: ClientKey, login: Box<Login>, stored: Stored) -> Result<(), Refusal> {
        let Some(client) = self.clients.get_mut(key.0) else { return Ok(()) };
        let user = client.user.to_string();
        if !stored.exists() && login.method != AuthType::Any && self.config.settings.log_pooler_errors {
            crate::info!(of self.name_client(key); "the user is not known");
        }
        match login.method {
            AuthType::Any => self.prove(key, *login, stored),
            AuthType::Trust | AuthType::Cert | AuthType::Peer if stored.exists() => self.prove(key, *login, stored),
            AuthType::Trust => return Err(Refusal::Password(user)),
            AuthType::Cert => return Err(Refusal::Certificate(user)),
            AuthType::Peer => return Err(Refusal::Peer(user)),
            AuthType::Plain | AuthType::Md5 | AuthType::Scram | AuthType::Hba => self.challenge(key, login, stored)?,
        }
        Ok(())
    }

    /// Asks a client for its password.
    fn challenge(&mut self, key: ClientKey, login: Box<Login>, stored: Stored) -> Result<(), Refusal> {
        let Some(client) = self.clients.get_mut(key.0) else { return Ok(()) };
        let (challenge, authentication) = match Exchange::of(login.method, &stored, self.shared.secrets.usual()) {
            Exchange::Plain => (Challenge::Plain(stored), Authentication::CleartextPassword),
            Exchange::Md5 => {
                let mut salt = [0; 4];
                getrandom::fill(&mut salt).map_err(|_| Refusal::Random)?;
                (Challenge::Md5(stored, salt), Authentication::Md5Password(salt))
            }
            Exchange::Scram => {
                let bound = client.io.tls().and_then(Session::end_point).map(|_| scram::MECHANISM_PLUS);
                let mechanisms = bound.into_iter().chain([scram::MECHANISM]).collect();
                (Challenge::ScramFirst(stored), Authentication::Sasl(mechanisms))
            }
        };
        login.enter(client, Phase::Challenge(challenge));
        backend::write_authentication(client.io.out(), &authentication);
        self.flush_client(key);
        Ok(())
    }

    /// Works on what a client sends in its login.
    pub fn password_input(&mut self, key: ClientKey, left: &[u8]) -> Step {
        let Some(client) = self.clients.get(key.0) else { return Step::Took(left.len()) };
        // What it sends before it is let in stays where it is.
        if !Login::phase(client).is_some_and(Phase::awaits_client) {
            return Step::Stop;
        }
        let message = match wire::header(left) {
            Ok(Some(head)) if head.tag != frontend::tag::PASSWORD || head.body > MAX_PASSWORD => {
                Err(Refusal::Protocol("expected a password".to_owned()))
            }
            Ok(Some(_)) => frame::message(left).map_err(Refusal::from),
            Ok(None) => return Step::More,
            Err(error) => Err(error.into()),
        };
        let outcome = match message {
            Ok(Some(message)) => self.password_answered(key, message.body).map(|()| HEADER + message.body.len()),
            Ok(None) => return Step::More,
            Err(refusal) => Err(refusal),
        };
        match outcome {
            Ok(taken) => Step::Took(taken),
            Err(refusal) => {
                self.refuse_login(key, refusal);
                Step::Took(left.len())
            }
        }
    }

    /// Goes on with a login by what its client has answered.
    fn password_answered(&mut self, key: ClientKey, body: &[u8]) -> Result<(), Refusal> {
        let Some(client) = self.clients.get_mut(key.0) else { return Ok(()) };
        let Some((mut login, Phase::Challenge(challenge))) = Login::leave(client) else { return Ok(()) };
        match challenge {
            Challenge::Plain(stored) => self.check_plain(key, login, stored, frontend::password(body)?),
            Challenge::Md5(stored, salt) => {
                let response = frontend::password(body)?;
                let right = password::check_md5(&login.introduction.user, &stored, salt, response);
                self.conclude(key, *login, stored, right)
            }
            Challenge::ScramFirst(stored) => self.begin_scram(key, login, stored, body),
            Challenge::ScramFinal(stored, server) => {
                let accepted = match server.finish(body) {
                    Err(wire::Error::Verification) => return self.conclude(key, *login, stored, false),
                    outcome => outcome?,
                };
                backend::write_authentication(client.io.out(), &Authentication::SaslFinal(&accepted.message));
                login.client_key = Some(accepted.client_key);
                let exists = stored.exists();
                self.conclude(key, *login, stored, exists)
            }
        }
    }

    fn check_plain(
        &mut self,
        key: ClientKey,
        login: Box<Login>,
        stored: Stored,
        password: &[u8],
    ) -> Result<(), Refusal> {
        let (user, secrets) = (&login.introduction.user, &self.shared.secrets);
        match password::check_plain(user, &stored, password, secrets.usual(), secrets.salt(user)) {
            Plain::Is(right) => self.conclude(key, *login, stored, right),
            Plain::Derive(salt, iterations) => {
                self.derive(key, login, Derivation::Compare(stored), (password.to_vec(), salt, iterations));
                Ok(())
            }
        }
    }

    /// Goes on with SCRAM when a client's first message has come: as soon as the secret is there that it must prove to
    /// know, or one that looks like it.
    fn begin_scram(&mut self, key: ClientKey, login: Box<Login>, stored: Stored, body: &[u8]) -> Result<(), Refusal> {
        let (user, secrets) = (&login.introduction.user, &self.shared.secrets);
        let password = match &stored {
            Stored::Scram(_, secret) => {
                let secret = (**secret).clone();
                return self.go_on_with_scram(key, login, stored, secret, body);
            }
            Stored::Plain(text) => match secrets.get(user, text) {
                Some(secret) => return self.go_on_with_scram(key, login, stored, (*secret).clone(), body),
                None => text.as_bytes().to_vec(),
            },
            _ if secrets.are_complete() => {
                let secret = secrets.mock(user);
                return self.go_on_with_scram(key, login, stored, secret, body);
            }
            _ => Vec::new(),
        };
        let material = (password, secrets.salt(user).to_vec(), secrets.iterations());
        self.derive(key, login, Derivation::Prove(stored, body.to_vec()), material);
        Ok(())
    }

    fn go_on_with_scram(
        &mut self,
        key: ClientKey,
        login: Box<Login>,
        stored: Stored,
        secret: Secret,
        body: &[u8],
    ) -> Result<(), Refusal> {
        let Some(client) = self.clients.get_mut(key.0) else { return Ok(()) };
        let (mechanism, first) = frontend::sasl_initial(body)?;
        let end_point = client.io.tls().and_then(Session::end_point);
        let binding = match (mechanism, &end_point) {
            (scram::MECHANISM_PLUS, Some(hash)) => Binding::EndPoint(hash),
            (scram::MECHANISM, Some(_)) => Binding::Declined,
            (scram::MECHANISM, None) => Binding::No,
            _ => return Err(wire::Error::Scram("the mechanism is none of those that were offered").into()),
        };
        let (server, answer) = scram::Server::start_bound(secret, first, &scram::nonce()?, binding)?;
        login.enter(client, Phase::Challenge(Challenge::ScramFinal(stored, Box::new(server))));
        backend::write_authentication(client.io.out(), &Authentication::SaslContinue(&answer));
        Ok(())
    }

    /// Has a secret derived of a password, with this salt and so many rounds.
    fn derive(&mut self, key: ClientKey, login: Box<Login>, then: Derivation, material: (Vec<u8>, Vec<u8>, u32)) {
        let Some(client) = self.clients.get_mut(key.0) else { return };
        let awaited = Arc::new(());
        let (password, salt, iterations) = material;
        let job = Job { password, salt, iterations, worker: self.id, client: key, awaited: Arc::downgrade(&awaited) };
        login.enter(client, Phase::Deriving { then, _awaited: awaited });
        self.shared.secrets.derive(job);
    }

    /// The secret that a client waits for has been derived.
    pub fn derived(&mut self, key: ClientKey, secret: &Secret) {
        let Some(client) = self.clients.get_mut(key.0) else { return };
        let Some((login, Phase::Deriving { then, .. })) = Login::leave(client) else { return };
        let outcome = match then {
            Derivation::Compare(stored) => {
                let right = password::is_secret(&stored, secret);
                self.conclude(key, *login, stored, right)
            }
            Derivation::Prove(stored, body) => {
                let is_plain = matches!(stored, Stored::Plain(_));
                let mock = || self.shared.secrets.mock(&login.introduction.user);
                let secret = if is_plain { secret.clone() } else { mock() };
                self.go_on_with_scram(key, login, stored, secret, &body)
            }
        };
        if let Err(refusal) = outcome {
            self.refuse_login(key, refusal);
        }
        self.flush_client(key);
        self.give_turn(Turn::Client(key));
    }

    fn conclude(&mut self, key: ClientKey, login: Login, stored: Stored, right: bool) -> Result<(), Refusal> {
        if !right {
            return Err(Refusal::Password(login.introduction.user));
        }
        self.prove(key, login, stored);
        Ok(())
    }

    /// A client is who it says it is. At its next turn it goes to the worker of its database.
    fn prove(&mut self, key: ClientKey, login: Login, stored: Stored) {
        let Some(client) = self.clients.get_mut(key.0) else { return };
        backend::write_authentication(client.io.out(), &Authentication::Ok);
        let Login { introduction, own_account, client_key, .. } = login;
        let secret = stored.text().cloned();
        client.state = State::Proven(Box::new(Proven { introduction, secret, client_key, own_account, place: None }));
        self.give_turn(Turn::Client(key));
    }

    /// Tells a client why it is not let in.
    pub fn refuse_login(&mut self, key: ClientKey, refusal: Refusal) {
        self.fatal(key, refusal.code(), &refusal.to_string());
    }
}

/// The common name of the certificate that a client has shown. That a trusted authority has signed it was verified in the
/// handshake.
fn certified(client: &Client) -> Option<&str> {
    let shown = client.io.tls().and_then(Session::peer_certificate)?;
    Certificate::read(shown)?.common_name()
}
