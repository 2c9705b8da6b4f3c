//! The assignment of databases to workers ([`crate::model::Spread`]), and the places of clients on these workers.
//!
//! The databases of the configuration get their workers when the configuration is read. A database that only `*` covers
//! gets a worker when the first client that asks for it is authenticated, and loses the worker when no connection of
//! the database is open any more. So without a password no client can fill the list, or decide which databases share a
//! worker.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use crate::model::keys::WorkerId;
use crate::model::{Bounds, Excess, Full, Spread};

use crate::config::Config;
use crate::sync::lock;

/// The worker of the console's clients.
pub const CONSOLE: WorkerId = WorkerId(0);
/// The worker that looks passwords up in databases without a worker.
pub const HOMELESS: WorkerId = WorkerId(0);

/// The workers of databases.
#[derive(Debug)]
pub struct Homes {
    workers: usize,
    spread: Mutex<Spread>,
}

impl Homes {
    /// No databases, and this number of workers.
    pub fn new(workers: usize) -> Self {
        Self { workers, spread: Mutex::new(Spread::new(workers)) }
    }

    /// The databases that this configuration serves and the other one does not, with the numbers of their clients.
    pub fn deserted(&self, config: &Config, other: &Config) -> BTreeMap<String, usize> {
        let spread = lock(&self.spread);
        let lost =
            spread.in_use().filter(|(name, _)| config.database(name).is_some() && other.database(name).is_none());
        lost.map(|(name, clients)| (name.to_owned(), clients)).collect()
    }

    /// Gives each database that is named in a configuration its workers, unless it has them. The numbers of workers,
    /// for all databases that have some, are those of the configuration.
    pub fn deal(&self, config: &Config) {
        let known = lock(&self.spread).names();
        for database in config.named_databases().chain(&known) {
            lock(&self.spread).settle(database, self.bounds(config, database));
        }
    }

    /// The number of workers that may serve a database. Each must have server connections enough that reads can be
    /// pipelined on one while another is checked out; and limits that pools share are kept within one worker.
    fn bounds(&self, config: &Config, database: &str) -> Bounds {
        let size = config.pool_size(database, config.pool_user(database, ""));
        let most = if config.shares_limits(database) { 1 } else { self.workers.min(size / 2).max(1) };
        match config.settings.database_workers {
            0 => Bounds { least: 1, most },
            wanted => Bounds { least: wanted.min(most), most: wanted.min(most) },
        }
    }

    /// The first worker of a database, if it has one.
    pub fn of(&self, database: &str) -> Option<WorkerId> {
        lock(&self.spread).first(database).map(WorkerId)
    }

    /// Whether this worker is one of those that serve a database.
    pub fn serves(&self, worker: WorkerId, database: &str) -> bool {
        lock(&self.spread).members(database).contains(&worker.0)
    }

    /// Counts a worker's time and its statements by database since its last report.
    pub fn report(&self, worker: WorkerId, busy: f64, statements: &BTreeMap<String, u64>) {
        lock(&self.spread).report(worker.0, busy, statements);
    }

    /// Gives databases more workers or fewer; gives these databases and their new numbers. Called once a second.
    pub fn decide(&self) -> Vec<(String, usize)> {
        lock(&self.spread).decide()
    }

    /// The clients of a database that are to move away from this worker.
    pub fn excess(&self, worker: WorkerId, database: &str) -> Vec<Excess> {
        lock(&self.spread).excess(database, worker.0)
    }

    /// Forgets the databases whose first worker this is and that are not in use here; gives their names.
    pub fn forget(&self, worker: WorkerId, in_use: impl Fn(&str) -> bool) -> Vec<String> {
        lock(&self.spread).forget(worker.0, in_use)
    }
}

/// A client's place at a worker of its database. The place is given back when it is dropped.
pub struct Place {
    homes: Arc<Homes>,
    database: Box<str>,
    worker: WorkerId,
}

impl Place {
    /// A place for one more client of a database, unless it has `max_db_client_connections` of them.
    pub fn take(homes: &Arc<Homes>, config: &Config, database: &str) -> Result<Self, Full> {
        let (bounds, most) = (homes.bounds(config, database), config.database_clients(database));
        let worker = WorkerId(lock(&homes.spread).enter(database, bounds, most)?);
        Ok(Self { homes: homes.clone(), database: database.into(), worker })
    }

    /// A place for a client that was accepted already.
    pub fn take_one_more(homes: &Arc<Homes>, config: &Config, database: &str) -> Self {
        // Without a limit there is a place.
        let entered = lock(&homes.spread).enter(database, homes.bounds(config, database), 0);
        Self { homes: homes.clone(), database: database.into(), worker: entered.map_or(CONSOLE, WorkerId) }
    }

    /// The worker.
    pub fn worker(&self) -> WorkerId {
        self.worker
    }

    /// Changes the place for one at another worker.
    pub fn change(&mut self, to: WorkerId) {
        lock(&self.homes.spread).change(&self.database, self.worker.0, to.0);
        self.worker = to;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.homes.spread).leave(&self.database, self.worker.0);
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Place").field("worker", &self.worker).finish_non_exhaustive()
    }
}
