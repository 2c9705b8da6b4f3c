//! Transactions that no server has yet, of databases with shards: what begins, steers and ends them.
//!
//! Such statements are answered by the pooler, and the server gets them as one text before the first statement that
//! decides where the transaction is. So only those are taken that cannot fail there.

use std::time::Instant;

use classify::Kind;
use classify::shape::{Shaper, Token};
use classify::verdict::{Set, Value, Verdict};

use crate::model::vars::Tracked;
use crate::state::client::{Begun, Client};

/// The settings that end a statement or a wait for a lock after some time.
const LIMITS: [&str; 3] = ["statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"];

/// A longer text of a BEGIN and what follows is not remembered: then the next statement decides where the transaction is.
const LONGEST: usize = 64 * 1024;

/// Notes a statement that begins, ends or steers a transaction which no server has; the tag of its command.
pub fn steer(
    client: &mut Client,
    verdict: &Verdict,
    sql: &[u8],
    (now, tracked): (Instant, &Tracked),
) -> Option<&'static str> {
    let Some(begun) = &mut client.route.begun else {
        let savepoints = begins_with_savepoints(verdict).unwrap_or_default();
        let Kind::Begin(modes) = *verdict.each.first().unwrap_or(&verdict.kind) else { return None };
        let sql_text = String::from_utf8_lossy(sql).into_owned();
        let begun =
            Begun { sql: sql_text, modes, savepoints, sets: false, is_due: false, outside: false, has_failed: false };
        (client.route.begun, client.times.transaction_since) = (Some(begun), Some(now));
        return Some(begun_by(sql));
    };
    let has_failed = begun.has_failed;
    let place = |name: &String| begun.savepoints.iter().rposition(|known| known == name);
    let word = match &verdict.kind {
        Kind::Commit { chain: false } | Kind::Rollback { chain: false } => {
            (client.route.begun, client.times.transaction_since) = (None, None);
            let commits = matches!(verdict.kind, Kind::Commit { .. }) && !has_failed;
            return Some(if commits { "COMMIT" } else { "ROLLBACK" });
        }
        Kind::RollbackTo(name) => {
            begun.savepoints.truncate(place(name)? + 1);
            begun.has_failed = false;
            "ROLLBACK"
        }
        _ if has_failed || begun.sql.len() + sql.len() > LONGEST => return None,
        Kind::Savepoint(name) => {
            begun.savepoints.push(name.clone());
            "SAVEPOINT"
        }
        Kind::Release(name) => {
            begun.savepoints.truncate(place(name)?);
            "RELEASE"
        }
        Kind::SetTransaction(modes) if begun.savepoints.is_empty() && is_set_transaction(sql) => {
            begun.modes.read_only = modes.read_only.or(begun.modes.read_only);
            begun.modes.isolation = modes.isolation.or(begun.modes.isolation);
            "SET"
        }
        Kind::Set(sets) if !verdict.is_call && sets.iter().all(|set| is_harmless(set, tracked)) => {
            begun.sets = true;
            "SET"
        }
        _ => return None,
    };
    begun.sql.push_str("\n;");
    begun.sql.push_str(&String::from_utf8_lossy(sql));
    Some(word)
}

/// The savepoints of a text that begins a transaction and makes them, as some drivers send them together.
pub fn begins_with_savepoints(verdict: &Verdict) -> Option<Vec<String>> {
    let (Kind::Begin(_), savepoints) = verdict.each.split_first()? else { return None };
    let name = |kind: &Kind| if let Kind::Savepoint(name) = kind { Some(name.clone()) } else { None };
    savepoints.iter().map(name).collect()
}

/// Whether a SET TRANSACTION cannot fail.
fn is_set_transaction(sql: &[u8]) -> bool {
    let text = String::from_utf8_lossy(sql).to_ascii_lowercase();
    let mut words = text.split_ascii_whitespace();
    words.next() == Some("set") && words.next() == Some("transaction") && !text.contains("snapshot")
}

/// Whether a SET LOCAL cannot fail, and has no effect but in the transaction: of a user's own setting, or of a limit.
fn is_harmless(set: &Set, tracked: &Tracked) -> bool {
    let Value::Text(value) = &set.value else { return false };
    let is_word = |word: &str| {
        word.starts_with(|first: char| first.is_ascii_lowercase() || first == '_')
            && word.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
    };
    let is_own = set.name.split_once('.').is_some_and(|(class, name)| is_word(class) && is_word(name));
    let is_limit = LIMITS.contains(&set.name.as_str()) && is_time(value);
    set.local && tracked.place(&set.name).is_none() && (is_own && !value.contains(',') || is_limit)
}

/// Whether PostgreSQL takes this for a time, whose milliseconds are an `integer`.
fn is_time(value: &str) -> bool {
    let digits = value.len() - value.trim_start_matches(|digit: char| digit.is_ascii_digit()).len();
    let (number, unit) = value.split_at(digits);
    let most = match unit {
        "" | "ms" => 9,
        "s" => 6,
        "min" => 4,
        _ => 0,
    };
    (1..=most).contains(&number.len())
}

/// The tag of the command that begins a transaction.
fn begun_by(sql: &[u8]) -> &'static str {
    let mut first = None;
    let told = Shaper::default().lex(sql, true, |token, from, to| {
        if token == Token::Word && first.is_none() {
            first = sql.get(from..to);
        }
    });
    let starts = told.is_ok() && first.is_some_and(|word| word.eq_ignore_ascii_case(b"start"));
    if starts { "START TRANSACTION" } else { "BEGIN" }
}
