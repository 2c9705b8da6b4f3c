//! The user that the entry of the database gives for server connections, which a reload changes: from when on clients must
//! be served as whom.

use std::time::Duration;

use wire::backend::Report;

use super::World;
use super::client::Client;
use crate::trace::trace;

/// The users that the entry may give; none: each client's own.
pub const USERS: [Option<&str>; 4] = [None, Some("u"), Some("v"), Some("w")];

/// The database.
const DATABASE: &str = "d";

/// How long after a reload everything has been told of it: the pooler looks after its pools once a second.
const SETTLES: Duration = Duration::from_millis(2100);

/// The user that the entry gives.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) user: Option<&'static str>,
    /// How many reloads there have been, and how long ago the last was, as the pooler has seen it.
    reloads: usize,
    since: Duration,
    passed: Duration,
    /// In which reload's time what is said now is served by the entry of then, if that is sure.
    pub(super) settled: Option<usize>,
}

/// Whom a client is served as.
#[derive(Debug, Default)]
pub(super) struct Service {
    /// It has listened, and may keep its connection.
    pub(super) listens: bool,
    /// The entry has given another user than this client is since it came.
    may_go: bool,
    /// The user of the connection that its last unit came to.
    user: Option<String>,
    /// How long it has had nothing under way, as the pooler has seen it.
    rests: Duration,
}

/// Whom a unit is served as.
#[derive(Debug, Default)]
pub(super) struct Served {
    /// Its first byte was sent: in which reload's time, if everything had been told of that.
    sent: Option<Option<usize>>,
    /// The user of the connection that it came to.
    user: Option<String>,
}

impl Service {
    /// That of a client of this name which comes now.
    pub(super) fn of(entry: &Entry, database: &str, user: &str) -> Self {
        Self { may_go: database == DATABASE && entry.user.is_some_and(|given| given != user), ..Self::default() }
    }
}

impl World {
    /// The entry of the database gives another user, or none. Clients that have been sent away come again.
    pub fn reload(&mut self, which: usize) {
        let user = USERS[which % USERS.len()];
        trace!("the entry gives the user {user:?}");
        self.pooler.give_user(DATABASE, user);
        let entry = &mut self.entry;
        entry.reloads += usize::from(entry.user != user);
        (entry.user, entry.since, entry.settled) = (user, Duration::ZERO, None);
        for client in self.clients.iter_mut().filter(|client| client.database == DATABASE) {
            client.service.may_go |= user.is_some_and(|given| given != client.user);
            // It may go to the pool of the next user without another unit.
            client.service.user.take_if(|served| user.is_some_and(|given| given != *served));
        }
        for who in (0..self.clients.len()).filter(|who| self.clients[*who].gone).collect::<Vec<_>>() {
            self.leave(who);
        }
    }

    /// Time passes that the pooler has not seen yet.
    pub(super) fn note_time(&mut self, time: Duration) {
        self.entry.passed += time;
    }

    /// The pooler has done what it could. What a SUSPEND holds up is seen later.
    pub(super) fn settle_entry(&mut self) {
        let entry = &mut self.entry;
        let passed = std::mem::take(&mut entry.passed);
        let seen = if self.suspends == 0 { passed.min(Duration::from_millis(1050)) } else { Duration::ZERO };
        entry.since += seen;
        entry.settled = (entry.reloads > 0 && entry.since >= SETTLES).then_some(entry.reloads);
        self.clients.iter_mut().for_each(|client| client.note_rest(seen));
        if self.session_mode || entry.settled.is_none() {
            return;
        }
        let (settled, user) = (entry.settled, entry.user);
        for client in self.clients.iter().filter(|client| client.database == DATABASE) {
            client.judge_service(settled, user);
        }
        for (pid, user) in self.pooler.logins() {
            let here = self.connections.iter().find(|connection| i32::try_from(connection.id) == Ok(pid));
            let here = here.map_or(user, |here| here.user.as_str());
            assert_eq!(here, user, "a connection of another user is in the pool");
        }
    }

    /// Messages of a unit have come to a connection.
    pub(super) fn note_service(&mut self, id: usize, owner: &str) {
        let Some(connection) = self.connections.iter().find(|connection| connection.id == id) else { return };
        let user = &connection.user;
        let Some(client) = self.clients.iter_mut().find(|client| client.is_born_as(owner)) else { return };
        let Some(unit) = client.units.iter_mut().find(|unit| unit.name == owner) else { return };
        unit.served.user = Some(user.clone());
        // What is asked again in the former pool says little of where its client rests.
        client.service.user = Some(user.clone()).filter(|user| self.entry.user == Some(user.as_str()));
    }
}

impl Client {
    /// It is served as the user that the entry gives, or as its own: a unit that it has said since then, behind none that
    /// leaves its connection to it. A client of another name than it was served by goes, where the entry gives none.
    fn judge_service(&self, settled: Option<usize>, given: Option<&str>) {
        if self.gone || self.service.listens || self.status != b'I' {
            return;
        }
        let expected = given.unwrap_or(self.user);
        match self.units.front() {
            Some(unit) => {
                let served = unit.served.user.as_deref().filter(|_| unit.served.sent == Some(settled));
                assert!(
                    served.is_none_or(|user| user == expected),
                    "{} is served as {served:?}, and not as {expected}",
                    unit.name
                );
            }
            None => {
                let is_foreign = self.service.user.as_deref().is_some_and(|user| user != self.user);
                let stays = given.is_none() && is_foreign && self.service.rests >= SETTLES;
                assert!(!stays, "a client stays that is {} and was another", self.user);
            }
        }
    }

    /// Time has passed.
    fn note_rest(&mut self, time: Duration) {
        let rests = self.greeted && self.units.is_empty() && self.status == b'I';
        self.service.rests = if rests { self.service.rests + time } else { Duration::ZERO };
    }

    /// It has sent so many bytes in all.
    pub(super) fn note_sent(&mut self, settled: Option<usize>) {
        let sent = self.sent;
        for unit in self.units.iter_mut().filter(|unit| unit.start < sent) {
            if unit.served.sent.is_none() {
                // It may be at rest in another pool than before, though the unit comes to no server.
                self.service.user = None;
            }
            unit.served.sent.get_or_insert(settled);
            self.service.listens |= unit.turn.is_apart;
        }
    }

    /// It is sent away.
    pub(super) fn judge_farewell(&self, report: &Report) {
        let gone = report.message.contains("no longer names user");
        assert!(!gone || self.service.may_go, "{} is sent away: {}", self.user, report.message);
        let dropped = ["no longer configured", "pool_idle_timeout"].iter().any(|words| report.message.contains(words));
        assert!(!dropped, "a reload drops a client: {}", report.message);
    }
}
