//! Statements that are no queries: transactions, parameters of the session, cursors, COPY, EXPLAIN, definitions, and
//! several statements in one text.

use classify::{Command, Consistency, Discard, Isolation, Kind, Modes, Role, Route, Set, Value};

use crate::catalog::{classifier, judge, summary};

fn kind(sql: &str) -> Kind {
    judge(sql).kind
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list")]
fn every_kind_of_statement() {
    let cases = [
        ("SHOW search_path", "Show session_state"),
        ("SHOW ALL", "Show session_state"),
        ("SET a.b = 1", "Set session_state"),
        ("SET search_path = pg_temp, public", "Set session_state pins"),
        ("RESET ALL", "Reset session_state"),
        ("DISCARD ALL", "Discard session_state"),
        ("PREPARE p AS SELECT 1", "Prepare session_state pins"),
        ("EXECUTE p(1)", "Execute session_state opaque"),
        ("DEALLOCATE p", "Deallocate session_state opaque"),
        ("DEALLOCATE ALL", "Deallocate session_state"),
        ("SET seed = 0.5", "Set session_state pins"),
        ("CREATE DOMAIN pg_temp.d AS int", "Utility utility pins opaque ddl"),
        ("CREATE STATISTICS pg_temp.s ON a, b FROM t", "Utility utility pins opaque ddl"),
        (
            "CREATE CONVERSION pg_temp.c FOR 'UTF8' TO 'LATIN1' FROM utf8_to_iso8859_1",
            "Utility utility pins opaque ddl",
        ),
        ("CREATE OPERATOR FAMILY pg_temp.f USING btree", "Utility utility pins opaque ddl"),
        ("CREATE OPERATOR CLASS pg_temp.c FOR TYPE int USING btree AS STORAGE int", "Utility utility pins opaque ddl"),
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
        ("DO $$ BEGIN PERFORM 1; END $$", "Write write dirties opaque ddl"),
        ("CALL p(1)", "Write write dirties opaque ddl"),
        ("BEGIN", "Begin transaction_control transaction"),
        ("PREPARE TRANSACTION 'x'", "TwoPhase transaction_control transaction"),
        ("COMMIT PREPARED 'x'", "TwoPhase transaction_control transaction"),
        ("EXPLAIN SELECT * FROM accounts", "Explain ro utility"),
        ("EXPLAIN ANALYZE SELECT * FROM accounts", "Explain ro utility"),
        ("EXPLAIN (ANALYZE, BUFFERS off) SELECT nextval('s')", "Explain utility"),
        ("EXPLAIN ANALYZE DELETE FROM accounts", "Explain utility"),
        ("EXPLAIN DELETE FROM accounts", "Explain utility"),
        ("EXPLAIN ANALYZE SELECT pg_advisory_lock(1)", "Explain utility pins"),
        ("EXPLAIN ANALYZE CREATE TEMP TABLE x AS SELECT 1", "Explain utility pins opaque ddl"),
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
        ("CREATE TABLE x (a int)", "Utility utility opaque ddl"),
        ("CREATE TEMP TABLE x (a int)", "Utility utility pins opaque ddl"),
        ("CREATE TABLE pg_temp.x (a int)", "Utility utility pins opaque ddl"),
        ("CREATE TEMP TABLE x (a int) ON COMMIT DROP", "Utility utility opaque ddl"),
        ("CREATE TEMP TABLE x ON COMMIT DROP AS SELECT 1", "Utility utility opaque ddl"),
        ("CREATE TEMPORARY TABLE x AS SELECT 1", "Utility utility pins opaque ddl"),
        ("CREATE TEMP VIEW x AS SELECT 1", "Utility utility pins opaque ddl"),
        ("CREATE TEMP SEQUENCE x", "Utility utility pins opaque ddl"),
        ("CREATE FUNCTION pg_temp.f() RETURNS int LANGUAGE sql AS 'SELECT 1'", "Utility utility pins opaque ddl"),
        ("CREATE OR REPLACE VIEW x AS SELECT 1", "Utility utility opaque ddl"),
        ("CREATE MATERIALIZED VIEW x AS SELECT 1", "Utility utility opaque ddl"),
        ("CREATE INDEX CONCURRENTLY ON accounts (id)", "Utility utility opaque ddl"),
        ("CREATE EXTENSION pgml", "Utility utility opaque ddl"),
        ("ALTER FUNCTION f() VOLATILE", "Utility utility opaque ddl"),
        ("DROP TABLE accounts", "Utility utility opaque ddl"),
        ("GRANT SELECT ON accounts TO somebody", "Utility utility opaque ddl"),
        ("ALTER SYSTEM SET work_mem = '1MB'", "Utility utility opaque ddl"),
        ("IMPORT FOREIGN SCHEMA x FROM SERVER y INTO z", "Utility utility opaque ddl"),
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

/// The one parameter that a statement sets.
#[cfg(test)]
fn set(sql: &str) -> Set {
    match kind(sql) {
        Kind::Set(sets) if sets.len() == 1 => sets[0].clone(),
        other => panic!("{sql}: {other:?}"),
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
        ("SET a.b = ''", "a.b", false, text("")),
        ("SET work_mem TO DEFAULT", "work_mem", false, Value::Default),
        ("SET sort_mem = 64", "work_mem", false, text("64")),
        ("SET search_path TO a, \"B\", 'c'", "search_path", false, text("a, B, c")),
        ("SET SCHEMA 'a'", "search_path", false, text("a")),
        ("SET LOCAL SCHEMA 'a'", "search_path", true, text("a")),
        ("SET NAMES 'latin1'", "client_encoding", false, text("latin1")),
        ("SET NAMES", "client_encoding", false, Value::Default),
        ("SET NAMES DEFAULT", "client_encoding", false, Value::Default),
        ("SET TIME ZONE 'UTC'", "timezone", false, text("UTC")),
        ("SET TIME ZONE -7", "timezone", false, text("-7")),
        ("SET TIME ZONE LOCAL", "timezone", false, Value::Default),
        ("SET LOCAL TIME ZONE DEFAULT", "timezone", true, Value::Default),
        ("SET TimeZone = 'UTC'", "timezone", false, text("UTC")),
        ("SET TIME ZONE INTERVAL '1' HOUR TO MINUTE", "timezone", false, Value::Other),
        ("SET XML OPTION DOCUMENT", "xmloption", false, text("DOCUMENT")),
        ("SET xmloption = content", "xmloption", false, text("content")),
        ("SET ROLE somebody", "role", false, text("somebody")),
        ("SET ROLE \"Some Body\"", "role", false, text("Some Body")),
        ("SET ROLE NONE", "role", false, text("none")),
        ("SET LOCAL ROLE 'somebody'", "role", true, text("somebody")),
        ("SET SESSION ROLE somebody", "role", false, text("somebody")),
        ("SET SESSION AUTHORIZATION bob", "session_authorization", false, text("bob")),
        ("SET SESSION AUTHORIZATION DEFAULT", "session_authorization", false, Value::Default),
        ("SET LOCAL SESSION AUTHORIZATION bob", "session_authorization", true, text("bob")),
        ("SET \"Search_Path\" = a", "search_path", false, text("a")),
        ("SET \"app.Tenant\" = 'a'", "app.tenant", false, text("a")),
        ("SET app.\"Tenant\" = 'a'", "app.tenant", false, text("a")),
        ("/* a */ SET /* b; */ work_mem -- c\n = '1MB' /* app=shop */ ; -- d", "work_mem", false, text("1MB")),
        ("SET search_path = sa /*app='shop',x='it''s; SET'*/", "search_path", false, text("sa")),
        ("SET a.b = 'a;b'", "a.b", false, text("a;b")),
        ("SET a.b = 'a--b'", "a.b", false, text("a--b")),
        ("SET a.b = 'a/*b'", "a.b", false, text("a/*b")),
        ("SET a.b = 'SET LOCAL c'", "a.b", false, text("SET LOCAL c")),
        ("SET a.b = 'x', 'y'", "a.b", false, text("x, y")),
        ("SET local.b = 1", "local.b", false, text("1")),
        ("SET SESSION session.b = 1", "session.b", false, text("1")),
    ] {
        let set = set(sql);
        let Set { name: found, local: is_local, value: of, statement } = &set;
        assert_eq!((found.as_str(), *is_local, of), (name, local, &value), "{sql}");
        // What is done again on another server means the same there.
        assert_eq!(kind(statement), Kind::Set(vec![set.clone()]), "{sql}: {statement}");
        let verdict = judge(sql);
        assert_eq!((verdict.session(), verdict.opaque, verdict.statements), (!local, false, 1), "{sql}");
    }
    let mut classifier = classifier();
    for (scs, value, statement) in [(false, "x\ty", "set a . b = e'x\\ty'"), (true, "x\\ty", "set a . b = 'x\\ty'")] {
        let Kind::Set(sets) = &classifier.classify(b"SET a.b = 'x\\ty'", scs).kind else { panic!() };
        assert_eq!((&sets[0].value, sets[0].statement.as_str()), (&text(value), statement));
    }
}

#[test]
fn the_characteristics_of_a_session_are_parameters() {
    for (sql, expected) in [
        ("READ ONLY", vec![("default_transaction_read_only", "on")]),
        ("READ WRITE", vec![("default_transaction_read_only", "off")]),
        ("NOT DEFERRABLE", vec![("default_transaction_deferrable", "off")]),
        (
            "ISOLATION LEVEL REPEATABLE READ, READ ONLY",
            vec![("default_transaction_isolation", "repeatable read"), ("default_transaction_read_only", "on")],
        ),
    ] {
        let Kind::Set(sets) = kind(&format!("SET SESSION CHARACTERISTICS AS TRANSACTION {sql}")) else {
            panic!("{sql}")
        };
        let found: Vec<(&str, Value)> = sets.iter().map(|set| (set.name.as_str(), set.value.clone())).collect();
        let expected: Vec<(&str, Value)> =
            expected.into_iter().map(|(name, value)| (name, Value::Text(value.to_owned()))).collect();
        assert_eq!(found, expected, "{sql}");
        for one in sets {
            let again = set(&one.statement);
            assert_eq!((again.name, again.value), (one.name, one.value), "{sql}");
        }
    }
}

#[test]
fn parameters_go_back() {
    for (sql, name) in [
        ("RESET Work_Mem", Some("work_mem")),
        ("RESET vacuum_mem", Some("maintenance_work_mem")),
        ("/* a */ RESET /* b */ \"Work_Mem\" /* c */;", Some("work_mem")),
        ("RESET TIME ZONE", Some("timezone")),
        ("RESET ROLE", Some("role")),
        ("RESET SESSION AUTHORIZATION", Some("session_authorization")),
        ("RESET ALL", None),
        ("RESET \"all\"", Some("all")),
    ] {
        assert_eq!(kind(sql), Kind::Reset { name: name.map(str::to_owned) }, "{sql}");
    }
    assert_eq!(kind("SHOW Work_Mem"), Kind::Show("work_mem".into()));
}

#[test]
fn parameters_of_the_transaction_are_not_of_the_session() {
    let read_only = |on| Kind::SetTransaction(Modes { read_only: Some(on), ..Modes::default() });
    for (sql, expected) in [
        ("SET TRANSACTION READ ONLY", read_only(true)),
        ("SET LOCAL TRANSACTION READ WRITE", read_only(false)),
        ("SET transaction_read_only = on", read_only(true)),
        ("SET LOCAL transaction_read_only = 'Off'", read_only(false)),
        ("SET transaction_read_only TO 1", read_only(true)),
        (
            "SET transaction_isolation = 'Serializable'",
            Kind::SetTransaction(Modes { isolation: Some(Isolation::Serializable), ..Modes::default() }),
        ),
        (
            "SET SESSION transaction_deferrable = yes",
            Kind::SetTransaction(Modes { deferrable: Some(true), ..Modes::default() }),
        ),
        ("SET transaction_read_only TO DEFAULT", Kind::SetTransaction(Modes::default())),
        ("RESET transaction_isolation", Kind::SetTransaction(Modes::default())),
        ("RESET TRANSACTION ISOLATION LEVEL", Kind::SetTransaction(Modes::default())),
        ("SET TRANSACTION SNAPSHOT '00000003-0000001B-1'", Kind::SetTransaction(Modes::default())),
    ] {
        let verdict = judge(sql);
        assert_eq!((&verdict.kind, verdict.session()), (&expected, false), "{sql}");
    }
    // Its value is that of this session, which its text does not tell.
    assert_eq!(summary(&judge("SET work_mem FROM CURRENT")), "Utility session_state dirties");
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list")]
fn what_may_leave_anything_behind_is_opaque() {
    for (sql, expected) in [
        ("INSERT INTO accounts VALUES (1, lower('x'))", "Write write"),
        ("INSERT INTO accounts DEFAULT VALUES", "Write write"),
        ("INSERT INTO accounts SELECT * FROM history", "Write write"),
        ("INSERT INTO accounts (id) VALUES (nextval('s')) RETURNING id", "Write write"),
        ("INSERT INTO accounts VALUES (1) ON CONFLICT (lower(x)) WHERE y DO UPDATE SET x = excluded.x", "Write write"),
        ("INSERT INTO accounts VALUES (pgml.train('x'))", "Write write opaque"),
        ("INSERT INTO accounts SELECT pgml.train('x')", "Write write opaque"),
        ("INSERT INTO accounts VALUES (1) ON CONFLICT (id) DO UPDATE SET x = pgml.train('x')", "Write write opaque"),
        ("INSERT INTO accounts VALUES (1) RETURNING pgml.train('x')", "Write write opaque"),
        ("INSERT INTO audited VALUES (1)", "Write write opaque"),
        ("INSERT INTO trapped VALUES (1)", "Write write opaque"),
        ("INSERT INTO nowhere VALUES (1)", "Write write opaque stale"),
        ("INSERT INTO accounts VALUES (pg_advisory_lock(1))", "Write write pins"),
        ("INSERT INTO accounts VALUES (set_config('a', 'b', false))", "Write write dirties"),
        ("UPDATE accounts SET (a, b) = (SELECT 1, 2), c[1] = 3 FROM history h WHERE h.id = 1", "Write write"),
        ("UPDATE accounts SET a = DEFAULT WHERE CURRENT OF c", "Write write"),
        ("UPDATE accounts SET a = pgml.train(a)", "Write write opaque"),
        ("UPDATE accounts SET (a, b) = (SELECT pgml.train(1), 2)", "Write write opaque"),
        ("UPDATE audited SET a = 1", "Write write opaque"),
        ("DELETE FROM accounts USING history h WHERE h.id = 1 RETURNING *", "Write write"),
        ("DELETE FROM accounts WHERE pgml.train(a)", "Write write opaque"),
        ("DELETE FROM audited", "Write write opaque"),
        ("WITH w AS (SELECT pgml.train(1)) DELETE FROM accounts", "Write write opaque"),
        ("WITH w AS (INSERT INTO audited VALUES (1) RETURNING *) SELECT * FROM w", "Write write opaque"),
        ("WITH w AS (INSERT INTO accounts VALUES (1) RETURNING *) SELECT * FROM w", "Write write"),
        (
            "MERGE INTO accounts a USING history h ON a.id = h.id WHEN MATCHED AND h.x > 1 THEN UPDATE SET x = 1 \
             WHEN NOT MATCHED THEN INSERT VALUES (1, lower('x'))",
            "Write write",
        ),
        (
            "MERGE INTO accounts a USING history h ON a.id = h.id WHEN NOT MATCHED THEN INSERT VALUES (pgml.train(1))",
            "Write write opaque",
        ),
        ("MERGE INTO audited a USING history h ON a.id = h.id WHEN MATCHED THEN DELETE", "Write write opaque"),
        ("COPY audited FROM STDIN", "Copy write opaque"),
        ("COPY accounts FROM STDIN WHERE pgml.train(id)", "Copy write opaque"),
        ("COPY (SELECT pgml.train(1)) TO STDOUT", "Copy utility opaque"),
        ("TRUNCATE audited", "Utility utility opaque"),
        ("SELECT nextval('s')", "Write volatile_function"),
        ("SELECT pgml.train('x')", "Write volatile_function opaque"),
        ("SELECT * FROM trapped", "Write volatile_function opaque"),
        ("SELECT 1 <!> 2", "Write volatile_function opaque"),
        ("SELECT '1'::loud", "Write volatile_function opaque"),
        ("SELECT a.loud_column FROM accounts a", "Write attribute_function opaque"),
        ("SELECT query_to_xml('SELECT 1', true, true, '')", "Write volatile_function opaque"),
        ("SELECT txid_current()", "Write volatile_function"),
        ("SELECT * FROM fast", "Write unlogged_table"),
        ("SELECT * FROM accounts FOR UPDATE", "Write locking_clause"),
        ("DECLARE c CURSOR FOR SELECT pgml.train(1)", "Declare session_state opaque"),
        ("EXPLAIN ANALYZE EXECUTE p", "Explain utility opaque"),
        ("DO $$ BEGIN CREATE TEMP TABLE x (a int); END $$", "Write write pins dirties opaque ddl"),
        ("DO 'BEGIN PERFORM pg_advisory_lock(1); END'", "Write write pins dirties opaque ddl"),
        ("SELECT 1; SELECT pgml.train(1)", "Write multi_statement opaque"),
    ] {
        assert_eq!(summary(&judge(sql)), expected, "{sql}");
    }
    let mut classifier = classify::Classifier::new(1);
    for (sql, opaque) in
        [("SELECT 1", false), ("SELECT lower('x')", true), ("SELECT * FROM t", true), ("SET a.b = 1", false)]
    {
        assert_eq!(classifier.classify(sql.as_bytes(), true).opaque, opaque, "{sql}, without a catalog");
    }
}

/// A pooler may run reads in read-only transactions: no read may tell.
#[test]
fn what_tells_whether_transactions_are_read_only_is_no_read() {
    for (sql, expected) in [
        ("SHOW transaction_read_only", "Show session_state"),
        ("SHOW ALL", "Show session_state"),
        ("SELECT current_setting('app.tenant')", "Read ro fast"),
        ("SELECT current_setting('app.tenant', true)", "Read ro fast"),
        ("SELECT pg_catalog . /* x */ current_setting ( -- y\n 'app.tenant')", "Read ro fast"),
        ("SELECT \"current_setting\"('app.tenant')", "Read ro fast"),
        ("SELECT current_setting('app.tenant'::text)", "Read ro fast"),
        ("SELECT owner FROM tenants", "Read ro fast"),
        ("SELECT current_setting('Transaction_Read_Only')", "Write server_state"),
        ("SELECT current_setting('default_transaction_read_only', true)", "Write server_state"),
        ("SELECT current_setting(E'transaction\\x5fread_only')", "Write server_state"),
        ("SELECT current_setting($$transaction_read_only$$)", "Write server_state"),
        ("SELECT current_setting(U&'transaction\\005fread_only')", "Write server_state"),
        ("SELECT current_setting('transaction'\n'_read_only')", "Write server_state"),
        ("SELECT current_setting(('transaction_read_only'))", "Write server_state"),
        ("SELECT current_setting(text 'transaction_read_only')", "Write server_state"),
        ("SELECT current_setting(CAST('transaction_read_only' AS text))", "Write server_state"),
        ("SELECT current_setting(N'transaction_read_only')", "Write server_state"),
        ("SELECT current_setting(missing_ok => true, setting_name => 'transaction_read_only')", "Write server_state"),
        ("SELECT current_setting('transaction' || '_read_only')", "Write server_state"),
        ("SELECT current_setting(lower('x'))", "Write server_state"),
        ("SELECT current_setting($1)", "Write server_state"),
        ("SELECT current_setting(name) FROM accounts", "Write server_state"),
        ("SELECT id FROM accounts WHERE current_setting('transaction_read_only') = 'on'", "Write server_state"),
        ("SELECT setting FROM pg_settings", "Write server_state"),
        ("SELECT * FROM pg_show_all_settings()", "Write server_state"),
    ] {
        assert_eq!(summary(&judge(sql)), expected, "{sql}");
    }
    let mut classifier = classifier();
    let verdict = classifier.classify(b"SELECT current_setting('transaction\\x5fread_only')", false);
    assert_eq!(summary(verdict), "Write server_state");
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
        ("SET READ YOUR WRITES TO session", Command::SetReadYourWrites(Some(Consistency::Session))),
        ("set read your writes = 'database'", Command::SetReadYourWrites(Some(Consistency::Database))),
        ("SET READ YOUR WRITES TO off", Command::SetReadYourWrites(Some(Consistency::Off))),
        ("SET READ YOUR WRITES TO default", Command::SetReadYourWrites(None)),
        ("SHOW READ YOUR WRITES", Command::ShowReadYourWrites),
    ] {
        let verdict = judge(sql);
        assert_eq!(verdict.kind, Kind::Pooler(expected), "{sql}");
        assert!(!verdict.read_only && verdict.pipelinable.is_err(), "{sql}");
    }
    let mut classifier = classifier();
    let verdict = classifier.classify(b"SET SERVER ROLE TO 'primary'", false);
    assert_eq!(verdict.kind, Kind::Pooler(Command::SetServerRole(Role::Primary)));
    for sql in ["SET SERVER ROLE TO 'x'", "SET SERVER ROLE TO 'any' 'any'"] {
        assert_eq!(summary(&judge(sql)), "Write unparsable dirties opaque", "{sql}");
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
        ("SELECT 1; SELECT nowhere()", 2, "Write multi_statement opaque stale"),
        ("BEGIN; SELECT 1; COMMIT", 3, "Write multi_statement transaction"),
        ("SELECT 1; SET a.b = 1", 2, "Write multi_statement dirties"),
        ("SET a.b = 1; SELECT 1", 2, "Write multi_statement dirties"),
        ("SELECT 1; SHOW ALL", 2, "Write multi_statement"),
        ("SELECT 1; COPY accounts TO STDOUT", 2, "Write multi_statement"),
        ("SELECT 1; LISTEN x", 2, "Write multi_statement pins"),
        ("SELECT 1; CREATE TABLE x ()", 2, "Write multi_statement opaque ddl"),
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
        ("/* howdah: fresh */ SELECT 1", Some(Route::Fresh)),
        ("/* howdah: Stale */ SELECT 1", Some(Route::Stale)),
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
