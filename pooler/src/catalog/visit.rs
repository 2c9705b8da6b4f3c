//! A connection of the pooler's own to a server, opened with the parameters of a pool's connection: its login, question
//! and answer.

use std::io;
use std::sync::Arc;

use wire::login::{Event, Login};
use wire::{frame, frontend};

use pooling::catalog::Destination;
use pooling::config::Config;
use pooling::credentials;
use pooling::io::{Got, Io, Network};
use pooling::link::Link;

/// No row of a catalog is longer: a view's or a function's text.
const MAX_MESSAGE: usize = 16 * 1024 * 1024;

/// What goes on with whoever visits.
pub trait Guest {
    /// The server has let us in; what is said to it goes to `out`.
    fn enter(&mut self, out: &mut Vec<u8>);

    /// The server has said this.
    ///
    /// # Errors
    /// Why there is nothing more to be said.
    fn hear(&mut self, tag: u8, body: &[u8], out: &mut Vec<u8>) -> Result<(), String>;
}

#[derive(Debug)]
enum State {
    Connecting(Box<Login>),
    Login(Box<Login>),
    Open,
}

/// A connection to a server.
#[derive(Debug)]
pub struct Visit {
    way: Destination,
    /// The configuration that it was made by.
    config: Arc<Config>,
    token: usize,
    io: Io,
    /// `None` only while it is being changed.
    state: Option<State>,
}

impl Visit {
    /// Begins to connect.
    ///
    /// # Errors
    /// Why not.
    pub fn begin(
        way: Destination,
        database: &str,
        application: &str,
        config: Arc<Config>,
        token: usize,
        network: &dyn Network,
    ) -> Result<Self, String> {
        let io = connect(&way, &config, token, network)?;
        let parameters =
            [("user", way.account.user.as_str()), ("database", database), ("application_name", application)];
        let terms = credentials::terms(&config.settings, &*io.socket);
        let login = Login::session(terms, way.account.clone(), parameters);
        Ok(Self { way, config, token, io, state: Some(State::Connecting(Box::new(login))) })
    }

    /// Whether one that is made now, so, would be like it.
    pub fn is_like(&self, way: &Destination, config: &Arc<Config>) -> bool {
        self.way.leads_to(way) && Arc::ptr_eq(&self.config, config)
    }

    /// Whether the server has let us in.
    pub fn is_open(&self) -> bool {
        matches!(self.state, Some(State::Open))
    }

    /// There is an event on its socket; `closed` when the other side has closed.
    pub fn heard(&mut self, closed: bool) {
        self.io.hangup |= closed;
        self.io.readable = true;
    }

    /// Says what the guest has to say first, on a connection that is open.
    ///
    /// # Errors
    /// Why the visit is over.
    pub fn ask(&mut self, guest: &mut impl Guest) -> Result<(), String> {
        guest.enter(self.io.out());
        self.flush()
    }

    fn flush(&mut self) -> Result<(), String> {
        self.io.flush().map_err(|error| self.lost(Some(error)))
    }

    fn lost(&self, error: Option<io::Error>) -> String {
        let place = format!("{}:{}", self.way.host, self.way.port);
        match error {
            Some(error) => format!("the connection to {place} is lost: {error}"),
            None => format!("{place} has closed the connection"),
        }
    }

    /// Its socket has something to say.
    ///
    /// # Errors
    /// Why the visit is over.
    pub fn ready(&mut self, guest: &mut impl Guest, network: &dyn Network, scratch: &mut [u8]) -> Result<(), String> {
        loop {
            if matches!(self.state, Some(State::Connecting(_))) && !self.connected()? {
                return Ok(());
            }
            let outcome = self.converse(guest, scratch);
            let Err(why) = outcome else { return Ok(()) };
            // A login that failed may be worth a second connection, secured otherwise.
            let Some(State::Login(mut login)) = self.state.take() else { return Err(why) };
            if !login.second_attempt(self.io.tls().is_some()) {
                return Err(why);
            }
            self.io.unwatch(network);
            self.io = connect(&self.way, &self.config, self.token, network)?;
            self.state = Some(State::Connecting(login));
        }
    }

    /// Whether it is connected; if so, the login begins.
    fn connected(&mut self) -> Result<bool, String> {
        let place = || format!("cannot connect to {}:{}", self.way.host, self.way.port);
        if !self.io.socket.connected().map_err(|error| format!("{}: {error}", place()))? {
            return Ok(false);
        }
        self.state = match self.state.take() {
            Some(State::Connecting(mut login)) => {
                let begun = login.begin(&mut link(&mut self.io, &self.way, &self.config));
                begun.map_err(|error| credentials::explain(&error))?;
                Some(State::Login(login))
            }
            other => other,
        };
        self.flush()?;
        Ok(true)
    }

    fn converse(&mut self, guest: &mut impl Guest, scratch: &mut [u8]) -> Result<(), String> {
        loop {
            self.flush()?;
            match self.io.read(scratch) {
                Got::Bytes(count) => {
                    self.io.rest.extend_from_slice(scratch.get(..count).unwrap_or_default());
                    self.work(guest)?;
                }
                // A handshake may have brought something to send.
                Got::Nothing => return self.flush(),
                Got::Closed(error) => return Err(self.lost(error)),
            }
        }
    }

    /// Works on what has come.
    fn work(&mut self, guest: &mut impl Guest) -> Result<(), String> {
        let rest = std::mem::take(&mut self.io.rest);
        let mut at = 0;
        while let Some(left) = rest.get(at..).filter(|left| !left.is_empty()) {
            let took = match &mut self.state {
                Some(State::Login(login)) => {
                    match login.receive(left, &mut link(&mut self.io, &self.way, &self.config)) {
                        Ok(Some((count, Event::Ready))) => {
                            self.state = Some(State::Open);
                            guest.enter(self.io.out());
                            Some(count)
                        }
                        Ok(heard) => heard.map(|(count, _)| count),
                        Err(error) => return Err(credentials::explain(&error)),
                    }
                }
                _ => match message(left)? {
                    Some(message) => {
                        guest.hear(message.tag, message.body, self.io.out())?;
                        Some(left.len() - message.rest.len())
                    }
                    None => None,
                },
            };
            match took {
                Some(count) => at += count,
                None => break,
            }
        }
        self.io.rest = rest.get(at..).unwrap_or_default().to_vec();
        Ok(())
    }

    /// Leaves in good order.
    pub fn leave(mut self, network: &dyn Network) {
        if self.is_open() {
            frontend::write_terminate(self.io.out());
            let _ = self.io.flush();
        }
        self.io.unwatch(network);
    }
}

fn connect(way: &Destination, config: &Config, token: usize, network: &dyn Network) -> Result<Io, String> {
    let failed = |error| format!("cannot connect to {}:{}: {error}", way.host, way.port);
    let mut io = Io::new(network.connect(&way.address, &config.settings).map_err(failed)?);
    io.watch(network, token, true).map_err(failed)?;
    Ok(io)
}

fn link<'a>(io: &'a mut Io, way: &'a Destination, config: &'a Config) -> Link<'a> {
    Link { io, connector: config.tls.connector.as_deref(), host: &way.host }
}

/// The message at the front, if it is whole.
fn message(bytes: &[u8]) -> Result<Option<frame::Message<'_>>, String> {
    match wire::header(bytes) {
        Ok(Some(head)) if head.body > MAX_MESSAGE => Err("the server sent a message that is too long".to_owned()),
        Ok(_) => frame::message(bytes).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}
