//! Statements and what they need to be of one shard. The slots are those that PostgreSQL's `satisfies_hash_partition` names.

#![allow(
    clippy::unwrap_used,
    clippy::too_many_lines,
    reason = "tests end where something is wrong, and tables are long"
)]

use classify::Catalog;
use sharding::{KeyType, Literals, Map, Memory, Parameters, Reason, Source, Table, prove};

const SLOTS: usize = 32;

fn table(key_type: KeyType) -> Table {
    Table {
        name: "t".into(),
        key: "k".into(),
        key_type,
        cuts_blanks: false,
        place: 0,
        slots: (0..SLOTS).collect(),
        closing: None,
        function: sharding::Function::Postgres,
    }
}

/// The shard of a value of a key of this type.
fn shard(source: &Source, key: KeyType, parameters: &Literals) -> Option<usize> {
    let mut found = None;
    source.slots(&table(key), false, parameters, &mut |slot| found = Some(slot))?;
    found
}

#[test]
fn slots_are_those_of_postgresql() {
    let utf8 = Literals { is_utf8: true };
    for (key, text, slot) in [
        (KeyType::Integer, "0", 16),
        (KeyType::Integer, "1", 24),
        (KeyType::Integer, "-1", 5),
        (KeyType::Integer, " 42 ", 2),
        (KeyType::Integer, "2147483648", 22),
        (KeyType::Integer, "-2147483649", 31),
        (KeyType::Integer, "9223372036854775807", 22),
        (KeyType::Text, "", 6),
        (KeyType::Text, "a", 30),
        (KeyType::Text, "hello", 20),
        (KeyType::Text, "twelve bytes", 22),
        (KeyType::Text, "thirteen byte", 22),
        (KeyType::Text, "häßlich", 31),
        (KeyType::Text, "a text of more than twenty-four bytes", 21),
        (KeyType::Uuid, "00000000-0000-0000-0000-000000000000", 5),
        (KeyType::Uuid, "A0EEBC999C0B4EF8BB6D6BB9BD380A11", 16),
        (KeyType::Date, "2000-01-01", 16),
        (KeyType::Date, "2026-11-29", 19),
        (KeyType::Date, "1999-12-31", 5),
        (KeyType::Date, "1900-03-01", 13),
        (KeyType::Date, "2024-02-29", 7),
        (KeyType::Timestamp, "2000-01-01 00:00:00", 16),
        (KeyType::Timestamp, "2026-11-29T12:34:56.789", 7),
        (KeyType::Timestamp, "1969-12-31 23:59:59.000001", 20),
    ] {
        let source = Source::Untyped(text.to_owned());
        assert_eq!(shard(&source, key, &utf8), Some(slot), "{key:?} {text}");
    }
    for (key, text) in [
        (KeyType::Integer, "5.0"),
        (KeyType::Integer, "0x10"),
        (KeyType::Integer, "1_000"),
        (KeyType::Integer, ""),
        (KeyType::Uuid, "a0eebc99-9c0b4ef8-bb6d-6bb9-bd380a11"),
        (KeyType::Uuid, "g0000000000000000000000000000000"),
        (KeyType::Date, "29.11.2026"),
        (KeyType::Date, "2023-02-29"),
        (KeyType::Date, "2026-11-29 BC"),
        (KeyType::Date, "infinity"),
        (KeyType::Timestamp, "2026-11-29 12:34:56+01"),
        (KeyType::Timestamp, "2026-11-29 24:00:00"),
        (KeyType::Timestamp, "now"),
        (KeyType::TimestampTz, "2026-11-29 12:34:56"),
    ] {
        assert_eq!(shard(&Source::Untyped(text.to_owned()), key, &utf8), None, "{key:?} {text}");
    }
    let latin = Literals { is_utf8: false };
    assert_eq!(shard(&Source::Untyped("häßlich".to_owned()), KeyType::Text, &latin), None);
    assert_eq!(shard(&Source::Untyped("hello".to_owned()), KeyType::Text, &latin), Some(20));
}

/// Tables a and b with the key k, an integer; d with a date; r on all shards; `local` and a view on the hub alone.
fn known() -> (Map, Catalog) {
    let numbers: Vec<String> = (0..SLOTS).map(|slot| slot.to_string()).collect();
    let mut rows = vec![["public", "r", "reference", "", "", "", "", "", ""]];
    for (table, key_type) in [("a", "bigint"), ("b", "integer"), ("d", "date"), ("z", "timestamp without time zone")] {
        for slot in &numbers {
            rows.push(["public", table, "sharded", "k", key_type, "1", "32", slot, slot]);
        }
    }
    let mut catalog = vec![["version", "", "180001", "", ""], ["function", "public", "mine", "s", ""]];
    for name in ["a", "b", "d", "z", "r", "local", "two"] {
        catalog.push(["relation", "public", name, "plain", ""]);
    }
    catalog.push(["relation", "other", "two", "plain", ""]);
    catalog.push(["relation", "public", "inner_view", "plain", " SELECT a.k, a.v FROM a;"]);
    catalog.push(["relation", "public", "upon", "plain", " SELECT inner_view.k, inner_view.v FROM inner_view;"]);
    for (name, flag) in
        [("lower", "i"), ("count", "i"), ("unnest", "i"), ("now", "s"), ("random", "v"), ("nextval", "v"), ("sum", "i")]
    {
        catalog.push(["function", "pg_catalog", name, flag, ""]);
    }
    catalog.push(["function", "public", "pure", "i", ""]);
    (Map::from_rows(rows).unwrap(), Catalog::from_rows(catalog).unwrap())
}

