//! The contents of the page of metrics.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Instant;

use balancer::Moment;
use pooling::model::fingerprint::NotPipelined;
use pooling::model::totals::Totals;
use rustix::param::page_size;
use rustix::process::{Resource, getrlimit};
use rustix::time::{ClockId, clock_gettime};

use super::text::{Kind, Page};
use pooling::admin::measured::Measured;
use pooling::admin::seen::{Part, PoolSeen, pool_parts};
use pooling::error::Blame;
use pooling::metrics::Times;
use pooling::metrics::shapes::{Shape, whole_shapes};
use pooling::monitor::{Board, ServerSeen};
use pooling::shared::Shared;
use pooling::sync::lock;

/// A count that a pool keeps: its name, its meaning, how it is had.
type Count = (&'static str, &'static str, fn(&Totals) -> f64);

const COUNTS: &[Count] = &[
    ("transactions_total", "Transactions that have ended.", |totals| totals.transactions as f64),
    ("queries_total", "Statements that have ended.", |totals| totals.queries as f64),
    ("received_bytes_total", "Bytes that clients have sent.", |totals| totals.received as f64),
    ("sent_bytes_total", "Bytes that servers have sent.", |totals| totals.sent as f64),
    ("transaction_seconds_total", "Time spent in transactions.", |totals| totals.transaction_time.as_secs_f64()),
    ("server_assignments_total", "Number of times that a server connection was assigned to a client.", |totals| {
        totals.assignments as f64
    }),
    ("client_parses_total", "Named statements that clients have prepared.", |totals| {
        totals.prepared.client_parses as f64
    }),
    ("server_parses_total", "Named statements that were prepared on servers.", |totals| {
        totals.prepared.server_parses as f64
    }),
    ("asked_again_total", "Pipelined statements that were repeated on another server connection.", |totals| {
        totals.pipelining.retried as f64
    }),
    (
        "reads_awaiting_replay_total",
        "Reads that waited until a replica had replayed the commits that they must see.",
        |totals| totals.reads.awaited_replay as f64,
    ),
    (
        "reads_on_primary_total",
        "Reads that went to the primary, since no replica had replayed the commits that they must see.",
        |totals| totals.reads.on_primary as f64,
    ),
    ("refused_total", "Statements that the pooler refused and sent to no server.", |totals| totals.refused as f64),
    ("binds_total", "Named statements that clients have bound.", |totals| totals.prepared.binds as f64),
    (
        "pipelined_statements_total",
        "Statements that were pipelined with those of other clients on a server connection.",
        |totals| totals.pipelining.pipelined as f64,
    ),
];

const UNPIPELINED: &str = "Statements of pools with pipelining that were not pipelined, by the reason.";

/// A value of a pool at this moment, of which parts of pools it is told.
type Level = (&'static str, &'static str, fn(&Part) -> bool, fn(&PoolSeen) -> f64);

const LEVELS: &[Level] = &[
    ("pool_size", "Server connections that the pool may have, without its reserve.", has_servers, |pool| {
        pool.size as f64
    }),
    (
        "pool_reserve_size",
        "Server connections that the pool may have beyond its size (reserve_pool_size).",
        has_servers,
        |pool| pool.reserve as f64,
    ),
    (
        "pool_longest_wait_seconds",
        "Longest time that a client of the pool has been waiting for a server connection.",
        has_clients,
        |pool| pool.clients.longest_wait.as_secs_f64(),
    ),
    ("pool_paused", "Whether the pool is paused.", has_clients, |pool| f64::from(u8::from(pool.paused))),
    ("pool_failing", "Whether the last attempt to connect to a server failed.", has_servers, |pool| {
        f64::from(u8::from(pool.failure.is_some()))
    }),
];

/// Whether server connections are made in it.
fn has_servers(part: &Part) -> bool {
    *part != Part::Clients
}

/// Whether clients belong to it.
fn has_clients(part: &Part) -> bool {
    !matches!(part, Part::Server(_))
}

