//! A pipelined server connection: the units in flight on it, and what has been answered.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::model::fingerprint::Fingerprint;
use crate::model::keys::ClientKey;
use crate::model::statement::Statement;

/// History that is done with is thrown away when it is this much.
const COMPACT: usize = 65_536;

/// A unit that was sent and is not answered.
#[derive(Debug)]
pub struct Unit {
    /// Whose it is; `None` when nobody waits for its answer any more.
    pub client: Option<ClientKey>,
    /// What kind of statement it is.
    pub fingerprint: Option<Rc<Fingerprint>>,
    /// Bytes as the client sent them.
    pub size: usize,
    /// It is no read: it is asked again only where the server did not do it.
    pub writes: bool,
    /// Its client's unnamed statement before it.
    pub unnamed: Option<Rc<Statement>>,
    /// The names that its client gives statements in it.
    pub names: Vec<Box<[u8]>>,
    /// Whether the server has kept the statement without a name that it binds; `None` if it binds none.
    pub kept: Option<bool>,
}

/// What a server connection needs to know as a pipelined connection.
#[derive(Debug)]
pub struct Pipeline {
    /// The units in flight, in the order in which they were sent.
    pub units: VecDeque<Unit>,
    /// What the unit at the head has answered so far.
    pub stage: Vec<u8>,
    /// Part of that has been passed on already: it was too much to keep.
    pub forwarded: bool,
    /// The units' bytes, one behind another, from the head's on.
    pub history: Vec<u8>,
    /// Bytes at the start of the history that are done with.
    pub done: usize,
    /// Since when the unit at the head is.
    pub head_since: Instant,
    /// No unit is added: what is in flight shall end first.
    pub closed: bool,
    /// Those behind the head have been asked elsewhere.
    pub rescued: bool,
    /// When it is looked at next whether the head takes long.
    pub looked_at: Instant,
    /// The unit at the head has answered with an error already.
    pub failed: bool,
    /// What has gone wrong is not the head's fault: it is asked again.
    pub again: bool,
    /// One unit has it to itself.
    pub alone: bool,
    /// Bytes for the server wait to be sent at the end of the turn.
    pub unflushed: bool,
}

impl Pipeline {
    /// No units in flight.
    pub fn new(now: Instant) -> Self {
        Self {
            units: VecDeque::new(),
            stage: Vec::new(),
            forwarded: false,
            history: Vec::new(),
            done: 0,
            head_since: now,
            closed: false,
            rescued: false,
            looked_at: now,
            failed: false,
            again: false,
            alone: false,
            unflushed: false,
        }
    }

    /// The unit at the head has been answered: it, and how long it took. The next is at the head from then on.
    pub fn finish_head(&mut self, now: Instant) -> Option<(Unit, Duration)> {
        let unit = self.units.pop_front()?;
        let took = now.saturating_duration_since(self.head_since);
        (self.head_since, self.looked_at, self.failed, self.forwarded) = (now, now, false, false);
        self.done += unit.size;
        if self.units.is_empty() {
            self.history.clear();
            self.done = 0;
        } else if self.done >= COMPACT {
            self.history.drain(..self.done);
            self.done = 0;
        }
        Some((unit, took))
    }

    /// The client of the unit at the head.
    pub fn head(&self) -> Option<ClientKey> {
        self.units.front().and_then(|unit| unit.client)
    }

    /// The connection is pipelined again: nothing of before counts.
    pub fn restart(&mut self, now: Instant) {
        self.stage.clear();
        self.history.clear();
        self.done = 0;
        (self.head_since, self.looked_at) = (now, now);
        (self.forwarded, self.closed, self.rescued, self.again, self.failed) = (false, false, false, false, false);
    }
}
