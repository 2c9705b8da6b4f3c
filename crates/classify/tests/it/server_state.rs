//! What differs between servers by nature is asked of the primary: by the catalog and by lists.

use crate::catalog::{judge, summary};

#[test]
fn what_differs_between_servers_is_no_read() {
    for (sql, expected) in [
        ("SELECT gid FROM pg_prepared_xacts WHERE database = 'app'", "Write server_state"),
        ("SELECT last_value FROM s", "Write server_state"),
        ("TABLE s", "Write server_state"),
        ("SELECT 1 FROM accounts a JOIN pg_locks l ON a.id = l.pid", "Write server_state"),
        ("SELECT 1 FROM pg_catalog.pg_locks", "Write server_state"),
        ("SELECT * FROM waiting", "Write server_state"),
        ("SELECT * FROM pg_settings", "Write server_state"),
        ("SELECT pg_backend_pid()", "Write server_state"),
        ("SELECT pg_is_in_recovery()", "Write server_state"),
        ("SELECT pg_size_pretty(pg_catalog.pg_relation_size('accounts'))", "Write server_state"),
        ("SELECT id FROM accounts WHERE id > pg_stat_get_live_tuples(1)", "Write server_state"),
        ("SELECT pg_last_wal_replay_lsn()", "Write server_state"),
        ("SELECT current_setting('in_hot_standby')", "Write server_state"),
        ("SELECT current_setting('port')::int4", "Write server_state"),
        ("SELECT current_setting('max_connections', true)", "Write server_state"),
        ("SELECT current_setting($1)", "Write server_state"),
        ("SELECT * FROM pg_show_all_settings()", "Write server_state"),
        ("SELECT * FROM fast", "Write unlogged_table"),
        ("COPY (SELECT * FROM pg_locks) TO STDOUT", "Copy utility"),
        // What sessions bring along, and what is in tables.
        ("SELECT current_setting('TimeZone'), current_setting('search_path', true)", "Read ro fast"),
        ("SELECT current_setting('app.tenant')", "Read ro fast"),
        ("SELECT * FROM tenants", "Read ro fast"),
        ("SELECT * FROM pg_tables", "Read ro system_view"),
        ("SELECT * FROM pg_class", "Read ro fast"),
        ("SELECT * FROM mine.pg_locks", "Read ro fast"),
    ] {
        assert_eq!(summary(&judge(sql)), expected, "{sql}");
    }
}

#[test]
fn parameters_of_servers_and_of_sessions() {
    for name in ["port", "in_hot_standby", "max_connections", "transaction_read_only", "all", "work_mem"] {
        assert!(classify::server_state::parameter(name), "{name}");
    }
    for name in ["TimeZone", "search_path", "role", "app.tenant"] {
        assert!(!classify::server_state::parameter(name), "{name}");
    }
}
