//! The server: what it answers, and what befalls it.

use std::io::Write;

use pooling::memory::Listener;
use wire::startup::{self, Packet};
use wire::{backend, frontend};

use super::connection::{Connection, Prepared};
use super::ears::write_notification;
use super::ledger::UNFINISHED;
use super::{World, hear};
use crate::statement::read;
use crate::trace::trace;

/// What may strike a statement.
const STRIKES: [&str; 3] = ["57014", "22023", "23503"];
/// The channel on which a server says what nobody listens to.
pub(super) const HUM: &str = "hum";

impl World {
    pub(super) fn connection(&mut self, who: usize) -> Option<&mut Connection> {
        let count = self.connections.len();
        self.connections.get_mut(who % count.max(1))
    }

    /// A server answers so many messages.
    pub fn work(&mut self, who: usize, count: usize) {
        let Some(id) = self.connection(who).map(|connection| connection.id) else { return };
        for _ in 0..count {
            let Some(at) = self.connections.iter().position(|connection| connection.id == id) else { return };
            if !self.answer_one(at) {
                return;
            }
        }
    }

    /// So many bytes of a server's answers are told.
    pub fn answer(&mut self, who: usize, count: usize) {
        let Some(connection) = self.connection(who) else { return };
        let id = connection.id;
        let count = count.min(connection.answers.len());
        let bytes: Vec<u8> = connection.answers.drain(..count).collect();
        let _ = connection.socket.write_all(&bytes);
        connection.told += count;
        let told = connection.told;
        while connection.own.front().is_some_and(|end| *end <= told) {
            connection.own.pop_front();
            connection.own_asked -= 1;
        }
        for client in &mut self.clients {
            client.hear_of_ends(id, told);
        }
    }

    /// What a server runs next fails.
    pub fn strike(&mut self, who: usize, how: usize) {
        if let Some(connection) = self.connection(who) {
            connection.strike = Some(STRIKES[how]);
        }
    }

    /// The servers give up all cached plans, as after more changes of the catalog than a session can be told one by one.
    pub fn give_up_plans(&mut self) {
        trace!("the servers give up all cached plans");
        let prepared = self.connections.iter_mut().flat_map(|connection| connection.statements.values_mut());
        prepared.for_each(|prepared| prepared.path = None);
    }

    /// A server connection dies.
    pub fn kill(&mut self, who: usize) {
        let Some(connection) = self.connection(who).filter(|connection| connection.is_logged_in) else { return };
        let id = connection.id;
        trace!("server {id} dies");
        self.bury(id);
    }

    pub(super) fn bury(&mut self, id: usize) {
        let Some(at) = self.connections.iter().position(|connection| connection.id == id) else { return };
        let connection = self.connections.remove(at);
        if let Some((place, unit, _)) = &connection.unit {
            self.ledger.ran(unit, connection.said, UNFINISHED);
            let owner = Some(&mut self.clients[*place]).filter(|client| client.is_born_as(unit));
            owner.into_iter().for_each(|client| client.ears.is_unsure |= connection.relistened);
        }
        for client in &mut self.clients {
            client.units.iter_mut().for_each(|unit| unit.turn.begin_again());
            let known = client.ahead.len();
            client.ahead.retain(|ahead| ahead.connection != id);
            client.is_unsure |= client.ahead.len() < known;
            client.ears.is_unsure |= client.ahead.len() < known;
        }
    }

    /// A server says what nobody has asked for.
    pub fn mutter(&mut self, who: usize, what: usize) {
        let standbys: Vec<bool> = self.hosts.iter().map(|host| host.is_standby).collect();
        let Some(connection) = self.connection(who).filter(|connection| connection.is_logged_in) else { return };
        let standby = if standbys[connection.host] { "on" } else { "off" };
        let mut out = Vec::new();
        match what {
            0 => backend::write_notice(&mut out, "NOTICE", "00000", "hum"),
            1 => write_notification(&mut out, HUM, "p"),
            _ if connection.standby.is_none() => (),
            _ => backend::write_parameter_status(&mut out, "in_hot_standby", standby),
        }
        connection.made += out.len();
        connection.answers.extend(out);
    }

    /// Takes what comes to the server: new connections, and with `cancels` the requests that some bring.
    pub(super) fn accept(&mut self, cancels: bool) -> bool {
        let mut any = false;
        for (host, server) in self.hosts.iter().enumerate() {
            while let Some(socket) = server.listener.as_ref().and_then(Listener::next) {
                self.count += 1;
                self.connections.push(Connection::new(self.count, host, socket));
                any = true;
            }
        }
        any | (cancels && self.deliver_cancels())
    }

