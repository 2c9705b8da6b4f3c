//! The work of a worker as of its last report of its workload to the others.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The work of a worker as of its last report.
#[derive(Debug, Default)]
pub struct Workload {
    /// The time of that report, and the processor time of its thread until then.
    pub at: Option<(Instant, Duration)>,
    /// The statements of each database until then.
    pub statements: BTreeMap<String, u64>,
}

impl Workload {
    /// Leaves statements out of the next report that are counted here now and that other workers have had.
    pub fn leave_out(&mut self, database: &str, statements: u64) {
        *self.statements.entry(database.to_owned()).or_default() += statements;
    }
}
