//! What the pooler is told: settings, databases and users, from `howdah.toml`, `pgbouncer.ini` or `pgcat.toml`.

mod entries;
mod environment;
mod ini;
mod nearest;
mod pgcat;
mod reference;
pub mod servers;
pub mod settings;
#[cfg(test)]
mod tests;
mod toml_file;
pub(crate) mod userlist;
pub mod value;

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::hba::Hba;
use crate::ident::Ident;
use crate::tls::Contexts;
pub use entries::{Database, Key, User};
pub use nearest::nearest;
pub use reference::page as reference_page;
pub use servers::{DefaultRole, PrimaryReads, Routing};
pub use settings::{Settings, Shown};
pub use value::{
    AuthType, ChannelBinding, FileMode, HostOrder, List, LogFormat, PoolMode, Seconds, Shutdown, SslMode,
    SyslogFacility, Value,
};

/// Whether a database is the console.
pub fn is_console(database: &str) -> bool {
    matches!(database, "howdah" | "pgbouncer" | "pgcat")
}

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

/// The time limits of a user's clients; none for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// Of a statement.
    pub query: Option<Duration>,
    /// Of a transaction.
    pub transaction: Option<Duration>,
    /// Of a pause in a transaction.
    pub idle_transaction: Option<Duration>,
    /// Of a pause elsewhere.
    pub idle: Option<Duration>,
}

/// A whole configuration.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    /// The file it was read from.
    pub path: PathBuf,
    /// All files that were read for it, itself too.
    pub files: Vec<PathBuf>,
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
    /// The maps of names that it asks for.
    pub ident: Arc<Ident>,
}

