//! The channels of LISTEN, as plain values: those of a client's session, and those of the subscriber, the one connection of a
//! pool that listens for all of its clients.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, VecDeque};
use std::rc::Rc;

use crate::error::Error;
use classify::Kind;

/// A session listens to no more channels by the subscriber, nor notes more in a transaction.
pub const MOST: usize = 1000;
/// Bytes of notifications that are kept for a client which does not come to take them.
const MOST_HELD: usize = 4 * 1024 * 1024;

/// A LISTEN, UNLISTEN or SAVEPOINT of the open transaction.
#[derive(Debug, PartialEq, Eq)]
enum Noted {
    Listen(Rc<str>),
    /// UNLISTEN of a channel; none stands for UNLISTEN *.
    Unlisten(Option<Rc<str>>),
    Savepoint(Box<str>),
}

/// Whether a client gets a notification.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hears {
    /// The client does not listen to the channel.
    No,
    /// The client gets the notification.
    Yes,
    /// The client gets the notification if its open transaction is committed.
    Perhaps,
}

/// A notification that is kept, and its channel: one copy for all clients that wait for it.
#[derive(Debug)]
struct Held {
    channel: Rc<str>,
    message: Rc<[u8]>,
}

/// The reason why a client has missed notifications, or may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The subscriber is lost, and with it perhaps notifications.
    Lost,
    /// The client has not taken the notifications that were kept for it.
    Full,
    /// A notification is not in the client's encoding.
    Encoding,
}

impl Fault {
    /// The error that the client gets.
    pub fn error(self) -> Error {
        match self {
            Self::Lost => Error::ListenerLost,
            Self::Full => Error::NotificationsFull,
            Self::Encoding => Error::NotificationEncoding,
        }
    }
}

/// The channels to which a client listens by the subscriber.
#[derive(Debug, Default)]
pub struct Subscriptions {
    channels: BTreeSet<Rc<str>>,
    noted: Vec<Noted>,
    /// Whether the transaction has savepoints that were not noted.
    blurred: bool,
    /// The channels of LISTENs that may be on their way to the server, or are about to be.
    sent: BTreeSet<Rc<str>>,
    /// The channels among these that the subscriber does not listen to yet: nothing more of the client is worked on before.
    awaited: BTreeSet<Rc<str>>,
    /// Whether a LISTEN may be on its way that is for the client's own connection.
    own: bool,
    /// Notifications that the client gets when it is idle.
    held: VecDeque<Held>,
    held_bytes: usize,
    /// The reason why the client can get no more notifications.
    fault: Option<Fault>,
}

impl Subscriptions {
    /// Whether the client has no channels, no notifications and no LISTEN under way.
    pub fn is_idle(&self) -> bool {
        !self.listens() && !self.has_news() && !self.own && self.sent.is_empty()
    }

    /// Whether the client listens by the subscriber, or has a LISTEN on its way for that.
    pub fn are_at_subscriber(&self) -> bool {
        !self.own && (self.listens() || !self.sent.is_empty())
    }

    /// Whether a LISTEN may be on its way that is for the client's own connection: further ones follow that.
    pub fn are_elsewhere(&self) -> bool {
        self.own
    }

    /// Whether the subscriber must listen to a channel for the client.
    pub fn needs(&self, channel: &str) -> bool {
        self.hears(channel) != Hears::No || self.awaited.contains(channel)
    }

    /// Whether the client gets the notifications on a channel. Those that come before its LISTEN is sent are not for it.
    pub fn hears(&self, channel: &str) -> Hears {
        let noted = |noted: &Noted| matches!(noted, Noted::Listen(to) if **to == *channel);
        if self.channels.contains(channel) {
            Hears::Yes
        } else if self.sent.contains(channel) && !self.awaited.contains(channel) || self.noted.iter().any(noted) {
            Hears::Perhaps
        } else {
            Hears::No
        }
    }

    /// Whether the client listens to any channel, or will.
    pub fn listens(&self) -> bool {
        !self.channels.is_empty() || !self.noted.is_empty()
    }

    /// A LISTEN is about to be sent, once the subscriber listens to its channel: `heard` if it does.
    pub fn send(&mut self, channel: &Rc<str>, heard: bool) {
        self.sent.insert(channel.clone());
        if !heard {
            self.awaited.insert(channel.clone());
        }
    }

