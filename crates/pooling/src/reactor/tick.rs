//! The work at each tick of the clock: time limits, pools that shrink or fill, averages.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::model::fingerprint::NotPipelined;
use crate::model::keys::{ClientKey, ServerKey};
use crate::model::totals::Totals;
use wire::backend::Status;
use wire::sqlstate;

use crate::admin::show::a_second;
use crate::admin::{obey, suspend};
use crate::assignment::CONSOLE;
use crate::backend::{cancel, down, gone, subscriber};
use crate::config::{Config, Limits};
use crate::error::{Cause, Error};
use crate::frontend::{accept, looked_up, shards};
use crate::pools::{addresses, checks, close, depart, grow, leave, limits, relay, reroute, upkeep, waiting, welcome};
use crate::reactor::ending;
use crate::router::fingerprints;
use crate::state::client::{Client, State as ClientState};
use crate::state::pool::Pool;
use crate::state::server::State;
use crate::state::{Core, sockets};
use crate::takeover;

/// The time for which a closed client may take its last output.
const LINGER: Duration = Duration::from_secs(2);

/// The time between two rounds of maintenance of the pools.
const UPKEEP: Duration = Duration::from_secs(1);

/// Checks all time limits.
pub fn tick(core: &mut Core) {
    suspend::tick_suspension(core);
    cancel::repeat(core);
    if !core.is_suspended() {
        tick_traffic(core);
    }
    obey::console_tick(core);
    if core.lifecycle.ending.is_some() {
        ending::close_idle_clients(core);
    }
    if core.now >= core.schedule.period_ends {
        core.schedule.period_ends = core.now + core.config.settings.stats_period.0.max(Duration::from_secs(1));
        end_period(core);
    }
}

fn tick_traffic(core: &mut Core) {
    accept::accept_late(core);
    tick_clients(core);
    tick_servers(core);
    tick_pools(core);
    relay::tick_relays(core);
    if core.shared.takeover.is_handed_over() {
        depart::mark_leaving(core);
        if core.id == CONSOLE {
            takeover::take_back(core);
        }
    }
    if !core.pipelines.subscribers.is_empty() {
        subscriber::tick_subscribers(core);
    }
    reroute::tick_clusters(core);
    shards::look_for_map(core);
    if core.now >= core.schedule.next_upkeep {
        core.schedule.next_upkeep = core.now + UPKEEP;
        upkeep::keep_pools(core);
        addresses::refresh_names(core);
        fingerprints::forget_unused(core);
    }
}

