//! A client's login to a server, from the first byte to the first ReadyForQuery, without I/O.
//!
//! The caller tells a [`Login`] when its connection is open ([`Login::begin`]), and gives it the bytes of the server
//! ([`Login::receive`]). The login sends its messages to the [`Link`], which also begins TLS for it. It keeps to its
//! [`Terms`]: no startup packet, password or cancel request leaves over a connection that must be encrypted and is not.
//! If a login fails before the server has asked for anything, a second connection, with TLS or without, may succeed
//! ([`Login::second_attempt`]).
//!
//! [`Exchange`] is the part between the startup packet and AuthenticationOk, in which the two sides prove who they are.

mod error;
mod exchange;
#[cfg(test)]
mod tests;

use crate::backend::{self, Status, tag};
use crate::frame::{self, HEADER};
use crate::sqlstate;
use crate::startup::{self, CancelKey};

pub use error::{Error, Fault};
pub use exchange::{Account, Exchange, Password};

/// No message of a login is longer.
pub const MAX_MESSAGE: usize = 65_536;
/// Nor are all of them together: a server that goes on is no server.
pub const MAX_LOGIN: usize = 1024 * 1024;
/// SQLSTATE invalid_authorization_specification: pg_hba.conf has no line for such a connection.
const NO_HBA_LINE: &str = sqlstate::INVALID_AUTHORIZATION_SPECIFICATION;

/// libpq's sslmodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SslMode {
    /// No TLS.
    Disable,
    /// TLS where the other side wants it.
    Allow,
    /// TLS where the other side can.
    Prefer,
    /// TLS, whatever the certificate.
    Require,
    /// TLS with a certificate of a trusted authority.
    VerifyCa,
    /// The same, and for the host that is meant.
    VerifyFull,
}

impl SslMode {
    /// All of them, the strictest last.
    pub const ALL: [Self; 6] =
        [Self::Disable, Self::Allow, Self::Prefer, Self::Require, Self::VerifyCa, Self::VerifyFull];

    /// Its name in libpq and in settings.
    pub fn name(self) -> &'static str {
        match self {
            Self::Disable => "disable",
            Self::Allow => "allow",
            Self::Prefer => "prefer",
            Self::Require => "require",
            Self::VerifyCa => "verify-ca",
            Self::VerifyFull => "verify-full",
        }
    }

    /// Whether a connection without TLS is refused.
    pub fn requires(self) -> bool {
        matches!(self, Self::Require) || self.verifies()
    }

    /// Whether the certificate of the other side is verified.
    pub fn verifies(self) -> bool {
        matches!(self, Self::VerifyCa | Self::VerifyFull)
    }
}

/// Whether SCRAM is bound to the TLS connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ChannelBinding {
    /// Never.
    Disable,
    /// When the server offers it.
    #[default]
    Prefer,
    /// Always: another login is refused.
    Require,
}

/// On what terms a server is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// Whether over TLS. What of the certificate is verified is up to the [`Link`].
    pub sslmode: SslMode,
    /// Whether SCRAM is bound to it.
    pub binding: ChannelBinding,
}

impl Terms {
    /// Nothing is said about ourselves where it must be encrypted and is not. That cannot come about by what a server
    /// says; the login holds to it whatever its state.
    fn protect(self, link: &impl Link) -> Result<(), Error> {
        if self.sslmode.requires() && !link.is_encrypted() { Err(Error::Unencrypted) } else { Ok(()) }
    }
}

/// The connection that a login is spoken over.
pub trait Link {
    /// Where to append what is to be sent.
    fn out(&mut self) -> &mut Vec<u8>;

    /// Begins TLS: what is appended from now on leaves encrypted, or not at all.
    ///
    /// # Errors
    /// Why there can be no TLS.
    fn begin_tls(&mut self) -> Result<(), String>;

    /// Whether TLS was begun.
    fn is_encrypted(&self) -> bool;

