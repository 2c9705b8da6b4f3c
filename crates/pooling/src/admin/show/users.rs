//! SHOW USERS: the users of the configuration.

use std::collections::BTreeSet;

use wire::backend::ColumnType::{Int8, Text};

use crate::admin::show::view::{Columns, Row, View, number, text};
use crate::config::Value;
use crate::sync::lock;

pub const COLUMNS: Columns = &[
    ("name", Text),
    ("pool_size", Text),
    ("reserve_pool_size", Text),
    ("pool_mode", Text),
    ("max_user_connections", Int8),
    ("current_connections", Int8),
    ("max_user_client_connections", Int8),
    ("current_client_connections", Int8),
];

/// A size as PgBouncer shows it: a text, empty where the user has none of its own.
fn own(size: Option<usize>) -> Option<String> {
    Some(size.map_or_else(String::new, |size| size.to_string()))
}

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
                own(entry.and_then(|entry| entry.pool_size)),
                own(entry.and_then(|entry| entry.reserve_pool_size)),
                entry.and_then(|entry| entry.pool_mode).map(|mode| mode.show()),
                number(view.config.user_servers(name)),
                number(servers),
                number(view.config.user_clients(name)),
                number(clients),
            ]
        })
        .collect()
}
