//! Asking the workers what they have counted.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::admin::pools;
use crate::metrics::measured::Measured;
use crate::shared::{Message, Shared};
use crate::state::Core;

/// What this worker has counted.
pub fn measure(core: &Core) -> Measured {
    let stats = core.pools.iter().map(|(_, pool)| pool.counts.stats.clone());
    Measured {
        pools: pools::pools_seen(core).into_iter().zip(stats).collect(),
        errors: core.lifecycle.errors.clone(),
        login_clients: core.clients.iter().filter(|(_, client)| client.is_logging_in()).count(),
    }
}

/// Asks every worker what it has counted; those that do not answer within `limit` are missing.
pub fn ask_all(shared: &Shared, limit: Duration) -> Vec<Measured> {
    let (sender, answers) = mpsc::channel();
    shared.tell_all(|| Message::Measure(sender.clone()));
    drop(sender);
    let deadline = Instant::now() + limit;
    let mut measured = Vec::new();
    while measured.len() < shared.mailboxes.len() {
        match answers.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(answer) => measured.push(answer),
            Err(_) => break,
        }
    }
    measured
}