/// The shard of a statement: its number, "hub", or the reason.
fn route(sql: &str, parameters: &impl Parameters) -> String {
    let (map, catalog) = known();
    let proof = prove(sql, &map, &catalog);
    let mut memory = Memory::default();
    for _ in 0..2 {
        let remembered = memory.prove(sql, (1, &map), &catalog);
        assert_eq!(
            remembered.shard(sql.as_bytes(), parameters),
            proof.shard(parameters),
            "without its literals: {sql}"
        );
        assert_eq!((remembered.proof.writes, &remembered.proof.hub), (proof.writes, &proof.hub), "{sql}");
    }
    match proof.shard(parameters) {
        Ok(Some(shard)) => map.shards[shard].to_string(),
        Ok(None) => "hub".to_owned(),
        Err(reason) => format!("{}{reason:?}", if proof.writes { "refused: " } else { "" }),
    }
}

#[test]
fn models_are_the_same_on_all_servers_once_they_are_published() {
    let (unpublished, _) = known();
    let numbers: Vec<String> = (0..SLOTS).map(|slot| slot.to_string()).collect();
    let mut rows = vec![["pgml", "models", "models", "", "", "", "", "", ""]];
    rows.extend(numbers.iter().map(|slot| ["public", "a", "sharded", "k", "bigint", "1", "32", slot, slot]));
    let published = Map::from_rows(rows).unwrap();
    let mut catalog = vec![["version", "", "180001", "", ""], ["relation", "public", "a", "plain", ""]];
    catalog.push(["relation", "pgml", "models", "plain", ""]);
    for (schema, name, flag) in [
        ("pgml", "predict", "s"),
        ("pgml", "predict_agg", "i"),
        ("pgml", "explain", "s"),
        ("pgml", "train", "v"),
        ("pgml", "norm_l2", "i"),
        ("pgml", "learning_curve", "s"),
        ("other", "predict", "s"),
        ("pgml", "model_for", "v"),
    ] {
        catalog.push(["function", schema, name, flag, ""]);
    }
    let catalog = Catalog::from_rows(catalog).unwrap();
    let shard = |map: &Map, sql: &str| match prove(sql, map, &catalog).shard(&Literals { is_utf8: true }) {
        Ok(shard) => format!("{shard:?}"),
        Err(reason) => format!("{reason:?}"),
    };
    for (sql, before, after) in [
        ("SELECT pgml.predict('p', ROW(v, a.*)) FROM a WHERE k = 42", "Function(\"pgml.predict\")", "Some(2)"),
        ("SELECT pgml.predict_agg(7, v) FROM a WHERE k = 42", "Function(\"pgml.predict_agg\")", "Some(2)"),
        ("SELECT * FROM a, pgml.explain('p', a) WHERE k = 42", "Function(\"pgml.explain\")", "Some(2)"),
        ("UPDATE a SET v = pgml.predict('p', a) WHERE k = 42", "Function(\"pgml.predict\")", "Some(2)"),
        ("SELECT algorithm FROM pgml.models, a WHERE k = 42", "NotOnShards(\"models\")", "Some(2)"),
        ("SELECT pgml.norm_l2(v) FROM a WHERE k = 42", "Some(2)", "Some(2)"),
        ("SELECT other.predict('p', v) FROM a WHERE k = 42", "", "Function(\"other.predict\")"),
        ("SELECT predict('p', v) FROM a WHERE k = 42", "", "Function(\"predict\")"),
        ("SELECT pgml.learning_curve(7) FROM a WHERE k = 42", "", "Function(\"pgml.learning_curve\")"),
        ("SELECT pgml.model_for('p', v) FROM a WHERE k = 42", "", "Function(\"pgml.model_for\")"),
        ("SELECT pgml.train('p') FROM a WHERE k = 42", "", "Function(\"pgml.train\")"),
    ] {
        assert_eq!(shard(&published, sql), after, "{sql}");
        assert_eq!(shard(&unpublished, sql), if before.is_empty() { after } else { before }, "unpublished: {sql}");
    }
    // None of them is of a shard by itself, and within a transaction of one each can run there.
    for (map, of_hub) in [(&unpublished, true), (&published, false)] {
        assert_eq!(prove("SELECT pgml.predict('p', ARRAY[1])", map, &catalog).hub.is_some(), of_hub);
    }
}

#[test]
fn a_proof_is_remembered_and_its_literals_are_not() {
    let (map, catalog) = known();
    let mut memory = Memory::default();
    let mut shard = |sql: &str| {
        memory.prove(sql, (1, &map), &catalog).shard(sql.as_bytes(), &Literals { is_utf8: true }).unwrap().unwrap()
    };
    for (sql, slot) in [
        ("SELECT 'x' || v FROM a WHERE k = 42", 2),
        ("SELECT 'y' || v FROM a WHERE k = 2147483648", 22),
        ("SELECT 'z' || v FROM a WHERE k = 0", 16),
        ("SELECT * FROM d WHERE k = '2026-11-29'", 19),
        ("SELECT * FROM d WHERE k = '1999-12-31'", 5),
        ("SELECT * FROM d WHERE k = date '1999-12-31'", 5),
        ("SELECT * FROM d WHERE k = '1900-03-01'::date", 13),
        ("SELECT * FROM a WHERE k = -1", 5),
        ("INSERT INTO a (v, k) VALUES ('it''s', 42)", 2),
    ] {
        assert_eq!(shard(sql), slot, "{sql}");
    }
}

