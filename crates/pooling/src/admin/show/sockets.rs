//! SHOW SOCKETS: clients and servers with the bytes in their buffers; SHOW ACTIVE_SOCKETS: those with bytes in a
//! buffer.

use wire::backend::ColumnType::{Int8, Text};

use super::clients;
use crate::admin::seen::Line;
use crate::admin::show::view::{Columns, Row, View, number, text};

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

fn row(view: &View<'_>, line: &Line) -> Row {
    let mut row = clients::row(view, line);
    if let Some(state) = row.get_mut(4) {
        let state_of_pool = if line.state == "new" { "login" } else { line.state };
        *state = text(format!("{}_{state_of_pool}", if line.kind == "C" { "cl" } else { "sv" }));
    }
    let (received, unsent) = line.socket.held;
    row.extend([received, 0, 0, 0, unsent, received, unsent].map(number));
    row
}

pub fn rows(view: &View<'_>) -> Vec<Row> {
    view.lines().map(|line| row(view, line)).collect()
}

pub fn active(view: &View<'_>) -> Vec<Row> {
    view.lines().filter(|line| line.socket.held != (0, 0)).map(|line| row(view, line)).collect()
}
