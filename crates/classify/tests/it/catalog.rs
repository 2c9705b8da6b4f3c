//! A small database for the tests: rows as `Catalog::QUERY` makes them.

use std::sync::Arc;

use classify::{Catalog, Classifier, Kind, Verdict};

/// Functions of `pg_catalog`: name and flag.
const FUNCTIONS: &[(&str, &str)] = &[
    ("abs", "i1"),
    ("array_agg", "s1"),
    ("clock_timestamp", "v"),
    ("count", "i1"),
    ("current_setting", "s1"),
    ("currval", "v1"),
    ("date_part", "s"),
    ("extract", "s"),
    ("generate_series", "i"),
    ("json_agg", "s1"),
    ("lastval", "v"),
    ("like_escape", "i"),
    ("lower", "i1"),
    ("max", "i1"),
    ("nextval", "v1"),
    ("now", "s"),
    ("overlaps", "s"),
    ("pg_advisory_lock", "v1"),
    ("pg_advisory_xact_lock", "v1"),
    ("pg_backend_pid", "s"),
    ("pg_is_in_recovery", "v"),
    ("pg_last_wal_replay_lsn", "v"),
    ("pg_relation_size", "v1"),
    ("pg_show_all_settings", "v"),
    ("pg_size_pretty", "i1"),
    ("pg_sleep", "v1"),
    ("pg_stat_get_live_tuples", "s1"),
    ("pg_try_advisory_lock_shared", "v1"),
    ("position", "i"),
    ("query_to_xml", "v"),
    ("random", "v"),
    ("rank", "i1"),
    ("row_number", "i"),
    ("set_config", "v"),
    ("setval", "v"),
    ("similar_to_escape", "i1"),
    ("substring", "i"),
    ("sum", "i1"),
    ("table_to_xml", "s"),
    ("timezone", "i"),
    ("txid_current", "s"),
    ("unnest", "i1"),
    ("upper", "i1"),
    ("version", "s"),
    ("xmlexists", "i"),
];

const OPERATORS: &[&str] = &[
    "=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "^", "||", "~~", "!~~", "~~*", "!~~*", "~", "->", "->>",
    "@>", "&&",
];

const TYPES: &[&str] = &[
    "bit",
    "bool",
    "bpchar",
    "date",
    "float8",
    "int2",
    "int4",
    "int8",
    "interval",
    "json",
    "jsonb",
    "numeric",
    "regclass",
    "text",
    "time",
    "timestamp",
    "timestamptz",
    "varbit",
    "varchar",
    "xml",
];

const OTHERS: &[[&str; 5]] = &[
    ["function", "pgml", "predict", "s", ""],
    ["function", "pgml", "train", "v", ""],
    ["function", "a", "mixed", "i1", ""],
    ["function", "b", "mixed", "v1", ""],
    // Somebody's own function of a name that the system's reads have.
    ["function", "b", "pg_sleep", "v1", ""],
    ["function", "public", "loud_column", "v1", ""],
    ["function", "public", "quiet_column", "s1", ""],
    ["operator", "", "<!>", "v", ""],
    ["type", "public", "mood", "plain", ""],
    ["type", "public", "loud", "unsafe", ""],
    ["type", "public", "percent", "plain", "SELECT NULL::integer, (VALUE <= 100)"],
    ["type", "public", "counted", "plain", "SELECT NULL::integer, (VALUE < nextval('s'::regclass))"],
    ["relation", "public", "accounts", "plain", ""],
    ["relation", "public", "history", "plain", ""],
    ["relation", "public", "s", "sequence", ""],
    ["relation", "public", "audited", "plain", ""],
    ["fires", "public", "audited", "public", "note"],
    ["relation", "public", "far", "foreign", ""],
    ["relation", "public", "fast", "unlogged", ""],
    ["relation", "public", "loud_table", "unsafe", ""],
    ["relation", "public", "good", "plain", " SELECT accounts.id FROM accounts WHERE (accounts.id > 0);"],
    ["relation", "public", "better", "plain", " SELECT good.id FROM good;"],
    ["relation", "public", "bad", "plain", " SELECT nextval('s'::regclass) AS n;"],
    ["relation", "public", "worse", "plain", " SELECT bad.n FROM bad;"],
    ["relation", "public", "locked", "plain", " SELECT accounts.id FROM accounts FOR UPDATE;"],
    ["relation", "public", "odd", "plain", "gone"],
    ["relation", "public", "guarded", "plain", "SELECT (owner = CURRENT_USER)"],
    ["relation", "public", "tenants", "plain", "SELECT (owner = current_setting('app.tenant'::text))"],
    ["relation", "public", "trapped", "plain", "SELECT (pgml.train(owner))"],
    ["relation", "a", "twice", "plain", ""],
    ["relation", "b", "twice", "plain", " SELECT pgml.train('x'::text);"],
    ["relation", "pg_catalog", "pg_class", "plain", ""],
    ["relation", "pg_catalog", "pg_locks", "system", ""],
    ["relation", "pg_catalog", "pg_prepared_xacts", "system", ""],
    ["relation", "pg_catalog", "pg_settings", "system", ""],
    ["relation", "pg_catalog", "pg_tables", "system", ""],
    ["relation", "public", "waiting", "plain", " SELECT pid FROM pg_locks WHERE NOT granted;"],
    ["relation", "mine", "pg_locks", "plain", ""],
    ["relation", "pg_catalog", "pg_stat_activity", "system", ""],
];

/// The catalog of a server of this version.
pub fn catalog(version: &str) -> Arc<Catalog> {
    let mut rows = vec![["version", "", version, "", ""]];
    rows.extend(FUNCTIONS.iter().map(|(name, flag)| ["function", "pg_catalog", name, flag, ""]));
    rows.extend(OPERATORS.iter().map(|name| ["operator", "", name, "i", ""]));
    rows.extend(TYPES.iter().map(|name| ["type", "pg_catalog", name, "plain", ""]));
    rows.extend(OTHERS);
    Arc::new(Catalog::from_rows(rows).unwrap())
}

/// A classifier for it.
pub fn classifier() -> Classifier {
    let mut classifier = Classifier::new(1000);
    classifier.set_catalog(catalog("180001"));
    classifier
}

/// The verdict on one text.
pub fn judge(sql: &str) -> Verdict {
    classifier().classify(sql.as_bytes(), true).as_ref().clone()
}

/// A verdict in words: kind, `ro` if it is read-only, `fast` if it may be pipelined or else why not, flags.
pub fn summary(verdict: &Verdict) -> String {
    let kind = match &verdict.kind {
        Kind::Begin(_) => "Begin".to_owned(),
        kind => format!("{kind:?}").split([' ', '(']).next().unwrap_or_default().to_owned(),
    };
    let mut words = vec![kind];
    words.extend(verdict.read_only.then(|| "ro".to_owned()));
    words.push(match &verdict.pipelinable {
        Ok(()) => "fast".to_owned(),
        Err(reason) => reason.label().to_owned(),
    });
    for (flag, name) in [
        (verdict.pins.any(), "pins"),
        (verdict.dirties, "dirties"),
        (verdict.opaque, "opaque"),
        (verdict.transaction, "transaction"),
        (verdict.is_ddl, "ddl"),
        (verdict.stale, "stale"),
    ] {
        words.extend(flag.then(|| name.to_owned()));
    }
    words.join(" ")
}
