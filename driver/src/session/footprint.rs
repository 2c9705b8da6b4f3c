//! What a command may leave behind in the session, so that a pool resets only the sessions that need it.
//!
//! A pool's reset undoes settings, session-level advisory locks, LISTEN and cursors that outlive their transaction. A
//! command is taken to leave nothing of these only if it is plainly so: a query (or transaction control) that writes
//! nothing, since triggers run what they like, and calls only functions of PostgreSQL that are known to leave nothing.
//! Everything else may: a wrong "may" costs a command that the server answers in passing, a wrong "may not" would give
//! one client the settings of another. What is out of sight here is what a query calls without naming it, through
//! views, operators, casts and policies; the guide says so.

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

/// How a command that leaves nothing may begin.
const OPENINGS: &[&str] = &[
    "abort",
    "begin",
    "commit",
    "end",
    "explain",
    "release",
    "rollback",
    "savepoint",
    "select",
    "show",
    "start",
    "table",
    "values",
    "with",
];

/// Words that write, and so run triggers.
const WRITES: &[&str] = &["delete", "insert", "merge", "update"];

/// Words that stand before a parenthesis without calling anything that could leave something.
const NO_CALL: &[&str] = &[
    "all",
    "and",
    "any",
    "array",
    "as",
    "between",
    "bit",
    "by",
    "case",
    "cast",
    "char",
    "character",
    "coalesce",
    "cross",
    "cube",
    "dec",
    "decimal",
    "distinct",
    "else",
    "except",
    "exists",
    "extract",
    "filter",
    "float",
    "from",
    "full",
    "greatest",
    "group",
    "grouping",
    "having",
    "ilike",
    "in",
    "inner",
    "intersect",
    "interval",
    "is",
    "join",
    "lateral",
    "least",
    "left",
    "like",
    "limit",
    "materialized",
    "nchar",
    "not",
    "nullif",
    "numeric",
    "offset",
    "on",
    "or",
    "order",
    "over",
    "overlay",
    "partition",
    "position",
    "precision",
    "right",
    "rollup",
    "row",
    "select",
    "sets",
    "similar",
    "some",
    "substring",
    "then",
    "time",
    "timestamp",
    "treat",
    "trim",
    "union",
    "unique",
    "using",
    "values",
    "varbit",
    "varchar",
    "varying",
    "when",
    "where",
    "with",
    "within",
    "zone",
];

