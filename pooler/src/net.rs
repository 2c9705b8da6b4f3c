//! Sockets, and the bytes in flight on them.

use std::cell::RefCell;
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};

use crate::config::Settings;
use crate::monitor::address::Address;
use crate::tls::Session;

/// A connected socket.
#[derive(Debug)]
pub enum Stream {
    /// TCP.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
}

/// Where a socket leads.
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

impl Stream {
    /// A socket that another process has handed over.
    pub fn taken_over(socket: OwnedFd, is_tcp: bool) -> io::Result<Self> {
        if is_tcp {
            let stream = std::net::TcpStream::from(socket);
            stream.set_nonblocking(true)?;
            Ok(Self::Tcp(TcpStream::from_std(stream)))
        } else {
            let stream = std::os::unix::net::UnixStream::from(socket);
            stream.set_nonblocking(true)?;
            Ok(Self::Unix(UnixStream::from_std(stream)))
        }
    }

    /// Begins to connect to an address; writable means done or failed ([`Stream::connected`]). Names are looked up
    /// before, on other threads ([`crate::resolve`]): that blocks.
    pub fn open(address: &Address, settings: &Settings) -> io::Result<Self> {
        match address {
            Address::Unix(path) => Ok(Self::Unix(UnixStream::connect(path)?)),
            Address::Tcp(address) => {
                let stream = Self::Tcp(TcpStream::connect(*address)?);
                stream.tune(settings);
                Ok(stream)
            }
        }
    }

    /// Sets what every TCP socket gets. A refusal by the system is not worth a connection.
    pub fn tune(&self, settings: &Settings) {
        if let Self::Tcp(stream) = self {
            let _ = stream.set_nodelay(true);
            if settings.tcp_user_timeout > 0 {
                let limit = std::time::Duration::from_millis(settings.tcp_user_timeout as u64);
                let _ = socket2::SockRef::from(stream).set_tcp_user_timeout(Some(limit));
            }
            if settings.tcp_keepalive {
                let seconds = |count: usize| std::time::Duration::from_secs(count as u64);
                let mut keepalive = socket2::TcpKeepalive::new();
                if settings.tcp_keepidle > 0 {
                    keepalive = keepalive.with_time(seconds(settings.tcp_keepidle));
                }
                if settings.tcp_keepintvl > 0 {
                    keepalive = keepalive.with_interval(seconds(settings.tcp_keepintvl));
                }
                if let Some(count) = u32::try_from(settings.tcp_keepcnt).ok().filter(|&count| count > 0) {
                    keepalive = keepalive.with_retries(count);
                }
                let _ = socket2::SockRef::from(stream).set_tcp_keepalive(&keepalive);
            }
        }
    }

