//! Entries of databases whose shards have no hub, as PgCat has them.

use sharding::Automatic;

use super::configuration::Config;
use super::entries::Database;
use super::shards::DefaultShard;

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
    /// Completes the entries of databases with hubless shards: each leads to the server of its default shard,
    /// where clients are greeted and the catalog is read.
    ///
    /// # Errors
    /// What is wrong with one of them.
    pub fn complete_hubless(&mut self) -> Result<(), String> {
        let entries = self.databases.iter().map(|(name, entry)| (name.as_str(), entry));
        for (name, entry) in entries.chain(self.fallback.as_ref().map(|entry| ("*", entry))) {
            if entry.sharding_function.is_none() {
                match entry.without_function() {
                    Some(key) => return Err(format!("database {name}: {key} needs sharding_function")),
                    None => continue,
                }
            }
            self.check_hubless(name, entry).map_err(|why| format!("database {name}: {why}"))?;
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

    fn check_hubless(&self, name: &str, entry: &Database) -> Result<(), String> {
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
            return Err(format!("it cannot have {key} beside sharding_function: its shards have places of their own"));
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
