//! The choice of a server for one statement.

use crate::view::Reader;
use crate::{ServerId, Standing, View};

/// What a statement needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Want {
    /// The primary.
    Write,
    /// A replica.
    Replica,
    /// A replica; the primary when there is none.
    ReplicaOrPrimary,
    /// Any of the replicas and the primary, all alike.
    Any,
}

/// By what one of several servers is chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Strategy {
    /// By chance.
    #[default]
    Random,
    /// One after the other.
    RoundRobin,
    /// The one with the fewest statements under way; by chance among equals.
    LeastOutstanding,
    /// By chance, in proportion to the weights; one of weight 0 only when all have weight 0.
    Weighted,
}

/// The servers that a statement has already been sent to in vain.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tried(u64);

impl std::ops::BitOr for Tried {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Tried {
    /// Marks one.
    pub fn add(&mut self, id: ServerId) {
        self.0 |= 1 << id.0;
    }

    /// Whether it has been tried.
    pub fn has(self, id: ServerId) -> bool {
        self.0 & (1 << id.0) != 0
    }

    /// Whether none has.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// The state that chance and turns need: each thread has its own for each cluster.
#[derive(Debug, Clone)]
pub struct Turn {
    dice: u64,
    next: usize,
}

impl Turn {
    /// A state from a seed: the same seed, the same choices. Threads with different seeds begin at different servers.
    pub fn new(seed: u64) -> Self {
        let mut turn = Self { dice: seed, next: 0 };
        turn.next = turn.below(1 << 16);
        turn
    }

    /// A number below `bound`, or 0. (SplitMix64; the bias of the reduction is below 2^-32 for any count of servers.)
    fn below(&mut self, bound: usize) -> usize {
        self.dice = self.dice.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.dice;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        ((u128::from(mixed) * bound as u128) >> 64) as usize
    }
}

/// Why no server can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The servers have not been heard of yet: wait for the next view.
    NotKnownYet,
    /// There is no primary: it is down, and none has been promoted yet.
    NoPrimary,
    /// No replica serves, and the primary may not be read or is not there.
    NoReader,
    /// All that would serve have been tried.
    AllTried,
}

/// No server can be chosen now; a later view may have one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unavailable {
    /// What was wanted.
    pub want: Want,
    /// Why there is none.
    pub why: Reason,
    /// What keeps the servers out: how many and by what, for people.
    pub kept_out: String,
}

impl std::fmt::Display for Unavailable {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match self.want {
            Want::Write => "a primary",
            Want::Replica => "a replica",
            Want::ReplicaOrPrimary | Want::Any => "a server for reads",
        };
        match self.why {
            Reason::NotKnownYet => write!(out, "{what} is not known yet"),
            Reason::AllTried => write!(out, "every server that could be {what} has failed ({})", self.kept_out),
            Reason::NoPrimary | Reason::NoReader => write!(out, "there is no {} now ({})", &what[2..], self.kept_out),
        }
    }
}

impl std::error::Error for Unavailable {}

impl View {
    /// Chooses a server for a statement: one that serves what it wants and has not been `tried`. `outstanding` counts
    /// what is under way by [`ServerId::index`]; what lies beyond its end counts as 0.
    pub fn choose(
        &self,
        want: Want,
        strategy: Strategy,
        outstanding: &[u32],
        tried: Tried,
        turn: &mut Turn,
    ) -> Result<ServerId, Unavailable> {
        let untried_primary = || self.primary().filter(|&id| !tried.has(id));
        let readable_primary =
            || untried_primary().filter(|&id| self.readers().last().is_some_and(|reader| reader.id == id));
        let chosen = match want {
            Want::Write => untried_primary(),
            Want::Replica => pick(self.replicas(), strategy, outstanding, tried, turn),
            Want::ReplicaOrPrimary => {
                pick(self.replicas(), strategy, outstanding, tried, turn).or_else(readable_primary)
            }
            Want::Any => pick(self.readers(), strategy, outstanding, tried, turn),
        };
        chosen.ok_or_else(|| self.unavailable(want, tried))
    }