impl Config {
    /// Reads a file: a `pgbouncer.ini` unless its name ends in `.toml`; among those, a `pgcat.toml` by its `[pools]`.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path).map_err(|source| Error::Read { path: path.to_owned(), source })?;
        let complain = |message| Error::Content { path: path.to_owned(), message };
        let mut config = Self::parse(path, &text).map_err(complain)?;
        config.path = path.to_owned();
        config.files.insert(0, path.to_owned());
        config.read_passwords()?;
        config.check().map_err(complain)?;
        config.prepare().map_err(complain)?;
        Ok(config)
    }

    /// Reads the text of a file, and what that includes. What is called neither `.ini` nor `.toml` is read as a
    /// `pgbouncer.ini`, since PgBouncer minds no name, but not without a word: it may be meant for another format.
    pub(crate) fn parse(path: &Path, text: &str) -> Result<Self, String> {
        let ending = path.extension().and_then(|ending| ending.to_str());
        if ending != Some("toml") {
            let remark = "the file is read as a pgbouncer.ini, since its name ends neither in .ini nor in .toml";
            return match (ending, ini::read(text, path)) {
                (Some("ini"), outcome) => outcome,
                (_, Err(message)) => Err(format!("{message} ({remark})")),
                (_, Ok(mut config)) => {
                    config.remarks.insert(0, remark.to_owned());
                    Ok(config)
                }
            };
        }
        let mut table: toml::Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
        if table.contains_key("pools") {
            return pgcat::read(&table);
        }
        environment::put_in(&mut table, &|name| std::env::var(name).ok())?;
        toml_file::read(&table)
    }

    /// Reads the files that settings name, for TLS and who may come in; again after a setting was changed.
    pub fn prepare(&mut self) -> Result<(), String> {
        let settings = &self.settings;
        if settings.auth_type == AuthType::Cert && !settings.client_tls_sslmode.verifies() {
            return Err("auth_type = cert: client_tls_sslmode must be verify-ca or verify-full".to_owned());
        }
        self.tls = Contexts::read(settings, &mut self.remarks)?;
        (self.hba, self.ident) = (Arc::default(), Arc::default());
        if settings.auth_type == AuthType::Hba {
            self.hba = named("auth_hba_file", &settings.auth_hba_file, Hba::read)?;
            if !settings.auth_ident_file.is_empty() {
                self.ident = named("auth_ident_file", &settings.auth_ident_file, Ident::read)?;
            }
            if let Some(map) = self.hba.maps().find(|map| !self.ident.has(map)) {
                return Err(format!("auth_hba_file: map={map}: there is no such map in auth_ident_file"));
            }
        }
        Ok(())
    }

    fn read_passwords(&mut self) -> Result<(), Error> {
        if self.settings.auth_file.is_empty() {
            return Ok(());
        }
        let path = PathBuf::from(&self.settings.auth_file);
        self.files.push(path.clone());
        let complain = |message| Error::Content {
            path: self.path.clone(),
            message: format!("auth_file = {}: {message}", self.settings.auth_file),
        };
        let text = std::fs::read_to_string(&path).map_err(|error| complain(format!("cannot read it: {error}")))?;
        let read = userlist::read(&text).map_err(complain)?;
        self.passwords.extend(read);
        Ok(())
    }

    fn check(&mut self) -> Result<(), String> {
        let settings = &self.settings;
        if settings.listen_addr.0.is_empty() && settings.unix_socket_dir.is_empty() {
            return Err("neither listen_addr nor unix_socket_dir is set: nobody could connect".to_owned());
        }
        if let Some(name) = self.databases.keys().find(|name| crate::config::is_console(name)) {
            return Err(format!(
                "database {name}: the console has that name; give the entry another, and dbname={name}"
            ));
        }
        if let Some(name) = self.auth_databases().find(|name| crate::config::is_console(name)) {
            return Err(format!(
                "auth_dbname = {name}: that is the console, which runs no auth_query; name a database"
            ));
        }
        let is_looked_up = |entry: &Database| {
            let user = entry.auth_user.as_ref().unwrap_or(&settings.auth_user);
            let place = entry.auth_dbname.as_ref().unwrap_or(&settings.auth_dbname);
            !user.is_empty() && place.is_empty()
        };
        if self.fallback.as_ref().is_some_and(is_looked_up) {
            self.remarks.push(
                "auth_user with the database * and without auth_dbname: passwords are looked up in whatever database a \
                 client names, so strangers can cause connections to servers; set auth_dbname"
                    .to_owned(),
            );
        }
        if self.databases.is_empty() && self.fallback.is_none() {
            self.remarks.push("no database is configured: only the console can be used".to_owned());
        }
        Ok(())
    }

    /// The databases in which passwords are looked up, where it is said in which.
    fn auth_databases(&self) -> impl Iterator<Item = &String> {
        let entries = self.databases.values().chain(&self.fallback);
        let names = entries.filter_map(|entry| entry.auth_dbname.as_ref()).chain([&self.settings.auth_dbname]);
        names.filter(|name| !name.is_empty())
    }

    /// The databases that are named here: those of entries, and those in which passwords are looked up.
    pub fn named_databases(&self) -> impl Iterator<Item = &String> {
        self.databases.keys().chain(self.auth_databases())
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

    /// The reserve of the pool of this database and user.
    pub fn reserve(&self, database: &str, user: &str) -> usize {
        let of_user = self.users.get(user).and_then(|entry| entry.reserve_pool_size);
        of_user
            .or_else(|| self.database(database).and_then(|database| database.reserve_pool_size))
            .unwrap_or(self.settings.reserve_pool_size)
    }

    /// The user whose pool serves a client of this database: the one that the database's entry gives, or its own.
    pub fn pool_user<'a>(&'a self, database: &str, user: &'a str) -> &'a str {
        self.database(database).and_then(|entry| entry.user.as_deref()).unwrap_or(user)
    }

    /// The server connections that a user may have, whatever the database; 0 for no limit.
    pub fn user_servers(&self, user: &str) -> usize {
        let own = self.users.get(user).and_then(|entry| entry.max_user_connections);
        own.unwrap_or(self.settings.max_user_connections)
    }

    /// The server connections that a database may have, whatever the user; 0 for no limit.
    pub fn database_servers(&self, database: &str) -> usize {
        let own = self.database(database).and_then(|entry| entry.max_db_connections);
        own.unwrap_or(self.settings.max_db_connections)
    }

    /// Whether the pools of a database keep within limits beside their own sizes.
    pub fn shares_limits(&self, database: &str) -> bool {
        let of_users = self.users.values().any(|user| user.max_user_connections.is_some_and(|most| most > 0));
        self.database_servers(database) > 0 || self.settings.max_user_connections > 0 || of_users
    }

    /// The client connections that a user may have; 0 for no limit.
    pub fn user_clients(&self, user: &str) -> usize {
        let own = self.users.get(user).and_then(|entry| entry.max_user_client_connections);
        own.unwrap_or(self.settings.max_user_client_connections)
    }

    /// The client connections that a database may have; 0 for no limit.
    pub fn database_clients(&self, database: &str) -> usize {
        let own = self.database(database).and_then(|entry| entry.max_db_client_connections);
        own.unwrap_or(self.settings.max_db_client_connections)
    }

    /// The time limits of a user's clients.
    pub fn limits(&self, user: &str) -> Limits {
        let settings = &self.settings;
        let entry = self.users.get(user);
        let limit = |own: fn(&User) -> Option<Seconds>, of_all: Seconds| entry.and_then(own).unwrap_or(of_all).limit();
        Limits {
            query: limit(|user| user.query_timeout, settings.query_timeout),
            transaction: limit(|user| user.transaction_timeout, settings.transaction_timeout),
            idle_transaction: limit(|user| user.idle_transaction_timeout, settings.idle_transaction_timeout),
            idle: limit(|user| user.client_idle_timeout, settings.client_idle_timeout),
        }
    }

    /// How long a client of this user waits for a server connection to this database.
    pub fn query_wait(&self, user: &str, database: &str) -> Option<Duration> {
        let own = self.users.get(user).and_then(|entry| entry.query_wait_timeout);
        let here = || self.database(database).and_then(|entry| entry.query_wait_timeout);
        own.or_else(here).unwrap_or(self.settings.query_wait_timeout).limit()
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

/// Reads a file that a setting names.
fn named<T>(setting: &str, path: &str, read: fn(&str) -> Result<T, String>) -> Result<Arc<T>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("{setting}: cannot read {path}: {error}"))?;
    read(&text).map(Arc::new).map_err(|error| format!("{setting}: {path}: {error}"))
}
