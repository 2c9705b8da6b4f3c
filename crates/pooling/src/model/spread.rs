//! The assignment of databases to workers, and the choice of the worker for a client.
//!
//! If a client has a worker to itself, each of its statements costs a wakeup of that worker, and no two statements
//! share a system call. So a database has one worker until that worker is busy with it; then the number of its workers
//! doubles, up to its bounds. The number is halved when the workers have been idle for the most part for a while.

use std::collections::{BTreeMap, HashMap};

/// The part of the time of its members above which a database gets more of them.
const BUSY: f64 = 0.7;
/// The part of the time of half of its members below which a database is calm.
const CALM: f64 = 0.35;
/// The number of calm rounds in a row after which a database gets half as many members.
const ROUNDS: u32 = 10;
/// The number of clients for each member at least: fewer are not worth a worker.
const CLIENTS: usize = 8;

/// The number of workers that may serve a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bounds {
    /// The number from its first client on.
    pub least: usize,
    /// The number at most, however busy they are.
    pub most: usize,
}

/// A database has as many clients as it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

/// Clients that are to move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Excess {
    /// The number of clients.
    pub clients: usize,
    /// The worker that they move to.
    pub to: usize,
}

#[derive(Debug)]
struct Database {
    /// The workers that serve the database, the first one from its first client on.
    members: Vec<usize>,
    bounds: Bounds,
    /// The numbers of its clients, by worker.
    clients: Vec<usize>,
    /// The part of each worker's time that the database took in the last round.
    load: Vec<f64>,
    /// The number of rounds in a row in which half of the members would have done.
    calm: u32,
}

impl Database {
    fn total(&self) -> usize {
        self.clients.iter().sum()
    }

    /// The member with the fewest clients.
    fn emptiest(&self) -> usize {
        let by_clients = self.members.iter().min_by_key(|member| self.clients.get(**member).copied().unwrap_or(0));
        by_clients.copied().unwrap_or(0)
    }

    /// The number of members that the database should have.
    fn wanted(&mut self) -> usize {
        let now = self.members.len();
        let Bounds { least, most } = self.bounds;
        let load: f64 = self.load.iter().sum();
        let worth = most.min(self.total() / CLIENTS).max(least);
        self.calm = if load < CALM * now.div_ceil(2) as f64 { self.calm + 1 } else { 0 };
        // The bounds of the database may have become lower.
        if now > most.max(1) {
            most.max(1)
        } else if now < least || load > BUSY * now as f64 {
            (now * 2).clamp(least, worth.max(now))
        } else if self.calm >= ROUNDS && now > least {
            now.div_ceil(2).max(least)
        } else {
            now
        }
    }
}

/// The workers of each database.
#[derive(Debug)]
pub struct Spread {
    workers: usize,
    /// The part of its time that each worker was busy in the last round.
    busy: Vec<f64>,
    databases: HashMap<String, Database>,
}

impl Spread {
    /// No databases, and this many workers.
    pub fn new(workers: usize) -> Self {
        let workers = workers.max(1);
        Self { workers, busy: vec![0.0; workers], databases: HashMap::new() }
    }

    /// The first worker of a database, if it has any.
    pub fn first(&self, name: &str) -> Option<usize> {
        self.databases.get(name)?.members.first().copied()
    }

    /// The workers that serve a database, the first one first.
    pub fn members(&self, name: &str) -> &[usize] {
        self.databases.get(name).map_or(&[], |database| &database.members)
    }

    /// The databases that have workers.
    pub fn names(&self) -> Vec<String> {
        self.databases.keys().cloned().collect()
    }

    /// The databases that have clients, with their numbers.
    pub fn in_use(&self) -> impl Iterator<Item = (&str, usize)> {
        let totals = self.databases.iter().map(|(name, database)| (name.as_str(), database.total()));
        totals.filter(|(_, clients)| *clients > 0)
    }

    /// Gives a database its first workers, unless it has them: those that serve the fewest databases. Other bounds than
    /// before count when the round ends.
    pub fn settle(&mut self, name: &str, bounds: Bounds) {
        if let Some(database) = self.databases.get_mut(name) {
            database.bounds = bounds;
            return;
        }
        let fresh = Database {
            members: Vec::new(),
            bounds,
            clients: vec![0; self.workers],
            load: vec![0.0; self.workers],
            calm: 0,
        };
        self.databases.insert(name.to_owned(), fresh);
        self.fit(name, bounds.least.max(1));
    }

