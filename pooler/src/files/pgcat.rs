//! The supported part of `pgcat.toml`: pools, each of one shard or several, with their primaries and replicas.
//!
//! A pool of one shard is an entry for a database. One of several is an entry without servers of its own, and an entry for
//! each shard, `POOL_shard_N`.
//!
//! PgCat believes the roles in the file; this pooler asks the servers. So a `primary` gets writes while the server
//! itself says that it is one, and is preferred if two servers have equal claims; a `replica` never gets writes, as in
//! PgCat. The role `auto`, which PgCat does not have, is for a server that is to get writes after its promotion.

use std::time::Duration;

use balancer::{Configured, Setup};
use toml::{Table, Value as Toml};

use super::server_list;
use super::toml_value::text;
use pooling::config::configuration::Config;
use pooling::config::entries::Database;
use pooling::config::servers::{DefaultRole, PrimaryReads};
use pooling::config::settings::Settings;
use pooling::config::value::{AuthType, List, PoolMode, Seconds, Shutdown, SslMode, Value};
use sharding::Function;

/// Settings of PgCat's `[general]` that ask for nothing when they are left out.
const WITHOUT_EFFECT: &[&str] = &["validate_config", "dns_cache_enabled"];

/// How many prepared statements are kept, for all pools or for one.
const CACHE_SIZE: &str = "prepared_statements_cache_size";

/// The keys of a pool's user that have an effect.
const USER_KEYS: &[&str] = &[
    "username",
    "password",
    "server_username",
    "server_password",
    "pool_size",
    "min_pool_size",
    "statement_timeout",
    "pool_mode",
];

/// Keys of a pool that are read here.
const POOL_KEYS: &[&str] = &[
    "pool_mode",
    CACHE_SIZE,
    "load_balancing_mode",
    "default_role",
    "query_parser_enabled",
    "query_parser_read_write_splitting",
    "primary_reads_enabled",
    "auth_query",
    "auth_query_user",
    "auth_query_password",
    "shards",
    "users",
];

/// Keys of a pool that are read here and say how the shards of statements are found; of a pool with one shard they ask for
/// nothing.
const SHARD_KEYS: &[&str] = &[
    "sharding_function",
    "default_shard",
    AUTOMATIC_KEY,
    "shard_id_regex",
    "sharding_key_regex",
    "regex_search_limit",
];

/// The key by which statements are sent to a shard.
const AUTOMATIC_KEY: &str = "automatic_sharding_key";

/// Where a `pgcat.toml` starts from: PgCat's defaults.
pub fn defaults() -> Settings {
    let mut settings = Settings {
        listen_addr: List(vec!["0.0.0.0".to_owned()]),
        listen_port: 5432,
        unix_socket_dir: String::new(),
        max_client_conn: 0,
        pool_mode: PoolMode::Transaction,
        auth_type: AuthType::Md5,
        query_wait_timeout: Seconds::whole(1),
        queue_while_down: false,
        server_login_retry: Seconds::whole(1),
        server_round_robin: true,
        tcp_keepidle: 5,
        tcp_keepcnt: 5,
        tcp_keepintvl: 5,
        tcp_user_timeout: 10_000,
        // PgCat ends at once by it, which loses what is under way; nobody can count on that.
        sigterm: Shutdown::WaitForServers,
        shutdown_timeout: Seconds::whole(60),
        log_connections: false,
        log_disconnections: false,
        primary_reads: PrimaryReads::Off,
        read_write_splitting: false,
        default_role: DefaultRole::Any,
        ban_time: Seconds::whole(60),
        healthcheck_timeout: Seconds::whole(1),
        ..Settings::default()
    };
    tls(&mut settings, &Table::new());
    settings
}

