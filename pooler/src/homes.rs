//! Which worker serves which database.
//!
//! The databases of the configuration are dealt out when it is read. A name that only `*` covers gets a home when the
//! first client that asks for it has proven who it is, and loses it when nothing of that database is open any more. So
//! nobody fills the list, or decides which databases share a worker, without a password.

use std::collections::HashMap;
use std::sync::Mutex;

use crate::shared::{WorkerId, lock};

/// Where clients of the console live.
pub const CONSOLE: WorkerId = WorkerId(0);
/// Where passwords are looked up in databases that have no home.
pub const HOMELESS: WorkerId = WorkerId(0);

/// The homes of databases.
#[derive(Debug)]
pub struct Homes {
    workers: usize,
    of: Mutex<HashMap<String, WorkerId>>,
}

impl Homes {
    /// No homes, among so many workers.
    pub fn new(workers: usize) -> Self {
        Self { workers, of: Mutex::default() }
    }

    /// Gives each of these databases a home, unless it has one.
    pub fn deal<'a>(&self, databases: impl IntoIterator<Item = &'a String>) {
        for database in databases {
            self.settle(database);
        }
    }

    /// The home of a database, if it has one.
    pub fn of(&self, database: &str) -> Option<WorkerId> {
        lock(&self.of).get(database).copied()
    }

    /// The home of a database, from now on: where the fewest have theirs.
    pub fn settle(&self, database: &str) -> WorkerId {
        let mut homes = lock(&self.of);
        if let Some(home) = homes.get(database) {
            return *home;
        }
        let mut counts = vec![0_usize; self.workers.max(1)];
        // The first worker has the console, and accepts.
        for home in homes.values().chain([&CONSOLE]) {
            counts.iter_mut().skip(home.0).take(1).for_each(|count| *count += 1);
        }
        let fewest = counts.iter().enumerate().min_by_key(|(_, count)| **count);
        let home = WorkerId(fewest.map_or(0, |(number, _)| number));
        homes.insert(database.to_owned(), home);
        home
    }

    /// Forgets the homes at this worker that are not in use: which databases had them.
    pub fn forget(&self, worker: WorkerId, in_use: impl Fn(&str) -> bool) -> Vec<String> {
        let gone = |database: &String, home: &mut WorkerId| *home == worker && !in_use(database);
        lock(&self.of).extract_if(gone).map(|(database, _)| database).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn databases_are_spread_evenly_and_keep_their_homes() {
        let homes = Homes::new(3);
        let names: Vec<String> = (0..8).map(|number| format!("db{number}")).collect();
        homes.deal(&names);
        let dealt: Vec<usize> = names.iter().map(|name| homes.settle(name).0).collect();
        assert_eq!(dealt, [1, 2, 0, 1, 2, 0, 1, 2]);
        assert_eq!(homes.of("db5"), Some(WorkerId(0)));
        assert_eq!(homes.of("other"), None, "asking gives no home");
    }

    #[test]
    fn a_home_is_forgotten_by_its_worker_alone_and_used_again() {
        let homes = Homes::new(2);
        assert_eq!([homes.settle("a"), homes.settle("b"), homes.settle("c")], [1, 0, 1].map(WorkerId));
        assert_eq!(homes.forget(WorkerId(1), |database| database == "c"), ["a"]);
        assert_eq!([homes.of("a"), homes.of("b"), homes.of("c")], [None, Some(WorkerId(0)), Some(WorkerId(1))]);
        assert_eq!(homes.settle("d"), WorkerId(1), "there is room again");
    }

    #[test]
    fn a_single_worker_serves_all() {
        let homes = Homes::new(1);
        assert_eq!([homes.settle("a"), homes.settle("b")], [CONSOLE; 2]);
    }
}
