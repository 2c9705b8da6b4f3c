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
use crate::model::{Full, Spread};

use crate::config::Config;
use crate::sync::lock;

/// The worker of the console's clients.
pub const CONSOLE: WorkerId = WorkerId(0);
/// The worker that looks passwords up in databases without a worker.
pub const UNASSIGNED: WorkerId = WorkerId(0);

/// The server connections that keep one worker busy: a server takes several times the processor time that the pooler takes
/// for a statement.
const BUSY: usize = 32;

/// The workers of databases.
#[derive(Debug)]
pub struct Assignment {
    workers: usize,
    spread: Mutex<Spread>,
}

impl Assignment {
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

    /// Gives each database that is named in a configuration, or has workers, and that has no clients, as many workers as
    /// the configuration says.
    pub fn deal(&self, config: &Config) {
        let known = lock(&self.spread).names();
        for database in config.named_databases().chain(&known).filter(|name| config.front_of(name) == **name) {
            let wanted = self.wanted(config, database);
            lock(&self.spread).settle(database, wanted);
        }
    }

    /// The number of workers that serve a database. Each must have server connections enough that reads can be pipelined
    /// on one while another is checked out; and limits that pools share are kept within one worker.
    fn wanted(&self, config: &Config, database: &str) -> usize {
        let size = config.pool_size(database, config.pool_user(database, ""));
        let most = if config.shares_limits(database) { 1 } else { self.workers.min(size / 2).max(1) };
        match config.settings.database_workers {
            0 => (size / BUSY).clamp(1, most),
            wanted => wanted.min(most),
        }
    }

    /// Gives a database that has no workers yet those that it needs, and a client one of them.
    fn enter(&self, config: &Config, database: &str, user: &str, most: usize) -> Result<WorkerId, Full> {
        let mut spread = lock(&self.spread);
        if spread.first(database).is_none() {
            spread.settle(database, self.wanted(config, database));
        }
        spread.enter((database, user), config.pool_size(database, user), most).map(WorkerId)
    }

    /// The part that a worker has of what all workers of a database have together.
    pub fn share(&self, worker: WorkerId, database: &str, all: usize) -> usize {
        lock(&self.spread).share(database, worker.0, all)
    }

    /// The first worker of a database, if it has one.
    pub fn of(&self, database: &str) -> Option<WorkerId> {
        lock(&self.spread).first(database).map(WorkerId)
    }

    /// Whether this worker is one of those that serve a database.
    pub fn serves(&self, worker: WorkerId, database: &str) -> bool {
        lock(&self.spread).members(database).contains(&worker.0)
    }

    /// Forgets the databases whose first worker this is and that are not in use here; gives their names.
    pub fn forget(&self, worker: WorkerId, in_use: impl Fn(&str) -> bool) -> Vec<String> {
        lock(&self.spread).forget(worker.0, in_use)
    }
}

/// A client's place at a worker of its database. The place is given back when it is dropped.
pub struct Place {
    assignment: Arc<Assignment>,
    database: Box<str>,
    /// The user of the client's pool when it came.
    user: Box<str>,
    worker: WorkerId,
}

impl Place {
    /// A place for one more client of a database, of this user, unless the database has `max_db_client_connections` of
    /// them.
    pub fn take(assignment: &Arc<Assignment>, config: &Config, database: &str, user: &str) -> Result<Self, Full> {
        let user = config.pool_user(database, user);
        let worker = assignment.enter(config, database, user, config.database_clients(database))?;
        Ok(Self { assignment: assignment.clone(), database: database.into(), user: user.into(), worker })
    }

    /// A place for a client of this pool's user that was accepted already.
    pub fn take_one_more(assignment: &Arc<Assignment>, config: &Config, database: &str, user: &str) -> Self {
        // Without a limit there is a place.
        let worker = assignment.enter(config, database, user, 0).unwrap_or(CONSOLE);
        Self { assignment: assignment.clone(), database: database.into(), user: user.into(), worker }
    }

    /// The worker.
    pub fn worker(&self) -> WorkerId {
        self.worker
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.assignment.spread).leave((&self.database, &self.user), self.worker.0);
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Place").field("worker", &self.worker).finish_non_exhaustive()
    }
}
