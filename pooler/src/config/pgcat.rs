//! `pgcat.toml`, for what of it is supported: pools of one shard, its primary and its replicas.
//!
//! Roles in it are what PgCat believed; here servers are asked. So its `primary` is the one preferred where two have
//! equal claims, and its `replica` is whatever it says it is: when it is promoted, writes follow it.

use std::time::Duration;

use balancer::{Configured, Setup};
use toml::{Table, Value as Toml};

use super::toml_file::text;
use super::{AuthType, Config, Database, DefaultRole, Field, List, PoolMode, PrimaryReads, Seconds, Value, servers};

/// Settings of PgCat's `[general]` that ask for nothing when they are left out.
const WITHOUT_EFFECT: &[&str] =
    &["validate_config", "dns_cache_enabled", "dns_max_ttl", "autoreload", "tcp_user_timeout"];

/// Keys of a pool that are read here.
const POOL_KEYS: &[&str] = &[
    "pool_mode",
    "prepared_statements_cache_size",
    "load_balancing_mode",
    "default_role",
    "query_parser_enabled",
    "query_parser_read_write_splitting",
    "primary_reads_enabled",
    "shards",
    "users",
];

/// Reads a parsed `pgcat.toml`.
pub fn read(table: &Table) -> Result<Config, String> {
    let mut config = Config::default();
    let settings = &mut config.settings;
    settings.listen_addr = List(vec!["0.0.0.0".to_owned()]);
    settings.listen_port = 5432;
    settings.unix_socket_dir = String::new();
    settings.max_client_conn = 0;
    settings.pool_mode = PoolMode::Transaction;
    settings.auth_type = AuthType::Md5;
    settings.query_wait_timeout = Seconds::whole(1);
    settings.max_prepared_statements = 0;
    settings.primary_reads = PrimaryReads::Off;
    settings.read_write_splitting = false;
    settings.default_role = DefaultRole::Any;
    settings.ban_time = Seconds::whole(60);
    settings.healthcheck_timeout = Seconds::whole(1);
    for (key, value) in section(table, "general")? {
        general(&mut config, key, value)?;
    }
    let general = section(table, "general")?;
    for (name, password) in [("admin_username", "admin_password"), ("auth_query_user", "auth_query_password")] {
        if let (Some(name), Some(password)) = (general.get(name), general.get(password)) {
            config.passwords.insert(text(name), text(password));
        }
    }
    for (name, pool) in section(table, "pools")? {
        let Toml::Table(pool) = pool else { return Err(format!("pools.{name} is not a section")) };
        self::pool(&mut config, name, pool)?;
    }
    for other in table.keys().filter(|key| !["general", "pools"].contains(&key.as_str())) {
        config.remarks.push(format!("[{other}] is not supported and does nothing"));
    }
    Ok(config)
}

fn section<'a>(table: &'a Table, name: &str) -> Result<&'a Table, String> {
    match table.get(name) {
        Some(Toml::Table(section)) => Ok(section),
        _ => Err(format!("there is no section [{name}]")),
    }
}

fn milliseconds(value: &Toml, key: &str) -> Result<Seconds, String> {
    let count = value.as_integer().and_then(|count| u64::try_from(count).ok());
    count
        .map(|count| Seconds(Duration::from_millis(count)))
        .ok_or_else(|| format!("{key} = {value}: expected milliseconds"))
}

fn general(config: &mut Config, key: &str, value: &Toml) -> Result<(), String> {
    let settings = &mut config.settings;
    match key {
        "host" => settings.listen_addr = List(vec![text(value)]),
        "connect_timeout" => settings.query_wait_timeout = milliseconds(value, key)?,
        "idle_timeout" => settings.server_idle_timeout = milliseconds(value, key)?,
        "server_lifetime" => settings.server_lifetime = milliseconds(value, key)?,
        "idle_client_in_transaction_timeout" => settings.idle_transaction_timeout = milliseconds(value, key)?,
        "healthcheck_timeout" => settings.healthcheck_timeout = milliseconds(value, key)?,
        "ban_time" => return put(&mut settings.ban_time, key, value),
        "healthcheck_delay" => config.remarks.push(
            "[general] healthcheck_delay does nothing: the servers of a pool are asked every healthcheck_interval"
                .to_owned(),
        ),
        "shutdown_timeout" => settings.shutdown_timeout = milliseconds(value, key)?,
        "admin_username" => settings.admin_users = List(vec![text(value)]),
        // Put together with the names of their users in `read`.
        "admin_password" | "auth_query_password" => (),
        "server_round_robin" => settings.server_round_robin = value.as_bool().unwrap_or(true),
        "log_client_connections" => settings.log_connections = value.as_bool().unwrap_or(false),
        "log_client_disconnections" => settings.log_disconnections = value.as_bool().unwrap_or(false),
        "prepared_statements_cache_size" => return put(&mut settings.max_prepared_statements, key, value),
        "port" => return put(&mut settings.listen_port, key, value),
        "worker_threads" => return put(&mut settings.workers, key, value),
        "tcp_keepalives_idle" => return put(&mut settings.tcp_keepidle, key, value),
        "tcp_keepalives_count" => return put(&mut settings.tcp_keepcnt, key, value),
        "tcp_keepalives_interval" => return put(&mut settings.tcp_keepintvl, key, value),
        "auth_query" => settings.auth_query = text(value),
        "auth_query_user" => settings.auth_user = text(value),
        "tls_certificate" | "tls_private_key" => {
            return Err(format!("{key}: TLS is not supported yet; leave it out to go on without"));
        }
        "server_tls" if value.as_bool() == Some(true) => {
            return Err("server_tls = true: TLS is not supported yet".to_owned());
        }
        _ if WITHOUT_EFFECT.contains(&key) => (),
        _ => config.remarks.push(format!("[general] {key} is not supported and does nothing")),
    }
    Ok(())
}

