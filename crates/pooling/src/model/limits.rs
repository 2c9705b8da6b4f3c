//! The server connections under the limits that several pools share, by worker.
//!
//! One count holds for all workers: a connection is counted in the same step in which the limits are compared, so that
//! workers which open connections at the same time never have more together than a limit allows.

use std::collections::HashMap;

use crate::model::claims::Claims;
use crate::model::quota::{Limit, Quota};

/// The use of a server connection, by which it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// The connection serves the clients of its pool in turn.
    Pool,
    /// The connection is one client's for replication.
    Relay,
    /// The connection listens for the clients of its pool, and leaves room for one that serves them.
    Hub,
    /// The connection reads the catalog, beside one that serves clients, and is closed as soon as a client needs its
    /// place.
    Catalog,
}

impl Use {
    /// Whether such a connection never becomes free.
    fn is_apart(self) -> bool {
        matches!(self, Self::Relay | Self::Hub)
    }
}

/// The server connections of one worker under a limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Part {
    /// All of them.
    all: usize,
    /// Those of replication and the hubs, which never become free.
    apart: usize,
    /// The hubs.
    hubs: usize,
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

    fn hubs(&self) -> usize {
        self.0.iter().map(|part| part.hubs).sum()
    }
}

/// The server connections of all workers under the limits that pools share.
#[derive(Debug, Default)]
pub struct Tally {
    databases: HashMap<Box<str>, Parts>,
    users: HashMap<Box<str>, Parts>,
    claims: Claims,
}

impl Tally {
    fn parts(&self, limit: &Limit) -> Option<&Parts> {
        match limit {
            Limit::Database(name) => self.databases.get(name),
            Limit::User(name) => self.users.get(name),
        }
    }

    /// The limit that keeps the pool of this database and user on a worker from one more connection, if one does.
    pub fn reached(&self, worker: usize, (database, user): (&str, &str), quota: Quota, what: Use) -> Option<Limit> {
        let full = |parts: Option<&Parts>, most: usize, limit: Limit| {
            let all = parts.map_or(0, Parts::all);
            let is_full = most > 0 && (all >= most || all + self.claims.kept(worker, (database, user), &limit) >= most);
            is_full.then_some(limit)
        };
        if let Some(limit) = self.bars(database, user, quota, what) {
            return Some(limit);
        }
        let of_database = full(self.databases.get(database), quota.database, Limit::Database(database.into()));
        of_database.or_else(|| full(self.users.get(user), quota.user, Limit::User(user.into())))
    }

    /// The claims of pools to the next places that become free.
    pub fn claims(&mut self) -> &mut Claims {
        &mut self.claims
    }

    /// The limit that has no place for a connection of this use, whatever connections of pools become free: one that serves
    /// clients must have room, and a connection for replication takes no place for which a hub would have to go.
    pub fn bars(&self, database: &str, user: &str, quota: Quota, what: Use) -> Option<Limit> {
        let has_hubs = |parts: Option<&Parts>| parts.is_some_and(|parts| parts.hubs() > 0);
        let leaves_room = match what {
            Use::Pool => false,
            Use::Hub | Use::Catalog => true,
            Use::Relay => has_hubs(self.databases.get(database)) || has_hubs(self.users.get(user)),
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
            self.claims.meet(worker, (database, user));
        }
        for (counts, name) in [(&mut self.databases, database), (&mut self.users, user)] {
            let part = counts.entry(name.into()).or_default().part(worker);
            part.all += 1;
            part.apart += usize::from(what.is_apart());
            part.hubs += usize::from(what == Use::Hub);
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
            part.hubs = part.hubs.saturating_sub(usize::from(what == Use::Hub));
            // Users come and go, and anybody can name any.
            if parts.all() == 0 {
                counts.remove(name);
            }
        }
    }

