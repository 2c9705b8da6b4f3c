//! A whole configuration, and its settings for a database or a user.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::entries::{Database, User};
use super::servers::Routing;
use super::settings::Settings;
use super::value::{PoolMode, Seconds};
use crate::hba::Hba;
use crate::ident::Ident;
use crate::io::Contexts;

/// Whether a database is the console.
pub fn is_console(database: &str) -> bool {
    matches!(database, "howdah" | "pgbouncer" | "pgcat")
}

/// The time limits of a user's clients; none for no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// The limit of a statement.
    pub query: Option<Duration>,
    /// The limit of a transaction.
    pub transaction: Option<Duration>,
    /// The limit of a pause in a transaction.
    pub idle_transaction: Option<Duration>,
    /// The limit of a pause elsewhere.
    pub idle: Option<Duration>,
}

/// A whole configuration.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Config {
    /// The file it was read from.
    pub path: PathBuf,
    /// All files that were read for it, the main file too.
    pub files: Vec<PathBuf>,
    /// The settings of the whole pooler.
    pub settings: Settings,
    /// The databases by the name that clients ask for.
    pub databases: BTreeMap<String, Database>,
    /// The entry for databases that have none of their own.
    pub fallback: Option<Database>,
    /// Settings by user.
    pub users: BTreeMap<String, User>,
    /// Passwords by user, as they are stored: plain, MD5 or a SCRAM secret.
    pub passwords: HashMap<String, String>,
    /// Settings that were read but have no effect, to be logged once.
    pub remarks: Vec<String>,
    /// The makers of TLS sessions by these settings.
    pub tls: Contexts,
    /// The HBA file, if the settings name one.
    pub hba: Arc<Hba>,
    /// The maps of names that the HBA file asks for.
    pub ident: Arc<Ident>,
}

impl Config {
    /// The databases in which passwords are looked up, where it is said in which.
    pub fn auth_databases(&self) -> impl Iterator<Item = &String> {
        let entries = self.databases.values().chain(&self.fallback);
        let names = entries.filter_map(|entry| entry.auth_dbname.as_ref()).chain([&self.settings.auth_dbname]);
        names.filter(|name| !name.is_empty())
    }

    /// The databases that are named here: those of entries, and those in which passwords are looked up.
    pub fn named_databases(&self) -> impl Iterator<Item = &String> {
        self.databases.keys().chain(self.auth_databases())
    }

    /// Whether there is a database at all.
    pub fn has_databases(&self) -> bool {
        !self.databases.is_empty() || self.fallback.is_some()
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

    /// Whether passwords may be looked up as this user.
    pub fn looks_up_as(&self, user: &str) -> bool {
        self.settings.auth_user == user || self.databases.values().any(|entry| entry.auth_user.as_deref() == Some(user))
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

    /// The time for which a client of this user waits for a server connection to this database.
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

    /// The databases on several servers: the entries' names (`*` for the fallback) and the entries.
    pub fn clusters(&self) -> impl Iterator<Item = (&str, &Database)> {
        let named = self.databases.iter().map(|(name, entry)| (name.as_str(), entry));
        let fallback = self.fallback.as_ref().map(|entry| ("*", entry));
        named.chain(fallback).filter(|(_, entry)| !entry.servers.is_empty())
    }

    /// The name of the cluster that serves a database which a client asks for, if it is on several servers.
    pub fn cluster_of<'a>(&self, database: &'a str) -> Option<&'a str> {
        let named = self.databases.get(database);
        let entry = named.or(self.fallback.as_ref()).filter(|entry| !entry.servers.is_empty())?;
        Some(if named.is_none() || entry.wildcard { "*" } else { database })
    }

    /// The database whose workers serve this one: for a shard, the database that clients ask for.
    pub fn front_of<'a>(&'a self, database: &'a str) -> &'a str {
        let has = |entry: &Database| entry.shards.iter().any(|shard| shard == database);
        self.databases.iter().find(|(_, entry)| has(entry)).map_or(database, |(name, _)| name)
    }

    /// The settings by which the statements of this entry are spread.
    pub fn routing(&self, entry: &Database) -> Routing {
        let settings = &self.settings;
        let millis = |span: Seconds| u64::try_from(span.0.as_millis()).unwrap_or(u64::MAX);
        let lag_bytes = entry.max_replica_lag_bytes.unwrap_or(settings.max_replica_lag_bytes);
        let lag = entry.max_replica_lag.unwrap_or(settings.max_replica_lag);
        let timeout = entry.healthcheck_timeout.unwrap_or(settings.healthcheck_timeout);
        Routing {
            strategy: entry.load_balancing.unwrap_or(settings.load_balancing),
            primary_reads: entry.primary_reads.unwrap_or(settings.primary_reads),
            splitting: entry.read_write_splitting.unwrap_or(settings.read_write_splitting),
            default_role: entry.default_role.unwrap_or(settings.default_role),
            read_your_writes: entry.read_your_writes.unwrap_or(settings.read_your_writes),
            limits: balancer::Limits {
                lag_bytes: (lag_bytes > 0).then_some(lag_bytes as u64),
                lag_millis: lag.limit().map(|_| millis(lag)),
                ban_millis: millis(entry.ban_time.unwrap_or(settings.ban_time)),
                patience_millis: millis(timeout),
            },
            interval: entry.healthcheck_interval.unwrap_or(settings.healthcheck_interval),
            timeout,
        }
    }
}
