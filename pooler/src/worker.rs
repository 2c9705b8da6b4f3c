//! A worker: one thread, one event loop.

use std::io;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use mio::{Events, Poll};
use pooling::model::keys::WorkerId;

use crate::net::{self, Epoll};
use pooling::io::Listening;
use pooling::reactor::{ending, work};
use pooling::shared::Shared;
use pooling::state::Core;

/// A worker.
pub struct Worker {
    core: Core,
    poll: Poll,
}

impl Worker {
    /// A worker; the first one listens.
    pub fn new(id: WorkerId, shared: Arc<Shared>, poll: Poll, listeners: Vec<Box<dyn Listening>>) -> io::Result<Self> {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let network = Box::new(Epoll(poll.registry().try_clone()?));
        Ok(Self { core: Core::new(id, shared, network, listeners, cores, Instant::now())?, poll })
    }

    /// Runs until it is told to end.
    pub fn run(mut self) -> io::Result<()> {
        let core = &mut self.core;
        let mut events = Events::with_capacity(1024);
        while !ending::is_over(core) {
            let awake = core.reactor.busy_poll.stays_awake(core.now, core.config.settings.busy_poll.0);
            let wait = if work::has_work(core) || awake {
                Duration::ZERO
            } else {
                work::next_moment(core).saturating_duration_since(Instant::now())
            };
            if awake || work::gathers(core) {
                thread::yield_now();
            }
            match self.poll.poll(&mut events, Some(wait)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => (),
            }
            work::work(core, events.iter().map(net::event), Instant::now());
        }
        ending::say_goodbye(core);
        Ok(())
    }
}
