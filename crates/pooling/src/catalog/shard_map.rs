//! The map of a database's shards, as its hub has confirmed it last.
//!
//! The map is in force for the hub's lease from the moment at which the hub was asked. What moves a slot waits for that
//! long before the rows go, so no statement is sent by a map that may be out of date.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use sharding::Map;

/// A map, and what orders it among the maps of its hub.
#[derive(Debug, Default)]
pub struct Version {
    /// The version by the hub's count.
    pub number: u64,
    /// The map.
    pub map: Map,
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
