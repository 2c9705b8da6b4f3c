//! SHOW PEERS and SHOW PEER_POOLS: always empty, since poolers do not know each other.

use wire::backend::ColumnType::{Int8, Text};

use crate::admin::show::view::{Columns, Row, View};

pub const COLUMNS: Columns = &[("peer_id", Int8), ("host", Text), ("port", Int8), ("pool_size", Int8)];

pub const POOLS_COLUMNS: Columns = &[
    ("peer_id", Int8),
    ("cl_active_cancel_req", Int8),
    ("cl_waiting_cancel_req", Int8),
    ("sv_active_cancel", Int8),
    ("sv_login", Int8),
];

pub fn rows(_: &View<'_>) -> Vec<Row> {
    Vec::new()
}
