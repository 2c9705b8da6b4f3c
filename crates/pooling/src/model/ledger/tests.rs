//! Each rule by itself, and all of them in a simulation by seed: workers with queues and connections, whose messages
//! arrive late and in any order among workers, and clients who come, hold a connection and leave.

use std::collections::VecDeque;

use super::*;

const AT: fn(u64) -> Option<Micros> = |moment| Some(Micros(moment));

fn of(members: usize) -> Ledger {
    let mut ledger = Ledger::default();
    (0..members).for_each(|worker| ledger.join(worker));
    ledger
}

fn stands(idle: bool, oldest: Option<Micros>) -> Standing {
    Standing { idle, oldest, waiting: 9 * usize::from(oldest.is_some()), stuck: false }
}

#[test]
fn all_workers_together_keep_within_the_size() {
    let mut ledger = of(2);
    assert!(ledger.open(0, 2) && ledger.open(1, 2));
    assert!(!ledger.open(0, 2) && !ledger.open(1, 2));
    assert!(ledger.open(1, 3), "with the reserve");
    assert_eq!(ledger.total(), 3);
    ledger.close(1);
    ledger.hand_over(1, 0);
    assert_eq!((ledger.total(), ledger.open(1, 2)), (2, false));
    assert_eq!((ledger.another(0), ledger.another(1)), (Some(1), Some(0)));
    ledger.leave(1);
    assert_eq!((ledger.another(0), ledger.total()), (None, 2), "what it had is counted until it is closed");
}

#[test]
fn who_waits_opens_where_there_is_room_and_asks_where_there_is_none() {
    let mut ledger = of(2);
    assert!(ledger.open(0, 2));
    assert_eq!(ledger.report(0, stands(true, None), 2), Step::Nothing);
    assert_eq!(ledger.report(1, stands(false, AT(5)), 2), Step::Nothing, "it opens one");
    assert!(ledger.open(0, 2));
    assert_eq!(ledger.report(1, stands(false, AT(5)), 2), Step::Ask(0));
    assert_eq!(ledger.report(0, stands(true, None), 2), Step::Give(1), "whichever of the two comes first");
    ledger.hand_over(0, 1);
    assert_eq!(ledger.report(0, stands(false, None), 2), Step::Nothing);
}

#[test]
fn whom_the_server_refuses_gets_an_idle_connection_whatever_room_there_is() {
    let mut ledger = of(2);
    assert!(ledger.open(0, 9));
    ledger.report(0, stands(true, None), 9);
    let stuck = Standing { stuck: true, ..stands(false, AT(5)) };
    assert_eq!(ledger.report(1, stuck, 9), Step::Ask(0));
    assert_eq!(ledger.report(0, stands(true, None), 9), Step::Give(1));
    assert_eq!(ledger.heir(0, (None, None), 0, Micros(5), 9), Some(1));
}

#[test]
fn a_free_connection_goes_to_who_has_waited_longest_if_that_is_much_longer() {
    let mut ledger = of(3);
    (0..3).for_each(|worker| assert!(ledger.open(worker, 3)));
    ledger.report(1, stands(false, AT(10_000)), 3);
    ledger.report(2, stands(false, AT(9_000)), 3);
    let now = Micros(17_000);
    assert_eq!(ledger.heir(0, (None, None), 0, now, 3), Some(2));
    assert_eq!(
        ledger.heir(0, (AT(15_000), None), 1, now, 3),
        None,
        "four milliseconds and a quarter of eight are not passed"
    );
    assert_eq!(ledger.heir(0, (AT(15_100), None), 1, now, 3), Some(2));
    assert_eq!(ledger.heir(0, (AT(8_000), None), 1, now, 3), None);
    assert_eq!(ledger.heir(0, (None, None), 0, now, 4), None, "there is room: they open their own");
}

#[test]
fn who_has_more_than_its_share_gives_to_who_has_less_and_waits() {
    let mut ledger = of(2);
    (0..4).for_each(|_| assert!(ledger.open(0, 4)));
    assert_eq!(ledger.creditor(1, 4), None, "nobody waits");
    ledger.report(1, stands(false, AT(1)), 4);
    assert_eq!(ledger.creditor(1, 4), Some(0));
    assert_eq!(ledger.creditor(1, 4), None, "once at a time");
    assert!(ledger.owes(0, 4));
    assert_eq!(ledger.heir(0, (AT(0), None), 1, Micros(1), 4), Some(1), "though its own clients have waited longer");
    ledger.hand_over(0, 1);
    assert!(!ledger.owes(0, 4));
    assert_eq!(ledger.creditor(1, 4), Some(0));
    ledger.hand_over(0, 1);
    assert_eq!(ledger.creditor(1, 4), None, "each has its share");
    ledger.hand_over(1, 0);
    assert_eq!(ledger.creditor(1, 4), Some(0));
    ledger.report(1, stands(false, None), 4);
    assert!(!ledger.owes(0, 4), "nobody waits any more");
}

