//! The claims of pools whose clients have waited for long: the next places that become free under the limits that pools
//! share are kept for them.
//!
//! A pool that one limit leaves no room takes such a place at once. A pool that two leave none keeps the place under one
//! unused until the other leaves room, which may be never. Of such claims one at a time stands under a limit, for a
//! quarter of the time that its client has waited (within [`STANDS`]). Then none stands there for twice as long: a limit
//! loses a third of the time of one place at most. These claims take turns: the next to stand is the one that began to
//! wait, or has stood, the longest time ago.

use crate::model::Micros;
use crate::model::quota::Limit;

/// The least and the greatest time, in microseconds, for which the claim of a pool under two limits stands.
const STANDS: (u64, u64) = (500_000, 8_000_000);

/// The claim of a pool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The time since when a client waits.
    pub since: Micros,
    /// The pool's database.
    pub database: Box<str>,
    /// The pool's user.
    pub user: Box<str>,
    /// Whether the limit of the database leaves no room, or hardly any.
    pub of_database: bool,
    /// The same of the user's.
    pub of_user: bool,
}

impl Claim {
    /// Whether places under this limit are kept for the pool.
    fn is_under(&self, limit: &Limit) -> bool {
        match limit {
            Limit::Database(name) => self.of_database && *name == self.database,
            Limit::User(name) => self.of_user && *name == self.user,
        }
    }

    fn is_of_both(&self) -> bool {
        self.of_database && self.of_user
    }

    fn shares_with(&self, other: &Self) -> bool {
        self.database == other.database || self.user == other.user
    }
}

/// The claim of a worker's pool, and its turns.
#[derive(Debug)]
struct Turn {
    worker: usize,
    claim: Claim,
    /// The times from which and until which the claim stands, if it does.
    stands: Option<(Micros, Micros)>,
    /// The end of its last turn.
    ended: Option<Micros>,
}

/// The claims of all workers.
#[derive(Debug, Default)]
pub struct Claims {
    turns: Vec<Turn>,
    /// The limits under which no claim of a pool under two stands until these times.
    rests: Vec<(Limit, Micros)>,
}

impl Claims {
    /// Replaces the claims of a worker, of which a pool has one at most, and gives turns to those that may stand.
    pub fn replace(&mut self, worker: usize, claims: Vec<Claim>, now: Micros) {
        if claims.is_empty() && self.turns.is_empty() {
            return;
        }
        let (mut before, others): (Vec<Turn>, Vec<Turn>) =
            std::mem::take(&mut self.turns).into_iter().partition(|turn| turn.worker == worker);
        self.turns = others;
        for claim in claims {
            let same = |turn: &Turn| turn.claim.database == claim.database && turn.claim.user == claim.user;
            let known = before.iter().position(same).map(|place| before.swap_remove(place));
            let (stands, ended) = known.map_or((None, None), |turn| (turn.stands, turn.ended));
            self.turns.push(Turn { worker, claim, stands, ended });
        }
        for gone in before {
            self.rest(&gone.claim, gone.stands, now);
        }
        self.end_turns(now);
        self.begin_turns(now);
    }

    fn end_turns(&mut self, now: Micros) {
        self.rests.retain(|(_, until)| *until > now);
        let mut turns = std::mem::take(&mut self.turns);
        for turn in &mut turns {
            if let Some((from, until)) = turn.stands.take_if(|(_, until)| turn.claim.is_of_both() && *until <= now) {
                turn.ended = Some(until);
                self.rest(&turn.claim, Some((from, until)), now);
            }
        }
        self.turns = turns;
    }

    fn begin_turns(&mut self, now: Micros) {
        self.turns.sort_by_key(|turn| (turn.ended.unwrap_or(turn.claim.since), turn.worker));
        for place in 0..self.turns.len() {
            let Some(Turn { claim, stands: None, .. }) = self.turns.get(place) else { continue };
            let rests = self.rests.iter().any(|(limit, _)| claim.is_under(limit));
            let mut others = self.turns.iter().filter(|turn| turn.claim.is_of_both() && turn.stands.is_some());
            if claim.is_of_both() && (rests || others.any(|turn| turn.claim.shares_with(claim))) {
                continue;
            }
            let waited = now.0.saturating_sub(claim.since.0);
            let until = now.0 + (waited / 4).clamp(STANDS.0, STANDS.1);
            if let Some(turn) = self.turns.get_mut(place) {
                turn.stands = Some((now, Micros(until)));
            }
        }
    }

    /// Leaves the limits of a claim that has stood in vain to others.
    fn rest(&mut self, claim: &Claim, stood: Option<(Micros, Micros)>, now: Micros) {
        let Some((from, until)) = stood.filter(|_| claim.is_of_both()) else { return };
        let end = until.min(now).0;
        let until = Micros(end + 2 * end.saturating_sub(from.0));
        let limits = [Limit::Database(claim.database.clone()), Limit::User(claim.user.clone())];
        self.rests.extend(limits.map(|limit| (limit, until)).into_iter().filter(|(_, until)| *until > now));
    }

    /// The number of places that are kept under a limit from a pool of a worker: those of the claims that stand and
    /// have waited longer than the pool's own.
    pub fn kept(&self, worker: usize, (database, user): (&str, &str), limit: &Limit) -> usize {
        let own = self.place(worker, (database, user)).and_then(|place| self.turns.get(place));
        let before = |turn: &&Turn| match own.filter(|own| own.stands.is_some()) {
            Some(own) => (turn.claim.since, turn.worker) < (own.claim.since, own.worker),
            None => true,
        };
        let standing = self.turns.iter().filter(|turn| turn.stands.is_some());
        standing.filter(before).filter(|turn| turn.claim.is_under(limit)).count()
    }

