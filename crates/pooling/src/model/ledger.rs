//! The server connections of one pool, by worker: how many each has, whose clients wait, who hands one to whom.
//!
//! A worker that has clients waiting first opens a connection, where the pool has room. Where it has none, an idle
//! connection of another worker is handed over; where none is idle, the next that becomes free goes to the worker whose
//! first client has waited longest. The order among clients of different workers so differs from the order of their
//! arrival by no more than [`MARGIN`] and a quarter of their wait: handing over at each smaller difference would cost
//! more than it gives. (With a millisecond and an eighth, four workers with 20 connections and 100 clients, whose
//! transactions took 5 ms, handed one over for three of four transactions.)
//!
//! A worker whose connections never become free, since reads are pipelined on them one behind another, keeps no more than
//! its *share*, the size divided by the members, where another has less and waits ([`Ledger::creditor`]).

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

/// What a worker has of one pool.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Part {
    /// Whether it has the pool at all.
    member: bool,
    /// Its server connections, those being made too.
    open: usize,
    /// Whether one of them is idle.
    idle: bool,
    /// When the client that has waited longest began to wait.
    oldest: Option<Micros>,
    /// How many connections its clients wait for, beside those that are on their way to them.
    waiting: usize,
    /// It cannot open a connection, whatever room there is: the server refuses.
    stuck: bool,
    /// It has more than its share, and gives one up.
    owes: bool,
}

impl Part {
    /// When the client that has waited longest began to wait, if it waits for more than is on its way.
    fn hunger(&self) -> Option<Micros> {
        self.oldest.filter(|_| self.waiting > 0)
    }
}

/// How a worker stands with a pool.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Standing {
    /// Whether one of its connections is idle.
    pub idle: bool,
    /// When the client that has waited longest began to wait.
    pub oldest: Option<Micros>,
    /// How many connections its clients wait for, beside those that will soon be free there.
    pub waiting: usize,
    /// Whether its last attempt to open a connection has failed.
    pub stuck: bool,
}

/// What a worker is to do after a report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Nothing.
    Nothing,
    /// Ask this worker for an idle connection.
    Ask(usize),
    /// Hand an idle connection to this worker.
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

    /// A worker has the pool from now on.
    pub fn join(&mut self, worker: usize) {
        self.part(worker).member = true;
    }

    /// A worker has the pool no longer. A connection that is on its way there is counted still.
    pub fn leave(&mut self, worker: usize) {
        let part = self.part(worker);
        *part = Part { open: part.open, ..Part::default() };
    }

    /// How many workers have the pool.
    pub fn members(&self) -> usize {
        self.parts.iter().filter(|part| part.member).count()
    }

    /// Another worker that has the pool, if there is one.
    pub fn another(&self, worker: usize) -> Option<usize> {
        let others = self.parts.iter().enumerate().filter(|(other, part)| *other != worker && part.member);
        others.map(|(other, _)| other).next()
    }

    /// Connections of all workers.
    pub fn total(&self) -> usize {
        self.parts.iter().map(|part| part.open).sum()
    }

    /// Counts one more connection of a worker, unless all workers have `limit`.
    pub fn open(&mut self, worker: usize, limit: usize) -> bool {
        let opens = self.total() < limit;
        if opens {
            self.part(worker).open += 1;
        }
        opens
    }

    /// A connection of a worker is closed.
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

    /// A connection goes from one worker to another.
    pub fn hand_over(&mut self, from: usize, to: usize) {
        let giver = self.part(from);
        debug_assert!(giver.open > 0, "a connection is handed over that was not counted");
        giver.open = giver.open.saturating_sub(1);
        giver.owes = false;
        let taker = self.part(to);
        taker.open += 1;
        // Else one who waits would be given all that others have, until its worker has heard of the first.
        taker.waiting = taker.waiting.saturating_sub(1);
    }

    /// A worker tells how it stands; `size` is the pool's.
    pub fn report(&mut self, worker: usize, standing: Standing, size: usize) -> Step {
        let Standing { idle, oldest, waiting, stuck } = standing;
        let part = self.part(worker);
        (part.idle, part.oldest, part.waiting, part.stuck) = (idle, oldest, waiting, stuck);
        let hungry = part.hunger().is_some();
        if idle {
            return self.hungriest(Some(worker), size).map_or(Step::Nothing, |(hungry, _)| Step::Give(hungry));
        }
        // Where there is room, who waits opens a connection of its own.
        if !hungry || self.total() < size && !stuck {
            return Step::Nothing;
        }
        let others = self.parts.iter().enumerate().filter(|(other, part)| *other != worker && part.idle);
        others.max_by_key(|(_, part)| part.open).map_or(Step::Nothing, |(other, _)| Step::Ask(other))
    }

    /// To which other worker a connection goes that has become free, by the wait of the worker's own clients: of
    /// the first, and of the one behind it. If to none, the first of these gets it; `waiting` is how many they are.
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

    /// Which worker is to give one of its connections up, that are busy without end, for this one, whose clients wait and
    /// which has less than its share.
    pub fn creditor(&mut self, worker: usize, size: usize) -> Option<usize> {
        let share = self.share(size);
        let part = self.parts.get(worker)?;
        if part.open >= share || part.hunger().is_none() || self.total() < size {
            return None;
        }
        // Where there are fewer connections than workers, who has one has more than who has none. One that has been asked
        // may not be able to give: then it is another's turn.
        let most = if part.open == 0 { 0 } else { share };
        let rich = self.parts.iter_mut().enumerate().filter(|(_, part)| part.open > most && !part.owes);
        let (debtor, part) = rich.max_by_key(|(_, part)| part.open)?;
        part.owes = true;
        Some(debtor)
    }

    /// Whether a worker is still to give one of its connections up: nobody may need one any more.
    pub fn owes(&mut self, worker: usize, size: usize) -> bool {
        let needed = self.deprived(worker, size).is_some();
        let part = self.part(worker);
        part.owes &= needed;
        part.owes
    }

    /// What each member may have however many others want.
    fn share(&self, size: usize) -> usize {
        (size / self.members().max(1)).max(1)
    }

    /// The other worker whose clients have waited longest and that has less than its share.
    fn deprived(&self, worker: usize, size: usize) -> Option<usize> {
        let share = self.share(size);
        let waiting = self.parts.iter().enumerate().filter(|(other, part)| *other != worker && part.open < share);
        waiting.filter_map(|(other, part)| Some((part.hunger()?, other))).min().map(|(_, other)| other)
    }

    /// The worker, another than this, whose clients have waited longest, and since when. Where there is room, only those
    /// count that cannot open a connection of their own.
    fn hungriest(&self, worker: Option<usize>, size: usize) -> Option<(usize, Micros)> {
        let room = self.total() < size;
        let counts = |other: usize, part: &Part| Some(other) != worker && part.member && (part.stuck || !room);
        let others = self.parts.iter().enumerate().filter(|(other, part)| counts(*other, part));
        others.filter_map(|(other, part)| Some((part.hunger()?, other))).min().map(|(since, other)| (other, since))
    }
}

#[cfg(test)]
mod tests;