#[test]
fn statements_are_proved_by_their_keys() {
    for sql in [
        "SELECT * FROM a WHERE k = 42",
        "SELECT * FROM public.a WHERE 42 = a.k AND v > 1",
        "SELECT * FROM a WHERE public.a.k = '42'",
        "SELECT * FROM a x WHERE x.k = 42::bigint AND (v = 1 OR true)",
        "SELECT * FROM a x, b y WHERE x.k = 42 AND y.k = x.k",
        "SELECT * FROM a JOIN b ON a.k = b.k WHERE b.k = 42",
        "SELECT * FROM a JOIN b USING (k) WHERE k = 42",
        "SELECT * FROM a LEFT JOIN b USING (k) WHERE k = 42",
        "SELECT * FROM a LEFT JOIN b ON b.k = a.k WHERE a.k = 42",
        "SELECT * FROM b RIGHT JOIN a ON b.k = a.k WHERE a.k = 42",
        "SELECT * FROM a LEFT JOIN (b JOIN b c ON b.k = c.k) ON b.k = a.k WHERE a.k = 42",
        "SELECT * FROM a FULL JOIN b ON a.v = b.v WHERE a.k = 42 AND b.k = 42",
        "SELECT * FROM a WHERE k IN (42, 42)",
        "SELECT * FROM a WHERE k = ANY (ARRAY[42])",
        "SELECT * FROM a WHERE k = 42 AND v = 1 OR v = 2 AND k IN (42)",
        "SELECT * FROM a WHERE (k, v) = (42, 1)",
        "SELECT * FROM a WHERE (v, k) IN ((1, 42), (2, 42))",
        "SELECT * FROM a FULL JOIN b USING (k) WHERE k = 42",
        "SELECT * FROM (a JOIN b USING (k)) LEFT JOIN b c USING (k) WHERE k = 42",
        "SELECT * FROM a, LATERAL (SELECT * FROM b WHERE b.k = a.k LIMIT 1) s WHERE a.k = 42",
        "SELECT * FROM a LEFT JOIN LATERAL (SELECT * FROM b WHERE b.k = a.k) s ON true WHERE a.k = 42",
        "SELECT * FROM a WHERE k = 42 AND EXISTS (SELECT FROM b WHERE b.k = a.k)",
        "SELECT (SELECT count(*) FROM b WHERE b.k = x.k) FROM a x WHERE x.k = 42",
        "SELECT * FROM (SELECT * FROM a WHERE k = 42) s JOIN r ON r.i = s.i",
        "WITH s AS (SELECT * FROM a WHERE k = 42) SELECT * FROM s",
        "WITH s AS (INSERT INTO a (k) VALUES (42) RETURNING k) SELECT * FROM s",
        // A column of a query that is a restricted key.
        "WITH s AS (SELECT * FROM a WHERE k = 42) SELECT * FROM s JOIN b ON b.k = s.k",
        "WITH s AS (SELECT v, k FROM a WHERE k = 42) SELECT * FROM s LEFT JOIN b USING (k)",
        "WITH s (x, y) AS (SELECT v, k FROM a WHERE k = 42) SELECT * FROM s z (p), b WHERE b.k = z.y",
        "WITH s AS (SELECT k AS other FROM a WHERE k = 42) UPDATE b SET v = 1 FROM s WHERE b.k = s.other",
        "WITH s AS (SELECT a.k FROM a JOIN b USING (k) WHERE k = 42), t AS (SELECT * FROM s) DELETE FROM b USING t WHERE b.k = t.k",
        "WITH s AS (UPDATE a SET v = 1 WHERE k = 42 RETURNING a.*) SELECT * FROM b JOIN s USING (k)",
        "WITH s AS (DELETE FROM a WHERE k = 42 RETURNING *) INSERT INTO b SELECT * FROM s",
        "WITH s AS (INSERT INTO a (v, k) VALUES ('x', 42) RETURNING v, k) INSERT INTO b (v, k) SELECT v, k FROM s",
        "WITH s AS (INSERT INTO a AS x VALUES (42) RETURNING x.k AS y) SELECT * FROM s JOIN b ON b.k = s.y",
        "SELECT * FROM (SELECT k, count(*) FROM a WHERE k = 42 GROUP BY k) s JOIN b ON b.k = s.k",
        "SELECT * FROM (SELECT * FROM a JOIN b USING (k) WHERE k = 42) s LEFT JOIN b c ON c.k = s.k",
        "SELECT * FROM (SELECT v, k FROM a WHERE k = 42) s (x, z) JOIN b ON b.k = z",
        "SELECT (SELECT count(*) FROM b WHERE b.k = s.k) FROM (SELECT k FROM a WHERE k = 42) s",
        "INSERT INTO b (k) SELECT s.k FROM (SELECT k FROM a WHERE k = 42) s",
        "SELECT * FROM a WHERE k = 42 UNION ALL SELECT * FROM b WHERE k = 42",
        "INSERT INTO a VALUES (42, 'x')",
        "INSERT INTO a (v, k) VALUES ('x', 42), ('y', 42) ON CONFLICT (k) DO UPDATE SET v = excluded.v RETURNING *",
        "INSERT INTO a SELECT 42, 'x'",
        "INSERT INTO a (v, k) SELECT v, k FROM b WHERE k = 42",
        "INSERT INTO a (v, k) SELECT x.v, y.k FROM a x JOIN b y USING (k) WHERE x.k = 42",
        "INSERT INTO a SELECT * FROM a WHERE k = 42",
        "INSERT INTO a SELECT * FROM unnest('{42,42}'::bigint[], '{x,y}'::text[])",
        "INSERT INTO a (v, k) SELECT u.v, u.k FROM unnest('{x,y}'::text[], '{42,42}'::bigint[]) AS u (v, k)",
        "INSERT INTO a SELECT * FROM unnest(('{42,42}'::int2[])::bigint[])",
        "INSERT INTO a SELECT unnest(('{42,42}')::bigint[]), 1",
        "SELECT * FROM a WHERE k = ANY ('{42,NULL, 42 ,\"42\"}')",
        "SELECT * FROM a WHERE k = ANY ('{{42},{42}}'::bigint[])",
        "DELETE FROM a WHERE k = ANY ('{42}') AND k = 42",
        "UPDATE a SET v = lower(v) WHERE k = 42 RETURNING v",
        "UPDATE a SET v = b.v FROM b WHERE a.k = b.k AND b.k = 42",
        "DELETE FROM a USING b WHERE a.k = 42 AND b.k = a.k",
        "SELECT * FROM a WHERE k = 42 FOR UPDATE",
        "EXPLAIN SELECT * FROM a WHERE k = 42",
        "DECLARE c CURSOR FOR SELECT * FROM a WHERE k = 42",
        "COPY (SELECT * FROM a WHERE k = 42) TO STDOUT",
        "SELECT pure(v), now() FROM a WHERE k = 42",
        "SELECT 1; SELECT * FROM a WHERE k = 42",
    ] {
        assert_eq!(route(sql, &Literals { is_utf8: true }), "2", "{sql}");
    }
}

