//! The unanswered messages of a client, and its session, on whatever connections its units run.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::rc::Rc;

use classify::{Reasons, Words, parameter};
use wire::backend;

use crate::model::held::Held;
use crate::model::lexing::Reading;
use crate::model::pins::Pins;
use crate::model::portals::Portals;
use crate::model::session::{Change, Confirmed, Pending, Sets, Unfollowed};
use crate::model::vars::{OWN, Tracked, Vars};

/// The reason why a client's messages are being thrown away.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Discard {
    /// The messages are not thrown away.
    #[default]
    No,
    /// A statement was refused before a server had it: its remaining messages are thrown away, and a ReadyForQuery ends
    /// it.
    Unit,
    /// As `Unit`, for a statement of the extended protocol: it ends with its Sync, whatever comes before.
    ToSync,
}

/// The progress of the work on a client's input.
#[derive(Debug, Default)]
pub struct Input {
    /// Bytes of a message that are still to be passed on.
    pub passing: usize,
    /// Bytes of a message that are still to be thrown away.
    pub dropping: usize,
    /// The words of a long Query whose end has not come.
    pub words: Option<Box<Words>>,
    /// Whether the client has sent messages of the extended protocol since its last Sync.
    pub unsynced: bool,
    /// Whether the client's messages are thrown away.
    pub discard: Discard,
    /// Whether SUSPEND keeps the client from being read.
    pub suspended: bool,
    /// The question of the console for which answers of other workers are awaited.
    pub console_waits: Option<u64>,
}

impl Input {
    /// Whether the client has ended its last unit and has begun no other.
    pub fn is_between_units(&self) -> bool {
        !self.unsynced && self.passing == 0 && self.dropping == 0 && self.discard == Discard::No
    }
}

/// The effects that settings in a startup packet had on a server.
#[derive(Debug)]
pub struct Verified {
    /// The tracked values as the server writes them.
    pub vars: Vars,
    /// The other parameters that the server has reported, by name.
    pub told: Vec<(String, String)>,
}

/// The most parameters that a client may set by `set_config` before the server is asked for their values.
const MOST_CONFIGURED: usize = 100;

/// A client's session, wherever its units run.
#[derive(Debug, Default)]
pub struct Session {
    /// The client's values of the tracked parameters.
    pub vars: Vars,
    /// Its other settings by SET.
    pub sets: Sets,
    /// The changes of settings in its open transaction.
    pub pending: Pending,
    /// The settings that it asked for when it connected, which RESET restores.
    pub startup: (Vars, Sets),
    /// The effects of these settings on a server, until the client is greeted.
    pub verified: Option<Rc<Verified>>,
    /// The parts of its session that cannot be carried to another connection.
    pub pins: Pins,
    /// The parameters that it has set by `set_config` to values that the server has to be asked for.
    pub configured: Vec<Box<str>>,
    /// The changes of settings in its open transaction that are not followed.
    pub unfollowed: Unfollowed,
    /// Whether it has listened by a connection of its own: then it may have been told notifications that the connection
    /// which listens for all has not read yet.
    pub listened_alone: bool,
    /// The way in which its session reads statements, and the settings for which that was found.
    pub reading: Option<(Vars, Sets, Reading)>,
}

impl Session {
    /// Whether parameters that the client has reset in its transaction are still to be set to the values that it started
    /// with.
    pub fn is_to_restore(&self, tracked: &Tracked) -> bool {
        let vars = tracked.names().enumerate().filter(|(place, _)| self.startup.0.get(*place).is_some());
        let names = vars.map(|(_, name)| name).chain(self.startup.1.iter().map(|(name, _)| name));
        self.pending.has_resets() && names.into_iter().any(|name| self.resets(name))
    }

    /// Whether a parameter has been reset in the transaction, and has not got its startup value since.
    pub fn resets(&self, name: &str) -> bool {
        self.pending.resets(name) || self.pending.resets_locally(name)
    }

