//! Names of servers, looked up on a thread of their own: a look-up may block for as long as it likes.

use std::io;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};

use super::board::Note;
use crate::shared::Shared;

/// Where a server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// TCP.
    Tcp(SocketAddr),
    /// The path of a Unix socket.
    Unix(PathBuf),
}

impl Address {
    /// The address that a host and a port are by themselves; `None` for a name that must be looked up.
    pub fn literal(host: &str, port: u16) -> Option<Self> {
        if host.is_empty() || host.starts_with('/') {
            let folder = if host.is_empty() { "/tmp" } else { host };
            return Some(Self::Unix(Path::new(folder).join(format!(".s.PGSQL.{port}"))));
        }
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        bare.parse::<IpAddr>().ok().map(|ip| Self::Tcp(SocketAddr::new(ip, port)))
    }

    /// The addresses of a name. It may take long.
    pub fn look_up(host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let found: Vec<SocketAddr> = (host, port).to_socket_addrs()?.collect();
        if found.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("{host} has no address")));
        }
        Ok(found)
    }
}

/// A name to look up, and the number under which the answer is told.
pub(super) type Question = (usize, String, u16);

/// Starts the thread. It ends when the sender is dropped.
pub(super) fn spawn(shared: Arc<Shared>) -> io::Result<Sender<Question>> {
    let (sender, questions): (Sender<Question>, Receiver<Question>) = channel();
    std::thread::Builder::new().name("names".to_owned()).spawn(move || {
        for (number, host, port) in questions {
            let found = Address::look_up(&host, port);
            shared.board.note(Note::Resolved(number, host, found));
        }
    })?;
    Ok(sender)
}
