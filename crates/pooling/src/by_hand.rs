//! A pooler that a simulation drives by calls: without threads, with sockets in memory, and with the time as an
//! argument.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::model::keys::{ClientKey, WorkerId};
use balancer::{Configured, Failure, FailureKind, Moment, Observation, Replay, ServerId, Setup};
use classify::Catalog;
use wire::startup::CancelKey;

use crate::catalog::{Knowledge, Place};
use crate::config::{Config, Database, Settings};
use crate::derive::Secrets;
use crate::io::{Listening, Wake};
use crate::memory::{Memory, Poll};
use crate::monitor::ClusterView;
use crate::reactor::work;
use crate::shared::{Mailbox, Message, Outside, Shared, Wakers};
use crate::state::Core;
use crate::state::server::{Residue, State};

/// The services of a simulation: no names to look up, no files and no other process.
#[derive(Debug)]
struct Nothing;

impl Outside for Nothing {
    fn date(&self) -> Duration {
        Duration::ZERO
    }

    fn look_up(&self, shared: &Arc<Shared>, host: &str) {
        shared.resolver.give_up(host);
    }

    fn prepare(&self, _: &mut Config) -> Result<(), String> {
        Ok(())
    }

    fn reload(&self, shared: &Shared) -> Result<(), String> {
        shared.tell_all(|| Message::Reload);
        Ok(())
    }

    fn pass_on(&self, _: &Arc<Shared>, _: &CancelKey, _: (WorkerId, ClientKey)) -> bool {
        false
    }

    fn listen_apart(&self, _: &Settings) -> io::Result<Option<Box<dyn Listening>>> {
        Ok(None)
    }
}

/// The folder of the simulated sockets.
const FOLDER: &str = "/simulated";

/// The token of events that wake a worker.
const WOKEN: usize = 3;

/// The socket of a port.
pub fn socket(port: u16) -> PathBuf {
    Path::new(FOLDER).join(format!(".s.PGSQL.{port}"))
}

/// A pooler, whose workers take turns. Clients reach it by the socket of port 6 in its folder, and it
/// reaches the server of its databases by that of port 5, or the servers of `d` by those of ports 5, 15 and so on. No
/// statement but those without functions and relations is known to be a read.
pub struct Pooler {
    workers: Vec<(Core, Poll)>,
    shared: Arc<Shared>,
    /// The state of the cluster, if there are several servers.
    cluster: Option<Cluster>,
    /// What is known of each database.
    knowledge: Vec<Arc<Knowledge>>,
    /// The time, which passes only by [`Self::pass`].
    now: Instant,
}

/// The knowledge of the monitor and of the thread that follows replay: these ask over sockets of their own, and in a
/// simulation are told by hand.
struct Cluster {
    view: ClusterView,
    servers: Vec<ServerId>,
    replay: Replay,
    primary: Option<ServerId>,
}

/// An observation of a server.
#[derive(Debug, Clone, Copy)]
pub enum Finding {
    /// The server answers.
    Answer {
        /// Whether the server is a standby.
        standby: bool,
        /// The position in the log.
        lsn: u64,
        /// The timeline.
        timeline: u32,
    },
    /// The server accepts no connection.
    Down,
}

/// The answer of a server that was asked for its position.
#[derive(Debug, Clone, Copy)]
pub struct Answer {
    id: ServerId,
    lsn: u64,
    /// The round of the primary that began with the question, and the time of that.
    round: Option<(u64, Moment)>,
    /// The doubts of a replica when it was asked.
    doubts: u64,
}

/// The assumed state of the session on a free server connection.
#[derive(Debug)]
pub struct Belief {
    /// The process id that the server has reported.
    pub pid: i32,
    /// The settings by SET: names and statements.
    pub sets: Vec<(String, String)>,
    /// The values that the server has reported: names and values.
    pub vars: Vec<(String, String)>,
    /// Whether its transactions are read-only.
    pub read_only: bool,
    /// The names of the statements that it knows, and whether the server may have lost them.
    pub statements: Vec<(Vec<u8>, bool)>,
}

