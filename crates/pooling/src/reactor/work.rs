//! The work of a worker between two polls, for the clients and server connections of the databases that it serves.
//!
//! The loop (`worker.rs`) polls, marks the readable connections, and works through a list of connections until none has
//! work left. If one connection makes work for another (a server is checked out, a buffer drained), the other is put on
//! the list, so that there is no recursion.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustc_hash::FxHashSet;

use crate::model::busy_poll::BusyPoll;
use crate::model::keys::{ClientKey, ServerKey, WorkerId};
use crate::model::slots::{Slot, Slots};
use crate::model::turn::Turn;
use crate::model::vars::Tracked;

use crate::frontend::accept;
use crate::io::{Event, Listening, Network};
use crate::pools::{pipelines, reroute};
use crate::reactor::read::{self, READ};
use crate::reactor::{after, mail, stall, tick};
use crate::shared::Shared;
use crate::state::listeners::{LISTENERS, Listeners, Unauthenticated};
use crate::state::{Core, Entrance, Lifecycle, Parameters, Pipelines, Reactor, Router, Schedule};

/// The time between two checks of time limits.
const TICK: Duration = Duration::from_millis(100);

/// The number of units in flight in pipelined connections that are worth waiting for others ([`gathers`]).
const GATHER: usize = 16;

impl Core {
    /// The initial state of a worker; the first worker has the listening sockets.
    pub fn new(
        id: WorkerId,
        shared: Arc<Shared>,
        network: Box<dyn Network>,
        listeners: Vec<Box<dyn Listening>>,
        cores: usize,
        now: Instant,
    ) -> io::Result<Self> {
        let config = shared.config();
        let tracked = Tracked::new(&config.settings.track_extra_parameters.0);
        let lexed_by = ["standard_conforming_strings", "client_encoding"]
            .map(|name| tracked.place(name).unwrap_or(usize::MAX))
            .into();
        let core = Self {
            id,
            clients: Slots::default(),
            servers: Slots::default(),
            pools: Slots::default(),
            pool_names: HashMap::new(),
            now,
            parameters: Parameters { tracked, lexed_by },
            schedule: Schedule {
                turns: VecDeque::new(),
                queued: FxHashSet::default(),
                after: VecDeque::new(),
                in_after: false,
                unflushed: Vec::new(),
                repeats: Vec::new(),
                next_tick: now + TICK,
                next_upkeep: now,
                period_ends: now + config.settings.stats_period.0,
            },
            router: Router::default(),
            pipelines: Pipelines::default(),
            lifecycle: Lifecycle::default(),
            entrance: Entrance { listeners: Listeners::new(listeners), unauthenticated: Unauthenticated::default() },
            reactor: Reactor { network, busy_poll: BusyPoll::new(now), scratch: vec![0; READ], cores },
            config,
            shared,
        };
        core.entrance.listeners.watch(&*core.reactor.network, LISTENERS)?;
        Ok(core)
    }
}

/// Whether the worker has work without any event.
pub fn has_work(core: &Core) -> bool {
    !core.schedule.turns.is_empty()
        || !core.schedule.unflushed.is_empty()
        || core.lets_in() && core.entrance.listeners.is_due()
}

/// The time at which there is work next, if no event comes before.
pub fn next_moment(core: &Core) -> Instant {
    let moments = [stall::deadline(core), core.router.replay_due];
    let moments = moments.into_iter().flatten().filter(|_| !core.is_suspended());
    moments.fold(core.schedule.next_tick, Instant::min)
}

/// Whether servers and clients that want this core are to go first: then more of their messages have come, and are
/// worked on with fewer wakeups. On a core that no other process wants it changes nothing.
pub fn gathers(core: &Core) -> bool {
    pipelines::in_flight(core) >= GATHER
}

/// Does the work that is due at this time, with these events.
pub fn work(core: &mut Core, events: impl Iterator<Item = Event>, now: Instant) {
    core.now = now;
    if !core.router.clusters.is_empty() {
        reroute::look_at_clusters(core);
        after::run_after(core);
    }
    for event in events {
        core.reactor.busy_poll.hear(core.now);
        let (slot, kind) = Slot::of_token(event.token);
        match kind {
            0 => read::client_event(core, ClientKey(slot), event),
            1 => read::server_event(core, ServerKey(slot), event),
            2 => core.entrance.listeners.wake(),
            _ => mail::read_messages(core),
        }
    }
    // Connections that still have work after their turn come again after the next poll.
    for _ in 0..core.schedule.turns.len() {
        let Some(turn) = core.schedule.turns.pop_front() else { break };
        core.schedule.queued.remove(&turn);
        match turn {
            Turn::Client(key) => read::client_turn(core, key),
            Turn::Server(key) => read::server_turn(core, key),
        }
    }
    if core.lets_in() && core.entrance.listeners.is_due() {
        accept::accept(core);
    }
    after::run_after(core);
    if !core.pipelines.active.is_empty() && !core.is_suspended() {
        stall::look_for_stalls(core);
    }
    if !core.schedule.unflushed.is_empty() {
        pipelines::flush(core);
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
