//! SHOW DATABASES: the configured databases, and those that the fallback serves.

use wire::backend::ColumnType::{Int8, Text};

use crate::admin::show::view::{Columns, Row, View, number, text};
use crate::config::{Database, Value};
use crate::sync::lock;

pub const COLUMNS: Columns = &[
    ("name", Text),
    ("host", Text),
    ("port", Int8),
    ("database", Text),
    ("force_user", Text),
    ("pool_size", Int8),
    ("min_pool_size", Int8),
    ("reserve_pool_size", Int8),
    ("server_lifetime", Int8),
    ("pool_mode", Text),
    ("load_balance_hosts", Text),
    ("max_connections", Int8),
    ("current_connections", Int8),
    ("max_client_connections", Int8),
    ("current_client_connections", Int8),
    ("paused", Int8),
    ("disabled", Int8),
];

pub fn rows(view: &View<'_>) -> Vec<Row> {
    let mut names: Vec<&str> = view.config.databases.keys().map(String::as_str).collect();
    for pool in view.pools() {
        if !names.contains(&pool.database.as_str()) {
            names.push(&pool.database);
        }
    }
    let fallback = Database::default();
    let mut rows: Vec<Row> =
        names.iter().map(|name| row(view, name, view.config.database(name).unwrap_or(&fallback))).collect();
    let port = number(view.config.settings.listen_port);
    let mut console = vec![text("pgbouncer"), None, port, text("pgbouncer"), text("pgbouncer")];
    console.extend([2, 0, 0, 0].map(number));
    console.extend([text("statement"), None]);
    console.extend([0, 0, 0, 0, 0, 0].map(number));
    rows.push(console);
    rows
}

fn row(view: &View<'_>, name: &str, entry: &Database) -> Row {
    let settings = &view.config.settings;
    let servers = view.servers().filter(|line| line.database == name);
    let clients = view.snapshots.iter().flat_map(|snapshot| &snapshot.clients).filter(|line| line.database == name);
    let paused = lock(&view.shared.orders.paused);
    vec![
        text(name),
        (!entry.hosts.is_empty()).then(|| entry.hosts.join(",")),
        number(entry.port.unwrap_or(5432)),
        text(entry.dbname.as_deref().unwrap_or(name)),
        entry.user.clone(),
        number(entry.pool_size.unwrap_or(settings.default_pool_size)),
        number(entry.min_pool_size.unwrap_or(settings.min_pool_size)),
        number(entry.reserve_pool_size.unwrap_or(settings.reserve_pool_size)),
        number(entry.server_lifetime.unwrap_or(settings.server_lifetime).0.as_secs()),
        entry.pool_mode.map(|mode| mode.show()),
        entry.shown_host_order(),
        number(view.config.database_servers(name)),
        number(servers.count()),
        number(view.config.database_clients(name)),
        number(clients.count()),
        number(u8::from(paused.contains("") || paused.contains(name))),
        number(u8::from(lock(&view.shared.orders.disabled).contains(name))),
    ]
}
