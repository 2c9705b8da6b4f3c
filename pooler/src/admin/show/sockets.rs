//! SHOW SOCKETS and SHOW ACTIVE_SOCKETS: clients and servers with the bytes that are held for them.

use wire::backend::ColumnType::{Int8, Text};

use super::{Columns, Row, View, clients, number};
use crate::admin::snapshot::Line;

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
    ("recv_pos", Int8),
    ("pkt_pos", Int8),
    ("pkt_remain", Int8),
    ("send_pos", Int8),
    ("send_remain", Int8),
    ("pkt_avail", Int8),
    ("send_avail", Int8),
];

fn row(line: &Line) -> Row {
    let mut row = clients::row(line);
    let (received, unsent) = line.held;
    row.extend([received, 0, 0, 0, unsent, received, unsent].map(number));
    row
}

pub fn rows(view: &View<'_>) -> Vec<Row> {
    view.snapshots.iter().flat_map(|snapshot| snapshot.clients.iter().chain(&snapshot.servers).map(row)).collect()
}

pub fn active(view: &View<'_>) -> Vec<Row> {
    view.snapshots
        .iter()
        .flat_map(|snapshot| snapshot.clients.iter().chain(&snapshot.servers))
        .filter(|line| line.state != "idle")
        .map(row)
        .collect()
}
