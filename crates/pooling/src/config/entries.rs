//! The keys of `[databases]` and `[users]`, once: their names, types and meanings. The files' readers and the reference
//! page use these tables.

use std::collections::BTreeMap;

use balancer::{Setup, Strategy};
use classify::Consistency;
use sharding::Function;

use super::servers::{DefaultRole, PrimaryReads};
use super::shards::{DefaultShard, Pattern};
use super::value::{HostOrder, List, PoolMode, Seconds, Value};

/// A key as people see it.
#[derive(Debug, Clone, Copy)]
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What it means.
    pub meaning: &'static str,
}

/// A field that a file may give.
trait Field {
    fn give(&mut self, text: &str) -> Result<(), &'static str>;
}

impl<T: Value> Field for Option<T> {
    fn give(&mut self, text: &str) -> Result<(), &'static str> {
        *self = Some(T::read(text)?);
        Ok(())
    }
}

impl Field for Vec<String> {
    fn give(&mut self, text: &str) -> Result<(), &'static str> {
        *self = List::read(text)?.0;
        Ok(())
    }
}

macro_rules! entry {
    (
        $(#[doc = $title:literal])+
        $entry:ident {
            $($(#[doc = $doc:literal])+ $field:ident: $type:ty = $key:literal $(| $other:literal)*;)+
        }
        also { $($(#[doc = $also_doc:literal])+ $also:ident: $also_type:ty;)+ }
    ) => {
        $(#[doc = $title])+
        #[derive(Debug, Clone, PartialEq, Default)]
        pub struct $entry {
            $($(#[doc = $doc])+ pub $field: $type,)+
            $($(#[doc = $also_doc])+ pub $also: $also_type,)+
        }

        impl $entry {
            /// Its keys in files.
            pub const KEYS: &'static [Key] = &[$(Key { name: $key, meaning: concat!($($doc, "\n",)+) },)+];

            /// The names of its keys, former ones too.
            pub fn names() -> impl Iterator<Item = &'static str> {
                [$($key, $($other,)*)+].into_iter()
            }

            /// Gives a key a value: `None` for a name that is not a key, an error that says what is expected.
            pub fn set(&mut self, name: &str, value: &str) -> Option<Result<(), &'static str>> {
                match name {
                    $($key $(| $other)* => Some(self.$field.give(value)),)+
                    _ => None,
                }
            }
        }
    };
}

entry! {
    /// One entry of `[databases]`.
    Database {
        /// Addresses or names of servers, comma-separated; starting with `/`: a Unix socket's folder; none: `unix_socket_dir`.
        hosts: Vec<String> = "host";
        /// The port; 5432 by default.
        port: Option<u16> = "port";
        /// The database's name on the server; by default the name of the entry.
        dbname: Option<String> = "dbname";
        /// The user for all server connections, instead of the client's user.
        user: Option<String> = "user";
        /// The password for the server.
        password: Option<String> = "password";
        /// `auth_user` for this database.
        auth_user: Option<String> = "auth_user";
        /// `auth_query` for this database.
        auth_query: Option<String> = "auth_query";
        /// `auth_dbname` for this database.
        auth_dbname: Option<String> = "auth_dbname";
        /// `default_pool_size` for this database.
        pool_size: Option<usize> = "pool_size";
        /// `min_pool_size` for this database. With `user`, the pool is filled before the first client connects.
        min_pool_size: Option<usize> = "min_pool_size";
        /// `reserve_pool_size` for this database.
        reserve_pool_size: Option<usize> = "reserve_pool_size" | "reserve_pool";
        /// `pool_mode` for this database.
        pool_mode: Option<PoolMode> = "pool_mode";
        /// `max_db_connections` for this database.
        max_db_connections: Option<usize> = "max_db_connections";
        /// `max_db_client_connections` for this database.
        max_db_client_connections: Option<usize> = "max_db_client_connections";
        /// `query_wait_timeout` for this database, in seconds.
        query_wait_timeout: Option<Seconds> = "query_wait_timeout";
        /// `server_lifetime` for this database, in seconds.
        server_lifetime: Option<Seconds> = "server_lifetime";
        /// The order in which several hosts are used: with `round-robin` each new connection goes to the next host;
        /// with `disable`, to the first host that works.
        load_balance_hosts: Option<HostOrder> = "load_balance_hosts";
        /// `client_encoding` on server connections.
        client_encoding: Option<String> = "client_encoding";
        /// `DateStyle` on server connections.
        datestyle: Option<String> = "datestyle";
        /// `TimeZone` on server connections.
        timezone: Option<String> = "timezone";
        /// The SQL that is run on each new server connection. If it fails, the connection is closed, and clients get its error.
        connect_query: Option<String> = "connect_query";
        /// `load_balancing` for this database.
        load_balancing: Option<Strategy> = "load_balancing";
        /// `primary_reads` for this database.
        primary_reads: Option<PrimaryReads> = "primary_reads";
        /// `read_write_splitting` for this database.
        read_write_splitting: Option<bool> = "read_write_splitting";
        /// `default_role` for this database.
        default_role: Option<DefaultRole> = "default_role";
        /// `read_your_writes` for this database.
        read_your_writes: Option<Consistency> = "read_your_writes";
        /// `max_replica_lag_bytes` for this database.
        max_replica_lag_bytes: Option<usize> = "max_replica_lag_bytes";
        /// `max_replica_lag` for this database, in seconds.
        max_replica_lag: Option<Seconds> = "max_replica_lag";
        /// `ban_time` for this database, in seconds.
        ban_time: Option<Seconds> = "ban_time";
        /// `healthcheck_interval` for this database, in seconds.
        healthcheck_interval: Option<Seconds> = "healthcheck_interval";
        /// `healthcheck_timeout` for this database, in seconds.
        healthcheck_timeout: Option<Seconds> = "healthcheck_timeout";
        /// `monitor_user` for this database.
        monitor_user: Option<String> = "monitor_user";
        /// The entries of the shards of this database, comma-separated, each under the name that the shard has in
        /// `howdah_shards.shards`; the entry itself leads to the hub. With `sharding_function` there is no hub: the shards
        /// are numbered from 0 on in this order, and the entry has no server of its own.
        shards: Vec<String> = "shards";
        /// Whether the hub runs writes that are not of one shard, such as COPY into a sharded table, where they are refused
        /// otherwise. Such a write is not atomic: if a server fails while it is committed, some shards have it and others not.
        multi_shard_writes: Option<bool> = "multi_shard_writes";
        /// How a key's shard is found where there is no hub: `pg_bigint_hash`, as PostgreSQL chooses the partition by hash
        /// of the same modulus, or `sha1`.
        sharding_function: Option<Function> = "sharding_function";
        /// The shard of statements for which none is chosen: `shard_0` (by default) or another number, `random`, or
        /// `random_healthy`, which avoids shards that have failed of late. For databases with `sharding_function`.
        default_shard: Option<DefaultShard> = "default_shard";
        /// The key by whose value statements are sent to a shard: `table.column`, or `*.column` for every table that has
        /// the column. For databases with `sharding_function`.
        automatic_sharding_key: Option<String> = "automatic_sharding_key";
        /// A regular expression whose first group is the number of a shard, to be searched for in statements. For
        /// databases with `sharding_function`.
        shard_id_regex: Option<Pattern> = "shard_id_regex";
        /// A regular expression whose first group is a sharding key, an integer. For databases with `sharding_function`.
        sharding_key_regex: Option<Pattern> = "sharding_key_regex";
        /// The number of bytes of a statement in which the regular expressions are searched for; 1000 by default.
        regex_search_limit: Option<usize> = "regex_search_limit";
    }
    also {
        /// A primary and its replicas, which are watched and found out; empty where `hosts` says it all.
        servers: Vec<Setup>;
        /// Whether the entry is the one for all names that have none (`*`).
        wildcard: bool;
        /// The only users whom it admits, where a file lists the users of each pool.
        admits: Option<Vec<String>>;
    }
}

entry! {
    /// One entry of `[users]`.
    User {
        /// `pool_mode` for this user.
        pool_mode: Option<PoolMode> = "pool_mode";
        /// `default_pool_size` for this user.
        pool_size: Option<usize> = "pool_size";
        /// `reserve_pool_size` for this user.
        reserve_pool_size: Option<usize> = "reserve_pool_size";
        /// `max_user_connections` for this user.
        max_user_connections: Option<usize> = "max_user_connections";
        /// `max_user_client_connections` for this user.
        max_user_client_connections: Option<usize> = "max_user_client_connections";
        /// `query_timeout` for this user, in seconds.
        query_timeout: Option<Seconds> = "query_timeout";
        /// `transaction_timeout` for this user, in seconds.
        transaction_timeout: Option<Seconds> = "transaction_timeout";
        /// `idle_transaction_timeout` for this user, in seconds.
        idle_transaction_timeout: Option<Seconds> = "idle_transaction_timeout";
        /// `query_wait_timeout` for this user, in seconds.
        query_wait_timeout: Option<Seconds> = "query_wait_timeout";
        /// `client_idle_timeout` for this user, in seconds.
        client_idle_timeout: Option<Seconds> = "client_idle_timeout";
    }
    also {
        /// Pool sizes by database, where a file gives them for each pair.
        pool_sizes: BTreeMap<String, usize>;
    }
}

impl Database {
    /// Whether a user may use it.
    pub fn admits(&self, user: &str) -> bool {
        self.admits.as_ref().is_none_or(|users| users.iter().any(|other| other == user))
    }

    /// In which order its hosts are used, when it has several.
    pub fn shown_host_order(&self) -> Option<String> {
        (self.hosts.len() > 1).then(|| self.load_balance_hosts.unwrap_or(HostOrder::RoundRobin).show())
    }
}
