//! How client connections are counted: each has a seat from accept to its end, wherever it is moved.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::refusal::Refusal;
use crate::shared::{Shared, lock};

/// A client connection's place among those that are counted. It is given back when it is dropped.
pub struct Seat {
    shared: Arc<Shared>,
    holder: Holder,
}

#[derive(Debug)]
enum Holder {
    /// A connection whose user has proven nothing.
    Stranger,
    /// A client of this user.
    User(String),
    /// A client of this user on the console.
    Observer(String),
    /// A client that has left; its connection is being closed.
    Nobody,
}

impl Seat {
    /// The seat of a connection that was just accepted.
    pub fn new(shared: Arc<Shared>) -> Self {
        shared.strangers.fetch_add(1, Ordering::Relaxed);
        Self { shared, holder: Holder::Stranger }
    }

    /// Makes it the seat of a user's client, unless there are as many clients in all or of this user; 0 is no limit. On
    /// the console it takes nobody's place.
    pub fn take(&mut self, user: &str, console: bool, most: usize, most_of_user: usize) -> Result<(), Refusal> {
        let mut by_user = lock(&self.shared.by_user);
        // The lock makes one of counting and comparing, for the sum too.
        if most > 0 && self.shared.clients.load(Ordering::Relaxed) >= most {
            return Err(Refusal::Full);
        }
        let clients = by_user.get(user).map_or(0, |(_, clients)| *clients);
        if most_of_user > 0 && clients >= most_of_user {
            return Err(Refusal::FullForUser);
        }
        by_user.entry(user.to_owned()).or_default().1 = clients + 1;
        if !console {
            self.shared.clients.fetch_add(1, Ordering::Relaxed);
        }
        drop(by_user);
        self.shared.strangers.fetch_sub(1, Ordering::Relaxed);
        self.holder = if console { Holder::Observer(user.to_owned()) } else { Holder::User(user.to_owned()) };
        Ok(())
    }

    /// Whether it is the seat of a client that was let in and has not left.
    pub fn is_taken(&self) -> bool {
        matches!(self.holder, Holder::User(_) | Holder::Observer(_))
    }

    /// Whether its client is waited for when the pooler ends.
    pub fn is_waited_for(&self) -> bool {
        matches!(self.holder, Holder::User(_))
    }

    /// Whether its connection has proven nothing.
    pub fn is_strangers(&self) -> bool {
        matches!(self.holder, Holder::Stranger)
    }

    /// The client leaves; its connection may take a while to close.
    pub fn leave(&mut self) {
        let (Holder::User(user) | Holder::Observer(user)) = &self.holder else { return };
        if self.is_waited_for() {
            self.shared.clients.fetch_sub(1, Ordering::Relaxed);
        }
        let mut by_user = lock(&self.shared.by_user);
        if let Some(counts) = by_user.get_mut(user) {
            counts.1 = counts.1.saturating_sub(1);
            // Users come and go.
            if *counts == (0, 0) {
                by_user.remove(user);
            }
        }
        drop(by_user);
        self.holder = Holder::Nobody;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.leave();
        if self.is_strangers() {
            self.shared.strangers.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl fmt::Debug for Seat {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Seat").field("holder", &self.holder).finish_non_exhaustive()
    }
}
