//! Several pools, of two databases and two users, under limits that they share; and times in which all clients work without a
//! pause, so that nobody has to wait for long.

use std::collections::VecDeque;
use std::time::Duration;

use super::said::{DISCARD_ALL, READ, ROLLBACK};
use super::{Connection, World};
use crate::dice::Dice;
use crate::setup::Quota;
use crate::trace::trace;

/// The databases and users of clients.
const ACCOUNTS: [(&str, &str); 4] = [("d", "u"), ("d", "v"), ("e", "u"), ("e", "v")];

/// How long the clients work without a pause, and how long none of them may wait meanwhile: in each second somebody's
/// turn comes, and eight clients of four pools may be before one. Under two limits it may take a pool some seconds to get a
/// place under both, and four pools go in pairs.
const BUSTLE: [Duration; 2] = [Duration::from_secs(60), Duration::from_secs(80)];
const LONGEST: [Duration; 2] = [Duration::from_secs(45), Duration::from_secs(60)];

/// What clients do then, unit by unit: all that is begun is ended.
const PLANS: [&[usize]; 4] = [&[READ], &[26], &[13, 26, 15], &[13, READ, 16]];

/// The databases where there are so many pools.
pub(super) fn databases(pools: usize) -> &'static [&'static str] {
    if pools > 1 { &["d", "e"] } else { &["d"] }
}

/// The database and the user of the clients of a pool.
pub(super) fn account(pool: usize) -> (&'static str, &'static str) {
    ACCOUNTS[pool]
}

fn database_of(connection: &Connection) -> &str {
    &connection.database
}

fn user_of(connection: &Connection) -> &str {
    &connection.user
}

/// A client that works without a pause: it says a unit as soon as it has been told of the end of the one before. (One that does
/// not wait for that keeps its connection for as long as it goes on so, as behind PgBouncer.)
#[derive(Default)]
struct Busy {
    /// What it will say.
    plan: VecDeque<usize>,
    /// How many of its units have ended, and when the last did.
    done: usize,
    since: Duration,
}

impl World {
    /// Servers have no more connections than the limits allow. Those that bring cancel requests log in to nothing.
    pub(super) fn judge_limits(&self) {
        if self.quota == Quota::default() {
            return;
        }
        for (most, of) in [(self.quota.database, database_of as fn(&Connection) -> &str), (self.quota.user, user_of)] {
            let names = self.connections.iter().filter(|connection| connection.is_logged_in).map(of);
            for name in names.clone() {
                let found = names.clone().filter(|other| *other == name).count();
                assert!(most == 0 || found <= most, "{found} server connections of {name}, which may have {most}");
            }
        }
    }

    /// All clients work without a pause for a while: who waits is served before long.
    pub fn bustle(&mut self, dice: &mut Dice) {
        self.come_to_rest();
        let mut clients: Vec<Busy> = self.clients.iter().map(|_| Busy::default()).collect();
        let two = usize::from(self.quota.database > 0 && self.quota.user > 0);
        let mut now = Duration::ZERO;
        trace!("everybody works");
        while now < BUSTLE[two] {
            for (who, busy) in clients.iter_mut().enumerate() {
                self.keep_busy(who, busy, dice);
            }
            self.turn();
            for who in 0..self.connections.len() {
                if dice.below(3) > 0 {
                    self.work(who, dice.below(3) + 1);
                    self.answer(who, usize::MAX);
                    self.turn();
                }
            }
            let time = Duration::from_millis(dice.of(&[30, 100, 200]));
            now += time;
            self.pass(time);
            self.turn();
            for (who, busy) in clients.iter_mut().enumerate() {
                self.judge_wait(who, busy, now, LONGEST[two]);
            }
        }
    }

    /// Nobody has anything under way, or anything that keeps its connection.
    fn come_to_rest(&mut self) {
        self.recover();
        self.tick();
        self.settle();
        self.rest();
        self.tick();
        self.connections.iter_mut().for_each(|connection| connection.strike = None);
        for who in 0..self.clients.len() {
            if self.clients[who].gone {
                self.leave(who);
            } else {
                self.clients[who].ears.end(&self.ledger.notes);
                self.say(who, 0, &[DISCARD_ALL]);
            }
        }
        self.settle();
        self.rest();
    }

    /// A client says what it says next.
    fn keep_busy(&mut self, who: usize, busy: &mut Busy, dice: &mut Dice) {
        if self.clients[who].gone {
            self.leave(who);
        }
        if self.clients[who].units.is_empty() {
            let is_open = self.clients[who].status != b'I';
            if busy.plan.is_empty() {
                busy.plan.extend(if is_open { &[ROLLBACK][..] } else { dice.of(&PLANS) });
            }
            let statement = busy.plan.pop_front().expect("that");
            self.say(who, dice.of(&[0, 2, 5]), &[statement]);
        }
        self.send(who, usize::MAX);
    }

    fn judge_wait(&self, who: usize, busy: &mut Busy, now: Duration, longest: Duration) {
        let client = &self.clients[who];
        let done = client.count - client.units.len() + usize::from(client.greeted);
        if done != busy.done {
            (busy.done, busy.since) = (done, now);
        }
        let waited = now - busy.since;
        assert!(waited < longest, "client {who} waits for ever while the others work");
    }
}
