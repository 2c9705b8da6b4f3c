//! What stands on the page of metrics.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use super::text::{Kind, Page};
use super::{Measured, Reason, Stats};
use crate::admin::PoolSeen;
use crate::pool::Totals;
use crate::shared::{Shared, lock};

/// A count that a pool keeps: its name, its meaning, how it is had.
type Count = (&'static str, &'static str, fn(&Totals) -> f64);

const COUNTS: &[Count] = &[
    ("transactions_total", "Transactions that have ended.", |totals| totals.transactions as f64),
    ("queries_total", "Statements that have ended.", |totals| totals.queries as f64),
    ("received_bytes_total", "Bytes that clients have sent.", |totals| totals.received as f64),
    ("sent_bytes_total", "Bytes that servers have sent.", |totals| totals.sent as f64),
    ("transaction_seconds_total", "Time spent in transactions.", |totals| totals.transaction_time.as_secs_f64()),
    ("server_assignments_total", "Times that a server connection was lent.", |totals| totals.assignments as f64),
    ("client_parses_total", "Named statements that clients have prepared.", |totals| totals.client_parses as f64),
    ("server_parses_total", "Named statements that were prepared on servers.", |totals| totals.server_parses as f64),
    ("binds_total", "Named statements that clients have bound.", |totals| totals.binds as f64),
];

/// A value of a pool at this moment.
type Level = (&'static str, &'static str, fn(&PoolSeen) -> f64);

const LEVELS: &[Level] = &[
    ("pool_size", "Server connections that the pool may have, without its reserve.", |pool| pool.size as f64),
    ("pool_reserve_size", "Server connections beyond that.", |pool| pool.reserve as f64),
    ("pool_longest_wait_seconds", "How long the first in the queue has waited.", |pool| {
        pool.longest_wait.as_secs_f64()
    }),
    ("pool_paused", "Whether the pool is paused.", |pool| f64::from(u8::from(pool.paused))),
    ("pool_failing", "Whether the last attempt to connect to a server failed.", |pool| {
        f64::from(u8::from(pool.failing))
    }),
];

/// The name of a metric.
fn name(rest: &str) -> String {
    format!("howdah_pooler_{rest}")
}

/// The whole page.
pub fn page(shared: &Shared, measured: &[Measured]) -> String {
    let mut page = Page::default();
    process(&mut page, shared);
    whole(&mut page, shared, measured);
    let pools: Vec<&(PoolSeen, Stats)> = measured.iter().flat_map(|measured| &measured.pools).collect();
    of_pools(&mut page, &pools);
    times(&mut page, &pools);
    page.finish()
}

fn whole(page: &mut Page, shared: &Shared, measured: &[Measured]) {
    let config = shared.config();
    page.metric(&name("info"), Kind::Gauge, "The version that runs; always 1.");
    page.sample(&[("version", env!("CARGO_PKG_VERSION"))], 1);
    let mut one = |rest: &str, kind, help: &str, value: f64| {
        page.metric(&name(rest), kind, help);
        page.sample(&[], value);
    };
    one("uptime_seconds", Kind::Gauge, "How long it has run.", shared.started.elapsed().as_secs_f64());
    one("workers", Kind::Gauge, "Threads that serve databases.", shared.mailboxes.len() as f64);
    one("workers_answering", Kind::Gauge, "Those that have answered for this page.", measured.len() as f64);
    one(
        "ending",
        Kind::Gauge,
        "Whether it is shutting down.",
        f64::from(u8::from(shared.ending.load(Ordering::Relaxed))),
    );
    one(
        "client_connections",
        Kind::Gauge,
        "Clients that are connected.",
        shared.clients.load(Ordering::Relaxed) as f64,
    );
    one(
        "max_client_connections",
        Kind::Gauge,
        "Clients that may be connected (max_client_conn); 0 for no limit.",
        config.settings.max_client_conn as f64,
    );
    let login: usize = measured.iter().map(|measured| measured.login_clients).sum();
    one("login_clients", Kind::Gauge, "Clients that are logging in.", login as f64);
    let reloads = lock(&shared.reloads).clone();
    one(
        "config_in_force",
        Kind::Gauge,
        "Whether the configuration that was read last is in force.",
        f64::from(u8::from(reloads.trouble.is_none())),
    );
    page.metric(&name("config_reloads_total"), Kind::Counter, "Times that the configuration was read again.");
    page.sample(&[("outcome", "good")], reloads.good);
    page.sample(&[("outcome", "failed")], reloads.failed);
    page.metric(&name("errors_total"), Kind::Counter, "Errors that the pooler itself told clients, by SQLSTATE.");
    let mut errors: BTreeMap<&str, u64> = BTreeMap::new();
    for (code, count) in measured.iter().flat_map(|measured| &measured.errors) {
        *errors.entry(code).or_default() += count;
    }
    for (code, count) in errors {
        page.sample(&[("sqlstate", code)], count);
    }
}

