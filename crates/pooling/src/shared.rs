//! What the workers share, and what they tell each other. Clients' and servers' traffic never passes here: a client, or a
//! server connection, is a worker's as a whole, and goes to another only while nothing of it is under way.

use std::collections::{HashMap, HashSet};
use std::fmt::Debug;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use crate::model::keys::{ClientKey, WorkerId};
use crate::model::totals::Totals;
use balancer::ServerId;
use wire::scram::Secret;
use wire::startup::CancelKey;

use crate::admin::order::{Answer, Order};
use crate::catalog::Library;
use crate::common::{Commons, PoolName};
use crate::config::{Config, Settings};
use crate::credentials::Learnt;
use crate::derive::Secrets;
use crate::homes::Homes;
use crate::io::{Listening, Wake};
use crate::metrics::Stats;
use crate::metrics::measured::Measured;
use crate::monitor::{Board, Met};
use crate::replay::Bell;
use crate::resolve::Resolver;
use crate::seat::Counts;
use crate::state::adopted::Adopted;
use crate::state::arrival::Arrival;
use crate::state::traveller::{Parcel, Traveller};
use crate::succession::inherited::Succession;
use crate::sync::lock;

/// What became of the last attempt.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// Attempts that ended well.
    pub good: u64,
    /// Attempts that did not.
    pub failed: u64,
    /// Why the last one did not.
    pub trouble: Option<String>,
}

/// What one worker tells another.
#[derive(Debug)]
pub enum Message {
    /// A connection of a client: just accepted, on its way to where its password is looked up, or to its database.
    Arrived(Box<Arrival>),
    /// A client that moves here, with its session.
    Moved(Box<Traveller>),
    /// A client of the process before.
    Adopted(Box<Adopted>),
    /// A server connection that is handed over.
    HandedOver(Box<Parcel>),
    /// What another worker, which has this pool no longer, has counted of it.
    Bequeathed(Box<(PoolName, Totals, Stats)>),
    /// Another worker waits for a connection of this pool, or has left room for one.
    Wanted(Box<PoolName>),
    /// The secret that was derived for this client.
    Derived(ClientKey, Box<Secret>),
    /// A statement of this client is to be cancelled.
    Cancel(ClientKey, CancelKey, (WorkerId, ClientKey)),
    /// A cancel request that this client brought has had its effect, or has none.
    Cancelled(ClientKey),
    /// Something asked or ordered on the console: who asks, the number of the question, what.
    Order(WorkerId, u64, Order),
    /// An answer to it.
    Answer(u64, Box<Answer>),
    /// What it has counted shall be told there.
    Measure(Sender<Measured>),
    /// The name of a server was looked up; whether addresses of it are gone.
    Resolved(String, bool),
    /// A client of this user waits, and `max_user_connections` keeps it from a server connection: an idle one may go.
    MakeRoom(String),
    /// The configuration has changed.
    Reload,
    /// Something on the board of clusters has changed.
    Clusters,
    /// A replica has come nearer to what reads wait for.
    Replayed,
    /// End, in this way.
    Shutdown(Ending),
}

/// How the pooler ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ending {
    /// It does not.
    #[default]
    No,
    /// When the last client has left by itself.
    WaitForClients,
    /// Clients go as soon as they have nothing under way.
    Drain,
    /// Now.
    AtOnce,
}

impl Ending {
    /// When that is, for the log.
    pub fn when(self) -> &'static str {
        match self {
            Self::No => "never",
            Self::WaitForClients => "when the last client has left",
            Self::Drain => "when what is under way is done",
            Self::AtOnce => "at once",
        }
    }
}

/// The way to a worker.
#[derive(Debug)]
pub struct Mailbox {
    /// What has been told and not read.
    pub messages: Mutex<Vec<Message>>,
    /// Wakes the worker.
    pub waker: Box<dyn Wake>,
}

/// What was ordered of all workers.
#[derive(Debug, Default)]
pub struct Orders {
    /// Databases that DISABLE has closed.
    pub disabled: Mutex<HashSet<String>>,
    /// Databases that PAUSE has stopped; the empty name is all.
    pub paused: Mutex<HashSet<String>>,
    /// Since when SUSPEND holds everything, if it does.
    pub suspended: Mutex<Option<Instant>>,
    /// Whether no new clients are taken.
    pub ending: AtomicBool,
    /// How it ends: what was ordered last, or more urgently before.
    pub way: Mutex<Ending>,
    /// How the configuration was read again.
    pub reloads: Mutex<crate::shared::Outcome>,
    /// Settings of TLS that SET has given and that wait for others beside them.
    pub waiting_settings: Mutex<Vec<(String, String)>>,
}

