//! What the pooler is told: settings, databases and users, from `howdah.toml`, `pgbouncer.ini` or `pgcat.toml`.

mod ini;
mod nearest;
mod pgcat;
mod settings;
mod toml_file;
pub(crate) mod userlist;
mod value;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::hba::Hba;
use crate::tls::Contexts;

pub use nearest::nearest;
pub use settings::{Settings, Shown};
pub use value::{AuthType, ChannelBinding, List, PoolMode, Seconds, SslMode, Value};

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
    /// What the settings mean for TLS.
    pub tls: Contexts,
    /// The HBA file, where one is asked for.
    pub hba: Arc<Hba>,
}

impl Config {
    /// Reads a file: `pgbouncer.ini` by its ending `.ini`; among `.toml` files, `pgcat.toml` by its `[pools]`.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        let complain = |message| Error::Content { path: path.to_owned(), message };
        let mut config = Self::parse(path, &text).map_err(complain)?;
        config.path = path.to_owned();
        config.read_passwords()?;
        config.check().map_err(complain)?;
        config.prepare().map_err(complain)?;
        Ok(config)
    }

    /// Reads the text of a file, and what that includes.
    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self, String> {
        if path.extension().is_none_or(|ending| ending != "toml") {
            return ini::read(text, path);
        }
        let text = toml_file::interpolate(text, |name| std::env::var(name).ok())?;
        let table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
        if table.contains_key("pools") { pgcat::read(&table) } else { toml_file::read(&table) }
    }

    /// Reads the files that settings name, for TLS and who may come in; again after a setting was changed.
    pub fn prepare(&mut self) -> Result<(), String> {
        let settings = &self.settings;
        if settings.auth_type == AuthType::Cert && !settings.client_tls_sslmode.verifies() {
            return Err("auth_type = cert: client_tls_sslmode must be verify-ca or verify-full".to_owned());
        }
        self.tls = Contexts::read(settings, &mut self.remarks)?;
        self.hba = match settings.auth_type {
            AuthType::Hba => {
                let path = &settings.auth_hba_file;
                let text = std::fs::read_to_string(path)
                    .map_err(|error| format!("auth_hba_file: cannot read {path}: {error}"))?;
                Arc::new(Hba::read(&text).map_err(|error| format!("auth_hba_file: {path}: {error}"))?)
            }
            _ => Arc::default(),
        };
        Ok(())
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

/// Gives one field of a database entry; `None` for a name that is not one.
fn set_database(entry: &mut Database, name: &str, value: &str) -> Option<Result<(), &'static str>> {
    fn put<T: Value>(place: &mut Option<T>, value: &str) -> Result<(), &'static str> {
        *place = Some(T::read(value)?);
        Ok(())
    }
    Some(match name {
        "host" => List::read(value).map(|hosts| entry.hosts = hosts.0),
        "port" => put(&mut entry.port, value),
        "dbname" => put(&mut entry.dbname, value),
        "user" => put(&mut entry.user, value),
        "password" => put(&mut entry.password, value),
        "auth_user" => put(&mut entry.auth_user, value),
        "pool_size" => put(&mut entry.pool_size, value),
        "min_pool_size" => put(&mut entry.min_pool_size, value),
        "reserve_pool" | "reserve_pool_size" => put(&mut entry.reserve_pool_size, value),
        "pool_mode" => put(&mut entry.pool_mode, value),
        "max_db_connections" => put(&mut entry.max_db_connections, value),
        "client_encoding" => put(&mut entry.client_encoding, value),
        "datestyle" => put(&mut entry.datestyle, value),
        "timezone" => put(&mut entry.timezone, value),
        "connect_query" => put(&mut entry.connect_query, value),
        _ => return None,
    })
}

/// The names that `set_database` knows.
const DATABASE_KEYS: &[&str] = &[
    "host",
    "port",
    "dbname",
    "user",
    "password",
    "auth_user",
    "pool_size",
    "min_pool_size",
    "reserve_pool",
    "reserve_pool_size",
    "pool_mode",
    "max_db_connections",
    "client_encoding",
    "datestyle",
    "timezone",
    "connect_query",
];

/// Gives one field of a user entry; `None` for a name that is not one.
fn set_user(entry: &mut User, name: &str, value: &str) -> Option<Result<(), &'static str>> {
    Some(match name {
        "pool_mode" => PoolMode::read(value).map(|mode| entry.pool_mode = Some(mode)),
        "pool_size" => usize::read(value).map(|size| entry.pool_size = Some(size)),
        "max_user_connections" => usize::read(value).map(|count| entry.max_user_connections = Some(count)),
        _ => return None,
    })
}

/// The names that `set_user` knows.
const USER_KEYS: &[&str] = &["pool_mode", "pool_size", "max_user_connections"];

#[cfg(test)]
mod tests;
