//! The regular work that keeps pools as the configuration demands: databases that come and go, sizes, connections that
//! are checked before use and replaced when they are old.

use std::collections::HashSet;
use std::rc::Rc;
use std::time::{Duration, Instant};

use crate::model::keys::{ClientKey, PoolKey, ServerKey};
use crate::model::totals::Totals;

use crate::backend::close;
use crate::common::PoolName;
use crate::config::{Database, PoolMode, Seconds};
use crate::error::Error;
use crate::frontend::leave;
use crate::metrics::Stats;
use crate::pools::{limits, size};
use crate::shared::Message;
use crate::state::Core;
use crate::state::client::{Client, State as ClientState};
use crate::state::pool::Pool;
use crate::state::server::Server;
use crate::state::traveller::Bound;
use crate::sync::lock;

/// The time for which such a pool is kept: it remembers a failure, and spares the next client a new connection.
const UNPROVEN_KEPT: Duration = Duration::from_secs(10);

/// Whether a pool of a database that is configured only by `*` was of no use and is kept no longer: one that served
/// look-ups alone, or whose database no server has.
fn is_spent(core: &Core, pool: &Pool) -> bool {
    let since = |limit: Duration| pool.queue.unused_since.is_some_and(|since: Instant| core.now - since >= limit);
    let unused = pool.queue.clients == 0 && pool.is_unwanted() && !serves_somebody(core, pool);
    let elsewhere = !core.shared.homes.serves(core.id, &pool.name.database);
    let futile = pool.connections.servers.is_empty() && pool.greetings.welcome.is_none();
    let retry = core.config.settings.server_login_retry.0;
    unused && (elsewhere && since(UNPROVEN_KEPT) || futile && since(retry))
}

fn serves_somebody(core: &Core, pool: &Pool) -> bool {
    pool.connections.servers.iter().any(|key| core.servers.get(key.0).is_some_and(|server| server.client().is_some()))
}

