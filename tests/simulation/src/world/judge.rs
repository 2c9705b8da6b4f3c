//! The judge: what must hold of what arrives at the server.

use wire::{frame, frontend};

use super::World;
use super::client::{Ahead, Client};
use super::connection::{Question, Script};
use crate::model::{REPORTED, Values, put, reported};
use crate::statement::{Command, read};

impl World {
    pub(super) fn run_query(&mut self, at: usize, question: &Question) {
        let sql = String::from_utf8(frontend::query(&question.body).expect("a Query").to_vec()).expect("UTF-8");
        let (commands, signature) = read(&sql);
        assert_eq!(signature.is_none(), question.own);
        // What comes before it in its unit has failed.
        if self.connections[at].skips {
            return;
        }
        self.connections[at].statements.remove(&b""[..]);
        let mut lifts = true;
        if let Some(owner) = &signature {
            self.begin(at, owner);
        } else {
            // A statement that lifts a limit may run under it, and one in a client's transaction under its client's.
            lifts = commands.iter().all(|command| {
                matches!(command, Command::Set { name, value, .. } if name.ends_with("_timeout") && value.as_deref() == Some("0"))
            });
            let connection = &self.connections[at];
            let limited = connection.session.current.contains_key("statement_timeout") && !connection.session.explicit;
            assert!(lifts || !limited || connection.limited, "{sql} runs under the limit of a client");
        }
        let several = commands.len() > 1;
        assert!(!several || !commands.contains(&Command::DiscardAll), "DISCARD ALL beside others");
        self.connections[at].script = Some(Script { commands: commands.into(), own: question.own, lifts });
        self.go_on(at);
    }

    /// Runs what is left of a Query, up to a COPY that its client sends lines for.
    pub(super) fn go_on(&mut self, at: usize) {
        while let Some(script) = &mut self.connections[at].script
            && let Some(command) = script.commands.pop_front()
        {
            let done = self.execute(at, &command, None);
            if self.connections[at].copy.is_some() {
                return;
            }
            if !done {
                break;
            }
        }
        let connection = &mut self.connections[at];
        let Some(script) = connection.script.take() else { return };
        connection.limited = script.own && (script.lifts || connection.limited) && connection.skips;
        self.ready(at);
    }

    /// A client's unit begins on a connection, or goes on.
    pub(super) fn begin(&mut self, at: usize, owner: &str) {
        let connection = &mut self.connections[at];
        if let Some((_, name, _)) = &connection.unit {
            assert_eq!(name, owner, "another's message within a unit");
            return;
        }
        let mut parts = owner.split('.').map(|part| part.parse::<usize>().unwrap());
        let (_, place) = (parts.next().unwrap(), parts.next().unwrap());
        let client = &mut self.clients[place];
        if std::mem::take(&mut client.is_unsure) {
            client.believe_what_was_told();
        }
        // One that has left is nobody's concern, as far as it harms nobody.
        let mine = client.units.iter().any(|unit| unit.name == *owner) && !client.gone;
        let session = if !mine {
            connection.session.clone()
        } else {
            let id = connection.id;
            let ahead = client.ahead.iter().rev().find(|ahead| ahead.connection == id);
            ahead.map_or(&client.session, |ahead| &ahead.session).clone()
        };
        assert!(
            session.is_like(&connection.session),
            "unit {owner} is to run in {session:?}\nand finds {:?}",
            connection.session
        );
        connection.unit = Some((place, owner.to_owned(), session));
    }

    /// A statement runs; whether it has done well.
    #[expect(clippy::too_many_lines, reason = "one arm a statement")]
    pub(super) fn execute(&mut self, at: usize, command: &Command, parameter: Option<&str>) -> bool {
        let connection = &mut self.connections[at];
        let mut struck = connection.strike.take();
        if std::mem::take(&mut connection.cancelled) {
            struck = Some("57014");
            self.connections[at].strays = self.judge_cancel(at, command.reads());
        }
        let connection = &mut self.connections[at];
        if self.hosts[connection.host].is_standby && command.writes() {
            // It has told so before anything was sent. A session that keeps its connection keeps its server.
            let ours = connection.unit.is_none();
            assert!(ours || self.session_mode, "{command:?} is sent to a server that has said that it is a standby");
            struck = Some("25006");
        }
        let outcome = connection.session.run(command, struck);
        if let Some((place, name, theirs)) = &mut connection.unit {
            let same = theirs.run(command, struck);
            assert!(same == outcome || outcome == Err("25006"), "{command:?}: {outcome:?} and not {same:?}");
            if same != outcome {
                theirs.fail();
            }
            let zone = reported(&theirs.current, "TimeZone");
            let client = &mut self.clients[*place];
            if client.is_born_as(name) {
                client.zones.insert(zone);
            }
        }
        if let (Command::Insert(name), Ok(_)) = (command, &outcome) {
            self.ledger.write(name);
        }
        // What is struck while it empties temporary tables has dropped the statements. Behind its own names a client would know.
        let is_struck = outcome == Err("57014") && !connection.session.explicit && !self.session_mode;
        if *command == Command::DeallocateAll && outcome.is_ok()
            || *command == Command::DiscardAll && (outcome.is_ok() || is_struck)
        {
            connection.statements.clear();
        }
        if command.reads()
            && outcome.is_ok()
            && let Some((_, unit, _)) = &self.connections[at].unit
        {
            self.judge_read(self.connections[at].host, unit);
        }
        let connection = &mut self.connections[at];
        match (command, &outcome) {
            (_, Err(code)) => connection.refuse(code),
            (Command::CopyIn, Ok(_)) => connection.begin_copy(),
            (_, Ok(tag)) => {
                match command {
                    Command::Select(text) => connection.tell_row(text),
                    Command::Insert(_) => parameter.into_iter().for_each(|row| connection.tell_row(row)),
                    Command::Echo(label) => {
                        parameter.into_iter().for_each(|text| connection.tell_row(&format!("{text} {label}")));
                    }
                    Command::CopyOut { long } => connection.copy_out(*long),
                    Command::IsStandby => {
                        let standby = self.hosts[connection.host].is_standby;
                        connection.tell_row(if standby { "t" } else { "f" });
                    }
                    _ => (),
                }
                connection.tell_end(tag);
            }
        }
        self.settle_deeds(at);
        outcome.is_ok()
    }

