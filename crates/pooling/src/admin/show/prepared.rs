//! SHOW PREPARED: named statements that the clients of each pool share, and how often servers prepared them.

use wire::backend::ColumnType::{Int8, Text};

use crate::admin::seen::whole_pools;
use crate::admin::show::view::{Columns, Row, View, number, text};

pub const COLUMNS: Columns = &[
    ("database", Text),
    ("user", Text),
    ("statements", Int8),
    ("client_parse_count", Int8),
    ("server_parse_count", Int8),
    ("bind_count", Int8),
];

pub fn rows(view: &View<'_>) -> Vec<Row> {
    whole_pools(view.pools())
        .into_iter()
        .map(|pool| {
            vec![
                text(&pool.database),
                text(&pool.user),
                number(pool.statements.len()),
                number(pool.totals.prepared.client_parses),
                number(pool.totals.prepared.server_parses),
                number(pool.totals.prepared.binds),
            ]
        })
        .collect()
}
