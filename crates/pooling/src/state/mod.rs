//! The state of a worker: its clients, server connections and pools, and their phases.
//!
//! All types are defined here; the folders above this one change them, by the lists of work in `turns.rs` and the sockets
//! in `sockets.rs`.

pub mod account;
pub mod adopted;
pub mod arrival;
pub mod cancel;
pub mod client;
pub mod cluster;
pub mod fingerprints;
pub mod listeners;
pub mod login;
pub mod pool;
pub mod server;
pub mod size;
pub mod sockets;
pub mod suspension;
pub mod tell;
pub mod transfer;
pub mod turns;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use rustc_hash::FxHashSet;

use crate::model::busy_poll::BusyPoll;
use crate::model::cancel::Repeat;
use crate::model::keys::{ClientKey, PoolKey, ServerKey, WorkerId};
use crate::model::slots::Slots;
use crate::model::subscriber::Subscribers;
use crate::model::turn::{After, Turn};
use crate::model::vars::Tracked;

use crate::admin::console::Console;
use crate::config::Config;
use crate::error::Blame;
use crate::io::Network;
use crate::log::Subject;
use crate::metrics::shapes::Shapes;
use crate::monitor::ClusterView;
use crate::shared::Shared;
use crate::state::client::Client;
use crate::state::fingerprints::Fingerprints;
use crate::state::listeners::{Listeners, Unauthenticated};
use crate::state::pool::Pool;
use crate::state::server::Server;
use crate::state::suspension::Suspension;

/// The parameters whose values servers report.
#[derive(Debug)]
pub struct Parameters {
    /// The parameters that are tracked.
    pub tracked: Tracked,
    /// The places among the tracked parameters of `standard_conforming_strings` and `client_encoding`.
    pub lexed_by: (usize, usize),
}

/// The work that is due, and when.
#[derive(Debug)]
pub struct Schedule {
    /// The connections with work.
    pub turns: VecDeque<Turn>,
    /// The turns that are queued, so that none is twice.
    pub queued: FxHashSet<Turn>,
    /// The work that is done after the current input.
    pub after: VecDeque<After>,
    /// Whether that work is being done.
    pub in_after: bool,
    /// The connections whose buffered output is sent when the turn ends.
    pub unflushed: Vec<Turn>,
    /// Cancel requests that may have come too early, for the next tick.
    pub repeats: Vec<Repeat>,
    /// The time at which time limits are checked next.
    pub next_tick: Instant,
    /// The time at which the pools are maintained next.
    pub next_upkeep: Instant,
    /// The time at which the current period of the averages ends.
    pub period_ends: Instant,
}

/// The knowledge by which units are routed.
#[derive(Default)]
pub struct Router {
    /// The monitor's posts about clusters.
    pub clusters: Vec<ClusterView>,
    /// The time at which a read has waited long enough for a replica.
    pub replay_due: Option<Instant>,
    /// Whether a replica has advanced towards the commits that reads wait for.
    pub replayed: bool,
    /// Clients that wait for a map of shards.
    pub awaiting_map: Vec<ClientKey>,
    /// The knowledge about statements, by database.
    pub fingerprints: BTreeMap<Rc<str>, Fingerprints>,
}

/// The server connections that several clients use at once.
#[derive(Debug, Default)]
pub struct Pipelines {
    /// The subscribers, each of which listens for all clients of a pool.
    pub subscribers: Subscribers,
    /// Server connections that are pipelined connections.
    pub active: Vec<ServerKey>,
}

/// The orders to the worker, and its reports about itself.
#[derive(Debug, Default)]
pub struct Lifecycle {
    /// The time at which the end of the pooler was ordered, if it was.
    pub ending: Option<Instant>,
    /// The number of KILL commands that it has carried out.
    pub kills: u64,
    /// Whether connections are suspended.
    pub suspension: Suspension,
    /// The pooler's own errors that clients were sent, by SQLSTATE and by blame.
    pub errors: BTreeMap<(String, Blame), u64>,
    /// The statements of databases with shards, by database, where they went, and by which rule.
    pub routes: BTreeMap<(Rc<str>, &'static str, &'static str), u64>,
    /// The counts of statements by shape.
    pub shapes: Shapes,
    /// The questions of console clients that other workers are answering.
    pub console: Console,
}

/// The way of new clients into the pooler.
pub struct Entrance {
    /// The listening sockets.
    pub listeners: Listeners,
    /// The connections that have not logged in, in order of arrival.
    pub unauthenticated: Unauthenticated,
}

