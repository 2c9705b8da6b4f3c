//! Looks for rows in the tables soon after their clients were told of them, while what their clients saw is still known.
//! The account at the end ([`crate::ledger`]) is of all rows; this one tells the story with a fault.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::admin::{Admin, SUPERUSER};
use crate::crowd::Shared;
use crate::ledger::{Key, Told};
use crate::settings::TENANTS;
use crate::world::DATABASE;

/// How long after its client was told of it a row is looked for: what was wrongly done may still be under way.
const LATER: Duration = Duration::from_secs(2);

/// Rows of which a client was told, and what it saw.
#[derive(Debug)]
struct Entry {
    at: Instant,
    rows: Vec<(Key, Told)>,
    story: String,
}

/// Rows that are still to be looked for.
#[derive(Debug, Default)]
pub struct Audit(Mutex<VecDeque<Entry>>);

impl Audit {
    /// A client was told of these rows.
    pub fn note(&self, rows: Vec<(Key, Told)>, story: String) {
        let entry = Entry { at: Instant::now(), rows, story };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(entry);
    }

    /// Those that it is time to look for.
    fn due(&self) -> Vec<Entry> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = entries.iter().take_while(|entry| entry.at.elapsed() > LATER).count();
        entries.drain(..count).collect()
    }
}

/// Looks for rows until the run ends.
pub fn run(shared: &Shared) {
    let mut admin = None;
    while !shared.stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(500));
        let due = shared.audit.due();
        if due.is_empty() {
            continue;
        }
        let server = shared.options.server;
        let found =
            admin.take().map_or_else(|| Admin::connect(server, DATABASE, SUPERUSER), Ok).and_then(|mut open| {
                let counts = counts(&mut open, &due)?;
                admin = Some(open);
                Ok(counts)
            });
        // While the server recovers nothing can be looked for; the account at the end is of these rows too.
        let Ok(found) = found else { continue };
        for entry in &due {
            for (key, told) in &entry.rows {
                let count = found.get(key).copied().unwrap_or(0);
                if count != usize::from(*told == Told::Done) {
                    let what = format!("row {} is there {count} times, its client was told {told:?}", key.0);
                    shared.violate(format!("client {}: {what}\n{}", key.client(), entry.story));
                }
            }
        }
    }
}

/// How often each row is in all tables together.
fn counts(admin: &mut Admin, entries: &[Entry]) -> Result<HashMap<Key, usize>, String> {
    let keys: Vec<String> = entries.iter().flat_map(|entry| &entry.rows).map(|(key, _)| key.0.to_string()).collect();
    let keys = keys.join(",");
    let parts = TENANTS.map(|tenant| format!("SELECT k FROM {tenant}.ledger WHERE k = ANY ('{{{keys}}}'::bigint[])"));
    let mut found = HashMap::new();
    for row in admin.ask(&parts.join(" UNION ALL "))? {
        *found.entry(Key(row[0].parse().unwrap_or(0))).or_default() += 1;
    }
    Ok(found)
}
