//! The greeting of clients of a database on several servers, and the wait for it.
//!
//! The parameters that a server reports when a session begins hold for that server only, and a session of the pooler is
//! not bound to one server. Whether a session can write follows from the routing of its statements. If they can reach
//! the primary, the client is greeted as by the primary, whichever server answered first, since drivers refuse a
//! standby when they look for a server to write to (libpq's `target_session_attrs`, JDBC's `targetServerType`). If the
//! session is confined to replicas, the client is greeted as by a replica.

use std::rc::Rc;

use crate::model::keys::PoolKey;
use crate::model::turn::After;
use crate::model::vars::Vars;
use balancer::{ServerId, Standing, Tried, Want};

use crate::common::Welcome;
use crate::config::DefaultRole;
use crate::error::Error;
use crate::pools::{connect, leave, limits};
use crate::router::members::{self, ACCESS, SHUN};
use crate::state::Core;
use crate::state::pool::Pool;
use crate::state::server::Server;

/// Whether sessions of a pool of clients may write.
fn may_write(core: &Core, home: &Pool) -> bool {
    let view = home.cluster_of.cluster.and_then(|place| core.router.clusters.get(place));
    view.is_none_or(|view| view.routing().splitting || view.routing().default_role != DefaultRole::Replica)
}

/// Takes the parameters that a server has reported at login as the greeting of clients, unless another server's are
/// better.
fn welcomed(core: &mut Core, member: PoolKey, welcome: Vec<(String, String)>, vars: Vars) {
    let home = members::home_of(&core.pools, member);
    let id = core.pools.get(member).and_then(|pool| pool.cluster_of.home).map(|(_, id)| id);
    let Some(pool) = core.pools.get(home) else { return };
    let better = pool.greetings.welcome.is_none() || id.is_none_or(|id| is_typical(core, pool, id));
    if let Some(pool) = core.pools.get_mut(home).filter(|_| better) {
        pool.common.set_welcome(Welcome { told: welcome.clone(), tracked: vars.carry() });
        pool.greetings.welcome = Some(Rc::new(welcome));
        pool.greetings.defaults = vars;
    }
}

/// Takes over the greeting that another worker has got from a server, for clients that wait to be greeted.
pub fn take_welcome(core: &mut Core, home: PoolKey) {
    let Some(pool) = core.pools.get_mut(home).filter(|pool| pool.greetings.welcome.is_none()) else { return };
    let Some(Welcome { told, tracked }) = pool.common.welcome() else { return };
    pool.greetings.defaults = Vars::carried(tracked, &pool.greetings.defaults);
    pool.greetings.welcome = Some(Rc::new(told));
    for name in core.parameters.tracked.note_silent(&pool.greetings.defaults) {
        warn_of_silent(&name);
    }
    greet_all(core, home);
}

/// Forgets what clients are greeted with, since the servers may report other parameters now: the next client to log in
/// waits for a new server connection.
pub fn forget(core: &mut Core, key: PoolKey) {
    if let Some(pool) = core.pools.get_mut(key) {
        pool.common.forget_welcome();
        pool.greetings.welcome = None;
    }
}

/// Warns of a parameter that the configuration wants to be tracked and that servers do not report.
pub fn warn_of_silent(name: &str) {
    crate::warning!(
        "the server does not report \"{name}\" (track_extra_parameters): the pooler learns the value only from the client's SET statements"
    );
}

/// Greets the clients that wait for it, when the input at hand has been worked on.
fn greet_all(core: &mut Core, home: PoolKey) {
    let greeting = core.pools.get_mut(home).map(|pool| std::mem::take(&mut pool.queue.greeting));
    for client in greeting.into_iter().flatten() {
        core.schedule.later(After::Greet(client));
    }
}

/// Takes the parameters that a server has reported as the greeting, and greets the clients that wait for it.
pub fn greet_by(core: &mut Core, member: PoolKey, welcome: Vec<(String, String)>, vars: Vars) {
    welcomed(core, member, welcome, vars);
    greet_all(core, members::home_of(&core.pools, member));
}

/// Whether the reports of this server fit the sessions of a pool of clients best.
fn is_typical(core: &Core, home: &Pool, id: ServerId) -> bool {
    let view = home.cluster_of.cluster.and_then(|place| core.router.clusters.get(place));
    view.is_none_or(|view| (view.view().primary() == Some(id)) == may_write(core, home))
}

/// The value of a parameter that a client is greeted with.
pub fn greets_with<'a>(
    core: &Core,
    home: PoolKey,
    welcome: &'a [(String, String)],
    name: &str,
    value: &'a str,
) -> &'a str {
    let Some(pool) = core.pools.get(home).filter(|pool| pool.cluster_of.cluster.is_some()) else { return value };
    let of_a_standby = || welcome.iter().any(|(name, value)| name == "in_hot_standby" && value == "on");
    if ACCESS.contains(&name) && may_write(core, pool) && of_a_standby() { "off" } else { value }
}