/// Functions of PostgreSQL that leave nothing behind which a reset undoes, in the order of bytes.
const HARMLESS: &[&str] = &[
    "abs",
    "acos",
    "age",
    "array_agg",
    "array_append",
    "array_cat",
    "array_dims",
    "array_length",
    "array_lower",
    "array_ndims",
    "array_position",
    "array_positions",
    "array_prepend",
    "array_remove",
    "array_replace",
    "array_to_json",
    "array_to_string",
    "array_upper",
    "ascii",
    "asin",
    "atan",
    "atan2",
    "avg",
    "bit_and",
    "bit_length",
    "bit_or",
    "bool_and",
    "bool_or",
    "btrim",
    "cardinality",
    "cbrt",
    "ceil",
    "ceiling",
    "char_length",
    "character_length",
    "chr",
    "clock_timestamp",
    "col_description",
    "concat",
    "concat_ws",
    "corr",
    "cos",
    "cot",
    "count",
    "covar_pop",
    "covar_samp",
    "cume_dist",
    "current_database",
    "current_query",
    "current_schema",
    "current_schemas",
    "current_setting",
    "currval",
    "date_bin",
    "date_part",
    "date_trunc",
    "decode",
    "degrees",
    "dense_rank",
    "div",
    "encode",
    "every",
    "exp",
    "factorial",
    "first_value",
    "floor",
    "format",
    "format_type",
    "gcd",
    "gen_random_uuid",
    "generate_series",
    "generate_subscripts",
    "get_bit",
    "get_byte",
    "has_column_privilege",
    "has_schema_privilege",
    "has_table_privilege",
    "hashtext",
    "host",
    "inet_client_addr",
    "inet_server_addr",
    "initcap",
    "isempty",
    "isfinite",
    "json_agg",
    "json_array_elements",
    "json_array_elements_text",
    "json_array_length",
    "json_build_array",
    "json_build_object",
    "json_each",
    "json_each_text",
    "json_extract_path",
    "json_extract_path_text",
    "json_object",
    "json_object_agg",
    "json_object_keys",
    "json_strip_nulls",
    "json_typeof",
    "jsonb_agg",
    "jsonb_array_elements",
    "jsonb_array_elements_text",
    "jsonb_array_length",
    "jsonb_build_array",
    "jsonb_build_object",
    "jsonb_each",
    "jsonb_each_text",
    "jsonb_extract_path",
    "jsonb_extract_path_text",
    "jsonb_insert",
    "jsonb_object",
    "jsonb_object_agg",
    "jsonb_object_keys",
    "jsonb_path_exists",
    "jsonb_path_query",
    "jsonb_pretty",
    "jsonb_set",
    "jsonb_strip_nulls",
    "jsonb_typeof",
    "justify_days",
    "justify_hours",
    "justify_interval",
    "lag",
    "last_value",
    "lastval",
    "lcm",
    "lead",
    "left",
    "length",
    "ln",
    "log",
    "log10",
    "lower",
    "lower_inc",
    "lower_inf",
    "lpad",
    "ltrim",
    "make_date",
    "make_interval",
    "make_time",
    "make_timestamp",
    "make_timestamptz",
    "max",
    "md5",
    "min",
    "mod",
    "mode",
    "nextval",
    "now",
    "nth_value",
    "ntile",
    "num_nonnulls",
    "num_nulls",
    "obj_description",
    "octet_length",
    "parse_ident",
    "percent_rank",
    "percentile_cont",
    "percentile_disc",
    "pg_advisory_xact_lock",
    "pg_backend_pid",
    "pg_blocking_pids",
    "pg_cancel_backend",
    "pg_column_size",
    "pg_current_wal_lsn",
    "pg_current_xact_id",
    "pg_database_size",
    "pg_get_constraintdef",
    "pg_get_expr",
    "pg_get_functiondef",
    "pg_get_indexdef",
    "pg_get_serial_sequence",
    "pg_get_userbyid",
    "pg_get_viewdef",
    "pg_indexes_size",
    "pg_is_in_recovery",
    "pg_last_wal_replay_lsn",
    "pg_my_temp_schema",
    "pg_notify",
    "pg_postmaster_start_time",
    "pg_relation_size",
    "pg_size_pretty",
    "pg_sleep",
    "pg_sleep_for",
    "pg_sleep_until",
    "pg_table_is_visible",
    "pg_table_size",
    "pg_terminate_backend",
    "pg_total_relation_size",
    "pg_try_advisory_xact_lock",
    "pg_type_is_visible",
    "pg_typeof",
    "pi",
    "plainto_tsquery",
    "power",
    "quote_ident",
    "quote_literal",
    "quote_nullable",
    "radians",
    "random",
    "range_agg",
    "range_merge",
    "rank",
    "regexp_match",
    "regexp_matches",
    "regexp_replace",
    "regexp_split_to_array",
    "regexp_split_to_table",
    "repeat",
    "replace",
    "reverse",
    "right",
    "round",
    "row_number",
    "row_to_json",
    "rpad",
    "rtrim",
    "set_bit",
    "set_byte",
    "sha256",
    "shobj_description",
    "sign",
    "sin",
    "split_part",
    "sqrt",
    "starts_with",
    "statement_timestamp",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "string_agg",
    "string_to_array",
    "strpos",
    "substr",
    "substring",
    "sum",
    "tan",
    "timeofday",
    "timezone",
    "to_char",
    "to_date",
    "to_hex",
    "to_json",
    "to_jsonb",
    "to_number",
    "to_regclass",
    "to_regtype",
    "to_timestamp",
    "to_tsquery",
    "to_tsvector",
    "transaction_timestamp",
    "translate",
    "trim_array",
    "trunc",
    "ts_headline",
    "ts_rank",
    "txid_current",
    "unnest",
    "upper",
    "upper_inc",
    "upper_inf",
    "var_pop",
    "var_samp",
    "variance",
    "version",
    "websearch_to_tsquery",
    "width_bucket",
];

