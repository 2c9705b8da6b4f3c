//! Databases whose shards are chosen by hand: without a hub, as PgCat has them.

use std::sync::Arc;

use regex::bytes::Regex;
use sharding::{Automatic, Function, Map};

use super::configuration::Config;
use super::entries::Database;
use super::value::Value;
use crate::catalog::shard_map::Version;

/// The bytes of a statement in which a comment is searched for, as with PgCat.
const SEARCHED: usize = 1000;

impl Value for Function {
    fn read(text: &str) -> Result<Self, &'static str> {
        match text {
            "pg_bigint_hash" | "PgBigintHash" => Ok(Self::Postgres),
            "sha1" | "Sha1" => Ok(Self::Sha1),
            _ => Err("pg_bigint_hash or sha1"),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Postgres => "pg_bigint_hash",
            Self::Sha1 => "sha1",
        }
        .to_owned()
    }
}

/// The shard of statements for which none is chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefaultShard {
    /// The shard of this number.
    Number(usize),
    /// Any.
    Random,
    /// Any that has not failed of late.
    RandomHealthy,
}

impl Default for DefaultShard {
    fn default() -> Self {
        Self::Number(0)
    }
}

impl Value for DefaultShard {
    fn read(text: &str) -> Result<Self, &'static str> {
        let numbered = || text.strip_prefix("shard_").and_then(|number| number.parse().ok()).map(Self::Number);
        match text {
            "random" => Ok(Self::Random),
            "random_healthy" => Ok(Self::RandomHealthy),
            _ => numbered().ok_or("shard_0 or another number, random, or random_healthy"),
        }
    }

    fn show(&self) -> String {
        match self {
            Self::Number(number) => format!("shard_{number}"),
            Self::Random => "random".to_owned(),
            Self::RandomHealthy => "random_healthy".to_owned(),
        }
    }
}

/// A regular expression with a group.
#[derive(Debug, Clone)]
pub struct Pattern(Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Value for Pattern {
    fn read(text: &str) -> Result<Self, &'static str> {
        let regex = Regex::new(text).ok().filter(|regex| regex.captures_len() > 1);
        regex.map(Self).ok_or("a regular expression with a group, as in /\\* shard: (\\d+) \\*/")
    }

    fn show(&self) -> String {
        self.0.as_str().to_owned()
    }
}

/// The rules by which the shards of a database are chosen.
#[derive(Debug)]
pub struct ByHand {
    /// The shard of statements for which none is chosen.
    pub default: DefaultShard,
    /// How a key's shard is found.
    pub function: Function,
    /// Whether tables have keys.
    pub is_automatic: bool,
    /// The shards by their numbers, in a map without tables.
    pub names: Arc<Version>,
    shard_id: Option<Pattern>,
    sharding_key: Option<Pattern>,
    searched: usize,
}

impl ByHand {
    /// Those of an entry, if it has shards and no hub.
    pub fn of(entry: &Database) -> Option<Self> {
        let names: Vec<Box<str>> = entry.shards.iter().map(|name| name.as_str().into()).collect();
        Some(Self {
            default: entry.default_shard.unwrap_or_default(),
            function: entry.sharding_function?,
            is_automatic: entry.automatic_sharding_key.is_some(),
            names: Arc::new(Version { number: 0, map: Map::without_hub(&names, []) }),
            shard_id: entry.shard_id_regex.clone(),
            sharding_key: entry.sharding_key_regex.clone(),
            searched: entry.regex_search_limit.unwrap_or(SEARCHED),
        })
    }

    /// How many shards there are.
    pub fn shards(&self) -> usize {
        self.names.map.shards.len()
    }

    /// The shard of this number.
    ///
    /// # Errors
    /// The number as it is written, if there is no such shard.
    pub fn numbered(&self, number: &str) -> Result<usize, String> {
        number.parse().ok().filter(|number| *number < self.shards()).ok_or_else(|| number.to_owned())
    }

    /// The shard of a key; none if it is no bigint.
    pub fn keyed(&self, key: &str) -> Option<usize> {
        let shards = self.shards() as u64;
        let slot = self.function.slot(self.function.integer(key.parse().ok()?), shards);
        usize::try_from(slot).ok()
    }

    /// The word of a comment in a statement.
    pub fn comment<'a>(&self, sql: &'a [u8]) -> Option<Comment<'a>> {
        if self.shard_id.is_none() && self.sharding_key.is_none() {
            return None;
        }
        let seen = sql.get(..self.searched).unwrap_or(sql);
        let group = |pattern: &Option<Pattern>| {
            let group = pattern.as_ref()?.0.captures(seen)?.get(1)?;
            std::str::from_utf8(group.as_bytes()).ok()
        };
        group(&self.shard_id).map(Comment::Shard).or_else(|| group(&self.sharding_key).map(Comment::Key))
    }
}