fn put<T: Value>(place: &mut T, key: &str, value: &Toml) -> Result<(), String> {
    *place = T::read(&text(value)).map_err(|expected| format!("{key} = {value}: expected {expected}"))?;
    Ok(())
}

fn pool(config: &mut Config, name: &str, pool: &Table) -> Result<(), String> {
    let mut database = Database::default();
    if let Some(mode) = pool.get("pool_mode") {
        database.pool_mode = Some(
            PoolMode::read(&text(mode)).map_err(|expected| format!("pools.{name}.pool_mode: expected {expected}"))?,
        );
    }
    if let Some(size) = pool.get("prepared_statements_cache_size") {
        put(&mut config.settings.max_prepared_statements, "prepared_statements_cache_size", size)?;
    }
    let flag = |key: &str| pool.get(key).and_then(Toml::as_bool).unwrap_or(false);
    database.read_write_splitting = Some(flag("query_parser_enabled") && flag("query_parser_read_write_splitting"));
    database.primary_reads = Some(if flag("primary_reads_enabled") { PrimaryReads::On } else { PrimaryReads::Off });
    for (key, outcome) in [
        ("load_balancing_mode", pool.get("load_balancing_mode").map(|mode| database.load_balancing.give(&text(mode)))),
        ("default_role", pool.get("default_role").map(|role| database.default_role.give(&text(role)))),
    ] {
        if let Some(Err(expected)) = outcome {
            return Err(format!("pools.{name}.{key}: expected {expected}"));
        }
    }
    for key in pool.keys().filter(|key| !POOL_KEYS.contains(&key.as_str())) {
        config.remarks.push(format!("pools.{name}: {key} is not supported and does nothing"));
    }
    let shards = match pool.get("shards") {
        Some(Toml::Table(shards)) => shards,
        _ => return Err(format!("pools.{name} has no shards")),
    };
    if shards.len() > 1 {
        return Err(format!("pools.{name} has {} shards: sharding is not supported yet; one shard is", shards.len()));
    }
    let Some(Toml::Table(shard)) = shards.values().next() else {
        return Err(format!("pools.{name} has no shards"));
    };
    database.dbname = shard.get("database").map(text);
    for server in shard.get("servers").and_then(Toml::as_array).into_iter().flatten() {
        let parts: Vec<String> = server.as_array().into_iter().flatten().map(text).collect();
        let [host, port, role] = parts.as_slice() else {
            return Err(format!("pools.{name}: a server is [host, port, role], not {server}"));
        };
        let role = match Configured::read(role) {
            Ok(Configured::Primary) => Configured::Primary,
            Ok(_) => Configured::Auto,
            Err(_) => return Err(format!("pools.{name}: {role} is not a role: expected primary or replica")),
        };
        let port = port.parse().map_err(|_| format!("pools.{name}: {port} is not a port"))?;
        database.servers.push(Setup { host: host.clone(), port, role, weight: 1 });
    }
    if database.servers.is_empty() {
        return Err(format!("pools.{name} has no servers"));
    }
    servers::settle(&mut database, &format!("pools.{name}"))?;
    if database.servers.len() == 1 {
        // With a single server there is nothing to find out and nothing to choose.
        database.servers.clear();
    }
    for (number, user) in pool.get("users").and_then(Toml::as_table).into_iter().flatten() {
        let get = |key: &str| user.get(key).map(text);
        let user_name = get("username").ok_or_else(|| format!("pools.{name}.users.{number} has no username"))?;
        if let Some(password) = get("password") {
            let known = config.passwords.insert(user_name.clone(), password.clone());
            if known.is_some_and(|known| known != password) {
                return Err(format!("the user {user_name} has different passwords in different pools: not supported"));
            }
        }
        let entry = config.users.entry(user_name.clone()).or_default();
        if let Some(size) = get("pool_size") {
            let size = size.parse().map_err(|_| format!("pools.{name}.users.{number}: {size} is not a pool size"))?;
            entry.pool_sizes.insert(name.to_owned(), size);
        }
        if let Some(server_user) = get("server_username")
            && server_user != user_name
        {
            database.user = Some(server_user);
            database.password = get("server_password");
        }
    }
    config.databases.insert(name.to_owned(), database);
    Ok(())
}