    /// Notes that a LISTEN to these channels is about to be sent for the client's own connection: by the subscriber the client
    /// hears only the channels of finished LISTENs. A LISTEN that was sent before and undone may be remembered still.
    pub fn leave(&mut self, channels: &[Rc<str>]) {
        self.own = true;
        for channel in channels {
            self.sent.remove(channel);
            self.awaited.remove(channel);
        }
        self.settle();
    }

    /// Notes that the client has no connection of its own, on which a LISTEN could be on its way.
    pub fn is_without_connection(&mut self) {
        self.own = false;
    }

    /// Whether the client's next statement waits for the subscriber.
    pub fn awaits(&self) -> bool {
        !self.awaited.is_empty()
    }

    /// Notes that the subscriber listens to a channel; whether the client waited for that, and for nothing else.
    pub fn heard(&mut self, channel: &str) -> bool {
        self.awaited.remove(channel) && self.awaited.is_empty()
    }

    /// Notes that no LISTEN is on its way to the server any more.
    pub fn arrived(&mut self) {
        self.own = false;
        let awaited = &self.awaited;
        self.sent.retain(|channel| awaited.contains(channel));
        self.settle();
    }

    /// Notes that the subscriber is lost. LISTENs that were not confirmed run on the client's own connection.
    pub fn lose(&mut self) {
        if self.listens() {
            self.fail(Fault::Lost);
        }
        self.own |= !self.sent.is_empty();
        self.sent.clear();
        self.awaited.clear();
        self.settle();
    }

    /// Notes that the client has missed notifications, or may have: no more are kept for it.
    pub fn fail(&mut self, fault: Fault) {
        self.fault.get_or_insert(fault);
        self.held.clear();
        self.held_bytes = 0;
    }

    /// The reason why the client can get no more notifications, if it cannot.
    pub fn fault(&self) -> Option<Fault> {
        self.fault
    }

    /// Whether the client may listen to another channel by the subscriber.
    pub fn has_room(&self) -> bool {
        self.fault.is_none()
            && [self.channels.len(), self.noted.len(), self.sent.len()].iter().all(|count| *count < MOST)
    }

    /// Notes a command that has finished with this tag; `kind` is the kind of its text, if that is known.
    pub fn finished(&mut self, tag: &[u8], kind: Option<&Kind>) {
        match (tag, kind) {
            (b"LISTEN", Some(Kind::Listen(channel))) => self.noted.push(Noted::Listen(channel.as_str().into())),
            (b"UNLISTEN", Some(Kind::Unlisten(channel))) => {
                self.noted.push(Noted::Unlisten(channel.as_deref().map(Rc::from)));
            }
            // A savepoint before the first note undoes all of the notes, as an unknown savepoint does.
            (b"SAVEPOINT" | b"RELEASE", _) if self.noted.is_empty() => (),
            (b"SAVEPOINT", Some(Kind::Savepoint(name))) if self.noted.len() < MOST => self.open(name),
            (b"RELEASE", Some(Kind::Release(name))) => {
                let kept = self.savepoint(name).unwrap_or(0);
                let mut at = 0;
                self.noted.retain(|noted| {
                    at += 1;
                    at <= kept || !matches!(noted, Noted::Savepoint(_))
                });
            }
            // The client then gets more notifications than it listens to, rather than fewer.
            (b"SAVEPOINT" | b"RELEASE", _) => self.blurred = true,
            (b"ROLLBACK", Some(Kind::RollbackTo(name))) if !self.blurred => {
                self.noted.truncate(self.savepoint(name).map_or(0, |place| place + 1));
            }
            (b"COMMIT", _) => self.committed(),
            (b"ROLLBACK", Some(Kind::Rollback { .. } | Kind::Commit { .. })) => self.rolled_back(),
            (b"DISCARD ALL", _) => {
                self.channels.clear();
                self.rolled_back();
            }
            _ => (),
        }
    }

    /// The place of the savepoint that a name means, if it was made behind something that is noted.
    fn savepoint(&self, name: &str) -> Option<usize> {
        self.noted.iter().rposition(|noted| matches!(noted, Noted::Savepoint(made) if **made == *name))
    }

    fn open(&mut self, name: &str) {
        // Drivers make one of the same name before each statement; nothing lies between them.
        if !matches!(self.noted.last(), Some(Noted::Savepoint(last)) if **last == *name) {
            self.noted.push(Noted::Savepoint(name.into()));
        }
    }

