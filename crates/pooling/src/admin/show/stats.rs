//! SHOW STATS, STATS_TOTALS and STATS_AVERAGES: counts by database, since the start and per second of the last period.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::model::totals::Totals;
use wire::backend::ColumnType::{Int8, Text};

use crate::admin::show::view::{Columns, Row, View, number, text};

pub const COLUMNS: Columns = &[
    ("database", Text),
    ("total_server_assignment_count", Int8),
    ("total_xact_count", Int8),
    ("total_query_count", Int8),
    ("total_received", Int8),
    ("total_sent", Int8),
    ("total_xact_time", Int8),
    ("total_query_time", Int8),
    ("total_wait_time", Int8),
    ("total_client_parse_count", Int8),
    ("total_server_parse_count", Int8),
    ("total_bind_count", Int8),
    ("avg_server_assignment_count", Int8),
    ("avg_xact_count", Int8),
    ("avg_query_count", Int8),
    ("avg_recv", Int8),
    ("avg_sent", Int8),
    ("avg_xact_time", Int8),
    ("avg_query_time", Int8),
    ("avg_wait_time", Int8),
    ("avg_client_parse_count", Int8),
    ("avg_server_parse_count", Int8),
    ("avg_bind_count", Int8),
];

pub const PLAIN_COLUMNS: Columns = &[
    ("database", Text),
    ("server_assignment_count", Int8),
    ("xact_count", Int8),
    ("query_count", Int8),
    ("bytes_received", Int8),
    ("bytes_sent", Int8),
    ("xact_time", Int8),
    ("query_time", Int8),
    ("wait_time", Int8),
    ("client_parse_count", Int8),
    ("server_parse_count", Int8),
    ("bind_count", Int8),
];

/// Totals and the last period's counts, by database.
pub fn by_database(view: &View<'_>) -> BTreeMap<String, (Totals, Totals)> {
    let mut sums: BTreeMap<String, (Totals, Totals)> = BTreeMap::new();
    for pool in view.pools() {
        let entry = sums.entry(pool.database.clone()).or_default();
        *entry = (entry.0.plus(&pool.totals), entry.1.plus(&pool.period));
    }
    sums
}

/// The counts; times in microseconds.
pub fn counts(totals: &Totals) -> [u128; 11] {
    [
        totals.assignments.into(),
        totals.transactions.into(),
        totals.queries.into(),
        totals.received.into(),
        totals.sent.into(),
        totals.transaction_time.as_micros(),
        totals.query_time.as_micros(),
        totals.wait_time.as_micros(),
        totals.prepared.client_parses.into(),
        totals.prepared.server_parses.into(),
        totals.prepared.binds.into(),
    ]
}

/// The counts a second; times for each transaction, query and assignment.
pub fn a_second(totals: &Totals, period: Duration) -> [u128; 11] {
    let seconds = u128::from(period.as_secs().max(1));
    let mut averages = counts(totals).map(|count| count / seconds);
    averages[5] = totals.transaction_time.as_micros() / u128::from(totals.transactions.max(1));
    averages[6] = totals.query_time.as_micros() / u128::from(totals.queries.max(1));
    averages[7] = totals.wait_time.as_micros() / u128::from(totals.assignments.max(1));
    averages
}

pub fn rows(view: &View<'_>) -> Vec<Row> {
    let period = view.config.settings.stats_period.0;
    let rows = by_database(view).into_iter();
    rows.map(|(database, (totals, last))| {
        let mut row = vec![text(database)];
        row.extend(counts(&totals).map(number));
        row.extend(a_second(&last, period).map(number));
        row
    })
    .collect()
}

pub fn totals(view: &View<'_>) -> Vec<Row> {
    let rows = by_database(view).into_iter();
    rows.map(|(database, (totals, _))| [vec![text(database)], counts(&totals).map(number).to_vec()].concat()).collect()
}

pub fn averages(view: &View<'_>) -> Vec<Row> {
    let period = view.config.settings.stats_period.0;
    let rows = by_database(view).into_iter();
    rows.map(|(database, (_, last))| [vec![text(database)], a_second(&last, period).map(number).to_vec()].concat())
        .collect()
}
