//! Clients: what they say, and what they take for an answer.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::io::Write;

use pooling::memory::End;
use wire::startup::{self, CancelKey};
use wire::{backend, frame, frontend};

use super::connection::STRAY;
use super::copy::text_of;
use super::ears::{Ears, channel_of, notification};
use super::entry::{Served, Service};
use super::ledger::{Ledger, Said};
use super::said::{
    self, DEFINITIONS, DISCARD_ALL, FORMS, MIXED, PREPARED, SENTENCES, SHIFTING, echo, extended, mixed, query, together,
};
use super::server::HUM;
use super::shapes::{CHANGED, Held, Use};
use super::turns::Turn;
use super::{World, hear, is_open, pools};
use crate::model::{Session, Values, put, reported};
use crate::setup::Quota;
use crate::trace::trace;

/// The length of a Sync.
const SYNC: usize = 5;

/// What a client sends of a COPY, and how it ends its unit where the COPY does not begin.
pub(super) struct Waits {
    pub(super) lines: Vec<u8>,
    pub(super) end: Vec<u8>,
}

/// A unit that a client has begun to send and that has not been answered.
pub(super) struct Unit {
    pub(super) name: String,
    /// Its client may have asked to cancel it.
    pub(super) cancelled: bool,
    pub(super) errors: usize,
    /// It may drop the statements that its client has prepared.
    discards: bool,
    /// It is of a statement of the relation that shifts.
    pub(super) uses: Option<Use>,
    /// It prepares, if need be, this definition under this name of the client's.
    pub(super) names: Option<(usize, usize)>,
    /// What it has been told of the unit, and in the words of the last error.
    pub(super) heard: Vec<Said>,
    pub(super) complaint: String,
    /// It waits to be asked for the lines of a COPY.
    pub(super) waits: Option<Waits>,
    /// It ends by a Query, unless what comes before that fails: then by a Sync, which has not been sent yet.
    is_mixed: bool,
    /// How many bytes its client has sent in all before it, and when it is sent.
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) served: Served,
    pub(super) turn: Turn,
}

pub(super) struct Client {
    /// How many had left when it came.
    pub(super) born: usize,
    pub(super) database: &'static str,
    pub(super) user: &'static str,
    pub(super) service: Service,
    pub(super) socket: End,
    /// What it has not sent yet, and how many bytes it has sent.
    pub(super) unsent: VecDeque<u8>,
    pub(super) sent: usize,
    pub(super) heard: Vec<u8>,
    pub(super) key: Option<CancelKey>,
    pub(super) greeted: bool,
    pub(super) gone: bool,
    pub(super) units: VecDeque<Unit>,
    pub(super) count: usize,
    /// What it has been told of parameters.
    pub(super) told: HashMap<String, String>,
    pub(super) status: u8,
    /// The session that it would have without a pooler, as of the last unit that it may know to have ended.
    pub(super) session: Session,
    /// Likewise after units whose end a server has not told yet.
    pub(super) ahead: Vec<Ahead>,
    /// Units whose end a server has told, and their client has not heard: the pooler may lose a connection without having read
    /// that. And its session before each.
    unheard: Vec<(String, Session)>,
    /// A unit of it has ended on a connection that died before it was told so: what it has been told of parameters
    /// meanwhile holds.
    pub(super) is_unsure: bool,
    /// Connections that bring cancel requests.
    pub(super) cancels: Vec<End>,
    /// The definitions that it has prepared, by the names that it has given them, once it has been told so.
    pub(super) prepared: HashMap<usize, usize>,
    /// Its statements of the relation that shifts by their names, once it has been told that they are prepared; and how often
    /// it has been refused by them in a row, though it had prepared again.
    pub(super) shapes: HashMap<usize, Held>,
    pub(super) vain: [usize; 3],
    /// How many units it had said with the last that ends the statement without a name.
    pub(super) unnamed: usize,
    /// The time zones that its session has had.
    pub(super) zones: BTreeSet<String>,
    pub(super) ears: Ears,
}

/// The session of a client after a unit whose end a server has answered and not told.
pub(super) struct Ahead {
    pub(super) connection: usize,
    /// Where what tells of the end ends among all that is told there.
    pub(super) end: usize,
    /// None where it is no end of a unit of its own.
    pub(super) unit: Option<String>,
    pub(super) session: Session,
}

