//! A database on several servers: which, and how statements are spread over them.

use balancer::{Configured, Limits, MAX_SERVERS, Setup, Strategy, Want};
use classify::Consistency;
use toml::{Table, Value as Toml};

use super::toml_file::text;
use super::{Config, Database, Seconds, Value, nearest};

/// The keys of an entry of `servers`.
const SERVER_KEYS: &[&str] = &["host", "port", "role", "weight"];

impl Value for Strategy {
    fn read(text: &str) -> Result<Self, &'static str> {
        match text {
            "random" => Ok(Self::Random),
            "round_robin" => Ok(Self::RoundRobin),
            // PgCat's names for it beside our own.
            "least_outstanding" | "least_outstanding_connections" | "loc" => Ok(Self::LeastOutstanding),
            "weighted" => Ok(Self::Weighted),
            _ => Err("random, round_robin, least_outstanding or weighted"),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Random => "random",
            Self::RoundRobin => "round_robin",
            Self::LeastOutstanding => "least_outstanding",
            Self::Weighted => "weighted",
        }
        .to_owned()
    }
}

impl Value for Configured {
    fn read(text: &str) -> Result<Self, &'static str> {
        match text.to_ascii_lowercase().as_str() {
            "auto" => Ok(Self::Auto),
            "primary" => Ok(Self::Primary),
            "replica" => Ok(Self::Replica),
            _ => Err("auto, primary or replica"),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Auto => "auto",
            Self::Primary => "primary",
            Self::Replica => "replica",
        }
        .to_owned()
    }
}

/// Whether the primary serves reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PrimaryReads {
    /// As one of the servers.
    On,
    /// Never.
    Off,
    /// When no replica does.
    Fallback,
}

impl PrimaryReads {
    /// What a read wants.
    pub fn want(self) -> Want {
        match self {
            Self::On => Want::Any,
            Self::Off => Want::Replica,
            Self::Fallback => Want::ReplicaOrPrimary,
        }
    }
}

impl Value for PrimaryReads {
    fn read(text: &str) -> Result<Self, &'static str> {
        match text {
            "fallback" => Ok(Self::Fallback),
            _ => match bool::read(text) {
                Ok(true) => Ok(Self::On),
                Ok(false) => Ok(Self::Off),
                Err(_) => Err("on, off or fallback"),
            },
        }
    }

    fn show(&self) -> String {
        match self {
            Self::On => "on",
            Self::Off => "off",
            Self::Fallback => "fallback",
        }
        .to_owned()
    }
}

impl Value for Consistency {
    fn read(text: &str) -> Result<Self, &'static str> {
        match text {
            "session" => Ok(Self::Session),
            "database" => Ok(Self::Database),
            "off" => Ok(Self::Off),
            _ => Err("session, database or off"),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Session => "session",
            Self::Database => "database",
            Self::Off => "off",
        }
        .to_owned()
    }
}

/// Where statements go that nobody has told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultRole {
    /// To any server.
    Any,
    /// To the primary.
    Primary,
    /// To a replica.
    Replica,
}

impl Value for DefaultRole {
    fn read(text: &str) -> Result<Self, &'static str> {
        match text {
            "any" => Ok(Self::Any),
            "primary" => Ok(Self::Primary),
            "replica" => Ok(Self::Replica),
            _ => Err("any, primary or replica"),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Any => "any",
            Self::Primary => "primary",
            Self::Replica => "replica",
        }
        .to_owned()
    }
}

/// How a database's statements are spread over its servers, and how these are watched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Routing {
    /// By what one of several servers is chosen.
    pub strategy: Strategy,
    /// Whether the primary serves reads.
    pub primary_reads: PrimaryReads,
    /// Whether reads are told from writes.
    pub splitting: bool,
    /// Where statements go when they are not.
    pub default_role: DefaultRole,
    /// Which commits reads must see.
    pub read_your_writes: Consistency,
    /// By what replicas are judged.
    pub limits: Limits,
    /// How often a server is asked.
    pub interval: Seconds,
    /// How long it may take to answer.
    pub timeout: Seconds,
}

impl Routing {
    /// What a statement wants: known to be a read (`Some(true)`), known to be more, or not told apart.
    pub fn want(&self, is_read: Option<bool>) -> Want {
        match is_read {
            Some(true) => self.primary_reads.want(),
            Some(false) => Want::Write,
            None => match self.default_role {
                DefaultRole::Any => Want::Any,
                DefaultRole::Primary => Want::Write,
                DefaultRole::Replica => self.primary_reads.want(),
            },
        }
    }
}

impl Config {
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

    /// How the statements of this entry are spread.
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
            limits: Limits {
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

/// Reads `servers = [{host = ..., port = ..., role = ..., weight = ...}, ...]`.
pub fn read(value: &Toml, section: &str) -> Result<Vec<Setup>, String> {
    let expected =
        || format!("[{section}] servers = {value}: expected a list of {{host = ..., port = ..., role = ...}}");
    let items = value.as_array().ok_or_else(expected)?;
    items.iter().map(|item| server(item.as_table().ok_or_else(expected)?, section)).collect()
}

fn server(item: &Table, section: &str) -> Result<Setup, String> {
    let mut setup = Setup { host: String::new(), port: 5432, role: Configured::Auto, weight: 1 };
    for (key, value) in item {
        let given = text(value);
        let outcome = match key.as_str() {
            "host" if given.is_empty() || given.contains(',') => Err("one name, address or folder of a Unix socket"),
            "host" => String::read(&given).map(|host| setup.host = host),
            "port" => u16::read(&given).map(|port| setup.port = port),
            "role" => Configured::read(&given).map(|role| setup.role = role),
            "weight" => given
                .parse()
                .ok()
                .filter(|weight| *weight <= 1_000_000)
                .map(|weight| setup.weight = weight)
                .ok_or("a whole number from 0 to 1000000"),
            _ => {
                let near = nearest(key, SERVER_KEYS.iter().copied());
                let near = near.map(|near| format!("; {near} was meant?")).unwrap_or_default();
                return Err(format!("[{section}] servers: a server has no key {key}{near}"));
            }
        };
        outcome.map_err(|expected| format!("[{section}] servers: {key} = {value}: expected {expected}"))?;
    }
    if setup.host.is_empty() {
        return Err(format!("[{section}] servers: a server has no host"));
    }
    Ok(setup)
}

/// Looks at the servers of an entry, and notes where a connection leads for which no server has been chosen: to the
/// one that is called the primary, or the first.
pub fn settle(entry: &mut Database, section: &str) -> Result<(), String> {
    let servers = &entry.servers;
    if servers.len() > MAX_SERVERS {
        return Err(format!("[{section}] has {} servers: {MAX_SERVERS} at most are supported", servers.len()));
    }
    if servers.iter().filter(|server| server.role == Configured::Primary).count() > 1 {
        return Err(format!("[{section}] has two primaries"));
    }
    for (number, server) in servers.iter().enumerate() {
        let same = |other: &Setup| other.host == server.host && other.port == server.port;
        if servers.iter().take(number).any(same) {
            return Err(format!("[{section}] has the server {}:{} twice", server.host, server.port));
        }
    }
    let first = servers.iter().find(|server| server.role == Configured::Primary).or(servers.first());
    if let Some(first) = first {
        (entry.hosts, entry.port) = (vec![first.host.clone()], Some(first.port));
    }
    Ok(())
}
