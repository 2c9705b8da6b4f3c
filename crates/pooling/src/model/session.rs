//! The settings of a session: those that a client has asked for, those that a server connection has, and the statements
//! that make the second equal to the first.
//!
//! The settings that the pooler assumes on a server connection are those that the server has confirmed. A completed
//! command is noted ([`Pending`]), and counts when its transaction has committed; a failed COMMIT, or a rollback also
//! to a savepoint, drops the notes of the commands that it undoes. An alignment counts when the server has answered it
//! without an error.

use std::fmt::Write;
use std::rc::Rc;

use classify::{Kind, Set, Value, Verdict};

use crate::model::vars::{Tracked, Vars};

/// The parameters that a session has SET, in the order in which that must be done again. Tracked parameters are not
/// among them: their values are [`Vars`].
#[derive(Debug, Clone)]
pub struct Sets(Rc<Vec<Setting>>);

thread_local! {
    /// The empty list that all clients share which have SET nothing; idle clients are many.
    static NONE: Rc<Vec<Setting>> = Rc::default();
}

impl Default for Sets {
    fn default() -> Self {
        Self(NONE.with(Rc::clone))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Setting {
    /// The parameter, in lower case.
    name: Box<str>,
    /// The statement that sets it.
    statement: Box<str>,
}

/// Parameters that no RESET ALL touches.
const IDENTITY: [&str; 2] = ["session_authorization", "role"];
/// Parameters that could end the pooler's own statements.
const LIMITS: [&str; 3] = ["statement_timeout", "lock_timeout", "transaction_timeout"];
/// Parameters that do not matter to how the text of a statement is read.
const HARMLESS: [&str; 11] = [
    "statement_timeout",
    "lock_timeout",
    "transaction_timeout",
    "idle_in_transaction_session_timeout",
    "idle_session_timeout",
    "work_mem",
    "maintenance_work_mem",
    "application_name",
    "client_min_messages",
    "synchronous_commit",
    "tcp_user_timeout",
];

/// Whether a statement may change how its session reads statements. A `search_path` finds names, and PostgreSQL reads a
/// text anew where that has changed; a parameter with a dot in its name is a user's own.
pub fn sets_reading(verdict: &Verdict) -> bool {
    let matters = |name: &str| name != "search_path" && !name.contains('.') && !HARMLESS.contains(&name);
    let sets = |kind: &Kind| match kind {
        Kind::Set(sets) => sets.iter().any(|set| matters(&set.name)),
        Kind::Reset { .. } | Kind::Discard(_) => true,
        _ => false,
    };
    verdict.unsettles || sets(&verdict.kind) || verdict.each.iter().any(sets)
}

/// The changes of settings in an open transaction that the pooler does not follow.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unfollowed {
    /// There are none.
    #[default]
    Nothing,
    /// Settings that matter to how names are found, or to nothing that PostgreSQL reads.
    Harmless,
    /// Whatever else: a statement, or a function that it has called, may have changed how statements are read.
    Reading,
}

impl Unfollowed {
    /// What a statement that has run may have changed.
    pub fn by(verdict: Option<&Verdict>) -> Self {
        let sets = |kind: &Kind| matches!(kind, Kind::Set(_));
        match verdict {
            None => Self::Reading,
            Some(verdict) if sets_reading(verdict) => Self::Reading,
            Some(verdict) if verdict.dirties || sets(&verdict.kind) || verdict.each.iter().any(sets) => Self::Harmless,
            Some(_) => Self::Nothing,
        }
    }
}

/// A change by a SET or RESET.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// `SET name`.
    Set {
        /// The parameter, in lower case.
        name: String,
        /// The statement in canonical text.
        statement: String,
    },
    /// `RESET name`, `SET name TO DEFAULT`.
    Reset(String),
    /// `RESET ALL`.
    ResetAll,
}

impl Change {
    /// The changes that a statement makes, if it is one SET or RESET; none for a setting of its transaction alone.
    fn of(kind: &Kind) -> Option<Vec<Self>> {
        Some(match kind {
            Kind::Set(sets) => sets.iter().filter(|set| !set.local).map(Self::of_set).collect(),
            Kind::SetTransaction(_) => Vec::new(),
            Kind::Reset { name: Some(name) } => vec![Self::Reset(name.clone())],
            Kind::Reset { name: None } => vec![Self::ResetAll],
            _ => return None,
        })
    }

