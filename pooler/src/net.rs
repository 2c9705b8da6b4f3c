//! Sockets of the operating system, watched by epoll, as implementations of the traits in [`pooling::io`].

use std::borrow::Borrow;
use std::io::{self, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use mio::net::{TcpStream, UnixStream};
use mio::unix::SourceFd;
use mio::{Interest, Registry, Token};
use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::account;
use pooling::config::Settings;
use pooling::io::{Event, MOST_HANDED, Network, Peer, Socket, Wake, Watcher};
use pooling::monitor::address::Address;

/// A connected socket.
#[derive(Debug)]
pub enum Stream {
    /// TCP.
    Tcp(TcpStream),
    /// A Unix socket.
    Unix(UnixStream),
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

    /// Begins to connect to an address; writable means done or failed ([`Socket::connected`]). Names are looked up
    /// before, on other threads ([`pooling::resolve`]): that blocks.
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
}

impl Socket for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn write_with(&mut self, bytes: &[u8], handed: &[BorrowedFd<'_>]) -> io::Result<usize> {
        let Self::Unix(stream) = self else {
            return Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "sockets can be handed over only over a Unix socket",
            ));
        };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_HANDED))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !handed.is_empty() && !control.push(SendAncillaryMessage::ScmRights(handed)) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "there are too many sockets to be handed over"));
        }
        Ok(sendmsg(stream, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?)
    }

    fn half_close(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Self::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }

    fn connected(&self) -> io::Result<bool> {
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

    // A refusal by the system is not worth a connection.
    fn tune(&self, settings: &Settings) {
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

    fn is_local(&self) -> bool {
        matches!(self, Self::Unix(_))
    }

    fn peer(&self) -> Peer {
        match self {
            Self::Tcp(stream) => stream.peer_addr().map(Peer::Tcp).unwrap_or(Peer::Unix),
            Self::Unix(_) => Peer::Unix,
        }
    }

    fn local(&self) -> Peer {
        match self {
            Self::Tcp(stream) => stream.local_addr().map(Peer::Tcp).unwrap_or(Peer::Unix),
            Self::Unix(_) => Peer::Unix,
        }
    }

    fn is_own_account(&self) -> bool {
        match self {
            Self::Tcp(_) => false,
            Self::Unix(stream) => account::peer(stream).is_ok_and(|peer| peer == account::own()),
        }
    }

    fn account(&self) -> Option<String> {
        match self {
            Self::Tcp(_) => None,
            Self::Unix(stream) => account::name(account::peer(stream).ok()?),
        }
    }

    fn descriptor(&self) -> RawFd {
        match self {
            Self::Tcp(stream) => stream.as_raw_fd(),
            Self::Unix(stream) => stream.as_raw_fd(),
        }
    }

    fn shared(&self) -> Option<BorrowedFd<'_>> {
        Some(match self {
            Self::Tcp(stream) => stream.as_fd(),
            Self::Unix(stream) => stream.as_fd(),
        })
    }
}

fn interests(room: bool) -> Interest {
    if room { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE }
}

/// What has happened on a socket.
pub fn event(event: &mio::event::Event) -> Event {
    Event { token: event.token().0, readable: event.is_readable(), closed: event.is_read_closed() || event.is_error() }
}

/// The network as the system has it, watched by epoll: a registry, or one that is borrowed.
#[derive(Debug)]
pub struct Epoll<R>(pub R);

impl<R: Borrow<Registry>> Watcher for Epoll<R> {
    fn watch(&self, socket: RawFd, token: usize, room: bool) -> io::Result<()> {
        self.0.borrow().register(&mut SourceFd(&socket), Token(token), interests(room))
    }

    fn change(&self, socket: RawFd, token: usize, room: bool) -> io::Result<()> {
        self.0.borrow().reregister(&mut SourceFd(&socket), Token(token), interests(room))
    }

    fn unwatch(&self, socket: RawFd) {
        // It fails only for a socket that is not watched.
        let _ = self.0.borrow().deregister(&mut SourceFd(&socket));
    }
}

impl<R: Borrow<Registry>> Network for Epoll<R> {
    fn connect(&self, address: &Address, settings: &Settings) -> io::Result<Box<dyn Socket>> {
        Ok(Box::new(Stream::open(address, settings)?))
    }
}

/// Wakes a poll.
#[derive(Debug)]
pub struct Waker(pub mio::Waker);

impl Wake for Waker {
    fn wake(&self) {
        // It fails only when the kernel has no memory left for an event, and then the next one wakes.
        let _ = self.0.wake();
    }
}
