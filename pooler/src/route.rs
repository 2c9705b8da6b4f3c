//! Which server of a cluster a client's next statement goes to.
//!
//! A database on several servers has a pool for its clients, the *home*, and behind it one for each server, the
//! *members*: queues, lanes and server connections are the members'. Before each unit a client's pool is chosen anew, by
//! what the unit is, by what the client or a comment asks for, and by what the monitor has posted. When no server will
//! do, the client waits in the home until one does or `query_wait_timeout` is over.

use std::rc::Rc;
use std::time::Duration;

use balancer::{ServerId, Strategy, Tried, Want};
use classify::{Command, Consistency, Isolation, Kind, Role, Route};
use wire::backend::{self, ColumnType, Status};
use wire::frontend::tag;

use crate::client::{ClientKey, Discard};
use crate::common::PoolName;
use crate::config::{PoolMode, Routing, Value};
use crate::monitor::{ClusterView, Met, Refreshed};
use crate::pool::{Pool, PoolKey};
use crate::server::Server;
use crate::shape::Shape;
use crate::unit::{Extent, extent, is_sound};
use crate::worker::{Step, Turn, Worker};

/// How long a server to which no connection could be made is left out, unless the monitor says more before.
pub const SHUN: Duration = Duration::from_secs(1);

/// A unit longer than this is not waited for until it can be judged as a whole.
const LONGEST_JUDGED: usize = 65_536;

/// Parameters by which a session tells whether it may write: what a client asks or hears of them is the primary's.
pub const ACCESS: [&str; 3] = ["in_hot_standby", "default_transaction_read_only", "transaction_read_only"];

/// The routine of PostgreSQL in which a standby refuses a transaction that is serializable by a default.
pub const SERIALIZABLE: &str = "GetSerializableTransactionSnapshot";

/// What a unit is, for the choice of a server.
#[derive(Default)]
struct Sort {
    /// Nothing in it needs the primary.
    read: bool,
    /// It may be no write, but a replica could not do it, or would have to keep its client.
    binds: bool,
    /// It may write, or open a transaction that does.
    writes: bool,
    /// What its comment asks for.
    route: Option<Route>,
}

impl Sort {
    /// What these statements are as a unit, in a session whose transactions are serializable unless they say otherwise.
    fn of(shapes: &[Rc<Shape>], serializable: bool) -> Self {
        let binds = shapes.iter().any(|shape| binds(shape, serializable));
        Self {
            read: !shapes.is_empty() && !binds && shapes.iter().all(|shape| harmless(shape)),
            binds,
            writes: shapes.is_empty() || !shapes.iter().all(|shape| shape.is_read()),
            route: shapes.iter().find_map(|shape| shape.verdict.route),
        }
    }
}

/// Whether any server may do this statement.
fn harmless(shape: &Shape) -> bool {
    let verdict = &shape.verdict;
    let tells = |name: &str| ACCESS.contains(&name);
    let kind = match &verdict.kind {
        Kind::Begin(modes) => modes.read_only == Some(true),
        Kind::Show(name) => !tells(name),
        Kind::Set(sets) => !sets.iter().any(|set| tells(&set.name)),
        Kind::Reset { name } => !name.as_deref().is_some_and(tells),
        Kind::Discard(_) | Kind::Deallocate(_) | Kind::Commit { .. } | Kind::Rollback { .. } => true,
        _ => false,
    };
    kind && verdict.statements <= 1 || shape.is_read()
}

/// Whether this statement needs the primary though it writes nothing. A session that it pins stays where it is, and shall
/// be able to write there; so shall a transaction that says that it will write; a standby refuses serializable
/// transactions, read-only ones too (SQLSTATE 0A000).
fn binds(shape: &Shape, serializable: bool) -> bool {
    let verdict = &shape.verdict;
    verdict.pins
        || match &verdict.kind {
            Kind::Begin(modes) => {
                modes.read_only == Some(false)
                    || modes.isolation.map_or(serializable, |level| level == Isolation::Serializable)
            }
            // They run without a snapshot.
            Kind::Set(_) | Kind::Reset { .. } | Kind::Show(_) | Kind::Discard(_) | Kind::Deallocate(_) => false,
            Kind::Commit { .. } | Kind::Rollback { .. } => false,
            _ => serializable,
        }
}