/// Reads a parsed `pgcat.toml`.
pub fn read(table: &Table) -> Result<Config, String> {
    let mut config = Config { settings: defaults(), ..Config::default() };
    for (key, value) in section(table, "general")? {
        general(&mut config, key, value)?;
    }
    let general = section(table, "general")?;
    tls(&mut config.settings, general);
    if general.get("enable_prometheus_exporter").and_then(Toml::as_bool) == Some(true) {
        config.settings.metrics_addr = config.settings.listen_addr.show();
        config.settings.metrics_port = 9930;
        if let Some(port) = general.get("prometheus_exporter_port") {
            put(&mut config.settings.metrics_port, "prometheus_exporter_port", port)?;
        }
    }
    kept_statements(&mut config.settings, general, section(table, "pools")?)?;
    for (name, password) in [("admin_username", "admin_password"), ("auth_query_user", "auth_query_password")] {
        if let (Some(name), Some(password)) = (general.get(name), general.get(password)) {
            config.passwords.insert(text(name), text(password));
        }
    }
    for (name, pool) in section(table, "pools")? {
        let Toml::Table(pool) = pool else { return Err(format!("pools.{name} is not a section")) };
        let asker = ["auth_query_user", "auth_query_password"].map(|key| pool.get(key).or_else(|| general.get(key)));
        if let [Some(user), Some(password)] = asker.map(|value| value.map(text)) {
            add_password(&mut config, user, password)?;
        }
        self::pool(&mut config, name, pool)?;
    }
    for other in table.keys().filter(|key| !["general", "pools"].contains(&key.as_str())) {
        config.remarks.push(format!("[{other}] is not supported and has no effect"));
    }
    Ok(config)
}

fn section<'a>(table: &'a Table, name: &str) -> Result<&'a Table, String> {
    match table.get(name) {
        Some(Toml::Table(section)) => Ok(section),
        _ => Err(format!("there is no section [{name}]")),
    }
}

/// The text of an `auth_query`. PgCat puts the user's name between quotes in place of `$1`, which is a parameter here.
fn auth_query(value: &Toml) -> String {
    text(value).replace("'$1'", "$1")
}

fn add_password(config: &mut Config, user: String, password: String) -> Result<(), String> {
    match config.passwords.get(&user).filter(|known| **known != password) {
        Some(_) => Err(format!("the user {user} has different passwords in different pools: not supported")),
        None => {
            config.passwords.insert(user, password);
            Ok(())
        }
    }
}

fn milliseconds(value: &Toml, key: &str) -> Result<Seconds, String> {
    let count = value.as_integer().and_then(|count| u64::try_from(count).ok());
    count
        .map(|count| Seconds::at_most_ages(Duration::from_millis(count)))
        .ok_or_else(|| format!("{key} = {value}: expected milliseconds"))
}

fn general(config: &mut Config, key: &str, value: &Toml) -> Result<(), String> {
    let settings = &mut config.settings;
    match key {
        "host" => settings.listen_addr = List::read(&text(value))?,
        "connect_timeout" => settings.query_wait_timeout = milliseconds(value, key)?,
        "idle_timeout" => settings.server_idle_timeout = milliseconds(value, key)?,
        "server_lifetime" => settings.server_lifetime = milliseconds(value, key)?,
        "idle_client_in_transaction_timeout" => settings.idle_transaction_timeout = milliseconds(value, key)?,
        "healthcheck_delay" => settings.server_check_delay = milliseconds(value, key)?,
        "dns_max_ttl" => return put(&mut settings.dns_max_ttl, key, value),
        "autoreload" => settings.autoreload = milliseconds(value, key)?,
        "healthcheck_timeout" => settings.healthcheck_timeout = milliseconds(value, key)?,
        "ban_time" => return put(&mut settings.ban_time, key, value),
        "shutdown_timeout" => settings.shutdown_timeout = milliseconds(value, key)?,
        "admin_username" => settings.admin_users = List(vec![text(value)]),
        // Put together with the names of their users in `read`.
        "admin_password" | "auth_query_password" | "enable_prometheus_exporter" | "prometheus_exporter_port" => (),
        "server_round_robin" => settings.server_round_robin = value.as_bool().unwrap_or(true),
        "log_client_connections" => settings.log_connections = value.as_bool().unwrap_or(false),
        "log_client_disconnections" => settings.log_disconnections = value.as_bool().unwrap_or(false),
        // Put together with those of the pools in `kept_statements`.
        CACHE_SIZE => (),
        "port" => return put(&mut settings.listen_port, key, value),
        "worker_threads" => return put(&mut settings.workers, key, value),
        "tcp_keepalives_idle" => return put(&mut settings.tcp_keepidle, key, value),
        "tcp_keepalives_count" => return put(&mut settings.tcp_keepcnt, key, value),
        "tcp_keepalives_interval" => return put(&mut settings.tcp_keepintvl, key, value),
        "tcp_user_timeout" => return put(&mut settings.tcp_user_timeout, key, value),
        "auth_query" => settings.auth_query = auth_query(value),
        "auth_query_user" => settings.auth_user = text(value),
        "tls_certificate" => settings.client_tls_cert_file = text(value),
        "tls_private_key" => settings.client_tls_key_file = text(value),
        // Put together in `tls`.
        "server_tls" | "verify_server_certificate" => (),
        _ if WITHOUT_EFFECT.contains(&key) => (),
        _ => config.remarks.push(format!("[general] {key} is not supported and has no effect")),
    }
    Ok(())
}

