//! A relation whose columns change while clients have statements of it prepared: what the server makes of that, and what
//! each client reads its rows by.
//!
//! As in PostgreSQL, a copy of a statement is refused once its rows would have other columns than when it was parsed, and
//! keeps the types of its parameters. The relation does not change under who has parsed, described or bound anything of it
//! in a transaction: somebody else's definition gives up then.

use wire::frame::{self, Fields};
use wire::frontend::{self, Target};

use super::World;
use super::client::Client;
use super::connection::{Connection, Prepared, value_of};
use super::said::SHIFTING;
use crate::statement::{Command, Shifting, read};
use crate::trace::trace;

/// The shapes of the relation: the name and the type of its column.
pub(super) const SHAPES: [(&str, u32); 3] = [("v", 23), ("v", 20), ("w", 23)];
/// Names under which a client prepares statements of it; the first is none.
const NAMES: [&str; 3] = ["", "three", "four"];
/// What is prepared: a read names no relation, since the pooler of this world knows none and would take it for a write.
const TEXTS: [(Shifting, &str); 3] = [
    (Shifting::Read, "SELECT $1 AS shifting"),
    (Shifting::Return, "INSERT INTO shifting VALUES ($1) RETURNING *"),
    (Shifting::Write, "INSERT INTO shifting VALUES ($1)"),
];
/// The routine of the server by which the error is known.
const ROUTINE: &str = "RevalidateCachedQuery";
pub(super) const CHANGED: &str = "0A000";
/// How often a client may be refused that has prepared again, while nothing changes: once for each copy of before that it
/// may meet, and it meets few, since the pooler has all copies made anew when it has met one.
const VAIN: usize = 2;

/// From which descriptions a client reads its rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// That of the statement.
    Statement,
    /// That of each portal.
    Portal,
    /// None.
    Nothing,
    /// That of the statement, or of a portal: the last one.
    Either,
}

const MANNERS: [Manner; 4] = [Manner::Statement, Manner::Portal, Manner::Nothing, Manner::Either];

/// A statement of the relation, as a client has it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held {
    /// How many units its client had said with that which prepares it.
    unit: usize,
    text: usize,
    manner: Manner,
    /// The shape that it was told last, and the type of the parameter.
    columns: Option<usize>,
    parameter: Option<u32>,
    /// It was told another type of the parameter before.
    retold: bool,
    /// How often it has been refused.
    refused: usize,
}

/// A unit of such a statement.
#[derive(Debug)]
pub(super) struct Use {
    own: usize,
    held: Held,
    /// It prepares the statement.
    prepares: bool,
    /// How often the relation had changed when it was said.
    changes: usize,
    /// The type by which its values were written, if its client was told one.
    parameter: Option<u32>,
    /// The next description of columns is that of the statement.
    of_statement: bool,
    /// The description of the portal that is run.
    portal: Option<usize>,
}

impl Shifting {
    /// The type of its parameter where it is parsed by this shape.
    pub(super) fn parameter(self, shape: usize) -> u32 {
        if self == Self::Read { 25 } else { SHAPES[shape].1 }
    }

    /// Whether it has rows.
    fn returns(self) -> bool {
        self != Self::Write
    }
}

impl Prepared {
    fn is_stale(&self, shape: usize) -> bool {
        self.shifting.is_some_and(|(how, parsed)| how.returns() && parsed != shape)
    }
}

/// The statement of the relation that a text is, if it is one.
pub(super) fn shifting(sql: &str) -> Option<Shifting> {
    match read(sql).0.as_slice() {
        [Command::Shifting(how)] => Some(*how),
        _ => None,
    }
}

impl World {
    /// Somebody changes the relation.
    pub fn shift(&mut self, shape: usize) {
        let shape = shape % SHAPES.len();
        if self.shape == shape || self.connections.iter().any(|connection| connection.locks) {
            return;
        }
        trace!("the relation has the shape {shape}");
        self.shape = shape;
        self.ledger.changes += 1;
    }

