//! Sockets, and the bytes in flight on them.

use std::io::{self, Read, Write};
use std::net::SocketAddr;

use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};

use crate::config::Settings;
use crate::monitor::Address;

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
    /// Begins to connect to a server; writable means done or failed ([`Stream::connected`]).
    pub fn connect(host: &str, port: u16, settings: &Settings) -> io::Result<Self> {
        match Address::literal(host, port) {
            Some(address) => Self::open(&address, settings),
            None => Self::open(&resolve(host, port)?, settings),
        }
    }

    /// Begins to connect to an address; writable means done or failed ([`Stream::connected`]).
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

/// The first address of a name. Names are looked up in the worker's own time: use addresses where that matters.
fn resolve(host: &str, port: u16) -> io::Result<Address> {
    Address::look_up(host, port)?
        .first()
        .map(|address| Address::Tcp(*address))
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address")))
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
    /// Bytes that were read and are not yet done with: a message that is not whole, or a client's that waits.
    pub rest: Vec<u8>,
    out: Vec<u8>,
    sent: usize,
    /// Bytes read in all.
    pub received: u64,
}

impl Io {
    /// A socket just connected or accepted.
    pub fn new(stream: Stream) -> Self {
        Self { stream, readable: true, hangup: false, rest: Vec::new(), out: Vec::new(), sent: 0, received: 0 }
    }

    /// Reads once.
    pub fn read(&mut self, buffer: &mut [u8]) -> Got {
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

    /// Where to append what shall be sent.
    pub fn out(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Bytes that have not been sent.
    pub fn pending(&self) -> usize {
        self.out.len() - self.sent
    }

    /// Sends what it can.
    pub fn flush(&mut self) -> io::Result<()> {
        while let Some(left) = self.out.get(self.sent..).filter(|left| !left.is_empty()) {
            match self.stream.write(left) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => (),
                Err(error) => return Err(error),
            }
        }
        self.sent = 0;
        if self.out.capacity() > KEPT {
            self.out = Vec::new()
        } else {
            self.out.clear()
        }
        Ok(())
    }
}
