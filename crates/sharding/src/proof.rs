//! What a statement needs to be of one shard: the tables in it that are sharded, and where the values of their keys stand;
//! or why it is not proved to be of one.

use std::fmt;
use std::sync::Arc;

use crate::map::{Map, Table};
use crate::value::{Parameters, Source};

/// Why a statement is not proved to be of one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Nothing restricts this table to a value of its key (the table, the key).
    NoKey(String, String),
    /// A row of an INSERT has no value for the key that is known beforehand.
    NoValue(String, String),
    /// The key would change.
    KeyChanges(String, String),
    /// This relation is not on the shards.
    NotOnShards(String),
    /// This relation reads sharded tables, which is not followed.
    Reading(String),
    /// This name means several relations.
    Ambiguous(String),
    /// This function may answer differently on a shard.
    Function(String),
    /// A reference table is written, which the hub does.
    Reference(String),
    /// The statement is none that rows are read or changed by.
    Definition(String),
    /// COPY FROM spreads its rows over the shards.
    CopyFrom(String),
    /// A statement of another kind, which only the hub runs.
    Kind,
    /// Its transaction is on the hub.
    OnHub,
    /// A form of SQL that is not followed.
    Unfamiliar,
    /// The text could not be parsed.
    Unparsable,
    /// The text is too long or too deep to be parsed here, or is not read as the parser reads it.
    Unread,
    /// The values of the keys are of several shards.
    Several,
    /// The value of a key is NULL, of another type, or written in a way that depends on the session.
    Value,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoKey(table, key) => {
                write!(f, "no condition restricts table \"{table}\" to a value of its key \"{key}\"")
            }
            Self::NoValue(table, key) => {
                write!(f, "a row for table \"{table}\" has no constant or parameter as its key \"{key}\"")
            }
            Self::KeyChanges(table, key) => write!(f, "the key \"{key}\" of table \"{table}\" would change"),
            Self::NotOnShards(name) => write!(f, "relation \"{name}\" is not on the shards"),
            Self::Reading(name) => write!(f, "relation \"{name}\" reads sharded tables, which is not followed"),
            Self::Ambiguous(name) => write!(f, "several relations are called \"{name}\""),
            Self::Function(name) => write!(f, "function {name} may have another result on a shard"),
            Self::Reference(name) => write!(f, "table \"{name}\" is a reference table, which is written on the hub"),
            Self::Definition(name) => {
                write!(f, "the definition of sharded table \"{name}\" is the same on all servers")
            }
            Self::CopyFrom(name) => write!(f, "COPY spreads its rows of table \"{name}\" over the shards"),
            Self::Kind => f.write_str("statements of its kind run on the hub"),
            Self::OnHub => f.write_str("its transaction is on the hub"),
            Self::Unfamiliar => f.write_str("the statement has a form that is not followed"),
            Self::Unparsable => f.write_str("the statement could not be parsed"),
            Self::Unread => f.write_str("the statement is too long, too deep or in an encoding that is not read"),
            Self::Several => f.write_str("the values of its keys belong to several shards"),
            Self::Value => f.write_str(
                "the value of a key is NULL, of a type that the key is not compared with, or depends on the session",
            ),
        }
    }
}

impl Reason {
    /// Its name in counts.
    pub fn name(&self) -> &'static str {
        match self {
            Self::NoKey(..) => "no_key",
            Self::NoValue(..) => "no_value",
            Self::KeyChanges(..) => "key_changes",
            Self::NotOnShards(_) => "not_on_shards",
            Self::Reading(_) => "reads_sharded",
            Self::Ambiguous(_) => "ambiguous",
            Self::Function(_) => "function",
            Self::Reference(_) => "reference",
            Self::Definition(_) => "definition",
            Self::CopyFrom(_) => "copy_from",
            Self::Kind => "other_kind",
            Self::OnHub => "transaction_on_hub",
            Self::Unfamiliar => "unfamiliar",
            Self::Unparsable => "unparsable",
            Self::Unread => "unread",
            Self::Several => "several_shards",
            Self::Value => "value",
        }
    }

    /// What to do about it.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NoKey(..) => "add a condition that gives the key a value",
            Self::NoValue(..) => "give the key of each row as a literal or a parameter",
            Self::KeyChanges(..) => "delete the row and insert it with its new key",
            Self::Definition(_) => {
                "run it by howdah_shards.run_on_shards on the hub, TRUNCATE, indexes and foreign keys with hub => false; VACUUM on each shard"
            }
            Self::CopyFrom(_) => {
                "run COPY through an entry with multi_shard_writes, or insert rows of one shard at a time"
            }
            _ => "write rows of one shard at a time, or through an entry with multi_shard_writes",
        }
    }
}

