//! COPY FROM STDIN: the Syncs that clients send where a server may be within one.
//!
//! A server ignores a Sync within a COPY, and answers one behind the error that has ended the COPY. So the pooler sends
//! such a Sync when it is certain that the server will answer it.

use crate::model::exchange::Copying;
use crate::model::keys::ServerKey;
use crate::model::request::Request;

use crate::frontend::names;
use crate::state::Core;
use crate::state::server::Server;

/// Notes that a server takes in a COPY.
pub fn takes_copy(core: &mut Core, key: ServerKey) {
    let Some(server) = core.servers.get_mut(key.0) else { return };
    server.exchange.take_copy();
    if server.exchange.is_given_up() {
        fail_copy(server, 0);
    }
    // A message that waits for the end of the unit may belong to the unit.
    names::look_again(core, key);
}

/// Ends a COPY whose client has sent a message that is no part of one: either the COPY has failed already, and the server
/// ignores this, or the client has broken the protocol. `syncs`: the number of Syncs that the client has sent behind its
/// last line.
pub fn fail_copy(server: &mut Server, syncs: usize) {
    wire::frontend::write_copy_fail(server.io.out(), "the client has sent a message that is no part of a COPY");
    server.exchange.copying = Copying::Ended { syncs };
}

/// Sends the Syncs that a client has sent behind its last line of a COPY that has failed.
pub fn send_syncs(core: &mut Core, key: ServerKey, count: usize) {
    let Some((server, client)) = core.answered_pair(key) else { return };
    for _ in 0..count {
        client.input.unsynced = false;
        wire::frontend::write_sync(server.io.out());
        server.exchange.requests.push_back(Request::Sync);
    }
}

/// Sends the Sync that waits, if an answer of the server has made it certain that the server will answer that Sync.
pub fn send_waiting_sync(core: &mut Core, key: ServerKey) {
    if core.servers.get_mut(key.0).is_some_and(|server| server.exchange.sync_is_due()) {
        send_syncs(core, key, 1);
        names::look_again(core, key);
    }
}
