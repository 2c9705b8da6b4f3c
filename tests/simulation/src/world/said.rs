//! What clients say: statements, and the forms of the protocol in which they are said.

use wire::{frame, frontend};

/// Forms in which a client says a unit: a Query (twice), the extended protocol, a statement that is prepared once, a Query
/// of several statements, and the extended protocol with a Flush behind each statement, or behind each Parse.
pub const FORMS: usize = 7;
/// Values that parameters are set to.
const VALUES: [&str; 2] = ["x", "y"];

/// What a client says.
fn sentence(choice: usize, name: &str, at: usize) -> String {
    let value = VALUES[choice / 32 % 2];
    match choice % 32 {
        0 => format!("SET my.a = '{value}'"),
        1 => format!("SET my.b TO {value}"),
        2 => format!("SET search_path = {value}, public"),
        3 => format!("SET TimeZone = '{value}'"),
        4 => format!("SET statement_timeout = {}", choice / 32 % 2 + 1),
        5 => format!("SET ROLE {value}"),
        6 => format!("SET SESSION AUTHORIZATION {value}"),
        7 => "RESET my.a".to_owned(),
        8 => "RESET search_path".to_owned(),
        9 => "RESET TimeZone".to_owned(),
        10 => "RESET ALL".to_owned(),
        11 => "RESET ROLE".to_owned(),
        12 => "RESET SESSION AUTHORIZATION".to_owned(),
        13 | 14 => "BEGIN".to_owned(),
        15 | 16 => "COMMIT".to_owned(),
        17 => "ROLLBACK".to_owned(),
        18 => "SAVEPOINT s".to_owned(),
        19 => "ROLLBACK TO s".to_owned(),
        20 => "RELEASE s".to_owned(),
        21 => "COMMIT AND CHAIN".to_owned(),
        22 => "ROLLBACK AND CHAIN".to_owned(),
        23 => format!("SET LOCAL my.b = '{value}'"),
        24 => "DISCARD ALL".to_owned(),
        25 => "SELECT 1/0".to_owned(),
        26 | 27 => format!("INSERT INTO t VALUES ('{name}.{at}')"),
        _ => format!("SELECT '{name}'"),
    }
}

/// A statement that is signed with the name of its unit.
fn signed(choice: usize, name: &str, at: usize) -> String {
    format!("{} /*{name}*/", sentence(choice, name, at))
}

pub(super) fn query(name: &str, choices: &[usize]) -> Vec<u8> {
    let mut out = Vec::new();
    frontend::write_query(&mut out, &signed(choices[0], name, 0));
    out
}

/// Several statements in one Query.
pub(super) fn together(name: &str, choices: &[usize]) -> Vec<u8> {
    // What is set beside other statements of one Query is not promised to be carried on.
    let beside = |choice: &&usize| matches!(**choice % 32, 13..=22 | 25..);
    let chosen = choices.iter().filter(beside).enumerate();
    let statements: Vec<String> = chosen.map(|(at, choice)| sentence(*choice, name, at)).collect();
    let mut out = Vec::new();
    frontend::write_query(&mut out, &format!("{} /*{name}*/", statements.join(";")));
    out
}

/// Statements in the extended protocol, with a Flush behind each message of the type `flush`.
pub(super) fn extended(name: &str, choices: &[usize], flush: Option<u8>) -> Vec<u8> {
    let mut out = Vec::new();
    let flush = |out: &mut Vec<u8>, behind: u8| {
        if flush == Some(behind) {
            frame::write(out, b'H', |_| ());
        }
    };
    for (at, choice) in choices.iter().enumerate() {
        frontend::write_parse(&mut out, b"", format!("{}\0\0\0", signed(*choice, name, at)).as_bytes());
        flush(&mut out, b'P');
        frame::write(&mut out, b'B', |out| out.extend_from_slice(b"\0\0\0\0\0\0\0\0"));
        frame::write(&mut out, b'E', |out| out.extend_from_slice(b"\0\0\0\0\0"));
        flush(&mut out, b'E');
    }
    frontend::write_sync(&mut out);
    out
}

/// A statement under a name that is prepared if it is not yet.
pub(super) fn echo(name: &str, prepared: bool) -> Vec<u8> {
    let mut out = Vec::new();
    if !prepared {
        frame::write(&mut out, b'C', |out| out.extend_from_slice(b"Secho\0"));
        frontend::write_parse(&mut out, b"echo", b"SELECT $1\0\0\0");
    }
    frame::write(&mut out, b'B', |out| {
        out.extend_from_slice(b"\0echo\0\0\0\0\x01");
        out.extend_from_slice(&i32::try_from(name.len()).unwrap().to_be_bytes());
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\0\0");
    });
    frame::write(&mut out, b'E', |out| out.extend_from_slice(b"\0\0\0\0\0"));
    frontend::write_sync(&mut out);
    out
}
