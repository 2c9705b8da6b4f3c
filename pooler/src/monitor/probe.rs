//! One server, and the connection of the health checks to it.
//!
//! A round begins with [`Probe::begin`] and ends with an [`Outcome`]: an answer, or why there is none. Within a round a
//! dead connection is replaced once, the addresses of a name are tried in turn, and if the server refuses a user, the
//! next user is tried. The deadline holds for all of this together, `server_connect_timeout` for each connection.
//!
//! The login is the same as that of the pools ([`wire::login`], [`pooling::credentials`]): TLS, verification and
//! channel binding follow the settings.

use std::io;
use std::time::Instant;

use balancer::{FailureKind, Moment, Observation, ServerId};
use mio::Token;
use wire::backend::{self, Report, tag};
use wire::login::{Error, Event, Fault, Login};
use wire::sqlstate;
use wire::{frame, frontend};

use super::query;

use pooling::config::{Config, Database};
use pooling::credentials;
use pooling::io::{Connector, Got, Io, Network};
use pooling::link::Link;
use pooling::monitor::address::Address;
use pooling::shared::Shared;
use pooling::sync::lock;

/// No answer has longer messages.
const MAX_MESSAGE: usize = 65_536;

/// How a round has ended.
#[derive(Debug)]
pub(super) enum Outcome {
    /// With an answer.
    Seen(Observation),
    /// Without.
    Failed(FailureKind, String),
}

/// What a probe needs to go on.
pub(super) struct Around<'a> {
    pub network: &'a dyn Network,
    pub shared: &'a Shared,
    pub config: &'a Config,
    /// Where to read to; over TLS it takes a whole record.
    pub scratch: &'a mut [u8],
    /// The users to try.
    pub users: &'a [String],
    /// The time, on the clusters' clock.
    pub now: Moment,
}

#[derive(Debug)]
enum State {
    /// Nothing is asked.
    Resting,
    /// The addresses of its name are being looked up.
    Resolving,
    /// The login that is to follow, where it is the second attempt of one.
    Connecting(Option<Box<Login>>),
    Login(Box<Login>),
    /// The question is on its way: the answer as far as it has come.
    Asking(Option<Observation>, Option<Report>),
}

/// What has become of some input.
enum Step {
    /// So many bytes are done with.
    Took(usize),
    /// It takes more to know.
    More,
    /// So many bytes are done with, and the round is over.
    Over(usize, Outcome),
    /// The connection is another one, or none.
    Left(Turnout),
}

/// A server that is asked.
#[derive(Debug)]
pub(super) struct Probe {
    pub cluster: String,
    pub id: ServerId,
    pub host: String,
    pub port: u16,
    /// The entry that it belongs to.
    pub entry: Database,
    /// When it is asked.
    pub times: Times,
    token: Token,
    state: State,
    io: Option<Io>,
    /// Whether the connection was made in this round.
    fresh: bool,
    at: Places,
    user: usize,
    users_left: usize,
    short: bool,
    asked: Moment,
}

/// When a server is asked.
#[derive(Debug)]
pub(super) struct Times {
    /// When the next round begins.
    pub due: Instant,
    /// When this round must be over.
    pub deadline: Instant,
    /// When the connection must have been made and logged in.
    connect_by: Option<Instant>,
}

/// Where a server is asked.
#[derive(Debug)]
struct Places {
    /// What its name means.
    addresses: Vec<Address>,
    /// The address that is tried, or was reached.
    place: usize,
    /// Addresses of this round that are left to try.
    left: usize,
}

/// What a probe wants of its keeper.
#[derive(Debug)]
pub(super) enum Turnout {
    /// To be called again when its socket or the time says so.
    Wait,
    /// That its name be looked up.
    LookUp,
    /// The round is over.
    Over(Outcome),
}

impl Turnout {
    fn failed(kind: FailureKind, message: impl ToString) -> Self {
        Self::Over(Outcome::Failed(kind, message.to_string()))
    }
}

