//! A pooler that is turned by hand, for simulations: no threads, and the time that it is given.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use classify::Catalog;
use mio::{Events, Poll, Token, Waker};
use pooling::keys::WorkerId;

use crate::catalog::{Knowledge, Place};
use crate::config::Config;
use crate::derive::Secrets;
use crate::listen::Listener;
use crate::reactor::worker::Worker;
use crate::shared::{Mailbox, Shared};
use crate::state::server::{Residue, State};
use crate::succession::inherited::Inherited;

/// A pooler, whose workers take turns. Clients reach it by the Unix socket of port 6 in its folder, and it
/// reaches the server of its one database, `d`, by that of port 5. No statement but those without functions and
/// relations is known to be a read.
pub struct Pooler {
    workers: Vec<Worker>,
    events: Events,
    knowledge: Arc<Knowledge>,
    /// The time, which passes only by [`Self::pass`].
    now: Instant,
}

/// What is believed of a session on a server connection that is free.
#[derive(Debug)]
pub struct Belief {
    /// The process id that the server has told.
    pub pid: i32,
    /// What was SET: names and statements.
    pub sets: Vec<(String, String)>,
    /// Values that the server has told of: names and values.
    pub vars: Vec<(String, String)>,
    /// Its transactions are read-only.
    pub read_only: bool,
}

impl Pooler {
    /// One of so many workers, with these settings besides those that it needs, as lines of `pgbouncer.ini`.
    ///
    /// # Panics
    /// Where the settings cannot be read, or the folder's sockets cannot be made.
    pub fn new(folder: &Path, workers: usize, settings: &str) -> Self {
        crate::log::be_quiet();
        let place = folder.display();
        let text = format!(
            "[databases]\nd = host={place} port=5\n[pgbouncer]\nlisten_addr =\nlisten_port = 6\nunix_socket_dir = {place}\n\
             auth_type = any\npool_mode = transaction\nlog_pooler_errors = 0\n{settings}"
        );
        let config = Config::parse(Path::new("pgbouncer.ini"), &text).unwrap();
        let database = Place::of(&config, "d").unwrap();
        let listeners = Listener::all(&config.settings, &mut Inherited::default()).unwrap();
        let [monitor, reader, asker] = [(); 3].map(|()| Poll::new().unwrap());
        let polls: Vec<Poll> = (0..workers).map(|_| Poll::new().unwrap()).collect();
        let waker = |poll: &Poll| Waker::new(poll.registry(), Token(3)).unwrap();
        let mailbox = |poll| Mailbox { messages: Mutex::default(), waker: waker(poll) };
        let mailboxes = polls.iter().map(mailbox).collect();
        let (secrets, _) = Secrets::new().unwrap();
        let shared = Arc::new(Shared::new(config, mailboxes, secrets, waker(&monitor), waker(&reader), waker(&asker)));
        let knowledge = shared.library.knowledge(database);
        knowledge.post(Arc::new(Catalog::from_rows([["version", "", "180000", "", ""]]).unwrap()));
        let mut listeners = Some(listeners);
        let worker = |(number, poll)| {
            Worker::new(WorkerId(number), shared.clone(), poll, listeners.take().unwrap_or_default()).unwrap()
        };
        let workers: Vec<Worker> = polls.into_iter().enumerate().map(worker).collect();
        let now = workers.iter().map(|worker| worker.core.now).max().unwrap();
        knowledge.confirm(0, now);
        Self { workers, events: Events::with_capacity(64), knowledge, now }
    }

    /// Time passes, and the catalog is found as it was.
    pub fn pass(&mut self, time: Duration) {
        self.now += time;
        self.knowledge.confirm(0, self.now);
    }

    /// Does what there is to do; whether there was anything.
    ///
    /// # Panics
    /// Where events cannot be polled.
    pub fn turn(&mut self) -> bool {
        let mut worked = false;
        for worker in &mut self.workers {
            worked |= worker.has_work();
            worker.turn_at(&mut self.events, self.now).unwrap();
            worked |= worker.has_work() || !self.events.is_empty();
        }
        worked
    }

    /// What it believes of the server connections that nobody has.
    ///
    /// # Panics
    /// Where one of them is in use all the same.
    pub fn believed(&self) -> Vec<Belief> {
        let all =
            self.workers.iter().flat_map(|worker| worker.core.servers.iter().map(move |(_, server)| (worker, server)));
        let free = all.filter(|(_, server)| {
            matches!(server.state, State::Idle)
                && server.known.residue == Residue::Nothing
                && server.cancels.under_way == 0
        });
        free.map(|(worker, server)| {
            assert!(
                server.exchange.requests.is_empty() && server.known.aligning.is_none() && server.client().is_none()
            );
            let names = worker.core.parameters.tracked.names().enumerate();
            let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
            Belief {
                pid: server.cancels.key.pid,
                sets: server.known.session.sets.iter().map(owned).collect(),
                vars: names
                    .filter_map(|(place, name)| Some(owned((name, server.known.session.vars.get(place)?))))
                    .collect(),
                read_only: server.known.session.read_only,
            }
        })
        .collect()
    }
}