/// The name of a metric.
fn name(rest: &str) -> String {
    format!("howdah_pooler_{rest}")
}

/// The whole page.
pub fn page(shared: &Shared, measured: &[Measured]) -> String {
    let mut page = Page::default();
    process(&mut page, shared);
    whole(&mut page, shared, measured);
    // What several workers hold of one is added up: no series may stand here twice.
    let pools = pool_parts(measured.iter().flat_map(|measured| &measured.pools).map(|(pool, _)| pool));
    of_pools(&mut page, &pools);
    of_servers(&mut page, &shared.board);
    times(&mut page, measured);
    shapes(&mut page, measured);
    page.finish()
}

fn whole(page: &mut Page, shared: &Shared, measured: &[Measured]) {
    let config = shared.config();
    page.metric(&name("info"), Kind::Gauge, "Always 1; the label version has the pooler's version.");
    page.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    let mut one = |rest: &str, kind, help: &str, value: f64| {
        page.metric(&name(rest), kind, help);
        page.sample(&[], value);
    };
    one("uptime_seconds", Kind::Gauge, "Time since the pooler was started.", shared.started.elapsed().as_secs_f64());
    one("workers", Kind::Gauge, "Worker threads of the pooler.", shared.mailboxes.len() as f64);
    one(
        "workers_answering",
        Kind::Gauge,
        "Worker threads that have answered the request for this page.",
        measured.len() as f64,
    );
    one(
        "ending",
        Kind::Gauge,
        "Whether the pooler is shutting down.",
        f64::from(u8::from(shared.orders.ending.load(Ordering::Relaxed))),
    );
    one(
        "client_connections",
        Kind::Gauge,
        "Clients that are logged in, except clients of the console.",
        shared.counts.clients.load(Ordering::Relaxed) as f64,
    );
    one(
        "max_client_connections",
        Kind::Gauge,
        "Clients that may be logged in (max_client_conn); 0 for no limit.",
        config.settings.max_client_conn as f64,
    );
    let login: usize = measured.iter().map(|measured| measured.login_clients).sum();
    one("login_clients", Kind::Gauge, "Clients that are logging in.", login as f64);
    let reloads = lock(&shared.orders.reloads).clone();
    one(
        "config_in_force",
        Kind::Gauge,
        "Whether the configuration that was read last is in force.",
        f64::from(u8::from(reloads.trouble.is_none())),
    );
    page.metric(&name("config_reloads_total"), Kind::Counter, "Times that the configuration was read again.");
    page.sample(&[("outcome", "good")], reloads.good);
    page.sample(&[("outcome", "failed")], reloads.failed);
    page.metric(
        &name("errors_total"),
        Kind::Counter,
        "Errors that the pooler itself sent to clients, by SQLSTATE and blame.",
    );
    let mut errors: BTreeMap<(&str, Blame), u64> = BTreeMap::new();
    for ((code, blame), count) in measured.iter().flat_map(|measured| &measured.errors) {
        *errors.entry((code, *blame)).or_default() += count;
    }
    for ((code, blame), count) in errors {
        page.sample(&[("sqlstate", code), ("blame", blame.word())], count);
    }
    of_routes(page, measured);
}

/// The statements of databases with shards.
fn of_routes(page: &mut Page, measured: &[Measured]) {
    page.metric(
        &name("shard_statements_total"),
        Kind::Counter,
        "Statements and transactions of databases with shards, by where they went and the rule or reason.",
    );
    let mut routes: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
    for ((database, route, rule), count) in measured.iter().flat_map(|measured| &measured.routes) {
        *routes.entry((database, route, rule)).or_default() += count;
    }
    for ((database, route, rule), count) in routes {
        page.sample(&[("database", database), ("route", route), ("rule", rule)], count);
    }
}

/// What tells a pool apart, and one more label.
fn labels<'a>(pool: &'a PoolSeen, more: Option<(&'static str, &'a str)>) -> Vec<(&'static str, &'a str)> {
    let mut labels = vec![("database", pool.database.as_str()), ("user", pool.user.as_str())];
    if let Part::Server(server) = &pool.part {
        labels.push(("server", server));
    }
    labels.extend(more);
    labels
}