/// The name that a client signs its units by: which client it is, in which place, and which unit.
fn name_of(client: usize, place: usize, unit: usize) -> String {
    format!("{client}.{place}.{unit}")
}

/// The parameters of its own that a client begins with, and what they make of its session.
fn own_parameters(kind: usize) -> (Vec<(&'static str, &'static str)>, Values) {
    let mut base = Values::new();
    let own = match kind % 3 {
        1 => {
            put(&mut base, "my.a", Some("base"));
            vec![("options", "-c my.a=base")]
        }
        2 => {
            put(&mut base, "timezone", Some("base"));
            vec![("TimeZone", "base")]
        }
        _ => Vec::new(),
    };
    (own, base)
}

impl World {
    /// A client connects; in some places it has a parameter of its own. The clients of a pool under limits have the same: else
    /// those for which a connection is in line may go before others so often that this takes a minute.
    pub(super) fn arrive(&mut self, place: usize) -> Client {
        let socket = self.connect();
        let (database, user) = pools::account(place % self.pools);
        let kind = if self.quota != Quota::default() { place % self.pools } else { place };
        let (mut parameters, base) = own_parameters(kind);
        parameters.extend([("user", user), ("database", database)]);
        let mut hello = Vec::new();
        startup::write_startup(&mut hello, parameters);
        let zones = [reported(&base, "TimeZone")].into();
        Client {
            born: self.left,
            database,
            user,
            service: Service::of(&self.entry, database, user),
            socket,
            unsent: hello.into(),
            sent: 0,
            heard: Vec::new(),
            key: None,
            greeted: false,
            gone: false,
            units: VecDeque::new(),
            count: 0,
            told: HashMap::new(),
            status: b'I',
            session: Session::new(base),
            ahead: Vec::new(),
            unheard: Vec::new(),
            is_unsure: false,
            cancels: Vec::new(),
            prepared: HashMap::new(),
            shapes: HashMap::new(),
            vain: [0; 3],
            unnamed: 0,
            zones,
            ears: Ears::default(),
        }
    }

    /// A client says a unit, which is sent by and by.
    pub fn say(&mut self, who: usize, form: usize, choices: &[usize]) {
        let client = &mut self.clients[who];
        // What it says while it waits for a COPY to begin would be taken for lines of that, or be skipped.
        let waits = client.units.back().is_some_and(|unit| unit.waits.is_some() || unit.is_mixed);
        if client.gone || waits || client.units.len() > 8 {
            return;
        }
        let name = name_of(client.born, who, client.count);
        client.count += 1;
        if form % FORMS == SHIFTING {
            return self.say_shifting(who, name, choices);
        }
        let ends_unnamed = form % FORMS != PREPARED;
        client.unnamed = if ends_unnamed { client.count } else { client.unnamed };
        let own = choices.len() % 2;
        let held = client.prepared.get(&own).copied();
        // Clients prepare the same few definitions, each under names of its own, and bind the unit's name.
        let definition = held.filter(|_| choices.len() > 2).unwrap_or(choices[0] % DEFINITIONS.len());
        let names = (form % FORMS == PREPARED).then_some((own, definition));
        let prepared = held == Some(definition);
        let is_certain = prepared && !client.units.iter().any(|unit| unit.discards || unit.names.is_some());
        if names.is_some() && !client.units.is_empty() && !is_certain {
            return;
        }
        if names.is_some() && !prepared {
            client.prepared.remove(&own);
        }
        let mut waits = None;
        let out = match form % FORMS {
            0 | 1 => query(&name, choices),
            2 => extended(&name, choices, None),
            PREPARED => echo(&name, own, definition, prepared),
            4 => together(&name, choices),
            5 => extended(&name, choices, Some(b'E')),
            6 => extended(&name, choices, Some(b'P')),
            MIXED => mixed(&name, choices),
            copy => {
                let (out, behind) = said::copy(&name, copy, choices);
                waits = behind;
                out
            }
        };
        trace!("client {who} says {}", String::from_utf8_lossy(&out).replace('\0', " "));
        let unit = client.utter(name, out);
        (unit.names, unit.waits, unit.is_mixed) = (names, waits, form % FORMS == MIXED);
        unit.discards = choices.iter().any(|choice| choice % SENTENCES == DISCARD_ALL);
    }

