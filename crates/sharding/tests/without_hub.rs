//! Statements on shards without a hub: what is proved, what is refused, and what may run anywhere.

#![allow(clippy::unwrap_used, reason = "tests end where something is wrong")]

use classify::Catalog;
use sharding::{Automatic, Function, Literals, Map, prove};

fn map(key: &str, function: Function) -> Map {
    let shards = ["zero", "one", "two"].map(Into::into).to_vec();
    let rows = [
        ["public", "data", "bigint", "1"],
        ["public", "names", "text", "2"],
        ["public", "odd", "numeric", "1"],
        ["public", "viewed", "", ""],
    ];
    Automatic::new(key, function, shards).unwrap().map(rows).unwrap()
}

/// The shard of a statement, `any` if no sharded table is in it, or `refused`.
fn outcome(map: &Map, sql: &str) -> String {
    let proof = prove(sql, map, &Catalog::default());
    match proof.shard(&Literals { is_utf8: true }) {
        Ok(Some(shard)) => map.shards[shard].to_string(),
        Ok(None) => "any".to_owned(),
        Err(_) => "refused".to_owned(),
    }
}

#[test]
fn what_is_not_proved_is_refused_if_it_names_a_sharded_table() {
    let map = map("*.id", Function::Postgres);
    let [one, two] = ["SELECT FROM data WHERE id = 1", "SELECT FROM data WHERE id = 2"].map(|sql| outcome(&map, sql));
    assert!(one != "refused" && one != "any" && two != "refused" && two != "any");
    for (sql, expected) in [
        ("SELECT f(x), now() FROM data, others WHERE id = 1", one.as_str()),
        ("INSERT INTO data (a, id) VALUES (5, 1)", &one),
        ("WITH a AS (SELECT * FROM data WHERE 2 = id) DELETE FROM others USING a", &two),
        ("CREATE TABLE made AS SELECT * FROM data WHERE id = 2", &two),
        ("SELECT * FROM others", "any"),
        ("SELECT f(1)", "any"),
        ("CREATE TABLE others (a int)", "any"),
        ("SELECT xmlelement(name a)", "any"),
        ("SET SERVER ROLE TO 'primary'", "any"),
        ("SELECT * FROM data WHERE a = 1", "refused"),
        ("SELECT * FROM data WHERE id = 1 OR a = 1", "refused"),
        ("SELECT * FROM others WHERE a IN (SELECT id FROM data)", "refused"),
        ("SELECT * FROM odd WHERE id = 1", "refused"),
        ("SELECT * FROM viewed WHERE id = 1", "refused"),
        ("SELECT xmlelement(name a, (SELECT id FROM data))", "refused"),
        ("SELECT xmlelement(name a, (SELECT id FROM viewed))", "refused"),
        ("COPY viewed TO STDOUT", "refused"),
        ("INSERT INTO viewed VALUES (1)", "refused"),
        ("CREATE VIEW other AS SELECT * FROM data WHERE id = 1", "refused"),
        ("CREATE TABLE data AS SELECT 1", "refused"),
        ("DROP TABLE data", "refused"),
        ("SELECT * FORM data", "refused"),
    ] {
        assert_eq!(outcome(&map, sql), expected, "{sql}");
    }
}

#[test]
fn sha1_places_integers_alone() {
    let map = map("data.id", Function::Sha1);
    for key in 0..50_i64 {
        let shard = Function::Sha1.slot(Function::Sha1.integer(key), 3);
        let sql = format!("SELECT FROM data WHERE id = {key}");
        assert_eq!(outcome(&map, &sql), map.shards[usize::try_from(shard).unwrap()].to_string());
    }
    assert_eq!(outcome(&map, "SELECT FROM names WHERE id = 'a'"), "refused");
}

#[test]
fn a_key_is_a_table_or_all_and_a_column() {
    let made = |key: &str| Automatic::new(key, Function::Postgres, Vec::new());
    for (key, table) in [("data.id", Some("data")), ("*.w_id", None)] {
        assert_eq!(made(key).unwrap().table.as_deref(), table);
    }
    for key in ["id", "a.b.c", ".id", "data.", "*.*", "da'ta.id", "data.i'd"] {
        assert!(made(key).is_none(), "{key}");
    }
}