/// How far the unit at the front of an input goes, for the choice of a server: a longer one than goes down a lane is
/// waited for too, since a write may stand at its end. `Never` where that cannot be known before it is sent.
fn reach(input: &[u8]) -> Extent {
    let found = extent(input);
    if !matches!(found, Extent::Never) {
        return found;
    }
    let mut at = 0;
    while at <= LONGEST_JUDGED {
        let head = match wire::header(input.get(at..).unwrap_or_default()) {
            Ok(Some(head)) => head,
            // A client that has sent nonsense may be waiting to be told so.
            Ok(None) if is_sound(input) => return Extent::More,
            _ => return Extent::Never,
        };
        let end = at.saturating_add(head.total());
        match head.tag {
            tag::QUERY if at == 0 => (),
            tag::SYNC | tag::PARSE | tag::BIND | tag::DESCRIBE | tag::EXECUTE | tag::CLOSE => (),
            _ => return Extent::Never,
        }
        if end <= input.len() && matches!(head.tag, tag::QUERY | tag::SYNC) {
            return Extent::Whole(end);
        }
        at = end;
    }
    Extent::Never
}

impl Worker {
    /// The cluster behind a pool of clients, by its place among the worker's views.
    pub fn cluster_behind(&mut self, database: &str) -> Option<usize> {
        let name = self.config.cluster_of(database)?;
        if let Some(place) = self.clusters.iter().position(|view| view.name() == name) {
            return Some(place);
        }
        let seed = (self.id.0 as u64).wrapping_mul(0x9e37_79b9).wrapping_add(self.clusters.len() as u64);
        let view = ClusterView::new(&self.shared.board, name, seed)?;
        self.clusters.push(view);
        Some(self.clusters.len() - 1)
    }

    /// The pool of one server, made on first use.
    pub fn member(&mut self, home: PoolKey, id: ServerId) -> Option<PoolKey> {
        let pool = self.pools.get(home.0)?;
        if let Some(&(_, key)) = pool.members.iter().find(|(member, _)| *member == id) {
            return Some(key);
        }
        let name = PoolName { database: pool.database.to_string(), user: pool.user.to_string(), server: Some(id) };
        let common = self.shared.commons.join(name, self.id);
        let mut made = Pool::new(pool.database.clone(), pool.user.clone(), common);
        made.home = Some((home, id));
        let key = PoolKey(self.pools.insert(made));
        self.size_pool(key);
        self.pools.get_mut(home.0)?.members.push((id, key));
        Some(key)
    }

    /// The home of a pool: itself where there is one server only.
    pub fn home_of(&self, key: PoolKey) -> PoolKey {
        self.pools.get(key.0).and_then(|pool| pool.home).map_or(key, |(home, _)| home)
    }

    /// Whether a pool is of clients only: their statements go down connections of its members.
    pub fn is_cluster(&self, key: PoolKey) -> bool {
        self.pools.get(key.0).is_some_and(|pool| pool.cluster.is_some() && pool.home.is_none())
    }

    /// Whether a server is never to be written to, and might let it happen: it is no standby, or does not say.
    pub fn is_only_read(&self, server: &Server) -> bool {
        let Some((home, id)) = self.pools.get(server.pool.0).and_then(|pool| pool.home) else { return false };
        let view = self.pools.get(home.0).and_then(|home| home.cluster).and_then(|place| self.clusters.get(place));
        let listed = view.and_then(|view| view.view().server(id));
        listed.is_some_and(|listed| listed.only_read) && server.standby != Some(true)
    }

