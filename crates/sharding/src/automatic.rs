//! Tables that are divided between shards without a hub, as PgCat's `automatic_sharding_key` divides them: each table with
//! a column of some name, or one table, has a row on the shard of the number that its key's hash leaves as a remainder.

use std::sync::Arc;

use crate::hash::Function;
use crate::map::{Entry, KeyType, Malformed, Map, Table};

/// What divides tables between shards without a hub.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Automatic {
    /// The table, unless it is every table with the column.
    pub table: Option<Box<str>>,
    /// The column.
    pub column: Box<str>,
    /// How a row's shard follows from it.
    pub function: Function,
    /// The names of the shards, in the order of their numbers.
    pub shards: Vec<Box<str>>,
}

/// A row of [`Automatic::query`]: schema, name, the type of the key, its position; without a type and a position what
/// reads sharded tables.
pub type Row<'a> = [&'a str; 4];

impl Automatic {
    /// That of a key, which is written `table.column` or `*.column`; none if it is written otherwise.
    pub fn new(key: &str, function: Function, shards: Vec<Box<str>>) -> Option<Self> {
        let (table, column) = key.split_once('.')?;
        let is_name = |name: &str| !name.is_empty() && !name.contains(['.', '*', '\'', '\\', '\0']);
        let table = (table != "*").then(|| table.into());
        let is_fine = is_name(column) && table.as_deref().is_none_or(is_name);
        is_fine.then(|| Self { table, column: column.into(), function, shards })
    }

    /// Asks a shard for its sharded tables, their partitions and children, and for what reads them: views, and parents.
    pub fn query(&self) -> String {
        let named = self.table.as_ref().map_or_else(String::new, |table| format!(" AND c.relname = '{table}'"));
        include_str!("automatic.sql").replace("$column", &self.column).replace("$named", &named)
    }

    /// The map of these rows.
    ///
    /// # Errors
    /// [`Malformed`] for a position that is none.
    pub fn map<'a>(&self, rows: impl IntoIterator<Item = Row<'a>>) -> Result<Map, Malformed> {
        let entries = rows.into_iter().map(|row @ [schema, name, key_type, _]| {
            let entry = if key_type.is_empty() { Entry::Reading } else { Entry::Sharded(Arc::new(self.table(row)?)) };
            Ok((schema, name, entry))
        });
        Ok(Map::without_hub(&self.shards, entries.collect::<Result<Vec<_>, _>>()?))
    }

    fn table(&self, [schema, name, key_type, place]: Row<'_>) -> Result<Table, Malformed> {
        let place = place.parse().ok().and_then(|place: usize| place.checked_sub(1));
        let known = KeyType::named(key_type).filter(|known| match self.function {
            Function::Postgres => true,
            Function::Sha1 => *known == KeyType::Integer,
        });
        Ok(Table {
            name: name.into(),
            key: self.column.clone(),
            key_type: known.unwrap_or(KeyType::Other),
            cuts_blanks: key_type == "character varying",
            place: place.ok_or_else(|| Malformed(format!("table {schema}.{name}: its key has no position")))?,
            slots: (0..self.shards.len()).collect(),
            closing: None,
            function: self.function,
        })
    }
}