    /// Notes that the transaction has been committed.
    pub fn committed(&mut self) {
        self.blurred = false;
        for noted in self.noted.drain(..) {
            match noted {
                Noted::Listen(channel) => {
                    self.channels.insert(channel);
                }
                Noted::Unlisten(Some(channel)) => {
                    self.channels.remove(&channel);
                }
                Noted::Unlisten(None) => self.channels.clear(),
                Noted::Savepoint(_) => (),
            }
        }
        self.settle();
    }

    /// Notes that the transaction has been undone.
    pub fn rolled_back(&mut self) {
        self.blurred = false;
        self.noted.clear();
        self.settle();
    }

    /// Drops the kept notifications on channels that the client does not listen to.
    fn settle(&mut self) {
        let mut held = std::mem::take(&mut self.held);
        held.retain(|held| self.hears(&held.channel) != Hears::No);
        self.held_bytes = held.iter().map(|held| held.message.len()).sum();
        self.held = held;
    }

    /// Keeps a notification until the client is idle.
    pub fn hold(&mut self, channel: &Rc<str>, message: &Rc<[u8]>) {
        if self.fault.is_some() {
            return;
        }
        self.held_bytes += message.len();
        self.held.push_back(Held { channel: channel.clone(), message: message.clone() });
        if self.held_bytes > MOST_HELD {
            self.fail(Fault::Full);
        }
    }

    /// Moves kept notifications that are certain to `out`. Notifications behind an uncertain one wait with it, to stay
    /// in order.
    pub fn tell(&mut self, out: &mut Vec<u8>) {
        while let Some(first) = self.held.front().filter(|held| self.hears(&held.channel) == Hears::Yes) {
            out.extend_from_slice(&first.message);
            self.held_bytes -= first.message.len();
            self.held.pop_front();
        }
    }

    /// Whether the client must get anything when it is idle.
    pub fn has_news(&self) -> bool {
        !self.held.is_empty() || self.fault.is_some()
    }
}

/// A channel of the subscriber.
#[derive(Debug)]
struct Channel<K> {
    /// Whether the server has confirmed the LISTEN.
    confirmed: bool,
    listeners: Vec<K>,
}

/// A request to the subscriber's server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// To LISTEN to a channel (true), or to UNLISTEN.
    Channel(Rc<str>, bool),
    /// To answer, as proof that the server is there.
    Ping,
}

impl Ask {
    /// The statement of the request.
    pub fn statement(&self) -> String {
        match self {
            Self::Channel(channel, listens) => {
                let word = if *listens { "LISTEN" } else { "UNLISTEN" };
                format!("{word} \"{}\"", channel.replace('"', "\"\""))
            }
            Self::Ping => String::new(),
        }
    }
}

/// The channels that the subscriber of a pool listens to, and the clients for which it does; `K` names a client.
#[derive(Debug)]
pub struct Subscriber<K> {
    channels: HashMap<Rc<str>, Channel<K>>,
    /// The requests without an answer, in order.
    asked: VecDeque<Ask>,
}

impl<K> Default for Subscriber<K> {
    fn default() -> Self {
        Self { channels: HashMap::new(), asked: VecDeque::new() }
    }
}

/// The outcome of a client's wish to listen.
#[derive(Debug, PartialEq, Eq)]
pub enum Want {
    /// The channel is listened to.
    Heard,
    /// The channel will be listened to, when the requests under way are answered.
    Later,
    /// The request must be sent.
    Ask,
}

impl<K: Copy + PartialEq> Subscriber<K> {
    /// A client wants to listen to a channel. One that is `ahead` of the subscriber has it ask anew: with the answer the subscriber has
    /// read all notifications that were committed before.
    pub fn want(&mut self, channel: &Rc<str>, who: K, ahead: bool) -> Want {
        let fresh = Channel { confirmed: false, listeners: Vec::new() };
        let (is_new, known) = match self.channels.entry(channel.clone()) {
            Entry::Vacant(place) => (true, place.insert(fresh)),
            Entry::Occupied(known) => (false, known.into_mut()),
        };
        if !known.listeners.contains(&who) {
            known.listeners.push(who);
        }
        if is_new || ahead {
            self.asked.push_back(Ask::Channel(channel.clone(), true));
            return Want::Ask;
        }
        if known.confirmed { Want::Heard } else { Want::Later }
    }

