//! Which statements share a shape, and which do not.

use std::collections::HashMap;

use classify::shape::{Refusal, Shaper};

fn canonical(sql: &str, scs: bool) -> Result<String, Refusal> {
    let mut shaper = Shaper::default();
    shaper.shape(sql.as_bytes(), scs)?;
    Ok(String::from_utf8_lossy(shaper.canonical()).trim_end().to_owned())
}

#[test]
fn literals_are_reduced_to_their_kinds() {
    for (sql, expected) in [
        ("SELECT 1, 2", "select 1 , 1"),
        ("SELECT 2147483647", "select 1"),
        ("SELECT 2147483648", "select 1.0"),
        ("SELECT 1.5, .5, 1., 1e10, 1.5E-3", "select 1.0 , 1.0 , 1.0 , 1.0 , 1.0"),
        ("SELECT -1", "select - 1"),
        ("SELECT ''", "select 's'"),
        ("SELECT 'it''s'", "select 's'"),
        ("SELECT E'it\\'s', e''", "select 's' , 's'"),
        ("SELECT 'a'\n'b'", "select 's'"),
        ("SELECT 'a' -- more\n  'b'", "select 's'"),
        ("SELECT $$it's$$, $a$ $$ $b$ $a$", "select 's' , 's'"),
        ("SELECT N'x'", "select nchar 's'"),
        ("SELECT B'01', X'1F'", "select b'' , x''"),
        ("SELECT $1, $22", "select $1 , $1"),
        ("SELECT true, null", "select true , null"),
        ("SELECT date '2020-01-01'", "select date 's'"),
        ("Select  \t\r\n\x0c A.\"B c\" /* x /* y */ z */ From T -- end", "select a . \"B c\" from t"),
        ("SELECT a::int, b[1:2], c->>'x', d:=1", "select a :: int , b [ 1 : 1 ] , c ->> 's' , d := 1"),
        ("SELECT 1+-2, 3*-4, 5<-6, @-7", "select 1 + - 1 , 1 * - 1 , 1 < - 1 , @- 1"),
        ("SELECT 1--2\n+3", "select 1 + 1"),
        ("SELECT 1+/*x*/2", "select 1 + 1"),
        ("; ;SELECT 1;;SELECT 2;", "select 1 ; select 1"),
        ("SET a = 'B', 1", "set a = 'B' , 1"),
        ("SET a = 'x'; SELECT 'x'", "set a = 'x' ; select 's'"),
        ("UPDATE t SET a = 'x'", "update t set a = 's'"),
        ("SELECT $1e", "select"),
        ("SELECT é, ÄB", "select é , Äb"),
    ] {
        match canonical(sql, true) {
            Ok(found) => assert_eq!(found, expected, "{sql}"),
            Err(refusal) => assert_eq!((refusal, sql), (Refusal::Unlexable, "SELECT $1e")),
        }
    }
}

#[test]
fn lists_of_literals_are_as_one() {
    for (sql, expected) in [
        ("SELECT a IN (1)", "select a in ( 1 )"),
        ("SELECT a IN (1, 2, 3)", "select a in ( 1 )"),
        ("SELECT a IN ('x', 'y')", "select a in ( 's' )"),
        ("SELECT a IN ($1, $2, $3)", "select a in ( $1 )"),
        ("SELECT ARRAY[1.5, 2.5]", "select array [ 1.0 ]"),
        ("SELECT a IN (1, 'x', 2)", "select a in ( 1 , 's' , 1 )"),
        ("SELECT a IN (1, b, 2)", "select a in ( 1 , b , 1 )"),
        ("INSERT INTO t VALUES (1, 'x'), (2, 'y'), (3, 'z')", "insert into t values ( 1 , 's' )"),
        ("INSERT INTO t VALUES (1, f(2)), (3, f(4))", "insert into t values ( 1 , f ( 1 ) )"),
        ("INSERT INTO t VALUES (1, 'x'), (2, NULL)", "insert into t values ( 1 , 's' ) , ( 1 , null )"),
        ("SELECT a IN ((1, 2), (3, 4))", "select a in ( ( 1 ) )"),
        ("SELECT ARRAY[[1, 2], [3, 4]]", "select array [ [ 1 ] ]"),
        ("SELECT 1, 1", "select 1 , 1"),
        ("SELECT f(1), f(2)", "select f ( 1 ) , f ( 1 )"),
        ("SELECT f(1), g(2)", "select f ( 1 ) , g ( 1 )"),
    ] {
        assert_eq!(canonical(sql, true).unwrap(), expected, "{sql}");
    }
}

#[test]
fn backslashes_escape_as_the_session_says() {
    // With standard strings the string ends at the quote; without, it goes on to the last.
    let sql = "SELECT 'a\\' , nextval(1) --'";
    assert_eq!(canonical(sql, true).unwrap(), "select 's' , nextval ( 1 )");
    assert_eq!(canonical(sql, false).unwrap(), "select 's'");
    assert_eq!(canonical("SELECT 'a\\'", false), Err(Refusal::Unlexable));
    assert_eq!(canonical("SELECT E'a\\'", true), Err(Refusal::Unlexable));
    assert_eq!(canonical("SELECT $$a\\$$, $$b$$", false).unwrap(), "select 's' , 's'");
    assert_eq!(canonical("SELECT \"a\\\" FROM t", false).unwrap(), "select \"a\\\" from t");
}

#[test]
fn what_is_not_lexed_to_its_end_is_refused() {
    for sql in [
        "SELECT 'a",
        "SELECT \"a",
        "SELECT $$a",
        "SELECT $a$ $b$",
        "SELECT /* a",
        "SELECT /* a /* b */",
        "SELECT \"\"",
        "SELECT 1\0",
        "SELECT 0x1F",
        "SELECT 1_000",
        "SELECT 12ab",
        "SELECT 1..2",
        "SELECT 1e",
        "SELECT $a",
        "SELECT \\",
        "SELECT {",
        "SELECT E'\\",
        "SELECT 'a\\",
    ] {
        let found = canonical(sql, true);
        assert_eq!(found, Err(Refusal::Unlexable), "{sql}");
    }
}

#[test]
fn different_words_are_different_shapes() {
    let mut shaper = Shaper::default();
    let mut seen = HashMap::new();
    for sql in [
        "SELECT 1",
        "SELECT 1.5",
        "SELECT 'x'",
        "SELECT B'1'",
        "SELECT X'1'",
        "SELECT $1",
        "SELECT N'x'",
        "SELECT a",
        "SELECT \"A\"",
        "SELECT \"a\"",
        "SELECT a b",
        "SELECT ab",
        "SELECT a.b",
        "SELECT a, b",
        "SELECT (a)",
        "SELECT a;SELECT b",
        "SELECT a FOR UPDATE",
        "SELECT 1, 'x'",
        "SELECT 'x', 1",
        "SET a = 1",
        "SET a = 2",
        "SELECT -1",
        "SELECT - -1",
        "SELECT @-1",
        "",
    ] {
        let key = shaper.shape(sql.as_bytes(), true).unwrap().key;
        if let Some(other) = seen.insert(key, sql) {
            panic!("{sql} and {other} have one shape");
        }
    }
}
