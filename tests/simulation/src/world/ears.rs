//! LISTEN and NOTIFY: what the server makes of them, and what each client is to hear.

use std::collections::{BTreeSet, HashMap};

use wire::frame::{self, Fields};

use super::World;
use super::connection::Connection;
use crate::model::Deed;

/// From which notification on a channel is listened to, and up to which.
struct Span {
    from: usize,
    /// And the unit that has ended it.
    until: Option<(usize, String)>,
}

/// What a client listens to by what it has committed, and what it has heard: notifications have numbers in the order of
/// commits.
#[derive(Default)]
pub(super) struct Ears {
    channels: HashMap<String, Vec<Span>>,
    heard: BTreeSet<usize>,
    /// One that it should have heard before what it has heard. It is told so, and closed, when its unit has ended.
    missed: Option<usize>,
    /// It has not been told whether something of it was committed: it may listen to more than it knows, or to less.
    pub(super) is_unsure: bool,
}

impl Ears {
    fn listen(&mut self, channel: String, from: usize) {
        let spans = self.channels.entry(channel).or_default();
        if spans.last().is_none_or(|last| last.until.is_some()) {
            spans.push(Span { from, until: None });
        }
    }

    fn unlisten(&mut self, channel: Option<&str>, until: usize, unit: &str) {
        let named = self.channels.iter_mut().filter(|(name, _)| channel.is_none_or(|channel| channel == **name));
        for (_, spans) in named {
            spans.iter_mut().for_each(|span| _ = span.until.get_or_insert_with(|| (until, unit.to_owned())));
        }
    }

    /// Whether it must hear of this notification, up to which all have been said.
    fn owed(&self, number: usize, channel: &str) -> bool {
        let spans = self.channels.get(channel).map_or(&[][..], Vec::as_slice);
        !self.is_unsure && spans.iter().any(|span| span.until.is_none() && span.from <= number)
    }

    /// It hears a notification: of a channel that it listens to, in order, once. One that was said shortly before its
    /// LISTEN it may hear too, and behind its UNLISTEN for as long as it has not been told of the end of this.
    pub(super) fn hear(
        &mut self,
        (channel, payload): (&str, &str),
        notes: &[(String, String)],
        is_open: impl Fn(&str) -> bool,
    ) {
        let said = notes.iter().position(|note| (note.0.as_str(), note.1.as_str()) == (channel, payload));
        let number = said.expect("a notification that nobody has sent");
        let spans = self.channels.get(channel).map_or(&[][..], Vec::as_slice);
        let listens = spans.iter().any(|span| {
            self.is_unsure || span.until.as_ref().is_none_or(|(until, unit)| number < *until || is_open(unit))
        });
        assert!(listens, "notification {number} on {channel}, to which its client does not listen");
        let last = self.heard.last().copied();
        assert!(last.is_none_or(|last| last < number), "notification {number} behind {last:?}");
        self.missed = self.missed.or_else(|| self.first_missed(last.map_or(0, |last| last + 1)..number, notes));
        self.heard.insert(number);
    }

    /// It has heard all that it is owed.
    pub(super) fn end(&self, notes: &[(String, String)]) {
        let missed = self.missed.or_else(|| self.first_missed(0..notes.len(), notes));
        assert!(missed.is_none(), "of notifications {notes:?} that of this number is missed: {missed:?}");
    }

    fn first_missed(&self, numbers: std::ops::Range<usize>, notes: &[(String, String)]) -> Option<usize> {
        numbers.into_iter().find(|number| self.owed(*number, &notes[*number].0) && !self.heard.contains(number))
    }
}

/// A channel of a database, by a name that no other database has.
pub(super) fn channel_of(database: &str, channel: &str) -> String {
    format!("{database}.{channel}")
}

/// The channel and the payload of a notification.
pub(super) fn notification(body: &[u8]) -> (String, String) {
    let mut fields = Fields::new(b'A', body);
    fields.i32("the process id").unwrap();
    let channel = fields.text("the channel").unwrap().to_owned();
    (channel, fields.text("the payload").unwrap().to_owned())
}

/// A notification, of a process whose number nobody looks at.
pub(super) fn write_notification(out: &mut Vec<u8>, channel: &str, payload: &str) {
    frame::write(out, b'A', |out| out.extend_from_slice(format!("\0\0\0\x01{channel}\0{payload}\0").as_bytes()));
}

impl World {
    /// What a connection's transactions have done takes effect, now that they are committed.
    pub(super) fn settle_deeds(&mut self, at: usize) {
        let connection = &mut self.connections[at];
        let mut deeds = std::mem::take(&mut connection.session.done);
        if deeds.is_empty() {
            return;
        }
        // As in PostgreSQL, who listens hears what its own transaction says.
        deeds.sort_by_key(|deed| matches!(deed, Deed::Notify(..)));
        let owner = connection.unit.as_ref().map(|(place, name, _)| (*place, name.as_str()));
        let unit = owner.map(|(_, name)| name.to_owned()).unwrap_or_default();
        let client = owner.map(|(place, name)| (&mut self.clients[place], name));
        let mut client = client.filter(|(client, name)| client.is_born_as(name)).map(|(client, _)| client);
        let (next, host) = (self.ledger.notes.len(), connection.host);
        let mut writes = Vec::new();
        for deed in deeds {
            match deed {
                Deed::Write(name) => writes.push(name),
                Deed::Listen(channel) => {
                    let channel = channel_of(&connection.database, &channel);
                    connection.relistened = true;
                    if let Some(client) = &mut client {
                        client.ears.listen(channel.clone(), next);
                    }
                    connection.listen(channel, next);
                }
                Deed::Unlisten(channel) => {
                    let channel = channel.map(|channel| channel_of(&connection.database, &channel));
                    connection.relistened = true;
                    if let Some(client) = &mut client {
                        client.ears.unlisten(channel.as_deref(), next, &unit);
                    }
                    connection.channels.retain(|name| channel.as_ref().is_some_and(|channel| channel != name));
                }
                Deed::Notify(channel, payload) => {
                    self.ledger.notes.push((channel_of(&connection.database, &channel), payload));
                }
            }
        }
        writes.into_iter().for_each(|name| self.commit(host, name));
    }

    /// A connection on which nothing is under way tells what has been said on its channels; whether there was anything.
    pub(super) fn deliver(&mut self, at: usize) -> bool {
        let connection = &mut self.connections[at];
        if connection.session.explicit || connection.channels.is_empty() {
            return false;
        }
        let before = connection.made;
        let notes = self.ledger.notes.get(connection.read_to..).unwrap_or_default();
        for (channel, payload) in notes {
            if connection.channels.contains(channel) {
                let (_, channel) = channel.split_once('.').expect("a database");
                connection.say(|out| write_notification(out, channel, payload));
            }
        }
        connection.read_to = self.ledger.notes.len();
        connection.made > before
    }
}

impl Connection {
    fn listen(&mut self, channel: String, next: usize) {
        if self.channels.is_empty() {
            self.read_to = next;
        }
        self.channels.insert(channel);
    }
}