    /// A client sends so many bytes.
    pub fn send(&mut self, who: usize, count: usize) {
        let client = &mut self.clients[who];
        // A Sync that ends what begins a COPY comes with it: of one that came later nobody could tell whether it ends the COPY's
        // unit.
        let waits = client.units.back().is_some_and(|unit| unit.waits.is_some());
        let left = client.unsent.len().saturating_sub(count);
        let count = if waits && left <= SYNC { usize::MAX } else { count };
        let count = count.min(client.unsent.len());
        let bytes: Vec<u8> = client.unsent.drain(..count).collect();
        client.sent += count;
        client.note_sent(self.entry.settled);
        if !client.gone {
            // The pooler may have closed it.
            let _ = client.socket.write_all(&bytes);
        }
    }

    /// Everything has been said and answered: clients whose Query was skipped, since what came before it in their unit has
    /// failed, end the unit. Whether there were any.
    pub(super) fn end_skipped(&mut self) -> bool {
        let mut any = false;
        for client in self.clients.iter_mut().filter(|client| !client.gone) {
            let Some(unit) = client.units.front_mut().filter(|unit| unit.is_mixed && unit.errors > 0) else { continue };
            unit.is_mixed = false;
            let mut end = Vec::new();
            frontend::write_sync(&mut end);
            client.unsent.extend(end);
            any = true;
        }
        any
    }

    /// A client asks to cancel what it does.
    pub fn cancel(&mut self, who: usize) {
        let client = &self.clients[who];
        let Some(key) = client.key.as_ref().filter(|_| !client.gone && client.cancels.len() < 3) else { return };
        let mut socket = self.connect();
        let mut request = Vec::new();
        startup::write_cancel(&mut request, key);
        socket.write_all(&request).unwrap();
        let client = &mut self.clients[who];
        client.cancels.push(socket);
        client.units.iter_mut().for_each(|unit| unit.cancelled = true);
    }

    /// A client leaves, and another comes in its place.
    pub fn leave(&mut self, who: usize) {
        self.left += 1;
        self.clients[who] = self.arrive(who);
    }

    pub(super) fn hear_clients(&mut self) -> bool {
        let mut any = false;
        for place in 0..self.clients.len() {
            let client = &mut self.clients[place];
            if client.gone {
                continue;
            }
            let open = hear(&mut client.socket, &mut client.heard, &mut any);
            let heard = std::mem::take(&mut client.heard);
            let mut left = heard.as_slice();
            while let Ok(Some(message)) = frame::message(left) {
                client.hear(message.tag, message.body, &mut self.ledger);
                left = message.rest;
            }
            client.heard = left.to_vec();
            client.gone |= !open;
        }
        any
    }
}

impl Client {
    /// It says the bytes of a unit.
    pub(super) fn utter(&mut self, name: String, out: Vec<u8>) -> &mut Unit {
        self.cancels.retain_mut(is_open);
        self.units.push_back(Unit {
            name,
            cancelled: !self.cancels.is_empty(),
            errors: 0,
            discards: false,
            uses: None,
            names: None,
            heard: Vec::new(),
            complaint: String::new(),
            waits: None,
            is_mixed: false,
            start: self.sent + self.unsent.len(),
            end: self.sent + self.unsent.len() + out.len(),
            served: Served::default(),
            turn: Turn::of(&out),
        });
        self.unsent.extend(out);
        self.units.back_mut().expect("that")
    }

    /// Whether this is the client that signs a unit so: not one before it in its place.
    pub(super) fn is_born_as(&self, unit: &str) -> bool {
        unit.split('.').next().and_then(|born| born.parse().ok()) == Some(self.born) && !self.gone
    }

    /// A server has told so much on a connection.
    pub(super) fn hear_of_ends(&mut self, connection: usize, count: usize) {
        while self.ahead.first().is_some_and(|ahead| ahead.connection == connection && ahead.end <= count) {
            let Ahead { unit, session, .. } = self.ahead.remove(0);
            let before = std::mem::replace(&mut self.session, session);
            self.unheard.extend(unit.map(|unit| (unit, before)));
        }
    }

    /// The unit that is answered.
    fn unit(&mut self) -> &mut Unit {
        self.units.front_mut().expect("an answer that nobody has asked for")
    }

