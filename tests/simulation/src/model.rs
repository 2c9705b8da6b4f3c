//! What a session of PostgreSQL has, as far as settings and transactions go: written from PostgreSQL's documentation, and
//! of nothing that the pooler is made of.

use std::collections::BTreeMap;

use crate::statement::Command;

/// Values of parameters; one that has its default is not among them.
pub type Values = BTreeMap<String, String>;

/// Parameters that no RESET ALL touches.
const IDENTITY: [&str; 2] = ["session_authorization", "role"];

/// What a parameter is where nobody has set it.
pub fn default_of(name: &str) -> &'static str {
    match name {
        "timezone" => "gmt",
        "search_path" => "$user, public",
        "datestyle" => "ISO, MDY",
        "intervalstyle" => "postgres",
        "client_encoding" => "UTF8",
        "standard_conforming_strings" => "on",
        "default_transaction_read_only" => "off",
        "statement_timeout" | "lock_timeout" | "transaction_timeout" => "0",
        _ => "",
    }
}

/// The parameters that the server reports, as it writes their names.
pub const REPORTED: [&str; 7] = [
    "application_name",
    "client_encoding",
    "DateStyle",
    "IntervalStyle",
    "standard_conforming_strings",
    "TimeZone",
    "search_path",
];

/// The value of a parameter, as the server reports it.
pub fn reported(values: &Values, name: &str) -> String {
    let name = name.to_lowercase();
    let value = values.get(&name).map_or(default_of(&name), String::as_str);
    if name == "search_path" && value.contains('$') { value.replace("$user", "\"$user\"") } else { value.to_owned() }
}

/// Gives a parameter a value; `None` and its default are the same.
pub fn put(values: &mut Values, name: &str, value: Option<&str>) {
    match value.filter(|value| *value != default_of(name)) {
        Some(value) => values.insert(name.to_owned(), value.to_owned()),
        None => values.remove(name),
    };
}

/// What a statement does to others than its session, once its transaction has been committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Deed {
    /// It writes something of this name.
    Write(String),
    /// It listens to a channel.
    Listen(String),
    /// It listens to a channel, or any, no longer.
    Unlisten(Option<String>),
    /// It says something on a channel.
    Notify(String, String),
}

/// A savepoint: its name, the values that were in force, and how many deeds came before it.
type Savepoint = (String, (Values, Values), usize);

/// A session.
#[derive(Debug, Clone, Default)]
pub struct Session {
    /// What a RESET leads back to.
    pub base: Values,
    /// What is in force.
    pub current: Values,
    /// What is, once the transaction has committed.
    pub lasting: Values,
    /// What was when the transaction began; none outside of one.
    start: Option<(Values, Values)>,
    /// It was begun by BEGIN.
    pub explicit: bool,
    /// It has failed.
    pub failed: bool,
    savepoints: Vec<Savepoint>,
    /// What the transaction has done and not committed.
    pending: Vec<Deed>,
    /// What has been committed and nobody has taken note of.
    pub done: Vec<Deed>,
}

impl Session {
    /// One that begins with these values.
    pub fn new(base: Values) -> Self {
        Self { current: base.clone(), lasting: base.clone(), base, ..Self::default() }
    }

    /// Whether a client could not tell one from the other.
    pub fn is_like(&self, other: &Self) -> bool {
        let without = |values: &Values| {
            let mut values = values.clone();
            // The pooler has reads run in read-only transactions.
            values.remove("default_transaction_read_only");
            values
        };
        // Nothing sees them in a transaction that has failed.
        if self.failed && other.failed {
            return true;
        }
        (self.explicit, self.failed) == (other.explicit, other.failed)
            && without(&self.current) == without(&other.current)
            && without(&self.lasting) == without(&other.lasting)
            && self.savepoints.iter().map(|(name, ..)| name).eq(other.savepoints.iter().map(|(name, ..)| name))
    }

    /// The letter of a ReadyForQuery.
    pub fn status(&self) -> u8 {
        if self.failed {
            b'E'
        } else if self.explicit {
            b'T'
        } else {
            b'I'
        }
    }

    fn values(&self) -> (Values, Values) {
        (self.current.clone(), self.lasting.clone())
    }

    fn end(&mut self, chain: bool) {
        self.done.append(&mut self.pending);
        self.start = chain.then(|| self.values());
        (self.explicit, self.failed) = (chain, false);
        self.savepoints.clear();
    }

    fn undo(&mut self, chain: bool) {
        self.pending.clear();
        if let Some((current, lasting)) = self.start.take() {
            (self.current, self.lasting) = (current, lasting);
        }
        self.end(chain);
    }

    /// An error has been met.
    pub fn fail(&mut self) {
        if !self.explicit {
            return self.undo(false);
        }
        let before = self.savepoints.last().map(|(_, values, _)| values).or(self.start.as_ref());
        if let Some((current, lasting)) = before.cloned() {
            (self.current, self.lasting) = (current, lasting);
        }
        self.failed = true;
    }

    /// A simple Query or a Sync ends what no BEGIN has begun.
    pub fn finish(&mut self) {
        if !self.explicit {
            self.current = self.lasting.clone();
            self.end(false);
        }
    }