/// The consequence of a time limit that has run out.
enum Due {
    /// The client's wait for a server connection is over, by this limit.
    WaitIsOver(&'static str),
    /// The client gets the notice that it waits.
    Notice,
    /// The client gets this error and is closed; before that, its statement on this connection is cancelled.
    Close(Error, Option<ServerKey>),
    /// The rest of the output to a client that is being closed is given up.
    GiveUp,
}

/// Whether this time has passed since then.
fn past(now: Instant, since: Instant, limit: Option<Duration>) -> bool {
    limit.is_some_and(|limit| now.saturating_duration_since(since) >= limit)
}

/// Checks the time limits of all clients.
fn tick_clients(core: &mut Core) {
    let config = core.config.clone();
    let of_all = config.limits("");
    let due = |client: &Client| match client.state() {
        ClientState::Ready => {
            // Few users have limits of their own.
            let own = || config.limits(&client.identity.user);
            of_ready(core, &config, client, if config.users.is_empty() { of_all } else { own() })
        }
        ClientState::Closing => past(core.now, client.identity.since, Some(LINGER)).then_some(Due::GiveUp),
        // A cancel request ends when it has arrived, or by `cancel_wait_timeout`: its client must not take it for over before.
        ClientState::Console | ClientState::Relay | ClientState::Cancels => None,
        _ => of_login(core.now, &config, client),
    };
    let over = core.clients.iter().filter_map(|(key, client)| Some((key, due(client)?)));
    for (key, due) in over.collect::<Vec<_>>() {
        match due {
            Due::WaitIsOver(limit) => wait_is_over(core, key, limit),
            Due::Notice => tell_of_wait(core, key),
            Due::Close(error, cancels) => {
                cancels.into_iter().for_each(|server| cancel::cancel_on_server(core, server, None));
                if matches!(error, Error::LoginTimeout) {
                    looked_up::log_late(core, key, why_it_waits(core, key));
                }
                leave::fatal(core, key, &error);
            }
            Due::GiveUp => leave::close_client(core, key, "the last answers to the client could not be sent in time"),
        }
    }
}

/// The limits of a client that has not logged in.
fn of_login(now: Instant, config: &Config, client: &Client) -> Option<Due> {
    let waits = client.route.waiting_since.filter(|_| matches!(client.state(), ClientState::Greeting));
    let longest = config.query_wait(&client.identity.user, &client.identity.database);
    if waits.is_some_and(|since| past(now, since, longest)) {
        return Some(Due::WaitIsOver("query_wait_timeout"));
    }
    let late = past(now, client.identity.since, config.settings.client_login_timeout.limit());
    let limit = "client_login_timeout";
    late.then(|| if waits.is_some() { Due::WaitIsOver(limit) } else { Due::Close(Error::LoginTimeout, None) })
}

/// The limits of a client that has logged in.
fn of_ready(core: &Core, config: &Config, client: &Client, limits: Limits) -> Option<Due> {
    let past = |since: Instant, limit: Option<Duration>| past(core.now, since, limit);
    if let Some(since) = client.checkout.waits() {
        let longest = config.query_wait(&client.identity.user, &client.identity.database);
        if past(since, longest) {
            return Some(Due::WaitIsOver("query_wait_timeout"));
        }
        let tells = !client.checkout.told_to_wait && past(since, config.settings.query_wait_notify.limit());
        return tells.then_some(Due::Notice);
    }
    let since = client.times.request_since;
    if client.checkout.pipelined().is_some() {
        return past(since, limits.query).then_some(Due::Close(Error::QueryTimeout, None));
    }
    let Some(server) = client.checkout.server().and_then(|server| core.servers.get(server)) else {
        // A client that listens waits for notifications.
        let idle = client.subscriptions.is_none() && past(since, limits.idle);
        return idle.then_some(Due::Close(Error::IdleTimeout, None));
    };
    let asks = !server.exchange.requests.is_empty();
    if asks && past(since, limits.query) {
        return Some(Due::Close(Error::QueryTimeout, client.checkout.server()));
    }
    // What runs before a Flush is committed by the Sync.
    let is_open = server.status != Status::Idle || client.input.unsynced;
    if !asks && is_open && past(since, limits.idle_transaction) {
        return Some(Due::Close(Error::IdleTransactionTimeout, None));
    }
    let long = client.times.transaction_since.is_some_and(|since| past(since, limits.transaction));
    long.then(|| Due::Close(Error::TransactionTimeout, client.checkout.server()))
}

/// Sends a client the notice that it waits, with the reason.
fn tell_of_wait(core: &mut Core, key: ClientKey) {
    let why = why_it_waits(core, key);
    let Some(client) = core.clients.get_mut(key) else { return };
    client.checkout.told_to_wait = true;
    let why = why.map(|why| format!(": {why}")).unwrap_or_default();
    // PgBouncer's words, and the reason.
    let database = &client.identity.database;
    let text = format!("No server connection available in {database} backend, client being queued{why}");
    wire::backend::write_notice(client.io.out(), "NOTICE", sqlstate::SUCCESSFUL_COMPLETION, &text);
    sockets::flush_client(core, key);
}

/// Ends the wait of a client by this limit. The client gets the reason why no server could be had, and stays connected
/// if it has logged in.
fn wait_is_over(core: &mut Core, key: ClientKey, limit: &'static str) {
    let Some(why) = why_it_waits(core, key) else { return };
    leave::refuse(core, key, &Error::Waited { limit, why: Box::new(why) });
}

/// The reason why a client that waits has no server connection.
fn why_it_waits(core: &Core, key: ClientKey) -> Option<Error> {
    let client = core.clients.get(key)?;
    let pool = client.route.pool.and_then(|key| core.pools.get(key))?;
    let database = pool.name.database.to_string();
    let (failure, connecting) = (pool.connections.failure.as_ref(), pool.connections.connecting);
    let has_none = client.is_ready() && pool.connections.servers.len() == connecting;
    let limit = limits::limit_reached(core, pool).filter(|_| pool.connections.servers.len() < pool.limits.size);
    Some(if pool.limits.paused {
        Error::Paused(database)
    } else if let Some(failure) = failure.filter(|_| has_none) {
        Error::Unreachable(failure.cause.clone())
    } else if has_none && connecting > 0 {
        Error::Unreachable(Cause::connection("the server has not answered the attempt to connect yet"))
    } else if pool.is_cluster() {
        let why = welcome::why_unavailable(core, pool);
        if client.is_ready() { Error::NoServer { database, why } } else { Error::NoServerForLogin { database, why } }
    } else if !client.is_ready() {
        let full = limit.map(|limit| format!("{} leaves no room", limit.setting()));
        let met = failure.map(|failure| failure.cause.why.clone()).or(full);
        Error::NoneMade { database, met: met.map(|why| format!(": {why}")).unwrap_or_default() }
    } else if let Some(limit) = limit {
        Error::NoRoom {
            setting: limit.setting(),
            most: limits::most(core, &limit),
            database,
            user: pool.name.user.to_string(),
            servers: pool.connections.servers.len(),
            waiting: pool.queue.waiting.len() + pool.queue.sharing.len(),
        }
    } else if let Some(failure) = failure.filter(|_| pool.connections.servers.len() < pool.limits.size) {
        let (user, servers) = (pool.name.user.to_string(), pool.connections.servers.len());
        Error::NoMore { database, user, servers, cause: failure.cause.clone() }
    } else {
        Error::PoolFull {
            database,
            user: pool.name.user.to_string(),
            servers: pool.connections.servers.len(),
            pinned: pinned(core, pool),
            waiting: pool.queue.waiting.len() + pool.queue.sharing.len(),
        }
    })
}

/// How many connections of a pool are pinned to their clients, and why, for an error.
fn pinned(core: &Core, pool: &Pool) -> String {
    let holder = |key: &ServerKey| core.clients.get(core.servers.get(*key)?.holder()?);
    let clients = pool.connections.servers.iter().filter_map(holder).filter(|client| client.session.pins.any());
    let (mut count, mut reasons) = (0, BTreeMap::new());
    for client in clients {
        count += 1;
        client.session.pins.reasons().names().for_each(|name| *reasons.entry(name).or_insert(0) += 1);
    }
    let reasons: Vec<String> = reasons.iter().map(|(name, count)| format!("{name} {count}")).collect();
    if count == 0 { String::new() } else { format!(" ({count} pinned to their clients: {})", reasons.join(", ")) }
}

fn tick_servers(core: &mut Core) {
    let settings = &core.config.settings;
    let past = |since: Instant, limit: Option<Duration>| past(core.now, since, limit);
    let mut gone: Vec<(ServerKey, &str)> = Vec::new();
    let mut idle = Vec::new();
    let mut aged = Vec::new();
    let mut pinned = Vec::new();
    for (key, server) in core.servers.iter() {
        match server.state() {
            _ if server.cancels.target.is_some() && past(server.life.since, settings.cancel_wait_timeout.limit()) => {
                gone.push((key, "a cancel request took too long"));
            }
            State::Connecting | State::Login(_) if past(server.life.since, settings.server_connect_timeout.limit()) => {
                gone.push((key, "server_connect_timeout"));
            }
            State::Preparing(_)
                if server.cancels.under_way == 0
                    && past(server.life.state_since, settings.server_connect_timeout.limit()) =>
            {
                gone.push((key, "resetting the session took too long"));
            }
            State::Aligning(..) if past(server.life.state_since, settings.server_connect_timeout.limit()) => {
                gone.push((key, "applying the client's settings took too long"));
            }
            State::Active(Some(client)) => pinned.push(*client),
            // The connection would never be idle if units always followed.
            State::Pipelined(_) if server.life.retire || checks::is_old(core, server) => aged.push(key),
            State::Idle => {
                let pool = core.pools.get(server.pool);
                let spare = |pool: &Pool| {
                    pool.connections.servers.len() > pool.limits.minimum || pool.queue.clients == 0 && !pool.limits.kept
                };
                let spare = pool.is_none_or(spare);
                if checks::is_old(core, server) {
                    idle.push((key, "server_lifetime"));
                } else if spare && past(server.life.state_since, settings.server_idle_timeout.limit()) {
                    idle.push((key, "server_idle_timeout"));
                }
            }
            _ => (),
        }
    }
    for key in aged {
        if let Some(pipeline) = core.servers.get_mut(key).and_then(|server| server.pipeline_mut()) {
            pipeline.closed = true;
        }
    }
    pinned.into_iter().for_each(|client| log_pin(core, client));
    for (key, why) in gone {
        gone::server_gone(core, key, why);
    }
    // At each tick a pool closes one: a crowd that was opened together is not closed together.
    let mut done = std::collections::HashSet::new();
    for (key, why) in idle {
        let Some(pool) = core.servers.get(key).map(|server| server.pool) else { continue };
        if done.insert(pool) {
            close::close_server(core, key, why);
        }
    }
}

/// Logs once that a client is pinned to its server connection, and why, when that has lasted for some time.
fn log_pin(core: &mut Core, key: ClientKey) {
    let now = core.now;
    let Some(client) = core.clients.get_mut(key) else { return };
    let pins = &mut client.session.pins;
    if !pins.is_to_be_logged(now) {
        return;
    }
    let seconds = pins.since().map_or(0, |since| now.saturating_duration_since(since).as_secs());
    let reasons = pins.reasons();
    crate::info!(of core.name_client(key); "pinned to its server connection for {seconds} s: {reasons}");
}

fn tick_pools(core: &mut Core) {
    let mut keys: Vec<_> = core.pools.iter().map(|(key, pool)| (waiting::waits_since(core, pool), key)).collect();
    // If limits leave room for few, the client that has waited longest has it.
    keys.sort_by_key(|(since, _)| since.unwrap_or(core.now));
    for (_, key) in keys {
        if core.pools.get(key).is_some_and(|pool| !pool.queue.greeting.is_empty()) {
            welcome::take_welcome(core, key);
        }
        let Some(pool) = core.pools.get(key) else { continue };
        if !pool.is_unwanted()
            || !pool.queue.greeting.is_empty()
            || pool.connections.servers.len() < pool.limits.minimum
        {
            grow::grow(core, key);
            down::refuse_hopeless(core, key);
        }
    }
    limits::tick_limits(core);
}

fn end_period(core: &mut Core) {
    let mut sum = Totals::default();
    for (_, pool) in core.pools.iter_mut() {
        pool.counts.periods = [pool.counts.periods[1], pool.counts.totals];
        sum = sum.plus(&pool.counts.periods[1].since(&pool.counts.periods[0]));
    }
    // Each worker reports its own databases.
    if core.config.settings.log_stats && (core.id.0 == 0 || !core.pools.is_empty()) {
        let [_, transactions, queries, received, sent, transaction, query, wait, ..] =
            a_second(&sum, core.config.settings.stats_period.0);
        let reasons = NotPipelined::NAMES.iter().zip(sum.pipelining.unpipelined).filter(|(_, count)| *count > 0);
        let reasons: Vec<String> = reasons.map(|(name, count)| format!("{name} {count}")).collect();
        crate::info!(
            "stats: worker {}: {} clients, {transactions} xacts/s, {queries} queries/s, in {received} B/s, out \
             {sent} B/s, xact {transaction} us, query {query} us, wait {wait} us, {} of {} queries pipelined, \
             others: {}; asked again {}",
            core.id.0,
            core.clients.len(),
            sum.pipelining.pipelined,
            sum.queries,
            if reasons.is_empty() { "none".to_owned() } else { reasons.join(", ") },
            sum.pipelining.retried,
        );
    }
}
