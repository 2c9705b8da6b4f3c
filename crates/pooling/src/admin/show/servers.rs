//! SHOW SERVERS: a row for each server connection.

use super::clients;
use crate::admin::seen::Line;
use crate::admin::show::view::{Columns, Row, Table, View};

pub const COLUMNS: Columns = clients::COLUMNS;

pub fn rows(view: &View<'_>) -> Vec<Row> {
    seen(view).map(|line| clients::row(view, line)).collect()
}

/// The columns and rows under the console's own name.
pub fn own() -> Table {
    (clients::OWN_COLUMNS, |view| seen(view).map(|line| clients::own_row(view, line)).collect())
}

fn seen<'a>(view: &View<'a>) -> impl Iterator<Item = &'a Line> {
    view.snapshots.iter().flat_map(|snapshot| &snapshot.servers)
}
