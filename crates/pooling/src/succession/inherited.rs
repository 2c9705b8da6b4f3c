//! The sockets that another process hands over, and who hands what to whom.

use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::model::keys::ClientKey;

use crate::io::Wake;
use crate::state::traveller::Traveller;
use crate::sync::lock;

/// Clients that are handed over at once.
pub const AT_ONCE: usize = 60;

/// Who has not asked for clients for so long gets no more, and those that wait are served here again.
const SILENT: Duration = Duration::from_secs(2);

/// What a row of the answer to `TAKEOVER DONE` says: where this process, or one before it, is to be found afterwards.
pub const AFTERWARDS: &str = "afterwards";

/// Who takes clients over.
#[derive(Debug)]
struct Heir {
    /// The console client that it does that by.
    key: ClientKey,
    /// When it asked last.
    asked: Instant,
    /// The clients that are ready to go, whom nobody serves meanwhile.
    ready: Vec<Traveller>,
}

/// Where requests for metrics arrive.
#[derive(Debug)]
pub struct MetricsSocket {
    /// The socket.
    pub socket: OwnedFd,
    /// Where it listens.
    pub address: String,
    /// Wakes the thread that waits for requests.
    pub waker: Box<dyn Wake>,
}

/// What a process knows of those before and after it.
#[derive(Debug, Default)]
pub struct Succession {
    /// Where requests for metrics arrive, and what wakes the thread that waits for them.
    pub metrics: Mutex<Option<MetricsSocket>>,
    /// Another process has the sockets.
    pub handed_over: AtomicBool,
    /// Whether it takes clients over too.
    takes_clients: AtomicBool,
    /// Which, and the clients that are ready to go.
    heir: Mutex<Option<Heir>>,
    /// The Unix sockets of the processes that had them before, as long as these are there.
    pub before: Mutex<Vec<PathBuf>>,
    /// Cancel requests that are being passed on to them.
    pub passing_on: AtomicUsize,
}

impl Heir {
    /// Whether it has not asked for long.
    fn is_silent(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.asked) >= SILENT
    }
}

impl Succession {
    /// Whether another process has the sockets.
    pub fn is_handed_over(&self) -> bool {
        self.handed_over.load(Ordering::Relaxed)
    }

    /// Whether another process takes clients over.
    pub fn has_heir(&self) -> bool {
        self.takes_clients.load(Ordering::Relaxed)
    }

    /// The console client by which another process takes clients over.
    pub fn heir(&self) -> Option<ClientKey> {
        lock(&self.heir).as_ref().map(|heir| heir.key)
    }

    /// A client is ready to go; it is given back where nobody takes it.
    pub fn leaves(&self, traveller: Traveller) -> Result<(), Box<Traveller>> {
        match &mut *lock(&self.heir) {
            Some(heir) => heir.ready.push(traveller),
            None => return Err(Box::new(traveller)),
        }
        Ok(())
    }

    /// The clients that go next to the process of this console client, the only one that takes any.
    pub fn inherit(&self, key: ClientKey, now: Instant) -> Vec<Traveller> {
        let mut heir = lock(&self.heir);
        let heir = heir.get_or_insert_with(|| Heir { key, asked: now, ready: Vec::new() });
        self.takes_clients.store(true, Ordering::Relaxed);
        if heir.key != key {
            return Vec::new();
        }
        heir.asked = now;
        let count = heir.ready.len().min(AT_ONCE);
        heir.ready.drain(..count).collect()
    }

    /// Whether a client that is made ready goes with the next answer, and that is soon asked for.
    pub fn has_room(&self, now: Instant) -> bool {
        lock(&self.heir).as_ref().is_some_and(|heir| heir.ready.len() < AT_ONCE && !heir.is_silent(now))
    }

    /// Those that were ready to go to a process that does not ask for them.
    pub fn give_back(&self, now: Instant) -> Vec<Traveller> {
        let mut heir = lock(&self.heir);
        let silent = heir.as_mut().filter(|heir| heir.is_silent(now));
        silent.map(|heir| std::mem::take(&mut heir.ready)).unwrap_or_default()
    }

    /// Nobody takes clients over any more: those that were ready to go.
    pub fn disinherit(&self) -> Vec<Traveller> {
        self.takes_clients.store(false, Ordering::Relaxed);
        lock(&self.heir).take().map(|heir| heir.ready).unwrap_or_default()
    }
}
