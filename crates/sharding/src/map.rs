//! The map of sharded tables, as the hub's view `howdah_shards.routes` gives it.

use std::collections::HashMap;
use std::sync::Arc;

use crate::hash::Function;

/// The types of keys by which the pooler can find a row's shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyType {
    /// smallint, integer or bigint.
    Integer,
    /// text or character varying, of a deterministic collation.
    Text,
    /// uuid
    Uuid,
    /// date
    Date,
    /// timestamp without time zone
    Timestamp,
    /// timestamp with time zone
    TimestampTz,
    /// Another type, of which no value is proved to be of a shard.
    Other,
}

impl KeyType {
    /// The type of this name, as `format_type` writes it.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "smallint" | "integer" | "bigint" => Self::Integer,
            "text" | "character varying" => Self::Text,
            "uuid" => Self::Uuid,
            "date" => Self::Date,
            "timestamp without time zone" => Self::Timestamp,
            "timestamp with time zone" => Self::TimestampTz,
            _ => return None,
        })
    }
}

/// A table of which each shard has some partitions.
#[derive(Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name.
    pub name: Box<str>,
    /// The name of its key.
    pub key: Box<str>,
    /// The type of its key.
    pub key_type: KeyType,
    /// Whether blanks at the end of a value may be left out where it is stored, as by `character varying(10)`.
    pub cuts_blanks: bool,
    /// The place of its key among its columns, the first in place 0.
    pub place: usize,
    /// The shard of each slot, by its number in [`Map::shards`].
    pub slots: Vec<usize>,
    /// The slot that is about to move, so that nothing should begin which needs it.
    pub closing: Option<usize>,
    /// How its slots follow from its keys.
    pub function: Function,
}

/// A table that the map knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    /// It is distributed over the shards.
    Sharded(Arc<Table>),
    /// All shards have all of it, written by the hub: a reference table, or one of models.
    Reference,
    /// Without a hub: a view of sharded tables, or a parent of one.
    Reading,
}

/// One version of the map.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Map {
    /// The names of the shards.
    pub shards: Vec<Box<str>>,
    /// Whether all shards have the hub's models of pgml.
    pub models: bool,
    tables: HashMap<Box<str>, Vec<(Box<str>, Entry)>>,
    /// Whether there is no hub: each shard has tables of its own beside those that are named here.
    pub without_hub: bool,
}

/// A row of the map that cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub struct Malformed(
    /// What is wrong with it.
    pub String,
);

/// A row of `howdah_shards.routes`: schema, table, kind (`closing` for a slot that is about to
/// move), key, its type, its position, modulus, slot, shard; what is NULL is empty.
pub type Row<'a> = [&'a str; 9];

/// A row of a table, the shards of its slots, and the slot that is about to move.
type Slots<'a> = (Row<'a>, Vec<Option<usize>>, Option<usize>);

impl Map {
    /// The query of [`Map::from_rows`].
    pub const QUERY: &str = "SELECT schema_name, table_name, \
        CASE WHEN to_jsonb(r) @> '{\"closing\": true}' THEN 'closing' ELSE kind END, coalesce(key_name, ''), \
        coalesce(key_type, ''), coalesce(key_position::text, ''), coalesce(modulus::text, ''), \
        coalesce(slot::text, ''), coalesce(shard, '') FROM howdah_shards.routes r ORDER BY 1, 2, 8";

