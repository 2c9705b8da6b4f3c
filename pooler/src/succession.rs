//! Clients that go from a process to the one that takes its place (`-R`), each between two of its units.
//!
//! The new process asks `TAKEOVER CLIENTS` on the console again and again. The answer has the sockets of the clients that
//! had nothing under way (SCM_RIGHTS), and rows that say what their sessions are. Clients over TLS stay, since their keys
//! cannot be handed over, and so do those that are pinned or listen, until they can go. Should the new process end before it
//! has asked for clients that have been made ready, they go on being served here.

use std::fmt;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use classify::{Consistency, Role};
use wire::startup::CancelKey;

use crate::client::{Client, ClientKey, Deeds};
use crate::homes::Place;
use crate::moves::{Bound, Settings, Traveller};
use crate::net::{Io, Stream};
use crate::replay::Owed;
use crate::seat::Seat;
use crate::shared::{Message, Shared, lock};
use crate::statement::{Carried, Lexing};
use crate::takeover::Predecessor;
use crate::vars::{Tracked, Vars, assigned};
use crate::worker::Worker;

/// How often the old process is asked for clients at first, and when it has had time for all that are idle now and then.
const SOON: Duration = Duration::from_millis(20);
const LATER: Duration = Duration::from_millis(200);
/// So long that is.
const BUSY: Duration = Duration::from_secs(30);
/// Clients that are handed over at once.
pub const AT_ONCE: usize = 60;

/// A row of the answer: its first column says what it is.
pub type Row = Vec<Vec<u8>>;

/// A client as one process tells another of it. It has what opens servers in it, so it is not for logs.
#[derive(Default, PartialEq, Eq)]
pub struct Described {
    is_tcp: bool,
    user: String,
    database: String,
    served_as: String,
    cancel_pid: i32,
    cancel_secret: Vec<u8>,
    minor: u16,
    age: u64,
    renamed: bool,
    admin: bool,
    role: String,
    primary_reads: String,
    read_your_writes: String,
    /// Tracked values and other settings, as they are and as they were at startup.
    values: [Vec<(String, String)>; 2],
    sets: [Vec<(String, String)>; 2],
    /// Names, ways to take texts apart, and definitions.
    statements: Vec<(Vec<u8>, Vec<u8>, Vec<u8>)>,
    /// Likewise without a name.
    unnamed: Option<(Vec<u8>, Vec<u8>)>,
    /// What its login has taught for logins to servers: its password as it is stored, and its key by SCRAM.
    learnt: (Option<String>, Option<[u8; 32]>),
}

impl fmt::Debug for Described {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Described").field("user", &self.user).finish_non_exhaustive()
    }
}

/// The words for the rows of settings, as they are and as they were at startup.
const VALUES: [&str; 2] = ["value", "startup value"];
const SETS: [&str; 2] = ["set", "startup set"];
const ROLES: [(&str, Role); 4] =
    [("primary", Role::Primary), ("replica", Role::Replica), ("any", Role::Any), ("auto", Role::Auto)];
const CONSISTENCIES: [(&str, Consistency); 3] =
    [("session", Consistency::Session), ("database", Consistency::Database), ("off", Consistency::Off)];

fn word_of<T: PartialEq>(words: &[(&str, T)], value: Option<T>) -> String {
    let found = words.iter().find(|(_, of)| value.as_ref() == Some(of));
    found.map_or_else(String::new, |(word, _)| (*word).to_owned())
}

fn value_of<T: Copy>(words: &[(&str, T)], word: &str) -> Option<T> {
    words.iter().find(|(of, _)| *of == word).map(|(_, value)| *value)
}