    fn of_set(set: &Set) -> Self {
        match set.value {
            Value::Default => Self::Reset(set.name.clone()),
            _ => Self::Set { name: set.name.clone(), statement: set.statement.clone() },
        }
    }

    /// The parameter, unless the change is of all parameters.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Set { name, .. } | Self::Reset(name) => Some(name),
            Self::ResetAll => None,
        }
    }
}

impl Sets {
    /// Whether no parameter is set.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether these are one value, without a look at it.
    pub fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Whether these are the same, in the same order.
    pub fn same(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0) || self.0 == other.0
    }

    /// The statement that sets a parameter, if it is set.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|setting| *setting.name == *name).map(|setting| &*setting.statement)
    }

    /// Whether one of these parameters is set.
    fn any(&self, names: &[&str]) -> bool {
        self.0.iter().any(|setting| names.contains(&&*setting.name))
    }

    /// Whether transactions may have been made read-only, or read-write.
    pub fn concern_read_only(&self) -> bool {
        self.any(&["default_transaction_read_only"])
    }

    /// Sets a parameter, as a startup packet does.
    pub fn set(&mut self, name: &str, statement: String) {
        let settings = Rc::make_mut(&mut self.0);
        settings.retain(|setting| *setting.name != *name);
        settings.push(Setting { name: name.into(), statement: statement.into() });
    }

    /// Makes a change. A reset restores the value of `base`: for a client the one of its startup, for a server
    /// connection none.
    pub fn apply(&mut self, change: &Change, base: &Self) {
        match change {
            Change::Set { name, statement } => {
                if name == "session_authorization" {
                    self.remove("role");
                }
                self.set(name, statement.clone());
            }
            Change::Reset(name) => {
                if name == "session_authorization" {
                    self.remove("role");
                }
                self.remove(name);
                self.restore(base, |of_base| of_base == name);
            }
            Change::ResetAll => {
                Rc::make_mut(&mut self.0).retain(|setting| IDENTITY.contains(&&*setting.name));
                self.restore(base, |of_base| !IDENTITY.contains(&of_base));
            }
        }
    }

    /// Makes a change, unless it is of a tracked parameter, whose value the server reports.
    pub fn apply_unless(&mut self, change: &Change, base: &Self, tracked: &Tracked) {
        if change.name().is_none_or(|name| tracked.place(name).is_none()) {
            self.apply(change, base);
        }
    }

    fn remove(&mut self, name: &str) {
        if self.any(&[name]) {
            Rc::make_mut(&mut self.0).retain(|setting| *setting.name != *name);
        }
    }

    /// Takes over the chosen settings of `base`, before the session's identity changes.
    fn restore(&mut self, base: &Self, chosen: impl Fn(&str) -> bool) {
        let restored: Vec<Setting> = base.0.iter().filter(|setting| chosen(&setting.name)).cloned().collect();
        if !restored.is_empty() {
            Rc::make_mut(&mut self.0).splice(0..0, restored);
        }
    }

    /// Appends the statements that set them. The limits come last: those before them need not keep within.
    pub fn write(&self, sql: &mut String) {
        let (limits, others): (Vec<&Setting>, Vec<&Setting>) =
            self.0.iter().partition(|setting| LIMITS.contains(&&*setting.name));
        for setting in others.into_iter().chain(limits) {
            let _ = write!(sql, "{};", setting.statement);
        }
    }

    /// The names of the parameters, and the statements that set them.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|setting| (&*setting.name, &*setting.statement))
    }

    /// The settings as they move with their client.
    pub fn carry(&self) -> Vec<(String, String)> {
        self.iter().map(|(name, statement)| (name.to_owned(), statement.to_owned())).collect()
    }

    /// Settings that have come with their client.
    pub fn carried(settings: Vec<(String, String)>) -> Self {
        if settings.is_empty() {
            return Self::default();
        }
        let setting = |(name, statement): (String, String)| Setting { name: name.into(), statement: statement.into() };
        Self(Rc::new(settings.into_iter().map(setting).collect()))
    }

    /// Appends the settings that matter to how the text of a statement is read.
    pub fn write_reading(&self, mut write: impl FnMut(&str, &str)) {
        for setting in self.0.iter().filter(|setting| !HARMLESS.contains(&&*setting.name)) {
            write(&setting.name, &setting.statement);
        }
    }
}

