//! Values of the settings by which shards are chosen without a hub.

use regex::bytes::Regex;
use sharding::Function;

use super::value::Value;

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

impl Pattern {
    /// The group where it is found first.
    pub fn captured<'a>(&self, sql: &'a [u8]) -> Option<&'a str> {
        std::str::from_utf8(self.0.captures(sql)?.get(1)?.as_bytes()).ok()
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
