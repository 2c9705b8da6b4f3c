//! The sockets on which clients arrive.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use mio::net::{TcpListener, UnixListener};
use socket2::{Domain, Protocol, Socket, Type};

use crate::account;
use crate::inherited::Inherited;
use crate::net::Stream;
use pooling::config::Settings;
use pooling::io::Kind;
use pooling::io::{Listening, Socket as Connected};

/// A socket on which clients arrive.
#[derive(Debug)]
pub enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// A Unix socket, which is removed in the end.
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// All sockets that the settings ask for; those that another process has handed over are used again.
    pub fn all(settings: &Settings, inherited: &mut Inherited) -> io::Result<Vec<Box<dyn Listening>>> {
        let mut listeners: Vec<Box<dyn Listening>> = Vec::new();
        let (mut opened, mut lacking) = (Vec::new(), None);
        for host in &settings.listen_addr.0 {
            let all = host == "*";
            let addresses: Vec<SocketAddr> = if all {
                let any: [IpAddr; 2] = [Ipv4Addr::UNSPECIFIED.into(), Ipv6Addr::UNSPECIFIED.into()];
                any.map(|address| (address, settings.listen_port).into()).to_vec()
            } else {
                let found = (host.as_str(), settings.listen_port).to_socket_addrs();
                found.map_err(|error| about(error, &format!("listen_addr = {host}: cannot look it up")))?.collect()
            };
            // Not every system has both kinds of addresses, nor at all times the address that it shares with another.
            for address in addresses {
                if opened.contains(&address) {
                    continue;
                }
                match tcp(address, settings, inherited).map_err(|error| (is_lacking(&error), error)) {
                    Ok(listener) => {
                        opened.push(address);
                        listeners.push(Box::new(listener));
                    }
                    Err((is_lacking, error)) => {
                        let error = about(error, &format!("listen_addr, listen_port: cannot listen on {address}"));
                        if !is_lacking {
                            return Err(error);
                        }
                        match all {
                            true => pooling::info!("{error}"),
                            false => pooling::warning!("{error}"),
                        }
                        lacking = Some(error);
                    }
                }
            }
        }
        if let Some(error) = lacking.filter(|_| opened.is_empty()) {
            return Err(error);
        }
        if let Some(path) = socket_path(settings) {
            let listener = unix(path.clone(), settings, inherited)
                .map_err(|error| about(error, &format!("unix_socket_dir: cannot listen on {}", path.display())))?;
            listeners.push(Box::new(listener));
        }
        Ok(listeners)
    }

    /// A Unix socket for the account of this process alone.
    pub fn own(path: PathBuf) -> io::Result<Self> {
        // A process of the same number may have left its own there.
        let _ = std::fs::remove_file(&path);
        let listener = UnixListener::bind(&path)?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self::Unix(listener, path))
    }
}

impl Listening for Listener {
    fn shared(&self) -> Option<(Kind, String, BorrowedFd<'_>)> {
        match self {
            Self::Tcp(listener) => Some((Kind::Tcp, listener.local_addr().ok()?.to_string(), listener.as_fd())),
            Self::Unix(listener, path) => Some((Kind::Unix, path.display().to_string(), listener.as_fd())),
        }
    }

    fn give_away(mut self: Box<Self>) {
        if let Self::Unix(_, path) = &mut *self {
            // It is the other's to remove.
            *path = PathBuf::new();
        }
    }

    fn is_local(&self) -> bool {
        matches!(self, Self::Unix(..))
    }

    fn descriptor(&self) -> RawFd {
        match self {
            Self::Tcp(listener) => listener.as_raw_fd(),
            Self::Unix(listener, _) => listener.as_raw_fd(),
        }
    }

    fn accept(&self) -> io::Result<Box<dyn Connected>> {
        Ok(Box::new(match self {
            Self::Tcp(listener) => listener.accept().map(|(stream, _)| Stream::Tcp(stream))?,
            Self::Unix(listener, _) => listener.accept().map(|(stream, _)| Stream::Unix(stream))?,
        }))
    }
}

/// The path of the Unix socket; none where there is to be none.
pub fn socket_path(settings: &Settings) -> Option<PathBuf> {
    let folder = Some(&settings.unix_socket_dir).filter(|folder| !folder.is_empty())?;
    Some(Path::new(folder).join(format!(".s.PGSQL.{}", settings.listen_port)))
}

/// The same error, with what it is about.
fn about(error: io::Error, what: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{what}: {error}"))
}

/// Whether the system does not know this kind of addresses, or has none of them.
fn is_lacking(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAFNOSUPPORT | libc::EADDRNOTAVAIL))
}

fn tcp(address: SocketAddr, settings: &Settings, inherited: &mut Inherited) -> io::Result<Listener> {
    if let Some(socket) = inherited.take(Kind::Tcp, &address.to_string()) {
        let listener = std::net::TcpListener::from(socket);
        listener.set_nonblocking(true)?;
        return Ok(Listener::Tcp(TcpListener::from_std(listener)));
    }
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // IPv4 has a socket of its own.
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(i32::try_from(settings.listen_backlog).unwrap_or(i32::MAX))?;
    Ok(Listener::Tcp(TcpListener::from_std(socket.into())))
}

fn unix(path: PathBuf, settings: &Settings, inherited: &mut Inherited) -> io::Result<Listener> {
    if let Some(socket) = inherited.take(Kind::Unix, &path.display().to_string()) {
        let listener = std::os::unix::net::UnixListener::from(socket);
        listener.set_nonblocking(true)?;
        return Ok(Listener::Unix(UnixListener::from_std(listener), path));
    }
    if path.exists() {
        if std::os::unix::net::UnixStream::connect(&path).is_ok() {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there"));
        }
        std::fs::remove_file(&path)?;
    }
    let listener = UnixListener::bind(&path)?;
    if !settings.unix_socket_group.is_empty() {
        let group = account::group(&settings.unix_socket_group).map_err(io::Error::other)?;
        std::os::unix::fs::chown(&path, None, Some(group.as_raw()))?;
    }
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(settings.unix_socket_mode.0))?;
    Ok(Listener::Unix(listener, path))
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Unix(_, path) = self
            && !path.as_os_str().is_empty()
        {
            // Somebody else may have removed it.
            let _ = std::fs::remove_file(path);
        }
    }
}
