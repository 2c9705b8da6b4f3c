use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};

/// The address of a server.
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
}
