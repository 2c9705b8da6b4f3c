//! The console: the databases `howdah`, `pgbouncer` and `pgcat`, which are no databases but answer commands.
//!
//! A command is asked of every worker ([`Order`]); when all have answered, the first worker, where console clients
//! live, puts the result together. PAUSE and its like are asked again until nothing is under way any more.

pub mod account;
pub mod ask;
pub mod command;
pub mod console;
pub mod obey;
pub mod order;
pub mod pools;
pub mod seen;
pub mod session;
pub mod show;
pub mod snapshot;

use crate::admin::account::PeerUid;
pub use command::Command;
pub use seen::{Part, PoolSeen, Snapshot, pool_parts, whole_pools};

impl PeerUid for mio::net::UnixStream {
    fn peer_cred_uid(&self) -> std::io::Result<u32> {
        use std::os::fd::AsRawFd;
        let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
        let mut length = std::mem::size_of::<libc::ucred>() as libc::socklen_t;
        // SAFETY: the descriptor is open as long as `self` lives; `peer` is a ucred and `length` its size.
        let outcome = unsafe {
            libc::getsockopt(
                self.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                (&raw mut peer).cast(),
                &raw mut length,
            )
        };
        if outcome == 0 { Ok(peer.uid) } else { Err(std::io::Error::last_os_error()) }
    }
}
