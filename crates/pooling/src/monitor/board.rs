//! The state of all clusters, and the decisions about them: the one place where the monitor, the workers and the
//! console meet.

use std::collections::{BTreeMap, HashMap};
use std::fmt::Arguments;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use balancer::{Cluster, Failure, Moment, Observation, ServerId, ServerReport, Standing, View};

use crate::config::{Config, Routing};
use crate::io::Wake;
use crate::log::{self, Level};
use crate::monitor::address::Address;
use crate::monitor::replay::{Bell, Freshness};
use crate::sync::lock;

/// An event that a worker has met on a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Incident {
    /// No connection could be made, or no login in time: a replica is banned.
    NoConnection,
    /// A connection has died.
    Died,
    /// A write met a replica (SQLSTATE 25006).
    ReadOnly,
    /// The server that is taken for the primary has said that it is a standby.
    Standby,
}

/// A message to the monitor.
#[derive(Debug)]
pub enum Note {
    /// The monitor must ask this server now.
    Ask(String, ServerId),
    /// The monitor must ask this server over another connection: its address may lead to another server than the
    /// present connection.
    AskAnew(String, ServerId),
    /// The configuration has changed.
    Reload,
    /// The addresses of this name, as asked for by the probe of this number.
    Resolved(usize, String, std::io::Result<Vec<std::net::SocketAddr>>),
    /// A client has logged in to a database: servers can be asked as this user.
    User(String, String),
}

/// The decision about one cluster.
#[derive(Debug, Clone)]
pub struct Posted {
    /// The view that was decided on.
    pub view: View,
    /// The settings by which statements are routed.
    pub routing: Routing,
    /// The addresses of the servers, by index.
    pub addresses: Vec<Option<Address>>,
    /// The knowledge about commits and their replay.
    pub freshness: Arc<Freshness>,
}

/// One cluster, with its settings, addresses and errors.
#[derive(Debug)]
struct Watched {
    cluster: Cluster,
    routing: Routing,
    addresses: Vec<Option<Address>>,
    errors: HashMap<ServerId, String>,
    freshness: Arc<Freshness>,
}

/// A server as the console shows it.
#[derive(Debug, Clone)]
pub struct ServerSeen {
    /// The entry of the configuration.
    pub database: String,
    /// The state of the server.
    pub report: ServerReport,
    /// The reason why the server could not be asked.
    pub error: Option<String>,
}

/// The state of all clusters.
#[derive(Debug)]
pub struct Board {
    started: Instant,
    watched: Mutex<BTreeMap<String, Watched>>,
    posted: RwLock<Arc<BTreeMap<String, Arc<Posted>>>>,
    generation: AtomicU64,
    notes: Mutex<Vec<Note>>,
    waker: Box<dyn Wake>,
    /// Wakes the thread that follows the replay of commits.
    pub replays: Arc<Bell>,
}

impl Board {
    /// A board for the clusters of a configuration; `waker` wakes the monitor, `replays` the thread that follows
    /// replay.
    pub fn new(config: &Config, waker: Box<dyn Wake>, replays: Bell, started: Instant) -> Self {
        let board = Self {
            started,
            watched: Mutex::new(BTreeMap::new()),
            posted: RwLock::new(Arc::new(BTreeMap::new())),
            generation: AtomicU64::new(1),
            notes: Mutex::new(Vec::new()),
            waker,
            replays: Arc::new(replays),
        };
        board.configure(config, started);
        board
    }

    /// A moment on the clusters' clock.
    pub fn moment(&self, when: Instant) -> Moment {
        let millis = when.saturating_duration_since(self.started).as_millis();
        Moment(u64::try_from(millis).unwrap_or(u64::MAX))
    }

    /// A number that grows whenever something is posted.
    pub fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    /// The post about a cluster.
    pub fn posted(&self, name: &str) -> Option<Arc<Posted>> {
        self.posted.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }

    /// Reports an event that a worker has met on a server, and its time: the server is asked at once. Whether a
    /// decision has changed.
    pub(crate) fn report(&self, name: &str, id: ServerId, met: Incident, when: Instant) -> bool {
        let ask = if met == Incident::Standby { Note::AskAnew } else { Note::Ask };
        self.note(ask(name.to_owned(), id));
        let when = self.moment(when);
        match met {
            Incident::NoConnection => self.change(name, |watched| watched.cluster.complain(id, when)),
            Incident::Standby => self.change(name, |watched| watched.cluster.demote(id, when)),
            Incident::Died | Incident::ReadOnly => false,
        }
    }