#[test]
fn who_has_none_gets_one_of_fewer_connections_than_workers() {
    let mut ledger = of(3);
    assert!(ledger.open(0, 1));
    ledger.report(1, stands(false, AT(1)), 1);
    assert_eq!(ledger.creditor(1, 1), Some(0));
    assert_eq!(ledger.heir(0, (AT(0), None), 1, Micros(1), 1), Some(1));
}

#[test]
fn who_cannot_give_what_it_owes_does_not_keep_others_from_it() {
    let mut ledger = of(3);
    (0..5).for_each(|_| assert!(ledger.open(0, 9)));
    (0..4).for_each(|_| assert!(ledger.open(1, 9)));
    ledger.report(2, stands(false, AT(1)), 9);
    assert_eq!(ledger.creditor(2, 9), Some(0));
    assert_eq!(ledger.creditor(2, 9), Some(1), "all of the first are held for long");
    assert_eq!(ledger.heir(1, (AT(0), None), 1, Micros(1), 9), Some(2));
}

#[test]
fn who_waits_for_one_connection_is_given_one() {
    let mut ledger = of(2);
    (0..4).for_each(|_| assert!(ledger.open(0, 4)));
    ledger.report(1, Standing { waiting: 2, ..stands(false, AT(5)) }, 4);
    for _ in 0..2 {
        assert_eq!(ledger.report(0, stands(true, None), 4), Step::Give(1));
        ledger.hand_over(0, 1);
    }
    assert_eq!(ledger.report(0, stands(true, None), 4), Step::Nothing, "two are on their way");
    assert_eq!(ledger.heir(0, (None, None), 0, Micros(9), 4), None);
    // The first client of its own gets the free connection: no client waits there any more.
    assert_eq!(ledger.heir(1, (AT(5), None), 1, Micros(9), 4), None);
    assert_eq!(ledger.heir(0, (None, None), 0, Micros(9), 4), None);
}

#[test]
fn a_closed_connection_makes_room_for_who_has_waited_longest() {
    let mut ledger = of(2);
    assert!(ledger.open(0, 1));
    ledger.report(1, stands(false, AT(1)), 1);
    assert_eq!(ledger.in_need(0, 1), None);
    ledger.close(0);
    assert_eq!((ledger.in_need(0, 1), ledger.in_need(1, 1)), (Some(1), None));
    assert!(ledger.open(1, 1));
}

/// Numbers by a seed.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Told {
    Asked,
    Owes,
    Room,
    Connection,
}

/// A worker as the pooler's are: what it does is what the ledger says, and what it knows of others is what it is told.
#[derive(Default)]
struct Worker {
    idle: usize,
    /// The time until which each lent connection is used; one without end is pipelined, and ends when the worker owes
    /// one.
    lent: Vec<Option<u64>>,
    connecting: usize,
    queue: VecDeque<u64>,
    inbox: VecDeque<(u64, Told)>,
}

struct World {
    now: u64,
    size: usize,
    ledger: Ledger,
    workers: Vec<Worker>,
    longest: u64,
    handed: u64,
}

impl World {
    fn oldest(&self, at: usize) -> Option<Micros> {
        self.workers[at].queue.front().map(|since| Micros(*since))
    }

    fn tell(&mut self, to: usize, delay: u64, what: Told) {
        let due = self.now + delay;
        self.workers[to].inbox.push_back((due, what));
    }

    fn give(&mut self, from: usize, to: usize) {
        self.ledger.hand_over(from, to);
        self.handed += 1;
        self.tell(to, 50, Told::Connection);
    }

    /// A connection of a worker is free.
    fn free(&mut self, at: usize, chance: &mut Chance) {
        let (own, waiting) = (self.oldest(at), self.workers[at].queue.len());
        let next = self.workers[at].queue.get(1).map(|since| Micros(*since));
        if let Some(heir) = self.ledger.heir(at, (own, next), waiting, Micros(self.now), self.size) {
            self.give(at, heir);
        } else {
            self.workers[at].idle += 1;
        }
        self.settle(at, chance);
    }