    /// The map of these rows.
    ///
    /// # Errors
    /// [`Malformed`] for a key of an unknown type, a slot without a shard or outside of its table's modulus.
    pub fn from_rows<'a>(rows: impl IntoIterator<Item = Row<'a>>) -> Result<Self, Malformed> {
        let mut map = Self::default();
        let mut slots: HashMap<(&str, &str), Slots<'_>> = HashMap::new();
        for row @ [schema, table, kind, _, _, _, modulus, slot, shard] in rows {
            if kind == "reference" || kind == "models" {
                map.models |= kind == "models";
                map.tables.entry(table.into()).or_default().push((schema.into(), Entry::Reference));
                continue;
            }
            let wrong = |what: &str| Malformed(format!("table {schema}.{table}: {what}"));
            let modulus: usize = modulus.parse().map_err(|_| wrong("its modulus is no number"))?;
            let slot: usize = slot.parse().map_err(|_| wrong("a slot is no number"))?;
            let number = map.shards.iter().position(|known| **known == *shard).unwrap_or_else(|| {
                map.shards.push(shard.into());
                map.shards.len() - 1
            });
            let fresh = || (row, vec![None; modulus.min(65_536)], None);
            let (_, of_table, closing) = slots.entry((schema, table)).or_insert_with(fresh);
            *of_table.get_mut(slot).ok_or_else(|| wrong("a slot is outside of its modulus"))? = Some(number);
            *closing = closing.or((kind == "closing").then_some(slot));
        }
        for ((schema, name), ([_, _, _, key, key_type, place, ..], of_table, closing)) in slots {
            let wrong = |what: &str| Malformed(format!("table {schema}.{name}: {what}"));
            let table = Table {
                name: name.into(),
                key: key.into(),
                key_type: KeyType::named(key_type).ok_or_else(|| wrong("the type of its key is not supported"))?,
                cuts_blanks: key_type == "character varying",
                place: place
                    .parse()
                    .ok()
                    .and_then(|place: usize| place.checked_sub(1))
                    .ok_or_else(|| wrong("the position of its key is no number from 1 on"))?,
                slots: of_table.into_iter().collect::<Option<_>>().ok_or_else(|| wrong("a slot is on no shard"))?,
                closing,
                function: Function::Postgres,
            };
            map.tables.entry(name.into()).or_default().push((schema.into(), Entry::Sharded(Arc::new(table))));
        }
        Ok(map)
    }

    /// The map of these shards and relations (schema, name, entry), where there is no hub.
    pub fn without_hub<'a>(
        shards: &[Box<str>],
        relations: impl IntoIterator<Item = (&'a str, &'a str, Entry)>,
    ) -> Self {
        let mut map = Self { shards: shards.to_vec(), without_hub: true, ..Self::default() };
        for (schema, name, entry) in relations {
            map.tables.entry(name.into()).or_default().push((schema.into(), entry));
        }
        map
    }

    /// The tables that a name may mean; without a schema in any schema.
    pub fn tables(&self, schema: Option<&str>, name: &str) -> impl Iterator<Item = &Entry> {
        self.tables
            .get(name)
            .into_iter()
            .flatten()
            .filter(move |(known, _)| schema.is_none_or(|schema| schema == known.as_ref()))
            .map(|(_, entry)| entry)
    }

    /// How many slots of all tables a shard has.
    pub fn slots_of(&self, shard: &str) -> usize {
        let number = self.shards.iter().position(|known| **known == *shard);
        let of = |entry: &Entry| match entry {
            Entry::Sharded(table) => table.slots.iter().filter(|slot| Some(**slot) == number).count(),
            Entry::Reference | Entry::Reading => 0,
        };
        self.tables.values().flatten().map(|(_, entry)| of(entry)).sum()
    }

    /// Whether the name of a sharded table, or of what reads one, stands somewhere in a text.
    pub fn is_named_in(&self, sql: &[u8]) -> bool {
        let text = String::from_utf8_lossy(sql).to_lowercase();
        let is_sharded = |(_, entry): &(Box<str>, Entry)| !matches!(entry, Entry::Reference);
        self.tables.iter().any(|(name, tables)| tables.iter().any(is_sharded) && has_word(&text, &name.to_lowercase()))
    }

    /// Whether a slot is about to move.
    pub fn is_closing(&self) -> bool {
        let closes = |entry: &Entry| matches!(entry, Entry::Sharded(table) if table.closing.is_some());
        self.tables.values().flatten().any(|(_, entry)| closes(entry))
    }

    /// Whether it has no tables.
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }
}

/// Whether a word stands in a text, and is no part of another one.
fn has_word(text: &str, word: &str) -> bool {
    let is_part = |beside: char| beside.is_alphanumeric() || beside == '_';
    text.match_indices(word).any(|(at, _)| {
        let (before, behind) = (text.get(..at), text.get(at + word.len()..));
        !before.is_some_and(|before| before.ends_with(is_part))
            && !behind.is_some_and(|behind| behind.starts_with(is_part))
    })
}

#[cfg(test)]
mod tests {
    use super::has_word;

    #[test]
    fn a_word_is_whole() {
        for (text, found) in [
            ("merge into t using u", true),
            ("t", true),
            ("(\"t\")", true),
            ("set server role to 'primary'", false),
            ("select * from t_1, at", false),
            ("select * from te, public.t", true),
        ] {
            assert_eq!(has_word(text, "t"), found, "{text}");
        }
    }
}