    /// The cancel requests that have been brought strike what they name; whether there were any.
    fn deliver_cancels(&mut self) -> bool {
        let bearers: Vec<(usize, i32)> = self
            .connections
            .iter()
            .filter(|connection| !connection.is_logged_in)
            .filter_map(|connection| match startup::read(&connection.input) {
                Ok(Some((Packet::Cancel(key), _))) => Some((connection.id, key.pid)),
                _ => None,
            })
            .collect();
        for (bearer, pid) in &bearers {
            self.bury(*bearer);
            let target = self.connections.iter_mut().find(|connection| i32::try_from(connection.id) == Ok(*pid));
            // It strikes what is being done, if that has come.
            if let Some(target) = target.filter(|target| target.is_busy()) {
                target.cancelled = true;
            }
        }
        !bearers.is_empty()
    }

    pub(super) fn hear_servers(&mut self) -> bool {
        let (mut any, mut dead) = (false, Vec::new());
        for connection in &mut self.connections {
            let open = hear(&mut connection.socket, &mut connection.input, &mut any);
            if !connection.is_logged_in {
                let standby = self.reports_standby.then_some(self.hosts[connection.host].is_standby);
                connection.log_in(self.reports_search_path, standby);
            }
            if connection.is_logged_in {
                connection.take_questions();
            }
            if !open {
                dead.push(connection.id);
            }
        }
        self.take_turns();
        dead.into_iter().for_each(|id| self.bury(id));
        self.judge_limits();
        any
    }

    /// A server answers one message; whether there was any.
    pub(super) fn answer_one(&mut self, at: usize) -> bool {
        let connection = &mut self.connections[at];
        if connection.copy.is_some() {
            return self.copy_one(at);
        }
        let Some(question) = connection.questions.pop_front() else {
            return !connection.is_begun && self.deliver(at);
        };
        connection.is_begun |= matches!(question.tag, b'Q' | b'P' | b'B' | b'D' | b'E' | b'C');
        let text = String::from_utf8_lossy(&question.body).replace('\0', " ");
        trace!("server {}: {} {text} {:?}", connection.id, char::from(question.tag), connection.strike);
        match question.tag {
            b'Q' => self.run_query(at, &question),
            b'P' => {
                let connection = &mut self.connections[at];
                connection.parse(&question.body, self.shape);
                // One that is only tried is closed at once.
                let known = connection.names().count();
                assert!(self.session_mode || known <= self.kept, "{known} statements are prepared on one connection");
            }
            b'B' => self.bind(at, &question.body),
            b'E' => self.run_portal(at, &question.body),
            b'C' => self.connections[at].close(&question.body),
            b'S' => self.sync(at),
            b'X' => {
                let id = self.connections[at].id;
                self.bury(id);
            }
            // A server of this world keeps no answer back.
            b'H' => (),
            // What is left of a COPY that has ended.
            b'd' | b'c' | b'f' => (),
            b'D' => self.describe(at, &question.body),
            tag => panic!("a message of type {tag}"),
        }
        true
    }

    fn run_portal(&mut self, at: usize, body: &[u8]) {
        let connection = &mut self.connections[at];
        if connection.skips {
            return;
        }
        let portal = frontend::portal(body);
        let Some((prepared, parameter)) = connection.portals.get(portal).cloned() else {
            // The pooler asks for one that there is not where its client's unit is to fail.
            assert!(connection.unit.is_some() && portal.contains(&b' '), "no portal");
            connection.fail();
            return connection.refuse("34000");
        };
        let Prepared { sql, of_type, zone, shifting, .. } = prepared;
        let (commands, signature) = read(&sql);
        let owner = parameter.clone().or(signature).expect("only clients use the extended protocol");
        self.begin(at, &owner);
        if let Some((how, parsed)) = shifting {
            return self.run_shifting(at, &owner, (how, parsed), of_type);
        }
        let told = parameter.map(|parameter| format!("{parameter} {of_type} {zone}"));
        for command in commands {
            self.execute(at, &command, told.as_deref());
        }
    }

    fn sync(&mut self, at: usize) {
        let connection = &mut self.connections[at];
        let strikes = connection.strike.is_some_and(|code| code == "23503");
        // The end of what no BEGIN has begun may fail too.
        if strikes && !connection.skips && !connection.session.explicit && connection.unit.is_some() {
            connection.strike = None;
            connection.fail();
            connection.refuse("23503");
        }
        self.ready(at);
    }
}
