//! What is done between inputs.
//!
//! While the bytes of one connection are worked on, nothing is opened, closed, given back or handed to somebody else:
//! each of these changes who owns what, and the loop over the input would go on with what it believed before. Such
//! things are put on a list and done when the input has been worked on, each looking again at how things stand then.

use crate::client::ClientKey;
use crate::pool::PoolKey;
use crate::server::ServerKey;
use crate::worker::Worker;

/// Something to be done between inputs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum After {
    /// A server connection is lost, or cannot go on; it says itself why.
    Gone(ServerKey),
    /// A server connection is closed, whose client has left.
    Close(ServerKey, &'static str),
    /// A server connection may be free for the next client.
    Free(ServerKey),
    /// A server connection has logged in.
    LoggedIn(ServerKey),
    /// The session on a server connection could not be brought in line with its client's.
    Unaligned(ServerKey),
    /// A client's password can be looked up on the connection that it has.
    Lookup(ClientKey),
    /// A server has accepted what a client asked for in its startup packet.
    Verified(ClientKey),
    /// A client can be greeted.
    Greet(ClientKey),
    /// The look-up of a password has ended.
    LookedUp(ServerKey),
    /// Nobody may wait any more for what a pipelined connection does.
    Stop(ServerKey),
    /// A pool may need more connections.
    Grow(PoolKey),
    /// A pool is to have one more connection, for pipelining.
    Widen(PoolKey),
    /// There may be room on a pool's pipelined connections.
    Share(PoolKey),
    /// A pool is to have a connection that listens for its clients.
    Hub(PoolKey),
    /// A client has missed notifications.
    Deaf(ClientKey),
    /// A client has done what its pool does not allow.
    Expel(ClientKey, &'static str),
    /// A client cannot be written to.
    Leave(ClientKey, String),
}

impl Worker {
    /// Puts something off until the input at hand has been worked on.
    pub fn later(&mut self, what: After) {
        if self.after.back() != Some(&what) {
            self.after.push_back(what);
        }
    }

    /// Has a server connection closed when the input at hand has been worked on; nothing more of its input is.
    pub fn doom(&mut self, key: ServerKey, why: &str) {
        let Some(server) = self.servers.get_mut(key.0) else { return };
        if server.doomed.is_none() {
            server.doomed = Some(why.to_owned());
            self.later(After::Gone(key));
        }
    }

    /// Does what was put off.
    pub fn run_after(&mut self) {
        // What is done here may work on inputs, and that may put off more.
        if std::mem::replace(&mut self.in_after, true) {
            return;
        }
        while let Some(what) = self.after.pop_front() {
            match what {
                After::Gone(key) => {
                    let why = self.servers.get_mut(key.0).and_then(|server| server.doomed.take());
                    if let Some(why) = why {
                        self.server_gone(key, &why);
                    }
                }
                After::Close(key, why) => {
                    let pool = self.servers.get(key.0).map(|server| server.pool);
                    self.close_server(key, why);
                    pool.into_iter().for_each(|pool| self.grow(pool));
                }
                After::Free(key) => self.free(key),
                After::LoggedIn(key) => self.logged_in(key),
                After::Unaligned(key) => self.unaligned(key),
                After::Lookup(key) => self.lookup(key),
                After::Verified(key) => self.startup_verified(key),
                After::Greet(key) => self.greet(key),
                After::LookedUp(key) => self.lookup_done(key),
                After::Stop(key) => self.stop_unwanted(key),
                After::Grow(key) => self.grow(key),
                After::Widen(key) => self.grow_by_one(key),
                After::Share(key) => self.serve_sharers(key),
                After::Hub(key) => self.make_hub(key),
                After::Deaf(key) => self.part_with_deaf(key),
                After::Expel(key, why) => self.fatal(key, "0A000", why),
                After::Leave(key, why) => self.close_client(key, &why),
            }
        }
        self.in_after = false;
    }
}
