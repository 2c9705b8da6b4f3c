//! The state that the workers share, and their messages to each other. The traffic of clients and servers never passes
//! here: a client, once it has logged in, or a server connection belongs to one worker as a whole.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::model::keys::{ClientKey, WorkerId};
use crate::model::quota::Limit;
use crate::model::totals::Totals;
use balancer::ServerId;
use wire::scram::Secret;
use wire::startup::CancelKey;

use crate::admin::measured::Measured;
use crate::admin::order::{Answer, Order};
use crate::assignment::Assignment;
use crate::catalog::Library;
use crate::client_permit::Counts;
use crate::common::{Commons, PoolName};
use crate::config::{Config, Settings};
use crate::credentials::Learnt;
use crate::derive::Secrets;
use crate::io::{Listening, Wake};
use crate::metrics::Stats;
use crate::monitor::replay::Bell;
use crate::monitor::{Board, Incident};
use crate::resolve::Resolver;
use crate::state::adopted::Adopted;
use crate::state::arrival::Arrival;
use crate::state::transfer::Transfer;
use crate::sync::lock;
use crate::takeover::inherited::Takeover;

/// The outcomes of the attempts to read the configuration again.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// The number of attempts that succeeded.
    pub good: u64,
    /// The number of attempts that failed.
    pub failed: u64,
    /// The reason of the last attempt's failure, if it failed.
    pub trouble: Option<String>,
}

/// The messages of one worker to another.
#[derive(Debug)]
pub enum Message {
    /// A connection of a client: just accepted, on its way to where its password is looked up, or to its database.
    Arrived(Box<Arrival>),
    /// A client of this worker that another process was to take, and does not.
    Returned(Box<Transfer>),
    /// A client of the process before.
    Adopted(Box<Adopted>),
    /// The counts of another worker that no longer has this pool.
    Bequeathed(Box<(PoolName, Totals, Stats)>),
    /// The secret that was derived for this client.
    Derived(ClientKey, Box<Secret>),
    /// A statement of this client is to be cancelled.
    Cancel(ClientKey, CancelKey, (WorkerId, ClientKey)),
    /// A cancel request that this client brought has had its effect, or has none.
    Cancelled(ClientKey),
    /// A question or an order of the console: the worker that asks, the number of the question, the order.
    Order(WorkerId, u64, Order),
    /// The answer to the question of this number.
    Answer(u64, Box<Answer>),
    /// The worker must send its counts there.
    Measure(Sender<Measured>),
    /// The name of a server was looked up; the flag says whether addresses of it are gone.
    Resolved(String, bool),
    /// This limit keeps a client of this worker from a server connection: an idle one may go.
    MakeRoom(Limit, WorkerId),
    /// There is room under this limit, which has kept a client waiting.
    Room(Limit),
    /// The configuration has changed.
    Reload,
    /// Something on the board of clusters has changed.
    Clusters,
    /// A map of shards has been read.
    ShardMap,
    /// A replica has advanced towards the commits that reads wait for.
    Replayed,
    /// The worker must end, in this way.
    Shutdown(Ending),
}

/// The way in which the pooler ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// The pooler does not end.
    #[default]
    No,
    /// The pooler ends when the last client has left by itself.
    WaitForClients,
    /// Clients are closed as soon as they have nothing under way.
    Drain,
    /// The pooler ends now.
    AtOnce,
}

impl Ending {
    /// The time of that, for the log.
    pub fn when(self) -> &'static str {
        match self {
            Self::No => "never",
            Self::WaitForClients => "when the last client has left",
            Self::Drain => "when running statements and transactions have ended",
            Self::AtOnce => "at once",
        }
    }
}

/// The messages to a worker.
#[derive(Debug)]
pub struct Mailbox {
    /// The messages that are not read yet.
    pub messages: Mutex<Vec<Message>>,
    /// Wakes the worker.
    pub waker: Box<dyn Wake>,
}

/// The orders to all workers.
#[derive(Debug, Default)]
pub struct Orders {
    /// Databases that DISABLE has closed.
    pub disabled: Mutex<HashSet<String>>,
    /// Databases that PAUSE has stopped; the empty name is all.
    pub paused: Mutex<HashSet<String>>,
    /// The time since when SUSPEND holds everything, if it does.
    pub suspended: Mutex<Option<Instant>>,
    /// Whether new clients are refused.
    pub ending: AtomicBool,
    /// The most urgent way of ending that was ordered.
    pub way: Mutex<Ending>,
    /// The outcomes of reading the configuration again.
    pub reloads: Mutex<crate::shared::Outcome>,
    /// Settings of TLS by SET that wait for others beside them.
    pub waiting_settings: Mutex<Vec<(String, String)>>,
}