    #[cold]
    fn unavailable(&self, want: Want, tried: Tried) -> Unavailable {
        let candidates = match want {
            Want::Write => usize::from(self.primary().is_some()),
            Want::Replica => self.replicas().len(),
            Want::ReplicaOrPrimary | Want::Any => self.readers().len(),
        };
        let unheard = self.servers().iter().any(|server| server.standing == Standing::Unknown);
        let why = match want {
            _ if candidates > 0 => Reason::AllTried,
            _ if unheard => Reason::NotKnownYet,
            Want::Write => Reason::NoPrimary,
            _ => Reason::NoReader,
        };
        let mut reasons: Vec<String> = Vec::new();
        for server in self.servers() {
            let reason = match server.standing {
                _ if tried.has(server.id) => "tried",
                Standing::Replica | Standing::Primary if server.banned => "banned",
                other => other.word(),
            };
            reasons.push(format!("{}:{} {reason}", server.host, server.port));
        }
        Unavailable { want, why, kept_out: reasons.join(", ") }
    }
}

/// One of `readers`, by the strategy.
fn pick(
    readers: &[Reader],
    strategy: Strategy,
    outstanding: &[u32],
    tried: Tried,
    turn: &mut Turn,
) -> Option<ServerId> {
    let left = || readers.iter().filter(|reader| !tried.has(reader.id));
    let count = if tried.is_empty() { readers.len() } else { left().count() };
    match count {
        0 => return None,
        1 => return left().next().map(|reader| reader.id),
        _ => (),
    }
    let by_chance = |turn: &mut Turn| left().nth(turn.below(count)).map(|reader| reader.id);
    match strategy {
        Strategy::Random => by_chance(turn),
        Strategy::RoundRobin => {
            let start = turn.next % readers.len();
            let place = (start..readers.len())
                .chain(0..start)
                .find(|&place| readers.get(place).is_some_and(|reader| !tried.has(reader.id)))?;
            turn.next = place + 1;
            readers.get(place).map(|reader| reader.id)
        }
        Strategy::LeastOutstanding => {
            let load = |reader: &Reader| outstanding.get(reader.id.index()).copied().unwrap_or(0);
            let least = left().map(load).min()?;
            let equals = || left().filter(|reader| load(reader) == least);
            let chosen = turn.below(equals().count());
            equals().nth(chosen).map(|reader| reader.id)
        }
        Strategy::Weighted => {
            let total: usize = left().map(|reader| reader.weight as usize).sum();
            if total == 0 {
                return by_chance(turn);
            }
            let mut point = turn.below(total);
            left()
                .find(|reader| {
                    let weight = reader.weight as usize;
                    let hit = point < weight;
                    point = point.saturating_sub(weight);
                    hit
                })
                .map(|reader| reader.id)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Listed;

    fn view(standings: &[(Standing, u32, bool)]) -> View {
        View::new(
            standings
                .iter()
                .enumerate()
                .map(|(number, &(standing, weight, banned))| Listed {
                    id: ServerId(u8::try_from(number).unwrap()),
                    host: format!("h{number}"),
                    port: 5432,
                    weight,
                    standing,
                    banned,
                    only_read: false,
                })
                .collect(),
        )
    }

    fn shares(view: &View, want: Want, strategy: Strategy, outstanding: &[u32]) -> Vec<u32> {
        let mut turn = Turn::new(1);
        let mut counts = view.counters();
        for _ in 0..10_000 {
            let id = view.choose(want, strategy, outstanding, Tried::default(), &mut turn).unwrap();
            counts[id.index()] += 1;
        }
        counts
    }

    const USUAL: &[(Standing, u32, bool)] = &[
        (Standing::Primary, 1, false),
        (Standing::Replica, 1, false),
        (Standing::Replica, 3, false),
        (Standing::Lagging, 9, false),
        (Standing::Replica, 9, true),
    ];

    #[test]
    fn writes_go_to_the_primary_alone() {
        assert_eq!(shares(&view(USUAL), Want::Write, Strategy::Random, &[]), [10_000, 0, 0, 0, 0]);
    }

    #[test]
    fn each_strategy_shares_reads_as_it_says() {
        let view = view(USUAL);
        let near = |counts: Vec<u32>, expected: [u32; 5]| {
            for (count, expected) in counts.iter().zip(expected) {
                assert!(count.abs_diff(expected) < 300, "{counts:?}");
            }
        };
        near(shares(&view, Want::Replica, Strategy::Random, &[]), [0, 5000, 5000, 0, 0]);
        near(shares(&view, Want::Any, Strategy::Random, &[]), [3333, 3333, 3333, 0, 0]);
        near(shares(&view, Want::Replica, Strategy::Weighted, &[]), [0, 2500, 7500, 0, 0]);
        near(shares(&view, Want::Any, Strategy::LeastOutstanding, &[4, 4, 5]), [5000, 5000, 0, 0, 0]);
        assert_eq!(shares(&view, Want::Replica, Strategy::RoundRobin, &[]), [0, 5000, 5000, 0, 0]);
        assert_eq!(shares(&view, Want::ReplicaOrPrimary, Strategy::RoundRobin, &[]), [0, 5000, 5000, 0, 0]);
    }

    #[test]
    fn what_was_tried_is_not_chosen_again_and_the_primary_comes_last() {
        let view = view(USUAL);
        for strategy in [Strategy::Random, Strategy::RoundRobin, Strategy::LeastOutstanding, Strategy::Weighted] {
            let mut turn = Turn::new(7);
            let mut tried = Tried::default();
            let mut order = Vec::new();
            while let Ok(id) = view.choose(Want::ReplicaOrPrimary, strategy, &[], tried, &mut turn) {
                assert!(!tried.has(id));
                tried.add(id);
                order.push(id.index());
            }
            assert_eq!(order.len(), 3, "{strategy:?}");
            assert_eq!(order[2], 0, "{strategy:?}");
        }
    }

    #[test]
    fn nobody_is_an_error_that_says_who_is_kept_out_by_what() {
        let mut turn = Turn::new(0);
        let mut ask = |view: &View, want| {
            let error = view.choose(want, Strategy::Random, &[], Tried::default(), &mut turn).unwrap_err();
            (error.why, error.to_string())
        };
        let down = view(&[(Standing::Down, 1, false), (Standing::Replica, 1, true), (Standing::Lagging, 1, false)]);
        assert_eq!(
            ask(&down, Want::Replica),
            (Reason::NoReader, "there is no replica now (h0:5432 down, h1:5432 banned, h2:5432 lagging)".to_owned())
        );
        assert_eq!(ask(&down, Want::Write).0, Reason::NoPrimary);
        let blank = view(&[(Standing::Unknown, 1, false)]);
        assert_eq!(ask(&blank, Want::Any), (Reason::NotKnownYet, "a server for reads is not known yet".to_owned()));
        let banned = view(&[(Standing::Primary, 1, true)]);
        assert_eq!(ask(&banned, Want::Any).0, Reason::NoReader);
        assert!(banned.choose(Want::Write, Strategy::Random, &[], Tried::default(), &mut turn).is_ok());
    }

    #[test]
    fn weights_of_nought_are_used_only_when_all_are() {
        let some = view(&[(Standing::Replica, 0, false), (Standing::Replica, 1, false)]);
        assert_eq!(shares(&some, Want::Replica, Strategy::Weighted, &[]), [0, 10_000]);
        let none = view(&[(Standing::Replica, 0, false), (Standing::Replica, 0, false)]);
        assert!(shares(&none, Want::Replica, Strategy::Weighted, &[]).iter().all(|&count| count > 4000));
    }
}
