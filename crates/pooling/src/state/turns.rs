//! The lists of work: turns of connections, and the work that is deferred until the current input has been processed.
//!
//! While the bytes of one connection are processed, a deep call may find that another connection is lost, or free. If
//! it acted at once, its callers would go on with outdated values. So the work is deferred until no caller holds such
//! values, and looks at the state at that time.

use crate::model::keys::ServerKey;
use crate::model::turn::{After, Turn};

use crate::state::{Core, Schedule};

impl Schedule {
    /// Puts work off until the input at hand has been worked on.
    pub fn later(&mut self, what: After) {
        if self.after.back() != Some(&what) {
            self.after.push_back(what);
        }
    }

    /// Gives a connection a turn.
    pub fn give_turn(&mut self, turn: Turn) {
        if self.queued.insert(turn) {
            self.turns.push_back(turn);
        }
    }
}

/// Has a server connection closed when the input at hand has been worked on; no more of its input is.
pub fn doom(core: &mut Core, key: ServerKey, why: &str) {
    let Some(server) = core.servers.get_mut(key) else { return };
    if server.life.doomed.is_none() {
        server.life.doomed = Some(why.to_owned());
        core.schedule.later(After::Gone(key));
    }
}
