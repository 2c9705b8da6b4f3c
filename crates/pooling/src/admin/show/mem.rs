//! SHOW MEM: the memory of clients and of server connections without their buffers, and the bytes in the buffers.

use wire::backend::ColumnType::{Int8, Text};

use crate::admin::show::view::{Columns, Row, View, number, text};

pub const COLUMNS: Columns = &[("name", Text), ("size", Int8), ("used", Int8), ("free", Int8), ("memtotal", Int8)];

pub fn rows(view: &View<'_>) -> Vec<Row> {
    let clients: usize = view.snapshots.iter().map(|snapshot| snapshot.clients.len()).sum();
    let servers: usize = view.snapshots.iter().map(|snapshot| snapshot.servers.len()).sum();
    let lines = view.lines();
    let held: usize = lines.map(|line| line.socket.held.0 + line.socket.held.1).sum();
    let row = |name: &str, size: usize, used: usize| {
        vec![text(name), number(size), number(used), number(0), number(size * used)]
    };
    vec![
        row("client_cache", std::mem::size_of::<crate::state::client::Client>(), clients),
        row("server_cache", std::mem::size_of::<crate::state::server::Server>(), servers),
        row("bytes_in_flight", 1, held),
    ]
}
