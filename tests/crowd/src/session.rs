//! A session as PostgreSQL keeps it for one client: what the answers of its statements are held against.

use std::rc::Rc;

use crate::ledger::{Key, Ledger, Told};
use crate::settings::{SETTINGS, Setting, Text, Value, Vars};
use crate::statement::{Effect, SqlError, Statement};

/// What a transaction that fails takes back.
#[derive(Debug, Clone)]
pub struct Facts {
    /// The settings.
    pub vars: Rc<Vars>,
    /// The rows of the temporary table, where there is one.
    pub temp: Option<Rc<Vec<Text>>>,
    /// Whether it listens to its own channel.
    pub listens: bool,
}

/// A savepoint.
#[derive(Debug)]
struct Savepoint {
    name: u8,
    facts: Facts,
    keys: usize,
    violated: bool,
    cursors: usize,
}

/// A cursor of SQL: what it has still to give.
#[derive(Debug, Clone)]
pub struct Cursor {
    /// It outlives its transaction.
    hold: bool,
    /// It has outlived it.
    committed: bool,
    next: usize,
}

/// How many rows a cursor has.
pub const CURSOR_ROWS: usize = 7;

/// A transaction.
#[derive(Debug)]
struct Transaction {
    /// Begun by BEGIN; otherwise it ends with the unit.
    explicit: bool,
    failed: bool,
    /// None where a setting that is not known decides it.
    read_only: Option<bool>,
    before: Facts,
    savepoints: Vec<Savepoint>,
    keys: Vec<Key>,
    /// A deferred constraint will make the COMMIT fail.
    violated: bool,
    /// What it will have notified.
    notified: Vec<Text>,
    /// What it has SET may be lost when it ends.
    vague: bool,
}

/// The settings that decide what a literal means.
#[derive(Debug, Clone)]
pub struct Reading {
    /// TimeZone.
    pub zone: Value,
    /// DateStyle.
    pub style: Value,
    /// standard_conforming_strings.
    pub conforming: Value,
    /// client_encoding.
    pub encoding: Value,
}

impl Reading {
    /// The settings as they are.
    pub fn of(vars: &Vars) -> Self {
        let value = |setting| vars.get(setting).clone();
        Self {
            zone: value(Setting::TimeZone),
            style: value(Setting::DateStyle),
            conforming: value(Setting::Conforming),
            encoding: value(Setting::Encoding),
        }
    }

    /// These or the others: a plan that has grown stale is made of the text again.
    pub fn or(&self, other: &Self) -> Self {
        Self {
            zone: self.zone.or(&other.zone),
            style: self.style.or(&other.style),
            conforming: self.conforming.or(&other.conforming),
            encoding: self.encoding.or(&other.encoding),
        }
    }
}

/// A prepared statement: its text, and the settings under which its literals may have been read.
#[derive(Debug, Clone)]
pub struct Prepared {
    /// Its name.
    pub name: u8,
    /// Whether it is there; what had become of its Parse was not told otherwise.
    pub sure: bool,
    /// Its text.
    pub sql: Text,
    /// The settings under which its literals may have been read.
    pub reading: Reading,
}

/// The statement without a name.
#[derive(Debug, Clone)]
pub enum Unnamed {
    /// There is none.
    Not,
    /// Whether it is still there is not known.
    Perhaps,
    /// There is one.
    Is(Prepared),
}

/// A portal: the statement that it runs, and the rows that it has still to give once it was run.
#[derive(Debug)]
pub struct Portal {
    /// Its name.
    pub name: u8,
    /// What it runs.
    pub statement: Rc<Statement>,
    /// The settings under which its literals may have been read.
    pub reading: Reading,
    /// How many rows it has given; none before it is executed.
    pub given: Option<usize>,
}

