//! What the pooler is told: settings, databases and users, from `howdah.toml`, `pgbouncer.ini` or `pgcat.toml`.

mod ini;
mod nearest;
mod pgcat;
pub mod servers;
mod settings;
mod toml_file;
mod userlist;
mod value;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use balancer::{Setup, Strategy};

pub use nearest::nearest;
pub use servers::{DefaultRole, PrimaryReads, Routing};
pub use settings::{Settings, Shown};
pub use value::{AuthType, List, PoolMode, Seconds, Value};

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file says something that is not understood.
    #[error("{path}: {message}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What, where and what was expected.
        message: String,
    },
}

/// One entry of `[databases]`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Database {
    /// Addresses or names of servers, tried in turn; empty or starting with `/`: a Unix socket's folder.
    pub hosts: Vec<String>,
    /// The port; 5432 when not said.
    pub port: Option<u16>,
    /// The database's name on the server; the entry's when not said.
    pub dbname: Option<String>,
    /// The user for all server connections, instead of the client's.
    pub user: Option<String>,
    /// The password for the server.
    pub password: Option<String>,
    /// Who runs `auth_query` here.
    pub auth_user: Option<String>,
    /// `default_pool_size` here.
    pub pool_size: Option<usize>,
    /// `min_pool_size` here.
    pub min_pool_size: Option<usize>,
    /// `reserve_pool_size` here.
    pub reserve_pool_size: Option<usize>,
    /// `pool_mode` here.
    pub pool_mode: Option<PoolMode>,
    /// `max_db_connections` here.
    pub max_db_connections: Option<usize>,
    /// `client_encoding` on server connections.
    pub client_encoding: Option<String>,
    /// `DateStyle` on server connections.
    pub datestyle: Option<String>,
    /// `TimeZone` on server connections.
    pub timezone: Option<String>,
    /// What is run on each fresh server connection.
    pub connect_query: Option<String>,
    /// Whether the entry is the one for all names that have none (`*`).
    pub wildcard: bool,
    /// A primary and its replicas, which are watched and found out; empty where `hosts` says it all.
    pub servers: Vec<Setup>,
    /// `load_balancing` here.
    pub load_balancing: Option<Strategy>,
    /// `primary_reads` here.
    pub primary_reads: Option<PrimaryReads>,
    /// `read_write_splitting` here.
    pub read_write_splitting: Option<bool>,
    /// `default_role` here.
    pub default_role: Option<DefaultRole>,
    /// `max_replica_lag_bytes` here.
    pub max_replica_lag_bytes: Option<usize>,
    /// `max_replica_lag` here.
    pub max_replica_lag: Option<Seconds>,
    /// `ban_time` here.
    pub ban_time: Option<Seconds>,
    /// `healthcheck_interval` here.
    pub healthcheck_interval: Option<Seconds>,
    /// `healthcheck_timeout` here.
    pub healthcheck_timeout: Option<Seconds>,
    /// `monitor_user` here.
    pub monitor_user: Option<String>,
}

/// One entry of `[users]`.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct User {
    /// `pool_mode` for this user.
    pub pool_mode: Option<PoolMode>,
    /// `default_pool_size` for this user.
    pub pool_size: Option<usize>,
    /// `max_user_connections` for this user.
    pub max_user_connections: Option<usize>,
    /// Pool sizes by database, where a file gives them for each pair.
    pub pool_sizes: BTreeMap<String, usize>,
}

/// A whole configuration.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    /// The file it was read from.
    pub path: PathBuf,
    /// The settings of the whole pooler.
    pub settings: Settings,
    /// The databases by the name that clients ask for.
    pub databases: BTreeMap<String, Database>,
    /// What is used for a database that has no entry.
    pub fallback: Option<Database>,
    /// Settings by user.
    pub users: BTreeMap<String, User>,
    /// Passwords by user, as they are stored: plain, MD5 or a SCRAM secret.
    pub passwords: HashMap<String, String>,
    /// What was read but will not be done, to be told once.
    pub remarks: Vec<String>,
}