/// How many prepared statements are kept on a server connection: the most that is said anywhere. With none, PgCat passes
/// statements on under the names that clients give them, to be found by the next client; here they are kept apart.
fn kept_statements(settings: &mut Settings, general: &Table, pools: &Table) -> Result<(), String> {
    let mut most = 0;
    for value in
        std::iter::once(general.get(CACHE_SIZE)).chain(pools.values().map(|pool| pool.get(CACHE_SIZE))).flatten()
    {
        let mut size = 0;
        put(&mut size, CACHE_SIZE, value)?;
        most = most.max(size);
    }
    if most > 0 {
        settings.max_prepared_statements = most;
    }
    Ok(())
}

/// PgCat speaks TLS with clients that ask for it once it has a certificate. With servers it prefers TLS when told to,
/// and verifies in full, by the authorities that all the world trusts, when told that too.
fn tls(settings: &mut Settings, general: &Table) {
    let is = |key: &str| general.get(key).and_then(Toml::as_bool) == Some(true);
    if !settings.client_tls_cert_file.is_empty() {
        settings.client_tls_sslmode = SslMode::Prefer;
    }
    settings.server_tls_sslmode = match (is("server_tls"), is("verify_server_certificate")) {
        (false, _) => SslMode::Disable,
        (true, false) => SslMode::Prefer,
        (true, true) => {
            settings.server_tls_ca_file = "system".to_owned();
            SslMode::VerifyFull
        }
    };
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
    if let Some(lifetime) = pool.get("server_lifetime") {
        database.server_lifetime = Some(milliseconds(lifetime, "server_lifetime")?);
    }
    database.auth_query = pool.get("auth_query").map(auth_query);
    database.auth_user = pool.get("auth_query_user").map(text);
    let flag = |key: &str| pool.get(key).and_then(Toml::as_bool).unwrap_or(false);
    database.read_write_splitting = Some(flag("query_parser_enabled") && flag("query_parser_read_write_splitting"));
    database.primary_reads = Some(if flag("primary_reads_enabled") { PrimaryReads::On } else { PrimaryReads::Off });
    for (key, outcome) in [
        (
            "load_balancing_mode",
            pool.get("load_balancing_mode").and_then(|mode| database.set("load_balancing", &text(mode))),
        ),
        ("default_role", pool.get("default_role").and_then(|role| database.set("default_role", &text(role)))),
    ] {
        if let Some(Err(expected)) = outcome {
            return Err(format!("pools.{name}.{key}: expected {expected}"));
        }
    }
    let known = |key: &&String| POOL_KEYS.contains(&key.as_str()) || SHARD_KEYS.contains(&key.as_str());
    for key in pool.keys().filter(|key| !known(key)) {
        config.remarks.push(format!("pools.{name}: {key} is not supported and has no effect"));
    }
    let shards = match pool.get("shards") {
        Some(Toml::Table(shards)) => shards,
        _ => return Err(format!("pools.{name} has no shards")),
    };
    users(config, &mut database, name, pool)?;
    if shards.len() > 1 {
        return several(config, database, (name, pool), shards);
    }
    let Some(shard) = shards.values().next() else { return Err(format!("pools.{name} has no shards")) };
    place(config, &mut database, name, shard)?;
    if database.servers.len() == 1 {
        // With a single server there is nothing to find out and nothing to choose.
        database.servers.clear();
    }
    config.databases.insert(name.to_owned(), database);
    Ok(())
}

