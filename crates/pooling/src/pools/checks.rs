//! Server connections that are checked before use, and replaced when they are old.

use crate::model::keys::ServerKey;

use crate::pools::align;
use crate::state::Core;
use crate::state::server::{Server, State};

/// Whether a free server connection must be checked before it is used: it has been idle for long.
pub fn is_to_be_checked(core: &Core, server: &Server) -> bool {
    let settings = &core.config.settings;
    !settings.server_check_query.is_empty()
        && matches!(server.state(), State::Idle)
        && core.now.saturating_duration_since(server.life.state_since) >= settings.server_check_delay.0
}

/// Checks a free server connection, if it must be: whether it was. The connection is offered to waiting clients when
/// the check has succeeded, and closed when it has failed.
pub fn check(core: &mut Core, key: ServerKey) -> bool {
    if !core.servers.get(key).is_some_and(|server| is_to_be_checked(core, server)) {
        return false;
    }
    run_check(core, key);
    true
}

/// Runs the query by which a server connection without a client is checked.
pub fn run_check(core: &mut Core, key: ServerKey) {
    let query = core.config.settings.server_check_query.clone();
    align::run_own(core, key, if query == "<empty>" { "" } else { &query });
}

/// Whether a server connection is older than it may be. Each may become a bit less old than `server_lifetime` says,
/// so that those that were opened together are not replaced together.
pub fn is_old(core: &Core, server: &Server) -> bool {
    let Some(limit) = core.pools.get(server.pool).and_then(|pool| pool.limits.lifetime) else { return false };
    let jitter = u32::try_from(core.config.settings.server_lifetime_jitter.min(100)).unwrap_or(100);
    let age = core.now.saturating_duration_since(server.life.since);
    // Most connections are younger than any limit that the jitter can give.
    if age < limit / 100 * (100 - jitter) {
        return false;
    }
    // The process id on the server serves as a random number that needs no place of its own.
    let spread = f64::from(server.cancels.key.pid.unsigned_abs().wrapping_mul(2_654_435_769)) / f64::from(u32::MAX);
    age >= limit.mul_f64(1.0 - f64::from(jitter) / 100.0 * spread)
}
