//! The knowledge of all workers about one database: its catalog, and the definitions that they have seen since it was
//! read.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock, Weak};
use std::time::{Duration, Instant};

use classify::Catalog;
use sharding::Automatic;
use wire::login::Account;

use crate::catalog::shard_map::ShardMap;
use crate::config::Config;
use crate::io::Wake;
use crate::model::quota::Limit;
use crate::monitor::address::Address;
use crate::sync::lock;

/// The time after which a catalog that was not compared with the server may be outdated. Databases that are in use are
/// compared every few seconds.
const OLD: Duration = Duration::from_secs(60);
/// The time without use after which the reader no longer looks by itself, and is woken.
const ASLEEP: Duration = Duration::from_secs(2);

/// The identity of a database, which clients may call by several names.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Place {
    /// The cluster that it is on, or the hosts of its entry.
    pub servers: Servers,
    /// The name of the database on the server.
    pub database: String,
    /// What divides its tables between shards without a hub, of which it is one.
    pub automatic: Option<Arc<Automatic>>,
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

/// The servers that a database is on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Servers {
    /// A cluster, by its name.
    Cluster(String),
    /// Hosts, and their port.
    Hosts(Vec<String>, u16),
}

impl Place {
    /// The place of the database that clients call by this name.
    pub fn of(config: &Config, name: &str) -> Option<Self> {
        let entry = config.database(name)?;
        let servers = match config.cluster_of(name) {
            Some(cluster) => Servers::Cluster(cluster.to_owned()),
            None => Servers::Hosts(entry.hosts.clone(), entry.port.unwrap_or(5432)),
        };
        let database = entry.dbname.clone().unwrap_or_else(|| name.to_owned());
        Some(Self { servers, database, automatic: entry.automatic().map(Arc::new) })
    }
}

/// The last login to a server, for one more connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Destination {
    /// The host as it is configured.
    pub host: String,
    /// The port.
    pub port: u16,
    /// The address of the host.
    pub address: Address,
    /// The user and the password.
    pub account: Account,
    /// The database as its clients call it: under its limits the connection counts.
    pub database: Box<str>,
}

impl Destination {
    /// Whether the way leads to the same server as another, with whatever account.
    pub fn leads_to(&self, other: &Self) -> bool {
        (&self.host, self.port, &self.address) == (&other.host, other.port, &other.address)
    }
}

/// The knowledge about one database.
#[derive(Debug)]
pub struct Knowledge {
    /// The identity of the database.
    pub place: Place,
    /// The number of definitions that workers have seen end.
    changes: AtomicU64,
    /// The number of definitions that are being run.
    under_way: AtomicU64,
    /// The number of changes that the catalog includes.
    as_of: AtomicU64,
    /// The time of the question by which the catalog was confirmed last, in milliseconds since `made`.
    confirmed: AtomicU64,
    /// The time at which the database was used last, in milliseconds since `made`.
    used: AtomicU64,
    made: Instant,
    /// Whether an object was named that the catalog does not have, but may have by now.
    wanted: AtomicBool,
    /// Whether the reader's connection is in the way.
    crowded: AtomicBool,
    /// The number of definitions that may have changed the meaning of a text, as seen by workers and by the reader.
    renewals: AtomicU64,
    /// The number of catalogs that were posted.
    posted: AtomicU64,
    catalog: RwLock<Arc<Catalog>>,
    way: Mutex<Option<Destination>>,
    bell: Arc<Bell>,
    /// The map of its shards.
    pub shard_map: ShardMap,
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
            shard_map: ShardMap::new(made),
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

    /// Notes that a definition has been run, or may have been. The definition counts at the latest when its client gets
    /// the answer.
    pub fn changed(&self) {
        self.changes.fetch_add(1, Ordering::SeqCst);
        self.bell.ring();
    }

    /// Notes that an object was named that the catalog does not have.
    pub fn want(&self) {
        if !self.wanted.swap(true, Ordering::SeqCst) {
            self.bell.ring();
        }
    }

    /// Whether that has happened since the server was asked last.
    pub fn is_wanted(&self) -> bool {
        self.wanted.load(Ordering::SeqCst)
    }

    /// Has the reader's connection closed: the server has no room for one more. Whether this was not asked before.
    pub fn leave_room(&self) -> bool {
        let is_new = !self.crowded.swap(true, Ordering::SeqCst);
        if is_new {
            self.bell.ring();
        }
        is_new
    }

    /// Whether that has happened since this was asked last.
    pub fn is_crowded(&self) -> bool {
        self.crowded.swap(false, Ordering::SeqCst)
    }

    /// Begins a question to the server; gives the number of changes that were seen before.
    pub fn begin_round(&self) -> u64 {
        self.wanted.store(false, Ordering::SeqCst);
        self.changes.load(Ordering::SeqCst)
    }

    /// The number of definitions that may have changed the meaning of a text: PostgreSQL does not infer the types of a
    /// prepared statement's parameters again, nor take another table or function that hides the one that was found, so
    /// a statement that is prepared afterwards must not be shared with earlier ones.
    pub fn renewals(&self) -> u64 {
        self.renewals.load(Ordering::SeqCst)
    }