#[test]
fn what_is_not_proved_says_why() {
    let no_key = |table: &str| format!("NoKey(\"{table}\", \"k\")");
    for (sql, expected) in [
        ("SELECT 1", "hub".to_owned()),
        ("SELECT * FROM r", "hub".to_owned()),
        ("INSERT INTO r VALUES (1)", "hub".to_owned()),
        ("SELECT * FROM local JOIN r ON true WHERE mine() = 1", "hub".to_owned()),
        ("CREATE TABLE fresh (k int)", "hub".to_owned()),
        ("SELECT * FROM a", no_key("a")),
        ("SELECT * FROM a WHERE k = 42 OR v = 1", no_key("a")),
        ("SELECT * FROM a WHERE k = 42 OR k = v", no_key("a")),
        ("SELECT * FROM a, b WHERE a.k = 42 AND b.v = 1 OR a.k = 42 AND b.k = 42", no_key("b")),
        ("SELECT * FROM a WHERE (k, v) < (42, 1)", no_key("a")),
        ("SELECT * FROM a WHERE (v, k) IN ((1, 42), (2, 1))", "Several".to_owned()),
        // The merged column is that of b, not that of a, which may be NULL.
        ("SELECT * FROM b LEFT JOIN (a JOIN r ON a.k = 42) USING (k) JOIN b c USING (k)", no_key("b")),
        ("SELECT * FROM (a JOIN r ON a.k = 42) RIGHT JOIN b USING (k) JOIN b c USING (k)", no_key("b")),
        // The merged column may be of another type than the key.
        ("SELECT * FROM (SELECT 42.0 AS k) s LEFT JOIN a USING (k) WHERE k = 42", no_key("a")),
        // What a name means to the right, or beside a join, is not what it means within.
        (
            "SELECT (SELECT sum(x.v) FROM (SELECT 1 AS k) i, LATERAL (SELECT v FROM b WHERE b.k = i.k) x) FROM a i WHERE i.k = 42",
            no_key("b"),
        ),
        (
            "SELECT FROM (SELECT 1 AS k) i WHERE EXISTS (SELECT FROM LATERAL (SELECT v FROM b WHERE b.k = i.k) x, a i WHERE i.k = 42)",
            no_key("b"),
        ),
        (
            "SELECT FROM (SELECT 1 AS k) i WHERE EXISTS (SELECT FROM a i, r JOIN b ON b.k = i.k WHERE i.k = 42)",
            no_key("b"),
        ),
        ("SELECT * FROM a WHERE NOT k = 42", no_key("a")),
        ("SELECT * FROM a WHERE k = 42.0", no_key("a")),
        ("SELECT * FROM a WHERE k > 42", no_key("a")),
        ("SELECT * FROM a WHERE k = NULL", no_key("a")),
        ("SELECT * FROM a WHERE k = v", no_key("a")),
        ("SELECT * FROM a WHERE v = 42", no_key("a")),
        ("SELECT * FROM a, b WHERE a.k = 42", no_key("b")),
        ("SELECT * FROM a JOIN b ON a.v = b.v AND b.v = 42", no_key("a")),
        ("SELECT * FROM a LEFT JOIN b ON a.k = 42 AND b.k = 42", no_key("a")),
        ("SELECT * FROM a LEFT JOIN b ON a.k = b.k WHERE b.k = 42", no_key("a")),
        ("SELECT * FROM a LEFT JOIN b ON a.v = b.v WHERE a.k = 42", no_key("b")),
        ("SELECT * FROM a FULL JOIN b ON a.k = b.k WHERE a.k = 42", no_key("b")),
        ("SELECT * FROM a WHERE k = 42 AND EXISTS (SELECT FROM b WHERE b.v = a.v)", no_key("b")),
        ("SELECT * FROM a WHERE EXISTS (SELECT FROM b WHERE b.k = 42 AND a.k = 42)", no_key("a")),
        ("SELECT * FROM a WHERE k IN (SELECT k FROM b WHERE k = 42)", no_key("a")),
        ("SELECT * FROM (SELECT * FROM a) a WHERE a.k = 42", no_key("a")),
        ("WITH b AS (SELECT 42 AS k) SELECT * FROM a, b WHERE a.k = b.k", no_key("a")),
        // A column of a query that is no restricted key.
        ("WITH s AS (SELECT v AS k FROM a WHERE k = 42) SELECT * FROM s JOIN b ON b.k = s.k", no_key("b")),
        ("WITH s (k, x) AS (SELECT v, k FROM a WHERE k = 42) SELECT * FROM s JOIN b ON b.k = s.k", no_key("b")),
        ("WITH s (k) AS (SELECT v, * FROM a WHERE k = 42) SELECT * FROM s JOIN b ON b.k = s.v", no_key("b")),
        ("SELECT * FROM (SELECT k + 1 AS k FROM a WHERE k = 42) s JOIN b USING (k)", no_key("b")),
        ("SELECT * FROM (SELECT k FROM a WHERE k = 42 UNION SELECT 7) s JOIN b ON b.k = s.k", no_key("b")),
        ("SELECT * FROM (SELECT k FROM a WHERE k = 42 GROUP BY ROLLUP (k)) s JOIN b ON b.k = s.k", no_key("b")),
        ("SELECT * FROM (SELECT a.k FROM r LEFT JOIN a ON a.k = 42) s JOIN b ON b.k = s.k", no_key("b")),
        ("SELECT * FROM b LEFT JOIN (SELECT k FROM a WHERE k = 42) s ON b.k = s.k", no_key("b")),
        ("SELECT * FROM (SELECT k FROM d WHERE k = '2026-11-29') s JOIN b ON b.k = s.k", no_key("b")),
        ("WITH RECURSIVE s AS (SELECT k FROM a WHERE k = 42) SELECT * FROM s JOIN b USING (k)", no_key("b")),
        (
            "WITH s AS (SELECT k FROM a WHERE k = 42) SELECT * FROM (WITH s AS (SELECT 7 AS k) SELECT b.v FROM s JOIN b USING (k)) t",
            no_key("b"),
        ),
        ("SELECT * FROM a AS x (v, k) WHERE x.k = 42", "Unfamiliar".to_owned()),
        ("SELECT * FROM a NATURAL JOIN b WHERE a.k = 42 AND b.k = 42", "Unfamiliar".to_owned()),
        ("SELECT * FROM a TABLESAMPLE SYSTEM (1) WHERE k = 42", "Unfamiliar".to_owned()),
        ("SELECT * FROM a JOIN local ON true WHERE a.k = 42", "NotOnShards(\"local\")".to_owned()),
        ("SELECT * FROM a, pg_class WHERE a.k = 42", "NotOnShards(\"pg_class\")".to_owned()),
        ("SELECT mine() FROM a WHERE k = 42", "Function(\"mine\")".to_owned()),
        ("SELECT nextval('s') FROM a WHERE k = 42", "Function(\"nextval\")".to_owned()),
        ("SELECT unknown(k) FROM a WHERE k = 42", "Function(\"unknown\")".to_owned()),
        ("SELECT * FROM a WHERE k IN (1, 42)", "Several".to_owned()),
        ("SELECT * FROM a, b WHERE a.k = 42 AND b.k = 1", "Several".to_owned()),
        ("SELECT * FROM a WHERE k = 42; SELECT * FROM a WHERE k = 1", "Several".to_owned()),
        ("SELECT * FROM a WHERE k = 'x'", "Value".to_owned()),
        ("SELECT * FROM d WHERE k = '29.11.2026'", "Value".to_owned()),
        ("SELECT * FROM d WHERE k = timestamp '2026-11-29 00:00:00'", "Value".to_owned()),
        ("SELECT * FROM a WHERE k = $1", "Value".to_owned()),
        ("INSERT INTO a (v) VALUES (1)", "refused: NoValue(\"a\", \"k\")".to_owned()),
        ("INSERT INTO a (k) VALUES (DEFAULT)", "refused: NoValue(\"a\", \"k\")".to_owned()),
        ("INSERT INTO a (k) VALUES (41 + 1)", "refused: NoValue(\"a\", \"k\")".to_owned()),
        ("INSERT INTO a DEFAULT VALUES", "refused: NoValue(\"a\", \"k\")".to_owned()),
        (
            "INSERT INTO a SELECT * FROM a LEFT JOIN b ON b.k = a.k WHERE a.k = 42",
            "refused: NoValue(\"a\", \"k\")".to_owned(),
        ),
        (
            "INSERT INTO a SELECT b.k FROM a LEFT JOIN b ON b.k = a.k WHERE a.k = 42",
            "refused: NoValue(\"a\", \"k\")".to_owned(),
        ),
        ("INSERT INTO a SELECT k FROM a WHERE k = 42 GROUP BY ROLLUP (k)", "refused: NoValue(\"a\", \"k\")".to_owned()),
        ("INSERT INTO a SELECT v FROM a WHERE k = 42", "refused: NoValue(\"a\", \"k\")".to_owned()),
        (
            "INSERT INTO a SELECT k FROM a WHERE k = 42 UNION SELECT k FROM a WHERE k = 42",
            "refused: NoValue(\"a\", \"k\")".to_owned(),
        ),
        ("INSERT INTO z SELECT k FROM d WHERE k = '2026-11-29'", "refused: NoValue(\"z\", \"k\")".to_owned()),
        ("INSERT INTO a SELECT * FROM a", "refused: NoKey(\"a\", \"k\")".to_owned()),
        ("INSERT INTO a SELECT unnest(ARRAY[v]) FROM a WHERE k = 42", "refused: NoValue(\"a\", \"k\")".to_owned()),
        ("INSERT INTO a SELECT * FROM unnest('{42,NULL}'::bigint[])", "refused: Value".to_owned()),
        ("INSERT INTO a SELECT * FROM unnest('{42,1}'::bigint[])", "refused: Several".to_owned()),
        ("SELECT * FROM a WHERE k = ANY ('{42,1}')", "Several".to_owned()),
        ("SELECT * FROM a WHERE k = ANY ('{42,x}')", "Value".to_owned()),
        ("SELECT * FROM a WHERE k = ANY ('{42}'::text[])", "Value".to_owned()),
        ("SELECT * FROM a WHERE k <> ANY ('{42}')", no_key("a")),
        ("SELECT * FROM a WHERE k = ALL ('{42}')", no_key("a")),
        ("SELECT * FROM a WHERE k = ANY ('{}')", "hub".to_owned()),
        ("INSERT INTO a (k) VALUES (1), (42)", "refused: Several".to_owned()),
        ("UPDATE a SET v = 1", "refused: NoKey(\"a\", \"k\")".to_owned()),
        ("UPDATE a SET k = 42 WHERE k = 42", "refused: KeyChanges(\"a\", \"k\")".to_owned()),
        ("UPDATE a SET (v, k) = (1, 42) WHERE k = 42", "refused: KeyChanges(\"a\", \"k\")".to_owned()),
        ("DELETE FROM a", "refused: NoKey(\"a\", \"k\")".to_owned()),
        (
            "WITH s AS (SELECT k FROM a WHERE k = 42) UPDATE b SET v = 1 FROM s WHERE b.v = s.k",
            "refused: NoKey(\"b\", \"k\")".to_owned(),
        ),
        (
            "INSERT INTO b (k) SELECT s.k FROM r LEFT JOIN (SELECT k FROM a WHERE k = 42) s ON r.i = s.k",
            "refused: NoValue(\"b\", \"k\")".to_owned(),
        ),
        ("WITH s AS (DELETE FROM a RETURNING *) SELECT * FROM s", "refused: NoKey(\"a\", \"k\")".to_owned()),
        ("MERGE INTO a USING b ON a.k = b.k WHEN MATCHED THEN DELETE", "refused: Unfamiliar".to_owned()),
        // Only what is read can be a common table expression.
        ("WITH a AS (SELECT 1) UPDATE a SET v = 1", "refused: NoKey(\"a\", \"k\")".to_owned()),
        ("WITH a AS (SELECT 1) DELETE FROM a", "refused: NoKey(\"a\", \"k\")".to_owned()),
        ("WITH a AS (SELECT 1) INSERT INTO a DEFAULT VALUES", "refused: NoValue(\"a\", \"k\")".to_owned()),
        ("UPDATE upon SET v = 1 WHERE k = 42", "refused: NotOnShards(\"upon\")".to_owned()),
        ("COPY a FROM STDIN", "refused: CopyFrom(\"a\")".to_owned()),
        ("COPY a TO STDOUT", no_key("a")),
        ("TRUNCATE a", "refused: Definition(\"a\")".to_owned()),
        ("ALTER TABLE a ADD v2 int", "refused: Definition(\"a\")".to_owned()),
        ("CREATE INDEX ON a (v)", "refused: Definition(\"a\")".to_owned()),
        ("DROP TABLE a", "refused: Definition(\"a\")".to_owned()),
        ("DROP TABLE IF EXISTS local, public.a", "refused: Definition(\"a\")".to_owned()),
        ("INSERT INTO local SELECT * FROM a WHERE k = 42", "NotOnShards(\"local\")".to_owned()),
        ("UPDATE r SET v = a.v FROM a WHERE a.k = 42", "Reference(\"r\")".to_owned()),
    ] {
        assert_eq!(route(sql, &Literals { is_utf8: true }), expected, "{sql}");
    }
}