    /// Finds a server for the unit at the front of a client's input. `None` when there is nothing to find, or it has
    /// been found; else what becomes of the input.
    pub fn find_server(&mut self, key: ClientKey, tag: u8, input: &[u8]) -> Option<Step> {
        let client = self.clients.get(key.0)?;
        let home = client.home?;
        let pool = self.pools.get(home.0)?;
        let cluster = pool.cluster?;
        if client.server.is_some() || client.may_share || client.discard != Discard::No {
            return None;
        }
        let routing = *self.clusters.get(cluster)?.routing();
        let session = pool.mode == PoolMode::Session;
        let serializable = self.is_serializable(key, home);
        let sort = match reach(input) {
            Extent::More => return Some(Step::More),
            Extent::Whole(at) => {
                let judged = self.judge(key, home, input.get(..at)?);
                if let [shape] = &judged[..]
                    && let Kind::Pooler(command) = shape.verdict.kind
                    && tag == tag::QUERY
                {
                    if let Some(step) = self.behind_own(key) {
                        return Some(step);
                    }
                    self.answer_ourselves(key, command, routing, cluster);
                    return Some(Step::Took(at));
                }
                Sort::of(&judged, serializable)
            }
            // What comes later in it may write: its first message tells only what its comment asks for.
            Extent::Never => {
                let end = wire::header(input).ok().flatten().map_or(0, |head| head.total());
                let first = input.get(..end).filter(|_| matches!(tag, tag::QUERY | tag::PARSE | tag::BIND));
                let judged = first.and_then(|message| self.runs(key, home, message).ok()).unwrap_or_default();
                Sort { read: false, writes: true, ..Sort::of(&judged, serializable) }
            }
        };
        let client = self.clients.get(key.0)?;
        let want = want(&routing, &sort, client.role, client.primary_reads, session);
        let view = self.clusters.get(cluster)?;
        // Who names where to read has chosen what to see.
        let named = matches!(sort.route, Some(Route::Primary | Route::Replica | Route::Any))
            || matches!(client.role, Some(Role::Primary | Role::Replica | Role::Any));
        let splits = routing.splitting || client.role == Some(Role::Auto);
        let is_read = splits && sort.read && !session && !named && want != Want::Write;
        let stamp = if is_read { client.owed.stamp(sort.route, view) } else { 0 };
        if client.lane.is_some() {
            let here = client.pool.and_then(|pool| self.pools.get(pool.0)).and_then(|pool| pool.home);
            let shown = |id| stamp == 0 || view.view().primary() == Some(id) || view.freshness().covers(id, stamp);
            let serves = here.is_some_and(|(_, id)| serves(view, id, want) && shown(id));
            return if serves { None } else { self.behind_own(key) };
        }
        self.clients.get_mut(key.0)?.owed.writes = sort.writes;
        if self.route(key, want, stamp) { None } else { Some(Step::Stop) }
    }

    /// Whether a client's transactions are serializable unless they say otherwise: by what it has set, or by a default of
    /// its role or database that a standby has told of.
    fn is_serializable(&self, key: ClientKey, home: PoolKey) -> bool {
        let by_default = || self.pools.get(home.0).is_some_and(|pool| pool.serializable);
        let set = self.clients.get(key.0).and_then(|client| client.sets.get("default_transaction_isolation"));
        set.map_or_else(by_default, |statement| statement.to_ascii_lowercase().contains("serializable"))
    }

    /// A standby has refused a transaction for being serializable by a default: those of this pool's clients go to the
    /// primary until the configuration is read again.
    pub fn is_serializable_by_default(&mut self, member: PoolKey) {
        let home = self.home_of(member);
        if let Some(home) = self.pools.get_mut(home.0) {
            home.serializable = true;
        }
    }

    /// Chooses a server for a client: true when there is one, whose pool is the client's now. Else the client waits. A
    /// replica must have replayed all commits up to `stamp`.
    pub fn route(&mut self, key: ClientKey, want: Want, stamp: u64) -> bool {
        let Some(client) = self.clients.get(key.0) else { return false };
        let (Some(home), mut tried) = (client.home, client.tried) else { return false };
        let Some(pool) = self.pools.get(home.0) else { return false };
        let Some(place) = pool.cluster else { return true };
        let Some(view) = self.clusters.get_mut(place) else { return true };
        let counts = view.routing().strategy == Strategy::LeastOutstanding;
        for &(id, member) in &pool.members {
            let Some(member) = self.pools.get(member.0) else { continue };
            if let Some(failure) = &member.failure
                && self.now.saturating_duration_since(failure.at) < SHUN
            {
                tried.add(id);
            }
            if counts {
                let lanes = member.lanes.iter().filter_map(|lane| self.servers.get(lane.0)?.lane.as_ref());
                let shared: usize = lanes.map(|lane| lane.units.len()).sum();
                let lent = member.servers.len().saturating_sub(member.idle.len() + member.lanes.len());
                view.count(id, shared + lent + member.waiting.len() + member.sharers.len());
            }
        }
        let behind = view.behind(stamp);
        let mut choice = view.choose(want, tried | behind).map_err(|unavailable| unavailable.to_string());
        if !behind.is_empty() && !choice.as_ref().is_ok_and(|&id| want == Want::Any || view.view().serves_reads(id)) {
            // A replica would do, if it had replayed what the read must see.
            let waited = self.clients.get(key.0).is_some_and(|client| client.owed.until.is_some());
            let waits = self.awaits_replay(key, place, stamp);
            choice = if waits {
                Err("no replica has replayed yet what the read must see".to_owned())
            } else {
                let Some(view) = self.clusters.get_mut(place) else { return true };
                choice.or_else(|_| view.choose(Want::Write, tried).map_err(|unavailable| unavailable.to_string()))
            };
            if let Some(home) = self.pools.get_mut(home.0) {
                home.totals.awaited_replay += u64::from(waits && !waited);
                home.totals.read_on_primary += u64::from(choice.is_ok());
            }
        }
        let member = choice.and_then(|id| self.member(home, id).ok_or_else(String::new));
        let (Some(client), Some(pool)) = (self.clients.get_mut(key.0), self.pools.get_mut(home.0)) else {
            return false;
        };
        match member {
            Ok(member) => {
                client.pool = Some(member);
                client.owed.until = None;
                true
            }
            Err(why) => {
                // What failed then may do the next time.
                client.tried = Tried::default();
                client.pool = Some(home);
                client.waits = Some(*client.waiting_since.get_or_insert(self.now));
                pool.waiting.push_back(key);
                pool.unavailable = why;
                false
            }
        }
    }

