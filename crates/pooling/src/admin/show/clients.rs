//! SHOW CLIENTS: a row for each client that is logged in.

use wire::backend::ColumnType::{Int8, Text};

use crate::admin::seen::Line;
use crate::admin::show::view::{Columns, Row, View, number, text, time};

pub const COLUMNS: Columns = &[
    ("type", Text),
    ("user", Text),
    ("database", Text),
    ("replication", Text),
    ("state", Text),
    ("addr", Text),
    ("port", Int8),
    ("local_addr", Text),
    ("local_port", Int8),
    ("connect_time", Text),
    ("request_time", Text),
    ("wait", Int8),
    ("wait_us", Int8),
    ("close_needed", Int8),
    ("ptr", Text),
    ("link", Text),
    ("remote_pid", Int8),
    ("tls", Text),
    ("application_name", Text),
    ("prepared_statements", Int8),
    ("id", Int8),
];

/// A client or server as a row.
pub fn row(view: &View<'_>, line: &Line) -> Row {
    vec![
        text(line.kind),
        text(&line.user),
        text(&line.database),
        text(line.replication),
        text(line.state),
        text(&line.socket.address.0),
        number(line.socket.address.1),
        text(&line.socket.local.0),
        number(line.socket.local.1),
        time(view, line.times.age),
        time(view, line.times.request_age),
        number(line.times.wait.as_secs()),
        number(line.times.wait.subsec_micros()),
        number(u8::from(line.close_needed)),
        text(format!("{}{:x}", line.kind, line.id)),
        text(line.link.map(|link| format!("{}{link:x}", if line.kind == "C" { "S" } else { "C" })).unwrap_or_default()),
        number(line.remote_pid),
        text(&line.socket.tls),
        text(&line.application_name),
        number(line.statements),
        number(line.id),
    ]
}

pub fn rows(view: &View<'_>) -> Vec<Row> {
    view.snapshots
        .iter()
        .flat_map(|snapshot| snapshot.clients.iter().filter(|line| line.state != "login").map(|line| row(view, line)))
        .collect()
}