/// Maintains the pools; called each second, and when the configuration has changed.
pub fn keep_pools(core: &mut Core) {
    make_kept_pools(core);
    let keys: Vec<PoolKey> = core.pools.iter().map(|(key, _)| PoolKey(key)).collect();
    for key in keys {
        let Some(pool) = core.pools.get(key.0) else { continue };
        match core.config.database(&pool.name.database) {
            None => {
                let error = Error::DatabaseGone(pool.name.database.to_string());
                wind_up(core, key, &error);
            }
            Some(entry) if is_former(core, key, pool, entry) => send_to_their_pool(core, key),
            Some(entry) if entry.user.is_none() && serves_others(core, key, pool) => dismiss_others(core, key),
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
    let open = core.pools.iter().map(|(_, pool)| &*pool.name.database);
    let in_use: HashSet<&str> = open.chain(core.config.named_databases().map(String::as_str)).collect();
    let gone = core.shared.homes.forget(core.id, |name| in_use.contains(name));
    if !gone.is_empty() {
        lock(&core.shared.learnt).forget(&gone);
    }
    if core.config.settings.server_fast_close {
        close_retired_sessions(core);
    }
}

/// Whether the database's entry gives another user than a pool's, and the pool has clients or is of no use. The pool of
/// look-ups of passwords has none, and its user need not be that of the entry.
fn is_former(core: &Core, key: PoolKey, pool: &Pool, entry: &Database) -> bool {
    let of_pool = |client: &Client| client.route.home == Some(key) || client.route.pool == Some(key);
    let has_any = core.clients.iter().any(|(_, client)| of_pool(client));
    let has_ready = core.clients.iter().any(|(_, client)| client.route.home == Some(key) && client.is_ready());
    let is_useless = pool.limits.kept || pool.connections.servers.is_empty() && !has_any;
    entry.user.as_deref().is_some_and(|user| *user != *pool.name.user) && (has_ready || is_useless)
}

/// Whether a pool serves, or is kept filled for, clients that logged in by another name than its user's.
fn serves_others(core: &Core, key: PoolKey, pool: &Pool) -> bool {
    pool.limits.kept || core.clients.iter().any(|(_, client)| is_another(client, key, &pool.name.user))
}

/// Whether a client of this pool logged in by another name than that of the pool's user.
fn is_another(client: &Client, home: PoolKey, user: &Rc<str>) -> bool {
    client.route.home == Some(home) && client.is_ready() && client.identity.user != *user
}

/// Closes the clients that logged in to be the pool's user here, which they may not be any longer: the database's entry
/// gives no user now. The pool stays that of the user's own clients.
fn dismiss_others(core: &mut Core, key: PoolKey) {
    let Some(pool) = core.pools.get_mut(key.0) else { return };
    pool.limits.kept = false;
    let user = pool.name.user.clone();
    if !core.clients.iter().any(|(_, client)| client.route.home == Some(key)) {
        return wind_up(core, key, &Error::PoolUnused);
    }
    let others = core.clients.iter().filter(|(_, client)| is_another(client, key, &user));
    let free = others.filter(|(_, client)| has_no_server(client)).map(|(key, _)| ClientKey(key)).collect::<Vec<_>>();
    let Some(pool) = core.pools.get(key.0) else { return };
    let error = Error::UserGone { user: user.to_string(), database: pool.name.database.to_string() };
    for client in free {
        leave::fatal(core, client, &error);
    }
}

/// Whether a client may be closed without harm to a statement or transaction.
fn has_no_server(client: &Client) -> bool {
    client.checkout.server().is_none() && client.checkout.pipelined().is_none()
}

/// Sends the clients of a pool to the pool of the user that the database's entry gives, each before its next unit (one
/// that waits for a connection is still served here), and closes the pool's connections as they become free. The pool ends with its last client.
fn send_to_their_pool(core: &mut Core, key: PoolKey) {
    if !core.clients.iter().any(|(_, client)| client.route.home == Some(key)) {
        return wind_up(core, key, &Error::PoolUnused);
    }
    let Some(pool) = core.pools.get_mut(key.0) else { return };
    (pool.limits.kept, pool.limits.minimum) = (false, 0);
    let members: Vec<PoolKey> = pool.cluster_of.members.iter().map(|(_, member)| *member).collect();
    for (_, client) in core.clients.iter_mut() {
        if client.route.home == Some(key) && client.is_ready() && client.moves_to != Some(Bound::Successor) {
            client.moves_to = Some(Bound::Pool);
        }
    }
    let pools = members.into_iter().chain([key]).filter_map(|pool| core.pools.get(pool.0));
    let servers: Vec<ServerKey> = pools.flat_map(|pool| pool.connections.servers.iter().copied()).collect();
    close::retire(core, &servers);
}

/// Makes the pools that are kept filled before the first client comes: those whose user is given by the database's
/// entry.
fn make_kept_pools(core: &mut Core) {
    let config = core.config.clone();
    for (name, entry) in &config.databases {
        let minimum = entry.min_pool_size.unwrap_or(config.settings.min_pool_size);
        let Some(user) = &entry.user else { continue };
        if minimum == 0 || core.shared.homes.of(name) != Some(core.id) {
            continue;
        }
        let (database, user): (Rc<str>, Rc<str>) = (name.as_str().into(), user.as_str().into());
        let key = size::pool_of(core, &database, &user);
        if let Some(pool) = core.pools.get_mut(key.0) {
            pool.limits.kept = true;
        }
    }
}

/// Ends a pool that is not in the configuration any more, or that no client has used for long: clients with a statement
/// or transaction under way finish that first.
fn wind_up(core: &mut Core, key: PoolKey, error: &Error) {
    let Some(pool) = core.pools.get(key.0) else { return };
    let servers = pool.connections.servers.clone();
    for (_, member) in pool.cluster_of.members.clone() {
        wind_up(core, member, error);
    }
    let done: Vec<ClientKey> = core
        .clients
        .iter()
        .filter(|(_, client)| client.route.pool == Some(key) && !matches!(client.state(), ClientState::Closing))
        .filter(|(_, client)| has_no_server(client))
        .map(|(key, _)| ClientKey(key))
        .collect();
    for client in done {
        leave::fatal(core, client, error);
    }
    close::retire(core, &servers);
    let used = core.clients.iter().any(|(_, client)| client.route.pool == Some(key) || client.route.home == Some(key))
        || core.pools.get(key.0).is_some_and(|pool| !pool.cluster_of.members.is_empty())
        || core.servers.iter().any(|(_, server)| server.pool == key);
    if !used {
        let Some(pool) = core.pools.remove(key.0) else { return };
        // The counts of a pool never decrease: another worker takes them over.
        if let Some(other) = pool.common.another() {
            let counts = (pool.common.name().clone(), pool.counts.totals, pool.counts.stats);
            core.shared.tell(other, Message::Bequeathed(Box::new(counts)));
        }
        match pool.cluster_of.home {
            None => drop(core.pool_names.remove(&(pool.name.database, pool.name.user))),
            Some((home, _)) => {
                if let Some(home) = core.pools.get_mut(home.0) {
                    home.cluster_of.members.retain(|(_, member)| *member != key);
                }
            }
        }
    }
}

/// Adds the counts of another worker that has this pool no longer. The added counts are no part of the periods of the
/// averages.
pub fn inherit(core: &mut Core, (name, totals, stats): (PoolName, Totals, Stats)) {
    let Some(pool) = size::pool_named(core, &name).and_then(|key| core.pools.get_mut(key.0)) else { return };
    pool.counts.totals = pool.counts.totals.plus(&totals);
    pool.counts.periods = pool.counts.periods.map(|period| period.plus(&totals));
    pool.counts.stats.add(&stats);
    core.lifecycle.workload.leave_out(&name.database, totals.queries);
}

/// Closes free connections of a pool that has become smaller, or that shares a limit which has.
fn trim(core: &mut Core, key: PoolKey) {
    while let Some(pool) = core.pools.get(key.0) {
        let many = pool.common.total() > pool.limits.size || limits::limit_exceeded(core, pool).is_some();
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
        let pool = core.pools.get(server.pool.0);
        server.life.retire
            && server.exchange.requests.is_empty()
            && server.status == wire::backend::Status::Idle
            && pool.is_some_and(|pool| pool.limits.mode == PoolMode::Session)
    };
    let found: Vec<(ServerKey, ClientKey)> = core
        .servers
        .iter()
        .filter(|(_, server)| ready(server))
        .filter_map(|(key, server)| Some((ServerKey(key), server.client()?)))
        .collect();
    for (server, client) in found {
        leave::fatal(core, client, &Error::FastClose);
        if core.servers.get(server.0).is_some_and(|server| server.client().is_none()) {
            close::close_server(core, server, "server_fast_close");
        }
    }
}
