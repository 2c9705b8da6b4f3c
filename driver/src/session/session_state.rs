//! What a command may leave behind in the session, so that a pool resets only the sessions that need it.
//!
//! A pool's reset undoes settings, roles, temporary tables, session-level advisory locks, LISTEN and cursors that outlive
//! their transaction. A
//! command is taken to leave nothing of these only if it is plainly so: a query (or transaction control) that writes
//! nothing, since triggers run what they like, and calls only functions of PostgreSQL that are known to leave nothing.
//! Everything else may: a wrong "may" costs a command that the server answers in passing, a wrong "may not" would give
//! one client the settings of another. What is out of sight here is what a query calls without naming it, through
//! views, operators, casts and policies; the guide says so.

mod scan;
mod words;

use scan::{Scan, Token};
use words::{HARMLESS, NO_CALL, OPENINGS, WRITES};

/// Whether running these commands may leave something in the session that a reset undoes.
pub fn may_change_session(sql: &str) -> bool {
    let mut scan = Scan { rest: sql };
    let mut first = true;
    // The two tokens before the current one.
    let mut before = Token::Other('\0');
    let mut qualifier: Option<Token> = None;
    loop {
        let Some(token) = scan.token() else { return true };
        match &token {
            Token::End => return false,
            Token::Other(';') => first = true,
            Token::Word(word) => {
                if first {
                    first = false;
                    if !OPENINGS.contains(&word.as_str()) {
                        return true;
                    }
                } else if WRITES.contains(&word.as_str()) {
                    return true;
                }
            }
            Token::Other('(') => {
                first = false;
                match &before {
                    Token::Word(name) => {
                        let is_alias = matches!(&qualifier, Some(Token::Word(word)) if word == "as");
                        let schema = match &qualifier {
                            Some(Token::Schema(schema)) => Some(schema.as_str()),
                            _ => None,
                        };
                        if !is_alias && !leaves_nothing(schema, name) {
                            return true;
                        }
                    }
                    Token::Quoted => return true,
                    _ => {}
                }
            }
            Token::Quoted | Token::Schema(_) | Token::Other(_) => first = false,
        }
        if let Token::Schema(_) = before
            && let Token::Quoted = token
        {
            return true;
        }
        qualifier = Some(std::mem::replace(&mut before, token));
    }
}

fn leaves_nothing(schema: Option<&str>, name: &str) -> bool {
    match schema {
        None => NO_CALL.contains(&name) || HARMLESS.binary_search(&name).is_ok(),
        Some("pg_catalog") => HARMLESS.binary_search(&name).is_ok(),
        Some("pgml") => ["explain", "models", "predict", "predict_batch", "predict_proba"].contains(&name),
        Some(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_sorted() {
        assert!(HARMLESS.is_sorted());
    }

    #[test]
    fn queries_leave_nothing() {
        for sql in [
            "",
            "select 1",
            "SELECT $1::int + 1",
            "select * from flights where id = $1 and note <> 'set_config(''x'')'",
            "select count(*), max(delay) filter (where day > 3) over (partition by day) from flights",
            "select pg_catalog.count(*) from t -- set_config('a', 'b', false)",
            "select /* set /* nested */ search_path */ $$set x$$, $q$ insert $q$, E'it\\'s'",
            "with late as (select id from flights) select * from late where id in (1, 2)",
            "select x from unnest($1::int[]) as t(x)",
            "values (1, 2), (3, 4)",
            "begin; select 1; commit",
            "begin isolation level serializable read only deferrable;",
            "select pgml.predict('flights', x) from flights",
            "select cast(a as numeric(10, 2)) from t",
            "show work_mem",
            "select \"Odd Name\".\"Column\" from \"Odd Name\"",
            "(select 1) union (select 2)",
        ] {
            assert!(!may_change_session(sql), "{sql}");
        }
    }

    #[test]
    fn everything_else_may_leave_something() {
        for sql in [
            "set work_mem = '1MB'",
            "select 1; set work_mem = '1MB'",
            "reset all",
            "listen news",
            "select set_config('a.b', 'c', false)",
            "select pg_advisory_lock(1)",
            "select pg_catalog.pg_advisory_lock(1)",
            "select pg_catalog . set_config('a.b', 'c', false)",
            "select \"set_config\"('a.b', 'c', false)",
            "select pg_catalog.\"set_config\"('a.b', 'c', false)",
            "select set_config/* */\n('a.b', 'c', false)",
            "select my_function()",
            "select app.count(1)",
            "insert into t values (1)",
            "with gone as (delete from t returning *) select * from gone",
            "call p()",
            "do $$ begin end $$",
            "declare c cursor with hold for select 1",
            "explain analyze select my_function()",
            "create table t (a int)",
            "select 1 as a into temp t",
            "select 'it\\'s', set_config('a.b', 'c', false) --'",
            "select U&\"set!005fconfig\" uescape '!' ('a.b', 'c', false)",
            "select 'open",
            "select /* open",
            "select 'x' || e'\\'' , set_config('a.b', 'c', false) --'",
            "copy t from stdin",
            "load 'auto_explain'",
            "discard all",
        ] {
            assert!(may_change_session(sql), "{sql}");
        }
    }
}
