//! Clients arrive: sockets are taken from the listeners and dealt out to the workers, and those that nobody logs in on are
//! bounded.
//!
//! An event tells of arrivals once. So a worker that stops accepting before the backlog is empty comes back by itself:
//! after the other turns when there are many, with the next tick when the system has nothing left for a socket.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mio::event::Source;
use mio::{Interest, Registry, Token};

use crate::client::{Client, ClientKey, State};
use crate::enter::Arrival;
use crate::listen::Listener;
use crate::net::{Io, Stream};
use crate::seat::Seat;
use crate::shared::{Message, WorkerId};
use crate::takeover::Kind;
use crate::worker::{Turn, Worker};

/// Accepted at most before others get their turns.
const BATCH: usize = 64;
/// So long after the last refusal by the system it is told that connections are accepted again: at its limit it refuses
/// every other one.
const CALM: Duration = Duration::from_secs(5);
/// Connections that have proven nothing and may be open beyond `max_client_conn`.
const RESERVE: usize = 100;

/// When the listeners are asked next without an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Next {
    /// Not at all: their backlogs are empty.
    Event,
    /// After the other turns: somebody has arrived.
    Turn,
    /// With the next tick: the system has no descriptor or no memory for a socket.
    Tick,
}

/// What clients come in by.
#[derive(Debug)]
pub struct Door {
    listeners: Vec<Listener>,
    next: Next,
    /// When the system last had nothing left for a socket, until that is over.
    exhausted: Option<Instant>,
    /// Which one is asked first, in turn: a flood at one keeps nobody from the others.
    first: usize,
    next_worker: usize,
}

/// What became of an attempt to accept.
#[derive(Debug)]
enum Accepted {
    /// A socket.
    Stream(Stream),
    /// Nobody waits.
    Nobody,
    /// Whoever waited has gone or is kept out by the system, and the next one may be fine.
    Gone,
    /// The system has nothing left for another socket.
    Exhausted(io::Error),
}

impl Accepted {
    /// What the outcome of accept(2) means.
    fn of(outcome: io::Result<Stream>) -> Self {
        match outcome {
            Ok(stream) => Self::Stream(stream),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Self::Nobody,
            Err(error) => match error.raw_os_error() {
                // Errors of one connection, which Linux hands to whoever accepts it.
                Some(
                    libc::ECONNABORTED
                    | libc::EINTR
                    | libc::EPERM
                    | libc::EPROTO
                    | libc::ENOPROTOOPT
                    | libc::ENETDOWN
                    | libc::ENETUNREACH
                    | libc::EHOSTDOWN
                    | libc::EHOSTUNREACH
                    | libc::ENONET,
                ) => Self::Gone,
                _ => Self::Exhausted(error),
            },
        }
    }
}

impl Door {
    /// A door with these listeners.
    pub fn new(listeners: Vec<Listener>) -> Self {
        Self { listeners, next: Next::Event, exhausted: None, first: 0, next_worker: 0 }
    }

    /// Has events with this token tell of arrivals.
    pub fn watch(&mut self, registry: &Registry, token: Token) -> io::Result<()> {
        self.listeners.iter_mut().try_for_each(|listener| listener.register(registry, token, Interest::READABLE))
    }

    /// Closes it but for the Unix socket, by which administrators look at a pooler that is ending.
    pub fn close(&mut self, registry: &Registry) {
        for listener in self.listeners.iter_mut().filter(|listener| !listener.is_local()) {
            // It fails only for a socket that is not watched.
            let _ = listener.deregister(registry);
        }
        self.listeners.retain(Listener::is_local);
    }

    /// Its sockets.
    pub fn sockets(&self) -> Vec<(Kind, String, BorrowedFd<'_>)> {
        self.listeners.iter().filter_map(Listener::socket).collect()
    }

    /// Leaves the sockets to another process, and takes these instead.
    pub fn replace(&mut self, registry: &Registry, token: Token, listeners: Vec<Listener>) -> io::Result<()> {
        for mut listener in std::mem::replace(&mut self.listeners, listeners) {
            // It fails only for a socket that is not watched.
            let _ = listener.deregister(registry);
            listener.give_away();
        }
        self.watch(registry, token)
    }

    /// Notes that somebody has arrived.
    pub fn rings(&mut self) {
        self.next = Next::Turn;
    }

    /// Whether somebody has arrived and was not asked in.
    pub fn has_rung(&self) -> bool {
        self.next == Next::Turn
    }

    /// The next who arrives at any of the listeners.
    fn accept(&mut self) -> Accepted {
        self.first = self.first.wrapping_add(1);
        let count = self.listeners.len();
        for listener in self.listeners.iter().cycle().skip(self.first % count.max(1)).take(count) {
            match Accepted::of(listener.accept()) {
                Accepted::Nobody => (),
                outcome => return outcome,
            }
        }
        Accepted::Nobody
    }

    /// The worker that the next client comes to.
    fn deal(&mut self, workers: usize) -> WorkerId {
        let worker = WorkerId(self.next_worker % workers.max(1));
        self.next_worker = self.next_worker.wrapping_add(1);
        worker
    }
}