/// What is done outside of the workers, on threads of its own or by the system.
pub trait Outside: Debug + Send + Sync {
    /// The time since 1970.
    fn date(&self) -> Duration;
    /// The processor time that this thread has used.
    fn processor_time(&self) -> Duration;
    /// Begins to look a name up; the workers are told when it is done.
    fn look_up(&self, shared: &Arc<Shared>, host: &str);
    /// Reads the files that settings name, for TLS and who may come in; again after a setting was changed.
    fn prepare(&self, config: &mut Config) -> Result<(), String>;
    /// Reads the configuration again and puts it in force everywhere; an error leaves the old one.
    fn reload(&self, shared: &Shared) -> Result<(), String>;
    /// Passes a cancel request that names nobody here on to the processes that had the sockets before; false when there
    /// are none. Who brought it is told when it has had its effect.
    fn pass_on(&self, shared: &Arc<Shared>, cancel: &CancelKey, asker: (WorkerId, ClientKey)) -> bool;
    /// Listens on a Unix socket for the account of this process alone, when another process has the others; none where
    /// the settings have no folder for it.
    fn listen_apart(&self, settings: &Settings) -> io::Result<Option<Box<dyn Listening>>>;
}

/// What wakes the threads beside the workers.
#[derive(Debug)]
pub struct Wakers {
    /// The monitor of servers.
    pub monitor: Box<dyn Wake>,
    /// The reader of catalogs.
    pub reader: Box<dyn Wake>,
    /// Who asks how far replicas are.
    pub asker: Box<dyn Wake>,
}

/// What the workers share.
#[derive(Debug)]
pub struct Shared {
    /// The configuration in force.
    pub config: RwLock<Arc<Config>>,
    /// What is known of databases on several servers.
    pub board: Board,
    /// What is known of what databases hold.
    pub library: Library,
    /// The workers' mailboxes.
    pub mailboxes: Vec<Mailbox>,
    /// Which workers serve a database.
    pub homes: Arc<Homes>,
    /// What they have in common of its pools.
    pub commons: Commons,
    /// Secrets of plain passwords.
    pub secrets: Secrets,
    /// Who is named in cancel requests.
    pub cancels: Mutex<HashMap<CancelKey, (WorkerId, ClientKey)>>,
    /// How many connections there are.
    pub counts: Arc<Counts>,
    /// What clients' logins have taught, for logins to servers.
    pub learnt: Mutex<Learnt>,
    /// What was ordered of all workers.
    pub orders: Orders,
    /// The process before this one, and the one after it.
    pub succession: Succession,
    /// The names of servers.
    pub resolver: Resolver,
    /// When the pooler started.
    pub started: Instant,
    /// What is done outside of the workers.
    pub outside: Box<dyn Outside>,
}

impl Shared {
    /// What workers with these mailboxes share at first.
    pub fn new(
        config: Config,
        mailboxes: Vec<Mailbox>,
        secrets: Secrets,
        wakers: Wakers,
        outside: Box<dyn Outside>,
        started: Instant,
    ) -> Self {
        let homes = Homes::new(mailboxes.len());
        homes.deal(&config);
        Self {
            board: Board::new(&config, wakers.monitor, Bell::new(wakers.asker), started),
            library: Library::new(wakers.reader, started),
            config: RwLock::new(Arc::new(config)),
            mailboxes,
            homes: Arc::new(homes),
            commons: Commons::default(),
            secrets,
            cancels: Mutex::default(),
            orders: Orders::default(),
            counts: Arc::default(),
            learnt: Mutex::default(),
            succession: Succession::default(),
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

    /// Puts a configuration in force; the workers are to be told.
    pub fn adopt(&self, config: Config) {
        self.homes.deal(&config);
        self.secrets.load(&config);
        *self.config.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(config);
    }

    /// Tells a worker.
    pub fn tell(&self, worker: WorkerId, message: Message) {
        if let Some(mailbox) = self.mailboxes.get(worker.0) {
            lock(&mailbox.messages).push(message);
            mailbox.waker.wake();
        }
    }

    /// Tells all workers.
    pub fn tell_all(&self, message: impl Fn() -> Message) {
        for number in 0..self.mailboxes.len() {
            self.tell(WorkerId(number), message());
        }
    }

    /// Tells what a worker has met on a server of a cluster: the server is asked at once, and all workers are told if
    /// that changes a decision.
    pub fn met(&self, cluster: &str, server: ServerId, met: Met, when: Instant) {
        if self.board.report(cluster, server, met, when) {
            self.tell_all(|| Message::Clusters);
        }
    }
}