impl Described {
    /// What is told of it: a row for the client, and one for each setting and statement.
    fn rows(&self) -> Vec<Row> {
        let text = |text: &str| text.as_bytes().to_vec();
        let number = |number: u64| number.to_string().into_bytes();
        let flags = [self.renamed, self.admin].map(|flag| number(u64::from(flag)));
        let mut client = vec![text("client"), text(if self.is_tcp { "tcp" } else { "unix" })];
        client.extend([&self.user, &self.database, &self.served_as].map(|of| text(of)));
        client.extend([text(&self.cancel_pid.to_string()), self.cancel_secret.clone()]);
        client.extend([number(self.minor.into()), number(self.age)]);
        client.extend(flags);
        client.extend([&self.role, &self.primary_reads, &self.read_your_writes].map(|of| text(of)));
        let mut rows = vec![client];
        for (words, settings) in [(VALUES, &self.values), (SETS, &self.sets)] {
            for (word, settings) in words.into_iter().zip(settings) {
                rows.extend(settings.iter().map(|(name, value)| vec![text(word), text(name), text(value)]));
            }
        }
        for (name, lexing, definition) in &self.statements {
            rows.push(vec![text("statement"), name.clone(), lexing.clone(), definition.clone()]);
        }
        if let Some((lexing, definition)) = &self.unnamed {
            rows.push(vec![text("unnamed"), lexing.clone(), definition.clone()]);
        }
        let (stored, key) = &self.learnt;
        rows.extend(stored.iter().map(|stored| vec![text("stored password"), text(stored)]));
        rows.extend(key.iter().map(|key| vec![text("client key"), key.to_vec()]));
        rows
    }

    /// The clients that rows tell of; what is not understood of one is an error.
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
                    renamed: number(2)? > 0,
                    admin: number(3)? > 0,
                    role: said(4),
                    primary_reads: said(5),
                    read_your_writes: said(6),
                    ..Self::default()
                });
                continue;
            }
            let client = clients.last_mut().ok_or_else(bad)?;
            match columns.as_slice() {
                [b"statement", name, lexing, definition] => {
                    client.statements.push((name.to_vec(), lexing.to_vec(), definition.to_vec()));
                }
                [b"stored password", stored] => client.learnt.0 = Some(text(stored)),
                [b"client key", key] => client.learnt.1 = Some((*key).try_into().map_err(|_| bad())?),
                [b"unnamed", lexing, definition] => client.unnamed = Some((lexing.to_vec(), definition.to_vec())),
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

    fn of(traveller: &Traveller, tracked: &Tracked, learnt: (Option<Arc<str>>, Option<[u8; 32]>)) -> Self {
        let named = |values: &[Option<Box<str>>]| {
            let all = tracked.names().zip(values);
            all.filter_map(|(name, value)| Some((name.to_owned(), value.as_deref()?.to_owned()))).collect()
        };
        let (now, startup) = (&traveller.settings, &traveller.startup);
        let statements = traveller.statements.iter();
        Self {
            is_tcp: matches!(traveller.io.stream, Stream::Tcp(_)),
            user: traveller.user.clone(),
            database: traveller.database.clone(),
            served_as: traveller.served_as.clone(),
            cancel_pid: traveller.cancel_key.pid,
            cancel_secret: traveller.cancel_key.secret.clone(),
            minor: traveller.minor,
            age: traveller.since.elapsed().as_secs(),
            renamed: traveller.renamed,
            admin: traveller.admin,
            role: word_of(&ROLES, traveller.role),
            primary_reads: traveller.primary_reads.map_or_else(String::new, |reads| reads.to_string()),
            read_your_writes: word_of(&CONSISTENCIES, traveller.owed.chosen),
            values: [named(&now.0), named(&startup.0)],
            sets: [now.1.clone(), startup.1.clone()],
            statements: statements
                .map(|(name, carried)| (name.to_vec(), carried.lexing().word().into(), carried.definition().to_vec()))
                .collect(),
            learnt: (learnt.0.map(|stored| stored.to_string()), learnt.1),
            unnamed: traveller
                .unnamed
                .as_ref()
                .map(|carried| (carried.lexing().word().into(), carried.definition().to_vec())),
        }
    }
}

/// A client that comes from the process before.
#[derive(Debug)]
pub struct Adopted {
    io: Io,
    seat: Seat,
    place: Place,
    described: Described,
}