/// Parameters with the types that the client declares.
struct Given(Vec<(u32, bool, Option<Vec<u8>>)>);

impl Parameters for Given {
    fn declared(&self, number: usize) -> u32 {
        self.0.get(number - 1).map_or(0, |&(oid, ..)| oid)
    }

    fn value(&self, number: usize) -> Option<(bool, Option<&[u8]>)> {
        self.0.get(number - 1).map(|(_, binary, value)| (*binary, value.as_deref()))
    }

    fn is_utf8(&self) -> bool {
        true
    }
}

/// An array of bigint in binary format.
fn array(elements: &[Option<i64>]) -> Vec<u8> {
    let dimensions = i32::from(!elements.is_empty());
    let mut bytes: Vec<u8> = [dimensions, 1, 20].into_iter().flat_map(i32::to_be_bytes).collect();
    if dimensions == 1 {
        bytes.extend([elements.len() as i32, 1].into_iter().flat_map(i32::to_be_bytes));
    }
    for element in elements {
        match element {
            Some(value) => {
                bytes.extend(8_i32.to_be_bytes());
                bytes.extend(value.to_be_bytes());
            }
            None => bytes.extend((-1_i32).to_be_bytes()),
        }
    }
    bytes
}

#[test]
fn parameters_are_read_by_their_types() {
    let text = |oid: u32, value: &str| (oid, false, Some(value.as_bytes().to_vec()));
    let binary = |oid: u32, value: &[u8]| (oid, true, Some(value.to_vec()));
    let by_key = "SELECT * FROM a WHERE k = $1";
    let by_any = "SELECT * FROM a WHERE k = ANY ($1)";
    let unnest = "INSERT INTO a (k, v) SELECT * FROM unnest($1::bigint[], $2::text[])";
    for (sql, parameters, expected) in [
        (by_key, vec![text(0, "42")], "2"),
        (by_key, vec![binary(0, &42_i64.to_be_bytes())], "2"),
        (by_key, vec![binary(23, &42_i32.to_be_bytes())], "2"),
        (by_key, vec![binary(21, &42_i16.to_be_bytes())], "2"),
        (by_key, vec![binary(701, &42_f64.to_be_bytes())], "Value"),
        (by_key, vec![text(1700, "42")], "Value"),
        (by_key, vec![(0, false, None)], "Value"),
        ("SELECT * FROM a WHERE k = $2", vec![text(0, "x"), text(0, "42")], "2"),
        ("SELECT * FROM a WHERE k = $1::int4", vec![text(0, "42")], "2"),
        ("SELECT * FROM a WHERE k = $1::int4", vec![text(25, "42")], "Value"),
        // The parameter is of the type of its first use.
        ("SELECT * FROM a WHERE f = $1 AND k = $1", vec![binary(0, &42_f64.to_be_bytes())], "Value"),
        ("SELECT * FROM a WHERE f = $1 AND k = $1::int8", vec![binary(0, &42_f64.to_be_bytes())], "Value"),
        ("SELECT * FROM a WHERE f = $1 AND k = $1", vec![binary(20, &42_i64.to_be_bytes())], "2"),
        ("SELECT * FROM a, b WHERE a.k = $1 AND b.k = $1", vec![text(0, "42")], "2"),
        ("SELECT * FROM a, b WHERE a.k = $1 AND b.k = a.k", vec![text(0, "42")], "2"),
        (
            "WITH s AS (SELECT k FROM a WHERE k = $1) UPDATE b SET v = $2 FROM s WHERE b.k = s.k",
            vec![text(0, "42"), text(0, "x")],
            "2",
        ),
        (
            "WITH s AS (SELECT k FROM a WHERE k = $1) UPDATE b SET v = $1 FROM s WHERE b.k = s.k",
            vec![text(0, "42")],
            "refused: Value",
        ),
        ("SELECT * FROM d, z WHERE d.k = $1 AND z.k = $1", vec![text(0, "2026-11-29")], "Value"),
        ("INSERT INTO a (k, v) VALUES ($1, $2)", vec![text(0, "42"), text(0, "x")], "2"),
        ("INSERT INTO a (k, v) VALUES ($1, $1)", vec![text(0, "42")], "refused: Value"),
        ("SELECT * FROM a WHERE k IN ($1, $2)", vec![text(0, "42"), text(0, "1")], "Several"),
        (by_any, vec![text(0, "{42,42}")], "2"),
        (by_any, vec![text(1016, "{}")], "hub"),
        (by_any, vec![text(1016, "{42,1}")], "Several"),
        (by_any, vec![text(1231, "{42}")], "Value"),
        (by_any, vec![text(20, "42")], "Value"),
        (by_any, vec![(1016, false, None)], "Value"),
        (by_any, vec![binary(1016, &array(&[Some(42), Some(42)]))], "2"),
        (by_any, vec![binary(0, &array(&[Some(42), None]))], "2"),
        (by_any, vec![binary(1016, &array(&[Some(42), Some(1)]))], "Several"),
        (by_any, vec![binary(1016, &array(&[]))], "hub"),
        (by_any, vec![binary(1016, &array(&[Some(42)])[..30])], "Value"),
        ("SELECT * FROM a WHERE f = ANY ($1) AND k = ANY ($1)", vec![text(0, "{42}")], "Value"),
        (unnest, vec![binary(0, &array(&[Some(42), Some(42)])), text(0, "{x,y}")], "2"),
        (unnest, vec![binary(0, &array(&[Some(42), None])), text(0, "{x,y}")], "refused: Value"),
    ] {
        assert_eq!(route(sql, &Given(parameters)), expected, "{sql}");
    }
}

