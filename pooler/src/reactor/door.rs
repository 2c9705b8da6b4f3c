//! The listening sockets are exchanged.

use std::io;

use mio::Token;

use crate::listen::Listener;
use crate::state::Core;

/// By what events name the listeners.
pub const DOOR: Token = Token(2);

/// Lets clients in by these sockets from now on; another process has those that were there.
pub fn replace_door(core: &mut Core, listeners: Vec<Listener>) -> io::Result<()> {
    core.entrance.door.replace(core.reactor.poll.registry(), DOOR, listeners)
}
