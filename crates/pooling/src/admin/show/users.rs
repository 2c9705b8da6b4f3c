//! SHOW USERS: the users of the configuration.

use std::collections::BTreeSet;

use wire::backend::ColumnType::{Int8, Text};

use crate::admin::show::view::{Columns, Row, View, number, text};
use crate::config::Value;
use crate::sync::lock;

pub const COLUMNS: Columns = &[
    ("name", Text),
    ("pool_size", Int8),
    ("reserve_pool_size", Int8),
    ("pool_mode", Text),
    ("max_user_connections", Int8),
    ("current_connections", Int8),
    ("max_user_client_connections", Int8),
    ("current_client_connections", Int8),
];

pub fn rows(view: &View<'_>) -> Vec<Row> {
    let counts = lock(&view.shared.counts.by_user);
    let names: BTreeSet<&String> =
        view.config.passwords.keys().chain(view.config.users.keys()).chain(counts.keys()).collect();
    names
        .into_iter()
        .map(|name| {
            let entry = view.config.users.get(name);
            let (servers, clients) = counts.get(name).copied().unwrap_or_default();
            vec![
                text(name),
                entry.and_then(|entry| entry.pool_size).map(|size| size.to_string()),
                entry.and_then(|entry| entry.reserve_pool_size).map(|size| size.to_string()),
                entry.and_then(|entry| entry.pool_mode).map(|mode| mode.show()),
                number(view.config.user_servers(name)),
                number(servers),
                number(view.config.user_clients(name)),
                number(clients),
            ]
        })
        .collect()
}