    /// A client says a unit of such a statement, unless it waits for another.
    pub(super) fn say_shifting(&mut self, who: usize, name: String, choices: &[usize]) {
        let client = &mut self.clients[who];
        if !client.units.is_empty() {
            return;
        }
        let choice = choices[0];
        let own = choice % NAMES.len();
        let patience = choice / 36 % 3;
        let is_there = |held: &Held| own > 0 || held.unit > client.unnamed;
        let known = client.shapes.get(&own).copied();
        let kept = known.filter(|held| choice < 216 && held.refused <= patience && is_there(held));
        let anew = || {
            let (text, manner) = known
                .filter(|held| held.refused > 0)
                .map_or((choice / 3 % TEXTS.len(), MANNERS[choice / 9 % MANNERS.len()]), |held| {
                    (held.text, held.manner)
                });
            Held { unit: client.count, text, manner, columns: None, parameter: None, retold: false, refused: 0 }
        };
        let held = kept.unwrap_or_else(anew);
        let prepares = kept.is_none();
        if prepares {
            client.shapes.remove(&own);
        }
        let (changes, parameter) = (self.ledger.changes, held.parameter);
        let out = write_unit(&name, own, &held, prepares, choices.len());
        trace!("client {who} says {}", String::from_utf8_lossy(&out).replace('\0', " "));
        let unit = client.utter(name, out);
        // One that prepares may have its connection to prepare and another to run, and not all of it says whose it is.
        unit.turn.is_apart |= prepares && choices.len() < 3;
        unit.uses = Some(Use { own, held, prepares, changes, parameter, of_statement: false, portal: None });
    }

    /// A server describes.
    pub(super) fn describe(&mut self, at: usize, body: &[u8]) {
        let (shape, connection) = (self.shape, &mut self.connections[at]);
        if connection.skips {
            return;
        }
        let (prepared, of_statement) = match frontend::target(b'D', body).unwrap() {
            Target::Statement(name) => (connection.statements.get(name).cloned(), true),
            Target::Portal(name) => (connection.portals.get(name).map(|(prepared, _)| prepared.clone()), false),
        };
        let Some(prepared) = prepared else { return connection.complain("26000") };
        let (how, parsed) = prepared.shifting.expect("nobody has asked for a description");
        let parameter = prepared.of_type;
        if connection.session.failed && how.returns() {
            return connection.refuse("25P02");
        }
        connection.locks = true;
        if of_statement {
            connection.say(|out| {
                frame::write(out, b't', |out| {
                    out.extend_from_slice(&1_u16.to_be_bytes());
                    out.extend_from_slice(&parameter.to_be_bytes());
                });
            });
            if prepared.is_stale(shape) {
                self.begin_for_holder(at);
                return self.connections[at].refuse_stale();
            }
        }
        connection.say(|out| write_columns(out, how.returns().then_some(parsed)));
    }

    /// A server binds. Whose the values are that are bound to what shifts is known by this, and that may fail.
    pub(super) fn bind(&mut self, at: usize, body: &[u8]) {
        let (shape, connection) = (self.shape, &mut self.connections[at]);
        if connection.skips {
            return;
        }
        let bind = frontend::bind(body).unwrap();
        let prepared = connection.statements.get(bind.statement).cloned();
        // What the pooler has refused has a name that no statement has.
        let refused = bind.statement.contains(&b' ');
        if !refused && prepared.as_ref().is_none_or(|prepared| prepared.shifting.is_none()) {
            return connection.bind(body);
        }
        let owner = value_of(body, &bind).expect("a value");
        self.begin(at, &owner);
        let connection = &mut self.connections[at];
        match prepared {
            None => {
                connection.fail();
                connection.refuse("26000");
            }
            Some(_) if connection.session.failed => connection.refuse("25P02"),
            Some(prepared) if prepared.is_stale(shape) => connection.refuse_stale(),
            Some(_) => {
                connection.locks = true;
                connection.bind(body);
            }
        }
    }