/// A session.
#[derive(Debug)]
pub struct Session {
    /// What it is, a transaction's changes included.
    pub facts: Facts,
    /// What RESET leads to.
    pub startup: Rc<Vars>,
    /// Its named statements.
    pub named: Vec<Prepared>,
    /// Its unnamed statement.
    pub unnamed: Unnamed,
    /// Its portals.
    pub portals: Vec<Portal>,
    /// Its cursor of SQL.
    pub cursor: Option<Cursor>,
    /// How often it holds its advisory lock.
    pub locks: usize,
    /// What its own notifications will say, and whether they may also never come.
    expected: Vec<(Text, bool)>,
    /// Those that have come before the answer to the unit which sent them.
    early: Vec<String>,
    /// What its client was told of its settings.
    pub told: [Option<Text>; SETTINGS.len()],
    /// What it was told of `is_superuser`.
    pub superuser: Option<bool>,
    /// The settings before a DISCARD ALL whose unit has not ended: what is left of them if the unit is lost is unknown.
    discarded: Option<Rc<Vars>>,
    /// It is behind a pooler, which does not promise to carry each change of a setting to the next connection.
    pooled: bool,
    transaction: Option<Transaction>,
}

impl Session {
    /// A session that has just begun, with these settings.
    pub fn new(vars: Vars, pooled: bool) -> Self {
        let vars = Rc::new(vars);
        Self {
            facts: Facts { vars: Rc::clone(&vars), temp: None, listens: false },
            startup: vars,
            named: Vec::new(),
            unnamed: Unnamed::Not,
            portals: Vec::new(),
            cursor: None,
            locks: 0,
            expected: Vec::new(),
            early: Vec::new(),
            told: Default::default(),
            superuser: None,
            discarded: None,
            pooled,
            transaction: None,
        }
    }

    /// Its settings.
    pub fn vars(&self) -> &Vars {
        &self.facts.vars
    }

    /// The byte of ReadyForQuery.
    pub fn status(&self) -> u8 {
        match &self.transaction {
            Some(transaction) if transaction.failed => b'E',
            Some(transaction) if transaction.explicit => b'T',
            _ => b'I',
        }
    }

    /// Whether nothing runs but what ends the transaction.
    pub fn has_failed(&self) -> bool {
        self.status() == b'E'
    }

    /// Whether it is behind a pooler.
    pub fn is_pooled(&self) -> bool {
        self.pooled
    }

    /// Whether it has a server connection of its own even when nothing is asked.
    pub fn has_server(&self) -> bool {
        let pinned = self.facts.temp.is_some() || self.facts.listens || self.locks > 0 || self.cursor.is_some();
        !self.pooled || pinned || self.status() != b'I'
    }

    /// A statement begins: in the transaction that there is, or in one of the unit's own.
    pub fn start(&mut self) {
        if self.transaction.is_none() {
            let setting = self.vars().get(Setting::ReadOnly);
            let read_only = setting.known().map(|value| value == "on");
            self.transaction = Some(Transaction {
                explicit: false,
                failed: false,
                read_only,
                before: self.facts.clone(),
                savepoints: Vec::new(),
                keys: Vec::new(),
                violated: false,
                notified: Vec::new(),
                vague: false,
            });
        }
    }

    /// Whether the transaction refuses writes; none where it is not known.
    pub fn read_only(&self) -> Option<bool> {
        self.transaction.as_ref().map_or(Some(false), |transaction| transaction.read_only)
    }

    /// An error: it takes back what it must. `how` is its SQLSTATE.
    pub fn fail(&mut self, ledger: &mut Ledger, how: &str) {
        self.discarded = None;
        match &mut self.transaction {
            Some(transaction) if transaction.explicit => {
                // PostgreSQL takes back the innermost subtransaction at once.
                if !transaction.failed {
                    transaction.failed = true;
                    let facts = transaction.savepoints.last().map_or(&transaction.before, |point| &point.facts);
                    self.facts = facts.clone();
                    self.portals.clear();
                }
            }
            _ => self.abort(ledger, Told::Failed, how),
        }
    }

    /// The whole transaction is taken back.
    pub fn abort(&mut self, ledger: &mut Ledger, told: Told, how: &str) {
        if let Some(transaction) = self.transaction.take() {
            ledger.tell(&transaction.keys, told, how);
            self.facts = transaction.before;
            if told == Told::Unknown && self.pooled {
                self.expected.extend(transaction.notified.into_iter().map(|text| (text, true)));
                self.match_early();
            }
        }
        self.portals.clear();
        self.cursor.take_if(|cursor| !cursor.committed);
    }

