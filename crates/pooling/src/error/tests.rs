//! Each error once: its SQLSTATE, its message, and its line on the page of the documentation.

use std::fmt::Write;
use std::path::Path;

use super::*;

fn text(name: &str) -> String {
    name.to_owned()
}

fn cause() -> Cause {
    Cause { sqlstate: "of the server".to_owned(), why: text("WHY") }
}

/// One of each, in the order of the source; capital letters stand for what is named.
#[allow(clippy::too_many_lines, reason = "a list")]
fn all() -> Vec<Error> {
    let (database, user) = (|| text("DATABASE"), || text("USER"));
    let why = || text("WHY");
    vec![
        Error::Protocol(wire::Error::Short { tag: b'Q', field: "FIELD" }),
        Error::MessageType(255),
        Error::MalformedBind,
        Error::LongStatementName,
        Error::LongCommand,
        Error::Injected,
        Error::EncryptedTwice,
        Error::NoAlpn,
        Error::NoPasswordMessage,
        Error::NoUser,
        Error::LongName { what: "user", most: 128 },
        Error::Parameter(text("NAME")),
        Error::Options(text("WORD")),
        Error::Replication(text("VALUE")),
        Error::ReplicationOfConsole,
        Error::NoReplication(database()),
        Error::TlsRequired,
        Error::Hba { user: user(), database: database() },
        Error::Password(user()),
        Error::Trust(user()),
        Error::Certificate(user()),
        Error::Peer(user()),
        Error::LookupFailed,
        Error::LookupsFull,
        Error::Full,
        Error::FullForUser,
        Error::FullForDatabase,
        Error::NoDatabase(database()),
        Error::Disabled(database()),
        Error::NotInPool { user: user(), database: database() },
        Error::NotOnConsole(user()),
        Error::Random,
        Error::LoginTimeout,
        Error::StartupRefused(cause()),
        Error::Waited { limit: "query_wait_timeout", why: Box::new(Error::Paused(database())) },
        Error::Paused(database()),
        Error::PoolFull { database: database(), user: user(), servers: 20, pinned: String::new(), waiting: 7 },
        Error::NoRoom {
            setting: "max_db_connections",
            most: 30,
            database: database(),
            user: user(),
            servers: 0,
            waiting: 7,
        },
        Error::NoMore { database: database(), user: user(), servers: 3, cause: cause() },
        Error::Unreachable(cause()),
        Error::NoServer { database: database(), why: why() },
        Error::NoServerForLogin { database: database(), why: why() },
        Error::NoneMade { database: database(), met: text(": WHY") },
        Error::CannotConnect(cause()),
        Error::Failing(cause()),
        Error::NotPrepared(cause()),
        Error::SettingsRefused(cause()),
        Error::NotOfOneShard { why: why(), hint: sharding::Reason::Several.hint() },
        Error::OtherShard(why()),
        Error::MapChanged(why()),
        Error::TransactionFailed,
        Error::NoShardEntry("SHARD".to_owned()),
        Error::NoShard { number: text("NUMBER"), shards: 3 },
        Error::ShardingKey(text("KEY")),
        Error::NoShardMap("DATABASE".to_owned()),
        Error::Lost(cause()),
        Error::LostInTransaction(cause()),
        Error::Closed(why()),
        Error::LostInRead(cause()),
        Error::OutcomeUnknown(cause()),
        Error::ReplicationLost(cause()),
        Error::ListenerLost,
        Error::Cancelled,
        Error::QueryTimeout,
        Error::TransactionTimeout,
        Error::IdleTransactionTimeout,
        Error::IdleTimeout,
        Error::NoBlocks,
        Error::StatementChanged,
        Error::NotificationsFull,
        Error::NotificationEncoding,
        Error::Ending,
        Error::NotAtRest,
        Error::Killed,
        Error::KilledClient,
        Error::DatabaseGone(database()),
        Error::UserGone { user: user(), database: database() },
        Error::PoolUnused,
        Error::FastClose,
        Error::NoCommand(text("COMMAND")),
        Error::NothingToShow(text("WHAT")),
        Error::Needs { verb: text("COMMAND"), what: "WHAT" },
        Error::Takes { verb: "COMMAND", what: "WHAT" },
        Error::NotAdmin,
        Error::NoDatabaseToOrder(database()),
        Error::NoClient(7),
        Error::NoPrepared(text("NAME")),
        Error::NoPortal,
        Error::AlreadySuspended,
        Error::AlreadyPaused,
        Error::PausedInPart,
        Error::NotPaused(database()),
        Error::NothingToResume,
        Error::EndsAlready,
        Error::PauseEnded,
        Error::NoSetting(text("NAME")),
        Error::FixedSetting(text("NAME")),
        Error::SettingValue { name: text("NAME"), value: text("VALUE"), expected: "WHAT" },
        Error::Configuration(why()),
        Error::TakeoverByOthers,
        Error::ClientsForOthers,
        Error::TakenOver,
        Error::TakeoverOfHeld,
        Error::ManySockets(64),
        Error::HandOver(why()),
    ]
}

/// What the source says of an error.
struct Told {
    section: String,
    name: String,
    comment: String,
}

