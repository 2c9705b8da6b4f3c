//! The queries that a catalog is read by: what they name is PostgreSQL's own, whatever anybody else has created.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use classify::Catalog;
use classify::shape::{Shaper, Token};

/// Words that stand for operators or functions that are looked up by a search_path.
const IMPLIED: &[&str] = &[
    "in",
    "between",
    "like",
    "ilike",
    "similar",
    "using",
    "natural",
    "nullif",
    "greatest",
    "least",
    "extract",
    "overlaps",
    "substring",
    "position",
    "trim",
    "overlay",
    "collate",
    "distinct",
    "some",
    "cast",
    "current_schema",
    "xmlparse",
];
/// What a parenthesis may follow beside a function.
const SYNTAX: &[&str] =
    &["operator", "any", "all", "exists", "coalesce", "values", "as", "array", "from", "where", "and", "or", "lateral"];

/// Why a query asks something that others may answer.
fn foreign(sql: &str, ctes: &[&str]) -> Vec<String> {
    let mut tokens = Vec::new();
    Shaper::default()
        .lex(sql.as_bytes(), true, |token, from, to| tokens.push((token, sql[from..to].to_ascii_lowercase())))
        .unwrap();
    let text = |at: Option<usize>| at.and_then(|at| tokens.get(at)).map_or("", |(_, text)| text.as_str());
    let mut found = Vec::new();
    for (at, (token, word)) in tokens.iter().enumerate() {
        let before = |places: usize| text(at.checked_sub(places));
        let next = text(Some(at + 1));
        let qualified = before(1) == "." && before(2) == "pg_catalog";
        let count = word == "*" && before(1) == "(" && before(2) == "count";
        let wrong = match token {
            Token::Op => !(qualified && before(3) == "(" && before(4) == "operator" || count),
            Token::Word if IMPLIED.contains(&word.as_str()) => true,
            Token::Word if word == "case" => next != "when",
            // Of an operator that is named, or of UNION.
            Token::Word if word == "any" || word == "all" => before(1) != ")" && before(1) != "union",
            Token::Word if before(1) == "from" || before(1) == "join" => {
                !(word == "pg_catalog" || word == "lateral" || ctes.contains(&word.as_str()))
                    && text(at.checked_sub(1)) != "("
                    && before(2) != "select"
            }
            Token::Word if next == "(" => {
                !(qualified || SYNTAX.contains(&word.as_str()) || ctes.contains(&word.as_str()) || before(1) == "as")
            }
            Token::Punct if word == "::" => next != "pg_catalog",
            _ => false,
        };
        if wrong {
            found.push(format!("{} {} {word} {next}", before(2), before(1)));
        }
    }
    found
}

/// The names of the common table expressions of a query.
fn ctes(sql: &str) -> Vec<&str> {
    sql.lines()
        .filter(|line| line.ends_with(" AS (") || line.contains(" AS (SELECT"))
        .filter_map(|line| line.trim_start_matches("WITH ").split([' ', '(']).next())
        .filter(|name| !name.is_empty())
        .collect()
}

#[test]
fn nothing_is_looked_up_by_a_search_path() {
    for sql in [Catalog::QUERY, Catalog::FINGERPRINT] {
        assert_eq!(foreign(sql, &ctes(sql)), Vec::<String>::new());
        assert!(ctes(sql).len() > 2);
    }
    for sql in [
        "SELECT 1 = 1",
        "SELECT 1 OPERATOR(mine.=) 1",
        "SELECT lower('x')",
        "SELECT mine.lower('x')",
        "SELECT 'x'::text",
        "SELECT 'x'::mine.text",
        "SELECT 1 FROM pg_proc",
        "SELECT 1 FROM pg_catalog.pg_proc p JOIN pg_class c ON true",
        "SELECT 1 IN (2)",
        "SELECT CASE x WHEN 1 THEN 2 END",
        "SELECT x IS DISTINCT FROM y",
        "SELECT 1 FROM pg_catalog.pg_proc JOIN pg_catalog.pg_class USING (oid)",
    ] {
        assert_ne!(foreign(sql, &[]), Vec::<String>::new(), "{sql}");
    }
}

/// What is read is counted: else a change of it would not be noticed.
#[test]
fn the_fingerprint_is_of_all_that_is_read() {
    let relations = |sql: &'static str| {
        let mut names: Vec<&str> = sql
            .split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '.')
            .filter_map(|word| word.strip_prefix("pg_catalog."))
            .filter(|name| {
                let oids = ["pg_get_viewdef", "pg_get_expr"];
                name.starts_with("pg_") && !oids.contains(name)
            })
            .collect();
        names.sort_unstable();
        names.dedup();
        names
    };
    let counted = relations(Catalog::FINGERPRINT);
    let missing: Vec<&str> = relations(Catalog::QUERY).into_iter().filter(|name| !counted.contains(name)).collect();
    // Dependencies come and go with what they are of.
    assert_eq!(missing, ["pg_depend"]);
}
