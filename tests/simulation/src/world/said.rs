//! What clients say: statements, and the forms of the protocol in which they are said.

use wire::{frame, frontend};

use super::client::Waits;
use super::copy::line;

/// Forms in which a client says a unit: a Query (twice), the extended protocol, a statement that is prepared once, a Query
/// of several statements, and the extended protocol with a Flush behind each statement, or behind each Parse. Then
/// those of a COPY: a Query, one of several statements, and thrice the extended protocol; see [`copy`]. The last two are
/// that of what [`SHIFTING`] says, and [`MIXED`].
pub(super) const FORMS: usize = 14;
/// This one is of a statement that is prepared once.
pub const PREPARED: usize = 3;
/// From here on they are of a COPY.
pub const COPIES: usize = 7;
/// This one is of a statement whose columns change; see [`shapes`](super::shapes).
pub const SHIFTING: usize = 12;
/// This one begins by the extended protocol and ends by a Query, without a Sync.
pub const MIXED: usize = 13;
/// Statements that there are to say.
pub const SENTENCES: usize = 40;
/// Three of them.
pub const READ: usize = 28;
/// Statements that change by what a text is read: the time zone and the search_path, each to one of two values and back.
pub const READ_BY: [usize; 6] = [3, 3 + SENTENCES, 9, 2, 2 + SENTENCES, 8];
pub(super) const ROLLBACK: usize = 17;
pub(super) const DISCARD_ALL: usize = 24;
/// Values that parameters are set to.
const VALUES: [&str; 2] = ["x", "y"];

/// In place of the number of a line that the server refuses.
pub(super) const REFUSED: &str = "refused";

/// What a client says.
fn sentence(choice: usize, name: &str, at: usize) -> String {
    let value = VALUES[choice / SENTENCES % 2];
    let channel = ["a", "b"][choice % 2];
    match choice % SENTENCES {
        0 => format!("SET my.a = '{value}'"),
        1 => format!("SET my.b TO {value}"),
        2 => format!("SET search_path = {value}, public"),
        3 => format!("SET TimeZone = '{value}'"),
        4 => format!("SET statement_timeout = {}", choice / SENTENCES % 2 + 1),
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
        ROLLBACK => "ROLLBACK".to_owned(),
        18 => "SAVEPOINT s".to_owned(),
        19 => "ROLLBACK TO s".to_owned(),
        20 => "RELEASE s".to_owned(),
        21 => "COMMIT AND CHAIN".to_owned(),
        22 => "ROLLBACK AND CHAIN".to_owned(),
        23 => format!("SET LOCAL my.b = '{value}'"),
        DISCARD_ALL => "DISCARD ALL".to_owned(),
        25 => "SELECT 1/0".to_owned(),
        26 | 27 => format!("INSERT INTO t VALUES ('{name}.{at}')"),
        32 | 33 => format!("LISTEN {channel}"),
        34 => format!("UNLISTEN {channel}"),
        35 => "UNLISTEN *".to_owned(),
        36..=38 => format!("NOTIFY {channel}, '{name}.{at}'"),
        39 => format!("COPY {} TO STDOUT", if value == "x" { "long" } else { "t" }),
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
    of_several(name, &several(name, choices))
}

/// What is set beside other statements of one Query is not promised to be carried on.
fn several(name: &str, choices: &[usize]) -> Vec<String> {
    let beside = |choice: &&usize| matches!(**choice % SENTENCES, 13..=22 | 25..);
    choices.iter().filter(beside).enumerate().map(|(at, choice)| sentence(*choice, name, at)).collect()
}

fn of_several(name: &str, statements: &[String]) -> Vec<u8> {
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
        write_parse(&mut out, &signed(*choice, name, at));
        flush(&mut out, b'P');
        write_run(&mut out);
        flush(&mut out, b'E');
    }
    frontend::write_sync(&mut out);
    out
}

/// A statement in the extended protocol, now and then with a Flush behind it, and another one in a Query, which ends the unit
/// unless the first has failed.
pub(super) fn mixed(name: &str, choices: &[usize]) -> Vec<u8> {
    let mut out = Vec::new();
    write_parse(&mut out, &signed(choices[0], name, 0));
    write_run(&mut out);
    if choices.len().is_multiple_of(2) {
        frame::write(&mut out, b'H', |_| ());
    }
    // Versions of PostgreSQL differ in whether a DISCARD ALL may stand there.
    let (at, choice) =
        (1..).zip(&choices[1..]).find(|(_, choice)| **choice % SENTENCES != DISCARD_ALL).unwrap_or((1, &READ));
    frontend::write_query(&mut out, &signed(*choice, name, at));
    out
}