impl Probe {
    pub fn new(
        cluster: &str,
        id: ServerId,
        (host, port): (&str, u16),
        entry: Database,
        key: usize,
        now: Instant,
    ) -> Self {
        Self {
            cluster: cluster.to_owned(),
            id,
            host: host.to_owned(),
            port,
            entry,
            times: Times { due: now, deadline: now, connect_by: None },
            token: Token(key),
            state: State::Resting,
            io: None,
            fresh: false,
            at: Places { addresses: Address::literal(host, port).into_iter().collect(), place: 0, left: 0 },
            user: 0,
            users_left: 0,
            short: false,
            asked: Moment::default(),
        }
    }

    /// Whether a round is under way.
    pub fn is_busy(&self) -> bool {
        !matches!(self.state, State::Resting)
    }

    /// Whether its host is a name, which may come to mean another address.
    pub fn has_name(&self) -> bool {
        Address::literal(&self.host, self.port).is_none()
    }

    /// Whether there is a connection.
    pub fn has_connection(&self) -> bool {
        self.io.is_some()
    }

    /// There is an event on its socket; `closed` when the other side has closed.
    pub fn heard(&mut self, closed: bool) {
        if let Some(io) = &mut self.io {
            io.hangup |= closed;
            io.readable = true;
        }
    }

    /// Where it was reached.
    pub fn address(&self) -> Option<&Address> {
        self.io.as_ref().and_then(|_| self.at.addresses.get(self.at.place))
    }

    /// Begins a round.
    pub fn begin(&mut self, around: &mut Around<'_>) -> Turnout {
        self.fresh = false;
        self.users_left = around.users.len();
        if self.io.is_some() {
            return self.ask(around);
        }
        self.start_over(around)
    }

    /// Makes a connection anew, from the name on.
    fn start_over(&mut self, around: &mut Around<'_>) -> Turnout {
        self.fresh = true;
        self.at.left = self.at.addresses.len();
        if self.has_name() {
            self.state = State::Resolving;
            return Turnout::LookUp;
        }
        self.connect(around)
    }

    /// The addresses of its name have come.
    pub fn resolved(&mut self, found: io::Result<Vec<std::net::SocketAddr>>, around: &mut Around<'_>) -> Turnout {
        let waited = matches!(self.state, State::Resolving);
        match found {
            Ok(found) => {
                let found: Vec<Address> = found.into_iter().map(Address::Tcp).collect();
                let present = self.at.addresses.get(self.at.place).cloned();
                // A connection to where the name does not lead any more is of no use.
                let place = present.and_then(|present| found.iter().position(|address| *address == present));
                if place.is_none() && !waited {
                    self.drop_connection(around.network);
                }
                self.at.place = place.unwrap_or(0);
                self.at.left = found.len();
                self.at.addresses = found;
                if waited { self.connect(around) } else { Turnout::Wait }
            }
            Err(error) if waited => {
                self.state = State::Resting;
                Turnout::failed(FailureKind::Unreachable, error)
            }
            // What was found before stands.
            Err(_) => Turnout::Wait,
        }
    }

    fn connect(&mut self, around: &mut Around<'_>) -> Turnout {
        let limit = around.config.settings.server_connect_timeout.limit();
        self.times.connect_by = limit.map(|limit| Instant::now() + limit);
        self.connect_for(None, around)
    }

    /// Connects, to try a login once more where there is one.
    fn connect_for(&mut self, again: Option<Box<Login>>, around: &mut Around<'_>) -> Turnout {
        self.drop_connection(around.network);
        let Some(address) = self.at.addresses.get(self.at.place) else {
            self.state = State::Resting;
            return Turnout::failed(FailureKind::Unreachable, "no address");
        };
        let begun = around.network.connect(address, &around.config.settings).and_then(|socket| {
            let mut io = Io::new(socket);
            io.watch(around.network, self.token.0, true)?;
            Ok(io)
        });
        match begun {
            Ok(io) => {
                self.io = Some(io);
                self.state = State::Connecting(again);
                self.connected(around)
            }
            Err(error) => self.not_connected(&error, around),
        }
    }

    /// No connection was made to this address: there may be another.
    fn not_connected(&mut self, error: &io::Error, around: &mut Around<'_>) -> Turnout {
        self.drop_connection(around.network);
        if self.next_address() {
            return self.connect(around);
        }
        self.state = State::Resting;
        failed_by(error)
    }

