//! The account of the operating system that a client on a Unix socket belongs to.

use crate::account;
use crate::net::Stream;
use crate::state::client::Client;

/// Whether a client is the account that the pooler runs as, by a Unix socket, under the console's own name.
pub fn is_own_user(client: &Client) -> bool {
    let Stream::Unix(stream) = &client.io.stream else { return false };
    if &*client.identity.user != "pgbouncer" && &*client.identity.user != "howdah" {
        return false;
    }
    account::peer(stream).is_ok_and(|peer| peer == account::own())
}

/// The name of the account that a client runs as, where it came by a Unix socket.
pub fn account_of(client: &Client) -> Option<String> {
    let Stream::Unix(stream) = &client.io.stream else { return None };
    account::name(account::peer(stream).ok()?)
}
