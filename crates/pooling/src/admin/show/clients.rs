//! SHOW CLIENTS and SHOW SERVERS: a row for each client that is logged in, or for each server connection.

use wire::backend::ColumnType::{Int8, Text};

use crate::admin::seen::Line;
use crate::admin::show::view::{Columns, Row, Table, View, number, text, time};

/// PgBouncer's, and why and since when a client keeps its server connection.
pub const OWN_COLUMNS: Columns = &[
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
    ("pinned", Text),
    ("pinned_since", Text),
];

/// PgBouncer's.
pub const COLUMNS: Columns = OWN_COLUMNS.split_at(OWN_COLUMNS.len() - 2).0;

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

/// A client or server as a row under the console's own name.
pub fn own_row(view: &View<'_>, line: &Line) -> Row {
    let mut row = row(view, line);
    row.push(line.pinned.map(|(reasons, _)| reasons.to_string()));
    row.push(line.pinned.and_then(|(_, age)| time(view, age)));
    row
}

/// The columns and rows of clients under the console's own name.
pub fn own() -> Table {
    (OWN_COLUMNS, |view| seen(view).map(|line| own_row(view, line)).collect())
}

pub fn rows(view: &View<'_>) -> Vec<Row> {
    seen(view).map(|line| row(view, line)).collect()
}

fn seen<'a>(view: &View<'a>) -> impl Iterator<Item = &'a Line> {
    view.snapshots.iter().flat_map(|snapshot| snapshot.clients.iter().filter(|line| line.state != "login"))
}

/// The columns and rows of server connections under the console's own name.
pub fn own_servers() -> Table {
    (OWN_COLUMNS, |view| view.servers().map(|line| own_row(view, line)).collect())
}

pub fn servers(view: &View<'_>) -> Vec<Row> {
    view.servers().map(|line| row(view, line)).collect()
}