    /// A cancel request strikes what is run next; whether that is a read whose client did not ask. One that the pooler asks
    /// again elsewhere may be stopped where nobody waits for it any more: its client must not hear of that.
    pub(super) fn judge_cancel(&self, at: usize, reads: bool) -> bool {
        let connection = &self.connections[at];
        match &connection.unit {
            Some((place, name, _)) => {
                let client = &self.clients[*place];
                let victim = client.units.iter().find(|unit| unit.name == *name && !client.gone);
                let strays = victim.is_some_and(|unit| !unit.cancelled);
                let changes = !reads || connection.session.explicit;
                assert!(!(strays && changes), "a cancel request strikes {name}, whose client did not ask");
                strays
            }
            // What the pooler says again for a client at the end of a unit belongs to this unit.
            None => {
                let (place, born, _) =
                    connection.holder.as_ref().expect("a cancel request strikes the pooler's own statement");
                let client = &self.clients[*place];
                let waits = client.units.front().is_some_and(|unit| unit.cancelled);
                assert!(client.born != *born || waits, "a cancel request strikes what its client did not ask for");
                false
            }
        }
    }

    /// A unit, or a question of the pooler's own, has ended.
    pub(super) fn ready(&mut self, at: usize) {
        let connection = &mut self.connections[at];
        connection.session.finish();
        connection.skips = false;
        connection.cancelled = false;
        connection.strays = false;
        connection.is_begun = false;
        connection.locks &= connection.session.explicit;
        self.settle_deeds(at);
        self.deliver(at);
        let connection = &mut self.connections[at];
        let said = std::mem::take(&mut connection.said);
        connection.relistened = false;
        connection.report(self.hosts[connection.host].is_standby);
        let status = connection.session.status();
        connection.say(|out| frame::write(out, b'Z', |out| out.push(status)));
        let open = connection.session.explicit;
        match connection.unit.take() {
            Some((place, name, mut theirs)) => {
                theirs.finish();
                theirs.done.clear();
                self.ledger.ran(&name, said, status);
                // The client in that place may be another by now.
                let born = name.split('.').next().and_then(|born| born.parse().ok()).unwrap();
                connection.holder = open.then(|| (place, born, theirs.clone()));
                let client = &mut self.clients[place];
                if client.units.iter().any(|unit| unit.name == name) {
                    let (connection, end) = (connection.id, connection.made);
                    client.ahead.push(Ahead { connection, end, unit: Some(name), session: theirs });
                }
            }
            None if connection.own_asked > connection.own.len() => {
                connection.own.push_back(connection.made);
                // What the pooler says again for a client in its transaction may fail: then that has failed.
                if let Some((place, born, theirs)) =
                    connection.holder.as_mut().filter(|_| open && connection.session.failed)
                    && self.clients[*place].born == *born
                {
                    theirs.fail();
                    let (connection, end) = (connection.id, connection.made);
                    self.clients[*place].ahead.push(Ahead { connection, end, unit: None, session: theirs.clone() });
                }
            }
            // A unit in which nothing ran.
            None => (),
        }
    }

    /// What the pooler believes of sessions that nobody uses is what they have.
    pub(super) fn check_beliefs(&mut self) {
        for belief in self.pooler.believed() {
            let connection = self.connections.iter().find(|connection| i32::try_from(connection.id) == Ok(belief.pid));
            let Some(connection) = connection.filter(|connection| connection.answers.is_empty()) else { continue };
            // The server ignores what is left of a COPY.
            assert!(!connection.is_busy(), "a free connection that is asked something");
            let mut values = Values::new();
            for (name, statement) in &belief.sets {
                match read(statement).0.as_slice() {
                    [Command::Set { name: of, value, .. }] if of == name => put(&mut values, of, value.as_deref()),
                    other => panic!("{name} is believed to be set by {other:?}"),
                }
            }
            let mut truth = connection.session.current.clone();
            for (name, value) in &belief.vars {
                assert_eq!(*value, reported(&truth, name), "{name} of a free session");
                truth.remove(&name.to_lowercase());
            }
            let read_only = truth.remove("default_transaction_read_only").is_some();
            assert_eq!(values, truth, "a free session is not what it is taken for");
            assert_eq!(belief.read_only, read_only);
            if !self.session_mode {
                let is_there = |name: &Vec<u8>| connection.statements.contains_key(name);
                let certain = |(name, doubtful): &(Vec<u8>, bool)| *doubtful || is_there(name);
                assert!(belief.statements.iter().all(certain), "a free session does not have a statement that it had");
                let is_known = |name: &Vec<u8>| belief.statements.iter().any(|(known, _)| known == name);
                assert!(connection.names().all(is_known), "a free session has a statement that is not known");
            }
        }
    }
}

impl Client {
    pub(super) fn believe_what_was_told(&mut self) {
        for (name, value) in self.told.iter().filter(|(name, _)| REPORTED.contains(&name.as_str())) {
            let name = name.to_lowercase();
            let value = value.replace("\"$user\"", "$user");
            for values in [&mut self.session.current, &mut self.session.lasting] {
                put(values, &name, Some(&value));
            }
        }
    }
}