    /// The connection behind it was lost, and what has become of its transaction is not known: it may have been done
    /// only if `ending`.
    pub fn lose(&mut self, ledger: &mut Ledger, ending: bool) {
        let implicit = self.status() == b'I';
        let after = Rc::clone(&self.facts.vars);
        let told = if implicit || ending { Told::Unknown } else { Told::Failed };
        self.abort(ledger, told, "lost");
        if implicit || ending {
            self.facts.vars = Rc::new(self.facts.vars.or(&after));
        }
        if let Some(before) = self.discarded.take() {
            self.facts.vars = Rc::new(self.facts.vars.or(&before));
        }
    }

    /// The error that the end of the unit's own transaction makes.
    pub fn refuses_commit(&self) -> Option<SqlError> {
        let transaction = self.transaction.as_ref()?;
        (transaction.violated && !transaction.failed)
            .then(|| SqlError::new("23505", "duplicate key value violates unique constraint \"dup_k_key\""))
    }

    /// Notifications are sent. A pooler tells them when another connection has heard them: those from before a LISTEN or
    /// an UNLISTEN may be on their way then.
    fn expect(&mut self, notified: Vec<Text>) {
        let listens = self.facts.listens;
        if !listens {
            self.expected.iter_mut().for_each(|(_, may_miss)| *may_miss = true);
        }
        if listens || self.pooled {
            self.expected.extend(notified.into_iter().map(|text| (text, !listens)));
            self.match_early();
        }
    }

    fn match_early(&mut self) {
        let mut early = std::mem::take(&mut self.early);
        early.retain(|payload| !self.takes(payload));
        self.early = early;
    }

    /// Takes a notification that is expected; what comes before it may not be expected for sure.
    fn takes(&mut self, payload: &str) -> bool {
        let place = self.expected.iter().position(|(text, _)| **text == *payload);
        let misses = |place: &usize| self.expected.iter().take(*place).all(|(_, may_miss)| *may_miss);
        let found = place.filter(misses);
        found.into_iter().for_each(|place| drop(self.expected.drain(..=place)));
        found.is_some()
    }

    /// Its client is notified of this.
    pub fn is_notified(&mut self, payload: &str) -> Result<(), String> {
        if self.takes(payload) {
            return Ok(());
        }
        if !self.pooled {
            return Err(format!("notified of {payload:?}, not of {:?}", self.expected));
        }
        self.early.push(payload.to_owned());
        Ok(())
    }

    /// Whether its notifications are right, when the session is idle and nothing is under way if `idle`.
    pub fn holds_notifications(&self, idle: bool) -> Result<(), String> {
        // A server tells a session of its own at once.
        if !self.pooled && self.status() == b'I' && !self.expected.is_empty() {
            return Err(format!("not notified of {:?}", self.expected));
        }
        if idle && !self.early.is_empty() {
            return Err(format!("notified of {:?}, not of {:?}", self.early, self.expected));
        }
        Ok(())
    }

    /// The unit has ended, and with it a transaction of its own, well.
    pub fn end_unit(&mut self, ledger: &mut Ledger) {
        self.discarded = None;
        if self.status() == b'I' {
            self.commit(ledger);
        }
    }

    fn commit(&mut self, ledger: &mut Ledger) {
        let mut vague = None;
        if let Some(transaction) = self.transaction.take() {
            ledger.tell(&transaction.keys, Told::Done, "done");
            vague = (transaction.vague && self.pooled).then(|| Rc::clone(&transaction.before.vars));
            self.expect(transaction.notified);
        }
        if self.vars().has_local() {
            Rc::make_mut(&mut self.facts.vars).commit();
        }
        if let Some(before) = vague {
            self.facts.vars = Rc::new(self.facts.vars.or(&before));
        }
        self.portals.clear();
        self.cursor.take_if(|cursor| !cursor.hold);
        if let Some(cursor) = &mut self.cursor {
            cursor.committed = true;
        }
    }