    /// The outcome of a connection that was begun.
    pub fn connected(&self) -> io::Result<bool> {
        let error = match self {
            Self::Tcp(stream) => stream.take_error()?,
            Self::Unix(stream) => stream.take_error()?,
        };
        if let Some(error) = error {
            return Err(error);
        }
        let peer = match self {
            Self::Tcp(stream) => stream.peer_addr().map(|_| ()),
            Self::Unix(stream) => stream.peer_addr().map(|_| ()),
        };
        match peer {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Says that nothing more will be sent.
    fn half_close(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }

    /// The number of its file descriptor.
    pub fn descriptor(&self) -> i32 {
        match self {
            Self::Tcp(stream) => stream.as_raw_fd(),
            Self::Unix(stream) => stream.as_raw_fd(),
        }
    }

    /// The address of the other side.
    pub fn peer(&self) -> Peer {
        match self {
            Self::Tcp(stream) => stream.peer_addr().map(Peer::Tcp).unwrap_or(Peer::Unix),
            Self::Unix(_) => Peer::Unix,
        }
    }

    /// The address of this side.
    pub fn local(&self) -> Peer {
        match self {
            Self::Tcp(stream) => stream.local_addr().map(Peer::Tcp).unwrap_or(Peer::Unix),
            Self::Unix(_) => Peer::Unix,
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Source for Stream {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.register(registry, token, interests),
            Self::Unix(stream) => stream.register(registry, token, interests),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.reregister(registry, token, interests),
            Self::Unix(stream) => stream.reregister(registry, token, interests),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.deregister(registry),
            Self::Unix(stream) => stream.deregister(registry),
        }
    }
}

/// What a read brought.
#[derive(Debug)]
pub enum Got {
    /// So many bytes.
    Bytes(usize),
    /// Nothing for now.
    Nothing,
    /// The other side has closed, in good order or not.
    Closed(Option<io::Error>),
}

/// Kept between two uses of an output buffer; a larger one is given back to the allocator, so that an idle connection
/// costs next to nothing.
const KEPT: usize = 256;
/// Encrypted at once: what a read brings is in one write again, and a slow reader costs no more than this twice.
const SEALED: usize = 65_536;

thread_local! {
    /// Where a worker puts what it reads before it is decrypted.
    static CIPHERED: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// A socket with the bytes that are in flight on it. Sockets are edge-triggered: `readable` stays set until a read has
/// found nothing.
#[derive(Debug)]
pub struct Io {
    /// The socket.
    pub stream: Stream,
    /// Whether a read may bring something.
    pub readable: bool,
    /// Whether the other side has closed: then a read brings the rest and the end, without another event.
    pub hangup: bool,
    /// Whether an event tells of room to write.
    told_of_room: bool,
    /// Bytes that were read and are not yet done with: a message that is not whole, or a client's that waits.
    pub rest: Vec<u8>,
    out: Vec<u8>,
    sent: usize,
    /// Bytes read in all.
    pub received: u64,
    /// TLS, once it was begun. Without it the data path does not notice.
    tls: Option<Box<Session>>,
}

impl Io {
    /// A socket just connected or accepted.
    pub fn new(stream: Stream) -> Self {
        Self {
            stream,
            readable: true,
            hangup: false,
            told_of_room: false,
            rest: Vec::new(),
            out: Vec::new(),
            sent: 0,
            received: 0,
            tls: None,
        }
    }

    /// Has events tell when there is something to read, and while it is being connected, when it is.
    pub fn watch(&mut self, registry: &Registry, token: Token, connecting: bool) -> io::Result<()> {
        self.told_of_room = connecting;
        self.stream.register(registry, token, interests(connecting))
    }

    /// Has an event tell when there is room to write, if something waits for it; and no event if nothing does, since a
    /// Unix socket tells of room each time that the other side has read, which would wake a worker for nothing.
    pub fn watch_room(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        let waits = self.pending() > 0;
        if waits == self.told_of_room {
            return Ok(());
        }
        self.told_of_room = waits;
        self.stream.reregister(registry, token, interests(waits))
    }

    /// From here on everything is TLS, what waits to be sent too.
    pub fn begin_tls(&mut self, session: Session) {
        self.tls = Some(Box::new(session));
        // What has come already brings no event.
        self.readable = true;
    }

    /// The TLS session; its handshake may still be under way.
    pub fn tls(&self) -> Option<&Session> {
        self.tls.as_deref()
    }

    /// Whether a TLS handshake is under way, so that nothing can be said yet.
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
            match self.stream.read(buffer) {
                Ok(0) => return Got::Closed(None),
                Ok(count) => {
                    self.received += count as u64;
                    // After a short read there is nothing more, and what comes next is an event.
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
                let held = self.tls.as_ref().map_or(0, |tls| tls.held.len());
                let (Some(front), true) = (ciphered.get_mut(..held), held < buffer.len()) else {
                    return Got::Closed(Some(tls_error("a message of the handshake is too long")));
                };
                let Some(mut tls) = self.tls.take_if(|tls| !tls.has_ended()) else { return Got::Closed(None) };
                let unseen = std::mem::take(&mut tls.unseen);
                front.copy_from_slice(&tls.held);
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
                        // The end is told by the next read.
                        self.readable |= ended;
                        return Got::Bytes(count);
                    }
                    Ok(_) if ended => return Got::Closed(None),
                    Ok(_) if !self.readable => return Got::Nothing,
                    Ok(_) => (),
                    Err(error) => {
                        // The alert says what was wrong; nobody is owed more.
                        self.out = Vec::new();
                        self.sent = 0;
                        let _ = self.flush();
                        return Got::Closed(Some(tls_error(error)));
                    }
                }
            }
        })
    }

    /// Where to append what shall be sent.
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
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
        self.stream.half_close()
    }

    /// Sends what it can.
    pub fn flush(&mut self) -> io::Result<()> {
        if self.tls.is_some() {
            return self.flush_tls();
        }
        while let Some(left) = self.out.get(self.sent..).filter(|left| !left.is_empty()) {
            match self.stream.write(left) {
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
        if self.out.capacity() > KEPT { self.out = Vec::new() } else { self.out.clear() }
    }

    fn flush_tls(&mut self) -> io::Result<()> {
        let Some(tls) = &mut self.tls else { return Ok(()) };
        loop {
            while !tls.to_send().is_empty() {
                match self.stream.write(tls.to_send()) {
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

fn interests(room: bool) -> Interest {
    if room { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE }
}

fn tls_error(error: impl std::fmt::Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("TLS: {error}"))
}