    /// Notes the answer to the first request: gives the channel and the clients that wait for it, unless it is given
    /// up.
    pub fn answered(&mut self) -> Option<(Rc<str>, Vec<K>)> {
        let Ask::Channel(channel, true) = self.asked.pop_front()? else { return None };
        // If the channel was given up and wanted again, its last answer is still to come.
        let again = self.asked.iter().any(|ask| matches!(ask, Ask::Channel(other, _) if *other == channel));
        let known = self.channels.get_mut(&channel).filter(|_| !again)?;
        known.confirmed = true;
        Some((channel, known.listeners.clone()))
    }

    /// Whether the subscriber has a LISTEN without an answer.
    pub fn is_awaited(&self) -> bool {
        self.asked.iter().any(|ask| matches!(ask, Ask::Channel(_, true)))
    }

    /// Whether the subscriber listens to a channel for a client.
    pub fn is_heard(&self, channel: &str, who: K) -> bool {
        self.channels.get(channel).is_some_and(|known| known.confirmed && known.listeners.contains(&who))
    }

    /// The clients that may have to get the notifications on a channel.
    pub fn audience(&self, channel: &str) -> Vec<K> {
        self.channels.get(channel).map(|known| known.listeners.clone()).unwrap_or_default()
    }

    /// Forgets the clients that need a channel no more. Gives the requests to send: channels that no client needs are
    /// given up.
    pub fn sweep(&mut self, needs: impl Fn(K, &str) -> bool) -> Vec<Ask> {
        let mut unused = Vec::new();
        self.channels.retain(|channel, known| {
            known.listeners.retain(|who| needs(*who, channel));
            let is_used = !known.listeners.is_empty();
            if !is_used {
                unused.push(channel.clone());
            }
            is_used
        });
        let asks: Vec<Ask> = unused.into_iter().map(|channel| Ask::Channel(channel, false)).collect();
        self.asked.extend(asks.iter().cloned());
        asks
    }

    /// Asks the server for a sign that it is there.
    pub fn ping(&mut self) -> Ask {
        self.asked.push_back(Ask::Ping);
        Ask::Ping
    }

    /// The requests without an answer.
    pub fn asked(&self) -> impl Iterator<Item = &Ask> {
        self.asked.iter()
    }

    /// Whether the subscriber listens to no channel.
    pub fn is_unused(&self) -> bool {
        self.channels.is_empty()
    }