/// A Parse without a name.
fn write_parse(out: &mut Vec<u8>, sql: &str) {
    frontend::write_parse(out, b"", format!("{sql}\0\0\0").as_bytes());
}

/// Binds the statement without a name, and runs it.
fn write_run(out: &mut Vec<u8>) {
    frame::write(out, b'B', |out| out.extend_from_slice(b"\0\0\0\0\0\0\0\0"));
    frame::write(out, b'E', |out| out.extend_from_slice(b"\0\0\0\0\0"));
}

/// A COPY from the client, and what is sent when the server asks for lines: in a Query, and the lines when asked (7); in
/// the middle of a Query of several statements, and the lines at once (8); in the extended protocol with a Flush (9), all at
/// once (10), and with a Sync that comes too early, as of libpq (11).
pub(super) fn copy(name: &str, form: usize, choices: &[usize]) -> (Vec<u8>, Option<Waits>) {
    const COPY: &str = "COPY t FROM STDIN";
    let mut lines = lines(name, choices);
    if form == 7 {
        return (of_several(name, &[COPY.to_owned()]), Some(Waits { lines, end: Vec::new() }));
    }
    if form == 8 {
        let mut statements = several(name, choices);
        statements.insert(choices[0] % (statements.len() + 1), COPY.to_owned());
        let mut out = of_several(name, &statements);
        out.append(&mut lines);
        return (out, None);
    }
    let (mut out, mut end) = (Vec::new(), Vec::new());
    write_parse(&mut out, &format!("{COPY} /*{name}*/"));
    write_run(&mut out);
    frontend::write_sync(&mut lines);
    match form {
        9 => {
            frame::write(&mut out, b'H', |_| ());
            frontend::write_sync(&mut end);
        }
        10 => {
            out.append(&mut lines);
            return (out, None);
        }
        _ => frontend::write_sync(&mut out),
    }
    (out, Some(Waits { lines, end }))
}

/// One to three lines of a COPY, and its end: done, now and then given up, or none behind a line that the server refuses,
/// where a Sync ends a unit of the extended protocol.
fn lines(name: &str, choices: &[usize]) -> Vec<u8> {
    let mut out = Vec::new();
    let refused = choices[0] % 16 == 7;
    for (number, choice) in choices.iter().enumerate() {
        let number = if refused && number == choices.len() - 1 { REFUSED.to_owned() } else { number.to_string() };
        let line = line(&format!("{name}:{number}/{}", choices.len()), choice.is_multiple_of(16));
        frame::write(&mut out, b'd', |out| out.extend_from_slice(&line));
    }
    if refused {
        return out;
    }
    if choices[0].is_multiple_of(5) {
        frame::write(&mut out, b'f', |out| out.extend_from_slice(b"no more\0"));
    } else {
        frame::write(&mut out, b'c', |_| ());
    }
    out
}

/// What clients prepare under names: the name of the column, and the type of the parameter if they give one.
pub(super) const DEFINITIONS: [(&str, u32); 5] = [("a", 0), ("a", 25), ("a", 1043), ("b", 0), ("b", 25)];

/// A definition under one of two names, prepared if it is not yet, and run.
pub(super) fn echo(name: &str, own: usize, definition: usize, prepared: bool) -> Vec<u8> {
    let mut out = Vec::new();
    let own = ["one", "two"][own];
    if !prepared {
        let (label, of_type) = DEFINITIONS[definition];
        // A text without a literal means the same by whatever settings it is read.
        let mut definition = format!("SELECT $1 AS {label}, ''\0").into_bytes();
        definition.extend_from_slice(&u16::from(of_type > 0).to_be_bytes());
        if of_type > 0 {
            definition.extend_from_slice(&of_type.to_be_bytes());
        }
        frame::write(&mut out, b'C', |out| out.extend_from_slice(format!("S{own}\0").as_bytes()));
        frontend::write_parse(&mut out, own.as_bytes(), &definition);
    }
    frame::write(&mut out, b'B', |out| {
        out.extend_from_slice(format!("\0{own}\0\0\0\0\x01").as_bytes());
        out.extend_from_slice(&i32::try_from(name.len()).unwrap().to_be_bytes());
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b"\0\0");
    });
    frame::write(&mut out, b'E', |out| out.extend_from_slice(b"\0\0\0\0\0"));
    frontend::write_sync(&mut out);
    out
}
