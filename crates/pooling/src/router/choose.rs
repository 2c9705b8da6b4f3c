//! The kind of server that a unit needs, and the server of the cluster that it gets.

use std::rc::Rc;

use crate::model::fingerprint::Fingerprint;
use crate::model::keys::{ClientKey, ServerKey};
use crate::model::slots::Slots;
use balancer::{ServerId, Strategy, Tried, Want};
use classify::{Isolation, Kind, Role, Route};

use crate::config::Routing;
use crate::monitor::ClusterView;
use crate::router::freshness;
use crate::router::members::{self, ACCESS, SHUN};
use crate::state::Core;
use crate::state::pool::Pool;
use crate::state::server::Server;

/// The properties of a unit that decide on its server.
#[derive(Default)]
pub struct UnitClass {
    /// Whether no statement in the unit needs the primary.
    pub read: bool,
    /// Whether the unit, though perhaps no write, fails on a replica or would have to keep its client there.
    pub binds: bool,
    /// Whether the unit may write, or open a transaction that does.
    pub writes: bool,
    /// The request of the unit's comment.
    pub route: Option<Route>,
}

impl UnitClass {
    /// The properties of a unit of these statements, in a session whose transactions are serializable unless they say
    /// otherwise.
    pub fn of(fingerprints: &[Rc<Fingerprint>], serializable: bool) -> Self {
        let binds = fingerprints.iter().any(|fingerprint| binds(fingerprint, serializable));
        Self {
            read: !fingerprints.is_empty() && !binds && fingerprints.iter().all(|fingerprint| harmless(fingerprint)),
            binds,
            writes: fingerprints.is_empty() || !fingerprints.iter().all(|fingerprint| fingerprint.is_read()),
            route: fingerprints.iter().find_map(|fingerprint| fingerprint.verdict.route),
        }
    }
}

/// Whether any server may run this statement.
fn harmless(fingerprint: &Fingerprint) -> bool {
    let verdict = &fingerprint.verdict;
    let tells = |name: &str| ACCESS.contains(&name);
    let kind = match &verdict.kind {
        Kind::Begin(modes) => modes.read_only == Some(true),
        Kind::Show(name) => !classify::server_state::parameter(name),
        Kind::Set(sets) => !sets.iter().any(|set| tells(&set.name)),
        Kind::Reset { name } => !name.as_deref().is_some_and(tells),
        Kind::Discard(_) | Kind::Deallocate(_) | Kind::Commit { .. } | Kind::Rollback { .. } => true,
        _ => false,
    };
    kind && verdict.statements <= 1 || fingerprint.is_read()
}

/// Whether this statement needs the primary though it writes nothing. A session that it pins stays where it is, and shall
/// be able to write there; so shall a transaction that says that it will write; a standby refuses serializable
/// transactions, read-only ones too (SQLSTATE 0A000).
fn binds(fingerprint: &Fingerprint, serializable: bool) -> bool {
    let verdict = &fingerprint.verdict;
    verdict.pins.any()
        || match &verdict.kind {
            Kind::Begin(modes) => {
                modes.read_only == Some(false)
                    || modes.isolation.map_or(serializable, |level| level == Isolation::Serializable)
            }
            Kind::Set(_) if verdict.is_call => serializable,
            // These statements run without a snapshot.
            Kind::Set(_) | Kind::Reset { .. } | Kind::Show(_) | Kind::Discard(_) | Kind::Deallocate(_) => false,
            Kind::Commit { .. } | Kind::Rollback { .. } => false,
            _ => serializable,
        }
}

/// The number of units that the server of a pool has, or has waiting for it.
fn outstanding(servers: &Slots<ServerKey, Server>, member: &Pool) -> usize {
    let connections = &member.connections;
    let pipelines = connections.pipelined.iter().filter_map(|key| servers.get(*key)?.pipeline());
    let shared: usize = pipelines.map(|pipeline| pipeline.units.len()).sum();
    let own = connections.servers.len().saturating_sub(connections.idle.len() + connections.pipelined.len());
    shared + own + member.queue.waiting.len() + member.queue.sharing.len()
}

