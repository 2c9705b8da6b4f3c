//! What a worker has done since it told others last how busy it is.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// What a worker had done when it told of it last.
#[derive(Debug, Default)]
pub struct Workload {
    /// When that was, and the processor time of its thread until then.
    pub at: Option<(Instant, Duration)>,
    /// The statements of each database until then.
    pub statements: BTreeMap<String, u64>,
}

impl Workload {
    /// Statements have come to be counted here that others have had.
    pub fn leave_out(&mut self, database: &str, statements: u64) {
        *self.statements.entry(database.to_owned()).or_default() += statements;
    }
}