/// The word of a comment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Comment<'a> {
    /// The number of a shard.
    Shard(&'a str),
    /// A sharding key.
    Key(&'a str),
}

impl Database {
    /// What divides its tables between shards without a hub.
    pub fn automatic(&self) -> Option<Automatic> {
        let shards = self.shards.iter().map(|name| name.as_str().into()).collect();
        Automatic::new(self.automatic_sharding_key.as_deref()?, self.sharding_function?, shards)
    }

    /// The keys that have no effect without `sharding_function`.
    fn without_function(&self) -> Option<&'static str> {
        let given = [
            ("default_shard", self.default_shard.is_some()),
            ("automatic_sharding_key", self.automatic_sharding_key.is_some()),
            ("shard_id_regex", self.shard_id_regex.is_some()),
            ("sharding_key_regex", self.sharding_key_regex.is_some()),
            ("regex_search_limit", self.regex_search_limit.is_some()),
        ];
        given.into_iter().find(|(_, is_given)| *is_given).map(|(name, _)| name)
    }
}

impl Config {
    /// Completes the entries of databases whose shards are chosen by hand: each leads to the server of its default shard,
    /// where clients are greeted and the catalog is read.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub fn complete_by_hand(&mut self) -> Result<(), String> {
        let entries = self.databases.iter().map(|(name, entry)| (name.as_str(), entry));
        for (name, entry) in entries.chain(self.fallback.as_ref().map(|entry| ("*", entry))) {
            if entry.sharding_function.is_none() {
                match entry.without_function() {
                    Some(key) => return Err(format!("database {name}: {key} needs sharding_function")),
                    None => continue,
                }
            }
            self.check_by_hand(name, entry).map_err(|why| format!("database {name}: {why}"))?;
        }
        let sharded: Vec<String> = self
            .databases
            .iter()
            .filter(|(_, entry)| entry.sharding_function.is_some())
            .map(|(name, _)| name.clone())
            .collect();
        for name in sharded {
            let Some(entry) = self.databases.get(&name) else { continue };
            let first = match entry.default_shard.unwrap_or_default() {
                DefaultShard::Number(number) => number,
                _ => 0,
            };
            let Some(shard) = entry.shards.get(first).cloned() else { continue };
            let Some(place) = self.databases.get(&shard).cloned() else { continue };
            let Some(entry) = self.databases.get_mut(&name) else { continue };
            entry.hosts = place.hosts;
            entry.port = place.port;
            entry.servers = place.servers;
            entry.dbname = Some(place.dbname.unwrap_or(shard));
            if entry.user.is_none() {
                (entry.user, entry.password) = (place.user, place.password);
            }
            // No statement runs there.
            entry.min_pool_size = Some(0);
        }
        Ok(())
    }

    fn check_by_hand(&self, name: &str, entry: &Database) -> Result<(), String> {
        let shards = entry.shards.len();
        if shards == 0 || name == "*" {
            return Err("sharding_function needs a database with a name, and its shards".to_owned());
        }
        let own = [
            ("host", !entry.hosts.is_empty()),
            ("port", entry.port.is_some()),
            ("dbname", entry.dbname.is_some()),
            ("servers", !entry.servers.is_empty()),
        ];
        if let Some((key, _)) = own.into_iter().find(|(_, is_given)| *is_given) {
            return Err(format!("it has sharding_function, so that it leads to its shards, and {key}"));
        }
        for (place, shard) in entry.shards.iter().enumerate() {
            match self.databases.get(shard) {
                None => return Err(format!("its shard {shard} has no entry")),
                Some(other) if !other.shards.is_empty() => return Err(format!("its shard {shard} has shards itself")),
                Some(_) if entry.shards.iter().take(place).any(|other| other == shard) => {
                    return Err(format!("its shard {shard} is named twice"));
                }
                Some(_) => (),
            }
        }
        if let Some(DefaultShard::Number(number)) = entry.default_shard
            && number >= shards
        {
            return Err(format!("default_shard = shard_{number}: it has the shards shard_0 to shard_{}", shards - 1));
        }
        if let Some(key) = &entry.automatic_sharding_key
            && entry.automatic().is_none()
        {
            return Err(format!("automatic_sharding_key = {key}: expected table.column, or *.column"));
        }
        Ok(())
    }
}
