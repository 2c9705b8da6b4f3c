//! A pipelined server connection: the units in flight on it, and their answers so far.

use std::collections::VecDeque;
use std::rc::Rc;
use std::time::{Duration, Instant};

use wire::backend::tag;
use wire::frame::HEADER;

use crate::model::fingerprint::Fingerprint;
use crate::model::held::Held;
use crate::model::keys::ClientKey;
use crate::model::shape::Shape;

/// The size at which bytes of the history that are not needed any more are thrown away.
const COMPACT: usize = 65_536;

/// A unit that was sent and is not answered.
#[derive(Debug)]
pub struct Unit {
    /// The client of the unit; `None` when no client waits for its answer any more.
    pub client: Option<ClientKey>,
    /// The fingerprint of its statement.
    pub fingerprint: Option<Rc<Fingerprint>>,
    /// The number of its bytes, as the client sent them.
    pub size: usize,
    /// Whether the unit is no read: then it is retried only if the server did not run it.
    pub writes: bool,
    /// Its client's unnamed statement before it.
    pub unnamed: Option<Rc<Held>>,
    /// The names that its client gives statements in it.
    pub names: Vec<Box<[u8]>>,
    /// Whether it prepares a statement without a name.
    pub prepares: bool,
}

/// The state of a server connection as a pipelined connection.
#[derive(Debug)]
pub struct Pipeline {
    /// The units in flight, in the order in which they were sent.
    pub units: VecDeque<Unit>,
    /// The answer to the unit at the head so far.
    pub stage: Vec<u8>,
    /// The shapes of statements that this tells the client, once it is passed on.
    pub told: Vec<(Rc<Held>, Shape)>,
    /// Whether part of that has been passed on already: it was too much to keep.
    pub forwarded: bool,
    /// The units' bytes, one behind another, from the head's on.
    pub history: Vec<u8>,
    /// The number of bytes at the start of the history that are not needed any more.
    pub done: usize,
    /// The time at which the unit at the head got there.
    pub head_since: Instant,
    /// Whether the connection takes no more units: those in flight shall end first.
    pub closed: bool,
    /// Whether the units behind the head have been retried elsewhere.
    pub rescued: bool,
    /// The time at which the wait for the head is checked next.
    pub looked_at: Instant,
    /// Whether the unit at the head has answered with an error already.
    pub failed: bool,
    /// Whether the rest of the answer to the unit at the head is for nobody: the pooler has ended it with an error.
    pub muted: bool,
    /// Whether the failure is not the fault of the head, which is then retried.
    pub again: bool,
    /// Whether one unit has the connection to itself.
    pub alone: bool,
    /// Whether bytes for the server wait to be sent at the end of the turn.
    pub unflushed: bool,
}

impl Pipeline {
    /// A pipelined connection without units in flight.
    pub fn new(now: Instant) -> Self {
        Self {
            units: VecDeque::new(),
            stage: Vec::new(),
            told: Vec::new(),
            forwarded: false,
            history: Vec::new(),
            done: 0,
            head_since: now,
            closed: false,
            rescued: false,
            looked_at: now,
            failed: false,
            muted: false,
            again: false,
            alone: false,
            unflushed: false,
        }
    }

    /// Takes the answered unit off the head; gives it and its duration. The next unit is at the head from then on.
    pub fn finish_head(&mut self, now: Instant) -> Option<(Unit, Duration)> {
        let unit = self.units.pop_front()?;
        let took = now.saturating_duration_since(self.head_since);
        (self.head_since, self.looked_at) = (now, now);
        (self.failed, self.muted, self.forwarded) = (false, false, false);
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

    /// Whether a statement of the unit at the head has run to its end, by the answer so far.
    pub fn has_run(&self) -> bool {
        let mut left = self.stage.as_slice();
        while let Ok(Some(message)) = wire::frame::message(left) {
            if matches!(message.tag, tag::COMMAND_COMPLETE | tag::PORTAL_SUSPENDED) {
                return true;
            }
            left = left.get(HEADER + message.body.len()..).unwrap_or_default();
        }
        self.forwarded
    }

    /// Passes on the answer so far to the client of the unit.
    pub fn pass_answer(&mut self, out: &mut Vec<u8>) {
        out.append(&mut self.stage);
        self.told.drain(..).for_each(|(held, shape)| held.tell(shape));
    }

    /// Throws the answer so far away: nobody has been told anything.
    pub fn drop_answer(&mut self) {
        self.stage.clear();
        self.told.clear();
    }

    /// The shape of a statement that the client of the unit at the head will have been told with the answer so far.
    pub fn shape_told(&self, held: &Rc<Held>) -> Shape {
        let told = self.told.iter().filter(|(of, _)| Rc::ptr_eq(of, held));
        told.fold(held.shape(), |shape, (_, newer)| shape.told_again(*newer))
    }

    /// The client of the unit at the head.
    pub fn head(&self) -> Option<ClientKey> {
        self.units.front().and_then(|unit| unit.client)
    }

    /// Makes the connection pipelined again, for one unit alone or for those of all clients: nothing of before counts.
    pub fn restart(&mut self, now: Instant, alone: bool) {
        debug_assert!(self.units.is_empty(), "units of before are in flight");
        self.drop_answer();
        self.history.clear();
        self.done = 0;
        (self.head_since, self.looked_at) = (now, now);
        (self.forwarded, self.rescued, self.unflushed) = (false, false, false);
        (self.again, self.failed, self.muted) = (false, false, false);
        (self.alone, self.closed) = (alone, alone);
    }
}
