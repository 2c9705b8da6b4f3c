//! The count of client connections: each has a permit from its accept to its end, to whatever worker it moves.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::model::limits::Limits;

use crate::error::Error;
use crate::sync::lock;

/// The counts of connections for limits, and the last id.
#[derive(Debug, Default)]
pub struct Counts {
    /// The number of clients that have logged in, without those of the console.
    pub clients: AtomicUsize,
    /// The number of connections without a proven identity.
    pub unauthenticated: AtomicUsize,
    /// Whether the log has said that there are too many of these, until there are few.
    pub crowded: AtomicBool,
    /// The id that was given out last.
    pub last_id: AtomicU64,
    /// The numbers of client connections, by user.
    pub by_user: Mutex<HashMap<String, usize>>,
    /// The numbers of server connections, by database and by user.
    pub servers: Mutex<Limits>,
}

/// A client connection's place among those that are counted. The permit is given back when it is dropped.
pub struct ClientPermit {
    counts: Arc<Counts>,
    holder: Holder,
}

#[derive(Debug)]
enum Holder {
    /// A connection without a proven identity.
    Unauthenticated,
    /// A client of this user.
    User(String),
    /// A client of this user on the console.
    Observer(String),
    /// A client that has left; its connection is being closed.
    Nobody,
}

impl ClientPermit {
    /// The permit of a connection that was just accepted.
    pub fn new(counts: Arc<Counts>) -> Self {
        counts.unauthenticated.fetch_add(1, Ordering::Relaxed);
        Self { counts, holder: Holder::Unauthenticated }
    }

    /// Makes the permit one of a user's client, unless there are as many clients in all or of this user; 0 is no limit.
    /// On the console a client takes no other's place.
    pub fn take(&mut self, user: &str, console: bool, most: usize, most_of_user: usize) -> Result<(), Error> {
        let mut by_user = lock(&self.counts.by_user);
        // The lock makes one of counting and comparing, for the sum too.
        if most > 0 && self.counts.clients.load(Ordering::Relaxed) >= most {
            return Err(Error::Full);
        }
        let clients = by_user.get(user).copied().unwrap_or_default();
        if most_of_user > 0 && clients >= most_of_user {
            return Err(Error::FullForUser);
        }
        by_user.insert(user.to_owned(), clients + 1);
        if !console {
            self.counts.clients.fetch_add(1, Ordering::Relaxed);
        }
        drop(by_user);
        self.counts.unauthenticated.fetch_sub(1, Ordering::Relaxed);
        self.holder = if console { Holder::Observer(user.to_owned()) } else { Holder::User(user.to_owned()) };
        Ok(())
    }

    /// Whether the permit is of a client that has logged in and has not left.
    pub fn is_taken(&self) -> bool {
        matches!(self.holder, Holder::User(_) | Holder::Observer(_))
    }

    /// Whether the client is waited for when the pooler ends.
    pub fn is_waited_for(&self) -> bool {
        matches!(self.holder, Holder::User(_))
    }

    /// Whether the connection has no proven identity.
    pub fn is_unauthenticated(&self) -> bool {
        matches!(self.holder, Holder::Unauthenticated)
    }

    /// Notes that the client leaves; its connection may take a while to close.
    pub fn leave(&mut self) {
        let (Holder::User(user) | Holder::Observer(user)) = &self.holder else { return };
        if self.is_waited_for() {
            self.counts.clients.fetch_sub(1, Ordering::Relaxed);
        }
        let mut by_user = lock(&self.counts.by_user);
        if let Some(clients) = by_user.get_mut(user) {
            *clients = clients.saturating_sub(1);
            // Users come and go.
            if *clients == 0 {
                by_user.remove(user);
            }
        }
        drop(by_user);
        self.holder = Holder::Nobody;
    }
}

impl Drop for ClientPermit {
    fn drop(&mut self) {
        self.leave();
        if self.is_unauthenticated() {
            self.counts.unauthenticated.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for ClientPermit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("ClientPermit").field("holder", &self.holder).finish_non_exhaustive()
    }
}
