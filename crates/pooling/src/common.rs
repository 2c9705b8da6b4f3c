//! What the workers that serve one database have in common of a pool: the count of its server connections
//! ([`crate::model::Ledger`]), and what servers tell when a session begins.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use crate::model::keys::WorkerId;
use crate::model::{Ledger, Micros, Standing, Step};
use balancer::ServerId;

use crate::sync::lock;

/// What tells a pool from others, on any worker.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PoolName {
    /// The database that clients ask for.
    pub database: String,
    /// The user of its server connections.
    pub user: String,
    /// Which server of its cluster it leads to, if the database is on one.
    pub server: Option<ServerId>,
}

/// What a server tells when a session begins.
#[derive(Debug, Clone)]
pub struct Welcome {
    /// All parameters, in order.
    pub told: Vec<(String, String)>,
    /// The tracked ones, by their places.
    pub tracked: Vec<Option<Box<str>>>,
}

/// A pool, whichever workers have it.
struct Common {
    name: PoolName,
    ledger: Mutex<Ledger>,
    welcome: Mutex<Option<Welcome>>,
    /// How many workers have it: most pools have one, and nothing of this is looked at for a statement then.
    members: AtomicUsize,
}

/// All pools.
#[derive(Debug, Default)]
pub struct Commons(Mutex<HashMap<PoolName, Weak<Common>>>);

impl Commons {
    /// A worker has this pool from now on.
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
}

/// A worker's part in a pool. It ends when it is dropped.
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

    /// What clients are greeted with, once a worker has heard that from a server.
    pub fn welcome(&self) -> Option<Welcome> {
        lock(&self.common.welcome).clone()
    }

    /// Tells the others what clients are greeted with.
    pub fn set_welcome(&self, welcome: Welcome) {
        *lock(&self.common.welcome) = Some(welcome);
    }

    /// How many workers have the pool.
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

    /// Server connections of all workers.
    pub fn total(&self) -> usize {
        lock(&self.common.ledger).total()
    }

    /// A permit for one more, unless all workers have `limit` already.
    pub fn open(&self, limit: usize) -> Option<Permit> {
        let opens = lock(&self.common.ledger).open(self.worker.0, limit);
        opens.then(|| Permit { common: self.common.clone(), worker: self.worker })
    }

    /// Tells the others how it stands here.
    pub fn report(&self, standing: Standing, size: usize) -> Step {
        lock(&self.common.ledger).report(self.worker.0, standing, size)
    }

    /// The worker to which a connection goes that has become free here.
    pub fn heir(
        &self,
        wait: (Option<Micros>, Option<Micros>),
        waiting: usize,
        now: Micros,
        size: usize,
    ) -> Option<WorkerId> {
        lock(&self.common.ledger).heir(self.worker.0, wait, waiting, now, size).map(WorkerId)
    }

    /// The worker that is to give up one of its connections, which are busy without end, for clients that wait here.
    pub fn creditor(&self, size: usize) -> Option<WorkerId> {
        lock(&self.common.ledger).creditor(self.worker.0, size).map(WorkerId)
    }

    /// Whether a connection is to be given up here.
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

/// Leave for one server connection of a pool. It is given back when it is dropped.
pub struct Permit {
    common: Arc<Common>,
    worker: WorkerId,
}

impl Permit {
    /// The connection goes to another worker.
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
