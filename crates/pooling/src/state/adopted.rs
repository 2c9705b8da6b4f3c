//! A client as the process before this one describes it.

use std::sync::Arc;

use crate::model::shape::Shape;
use crate::model::statement::Carried;
use crate::model::vars::Tracked;
use classify::{Consistency, Role};

use crate::assignment::Place;
use crate::client_permit::ClientPermit;
use crate::io::Io;
use crate::state::transfer::Transfer;

/// A row of the answer: the first column says which kind of row it is.
pub type Row = Vec<Vec<u8>>;

/// A client as one process describes it to another. The description has secrets that open servers, so it is not for
/// logs.
#[derive(Default, PartialEq, Eq)]
pub struct Described {
    /// Whether its socket is one of TCP.
    pub is_tcp: bool,
    /// The user that it has logged in as.
    pub user: String,
    /// The database that it asked for.
    pub database: String,
    /// The user of its pool.
    pub served_as: String,
    /// The process id of its cancel key.
    pub cancel_pid: i32,
    /// The secret of its cancel key.
    pub cancel_secret: Vec<u8>,
    /// The minor version of the protocol.
    pub minor: u16,
    /// The age of its connection, in seconds.
    pub age: u64,
    /// Whether the client may change things on the console.
    pub admin: bool,
    /// The choice of servers for its units.
    pub choices: Choices,
    /// Tracked values and other settings, as they are and as they were at startup.
    pub values: [Vec<(String, String)>; 2],
    /// Its other settings by SET, and the ones that RESET restores.
    pub sets: [Vec<(String, String)>; 2],
    /// Its prepared statements.
    pub prepared: Prepared,
    /// The secrets from its login for logins to servers: its password as it is stored, and its key by SCRAM.
    pub learnt: (Option<String>, Option<[u8; 32]>),
}

/// The settings by which a client has chosen servers, in words; an empty word stands for no choice.
#[derive(Default, PartialEq, Eq)]
pub struct Choices {
    /// The value of its SET SERVER ROLE.
    pub role: String,
    /// The value of its SET PRIMARY READS.
    pub primary_reads: String,
    /// The value of its SET READ YOUR WRITES.
    pub read_your_writes: String,
    /// The number of its SET SHARD.
    pub shard: String,
}

/// A prepared statement.
#[derive(Default, PartialEq, Eq)]
pub struct Definition {
    /// The way to take its text apart.
    pub lexing: Vec<u8>,
    /// The text and the types of its parameters.
    pub text: Vec<u8>,
    /// The shape that its client was told.
    pub shape: Shape,
}

impl Definition {
    fn columns(&self) -> [Vec<u8>; 4] {
        let [parameters, columns] = self.shape.words().map(String::into_bytes);
        [self.lexing.clone(), self.text.clone(), parameters, columns]
    }

    /// The statement of the columns of a row; a process of before version 3.3 tells no shape.
    fn read(columns: &[&[u8]]) -> Option<Self> {
        let (lexing, text, shape) = match columns {
            [lexing, text] => (lexing, text, Shape::default()),
            [lexing, text, parameters, columns] => (lexing, text, Shape::of_words(parameters, columns)),
            _ => return None,
        };
        Some(Self { lexing: lexing.to_vec(), text: text.to_vec(), shape })
    }
}

/// The prepared statements of a client.
#[derive(Default, PartialEq, Eq)]
pub struct Prepared {
    /// The statements by name.
    pub statements: Vec<(Vec<u8>, Definition)>,
    /// The statement without a name.
    pub unnamed: Option<Definition>,
    /// Whether servers know them by names of the pooler's.
    pub renamed: bool,
}

/// The words for the rows of settings, as they are and as they were at startup.
const VALUES: [&str; 2] = ["value", "startup value"];

const SETS: [&str; 2] = ["set", "startup set"];

/// The words for roles.
pub const ROLES: [(&str, Role); 4] =
    [("primary", Role::Primary), ("replica", Role::Replica), ("any", Role::Any), ("auto", Role::Auto)];

/// The words for the commits that reads must see.
pub const CONSISTENCIES: [(&str, Consistency); 3] =
    [("session", Consistency::Session), ("database", Consistency::Database), ("off", Consistency::Off)];

fn word_of<T: PartialEq>(words: &[(&str, T)], value: Option<T>) -> String {
    let found = words.iter().find(|(_, of)| value.as_ref() == Some(of));
    found.map_or_else(String::new, |(word, _)| (*word).to_owned())
}

/// The value that a word stands for.
pub fn value_of<T: Copy>(words: &[(&str, T)], word: &str) -> Option<T> {
    words.iter().find(|(of, _)| *of == word).map(|(_, value)| *value)
}

impl Described {
    /// The rows that describe a client: one for the client itself, and one for each setting, statement and secret.
    pub fn rows(&self) -> Vec<Row> {
        let text = |text: &str| text.as_bytes().to_vec();
        let number = |number: u64| number.to_string().into_bytes();
        let flags = [self.prepared.renamed, self.admin].map(|flag| number(u64::from(flag)));
        let mut client = vec![text("client"), text(if self.is_tcp { "tcp" } else { "unix" })];
        client.extend([&self.user, &self.database, &self.served_as].map(|of| text(of)));
        client.extend([text(&self.cancel_pid.to_string()), self.cancel_secret.clone()]);
        client.extend([number(self.minor.into()), number(self.age)]);
        client.extend(flags);
        let Choices { role, primary_reads, read_your_writes, shard } = &self.choices;
        client.extend([role, primary_reads, read_your_writes, shard].map(|of| text(of)));
        let mut rows = vec![client];
        for (words, settings) in [(VALUES, &self.values), (SETS, &self.sets)] {
            for (word, settings) in words.into_iter().zip(settings) {
                rows.extend(settings.iter().map(|(name, value)| vec![text(word), text(name), text(value)]));
            }
        }
        for (name, definition) in &self.prepared.statements {
            rows.push([text("statement"), name.clone()].into_iter().chain(definition.columns()).collect());
        }
        if let Some(definition) = &self.prepared.unnamed {
            rows.push([text("unnamed")].into_iter().chain(definition.columns()).collect());
        }
        let (stored, key) = &self.learnt;
        rows.extend(stored.iter().map(|stored| vec![text("stored password"), text(stored)]));
        rows.extend(key.iter().map(|key| vec![text("client key"), key.to_vec()]));
        rows
    }