    /// The error that a statement's effect makes in the state that the session is in.
    pub fn refuses(&self, effect: &Effect) -> Option<SqlError> {
        let in_block = self.transaction.as_ref().is_some_and(|transaction| transaction.explicit);
        let outside = |what: &str| {
            (!in_block).then(|| SqlError::new("25P01", format!("{what} can only be used in transaction blocks")))
        };
        match effect {
            Effect::Savepoint(_) => outside("SAVEPOINT"),
            Effect::RollbackTo(name) => outside("ROLLBACK TO SAVEPOINT").or_else(|| self.lacks(*name)),
            Effect::Release(name) => outside("RELEASE SAVEPOINT").or_else(|| self.lacks(*name)),
            Effect::Declare { hold: false } if !in_block => outside("DECLARE CURSOR"),
            Effect::Declare { .. } if self.cursor.is_some() => {
                Some(SqlError::new("42P03", "cursor \"c\" already exists"))
            }
            Effect::Fetch(_) | Effect::CloseCursor if self.cursor.is_none() => {
                Some(SqlError::new("34000", "cursor \"c\" does not exist"))
            }
            Effect::DiscardAll if in_block => {
                Some(SqlError::new("25001", "DISCARD ALL cannot run inside a transaction block"))
            }
            Effect::Commit => self.refuses_commit(),
            _ => None,
        }
    }

    fn lacks(&self, name: u8) -> Option<SqlError> {
        let points = self.transaction.iter().flat_map(|transaction| &transaction.savepoints);
        let there = points.into_iter().any(|point| point.name == name);
        (!there).then(|| SqlError::new("3B001", format!("savepoint \"p{name}\" does not exist")))
    }

