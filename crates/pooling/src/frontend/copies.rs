//! COPY FROM STDIN: the Syncs that clients send behind its lines. A server ignores a Sync within a COPY, and answers one
//! behind the error that has ended the COPY: so it gets them when such an error has come.

use crate::model::exchange::Copying;
use crate::model::request::Request;

use crate::state::client::Client;
use crate::state::server::Server;

/// Ends a COPY whose client has sent a message that is no part of one: either the COPY has failed already, and the server
/// ignores this, or the client has broken the protocol.
pub fn fail_copy(server: &mut Server) {
    wire::frontend::write_copy_fail(server.io.out(), "the client has sent a message that is no part of a COPY");
    server.exchange.copying = Copying::Ended { syncs: server.exchange.copying.failed() };
}

/// Sends the Syncs that a client has sent behind its last line of a COPY that has failed.
pub fn send_syncs(server: &mut Server, client: &mut Client, count: usize) {
    client.input.unsynced &= count == 0;
    for _ in 0..count {
        wire::frontend::write_sync(server.io.out());
        server.exchange.requests.push_back(Request::Sync);
    }
}