    /// Notes definitions that no worker may have seen.
    pub fn renew(&self) {
        self.renewals.fetch_add(1, Ordering::SeqCst);
    }

    /// Takes another catalog; it is in force when it is confirmed.
    pub fn post(&self, catalog: Arc<Catalog>) {
        *self.catalog.write().unwrap_or_else(PoisonError::into_inner) = catalog;
        self.posted.fetch_add(1, Ordering::SeqCst);
    }

    /// Notes that the catalog is the server's, which was asked at this moment, after this number of changes.
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

    /// Notes a login of a pool.
    pub fn reached(&self, way: Destination, now: Instant) {
        let first = lock(&self.way).replace(way).is_none();
        self.touch(now);
        if first {
            self.bell.ring();
        }
    }

    /// The last login, once there was one.
    pub fn way(&self) -> Option<Destination> {
        lock(&self.way).clone()
    }

    /// Notes that the database is in use.
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

    /// The time for which the database has not been in use.
    pub fn unused(&self, now: Instant) -> Duration {
        Duration::from_millis(self.moment(now).saturating_sub(self.used.load(Ordering::Relaxed)))
    }
}

/// A definition on a server connection. When the value is dropped, the definition has been committed, or may have been.
#[derive(Debug)]
pub struct Definition {
    knowledge: Arc<Knowledge>,
    /// Whether the definition may be committed at any moment.
    under_way: bool,
    /// Whether the definition may change the tables of other statements, which are then read anew.
    renews: bool,
}

impl Definition {
    /// A definition is about to be sent, or has been run, outside a transaction block as far as is known.
    pub fn new(knowledge: Arc<Knowledge>) -> Self {
        knowledge.under_way.fetch_add(1, Ordering::SeqCst);
        Self { knowledge, under_way: true, renews: false }
    }

    /// Notes that the definition may change tables that other statements know.
    pub fn renew(&mut self) {
        self.renews = true;
    }

    /// Notes that the transaction of the definition is about to be committed.
    pub fn commit(&mut self) {
        if !self.under_way {
            self.under_way = true;
            self.knowledge.under_way.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// Notes that the transaction of the definition is open: no other session sees the definition yet.
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

/// The waker of the reader.
#[derive(Debug)]
struct Bell {
    waker: Box<dyn Wake>,
    /// Whether a wakeup is still pending.
    rung: AtomicBool,
}

impl Bell {
    fn ring(&self) {
        if !self.rung.swap(true, Ordering::SeqCst) {
            // The wakeup fails only when the kernel has no memory left for an event; the reader looks by itself now and
            // then.
            self.waker.wake();
        }
    }
}

/// The knowledge about all databases.
#[derive(Debug)]
pub struct Library {
    databases: Mutex<HashMap<Place, Weak<Knowledge>>>,
    bell: Arc<Bell>,
    /// The databases for which the reader's connection counts under a limit on connections.
    counted: Mutex<HashMap<Limit, Vec<Weak<Knowledge>>>>,
    /// The time at which the pooler started.
    started: Instant,
}

impl Library {
    /// An empty library; `waker` wakes the reader.
    pub fn new(waker: Box<dyn Wake>, started: Instant) -> Self {
        let bell = Arc::new(Bell { waker, rung: AtomicBool::new(false) });
        Self { databases: Mutex::default(), bell, counted: Mutex::default(), started }
    }

    /// The knowledge about a database, which is forgotten when it is not used any more.
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

    /// The knowledge about all databases in use.
    pub fn all(&self) -> Vec<Arc<Knowledge>> {
        lock(&self.databases).values().filter_map(Weak::upgrade).collect()
    }

    /// Notes that the reader's connection for a database counts under these limits.
    pub fn counts_under(&self, limits: &[Limit; 2], known: &Weak<Knowledge>) {
        let mut counted = lock(&self.counted);
        for limit in limits {
            counted.entry(limit.clone()).or_default().push(known.clone());
        }
    }

    /// Notes that it counts under these limits no more.
    pub fn counts_no_more(&self, limits: &[Limit; 2], known: &Weak<Knowledge>) {
        let mut counted = lock(&self.counted);
        for limit in limits {
            let Some(under) = counted.get_mut(limit) else { continue };
            under.retain(|other| !other.ptr_eq(known));
            if under.is_empty() {
                counted.remove(limit);
            }
        }
    }

    /// Has the reader close its connections that this limit counts, since a client needs a place; whether there are any.
    pub fn leave_room(&self, limit: &Limit) -> bool {
        let counted = lock(&self.counted);
        let Some(under) = counted.get(limit) else { return false };
        for known in under.iter().filter_map(Weak::upgrade) {
            known.leave_room();
        }
        true
    }

    /// Notes that the reader is awake.
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
        let place = Place { servers: Servers::Hosts(Vec::new(), 5432), database: "d".to_owned(), automatic: None };
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
        // A catalog that is read meanwhile may lack the definition.
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
        let servers = Servers::Hosts(Vec::new(), 5432);
        let place = |name: &str| Place { servers: servers.clone(), database: name.to_owned(), automatic: None };
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
