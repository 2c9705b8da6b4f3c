//! The server connections under the limits that several pools share, by worker, and the queue of the pools that wait for
//! one more.
//!
//! One count holds for all workers: a connection is counted in the same step in which the limits are compared, so that
//! workers which open connections at the same time never have more together than a limit allows.
//!
//! The queue is in order of arrival. A place that becomes free is kept for the first pool whose other limit has room. A
//! pool that two limits keep waiting would never get a place so if they leave room one after the other: in a third of the
//! time places are kept for one such pool though its other limit has no room. These pools take turns, each for as long as
//! a quarter of the wait of the first.

use std::collections::HashMap;
use std::time::Instant;

use crate::model::quota::{Limit, Quota};

/// The factor by which the wait of the first pool under two limits has grown when a turn ends.
const TURN: f64 = 1.25;
/// One of so many turns is a pool's; the others are nobody's.
const TURNS: usize = 3;

/// The use of a server connection, by which it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// The connection serves the clients of its pool in turn.
    Pool,
    /// The connection is one client's for replication.
    Relay,
    /// The connection listens for the clients of its pool, and leaves room for one that serves them.
    Subscriber,
    /// The connection reads the catalog, beside one that serves clients, and is closed as soon as a client needs its
    /// place.
    Catalog,
}

impl Use {
    /// Whether such a connection never becomes free.
    fn is_apart(self) -> bool {
        matches!(self, Self::Relay | Self::Subscriber)
    }
}

/// The server connections of one worker under a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Part {
    /// All of them.
    all: usize,
    /// Those of replication and the subscribers, which never become free.
    apart: usize,
    /// The subscribers.
    subscribers: usize,
}

/// The server connections under one limit, by worker.
#[derive(Debug, Default)]
struct Parts(Vec<Part>);

impl Parts {
    fn part(&mut self, worker: usize) -> &mut Part {
        if self.0.len() <= worker {
            self.0.resize(worker + 1, Part::default());
        }
        &mut self.0[worker]
    }

    fn all(&self) -> usize {
        self.0.iter().map(|part| part.all).sum()
    }

    fn apart(&self) -> usize {
        self.0.iter().map(|part| part.apart).sum()
    }

    fn subscribers(&self) -> usize {
        self.0.iter().map(|part| part.subscribers).sum()
    }
}

/// A pool of a worker with a client that has waited for long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiter {
    /// The worker.
    pub worker: usize,
    /// The pool's database.
    pub database: Box<str>,
    /// The pool's user.
    pub user: Box<str>,
    /// The limits over the pool.
    pub quota: Quota,
    /// The time since when a client waits.
    pub since: Instant,
    /// The number of the pool's connections that serve its clients in turn.
    pub has: usize,
}

impl Waiter {
    /// The limits over the pool.
    fn limits(&self) -> impl Iterator<Item = (Limit, usize)> {
        self.quota.limits(&self.database, &self.user)
    }

    fn is_of(&self, worker: usize, (database, user): (&str, &str)) -> bool {
        self.worker == worker && *self.database == *database && *self.user == *user
    }
}

/// The server connections of all workers under the limits that pools share.
#[derive(Debug, Default)]
pub struct Limits {
    databases: HashMap<Box<str>, Parts>,
    users: HashMap<Box<str>, Parts>,
    /// The pools that wait, in order of arrival.
    queue: Vec<Waiter>,
    /// The pool in the queue whose turn it is, if it is one's.
    turn: Option<Waiter>,
}

impl Limits {
    fn parts(&self, limit: &Limit) -> Option<&Parts> {
        match limit {
            Limit::Database(name) => self.databases.get(name),
            Limit::User(name) => self.users.get(name),
        }
    }

    /// The limit that keeps the pool of this database and user on a worker from one more connection, if one does.
    pub fn reached(&self, worker: usize, (database, user): (&str, &str), quota: Quota, what: Use) -> Option<Limit> {
        if let Some(limit) = self.bars(database, user, quota, what) {
            return Some(limit);
        }
        let is_full =
            |limit: &Limit, most: usize| self.count(limit) + self.kept(worker, (database, user), limit) >= most;
        quota.limits(database, user).find(|(limit, most)| is_full(limit, *most)).map(|(limit, _)| limit)
    }