    /// All clients for which the subscriber listens.
    pub fn everybody(&self) -> Vec<K> {
        let mut all: Vec<K> = Vec::new();
        for who in self.channels.values().flat_map(|channel| &channel.listeners) {
            if !all.contains(who) {
                all.push(*who);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listen(subscriptions: &mut Subscriptions, channel: &str) {
        subscriptions.finished(b"LISTEN", Some(&Kind::Listen(channel.to_owned())));
    }

    fn hold(subscriptions: &mut Subscriptions, channel: &str, message: &[u8]) {
        subscriptions.hold(&channel.into(), &message.into());
    }

    fn told(subscriptions: &mut Subscriptions) -> String {
        let mut out = Vec::new();
        subscriptions.tell(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn listening_begins_and_ends_with_the_commit() {
        let mut subscriptions = Subscriptions::default();
        listen(&mut subscriptions, "a");
        assert_eq!(subscriptions.hears("a"), Hears::Perhaps);
        assert!(subscriptions.needs("a") && !subscriptions.needs("b"));
        subscriptions.committed();
        assert_eq!((subscriptions.hears("a"), subscriptions.hears("b")), (Hears::Yes, Hears::No));
        subscriptions.finished(b"UNLISTEN", Some(&Kind::Unlisten(Some("a".to_owned()))));
        assert_eq!(subscriptions.hears("a"), Hears::Yes, "not committed");
        subscriptions.rolled_back();
        assert_eq!(subscriptions.hears("a"), Hears::Yes);
        subscriptions.finished(b"UNLISTEN", Some(&Kind::Unlisten(None)));
        subscriptions.committed();
        assert!(subscriptions.is_idle());
        listen(&mut subscriptions, "a");
        subscriptions.committed();
        subscriptions.finished(b"DISCARD ALL", None);
        assert!(subscriptions.is_idle());
    }

    /// The channels among `a`, `b` and `c` that are listened to after the commit of a transaction of these commands.
    fn after(commands: &[&str]) -> String {
        let mut subscriptions = Subscriptions::default();
        for command in commands {
            let (word, name) = command.split_once(' ').unwrap();
            let name = name.to_owned();
            let (tag, kind) = match word {
                "LISTEN" => ("LISTEN", Kind::Listen(name)),
                "UNLISTEN" => ("UNLISTEN", Kind::Unlisten(Some(name))),
                "SAVEPOINT" => ("SAVEPOINT", Kind::Savepoint(name)),
                "RELEASE" => ("RELEASE", Kind::Release(name)),
                _ => ("ROLLBACK", Kind::RollbackTo(name)),
            };
            subscriptions.finished(tag.as_bytes(), Some(&kind));
        }
        subscriptions.committed();
        ["a", "b", "c"].into_iter().filter(|channel| subscriptions.hears(channel) == Hears::Yes).collect()
    }

    #[test]
    fn a_rollback_to_a_savepoint_undoes_what_came_after_it() {
        assert_eq!(after(&["LISTEN a", "SAVEPOINT s", "LISTEN b", "TO s", "LISTEN c"]), "ac");
        assert_eq!(after(&["SAVEPOINT s", "LISTEN a", "SAVEPOINT t", "LISTEN b", "TO s", "LISTEN c"]), "c");
        assert_eq!(after(&["LISTEN a", "SAVEPOINT s", "UNLISTEN a", "TO s", "TO s"]), "a");
        assert_eq!(after(&["LISTEN a", "SAVEPOINT s", "LISTEN b", "SAVEPOINT s", "LISTEN c", "TO s"]), "ab");
        assert_eq!(after(&["LISTEN a", "SAVEPOINT s", "LISTEN b", "SAVEPOINT s", "RELEASE s", "TO s"]), "a");
        assert_eq!(after(&["SAVEPOINT s", "LISTEN a", "SAVEPOINT s", "RELEASE s", "LISTEN b", "TO s"]), "");
        assert_eq!(after(&["LISTEN a", "SAVEPOINT s", "SAVEPOINT t", "RELEASE s", "LISTEN b"]), "ab");
    }

    #[test]
    fn savepoints_are_forgotten_rather_than_what_it_listens_to() {
        let mut subscriptions = Subscriptions::default();
        listen(&mut subscriptions, "a");
        for number in 0..=MOST {
            subscriptions.finished(b"SAVEPOINT", Some(&Kind::Savepoint(number.to_string())));
        }
        assert_eq!(subscriptions.noted.len(), MOST);
        subscriptions.finished(b"ROLLBACK", Some(&Kind::RollbackTo(MOST.to_string())));
        subscriptions.committed();
        assert_eq!(subscriptions.hears("a"), Hears::Yes);
    }

    #[test]
    fn what_comes_before_the_commit_is_told_after_it_and_not_after_a_rollback() {
        let mut subscriptions = Subscriptions::default();
        listen(&mut subscriptions, "a");
        subscriptions.committed();
        for commits in [true, false] {
            listen(&mut subscriptions, "b");
            hold(&mut subscriptions, "a", b"1");
            hold(&mut subscriptions, "b", b"2");
            if commits {
                subscriptions.committed()
            } else {
                subscriptions.rolled_back()
            }
            assert_eq!(told(&mut subscriptions), if commits { "12" } else { "1" });
            subscriptions.finished(b"UNLISTEN", Some(&Kind::Unlisten(Some("b".to_owned()))));
            subscriptions.committed();
        }
        hold(&mut subscriptions, "a", b"3");
        subscriptions.finished(b"UNLISTEN", Some(&Kind::Unlisten(None)));
        subscriptions.committed();
        assert!(subscriptions.is_idle(), "what it no longer listens to is not told");
    }

    #[test]
    fn what_is_kept_is_bounded() {
        let mut subscriptions = Subscriptions::default();
        listen(&mut subscriptions, "a");
        subscriptions.committed();
        hold(&mut subscriptions, "a", &vec![0; MOST_HELD]);
        assert!(subscriptions.fault().is_none() && subscriptions.has_room());
        hold(&mut subscriptions, "a", b"1");
        hold(&mut subscriptions, "a", b"2");
        assert_eq!(
            (subscriptions.fault(), subscriptions.held.len(), subscriptions.held_bytes),
            (Some(Fault::Full), 0, 0)
        );
        assert!(subscriptions.has_news() && !subscriptions.is_idle() && !subscriptions.has_room());
    }

    #[test]
    fn what_comes_while_a_listen_is_on_its_way_is_kept_until_its_end_is_known() {
        let mut subscriptions = Subscriptions::default();
        let channel: Rc<str> = "a".into();
        for arrives in [true, false] {
            subscriptions.send(&channel, true);
            assert_eq!(subscriptions.hears("a"), Hears::Perhaps);
            hold(&mut subscriptions, "a", b"1");
            // A unit before it has ended.
            subscriptions.committed();
            assert!(told(&mut subscriptions).is_empty() && subscriptions.has_news());
            if arrives {
                listen(&mut subscriptions, "a");
                subscriptions.committed();
            }
            subscriptions.arrived();
            assert_eq!(told(&mut subscriptions), if arrives { "1" } else { "" });
            subscriptions.finished(b"DISCARD ALL", None);
            assert!(subscriptions.is_idle());
        }
    }

    #[test]
    fn one_connection_listens_for_all_and_no_longer_than_anybody() {
        let mut subscriber = Subscriber::default();
        let (a, b): (Rc<str>, Rc<str>) = ("a".into(), "b".into());
        assert_eq!(
            [subscriber.want(&a, 1, false), subscriber.want(&a, 2, false), subscriber.want(&b, 2, false)],
            [Want::Ask, Want::Later, Want::Ask]
        );
        let statements: Vec<String> = subscriber.asked().map(Ask::statement).collect();
        assert_eq!(statements, ["LISTEN \"a\"", "LISTEN \"b\""]);
        assert_eq!(subscriber.answered(), Some((a.clone(), vec![1, 2])));
        assert_eq!(subscriber.want(&a, 3, false), Want::Heard);
        assert_eq!(
            (subscriber.audience("a"), subscriber.audience("b"), subscriber.audience("c")),
            (vec![1, 2, 3], vec![2], vec![])
        );
        assert_eq!(subscriber.sweep(|who, _| who != 2), [Ask::Channel(b.clone(), false)]);
        assert_eq!(subscriber.everybody(), [1, 3]);
        // The channel is wanted again before the answers have come: the first answer is not the last word.
        assert_eq!(subscriber.want(&b, 4, false), Want::Ask);
        assert_eq!([subscriber.answered(), subscriber.answered()], [None, None]);
        assert_eq!(subscriber.answered(), Some((b, vec![4])));
        assert_eq!((subscriber.ping(), subscriber.answered(), subscriber.asked().count()), (Ask::Ping, None, 0));
        // Who may have been told more than the subscriber has read waits for an answer of its own.
        assert_eq!((subscriber.want(&a, 5, true), subscriber.want(&a, 6, false)), (Want::Ask, Want::Heard));
        assert_eq!(subscriber.answered(), Some((a, vec![1, 3, 5, 6])));
        subscriber.sweep(|_, _| false);
        assert!(subscriber.is_unused());
    }

    #[test]
    fn names_of_channels_are_quoted() {
        assert_eq!(Ask::Channel("a\"b".into(), true).statement(), "LISTEN \"a\"\"b\"");
        assert_eq!(Ask::Channel("A".into(), false).statement(), "UNLISTEN \"A\"");
    }

    #[test]
    fn a_statement_waits_until_the_subscriber_listens_to_all_of_its_channels() {
        let mut subscriptions = Subscriptions::default();
        let (a, b): (Rc<str>, Rc<str>) = ("a".into(), "b".into());
        subscriptions.send(&a, false);
        subscriptions.send(&b, false);
        // The LISTEN that was sent before has been answered.
        subscriptions.arrived();
        assert!(subscriptions.awaits() && subscriptions.needs("a") && subscriptions.needs("b"));
        assert_eq!(subscriptions.hears("a"), Hears::No, "its LISTEN has not been sent");
        assert!(!subscriptions.heard("a") && subscriptions.awaits());
        assert!(subscriptions.heard("b") && !subscriptions.awaits() && !subscriptions.heard("b"));
    }

    #[test]
    fn who_loses_the_subscriber_has_missed_something_only_if_it_listened() {
        let mut subscriptions = Subscriptions::default();
        subscriptions.send(&"a".into(), false);
        subscriptions.lose();
        assert!(subscriptions.fault().is_none() && !subscriptions.awaits());
        assert!(
            subscriptions.are_elsewhere() && !subscriptions.is_idle(),
            "the LISTEN goes by the client's own connection now"
        );
        subscriptions.arrived();
        assert!(subscriptions.is_idle());
        listen(&mut subscriptions, "a");
        subscriptions.lose();
        assert_eq!(subscriptions.fault(), Some(Fault::Lost));
    }
}