    /// Tells that a user has logged in to a database: servers may be asked in that name where none is configured.
    pub fn user(&self, name: &str, user: &str) {
        self.note(Note::User(name.to_owned(), user.to_owned()));
    }

    /// Tells the monitor that the configuration has changed.
    pub fn reload(&self) {
        self.note(Note::Reload);
    }

    /// The messages to the monitor since its last look.
    pub fn take_notes(&self) -> Vec<Note> {
        std::mem::take(&mut *lock(&self.notes))
    }

    /// Sends the monitor a message, and wakes it.
    pub fn note(&self, note: Note) {
        lock(&self.notes).push(note);
        // The wakeup fails only when the kernel has no memory left for an event; the monitor looks at intervals anyway.
        self.waker.wake();
    }

    /// Bans the servers at `host`, a host or `host:port`, from reads: the database, the role and the host of each.
    pub fn ban(&self, host: &str, seconds: Option<u64>, now: Instant) -> Vec<(String, Standing, String)> {
        self.each_at(host, now, |watched, id, now| {
            let millis = seconds.map_or(watched.routing.limits.ban_millis, |seconds| seconds.saturating_mul(1000));
            watched.cluster.ban(id, millis, now);
            true
        })
    }

    /// Lifts the bans of the servers at `host`: the database, the role and the host of each that was banned.
    pub fn unban(&self, host: &str, now: Instant) -> Vec<(String, Standing, String)> {
        self.each_at(host, now, |watched, id, now| watched.cluster.unban(id, now))
    }

    fn each_at(
        &self,
        host: &str,
        now: Instant,
        act: impl Fn(&mut Watched, ServerId, Moment) -> bool,
    ) -> Vec<(String, Standing, String)> {
        let now = self.moment(now);
        let mut done = Vec::new();
        let mut all = lock(&self.watched);
        for (name, watched) in all.iter_mut() {
            for server in watched.cluster.view().servers().to_vec() {
                let here = server.host == host || format!("{}:{}", server.host, server.port) == host;
                if here && act(watched, server.id, now) {
                    done.push((name.clone(), server.standing, server.host.clone()));
                }
            }
        }
        self.post(&all);
        done
    }

    /// The reasons why servers of a cluster could not be asked.
    pub fn errors(&self, name: &str) -> HashMap<ServerId, String> {
        lock(&self.watched).get(name).map(|watched| watched.errors.clone()).unwrap_or_default()
    }

    /// The states of all servers.
    pub fn servers(&self) -> Vec<ServerSeen> {
        let all = lock(&self.watched);
        let of = |(name, watched): (&String, &Watched)| {
            let seen = watched.cluster.report().into_iter().map(|report| ServerSeen {
                database: name.clone(),
                error: watched.errors.get(&report.id).cloned(),
                report,
            });
            seen.collect::<Vec<_>>()
        };
        all.iter().flat_map(of).collect()
    }

    /// Takes the clusters of a configuration over. Whether a decision has changed.
    pub fn configure(&self, config: &Config, now: Instant) -> bool {
        let now = self.moment(now);
        let mut all = lock(&self.watched);
        let mut before = std::mem::take(&mut *all);
        for (name, entry) in config.clusters() {
            let routing = config.routing(entry);
            let servers = entry.servers.iter().cloned();
            let watched = match before.remove(name) {
                Some(mut watched) => {
                    watched.cluster.reconfigure(servers, routing.limits, now);
                    Watched { routing, ..watched }
                }
                None => Watched {
                    cluster: Cluster::new(servers, routing.limits, now),
                    routing,
                    addresses: Vec::new(),
                    errors: HashMap::new(),
                    freshness: Arc::new(Freshness::new(self.replays.clone())),
                },
            };
            all.insert(name.to_owned(), watched);
        }
        self.post(&all)
    }