/// The commands of the open transaction that change settings.
#[derive(Debug, Default)]
pub struct Pending {
    noted: Vec<Noted>,
    /// The number of these that the server has committed, whatever the outcome of the rest.
    kept: usize,
}

#[derive(Debug)]
enum Noted {
    Change(Change),
    /// SET LOCAL of a parameter, and its statement, behind a RESET of it.
    Local(Box<str>, Box<str>),
    /// SET LOCAL of a parameter to its default, which is another value than that of its client's startup.
    LocalReset(Box<str>),
    Savepoint(Box<str>),
    /// A savepoint with an unknown name was made or released.
    Blur,
}

/// The tag of a SET in the form of a query: a call of `set_config`.
pub const SELECTED: &[u8] = b"SELECT 1";

/// The most commands that are noted in one transaction: beyond them its effects are not known.
const MOST_NOTED: usize = 1000;

/// The effect of a finished command on the known settings.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The command has no effect, or has been noted.
    Noted,
    /// DISCARD ALL: statements, settings and all else are gone, whatever the outcome of the rest of its unit.
    Discarded,
    /// Parameters have changed in a way that the text does not show.
    Unknown,
    /// Parameters have changed by a SET whose text cannot be read, so it can be carried to no other connection.
    Unread,
}

impl Pending {
    /// Whether nothing has been noted.
    pub fn is_empty(&self) -> bool {
        self.noted.is_empty()
    }

    /// Drops the notes of a transaction that has been undone.
    pub fn drop_all(&mut self) {
        self.noted.truncate(self.kept);
    }

    /// Keeps the notes of a transaction that has been committed.
    pub fn keep(&mut self) {
        self.noted.retain(|noted| matches!(noted, Noted::Change(_)));
        self.kept = self.noted.len();
    }

    /// Takes the changes that are kept, to be applied. Their time is when no transaction is open: before that, the
    /// server has not reported the parameters that have changed, and those that are set to their startup values may be
    /// rolled back.
    pub fn take(&mut self) -> Vec<Change> {
        let noted = self.noted.drain(..std::mem::take(&mut self.kept));
        noted.filter_map(|noted| if let Noted::Change(change) = noted { Some(change) } else { None }).collect()
    }

    /// Whether the last change of a parameter is a reset: the server has not got its startup value since.
    pub fn resets(&self, name: &str) -> bool {
        let word = self.noted.iter().rev().find_map(|noted| match noted {
            Noted::Change(Change::Reset(reset)) if reset.eq_ignore_ascii_case(name) => Some(true),
            Noted::Change(Change::Set { name: set, .. }) if set.eq_ignore_ascii_case(name) => Some(false),
            Noted::Change(Change::ResetAll) if !IDENTITY.contains(&name) => Some(true),
            _ => None,
        });
        word.unwrap_or(false)
    }

    /// Whether a parameter has been set to its default for the transaction alone, and has not got its startup value since.
    pub fn resets_locally(&self, name: &str) -> bool {
        let word = self.noted.iter().rev().find_map(|noted| match noted {
            Noted::LocalReset(reset) if reset.eq_ignore_ascii_case(name) => Some(true),
            Noted::Local(set, _) if set.eq_ignore_ascii_case(name) => Some(false),
            Noted::Change(change) if change.name().is_none_or(|changed| changed.eq_ignore_ascii_case(name)) => {
                Some(false)
            }
            _ => None,
        });
        word.unwrap_or(false)
    }

    /// The statement that has set a parameter since its reset, until its transaction ends.
    pub fn local(&self, name: &str) -> Option<&str> {
        let word = self.noted.iter().rev().find_map(|noted| match noted {
            Noted::Local(set, statement) if set.eq_ignore_ascii_case(name) => Some(Some(&**statement)),
            Noted::LocalReset(reset) if reset.eq_ignore_ascii_case(name) => Some(None),
            Noted::Change(change) if change.name().is_none_or(|changed| changed.eq_ignore_ascii_case(name)) => {
                Some(None)
            }
            _ => None,
        });
        word.flatten()
    }

    /// Notes settings of the transaction alone: those whose startup value is still to be set, which would override them,
    /// and those that are set to their default.
    fn note_locals(&mut self, sets: &[Set]) {
        for set in sets.iter().filter(|set| set.local) {
            if set.value == Value::Default {
                self.noted.push(Noted::LocalReset(set.name.as_str().into()));
            } else if self.resets(&set.name) || self.resets_locally(&set.name) {
                self.noted.push(Noted::Local(set.name.as_str().into(), set.statement.as_str().into()));
            }
        }
    }

