//! The permits of server connections under the limits that several pools share ([`crate::model::limits::Limits`]).

use std::fmt;
use std::sync::Arc;

use crate::model::keys::WorkerId;
use crate::model::limits::Use;
use crate::model::quota::{Limit, Quota};

use crate::client_permit::Counts;
use crate::sync::lock;

/// A server connection's permit under `max_db_connections` and `max_user_connections`, which is given back when it is dropped.
pub struct Permit {
    counts: Arc<Counts>,
    worker: WorkerId,
    database: Box<str>,
    user: Box<str>,
    what: Use,
    /// Whether the permit has been given back.
    left: bool,
}

impl Permit {
    /// A permit for one more connection of the pool of this database and user; otherwise the limit that is reached.
    pub fn take(
        counts: &Arc<Counts>,
        worker: WorkerId,
        (database, user): (&str, &str),
        quota: Quota,
        what: Use,
    ) -> Result<Self, Limit> {
        lock(&counts.servers).take(worker.0, (database, user), quota, what)?;
        Ok(Self { counts: counts.clone(), worker, database: database.into(), user: user.into(), what, left: false })
    }

    /// Gives the permit back if it is one of those that leave a limit no room for connections that serve clients; gives
    /// that limit. The connection is to be closed then. In one step: of several workers only as many give one up as must.
    pub fn make_way(&mut self, quota: Quota) -> Option<Limit> {
        let mut servers = lock(&self.counts.servers);
        let limit = servers.crowds_out(&self.database, &self.user, quota, 0).filter(|_| !self.left)?;
        servers.give_back(self.worker.0, (&self.database, &self.user), self.what);
        self.left = true;
        Some(limit)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.left {
            lock(&self.counts.servers).give_back(self.worker.0, (&self.database, &self.user), self.what);
        }
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Permit").field("worker", &self.worker).field("what", &self.what).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_open_at_once_keep_within_the_limit() {
        let counts = Arc::new(Counts::default());
        let quota = Quota { database: 0, user: 3 };
        let (counts, database) = (&counts, |worker: usize| format!("d{worker}"));
        std::thread::scope(|scope| {
            for worker in 0..4 {
                scope.spawn(move || {
                    for _ in 0..2000 {
                        let names = (&*database(worker), "r");
                        let permit = Permit::take(counts, WorkerId(worker), names, quota, Use::Pool);
                        assert!(lock(&counts.servers).count(&Limit::User("r".into())) <= 3);
                        drop(permit);
                    }
                });
            }
        });
        assert_eq!(lock(&counts.servers).by_user().count(), 0);
    }

    #[test]
    fn as_many_make_way_as_must() {
        let counts = Arc::new(Counts::default());
        let take = |worker| Permit::take(&counts, WorkerId(worker), ("d", "r"), Quota::default(), Use::Subscriber);
        let mut subscribers: Vec<Permit> = (0..4).filter_map(|worker| take(worker).ok()).collect();
        let quota = Quota { database: 3, user: 0 };
        let gone: Vec<bool> = subscribers.iter_mut().map(|subscriber| subscriber.make_way(quota).is_some()).collect();
        assert_eq!(gone, [true, true, false, false]);
        drop(subscribers);
        assert_eq!(lock(&counts.servers).by_user().count(), 0);
    }
}
