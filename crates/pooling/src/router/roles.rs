//! What a server says of its role when a connection to it is made.
//!
//! A primary does not become a standby while it runs: its connections end, and it is started as one. So it is enough to
//! hear what each new connection says, and whoever finds the primary to be a standby knows before the monitor has asked
//! it. Else a read would be sent there that must see what its session has committed, and a write. A login that was under
//! way while its server was promoted may say so too late: then writes wait until the monitor, which asks at once, has heard
//! more.

use crate::model::keys::ServerKey;

use crate::monitor::Met;
use crate::router::{members, reroute};
use crate::state::Core;

/// The server of a new connection says that it is a standby: where it is taken for the primary, who waits for that chooses
/// again before the connection is used.
pub fn found_standby(core: &mut Core, key: ServerKey) {
    reroute::look_at_clusters(core);
    let Some(pool) = core.servers.get(key.0).map(|server| server.pool) else { return };
    if members::is_primary(core, pool) {
        members::met(core, pool, Met::Standby);
        reroute::look_at_clusters(core);
    }
}