    /// Lets the clients who wait in a pool choose again: those of a member because its server will not do, those of a
    /// home because another may.
    pub fn reroute(&mut self, key: PoolKey) {
        let Some(pool) = self.pools.get_mut(key.0) else { return };
        let waiting = std::mem::take(&mut pool.waiting);
        let sharers = std::mem::take(&mut pool.sharers);
        let (home, id) = pool.home.map_or((key, None), |(home, id)| (home, Some(id)));
        for key in waiting.into_iter().chain(sharers) {
            let Some(client) = self.clients.get_mut(key.0) else { continue };
            let Some(since) = client.waits.take() else { continue };
            client.waiting_since = Some(since);
            client.needs_own = false;
            client.may_share = false;
            if let Some(id) = id {
                client.tried.add(id);
            }
            client.pool = Some(home);
            if client.is_ready() {
                self.give_turn(Turn::Client(key));
            } else {
                // It waits for a look at its password.
                self.acquire(key, false);
            }
        }
        self.welcome_from_a_member(home);
    }

    /// Takes over what the monitor has posted.
    pub fn look_at_clusters(&mut self) {
        for place in 0..self.clusters.len() {
            let Some(view) = self.clusters.get_mut(place) else { return };
            if view.refresh(&self.shared.board) != Refreshed::Changed {
                continue;
            }
            let homes: Vec<PoolKey> = self
                .pools
                .iter()
                .filter(|(_, pool)| pool.cluster == Some(place) && pool.home.is_none())
                .map(|(key, _)| PoolKey(key))
                .collect();
            for home in homes {
                self.regroup(home, place);
            }
        }
    }

    /// Brings the members of a home in line with a new view.
    fn regroup(&mut self, home: PoolKey, place: usize) {
        let members = self.pools.get(home.0).map(|pool| pool.members.clone()).unwrap_or_default();
        for (id, member) in members {
            let Some(view) = self.clusters.get(place) else { return };
            let listed = view.view().server(id).is_some();
            let standing = view.view().server(id).map_or("gone", |server| server.standing.word());
            let keeps = view.view().keeps(id);
            let wanted = listed && keeps && view.view().serves(id);
            let Some(pool) = self.pools.get_mut(member.0) else { continue };
            if wanted {
                pool.failure = None;
                continue;
            }
            let servers = pool.servers.clone();
            self.reroute(member);
            if !keeps {
                // Nothing that is under way there would be heard of, or would last.
                for server in servers {
                    self.server_gone(server, &format!("the server is {standing}"));
                }
            } else if !listed {
                self.retire(&servers);
            }
        }
        self.reroute(home);
    }

    /// Lets those try again who found no server: nothing need have been posted since.
    pub fn tick_clusters(&mut self) {
        let homes: Vec<PoolKey> = self
            .pools
            .iter()
            .filter(|(_, pool)| pool.cluster.is_some() && pool.home.is_none())
            .filter(|(_, pool)| !pool.waiting.is_empty() || !pool.greeting.is_empty())
            .map(|(key, _)| PoolKey(key))
            .collect();
        for home in homes {
            self.reroute(home);
        }
    }

    /// Tells the monitor what was met on the server of a pool.
    pub fn met(&self, pool: PoolKey, met: Met) {
        let Some(pool) = self.pools.get(pool.0) else { return };
        let Some((home, id)) = pool.home else { return };
        let cluster = self.pools.get(home.0).and_then(|home| home.cluster).and_then(|place| self.clusters.get(place));
        if let Some(view) = cluster {
            self.shared.met(view.name(), id, met);
        }
    }