    fn next_address(&mut self) -> bool {
        self.at.left = self.at.left.saturating_sub(1);
        self.at.place = (self.at.place + 1) % self.at.addresses.len().max(1);
        self.at.left > 0
    }

    fn connected(&mut self, around: &mut Around<'_>) -> Turnout {
        let Some(io) = &self.io else { return Turnout::Wait };
        match io.socket.connected() {
            Ok(false) => Turnout::Wait,
            Ok(true) => self.log_in(around),
            Err(error) => self.not_connected(&error, around),
        }
    }

    fn log_in(&mut self, around: &mut Around<'_>) -> Turnout {
        let State::Connecting(again) = &mut self.state else { return Turnout::Wait };
        let login = match again.take() {
            Some(login) => Some(login),
            None => self.login(around).map(Box::new),
        };
        let Some(mut login) = login else {
            return self.end(around, FailureKind::NoUser, "the pooler knows no user to log in as: set monitor_user");
        };
        let Some(io) = &mut self.io else { return Turnout::Wait };
        let begun = login.begin(&mut Link { io, connector: connector(around.config), host: &self.host });
        self.state = State::Login(login);
        match begun {
            Ok(_) => self.flush(around),
            Err(error) => self.not_let_in(&error, around),
        }
    }

    /// The login in the name of the user whose turn it is.
    fn login(&self, around: &Around<'_>) -> Option<Login> {
        let config = around.config;
        let socket = &*self.io.as_ref()?.socket;
        let user = around.users.get(self.user % around.users.len().max(1))?;
        let account = lock(&around.shared.learnt).account(config, &self.cluster, &self.entry, user);
        let wildcard = if self.cluster == "*" { "postgres" } else { &self.cluster };
        let database = self.entry.dbname.as_deref().unwrap_or(wildcard);
        let parameters = [("user", user.as_str()), ("database", database), ("application_name", "howdah monitor")];
        Some(Login::session(credentials::terms(&config.settings, socket), account, parameters))
    }

    /// The connection was not let in, or was lost in its login: whether another, secured otherwise, is tried.
    fn log_in_otherwise(&mut self, around: &mut Around<'_>) -> Option<Turnout> {
        let encrypted = self.io.as_ref().is_some_and(|io| io.tls().is_some());
        let State::Login(login) = &mut self.state else { return None };
        if !login.second_attempt(encrypted) {
            return None;
        }
        let State::Login(login) = std::mem::replace(&mut self.state, State::Resting) else { return None };
        Some(self.connect_for(Some(login), around))
    }

    fn ask(&mut self, around: &mut Around<'_>) -> Turnout {
        let Some(io) = &mut self.io else { return Turnout::Wait };
        frontend::write_query(io.out(), if self.short { query::SHORT } else { query::FULL });
        self.state = State::Asking(None, None);
        self.asked = around.now;
        self.flush(around)
    }

    fn flush(&mut self, around: &mut Around<'_>) -> Turnout {
        match self.io.as_mut().map(Io::flush) {
            Some(Err(error)) => self.lost(Some(error), around),
            _ => Turnout::Wait,
        }
    }

    /// Its socket has something to say.
    pub fn ready(&mut self, around: &mut Around<'_>) -> Turnout {
        if matches!(self.state, State::Connecting(_)) {
            let turnout = self.connected(around);
            if !matches!(turnout, Turnout::Wait) {
                return turnout;
            }
        }
        loop {
            match self.flush(around) {
                Turnout::Wait => (),
                other => return other,
            }
            // What a new connection has to say is an event.
            if matches!(self.state, State::Connecting(_)) {
                return Turnout::Wait;
            }
            let Some(io) = &mut self.io else { return Turnout::Wait };
            match io.read(around.scratch) {
                Got::Bytes(count) => {
                    io.rest.extend_from_slice(around.scratch.get(..count).unwrap_or_default());
                    match self.work(around) {
                        Turnout::Wait => (),
                        over => return over,
                    }
                }
                // A handshake may have brought something to send.
                Got::Nothing => return self.flush(around),
                Got::Closed(error) => return self.lost(error, around),
            }
        }
    }

