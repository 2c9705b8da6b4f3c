//! TLS on one connection: bytes of the socket in, bytes for the socket out, no I/O. It owns memory only for an
//! incomplete record and for unsent bytes.

use std::fmt;
use std::sync::Arc;

use rustls::client::UnbufferedClientConnection;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, EncryptError, InsufficientSizeError, UnbufferedStatus};

use super::{ALPN, Acceptor, Certificate, Connector};
use pooling::io::Cipher;

/// What a record adds to the bytes in it, at most: header, nonce, type and tag.
const OVERHEAD: usize = 64;
/// The most that a record holds.
const RECORD: usize = 16_384;
/// The most that is held for a message of the handshake which has not come whole: anybody can send one. A ClientHello
/// has a few hundred bytes to a few thousand.
const MOST_OF_HELLO: usize = 16_384;
/// Likewise, where the message may be a chain of certificates.
const MOST_OF_CERTIFICATES: usize = 65_535;

enum Side {
    Client(UnbufferedClientConnection),
    Server(UnbufferedServerConnection, Arc<Acceptor>),
}

/// TLS on one connection.
pub struct Session {
    side: Side,
    /// Bytes from the socket that are not a whole record, or were not looked at.
    pub held: Vec<u8>,
    /// Whether `held` was not looked at.
    pub unseen: bool,
    direct: bool,
    sealed: Vec<u8>,
    sent: usize,
    open: bool,
    ended: bool,
    failed: bool,
    /// Whether we have said that we end. What comes then is dropped: rustls takes an end that was said for an alert,
    /// and asserts that there is no second one.
    said_end: bool,
}

/// What one call of rustls came to.
enum Step {
    /// There may be more.
    Again,
    /// The handshake needs more bytes.
    Blocked,
    /// The handshake is done and what was there is read.
    Open,
    /// The other side has said that it ends.
    Ended,
}

impl fmt::Debug for Session {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Session").field("open", &self.open).field("ended", &self.ended).finish_non_exhaustive()
    }
}

impl Session {
    /// The server's side, for a client; `before` goes out before the handshake, `held` has come already.
    pub fn accept(acceptor: &Arc<Acceptor>, before: &[u8], held: &[u8]) -> Result<Self, rustls::Error> {
        let side = UnbufferedServerConnection::new(acceptor.config.clone())?;
        let mut session = Self::new(Side::Server(side, acceptor.clone()));
        session.sealed.extend_from_slice(before);
        session.held = held.to_vec();
        session.unseen = !held.is_empty();
        session.direct = !held.is_empty();
        Ok(session)
    }