/// Chooses a server for a client: true if there is one, whose pool is the client's now. Otherwise the client waits. A
/// replica must have replayed all commits up to `stamp`.
pub fn route(core: &mut Core, key: ClientKey, want: Want, stamp: u64) -> bool {
    let Some(client) = core.clients.get_mut(key) else { return false };
    let (Some(home), mut tried) = (client.route.serving(), client.route.tried) else { return false };
    let Some(pool) = core.pools.get(home) else { return false };
    let Some(place) = pool.cluster_of.cluster else { return true };
    let Some(view) = core.router.clusters.get_mut(place) else { return true };
    let counts = view.routing().strategy == Strategy::LeastOutstanding;
    for &(id, member) in &pool.cluster_of.members {
        let Some(member) = core.pools.get(member) else { continue };
        if let Some(failure) = &member.connections.failure
            && core.now.saturating_duration_since(failure.at) < SHUN
        {
            tried.add(id);
        }
        if counts {
            view.count(id, outstanding(&core.servers, member));
        }
    }
    let behind = view.behind(stamp);
    let mut choice = view.choose(want, tried | behind).map_err(|unavailable| unavailable.to_string());
    if !behind.is_empty() && !choice.as_ref().is_ok_and(|&id| want == Want::Any || view.view().serves_reads(id)) {
        // A replica would serve the read, if it had replayed the commits that the read must see.
        let waited = client.route.owed.until.is_some();
        let bound = core.config.settings.read_your_writes_wait.0;
        let until = freshness::awaits_replay(client, view, stamp, core.now, bound);
        if let Some(until) = until {
            view.freshness().want(core.shared.board.moment(until));
            core.router.replay_due = Some(core.router.replay_due.map_or(until, |due| due.min(until)));
        }
        let waits = until.is_some();
        choice = if waits {
            Err("no replica has yet replayed the commits that the read must see".to_owned())
        } else {
            choice.or_else(|_| view.choose(Want::Write, tried).map_err(|unavailable| unavailable.to_string()))
        };
        if let Some(home) = core.pools.get_mut(home) {
            home.counts.totals.reads.awaited_replay += u64::from(waits && !waited);
            home.counts.totals.reads.on_primary += u64::from(choice.is_ok());
        }
    }
    let member = choice.and_then(|id| members::member(core, home, id).ok_or_else(String::new));
    let (Some(client), Some(pool)) = (core.clients.get_mut(key), core.pools.get_mut(home)) else {
        return false;
    };
    match member {
        Ok(member) => {
            client.route.pool = Some(member);
            client.route.owed.sees = stamp;
            true
        }
        Err(why) => {
            // A server that has failed may serve the unit the next time.
            client.route.tried = Tried::default();
            client.route.pool = Some(home);
            client.checkout.wait(*client.route.waiting_since.get_or_insert(core.now));
            pool.queue.waiting.push_back(key);
            pool.cluster_of.unavailable = why;
            false
        }
    }
}

/// The server that a unit wants: by its comment first, then by its client's settings, then by its statements.
pub fn want(
    routing: &Routing,
    class: &UnitClass,
    role: Option<Role>,
    primary_reads: Option<bool>,
    session: bool,
) -> Want {
    let reads = match primary_reads {
        Some(true) => Want::Any,
        Some(false) => Want::Replica,
        None => routing.primary_reads.want(),
    };
    let by_route = class.route.and_then(|route| match route {
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
    let want = by_route.or(by_role).unwrap_or_else(|| match (splits, class.read) {
        (true, true) => reads,
        (true, false) => Want::Write,
        // A session stays on its server whatever comes.
        (false, _) if session && routing.splitting => Want::Write,
        (false, _) => routing.want(None),
    });
    // A unit that may go to any server must be able to go on there.
    if class.binds && want == Want::Any { Want::Write } else { want }
}

/// Whether a server serves this want.
pub fn serves(view: &ClusterView, id: ServerId, want: Want) -> bool {
    let view = view.view();
    match want {
        Want::Write => view.primary() == Some(id),
        Want::Replica => view.serves_reads(id),
        Want::ReplicaOrPrimary => view.serves_reads(id) || view.primary() == Some(id),
        Want::Any => view.serves(id),
    }
}