    /// Whether the claim of a worker's pool stands.
    pub fn stands(&self, worker: usize, names: (&str, &str)) -> bool {
        self.place(worker, names).and_then(|place| self.turns.get(place)).is_some_and(|turn| turn.stands.is_some())
    }

    /// Notes that a pool of a worker has got a place.
    pub fn meet(&mut self, worker: usize, names: (&str, &str)) {
        if let Some(place) = self.place(worker, names) {
            self.turns.remove(place);
        }
    }

    fn place(&self, worker: usize, (database, user): (&str, &str)) -> Option<usize> {
        let is_own =
            |turn: &Turn| turn.worker == worker && *turn.claim.database == *database && *turn.claim.user == *user;
        self.turns.iter().position(is_own)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000;

    fn claim(since: u64, database: &str, user: &str, both: bool) -> Claim {
        let (database, user) = (database.into(), user.into());
        Claim { since: Micros(since), database, user, of_database: true, of_user: both }
    }

    fn database(name: &str) -> Limit {
        Limit::Database(name.into())
    }

    #[test]
    fn under_two_limits_one_claim_at_a_time_stands() {
        let mut claims = Claims::default();
        let both = |user| claim(0, "d", user, true);
        claims.replace(
            0,
            vec![both("u"), both("w"), claim(5, "e", "x", true), claim(7, "d", "y", false)],
            Micros(SECOND),
        );
        let stand =
            |claims: &Claims| [("d", "u"), ("d", "w"), ("e", "x"), ("d", "y")].map(|names| claims.stands(0, names));
        assert_eq!(stand(&claims), [true, false, true, true]);
        // The claim that has waited longest comes first, and pools without one come last.
        let kept = |names| claims.kept(0, names, &database("d"));
        assert_eq!([kept(("d", "u")), kept(("d", "y")), kept(("d", "w")), kept(("d", "v"))], [0, 1, 2, 2]);
        claims.meet(0, ("d", "u"));
        assert_eq!(claims.kept(0, ("d", "v"), &database("d")), 1);
    }

    #[test]
    fn a_claim_keeps_no_place_under_a_limit_that_has_room() {
        let mut claims = Claims::default();
        claims.replace(0, vec![claim(0, "d", "u", false), claim(0, "e", "u", false)], Micros(SECOND));
        assert_eq!(claims.kept(0, ("f", "u"), &Limit::User("u".into())), 0);
        assert_eq!(claims.kept(0, ("d", "v"), &database("d")), 1);
    }

    #[test]
    fn a_limit_loses_a_third_of_its_time_at_most_and_all_take_turns() {
        let mut claims = Claims::default();
        let users = ["a", "b", "c", "d", "e"];
        let (mut stood, mut turns) = (0, std::collections::BTreeMap::new());
        let mut last = None;
        for tick in 10..1210_u64 {
            // The clients of all but the last give up after 1.6 s and try again.
            let begun = |number: usize| if number == 4 { 0 } else { tick / 16 * 16 + number as u64 % 3 };
            let waits = |number: &usize| tick >= begun(*number) + 10;
            let asked = (0..5).filter(waits).map(|number| claim(begun(number) * SECOND / 10, "x", users[number], true));
            claims.replace(0, asked.collect(), Micros(tick * SECOND / 10));
            let now = users.iter().find(|user| claims.stands(0, ("x", user)));
            stood += usize::from(now.is_some());
            if now != last {
                *turns.entry(now).or_insert(0) += 1;
            }
            last = now;
        }
        // The rest of the last turn is not over.
        assert!(stood <= 1200 / 3 + 60, "{stood} of 1200");
        assert!(turns.contains_key(&Some(&"e")), "{turns:?}");
    }

    #[test]
    fn a_turn_lasts_for_a_quarter_of_the_wait() {
        let mut claims = Claims::default();
        let mut lengths = Vec::new();
        let mut from = None;
        for tick in 10..1200_u64 {
            claims.replace(3, vec![claim(0, "d", "u", true)], Micros(tick * SECOND / 10));
            match (claims.stands(3, ("d", "u")), from) {
                (true, None) => from = Some(tick),
                (false, Some(begun)) => {
                    lengths.push(tick - begun);
                    from = None;
                }
                _ => (),
            }
        }
        assert_eq!(lengths.first(), Some(&5));
        assert!(lengths.is_sorted() && lengths.last().is_some_and(|last| *last > 50), "{lengths:?}");
    }

    #[test]
    fn a_turn_whose_end_is_seen_late_rests_for_no_longer() {
        let mut claims = Claims::default();
        claims.replace(0, vec![claim(0, "d", "u", true)], Micros(SECOND));
        claims.replace(0, vec![claim(0, "d", "u", true)], Micros(26 * SECOND));
        assert!(claims.stands(0, ("d", "u")));
    }

    #[test]
    fn what_is_met_or_given_up_leaves_nothing() {
        let mut claims = Claims::default();
        claims.replace(0, vec![claim(0, "d", "u", false)], Micros(SECOND));
        claims.replace(1, vec![claim(1, "d", "u", true)], Micros(SECOND));
        claims.meet(0, ("d", "u"));
        assert_eq!(claims.kept(0, ("d", "u"), &database("d")), 1);
        claims.replace(1, Vec::new(), Micros(SECOND + SECOND / 2));
        assert_eq!(claims.kept(0, ("d", "u"), &database("d")), 0);
        claims.replace(1, vec![claim(1, "d", "u", true)], Micros(2 * SECOND));
        assert!(!claims.stands(1, ("d", "u")), "the limits rest");
        claims.replace(1, vec![claim(1, "d", "u", true)], Micros(5 * SECOND));
        assert!(claims.stands(1, ("d", "u")));
        claims.meet(1, ("d", "u"));
        assert!(claims.turns.is_empty());
    }
}