/// Clients that came to a worker and have proven nothing: the bound on them, and who goes when there are more.
#[derive(Debug, Default)]
pub struct Strangers {
    /// In the order in which they came; some are gone or have been let in.
    order: VecDeque<ClientKey>,
}

impl Worker {
    /// Takes in those who have arrived.
    pub fn accept(&mut self) {
        for _ in 0..BATCH {
            match self.door.accept() {
                Accepted::Stream(stream) => self.deal(stream),
                Accepted::Gone => (),
                Accepted::Nobody => {
                    self.door.next = Next::Event;
                    return;
                }
                Accepted::Exhausted(error) => {
                    if self.door.exhausted.replace(self.now).is_none() {
                        crate::warning!("cannot accept connections, which wait until it is possible: {error}");
                    }
                    self.door.next = Next::Tick;
                    self.close_oldest_stranger();
                    return;
                }
            }
        }
    }

    /// Takes in those who had to wait until the system can have another socket.
    pub fn accept_late(&mut self) {
        if self.door.next == Next::Tick && self.lets_in() {
            self.accept();
        }
        if self.door.exhausted.is_some_and(|last| self.now.saturating_duration_since(last) >= CALM) {
            self.door.exhausted = None;
            crate::info!("connections are accepted again");
        }
        if self.shared.strangers.load(Ordering::Relaxed) < RESERVE / 2 {
            self.shared.crowded.store(false, Ordering::Relaxed);
        }
    }

    fn deal(&mut self, stream: Stream) {
        let worker = self.door.deal(self.shared.mailboxes.len());
        stream.tune(&self.config.settings);
        let (io, seat, id) = (Io::new(stream), Seat::new(self.shared.clone()), self.shared.next_id());
        let arrival = Arrival { io, seat, id, since: self.now, proven: None };
        if worker == self.id {
            self.take_in(arrival);
        } else {
            self.shared.tell(worker, Message::Arrived(Box::new(arrival)));
        }
    }

    /// Takes a client in, with what has been read from it.
    pub fn take_in(&mut self, arrival: Arrival) {
        let Arrival { mut io, seat, id, since, proven } = arrival;
        let key = ClientKey(self.clients.vacant());
        if let Err(error) = self.watch_client(key, &mut io) {
            crate::warning!("cannot watch a client's socket: {error}");
            return;
        }
        let mut client = Client::new(io, seat, since, id);
        let is_stranger = proven.is_none();
        if let Some(proven) = proven {
            client.state = State::Proven(proven);
        }
        client.suspended = self.is_suspended();
        self.clients.insert(client);
        self.give_turn(Turn::Client(key));
        if is_stranger {
            self.strangers.order.push_back(key);
            self.limit_strangers();
        }
    }

    /// Keeps the number of connections that have proven nothing within its bound: the oldest make room, since who is
    /// about to log in does so soon.
    fn limit_strangers(&mut self) {
        let most = match self.config.settings.max_client_conn {
            0 => usize::MAX,
            most => most.saturating_sub(self.shared.clients.load(Ordering::Relaxed)) + RESERVE,
        };
        if self.shared.strangers.load(Ordering::Relaxed) > most
            && self.close_oldest_stranger()
            && !self.shared.crowded.swap(true, Ordering::Relaxed)
        {
            crate::warning!("{most} connections have not logged in: the oldest are closed to make room for more");
        }
        if self.strangers.order.len() > 2 * self.shared.strangers.load(Ordering::Relaxed) + RESERVE {
            let clients = &self.clients;
            let is_stranger = |key: &ClientKey| clients.get(key.0).is_some_and(|client| client.seat.is_strangers());
            self.strangers.order.retain(is_stranger);
        }
    }

    /// Closes the connection that has kept silent for the longest time without having proven anything.
    fn close_oldest_stranger(&mut self) -> bool {
        for _ in 0..self.strangers.order.len().min(BATCH) {
            let Some(key) = self.strangers.order.pop_front() else { break };
            let Some(client) = self.clients.get(key.0).filter(|client| client.seat.is_strangers()) else { continue };
            if client.is_awaited() {
                self.close_client(key, "it did not log in");
                return true;
            }
            // It waits for us, and its turn comes again.
            self.strangers.order.push_back(key);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_system_lacks_stops_accepting() {
        for (code, goes_on) in [
            (libc::ECONNABORTED, true),
            (libc::EINTR, true),
            (libc::EPROTO, true),
            (libc::EPERM, true),
            (libc::ENETDOWN, true),
            (libc::EMFILE, false),
            (libc::ENFILE, false),
            (libc::ENOBUFS, false),
            (libc::ENOMEM, false),
            (libc::EBADF, false),
        ] {
            let outcome = Accepted::of(Err(io::Error::from_raw_os_error(code)));
            assert_eq!(matches!(outcome, Accepted::Gone), goes_on, "{code}: {outcome:?}");
        }
        assert!(matches!(Accepted::of(Err(io::Error::from_raw_os_error(libc::EAGAIN))), Accepted::Nobody));
    }
}
