//! SHOW FDS: in PgBouncer a help of online restarts, which are not supported: connections without their descriptors.

use wire::backend::ColumnType::{Int8, Text};

use super::{Columns, Row, View, number, text};

pub const COLUMNS: Columns = &[
    ("fd", Int8),
    ("task", Text),
    ("user", Text),
    ("database", Text),
    ("addr", Text),
    ("port", Int8),
    ("cancel", Int8),
    ("link", Int8),
];

pub fn rows(view: &View<'_>) -> Vec<Row> {
    let lines = view.snapshots.iter().flat_map(|snapshot| snapshot.clients.iter().chain(&snapshot.servers));
    lines
        .map(|line| {
            vec![
                None,
                text(if line.kind == "C" { "client" } else { "server" }),
                text(&line.user),
                text(&line.database),
                text(&line.address.0),
                number(line.address.1),
                None,
                line.link.map(|link| link.to_string()),
            ]
        })
        .collect()
}