    /// A statement of the relation runs: by the name of its unit, and what number it has there.
    pub(super) fn run_shifting(&mut self, at: usize, unit: &str, (how, parsed): (Shifting, usize), of_type: u32) {
        let client = self.clients.iter().find(|client| client.is_born_as(unit));
        let uses = client.and_then(|client| client.units.iter().find(|known| known.name == unit)?.uses.as_ref());
        if let Some(written) = uses.and_then(|uses| uses.parameter) {
            assert_eq!(written, of_type, "{unit} runs with values that were written in another type");
        }
        let number = self.connections[at].said.len();
        let row = format!("{unit} {parsed}");
        match how {
            Shifting::Read => self.execute(at, &Command::Select(row), None),
            Shifting::Return => self.execute(at, &Command::Insert(format!("{unit}.{number}")), Some(&row)),
            Shifting::Write => self.execute(at, &Command::Insert(format!("{unit}.{number}")), None),
        };
    }

    /// The unit at the head of who has a transaction open on a connection begins there, by a message that does not say whose
    /// it is.
    fn begin_for_holder(&mut self, at: usize) {
        let connection = &self.connections[at];
        let Some((place, born, _)) = connection.holder.as_ref().filter(|_| connection.session.explicit) else { return };
        let client = Some(&self.clients[*place]).filter(|client| client.born == *born && connection.unit.is_none());
        let name = client.and_then(|client| client.units.front()).map(|unit| unit.name.clone());
        name.into_iter().for_each(|name| self.begin(at, &name));
    }

    /// Clients prepare again and run what they have, as often as it may be refused.
    pub(super) fn end_shifting(&mut self) {
        for own in (0..=VAIN).flat_map(|_| 0..NAMES.len()) {
            let has = |client: &Client| client.shapes.contains_key(&own) && client.status == b'I';
            let who: Vec<usize> = (0..self.clients.len()).filter(|who| has(&self.clients[*who])).collect();
            if !who.is_empty() {
                who.into_iter().for_each(|who| self.say(who, SHIFTING, &[216 + own; 3]));
                self.settle();
                // A read may wait for a replica, and who LISTENs keeps a connection.
                if self.clients.iter().any(|client| !client.gone && !client.units.is_empty()) {
                    self.rest();
                }
            }
        }
    }
}

impl Connection {
    /// A copy would return other columns than it did.
    fn refuse_stale(&mut self) {
        self.fail();
        self.refuse_with(CHANGED, "cached plan must not change result type", Some(ROUTINE));
    }
}

/// The description of rows of a shape, or that there are none.
fn write_columns(out: &mut Vec<u8>, shape: Option<usize>) {
    let Some(shape) = shape else { return frame::write(out, b'n', |_| ()) };
    let (name, of_type) = SHAPES[shape];
    frame::write(out, b'T', |out| {
        out.extend_from_slice(&1_u16.to_be_bytes());
        frame::write_cstr(out, name.as_bytes());
        // The table and the number of the column, which nobody compares.
        out.extend_from_slice(&[0; 6]);
        out.extend_from_slice(&of_type.to_be_bytes());
        // The size, the modifier and the format.
        out.extend_from_slice(&[0, 4, 255, 255, 255, 255, 0, 0]);
    });
}

/// The shape that a description tells.
fn columns_of(body: &[u8]) -> usize {
    let mut told = Vec::new();
    let shapes = 0..SHAPES.len();
    let is_told = |shape: &usize| {
        told.clear();
        write_columns(&mut told, Some(*shape));
        told[5..] == *body
    };
    shapes.into_iter().find(is_told).expect("a shape of the relation")
}

/// The types of parameters that a description tells: of one.
fn parameter_of(body: &[u8]) -> u32 {
    let mut fields = Fields::new(b't', body);
    assert_eq!(fields.i16("the number of parameters"), Ok(1));
    fields.i32("a type").unwrap().cast_unsigned()
}