    /// A server has answered. Whether a decision has changed.
    pub fn observe(&self, name: &str, id: ServerId, seen: Observation) -> bool {
        self.change(name, |watched| {
            watched.errors.remove(&id);
            watched.cluster.observe(id, seen);
        })
    }

    /// A server could not be asked. Whether a decision has changed.
    pub fn fail(&self, name: &str, id: ServerId, failure: Failure, error: String) -> bool {
        self.change(name, |watched| {
            watched.errors.insert(id, error);
            watched.cluster.fail(id, failure);
        })
    }

    /// A server has been reached at this address. Whether that is news.
    pub fn reached(&self, name: &str, id: ServerId, address: Address) -> bool {
        self.change(name, |watched| {
            if watched.addresses.len() <= id.index() {
                watched.addresses.resize(id.index() + 1, None);
            }
            if let Some(place) = watched.addresses.get_mut(id.index()) {
                *place = Some(address);
            }
        })
    }

    /// Lets time pass for all clusters. Whether a decision has changed.
    pub fn advance(&self, now: Instant) -> bool {
        let now = self.moment(now);
        let mut all = lock(&self.watched);
        all.values_mut().for_each(|watched| watched.cluster.advance(now));
        self.post(&all)
    }

    fn change(&self, name: &str, change: impl FnOnce(&mut Watched)) -> bool {
        let mut all = lock(&self.watched);
        match all.get_mut(name) {
            Some(watched) => change(watched),
            None => return false,
        }
        self.post(&all)
    }

    /// Posts the clusters that differ from their posts.
    fn post(&self, all: &BTreeMap<String, Watched>) -> bool {
        let before = self.posted.read().unwrap_or_else(PoisonError::into_inner).clone();
        let same = |name: &String, watched: &Watched| {
            before.get(name).is_some_and(|posted| {
                posted.view == *watched.cluster.view()
                    && posted.routing == watched.routing
                    && posted.addresses == watched.addresses
            })
        };
        if before.len() == all.len() && all.iter().all(|(name, watched)| same(name, watched)) {
            return false;
        }
        let mut fresh = BTreeMap::new();
        for (name, watched) in all {
            let posted = match before.get(name) {
                Some(posted) if same(name, watched) => posted.clone(),
                old => {
                    tell(name, old.map(|old| &old.view), watched);
                    Arc::new(Posted {
                        view: watched.cluster.view().clone(),
                        routing: watched.routing,
                        addresses: watched.addresses.clone(),
                        freshness: watched.freshness.clone(),
                    })
                }
            };
            fresh.insert(name.clone(), posted);
        }
        *self.posted.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(fresh);
        self.generation.fetch_add(1, Ordering::Release);
        true
    }
}

/// Logs the changes of a cluster's servers.
fn tell(name: &str, before: Option<&View>, watched: &Watched) {
    for server in watched.cluster.view().servers() {
        let old = before.and_then(|view| view.server(server.id)).filter(|old| old.host == server.host);
        let (standing, banned) = old.map_or((Standing::Unknown, false), |old| (old.standing, old.banned));
        let at = format!("{}:{}", server.host, server.port);
        let place = format!("{name}: server {at}");
        let note = |level, kind, text: Arguments<'_>| log::event(level, None, kind, (name, &at), text);
        if standing != server.standing {
            let why = watched.errors.get(&server.id).map(|why| format!(" ({why})")).unwrap_or_default();
            let (old, new) = (standing.word(), server.standing.word());
            let text = format_args!("{place} is now {new}, was {old}");
            match (standing, server.standing) {
                (Standing::Replica | Standing::Lagging, Standing::Primary) => note(Level::Log, "failover", text),
                (_, Standing::Primary | Standing::Replica) => note(Level::Log, "found", text),
                (_, Standing::Lagging) => note(Level::Warning, "lagging", format_args!("{text}{why}")),
                _ => note(Level::Warning, "lost", format_args!("{text}{why}")),
            }
        }
        if banned != server.banned {
            let report = watched.cluster.report();
            let ban = report.iter().find(|report| report.id == server.id).and_then(|report| report.ban);
            match ban {
                Some(ban) => {
                    note(Level::Warning, "ban", format_args!("{place} is banned from reads: {}", ban.reason.text()));
                }
                None => note(Level::Log, "unban", format_args!("{place} is no longer banned")),
            }
        }
    }
}