impl Pooler {
    /// A pooler with these numbers of workers and servers, with these databases, and with these further settings, as lines of
    /// `name = value`.
    ///
    /// # Panics
    /// If the settings cannot be read.
    pub fn new(memory: &Memory, workers: usize, servers: usize, databases: &[&str], settings: &str) -> Self {
        let config = configuration(servers, databases, settings);
        let places: Vec<Place> = databases.iter().filter_map(|name| Place::of(&config, name)).collect();
        let now = Instant::now();
        let polls: Vec<Poll> = (0..workers).map(|_| memory.poll()).collect();
        let waker = |poll: &Poll| Box::new(poll.waker()) as Box<dyn Wake>;
        let mailbox = |poll| Mailbox { messages: Mutex::default(), waker: waker(poll) };
        let mailboxes = polls.iter().map(mailbox).collect();
        let (secrets, _) = Secrets::new().unwrap();
        // The schedule of the simulation does the work of the other threads.
        let [monitor, reader, asker] = [(); 3].map(|()| waker(&memory.poll()));
        let wakers = Wakers { monitor, reader, asker };
        let shared = Arc::new(Shared::new(config, mailboxes, secrets, wakers, Box::new(Nothing), now));
        let knowledge: Vec<Arc<Knowledge>> = places.into_iter().map(|place| shared.library.knowledge(place)).collect();
        for known in &knowledge {
            known.post(Arc::new(Catalog::from_rows([["version", "", "180000", "", ""]]).unwrap()));
        }
        let listener: Box<dyn Listening> = Box::new(memory.listen(&socket(6)));
        let mut listeners = vec![listener];
        let worker = |(number, poll): (usize, Poll)| {
            let (network, listeners) = (Box::new(poll.network()), std::mem::take(&mut listeners));
            (Core::new(WorkerId(number), shared.clone(), network, listeners, 1, now).unwrap(), poll)
        };
        let workers = polls.into_iter().enumerate().map(worker).collect();
        knowledge.iter().for_each(|known| known.confirm(0, now));
        let cluster = ClusterView::new(&shared.board, "d", 0).map(|view| {
            let servers = view.view().servers().iter().map(|server| server.id).collect();
            Cluster { view, servers, replay: Replay::default(), primary: None }
        });
        Self { workers, shared, cluster, knowledge, now }
    }

    /// Lets time pass; the catalog is found as it was.
    pub fn pass(&mut self, time: Duration) {
        self.now += time;
        self.knowledge.iter().for_each(|known| known.confirm(0, self.now));
    }

    /// Reads a configuration again in which the entry of a database gives this user, or none.
    pub fn give_user(&mut self, database: &str, user: Option<&str>) {
        let mut config = Config::clone(&self.shared.config());
        if let Some(entry) = config.databases.get_mut(database) {
            entry.user = user.map(str::to_owned);
        }
        self.shared.adopt(config);
        self.shared.board.reload();
        self.shared.tell_all(|| Message::Reload);
    }

    /// The process ids of the server connections, and the users of their pools.
    pub fn logins(&self) -> impl Iterator<Item = (i32, &str)> {
        let all = self.workers.iter().flat_map(|(core, _)| core.servers.iter().map(move |(_, server)| (core, server)));
        let pooled = all.filter(|(_, server)| server.cancels.target.is_none());
        pooled.filter_map(|(core, server)| {
            let pool = core.pools.get(server.pool)?;
            Some((server.cancels.key.pid, &*pool.name.user))
        })
    }

    /// Gives the monitor an observation of one server of several.
    pub fn find(&mut self, server: usize, finding: Finding) {
        let at = self.shared.board.moment(self.now);
        let Some(&id) = self.cluster.as_ref().and_then(|cluster| cluster.servers.get(server)) else { return };
        let changed = match finding {
            Finding::Answer { standby, lsn, timeline } => {
                let seen = Observation {
                    at,
                    in_recovery: standby,
                    lsn,
                    received: None,
                    replay_age: None,
                    timeline: Some(timeline),
                    system: Some(1),
                    latency: 0,
                };
                self.shared.board.observe("d", id, seen)
            }
            Finding::Down => {
                let failure = Failure { at, kind: FailureKind::Refused };
                self.shared.board.fail("d", id, failure, "nobody listens there".to_owned())
            }
        };
        if changed {
            self.shared.tell_all(|| Message::Clusters);
        }
    }

    /// Asks one server of several for its position; gives the answer, which is still on its way. None if the server
    /// would not be asked.
    pub fn ask_position(&mut self, server: usize, lsn: u64) -> Option<Answer> {
        let begun = self.shared.board.moment(self.now);
        let cluster = self.cluster.as_mut()?;
        cluster.settle(&self.shared);
        let id = *cluster.servers.get(server)?;
        let freshness = cluster.view.freshness();
        if cluster.primary == Some(id) {
            return Some(Answer { id, lsn, round: Some((freshness.begin(), begun)), doubts: 0 });
        }
        let doubts = freshness.doubts(id);
        cluster.view.view().serves_reads(id).then_some(Answer { id, lsn, round: None, doubts })
    }

