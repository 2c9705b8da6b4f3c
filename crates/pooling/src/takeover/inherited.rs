//! The sockets that another process hands over, and the state of the handover.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::model::keys::ClientKey;

use crate::io::Wake;
use crate::state::transfer::Transfer;
use crate::sync::lock;

/// The number of clients that are handed over at once.
pub const AT_ONCE: usize = 60;

/// The time without a question after which a process gets no more clients, and those that wait are served here again.
const SILENT: Duration = Duration::from_secs(2);

/// The first word of a row in the answer to `TAKEOVER DONE` with the socket of this process, or one before it, from
/// then on.
pub const AFTERWARDS: &str = "afterwards";

/// The process that takes clients over.
#[derive(Debug)]
struct Successor {
    /// The console client by which the process does so.
    key: ClientKey,
    /// The time of its last question.
    asked: Instant,
    /// The clients that are ready to go, and are not served meanwhile.
    ready: Vec<Transfer>,
}

/// The socket for requests for metrics.
#[derive(Debug)]
pub struct MetricsSocket {
    /// The socket.
    pub socket: OwnedFd,
    /// The address at which the socket listens.
    pub address: String,
    /// Wakes the thread that waits for requests.
    pub waker: Box<dyn Wake>,
}

/// The state of the processes before and after this one.
#[derive(Debug, Default)]
pub struct Takeover {
    /// The socket for requests for metrics, with the waker of the thread that waits for them.
    pub metrics: Mutex<Option<MetricsSocket>>,
    /// Whether another process has the sockets.
    pub handed_over: AtomicBool,
    /// Whether that process takes clients over too.
    takes_clients: AtomicBool,
    /// The process that takes clients over, and the clients that are ready to go to it.
    successor: Mutex<Option<Successor>>,
    /// The Unix sockets of the processes that had the sockets before, as long as these are there.
    pub before: Mutex<Vec<PathBuf>>,
    /// The number of cancel requests that are being passed on to them.
    pub passing_on: AtomicUsize,
}

impl Successor {
    /// Whether the process has not asked for long.
    fn is_silent(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.asked) >= SILENT
    }
}

impl Takeover {
    /// Whether another process has the sockets.
    pub fn is_handed_over(&self) -> bool {
        self.handed_over.load(Ordering::Relaxed)
    }

    /// Whether another process takes clients over.
    pub fn has_successor(&self) -> bool {
        self.takes_clients.load(Ordering::Relaxed)
    }

    /// The console client by which another process takes clients over.
    pub fn successor(&self) -> Option<ClientKey> {
        lock(&self.successor).as_ref().map(|successor| successor.key)
    }

    /// Makes a client ready to go; gives the client back if no process takes it.
    pub fn leaves(&self, transfer: Transfer) -> Result<(), Box<Transfer>> {
        match &mut *lock(&self.successor) {
            Some(successor) => successor.ready.push(transfer),
            None => return Err(Box::new(transfer)),
        }
        Ok(())
    }

    /// The clients that go next to the process of this console client, the only one that takes any.
    pub fn inherit(&self, key: ClientKey, now: Instant) -> Vec<Transfer> {
        let mut successor = lock(&self.successor);
        let successor = successor.get_or_insert_with(|| Successor { key, asked: now, ready: Vec::new() });
        self.takes_clients.store(true, Ordering::Relaxed);
        if successor.key != key {
            return Vec::new();
        }
        successor.asked = now;
        let count = successor.ready.len().min(AT_ONCE);
        successor.ready.drain(..count).collect()
    }

    /// Whether a client that is made ready goes with the next answer, and that will soon be asked for.
    pub fn has_room(&self, now: Instant) -> bool {
        lock(&self.successor)
            .as_ref()
            .is_some_and(|successor| successor.ready.len() < AT_ONCE && !successor.is_silent(now))
    }

    /// The clients that were ready to go to a process that does not ask for them.
    pub fn give_back(&self, now: Instant) -> Vec<Transfer> {
        let mut successor = lock(&self.successor);
        let silent = successor.as_mut().filter(|successor| successor.is_silent(now));
        silent.map(|successor| std::mem::take(&mut successor.ready)).unwrap_or_default()
    }

    /// Ends the handover of clients; gives the clients that were ready to go.
    pub fn disinherit(&self) -> Vec<Transfer> {
        self.takes_clients.store(false, Ordering::Relaxed);
        lock(&self.successor).take().map(|successor| successor.ready).unwrap_or_default()
    }
}
