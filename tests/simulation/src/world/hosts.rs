//! The servers of a database: which is the primary, what of its log the others have replayed, and what the pooler's
//! monitor finds out about them.

use pooling::by_hand::{Answer, Finding, socket};
use pooling::memory::Listener;

use super::World;
use crate::trace::trace;

/// A server.
pub(super) struct Host {
    pub(super) port: u16,
    /// None while it is down.
    pub(super) listener: Option<Listener>,
    /// It replays the primary's log, and writes nothing.
    pub(super) is_standby: bool,
    timeline: u32,
    /// How much of the log it shows.
    pub(super) position: usize,
    /// It has been asked for its position, and this is what it will have said.
    asked: Option<Answer>,
}

impl Host {
    /// One of this number; the first is the primary.
    pub(super) fn new(number: usize) -> Self {
        let port = 10 * u16::try_from(number).unwrap() + 5;
        Self { port, listener: None, is_standby: number > 0, timeline: 1, position: 0, asked: None }
    }

    fn lsn(&self) -> u64 {
        8192 + 100 * self.position as u64
    }
}

impl World {
    fn host(&self, who: usize) -> usize {
        who % self.hosts.len()
    }

    /// The server that is the primary, or was and has no successor.
    fn primary(&self) -> usize {
        self.hosts.iter().position(|host| !host.is_standby).expect("a primary")
    }

    /// A server goes down: its connections die, and no other can be made.
    pub fn stop(&mut self, who: usize) {
        let number = self.host(who);
        trace!("server {number} stops");
        let host = &mut self.hosts[number];
        host.listener = None;
        host.asked = None;
        let here = self.connections.iter().filter(|connection| connection.host == number);
        let ids: Vec<usize> = here.map(|connection| connection.id).collect();
        ids.into_iter().for_each(|id| self.bury(id));
    }

    /// A server is there, again. A standby shows less at first than it had replayed.
    pub fn start(&mut self, who: usize) {
        let number = self.host(who);
        let host = &mut self.hosts[number];
        if host.listener.is_none() {
            trace!("server {number} starts");
            host.listener = Some(self.memory.listen(&socket(host.port)));
            if host.is_standby {
                host.position = host.position.saturating_sub(2);
            }
        }
    }

    /// A standby that is there becomes the primary. The primary before it goes down, if it has not yet, and so does a
    /// standby that has replayed what the new primary never had; they come back as standbys of it.
    pub fn promote(&mut self, who: usize) {
        let number = self.host(who);
        if !self.hosts[number].is_standby || self.hosts[number].listener.is_none() {
            return;
        }
        let (before, fork) = (self.primary(), self.hosts[number].position);
        for other in 0..self.hosts.len() {
            if other == before || self.hosts[other].position > fork {
                self.stop(other);
            }
        }
        trace!("server {number} is the primary from {fork} on");
        let timeline = self.hosts[before].timeline + 1;
        for host in &mut self.hosts {
            host.position = host.position.min(fork);
            host.timeline = timeline;
        }
        self.hosts[before].is_standby = true;
        self.hosts[number].is_standby = false;
        self.log.truncate(fork);
    }

    /// All servers are there, the standbys have replayed everything, and the monitor knows.
    pub(super) fn recover(&mut self) {
        for host in 0..self.hosts.len() {
            self.start(host);
            self.replay(host, usize::MAX);
        }
        (0..self.hosts.len()).for_each(|host| self.look(host));
    }

    /// A standby replays so many commits.
    pub fn replay(&mut self, who: usize, count: usize) {
        let number = self.host(who);
        let end = self.log.len();
        let host = &mut self.hosts[number];
        if host.is_standby && host.listener.is_some() {
            host.position = host.position.saturating_add(count).min(end);
        }
    }

    /// The monitor has asked a server.
    pub fn look(&mut self, who: usize) {
        if self.hosts.len() < 2 {
            return;
        }
        let number = self.host(who);
        let host = &mut self.hosts[number];
        let finding = match host.listener {
            Some(_) => Finding::Answer { standby: host.is_standby, lsn: host.lsn(), timeline: host.timeline },
            None => Finding::Down,
        };
        trace!("the monitor finds server {number}: {finding:?}");
        self.pooler.find(number, finding);
    }

    /// A server is asked how far it has come, or has answered that.
    pub fn ask(&mut self, who: usize) {
        if self.hosts.len() < 2 {
            return;
        }
        let number = self.host(who);
        let host = &mut self.hosts[number];
        match host.asked.take() {
            Some(answer) => {
                trace!("server {number} says how far it has come: {answer:?}");
                self.pooler.hear_position(answer);
            }
            None if host.listener.is_some() => host.asked = self.pooler.ask_position(number, host.lsn()),
            None => (),
        }
    }

    /// A write has been committed.
    pub(super) fn commit(&mut self, number: usize, name: String) {
        assert!(!self.hosts[number].is_standby, "{name} is committed on a standby");
        self.log.push(name.clone());
        self.hosts[number].position = self.log.len();
        self.ledger.commit(name);
    }

    /// A read of a client's sees what the client has committed: by the names of its writes, those that have not been lost
    /// with a primary.
    pub(super) fn judge_read(&self, number: usize, unit: &str) {
        let session = &unit[..=unit.rfind('.').expect("a name of three parts")];
        let own = self.log.iter().rposition(|name| name.starts_with(session)).map_or(0, |place| place + 1);
        let shown = self.hosts[number].position;
        assert!(
            own <= shown,
            "{unit} reads on server {number}, which shows {shown} commits and not the {own}th, its own"
        );
    }
}
