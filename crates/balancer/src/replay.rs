//! Which commits each replica has replayed, for reads that must see them.
//!
//! Commits are not followed one by one. The primary is asked now and then for the end of its write-ahead log; each such
//! question is a *round*, and rounds are numbered. All commits before the beginning of a round lie before the position
//! (LSN) in the primary's answer. A replica that has replayed up to that position has replayed all of these commits: it
//! *covers* the round. So a commit needs no position of its own, only the number of the round that was to come next
//! when its acknowledgement was read (the pooler counts them), and one question serves all sessions.
//!
//! Positions of one primary only grow, and so do those of a replica as long as its server runs. The caller must report
//! when that no longer holds: [`Replay::clear`] for another primary, [`Replay::forget`] for a replica that may have
//! been restarted, since during recovery its position is at first lower than before.

use std::collections::VecDeque;

use crate::{MAX_SERVERS, Moment, ServerId};

/// Positions that are kept; a replica that is further behind is known to cover a little less than it does.
const MOST: usize = 256;

/// A round that the primary has answered.
#[derive(Debug, Clone, Copy)]
struct Position {
    round: u64,
    lsn: u64,
    begun: Moment,
}

/// What a replica has said.
#[derive(Debug, Clone, Copy, Default)]
struct Replica {
    /// How far it has replayed.
    replayed: u64,
    /// The last round that it covers; 0 for none.
    covers: u64,
    /// Milliseconds from the beginning of that round until it was known to be covered.
    delay: Option<u64>,
}

/// Which rounds each replica of one primary covers.
#[derive(Debug)]
pub struct Replay {
    positions: VecDeque<Position>,
    replicas: [Option<Replica>; MAX_SERVERS],
}

impl Default for Replay {
    fn default() -> Self {
        Self { positions: VecDeque::new(), replicas: [None; MAX_SERVERS] }
    }
}

impl Replay {
    /// The primary's answer to a round that began then: its log goes so far. Rounds come in the order of their numbers.
    pub fn primary(&mut self, round: u64, begun: Moment, lsn: u64) {
        if self.positions.back().is_some_and(|last| round <= last.round || lsn < last.lsn) {
            // No answer that the same primary could give: what was known is not true of this one.
            self.clear();
        }
        if self.positions.len() >= MOST {
            // A commit that was covered by a round is covered by each later one.
            let mut number = 0;
            self.positions.retain(|_| {
                number += 1;
                number % 2 == 0
            });
        }
        self.positions.push_back(Position { round, lsn, begun });
    }

    /// A replica's answer: it has replayed so far. The last round that it covers; 0 for none.
    pub fn replica(&mut self, id: ServerId, lsn: u64, now: Moment) -> u64 {
        let Some(place) = self.replicas.get_mut(id.index()) else { return 0 };
        let replica = place.get_or_insert_default();
        if lsn < replica.replayed {
            *replica = Replica::default();
        }
        replica.replayed = lsn;
        let covered = self.positions.iter().rev().find(|position| position.lsn <= lsn);
        if let Some(covered) = covered.filter(|covered| covered.round > replica.covers) {
            (replica.covers, replica.delay) = (covered.round, Some(now.since(covered.begun)));
        }
        // One that falls further behind is known to be no nearer than what it does not cover yet.
        let covers = replica.covers;
        let owed = self.positions.iter().find(|position| position.round > covers);
        if let (Some(owed), Some(delay)) = (owed, &mut replica.delay) {
            *delay = (*delay).max(now.since(owed.begun));
        }
        self.drop_settled();
        covers
    }

    /// Whether a replica has rounds left to cover.
    pub fn owes(&self, id: ServerId) -> bool {
        let covers = self.replicas.get(id.index()).copied().flatten().map_or(0, |replica| replica.covers);
        self.positions.back().is_some_and(|last| last.round > covers)
    }

    /// How long a replica takes to cover a round, in milliseconds, by what was seen last; `None` before that.
    pub fn delay(&self, id: ServerId) -> Option<u64> {
        self.replicas.get(id.index()).copied().flatten()?.delay
    }

    /// Nothing is known of a replica any more.
    pub fn forget(&mut self, id: ServerId) {
        if let Some(place) = self.replicas.get_mut(id.index()) {
            *place = None;
        }
    }

    /// Nothing is known any more.
    pub fn clear(&mut self) {
        *self = Self::default();
    }