    /// The client's side, to a server at `host`; its first message is ready to be sent.
    pub fn connect(connector: &Connector, host: &str) -> Result<Self, rustls::Error> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| rustls::Error::General(format!("{host} cannot be the name of a TLS server")))?;
        let mut session = Self::new(Side::Client(UnbufferedClientConnection::new(connector.config.clone(), name)?));
        session.receive(&mut [], &mut [])?;
        Ok(session)
    }

    fn new(side: Side) -> Self {
        Self {
            side,
            held: Vec::new(),
            unseen: false,
            direct: false,
            sealed: Vec::new(),
            sent: 0,
            open: false,
            ended: false,
            failed: false,
            said_end: false,
        }
    }

    /// Whether the handshake is done.
    pub fn is_open(&self) -> bool {
        self.open
    }

    /// Whether nothing more will come: the other side has said so, or what it sent was not TLS.
    pub fn has_ended(&self) -> bool {
        self.ended || self.failed
    }

    /// Works on bytes from the socket, writes what they mean to `plain`, which must not be shorter, and says how many
    /// bytes that are. What is not a whole record is held.
    pub fn receive(&mut self, input: &mut [u8], plain: &mut [u8]) -> Result<usize, rustls::Error> {
        if self.failed || self.said_end {
            self.held = Vec::new();
            return Ok(0);
        }
        let (mut at, mut filled) = (0, 0);
        let outcome = loop {
            let left = input.get_mut(at..).unwrap_or_default();
            let room = plain.get_mut(filled..).unwrap_or_default();
            let (discard, outcome) = match &mut self.side {
                Side::Client(side) => drive(side.process_tls_records(left), room, &mut self.sealed),
                Side::Server(side, _) => drive(side.process_tls_records(left), room, &mut self.sealed),
            };
            at += discard;
            match outcome {
                Ok((Step::Again, count)) => filled += count,
                Ok((Step::Blocked, _)) => break Ok(filled),
                Ok((Step::Open, _)) => {
                    self.open = true;
                    break Ok(filled);
                }
                Ok((Step::Ended, _)) => {
                    self.ended = true;
                    break Ok(filled);
                }
                Err(error) => break Err(error),
            }
        };
        if outcome.is_err() {
            self.queue_alert(input.get_mut(at..).unwrap_or_default());
        }
        let left = input.get(at..).unwrap_or_default();
        let outcome =
            if outcome.is_ok() && !self.open && left.len() > self.most_held() { Err(half()) } else { outcome };
        self.failed = outcome.is_err();
        self.held = if self.failed || left.is_empty() { Vec::new() } else { left.to_vec() };
        outcome
    }

    /// The most that is held before the handshake is done.
    fn most_held(&self) -> usize {
        match &self.side {
            // The version is agreed on when the ClientHello has come.
            Side::Server(side, acceptor) if side.protocol_version().is_none() || !acceptor.asks_for_certificates => {
                MOST_OF_HELLO
            }
            _ => MOST_OF_CERTIFICATES,
        }
    }

    /// After an error: what the other side is to be told of it. `left` is all of the input that is not done with: rustls
    /// keeps places in it. What it has queued comes first, the alert last; asked once more it would go on with the
    /// input, and it panics when it finds a second error.
    fn queue_alert(&mut self, left: &mut [u8]) {
        let mut told = false;
        while !told {
            let start = self.sealed.len();
            let (_, outcome) = match &mut self.side {
                Side::Client(side) => drive(side.process_tls_records(left), &mut [], &mut self.sealed),
                Side::Server(side, _) => drive(side.process_tls_records(left), &mut [], &mut self.sealed),
            };
            told = !matches!(outcome, Ok((Step::Again, _))) || self.sealed.get(start..).is_none_or(is_alert);
        }
    }

    /// Encrypts bytes for the other side; only when the handshake is done.
    pub fn seal(&mut self, plain: &[u8]) -> Result<(), rustls::Error> {
        self.write(Some(plain))
    }

    /// Says that nothing more will come.
    pub fn say_end(&mut self) -> Result<(), rustls::Error> {
        if !self.open || self.failed || self.said_end {
            return Ok(());
        }
        self.said_end = true;
        self.write(None)
    }

    fn write(&mut self, plain: Option<&[u8]>) -> Result<(), rustls::Error> {
        if self.failed || self.said_end && plain.is_some() {
            return Err(rustls::Error::General("the TLS connection has ended".to_owned()));
        }
        loop {
            // What is held has been looked at, so it brings nothing new; rustls keeps count of where it is in it.
            let (_, outcome) = match &mut self.side {
                Side::Client(side) => put(side.process_tls_records(&mut self.held), plain, &mut self.sealed),
                Side::Server(side, _) => put(side.process_tls_records(&mut self.held), plain, &mut self.sealed),
            };
            if outcome? {
                return Ok(());
            }
        }
    }

    /// Bytes for the socket.
    pub fn to_send(&self) -> &[u8] {
        self.sealed.get(self.sent..).unwrap_or_default()
    }

    /// So many of them are sent.
    pub fn sent(&mut self, count: usize) {
        self.sent += count;
        if self.sent >= self.sealed.len() {
            self.sealed = Vec::new();
            self.sent = 0;
        }
    }

    /// The protocol by ALPN.
    pub fn alpn(&self) -> Option<&[u8]> {
        match &self.side {
            Side::Client(side) => side.alpn_protocol(),
            Side::Server(side, _) => side.alpn_protocol(),
        }
    }

    /// The certificate that the other side has shown and that was verified as configured.
    pub fn peer_certificate(&self) -> Option<&CertificateDer<'static>> {
        let chain = match &self.side {
            Side::Client(side) => side.peer_certificates(),
            Side::Server(side, _) => side.peer_certificates(),
        };
        chain.and_then(<[_]>::first)
    }

    /// What SCRAM binds to: the hash of the server's certificate.
    pub fn end_point(&self) -> Option<Vec<u8>> {
        match &self.side {
            Side::Client(_) => Certificate::read(self.peer_certificate()?)?.end_point(),
            Side::Server(_, acceptor) => acceptor.end_point.clone(),
        }
    }

    /// The version and the cipher, as the console shows them.
    pub fn describe(&self) -> String {
        let (version, suite) = match &self.side {
            Side::Client(side) => (side.protocol_version(), side.negotiated_cipher_suite()),
            Side::Server(side, _) => (side.protocol_version(), side.negotiated_cipher_suite()),
        };
        let (Some(version), Some(suite)) = (version, suite) else { return "handshake".to_owned() };
        let version = match version {
            rustls::ProtocolVersion::TLSv1_2 => "TLSv1.2".to_owned(),
            rustls::ProtocolVersion::TLSv1_3 => "TLSv1.3".to_owned(),
            other => format!("{other:?}"),
        };
        format!("{version}/{}", super::suite_name(suite))
    }
}

impl Cipher for Session {
    fn is_open(&self) -> bool {
        self.is_open()
    }

    fn has_ended(&self) -> bool {
        self.has_ended()
    }

    fn held(&self) -> &[u8] {
        &self.held
    }

    fn take_unseen(&mut self) -> bool {
        std::mem::take(&mut self.unseen)
    }

    fn receive(&mut self, input: &mut [u8], plain: &mut [u8]) -> Result<usize, String> {
        self.receive(input, plain).map_err(|error| error.to_string())
    }

    fn seal(&mut self, plain: &[u8]) -> Result<(), String> {
        self.seal(plain).map_err(|error| error.to_string())
    }

