//! The sockets that another process hands over, and who hands what to whom.

use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use pooling::keys::ClientKey;

use crate::state::traveller::Traveller;
use crate::sync::lock;

/// Clients that are handed over at once.
pub const AT_ONCE: usize = 60;

/// What a socket is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Clients by TCP.
    Tcp,
    /// Clients by a Unix socket.
    Unix,
    /// Requests for metrics.
    Metrics,
}

/// What a row of the answer to `TAKEOVER DONE` says: where this process, or one before it, is to be found afterwards.
pub const AFTERWARDS: &str = "afterwards";

impl Kind {
    pub const ALL: [(&'static str, Self); 3] = [("tcp", Self::Tcp), ("unix", Self::Unix), ("metrics", Self::Metrics)];

    pub fn word(self) -> &'static str {
        Self::ALL.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }
}

/// Sockets that were handed over and are not in use yet.
#[derive(Debug)]
pub struct Inherited<F = OwnedFd> {
    pub sockets: Vec<(Kind, String, F)>,
}

/// What a process knows of those before and after it.
#[derive(Debug, Default)]
pub struct Succession {
    /// Where requests for metrics arrive, and what wakes the thread that waits for them.
    pub metrics: Mutex<Option<(TcpListener, mio::Waker)>>,
    /// Another process has the sockets.
    pub handed_over: AtomicBool,
    /// Whether it takes clients over too.
    takes_clients: AtomicBool,
    /// The console client that it does that by, and the clients that are ready to go.
    heir: Mutex<Option<(ClientKey, Vec<Traveller>)>>,
    /// The Unix sockets of the processes that had them before, as long as these are there.
    pub before: Mutex<Vec<PathBuf>>,
    /// Cancel requests that are being passed on to them.
    pub passing_on: AtomicUsize,
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
        lock(&self.heir).as_ref().map(|(key, _)| *key)
    }

    /// A client is ready to go; it is given back where nobody takes it.
    pub fn leaves(&self, traveller: Traveller) -> Result<(), Box<Traveller>> {
        match &mut *lock(&self.heir) {
            Some((_, ready)) => ready.push(traveller),
            None => return Err(Box::new(traveller)),
        }
        Ok(())
    }

    /// The clients that go next to the process of this console client, the only one that takes any.
    pub fn inherit(&self, key: ClientKey) -> Vec<Traveller> {
        let mut heir = lock(&self.heir);
        let (of, ready) = heir.get_or_insert_with(|| (key, Vec::new()));
        self.takes_clients.store(true, Ordering::Relaxed);
        let count = if *of == key { ready.len().min(AT_ONCE) } else { 0 };
        ready.drain(..count).collect()
    }

    /// Nobody takes clients over any more: those that were ready to go.
    pub fn disinherit(&self) -> Vec<Traveller> {
        self.takes_clients.store(false, Ordering::Relaxed);
        lock(&self.heir).take().map(|(_, ready)| ready).unwrap_or_default()
    }
}
