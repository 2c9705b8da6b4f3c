//! The workers of each database, and the number of its clients on each of them.
//!
//! The configuration says how many workers serve a database. The server connections of each of its pools are shared out
//! among them ([`Spread::share`]). A client gets the worker with the most connections left for it, and stays there.

use std::collections::HashMap;

/// A database has as many clients as it may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Full;

#[derive(Debug, Default)]
struct Database {
    /// The workers that serve the database.
    members: Vec<usize>,
    /// The numbers of its clients, by the user of their pool, and by worker.
    clients: HashMap<Box<str>, Vec<usize>>,
}

impl Database {
    fn total(&self) -> usize {
        self.clients.values().flatten().sum()
    }

    /// The part of a number that the member in a place has of what all members have together.
    fn share(&self, place: usize, all: usize) -> usize {
        let members = self.members.len().max(1);
        all / members + usize::from(place < all % members)
    }
}

/// The workers of all databases.
#[derive(Debug)]
pub struct Spread {
    workers: usize,
    databases: HashMap<String, Database>,
}

impl Spread {
    /// No databases, and this many workers.
    pub fn new(workers: usize) -> Self {
        Self { workers: workers.max(1), databases: HashMap::new() }
    }

    /// The first worker of a database, if it has any.
    pub fn first(&self, name: &str) -> Option<usize> {
        self.members(name).first().copied()
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

    /// Gives a database this number of workers, those that serve the fewest databases. While it has clients, it keeps the
    /// workers that it has.
    pub fn settle(&mut self, name: &str, wanted: usize) {
        let mut served = vec![0_usize; self.workers];
        // The first worker has the console, and accepts.
        served.iter_mut().take(1).for_each(|count| *count += 1);
        for member in self.databases.values().flat_map(|database| &database.members) {
            served.iter_mut().skip(*member).take(1).for_each(|count| *count += 1);
        }
        let database = self.databases.entry(name.to_owned()).or_default();
        if database.total() > 0 {
            return;
        }
        let wanted = wanted.clamp(1, self.workers);
        database.members.truncate(wanted);
        while database.members.len() < wanted {
            let free = (0..self.workers).filter(|worker| !database.members.contains(worker));
            let Some(next) = free.min_by_key(|worker| served.get(*worker).copied()) else { return };
            database.members.push(next);
        }
    }

    /// Counts a client of a database that has workers, unless the database has `most` clients already (0: no limit);
    /// gives the client's worker. Of its pool's `size`, that one has the most left for one more client.
    pub fn enter(&mut self, (name, user): (&str, &str), size: usize, most: usize) -> Result<usize, Full> {
        let workers = self.workers;
        let Some(database) = self.databases.get_mut(name) else { return Ok(0) };
        if most > 0 && database.total() >= most {
            return Err(Full);
        }
        let clients = |worker: usize| database.clients.get(user).and_then(|clients| clients.get(worker)).copied();
        let left = |place: usize, worker: usize| {
            let (share, clients) = (database.share(place, size), clients(worker).unwrap_or(0));
            let all: usize = database.clients.values().filter_map(|clients| clients.get(worker)).sum();
            (share == 0, clients as isize - share as isize, all)
        };
        let members = database.members.iter().copied().enumerate();
        let worker = members.min_by_key(|(place, worker)| left(*place, *worker)).map_or(0, |(_, worker)| worker);
        let clients = database.clients.entry(user.into()).or_insert_with(|| vec![0; workers]);
        clients.iter_mut().skip(worker).take(1).for_each(|count| *count += 1);
        Ok(worker)
    }

    /// Counts a client of a database that has left this worker.
    pub fn leave(&mut self, (name, user): (&str, &str), worker: usize) {
        let Some(database) = self.databases.get_mut(name) else { return };
        let Some(clients) = database.clients.get_mut(user) else { return };
        if let Some(count) = clients.get_mut(worker) {
            debug_assert!(*count > 0, "a client leaves a worker that it did not come to");
            *count = count.saturating_sub(1);
        }
        // Users come and go.
        if clients.iter().all(|count| *count == 0) {
            database.clients.remove(user);
        }
    }

    /// The part of a number that a worker has of what all workers of a database have together.
    pub fn share(&self, name: &str, worker: usize, all: usize) -> usize {
        // Passwords are looked up before a database has workers.
        let Some(database) = self.databases.get(name) else { return all };
        let place = database.members.iter().position(|member| *member == worker);
        place.map_or(0, |place| database.share(place, all))
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
