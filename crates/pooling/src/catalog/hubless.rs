//! The rules of databases whose shards have no hub, as PgCat has them.

use std::sync::Arc;

use sharding::{Function, Map};

use crate::catalog::shard_map::Version;
use crate::config::{Database, DefaultShard, Pattern};

/// The bytes of a statement in which a comment is searched for, as with PgCat.
const SEARCHED: usize = 1000;

/// The rules by which the shards of a database are chosen.
#[derive(Debug)]
pub struct Hubless {
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

impl Hubless {
    /// Those of an entry, if it has shards and no hub.
    pub fn of(entry: &Database) -> Option<Self> {
        let names: Vec<Box<str>> = entry.shards.iter().map(|name| name.as_str().into()).collect();
        Some(Self {
            default: entry.default_shard.unwrap_or_default(),
            function: entry.sharding_function?,
            is_automatic: entry.automatic_sharding_key.is_some(),
            names: Arc::new(Version::new(0, Map::without_hub(&names, []), None)),
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
        let group = |pattern: &Option<Pattern>| pattern.as_ref()?.captured(seen);
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
