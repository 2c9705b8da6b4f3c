//! Queries: which are reads, which may be pipelined, and why the others are not.

use classify::{Classifier, Kind, Reason};

use crate::catalog::{catalog, classifier, judge, summary};

fn check(cases: &[(&str, &str)]) {
    let mut wrong = Vec::new();
    for (sql, expected) in cases {
        let found = summary(&judge(sql));
        if found != *expected {
            wrong.push(format!("{sql}\n    is {found}\n    not {expected}"));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn plain_queries_are_fast() {
    for sql in [
        "SELECT 1",
        "SELECT",
        "VALUES (1, 'a'), (2, 'b')",
        "TABLE accounts",
        "SELECT * FROM accounts WHERE id = $1",
        "SELECT a.id, h.* FROM accounts a JOIN history h USING (id) LEFT JOIN public.accounts b ON b.id = a.id",
        "SELECT * FROM accounts NATURAL JOIN history",
        "SELECT count(*), sum(DISTINCT x), max(x) FILTER (WHERE x > 1) FROM history GROUP BY ROLLUP (a, b) HAVING count(*) > 1",
        "SELECT rank() OVER w, row_number() OVER (PARTITION BY a ORDER BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM history WINDOW w AS (ORDER BY c)",
        "SELECT DISTINCT ON (a) a FROM history ORDER BY a DESC NULLS LAST, b USING < LIMIT 10 OFFSET 5",
        "SELECT a FROM history UNION ALL SELECT b FROM accounts EXCEPT (SELECT 1 INTERSECT SELECT 2)",
        "WITH a AS (SELECT 1 AS x), b AS MATERIALIZED (SELECT x FROM a) SELECT * FROM a, b",
        "WITH RECURSIVE t(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM t WHERE n < 100) SELECT sum(n) FROM t",
        "WITH RECURSIVE t(n) AS (SELECT 1 UNION ALL SELECT n FROM t) SEARCH DEPTH FIRST BY n SET o CYCLE n SET c TO 1 DEFAULT 0 USING p SELECT 1",
        "SELECT CASE x WHEN 1 THEN 'a' ELSE 'b' END, coalesce(a, b), nullif(a, b), greatest(a, 1), ARRAY[1, 2], ROW(1, 2) FROM history",
        "SELECT x::int, CAST(y AS numeric(10, 2)), z::text[], date '2020-01-01', interval '1 day' FROM history",
        "SELECT EXISTS (SELECT 1 FROM accounts), a IN (SELECT id FROM accounts), a = ANY ($1), (SELECT max(id) FROM history) FROM history",
        "SELECT a LIKE 'x%', a NOT ILIKE b, a SIMILAR TO 'x', a BETWEEN 1 AND 2, a IS DISTINCT FROM b, a IS NULL, b IS NOT TRUE FROM history",
        "SELECT current_user, now(), current_timestamp, version(), current_setting('app.x')",
        "SELECT extract(year FROM now()), substring('abc' FROM 2), position('a' IN 'b'), now() AT TIME ZONE 'UTC'",
        "SELECT * FROM generate_series(1, 10) WITH ORDINALITY AS g(n, o), LATERAL (SELECT g.n) l",
        "SELECT * FROM unnest(ARRAY[1]) AS u(x), accounts TABLESAMPLE system (1) REPEATABLE (2)",
        "SELECT pgml.predict('project', ARRAY[1.0, 2.0]) FROM accounts",
        "SELECT predict('project', ARRAY[1.0, 2.0])",
        "SELECT a.quiet_column, a.id, (a).id FROM accounts a",
        "SELECT j -> 'a' ->> 'b' FROM history WHERE j @> '{}'",
        "SELECT id FROM better",
        "SELECT owner FROM guarded",
        "SELECT '5'::percent, 'ok'::mood, NULL::accounts",
        "SELECT x <> 1, x != 1 FROM history",
        "SELECT relname FROM pg_class WHERE oid = 'accounts'::regclass",
        "SELECT JSON_ARRAYAGG(x), JSON_OBJECT('a': 1), x IS JSON FROM history",
        "SELECT JSON_VALUE(j, '$.a' RETURNING int), JSON_EXISTS(j, '$.b') FROM history",
        "SELECT * FROM JSON_TABLE('[]'::jsonb, '$[*]' COLUMNS (a int PATH '$.a', NESTED PATH '$.b' COLUMNS (c text))) t",
        "SELECT * FROM XMLTABLE('/a' PASSING x COLUMNS b text PATH 'b')",
        "SELECT xmlelement(name a, 'b'), xmlserialize(content x AS text) FROM history",
        "  /* nothing */ -- at all\n SELECT 1 ;;",
    ] {
        assert_eq!(summary(&judge(sql)), "Read ro fast", "{sql}");
    }
    assert_eq!(judge(" -- nothing\n ;").statements, 0);
}

#[test]
fn queries_that_write_or_may_are_writes() {
    check(&[
        ("INSERT INTO accounts VALUES (1)", "Write write"),
        ("UPDATE accounts SET x = 1 WHERE id = 2 RETURNING *", "Write write"),
        ("DELETE FROM accounts USING history WHERE true", "Write write"),
        (
            "MERGE INTO accounts a USING history h ON a.id = h.id WHEN MATCHED THEN DO NOTHING WHEN NOT MATCHED THEN INSERT VALUES (1)",
            "Write write",
        ),
        ("INSERT INTO accounts SELECT pg_advisory_lock(1)", "Write write pins"),
        ("INSERT INTO accounts SELECT set_config('a', 'b', false)", "Write write dirties"),
        ("SELECT * INTO copy FROM accounts", "Write write opaque ddl"),
        ("SELECT * INTO TEMP copy FROM accounts", "Write write pins opaque ddl"),
        ("SELECT 1 INTO copy UNION SELECT 2", "Write write opaque ddl"),
        ("SELECT * FROM accounts FOR UPDATE", "Write locking_clause"),
        ("SELECT * FROM accounts FOR NO KEY UPDATE OF accounts NOWAIT", "Write locking_clause"),
        ("SELECT * FROM accounts FOR SHARE SKIP LOCKED", "Write locking_clause"),
        ("SELECT * FROM accounts FOR KEY SHARE", "Write locking_clause"),
        ("SELECT * FROM (SELECT * FROM accounts FOR UPDATE) a", "Write locking_clause"),
        ("SELECT 1 WHERE 1 IN (SELECT id FROM accounts FOR SHARE)", "Write locking_clause"),
        ("WITH a AS (SELECT * FROM accounts FOR UPDATE) SELECT 1", "Write locking_clause"),
        ("WITH a AS (INSERT INTO accounts VALUES (1) RETURNING *) SELECT * FROM a", "Write write"),
        ("WITH a AS (UPDATE accounts SET x = 1) SELECT 1", "Write write"),
        ("WITH a AS (DELETE FROM accounts) SELECT 1", "Write write"),
        (
            "WITH a AS (SELECT 1), b AS (WITH c AS (DELETE FROM accounts RETURNING *) SELECT * FROM c) SELECT 1",
            "Write write",
        ),
        ("SELECT * FROM (WITH a AS (DELETE FROM accounts RETURNING 1) SELECT * FROM a) x", "Write write"),
        ("WITH a AS (SELECT 1) INSERT INTO accounts SELECT * FROM a", "Write write"),
    ]);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a list")]
fn functions_are_judged_by_their_volatility() {
    check(&[
        ("SELECT nextval('s')", "Write volatile_function"),
        ("SELECT pg_catalog.nextval('s')", "Write volatile_function"),
        ("SELECT db.pg_catalog.nextval('s')", "Write volatile_function"),
        ("SELECT NextVal('s')", "Write volatile_function"),
        ("SELECT \"nextval\"('s')", "Write volatile_function"),
        ("SELECT U&\"next\\0076al\"('s')", "Write volatile_function"),
        ("SELECT U&\"next!0076al\" UESCAPE '!' ('s')", "Write volatile_function"),
        ("SELECT setval('s', 1), currval('s'), lastval()", "Write volatile_function"),
        ("SELECT pgml.train('x')", "Write volatile_function opaque"),
        ("SELECT train('x')", "Write volatile_function opaque"),
        ("SELECT set_config('a', 'b', false)", "Set session_state"),
        ("SELECT pg_advisory_lock(1)", "Write session_state pins"),
        ("SELECT pg_try_advisory_lock_shared(1)", "Write session_state pins"),
        ("SELECT pg_advisory_xact_lock(1)", "Write volatile_function"),
        ("SELECT txid_current()", "Write volatile_function"),
        ("SELECT query_to_xml('DELETE FROM accounts', true, true, '')", "Write volatile_function opaque"),
        ("SELECT table_to_xml('bad', true, true, '')", "Write volatile_function opaque"),
        ("SELECT random()", "Read ro volatile_function"),
        ("SELECT clock_timestamp()", "Read ro volatile_function"),
        // Both the system's and somebody's own: the worst.
        ("SELECT pg_sleep(1)", "Write volatile_function opaque"),
        ("SELECT pg_catalog.pg_sleep(1)", "Read ro volatile_function"),
        ("SELECT b.pg_sleep(1)", "Write volatile_function opaque"),
        ("SELECT a.mixed(1)", "Read ro fast"),
        ("SELECT b.mixed(1)", "Write volatile_function opaque"),
        ("SELECT mixed(1)", "Write volatile_function opaque"),
        ("SELECT unheard_of(1)", "Write unknown_function opaque stale"),
        ("SELECT pgml.lower('x')", "Write unknown_function opaque stale"),
        ("SELECT t.loud_column FROM accounts t", "Write attribute_function opaque"),
        ("SELECT (t).loud_column FROM accounts t", "Write attribute_function opaque"),
        ("SELECT t.nextval FROM accounts t", "Write attribute_function opaque"),
        ("SELECT 1 <!> 2", "Write volatile_function opaque"),
        ("SELECT 1 OPERATOR(public.<!>) 2", "Write volatile_function opaque"),
        ("SELECT x <!> ALL (SELECT 1) FROM accounts", "Write volatile_function opaque"),
        ("SELECT 1 ORDER BY 1 USING <!>", "Write volatile_function opaque"),
        ("SELECT 1 <=> 2", "Write unknown_operator opaque stale"),
        ("SELECT 'x'::loud", "Write volatile_function opaque"),
        ("SELECT loud 'x'", "Write volatile_function opaque"),
        ("SELECT CAST(ARRAY['x'] AS public.loud[])", "Write volatile_function opaque"),
        ("SELECT '1'::counted", "Write volatile_function"),
        ("SELECT 'x'::unheard_of", "Write unknown_type opaque stale"),
        ("SELECT * FROM unnest(ARRAY[1]) AS u(x loud)", "Write volatile_function opaque"),
        ("SELECT * FROM accounts TABLESAMPLE mine (1)", "Write unknown_function opaque"),
    ]);
    // Wherever an expression may stand.
    for sql in [
        "SELECT DISTINCT ON (nextval('s')) 1",
        "SELECT 1 FROM accounts WHERE id = nextval('s')",
        "SELECT 1 FROM accounts a JOIN history h ON nextval('s') = 1",
        "SELECT 1 FROM accounts GROUP BY nextval('s')",
        "SELECT 1 FROM accounts GROUP BY GROUPING SETS ((nextval('s')), ())",
        "SELECT 1 HAVING nextval('s') = 1",
        "SELECT 1 ORDER BY nextval('s')",
        "SELECT 1 LIMIT nextval('s')",
        "SELECT 1 OFFSET nextval('s')",
        "SELECT 1 UNION SELECT nextval('s')",
        "VALUES (1), (nextval('s'))",
        "SELECT * FROM nextval('s')",
        "SELECT * FROM ROWS FROM (generate_series(1, 2), nextval('s'))",
        "SELECT * FROM accounts TABLESAMPLE system (nextval('s'))",
        "SELECT * FROM accounts TABLESAMPLE system (1) REPEATABLE (nextval('s'))",
        "SELECT * FROM (VALUES (nextval('s'))) v",
        "SELECT (SELECT nextval('s'))",
        "SELECT EXISTS (SELECT nextval('s'))",
        "SELECT ARRAY(SELECT nextval('s'))",
        "SELECT 1 IN (2, nextval('s'))",
        "SELECT nextval('s') BETWEEN 1 AND 2",
        "SELECT CASE WHEN true THEN nextval('s') END",
        "SELECT CASE nextval('s') WHEN 1 THEN 1 END",
        "SELECT CASE 1 WHEN 1 THEN 1 ELSE nextval('s') END",
        "SELECT coalesce(1, nextval('s'))",
        "SELECT greatest(1, nextval('s'))",
        "SELECT nullif(1, nextval('s'))",
        "SELECT ARRAY[1, nextval('s')]",
        "SELECT (ARRAY[1])[nextval('s')]",
        "SELECT (ARRAY[1])[1:nextval('s')]",
        "SELECT ROW(1, nextval('s'))",
        "SELECT nextval('s')::int",
        "SELECT nextval('s') IS NULL",
        "SELECT (nextval('s') = 1) IS TRUE",
        "SELECT NOT (nextval('s') = 1)",
        "SELECT -nextval('s')",
        "SELECT nextval('s') COLLATE \"C\"",
        "SELECT lower(str => nextval('s'))",
        "SELECT count(nextval('s'))",
        "SELECT count(*) FILTER (WHERE nextval('s') = 1)",
        "SELECT array_agg(1 ORDER BY nextval('s'))",
        "SELECT rank() OVER (PARTITION BY nextval('s'))",
        "SELECT rank() OVER (ORDER BY nextval('s'))",
        "SELECT rank() OVER w WINDOW w AS (ORDER BY nextval('s'))",
        "SELECT rank() OVER (ORDER BY 1 ROWS nextval('s') PRECEDING)",
        "SELECT rank(1) WITHIN GROUP (ORDER BY nextval('s'))",
        "WITH a AS (SELECT nextval('s')) SELECT 1",
        "SELECT xmlelement(name a, nextval('s'))",
        "SELECT xmlelement(name a, xmlattributes(nextval('s') AS b))",
        "SELECT xmlserialize(content nextval('s') AS text)",
        "SELECT * FROM XMLTABLE('/a' PASSING nextval('s') COLUMNS b text PATH 'b')",
        "SELECT * FROM XMLTABLE('/a' PASSING x COLUMNS b text DEFAULT nextval('s'))",
        "SELECT JSON_ARRAY(nextval('s'))",
        "SELECT JSON_ARRAY(SELECT nextval('s'))",
        "SELECT JSON_OBJECT('a': nextval('s'))",
        "SELECT JSON_OBJECTAGG('a': nextval('s'))",
        "SELECT JSON_ARRAYAGG(nextval('s'))",
        "SELECT JSON_ARRAYAGG(1 ORDER BY nextval('s'))",
        "SELECT JSON_VALUE('{}', '$' PASSING nextval('s') AS a)",
        "SELECT JSON_VALUE('{}', '$' DEFAULT nextval('s') ON EMPTY)",
        "SELECT JSON_VALUE(nextval('s')::jsonb, '$')",
        "SELECT JSON(nextval('s'))",
        "SELECT JSON_SCALAR(nextval('s'))",
        "SELECT JSON_SERIALIZE(nextval('s'))",
        "SELECT nextval('s') IS JSON",
        "SELECT * FROM JSON_TABLE(nextval('s')::jsonb, '$' COLUMNS (a int))",
        "SELECT * FROM JSON_TABLE('[]'::jsonb, '$' PASSING nextval('s') AS x COLUMNS (a int))",
        "SELECT * FROM JSON_TABLE('[]'::jsonb, '$' COLUMNS (a int DEFAULT nextval('s') ON EMPTY))",
    ] {
        let verdict = judge(sql);
        assert_eq!(verdict.kind, Kind::Write, "{sql}: {verdict:?}");
        assert!(!verdict.read_only && verdict.pipelinable.is_err(), "{sql}: {verdict:?}");
        assert_ne!(verdict.pipelinable, Err(Reason::Unparsable), "{sql}");
    }
}

#[test]
fn relations_are_judged_by_what_reading_them_runs() {
    check(&[
        ("SELECT * FROM nowhere", "Write unknown_relation opaque stale"),
        ("SELECT * FROM pgml.accounts", "Write unknown_relation opaque stale"),
        ("SELECT * FROM far", "Write foreign_table"),
        ("SELECT * FROM fast", "Write unlogged_table"),
        ("SELECT * FROM loud_table", "Write view opaque"),
        ("SELECT * FROM bad", "Write volatile_function"),
        ("SELECT * FROM worse", "Write volatile_function"),
        ("SELECT * FROM locked", "Write locking_clause"),
        ("SELECT * FROM odd", "Write view opaque"),
        ("SELECT * FROM trapped", "Write volatile_function opaque"),
        ("SELECT * FROM a.twice", "Read ro fast"),
        ("SELECT * FROM twice", "Write volatile_function opaque"),
        ("SELECT * FROM pg_stat_activity", "Write server_state"),
        ("SELECT * FROM pg_catalog.pg_stat_activity", "Write server_state"),
        // The name of a common table expression hides a relation, in its scope and without a schema.
        ("WITH bad AS (SELECT 1) SELECT * FROM bad", "Read ro fast"),
        ("WITH bad AS (SELECT 1) SELECT * FROM public.bad", "Write volatile_function"),
        ("WITH bad AS (SELECT * FROM bad) SELECT 1", "Write volatile_function"),
        ("WITH RECURSIVE bad AS (SELECT 1 UNION SELECT * FROM bad) SELECT 1", "Read ro fast"),
        ("WITH x AS (SELECT * FROM bad), bad AS (SELECT 1) SELECT 1", "Write volatile_function"),
        ("SELECT * FROM (WITH bad AS (SELECT 1) SELECT * FROM bad) x, bad", "Write volatile_function"),
        ("WITH accounts AS (SELECT 1) SELECT * FROM better, accounts", "Read ro fast"),
        ("WITH bad AS (SELECT 1) SELECT * FROM worse", "Write volatile_function"),
    ]);
}

#[test]
fn without_a_catalog_nothing_is_a_read() {
    let mut classifier = Classifier::new(10);
    for sql in ["SELECT 1", "SELECT * FROM accounts", "SELECT lower('x')"] {
        let verdict = classifier.classify(sql.as_bytes(), true);
        assert_eq!((&verdict.kind, verdict.read_only), (&Kind::Write, false));
        assert_eq!(verdict.pipelinable, Err(Reason::CatalogNotLoaded));
    }
    classifier.set_catalog(catalog("180001"));
    assert_eq!(summary(classifier.classify(b"SELECT 1", true)), "Read ro fast");
}

#[test]
fn an_operator_class_with_a_volatile_function_makes_all_writes() {
    let rows = [["version", "", "180001", "", ""], ["poison", "", "", "", ""]];
    let mut classifier = classifier();
    classifier.set_catalog(std::sync::Arc::new(classify::Catalog::from_rows(rows).unwrap()));
    assert_eq!(summary(classifier.classify(b"SELECT 1", true)), "Write volatile_function opaque");
}

#[test]
fn a_verdict_changes_with_the_catalog() {
    let mut classifier = classifier();
    let sql = b"SELECT * FROM accounts";
    let first = classifier.classify(sql, true).clone();
    let rows = [["version", "", "180001", "", ""], ["relation", "public", "accounts", "foreign", ""]];
    classifier.set_catalog(std::sync::Arc::new(classify::Catalog::from_rows(rows).unwrap()));
    let second = classifier.classify(sql, true).clone();
    assert_eq!((summary(&first), summary(&second)), ("Read ro fast".into(), "Write foreign_table".into()));
    assert_eq!(first.shape, second.shape);
    assert!(first.generation < second.generation);
    assert_eq!(classifier.len(), 1);
}

#[test]
fn syntax_newer_than_the_server_is_not_trusted() {
    let mut classifier = Classifier::new(10);
    for (sql, since) in [
        ("SELECT JSON_ARRAYAGG(x) FROM history", 160_000),
        ("SELECT x IS JSON FROM history", 160_000),
        ("SELECT JSON_EXISTS(j, '$.b') FROM history", 170_000),
        ("SELECT JSON_SCALAR(1)", 170_000),
    ] {
        for version in [150_010, 160_010, 170_005] {
            classifier.set_catalog(catalog(&version.to_string()));
            let verdict = classifier.classify(sql.as_bytes(), true);
            assert_eq!(verdict.read_only, version >= since, "{sql} on {version}");
            assert_eq!(verdict.pipelinable == Err(Reason::NewerSyntax), version < since, "{sql} on {version}");
        }
    }
}

#[test]
fn rows_that_the_query_does_not_make_are_refused() {
    for rows in [
        vec![],
        vec![["version", "", "new", "", ""]],
        vec![["version", "", "180001", "", ""], ["relation", "public", "x", "shiny", ""]],
        vec![["version", "", "180001", "", ""], ["thing", "public", "x", "", ""]],
    ] {
        assert!(classify::Catalog::from_rows(rows.clone()).is_err(), "{rows:?}");
    }
}
