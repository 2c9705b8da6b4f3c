//! Calls of `set_config`: those that are a SET in other words, and those whose parameter or value the server knows.

use classify::configure::{Argument, Configured};
use classify::{Kind, Reasons, Value};

use crate::catalog::judge;

#[test]
fn constants_are_a_set() {
    let text = |value: &str| Value::Text(value.to_owned());
    for (sql, name, local, value, statement) in [
        ("SELECT set_config('app.tenant', '7', false)", "app.tenant", false, text("7"), "SET \"app\".\"tenant\" = '7'"),
        (
            "SELECT pg_catalog.set_config('search_path', '', false)",
            "search_path",
            false,
            text(""),
            "SET \"search_path\" = ''",
        ),
        (
            "select SET_CONFIG('Search_Path', 'a, \"B\"', true) AS x",
            "search_path",
            true,
            text("a, \"B\""),
            "SET LOCAL \"search_path\" = 'a', 'B'",
        ),
        (
            "SELECT set_config('work_mem'::text, $$1MB$$, 'off')",
            "work_mem",
            false,
            text("1MB"),
            "SET \"work_mem\" = '1MB'",
        ),
        (
            "SELECT set_config('work_mem', NULL, 'f'::bool)",
            "work_mem",
            false,
            Value::Default,
            "SET \"work_mem\" TO DEFAULT",
        ),
        ("SELECT set_config('a.b', E'x\\ty', false)", "a.b", false, text("x\ty"), "SET \"a\".\"b\" = 'x\ty'"),
    ] {
        let verdict = judge(sql);
        let Kind::Set(sets) = &verdict.kind else { panic!("{sql}: {verdict:?}") };
        assert_eq!(sets.len(), 1, "{sql}");
        assert_eq!((sets[0].name.as_str(), sets[0].local, &sets[0].value), (name, local, &value), "{sql}");
        assert_eq!(sets[0].statement, statement, "{sql}");
        assert!(!verdict.dirties && !verdict.opaque && !verdict.pins.any() && verdict.is_call, "{sql}: {verdict:?}");
        assert_eq!(verdict.session(), !local, "{sql}");
    }
    let two = judge("SELECT set_config('a.b', 'x', true), set_config('c.d', 'y', false); SELECT 1");
    assert!(matches!(two.kind_of(0), Some(Kind::Set(sets)) if sets.len() == 2));
    assert_ne!(judge("SELECT set_config('a.b', 'x', false)"), judge("SELECT set_config('a.b', 'y', false)"));
    assert_eq!(judge("SELECT set_config('search_path', 'pg_temp', false)").pins, Reasons::TEMPORARY);
}

#[test]
fn what_the_server_knows_is_asked_and_what_nobody_knows_pins() {
    let name = |name: &str| Argument::Text(name.to_owned());
    for (sql, configures, pins) in [
        ("SELECT set_config('a.b', $1, false)", vec![(name("a.b"), name("f"))], Reasons::NONE),
        ("SELECT set_config('a.b', $2, $1)", vec![(name("a.b"), Argument::Parameter(1))], Reasons::NONE),
        (
            "SELECT set_config($3::text, $2::varchar, $1::bool)",
            vec![(Argument::Parameter(3), Argument::Parameter(1))],
            Reasons::NONE,
        ),
        (
            "WITH a AS (SELECT $1) SELECT \"set_config\"($3, $2, false) FROM a",
            vec![(Argument::Parameter(3), name("f"))],
            Reasons::NONE,
        ),
        ("SELECT set_config('a.b', upper('x'), false) FROM accounts", vec![(name("a.b"), name("f"))], Reasons::NONE),
        ("SELECT 1, set_config('a.b', 'x', false)", vec![(name("a.b"), name("f"))], Reasons::NONE),
        ("SELECT set_config('a.b', 'x', false) WHERE false", vec![(name("a.b"), name("f"))], Reasons::NONE),
        ("SELECT set_config('a.b', $1, true)", vec![], Reasons::NONE),
        ("SELECT set_config($1, $2, true)", vec![], Reasons::NONE),
        ("SELECT set_config('transaction_read_only', 'on', false)", vec![], Reasons::NONE),
        ("SELECT set_config(lower('A'), 'x', false)", vec![], Reasons::SETTING),
        ("SELECT set_config('seed', $1, false)", vec![], Reasons::LASTING),
        ("DO $$ BEGIN PERFORM set_config('a.b', 'x', false); END $$", vec![], Reasons::SETTING),
    ] {
        let verdict = judge(sql);
        let found: Vec<_> =
            verdict.configures.iter().map(|Configured { name, local }| (name.clone(), local.clone())).collect();
        assert_eq!((found, verdict.pins), (configures, pins), "{sql}: {verdict:?}");
        assert_eq!(verdict.kind, Kind::Write, "{sql}");
    }
}
