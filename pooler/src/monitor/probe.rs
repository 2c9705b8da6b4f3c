//! One server and the connection by which it is asked.
//!
//! A round begins with [`Probe::begin`] and ends with an [`Outcome`]: an answer, or why there is none. Within a round a
//! connection that turns out to be dead is made anew once, addresses of a name are tried in turn, and so are accounts
//! that the server does not let in. The deadline is for all of that together.

use std::io;
use std::time::Instant;

use balancer::{FailureKind, Moment, Observation, ServerId};
use mio::event::Source;
use mio::{Interest, Registry, Token};
use wire::backend::{self, tag};
use wire::frame;
use wire::{frontend, startup};

use super::login::{Login, Refusal};
use super::users::Account;
use super::{Address, query};
use crate::config::{Database, Settings};
use crate::net::{Got, Io, Stream};

/// Neither an answer nor a login has longer messages.
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
    pub registry: &'a Registry,
    pub settings: &'a Settings,
    /// The accounts to try.
    pub accounts: &'a [Account],
    /// The time, on the clusters' clock.
    pub now: Moment,
}

#[derive(Debug)]
enum State {
    /// Nothing is asked.
    Resting,
    /// The addresses of its name are being looked up.
    Resolving,
    Connecting,
    Login(Box<Login>),
    /// The question is on its way: the answer as far as it has come.
    Asking(Option<Observation>, Option<backend::Report>),
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
    /// When the next round begins.
    pub due: Instant,
    /// When this round must be over.
    pub deadline: Instant,
    token: Token,
    state: State,
    io: Option<Io>,
    /// Whether the connection was made in this round.
    fresh: bool,
    addresses: Vec<Address>,
    place: usize,
    /// Addresses of this round that are left to try.
    left: usize,
    account: usize,
    accounts_left: usize,
    short: bool,
    asked: Moment,
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
            due: now,
            deadline: now,
            token: Token(key),
            state: State::Resting,
            io: None,
            fresh: false,
            addresses: Address::literal(host, port).into_iter().collect(),
            place: 0,
            left: 0,
            account: 0,
            accounts_left: 0,
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
        self.io.as_ref().and_then(|_| self.addresses.get(self.place))
    }

    /// Begins a round.
    pub fn begin(&mut self, around: &Around<'_>) -> Turnout {
        self.fresh = false;
        self.accounts_left = around.accounts.len();
        if self.io.is_some() {
            return self.ask(around);
        }
        self.start_over(around)
    }

    /// Makes a connection anew, from the name on.
    fn start_over(&mut self, around: &Around<'_>) -> Turnout {
        self.fresh = true;
        self.left = self.addresses.len();
        if self.has_name() {
            self.state = State::Resolving;
            return Turnout::LookUp;
        }
        self.connect(around)
    }

    /// The addresses of its name have come.
    pub fn resolved(&mut self, found: io::Result<Vec<std::net::SocketAddr>>, around: &Around<'_>) -> Turnout {
        let waited = matches!(self.state, State::Resolving);
        match found {
            Ok(found) => {
                let found: Vec<Address> = found.into_iter().map(Address::Tcp).collect();
                let present = self.addresses.get(self.place).cloned();
                // A connection to where the name does not lead any more is of no use.
                let place = present.and_then(|present| found.iter().position(|address| *address == present));
                if place.is_none() && !waited {
                    self.drop_connection(around.registry);
                }
                self.place = place.unwrap_or(0);
                self.left = found.len();
                self.addresses = found;
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

    fn connect(&mut self, around: &Around<'_>) -> Turnout {
        self.drop_connection(around.registry);
        loop {
            let Some(address) = self.addresses.get(self.place) else {
                return Turnout::failed(FailureKind::Unreachable, "no address");
            };
            let begun = Stream::open(address, around.settings).and_then(|mut stream| {
                stream.register(around.registry, self.token, Interest::READABLE | Interest::WRITABLE)?;
                Ok(stream)
            });
            match begun {
                Ok(stream) => {
                    self.io = Some(Io::new(stream));
                    self.state = State::Connecting;
                    return self.connected(around);
                }
                Err(error) => {
                    if !self.next_address() {
                        return failed_by(&error);
                    }
                }
            }
        }
    }

    fn next_address(&mut self) -> bool {
        self.left = self.left.saturating_sub(1);
        self.place = (self.place + 1) % self.addresses.len().max(1);
        self.left > 0
    }

    fn connected(&mut self, around: &Around<'_>) -> Turnout {
        let Some(io) = &mut self.io else { return Turnout::Wait };
        match io.stream.connected() {
            Ok(false) => Turnout::Wait,
            Ok(true) => {
                let Some(account) = around.accounts.get(self.account % around.accounts.len().max(1)) else {
                    self.drop_connection(around.registry);
                    self.state = State::Resting;
                    let message = "nobody is known to ask in the name of: set monitor_user";
                    return Turnout::failed(FailureKind::NotAllowed, message);
                };
                let wildcard = if self.cluster == "*" { "postgres" } else { &self.cluster };
                let database = self.entry.dbname.as_deref().unwrap_or(wildcard);
                let parameters =
                    [("user", account.user.as_str()), ("database", database), ("application_name", "howdah monitor")];
                startup::write_startup(io.out(), parameters);
                self.state = State::Login(Box::new(Login::new(account.clone())));
                self.flush(around)
            }
            Err(error) => {
                self.drop_connection(around.registry);
                if self.next_address() { self.connect(around) } else { failed_by(&error) }
            }
        }
    }

    fn ask(&mut self, around: &Around<'_>) -> Turnout {
        let Some(io) = &mut self.io else { return Turnout::Wait };
        frontend::write_query(io.out(), if self.short { query::SHORT } else { query::FULL });
        self.state = State::Asking(None, None);
        self.asked = around.now;
        self.flush(around)
    }

    fn flush(&mut self, around: &Around<'_>) -> Turnout {
        match self.io.as_mut().map(Io::flush) {
            Some(Err(error)) => self.lost(Some(error), around),
            _ => Turnout::Wait,
        }
    }

    /// Its socket has something to say.
    pub fn ready(&mut self, around: &Around<'_>) -> Turnout {
        if matches!(self.state, State::Connecting) {
            let turnout = self.connected(around);
            if !matches!(turnout, Turnout::Wait) || matches!(self.state, State::Connecting) {
                return turnout;
            }
        }
        let mut buffer = [0; 4096];
        loop {
            match self.flush(around) {
                Turnout::Wait => (),
                other => return other,
            }
            let Some(io) = &mut self.io else { return Turnout::Wait };
            match io.read(&mut buffer) {
                Got::Bytes(count) => {
                    io.rest.extend_from_slice(buffer.get(..count).unwrap_or_default());
                    match self.messages(around) {
                        Turnout::Wait => (),
                        over => return over,
                    }
                }
                Got::Nothing => return Turnout::Wait,
                Got::Closed(error) => return self.lost(error, around),
            }
        }
    }

    fn messages(&mut self, around: &Around<'_>) -> Turnout {
        let rest = match &mut self.io {
            Some(io) => std::mem::take(&mut io.rest),
            None => return Turnout::Wait,
        };
        let mut left = rest.as_slice();
        loop {
            let message = match wire::header(left) {
                Ok(Some(head)) if head.body > MAX_MESSAGE => Err("a message that is too long".to_owned()),
                Ok(_) => frame::message(left).map_err(|error| error.to_string()),
                Err(error) => Err(error.to_string()),
            };
            let message = match message {
                Ok(Some(message)) => message,
                Ok(None) => break,
                Err(error) => return self.end(around, FailureKind::Nonsense, &error),
            };
            left = message.rest;
            match self.message(message.tag, message.body, around) {
                Turnout::Wait => (),
                over => return over,
            }
        }
        if let Some(io) = &mut self.io {
            io.rest = left.to_vec();
        }
        Turnout::Wait
    }

    fn message(&mut self, tag: u8, body: &[u8], around: &Around<'_>) -> Turnout {
        let Some(io) = &mut self.io else { return Turnout::Wait };
        match &mut self.state {
            State::Login(login) => match login.message(tag, body, io.out()) {
                Ok(true) => self.ask(around),
                Ok(false) => self.flush(around),
                Err(refusal) => self.refused(&refusal, around),
            },
            State::Asking(row, report) => {
                match tag {
                    tag::DATA_ROW => {
                        let latency = around.now.since(self.asked);
                        *row = backend::data_row(body).ok().and_then(|row| query::read(&row, around.now, latency));
                    }
                    tag::ERROR_RESPONSE => *report = backend::report(body).ok(),
                    tag::READY_FOR_QUERY => return self.answered(around),
                    _ => (),
                }
                Turnout::Wait
            }
            _ => Turnout::Wait,
        }
    }

    /// The answer is whole.
    fn answered(&mut self, around: &Around<'_>) -> Turnout {
        let State::Asking(row, report) = std::mem::replace(&mut self.state, State::Resting) else {
            return Turnout::Wait;
        };
        match (row, report) {
            (Some(seen), None) => Turnout::Over(Outcome::Seen(seen)),
            // Not everybody may ask everything: insufficient privilege, or a function that is not there.
            (_, Some(report)) if !self.short && matches!(report.code.as_str(), "42501" | "42883" | "0A000") => {
                self.short = true;
                self.ask(around)
            }
            (_, Some(report)) => self.refused(&Refusal::of(&report), around),
            (None, None) => self.end(around, FailureKind::Nonsense, "the answer to a question about its role"),
        }
    }

    /// It does not let us in, or does not answer us: another account may do better.
    fn refused(&mut self, refusal: &Refusal, around: &Around<'_>) -> Turnout {
        if refusal.kind == FailureKind::NotAllowed && self.accounts_left > 1 {
            self.accounts_left -= 1;
            self.account = self.account.wrapping_add(1);
            return self.connect(around);
        }
        self.end(around, refusal.kind, &refusal.message)
    }

    /// The connection is lost.
    fn lost(&mut self, error: Option<io::Error>, around: &Around<'_>) -> Turnout {
        self.drop_connection(around.registry);
        match self.state {
            // Nobody asked: look at once what has become of the server.
            State::Resting => {
                self.due = Instant::now();
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

    /// Ends the round without an answer, and the connection with it.
    pub fn end(&mut self, around: &Around<'_>, kind: FailureKind, message: &str) -> Turnout {
        self.drop_connection(around.registry);
        self.state = State::Resting;
        Turnout::failed(kind, message)
    }

    /// Closes the connection.
    pub fn drop_connection(&mut self, registry: &Registry) {
        if let Some(mut io) = self.io.take() {
            if !matches!(self.state, State::Connecting | State::Login(_)) {
                frontend::write_terminate(io.out());
                let _ = io.flush();
            }
            // It fails only for a socket that is not watched.
            let _ = io.stream.deregister(registry);
        }
    }
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