    /// Whether any parameter has been reset, for the transaction alone or beyond it.
    pub fn has_resets(&self) -> bool {
        let resets =
            |noted: &Noted| matches!(noted, Noted::Change(Change::Reset(_) | Change::ResetAll) | Noted::LocalReset(_));
        self.noted.iter().any(resets)
    }

    /// Notes that a parameter which was reset is being set to its startup value, by this statement. A rollback to an
    /// earlier savepoint undoes that too.
    pub fn restore(&mut self, name: String, statement: String) {
        self.noted.push(Noted::Change(Change::Set { name, statement }));
    }

    /// Notes that a parameter which was set to its default is being set to its startup value for the transaction, by
    /// this statement.
    pub fn restore_locally(&mut self, name: &str, statement: &str) {
        self.noted.push(Noted::Local(name.into(), statement.into()));
    }

    /// Notes a command that has finished with this tag; `kind` is the kind of its text, if that is known.
    pub fn finished(&mut self, tag: &[u8], kind: Option<&Kind>) -> Outcome {
        match (tag, kind) {
            (SELECTED, Some(Kind::Set(_))) | (b"SET" | b"RESET", _) => match kind.and_then(Change::of) {
                Some(changes) if self.noted.len() < MOST_NOTED => {
                    self.noted.extend(changes.into_iter().map(Noted::Change));
                    if let Some(Kind::Set(sets)) = kind {
                        self.note_locals(sets);
                    }
                }
                _ => return Outcome::Unread,
            },
            (b"SAVEPOINT", Some(Kind::Savepoint(name))) if self.noted.len() < MOST_NOTED => self.open(name),
            (b"ROLLBACK", Some(Kind::RollbackTo(name))) => match self.savepoint(name) {
                Some(place) => self.noted.truncate(place + 1),
                None => return self.unclear(),
            },
            // Later commands may mean another savepoint of the same name.
            (b"SAVEPOINT", _) => self.blur(),
            (b"RELEASE", kind) if !matches!(kind, Some(Kind::Release(_))) => self.blur(),
            (b"RELEASE", Some(Kind::Release(name))) => {
                if let Some(place) = self.savepoint(name) {
                    let mut at = 0;
                    self.noted.retain(|noted| {
                        at += 1;
                        at <= place || !matches!(noted, Noted::Savepoint(_))
                    });
                }
            }
            (b"ROLLBACK", Some(Kind::Rollback { .. } | Kind::Commit { .. })) => self.drop_all(),
            // This may be a rollback of the whole transaction or to a savepoint.
            (b"ROLLBACK", _) => return self.unclear(),
            (b"COMMIT", _) => self.keep(),
            (b"DISCARD ALL", _) => {
                let identity = IDENTITY.map(|name| Change::Reset(name.to_owned()));
                self.noted = [Change::ResetAll].into_iter().chain(identity).map(Noted::Change).collect();
                self.kept = self.noted.len();
                return Outcome::Discarded;
            }
            _ => (),
        }
        Outcome::Noted
    }

    /// The place of the savepoint that a name means, if that is known.
    fn savepoint(&self, name: &str) -> Option<usize> {
        let means = |noted: &Noted| match noted {
            Noted::Savepoint(known) => **known == *name,
            Noted::Blur => true,
            Noted::Change(_) | Noted::Local(..) | Noted::LocalReset(_) => false,
        };
        self.noted.iter().rposition(means).filter(|place| !matches!(self.noted.get(*place), Some(Noted::Blur)))
    }

    fn open(&mut self, name: &str) {
        // Drivers make one of the same name before each statement; nothing lies between them.
        if !matches!(self.noted.last(), Some(Noted::Savepoint(last)) if **last == *name) {
            self.noted.push(Noted::Savepoint(name.into()));
        }
    }

    fn blur(&mut self) {
        if !matches!(self.noted.last(), Some(Noted::Blur)) {
            self.noted.push(Noted::Blur);
        }
    }

    fn unclear(&mut self) -> Outcome {
        if self.noted.len() == self.kept {
            return Outcome::Noted;
        }
        self.drop_all();
        Outcome::Unknown
    }
}

