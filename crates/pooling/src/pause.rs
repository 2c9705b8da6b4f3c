//! PAUSE: the databases that get no server connections.

use crate::model::keys::WorkerId;

use crate::admin::order::Order;
use crate::log::{self, Level};
use crate::shared::{Message, Shared};
use crate::state::suspension;
use crate::sync::lock;

/// Whether a pool is paused.
pub fn is_paused(shared: &Shared, database: &str, user: &str) -> bool {
    lock(&shared.orders.paused).iter().any(|paused| paused.is_empty() || names(paused, database, user))
}

/// Marks databases as paused or not, for pools that are made later.
pub fn mark_paused(shared: &Shared, database: Option<&str>, paused: bool) {
    let mut marks = lock(&shared.orders.paused);
    match (database, paused) {
        (Some(name), true) => {
            marks.insert(name.to_owned());
        }
        (None, true) => {
            marks.insert(String::new());
        }
        (Some(name), false) => {
            marks.remove(name);
        }
        (None, false) => marks.clear(),
    }
}

/// Pauses or resumes everything, by a signal: no client waits for the outcome.
pub fn pause_all(shared: &Shared, paused: bool) {
    if paused && suspension::is_suspended(shared) {
        crate::warning!("the pooler is suspended and cannot be paused");
        return;
    }
    if !paused {
        suspension::end(shared);
    }
    mark_paused(shared, None, paused);
    let (kind, done) = if paused { ("pause", "paused") } else { ("resume", "resumed") };
    log::event(Level::Log, None, kind, ("", ""), format_args!("all databases were {done} by a signal"));
    let order = if paused { Order::Pause(None) } else { Order::Resume(None) };
    // No client has asked under the number 0, so the answers are dropped.
    shared.tell_all(|| Message::Order(WorkerId(0), 0, order.clone()));
}

/// Whether a name in a command means this pool: `database`, or `database,user` as in PgCat.
pub fn names(named: &str, database: &str, user: &str) -> bool {
    named == database || named.split_once(',').is_some_and(|(name, of)| name == database && of.trim_start() == user)
}
