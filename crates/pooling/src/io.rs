//! The traits by which the core uses sockets, and the buffers of a connection. Nothing here depends on an operating
//! system: the program implements the traits by its sockets, simulations by those of [`crate::memory`].

use std::cell::RefCell;
use std::fmt::Debug;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};
use std::sync::Arc;

use crate::config::Settings;
use crate::monitor::address::Address;

/// The other side of a socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Peer {
    /// TCP.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix,
}

impl Peer {
    /// The address as the console shows it.
    pub fn host(&self) -> String {
        match self {
            Self::Tcp(address) => address.ip().to_string(),
            Self::Unix => "unix".to_owned(),
        }
    }

    /// The port; 0 for a Unix socket.
    pub fn port(&self) -> u16 {
        match self {
            Self::Tcp(address) => address.port(),
            Self::Unix => 0,
        }
    }
}

/// The most sockets that go with one message; the system allows 253.
pub const MOST_HANDED: usize = 64;

/// A connected socket that never blocks: a read or write that would block is [`io::ErrorKind::WouldBlock`]. A dropped
/// socket is closed.
pub trait Socket: Debug + Send {
    /// Reads the bytes that have come; 0 when the other side has closed.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize>;
    /// Sends as many bytes as there is room for.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// Sends as many bytes as there is room for, with sockets beside them; an error if this socket cannot carry any.
    fn write_with(&mut self, bytes: &[u8], handed: &[BorrowedFd<'_>]) -> io::Result<usize>;
    /// Says that nothing more will be sent.
    fn half_close(&self) -> io::Result<()>;
    /// The outcome of a connection that was begun: whether it is made.
    fn connected(&self) -> io::Result<bool>;
    /// Sets the options that every TCP socket gets.
    fn tune(&self, settings: &Settings);
    /// Whether the socket is one of this machine, not of a network.
    fn is_local(&self) -> bool;
    /// The address of the other side.
    fn peer(&self) -> Peer;
    /// The address of this side.
    fn local(&self) -> Peer;
    /// Whether the process at the other side runs as the account of this one; false over a network.
    fn is_own_account(&self) -> bool;
    /// The name of the account that the process at the other side runs as; none over a network.
    fn account(&self) -> Option<String>;
    /// The socket's number, by which a [`Watcher`] knows it.
    fn descriptor(&self) -> RawFd;
    /// The socket, to be handed to another process; none if the system has none.
    fn shared(&self) -> Option<BorrowedFd<'_>>;
}

/// The purpose of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Clients by TCP.
    Tcp,
    /// Clients by a Unix socket.
    Unix,
    /// Requests for metrics.
    Metrics,
}

impl Kind {
    /// All kinds with their words.
    pub const ALL: [(&'static str, Self); 3] = [("tcp", Self::Tcp), ("unix", Self::Unix), ("metrics", Self::Metrics)];

    /// The word for this kind.
    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }
}

/// A socket on which clients arrive.
pub trait Listening: Debug + Send {
    /// The next client.
    fn accept(&self) -> io::Result<Box<dyn Socket>>;
    /// Whether clients of this machine arrive here, not of a network.
    fn is_local(&self) -> bool;
    /// The socket's number, by which a [`Watcher`] knows it.
    fn descriptor(&self) -> RawFd;
    /// Its purpose, its address, and the socket itself, for a handover to another process.
    fn shared(&self) -> Option<(Kind, String, BorrowedFd<'_>)>;
    /// Closes the socket in this process; another process has it.
    fn give_away(self: Box<Self>);
}

/// The source of events: sockets that can be read, and sockets with room to write.
pub trait Watcher {
    /// Has events with this token tell when there is something to read, and with `room`, when there is room to write.
    fn watch(&self, socket: RawFd, token: usize, room: bool) -> io::Result<()>;
    /// Changes the events of a socket that is watched already.
    fn change(&self, socket: RawFd, token: usize, room: bool) -> io::Result<()>;
    /// Stops watching a socket.
    fn unwatch(&self, socket: RawFd);
}

/// The network for a worker.
pub trait Network: Watcher {
    /// Begins to connect to an address; room to write means that the connection is made or has failed
    /// ([`Socket::connected`]).
    fn connect(&self, address: &Address, settings: &Settings) -> io::Result<Box<dyn Socket>>;
}

/// Wakes a thread.
pub trait Wake: Debug + Send + Sync {
    /// Wakes the thread.
    fn wake(&self);
}

/// TLS on a connection: bytes of the socket in, bytes for the socket out.
pub trait Cipher: Debug + Send {
    /// Whether the handshake is done.
    fn is_open(&self) -> bool;
    /// Whether nothing more will come: the other side has said so, or has sent something that was not TLS.
    fn has_ended(&self) -> bool;
    /// Bytes from the socket that are not a whole record, or were not looked at.
    fn held(&self) -> &[u8];
    /// Whether the held bytes were not looked at; from now on they count as looked at.
    fn take_unseen(&mut self) -> bool;
    /// Decrypts bytes from the socket into `plain`, which must not be shorter, and gives the number of bytes there. An
    /// incomplete record is held.
    fn receive(&mut self, input: &mut [u8], plain: &mut [u8]) -> Result<usize, String>;
    /// Encrypts bytes for the other side; only when the handshake is done.
    fn seal(&mut self, plain: &[u8]) -> Result<(), String>;
    /// Tells the other side that nothing more will come.
    fn say_end(&mut self) -> Result<(), String>;
    /// Bytes for the socket.
    fn to_send(&self) -> &[u8];
    /// Takes this number of bytes for the socket as sent.
    fn sent(&mut self, count: usize);
    /// Whether the other side began without asking, and did not name PostgreSQL's protocol (ALPN).
    fn is_unnamed(&self) -> bool;
    /// The common name of the certificate that the other side has shown and that was verified as configured.
    fn common_name(&self) -> Option<&str>;
    /// The hash of the server's certificate, to which SCRAM binds.
    fn end_point(&self) -> Option<Vec<u8>>;
    /// The version and the cipher, as the console shows them.
    fn describe(&self) -> String;
}

/// The first byte of a TLS record with a handshake: a client begins TLS without asking.
pub const TLS_HANDSHAKE: u8 = 0x16;

/// TLS with clients, as it is configured.
pub trait Acceptor: Debug + Send + Sync {
    /// Begins with a client: `before` goes out before the handshake, `held` has come already.
    fn accept(self: Arc<Self>, before: &[u8], held: &[u8]) -> Result<Box<dyn Cipher>, String>;
}

/// TLS with servers, as it is configured.
pub trait Connector: Debug + Send + Sync {
    /// Begins with a server at `host`; the first message is ready to be sent.
    fn connect(&self, host: &str) -> Result<Box<dyn Cipher>, String>;
}

/// The TLS settings of a configuration.
#[derive(Debug, Clone, Default)]
pub struct Contexts {
    /// With clients; `None` when it is disabled.
    pub acceptor: Option<Arc<dyn Acceptor>>,
    /// With servers; `None` when it is disabled.
    pub connector: Option<Arc<dyn Connector>>,
}

/// Two are the same when they came from the same reading.
impl PartialEq for Contexts {
    fn eq(&self, other: &Self) -> bool {
        fn place<T: ?Sized>(context: &Option<Arc<T>>) -> Option<*const ()> {
            context.as_ref().map(|context| Arc::as_ptr(context).cast())
        }
        place(&self.acceptor) == place(&other.acceptor) && place(&self.connector) == place(&other.connector)
    }
}

/// An event on a socket.
#[derive(Debug, Clone, Copy)]
pub struct Event {
    /// The token that it is watched by.
    pub token: usize,
    /// Whether there is something to read.
    pub readable: bool,
    /// Whether the other side has closed, or the socket has failed.
    pub closed: bool,
}

/// The result of a read.
#[derive(Debug)]
pub enum Got {
    /// This number of bytes.
    Bytes(usize),
    /// No bytes for now.
    Nothing,
    /// The other side has closed, in good order or not.
    Closed(Option<io::Error>),
}

/// The size to which a client's output buffer is kept between two uses; a larger one is given back to the allocator, so
/// that an idle client costs next to nothing.
const KEPT: usize = 256;
/// The same for a server connection: there are few of those, and a pipelined one sends the units of many clients at once.
const KEPT_BY_SERVERS: usize = 16_384;
/// The number of bytes encrypted at once: those of one read are in one write again, and a slow reader costs no more
/// than this twice.
const SEALED: usize = 65_536;

thread_local! {
    /// The buffer of a worker for bytes that are read before they are decrypted.
    static CIPHERED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A socket with the bytes that are in flight on it. Sockets are edge-triggered: `readable` stays set until a read has
/// found nothing.
#[derive(Debug)]
pub struct Io {
    /// The socket.
    pub socket: Box<dyn Socket>,
    /// Whether a read may bring something.
    pub readable: bool,
    /// Whether the other side has closed: then a read brings the rest and the end, without another event.
    pub hangup: bool,
    /// Whether an event tells of room to write.
    told_of_room: bool,
    /// Bytes that were read and are not yet worked on: a message that is not whole, or those of a client that waits.
    pub rest: Vec<u8>,
    out: Vec<u8>,
    /// The size to which `out` is kept between two uses.
    kept: usize,
    sent: usize,
    /// Bytes read in all.
    pub received: u64,
    /// The TLS session, once it was begun. Without TLS the data path does not notice.
    tls: Option<Box<dyn Cipher>>,
}

impl Io {
    /// A socket just connected or accepted.
    pub fn new(socket: Box<dyn Socket>) -> Self {
        Self {
            socket,
            readable: true,
            hangup: false,
            told_of_room: false,
            rest: Vec::new(),
            out: Vec::new(),
            kept: KEPT,
            sent: 0,
            received: 0,
            tls: None,
        }
    }

    /// The socket of a server connection.
    pub fn of_server(socket: Box<dyn Socket>) -> Self {
        let mut io = Self::new(socket);
        io.kept = KEPT_BY_SERVERS;
        io
    }

    /// Watches the socket for something to read, and while it is being connected, for the outcome.
    pub fn watch(&mut self, watcher: &(impl Watcher + ?Sized), token: usize, connecting: bool) -> io::Result<()> {
        self.told_of_room = connecting;
        watcher.watch(self.socket.descriptor(), token, connecting)
    }

    /// Watches the socket for room to write only while output waits for it: a Unix socket has an event each time that
    /// the other side has read, which would wake a worker for nothing.
    pub fn watch_room(&mut self, watcher: &(impl Watcher + ?Sized), token: usize) -> io::Result<()> {
        let waits = self.pending() > 0;
        if waits == self.told_of_room {
            return Ok(());
        }
        self.told_of_room = waits;
        watcher.change(self.socket.descriptor(), token, waits)
    }

    /// Stops watching the socket.
    pub fn unwatch(&self, watcher: &(impl Watcher + ?Sized)) {
        watcher.unwatch(self.socket.descriptor());
    }

    /// Makes everything TLS from here on, also the output that waits to be sent.
    pub fn begin_tls(&mut self, session: Box<dyn Cipher>) {
        self.tls = Some(session);
        // Bytes that have come already bring no event.
        self.readable = true;
    }

    /// The TLS session; its handshake may still be under way.
    pub fn tls(&self) -> Option<&dyn Cipher> {
        self.tls.as_deref()
    }

    /// Whether a TLS handshake is under way, so that nothing can be sent yet.
    pub fn is_handshaking(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| !tls.is_open())
    }

    /// Reads once; over TLS, until there is something or nothing more comes.
    pub fn read(&mut self, buffer: &mut [u8]) -> Got {
        if self.tls.is_some() {
            return self.read_tls(buffer);
        }
        self.read_socket(buffer)
    }

    fn read_socket(&mut self, buffer: &mut [u8]) -> Got {
        loop {
            match self.socket.read(buffer) {
                Ok(0) => return Got::Closed(None),
                Ok(count) => {
                    self.received += count as u64;
                    // After a short read nothing is left, and further bytes bring an event.
                    self.readable = count == buffer.len() || self.hangup;
                    return Got::Bytes(count);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.readable = false;
                    return Got::Nothing;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Got::Closed(Some(error)),
            }
        }
    }

    fn read_tls(&mut self, buffer: &mut [u8]) -> Got {
        CIPHERED.with_borrow_mut(|ciphered| {
            if ciphered.len() < buffer.len() {
                ciphered.resize(buffer.len(), 0);
            }
            loop {
                let held = self.tls.as_ref().map_or(0, |tls| tls.held().len());
                let (Some(front), true) = (ciphered.get_mut(..held), held < buffer.len()) else {
                    return Got::Closed(Some(tls_error("a message of the handshake is too long")));
                };
                let Some(mut tls) = self.tls.take_if(|tls| !tls.has_ended()) else { return Got::Closed(None) };
                let unseen = tls.take_unseen();
                front.copy_from_slice(tls.held());
                let room = ciphered.get_mut(held..buffer.len()).unwrap_or_default();
                let fresh = match if unseen { Got::Bytes(0) } else { self.read_socket(room) } {
                    Got::Bytes(count) => count,
                    nothing_or_end => {
                        self.tls = Some(tls);
                        return nothing_or_end;
                    }
                };
                let outcome = tls.receive(ciphered.get_mut(..held + fresh).unwrap_or_default(), buffer);
                let ended = tls.has_ended();
                self.tls = Some(tls);
                match outcome {
                    Ok(count) if count > 0 => {
                        // The next read reports the end.
                        self.readable |= ended;
                        return Got::Bytes(count);
                    }
                    Ok(_) if ended => return Got::Closed(None),
                    Ok(_) if !self.readable => return Got::Nothing,
                    Ok(_) => (),
                    Err(error) => {
                        // The alert says what was wrong; no more output is owed.
                        self.out = Vec::new();
                        self.sent = 0;
                        let _ = self.flush();
                        return Got::Closed(Some(tls_error(error)));
                    }
                }
            }
        })
    }

    /// The buffer to which output is appended.
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Takes this back if it is the end of the output, and none of it has been sent.
    pub fn retract(&mut self, end: &[u8]) {
        let unsent = self.out.get(self.sent..).unwrap_or_default();
        if unsent.ends_with(end) {
            self.out.truncate(self.out.len() - end.len());
        }
    }

    /// Bytes that have not been sent.
    pub fn pending(&self) -> usize {
        let sealed = self.tls.as_ref().map_or(0, |tls| tls.to_send().len());
        self.out.len().saturating_sub(self.sent) + sealed
    }

    /// Says that nothing more will be sent.
    pub fn half_close(&mut self) -> io::Result<()> {
        if let Some(tls) = &mut self.tls {
            tls.say_end().map_err(tls_error)?;
            self.flush()?;
        }
        self.socket.half_close()
    }

    /// Sends as much of the output as there is room for.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.tls.is_some() {
            return self.flush_tls();
        }
        while let Some(left) = self.out.get(self.sent..).filter(|left| !left.is_empty()) {
            match self.socket.write(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
        self.all_sent();
        Ok(())
    }

    fn all_sent(&mut self) {
        self.sent = 0;
        if self.out.capacity() > self.kept { self.out = Vec::new() } else { self.out.clear() }
    }

    fn flush_tls(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        loop {
            while !tls.to_send().is_empty() {
                match self.socket.write(tls.to_send()) {
                    Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                    Ok(count) => tls.sent(count),
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                    Err(error) => return Err(error),
                }
            }
            let left = self.out.get(self.sent..).unwrap_or_default();
            if !tls.is_open() || left.is_empty() {
                break;
            }
            let part = left.get(..SEALED).unwrap_or(left);
            tls.seal(part).map_err(tls_error)?;
            self.sent += part.len();
        }
        if self.sent >= self.out.len() {
            self.all_sent();
        }
        Ok(())
    }
}

/// However a connection comes to its end, TLS is ended before it: the other side would take the end for an attack, as
/// libpq does when it waits for the end of a cancel request. Output that is not sent yet would be lost unnoticed.
impl Drop for Io {
    fn drop(&mut self) {
        if self.pending() == 0
            && let Some(tls) = &mut self.tls
            && tls.say_end().is_ok()
        {
            // Whoever has closed already does not hear it.
            let _ = self.flush();
        }
    }
}

fn tls_error(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {error}"))
}
