//! The account of the operating system that a client on a Unix socket belongs to.

use crate::state::client::Client;

/// Whether a client is the account that the pooler runs as, by a Unix socket, under the console's own name.
pub fn is_own_user(client: &Client) -> bool {
    if &*client.identity.user != "pgbouncer" && &*client.identity.user != "howdah" {
        return false;
    }
    client.io.socket.is_own_account()
}

/// The name of the account that a client runs as, where it came by a Unix socket.
pub fn account_of(client: &Client) -> Option<String> {
    client.io.socket.account()
}