fn of_pools(page: &mut Page, pools: &[PoolSeen]) {
    for (rest, help, value) in COUNTS {
        page.metric(&name(rest), Kind::Counter, help);
        for pool in pools {
            page.sample(&labels(pool, None), value(&pool.totals));
        }
    }
    for (rest, help, is_told, value) in LEVELS {
        page.metric(&name(rest), Kind::Gauge, help);
        for pool in pools.iter().filter(|pool| is_told(&pool.part)) {
            page.sample(&labels(pool, None), value(pool));
        }
    }
    page.metric(&name("pool_clients"), Kind::Gauge, "Clients of a pool, by state.");
    for pool in pools.iter().filter(|pool| has_clients(&pool.part)) {
        for (state, count) in
            [("active", pool.clients.active), ("idle", pool.clients.idle), ("waiting", pool.clients.waiting)]
        {
            page.sample(&labels(pool, Some(("state", state))), count);
        }
    }
    page.metric(&name("pool_servers"), Kind::Gauge, "Server connections of a pool, by state.");
    for pool in pools.iter().filter(|pool| has_servers(&pool.part)) {
        for (state, count) in [
            ("active", pool.servers.active),
            ("idle", pool.servers.idle),
            ("used", pool.servers.used),
            ("tested", pool.servers.busy),
            ("login", pool.servers.login),
        ] {
            page.sample(&labels(pool, Some(("state", state))), count);
        }
    }
    page.metric(&name("unpipelined_statements_total"), Kind::Counter, UNPIPELINED);
    for pool in pools {
        for (reason, count) in NotPipelined::NAMES.iter().zip(pool.totals.pipelining.unpipelined) {
            page.sample(&labels(pool, Some(("reason", reason))), count);
        }
    }
}

/// A value of one of several servers of a database, if it has it.
type OfServer = (&'static str, &'static str, fn(&ServerSeen, Moment) -> Option<f64>);

const OF_SERVERS: &[OfServer] = &[
    ("server_up", "Whether the server answered its last health check.", |server, _| {
        Some(f64::from(u8::from(server.error.is_none() && server.report.last.is_some())))
    }),
    ("server_banned", "Whether the server gets no reads because of a ban (ban_time, BAN).", |server, _| {
        Some(f64::from(u8::from(server.report.ban.is_some())))
    }),
    ("server_answer_age_seconds", "Time since the server last answered a health check.", |server, now| {
        server.report.last.map(|last| now.since(last.at) as f64 / 1000.0)
    }),
    ("replica_lag_bytes", "Bytes of the primary's log that the replica has not replayed.", |server, _| {
        server.report.lag.map(|lag| lag.bytes as f64)
    }),
    ("replica_lag_seconds", "Time by which the replica's data is behind the primary's.", |server, _| {
        server.report.lag.map(|lag| lag.millis as f64 / 1000.0)
    }),
];

/// The servers of databases that have several, as the monitor has found them.
fn of_servers(page: &mut Page, board: &Board) {
    let (servers, now) = (board.servers(), board.moment(Instant::now()));
    let names: Vec<String> =
        servers.iter().map(|server| format!("{}:{}", server.report.setup.host, server.report.setup.port)).collect();
    let named = || servers.iter().zip(&names);
    page.metric(
        &name("server_role"),
        Kind::Gauge,
        "Always 1; the label role has the state of the server at the last health check.",
    );
    for (server, name) in named() {
        let role = server.report.standing.word();
        page.sample(&[("database", &server.database), ("server", name), ("role", role)], 1);
    }
    for (rest, help, value) in OF_SERVERS {
        page.metric(&name(rest), Kind::Gauge, help);
        for (server, name) in named() {
            if let Some(value) = value(server, now) {
                page.sample(&[("database", &server.database), ("server", name)], value);
            }
        }
    }
}

