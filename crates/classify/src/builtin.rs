//! Functions of PostgreSQL that are more, or less, than their volatility says. Names are searched by bisection, so each
//! list is sorted; a test sees to it.

/// What a function of this name does, in whatever schema it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    /// Takes an advisory lock that the session keeps.
    Locks,
    /// Leaves something else that the session keeps.
    Pins,
    /// Releases what the session has kept, if there is anything.
    Releases,
    /// Sets a parameter that it is given the name of.
    Configures,
    /// Changes parameters of the session otherwise.
    Dirties,
    /// Tells the value of a parameter that it is given the name of.
    Tells,
    /// Runs the text that it is given, or relations, though it may be declared stable.
    Runs,
    /// Writes, or fails on a replica, likewise.
    Writes,
}

/// Locks of the session. (The ones of a transaction, `pg_advisory_xact_lock`, are volatile and so writes, no more.)
const LOCKS: &[&str] =
    &["pg_advisory_lock", "pg_advisory_lock_shared", "pg_try_advisory_lock", "pg_try_advisory_lock_shared"];

/// The origin that a session replays for, its backup and its replication slots.
const PINS: &[&str] = &[
    "pg_backup_start",
    "pg_copy_logical_replication_slot",
    "pg_copy_physical_replication_slot",
    "pg_create_logical_replication_slot",
    "pg_create_physical_replication_slot",
    "pg_replication_origin_session_setup",
    "pg_start_backup",
];

/// asyncpg releases all locks each time that a connection goes back to its pool: that binds nothing.
const RELEASES: &[&str] = &[
    "pg_advisory_unlock",
    "pg_advisory_unlock_all",
    "pg_advisory_unlock_shared",
    "pg_backup_stop",
    "pg_replication_origin_session_reset",
    "pg_stop_backup",
];

/// What they leave ends with the session, and nothing else ends it.
const LASTING: &[&str] = &[
    "pg_backup_start",
    "pg_copy_logical_replication_slot",
    "pg_copy_physical_replication_slot",
    "pg_create_logical_replication_slot",
    "pg_create_physical_replication_slot",
    "pg_replication_origin_session_setup",
    "pg_start_backup",
    "setseed",
];

const CONFIGURES: &[&str] = &["set_config"];

const DIRTIES: &[&str] = &["setseed"];

const TELLS: &[&str] = &["current_setting", "pg_show_all_settings"];

/// Run SQL, or read relations (views, so any function), or make values of types that they are given as text.
const RUNS: &[&str] = &[
    "connectby",
    "crosstab",
    "crosstab2",
    "crosstab3",
    "crosstab4",
    "crosstab_hash",
    "cursor_to_xml",
    "cursor_to_xmlschema",
    "database_to_xml",
    "database_to_xml_and_xmlschema",
    "dblink",
    "dblink_exec",
    "pg_input_error_info",
    "pg_input_is_valid",
    "query_to_xml",
    "query_to_xml_and_xmlschema",
    "query_to_xmlschema",
    "schema_to_xml",
    "schema_to_xml_and_xmlschema",
    "table_to_xml",
    "table_to_xml_and_xmlschema",
    "ts_rewrite",
    "ts_stat",
    "xpath_table",
];

/// They give the transaction an id, which a replica refuses.
const WRITES: &[&str] = &["pg_current_xact_id", "txid_current"];

/// Volatile functions of `pg_catalog` that read, may be asked of a replica and leave nothing behind: reads, but not to be
/// pipelined, since they wait, or differ from call to call.
const READS: &[&str] = &[
    "clock_timestamp",
    "gen_random_uuid",
    "pg_column_compression",
    "pg_column_size",
    "pg_sleep",
    "pg_sleep_for",
    "pg_sleep_until",
    "pg_timezone_abbrevs",
    "pg_timezone_names",
    "random",
    "random_normal",
    "timeofday",
    "uuidv4",
    "uuidv7",
];

/// What a function of this name does beyond its volatility.
pub fn act(name: &str) -> Option<Act> {
    [
        (LOCKS, Act::Locks),
        (PINS, Act::Pins),
        (RELEASES, Act::Releases),
        (CONFIGURES, Act::Configures),
        (DIRTIES, Act::Dirties),
        (TELLS, Act::Tells),
        (RUNS, Act::Runs),
        (WRITES, Act::Writes),
    ]
    .into_iter()
    .find(|(names, _)| names.binary_search(&name).is_ok())
    .map(|(_, act)| act)
}

/// Whether what a function of this name leaves in its session is undone by nothing but the session's end.
pub fn lasts(name: &str) -> bool {
    LASTING.binary_search(&name).is_ok()
}

/// Whether a volatile function of `pg_catalog` is a read that a replica can answer.
pub fn reads(name: &str) -> bool {
    READS.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted() {
        for list in [LOCKS, PINS, RELEASES, LASTING, CONFIGURES, DIRTIES, TELLS, RUNS, WRITES, READS] {
            assert!(list.is_sorted(), "{list:?}");
        }
    }
}
