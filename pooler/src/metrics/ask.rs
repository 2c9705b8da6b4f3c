//! Asks the workers for their counts.

use std::sync::mpsc;
use std::time::{Duration, Instant};

use pooling::admin::measured::Measured;
use pooling::shared::{Message, Shared};

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