    /// The hash of the server's certificate, to which SCRAM binds (`tls-server-end-point`), if there is one.
    fn end_point(&self) -> Option<Vec<u8>>;
}

/// An event.
#[derive(Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// Nothing that the caller has to know of; there may be something to send.
    Nothing,
    /// The server tells a parameter.
    Parameter {
        /// Its name.
        name: &'a str,
        /// Its value.
        value: &'a str,
    },
    /// The server tells by what the session's statements are cancelled.
    Key(CancelKey),
    /// The session has begun.
    Ready,
    /// The cancel request that the connection was made for is to be sent; there is no answer to it.
    Requested,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The server is asked whether it speaks TLS; the answer is one byte.
    Asked,
    /// The first packet is sent.
    Introduced,
    /// There is nothing more to do.
    Over,
}

/// A login to a server.
#[derive(Debug)]
pub struct Login {
    terms: Terms,
    /// The startup packet or the cancel request.
    packet: Vec<u8>,
    /// `None` for a cancel request.
    exchange: Option<Exchange>,
    state: State,
    /// Whether this is the second attempt of `allow` or `prefer`.
    second: bool,
    /// Bytes of messages so far.
    received: usize,
    /// The SQLSTATE with which the server has refused us.
    refused: Option<String>,
}

impl Login {
    /// A login that begins a session with these parameters, `user` and `database` among them.
    pub fn session<'a>(
        terms: Terms,
        account: Account,
        parameters: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Self {
        let mut packet = Vec::new();
        startup::write_startup(&mut packet, parameters);
        Self::new(terms, packet, Some(Exchange::new(account, terms.binding)))
    }

    /// What asks that a statement be cancelled; a login only in so far as it begins as one.
    pub fn cancel(sslmode: SslMode, key: &CancelKey) -> Self {
        let mut packet = Vec::new();
        startup::write_cancel(&mut packet, key);
        Self::new(Terms { sslmode, binding: ChannelBinding::Disable }, packet, None)
    }

    fn new(terms: Terms, packet: Vec<u8>, exchange: Option<Exchange>) -> Self {
        Self { terms, packet, exchange, state: State::Introduced, second: false, received: 0, refused: None }
    }

