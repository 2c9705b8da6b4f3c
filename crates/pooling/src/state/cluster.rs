//! A worker's knowledge of clusters of servers.

/// The routine of PostgreSQL in which a standby refuses to read an unlogged relation.
pub const UNLOGGED: &str = "get_relation_info";

/// The routine of PostgreSQL in which a standby refuses a transaction that is serializable by a default.
pub const SERIALIZABLE: &str = "GetSerializableTransactionSnapshot";