    /// Works on what has come.
    fn work(&mut self, around: &mut Around<'_>) -> Turnout {
        let rest = match &mut self.io {
            Some(io) => std::mem::take(&mut io.rest),
            None => return Turnout::Wait,
        };
        let (mut at, mut turnout) = (0, Turnout::Wait);
        while let Some(left) = rest.get(at..).filter(|left| !left.is_empty()) {
            let step = match &self.state {
                State::Login(_) => self.login_input(left, around),
                _ => self.answer_input(left, around),
            };
            match step {
                Step::Took(count) => at += count,
                Step::More => break,
                Step::Over(count, outcome) => {
                    at += count;
                    turnout = Turnout::Over(outcome);
                    break;
                }
                Step::Left(turnout) => return turnout,
            }
        }
        if let (Some(io), Some(left)) = (&mut self.io, rest.get(at..)) {
            io.rest = left.to_vec();
        }
        turnout
    }

    fn login_input(&mut self, input: &[u8], around: &mut Around<'_>) -> Step {
        let (State::Login(login), Some(io)) = (&mut self.state, &mut self.io) else { return Step::Took(input.len()) };
        let mut link = Link { io, connector: connector(around.config), host: &self.host };
        match login.receive(input, &mut link) {
            Ok(Some((count, Event::Ready))) => match self.ask(around) {
                Turnout::Wait => Step::Took(count),
                other => Step::Left(other),
            },
            Ok(Some((count, _))) => Step::Took(count),
            Ok(None) => Step::More,
            Err(error) => Step::Left(self.not_let_in(&error, around)),
        }
    }