    /// The number of places under a limit that are kept from a pool for those before it in the queue.
    fn kept(&self, worker: usize, names: (&str, &str), limit: &Limit) -> usize {
        let own = self.queue.iter().position(|waiter| waiter.is_of(worker, names)).unwrap_or(self.queue.len());
        let may_have = |waiter: &&Waiter| {
            let has_room = |(other, most): (Limit, usize)| other == *limit || self.count(&other) < most;
            limit.covers(&waiter.database, &waiter.user)
                && (self.turn.as_ref() == Some(waiter) || waiter.limits().all(has_room))
        };
        self.queue.iter().take(own).filter(may_have).count()
    }

    /// Replaces the pools of a worker that wait, and gives one that waits for two limits its turn.
    pub fn replace(&mut self, worker: usize, waiters: Vec<Waiter>, now: Instant) {
        if waiters.is_empty() && self.queue.is_empty() {
            return;
        }
        self.queue.retain(|waiter| waiter.worker != worker);
        self.queue.extend(waiters);
        self.queue.sort_by_key(|waiter| (waiter.since, waiter.worker));
        // With its last place free, a limit is reached again as soon as another pool has a client.
        let is_short = |(limit, most): (Limit, usize)| self.count(&limit) + 1 >= most;
        let is_under_two = |waiter: &&Waiter| waiter.limits().filter(|limit| is_short(limit.clone())).count() > 1;
        let under_two: Vec<&Waiter> = self.queue.iter().filter(is_under_two).collect();
        self.turn = under_two.first().and_then(|first| {
            let waited = now.saturating_duration_since(first.since).as_secs_f64().max(1.0);
            let turn = waited.log(TURN) as usize;
            let whose = under_two.get(turn / TURNS % under_two.len()).filter(|_| turn.is_multiple_of(TURNS));
            whose.map(|waiter| (*waiter).clone())
        });
    }

    /// The limit under which a pool is to give up a connection that has become free, and the worker of the pool that waits
    /// for the place: the first in the queue that waits longer than the pool's own clients, and has fewer connections than
    /// this pool, which has `has`.
    pub fn wanted(
        &self,
        worker: usize,
        (database, user): (&str, &str),
        has: usize,
        own: Option<Instant>,
    ) -> Option<(Limit, usize)> {
        let waits = |waiter: &Waiter| {
            let is_poorer = waiter.has == 0 || waiter.has + 1 < has;
            if waiter.is_of(worker, (database, user)) || !is_poorer || own.is_some_and(|own| own <= waiter.since) {
                return None;
            }
            let reached = waiter.limits().filter(|(limit, most)| self.count(limit) >= *most).map(|(limit, _)| limit);
            let (ours, others): (Vec<Limit>, Vec<Limit>) = reached.partition(|limit| limit.covers(database, user));
            let may_have = others.is_empty() || self.turn.as_ref() == Some(waiter);
            ours.into_iter().next().filter(|_| may_have).map(|limit| (limit, waiter.worker))
        };
        self.queue.iter().find_map(waits)
    }

    /// The limit that has no place for a connection of this use, whatever connections of pools become free: one that serves
    /// clients must have room, and a connection for replication takes no place for which a subscriber would have to go.
    pub fn bars(&self, database: &str, user: &str, quota: Quota, what: Use) -> Option<Limit> {
        let has_subscribers = |parts: Option<&Parts>| parts.is_some_and(|parts| parts.subscribers() > 0);
        let leaves_room = match what {
            Use::Pool => false,
            Use::Subscriber | Use::Catalog => true,
            Use::Relay => has_subscribers(self.databases.get(database)) || has_subscribers(self.users.get(user)),
        };
        if leaves_room { self.crowds_out(database, user, quota, 1) } else { None }
    }