/// The errors as the source lists them.
fn in_source() -> Vec<Told> {
    let source = include_str!("../error.rs");
    let list = source.split_once("pub enum Error {\n").and_then(|(_, rest)| rest.split_once("\n}\n")).unwrap().0;
    let (mut section, mut comment, mut found) = (String::new(), String::new(), Vec::new());
    for line in list.lines().filter_map(|line| line.strip_prefix("    ")) {
        if let Some(title) = line.strip_prefix("// ") {
            section = title.trim_end_matches('.').to_owned();
        } else if let Some(more) = line.strip_prefix("/// ") {
            comment = format!("{comment} {more}").trim().to_owned();
        } else if line.starts_with(|first: char| first.is_ascii_uppercase()) {
            let name = line.split(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap_or_default();
            found.push(Told { section: section.clone(), name: name.to_owned(), comment: std::mem::take(&mut comment) });
        }
    }
    found
}

fn name_of(error: &Error) -> String {
    let shown = format!("{error:?}");
    shown.split(|letter: char| !letter.is_ascii_alphanumeric()).next().unwrap_or_default().to_owned()
}

#[test]
fn each_error_of_the_source_is_in_the_list() {
    let names: Vec<String> = all().iter().map(name_of).collect();
    let source: Vec<String> = in_source().into_iter().map(|told| told.name).collect();
    assert_eq!(names, source);
}

#[test]
fn each_error_has_a_sqlstate_and_words() {
    for error in all() {
        let (code, words) = (error.sqlstate(), error.to_string());
        let is_code = code.len() == 5 && code.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit());
        assert!(is_code || code == "of the server", "{error:?}: {code}");
        assert!(!words.is_empty() && !words.ends_with('.'), "{error:?}: {words}");
        let begins = words.chars().next().is_some_and(char::is_uppercase);
        let named = ["SSL", "WHY", "PAUSE", "SET", "TAKEOVER", "COMMAND"].iter().any(|name| words.starts_with(name));
        assert!(!begins || named, "{error:?}: {words}");
        assert!(error.hint().is_none_or(|hint| !hint.is_empty() && !hint.ends_with('.')), "{error:?}");
    }
}

#[test]
fn what_a_client_does_wrong_is_not_worth_another_try() {
    for error in all().iter().filter(|error| error.blame() == Blame::Client) {
        assert!(!error.may_retry(), "{error:?}");
    }
    assert!(!Error::OutcomeUnknown(cause()).may_retry(), "it may have been done");
}

#[test]
fn an_error_behind_a_limit_is_that_of_what_was_waited_for() {
    let full =
        || Error::PoolFull { database: text("app"), user: text("bob"), servers: 1, pinned: String::new(), waiting: 2 };
    let waited = Error::Waited { limit: "query_wait_timeout", why: Box::new(full()) };
    assert_eq!((waited.sqlstate(), waited.blame(), waited.hint()), ("53300", Blame::Limit, full().hint()));
    assert_eq!(
        waited.to_string(),
        "query_wait_timeout: the pool of database \"app\" and user \"bob\" is full: 1 server connections, all in use, \
         2 clients waiting"
    );
}

#[test]
fn a_client_reads_the_words_the_sqlstate_and_the_hint() {
    let mut out = Vec::new();
    Error::NoBlocks.write(&mut out, Severity::Fatal);
    let words = "transaction blocks not allowed in statement pooling mode";
    let fields = format!("SFATAL\0VFATAL\0C0A000\0M{words}\0Hpool_mode = transaction allows transaction blocks\0\0");
    assert_eq!(out.get(5..), Some(fields.as_bytes()));
}

/// The text of `docs/reference/pooler-errors.md`.
fn page() -> String {
    let mut page = String::from(
        "# Errors of the pooler\n\
         \n\
         This page lists the errors that howdah-pooler itself sends to clients. The pooler passes on errors of servers unchanged.\n\
         `UPDATE=1 cargo test -p pooling error` makes this page from the code, and a test compares the two.\n\
         \n\
         In the messages, words in capital letters and numbers stand for names and values; WHY stands for the words of a server,\n\
         of the network or of the system. If the SQLSTATE is *of the server*, it is the one with which the server has refused or\n\
         ended the connection, or 08006. *Blame* says what caused the error: the client, a server, an administrator's order, a\n\
         limit of the configuration, or the pooler's machine. The metric `howdah_pooler_errors_total` has the label `blame` too.\n\
         *Retry* is yes if no part of the login or statement was done, and a repetition may succeed; a client whose connection\n\
         was closed must connect again first.\n",
    );
    let mut section = String::new();
    for (error, told) in all().iter().zip(in_source()) {
        if told.section != section {
            let _ = write!(page, "\n## {}\n\n", told.section);
            page.push_str("| message | SQLSTATE | blame | retry | when |\n|---|---|---|---|---|\n");
            section = told.section;
        }
        let hint = error.hint().map(|hint| format!("<br>Hint: {hint}")).unwrap_or_default();
        let (code, blame) = match error {
            Error::Waited { .. } => ("of the reason", "of the reason"),
            error => (error.sqlstate(), error.blame().word()),
        };
        let retry = if error.may_retry() { "yes" } else { "no" };
        let _ = writeln!(page, "| {error}{hint} | {code} | {blame} | {retry} | {} |", told.comment);
    }
    page
}

#[test]
fn the_page_in_the_documentation_is_this_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/pooler-errors.md");
    let page = page();
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, &page).unwrap();
    }
    let there = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(there == page, "docs/reference/pooler-errors.md is not what the code says: set UPDATE=1 and run again");
}
