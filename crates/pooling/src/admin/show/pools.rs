//! SHOW POOLS: a row for each pool.

use wire::backend::ColumnType::{Int8, Text};

use crate::admin::seen::whole_pools;
use crate::admin::show::view::{Columns, Row, Table, View, number, text};
use crate::config::Database;

/// PgBouncer's, and why the last attempt to connect to a server failed.
const OWN_COLUMNS: Columns = &[
    ("database", Text),
    ("user", Text),
    ("cl_active", Int8),
    ("cl_waiting", Int8),
    ("cl_active_cancel_req", Int8),
    ("cl_waiting_cancel_req", Int8),
    ("sv_active", Int8),
    ("sv_active_cancel", Int8),
    ("sv_being_canceled", Int8),
    ("sv_idle", Int8),
    ("sv_used", Int8),
    ("sv_tested", Int8),
    ("sv_login", Int8),
    ("maxwait", Int8),
    ("maxwait_us", Int8),
    ("pool_mode", Text),
    ("load_balance_hosts", Text),
    ("error", Text),
];

/// PgBouncer's.
pub const COLUMNS: Columns = OWN_COLUMNS.split_at(OWN_COLUMNS.len() - 1).0;

pub fn rows(view: &View<'_>) -> Vec<Row> {
    let mut rows = own_rows(view);
    for row in &mut rows {
        row.truncate(COLUMNS.len());
    }
    rows
}

/// The columns and rows under the console's own name.
pub fn own() -> Table {
    (OWN_COLUMNS, own_rows)
}

fn own_rows(view: &View<'_>) -> Vec<Row> {
    whole_pools(view.pools())
        .into_iter()
        .map(|pool| {
            vec![
                text(&pool.database),
                text(&pool.user),
                number(pool.clients.active + pool.clients.idle),
                number(pool.clients.waiting),
                number(pool.servers.cancels),
                number(0),
                number(pool.servers.active),
                number(pool.servers.cancels),
                number(pool.servers.cancelled),
                number(pool.servers.idle),
                number(pool.servers.used),
                number(pool.servers.busy),
                number(pool.servers.login),
                number(pool.clients.longest_wait.as_secs()),
                number(pool.clients.longest_wait.subsec_micros()),
                text(pool.mode),
                view.config.database(&pool.database).and_then(Database::shown_host_order),
                pool.failure,
            ]
        })
        .collect()
}
