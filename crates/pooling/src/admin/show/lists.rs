//! SHOW LISTS: the numbers of databases, users, pools, clients and servers.

use wire::backend::ColumnType::{Int8, Text};

use crate::admin::seen::pool_parts;
use crate::admin::show::view::{Columns, Row, View, number, text};

pub const COLUMNS: Columns = &[("list", Text), ("items", Int8)];

pub fn rows(view: &View<'_>) -> Vec<Row> {
    let sum = |count: &dyn Fn(&crate::admin::seen::Snapshot) -> usize| view.snapshots.iter().map(count).sum::<usize>();
    let used_servers =
        |snapshot: &crate::admin::seen::Snapshot| snapshot.servers.iter().filter(|line| line.state != "idle").count();
    let names = view.shared.resolver.known(view.now);
    let lists = [
        ("databases", view.config.databases.len()),
        ("users", view.config.passwords.len()),
        ("peers", 0),
        ("pools", pool_parts(view.pools()).len()),
        ("peer_pools", 0),
        ("free_clients", 0),
        ("used_clients", sum(&|snapshot| snapshot.clients.len() - snapshot.login_clients)),
        ("login_clients", sum(&|snapshot| snapshot.login_clients)),
        ("free_servers", sum(&|snapshot| snapshot.servers.len() - used_servers(snapshot))),
        ("used_servers", sum(&used_servers)),
        ("dns_names", names.len()),
        ("dns_zones", 0),
        ("dns_queries", 0),
        ("dns_pending", names.iter().filter(|name| name.pending).count()),
    ];
    lists.into_iter().map(|(name, items)| vec![text(name), number(items)]).collect()
}