    /// The clients that rows describe; a row that is not understood is an error.
    pub fn read(rows: &[Row]) -> Result<Vec<Self>, String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let mut clients: Vec<Self> = Vec::new();
        for row in rows {
            let columns: Vec<&[u8]> = row.iter().map(Vec::as_slice).collect();
            let word = columns.first().map(|word| text(word)).unwrap_or_default();
            let bad = || format!("the running pooler tells of a client by a row \"{word}\" that is not understood");
            if let [b"client", kind, user, database, served_as, pid, secret, rest @ ..] = columns.as_slice() {
                let number = |place: usize| rest.get(place).and_then(|of| text(of).parse::<u64>().ok()).ok_or_else(bad);
                let said = |place: usize| rest.get(place).map(|of| text(of)).unwrap_or_default();
                clients.push(Self {
                    is_tcp: *kind == b"tcp",
                    user: text(user),
                    database: text(database),
                    served_as: text(served_as),
                    cancel_pid: text(pid).parse().map_err(|_| bad())?,
                    cancel_secret: secret.to_vec(),
                    minor: number(0)?.try_into().map_err(|_| bad())?,
                    age: number(1)?,
                    admin: number(3)? > 0,
                    choices: Choices {
                        role: said(4),
                        primary_reads: said(5),
                        read_your_writes: said(6),
                        shard: said(7),
                    },
                    prepared: Prepared { renamed: number(2)? > 0, ..Prepared::default() },
                    ..Self::default()
                });
                continue;
            }
            let client = clients.last_mut().ok_or_else(bad)?;
            match columns.as_slice() {
                [b"statement", name, definition @ ..] => {
                    client.prepared.statements.push((name.to_vec(), Definition::read(definition).ok_or_else(bad)?));
                }
                [b"stored password", stored] => client.learnt.0 = Some(text(stored)),
                [b"client key", key] => client.learnt.1 = Some((*key).try_into().map_err(|_| bad())?),
                [b"unnamed", definition @ ..] => {
                    client.prepared.unnamed = Some(Definition::read(definition).ok_or_else(bad)?);
                }
                [_, name, value] => {
                    let place = |words: [&str; 2]| words.iter().position(|of| *of == word);
                    let settings = match (place(VALUES), place(SETS)) {
                        (Some(place), _) => client.values.get_mut(place),
                        (_, Some(place)) => client.sets.get_mut(place),
                        _ => None,
                    };
                    settings.ok_or_else(bad)?.push((text(name), text(value)));
                }
                _ => return Err(bad()),
            }
        }
        Ok(clients)
    }

    /// The description of a client that goes.
    pub fn of(transfer: &Transfer, tracked: &Tracked, learnt: (Option<Arc<str>>, Option<[u8; 32]>)) -> Self {
        let named = |values: &[Option<Box<str>>]| {
            let all = tracked.names().zip(values);
            all.filter_map(|(name, value)| Some((name.to_owned(), value.as_deref()?.to_owned()))).collect()
        };
        let (now, startup) = (&transfer.session.settings, &transfer.session.startup);
        let statements = transfer.prepared.statements.iter();
        let of = |carried: &Carried| Definition {
            lexing: carried.lexing().word().into(),
            text: carried.definition().to_vec(),
            shape: carried.shape(),
        };
        Self {
            is_tcp: !transfer.io.socket.is_local(),
            user: transfer.identity.user.clone(),
            database: transfer.identity.database.clone(),
            served_as: transfer.identity.served_as.clone(),
            cancel_pid: transfer.identity.cancel_key.pid,
            cancel_secret: transfer.identity.cancel_key.secret.clone(),
            minor: transfer.identity.minor,
            age: transfer.identity.since.elapsed().as_secs(),
            admin: transfer.identity.admin,
            choices: Choices {
                role: word_of(&ROLES, transfer.session.role),
                primary_reads: transfer.session.primary_reads.map_or_else(String::new, |reads| reads.to_string()),
                read_your_writes: word_of(&CONSISTENCIES, transfer.session.owed.chosen),
                shard: transfer.session.shard.map_or_else(String::new, |shard| shard.to_string()),
            },
            values: [named(&now.0), named(&startup.0)],
            sets: [now.1.clone(), startup.1.clone()],
            prepared: Prepared {
                statements: statements.map(|(name, carried)| (name.to_vec(), of(carried))).collect(),
                unnamed: transfer.prepared.unnamed.as_ref().map(of),
                renamed: transfer.prepared.renamed,
            },
            learnt: (learnt.0.map(|stored| stored.to_string()), learnt.1),
        }
    }
}

/// A client that comes from the process before.
#[derive(Debug)]
pub struct Adopted {
    /// The socket.
    pub io: Io,
    /// The permit by which the client is counted.
    pub permit: ClientPermit,
    /// Its place among the clients of its database.
    pub place: Place,
    /// The description by the process before.
    pub described: Described,
}
