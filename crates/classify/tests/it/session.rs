//! Statements that are no queries: transactions, parameters of the session, cursors, COPY, EXPLAIN, definitions, and
//! several statements in one text.

use classify::{Command, Discard, Isolation, Kind, Modes, Role, Route, Set, Value};

use crate::catalog::{classifier, judge, summary};

fn kind(sql: &str) -> Kind {
    judge(sql).kind
}

#[test]
fn every_kind_of_statement() {
    let cases = [
        ("SHOW search_path", "Show session_state"),
        ("SHOW ALL", "Show session_state"),
        ("SET a.b = 1", "Set session_state"),
        ("SET search_path = pg_temp, public", "Set session_state pins"),
        ("RESET ALL", "Reset session_state"),
        ("DISCARD ALL", "Discard session_state"),
        ("PREPARE p AS SELECT 1", "Prepare session_state pins"),
        ("EXECUTE p(1)", "Execute session_state"),
        ("DEALLOCATE p", "Deallocate session_state"),
        ("DECLARE c CURSOR FOR SELECT 1", "Declare ro session_state"),
        ("DECLARE c CURSOR FOR SELECT * FROM accounts FOR UPDATE", "Declare session_state"),
        ("DECLARE c CURSOR WITH HOLD FOR SELECT 1", "Declare ro session_state pins"),
        ("FETCH 1 FROM c", "Fetch session_state"),
        ("MOVE ALL IN c", "Fetch session_state"),
        ("CLOSE c", "Close session_state"),
        ("LISTEN c", "Listen session_state pins"),
        ("UNLISTEN *", "Unlisten session_state"),
        ("NOTIFY c, 'x'", "Notify write"),
        ("LOCK TABLE accounts IN SHARE MODE", "Lock locking_clause"),
        ("LOAD 'x'", "Utility session_state pins"),
        ("DO $$ BEGIN PERFORM 1; END $$", "Write write dirties ddl"),
        ("CALL p(1)", "Write write dirties ddl"),
        ("BEGIN", "Begin transaction_control transaction"),
        ("PREPARE TRANSACTION 'x'", "TwoPhase transaction_control transaction"),
        ("COMMIT PREPARED 'x'", "TwoPhase transaction_control transaction"),
        ("EXPLAIN SELECT * FROM accounts", "Explain ro utility"),
        ("EXPLAIN ANALYZE SELECT * FROM accounts", "Explain ro utility"),
        ("EXPLAIN (ANALYZE, BUFFERS off) SELECT nextval('s')", "Explain utility"),
        ("EXPLAIN ANALYZE DELETE FROM accounts", "Explain utility"),
        ("EXPLAIN DELETE FROM accounts", "Explain utility"),
        ("EXPLAIN ANALYZE SELECT pg_advisory_lock(1)", "Explain utility pins"),
        ("EXPLAIN ANALYZE CREATE TEMP TABLE x AS SELECT 1", "Explain utility pins ddl"),
        ("COPY accounts FROM STDIN", "Copy write"),
        ("COPY accounts TO STDOUT", "Copy ro utility"),
        ("COPY accounts TO STDOUT WITH (FORMAT csv, DELIMITER ';')", "Copy ro utility"),
        ("COPY (SELECT 1) TO STDOUT", "Copy ro utility"),
        ("COPY (SELECT nextval('s')) TO STDOUT", "Copy utility"),
        ("COPY (DELETE FROM accounts RETURNING *) TO STDOUT", "Copy utility"),
        ("COPY bad TO STDOUT", "Copy utility"),
        ("COPY accounts TO '/tmp/x'", "Copy write"),
        ("COPY (SELECT 1) TO '/tmp/x'", "Copy write"),
        ("COPY (SELECT 1 AS stdout) TO E'/tmp/x'", "Copy write"),
        ("COPY accounts TO PROGRAM 'cat'", "Copy write"),
        ("COPY accounts FROM '/tmp/x'", "Copy write"),
        ("CREATE TABLE x (a int)", "Utility utility ddl"),
        ("CREATE TEMP TABLE x (a int)", "Utility utility pins ddl"),
        ("CREATE TABLE pg_temp.x (a int)", "Utility utility pins ddl"),
        ("CREATE TEMP TABLE x (a int) ON COMMIT DROP", "Utility utility ddl"),
        ("CREATE TEMP TABLE x ON COMMIT DROP AS SELECT 1", "Utility utility ddl"),
        ("CREATE TEMPORARY TABLE x AS SELECT 1", "Utility utility pins ddl"),
        ("CREATE TEMP VIEW x AS SELECT 1", "Utility utility pins ddl"),
        ("CREATE TEMP SEQUENCE x", "Utility utility pins ddl"),
        ("CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT 1'", "Utility utility pins ddl"),
        ("CREATE OR REPLACE VIEW x AS SELECT 1", "Utility utility ddl"),
        ("CREATE MATERIALIZED VIEW x AS SELECT 1", "Utility utility ddl"),
        ("CREATE INDEX CONCURRENTLY ON accounts (id)", "Utility utility ddl"),
        ("CREATE EXTENSION pgml", "Utility utility ddl"),
        ("ALTER FUNCTION f() VOLATILE", "Utility utility ddl"),
        ("DROP TABLE accounts", "Utility utility ddl"),
        ("GRANT SELECT ON accounts TO somebody", "Utility utility ddl"),
        ("ALTER SYSTEM SET work_mem = '1MB'", "Utility utility ddl"),
        ("IMPORT FOREIGN SCHEMA x FROM SERVER y INTO z", "Utility utility ddl"),
        ("TRUNCATE accounts", "Utility utility"),
        ("VACUUM accounts", "Utility utility"),
        ("ANALYZE accounts", "Utility utility"),
        ("REINDEX TABLE accounts", "Utility utility"),
        ("CLUSTER accounts", "Utility utility"),
        ("CHECKPOINT", "Utility utility"),
        ("REFRESH MATERIALIZED VIEW x", "Utility utility"),
        ("SET CONSTRAINTS ALL DEFERRED", "Utility utility"),
        ("COMMENT ON TABLE accounts IS 'x'", "Utility utility"),
    ];
    let mut wrong = Vec::new();
    for (sql, expected) in cases {
        let found = summary(&judge(sql));
        if found != expected {
            wrong.push(format!("{sql}\n    is {found}\n    not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn transactions() {
    let read_only = Modes { read_only: Some(true), ..Modes::default() };
    let isolation = |isolation| Modes { isolation: Some(isolation), ..Modes::default() };
    for (sql, expected) in [
        ("BEGIN", Kind::Begin(Modes::default())),
        ("BEGIN WORK", Kind::Begin(Modes::default())),
        ("START TRANSACTION", Kind::Begin(Modes::default())),
        ("BEGIN READ ONLY", Kind::Begin(read_only)),
        ("begin transaction read only", Kind::Begin(read_only)),
        ("START TRANSACTION READ ONLY", Kind::Begin(read_only)),
        ("BEGIN READ WRITE", Kind::Begin(Modes { read_only: Some(false), ..Modes::default() })),
        // The server takes the last.
        ("BEGIN READ ONLY, READ WRITE", Kind::Begin(Modes { read_only: Some(false), ..Modes::default() })),
        ("BEGIN ISOLATION LEVEL READ UNCOMMITTED", Kind::Begin(isolation(Isolation::ReadUncommitted))),
        ("BEGIN ISOLATION LEVEL READ COMMITTED", Kind::Begin(isolation(Isolation::ReadCommitted))),
        ("BEGIN ISOLATION LEVEL REPEATABLE READ", Kind::Begin(isolation(Isolation::RepeatableRead))),
        (
            "BEGIN ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE",
            Kind::Begin(Modes {
                read_only: Some(true),
                isolation: Some(Isolation::Serializable),
                deferrable: Some(true),
            }),
        ),
        ("BEGIN NOT DEFERRABLE", Kind::Begin(Modes { deferrable: Some(false), ..Modes::default() })),
        ("SET TRANSACTION READ ONLY", Kind::SetTransaction(read_only)),
        ("COMMIT", Kind::Commit { chain: false }),
        ("END", Kind::Commit { chain: false }),
        ("COMMIT AND CHAIN", Kind::Commit { chain: true }),
        ("COMMIT AND NO CHAIN", Kind::Commit { chain: false }),
        ("ROLLBACK", Kind::Rollback { chain: false }),
        ("ABORT AND CHAIN", Kind::Rollback { chain: true }),
        ("SAVEPOINT \"A b\"", Kind::Savepoint("A b".into())),
        ("ROLLBACK TO a", Kind::RollbackTo("a".into())),
        ("ROLLBACK TO SAVEPOINT a", Kind::RollbackTo("a".into())),
        ("RELEASE a", Kind::Release("a".into())),
    ] {
        assert_eq!(kind(sql), expected, "{sql}");
    }
}

#[test]
fn parameters_keep_their_values() {
    let text = |value: &str| Value::Text(value.to_owned());
    for (sql, name, local, value) in [
        ("SET work_mem = '64MB'", "work_mem", false, text("64MB")),
        ("SET Work_Mem TO 64", "work_mem", false, text("64")),
        ("SET SESSION work_mem TO 64", "work_mem", false, text("64")),
        ("SET LOCAL statement_timeout = 0", "statement_timeout", true, text("0")),
        ("SET seed TO -1", "seed", false, text("-1")),
        ("SET seed TO 0.5", "seed", false, text("0.5")),
        ("SET enable_sort = on", "enable_sort", false, text("on")),
        ("SET enable_sort = true", "enable_sort", false, text("true")),
        ("SET a.b = 'it''s'", "a.b", false, text("it's")),
        ("SET a.b = E'a\\nb'", "a.b", false, text("a\nb")),
        ("SET a.b = $tag$it's$tag$", "a.b", false, text("it's")),
        ("SET work_mem TO DEFAULT", "work_mem", false, Value::Default),
        ("SET search_path TO a, \"B\", 'c'", "search_path", false, text("a, B, c")),
        ("SET NAMES 'latin1'", "client_encoding", false, text("latin1")),
        ("SET TIME ZONE 'UTC'", "timezone", false, text("UTC")),
        ("SET TIME ZONE LOCAL", "timezone", false, Value::Default),
        ("SET TIME ZONE INTERVAL '1' HOUR TO MINUTE", "timezone", false, Value::Other),
        ("SET ROLE somebody", "role", false, text("somebody")),
        ("SET SESSION AUTHORIZATION DEFAULT", "session_authorization", false, Value::Default),
        ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", "session characteristics", false, Value::Other),
    ] {
        let Kind::Set(set) = kind(sql) else { panic!("{sql}: {:?}", kind(sql)) };
        let Set { name: found, local: is_local, value: of, statement } = &set;
        assert_eq!((found.as_str(), *is_local, of), (name, local, &value), "{sql}");
        // What is done again on another server means the same there.
        assert_eq!(kind(statement), Kind::Set(set.clone()), "{sql}: {statement}");
    }
    let mut classifier = classifier();
    let Kind::Set(set) = &classifier.classify(b"SET a.b = 'x\\ty'", false).kind else { panic!() };
    assert_eq!(set.value, text("x\ty"));
    assert_eq!(set.statement, "set a . b = e'x\\ty'");
    let Kind::Set(set) = &classifier.classify(b"SET a.b = 'x\\ty'", true).kind else { panic!() };
    assert_eq!(set.value, text("x\\ty"));
    assert_eq!(kind("RESET Work_Mem"), Kind::Reset { name: Some("work_mem".into()) });
    assert_eq!(kind("RESET ALL"), Kind::Reset { name: None });
    assert_eq!(kind("SHOW Work_Mem"), Kind::Show("work_mem".into()));
}

#[test]
fn names_of_what_the_session_holds() {
    for (sql, expected) in [
        ("DISCARD ALL", Kind::Discard(Discard::All)),
        ("DISCARD PLANS", Kind::Discard(Discard::Plans)),
        ("DISCARD SEQUENCES", Kind::Discard(Discard::Sequences)),
        ("DISCARD TEMP", Kind::Discard(Discard::Temp)),
        ("DISCARD TEMPORARY", Kind::Discard(Discard::Temp)),
        ("PREPARE \"P\" (int) AS SELECT $1", Kind::Prepare("P".into())),
        ("EXECUTE P(1, 'x')", Kind::Execute("p".into())),
        ("DEALLOCATE PREPARE p", Kind::Deallocate(Some("p".into()))),
        ("DEALLOCATE ALL", Kind::Deallocate(None)),
        ("DECLARE c SCROLL CURSOR WITH HOLD FOR SELECT 1", Kind::Declare { name: "c".into(), hold: true }),
        ("DECLARE c BINARY CURSOR WITHOUT HOLD FOR SELECT 1", Kind::Declare { name: "c".into(), hold: false }),
        ("FETCH FORWARD 5 FROM c", Kind::Fetch("c".into())),
        ("CLOSE c", Kind::Close(Some("c".into()))),
        ("CLOSE ALL", Kind::Close(None)),
        ("LISTEN \"C\"", Kind::Listen("C".into())),
        ("UNLISTEN c", Kind::Unlisten(Some("c".into()))),
        ("UNLISTEN *", Kind::Unlisten(None)),
        ("COPY accounts FROM STDIN", Kind::Copy { from: true, wire: true }),
        ("COPY accounts TO STDOUT", Kind::Copy { from: false, wire: true }),
        ("COPY accounts FROM 'f'", Kind::Copy { from: true, wire: false }),
        ("COPY accounts TO $$f$$", Kind::Copy { from: false, wire: false }),
    ] {
        assert_eq!(kind(sql), expected, "{sql}");
    }
}

#[test]
fn commands_to_the_pooler() {
    for (sql, expected) in [
        ("SET SERVER ROLE TO 'primary'", Command::SetServerRole(Role::Primary)),
        ("set server role = REPLICA;", Command::SetServerRole(Role::Replica)),
        ("SET SERVER ROLE TO 'any'", Command::SetServerRole(Role::Any)),
        ("SET SERVER ROLE TO 'AUTO'", Command::SetServerRole(Role::Auto)),
        ("SET SERVER ROLE TO default", Command::SetServerRole(Role::Default)),
        ("SHOW SERVER ROLE", Command::ShowServerRole),
        ("SET PRIMARY READS TO on", Command::SetPrimaryReads(Some(true))),
        ("SET PRIMARY READS TO 'off'", Command::SetPrimaryReads(Some(false))),
        ("SET PRIMARY READS TO 'default'", Command::SetPrimaryReads(None)),
        ("SHOW PRIMARY READS", Command::ShowPrimaryReads),
    ] {
        let verdict = judge(sql);
        assert_eq!(verdict.kind, Kind::Pooler(expected), "{sql}");
        assert!(!verdict.read_only && verdict.pipelinable.is_err(), "{sql}");
    }
    let mut classifier = classifier();
    let verdict = classifier.classify(b"SET SERVER ROLE TO 'primary'", false);
    assert_eq!(verdict.kind, Kind::Pooler(Command::SetServerRole(Role::Primary)));
    for sql in ["SET SERVER ROLE TO 'x'", "SET SERVER ROLE TO 'any' 'any'"] {
        assert_eq!(summary(&judge(sql)), "Write unparsable dirties", "{sql}");
    }
}

#[test]
fn several_statements_are_the_worst_of_them() {
    for (sql, statements, expected) in [
        ("SELECT 1; SELECT 2", 2, "Read ro multi_statement"),
        ("SELECT 1;; ;SELECT 2;", 2, "Read ro multi_statement"),
        ("SELECT 1; EXPLAIN SELECT 2", 2, "Read ro multi_statement"),
        ("SELECT 1; DELETE FROM accounts", 2, "Write multi_statement"),
        ("DELETE FROM accounts; SELECT 1", 2, "Write multi_statement"),
        ("SELECT 1; SELECT nowhere()", 2, "Write multi_statement stale"),
        ("BEGIN; SELECT 1; COMMIT", 3, "Write multi_statement transaction"),
        ("SELECT 1; SET a.b = 1", 2, "Write multi_statement dirties"),
        ("SET a.b = 1; SELECT 1", 2, "Write multi_statement dirties"),
        ("SELECT 1; SHOW ALL", 2, "Write multi_statement"),
        ("SELECT 1; COPY accounts TO STDOUT", 2, "Write multi_statement"),
        ("SELECT 1; LISTEN x", 2, "Write multi_statement pins dirties"),
        ("SELECT 1; CREATE TABLE x ()", 2, "Write multi_statement ddl"),
    ] {
        let verdict = judge(sql);
        assert_eq!((verdict.statements, summary(&verdict).as_str()), (statements, expected), "{sql}");
    }
}

#[test]
fn routing_comments() {
    for (sql, expected) in [
        ("SELECT 1", None),
        ("/* howdah: primary */ SELECT 1", Some(Route::Primary)),
        ("/*HOWDAH:Replica*/SELECT 1", Some(Route::Replica)),
        ("SELECT 1 -- howdah: any", Some(Route::Any)),
        ("-- howdah: primary\r\nSELECT 1", Some(Route::Primary)),
        ("/* pgdog_role: replica */ SELECT 1", Some(Route::Replica)),
        ("SELECT 1 /* howdah: primary */ /* howdah: replica */", Some(Route::Primary)),
        ("/* howdah: moon */ SELECT 1", None),
        ("/* not howdah: primary */ SELECT 1", None),
        ("SELECT '/* howdah: primary */'", None),
        ("SELECT $$-- howdah: primary\n$$", None),
        ("SELECT \"/* howdah: primary */\" FROM accounts", None),
        ("/* a /* howdah: primary */ b */ SELECT 1", None),
        ("/* howdah: replica */ SELECT 'unclosed", Some(Route::Replica)),
        ("/* howdah: replica */ SELEC 1", Some(Route::Replica)),
        ("/* howdah: replica */ SELECT U&'a'", Some(Route::Replica)),
    ] {
        assert_eq!(judge(sql).route, expected, "{sql}");
    }
    let mut classifier = classifier();
    let mut shape = |sql: &str| classifier.classify(sql.as_bytes(), true).shape;
    let plain = shape("SELECT 1");
    assert_eq!(plain, shape("SELECT /* other */ 2"));
    assert_ne!(plain, shape("SELECT /* howdah: primary */ 2"));
    assert_ne!(shape("/* howdah: replica */ SELECT 1"), shape("/* howdah: primary */ SELECT 1"));
    assert_eq!(shape("SELECT 1 -- howdah: primary"), shape("/* howdah: primary */ SELECT 1"));
}
