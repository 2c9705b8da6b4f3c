//! The tables of SHOW under the console's name `pgcat`, where PgCat's columns differ from PgBouncer's.

use crate::model::totals::Totals;
use wire::backend::ColumnType::{Int8, Text};

use super::Show;
use crate::admin::seen::{Part, PoolSeen, whole_pools};
use crate::admin::show::view::{Columns, Row, Table, View, number, text};
use crate::metrics::server_name;

/// The columns and rows of a view that PgCat shows in a way of its own.
pub fn of(show: Show) -> Option<Table> {
    match show {
        Show::Pools => Some((POOLS, pools)),
        Show::Clients => Some((CLIENTS, clients)),
        Show::Stats => Some((STATS, stats)),
        _ => None,
    }
}

const POOLS: Columns = &[
    ("database", Text),
    ("user", Text),
    ("pool_mode", Text),
    ("cl_idle", Int8),
    ("cl_active", Int8),
    ("cl_waiting", Int8),
    ("cl_cancel_req", Int8),
    ("sv_active", Int8),
    ("sv_idle", Int8),
    ("sv_used", Int8),
    ("sv_tested", Int8),
    ("sv_login", Int8),
    ("maxwait", Int8),
    ("maxwait_us", Int8),
];

fn pools(view: &View<'_>) -> Vec<Row> {
    let row = |pool: PoolSeen| {
        vec![
            text(&pool.database),
            text(&pool.user),
            text(pool.mode),
            number(pool.clients.idle),
            number(pool.clients.active),
            number(pool.clients.waiting),
            number(pool.servers.cancels),
            number(pool.servers.active),
            number(pool.servers.idle),
            number(pool.servers.used),
            number(pool.servers.busy),
            number(pool.servers.login),
            number(pool.clients.longest_wait.as_secs()),
            number(pool.clients.longest_wait.subsec_micros()),
        ]
    };
    whole_pools(view.pools()).into_iter().map(row).collect()
}

const CLIENTS: Columns = &[
    ("client_id", Text),
    ("database", Text),
    ("user", Text),
    ("application_name", Text),
    ("state", Text),
    ("transaction_count", Int8),
    ("query_count", Int8),
    ("error_count", Int8),
    ("age_seconds", Int8),
    ("maxwait", Int8),
    ("maxwait_us", Int8),
];

fn clients(view: &View<'_>) -> Vec<Row> {
    let clients = view.snapshots.iter().flat_map(|snapshot| &snapshot.clients);
    clients
        .filter(|client| client.state != "login")
        .map(|client| {
            vec![
                text(format!("{:#010X}", client.id)),
                text(&client.database),
                text(&client.user),
                text(&client.application_name),
                text(client.state),
                number(client.activity.transactions),
                number(client.activity.queries),
                number(client.activity.errors),
                number(client.times.age.as_secs()),
                number(client.times.wait.as_secs()),
                number(client.times.wait.subsec_micros()),
            ]
        })
        .collect()
}

const STATS: Columns = &[
    ("instance", Text),
    ("database", Text),
    ("user", Text),
    ("total_xact_count", Int8),
    ("total_query_count", Int8),
    ("total_received", Int8),
    ("total_sent", Int8),
    ("total_xact_time", Int8),
    ("total_query_time", Int8),
    ("total_wait_time", Int8),
    ("total_errors", Int8),
    ("avg_xact_count", Int8),
    ("avg_query_count", Int8),
    ("avg_recv", Int8),
    ("avg_sent", Int8),
    ("avg_errors", Int8),
    ("avg_xact_time", Int8),
    ("avg_query_time", Int8),
    ("avg_wait_time", Int8),
];

/// A row for each server of a pool: as in PgCat, the counts are those of the servers; times are in milliseconds, except
/// those of waiting, which are in microseconds.
fn stats(view: &View<'_>) -> Vec<Row> {
    let seconds = u128::from(view.config.settings.stats_period.0.as_secs().max(1));
    let pools = view.pools();
    pools
        .filter(|pool| pool.part != Part::Clients)
        .map(|pool| {
            let [xacts, queries, received, sent, errors, xact_time, query_time, wait_time] = counts(&pool.totals);
            let mut row = vec![text(instance(view, pool)), text(&pool.database), text(&pool.user)];
            row.extend([xacts, queries, received, sent, xact_time, query_time, wait_time, errors].map(number));
            row.extend(counts(&pool.period).map(|count| number(count / seconds)));
            row
        })
        .collect()
}

fn counts(totals: &Totals) -> [u128; 8] {
    [
        totals.transactions.into(),
        totals.queries.into(),
        totals.sent.into(),
        totals.received.into(),
        totals.refused.into(),
        totals.transaction_time.as_millis(),
        totals.query_time.as_millis(),
        totals.wait_time.as_micros(),
    ]
}

/// The name that PgCat gives a server: by its role in the configuration and its place among the replicas.
fn instance(view: &View<'_>, pool: &PoolSeen) -> String {
    let Part::Server(server) = &pool.part else { return format!("{}_shard_0_primary", pool.database) };
    let servers = view.config.database(&pool.database).map(|entry| entry.servers.as_slice()).unwrap_or_default();
    let mut others = servers.iter().filter(|server| server.role != balancer::Configured::Primary);
    match others.position(|other| server_name(&other.host, other.port) == *server) {
        Some(place) => format!("{}_shard_0_replica_{place}", pool.database),
        None => format!("{}_shard_0_primary", pool.database),
    }
}
