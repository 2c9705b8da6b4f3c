//! A worker: one thread, one event loop, the clients and server connections of the databases that it serves.
//!
//! The loop polls, marks what is readable, and works through a list of connections until none has anything to do.
//! Whoever gives somebody else work (a server checked out, a buffer drained) puts them on the list, so nothing recurses.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use mio::{Events, Poll};
use pooling::busy_poll::BusyPoll;
use pooling::keys::{ClientKey, ServerKey, WorkerId};
use pooling::slots::{Slot, Slots};
use pooling::turn::Turn;
use pooling::vars::Tracked;

use crate::frontend::accept;
use crate::listen::Listener;
use crate::pipeline::{connection, stall};
use crate::reactor::door::DOOR;
use crate::reactor::read::{self, READ};
use crate::reactor::{after, ending, mail, tick};
use crate::router::reroute;
use crate::shared::Shared;
use crate::state::door::{Door, Strangers};
use crate::state::{Core, Entrance, Lifecycle, Parameters, Pipelines, Reactor, Router, Schedule};

/// How often time limits are looked at.
const TICK: Duration = Duration::from_millis(100);

/// With so many units in flight in pipelined connections, servers and clients that want this core go first: more of
/// what they say is there then, and is done with fewer wakeups. On a core that nobody else wants it changes nothing.
const GATHER: usize = 16;

/// A worker.
pub struct Worker {
    /// What it knows.
    pub core: Core,
}

impl Worker {
    /// A worker; the first one listens.
    pub fn new(id: WorkerId, shared: Arc<Shared>, poll: Poll, listeners: Vec<Listener>) -> io::Result<Self> {
        let config = shared.config();
        let now = Instant::now();
        let tracked = Tracked::new(&config.settings.track_extra_parameters.0);
        let lexed_by = ["standard_conforming_strings", "client_encoding"]
            .map(|name| tracked.place(name).unwrap_or(usize::MAX))
            .into();
        let mut core = Core {
            id,
            clients: Slots::default(),
            servers: Slots::default(),
            pools: Slots::default(),
            pool_names: HashMap::new(),
            now,
            parameters: Parameters { tracked, lexed_by },
            schedule: Schedule {
                turns: VecDeque::new(),
                queued: HashSet::new(),
                after: VecDeque::new(),
                in_after: false,
                unflushed: Vec::new(),
                next_tick: now + TICK,
                next_upkeep: now,
                period_ends: now + config.settings.stats_period.0,
            },
            router: Router::default(),
            pipelines: Pipelines::default(),
            lifecycle: Lifecycle::default(),
            entrance: Entrance { door: Door::new(listeners), strangers: Strangers::default() },
            reactor: Reactor {
                poll,
                busy_poll: BusyPoll::new(now),
                scratch: vec![0; READ],
                cores: std::thread::available_parallelism().map_or(1, usize::from),
            },
            config,
            shared,
        };
        core.entrance.door.watch(core.reactor.poll.registry(), DOOR)?;
        Ok(Self { core })
    }

    /// Runs until it is told to end.
    pub fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(1024);
        while !ending::is_over(&self.core) {
            let awake = self.core.reactor.busy_poll.stays_awake(self.core.now, self.core.config.settings.busy_poll.0);
            let wait = if self.has_work() || awake {
                Duration::ZERO
            } else {
                let moments = [stall::deadline(&self.core), self.core.router.replay_due];
                let moments = moments.into_iter().flatten().filter(|_| !self.core.is_suspended());
                let until = moments.fold(self.core.schedule.next_tick, Instant::min);
                until.saturating_duration_since(Instant::now())
            };
            if awake || connection::in_flight(&self.core) >= GATHER {
                std::thread::yield_now();
            }
            self.turn(&mut events, wait)?;
        }
        ending::say_goodbye(&mut self.core);
        Ok(())
    }

    /// Whether somebody has something to do without any event.
    pub fn has_work(&self) -> bool {
        !self.core.schedule.turns.is_empty()
            || !self.core.schedule.unflushed.is_empty()
            || self.core.lets_in() && self.core.entrance.door.has_rung()
    }

    /// Waits so long for events, and does what there is to do.
    pub fn turn(&mut self, events: &mut Events, wait: Duration) -> io::Result<()> {
        match self.core.reactor.poll.poll(events, Some(wait)) {
            Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
            _ => (),
        }
        work(&mut self.core, events, Instant::now());
        Ok(())
    }

    /// As [`Self::turn`], without waiting, at a time that a simulation gives.
    pub fn turn_at(&mut self, events: &mut Events, now: Instant) -> io::Result<()> {
        self.core.reactor.poll.poll(events, Some(Duration::ZERO))?;
        work(&mut self.core, events, now);
        Ok(())
    }
}

/// Does what there is to do, told by these events, at this time.
fn work(core: &mut Core, events: &Events, now: Instant) {
    core.now = now;
    if !core.router.clusters.is_empty() {
        reroute::look_at_clusters(core);
        after::run_after(core);
    }
    if !events.is_empty() {
        core.reactor.busy_poll.hear(core.now);
    }
    for event in events.iter() {
        let (slot, kind) = Slot::of_token(event.token().0);
        match kind {
            0 => read::client_event(core, ClientKey(slot), event),
            1 => read::server_event(core, ServerKey(slot), event),
            2 => core.entrance.door.rings(),
            _ => mail::read_messages(core),
        }
    }
    // Those who still have something to do after their turn come again after the next poll.
    for _ in 0..core.schedule.turns.len() {
        let Some(turn) = core.schedule.turns.pop_front() else { break };
        core.schedule.queued.remove(&turn);
        match turn {
            Turn::Client(key) => read::client_turn(core, key),
            Turn::Server(key) => read::server_turn(core, key),
        }
    }
    if core.lets_in() && core.entrance.door.has_rung() {
        accept::accept(core);
    }
    after::run_after(core);
    if !core.pipelines.active.is_empty() && !core.is_suspended() {
        stall::look_for_stalls(core);
    }
    if !core.schedule.unflushed.is_empty() {
        connection::flush(core);
    }
    if core.router.replayed || core.router.replay_due.is_some() {
        reroute::look_at_replay(core);
    }
    if core.now >= core.schedule.next_tick {
        core.schedule.next_tick = core.now + TICK;
        tick::tick(core);
        after::run_after(core);
    }
}