fn of_pools(page: &mut Page, pools: &[&(PoolSeen, Stats)]) {
    for (rest, help, value) in COUNTS {
        page.metric(&name(rest), Kind::Counter, help);
        for (pool, _) in pools {
            page.sample(&[("database", &pool.database), ("user", &pool.user)], value(&pool.totals));
        }
    }
    for (rest, help, value) in LEVELS {
        page.metric(&name(rest), Kind::Gauge, help);
        for (pool, _) in pools {
            page.sample(&[("database", &pool.database), ("user", &pool.user)], value(pool));
        }
    }
    page.metric(&name("pool_clients"), Kind::Gauge, "Clients of a pool, by what they do.");
    for (pool, _) in pools {
        for (state, count) in [("active", pool.clients_active), ("waiting", pool.clients_waiting)] {
            page.sample(&[("database", &pool.database), ("user", &pool.user), ("state", state)], count);
        }
    }
    page.metric(&name("pool_servers"), Kind::Gauge, "Server connections of a pool, by what they do.");
    for (pool, _) in pools {
        for (state, count) in [
            ("active", pool.servers_active),
            ("idle", pool.servers_idle),
            ("used", pool.servers_used),
            ("tested", pool.servers_busy),
            ("login", pool.servers_login),
        ] {
            page.sample(&[("database", &pool.database), ("user", &pool.user), ("state", state)], count);
        }
    }
    page.metric(
        &name("pipelined_total"),
        Kind::Counter,
        "Statements that shared a server connection with others in flight.",
    );
    for (pool, stats) in pools {
        page.sample(&[("database", &pool.database), ("user", &pool.user)], stats.pipelined);
    }
    page.metric(&name("not_pipelined_total"), Kind::Counter, "Statements that did not, by the reason.");
    for (pool, stats) in pools {
        for &reason in Reason::ALL {
            let labels = [("database", pool.database.as_str()), ("user", &pool.user), ("reason", reason.label())];
            page.sample(&labels, stats.not_pipelined_for(reason));
        }
    }
}

fn times(page: &mut Page, pools: &[&(PoolSeen, Stats)]) {
    for (rest, help, wait) in [
        ("query_duration_seconds", "How long statements took on a server.", false),
        ("wait_duration_seconds", "How long clients waited for a connection to a server.", true),
    ] {
        page.metric(&name(rest), Kind::Histogram, help);
        for (pool, stats) in pools {
            for server in stats.servers() {
                let place = server.name();
                let labels = [("database", pool.database.as_str()), ("user", &pool.user), ("server", &place)];
                page.times(&labels, if wait { &server.wait } else { &server.query });
            }
        }
    }
}

/// What the kernel knows of this process, under the names that Prometheus' own libraries use.
fn process(page: &mut Page, shared: &Shared) {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let started = now.saturating_sub(shared.started.elapsed()).as_secs_f64();
    page.metric("process_start_time_seconds", Kind::Gauge, "When it was started, since 1970.");
    page.sample(&[], started);
    // SAFETY: sysconf takes a number and gives one.
    let page_size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    if let Some(pages) = word_of("/proc/self/statm", 1) {
        page.metric("process_resident_memory_bytes", Kind::Gauge, "Memory that is in use.");
        page.sample(&[], pages * page_size.max(0) as f64);
    }
    let mut used = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `used` is a timespec that the call fills in.
    if unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut used) } == 0 {
        page.metric("process_cpu_seconds_total", Kind::Counter, "Processor time that was used.");
        page.sample(&[], used.tv_sec as f64 + used.tv_nsec as f64 / 1e9);
    }
    if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
        page.metric("process_open_fds", Kind::Gauge, "Open files and sockets.");
        page.sample(&[], open.count());
    }
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is an rlimit that the call fills in.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } == 0 {
        page.metric("process_max_fds", Kind::Gauge, "Open files and sockets at most.");
        page.sample(&[], limit.rlim_cur);
    }
}

fn word_of(path: &str, place: usize) -> Option<f64> {
    std::fs::read_to_string(path).ok()?.split_whitespace().nth(place)?.parse().ok()
}
