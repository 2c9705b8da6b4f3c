//! The choice of the server of a cluster for a client's next statement.
//!
//! A database on several servers has a pool for its clients, the *home*, and behind it one for each server, the
//! *members*: queues, pipelined connections and server connections are the members'. Before each unit a client's pool
//! is chosen anew, by the class of the unit, by the request of the client or of a comment, and by the monitor's posts.
//! When no server will do, the client waits in the home until one does or `query_wait_timeout` is over.

use crate::model::client::Discard;
use crate::model::extent;
use crate::model::keys::{ClientKey, PoolKey};
use crate::model::turn::{Step, Turn};
use balancer::Want;
use classify::verdict::Isolation;
use classify::{Command, Consistency, Kind, Role, Route};
use wire::backend::{self, ColumnType};
use wire::frontend::tag;

use crate::config::{DefaultRole, PoolMode, Routing, Value};
use crate::router::choose::{self, UnitClass, serves, want};
use crate::router::members;
use crate::router::unit::{self, Front};
use crate::state::Core;
use crate::state::client::{Begun, Client};

/// Finds a server for the unit at the front of a client's input, if its database is on a cluster; gives that unit. The
/// error is the next step for the input where none has been found.
pub fn find_server<'a>(core: &mut Core, key: ClientKey, tag: u8, input: &'a [u8]) -> Result<Option<Front<'a>>, Step> {
    let Some(home) = core.clients.get(key).and_then(|client| routed(core, client)) else { return Ok(None) };
    let front = Front::read(core, key, home, input, true).ok_or(Step::More)?;
    match find_by(core, key, (tag, input), &front) {
        Some(step) => Err(step),
        None => Ok(Some(front)),
    }
}

/// The pool of a cluster that a client's next unit is to be given a server of, if it is.
fn routed(core: &Core, client: &Client) -> Option<PoolKey> {
    let home = client.route.serving()?;
    core.pools.get(home)?.cluster_of.cluster?;
    (client.checkout.server().is_none() && client.input.discard == Discard::No).then_some(home)
}

/// Finds a server for this unit; the next step for the input if none has been found.
fn find_by(core: &mut Core, key: ClientKey, (tag, input): (u8, &[u8]), front: &Front<'_>) -> Option<Step> {
    let home = core.clients.get(key)?.route.serving()?;
    let pool = core.pools.get(home)?;
    let cluster = pool.cluster_of.cluster?;
    let routing = *core.router.clusters.get(cluster)?.routing();
    let session = pool.limits.mode == PoolMode::Session;
    let begun = core.clients.get(key)?.route.begun.as_ref().and_then(|begun| begun.modes.isolation);
    let serializable =
        begun.map_or_else(|| is_serializable(core, key, home), |isolation| isolation == Isolation::Serializable);
    let class = match &front.unit {
        Some(unit) => {
            let runs = front.runs.as_deref().unwrap_or_default();
            if let [fingerprint] = runs
                && let Kind::Pooler(command) = fingerprint.verdict.kind
                && tag == tag::QUERY
            {
                if let Some(step) = core.clients.get_mut(key)?.checkout.wait_for_own() {
                    return Some(step);
                }
                answer_ourselves(core, key, command, routing, cluster);
                return Some(Step::Took(unit.bytes.len()));
            }
            UnitClass::of(runs, serializable)
        }
        // Later messages of the unit may write: the first one gives only the request of its comment.
        None => {
            let first = extent::first(input).filter(|_| matches!(tag, tag::QUERY | tag::PARSE | tag::BIND));
            let judged = first.and_then(|message| unit::runs(core, key, home, &message).ok()).unwrap_or_default();
            UnitClass { read: false, writes: true, ..UnitClass::of(&judged, serializable) }
        }
    };
    let client = core.clients.get(key)?;
    // What follows in a transaction may write, or has to see what it sees.
    let writes = |begun: &Begun| begun.modes.read_only != Some(true);
    let class = UnitClass { read: class.read && !client.route.begun.as_ref().is_some_and(writes), ..class };
    let want = want(&routing, &class, client.route.role, client.route.primary_reads, session);
    let view = core.router.clusters.get(cluster)?;
    // A client that names the server for its reads has chosen what to see.
    let named = matches!(class.route, Some(Route::Primary | Route::Replica | Route::Any))
        || matches!(client.route.role, Some(Role::Primary | Role::Replica | Role::Any));
    let splits = routing.splitting || client.route.role == Some(Role::Auto);
    let is_read = splits && class.read && !session && !named && want != Want::Write;
    let stamp = if is_read { client.route.owed.stamp(class.route, view) } else { 0 };
    if client.checkout.pipelined().is_some() {
        let here = client.route.pool.and_then(|pool| core.pools.get(pool)).and_then(|pool| pool.cluster_of.home);
        let shown = |id| stamp == 0 || view.view().primary() == Some(id) || view.freshness().covers(id, stamp);
        let serves = here.is_some_and(|(_, id)| serves(view, id, want) && shown(id));
        return if serves { None } else { core.clients.get_mut(key)?.checkout.wait_for_own() };
    }
    core.clients.get_mut(key)?.route.owed.writes = class.writes;
    if choose::route(core, key, want, stamp) { None } else { Some(Step::Stop) }
}