    /// Drops positions that each replica which is asked covers, but for the last.
    fn drop_settled(&mut self) {
        let covered = self.replicas.iter().flatten().map(|replica| replica.covers).min().unwrap_or(0);
        while self.positions.len() > 1 && self.positions.front().is_some_and(|first| first.round <= covered) {
            self.positions.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ServerId = ServerId(1);
    const B: ServerId = ServerId(2);

    #[test]
    fn a_replica_covers_what_was_committed_before_the_primary_was_asked() {
        let mut replay = Replay::default();
        assert_eq!(replay.replica(A, 500, Moment(0)), 0, "nothing was asked of the primary");
        replay.primary(1, Moment(10), 100);
        replay.primary(2, Moment(20), 200);
        assert_eq!(replay.replica(A, 99, Moment(21)), 0);
        assert_eq!(replay.replica(A, 100, Moment(22)), 1);
        assert!(replay.owes(A));
        assert_eq!(replay.replica(A, 199, Moment(23)), 1);
        assert_eq!(replay.replica(A, 200, Moment(24)), 2);
        assert!(!replay.owes(A));
        assert!(replay.owes(B), "it has not been heard of");
    }

    #[test]
    fn delays_are_those_of_rounds() {
        let mut replay = Replay::default();
        replay.primary(1, Moment(10), 100);
        assert_eq!(replay.delay(A), None);
        replay.replica(A, 100, Moment(13));
        assert_eq!(replay.delay(A), Some(3));
        replay.primary(2, Moment(20), 200);
        replay.replica(A, 150, Moment(60));
        assert_eq!(replay.delay(A), Some(40), "the second round is as late as that already");
        replay.replica(A, 200, Moment(61));
        assert_eq!(replay.delay(A), Some(41));
        replay.primary(3, Moment(70), 300);
        replay.replica(A, 300, Moment(71));
        assert_eq!(replay.delay(A), Some(1));
    }

    #[test]
    fn what_no_longer_holds_is_forgotten() {
        let mut replay = Replay::default();
        replay.primary(1, Moment(0), 100);
        assert_eq!(replay.replica(A, 100, Moment(1)), 1);
        replay.forget(A);
        assert_eq!(replay.replica(A, 90, Moment(2)), 0, "it was restarted, and shows less");
        assert_eq!(replay.replica(A, 100, Moment(3)), 1);
        assert_eq!(replay.replica(A, 50, Moment(4)), 0, "it goes back, so it is not what it was");
        // Another primary, whose log goes less far.
        replay.primary(2, Moment(5), 80);
        assert_eq!(replay.replica(B, 90, Moment(6)), 2);
    }

    /// Against commits followed one by one: by a seed, commits, rounds and replicas' answers in any order.
    #[test]
    fn no_commit_is_covered_before_it_is_replayed() {
        for seed in 0..300_u64 {
            let mut dice = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
            let mut roll = |bound: u64| {
                dice ^= dice << 13;
                dice ^= dice >> 7;
                dice ^= dice << 17;
                dice % bound
            };
            let mut replay = Replay::default();
            let (mut log, mut next, mut now) = (0, 1, 0);
            let mut commits: Vec<(u64, u64)> = Vec::new();
            let mut replayed = [0_u64; 2];
            // A round that was begun: its number, when, and where the log stood when the primary read the question.
            let mut asked: Option<(u64, Moment, Option<u64>)> = None;
            let mut proven = 0;
            for _ in 0..2000 {
                now += roll(3);
                match roll(6) {
                    0 => {
                        log += 1 + roll(50);
                        commits.push((next, log));
                    }
                    1 if asked.is_none() => {
                        asked = Some((next, Moment(now), None));
                        next += 1;
                    }
                    2 => {
                        if let Some((_, _, seen @ None)) = &mut asked {
                            *seen = Some(log);
                        }
                    }
                    3 => {
                        if let Some((round, begun, Some(lsn))) = asked {
                            replay.primary(round, begun, lsn);
                            asked = None;
                        }
                    }
                    4 => replayed.iter_mut().for_each(|at| *at += roll(log - *at + 1)),
                    _ => {
                        let which = roll(2) as usize;
                        let covers = replay.replica([A, B][which], replayed[which], Moment(now));
                        for &(stamp, lsn) in &commits {
                            assert!(stamp > covers || lsn <= replayed[which], "seed {seed}: {stamp} at {lsn}");
                            proven += u64::from(stamp <= covers);
                        }
                    }
                }
            }
            assert!(proven > 1000, "seed {seed}: {proven}");
        }
    }
}