/// The services outside of the workers, by threads of their own or by the system.
pub trait Outside: Debug + Send + Sync {
    /// The time since 1970.
    fn date(&self) -> Duration;
    /// Begins to look a name up; the workers are told when that is done.
    fn look_up(&self, shared: &Arc<Shared>, host: &str);
    /// Reads the files that settings name, for TLS and authentication; again after a setting was changed.
    fn prepare(&self, config: &mut Config) -> Result<(), String>;
    /// Reads the configuration again and puts it in force everywhere; an error leaves the old one.
    fn reload(&self, shared: &Shared) -> Result<(), String>;
    /// Passes a cancel request for none of this process's clients on to the processes that had the sockets before;
    /// false if the request is not passed on. The client that brought it is told when it has had its effect.
    fn pass_on(&self, shared: &Arc<Shared>, cancel: &CancelKey, asker: (WorkerId, ClientKey)) -> bool;
    /// Listens on a Unix socket for the account of this process alone, when another process has the others; none if the
    /// settings have no folder for it.
    fn listen_apart(&self, settings: &Settings) -> io::Result<Option<Box<dyn Listening>>>;
}

/// The wakers of the threads beside the workers.
#[derive(Debug)]
pub struct Wakers {
    /// The monitor of servers.
    pub monitor: Box<dyn Wake>,
    /// The reader of catalogs.
    pub reader: Box<dyn Wake>,
    /// The thread that asks replicas for their positions.
    pub asker: Box<dyn Wake>,
}

/// The state that the workers share.
#[derive(Debug)]
pub struct Shared {
    /// The configuration in force.
    pub config: RwLock<Arc<Config>>,
    /// The state of databases on several servers.
    pub board: Board,
    /// The catalogs of databases.
    pub library: Library,
    /// The workers' mailboxes.
    pub mailboxes: Vec<Mailbox>,
    /// The workers that serve each database.
    pub assignment: Arc<Assignment>,
    /// The part of each pool that its workers share.
    pub commons: Commons,
    /// Secrets of plain passwords.
    pub secrets: Secrets,
    /// The clients by the keys of their cancel requests.
    pub cancels: Mutex<HashMap<CancelKey, (WorkerId, ClientKey)>>,
    /// The numbers of connections.
    pub counts: Arc<Counts>,
    /// The keys and passwords from clients' logins, for logins to servers.
    pub learnt: Mutex<Learnt>,
    /// The orders to all workers.
    pub orders: Orders,
    /// The process before this one, and the one after it.
    pub takeover: Takeover,
    /// The names of servers.
    pub resolver: Resolver,
    /// The time at which the pooler started.
    pub started: Instant,
    /// The services outside of the workers.
    pub outside: Box<dyn Outside>,
}

impl Shared {
    /// The initial shared state of workers with these mailboxes.
    pub fn new(
        config: Config,
        mailboxes: Vec<Mailbox>,
        secrets: Secrets,
        wakers: Wakers,
        outside: Box<dyn Outside>,
        started: Instant,
    ) -> Self {
        let assignment = Assignment::new(mailboxes.len());
        assignment.deal(&config);
        Self {
            board: Board::new(&config, wakers.monitor, Bell::new(wakers.asker), started),
            library: Library::new(wakers.reader, started),
            config: RwLock::new(Arc::new(config)),
            mailboxes,
            assignment: Arc::new(assignment),
            commons: Commons::default(),
            secrets,
            cancels: Mutex::default(),
            orders: Orders::default(),
            counts: Arc::default(),
            learnt: Mutex::default(),
            takeover: Takeover::default(),
            resolver: Resolver::default(),
            started,
            outside,
        }
    }

    /// The configuration in force.
    pub fn config(&self) -> Arc<Config> {
        self.config.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// An id for a connection, of a client or to a server: no other connection has or had it.
    pub fn next_id(&self) -> u64 {
        self.counts.last_id.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Puts a configuration in force; the caller must tell the workers.
    pub fn adopt(&self, config: Config) {
        self.assignment.deal(&config);
        self.secrets.load(&config);
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }

    /// Sends a message to a worker.
    pub fn tell(&self, worker: WorkerId, message: Message) {
        if let Some(mailbox) = self.mailboxes.get(worker.0) {
            lock(&mailbox.messages).push(message);
            mailbox.waker.wake();
        }
    }

    /// Sends a message to all workers.
    pub fn tell_all(&self, message: impl Fn() -> Message) {
        for number in 0..self.mailboxes.len() {
            self.tell(WorkerId(number), message());
        }
    }

    /// Reports to the board what a worker has met on a server of a cluster: the server is asked at once, and all
    /// workers are told if that changes a decision.
    pub fn met(&self, cluster: &str, server: ServerId, met: Incident, when: Instant) {
        if self.board.report(cluster, server, met, when) {
            self.tell_all(|| Message::Clusters);
        }
    }
}
