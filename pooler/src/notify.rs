//! Messages to a supervisor: systemd's protocol of `Type=notify`, a datagram to the socket of `NOTIFY_SOCKET`.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::{env, io};

/// The pooler takes clients, after its start or after a reload.
pub const READY: &str = "READY=1\n";
/// The configuration is being read again.
pub const RELOADING: &str = "RELOADING=1\n";
/// The pooler ends.
pub const STOPPING: &str = "STOPPING=1\n";

/// Tells the supervisor of a state; without one nothing is done.
pub fn tell(state: &str) {
    let Some(place) = env::var_os("NOTIFY_SOCKET") else { return };
    if let Err(error) = send(&place, state) {
        pooling::warning!("cannot tell the supervisor (NOTIFY_SOCKET = {}): {error}", place.to_string_lossy());
    }
}

fn send(place: &OsStr, state: &str) -> io::Result<()> {
    let address = match place.as_bytes() {
        // A name of the kernel's, in no file system.
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(place)?,
    };
    UnixDatagram::unbound()?.send_to_addr(state.as_bytes(), &address)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_arrive_by_path_and_by_abstract_name() {
        let name = format!("howdah-notify-{}", std::process::id());
        let path = env::temp_dir().join(&name);
        let by_path = UnixDatagram::bind(&path).unwrap();
        let by_name = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
        for (socket, place) in [(&by_path, path.display().to_string()), (&by_name, format!("@{name}"))] {
            send(OsStr::new(&place), READY).unwrap();
            let mut got = [0; 64];
            let length = socket.recv(&mut got).unwrap();
            assert_eq!(&got[..length], READY.as_bytes());
        }
        std::fs::remove_file(&path).unwrap();
        assert!(send(path.as_os_str(), READY).is_err());
    }
}