    fn answer_input(&mut self, input: &[u8], around: &mut Around<'_>) -> Step {
        let message = match wire::header(input) {
            Ok(Some(head)) if head.body > MAX_MESSAGE => Err("a message that is too long".to_owned()),
            Ok(_) => frame::message(input).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let message = match message {
            Ok(Some(message)) => message,
            Ok(None) => return Step::More,
            Err(error) => return Step::Left(self.end(around, FailureKind::Nonsense, &error)),
        };
        let count = input.len() - message.rest.len();
        // Servers tell of changed parameters and of their end without being asked.
        let State::Asking(row, report) = &mut self.state else { return Step::Took(count) };
        match message.tag {
            tag::DATA_ROW => {
                let latency = around.now.since(self.asked);
                *row = backend::data_row(message.body).ok().and_then(|row| query::read(&row, around.now, latency));
            }
            tag::ERROR_RESPONSE => *report = backend::report(message.body).ok(),
            tag::READY_FOR_QUERY => return self.answered(count, around),
            _ => (),
        }
        Step::Took(count)
    }

    /// The answer is whole, with `count` bytes of input.
    fn answered(&mut self, count: usize, around: &mut Around<'_>) -> Step {
        let State::Asking(row, report) = std::mem::replace(&mut self.state, State::Resting) else {
            return Step::Took(count);
        };
        let turnout = match (row, report) {
            (Some(seen), None) => return Step::Over(count, Outcome::Seen(seen)),
            // Not everybody may ask everything: insufficient privilege, or a function that is not there.
            (_, Some(report))
                if !self.short
                    && matches!(
                        report.code.as_str(),
                        sqlstate::INSUFFICIENT_PRIVILEGE
                            | sqlstate::UNDEFINED_FUNCTION
                            | sqlstate::FEATURE_NOT_SUPPORTED
                    ) =>
            {
                self.short = true;
                self.ask(around)
            }
            (_, Some(report)) => self.refused(refusal(&report), &told(&report), around),
            (None, None) => self.end(around, FailureKind::Nonsense, "the answer to a question about its role"),
        };
        match (turnout, &self.state) {
            (Turnout::Wait, State::Asking(..)) => Step::Took(count),
            (turnout, _) => Step::Left(turnout),
        }
    }

    /// A login has failed.
    fn not_let_in(&mut self, error: &Error, around: &mut Around<'_>) -> Turnout {
        if let Some(turnout) = self.log_in_otherwise(around) {
            return turnout;
        }
        let (kind, message) = match error {
            Error::Refused(report) => (refusal(report), told(report)),
            other if matches!(other.fault(), Fault::Server) => (FailureKind::Nonsense, credentials::explain(other)),
            other => (FailureKind::NotAllowed, credentials::explain(other)),
        };
        self.refused(kind, &message, around)
    }

    /// It does not let us in, or does not answer us: another user may do better.
    fn refused(&mut self, kind: FailureKind, message: &str, around: &mut Around<'_>) -> Turnout {
        if kind == FailureKind::NotAllowed && self.users_left > 1 {
            self.users_left -= 1;
            self.user = self.user.wrapping_add(1);
            return self.connect(around);
        }
        self.end(around, kind, message)
    }

    /// The connection is lost.
    fn lost(&mut self, error: Option<io::Error>, around: &mut Around<'_>) -> Turnout {
        if let Some(turnout) = self.log_in_otherwise(around) {
            return turnout;
        }
        self.drop_connection(around.network);
        match self.state {
            // Nobody asked: look at once what has become of the server.
            State::Resting => {
                self.times.due = Instant::now();
                Turnout::Wait
            }
            State::Resolving => Turnout::Wait,
            _ if !self.fresh => self.start_over(around),
            _ => {
                self.state = State::Resting;
                let message = error.map_or("the server closed the connection".to_owned(), |error| error.to_string());
                Turnout::failed(FailureKind::Closed, message)
            }
        }
    }

    /// When it has to be looked at: the round must be over, or the connection made.
    pub fn limit(&self) -> Instant {
        let connecting = matches!(self.state, State::Connecting(_) | State::Login(_));
        self.times.connect_by.filter(|_| connecting).map_or(self.times.deadline, |limit| limit.min(self.times.deadline))
    }

    /// A limit has passed.
    pub fn late(&mut self, around: &mut Around<'_>) -> Turnout {
        if Instant::now() < self.times.deadline {
            return self.not_connected(
                &io::Error::new(io::ErrorKind::TimedOut, "no login within server_connect_timeout"),
                around,
            );
        }
        self.end(around, FailureKind::TimedOut, "no answer in time")
    }

    /// Ends the round without an answer, and the connection with it.
    pub fn end(&mut self, around: &mut Around<'_>, kind: FailureKind, message: &str) -> Turnout {
        self.drop_connection(around.network);
        self.state = State::Resting;
        Turnout::failed(kind, message)
    }

    /// Gives up a connection that is made, with what was asked over it: the next round makes another.
    pub fn start_anew(&mut self, network: &dyn Network) {
        if matches!(self.state, State::Resting | State::Asking(..)) {
            self.drop_connection(network);
            self.state = State::Resting;
        }
    }

    /// Closes the connection.
    pub fn drop_connection(&mut self, network: &dyn Network) {
        if let Some(mut io) = self.io.take() {
            if !matches!(self.state, State::Connecting(_) | State::Login(_)) {
                frontend::write_terminate(io.out());
                let _ = io.flush();
            }
            io.unwatch(network);
        }
    }
}

/// What TLS with servers is to be like.
fn connector(config: &Config) -> Option<&dyn Connector> {
    config.tls.connector.as_deref()
}

/// What an error of the server says about it.
fn refusal(report: &Report) -> FailureKind {
    match report.code.as_str() {
        // It starts, stops, or has just lost a process.
        sqlstate::ADMIN_SHUTDOWN | sqlstate::CRASH_SHUTDOWN | sqlstate::CANNOT_CONNECT_NOW => FailureKind::NotReady,
        // A message that was not understood: no server of ours.
        code if code.starts_with("08") => FailureKind::Nonsense,
        // Whoever tells why we may not come in lives.
        _ => FailureKind::NotAllowed,
    }
}

fn told(report: &Report) -> String {
    format!("{} ({})", report.message, report.code)
}

fn failed_by(error: &io::Error) -> Turnout {
    let kind = match error.kind() {
        // A Unix socket that is not there is a port that nobody listens on.
        io::ErrorKind::ConnectionRefused | io::ErrorKind::NotFound => FailureKind::Refused,
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => FailureKind::Closed,
        // The queue of a Unix socket is full.
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => FailureKind::TimedOut,
        _ => FailureKind::Unreachable,
    };
    Turnout::failed(kind, error)
}