impl Config {
    /// Reads a file: `pgbouncer.ini` by its ending `.ini`; among `.toml` files, `pgcat.toml` by its `[pools]`.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        let complain = |message| Error::Content { path: path.to_owned(), message };
        let mut config = if path.extension().is_some_and(|ending| ending == "toml") {
            let interpolated = toml_file::interpolate(&text, |name| std::env::var(name).ok()).map_err(complain)?;
            let table: toml::Table =
                interpolated.parse().map_err(|error: toml::de::Error| complain(error.to_string()))?;
            if table.contains_key("pools") { pgcat::read(&table) } else { toml_file::read(&table) }
        } else {
            ini::read(&text, path)
        }
        .map_err(complain)?;
        config.path = path.to_owned();
        config.read_passwords()?;
        config.check().map_err(complain)?;
        Ok(config)
    }

    fn read_passwords(&mut self) -> Result<(), Error> {
        if self.settings.auth_file.is_empty() {
            return Ok(());
        }
        let path = PathBuf::from(&self.settings.auth_file);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(source) => return Err(Error::Read { path, source }),
        };
        let read = userlist::read(&text).map_err(|message| Error::Content { path, message })?;
        self.passwords.extend(read);
        Ok(())
    }

    fn check(&mut self) -> Result<(), String> {
        let settings = &self.settings;
        if settings.client_tls_sslmode != "disable" {
            return Err(format!(
                "client_tls_sslmode = {}: TLS is not supported yet; only disable is",
                settings.client_tls_sslmode
            ));
        }
        match settings.server_tls_sslmode.as_str() {
            "disable" | "allow" | "prefer" => (),
            other => {
                return Err(format!(
                    "server_tls_sslmode = {other}: TLS is not supported yet; disable, allow and prefer connect without"
                ));
            }
        }
        if settings.listen_addr.0.is_empty() && settings.unix_socket_dir.is_empty() {
            return Err("neither listen_addr nor unix_socket_dir is set: nobody could connect".to_owned());
        }
        if self.databases.is_empty() && self.fallback.is_none() {
            self.remarks.push("no database is configured: only the console can be used".to_owned());
        }
        Ok(())
    }

    /// The entry for a database that a client asks for.
    pub fn database(&self, name: &str) -> Option<&Database> {
        self.databases.get(name).or(self.fallback.as_ref())
    }

    /// The size of the pool of this database and user.
    pub fn pool_size(&self, database: &str, user: &str) -> usize {
        let entry = self.users.get(user);
        entry
            .and_then(|entry| entry.pool_sizes.get(database).copied().or(entry.pool_size))
            .or_else(|| self.database(database).and_then(|database| database.pool_size))
            .unwrap_or(self.settings.default_pool_size)
    }

    /// The mode of the pool of this database and user.
    pub fn pool_mode(&self, database: &str, user: &str) -> PoolMode {
        self.users
            .get(user)
            .and_then(|entry| entry.pool_mode)
            .or_else(|| self.database(database).and_then(|database| database.pool_mode))
            .unwrap_or(self.settings.pool_mode)
    }
}

/// A field that a file may give.
trait Field {
    fn give(&mut self, text: &str) -> Result<(), &'static str>;
}

impl<T: Value> Field for Option<T> {
    fn give(&mut self, text: &str) -> Result<(), &'static str> {
        *self = Some(T::read(text)?);
        Ok(())
    }
}

impl Field for Vec<String> {
    fn give(&mut self, text: &str) -> Result<(), &'static str> {
        *self = List::read(text)?.0;
        Ok(())
    }
}

macro_rules! keys {
    ($set:ident, $names:ident, $type:ty: $($key:literal $field:ident,)+) => {
        /// Gives one field of an entry; `None` for a name that is not one.
        fn $set(entry: &mut $type, name: &str, value: &str) -> Option<Result<(), &'static str>> {
            match name {
                $($key => Some(entry.$field.give(value)),)+
                _ => None,
            }
        }

        /// The names of its fields.
        const $names: &[&str] = &[$($key,)+];
    };
}

keys! { set_database, DATABASE_KEYS, Database:
    "host" hosts,
    "port" port,
    "dbname" dbname,
    "user" user,
    "password" password,
    "auth_user" auth_user,
    "pool_size" pool_size,
    "min_pool_size" min_pool_size,
    "reserve_pool" reserve_pool_size,
    "reserve_pool_size" reserve_pool_size,
    "pool_mode" pool_mode,
    "max_db_connections" max_db_connections,
    "client_encoding" client_encoding,
    "datestyle" datestyle,
    "timezone" timezone,
    "connect_query" connect_query,
    "load_balancing" load_balancing,
    "primary_reads" primary_reads,
    "read_write_splitting" read_write_splitting,
    "default_role" default_role,
    "max_replica_lag_bytes" max_replica_lag_bytes,
    "max_replica_lag" max_replica_lag,
    "ban_time" ban_time,
    "healthcheck_interval" healthcheck_interval,
    "healthcheck_timeout" healthcheck_timeout,
    "monitor_user" monitor_user,
}

keys! { set_user, USER_KEYS, User:
    "pool_mode" pool_mode,
    "pool_size" pool_size,
    "max_user_connections" max_user_connections,
}

#[cfg(test)]
mod tests;