/// The settings that a server connection must have before a client's statement is sent there.
#[derive(Debug, Clone)]
pub struct Target {
    /// The client's other settings by SET.
    pub sets: Sets,
    /// The client's values of the tracked parameters.
    pub vars: Vars,
    /// Whether its transactions are read-only, for statements that are taken for reads: a wrong guess then fails.
    pub read_only: bool,
}

/// The session on a server connection, as the server has confirmed it.
#[derive(Debug, Default)]
pub struct Confirmed {
    /// The settings by SET.
    pub sets: Sets,
    /// The values of the tracked parameters that the server has reported.
    pub vars: Vars,
    /// Whether the pooler has made its transactions read-only.
    pub read_only: bool,
    /// The settings of `connect_query`, with a semicolon behind them: they hold under all other settings, and again
    /// after a reset.
    pub base: Rc<str>,
}

/// The statements of an alignment.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Alignment {
    /// The statements that must have run when the rest is sent: they lift limits and set the encoding of the text.
    pub first: String,
    /// The other statements.
    pub rest: String,
}

/// Undoes all settings except the limits, which are lifted before.
const RESET: &str = "RESET SESSION AUTHORIZATION;RESET ROLE;RESET ALL;";

impl Confirmed {
    /// Whether the session has the settings of its target.
    pub fn meets(&self, target: &Target) -> bool {
        self.read_only == target.read_only && self.has_settings(target)
    }

    /// Whether the session has the settings of its target, though its transactions may be read-only or not.
    pub fn has_settings(&self, target: &Target) -> bool {
        self.sets.same(&target.sets) && target.vars.same(&self.vars)
    }

    /// The statements that bring the session to its target.
    pub fn alignment(&self, target: &Target, tracked: &Tracked) -> Alignment {
        let mut alignment = Alignment { first: self.lift_limits(), rest: String::new() };
        let same_sets = self.sets.same(&target.sets);
        let own_mode = self.sets.concern_read_only() || target.sets.concern_read_only();
        let reset = !same_sets && !self.sets.is_empty()
            || !alignment.first.is_empty()
            || own_mode && (!same_sets || self.read_only != target.read_only);
        let sql = &mut alignment.rest;
        if reset {
            sql.push_str(RESET);
            sql.push_str(&self.base);
        } else if self.read_only && !target.read_only {
            sql.push_str("RESET default_transaction_read_only;");
        }
        target.vars.write_changes(&self.vars, reset, tracked, sql);
        if target.read_only && (reset || !self.read_only) && !own_mode {
            sql.push_str("SET default_transaction_read_only=on;");
        }
        if reset || !same_sets {
            target.sets.write(sql);
        }
        // Among the client's own modes the last word is the pooler's.
        if target.read_only && (reset || !self.read_only) && own_mode {
            sql.push_str("SET default_transaction_read_only=on;");
        }
        if !alignment.rest.is_ascii() {
            self.carry(target, tracked, &mut alignment);
        }
        alignment
    }

    /// Makes the server read text beyond ASCII as it was written: in the client's encoding, unless a character there
    /// may contain a byte like a backslash or a quote; then as UTF-8.
    fn carry(&self, target: &Target, tracked: &Tracked, alignment: &mut Alignment) {
        let place = tracked.place("client_encoding");
        let (own, wanted) = (place.and_then(|at| self.vars.get(at)), place.and_then(|at| target.vars.get(at)));
        let wanted = wanted.or(own).unwrap_or("UTF8");
        let carrier = if classify::lexable_encoding(wanted) { wanted } else { "UTF8" };
        if own != Some(carrier) {
            let _ = write!(alignment.first, "SET client_encoding={};", classify::parameter::literal(carrier));
        }
        if carrier != wanted {
            let _ = write!(alignment.rest, "SET client_encoding={};", classify::parameter::literal(wanted));
        }
    }

    /// The statements that lift the limits of the session, which could end the statements behind them; none if there
    /// are no limits.
    pub fn lift_limits(&self) -> String {
        let mut sql = String::new();
        for limit in LIMITS.iter().filter(|limit| self.sets.any(&[limit])) {
            let _ = write!(sql, "SET {limit}=0;");
        }
        sql
    }

    /// The statements that undo all settings.
    pub fn reset(&self) -> Alignment {
        Alignment { first: self.lift_limits(), rest: format!("{RESET}{}", self.base) }
    }
}

#[cfg(test)]
mod tests;