    /// The SQL that sets parameters which the client has reset in its transaction to the values that it started with;
    /// reports of these values for the client go to `told`.
    pub fn restored(&mut self, tracked: &Tracked, told: &mut Vec<u8>) -> String {
        if self.pending.is_empty() {
            return String::new();
        }
        let mut statements = Vec::new();
        for (place, name) in tracked.names().enumerate() {
            let Some(value) = self.startup.0.get(place).filter(|_| self.resets(name)) else {
                continue;
            };
            statements.push((name.to_owned(), parameter::set(name, value)));
            if self.vars.get(place) != Some(value) {
                backend::write_parameter_status(told, name, value);
                self.vars.set(place, value);
            }
        }
        let sets = self.startup.1.iter().filter(|(name, _)| self.resets(name));
        statements.extend(sets.map(|(name, statement)| (name.to_owned(), statement.to_owned())));
        let mut sql = String::new();
        let encoding = tracked.place("client_encoding").and_then(|place| self.vars.get(place));
        let plain = encoding.is_some_and(classify::lexable_encoding);
        for (name, statement) in statements {
            // Within a transaction the encoding is the client's own, which may read characters beyond ASCII otherwise.
            if !plain && !statement.is_ascii() {
                continue;
            }
            if let (false, Some(set)) = (self.pending.resets(&name), statement.strip_prefix("SET ")) {
                let local = format!("SET LOCAL {set}");
                let _ = write!(sql, "{local};");
                self.pending.restore_locally(&name, &local);
                continue;
            }
            let _ = write!(sql, "{statement};");
            if let Some(local) = self.pending.local(&name) {
                let _ = write!(sql, "{local};");
            }
            self.pending.restore(name, statement);
        }
        sql
    }

    /// Applies the changes of committed transactions to the known settings, of the client and of the server connection;
    /// reports for the client go to `told`. Whether something is left on the connection that must be undone.
    pub fn believe(&mut self, server: &mut Confirmed, tracked: &Tracked, told: &mut Vec<u8>) -> bool {
        // A reset restores the values that the client asked for at startup; the server follows before the next unit.
        for (place, name) in tracked.names().enumerate() {
            if let Some(value) = self.startup.0.get(place).filter(|_| self.pending.resets(name))
                && self.vars.get(place) != Some(value)
            {
                backend::write_parameter_status(told, name, value);
                self.vars.set(place, value);
            }
        }
        let mut leaves = false;
        for change in self.pending.take() {
            server.sets.apply_unless(&change, &Sets::default(), tracked);
            // If the pooler has made transactions read-only for a write too, its client may have undone that.
            server.read_only &= change.name().is_some_and(|name| name != OWN);
            self.sets.apply_unless(&change, &self.startup.1, tracked);
            // A reset also undoes the settings that the configuration makes for all clients.
            leaves |= !server.base.is_empty() && !matches!(change, Change::Set { .. });
        }
        leaves
    }

    /// Notes the end of a transaction, which has undone its changes to the session if it `failed`.
    pub fn transaction_ended(
        &mut self,
        server: &mut Confirmed,
        tracked: &Tracked,
        failed: bool,
        told: &mut Vec<u8>,
    ) -> bool {
        // The server has undone a transaction that an error has ended.
        if failed {
            self.pending.drop_all();
            self.pins.rolled_back();
            self.configured.clear();
        } else {
            self.pending.keep();
        }
        let leaves = !self.pending.is_empty() && self.believe(server, tracked, told);
        self.pins.committed();
        leaves
    }

    /// Whether the session is lost with its server connection: it is pinned, or has set what the server has not told yet.
    pub fn is_bound(&self) -> bool {
        self.pins.any() || !self.configured.is_empty()
    }

