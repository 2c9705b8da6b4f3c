//! The sockets on which clients arrive.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mio::event::Source;
use mio::net::{TcpListener, UnixListener};
use mio::{Interest, Registry, Token};
use socket2::{Domain, Protocol, Socket, Type};

use crate::config::Settings;
use crate::net::Stream;

/// A socket on which clients arrive.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// A Unix socket, which is removed in the end.
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// All sockets that the settings ask for.
    pub fn all(settings: &Settings) -> io::Result<Vec<Self>> {
        let mut listeners = Vec::new();
        for host in &settings.listen_addr.0 {
            let host = if host == "*" { "0.0.0.0" } else { host };
            let address = (host, settings.listen_port)
                .to_socket_addrs()?
                .next()
                .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address")))?;
            let listener = tcp(address, settings)
                .map_err(|error| io::Error::new(error.kind(), format!("cannot listen on {address}: {error}")))?;
            listeners.push(listener);
        }
        if !settings.unix_socket_dir.is_empty() {
            let path = Path::new(&settings.unix_socket_dir).join(format!(".s.PGSQL.{}", settings.listen_port));
            let listener = unix(path.clone()).map_err(|error| {
                io::Error::new(error.kind(), format!("cannot listen on {}: {error}", path.display()))
            })?;
            listeners.push(listener);
        }
        Ok(listeners)
    }

    /// The next client.
    pub fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream)),
            Self::Unix(listener, _) => listener.accept().map(|(stream, _)| Stream::Unix(stream)),
        }
    }
}

fn tcp(address: SocketAddr, settings: &Settings) -> io::Result<Listener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(settings.listen_backlog).unwrap_or(i32::MAX))?;
    Ok(Listener::Tcp(TcpListener::from_std(socket.into())))
}

fn unix(path: PathBuf) -> io::Result<Listener> {
    if path.exists() {
        if std::os::unix::net::UnixStream::connect(&path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there"));
        }
        std::fs::remove_file(&path)?;
    }
    let listener = UnixListener::bind(&path)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o777))?;
    Ok(Listener::Unix(listener, path))
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self {
            // Somebody else may have removed it.
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Source for Listener {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => listener.register(registry, token, interests),
            Self::Unix(listener, _) => listener.register(registry, token, interests),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => listener.reregister(registry, token, interests),
            Self::Unix(listener, _) => listener.reregister(registry, token, interests),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Self::Tcp(listener) => listener.deregister(registry),
            Self::Unix(listener, _) => listener.deregister(registry),
        }
    }
}