/// Takes the clients of the process before over, until it has none or ends.
pub fn adopt(mut before: Predecessor, shared: &Arc<Shared>) {
    let begun = Instant::now();
    let mut count = 0;
    loop {
        match before.clients() {
            Ok((described, sockets)) => {
                count += described.len();
                for (described, socket) in described.into_iter().zip(sockets) {
                    if let Err(error) = take(described, socket, shared) {
                        crate::warning!("-R: a client of the pooler before is lost: {error}");
                    }
                }
            }
            Err(why) => {
                crate::info!("-R: {count} clients of the pooler before were taken over, which tells of no more: {why}");
                return;
            }
        }
        std::thread::sleep(if begun.elapsed() < BUSY { SOON } else { LATER });
    }
}

/// Gives a client that was taken over to a worker of its database.
fn take(described: Described, socket: OwnedFd, shared: &Arc<Shared>) -> std::io::Result<()> {
    let stream = Stream::taken_over(socket, described.is_tcp)?;
    let mut seat = Seat::new(shared.clone());
    // The process before has let it in.
    let _ = seat.take(&described.user, false, 0, 0);
    let place = Place::take_one_more(shared, &shared.config(), &described.database);
    let worker = place.worker();
    let adopted = Adopted { io: Io::new(stream), seat, place, described };
    shared.tell(worker, Message::Adopted(Box::new(adopted)));
    Ok(())
}

/// Settings as a session here has them: a parameter is tracked or not by the configuration in force.
fn settings(values: Vec<(String, String)>, sets: Vec<(String, String)>, tracked: &Tracked) -> Settings {
    let (mut vars, mut others) = (Vars::default(), Vec::new());
    for (name, value) in values {
        match tracked.place(&name) {
            Some(place) => vars.set(place, &value),
            None => others.push((name.to_lowercase(), format!("SET {name} = {}", assigned(&name, &value)))),
        }
    }
    others.extend(sets);
    (vars.carry(), others)
}

impl Worker {
    /// Takes in a client of the process before.
    pub fn adopt(&mut self, adopted: Adopted) {
        let Adopted { io, seat, place, described } = adopted;
        let (stored, client_key) = described.learnt;
        let stored = stored.map(Arc::from);
        lock(&self.shared.learnt).learn(&self.config, &described.database, &described.user, stored, client_key);
        let ([values, startup_values], [sets, startup_sets]) = (described.values, described.sets);
        let carried = |lexing: &[u8], definition: Vec<u8>| Carried::anew(definition.into(), Lexing::of_word(lexing));
        let statements = described.statements.into_iter();
        let mut owed = Owed::default();
        owed.chosen = value_of(&CONSISTENCIES, &described.read_your_writes);
        let traveller = Traveller {
            io,
            id: self.shared.next_id(),
            seat,
            place,
            user: described.user,
            database: described.database,
            served_as: described.served_as,
            settings: settings(values, sets, &self.tracked),
            startup: settings(startup_values, startup_sets, &self.tracked),
            role: value_of(&ROLES, &described.role),
            primary_reads: described.primary_reads.parse().ok(),
            owed,
            statements: statements
                .map(|(name, lexing, definition)| (name.into(), carried(&lexing, definition)))
                .collect(),
            unnamed: described.unnamed.map(|(lexing, definition)| carried(&lexing, definition)),
            renamed: described.renamed,
            cancel_key: CancelKey { pid: described.cancel_pid, secret: described.cancel_secret },
            minor: described.minor,
            since: self.now.checked_sub(Duration::from_secs(described.age)).unwrap_or(self.now),
            request_since: self.now,
            admin: described.admin,
            deeds: Deeds::default(),
            kills: self.kills,
        };
        let Some(key) = self.settle_in(traveller) else { return };
        // What it has committed before was followed by the process before alone.
        let cluster = self.clients.get(key.0).and_then(|client| client.home).and_then(|home| self.pools.get(home.0));
        let view = cluster.and_then(|home| home.cluster).and_then(|place| self.clusters.get(place));
        if let (Some(client), Some(view)) = (self.clients.get_mut(key.0), view) {
            client.owed.renew(view);
        }
    }