    /// Runs a statement, which is `struck` by this error if at all: its tag, or an SQLSTATE.
    pub fn run(&mut self, command: &Command, struck: Option<&'static str>) -> Result<String, &'static str> {
        let outcome = self.work(command, struck);
        if outcome.is_err() && (self.start.is_some() || self.explicit) {
            self.fail();
        }
        outcome
    }

    fn work(&mut self, command: &Command, struck: Option<&'static str>) -> Result<String, &'static str> {
        let first = self.start.is_none();
        if first {
            self.start = Some(self.values());
        }
        let ends = matches!(command, Command::Commit { .. } | Command::Rollback { .. } | Command::RollbackTo(_));
        if self.failed && !ends {
            return Err("25P02");
        }
        if let Some(code) = struck {
            // A deferred constraint is looked at when all is over.
            if matches!(command, Command::Commit { .. }) && !self.failed && code == "23503" {
                self.undo(false);
            }
            return Err(code);
        }
        let tag = match command {
            Command::Set { name, value, local } => {
                self.set(name, value.as_deref(), *local);
                if value.is_none() { "RESET" } else { "SET" }
            }
            Command::ResetAll => {
                self.reset_all();
                "RESET"
            }
            Command::Begin
            | Command::Commit { .. }
            | Command::Rollback { .. }
            | Command::Savepoint(_)
            | Command::RollbackTo(_)
            | Command::Release(_) => self.control(command)?,
            Command::DiscardAll if !first || self.explicit => return Err("25001"),
            Command::DiscardAll => {
                (self.current, self.lasting) = (self.base.clone(), self.base.clone());
                self.pending.push(Deed::Unlisten(None));
                self.end(false);
                "DISCARD ALL"
            }
            Command::Insert(_) | Command::CopyIn
                if self.current.get("default_transaction_read_only").is_some_and(|value| value == "on") =>
            {
                return Err("25006");
            }
            Command::DeallocateAll => "DEALLOCATE ALL",
            Command::Insert(name) => {
                self.write(name);
                "INSERT 0 1"
            }
            // What it writes comes later.
            Command::CopyIn => "COPY",
            Command::CopyOut { .. } => "COPY 2",
            Command::Listen(channel) => self.note(Deed::Listen(channel.clone()), "LISTEN"),
            Command::Unlisten(channel) => self.note(Deed::Unlisten(channel.clone()), "UNLISTEN"),
            Command::Notify { channel, payload } => self.note(Deed::Notify(channel.clone(), payload.clone()), "NOTIFY"),
            Command::DivideByZero => return Err("22012"),
            Command::IsStandby => "SELECT 1",
            Command::Select(_) | Command::Echo(_) => "SELECT 1",
            Command::Shifting(_) => panic!("{command:?} is run as another"),
            Command::Other(tag) => tag,
        };
        Ok(tag.to_owned())
    }

    /// Runs a statement that begins or ends a transaction or a part of one.
    fn control(&mut self, command: &Command) -> Result<&'static str, &'static str> {
        let tag = match command {
            Command::Begin => {
                self.explicit = true;
                "BEGIN"
            }
            Command::Commit { chain: true } | Command::Rollback { chain: true } if !self.explicit => {
                return Err("25P01");
            }
            Command::Commit { chain } if self.failed => {
                self.undo(*chain);
                "ROLLBACK"
            }
            Command::Commit { chain } => {
                self.current = self.lasting.clone();
                self.end(*chain);
                "COMMIT"
            }
            Command::Rollback { chain } => {
                self.undo(*chain);
                "ROLLBACK"
            }
            Command::Savepoint(_) | Command::RollbackTo(_) | Command::Release(_) if !self.explicit => {
                return Err("25P01");
            }
            Command::Savepoint(name) => {
                self.savepoints.push((name.clone(), self.values(), self.pending.len()));
                "SAVEPOINT"
            }
            Command::RollbackTo(name) => {
                let place = self.savepoints.iter().rposition(|(known, ..)| known == name).ok_or("3B001")?;
                let (_, values, deeds) = self.savepoints[place].clone();
                (self.current, self.lasting) = values;
                self.pending.truncate(deeds);
                self.savepoints.truncate(place + 1);
                self.failed = false;
                "ROLLBACK"
            }
            Command::Release(name) => {
                let place = self.savepoints.iter().rposition(|(known, ..)| known == name).ok_or("3B001")?;
                self.savepoints.truncate(place);
                "RELEASE"
            }
            other => panic!("{other:?} is about no transaction"),
        };
        Ok(tag)
    }

    fn reset_all(&mut self) {
        for values in [&mut self.current, &mut self.lasting] {
            values.retain(|name, _| IDENTITY.contains(&name.as_str()));
            let base = self.base.iter().filter(|(name, _)| !IDENTITY.contains(&name.as_str()));
            values.extend(base.map(|(name, value)| (name.clone(), value.clone())));
        }
    }

    /// A deed is done, should the transaction be committed; its tag.
    fn note(&mut self, deed: Deed, tag: &'static str) -> &'static str {
        self.pending.push(deed);
        tag
    }

    /// Something is written, should the transaction be committed.
    pub fn write(&mut self, name: &str) {
        self.pending.push(Deed::Write(name.to_owned()));
    }

    fn set(&mut self, name: &str, value: Option<&str>, local: bool) {
        let value = value.or_else(|| self.base.get(name).map(String::as_str)).map(str::to_owned);
        for values in [Some(&mut self.current), (!local).then_some(&mut self.lasting)].into_iter().flatten() {
            if name == "session_authorization" {
                values.remove("role");
            }
            put(values, name, value.as_deref());
        }
    }
}
