//! The listening sockets are exchanged.

use std::io;

use crate::io::Listening;
use crate::state::Core;

/// The kind of token by which events name the listeners.
pub const DOOR: usize = 2;

/// Accepts clients by these sockets from now on; another process has the earlier ones.
pub fn replace_door(core: &mut Core, listeners: Vec<Box<dyn Listening>>) -> io::Result<()> {
    core.entrance.door.replace(&*core.reactor.network, DOOR, listeners)
}