    /// Serves the queue, opens connections, reports.
    fn settle(&mut self, at: usize, chance: &mut Chance) {
        let now = self.now;
        let worker = &mut self.workers[at];
        while worker.idle > 0
            && let Some(since) = worker.queue.pop_front()
        {
            worker.idle -= 1;
            self.longest = self.longest.max(now - since);
            // One in ten is a pipelined connection that readers keep busy for as long as no other worker must have it.
            let until = (chance.below(10) > 0).then(|| now + 1 + chance.below(2000));
            worker.lent.push(until);
        }
        while self.workers[at].queue.len() > self.workers[at].connecting && self.ledger.open(at, self.size) {
            self.workers[at].connecting += 1;
        }
        let (idle, oldest) = (self.workers[at].idle > 0, self.oldest(at));
        let standing = Standing { waiting: self.workers[at].queue.len(), ..stands(idle, oldest) };
        match self.ledger.report(at, standing, self.size) {
            Step::Nothing => (),
            Step::Ask(other) => self.tell(other, 50, Told::Asked),
            Step::Give(other) => {
                self.workers[at].idle -= 1;
                self.give(at, other);
            }
        }
    }

    fn turn(&mut self, at: usize, chance: &mut Chance) {
        while let Some(&(due, told)) = self.workers[at].inbox.front()
            && due <= self.now
        {
            self.workers[at].inbox.pop_front();
            match told {
                Told::Asked | Told::Room | Told::Owes => self.settle(at, chance),
                Told::Connection => self.free(at, chance),
            }
        }
        let owes = self.ledger.owes(at, self.size);
        let now = self.now;
        // A worker's own clients get a connection that is busy without end by the rule of each worker.
        let own = !self.workers[at].queue.is_empty() && chance.below(20) == 0;
        let ends = |until: &Option<u64>| until.map_or(owes || own, |until| until <= now);
        if let Some(place) = self.workers[at].lent.iter().position(ends) {
            self.workers[at].lent.swap_remove(place);
            if chance.below(50) == 0 {
                // The server has closed it.
                self.ledger.close(at);
                if let Some(other) = self.ledger.in_need(at, self.size) {
                    self.tell(other, 50, Told::Room);
                }
                self.settle(at, chance);
            } else {
                self.free(at, chance);
            }
        }
        if self.workers[at].connecting > 0 && chance.below(20) == 0 {
            self.workers[at].connecting -= 1;
            self.free(at, chance);
        }
        if chance.below(100) == 0 {
            self.settle(at, chance);
            if self.oldest(at).is_some_and(|since| self.now - since.0 > 5000)
                && let Some(debtor) = self.ledger.creditor(at, self.size)
            {
                self.tell(debtor, 50, Told::Owes);
            }
        }
    }

    fn check(&self, seed: u64) {
        assert!(self.ledger.total() <= self.size, "seed {seed}: more connections than the pool may have");
        let held: usize = self.workers.iter().map(|worker| worker.idle + worker.lent.len() + worker.connecting).sum();
        let travel = |worker: &Worker| worker.inbox.iter().filter(|(_, told)| *told == Told::Connection).count();
        let travelling: usize = self.workers.iter().map(travel).sum();
        assert_eq!(held + travelling, self.ledger.total(), "seed {seed}: a connection is lost or counted twice");
    }
}

#[test]
fn whatever_happens_the_size_is_kept_and_nobody_waits_for_ever() {
    let mut handed = 0;
    for seed in 0..400 {
        let mut chance = Chance(seed);
        let members = 1 + chance.below(8) as usize;
        let size = 1 + chance.below(members as u64 + 20) as usize;
        let mut world = World {
            now: 0,
            size,
            ledger: of(members),
            workers: (0..members).map(|_| Worker::default()).collect(),
            longest: 0,
            handed: 0,
        };
        // More of the clients come to some workers than to others.
        let skew = 1 + chance.below(4);
        for step in 0..6000_u64 {
            world.now += chance.below(100);
            if step < 4000 && chance.below(4) == 0 {
                let at = (chance.below(members as u64 * skew) / skew.max(1 + chance.below(skew))) as usize % members;
                let now = world.now;
                world.workers[at].queue.push_back(now);
                world.settle(at, &mut chance);
            }
            for at in 0..members {
                world.turn(at, &mut chance);
            }
            world.check(seed);
        }
        for _ in 0..20_000 {
            if world.workers.iter().all(|worker| worker.queue.is_empty()) {
                break;
            }
            world.now += 100;
            (0..members).for_each(|at| world.turn(at, &mut chance));
            world.check(seed);
        }
        let left: Vec<usize> = world.workers.iter().map(|worker| worker.queue.len()).collect();
        assert!(left.iter().all(|left| *left == 0), "seed {seed}: clients wait for ever: {left:?} of {size}");
        handed += world.handed;
    }
    assert!(handed > 10_000, "connections were handed over: {handed}");
}