    /// Brings a database to at least this many members.
    fn fit(&mut self, name: &str, count: usize) {
        let mut served = vec![0_usize; self.workers];
        // The first worker has the console, and accepts.
        served.iter_mut().take(1).for_each(|count| *count += 1);
        for member in self.databases.values().flat_map(|database| &database.members) {
            served.iter_mut().skip(*member).take(1).for_each(|count| *count += 1);
        }
        let Some(database) = self.databases.get_mut(name) else { return };
        while database.members.len() < count.min(self.workers) {
            let free = (0..self.workers).filter(|worker| !database.members.contains(worker));
            // Among workers that are about as busy, the one with the fewest databases.
            let rank = |worker: &usize| {
                let tenths = self.busy.get(*worker).map_or(0, |busy| (busy * 10.0) as usize);
                (tenths, served.get(*worker).copied())
            };
            let Some(next) = free.min_by_key(rank) else { return };
            database.members.push(next);
        }
    }

    /// Counts a client of a database, unless the database has `most` already (0: no limit); gives the client's worker.
    pub fn enter(&mut self, name: &str, bounds: Bounds, most: usize) -> Result<usize, Full> {
        self.settle(name, bounds);
        let Some(database) = self.databases.get_mut(name) else { return Ok(0) };
        if most > 0 && database.total() >= most {
            return Err(Full);
        }
        let worker = database.emptiest();
        database.clients.iter_mut().skip(worker).take(1).for_each(|count| *count += 1);
        Ok(worker)
    }

    /// Counts a client of a database that has left this worker.
    pub fn leave(&mut self, name: &str, worker: usize) {
        let count = self.databases.get_mut(name).and_then(|database| database.clients.get_mut(worker));
        if let Some(count) = count {
            debug_assert!(*count > 0, "a client leaves a worker that it did not come to");
            *count = count.saturating_sub(1);
        }
    }

    /// Counts a client of a database that moves from one worker to another.
    pub fn change(&mut self, name: &str, from: usize, to: usize) {
        self.leave(name, from);
        if let Some(count) = self.databases.get_mut(name).and_then(|database| database.clients.get_mut(to)) {
            *count += 1;
        }
    }

    /// Notes the part of its time for which a worker was busy since its last report, and its division: statements by
    /// database.
    pub fn report(&mut self, worker: usize, busy: f64, statements: &BTreeMap<String, u64>) {
        self.busy.iter_mut().skip(worker).take(1).for_each(|known| *known = busy);
        let all: u64 = statements.values().sum();
        for (name, database) in &mut self.databases {
            let own = statements.get(name).copied().unwrap_or(0);
            let share = busy * own as f64 / all.max(1) as f64;
            database.load.iter_mut().skip(worker).take(1).for_each(|known| *known = share);
        }
    }

    /// Ends a round: databases get more members or fewer. Gives the databases whose members have changed, and their new
    /// numbers.
    pub fn decide(&mut self) -> Vec<(String, usize)> {
        let mut changed = Vec::new();
        let names: Vec<String> = self.databases.keys().cloned().collect();
        for name in names {
            let Some(database) = self.databases.get_mut(&name) else { continue };
            let (before, wanted) = (database.members.len(), database.wanted().min(self.workers));
            if wanted == before {
                continue;
            }
            database.calm = 0;
            database.members.truncate(wanted.max(1));
            self.fit(&name, wanted);
            changed.push((name, wanted));
        }
        changed
    }

    /// The clients of a database that must move away from this worker: their number for each other member.
    pub fn excess(&self, name: &str, worker: usize) -> Vec<Excess> {
        let Some(database) = self.databases.get(name) else { return Vec::new() };
        let at = |worker: usize| database.clients.get(worker).copied().unwrap_or(0);
        let fair = database.total().div_ceil(database.members.len().max(1));
        let mut left = match database.members.contains(&worker) {
            // A few more or fewer make no difference.
            true if at(worker) <= fair + fair / 8 => 0,
            true => at(worker) - fair,
            false => at(worker),
        };
        let mut excess = Vec::new();
        for &to in database.members.iter().filter(|member| **member != worker) {
            let clients = left.min(fair.saturating_sub(at(to)));
            if clients > 0 {
                excess.push(Excess { clients, to });
                left -= clients;
            }
        }
        excess
    }

    /// Forgets the databases whose first worker this is, that have no clients and are not in use here.
    pub fn forget(&mut self, worker: usize, in_use: impl Fn(&str) -> bool) -> Vec<String> {
        let gone = |name: &String, database: &mut Database| {
            database.members.first() == Some(&worker) && database.total() == 0 && !in_use(name)
        };
        self.databases.extract_if(gone).map(|(name, _)| name).collect()
    }
}

#[cfg(test)]
mod tests;
