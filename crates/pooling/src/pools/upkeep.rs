//! The regular work that keeps pools as the configuration demands: databases that come and go, sizes, connections that
//! are checked before use and replaced when they are old.

use std::collections::HashSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::model::keys::{ClientKey, PoolKey, ServerKey};
use crate::model::totals::Totals;

use crate::common::PoolName;
use crate::config::{Database, PoolMode, Seconds};
use crate::error::Error;
use crate::metrics::Stats;
use crate::pools::{close, leave, limits, reroute};
use crate::shared::Message;
use crate::state::client::{Client, State as ClientState};
use crate::state::pool::{Name, Pool};
use crate::state::server::{Server, State};
use crate::state::transfer::Bound;
use crate::state::{Core, size};
use crate::sync::lock;

/// The time for which such a pool is kept: it remembers a failure, and spares the next client a new connection.
const UNPROVEN_KEPT: Duration = Duration::from_secs(10);

/// Whether a pool of a database that is configured only by `*` was of no use and is kept no longer: one that served
/// look-ups alone, or whose database no server has.
fn is_spent(core: &Core, pool: &Pool) -> bool {
    let since = |limit: Duration| pool.queue.unused_since.is_some_and(|since: Instant| core.now - since >= limit);
    let unused = pool.queue.clients == 0 && pool.is_unwanted() && !serves_somebody(core, pool);
    let elsewhere = !core.shared.assignment.serves(core.id, core.config.front_of(&pool.name.database));
    let futile = pool.connections.servers.is_empty() && pool.greetings.welcome.is_none();
    let retry = core.config.settings.server_login_retry.0;
    unused && (elsewhere && since(UNPROVEN_KEPT) || futile && since(retry))
}

fn serves_somebody(core: &Core, pool: &Pool) -> bool {
    pool.connections.servers.iter().any(|key| core.servers.get(*key).is_some_and(|server| server.client().is_some()))
}

/// Maintains the pools; called each second, and when the configuration has changed.
pub fn keep_pools(core: &mut Core) {
    make_kept_pools(core);
    let misplaced = misplaced(core);
    let keys = core.pools.keys();
    for key in keys {
        let Some(pool) = core.pools.get(key) else { continue };
        match core.config.database(&pool.name.database) {
            None => {
                let error = Error::DatabaseGone(pool.name.database.to_string());
                wind_up(core, key, &error);
            }
            Some(_) if misplaced.contains(&key) => send_away(core, key),
            Some(entry) if is_left(core, key, pool, entry) => wind_up(core, key, &Error::PoolUnused),
            Some(entry) => {
                let settings = &core.config.settings;
                let unused = |limit: Seconds| {
                    let long = |since: Instant| limit.limit().is_some_and(|limit| core.now - since >= limit);
                    pool.queue.clients == 0 && pool.queue.unused_since.is_some_and(long)
                };
                let empty = pool.connections.servers.is_empty() && !pool.limits.kept;
                if entry.wildcard && (unused(settings.autodb_idle_timeout) || is_spent(core, pool))
                    || empty && unused(settings.pool_idle_timeout)
                {
                    wind_up(core, key, &Error::PoolUnused);
                } else {
                    trim(core, key);
                }
            }
        }
    }
    let open = core.pools.values().map(|pool| &*pool.name.database);
    let in_use: HashSet<&str> = open.chain(core.config.named_databases().map(String::as_str)).collect();
    let gone = core.shared.assignment.forget(core.id, |name| in_use.contains(name));
    if !gone.is_empty() {
        lock(&core.shared.learnt).forget(&gone);
    }
    if core.config.settings.server_fast_close {
        close_retired_sessions(core);
    }
}

/// The pools with clients that another user's pool is to serve now, or none: each client is served by the pool of the user
/// that the database's entry gives, or of its own user.
fn misplaced(core: &Core) -> HashSet<PoolKey> {
    let homes = core.clients.values().filter(|client| client.is_ready());
    homes.filter_map(|client| client.route.home.filter(|_| is_misplaced(core, client))).collect()
}

