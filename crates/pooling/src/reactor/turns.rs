//! What is to be done: turns of connections, and what is put off until the input at hand has been worked on.
//!
//! While the bytes of one connection are worked on, a deep call may find that another is lost, or free. Were that acted
//! upon at once, what lies in between would go on with what is no longer so. So it is put off to where nothing is held,
//! and looks anew at how things stand then.

use crate::model::keys::ServerKey;
use crate::model::turn::{After, Turn};

use crate::state::Core;

/// Puts something off until the input at hand has been worked on.
pub fn later(core: &mut Core, what: After) {
    if core.schedule.after.back() != Some(&what) {
        core.schedule.after.push_back(what);
    }
}

/// Has a server connection closed when the input at hand has been worked on; nothing more of its input is.
pub fn doom(core: &mut Core, key: ServerKey, why: &str) {
    let Some(server) = core.servers.get_mut(key.0) else { return };
    if server.life.doomed.is_none() {
        server.life.doomed = Some(why.to_owned());
        later(core, After::Gone(key));
    }
}

/// Gives somebody a turn.
pub fn give_turn(core: &mut Core, turn: Turn) {
    if core.schedule.queued.insert(turn) {
        core.schedule.turns.push_back(turn);
    }
}
