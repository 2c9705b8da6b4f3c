//! The monitor's thread: asks each server at its interval, and puts the answers on the board.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use balancer::{Failure, ServerId};
use mio::{Events, Poll};
use slab::Slab;

use super::probe::{Around, Outcome, Probe, Turnout};
use super::resolve::{self, Question};
use super::users::users;
use crate::net::Epoll;
use pooling::config::Config;
use pooling::credentials;
use pooling::monitor::Note;
use pooling::shared::{Message, Shared};

/// How often bans are looked at.
const TICK: Duration = Duration::from_millis(100);
/// How often a name is looked up again while its server answers.
const NAMES_AGAIN: Duration = Duration::from_secs(15);
/// Users of a database that are remembered to ask in the name of.
const USERS: usize = 8;
/// What one read may bring: over TLS more than the longest record.
const READ: usize = 32_768;
/// The token of the waker; probes have theirs from 0 on.
pub const WAKER: mio::Token = mio::Token(usize::MAX);

struct Watch {
    shared: Arc<Shared>,
    config: Arc<Config>,
    poll: Poll,
    probes: Slab<Probe>,
    names: Sender<Question>,
    names_again: Instant,
    /// Who has logged in, by cluster.
    users: HashMap<String, Vec<String>>,
    scratch: Vec<u8>,
}

/// Starts the monitor. `poll` has the waker of the board, under [`WAKER`].
pub fn spawn(shared: Arc<Shared>, poll: Poll) -> io::Result<()> {
    let config = shared.config();
    let names = resolve::spawn(shared.clone())?;
    let names_again = Instant::now() + NAMES_AGAIN;
    let (probes, users, scratch) = (Slab::new(), HashMap::new(), vec![0; READ]);
    let watch = Watch { shared, config, poll, probes, names, names_again, users, scratch };
    std::thread::Builder::new().name("monitor".to_owned()).spawn(move || {
        if let Err(error) = watch.run() {
            pooling::warning!("the thread that watches the servers has ended: {error}");
        }
    })?;
    Ok(())
}

impl Watch {
    fn run(mut self) -> io::Result<()> {
        let mut events = Events::with_capacity(256);
        self.configure();
        let mut next_tick = Instant::now() + TICK;
        loop {
            match self.poll.poll(&mut events, self.wait(next_tick)) {
                Err(error) if error.kind() != io::ErrorKind::Interrupted => return Err(error),
                _ => (),
            }
            for event in &events {
                if event.token() != WAKER {
                    let key = event.token().0;
                    if let Some(probe) = self.probes.get_mut(key) {
                        probe.heard(event.is_read_closed() || event.is_error());
                    }
                    self.step(key, Probe::ready);
                }
            }
            self.read_notes();
            let now = Instant::now();
            let keys: Vec<usize> = self.probes.iter().map(|(key, _)| key).collect();
            for key in keys {
                let Some(probe) = self.probes.get_mut(key) else { continue };
                if probe.is_busy() {
                    if now >= probe.limit() {
                        self.step(key, Probe::late);
                    }
                } else if now >= probe.times.due {
                    let (interval, timeout) = times(&self.config, &probe.entry);
                    probe.times.deadline = now + timeout;
                    probe.times.due = now + interval;
                    self.step(key, Probe::begin);
                }
            }
            if now >= self.names_again {
                self.names_again = now + NAMES_AGAIN;
                for (key, probe) in self.probes.iter().filter(|(_, probe)| probe.has_name() && !probe.is_busy()) {
                    // The thread that answers lives as long as this one.
                    let _ = self.names.send((key, probe.host.clone(), probe.port));
                }
            }
            if now >= next_tick {
                next_tick = now + TICK;
                let changed = self.shared.board.advance(Instant::now());
                self.tell(changed);
            }
        }
    }

    /// How long there is nothing to do unless something is heard.
    fn wait(&self, next_tick: Instant) -> Option<Duration> {
        if self.probes.is_empty() {
            return None;
        }
        let moments =
            self.probes.iter().map(|(_, probe)| if probe.is_busy() { probe.limit() } else { probe.times.due });
        let next = moments.fold(next_tick, Instant::min);
        // Rounded up: a poll that ends just before the moment would only be made again.
        Some(next.saturating_duration_since(Instant::now()) + Duration::from_millis(1))
    }