fn is_misplaced(core: &Core, client: &Client) -> bool {
    let Some(pool) = client.route.home.and_then(|home| core.pools.get(home)) else { return false };
    let (database, user) = (&pool.name.database, &client.identity.user);
    core.config.database(database).is_some() && core.config.pool_user(database, user) != &*pool.name.user
}

/// Has a client that is new in its pool go to another one if the configuration has changed since this one was chosen for it.
pub fn place(core: &mut Core, key: ClientKey) {
    let leaves = core.clients.get(key).is_some_and(|client| is_misplaced(core, client));
    if let Some(client) = core.clients.get_mut(key).filter(|_| leaves) {
        client.moves_to = Some(Bound::Pool);
    }
}

/// Whether a pool has no clients, and only a former entry of its database needed it. (The user of look-ups of passwords
/// need not be that of the entry.)
fn is_left(core: &Core, key: PoolKey, pool: &Pool, entry: &Database) -> bool {
    let is_given = entry.user.as_deref() == Some(&*pool.name.user);
    let is_former = entry.user.is_some() && !core.config.looks_up_as(&pool.name.user);
    !is_given
        && pool.cluster_of.home.is_none()
        && (pool.limits.kept || is_former)
        && !core.clients.values().any(|client| client.route.home == Some(key) || client.route.pool == Some(key))
}

/// The reason why a client may not be served as the user of its pool any longer: the database's entry gives no user now,
/// and the client logged in by another name.
pub fn no_longer_served(core: &Core, key: ClientKey) -> Option<Error> {
    let client = core.clients.get(key).filter(|client| is_misplaced(core, client))?;
    let Name { user, database, .. } = &core.pools.get(client.route.home?)?.name;
    let entry = core.config.database(database)?;
    entry.user.is_none().then(|| Error::UserGone { user: user.to_string(), database: database.to_string() })
}

/// Sends the clients of a pool that are another's to that pool, each before its next unit, or closes them where there is
/// none; those of them that have nothing under way go at once. Connections of a former user's pool are closed as they
/// become free.
fn send_away(core: &mut Core, key: PoolKey) {
    let leaves = |client: &Client| client.route.home == Some(key) && client.is_ready() && is_misplaced(core, client);
    let leaving = core.clients.keys_of(leaves);
    for &client in &leaving {
        let gone = no_longer_served(core, client);
        let Some(state) = core.clients.get_mut(client) else { continue };
        state.moves_to = Some(Bound::Pool);
        if let Some(error) = gone.filter(|_| state.has_no_server()) {
            leave::fatal(core, client, &error);
        }
    }
    let Some(pool) = core.pools.get_mut(key) else { return };
    let database = pool.name.database.clone();
    if core.config.database(&database).is_none_or(|entry| entry.user.is_none()) {
        return;
    }
    (pool.limits.kept, pool.limits.minimum) = (false, 0);
    let members: Vec<PoolKey> = pool.cluster_of.members.iter().map(|(_, member)| *member).collect();
    let pools: Vec<PoolKey> = members.into_iter().chain([key]).collect();
    for &pool in &pools {
        reroute::reroute_some(core, pool, Client::is_movable);
    }
    // A client that must stay here for now may wait for one that is being opened.
    let opens = |state: &State| matches!(state, State::Connecting | State::Login(_) | State::Preparing(_));
    let servers = core.servers.keys_of(|server| pools.contains(&server.pool) && !opens(server.state()));
    close::retire(core, &servers);
}