    /// Counts one more connection of a worker, unless a limit is reached.
    pub fn take(
        &mut self,
        worker: usize,
        (database, user): (&str, &str),
        quota: Quota,
        what: Use,
    ) -> Result<(), Limit> {
        if let Some(limit) = self.reached(worker, (database, user), quota, what) {
            return Err(limit);
        }
        if what == Use::Pool {
            self.queue.retain(|waiter| !waiter.is_of(worker, (database, user)));
        }
        for (counts, name) in [(&mut self.databases, database), (&mut self.users, user)] {
            let part = counts.entry(name.into()).or_default().part(worker);
            part.all += 1;
            part.apart += usize::from(what.is_apart());
            part.subscribers += usize::from(what == Use::Subscriber);
        }
        Ok(())
    }

    /// Notes that a connection of a worker is closed.
    pub fn give_back(&mut self, worker: usize, (database, user): (&str, &str), what: Use) {
        for (counts, name) in [(&mut self.databases, database), (&mut self.users, user)] {
            let Some(parts) = counts.get_mut(name) else { continue };
            let part = parts.part(worker);
            debug_assert!(part.all > 0, "a connection is closed that was not counted");
            part.all = part.all.saturating_sub(1);
            part.apart = part.apart.saturating_sub(usize::from(what.is_apart()));
            part.subscribers = part.subscribers.saturating_sub(usize::from(what == Use::Subscriber));
            // Users come and go, and anybody can name any.
            if parts.all() == 0 {
                counts.remove(name);
            }
        }
    }

    /// The limit that the connections which never become free, and this number of further ones, leave without room for
    /// one that serves clients.
    pub fn crowds_out(&self, database: &str, user: &str, quota: Quota, more: usize) -> Option<Limit> {
        let crowded = |parts: Option<&Parts>, most: usize| most > 0 && parts.map_or(0, Parts::apart) + more >= most;
        if crowded(self.databases.get(database), quota.database) {
            return Some(Limit::Database(database.into()));
        }
        crowded(self.users.get(user), quota.user).then(|| Limit::User(user.into()))
    }

    /// The limit that the connections under it exceed: it was lowered.
    pub fn exceeded(&self, database: &str, user: &str, quota: Quota) -> Option<Limit> {
        let exceeds = |parts: Option<&Parts>, most: usize| most > 0 && parts.map_or(0, Parts::all) > most;
        if exceeds(self.databases.get(database), quota.database) {
            return Some(Limit::Database(database.into()));
        }
        exceeds(self.users.get(user), quota.user).then(|| Limit::User(user.into()))
    }

    /// The number of connections that count against a limit.
    pub fn count(&self, limit: &Limit) -> usize {
        self.parts(limit).map_or(0, Parts::all)
    }

    /// The other workers that have connections which may become free for a client of this worker.
    pub fn others(&self, worker: usize, limit: &Limit) -> Vec<usize> {
        let parts = self.parts(limit).into_iter().flat_map(|parts| parts.0.iter().enumerate());
        parts.filter(|(other, part)| *other != worker && part.all > part.apart).map(|(other, _)| other).collect()
    }

    /// Whether a database for which this holds has a connection of one of so many workers.
    pub fn has_connections(&self, workers: usize, of: impl Fn(&str) -> bool) -> bool {
        let is_used = |parts: &Parts| parts.0.iter().take(workers).any(|part| part.all > 0);
        self.databases.iter().any(|(name, parts)| is_used(parts) && of(name))
    }