/// Whether a parameter that this server reports is kept from the client that it is checked out to.
pub fn is_of_the_server(core: &Core, server: &Server, name: &str) -> bool {
    let home = members::home_of(&core.pools, server.pool);
    home != server.pool
        && ACCESS.contains(&name)
        && (name == "in_hot_standby" || server.known.standby == Some(true))
        && core.pools.get(home).is_some_and(|pool| may_write(core, pool))
}

/// Opens a connection to some server for clients that wait to be greeted.
pub fn welcome_from_a_member(core: &mut Core, home: PoolKey) {
    let Some(pool) = core.pools.get(home) else { return };
    if pool.queue.greeting.is_empty() || pool.greetings.welcome.is_some() {
        return;
    }
    let mut tried = Tried::default();
    for &(id, member) in &pool.cluster_of.members {
        let Some(member) = core.pools.get(member) else { continue };
        if member.connections.connecting > 0 {
            return;
        }
        let failed = member.connections.failure.as_ref().map(|failure| failure.at);
        if failed.is_some_and(|when| core.now.saturating_duration_since(when) < SHUN) {
            tried.add(id);
        }
    }
    let first = if may_write(core, pool) { Want::Write } else { Want::ReplicaOrPrimary };
    let Some(view) = pool.cluster_of.cluster.and_then(|place| core.router.clusters.get_mut(place)) else { return };
    let choice = view.choose(first, tried).or_else(|_| view.choose(Want::Any, tried));
    match choice {
        Ok(id) => {
            if let Some(member) = members::member(core, home, id)
                && limits::is_within_size(core, member)
                && let Some(permit) = limits::make_room(core, member)
            {
                connect::connect(core, member, permit);
            }
        }
        Err(unavailable) => {
            let dead = view.view().is_dead();
            let Some(pool) = core.pools.get_mut(home) else { return };
            pool.cluster_of.unavailable = unavailable.to_string();
            if dead {
                turn_away(core, home);
            }
        }
    }
}

/// Closes the clients that wait to be greeted if no server can be reached: they must not hang, as they do not where a
/// database has one server.
fn turn_away(core: &mut Core, home: PoolKey) {
    let Some(pool) = core.pools.get_mut(home) else { return };
    let greeting = std::mem::take(&mut pool.queue.greeting);
    let Some(pool) = core.pools.get(home) else { return };
    let (database, why) = (pool.name.database.to_string(), why_unavailable(core, pool));
    let error = Error::NoServerForLogin { database, why };
    for client in greeting {
        leave::fatal(core, client, &error);
    }
}

/// The error for a look-up of a password that has chosen none of the servers of its cluster: each has been heard of, and
/// none can serve it, so it must not hang. None while there is hope.
pub fn why_no_lookup(core: &Core, home: PoolKey) -> Option<Error> {
    let pool = core.pools.get(home)?;
    let view = pool.cluster_of.cluster.and_then(|place| core.router.clusters.get(place))?.view();
    let refuses = |id: ServerId| {
        let member = pool.cluster_of.members.iter().find(|(member, _)| *member == id);
        let member = member.and_then(|(_, key)| core.pools.get(*key));
        // The connections that a pool has may become free.
        member.is_some_and(|member| member.connections.failure.is_some() && member.connections.servers.is_empty())
    };
    let hopes = view
        .servers()
        .iter()
        .any(|server| server.standing == Standing::Unknown || view.serves(server.id) && !refuses(server.id));
    let (database, why) = (pool.name.database.to_string(), why_unavailable(core, pool));
    (!hopes).then_some(Error::NoServerForLogin { database, why })
}

/// The reason why a pool of clients finds no server: the outcome of the last choice, and the last error of each server.
pub fn why_unavailable(core: &Core, home: &Pool) -> String {
    let Some(view) = home.cluster_of.cluster.and_then(|place| core.router.clusters.get(place)) else {
        return String::new();
    };
    let errors = core.shared.board.errors(view.name());
    let mut why = home.cluster_of.unavailable.clone();
    for server in view.view().servers() {
        let member =
            home.cluster_of.members.iter().find(|(id, _)| *id == server.id).and_then(|(_, key)| core.pools.get(*key));
        let met = member.and_then(|member| member.connections.failure.as_ref());
        let said = met.map(|failure| &failure.cause.why).or_else(|| errors.get(&server.id));
        if let Some(said) = said {
            why.push_str(&format!("; {}:{}: {said}", server.host, server.port));
        }
    }
    why
}