/// Whether a client's transactions are serializable unless they say otherwise: by its setting, or by a default of its
/// role or database that a standby has reported.
fn is_serializable(core: &Core, key: ClientKey, home: PoolKey) -> bool {
    let by_default = || core.pools.get(home).is_some_and(|pool| pool.cluster_of.serializable);
    let set = core.clients.get(key).and_then(|client| client.session.sets.get("default_transaction_isolation"));
    set.map_or_else(by_default, |statement| statement.to_ascii_lowercase().contains("serializable"))
}

/// Notes that a standby has refused a transaction for being serializable by a default: transactions of this pool's
/// clients go to the primary until the configuration is read again.
pub fn is_serializable_by_default(core: &mut Core, member: PoolKey) {
    let home = members::home_of(&core.pools, member);
    if let Some(home) = core.pools.get_mut(home) {
        home.cluster_of.serializable = true;
    }
}

/// Runs a client's command to the pooler itself.
fn answer_ourselves(core: &mut Core, key: ClientKey, command: Command, routing: Routing, cluster: usize) {
    let Some(client) = core.clients.get_mut(key) else { return };
    let out = client.io.out();
    match command {
        Command::SetServerRole(role) => {
            client.route.role = (role != Role::Default).then_some(role);
            // Its earlier commits were not followed.
            if !routing.splitting
                && let Some(view) = core.router.clusters.get(cluster)
            {
                client.route.owed.renew(view);
            }
            backend::write_command_complete(client.io.out(), "SET SERVER ROLE");
        }
        Command::SetPrimaryReads(reads) => {
            client.route.primary_reads = reads;
            backend::write_command_complete(client.io.out(), "SET PRIMARY READS");
        }
        Command::SetReadYourWrites(chosen) => {
            client.route.owed.chosen = chosen;
            if routing.read_your_writes == Consistency::Off
                && let Some(view) = core.router.clusters.get(cluster)
            {
                client.route.owed.renew(view);
            }
            backend::write_command_complete(client.io.out(), "SET READ YOUR WRITES");
        }
        Command::ShowReadYourWrites => {
            let text = client.route.owed.consistency(&routing).show();
            backend::write_row_description(out, [("read your writes", ColumnType::Text)].into_iter());
            backend::write_data_row(out, [Some(text.as_bytes())].into_iter());
            backend::write_command_complete(out, "SELECT 1");
        }
        Command::ShowServerRole => {
            let role = role_word(client.route.role, &routing);
            backend::write_row_description(out, [("server role", ColumnType::Text)].into_iter());
            backend::write_data_row(out, [Some(role.as_bytes())].into_iter());
            backend::write_command_complete(out, "SELECT 1");
        }
        Command::ShowPrimaryReads => {
            let reads = client
                .route
                .primary_reads
                .unwrap_or(routing.primary_reads != crate::config::servers::PrimaryReads::Off);
            let text: &[u8] = if reads { b"on" } else { b"off" };
            backend::write_row_description(out, [("primary reads", ColumnType::Text)].into_iter());
            backend::write_data_row(out, [Some(text)].into_iter());
            backend::write_command_complete(out, "SELECT 1");
        }
    }
    let status = client.route.status();
    backend::write_ready_for_query(client.io.out(), status);
    core.schedule.unflushed.push(Turn::Client(key));
}

/// The role that SHOW SERVER ROLE shows.
fn role_word(role: Option<Role>, routing: &Routing) -> &'static str {
    match role {
        Some(Role::Primary) => "primary",
        Some(Role::Replica) => "replica",
        Some(Role::Any) => "any",
        Some(Role::Auto) => "auto",
        _ if routing.splitting => "auto",
        _ => match routing.default_role {
            DefaultRole::Any => "any",
            DefaultRole::Primary => "primary",
            DefaultRole::Replica => "replica",
        },
    }
}