/// Adds the entries of a pool of several shards, which are numbered from 0 on. Those of its shards are like `database`.
fn several(
    config: &mut Config,
    database: Database,
    (name, pool): (&str, &Table),
    shards: &Table,
) -> Result<(), String> {
    let mut whole = Database { sharding_function: Some(Function::default()), ..database.clone() };
    for key in SHARD_KEYS {
        let Some(value) = pool.get(*key) else { continue };
        if let Some(Err(expected)) = whole.set(key, &text(value)) {
            return Err(format!("pools.{name}.{key} = {value}: expected {expected}"));
        }
    }
    if whole.read_write_splitting != Some(true) && whole.automatic_sharding_key.take().is_some() {
        config.remarks.push(format!(
            "pools.{name}: {AUTOMATIC_KEY} has no effect without query_parser_enabled and query_parser_read_write_splitting"
        ));
    }
    for number in 0..shards.len() {
        let Some(shard) = shards.get(&number.to_string()) else {
            return Err(format!("pools.{name} has {} shards and none of the number {number}", shards.len()));
        };
        let mut database = database.clone();
        place(config, &mut database, name, shard)?;
        if let [only] = database.servers.as_slice() {
            match only.role {
                Configured::Replica => database.servers.clear(),
                // It stays a cluster, so that SET SERVER ROLE is known.
                _ => database.primary_reads = Some(PrimaryReads::On),
            }
        }
        let entry = format!("{name}_shard_{number}");
        for user in config.users.values_mut() {
            let size = user.pool_sizes.get(name).copied();
            user.pool_sizes.extend(size.map(|size| (entry.clone(), size)));
        }
        whole.shards.push(entry.clone());
        if config.databases.insert(entry.clone(), database).is_some() {
            return Err(format!("pools.{name}: the name {entry} is that of a pool, and of a shard"));
        }
    }
    match config.databases.insert(name.to_owned(), whole) {
        Some(_) => Err(format!("pools.{name}: this name is that of a shard of another pool")),
        None => Ok(()),
    }
}

/// Reads where a shard is.
fn place(config: &mut Config, database: &mut Database, name: &str, shard: &Toml) -> Result<(), String> {
    let Toml::Table(shard) = shard else { return Err(format!("pools.{name}: a shard is a section")) };
    for key in shard.keys().filter(|key| !["database", "servers"].contains(&key.as_str())) {
        config.remarks.push(format!("pools.{name}.shards: {key} is not supported and has no effect"));
    }
    database.dbname = shard.get("database").map(text);
    database.servers = servers_of(shard, name)?;
    if database.servers.is_empty() {
        return Err(format!("pools.{name} has no servers"));
    }
    put_together(database);
    server_list::settle(database, &format!("pools.{name}"))
}

/// The servers of a shard.
fn servers_of(shard: &Table, name: &str) -> Result<Vec<Setup>, String> {
    let mut found = Vec::new();
    for server in shard.get("servers").and_then(Toml::as_array).into_iter().flatten() {
        let parts: Vec<String> = server.as_array().into_iter().flatten().map(text).collect();
        let [host, port, role] = parts.as_slice() else {
            return Err(format!("pools.{name}: a server is [host, port, role], not {server}"));
        };
        let role = match Configured::read(role) {
            Ok(role) => role,
            Err(_) => return Err(format!("pools.{name}: {role} is not a role: expected primary, replica or auto")),
        };
        let port = port.parse().map_err(|_| format!("pools.{name}: {port} is not a port"))?;
        found.push(Setup { host: host.clone(), port, role, weight: 1 });
    }
    Ok(found)
}