    #[expect(clippy::too_many_lines, reason = "one arm a message")]
    pub(super) fn hear(&mut self, tag: u8, body: &[u8], ledger: &mut Ledger) {
        let text = String::from_utf8_lossy(body).replace('\0', " ");
        trace!("client {:?}: {} {text}", self.units.front().map(|unit| &unit.name), char::from(tag));
        self.hear_shifting(tag, body);
        match tag {
            b'K' => {
                let (pid, secret) = backend::backend_key_data(body).unwrap();
                self.key = Some(CancelKey { pid, secret: secret.to_vec() });
            }
            b'S' => {
                let (name, value) = backend::parameter_status(body).unwrap();
                self.told.insert(name.to_owned(), value.to_owned());
            }
            b'Z' if !self.greeted => self.greeted = true,
            b'Z' => {
                self.status = body[0];
                self.end_unit(ledger);
            }
            b'E' => {
                let report = backend::report(body).unwrap();
                if report.severity == "FATAL" {
                    trace!("gone: {report:?}");
                    self.judge_farewell(&report);
                    assert_ne!(report.code, "57014", "a client is sent away for what has struck the pooler's own");
                    self.gone = true;
                    return;
                }
                assert!(ledger.has_standbys || report.code != "25006", "a write that its client may do is refused");
                let is_known = !matches!(report.code.as_str(), "26000" | "34000");
                assert!(is_known, "a statement that its client has prepared is not known: {}", report.message);
                if report.code == CHANGED {
                    self.refused_shifting(ledger.changes);
                }
                self.refused(&report);
            }
            b'D' => self.read_row(body),
            b'd' => {
                let unit = self.unit();
                assert_eq!(text_of(body), unit.name, "another's line for {}", unit.name);
                unit.heard.push(Said::Row);
            }
            b'G' => {
                if let Some(waits) = self.unit().waits.take() {
                    self.unsent.extend(waits.lines);
                }
            }
            // On this one it says what nobody has asked for.
            b'A' if notification(body).0 == HUM => (),
            b'A' => {
                let (channel, payload) = notification(body);
                let is_open = |name: &str| self.units.iter().any(|unit| unit.name == name);
                self.ears.hear((&channel_of(self.database, &channel), &payload), &ledger.notes, is_open);
            }
            b'C' => {
                let tag = backend::command_complete(body).unwrap();
                if tag == b"DISCARD ALL" {
                    self.prepared.clear();
                    self.shapes.clear();
                }
                self.unit().heard.push(Said::Tag(String::from_utf8_lossy(tag).into_owned()));
            }
            b'1' => self.prepared.extend(self.units.front().and_then(|unit| unit.names)),
            _ => (),
        }
    }

    /// It reads a row.
    fn read_row(&mut self, body: &[u8]) {
        let unit = self.units.front().expect("a row that nobody has asked for");
        let row = backend::data_row(body).unwrap();
        let [Some(row)] = &*row else { panic!("a row of several columns") };
        let row = std::str::from_utf8(row).unwrap();
        if let Some(uses) = &unit.uses {
            self.read_shifting(row, uses, &unit.name);
        } else if let Some((_, definition)) = unit.names {
            let (label, of_type) = DEFINITIONS[definition];
            let may_be = |zone: &String| *row == format!("{} {of_type} {zone} {label}", unit.name);
            assert!(self.zones.iter().any(may_be), "another's row or statement for {}: {row}", unit.name);
        } else {
            assert_eq!(row, unit.name, "another's row");
        }
        self.unit().heard.push(Said::Row);
    }

    fn end_unit(&mut self, ledger: &mut Ledger) {
        let unit = self.units.pop_front().expect("an end of a unit that was not asked");
        assert!(unit.errors <= 1, "{} errors for {}", unit.errors, unit.name);
        ledger.judge(&unit.name, &unit.heard, self.status, &unit.complaint);
        if let Some(place) = self.unheard.iter().position(|(name, _)| *name == unit.name) {
            let (_, before) = self.unheard.drain(..=place).next_back().expect("that");
            // It was lost, and with it what was told behind it.
            if unit.complaint.contains("unknown") {
                self.session = before;
                self.unheard.clear();
                (self.is_unsure, self.ears.is_unsure) = (true, true);
            }
        }
    }

    /// It has been told of an error.
    fn refused(&mut self, report: &backend::Report) {
        assert_ne!(report.message, STRAY, "a client hears of a cancel request that it did not send");
        let unit = self.unit();
        unit.errors += 1;
        unit.heard.push(Said::Error(report.code.clone()));
        unit.complaint.clone_from(&report.message);
        if let Some(waits) = unit.waits.take() {
            self.unsent.extend(waits.end);
        }
    }
}
