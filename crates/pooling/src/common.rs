//! The part of a pool that the workers of its database share: which of them have it, and the parameters that servers report
//! when a session begins.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};

use crate::model::keys::WorkerId;
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
    welcome: Mutex<Option<Welcome>>,
    /// The workers that have the pool.
    workers: Mutex<Vec<WorkerId>>,
    /// Their number, which is looked at for statements.
    count: AtomicUsize,
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
                welcome: Mutex::default(),
                workers: Mutex::default(),
                count: AtomicUsize::new(0),
            });
            commons.insert(name, Arc::downgrade(&fresh));
            fresh
        });
        let membership = Membership { common, worker };
        membership.change(|workers| workers.push(worker));
        membership
    }
}

/// A worker's part in a pool. The part ends when it is dropped.
#[derive(Debug)]
pub struct Membership {
    common: Arc<Common>,
    worker: WorkerId,
}

impl Membership {
    fn change(&self, change: impl FnOnce(&mut Vec<WorkerId>)) {
        let mut workers = lock(&self.common.workers);
        change(&mut workers);
        self.common.count.store(workers.len(), Ordering::Relaxed);
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
        self.common.count.load(Ordering::Relaxed).max(1)
    }

    /// Another worker that has the pool, if there is one.
    pub fn another(&self) -> Option<WorkerId> {
        lock(&self.common.workers).iter().find(|worker| **worker != self.worker).copied()
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.change(|workers| workers.retain(|worker| *worker != self.worker));
    }
}

impl fmt::Debug for Common {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Common").field("name", &self.name).finish_non_exhaustive()
    }
}