    /// Notes that the client has set a parameter by `set_config` to a value that the server has to be asked for.
    pub fn configures(&mut self, name: &str) {
        if self.configured.len() >= MOST_CONFIGURED || !name.is_ascii() {
            self.pins.hold(Reasons::SETTING);
        } else if !self.configured.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            self.configured.push(name.into());
        }
    }

    /// Whether objects that the client creates may be temporary by its settings at startup: a `search_path` that begins
    /// with the session's schema for temporary objects. (A SET of such a path pins by itself.)
    pub fn creates_temporary(&self) -> bool {
        let path = self.startup.1.get("search_path");
        self.startup.0.mention("pg_temp") || path.is_some_and(|statement| statement.contains("pg_temp"))
    }

    /// Takes over the effects of the settings in its startup packet on a server.
    pub fn take_verified(&mut self, verified: Rc<Verified>) {
        self.vars.take_over(&verified.vars);
        self.startup.0.take_over(&verified.vars);
        self.verified = Some(verified);
    }
}

/// The statements that a client has prepared.
#[derive(Debug, Default)]
pub struct Prepared {
    /// Its named statements.
    pub statements: BTreeMap<Box<[u8]>, Rc<Held>>,
    /// Whether servers know its named statements by names of the pooler's, which they keep while there are any,
    /// whatever the pool's mode becomes.
    pub renamed: bool,
    /// Its unnamed statement.
    pub unnamed: Option<Rc<Held>>,
    /// Its portals in the open transaction, with their statements.
    pub portals: Portals,
}

impl Prepared {
    /// The statement that the client has by a name, or without one.
    pub fn held(&self, name: &[u8]) -> Option<&Rc<Held>> {
        if name.is_empty() { self.unnamed.as_ref() } else { self.statements.get(name) }
    }

    /// The name that a Parse gives, unless the client has it already.
    pub fn new_name(&self, parse: &wire::frontend::Parse<'_>) -> Option<Box<[u8]>> {
        (!parse.name.is_empty() && !self.statements.contains_key(parse.name)).then(|| parse.name.into())
    }
}

#[cfg(test)]
mod tests {
    use classify::Classifier;

    use super::*;

    fn session(startup: &[(&str, &str)], tracked: &Tracked) -> Session {
        let mut session = Session::default();
        for (name, value) in startup {
            let place = tracked.place(name).unwrap();
            session.vars.set(place, value);
            session.startup.0.set(place, value);
        }
        session
    }

    fn runs(session: &mut Session, sql: &str, tag: &[u8]) {
        let verdict = Classifier::new(1).classify(sql.as_bytes(), true).clone();
        session.pending.finished(tag, verdict.kind_of(0));
    }

    #[test]
    fn what_is_reset_in_a_transaction_gets_the_value_that_the_client_started_with() {
        let tracked = Tracked::new(&[]);
        let mut session = session(&[("client_encoding", "UTF8"), ("DateStyle", "German")], &tracked);
        session.vars.set(tracked.place("DateStyle").unwrap(), "ISO");
        runs(&mut session, "RESET DateStyle", b"RESET");
        let mut told = Vec::new();
        let sql = session.restored(&tracked, &mut told);
        assert!(sql.contains("SET \"DateStyle\" = "), "{sql}");
        assert!(told.windows(6).any(|part| part == b"German"), "the client is told of it");
        assert!(session.restored(&tracked, &mut told).is_empty(), "once is enough");
    }

    #[test]
    fn what_a_transaction_has_set_is_believed_when_it_commits_and_not_when_it_fails() {
        let tracked = Tracked::new(&[]);
        for (failed, kept) in [(false, true), (true, false)] {
            let mut session = session(&[("client_encoding", "UTF8")], &tracked);
            let (mut server, mut told) = (Confirmed::default(), Vec::new());
            runs(&mut session, "SET statement_timeout = 5", b"SET");
            session.transaction_ended(&mut server, &tracked, failed, &mut told);
            assert_eq!(session.sets.get("statement_timeout").is_some(), kept);
            assert_eq!(server.sets.get("statement_timeout").is_some(), kept);
        }
    }
}