    /// Delivers the answer of a server.
    pub fn hear_position(&mut self, answer: Answer) {
        let now = self.shared.board.moment(self.now);
        let Some(cluster) = &mut self.cluster else { return };
        cluster.settle(&self.shared);
        let Answer { id, lsn, round, doubts } = answer;
        let freshness = cluster.view.freshness().clone();
        match round {
            Some((round, begun)) if cluster.primary == Some(id) => cluster.replay.primary(round, begun, lsn),
            Some(_) => (),
            None if freshness.doubts(id) != doubts || cluster.primary == Some(id) => cluster.replay.forget(id),
            None => {
                let covered = cluster.replay.replica(id, lsn, now);
                let news = freshness.cover(id, covered, doubts);
                freshness.set_delay(cluster.servers.iter().filter_map(|id| cluster.replay.delay(*id)).min());
                if news {
                    self.shared.tell_all(|| Message::Replayed);
                }
            }
        }
    }

    /// Does the work that is due; whether there was any.
    pub fn turn(&mut self) -> bool {
        let mut worked = false;
        for (core, poll) in &mut self.workers {
            worked |= work::has_work(core);
            let events = poll.events(WOKEN);
            worked |= !events.is_empty();
            work::work(core, events.into_iter(), self.now);
            worked |= work::has_work(core);
        }
        worked
    }

    /// The assumed state of the free server connections.
    ///
    /// # Panics
    /// If one of them is in use all the same.
    pub fn believed(&self) -> Vec<Belief> {
        let all = self.workers.iter().flat_map(|(core, _)| core.servers.iter().map(move |(_, server)| (core, server)));
        let free = all.filter(|(_, server)| {
            matches!(server.state(), State::Idle)
                && server.known.residue == Residue::Nothing
                && server.cancels.under_way == 0
        });
        free.map(|(core, server)| {
            assert!(server.exchange.requests.is_empty() && !server.is_aligning() && server.client().is_none());
            let names = core.parameters.tracked.names().enumerate();
            let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
            Belief {
                pid: server.cancels.key.pid,
                sets: server.known.session.sets.iter().map(owned).collect(),
                vars: names
                    .filter_map(|(place, name)| Some(owned((name, server.known.session.vars.get(place)?))))
                    .collect(),
                read_only: server.known.session.read_only,
                statements: server.known.statements.names().map(|(name, doubtful)| (name.to_vec(), doubtful)).collect(),
            }
        })
        .collect()
    }
}

/// The configuration of a simulation.
fn configuration(servers: usize, databases: &[&str], settings: &str) -> Config {
    let mut config = Config::default();
    let set = |settings: &mut Settings, name: &str, value: &str| settings.set(name, value).unwrap().unwrap();
    for (name, value) in [
        ("listen_addr", ""),
        ("unix_socket_dir", FOLDER),
        ("auth_type", "any"),
        ("pool_mode", "transaction"),
        ("log_pooler_errors", "0"),
    ] {
        set(&mut config.settings, name, value);
    }
    for line in settings.lines().filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once('=').unwrap();
        set(&mut config.settings, name.trim(), value.trim());
    }
    let mut entry = Database::default();
    for (name, value) in [("host", FOLDER), ("port", "5")] {
        entry.set(name, value).unwrap().unwrap();
    }
    let entries = databases.iter().map(|name| ((*name).to_owned(), entry.clone()));
    config.databases.extend(entries);
    if let Some(entry) = config.databases.get_mut("d").filter(|_| servers > 1) {
        let server = |number: usize| Setup {
            host: FOLDER.to_owned(),
            port: 10 * u16::try_from(number).unwrap_or_default() + 5,
            role: Configured::Auto,
            weight: 1,
        };
        entry.servers = (0..servers).map(server).collect();
    }
    config
}

impl Cluster {
    /// Adapts the knowledge of replay to the last decision.
    fn settle(&mut self, shared: &Shared) {
        self.view.refresh(&shared.board);
        let primary = self.view.view().primary();
        if primary != self.primary {
            self.replay.clear();
            self.view.freshness().forget_all();
            self.primary = primary;
        }
        for id in self.servers.iter().filter(|id| primary != Some(**id) && !self.view.view().serves_reads(**id)) {
            self.replay.forget(*id);
            self.view.freshness().forget(*id);
        }
    }
}
