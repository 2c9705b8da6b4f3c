//! The role that a server reports when a connection to it begins.
//!
//! A primary does not become a standby while it runs: it must be started as one, and its connections end. So it is
//! enough to read the role at the start of each connection, and a worker may find before the monitor does that the
//! primary is a standby now. Otherwise writes, and reads that must see commits of their session, would be sent there. A
//! login during a promotion may report the old role: then writes wait until the monitor, which asks at once, knows
//! more.

use crate::model::keys::ServerKey;

use crate::monitor::Incident;
use crate::pools::reroute;
use crate::router::members;
use crate::state::Core;

/// Notes that the server of a new connection is a standby: if it is taken for the primary, clients that wait for the
/// primary choose again before the connection is used.
pub fn found_standby(core: &mut Core, key: ServerKey) {
    reroute::look_at_clusters(core);
    let Some(pool) = core.servers.get(key).map(|server| server.pool) else { return };
    if members::is_primary(core, pool) {
        members::met(core, pool, Incident::Standby);
        reroute::look_at_clusters(core);
    }
}