#[test]
fn a_name_of_several_relations_is_not_proved() {
    let rows = [["public", "two", "sharded", "k", "bigint", "1", "1", "0", "one"]];
    let (_, catalog) = known();
    let map = Map::from_rows(rows).unwrap();
    let proof = |sql: &str| prove(sql, &map, &catalog).needs;
    assert_eq!(proof("SELECT * FROM two WHERE k = 1").unwrap_err(), Reason::Ambiguous("two".to_owned()));
    assert_eq!(proof("DELETE FROM two WHERE k = 1").unwrap_err(), Reason::Ambiguous("two".to_owned()));
    assert_eq!(proof("SELECT * FROM public.two WHERE k = 1").unwrap().len(), 1);
    assert_eq!(proof("SELECT * FROM other.two WHERE k = 1"), Ok(vec![]));
}

#[test]
fn what_needs_a_slot_that_is_about_to_move_is_known() {
    // The slots of 1, 2 and 3 of these two are 0, 0 and 1.
    let row = |kind, slot, shard| ["public", "a", kind, "k", "bigint", "1", "2", slot, shard];
    let map = Map::from_rows([row("closing", "0", "one"), row("sharded", "1", "one")]).unwrap();
    assert!(map.is_closing());
    let (_, catalog) = known();
    let literals = Literals { is_utf8: true };
    for (sql, closes) in [
        ("SELECT * FROM a WHERE k = 1", true),
        ("SELECT * FROM a WHERE k IN (3, 2)", true),
        ("DELETE FROM a WHERE k = 3", false),
        ("SELECT * FROM a", false),
        ("SELECT 1", false),
    ] {
        let proof = prove(sql, &map, &catalog);
        assert_eq!(proof.closes(&literals), closes, "{sql}");
        assert_ne!(proof.shard(&literals), Ok(Some(1)), "both are on one shard: {sql}");
    }
    assert!(!Map::from_rows([row("sharded", "0", "one"), row("sharded", "1", "one")]).unwrap().is_closing());
}

