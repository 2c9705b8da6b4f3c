//! Size, nesting, encodings and memory.

use std::time::{Duration, Instant};

use classify::shape::{MAX_CANONICAL, MAX_DEPTH};
use classify::{Kind, Reason, lexable_encoding};

use crate::catalog::{classifier, judge, summary};

#[test]
fn long_texts_are_writes_and_cost_little() {
    let columns = vec!["some_column"; MAX_CANONICAL / 12].join(", ");
    assert_eq!(judge(&format!("SELECT {columns}")).pipelinable, Err(Reason::TooLong));
    // Literals do not count: a read with a megabyte of them is a read.
    let verdict = judge(&format!("SELECT '{}', id IN ({}1) FROM accounts", "x".repeat(1 << 20), "1, ".repeat(100_000)));
    assert_eq!(summary(&verdict), "Read ro fast");
    // Nor does a refusal: megabytes of rows that are no list of literals.
    let rows = "(1, now()), (2, NULL), ".repeat(500_000);
    let begun = Instant::now();
    assert_eq!(summary(&judge(&format!("INSERT INTO accounts VALUES {rows}(1)"))), "Write too_long dirties opaque");
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    // What has no shape is parsed as it is, and so bounded as it is.
    let verdict = judge(&format!("SELECT U&'{}'", "x".repeat(MAX_CANONICAL)));
    assert_eq!(verdict.pipelinable, Err(Reason::TooLong));
}

#[test]
fn deep_texts_do_not_reach_the_parser() {
    for (open, close) in [("(", ")"), ("ARRAY[", "]"), ("f(", ")"), ("(SELECT ", ")")] {
        let nested = |depth: usize| format!("SELECT {}1{}", open.repeat(depth), close.repeat(depth));
        assert_eq!(judge(&nested(MAX_DEPTH + 1)).pipelinable, Err(Reason::TooDeep), "{open}");
        assert_eq!(judge(&nested(100_000)).kind, Kind::Write, "{open}");
        assert_ne!(judge(&nested(8)).pipelinable, Err(Reason::TooDeep), "{open}");
    }
}

/// Depth without parentheses, as deep as the bound on size lets it be: no answer may take long or end the process.
#[test]
fn chains_are_judged_or_refused_within_bounds() {
    for (head, link, tail) in [
        ("SELECT 1", "+1", ""),
        ("SELECT ", "NOT ", "true"),
        ("SELECT ", "- ", "1"),
        ("SELECT 1", "::int", ""),
        ("SELECT 1", " UNION SELECT 1", ""),
        ("SELECT 1", " AND true", ""),
        ("SELECT a", ".b", ""),
        ("SELECT 1", " COLLATE c", ""),
        ("SELECT 1", " IS NULL", ""),
        ("SELECT * FROM accounts", " NATURAL JOIN accounts", ""),
        ("SELECT ", "CASE WHEN true THEN ", "1"),
        ("SELECT ", "EXPLAIN ", ""),
        ("", ";SELECT 1", ""),
    ] {
        for count in [1, 10, 20, 100, 1000, MAX_CANONICAL / 2] {
            let sql = format!("{head}{}{tail}", link.repeat(count));
            let begun = Instant::now();
            let verdict = judge(&sql);
            assert!(begun.elapsed() < Duration::from_secs(1), "{head}{link}... took {:?}", begun.elapsed());
            assert!(verdict.read_only || verdict.kind == Kind::Write, "{head}{link} {count}");
        }
    }
    // Not so little that usual statements suffer.
    for (head, link) in
        [("SELECT 1", "+1"), ("SELECT * FROM accounts a", " JOIN history USING (id)"), ("SELECT 1", " UNION SELECT 1")]
    {
        assert!(judge(&format!("{head}{}", link.repeat(12))).read_only, "{head}{link}");
    }
    assert!(judge(&format!("SELECT 1{}", " OR id = 1".repeat(500))).read_only);
}

#[test]
fn what_cannot_be_parsed_is_a_write_that_may_do_anything() {
    for (sql, expected) in [
        ("SELEC 1", "Write unparsable dirties opaque"),
        ("SELECT FROM WHERE", "Write unparsable dirties opaque"),
        ("BEGIN; COMMIT; SELEC", "Write unparsable dirties opaque transaction"),
        ("SELECT 'x", "Write unlexable dirties opaque"),
        ("SELECT PG_Advisory_Lock(1) 'x", "Write unlexable pins dirties opaque"),
        ("PREPARE x AS SELECT 'x", "Write unlexable pins dirties opaque transaction"),
        ("SELECT trend, loader 'x", "Write unlexable dirties opaque"),
        ("CREATE TEMP TABLE x (a int 0x1F)", "Write unlexable pins dirties opaque ddl"),
    ] {
        assert_eq!(summary(&judge(sql)), expected, "{sql}");
    }
}

#[test]
fn collapsed_lists_that_do_not_parse_are_parsed_in_full() {
    assert!(judge("SELECT (now(), now()) OVERLAPS (now(), now())").read_only);
    assert!(judge("SELECT (1, 2) OVERLAPS (3, 4)").read_only);
    assert!(judge("SELECT * FROM accounts WHERE (a, b) IN ((1, 2), (3, 4))").read_only);
    assert_eq!(judge("SELECT overlay('a' PLACING 'b' FROM 1)").pipelinable.unwrap_err().label(), "unknown_function");
}

#[test]
fn encodings() {
    for name in ["UTF8", "latin1", "WIN1252", "EUC_JP", "SQL_ASCII", "koi8r"] {
        assert!(lexable_encoding(name), "{name}");
    }
    for name in ["SJIS", "Shift_JIS", "big5", "GBK", "GB18030", "UHC", "johab", "SHIFT_JIS_2004", "win936"] {
        assert!(!lexable_encoding(name), "{name}");
    }
    let mut classifier = classifier();
    // Bytes of another encoding in a literal or a comment are no matter; in a name they are.
    let verdict = classifier.classify(b"SELECT '\xe9' /* \xe9 */ FROM accounts", true);
    assert_eq!(summary(verdict), "Read ro fast");
    let verdict = classifier.classify(b"SELECT \xe9 FROM accounts", true);
    assert_eq!(verdict.pipelinable, Err(Reason::Encoding));
    assert_eq!(verdict.kind, Kind::Write);
    assert_eq!(classifier.opaque(b"SELECT 1", Reason::Encoding).kind, Kind::Write);
}

#[test]
fn shapes_are_remembered_within_a_bound() {
    let mut classifier = classify::Classifier::new(8);
    classifier.set_catalog(crate::catalog::catalog("180001"));
    let hot = b"SELECT 1";
    for round in 0..100 {
        classifier.classify(format!("SELECT column_{round} FROM accounts").as_bytes(), true);
        let parsed = classifier.parsed();
        classifier.classify(hot, true);
        // What is used in every round stays.
        assert!(round == 0 || classifier.parsed() == parsed, "parsed again in round {round}");
        assert!(classifier.len() <= 8);
    }
    let parsed = classifier.parsed();
    classifier.classify(b"SELECT column_0 FROM accounts", true);
    assert_eq!(classifier.parsed(), parsed + 1);
}