/// A part of SQL, as far as it matters here.
#[derive(Debug, PartialEq)]
enum Token {
    /// A keyword or an identifier, in lower case.
    Word(String),
    /// An identifier that a dot follows, in lower case.
    Schema(String),
    /// An identifier in quotes.
    Quoted,
    /// A character of its own, or a literal as `'`.
    Other(char),
    End,
}

struct Scan<'a> {
    rest: &'a str,
}

impl Scan<'_> {
    /// The next token; `None` where it cannot be told how the server would read the text.
    fn token(&mut self) -> Option<Token> {
        self.space()?;
        let mut characters = self.rest.chars();
        let Some(first) = characters.next() else { return Some(Token::End) };
        match first {
            '\'' => self.literal(false),
            '"' => {
                self.quoted('"')?;
                self.space()?;
                // A schema in quotes is as unknown as a function in quotes.
                Some(Token::Quoted)
            }
            '$' if !characters.next().is_some_and(|second| second.is_ascii_digit()) => self.dollar(),
            '$' | '0'..='9' => {
                let end = self.rest[1..].find(|c: char| !c.is_alphanumeric()).map_or(self.rest.len(), |end| end + 1);
                self.rest = &self.rest[end..];
                Some(Token::Other('0'))
            }
            _ if first == '_' || first.is_alphabetic() => {
                let is_part = |c: char| c == '_' || c == '$' || c.is_alphanumeric();
                let end = self.rest.find(|c: char| !is_part(c)).unwrap_or(self.rest.len());
                let word = self.rest[..end].to_lowercase();
                self.rest = &self.rest[end..];
                if self.rest.starts_with('\'') && ["e", "b", "x", "n"].contains(&word.as_str()) {
                    return self.literal(word == "e");
                }
                if word == "u" && self.rest.starts_with('&') {
                    return None;
                }
                self.space()?;
                if self.rest.starts_with('.') {
                    self.rest = &self.rest[1..];
                    return Some(Token::Schema(word));
                }
                Some(Token::Word(word))
            }
            _ => {
                self.rest = &self.rest[first.len_utf8()..];
                Some(Token::Other(first))
            }
        }
    }

    /// Skips white space and comments.
    fn space(&mut self) -> Option<()> {
        loop {
            self.rest = self.rest.trim_start();
            if self.rest.starts_with("--") {
                self.rest = self.rest.find('\n').map_or("", |end| &self.rest[end..]);
            } else if self.rest.starts_with("/*") {
                let mut depth = 0;
                loop {
                    if let Some(inner) = self.rest.strip_prefix("/*") {
                        self.rest = inner;
                        depth += 1;
                    } else if let Some(outer) = self.rest.strip_prefix("*/") {
                        self.rest = outer;
                        depth -= 1;
                        if depth == 0 {
                            break;
                        }
                    } else {
                        self.rest = &self.rest[self.rest.chars().next()?.len_utf8()..];
                    }
                }
            } else {
                return Some(());
            }
        }
    }

    /// A string constant. What a backslash means in a plain one is a setting, so that is left open.
    fn literal(&mut self, escapes: bool) -> Option<Token> {
        if !escapes {
            let text = self.quoted('\'')?;
            return (!text.contains('\\')).then_some(Token::Other('\''));
        }
        let mut characters = self.rest.char_indices().skip(1);
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => {
                    characters.next()?;
                }
                '\'' => {
                    // A doubled quote is read as two strings, side by side; that makes no difference here.
                    self.rest = &self.rest[at + 1..];
                    return if self.rest.starts_with('\'') { self.literal(true) } else { Some(Token::Other('\'')) };
                }
                _ => {}
            }
        }
        None
    }

    /// What is between quotes, which are doubled inside.
    fn quoted(&mut self, quote: char) -> Option<&str> {
        let text = self.rest;
        let mut end = 1;
        loop {
            end += text.get(end..)?.find(quote)? + 1;
            if !text[end..].starts_with(quote) {
                self.rest = &text[end..];
                return Some(&text[1..end - 1]);
            }
            end += 1;
        }
    }

    /// A string between `$tag$`s.
    fn dollar(&mut self) -> Option<Token> {
        let end = self.rest[1..].find('$')? + 2;
        let (tag, rest) = self.rest.split_at(end);
        self.rest = &rest[rest.find(tag)? + tag.len()..];
        Some(Token::Other('\''))
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