    /// Notes that a connection of a pool goes from one worker to another.
    pub fn hand_over(&mut self, (from, to): (usize, usize), (database, user): (&str, &str)) {
        for (counts, name) in [(&mut self.databases, database), (&mut self.users, user)] {
            if let Some(parts) = counts.get_mut(name) {
                parts.part(from).all = parts.part(from).all.saturating_sub(1);
                parts.part(to).all += 1;
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
    use crate::model::claims::{Claim, Micros};

    const ONE: (&str, &str) = ("d", "r1");
    const TWO: (&str, &str) = ("d", "r2");

    fn quota(database: usize, user: usize) -> Quota {
        Quota { database, user }
    }

    #[test]
    fn workers_together_keep_within_a_limit() {
        let mut tally = Tally::default();
        let limits = quota(3, 2);
        assert_eq!(tally.take(0, ONE, limits, Use::Pool), Ok(()));
        assert_eq!(tally.take(1, ONE, limits, Use::Pool), Ok(()));
        assert_eq!(tally.take(2, ONE, limits, Use::Pool), Err(Limit::User("r1".into())));
        assert_eq!(tally.take(2, TWO, limits, Use::Relay), Ok(()));
        assert_eq!(tally.take(3, TWO, limits, Use::Pool), Err(Limit::Database("d".into())));
        // What was refused is counted nowhere.
        assert_eq!(tally.by_user().collect::<HashMap<_, _>>(), HashMap::from([("r1", 2), ("r2", 1)]));
        assert_eq!(tally.count(&Limit::Database("d".into())), 3);
        tally.give_back(1, ONE, Use::Pool);
        assert_eq!(tally.take(3, TWO, limits, Use::Pool), Ok(()));
    }

    #[test]
    fn replication_takes_no_place_of_a_hub() {
        let mut tally = Tally::default();
        let limits = quota(2, 0);
        assert_eq!(tally.take(0, ONE, limits, Use::Hub), Ok(()));
        assert_eq!(tally.take(0, TWO, limits, Use::Relay), Err(Limit::Database("d".into())));
        tally.give_back(0, ONE, Use::Hub);
        assert_eq!([Use::Relay, Use::Relay].map(|what| tally.take(0, TWO, limits, what)), [Ok(()), Ok(())]);
    }

    #[test]
    fn a_catalog_is_read_beside_a_connection_that_serves_clients() {
        let mut tally = Tally::default();
        assert_eq!(tally.take(9, ONE, quota(1, 0), Use::Catalog), Err(Limit::Database("d".into())));
        assert_eq!(tally.take(9, ONE, quota(2, 0), Use::Catalog), Ok(()));
        assert_eq!(tally.take(0, ONE, quota(2, 0), Use::Pool), Ok(()));
        assert_eq!(tally.take(0, ONE, quota(2, 0), Use::Pool), Err(Limit::Database("d".into())));
        // It makes way by itself: hubs need not leave room for it.
        assert_eq!(tally.crowds_out("d", "r1", quota(2, 0), 1), None);
    }

    #[test]
    fn places_are_kept_for_the_claim_that_has_waited_longest() {
        let (mut tally, limits) = (Tally::default(), quota(1, 1));
        let claim = |since, (database, user): (&str, &str), both| Claim {
            since: Micros(since),
            database: database.into(),
            user: user.into(),
            of_database: true,
            of_user: both,
        };
        let (d, u) = (Limit::Database("d".into()), Limit::User("u".into()));
        tally.take(0, ("d", "v"), limits, Use::Pool).unwrap();
        tally.take(1, ("e", "u"), limits, Use::Pool).unwrap();
        tally.claims().replace(0, vec![claim(5, ("d", "u"), true), claim(7, ("d", "w"), false)], Micros(9));
        tally.claims().replace(1, vec![claim(6, ("e", "u"), true)], Micros(9));
        // Both limits leave room one after the other, and the places are kept in the meantime.
        tally.give_back(0, ("d", "v"), Use::Pool);
        assert_eq!(tally.take(0, ("d", "v"), limits, Use::Pool), Err(d.clone()));
        assert_eq!(tally.take(0, ("d", "w"), limits, Use::Pool), Err(d.clone()));
        assert_eq!(tally.take(1, ("d", "u"), limits, Use::Pool), Err(d.clone()));
        assert_eq!(tally.take(0, ("d", "u"), limits, Use::Pool), Err(u.clone()));
        tally.give_back(1, ("e", "u"), Use::Pool);
        assert_eq!(tally.take(1, ("e", "u"), limits, Use::Pool), Err(u));
        assert_eq!(tally.take(0, ("d", "u"), limits, Use::Relay), Ok(()));
        // Only a connection that serves clients in turn meets a claim.
        assert!(tally.claims().stands(0, ("d", "u")));
        tally.give_back(0, ("d", "u"), Use::Relay);
        assert_eq!(tally.take(0, ("d", "u"), limits, Use::Pool), Ok(()));
        tally.give_back(0, ("d", "u"), Use::Pool);
        // A claim is met once.
        assert_eq!(tally.take(0, ("d", "u"), limits, Use::Pool), Err(d));
        tally.claims().replace(0, Vec::new(), Micros(10));
        assert_eq!(tally.take(0, ("d", "v"), limits, Use::Pool), Ok(()));
        assert_eq!(tally.take(1, ("e", "u"), limits, Use::Pool), Ok(()));
    }

    #[test]
    fn what_is_given_back_leaves_nothing() {
        let mut tally = Tally::default();
        for what in [Use::Pool, Use::Relay, Use::Hub, Use::Catalog] {
            tally.take(4, ONE, quota(0, 0), what).unwrap();
            tally.give_back(4, ONE, what);
        }
        assert!(tally.databases.is_empty() && tally.users.is_empty());
    }

    #[test]
    fn a_connection_is_counted_where_it_is() {
        let mut tally = Tally::default();
        let limit = Limit::User("r1".into());
        tally.take(0, ONE, quota(0, 0), Use::Pool).unwrap();
        tally.take(2, ONE, quota(0, 0), Use::Hub).unwrap();
        // A hub never becomes free for anybody.
        assert_eq!(tally.others(1, &limit), [0]);
        assert!(tally.others(0, &limit).is_empty());
        tally.hand_over((0, 1), ONE);
        assert_eq!((tally.others(0, &limit), tally.count(&limit)), (vec![1], 2));
        tally.give_back(1, ONE, Use::Pool);
        assert_eq!(tally.count(&limit), 1);
    }

    #[test]
    fn hubs_leave_room_for_one_that_serves_clients() {
        let mut tally = Tally::default();
        let limits = quota(3, 0);
        assert_eq!(tally.take(0, ONE, limits, Use::Hub), Ok(()));
        assert_eq!(tally.take(1, TWO, limits, Use::Hub), Ok(()));
        assert_eq!(tally.take(2, ONE, limits, Use::Hub), Err(Limit::Database("d".into())));
        assert_eq!(tally.crowds_out("d", "r1", limits, 0), None);
        assert_eq!(tally.take(2, ONE, limits, Use::Pool), Ok(()));
        // The limit has been lowered.
        assert_eq!(tally.crowds_out("d", "r1", quota(2, 0), 0), Some(Limit::Database("d".into())));
        assert_eq!(tally.crowds_out("d", "r1", quota(0, 1), 0), Some(Limit::User("r1".into())));
        tally.give_back(1, TWO, Use::Hub);
        assert_eq!(tally.crowds_out("d", "r1", quota(2, 0), 0), None);
    }
}
