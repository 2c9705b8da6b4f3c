//! The part of a pool that the workers of its database share: the count of its server connections
//! ([`crate::model::Ledger`]), and the parameters that servers report when a session begins.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use crate::model::keys::WorkerId;
use crate::model::{Ledger, Micros, Standing, Step};
use balancer::ServerId;

use crate::sync::lock;

/// The identity of a pool, on any worker.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PoolName {
    /// The database that clients ask for.
    pub database: String,
    /// The user of its server connections.
    pub user: String,
    /// The server of its cluster that the pool leads to, if the database is on one.
    pub server: Option<ServerId>,
}

/// The parameters that a server reports when a session begins.
#[derive(Debug, Clone)]
pub struct Welcome {
    /// All parameters, in order.
    pub told: Vec<(String, String)>,
    /// The tracked parameters, by their places.
    pub tracked: Vec<Option<Box<str>>>,
}

/// A pool, on all workers that have it.
struct Common {
    name: PoolName,
    ledger: Mutex<Ledger>,
    welcome: Mutex<Option<Welcome>>,
    /// The number of workers that have the pool: most pools have one, and then nothing of this is looked at for a
    /// statement.
    members: AtomicUsize,
}

/// All pools.
#[derive(Debug, Default)]
pub struct Commons(Mutex<HashMap<PoolName, Weak<Common>>>);

impl Commons {
    /// Notes that a worker has this pool.
    pub fn join(&self, name: PoolName, worker: WorkerId) -> Membership {
        let mut commons = lock(&self.0);
        let common = commons.get(&name).and_then(Weak::upgrade).unwrap_or_else(|| {
            commons.retain(|_, common| common.strong_count() > 0);
            let fresh = Arc::new(Common {
                name: name.clone(),
                ledger: Mutex::default(),
                welcome: Mutex::default(),
                members: AtomicUsize::new(0),
            });
            commons.insert(name, Arc::downgrade(&fresh));
            fresh
        });
        let membership = Membership { common, worker };
        membership.change(Ledger::join);
        membership
    }

    /// Whether a pool of a database for which this holds has a server connection.
    pub fn has_connections(&self, of: impl Fn(&str) -> bool) -> bool {
        let commons = lock(&self.0);
        let mut those = commons.values().filter_map(Weak::upgrade).filter(|common| of(&common.name.database));
        those.any(|common| lock(&common.ledger).total() > 0)
    }
}

/// A worker's part in a pool. The part ends when it is dropped.
#[derive(Debug)]
pub struct Membership {
    common: Arc<Common>,
    worker: WorkerId,
}

impl Membership {
    fn change(&self, change: impl FnOnce(&mut Ledger, usize)) {
        let mut ledger = lock(&self.common.ledger);
        change(&mut ledger, self.worker.0);
        self.common.members.store(ledger.members(), Ordering::Relaxed);
    }

    /// The pool's name.
    pub fn name(&self) -> &PoolName {
        &self.common.name
    }

    /// The parameters with which clients are greeted, once a worker has got them from a server.
    pub fn welcome(&self) -> Option<Welcome> {
        lock(&self.common.welcome).clone()
    }

    /// Gives the other workers the parameters with which clients are greeted.
    pub fn set_welcome(&self, welcome: Welcome) {
        *lock(&self.common.welcome) = Some(welcome);
    }

    /// Forgets the parameters: the servers may report others now.
    pub fn forget_welcome(&self) {
        *lock(&self.common.welcome) = None;
    }

    /// The number of workers that have the pool.
    pub fn count(&self) -> usize {
        self.common.members.load(Ordering::Relaxed).max(1)
    }

    /// Whether other workers have the pool too.
    pub fn is_shared(&self) -> bool {
        self.count() > 1
    }

    /// Another worker that has the pool, if there is one.
    pub fn another(&self) -> Option<WorkerId> {
        lock(&self.common.ledger).another(self.worker.0).map(WorkerId)
    }

    /// The number of server connections of all workers.
    pub fn total(&self) -> usize {
        lock(&self.common.ledger).total()
    }

    /// A permit for one more server connection, unless all workers together have `limit` already.
    pub fn open(&self, limit: usize) -> Option<Permit> {
        let opens = lock(&self.common.ledger).open(self.worker.0, limit);
        opens.then(|| Permit { common: self.common.clone(), worker: self.worker })
    }

    /// Reports the state of the pool here to the other workers.
    pub fn report(&self, standing: Standing, size: usize) -> Step {
        lock(&self.common.ledger).report(self.worker.0, standing, size)
    }

    /// The other worker that gets a connection which has become free here.
    pub fn heir(
        &self,
        wait: (Option<Micros>, Option<Micros>),
        waiting: usize,
        now: Micros,
        size: usize,
    ) -> Option<WorkerId> {
        lock(&self.common.ledger).heir(self.worker.0, wait, waiting, now, size).map(WorkerId)
    }

    /// The worker that must give up one of its connections, none of which becomes free, for clients that wait here.
    pub fn creditor(&self, size: usize) -> Option<WorkerId> {
        lock(&self.common.ledger).creditor(self.worker.0, size).map(WorkerId)
    }

    /// Whether this worker must give a connection up.
    pub fn owes(&self, size: usize) -> bool {
        lock(&self.common.ledger).owes(self.worker.0, size)
    }

    /// The other worker that may open a connection for clients that wait there, now that there is room.
    pub fn in_need(&self, size: usize) -> Option<WorkerId> {
        lock(&self.common.ledger).in_need(self.worker.0, size).map(WorkerId)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.change(Ledger::leave);
    }
}

/// The permit for one server connection of a pool. The permit is given back when it is dropped.
pub struct Permit {
    common: Arc<Common>,
    worker: WorkerId,
}

impl Permit {
    /// Notes that the connection goes to another worker.
    pub fn hand_over(&mut self, to: WorkerId) {
        lock(&self.common.ledger).hand_over(self.worker.0, to.0);
        self.worker = to;
    }

    /// The pool's name.
    pub fn name(&self) -> &PoolName {
        &self.common.name
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        lock(&self.common.ledger).close(self.worker.0);
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Permit").field("worker", &self.worker).finish_non_exhaustive()
    }
}

impl fmt::Debug for Common {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Common").field("name", &self.name).finish_non_exhaustive()
    }
}