    /// The number of connections of each user.
    pub fn by_user(&self) -> impl Iterator<Item = (&str, usize)> {
        self.users.iter().map(|(user, parts)| (&**user, parts.all()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const ONE: (&str, &str) = ("d", "r1");
    const TWO: (&str, &str) = ("d", "r2");

    fn quota(database: usize, user: usize) -> Quota {
        Quota { database, user }
    }

    #[test]
    fn workers_together_keep_within_a_limit() {
        let mut all = Limits::default();
        let limits = quota(3, 2);
        assert_eq!(all.take(0, ONE, limits, Use::Pool), Ok(()));
        assert_eq!(all.take(1, ONE, limits, Use::Pool), Ok(()));
        assert_eq!(all.take(2, ONE, limits, Use::Pool), Err(Limit::User("r1".into())));
        assert_eq!(all.take(2, TWO, limits, Use::Relay), Ok(()));
        assert_eq!(all.take(3, TWO, limits, Use::Pool), Err(Limit::Database("d".into())));
        // What was refused is counted nowhere.
        assert_eq!(all.by_user().collect::<HashMap<_, _>>(), HashMap::from([("r1", 2), ("r2", 1)]));
        assert_eq!(all.count(&Limit::Database("d".into())), 3);
        all.give_back(1, ONE, Use::Pool);
        assert_eq!(all.take(3, TWO, limits, Use::Pool), Ok(()));
    }

    #[test]
    fn replication_takes_no_place_of_a_subscriber() {
        let mut all = Limits::default();
        let limits = quota(2, 0);
        assert_eq!(all.take(0, ONE, limits, Use::Subscriber), Ok(()));
        assert_eq!(all.take(0, TWO, limits, Use::Relay), Err(Limit::Database("d".into())));
        all.give_back(0, ONE, Use::Subscriber);
        assert_eq!([Use::Relay, Use::Relay].map(|what| all.take(0, TWO, limits, what)), [Ok(()), Ok(())]);
    }

    #[test]
    fn a_catalog_is_read_beside_a_connection_that_serves_clients() {
        let mut all = Limits::default();
        assert_eq!(all.take(9, ONE, quota(1, 0), Use::Catalog), Err(Limit::Database("d".into())));
        assert_eq!(all.take(9, ONE, quota(2, 0), Use::Catalog), Ok(()));
        assert_eq!(all.take(0, ONE, quota(2, 0), Use::Pool), Ok(()));
        assert_eq!(all.take(0, ONE, quota(2, 0), Use::Pool), Err(Limit::Database("d".into())));
        // It makes way by itself: subscribers need not leave room for it.
        assert_eq!(all.crowds_out("d", "r1", quota(2, 0), 1), None);
    }

    fn waiter(worker: usize, since: Instant, (database, user): (&str, &str), has: usize) -> Waiter {
        Waiter { worker, database: database.into(), user: user.into(), quota: quota(1, 1), since, has }
    }

    fn after(start: Instant, seconds: f64) -> Instant {
        start + Duration::from_secs_f64(seconds)
    }

    #[test]
    fn a_free_place_is_for_the_first_whose_other_limit_has_room() {
        let (mut all, limits, start) = (Limits::default(), quota(1, 1), Instant::now());
        let (d, u) = (Limit::Database("d".into()), Limit::User("u".into()));
        all.take(0, ("d", "v"), limits, Use::Pool).unwrap();
        all.take(1, ("e", "u"), limits, Use::Pool).unwrap();
        let first = waiter(0, start, ("d", "u"), 0);
        let second = waiter(0, after(start, 1.0), ("d", "w"), 0);
        // It is nobody's turn.
        all.replace(0, vec![second, first], after(start, 1.3));
        let wanted = |all: &Limits, names, own: f64| all.wanted(0, names, 1, Some(after(start, own)));
        assert_eq!(wanted(&all, ("d", "v"), 1.1), Some((d.clone(), 0)), "for the second");
        assert_eq!(wanted(&all, ("d", "v"), 0.9), None, "its own have waited longer");
        assert_eq!(wanted(&all, ("e", "u"), 1.1), None);
        all.give_back(0, ("d", "v"), Use::Pool);
        assert_eq!(all.take(0, ("d", "v"), limits, Use::Pool), Err(d.clone()));
        assert_eq!(all.take(0, ("d", "u"), limits, Use::Pool), Err(u.clone()));
        assert_eq!(all.take(0, ("d", "w"), limits, Use::Pool), Ok(()));
        assert_eq!(all.queue.len(), 1, "it is served");
        assert_eq!(all.take(0, ("d", "w"), limits, Use::Pool), Err(d.clone()));
        // Now the limit of the user has room first.
        all.give_back(1, ("e", "u"), Use::Pool);
        assert_eq!(wanted(&all, ("d", "w"), 1.1), Some((d, 0)));
        all.give_back(0, ("d", "w"), Use::Pool);
        assert_eq!(all.take(1, ("e", "u"), limits, Use::Pool), Err(u));
        assert_eq!(all.take(0, ("d", "u"), limits, Use::Relay), Ok(()));
        assert_eq!(all.queue.len(), 1, "only a connection that serves clients is what it waits for");
        all.replace(0, Vec::new(), after(start, 2.0));
        assert!(all.queue.is_empty());
    }

    #[test]
    fn who_waits_for_two_limits_has_places_kept_when_it_is_its_turn() {
        let (mut all, limits, start) = (Limits::default(), quota(1, 1), Instant::now());
        all.take(0, ("d", "v"), limits, Use::Pool).unwrap();
        all.take(1, ("e", "u"), limits, Use::Pool).unwrap();
        let waiters = || vec![waiter(0, start, ("d", "u"), 0), waiter(0, start, ("e", "v"), 0)];
        let mut turns = [0; 3];
        for tenth in 10..1200 {
            all.replace(0, waiters(), after(start, f64::from(tenth) / 10.0));
            let turn = all.turn.as_ref().and_then(|turn| all.queue.iter().position(|waiter| waiter == turn));
            turns[turn.unwrap_or(2)] += 1;
        }
        assert!(turns[0] > 100 && turns[1] > 100 && turns[2] > 700, "{turns:?}");
        all.replace(0, waiters(), after(start, 1.1));
        all.give_back(0, ("d", "v"), Use::Pool);
        assert!(all.take(0, ("d", "v"), limits, Use::Pool).is_err(), "it is kept");
        assert!(all.wanted(1, ("e", "u"), 1, None).is_some());
        all.give_back(1, ("e", "u"), Use::Pool);
        assert_eq!(all.take(0, ("d", "u"), limits, Use::Pool), Ok(()));
        assert_eq!(all.queue.len(), 1);
    }

    #[test]
    fn a_pool_gives_nothing_up_for_one_with_as_many() {
        let (mut all, start) = (Limits::default(), Instant::now());
        let limits = quota(3, 0);
        (0..3).for_each(|_| all.take(0, ONE, limits, Use::Pool).unwrap());
        let wanted = |all: &mut Limits, waits_with, has| {
            all.replace(0, vec![Waiter { quota: limits, ..waiter(0, start, TWO, waits_with) }], start);
            all.wanted(0, ONE, has, None).is_some()
        };
        assert!(wanted(&mut all, 0, 1) && wanted(&mut all, 1, 3));
        assert!(!wanted(&mut all, 1, 2) && !wanted(&mut all, 2, 2));
    }

    #[test]
    fn what_is_given_back_leaves_nothing() {
        let mut all = Limits::default();
        for what in [Use::Pool, Use::Relay, Use::Subscriber, Use::Catalog] {
            all.take(4, ONE, quota(0, 0), what).unwrap();
            all.give_back(4, ONE, what);
        }
        assert!(all.databases.is_empty() && all.users.is_empty());
    }

    #[test]
    fn a_connection_is_counted_where_it_is() {
        let mut all = Limits::default();
        let limit = Limit::User("r1".into());
        all.take(0, ONE, quota(0, 0), Use::Pool).unwrap();
        all.take(2, ONE, quota(0, 0), Use::Subscriber).unwrap();
        // A subscriber never becomes free for anybody.
        assert_eq!(all.others(1, &limit), [0]);
        assert!(all.others(0, &limit).is_empty());
        all.give_back(0, ONE, Use::Pool);
        assert_eq!(all.count(&limit), 1);
    }

    #[test]
    fn subscribers_leave_room_for_one_that_serves_clients() {
        let mut all = Limits::default();
        let limits = quota(3, 0);
        assert_eq!(all.take(0, ONE, limits, Use::Subscriber), Ok(()));
        assert_eq!(all.take(1, TWO, limits, Use::Subscriber), Ok(()));
        assert_eq!(all.take(2, ONE, limits, Use::Subscriber), Err(Limit::Database("d".into())));
        assert_eq!(all.crowds_out("d", "r1", limits, 0), None);
        assert_eq!(all.take(2, ONE, limits, Use::Pool), Ok(()));
        // The limit has been lowered.
        assert_eq!(all.crowds_out("d", "r1", quota(2, 0), 0), Some(Limit::Database("d".into())));
        assert_eq!(all.crowds_out("d", "r1", quota(0, 1), 0), Some(Limit::User("r1".into())));
        all.give_back(1, TWO, Use::Subscriber);
        assert_eq!(all.crowds_out("d", "r1", quota(2, 0), 0), None);
    }
}