/// The state of the event loop.
pub struct Reactor {
    /// The maker and the watcher of sockets.
    pub network: Box<dyn Network>,
    /// Whether one client alone is served.
    pub busy_poll: BusyPoll,
    /// The buffer into which sockets are read first.
    pub scratch: Vec<u8>,
    /// Cores of the machine.
    pub cores: usize,
}

/// The state of a worker.
pub struct Core {
    /// The worker's number.
    pub id: WorkerId,
    /// The state that all workers share.
    pub shared: Arc<Shared>,
    /// The configuration in force.
    pub config: Arc<Config>,
    /// The clients.
    pub clients: Slots<ClientKey, Client>,
    /// The server connections.
    pub servers: Slots<ServerKey, Server>,
    /// The pools.
    pub pools: Slots<PoolKey, Pool>,
    /// Pools by database and user.
    pub pool_names: HashMap<(Rc<str>, Rc<str>), PoolKey>,
    /// The parameters whose values servers report.
    pub parameters: Parameters,
    /// The time, as of the last poll.
    pub now: Instant,
    /// The work that is due, and when.
    pub schedule: Schedule,
    /// The orders to the worker, and its reports about itself.
    pub lifecycle: Lifecycle,
    /// The state of the event loop.
    pub reactor: Reactor,
    /// The server connections that several clients use at once.
    pub pipelines: Pipelines,
    /// The knowledge by which units are routed.
    pub router: Router,
    /// The way of new clients into the pooler.
    pub entrance: Entrance,
}

/// The parts of a worker that the messages of its clients need beside the clients and their server connections.
pub struct Context<'a> {
    pub config: &'a Config,
    pub shared: &'a Shared,
    pub parameters: &'a Parameters,
    pub pools: &'a mut Slots<PoolKey, Pool>,
    pub router: &'a mut Router,
    pub now: Instant,
}

/// A client, and the server connection that has its units: its own or a pipelined one.
pub struct Pair<'a> {
    pub key: ClientKey,
    pub client: &'a mut Client,
    pub server: &'a mut Server,
    pub context: Context<'a>,
}

/// A client, and the server connection that is checked out to it.
pub fn served<'a>(
    clients: &'a mut Slots<ClientKey, Client>,
    servers: &'a mut Slots<ServerKey, Server>,
    key: ClientKey,
) -> Option<(&'a mut Client, Option<&'a mut Server>)> {
    let client = clients.get_mut(key)?;
    let server = client.checkout.server().and_then(|server| servers.get_mut(server));
    Some((client, server))
}

/// A server connection, and the client that gets its next answers.
pub fn answering<'a>(
    servers: &'a mut Slots<ServerKey, Server>,
    clients: &'a mut Slots<ClientKey, Client>,
    key: ServerKey,
) -> Option<(&'a mut Server, Option<&'a mut Client>)> {
    let server = servers.get_mut(key)?;
    let client = server.client().and_then(|client| clients.get_mut(client));
    Some((server, client))
}

impl Core {
    /// The clients, the server connections, and what their messages need.
    pub fn split(&mut self) -> (&mut Slots<ClientKey, Client>, &mut Slots<ServerKey, Server>, Context<'_>) {
        let Self { clients, servers, config, shared, parameters, pools, router, now, .. } = self;
        (clients, servers, Context { config, shared, parameters, pools, router, now: *now })
    }

    /// What the messages of clients need.
    pub fn context(&mut self) -> Context<'_> {
        self.split().2
    }

    /// A client and its server connection.
    pub fn pair(&mut self, key: ClientKey) -> Option<Pair<'_>> {
        let (clients, servers, context) = self.split();
        let client = clients.get_mut(key)?;
        let server = servers.get_mut(client.checkout.connection()?)?;
        Some(Pair { key, client, server, context })
    }

    /// Whether nothing is read or begun on this worker, except for the console.
    pub fn is_suspended(&self) -> bool {
        self.lifecycle.suspension == Suspension::Whole
    }

    /// Whether new clients are accepted.
    pub fn lets_in(&self) -> bool {
        self.lifecycle.suspension == Suspension::No
    }

    /// A client as the log names it.
    pub fn name_client(&self, key: ClientKey) -> Subject {
        self.clients.get(key).map_or_else(Subject::default, |client| Subject {
            database: client.identity.database.to_string(),
            user: client.identity.user.to_string(),
            client: Some(format!("{}:{}", client.identity.peer.host(), client.identity.peer.port())),
            server: None,
        })
    }

    /// A pool as the log names it.
    pub fn name_pool(&self, key: PoolKey) -> Subject {
        self.pools.get(key).map_or_else(Subject::default, |pool| Subject {
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