    /// The warning that comes with an effect.
    pub fn warns(&self, effect: &Effect) -> Option<&'static str> {
        let in_block = self.transaction.as_ref().is_some_and(|transaction| transaction.explicit);
        match effect {
            Effect::Begin { .. } if in_block => Some("there is already a transaction in progress"),
            Effect::Commit | Effect::Rollback if !in_block => Some("there is no transaction in progress"),
            Effect::SetLocal(..) if !in_block => Some("SET LOCAL can only be used in transaction blocks"),
            _ => None,
        }
    }

    /// The statement was done: what it leaves.
    pub fn apply(&mut self, effect: &Effect, ledger: &mut Ledger) {
        match effect {
            Effect::None => (),
            Effect::Set(setting, value) => self.set(*setting, Value::sure(value.clone())),
            Effect::SetLocal(setting, value) => {
                Rc::make_mut(&mut self.facts.vars).set_local(*setting, Value::sure(value.clone()));
            }
            Effect::Reset(setting) => self.set(*setting, self.startup.get(*setting).clone()),
            Effect::ResetAll => self.reset_all(),
            // It is committed at once, whatever becomes of its unit.
            Effect::DiscardAll => {
                self.discarded = Some(Rc::clone(&self.facts.vars));
                self.discard_all();
                self.commit(ledger);
            }
            Effect::Write(keys) => self.write(keys, self.vars().tenant(), ledger),
            // Only its answer says whether it has written ([`Session::shifted`]).
            Effect::Shift(_) => (),
            Effect::Violate => self.in_transaction(|transaction| transaction.violated = true),
            Effect::Begin { read_only } => self.in_transaction(|transaction| {
                transaction.explicit = true;
                if *read_only {
                    transaction.read_only = Some(true);
                }
            }),
            Effect::Commit if self.has_failed() => self.abort(ledger, Told::Failed, "C"),
            Effect::Commit => self.commit(ledger),
            Effect::Rollback => self.abort(ledger, Told::Failed, "C"),
            Effect::Savepoint(name) => self.savepoint(*name),
            Effect::RollbackTo(name) => self.rollback_to(*name, ledger),
            Effect::Release(name) => self.release(*name),
            Effect::Declare { hold } => self.cursor = Some(Cursor { hold: *hold, committed: false, next: 1 }),
            Effect::Fetch(count) => {
                if let Some(cursor) = &mut self.cursor {
                    cursor.next += (*count).min(CURSOR_ROWS + 1 - cursor.next);
                }
            }
            Effect::CloseCursor => self.cursor = None,
            Effect::Temp => self.facts.temp = Some(Rc::default()),
            Effect::TempDrop => self.facts.temp = None,
            Effect::TempAdd(row) => {
                if let Some(rows) = &mut self.facts.temp {
                    Rc::make_mut(rows).push(row.clone());
                }
            }
            Effect::Lock => self.locks += 1,
            Effect::Unlock => self.locks = self.locks.saturating_sub(1),
            Effect::Listen(listens) => self.facts.listens = *listens,
            Effect::Notify(text) => self.in_transaction(|transaction| transaction.notified.push(text.clone())),
        }
    }

    fn in_transaction(&mut self, change: impl FnOnce(&mut Transaction)) {
        if let Some(transaction) = &mut self.transaction {
            change(transaction);
        }
    }

    /// What the transaction has SET may be lost when it ends.
    pub fn blur(&mut self) {
        self.in_transaction(|transaction| transaction.vague = true);
    }

    fn set(&mut self, setting: Setting, value: Value) {
        let vars = Rc::make_mut(&mut self.facts.vars);
        if setting == Setting::Authorization {
            // Whoever takes on another identity leaves the role of the one before.
            vars.set(Setting::Role, Value::sure("none"));
        }
        vars.set(setting, value);
    }

    /// RESET ALL leaves the role and the authorization.
    fn reset_all(&mut self) {
        for setting in SETTINGS {
            if !matches!(setting, Setting::Role | Setting::Authorization) {
                self.set(setting, self.startup.get(setting).clone());
            }
        }
    }

    fn discard_all(&mut self) {
        self.set(Setting::Authorization, self.startup.get(Setting::Authorization).clone());
        self.reset_all();
        self.named.clear();
        self.cursor = None;
        self.locks = 0;
        self.facts.temp = None;
        self.facts.listens = false;
    }

    /// A row of `public` was written by a function.
    pub fn shifted(&mut self, key: Key, ledger: &mut Ledger) {
        self.write(&[key], Some("public"), ledger);
    }

    fn write(&mut self, keys: &[Key], tenant: Option<&'static str>, ledger: &mut Ledger) {
        for &key in keys {
            ledger.open(key, tenant);
        }
        self.in_transaction(|transaction| transaction.keys.extend_from_slice(keys));
    }

    fn savepoint(&mut self, name: u8) {
        let (facts, cursors) = (self.facts.clone(), usize::from(self.cursor.is_some()));
        self.in_transaction(|transaction| {
            let (keys, violated) = (transaction.keys.len(), transaction.violated);
            transaction.savepoints.push(Savepoint { name, facts, keys, violated, cursors });
        });
    }

    fn rollback_to(&mut self, name: u8, ledger: &mut Ledger) {
        let Some(transaction) = &mut self.transaction else { return };
        let Some(at) = transaction.savepoints.iter().rposition(|point| point.name == name) else { return };
        transaction.savepoints.truncate(at + 1);
        let point = &transaction.savepoints[at];
        ledger.tell(&transaction.keys[point.keys..], Told::Failed, "undo");
        transaction.keys.truncate(point.keys);
        transaction.violated = point.violated;
        transaction.failed = false;
        self.facts = point.facts.clone();
        self.portals.clear();
        if point.cursors == 0 {
            self.cursor = None;
        }
    }

    fn release(&mut self, name: u8) {
        self.in_transaction(|transaction| {
            if let Some(at) = transaction.savepoints.iter().rposition(|point| point.name == name) {
                transaction.savepoints.truncate(at);
            }
        });
    }

    /// The rows that the next FETCH of so many gives.
    pub fn fetched(&self, count: usize) -> std::ops::Range<usize> {
        let next = self.cursor.as_ref().map_or(1, |cursor| cursor.next);
        next..(next + count).min(CURSOR_ROWS + 1)
    }
}