/// Makes one of a server that is listed as the primary and as a replica, as PgCat's own example has it: it is the
/// primary, and is read from too.
fn put_together(database: &mut Database) {
    let same = |one: &Setup, other: &Setup| one.host == other.host && one.port == other.port;
    let primaries: Vec<Setup> =
        database.servers.iter().filter(|server| server.role == Configured::Primary).cloned().collect();
    let before = database.servers.len();
    database
        .servers
        .retain(|server| server.role == Configured::Primary || !primaries.iter().any(|primary| same(primary, server)));
    if database.servers.len() < before {
        database.primary_reads = Some(PrimaryReads::On);
    }
}

/// The limit of a user's statements; 0 is none.
fn statement_timeout(user: &Toml) -> Result<Option<Seconds>, String> {
    let limit = user.get("statement_timeout").map(|limit| milliseconds(limit, "statement_timeout")).transpose()?;
    Ok(limit.filter(|limit| !limit.0.is_zero()))
}

/// The name of an account on the servers, and its password.
type Account = (String, Option<String>);

/// Reads the users of a pool.
fn users(config: &mut Config, database: &mut Database, name: &str, pool: &Table) -> Result<(), String> {
    let mut accounts: Vec<Account> = Vec::new();
    let mut is_given = false;
    let mut sizes = 0;
    for (number, user) in pool.get("users").and_then(Toml::as_table).into_iter().flatten() {
        let get = |key: &str| user.get(key).map(text);
        let place = |key: &str| format!("pools.{name}.users.{number}.{key}");
        let user_name = get("username").ok_or_else(|| format!("pools.{name}.users.{number} has no username"))?;
        if let Some(password) = get("password") {
            add_password(config, user_name.clone(), password)?;
        }
        database.admits.get_or_insert_default().push(user_name.clone());
        let without_effect = |key: &&String| !USER_KEYS.contains(&key.as_str());
        let keys = user.as_table().into_iter().flat_map(Table::keys).filter(without_effect);
        config.remarks.extend(keys.map(|key| format!("{} is not supported and has no effect", place(key))));
        let is_known = config.users.contains_key(&user_name);
        let entry = config.users.entry(user_name.clone()).or_default();
        let size = |key: &str| match get(key).map(|size| usize::read(&size)) {
            Some(Ok(size)) => Ok(Some(size)),
            Some(Err(expected)) => Err(format!("{}: expected {expected}", place(key))),
            None => Ok(None),
        };
        if let Some(size) = size("pool_size")? {
            entry.pool_sizes.insert(name.to_owned(), size);
            sizes += size;
        }
        database.min_pool_size = database.min_pool_size.max(size("min_pool_size")?);
        let limit = statement_timeout(user)?;
        if is_known && entry.query_timeout != limit {
            return Err(format!(
                "the user {user_name} has different statement_timeouts in different pools: not supported"
            ));
        }
        entry.query_timeout = limit;
        if let Some(mode) = get("pool_mode") {
            let mode =
                PoolMode::read(&mode).map_err(|expected| format!("{}: expected {expected}", place("pool_mode")))?;
            if entry.pool_mode.is_some_and(|other| other != mode) {
                return Err(format!("the user {user_name} has different modes in different pools: not supported"));
            }
            entry.pool_mode = Some(mode);
        }
        is_given |= user.get("server_username").or(user.get("server_password")).is_some();
        let account = (get("server_username").unwrap_or(user_name), get("server_password").or_else(|| get("password")));
        if !accounts.contains(&account) {
            accounts.push(account);
        }
    }
    if is_given {
        shared_account(config, database, name, (&accounts, sizes))?;
    }
    Ok(())
}

/// The account by which all users of a pool come to the servers.
fn shared_account(
    config: &mut Config,
    database: &mut Database,
    name: &str,
    (accounts, sizes): (&[Account], usize),
) -> Result<(), String> {
    match accounts {
        // They share the connections, and so the room that each was given.
        [(account, password)] => {
            database.user = Some(account.clone());
            database.password.clone_from(password);
            config.users.entry(account.clone()).or_default().pool_sizes.insert(name.to_owned(), sizes);
        }
        _ => {
            return Err(format!(
                "pools.{name}: its users have different accounts on the servers (server_username, server_password), \
                 which is not supported: give each a pool of its own"
            ));
        }
    }
    Ok(())
}