#[test]
fn a_map_that_lacks_a_slot_is_refused() {
    let row = |slot, key_type| ["public", "a", "sharded", "k", key_type, "1", "2", slot, "one"];
    let message = |rows: Vec<[&str; 9]>| Map::from_rows(rows).unwrap_err().0;
    assert_eq!(message(vec![row("0", "bigint")]), "table public.a: a slot is on no shard");
    assert_eq!(message(vec![row("2", "bigint")]), "table public.a: a slot is outside of its modulus");
    let of_type = vec![row("0", "numeric"), row("1", "numeric")];
    assert_eq!(message(of_type), "table public.a: the type of its key is not supported");
}

#[test]
fn what_only_the_hub_runs_is_of_the_hub() {
    let (map, catalog) = known();
    let hub = |sql: &str| {
        let proof = prove(sql, &map, &catalog);
        (proof.needs.map(|needs| needs.len()), proof.writes, proof.hub.is_some())
    };
    for sql in [
        "LISTEN c",
        "NOTIFY c",
        "DO 'BEGIN END'",
        "CALL p()",
        "CREATE TABLE fresh (k int)",
        "EXECUTE s",
        "PREPARE TRANSACTION 'x'",
        "COMMIT PREPARED 'x'",
        "ROLLBACK PREPARED 'x'",
        "CREATE VIEW x AS SELECT * FROM a",
        "CREATE TABLE x AS SELECT * FROM a",
        "SELECT * FROM upon",
    ] {
        assert_eq!(hub(sql), (Ok(0), false, true), "{sql}");
    }
    for sql in [
        "SELECT 1",
        "SET x = 1",
        "SHOW x",
        "SAVEPOINT s",
        "COMMIT",
        "SET CONSTRAINTS ALL DEFERRED",
        "FETCH c",
        "CLOSE c",
    ] {
        assert_eq!(hub(sql), (Ok(0), false, false), "{sql}");
    }
}

