//! The server connections of one pool, by worker: the number of connections of each, the workers with waiting clients,
//! and the worker that hands a connection to another.
//!
//! A worker with waiting clients first opens a connection, if the pool has room. If it has none, an idle connection of
//! another worker is handed over; if no connection is idle, the next one that becomes free goes to the worker whose
//! first client has waited longest. So the order among clients of different workers differs from the order of their
//! arrival by no more than [`MARGIN`] and a quarter of their wait: a handover at each smaller difference would cost
//! more time than it saves. (With a millisecond and an eighth, four workers with 20 connections and 100 clients, whose
//! transactions took 5 ms, handed one over for three of four transactions.)
//!
//! The connections of a worker may never become free, because reads are pipelined on them one behind another. Such a
//! worker keeps no more than its *share*, the size divided by the members, while another worker has less and waits
//! ([`Ledger::creditor`]).

/// A moment, in microseconds since one that all workers agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Micros(pub u64);

impl Micros {
    fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A client of another worker must have waited longer than one's own by this much, and a quarter of its wait, to get a
/// connection before it: microseconds.
pub const MARGIN: u64 = 4000;

/// The part of one worker in a pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Part {
    /// Whether the worker has the pool.
    member: bool,
    /// The number of its server connections, also those that are being made.
    open: usize,
    /// Whether one of its connections is idle.
    idle: bool,
    /// The time at which the client that has waited longest began to wait.
    oldest: Option<Micros>,
    /// The number of connections that its clients wait for, beside those that are on their way to them.
    waiting: usize,
    /// Whether the worker cannot open a connection, whatever room there is: the server refuses.
    stuck: bool,
    /// Whether the worker must give one of its connections up to a worker that has too few.
    owes: bool,
}

impl Part {
    /// The time at which the client that has waited longest began to wait, if more connections are needed than are on
    /// their way.
    fn hunger(&self) -> Option<Micros> {
        self.oldest.filter(|_| self.waiting > 0)
    }
}

/// The state of a pool at a worker.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// Whether one of its connections is idle.
    pub idle: bool,
    /// The time at which the client that has waited longest began to wait.
    pub oldest: Option<Micros>,
    /// The number of connections that its clients wait for, beside those that will soon be free there.
    pub waiting: usize,
    /// Whether its last attempt to open a connection has failed.
    pub stuck: bool,
}

/// The next step of a worker after a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The worker does nothing.
    Nothing,
    /// The worker asks this one for an idle connection.
    Ask(usize),
    /// The worker hands an idle connection to this one.
    Give(usize),
}

/// The server connections of one pool.
#[derive(Debug, Default)]
pub struct Ledger {
    parts: Vec<Part>,
}

impl Ledger {
    fn part(&mut self, worker: usize) -> &mut Part {
        if self.parts.len() <= worker {
            self.parts.resize(worker + 1, Part::default());
        }
        &mut self.parts[worker]
    }

    /// Notes that a worker has the pool.
    pub fn join(&mut self, worker: usize) {
        self.part(worker).member = true;
    }

    /// Notes that a worker has the pool no longer. A connection that is on its way there is still counted.
    pub fn leave(&mut self, worker: usize) {
        let part = self.part(worker);
        *part = Part { open: part.open, ..Part::default() };
    }

    /// The number of workers that have the pool.
    pub fn members(&self) -> usize {
        self.parts.iter().filter(|part| part.member).count()
    }

    /// Another worker that has the pool, if there is one.
    pub fn another(&self, worker: usize) -> Option<usize> {
        let others = self.parts.iter().enumerate().filter(|(other, part)| *other != worker && part.member);
        others.map(|(other, _)| other).next()
    }

    /// The number of connections of all workers.
    pub fn total(&self) -> usize {
        self.parts.iter().map(|part| part.open).sum()
    }

    /// Counts one more connection of a worker, unless all workers together have `limit`.
    pub fn open(&mut self, worker: usize, limit: usize) -> bool {
        let opens = self.total() < limit;
        if opens {
            self.part(worker).open += 1;
        }
        opens
    }

    /// Notes that a connection of a worker is closed.
    pub fn close(&mut self, worker: usize) {
        let part = self.part(worker);
        debug_assert!(part.open > 0, "a connection is closed that was not counted");
        part.open = part.open.saturating_sub(1);
    }

    /// The worker whose clients have waited longest, if there is room for a connection and the worker is another: it may
    /// open one.
    pub fn in_need(&self, worker: usize, size: usize) -> Option<usize> {
        let room = self.total() < size;
        let (hungry, _) = self.hungriest(None, 0).filter(|_| room)?;
        (hungry != worker).then_some(hungry)
    }