    fn say_end(&mut self) -> Result<(), String> {
        self.say_end().map_err(|error| error.to_string())
    }

    fn to_send(&self) -> &[u8] {
        self.to_send()
    }

    fn sent(&mut self, count: usize) {
        self.sent(count);
    }

    fn is_unnamed(&self) -> bool {
        self.direct && self.alpn() != Some(ALPN)
    }

    fn common_name(&self) -> Option<&str> {
        Certificate::read(self.peer_certificate()?)?.common_name()
    }

    fn end_point(&self) -> Option<Vec<u8>> {
        self.end_point()
    }

    fn describe(&self) -> String {
        self.describe()
    }
}

/// Does what a status asks for; how many bytes of the input are done with, and how many were written to `plain`.
fn drive<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    plain: &mut [u8],
    sealed: &mut Vec<u8>,
) -> (usize, Result<(Step, usize), rustls::Error>) {
    let UnbufferedStatus { mut discard, state } = status;
    let mut filled = 0;
    let outcome = match state {
        Err(error) => Err(error),
        Ok(ConnectionState::ReadTraffic(mut traffic)) => loop {
            match traffic.next_record() {
                None => break Ok(Step::Again),
                Some(Err(error)) => break Err(error),
                Some(Ok(record)) => {
                    discard += record.discard;
                    let end = filled + record.payload.len();
                    let Some(room) = plain.get_mut(filled..end) else { break Err(too_long()) };
                    room.copy_from_slice(record.payload);
                    filled = end;
                }
            }
        },
        Ok(ConnectionState::EncodeTlsData(mut data)) => encode(sealed, |room| match data.encode(room) {
            Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => Err(Some(required_size)),
            other => other.map_err(|_| None),
        })
        .map(|()| Step::Again),
        Ok(ConnectionState::TransmitTlsData(data)) => {
            data.done();
            Ok(Step::Again)
        }
        Ok(ConnectionState::BlockedHandshake) => Ok(Step::Blocked),
        Ok(ConnectionState::WriteTraffic(_)) => Ok(Step::Open),
        Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => Ok(Step::Ended),
        Ok(_) => Err(rustls::Error::General("the client sent early data, which was not offered".to_owned())),
    };
    (discard, outcome.map(|step| (step, filled)))
}

/// Writes data, or the end, when the status lets it; false when it has to be asked again.
fn put<Data>(
    status: UnbufferedStatus<'_, '_, Data>,
    plain: Option<&[u8]>,
    sealed: &mut Vec<u8>,
) -> (usize, Result<bool, rustls::Error>) {
    if let Ok(ConnectionState::WriteTraffic(mut traffic)) = status.state {
        let outcome = encode_as(sealed, plain.map_or(0, <[u8]>::len), |room| {
            let written = match plain {
                Some(plain) => traffic.encrypt(plain, room),
                None => traffic.queue_close_notify(room),
            };
            written.map_err(|error| match error {
                EncryptError::InsufficientSize(InsufficientSizeError { required_size }) => Some(required_size),
                EncryptError::EncryptExhausted => None,
            })
        });
        return (status.discard, outcome.map(|()| true));
    }
    let (discard, outcome) = drive(status, &mut [], sealed);
    (
        discard,
        outcome.and_then(|(step, _)| match step {
            Step::Again => Ok(false),
            _ => Err(rustls::Error::HandshakeNotComplete),
        }),
    )
}

/// Whether a record is an alert. Encrypted in TLS 1.3 it looks like data, but nothing else that is sent before a failure
/// is as short: two bytes, the type, the tag.
fn is_alert(record: &[u8]) -> bool {
    match record.first() {
        Some(0x17) => record.len() <= 5 + 2 + 1 + 16,
        Some(&kind) => kind == 0x15,
        None => true,
    }
}

fn encode(
    sealed: &mut Vec<u8>,
    write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>,
) -> Result<(), rustls::Error> {
    encode_as(sealed, 0, write)
}

/// Appends what `write` writes for `length` bytes of data; it says how much room it wants when it has too little.
fn encode_as(
    sealed: &mut Vec<u8>,
    length: usize,
    mut write: impl FnMut(&mut [u8]) -> Result<usize, Option<usize>>,
) -> Result<(), rustls::Error> {
    let start = sealed.len();
    let mut room = length + (length / RECORD + 1) * OVERHEAD;
    for _ in 0..3 {
        sealed.resize(start + room, 0);
        match write(sealed.get_mut(start..).unwrap_or_default()) {
            Ok(count) => {
                sealed.truncate(start + count);
                return Ok(());
            }
            Err(Some(wanted)) => room = wanted,
            Err(None) => break,
        }
    }
    sealed.truncate(start);
    Err(rustls::Error::EncryptError)
}

fn half() -> rustls::Error {
    rustls::Error::General("a message of the handshake is too long".to_owned())
}

fn too_long() -> rustls::Error {
    rustls::Error::General("the decrypted text is longer than the encrypted text".to_owned())
}