/// A unit: the statement is prepared, and alone so in a unit of one choice, with a Flush in one of two; it is run once, or
/// twice in a unit of two; it is described again in one of three.
fn write_unit(name: &str, own: usize, held: &Held, prepares: bool, choices: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let own = NAMES[own].as_bytes();
    let by_statement = matches!(held.manner, Manner::Statement | Manner::Either);
    if prepares {
        frontend::write_statement_target(&mut out, b'C', own);
        frontend::write_parse(&mut out, own, format!("{}\0\0\0", TEXTS[held.text].1).as_bytes());
    }
    if by_statement && (prepares || choices == 3) {
        frontend::write_statement_target(&mut out, b'D', own);
    }
    if prepares && choices == 2 {
        frame::write(&mut out, b'H', |_| ());
    }
    let runs = match choices {
        1 if prepares => 0,
        2 => 2,
        _ => 1,
    };
    for run in 0..runs {
        frame::write(&mut out, b'B', |out| {
            out.push(0);
            frame::write_cstr(out, own);
            out.extend_from_slice(b"\0\0\0\x01");
            out.extend_from_slice(&u32::try_from(name.len()).unwrap().to_be_bytes());
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(b"\0\0");
        });
        if held.manner == Manner::Portal || held.manner == Manner::Either && run == 1 {
            frame::write(&mut out, b'D', |out| out.extend_from_slice(b"P\0"));
        }
        frontend::write_execute(&mut out, b"");
    }
    frontend::write_sync(&mut out);
    out
}

impl Client {
    /// It hears something of a unit of the relation, or nothing of that kind.
    pub(super) fn hear_shifting(&mut self, tag: u8, body: &[u8]) {
        let Some(uses) = self.units.front_mut().and_then(|unit| unit.uses.as_mut()) else {
            assert!(!matches!(tag, b't' | b'T' | b'n'), "a description that nobody has asked for");
            return;
        };
        let own = uses.own;
        if tag == b'1' {
            self.shapes.insert(own, uses.held);
            return;
        }
        let Some(held) = self.shapes.get_mut(&own) else { return };
        match tag {
            b't' => {
                let told = parameter_of(body);
                held.retold |= held.parameter.replace(told).is_some_and(|before| before != told);
                uses.of_statement = true;
            }
            b'T' | b'n' => {
                let told = (tag == b'T').then(|| columns_of(body));
                assert_eq!(told.is_some(), TEXTS[held.text].0.returns(), "the description of another's statement");
                let of_statement = std::mem::take(&mut uses.of_statement);
                if of_statement || held.manner == Manner::Either {
                    held.columns = told;
                }
                if !of_statement {
                    uses.portal = told;
                }
            }
            b'2' => uses.portal = None,
            b'C' => (held.refused, self.vain[own]) = (0, 0),
            _ => (),
        }
    }

    /// It reads a row of the relation, by what it was told of it last.
    pub(super) fn read_shifting(&self, row: &str, uses: &Use, unit: &str) {
        let held = self.shapes.get(&uses.own).expect("a row of a statement that is not prepared");
        let shape = row.strip_prefix(unit).and_then(|rest| rest.trim().parse::<usize>().ok());
        let shape = shape.unwrap_or_else(|| panic!("another's row for {unit}: {row}"));
        let told = uses.portal.or(held.columns);
        assert!(told.is_none_or(|told| told == shape), "{unit} was told the shape {told:?} and reads a row of {shape}");
    }

    /// It is refused since the relation has changed: not for ever, where it has prepared again since.
    pub(super) fn refused_shifting(&mut self, changes: usize) {
        let unit = self.units.front().expect("a unit");
        let uses = unit.uses.as_ref().expect("a statement of what shifts");
        if let Some(held) = self.shapes.get_mut(&uses.own) {
            held.refused += 1;
            let is_due = TEXTS[held.text].0.returns() || held.retold;
            assert!(is_due, "{} is refused, though it returns nothing and its values fit", unit.name);
        }
        let vain = &mut self.vain[uses.own];
        *vain = if uses.changes == changes { *vain + usize::from(uses.prepares) } else { 0 };
        assert!(*vain <= VAIN, "{} is refused, though it has prepared again {vain} times", unit.name);
    }
}
