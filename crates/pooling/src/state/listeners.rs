//! The listening sockets, and the connections that have not logged in yet.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use crate::model::keys::{ClientKey, WorkerId};

use crate::io::Kind;
use crate::io::{Listening, Socket, Watcher};

/// The kind of token by which events name the listeners.
pub const LISTENERS: usize = 2;

/// The number of connections that are accepted at most before others get their turns.
pub const BATCH: usize = 64;

/// The time after the last refusal by the system at which the log says that connections are accepted again: a system at
/// its limit refuses every other connection.
pub const CALM: Duration = Duration::from_secs(5);

/// The number of connections without a proven identity that may be open beyond `max_client_conn`.
pub const RESERVE: usize = 100;

/// The time at which the listeners are asked next without an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Not at all: their backlogs are empty.
    Event,
    /// After the other turns: a connection has arrived.
    Turn,
    /// With the next tick: the system has no descriptor or no memory for a socket.
    Tick,
}

/// The listening sockets.
#[derive(Debug)]
pub struct Listeners {
    listeners: Vec<Box<dyn Listening>>,
    /// The time to accept next.
    pub next: Next,
    /// The last time at which the system had nothing left for a socket, until that is over.
    pub exhausted: Option<Instant>,
    /// The listener that is asked first, in turn: so a flood at one does not delay the others.
    first: usize,
    next_worker: usize,
}

/// The outcome of an attempt to accept.
#[derive(Debug)]
pub enum Accepted {
    /// A socket.
    Socket(Box<dyn Socket>),
    /// No connection waits.
    Nobody,
    /// The connection that waited is gone or kept out by the system; the next one may be accepted.
    Gone,
    /// The system has nothing left for another socket.
    Exhausted(io::Error),
}

impl Accepted {
    /// The meaning of an outcome of accept(2).
    fn of(outcome: io::Result<Box<dyn Socket>>) -> Self {
        match outcome {
            Ok(socket) => Self::Socket(socket),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Self::Nobody,
            Err(error) => match error.raw_os_error() {
                // Errors of one connection, which Linux reports to the process that accepts it.
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

impl Listeners {
    /// These listeners.
    pub fn new(listeners: Vec<Box<dyn Listening>>) -> Self {
        Self { listeners, next: Next::Event, exhausted: None, first: 0, next_worker: 0 }
    }

    /// Has events with this token tell of arrivals.
    pub fn watch(&self, watcher: &(impl Watcher + ?Sized), token: usize) -> io::Result<()> {
        self.listeners.iter().try_for_each(|listener| watcher.watch(listener.descriptor(), token, false))
    }

    /// Closes the listeners except the Unix socket, by which administrators look at a pooler that is ending.
    pub fn close(&mut self, watcher: &(impl Watcher + ?Sized)) {
        for listener in self.listeners.iter().filter(|listener| !listener.is_local()) {
            watcher.unwatch(listener.descriptor());
        }
        self.listeners.retain(|listener| listener.is_local());
    }

    /// The listening sockets.
    pub fn sockets(&self) -> Vec<(Kind, String, BorrowedFd<'_>)> {
        self.listeners.iter().filter_map(|listener| listener.shared()).collect()
    }

    /// Leaves the sockets to another process, and takes the given ones instead.
    pub fn replace(
        &mut self,
        watcher: &(impl Watcher + ?Sized),
        token: usize,
        listeners: Vec<Box<dyn Listening>>,
    ) -> io::Result<()> {
        for listener in std::mem::replace(&mut self.listeners, listeners) {
            watcher.unwatch(listener.descriptor());
            listener.give_away();
        }
        self.watch(watcher, token)
    }

    /// Notes that a connection has arrived.
    pub fn wake(&mut self) {
        self.next = Next::Turn;
    }

    /// Whether a connection has arrived and was not accepted.
    pub fn is_due(&self) -> bool {
        self.next == Next::Turn
    }

    /// The next connection at any of the listeners.
    pub fn accept(&mut self) -> Accepted {
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

    /// The worker that gets the next client.
    pub fn deal(&mut self, workers: usize) -> WorkerId {
        let worker = WorkerId(self.next_worker % workers.max(1));
        self.next_worker = self.next_worker.wrapping_add(1);
        worker
    }
}

/// The clients of a worker that have not proven their identity: the bound on their number decides which of them are
/// closed.
#[derive(Debug, Default)]
pub struct Unauthenticated {
    /// The clients in the order in which they came; some have left or logged in since.
    pub order: VecDeque<ClientKey>,
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