    /// Lets a probe do something and tells the board how its round has ended.
    fn step(&mut self, key: usize, act: impl FnOnce(&mut Probe, &mut Around<'_>) -> Turnout) {
        let board = &self.shared.board;
        let Some(probe) = self.probes.get_mut(key) else { return };
        let seen = self.users.get(&probe.cluster).map(Vec::as_slice).unwrap_or_default();
        let mut around = Around {
            network: &Epoll(self.poll.registry()),
            shared: &self.shared,
            config: &self.config,
            scratch: &mut self.scratch,
            users: &users(&self.config, &probe.cluster, &probe.entry, seen),
            now: board.moment(Instant::now()),
        };
        let turnout = act(probe, &mut around);
        let changed = match turnout {
            Turnout::Wait => false,
            Turnout::LookUp => {
                let _ = self.names.send((key, probe.host.clone(), probe.port));
                false
            }
            Turnout::Over(Outcome::Seen(seen)) => {
                let reached = probe.address().cloned();
                let moved = reached.is_some_and(|address| board.reached(&probe.cluster, probe.id, address));
                board.observe(&probe.cluster, probe.id, seen) || moved
            }
            Turnout::Over(Outcome::Failed(kind, error)) => {
                board.fail(&probe.cluster, probe.id, Failure { at: board.moment(Instant::now()), kind }, error)
            }
        };
        self.tell(changed);
    }

    fn tell(&self, changed: bool) {
        if changed {
            self.shared.tell_all(|| Message::Clusters);
        }
    }

    fn read_notes(&mut self) {
        let notes = self.shared.board.take_notes();
        for note in notes {
            match note {
                Note::Ask(cluster, id) => self.ask_now(|probe| probe.cluster == cluster && probe.id == id),
                Note::AskAnew(cluster, id) => {
                    let network = &Epoll(self.poll.registry());
                    let which = |probe: &Probe| probe.cluster == cluster && probe.id == id;
                    self.probes
                        .iter_mut()
                        .filter(|(_, probe)| which(probe))
                        .for_each(|(_, probe)| probe.start_anew(network));
                    self.ask_now(which);
                }
                Note::Reload => self.configure(),
                // By then its number may be another probe's.
                Note::Resolved(key, host, found) if self.probes.get(key).is_some_and(|probe| probe.host == host) => {
                    self.step(key, |probe, around| probe.resolved(found, around));
                }
                Note::Resolved(..) => (),
                Note::User(cluster, user) => {
                    let users = self.users.entry(cluster.clone()).or_default();
                    if users.first() != Some(&user) {
                        users.retain(|known| *known != user);
                        users.insert(0, user);
                        users.truncate(USERS);
                        self.ask_now(|probe| probe.cluster == cluster && !probe.has_connection());
                    }
                }
            }
        }
    }

    /// Begins a round with some servers now, unless one is under way.
    fn ask_now(&mut self, which: impl Fn(&Probe) -> bool) {
        let now = Instant::now();
        for (_, probe) in &mut self.probes {
            if which(probe) {
                probe.times.due = now;
            }
        }
    }

    /// Takes the configuration over: which servers are asked, and as whom.
    fn configure(&mut self) {
        let before = std::mem::replace(&mut self.config, self.shared.config());
        let config = self.config.clone();
        let secured_otherwise = credentials::secures_otherwise(&before.settings, &config.settings);
        let changed = self.shared.board.configure(&config, Instant::now());
        self.tell(changed);
        let mut wanted: Vec<(String, ServerId, String, u16)> = Vec::new();
        for (name, _) in config.clusters() {
            let Some(posted) = self.shared.board.posted(name) else { continue };
            let servers = posted.view.servers().iter();
            wanted.extend(servers.map(|server| (name.to_owned(), server.id, server.host.clone(), server.port)));
        }
        let network = &Epoll(self.poll.registry());
        self.probes.retain(|_, probe| {
            let same = |entry: &(String, ServerId, String, u16)| {
                (&entry.0, entry.1, &entry.2, entry.3) == (&probe.cluster, probe.id, &probe.host, probe.port)
            };
            let entry = config.clusters().find(|(name, _)| *name == probe.cluster).map(|(_, entry)| entry);
            let place = wanted.iter().position(same).filter(|_| entry == Some(&probe.entry) && !secured_otherwise);
            match place {
                Some(place) => drop(wanted.remove(place)),
                None => probe.drop_connection(network),
            }
            place.is_some()
        });
        let now = Instant::now();
        for (_, probe) in &mut self.probes {
            // An interval that has become shorter holds from now on.
            probe.times.due = probe.times.due.min(now + times(&config, &probe.entry).0);
        }
        for (name, id, host, port) in wanted {
            let Some(entry) = config.clusters().find(|(other, _)| *other == name).map(|(_, entry)| entry) else {
                continue;
            };
            let slot = self.probes.vacant_entry();
            let probe = Probe::new(&name, id, (&host, port), entry.clone(), slot.key(), now);
            slot.insert(probe);
        }
    }
}

/// How often a server is asked, and how long it may take.
fn times(config: &Config, entry: &pooling::config::Database) -> (Duration, Duration) {
    let routing = config.routing(entry);
    let least = Duration::from_millis(10);
    (routing.interval.0.max(least), routing.timeout.0.max(least))
}
