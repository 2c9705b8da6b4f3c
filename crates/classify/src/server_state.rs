//! What differs between a primary and its replicas by nature, however fresh these are: such a question is the primary's
//! to answer. Names are searched by bisection, so each list is sorted; a test sees to it.

/// Functions of `pg_catalog` that tell of the state of a server or a session, beside `pg_stat_get_...`: prepared
/// transactions, replication, locks, processes, recovery, WAL, sizes of files, and what only one session has. (Others
/// are volatile and no known reads, which is enough.)
const FUNCTIONS: &[&str] = &[
    "pg_available_extension_versions",
    "pg_available_extensions",
    "pg_backend_pid",
    "pg_blocking_pids",
    "pg_conf_load_time",
    "pg_config",
    "pg_cursor",
    "pg_database_size",
    "pg_get_backend_memory_contexts",
    "pg_get_replication_slots",
    "pg_get_shmem_allocations",
    "pg_get_wal_replay_pause_state",
    "pg_indexes_size",
    "pg_is_in_recovery",
    "pg_is_other_temp_schema",
    "pg_is_wal_replay_paused",
    "pg_isolation_test_session_is_blocked",
    "pg_last_wal_receive_lsn",
    "pg_last_wal_replay_lsn",
    "pg_last_xact_replay_timestamp",
    "pg_listening_channels",
    "pg_lock_status",
    "pg_my_temp_schema",
    "pg_numa_available",
    "pg_postmaster_start_time",
    "pg_prepared_statement",
    "pg_prepared_xact",
    "pg_relation_size",
    "pg_safe_snapshot_blocking_pids",
    "pg_sequence_last_value",
    "pg_show_all_settings",
    "pg_table_size",
    "pg_tablespace_location",
    "pg_tablespace_size",
    "pg_total_relation_size",
    "pg_walfile_name",
    "pg_walfile_name_offset",
];

/// Views of `pg_catalog` that show tables there and nothing else. All others show the state of a server or a session.
const OF_TABLES: &[&str] = &[
    "pg_group",
    "pg_indexes",
    "pg_matviews",
    "pg_policies",
    "pg_publication_tables",
    "pg_roles",
    "pg_rules",
    "pg_seclabels",
    "pg_shadow",
    "pg_stats",
    "pg_stats_ext",
    "pg_stats_ext_exprs",
    "pg_tables",
    "pg_timezone_abbrevs",
    "pg_timezone_names",
    "pg_user",
    "pg_user_mappings",
    "pg_views",
    "pg_wait_events",
];

/// Parameters that a session brings along to each server. Those with a dot are a user's own, and so too.
const OF_SESSIONS: &[&str] = &[
    "application_name",
    "client_encoding",
    "datestyle",
    "intervalstyle",
    "role",
    "search_path",
    "session_authorization",
    "standard_conforming_strings",
    "timezone",
];

/// Whether a function of this name tells of the state of a server or a session.
pub fn function(name: &str) -> bool {
    name.starts_with("pg_stat_get_") || FUNCTIONS.binary_search(&name).is_ok()
}

/// Whether a view of `pg_catalog` of this name does.
pub fn view(name: &str) -> bool {
    OF_TABLES.binary_search(&name).is_err()
}

/// Whether the value of a parameter of this name may be another on each server.
pub fn parameter(name: &str) -> bool {
    !name.contains('.') && OF_SESSIONS.binary_search(&&*name.to_ascii_lowercase()).is_err()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted() {
        for list in [FUNCTIONS, OF_TABLES, OF_SESSIONS] {
            assert!(list.is_sorted(), "{list:?}");
        }
    }
}