#[test]
fn blanks_that_a_column_cuts_are_not_proved() {
    let row = |key_type| ["public", "a", "sharded", "k", key_type, "1", "1", "0", "one"];
    let (_, catalog) = known();
    let shard = |key_type, sql: &str| {
        prove(sql, &Map::from_rows([row(key_type)]).unwrap(), &catalog).shard(&Literals { is_utf8: true })
    };
    assert_eq!(shard("character varying", "INSERT INTO a VALUES ('x ')"), Err(Reason::Value));
    assert_eq!(shard("character varying", "INSERT INTO a VALUES ('x')"), Ok(Some(0)));
    assert_eq!(shard("character varying", "SELECT * FROM a WHERE k = 'x '"), Ok(Some(0)));
    assert_eq!(shard("text", "INSERT INTO a VALUES ('x ')"), Ok(Some(0)));
}

#[test]
fn a_text_that_is_long_or_deep_is_not_given_to_the_parser() {
    let (map, catalog) = known();
    for sql in [
        format!("SELECT * FROM a WHERE k = {}1", "1 + ".repeat(30_000)),
        format!("SELECT * FROM a WHERE {} k = 1", "NOT ".repeat(30_000)),
        format!("DELETE FROM a WHERE k = {}1{}", "lower(".repeat(2000), ")".repeat(2000)),
    ] {
        let thread = std::thread::Builder::new().stack_size(2 << 20);
        let (needs, writes) = std::thread::scope(|scope| {
            let told = || {
                let proved = Memory::default().prove(&sql, (1, &map), &catalog);
                (proved.shard(sql.as_bytes(), &Literals { is_utf8: true }), proved.proof.writes)
            };
            thread.spawn_scoped(scope, told).unwrap().join().unwrap()
        });
        assert_eq!(needs, Err(Reason::Unread));
        assert!(writes, "it may write what it names");
    }
    let many = format!("INSERT INTO a (k) VALUES {}(42)", "(42), ".repeat(5000));
    let proved = Memory::default().prove(&many, (1, &map), &catalog);
    assert_eq!(proved.shard(many.as_bytes(), &Literals { is_utf8: true }), Ok(Some(2)));
}
