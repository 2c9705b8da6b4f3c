//! What became of each row that a client wrote, as it was told, and whether the server agrees.

use std::collections::HashMap;
use std::fmt::Write;

use crate::admin::Admin;
use crate::settings::TENANTS;

/// The key of one row, unique in a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Key(pub u64);

impl Key {
    /// The key of a client's row `n`.
    pub fn new(client: u32, n: u32) -> Self {
        Self(u64::from(client) << 24 | u64::from(n))
    }

    /// The client that writes it.
    pub fn client(self) -> u64 {
        self.0 >> 24
    }
}

/// What its client was told of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// It is in a transaction that goes on.
    Open,
    /// It is there.
    Done,
    /// It is not there.
    Failed,
    /// Nothing for certain.
    Unknown,
}

/// One row.
#[derive(Debug, Clone, Copy)]
struct Entry {
    told: Told,
    /// The schema that it must be in, where that is known.
    tenant: Option<&'static str>,
    /// How its client was told: a SQLSTATE, or a word of five letters.
    how: [u8; 5],
}

/// The rows of many clients.
#[derive(Debug, Default)]
pub struct Ledger {
    entries: HashMap<Key, Entry>,
    /// The rows of which their client was told something for certain since this was last taken.
    pub settled: Vec<(Key, Told)>,
}

impl Ledger {
    /// Rows are on their way; nobody knows yet.
    pub fn send(&mut self, keys: &[Key]) {
        for &key in keys {
            self.entries.insert(key, Entry { told: Told::Unknown, tenant: None, how: *b"sent " });
        }
    }

    /// A row was written, into this schema.
    pub fn open(&mut self, key: Key, tenant: Option<&'static str>) {
        self.entries.insert(key, Entry { told: Told::Open, tenant, how: *b"open " });
    }

    /// What became of rows.
    pub fn tell(&mut self, keys: &[Key], told: Told, how: &str) {
        let mut word = *b"     ";
        word.iter_mut().zip(how.bytes()).for_each(|(place, byte)| *place = byte);
        for key in keys {
            if let Some(entry) = self.entries.get_mut(key) {
                (entry.told, entry.how) = (told, word);
                if matches!(told, Told::Done | Told::Failed) {
                    self.settled.push((*key, told));
                }
            }
        }
    }

    /// What was told of a row, and where it is.
    pub fn look(&self, key: Key) -> (Told, Option<&'static str>) {
        self.entries.get(&key).map_or((Told::Unknown, None), |entry| (entry.told, entry.tenant))
    }

    /// Takes over the rows of another ledger.
    pub fn take(&mut self, other: Self) {
        self.entries.extend(other.entries);
    }

    /// How many rows there are.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Holds it against the tables: what does not agree, and how many rows were found.
    pub fn account(&self, admin: &mut Admin) -> Result<(Vec<String>, usize), String> {
        let mut found: HashMap<Key, (u64, &'static str)> = HashMap::with_capacity(self.entries.len());
        let mut wrong = Vec::new();
        for tenant in TENANTS {
            let sql = format!("SELECT k, count(*), min(tag), max(tag) FROM {tenant}.ledger GROUP BY 1");
            for row in admin.ask(&sql)? {
                let number = |at: usize| row.get(at).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
                let key = Key(number(0));
                if let Some((_, other)) = found.insert(key, (number(1), tenant)) {
                    wrong.push(format!("row {} is in {other} and in {tenant}", key.0));
                }
                if row.get(2) != row.get(3) || row.get(2).map(String::as_str) != Some(&row[0]) {
                    wrong.push(format!("row {} holds {:?}", key.0, row));
                }
            }
        }
        for (key, (_, tenant)) in found.iter().filter(|(key, _)| !self.entries.contains_key(*key)) {
            wrong.push(format!("row {} in {tenant} was written by nobody", key.0));
        }
        for (key, entry) in &self.entries {
            let (count, tenant) = found.get(key).copied().unwrap_or((0, ""));
            if let Some(fault) = entry.fault(count, tenant) {
                let mut line = format!("row {} of client {}: {fault}", key.0 & 0xff_ffff, key.client());
                let _ = write!(line, "; told {:?} by {:?}", entry.told, String::from_utf8_lossy(&entry.how).trim_end());
                wrong.push(line);
            }
        }
        Ok((wrong, found.len()))
    }
}

impl Entry {
    /// What is wrong when it is there so many times, in this schema.
    fn fault(&self, count: u64, tenant: &str) -> Option<String> {
        let most = u64::from(self.told != Told::Failed);
        let least = u64::from(self.told == Told::Done);
        if count < least || count > most {
            return Some(format!("{count} times there (in {tenant:?})"));
        }
        match self.tenant {
            Some(wanted) if count > 0 && wanted != tenant => Some(format!("in {tenant}, must be in {wanted}")),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Entry, Told};

    #[test]
    fn a_row_is_where_and_as_often_as_its_client_was_told() {
        let entry = |told| Entry { told, tenant: Some("public"), how: *b"     " };
        for (told, count, tenant, good) in [
            (Told::Done, 1, "public", true),
            (Told::Done, 0, "", false),
            (Told::Done, 2, "public", false),
            (Told::Done, 1, "tenant_1", false),
            (Told::Failed, 0, "", true),
            (Told::Failed, 1, "public", false),
            (Told::Unknown, 0, "", true),
            (Told::Unknown, 1, "public", true),
            (Told::Unknown, 2, "public", false),
            (Told::Unknown, 1, "tenant_1", false),
        ] {
            assert_eq!(entry(told).fault(count, tenant).is_none(), good, "{told:?} {count} {tenant}");
        }
    }
}
