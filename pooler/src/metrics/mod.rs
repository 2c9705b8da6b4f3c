//! Measurements: how long statements take and wait, what is counted, and the page on which Prometheus reads them.
//!
//! Each worker counts what passes through it in its own pools, without locks. Whoever wants to know (the HTTP thread,
//! the console) asks every worker by message and puts the answers together.

pub mod http;
mod page;
mod stats;
mod text;
mod times;

use std::collections::BTreeMap;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::admin::PoolSeen;
use crate::shared::{Message, Shared};
use crate::worker::Worker;

pub use stats::{ServerStats, Stats, server_name};
pub use times::Times;

/// What one worker has counted.
#[derive(Debug, Clone, Default)]
pub struct Measured {
    /// Its pools, and what each has counted.
    pub pools: Vec<(PoolSeen, Stats)>,
    /// Errors that the pooler itself told clients, by SQLSTATE.
    pub errors: BTreeMap<String, u64>,
    /// Clients that are logging in.
    pub login_clients: usize,
}

impl Worker {
    /// What this worker has counted.
    pub fn measure(&self) -> Measured {
        let stats = self.pools.iter().map(|(_, pool)| pool.stats.clone());
        Measured {
            pools: self.pools_seen().into_iter().zip(stats).collect(),
            errors: self.errors.clone(),
            login_clients: self.clients.iter().filter(|(_, client)| client.is_logging_in()).count(),
        }
    }

    /// Counts an error that the pooler itself tells a client.
    pub fn count_error(&mut self, code: &str) {
        match self.errors.get_mut(code) {
            Some(count) => *count += 1,
            None => {
                self.errors.insert(code.to_owned(), 1);
            }
        }
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
