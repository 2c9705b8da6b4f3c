//! SHOW DNS_HOSTS: the names of servers that were looked up, and for how many seconds more they are not looked up again.

use wire::backend::ColumnType::{Int8, Text};

use crate::admin::show::view::{Columns, Row, View, number, text};

pub const COLUMNS: Columns = &[("hostname", Text), ("ttl", Int8), ("addrs", Text)];

pub fn rows(view: &View<'_>) -> Vec<Row> {
    let known = view.shared.resolver.known(view.now).into_iter();
    known
        .map(|host| {
            let addresses: Vec<String> = host.addresses.iter().map(ToString::to_string).collect();
            vec![text(host.name), number(host.left.as_secs()), text(addresses.join(","))]
        })
        .collect()
}
