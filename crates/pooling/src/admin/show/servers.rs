//! SHOW SERVERS: a row for each server connection.

use super::clients;
use crate::admin::show::view::{Columns, Row, View};

pub const COLUMNS: Columns = clients::COLUMNS;

pub fn rows(view: &View<'_>) -> Vec<Row> {
    view.snapshots.iter().flat_map(|snapshot| snapshot.servers.iter().map(|line| clients::row(view, line))).collect()
}
