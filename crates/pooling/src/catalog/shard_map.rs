//! The map of a database's shards, as its hub has confirmed it last.
//!
//! The map is in force for the hub's lease from the moment at which the hub was asked. What moves a slot waits for that
//! long before the rows go, so no statement is sent by a map that may be out of date.
//!
//! A slot that is about to move is closing: what needs it waits for the next map, unless it is of a transaction that its
//! shard has. That spares clients errors, and no row depends on it, so it has an end of its own: what moves the slot may
//! have died.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use sharding::Map;

/// For how long what needs a closing slot waits for the next map.
const CLOSING: Duration = Duration::from_secs(3);

/// A map, and what orders it among the maps of its hub.
#[derive(Debug, Default)]
pub struct Version {
    /// The version by the hub's count.
    pub number: u64,
    /// The map.
    pub map: Map,
    /// The time until which what needs its closing slot waits, if it has one.
    closing_until: Option<Instant>,
}

impl Version {
    /// This version of the map, and when it was read, if slots move.
    pub fn new(number: u64, map: Map, read: Option<Instant>) -> Self {
        let closing_until = read.filter(|_| map.is_closing()).map(|read| read + CLOSING);
        Self { number, map, closing_until }
    }

    /// Whether what needs its closing slot waits.
    pub fn is_closing(&self, now: Instant) -> bool {
        self.closing_until.is_some_and(|until| now < until)
    }
}

/// The last map of a hub.
#[derive(Debug)]
pub struct ShardMap {
    is_wanted: AtomicBool,
    started: Instant,
    /// The time until which the map is in force, in milliseconds since `started`.
    until: AtomicU64,
    version: RwLock<Option<Arc<Version>>>,
}

impl ShardMap {
    /// No map.
    pub fn new(started: Instant) -> Self {
        Self { is_wanted: AtomicBool::new(false), started, until: AtomicU64::new(0), version: RwLock::default() }
    }

    /// Has the map read from now on.
    pub fn want(&self) {
        self.is_wanted.store(true, Ordering::Relaxed);
    }

    /// Whether the database has shards.
    pub fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Relaxed)
    }

    /// The map that was posted last, in force or not.
    pub fn last(&self) -> Option<Arc<Version>> {
        self.version.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The map, if it is in force.
    pub fn in_force(&self, now: Instant) -> Option<Arc<Version>> {
        let now = now.saturating_duration_since(self.started).as_millis();
        if now < u128::from(self.until.load(Ordering::SeqCst)) { self.last() } else { None }
    }

    /// Takes another map.
    pub fn post(&self, version: Version) {
        *self.version.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(version));
    }

    /// Notes that the last map is the hub's, which was asked at this moment and gives this lease.
    pub fn confirm(&self, asked: Instant, lease: Duration) {
        let until = (asked + lease).saturating_duration_since(self.started).as_millis();
        self.until.store(u64::try_from(until).unwrap_or(u64::MAX), Ordering::SeqCst);
    }
}
