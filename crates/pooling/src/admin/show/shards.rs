//! SHOW SHARDS: the shards of each database that has some, by the last map of its hub.

use wire::backend::ColumnType::{Int8, Text};

use crate::admin::show::view::{Columns, Row, View, number, text};
use crate::catalog::Place;

pub const COLUMNS: Columns = &[
    ("database", Text),
    ("shard", Text),
    ("slots", Int8),
    ("map_version", Int8),
    ("map_in_force", Int8),
    ("configured", Int8),
];

pub fn rows(view: &View<'_>) -> Vec<Row> {
    let sharded = view.config.databases.iter().filter(|(_, entry)| !entry.shards.is_empty());
    sharded
        .flat_map(|(name, entry)| {
            let place = Place::of(view.config, name);
            let known = view.shared.library.all().into_iter().find(|known| Some(&known.place) == place.as_ref());
            let version = known.as_ref().and_then(|known| known.shard_map.last());
            let in_force = known.as_ref().is_some_and(|known| known.shard_map.in_force(view.now).is_some());
            let of_map = version.iter().flat_map(|version| version.map.shards.iter().map(|shard| shard.to_string()));
            let mut shards: Vec<String> = of_map.chain(entry.shards.iter().cloned()).collect();
            shards.sort();
            shards.dedup();
            let row = |shard: String| {
                let slots = version.as_ref().map(|version| version.map.slots_of(&shard));
                vec![
                    text(name.clone()),
                    text(shard.clone()),
                    slots.and_then(number),
                    version.as_ref().and_then(|version| number(version.number)),
                    number(u8::from(in_force)),
                    number(u8::from(entry.shards.contains(&shard))),
                ]
            };
            shards.into_iter().map(row).collect::<Vec<_>>()
        })
        .collect()
}
