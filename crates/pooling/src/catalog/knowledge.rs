//! What all workers know of one database: its catalog, and which definitions they have seen since it was read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use classify::Catalog;
use wire::login::Account;

use crate::config::Config;
use crate::io::Wake;
use crate::monitor::address::Address;
use crate::sync::lock;

/// A catalog that nobody has compared with the server for so long may be another by now. Databases that are in use are
/// compared every few seconds.
const OLD: Duration = Duration::from_secs(60);
/// After so long without use the reader no longer looks by itself, and is woken.
const ASLEEP: Duration = Duration::from_secs(2);

/// Which database it is: its names among clients may be several.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// The cluster that it is on, or the hosts of its entry.
    pub servers: Servers,
    /// Its name on the server.
    pub database: String,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let database = &self.database;
        match &self.servers {
            Servers::Cluster(name) => write!(f, "database {database} of the cluster {name}"),
            Servers::Hosts(hosts, port) if hosts.is_empty() => write!(f, "database {database} on port {port}"),
            Servers::Hosts(hosts, port) => write!(f, "database {database} on {}:{port}", hosts.join(",")),
        }
    }
}

/// Which servers a database is on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Servers {
    /// A cluster, by its name.
    Cluster(String),
    /// Hosts, and their port.
    Hosts(Vec<String>, u16),
}

impl Place {
    /// Where a database is that clients call so.
    pub fn of(config: &Config, name: &str) -> Option<Self> {
        let entry = config.database(name)?;
        let servers = match config.cluster_of(name) {
            Some(cluster) => Servers::Cluster(cluster.to_owned()),
            None => Servers::Hosts(entry.hosts.clone(), entry.port.unwrap_or(5432)),
        };
        Some(Self { servers, database: entry.dbname.clone().unwrap_or_else(|| name.to_owned()) })
    }
}

/// How a server was logged in to last: good for one more connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// The host as it is configured.
    pub host: String,
    /// The port.
    pub port: u16,
    /// Where that led.
    pub address: Address,
    /// In whose name.
    pub account: Account,
}

impl Way {
    /// Whether another leads to the same server, in whosever name.
    pub fn leads_to(&self, other: &Self) -> bool {
        (&self.host, self.port, &self.address) == (&other.host, other.port, &other.address)
    }
}

/// What is known of one database.
#[derive(Debug)]
pub struct Knowledge {
    /// Which database.
    pub place: Place,
    /// Definitions that workers have seen end.
    changes: AtomicU64,
    /// Those that are being run.
    under_way: AtomicU64,
    /// The changes that the catalog has in it.
    as_of: AtomicU64,
    /// When the server was asked last whether it is still the catalog, in milliseconds since `made`.
    confirmed: AtomicU64,
    /// Likewise when the database was used last.
    used: AtomicU64,
    made: Instant,
    /// Something may be in the catalog by now that was not.
    wanted: AtomicBool,
    /// The reader's connection is in the way.
    crowded: AtomicBool,
    /// Definitions that may have changed what a text means, as seen by workers and by the reader.
    renewals: AtomicU64,
    /// Counts the catalogs that were posted.
    posted: AtomicU64,
    catalog: RwLock<Arc<Catalog>>,
    way: Mutex<Option<Way>>,
    bell: Arc<Bell>,
}

impl Knowledge {
    fn new(place: Place, bell: Arc<Bell>, made: Instant) -> Self {
        Self {
            place,
            changes: AtomicU64::new(0),
            under_way: AtomicU64::new(0),
            as_of: AtomicU64::new(0),
            confirmed: AtomicU64::new(0),
            used: AtomicU64::new(0),
            made,
            wanted: AtomicBool::new(false),
            crowded: AtomicBool::new(false),
            posted: AtomicU64::new(0),
            renewals: AtomicU64::new(0),
            catalog: RwLock::default(),
            way: Mutex::new(None),
            bell,
        }
    }

    fn moment(&self, when: Instant) -> u64 {
        u64::try_from(when.saturating_duration_since(self.made).as_millis()).unwrap_or(u64::MAX)
    }

    /// Whether nothing that the catalog says can be relied on: a definition has been seen that it does not have in it, or
    /// it is old.
    pub fn is_doubtful(&self, now: Instant) -> bool {
        let age = self.moment(now).saturating_sub(self.confirmed.load(Ordering::SeqCst));
        self.under_way.load(Ordering::SeqCst) > 0 || self.is_behind() || Duration::from_millis(age) >= OLD
    }

