//! SHOW FDS: the sockets by their file descriptors. PgBouncer hands its sockets to its successor by this command; here
//! the command only lists them. Secrets (cancel keys, passwords, SCRAM keys) are left out.

use wire::backend::ColumnType::{Int8, Text};

use crate::admin::show::view::{Columns, Row, View, number, text};

pub const COLUMNS: Columns = &[
    ("fd", Int8),
    ("task", Text),
    ("user", Text),
    ("database", Text),
    ("addr", Text),
    ("port", Int8),
    ("cancel", Int8),
    ("link", Int8),
    ("client_encoding", Text),
    ("std_strings", Text),
    ("datestyle", Text),
    ("timezone", Text),
    ("password", Text),
    ("scram_client_key", Text),
    ("scram_server_key", Text),
];

pub fn rows(view: &View<'_>) -> Vec<Row> {
    let lines = view.lines();
    lines
        .map(|line| {
            let (own, other) = line.socket.descriptors;
            let mut row = vec![
                number(own),
                text(if line.kind == "C" { "client" } else { "server" }),
                text(&line.user),
                text(&line.database),
                text(&line.socket.address.0),
                number(line.socket.address.1),
                None,
                number(other.unwrap_or(0)),
            ];
            row.resize(COLUMNS.len(), None);
            row
        })
        .collect()
}
