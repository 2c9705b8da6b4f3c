//! SHOW USERS: the users of the configuration.

use std::collections::{BTreeSet, HashMap};

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
    let clients = lock(&view.shared.counts.by_user);
    let servers = lock(&view.shared.counts.servers);
    let servers: HashMap<&str, usize> = servers.by_user().collect();
    let configured = view.config.passwords.keys().chain(view.config.users.keys());
    let names = configured.chain(clients.keys()).map(String::as_str).chain(servers.keys().copied());
    let names: BTreeSet<&str> = names.collect();
    names
        .into_iter()
        .map(|name| {
            let entry = view.config.users.get(name);
            vec![
                text(name),
                own(entry.and_then(|entry| entry.pool_size)),
                own(entry.and_then(|entry| entry.reserve_pool_size)),
                entry.and_then(|entry| entry.pool_mode).map(|mode| mode.show()),
                number(view.config.user_servers(name)),
                number(servers.get(name).copied().unwrap_or_default()),
                number(view.config.user_clients(name)),
                number(clients.get(name).copied().unwrap_or_default()),
            ]
        })
        .collect()
}