    /// Whether definitions have ended that the catalog does not have in it.
    pub fn is_behind(&self) -> bool {
        self.changes.load(Ordering::SeqCst) != self.as_of.load(Ordering::SeqCst)
    }

    /// A definition has been run, or may have been. It counts from when its client is told at the latest.
    pub fn changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.bell.ring();
    }

    /// Something was named that the catalog does not have in it.
    pub fn want(&self) {
        if !self.wanted.swap(true, Ordering::SeqCst) {
            self.bell.ring();
        }
    }

    /// Whether that has happened since the server was asked last.
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst)
    }

    /// The server has no room for one more connection: the reader's is to go.
    pub fn leave_room(&self) {
        if !self.crowded.swap(true, Ordering::SeqCst) {
            self.bell.ring();
        }
    }

    /// Whether that has happened since this was asked last.
    pub fn is_crowded(&self) -> bool {
        self.crowded.swap(false, Ordering::SeqCst)
    }

    /// The server is about to be asked: how many changes have been seen before.
    pub fn begin_round(&self) -> u64 {
        self.wanted.store(false, Ordering::SeqCst);
        self.changes.load(Ordering::SeqCst)
    }

    /// Counts the definitions that may have changed what a text means: PostgreSQL does not infer the types of a prepared
    /// statement's parameters again, nor take another table or function that hides the one that was found, so those who
    /// prepare a statement afterwards must not meet one from before.
    pub fn renewals(&self) -> u64 {
        self.renewals.load(Ordering::SeqCst)
    }

    /// Definitions have been found that no worker may have seen.
    pub fn renew(&self) {
        self.renewals.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes another catalog; it is in force when it is confirmed.
    pub fn post(&self, catalog: Arc<Catalog>) {
        *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = catalog;
        self.posted.fetch_add(1, Ordering::SeqCst);
    }

    /// The catalog is that of the server, which was asked after so many changes, at this moment.
    pub fn confirm(&self, changes: u64, asked: Instant) {
        self.confirmed.store(self.moment(asked), Ordering::SeqCst);
        self.as_of.store(changes, Ordering::SeqCst);
    }

    /// The number of the last catalog: another catalog, another number.
    pub fn number(&self) -> u64 {
        self.posted.load(Ordering::SeqCst)
    }

    /// Grows with each definition that is seen and each catalog that is posted.
    pub fn mark(&self) -> u64 {
        self.changes.load(Ordering::SeqCst).wrapping_add(self.number())
    }

    /// The last catalog; an empty one before the first.
    pub fn catalog(&self) -> Arc<Catalog> {
        self.catalog.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A pool has logged in so.
    pub fn reached(&self, way: Way, now: Instant) {
        let first = lock(&self.way).replace(way).is_none();
        self.touch(now);
        if first {
            self.bell.ring();
        }
    }

    /// How to log in, once somebody has.
    pub fn way(&self) -> Option<Way> {
        lock(&self.way).clone()
    }

    /// The database is in use.
    pub fn touch(&self, now: Instant) {
        let (now, before) = (self.moment(now), self.used.load(Ordering::Relaxed));
        let since = Duration::from_millis(now.saturating_sub(before));
        // Most often nothing is written, so that workers do not take the line from each other's caches.
        if since >= ASLEEP / 4 {
            self.used.store(now, Ordering::Relaxed);
        }
        if since >= ASLEEP {
            self.bell.ring();
        }
    }

    /// How long it has not been in use.
    pub fn unused(&self, now: Instant) -> Duration {
        Duration::from_millis(self.moment(now).saturating_sub(self.used.load(Ordering::Relaxed)))
    }
}

/// A definition on a server connection. When this is dropped, the definition has been committed, or may have been.
#[derive(Debug)]
pub struct Definition {
    knowledge: Arc<Knowledge>,
    /// It may be committed at any moment.
    under_way: bool,
    /// It may change what others' tables are: their statements are read anew.
    renews: bool,
}

impl Definition {
    /// A definition is about to be sent, or has been run, outside a transaction block as far as is known.
    pub fn new(knowledge: Arc<Knowledge>) -> Self {
        knowledge.under_way.fetch_add(1, Ordering::SeqCst);
        Self { knowledge, under_way: true, renews: false }
    }

    /// It may change tables that others know.
    pub fn renew(&mut self) {
        self.renews = true;
    }

    /// Its transaction is about to be committed.
    pub fn commit(&mut self) {
        if !self.under_way {
            self.under_way = true;
            self.knowledge.under_way.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Its transaction is open: nobody else sees it yet.
    pub fn wait(&mut self) {
        if std::mem::take(&mut self.under_way) {
            self.knowledge.under_way.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Drop for Definition {
    fn drop(&mut self) {
        // In this order: there is no moment at which it neither runs nor has run.
        if self.renews {
            self.knowledge.renew();
        }
        self.knowledge.changed();
        self.wait();
    }
}

/// What wakes the reader.
#[derive(Debug)]
struct Bell {
    waker: Box<dyn Wake>,
    /// It has been rung and not heard.
    rung: AtomicBool,
}

impl Bell {
    fn ring(&self) {
        if !self.rung.swap(true, Ordering::SeqCst) {
            // It fails only when the kernel has no memory left for an event; the reader looks by itself now and then.
            self.waker.wake();
        }
    }
}

/// What is known of all databases.
#[derive(Debug)]
pub struct Library {
    databases: Mutex<HashMap<Place, Weak<Knowledge>>>,
    bell: Arc<Bell>,
    /// When the pooler started.
    started: Instant,
}

impl Library {
    /// One that is empty; `waker` wakes the reader.
    pub fn new(waker: Box<dyn Wake>, started: Instant) -> Self {
        let bell = Arc::new(Bell { waker, rung: AtomicBool::new(false) });
        Self { databases: Mutex::default(), bell, started }
    }

    /// What is known of a database; forgotten when nobody holds it.
    pub fn knowledge(&self, place: Place) -> Arc<Knowledge> {
        let mut databases = lock(&self.databases);
        if let Some(known) = databases.get(&place).and_then(Weak::upgrade) {
            return known;
        }
        databases.retain(|_, known| known.strong_count() > 0);
        let fresh = Arc::new(Knowledge::new(place.clone(), self.bell.clone(), self.started));
        databases.insert(place, Arc::downgrade(&fresh));
        fresh
    }

    /// All databases that somebody holds.
    pub fn all(&self) -> Vec<Arc<Knowledge>> {
        lock(&self.databases).values().filter_map(Weak::upgrade).collect()
    }

    /// The reader is awake.
    pub fn heard(&self) {
        self.bell.rung.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    fn known() -> Arc<Knowledge> {
        let library = Library::new(Box::new(Memory::default().poll().waker()), Instant::now());
        let place = Place { servers: Servers::Hosts(Vec::new(), 5432), database: "d".to_owned() };
        let known = library.knowledge(place.clone());
        assert!(Arc::ptr_eq(&known, &library.knowledge(place)), "one for all who ask");
        known
    }

    #[test]
    fn a_definition_is_doubted_from_its_beginning_until_it_is_read() {
        let known = known();
        let now = Instant::now();
        assert!(!known.is_doubtful(now));
        let definition = Definition::new(known.clone());
        assert!(known.is_doubtful(now), "it may be committed at any moment");
        // What is read meanwhile may not have it.
        let early = known.begin_round();
        known.confirm(early, now);
        assert!(known.is_doubtful(now));
        drop(definition);
        known.confirm(early, now);
        assert!(known.is_doubtful(now), "what was asked for before does not count");
        known.confirm(known.begin_round(), now);
        assert!(!known.is_doubtful(now));
    }

    #[test]
    fn in_a_transaction_it_matters_when_that_ends() {
        let known = known();
        let now = Instant::now();
        let mut definition = Definition::new(known.clone());
        definition.wait();
        assert!(!known.is_doubtful(now));
        definition.commit();
        assert!(known.is_doubtful(now));
        drop(definition);
        assert!(known.is_doubtful(now));
        known.confirm(known.begin_round(), now);
        assert!(!known.is_doubtful(now));
    }

    #[test]
    fn a_catalog_that_nobody_confirms_grows_old() {
        let known = known();
        let now = Instant::now();
        known.confirm(known.begin_round(), now);
        assert!(!known.is_doubtful(now + OLD / 2));
        assert!(known.is_doubtful(now + OLD));
        known.confirm(known.begin_round(), now + OLD);
        assert!(!known.is_doubtful(now + OLD));
    }

    #[test]
    fn what_nobody_holds_is_forgotten() {
        let library = Library::new(Box::new(Memory::default().poll().waker()), Instant::now());
        let place = |name: &str| Place { servers: Servers::Hosts(Vec::new(), 5432), database: name.to_owned() };
        for number in 0..100 {
            library.knowledge(place(&number.to_string()));
        }
        let held = library.knowledge(place("held"));
        assert_eq!(library.all().len(), 1);
        assert_eq!(lock(&library.databases).len(), 1);
        drop(held);
        assert!(library.all().is_empty());
    }
}