    /// Does what a client asks of the pooler itself.
    fn answer_ourselves(&mut self, key: ClientKey, command: Command, routing: Routing, cluster: usize) {
        let Some(client) = self.clients.get_mut(key.0) else { return };
        let out = client.io.out();
        match command {
            Command::SetServerRole(role) => {
                client.role = (role != Role::Default).then_some(role);
                // What it has committed before was not followed.
                if !routing.splitting
                    && let Some(view) = self.clusters.get(cluster)
                {
                    client.owed.renew(view);
                }
                backend::write_command_complete(client.io.out(), "SET SERVER ROLE");
            }
            Command::SetPrimaryReads(reads) => {
                client.primary_reads = reads;
                backend::write_command_complete(client.io.out(), "SET PRIMARY READS");
            }
            Command::SetReadYourWrites(chosen) => {
                client.owed.chosen = chosen;
                if routing.read_your_writes == Consistency::Off
                    && let Some(view) = self.clusters.get(cluster)
                {
                    client.owed.renew(view);
                }
                backend::write_command_complete(client.io.out(), "SET READ YOUR WRITES");
            }
            Command::ShowReadYourWrites => {
                let text = client.owed.consistency(&routing).show();
                backend::write_row_description(out, [("read your writes", ColumnType::Text)].into_iter());
                backend::write_data_row(out, [Some(text.as_bytes())].into_iter());
                backend::write_command_complete(out, "SELECT 1");
            }
            Command::ShowServerRole => {
                let role = match client.role {
                    Some(Role::Primary) => "primary",
                    Some(Role::Replica) => "replica",
                    Some(Role::Any) => "any",
                    Some(Role::Auto) => "auto",
                    _ if routing.splitting => "auto",
                    _ => match routing.default_role {
                        crate::config::DefaultRole::Any => "any",
                        crate::config::DefaultRole::Primary => "primary",
                        crate::config::DefaultRole::Replica => "replica",
                    },
                };
                backend::write_row_description(out, [("server role", ColumnType::Text)].into_iter());
                backend::write_data_row(out, [Some(role.as_bytes())].into_iter());
                backend::write_command_complete(out, "SELECT 1");
            }
            Command::ShowPrimaryReads => {
                let reads = client.primary_reads.unwrap_or(routing.primary_reads != crate::config::PrimaryReads::Off);
                let text: &[u8] = if reads { b"on" } else { b"off" };
                backend::write_row_description(out, [("primary reads", ColumnType::Text)].into_iter());
                backend::write_data_row(out, [Some(text)].into_iter());
                backend::write_command_complete(out, "SELECT 1");
            }
        }
        backend::write_ready_for_query(client.io.out(), Status::Idle);
        self.unflushed.push(Turn::Client(key));
    }
}

/// What a unit wants: first what its comment says, then what its client has set, then what it is.
fn want(routing: &Routing, sort: &Sort, role: Option<Role>, primary_reads: Option<bool>, session: bool) -> Want {
    let reads = match primary_reads {
        Some(true) => Want::Any,
        Some(false) => Want::Replica,
        None => routing.primary_reads.want(),
    };
    let by_route = sort.route.and_then(|route| match route {
        Route::Primary => Some(Want::Write),
        Route::Replica => Some(Want::Replica),
        Route::Any => Some(Want::Any),
        Route::Fresh | Route::Stale => None,
    });
    let by_role = match role {
        Some(Role::Primary) => Some(Want::Write),
        Some(Role::Replica) => Some(Want::Replica),
        Some(Role::Any) => Some(Want::Any),
        _ => None,
    };
    let splits = (routing.splitting || role == Some(Role::Auto)) && !session;
    let want = by_route.or(by_role).unwrap_or_else(|| match (splits, sort.read) {
        (true, true) => reads,
        (true, false) => Want::Write,
        // A session stays on its server whatever comes.
        (false, _) if session && routing.splitting => Want::Write,
        (false, _) => routing.want(None),
    });
    // Who does not mind which server it is minds that it can go on there.
    if sort.binds && want == Want::Any { Want::Write } else { want }
}

/// Whether a server serves what a unit wants.
fn serves(view: &ClusterView, id: ServerId, want: Want) -> bool {
    let view = view.view();
    match want {
        Want::Write => view.primary() == Some(id),
        Want::Replica => view.serves_reads(id),
        Want::ReplicaOrPrimary => view.serves_reads(id) || view.primary() == Some(id),
        Want::Any => view.serves(id),
    }
}