/// A sharded table of a statement, and the values to one of which its key is restricted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Need {
    /// The table.
    pub table: Arc<Table>,
    /// The values; never empty.
    pub values: Vec<Source>,
    /// Whether rows with these values are stored, so that they become values of the column.
    pub stored: bool,
}

/// What is known of the shard of a statement before its values are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Proof {
    /// The tables whose keys decide, empty if no sharded table is named; or why it is not proved to be of one shard.
    pub needs: Result<Vec<Need>, Reason>,
    /// Whether it changes rows of a sharded table, or their definition.
    pub writes: bool,
    /// If no sharded table is named: why it can run on the hub alone, not on a shard that a transaction is on.
    pub hub: Option<Reason>,
    /// Something in it that shards do not have, so that they may not even prepare it.
    pub unknown: Option<Reason>,
    /// Whether it means the same outside of the transaction that it stands in: queries without locks, and without functions
    /// that know the time or the transaction.
    pub is_free: bool,
}

impl Proof {
    /// That of a statement of which nothing is known.
    pub fn unproved(reason: Reason) -> Self {
        Self { needs: Err(reason), writes: false, hub: None, unknown: None, is_free: false }
    }

    /// That of a statement without sharded tables, which runs anywhere.
    pub fn of_no_table() -> Self {
        Self { needs: Ok(Vec::new()), ..Self::unproved(Reason::Unread) }
    }

    /// That of a text that is not read: it may write each sharded table that it seems to name.
    pub fn unread(sql: &[u8], map: &Map) -> Self {
        let is_named = map.is_named_in(sql);
        if map.without_hub && !is_named {
            return Self::of_no_table();
        }
        Self { writes: is_named, ..Self::unproved(Reason::Unread) }
    }

    /// Why the hub alone can prepare it, if so.
    pub fn only_on_hub(&self) -> Option<&Reason> {
        self.hub.as_ref().or(self.unknown.as_ref())
    }

    /// The shard of one execution, by its number in the map; none if no sharded table is in it, or none of its rows.
    ///
    /// # Errors
    /// Why it is not proved to be of one shard.
    pub fn shard(&self, parameters: &impl Parameters) -> Result<Option<usize>, Reason> {
        let needs = self.needs.as_ref().map_err(Reason::clone)?;
        let (mut shard, mut several) = (None, false);
        for need in needs {
            for value in &need.values {
                let mut tell = |slot: usize| {
                    let this = need.table.slots.get(slot).copied();
                    several |= shard.get_or_insert(this) != &this;
                };
                value.slots(&need.table, need.stored, parameters, &mut tell).ok_or(Reason::Value)?;
            }
        }
        if several { Err(Reason::Several) } else { Ok(shard.flatten()) }
    }

    /// Whether one execution needs a slot that is about to move.
    pub fn closes(&self, parameters: &impl Parameters) -> bool {
        let needs = self.needs.as_deref().unwrap_or_default();
        needs.iter().filter(|need| need.table.closing.is_some()).any(|need| {
            let mut closes = false;
            let mut tell = |slot| closes |= need.table.closing == Some(slot);
            need.values.iter().all(|value| value.slots(&need.table, need.stored, parameters, &mut tell).is_some())
                && closes
        })
    }
}