/// How long statements took and waited: by server, whichever part of the pool has counted it.
fn times(page: &mut Page, measured: &[Measured]) {
    let mut found: BTreeMap<(&str, &str, String), (Times, Times)> = BTreeMap::new();
    for (pool, stats) in measured.iter().flat_map(|measured| &measured.pools) {
        for server in stats.servers() {
            let (query, wait) = found.entry((&pool.database, &pool.user, server.name())).or_default();
            query.add(&server.query);
            wait.add(&server.wait);
        }
    }
    page.metric(&name("query_duration_seconds"), Kind::Histogram, "How long statements took on a server.");
    for ((database, user, server), (query, _)) in &found {
        page.times(&[("database", database), ("user", user), ("server", server)], query);
    }
    let help = "How long clients waited for a connection to a server.";
    page.metric(&name("wait_duration_seconds"), Kind::Histogram, help);
    for ((database, user, server), (_, wait)) in &found {
        page.times(&[("database", database), ("user", user), ("server", server)], wait);
    }
}

/// A count of a shape: its name, its meaning, how it is had.
type OfShape = (&'static str, &'static str, fn(&Shape) -> f64);

const OF_SHAPES: &[OfShape] = &[
    ("shape_calls_total", "Statements of a shape that have ended.", |shape| shape.calls as f64),
    ("shape_seconds_total", "How long statements of a shape took.", |shape| shape.total.as_secs_f64()),
    ("shape_rows_total", "Rows that statements of a shape have returned or changed.", |shape| shape.rows as f64),
    ("shape_errors_total", "Statements of a shape that failed.", |shape| shape.failed as f64),
];

/// The most shapes on the page.
const SHAPES: usize = 20;

/// The most characters of a shape's text on the page.
const SHOWN: usize = 80;

/// The counts of the shapes that took most time.
fn shapes(page: &mut Page, measured: &[Measured]) {
    let mut shapes = whole_shapes(measured.iter().flat_map(|measured| &measured.shapes));
    shapes.truncate(SHAPES);
    let named = |shape: &Shape| {
        let text = shape.text.as_ref().map_or("", |text| &text.text);
        (format!("{:016x}", shape.id()), text.chars().take(SHOWN).collect::<String>())
    };
    let names: Vec<(String, String)> = shapes.iter().map(named).collect();
    for (rest, help, value) in OF_SHAPES {
        page.metric(&name(rest), Kind::Counter, help);
        for (shape, (id, query)) in shapes.iter().zip(&names) {
            let labels = [("database", &*shape.database), ("user", &shape.user), ("fingerprint", id), ("query", query)];
            page.sample(&labels, value(shape));
        }
    }
}

/// What the kernel knows of this process, under the names that Prometheus' own libraries use.
fn process(page: &mut Page, shared: &Shared) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let started = now.saturating_sub(shared.started.elapsed()).as_secs_f64();
    page.metric("process_start_time_seconds", Kind::Gauge, "Start time of the process, in seconds since 1970.");
    page.sample(&[], started);
    if let Some(pages) = word_of("/proc/self/statm", 1) {
        page.metric("process_resident_memory_bytes", Kind::Gauge, "Resident memory of the process.");
        page.sample(&[], pages * page_size() as f64);
    }
    let used = clock_gettime(ClockId::ProcessCPUTime);
    page.metric("process_cpu_seconds_total", Kind::Counter, "Processor time that the process has used.");
    page.sample(&[], used.tv_sec as f64 + used.tv_nsec as f64 / 1e9);
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        page.metric("process_open_fds", Kind::Gauge, "Open files and sockets of the process.");
        page.sample(&[], open.count());
    }
    page.metric("process_max_fds", Kind::Gauge, "Open files and sockets that the process may have.");
    page.sample(&[], getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX));
}

fn word_of(path: &str, place: usize) -> Option<f64> {
    std::fs::read_to_string(path).ok()?.split_whitespace().nth(place)?.parse().ok()
}