    /// Notes that a connection goes from one worker to another.
    pub fn hand_over(&mut self, from: usize, to: usize) {
        let giver = self.part(from);
        debug_assert!(giver.open > 0, "a connection is handed over that was not counted");
        giver.open = giver.open.saturating_sub(1);
        giver.owes = false;
        let taker = self.part(to);
        taker.open += 1;
        // Otherwise a waiting client would be given the connections of all others, until its worker has heard of the
        // first.
        taker.waiting = taker.waiting.saturating_sub(1);
    }

    /// Notes the state of the pool at a worker; `size` is the pool's.
    pub fn report(&mut self, worker: usize, standing: Standing, size: usize) -> Step {
        let Standing { idle, oldest, waiting, stuck } = standing;
        let part = self.part(worker);
        (part.idle, part.oldest, part.waiting, part.stuck) = (idle, oldest, waiting, stuck);
        let hungry = part.hunger().is_some();
        if idle {
            return self.hungriest(Some(worker), size).map_or(Step::Nothing, |(hungry, _)| Step::Give(hungry));
        }
        // If there is room, a worker with waiting clients opens a connection of its own.
        if !hungry || self.total() < size && !stuck {
            return Step::Nothing;
        }
        let others = self.parts.iter().enumerate().filter(|(other, part)| *other != worker && part.idle);
        others.max_by_key(|(_, part)| part.open).map_or(Step::Nothing, |(other, _)| Step::Ask(other))
    }

    /// The other worker that gets a connection which has become free, by the wait of the worker's own clients: of the
    /// first, and of the one behind it. If none, the first of these clients gets it; `waiting` is their number.
    pub fn heir(
        &mut self,
        worker: usize,
        (oldest, next): (Option<Micros>, Option<Micros>),
        waiting: usize,
        now: Micros,
        size: usize,
    ) -> Option<usize> {
        let own = self.part(worker);
        // Else two workers that have served everybody could hand it to and fro.
        (own.oldest, own.waiting) = (oldest, waiting);
        let owed = if own.owes { self.deprived(worker, size) } else { None };
        let ahead = |since: Micros| oldest.is_none_or(|own| own.since(since) > MARGIN + now.since(since) / 4);
        let longest = || self.hungriest(Some(worker), size).filter(|(_, since)| ahead(*since)).map(|(other, _)| other);
        let heir = owed.or_else(longest);
        if heir.is_none() {
            let own = self.part(worker);
            (own.oldest, own.waiting) = (next, waiting.saturating_sub(1));
        }
        heir
    }

    /// The worker that must give up one of its connections, none of which becomes free, for this worker, whose clients
    /// wait and which has less than its share.
    pub fn creditor(&mut self, worker: usize, size: usize) -> Option<usize> {
        let share = self.share(size);
        let part = self.parts.get(worker)?;
        if part.open >= share || part.hunger().is_none() || self.total() < size {
            return None;
        }
        // With fewer connections than workers, a worker with one has more than a worker with none. A worker that has
        // been asked may not be able to give: then the next one is asked.
        let most = if part.open == 0 { 0 } else { share };
        let rich = self.parts.iter_mut().enumerate().filter(|(_, part)| part.open > most && !part.owes);
        let (debtor, part) = rich.max_by_key(|(_, part)| part.open)?;
        part.owes = true;
        Some(debtor)
    }

    /// Whether a worker must still give one of its connections up: perhaps no other worker needs it any more.
    pub fn owes(&mut self, worker: usize, size: usize) -> bool {
        let needed = self.deprived(worker, size).is_some();
        let part = self.part(worker);
        part.owes &= needed;
        part.owes
    }

    /// The number of connections that each member may have, whatever the others want.
    fn share(&self, size: usize) -> usize {
        (size / self.members().max(1)).max(1)
    }

    /// The other worker whose clients have waited longest and that has less than its share.
    fn deprived(&self, worker: usize, size: usize) -> Option<usize> {
        let share = self.share(size);
        let waiting = self.parts.iter().enumerate().filter(|(other, part)| *other != worker && part.open < share);
        waiting.filter_map(|(other, part)| Some((part.hunger()?, other))).min().map(|(_, other)| other)
    }

    /// The worker, other than this one, whose clients have waited longest, and the time since when. If there is room,
    /// only workers count that cannot open a connection of their own.
    fn hungriest(&self, worker: Option<usize>, size: usize) -> Option<(usize, Micros)> {
        let room = self.total() < size;
        let counts = |other: usize, part: &Part| Some(other) != worker && part.member && (part.stuck || !room);
        let others = self.parts.iter().enumerate().filter(|(other, part)| counts(*other, part));
        others.filter_map(|(other, part)| Some((part.hunger()?, other))).min().map(|(since, other)| (other, since))
    }
}

#[cfg(test)]
mod tests;