/// Makes the pools that are kept filled before the first client comes: those whose user is given by the database's
/// entry.
fn make_kept_pools(core: &mut Core) {
    let config = core.config.clone();
    for (name, entry) in &config.databases {
        let minimum = entry.min_pool_size.unwrap_or(config.settings.min_pool_size);
        let Some(user) = &entry.user else { continue };
        if core.shared.assignment.share(core.id, name, minimum) == 0 || !core.shared.assignment.serves(core.id, name) {
            continue;
        }
        let (database, user): (Rc<str>, Rc<str>) = (name.as_str().into(), user.as_str().into());
        let key = size::pool_of(core, &database, &user);
        if let Some(pool) = core.pools.get_mut(key) {
            pool.limits.kept = true;
        }
    }
}

/// Ends a pool that is not in the configuration any more, or that no client has used for long: clients with a statement
/// or transaction under way finish that first.
fn wind_up(core: &mut Core, key: PoolKey, error: &Error) {
    let Some(pool) = core.pools.get(key) else { return };
    let servers = pool.connections.servers.clone();
    for (_, member) in pool.cluster_of.members.clone() {
        wind_up(core, member, error);
    }
    let done = core.clients.keys_of(|client| {
        client.route.pool == Some(key) && !matches!(client.state(), ClientState::Closing) && client.has_no_server()
    });
    for client in done {
        leave::fatal(core, client, error);
    }
    close::retire(core, &servers);
    let used = core.clients.values().any(|client| client.route.pool == Some(key) || client.route.home == Some(key))
        || core.pools.get(key).is_some_and(|pool| !pool.cluster_of.members.is_empty())
        || core.servers.values().any(|server| server.pool == key);
    if !used {
        let Some(pool) = core.pools.remove(key) else { return };
        // The counts of a pool never decrease: another worker takes them over.
        if let Some(other) = pool.common.another() {
            let counts = (pool.common.name().clone(), pool.counts.totals, pool.counts.stats);
            core.shared.tell(other, Message::Bequeathed(Box::new(counts)));
        }
        match pool.cluster_of.home {
            None => drop(core.pool_names.remove(&(pool.name.database, pool.name.user))),
            Some((home, _)) => {
                if let Some(home) = core.pools.get_mut(home) {
                    home.cluster_of.members.retain(|(_, member)| *member != key);
                }
            }
        }
    }
}

/// Adds the counts of another worker that has this pool no longer. The added counts are no part of the periods of the
/// averages.
pub fn inherit(core: &mut Core, (name, totals, stats): (PoolName, Totals, Stats)) {
    let Some(pool) = size::pool_named(core, &name).and_then(|key| core.pools.get_mut(key)) else { return };
    pool.counts.totals = pool.counts.totals.plus(&totals);
    pool.counts.periods = pool.counts.periods.map(|period| period.plus(&totals));
    pool.counts.stats.add(&stats);
}

/// Closes free connections of a pool that has become smaller, or that shares a limit which has.
fn trim(core: &mut Core, key: PoolKey) {
    while let Some(pool) = core.pools.get(key) {
        let many = pool.connections.servers.len() > pool.limits.size || limits::limit_exceeded(core, pool).is_some();
        if !many || !pool.queue.waiting.is_empty() {
            return;
        }
        let Some(&oldest) = pool.connections.idle.front() else { return };
        close::close_server(core, oldest, "the pool is smaller now");
    }
}

/// Closes retired connections of session-pooled clients, when they are outside a transaction.
fn close_retired_sessions(core: &mut Core) {
    let ready = |server: &Server| {
        let pool = core.pools.get(server.pool);
        server.life.retire
            && server.exchange.requests.is_empty()
            && server.status == wire::backend::Status::Idle
            && pool.is_some_and(|pool| pool.limits.mode == PoolMode::Session)
    };
    let found: Vec<(ServerKey, ClientKey)> = core
        .servers
        .iter()
        .filter(|(_, server)| ready(server))
        .filter_map(|(key, server)| Some((key, server.client()?)))
        .collect();
    for (server, client) in found {
        leave::fatal(core, client, &Error::FastClose);
        if core.servers.get(server).is_some_and(|server| server.client().is_none()) {
            close::close_server(core, server, "server_fast_close");
        }
    }
}
