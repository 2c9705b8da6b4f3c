//! What a worker knows: its clients, server connections and pools, and the phases that they are in.
//!
//! All types are defined here; what changes them is in the folders beside this one.

pub mod adopted;
pub mod arrival;
pub mod cancel;
pub mod client;
pub mod cluster;
pub mod door;
pub mod fingerprints;
pub mod login;
pub mod pool;
pub mod server;
pub mod suspension;
pub mod traveller;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::model::busy_poll::BusyPoll;
use crate::model::fingerprint::Fingerprint;
use crate::model::hub::Hubs;
use crate::model::keys::{ClientKey, PoolKey, ServerKey, WorkerId};
use crate::model::slots::Slots;
use crate::model::turn::{After, Turn};
use crate::model::vars::Tracked;
use crate::model::workload::Workload;

use crate::admin::console::Console;
use crate::config::Config;
use crate::error::Blame;
use crate::io::Network;
use crate::log::Subject;
use crate::monitor::ClusterView;
use crate::shared::Shared;
use crate::state::client::Client;
use crate::state::door::{Door, Strangers};
use crate::state::fingerprints::Fingerprints;
use crate::state::pool::Pool;
use crate::state::server::Server;
use crate::state::suspension::Suspension;

/// The parameters whose values servers tell.
#[derive(Debug)]
pub struct Parameters {
    /// Which parameters are tracked.
    pub tracked: Tracked,
    /// The places among the tracked parameters of `standard_conforming_strings` and `client_encoding`.
    pub lexed_by: (usize, usize),
}

/// What is to be done, and when.
#[derive(Debug)]
pub struct Schedule {
    /// Who has something to do.
    pub turns: VecDeque<Turn>,
    /// The turns that are queued, so that none is twice.
    pub queued: HashSet<Turn>,
    /// What is done when the input at hand has been worked on.
    pub after: VecDeque<After>,
    /// Whether that is being done.
    pub in_after: bool,
    /// Who gets what the turn has gathered for it when the turn ends.
    pub unflushed: Vec<Turn>,
    /// When time limits are looked at next.
    pub next_tick: Instant,
    /// When the pools are looked after next.
    pub next_upkeep: Instant,
    /// When the current period of the averages ends.
    pub period_ends: Instant,
}

/// What units are routed by.
#[derive(Default)]
pub struct Router {
    /// What the monitor has posted of clusters.
    pub clusters: Vec<ClusterView>,
    /// When a read has waited long enough for a replica.
    pub replay_due: Option<Instant>,
    /// A replica has come nearer to what reads wait for.
    pub replayed: bool,
    /// What is known of statements, by database.
    pub fingerprints: HashMap<Rc<str>, Fingerprints>,
    /// The statements of the unit that was looked at last, whose it is and how long: it is looked at twice.
    pub judged: Option<(ClientKey, usize, Vec<Rc<Fingerprint>>)>,
}

/// The server connections that several clients use at once.
#[derive(Debug, Default)]
pub struct Pipelines {
    /// Those that listen for all clients of a pool.
    pub hubs: Hubs,
    /// Server connections that are pipelined connections.
    pub active: Vec<ServerKey>,
    /// How long the client that is being served has waited for room in a pipelined connection.
    pub waited: Duration,
}

/// What the worker was ordered, and what it tells of itself.
#[derive(Debug, Default)]
pub struct Lifecycle {
    /// Set when it shall end: when that was ordered.
    pub ending: Option<Instant>,
    /// How many orders it has carried out that all workers get, the console's and those to reload: what comes from a
    /// worker that had carried out fewer has missed some.
    pub orders: u64,
    /// How often it has carried out KILL.
    pub kills: u64,
    /// Whether clients are marked that are to move to other workers.
    pub marked: bool,
    /// Whether it reads anything.
    pub suspension: Suspension,
    /// What it has done since it told others last how busy it is.
    pub workload: Workload,
    /// Errors of our own that clients were told, by SQLSTATE and by whose fault they are.
    pub errors: BTreeMap<(String, Blame), u64>,
    /// The questions of console clients that other workers are answering.
    pub console: Console,
}

/// How clients come in.
pub struct Entrance {
    /// What clients come in by.
    pub door: Door,
    /// Those who came in and have proven nothing, in order.
    pub strangers: Strangers,
}

/// What the event loop needs.
pub struct Reactor {
    /// Where sockets are made and watched.
    pub network: Box<dyn Network>,
    /// Whether one client alone is served.
    pub busy_poll: BusyPoll,
    /// What is read goes here first.
    pub scratch: Vec<u8>,
    /// Cores of the machine.
    pub cores: usize,
}

/// What a worker knows.
pub struct Core {
    /// Which one.
    pub id: WorkerId,
    /// What all workers share.
    pub shared: Arc<Shared>,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// The clients.
    pub clients: Slots<Client>,
    /// The server connections.
    pub servers: Slots<Server>,
    /// The pools.
    pub pools: Slots<Pool>,
    /// Pools by database and user.
    pub pool_names: HashMap<(Rc<str>, Rc<str>), PoolKey>,
    /// The parameters whose values servers tell.
    pub parameters: Parameters,
    /// The time, as of the last poll.
    pub now: Instant,
    /// What is to be done, and when.
    pub schedule: Schedule,
    /// What the worker was ordered, and what it tells of itself.
    pub lifecycle: Lifecycle,
    /// What the event loop needs.
    pub reactor: Reactor,
    /// The server connections that several clients use at once.
    pub pipelines: Pipelines,
    /// What units are routed by.
    pub router: Router,
    /// How clients come in.
    pub entrance: Entrance,
}

impl Core {
    /// A client and the server connection that it has.
    pub fn pair(&mut self, key: ClientKey) -> Option<(&mut Client, &mut Server)> {
        let client = self.clients.get_mut(key.0)?;
        let server = self.servers.get_mut(client.checkout.connection()?.0)?;
        Some((client, server))
    }

    /// A server connection and the client whose answers come on it.
    pub fn answered_pair(&mut self, key: ServerKey) -> Option<(&mut Server, &mut Client)> {
        let server = self.servers.get_mut(key.0)?;
        let client = self.clients.get_mut(server.client()?.0)?;
        Some((server, client))
    }

    /// Whether nothing is read or begun here, but for the console.
    pub fn is_suspended(&self) -> bool {
        self.lifecycle.suspension == Suspension::Whole
    }

    /// Whether those who arrive are let in.
    pub fn lets_in(&self) -> bool {
        self.lifecycle.suspension == Suspension::No
    }

    /// A client as the log names it.
    pub fn name_client(&self, key: ClientKey) -> Subject {
        self.clients.get(key.0).map_or_else(Subject::default, |client| Subject {
            database: client.identity.database.to_string(),
            user: client.identity.user.to_string(),
            client: Some(format!("{}:{}", client.identity.peer.host(), client.identity.peer.port())),
            server: None,
        })
    }

    /// A pool as the log names it.
    pub fn name_pool(&self, key: PoolKey) -> Subject {
        self.pools.get(key.0).map_or_else(Subject::default, |pool| Subject {
            database: pool.name.database.to_string(),
            user: pool.name.user.to_string(),
            ..Subject::default()
        })
    }

    /// A server connection as the log names it.
    pub fn name_server(&self, server: &Server) -> Subject {
        let host = if server.at.host.is_empty() { "unix" } else { &server.at.host };
        Subject { server: Some(format!("{host}:{}", server.at.port)), ..self.name_pool(server.pool) }
    }
}