    /// The connection stands: says the first words.
    ///
    /// # Errors
    /// [`Error::Unencrypted`], which would be a fault of ours.
    pub fn begin(&mut self, link: &mut impl Link) -> Result<Event<'static>, Error> {
        if !self.wants_tls() {
            return self.introduce(link);
        }
        startup::write_ssl_request(link.out());
        self.state = State::Asked;
        Ok(Event::Nothing)
    }

    /// Works on what has come and is not yet done with: how many bytes it has taken, and what they mean; `None` when it
    /// takes more bytes to know. After an error nothing more may be said on this connection.
    ///
    /// # Errors
    /// Why the login has failed.
    pub fn receive<'a>(&mut self, bytes: &'a [u8], link: &mut impl Link) -> Result<Option<(usize, Event<'a>)>, Error> {
        if bytes.is_empty() {
            return Ok(None);
        }
        match self.state {
            State::Asked => self.answered(bytes, link).map(|event| Some((bytes.len(), event))),
            State::Introduced => self.message(bytes, link),
            State::Over => Ok(None),
        }
    }

    /// The login has failed, by an error or because the connection was lost: whether it is worth another connection,
    /// for which this is to begin anew. `allow` tries with TLS when the server does not let us in without, `prefer`
    /// without when the handshake fails or the server does not let us in with it. Never once the server has asked for a
    /// password: what was meant for an encrypted connection would go over another. `encrypted` says whether TLS was begun.
    pub fn second_attempt(&mut self, encrypted: bool) -> bool {
        let asked = self.exchange.as_ref().is_none_or(Exchange::has_begun);
        if self.second || asked || self.state == State::Over {
            return false;
        }
        let no_hba_line = self.refused.as_deref().map(|code| code == NO_HBA_LINE);
        let worth = match self.terms.sslmode {
            SslMode::Allow => no_hba_line == Some(true),
            SslMode::Prefer => encrypted && no_hba_line != Some(false),
            _ => false,
        };
        if worth {
            (self.second, self.received, self.refused) = (true, 0, None);
        }
        worth
    }

    /// Whether the connection of this attempt is to be encrypted if the server can.
    pub fn wants_tls(&self) -> bool {
        match self.terms.sslmode {
            SslMode::Disable => false,
            SslMode::Allow => self.second,
            SslMode::Prefer => !self.second,
            SslMode::Require | SslMode::VerifyCa | SslMode::VerifyFull => true,
        }
    }

    /// Says what the connection is for.
    fn introduce(&mut self, link: &mut impl Link) -> Result<Event<'static>, Error> {
        self.terms.protect(link)?;
        link.out().extend_from_slice(&self.packet);
        if self.exchange.is_none() {
            self.state = State::Over;
            return Ok(Event::Requested);
        }
        self.state = State::Introduced;
        Ok(Event::Nothing)
    }

    /// The server has answered whether it speaks TLS.
    fn answered(&mut self, answer: &[u8], link: &mut impl Link) -> Result<Event<'static>, Error> {
        match answer {
            b"S" => link.begin_tls().map_err(Error::Tls)?,
            b"N" if self.terms.sslmode.requires() => return Err(Error::NoTls),
            b"N" => (),
            // It would be taken for the first bytes of TLS, or of the server, though anybody may have put it there.
            [b'S' | b'N', ..] => return Err(Error::Injected),
            _ => return Err(Error::Stranger),
        }
        self.introduce(link)
    }

    fn message<'a>(&mut self, bytes: &'a [u8], link: &mut impl Link) -> Result<Option<(usize, Event<'a>)>, Error> {
        let head = match frame::header(bytes) {
            Ok(Some(head)) => head,
            Ok(None) => return Ok(None),
            Err(_) => return Err(Error::Stranger),
        };
        if head.body > MAX_MESSAGE || self.received + head.total() > MAX_LOGIN {
            return Err(if self.received == 0 { Error::Stranger } else { Error::TooLong });
        }
        let Some(body) = bytes.get(HEADER..head.total()) else { return Ok(None) };
        self.received += head.total();
        Ok(Some((head.total(), self.read(head.tag, body, link)?)))
    }

    fn read<'a>(&mut self, tag: u8, body: &'a [u8], link: &mut impl Link) -> Result<Event<'a>, Error> {
        let Some(exchange) = &mut self.exchange else { return Err(Error::Order(tag)) };
        let accepted = exchange.is_accepted();
        match tag {
            tag::AUTHENTICATION => {
                let asked = backend::authentication(body)?;
                self.terms.protect(link)?;
                let end_point = exchange.wants_end_point(&asked).then(|| link.end_point()).flatten();
                exchange.answer(&asked, end_point.as_deref(), link.out())?;
                Ok(Event::Nothing)
            }
            tag::ERROR_RESPONSE => {
                let report = backend::report(body)?;
                self.refused = Some(report.code.clone());
                Err(Error::Refused(Box::new(report)))
            }
            tag::NOTICE_RESPONSE | tag::NEGOTIATE_PROTOCOL_VERSION => Ok(Event::Nothing),
            tag::PARAMETER_STATUS if accepted => {
                let (name, value) = backend::parameter_status(body)?;
                Ok(Event::Parameter { name, value })
            }
            tag::BACKEND_KEY_DATA if accepted => {
                let (pid, secret) = backend::backend_key_data(body)?;
                Ok(Event::Key(CancelKey { pid, secret: secret.to_vec() }))
            }
            tag::READY_FOR_QUERY if accepted && backend::ready_for_query(body)? == Status::Idle => {
                self.state = State::Over;
                Ok(Event::Ready)
            }
            other => Err(Error::Order(other)),
        }
    }
}
