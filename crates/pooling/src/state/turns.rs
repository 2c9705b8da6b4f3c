//! The lists of work: turns of connections, and the work that is deferred until the current input has been processed.
//!
//! While the bytes of one connection are processed, a deep call may find that another connection is lost, or free. If
//! it acted at once, its callers would go on with outdated values. So the work is deferred until no caller holds such
//! values, and looks at the state at that time.

use crate::model::keys::ServerKey;
use crate::model::turn::{After, Turn};

use crate::state::Core;

/// Puts work off until the input at hand has been worked on.
pub fn later(core: &mut Core, what: After) {
    if core.schedule.after.back() != Some(&what) {
        core.schedule.after.push_back(what);
    }
}

/// Has a server connection closed when the input at hand has been worked on; no more of its input is.
pub fn doom(core: &mut Core, key: ServerKey, why: &str) {
    let Some(server) = core.servers.get_mut(key.0) else { return };
    if server.life.doomed.is_none() {
        server.life.doomed = Some(why.to_owned());
        later(core, After::Gone(key));
    }
}

/// Gives a connection a turn.
pub fn give_turn(core: &mut Core, turn: Turn) {
    if core.schedule.queued.insert(turn) {
        core.schedule.turns.push_back(turn);
    }
}