    /// Marks all clients that can go to the process that has taken the sockets over, and sends those off that have nothing
    /// under way.
    pub fn mark_heirs(&mut self) {
        if !self.shared.succession.has_heir() {
            return;
        }
        let goes = |client: &Client| client.is_ready() && client.io.tls().is_none();
        let mut ready = Vec::new();
        for (key, client) in self.clients.iter_mut().filter(|(_, client)| goes(client)) {
            client.moves_to = Some(Bound::Successor);
            ready.push(ClientKey(key));
        }
        for key in ready {
            self.moves_away(key);
        }
    }

    /// Puts a client among those that the other process takes next.
    pub fn leave_for_successor(&mut self, key: ClientKey) -> bool {
        if !self.shared.succession.has_heir() {
            return false;
        }
        let Some(traveller) = self.pack(key) else { return false };
        lock(&self.shared.cancels).remove(&traveller.cancel_key);
        match self.shared.succession.leaves(traveller) {
            Ok(()) => (),
            // The other process has ended at this moment.
            Err(traveller) => drop(self.settle_in(*traveller)),
        }
        true
    }

    /// The rows and sockets of the clients that go next, which this console client takes over.
    pub fn next_heirs(&mut self, key: ClientKey) -> Vec<Traveller> {
        self.shared.succession.inherit(key)
    }

    /// What is told of a client that goes.
    pub fn describe(&self, traveller: &Traveller) -> Vec<Row> {
        let learnt = lock(&self.shared.learnt).recall(&self.config, &traveller.database, &traveller.user);
        Described::of(traveller, &self.tracked, learnt).rows()
    }

    /// Has clients served here again that were to go to a process that has ended.
    pub fn take_back(&mut self) {
        let heir = self.shared.succession.heir();
        if heir.is_none_or(|heir| self.clients.get(heir.0).is_some_and(Client::is_on_console)) {
            return;
        }
        for mut traveller in self.shared.succession.disinherit() {
            traveller.place.change(self.id);
            self.settle_in(traveller);
        }
    }
}

impl Traveller {
    /// Its socket.
    pub fn socket(&self) -> BorrowedFd<'_> {
        match &self.io.stream {
            Stream::Tcp(stream) => stream.as_fd(),
            Stream::Unix(stream) => stream.as_fd(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(name: &str, value: &str) -> (String, String) {
        (name.to_owned(), value.to_owned())
    }

    #[test]
    fn what_is_told_of_clients_is_read_again() {
        let plain =
            Described { user: "u".to_owned(), cancel_pid: 7, cancel_secret: vec![0, 255], ..Described::default() };
        let full = Described {
            is_tcp: true,
            database: "a b".to_owned(),
            minor: 2,
            age: 9,
            renamed: true,
            role: "auto".to_owned(),
            values: [vec![pair("TimeZone", "a'b")], vec![pair("TimeZone", "")]],
            sets: [vec![pair("role", "SET ROLE x")], vec![pair("my.a", "SET my.a = 'y'")]],
            statements: vec![(b"s\xff".to_vec(), b"conforming".to_vec(), b"SELECT $1\0\0\x01\0\0\0\x17".to_vec())],
            unnamed: Some((b"unclear".to_vec(), b"SELECT\0\0\0".to_vec())),
            learnt: (Some("SCRAM-SHA-256$4096:a$b:c".to_owned()), Some([7; 32])),
            ..Described::default()
        };
        let rows = [full.rows(), plain.rows()].concat();
        assert_eq!(Described::read(&rows), Ok(vec![full, plain]));
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        let row = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect::<Row>();
        for rows in [vec![row(&["value", "a", "b"])], vec![row(&["client", "tcp"])], vec![row(&[])]] {
            assert!(Described::read(&rows).is_err(), "{rows:?}");
        }
        let client = Described::default().rows().remove(0);
        assert!(Described::read(&[client, row(&["riddle", "a", "b"])]).is_err());
    }
}
