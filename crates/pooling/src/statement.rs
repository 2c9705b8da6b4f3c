//! Prepared statements. What a client prepares is remembered by its definition; each server connection knows some of
//! the definitions under names of ours, and is given one when a client binds it there.
//!
//! PostgreSQL reads literals when it parses, by the settings of the session: `'02/03/2024'::date` is one day or another.
//! So a statement is shared only among sessions that read its text alike; the number of their *reading* is part of it.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::rc::Rc;
use std::sync::{Arc, OnceLock};

use classify::Verdict;

use crate::fingerprint::Fingerprint;
use crate::keeping::Counts;
use crate::lexing::{Lexing, Reading, UNCLEAR};
use crate::session::Sets;
use crate::vars::{Tracked, Vars};

/// A definition: a text with its parameter types.
#[derive(Debug)]
pub struct Statement {
    /// Its number, unlike any other's in this worker; the name on servers is made of it.
    pub id: u64,
    /// As it stands in a Parse.
    pub definition: Box<[u8]>,
    /// How its text is read.
    pub reading: Reading,
    /// How its text is taken apart into words and literals.
    pub lexing: Lexing,
    /// Its fingerprint, once that was asked for.
    pub fingerprint: RefCell<Option<Rc<Fingerprint>>>,
    /// Counted up when servers must prepare it afresh.
    pub generation: Cell<u64>,
    /// How many definitions had been seen that may have changed tables when it was prepared.
    renewals: Option<u64>,
}

/// A statement on its way to another worker.
#[derive(Debug)]
pub struct Carried {
    definition: Box<[u8]>,
    reading: Reading,
    lexing: Lexing,
    renewals: Option<u64>,
}

impl Carried {
    /// One of which only the text is known, and how that is taken apart: it is read as its session reads when a server
    /// is to prepare it next.
    pub fn anew(definition: Box<[u8]>, lexing: Lexing) -> Self {
        Self { definition, reading: UNCLEAR, lexing, renewals: None }
    }

    /// As it stands in a Parse.
    pub fn definition(&self) -> &[u8] {
        &self.definition
    }

    /// How its text is taken apart.
    pub fn lexing(&self) -> Lexing {
        self.lexing
    }
}

impl Statement {
    /// The name that servers know it by.
    pub fn name(&self) -> Vec<u8> {
        self.name_of(self.generation.get())
    }

    /// The name that an earlier generation of it has on servers. Nobody can guess it, to put a statement of their own
    /// under it.
    pub fn name_of(&self, generation: u64) -> Vec<u8> {
        format!("howdah_{:016x}_{}_{generation}", secret(), self.id).into_bytes()
    }

    /// What another worker needs to know of it.
    pub fn carry(&self) -> Carried {
        let &Self { reading, lexing, renewals, .. } = self;
        Carried { definition: self.definition.clone(), reading, lexing, renewals }
    }

    /// Its text.
    pub fn text(&self) -> &[u8] {
        self.definition.split(|&byte| byte == 0).next().unwrap_or_default()
    }

    /// Whether servers know it by its name, though its client may have given it none.
    pub fn is_shared(&self) -> bool {
        self.reading != UNCLEAR
    }

    /// What is known of it, if it has been looked at.
    pub fn verdict(&self) -> Option<Arc<Verdict>> {
        self.fingerprint.borrow().as_ref().map(|fingerprint| fingerprint.verdict.clone())
    }
}

/// A number that others do not know, for as long as the process lives.
fn secret() -> u64 {
    static SECRET: OnceLock<u64> = OnceLock::new();
    *SECRET.get_or_init(|| {
        let mut bytes = [0; 8];
        // Without random bytes nobody can log in either: then the name need not be a secret.
        let _ = getrandom::fill(&mut bytes);
        u64::from_ne_bytes(bytes)
    })
}

/// Whether a text has a literal that PostgreSQL reads as of the moment at which it analyses the text (`'now'`,
/// `'today'`): who prepares it later means a later moment, and cannot share it. Where a quote may be escaped, any of
/// these words counts.
fn has_moment(text: &[u8]) -> bool {
    const WORDS: [&[u8]; 4] = [b"now", b"today", b"tomorrow", b"yesterday"];
    let dollar_quotes = |pair: &[u8]| matches!(pair, [b'$', next] if !next.is_ascii_digit());
    let anywhere = text.contains(&b'\\') || text.windows(2).any(dollar_quotes);
    if !anywhere && !text.contains(&b'\'') {
        return false;
    }
    let literals = text.split(|&byte| byte == b'\'').enumerate().filter(|(place, _)| anywhere || place % 2 == 1);
    let mut words = literals.flat_map(|(_, literal)| literal.split(|byte| !byte.is_ascii_alphabetic()));
    words.any(|word| WORDS.iter().any(|moment| word.eq_ignore_ascii_case(moment)))
}

/// All definitions that clients of one pool have under names, or that servers keep without one.
#[derive(Debug, Default)]
pub struct Statements {
    by_definition: HashMap<Reading, HashMap<Box<[u8]>, Rc<Statement>>>,
    count: usize,
    next: u64,
    sweep_at: usize,
    renewals: Option<u64>,
    /// How often texts without a name have come.
    pub unnamed: Counts,
}

impl Statements {
    /// The statement of this definition, shared with all who use the same and read it alike.
    pub fn share(&mut self, definition: &[u8], reading: Reading, lexing: Lexing) -> Rc<Statement> {
        if reading == UNCLEAR {
            return Rc::new(self.make(definition, lexing));
        }
        if let Some(known) = self.by_definition.get(&reading).and_then(|alike| alike.get(definition)) {
            return known.clone();
        }
        if has_moment(definition) {
            return Rc::new(self.make(definition, lexing));
        }
        if self.count >= self.sweep_at.max(1000) {
            self.sweep();
        }
        let statement = Rc::new(Statement { reading, ..self.make(definition, lexing) });
        self.by_definition.entry(reading).or_default().insert(definition.into(), statement.clone());
        self.count += 1;
        statement
    }

    /// After so many definitions that may have changed tables: whoever prepares a statement now shares with nobody who
    /// has prepared the same before the last of them.
    pub fn renew(&mut self, renewals: Option<u64>) {
        if self.renewals != renewals {
            self.renewals = renewals;
            self.by_definition.clear();
            self.count = 0;
        }
    }

    fn sweep(&mut self) {
        for alike in self.by_definition.values_mut() {
            alike.retain(|_, statement| Rc::strong_count(statement) > 1);
        }
        self.by_definition.retain(|_, alike| !alike.is_empty());
        self.count = self.by_definition.values().map(HashMap::len).sum();
        self.sweep_at = self.count * 2;
    }

    fn make(&mut self, definition: &[u8], lexing: Lexing) -> Statement {
        self.next += 1;
        Statement {
            id: self.next,
            definition: definition.into(),
            reading: UNCLEAR,
            lexing,
            fingerprint: RefCell::new(None),
            generation: Cell::new(0),
            renewals: self.renewals,
        }
    }

    /// A statement that comes from another worker: shared with those who would have shared it there.
    pub fn adopt(&mut self, carried: Carried) -> Rc<Statement> {
        let Carried { definition, reading, lexing, renewals } = carried;
        if renewals == self.renewals {
            return self.share(&definition, reading, lexing);
        }
        Rc::new(Statement { reading, renewals, ..self.make(&definition, lexing) })
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// In which way a session with these settings reads statements.
pub fn reading(vars: &Vars, sets: &Sets, tracked: &Tracked) -> Reading {
    // Nobody can look for two texts of one hash without these keys.
    static KEYS: OnceLock<[RandomState; 2]> = OnceLock::new();
    let mut text = String::new();
    for (place, name) in tracked.names().enumerate() {
        if name != "application_name" {
            text.push_str(vars.get(place).unwrap_or("\u{1}"));
            text.push('\0');
        }
    }
    sets.write_reading(&mut text);
    let [high, low] = KEYS.get_or_init(Default::default).each_ref().map(|key| u128::from(key.hash_one(&text)));
    let reading = high << 64 | low;
    if reading == UNCLEAR { 0 } else { reading }
}

/// The statements that a server connection knows, the one used longest ago first to go.
#[derive(Debug, Default)]
pub struct Known {
    by_id: HashMap<u64, (Rc<Statement>, u64, u64)>,
    clock: u64,
}

impl Known {
    /// Whether the server knows it as it is now; counts as a use.
    pub fn uses(&mut self, statement: &Statement) -> bool {
        self.clock += 1;
        let clock = self.clock;
        match self.by_id.get_mut(&statement.id) {
            Some((_, generation, used)) if *generation == statement.generation.get() => {
                *used = clock;
                true
            }
            _ => false,
        }
    }

    /// Whether the server knows it as it is now.
    pub fn has(&self, statement: &Statement) -> bool {
        self.by_id.get(&statement.id).is_some_and(|(_, generation, _)| *generation == statement.generation.get())
    }

    /// Notes that it is being prepared; gives those that must be closed: an earlier generation of it, and what is too
    /// much for `limit`, each with its generation there.
    pub fn add(&mut self, statement: &Rc<Statement>, limit: usize) -> Vec<(Rc<Statement>, u64)> {
        self.clock += 1;
        let entry = (statement.clone(), statement.generation.get(), self.clock);
        let before = self.by_id.insert(statement.id, entry);
        let mut closed: Vec<_> = before.into_iter().map(|(statement, generation, _)| (statement, generation)).collect();
        while self.by_id.len() > limit.max(1) {
            let oldest = self.by_id.iter().min_by_key(|(_, (_, _, used))| *used).map(|(&id, _)| id);
            let Some((statement, generation, _)) = oldest.and_then(|oldest| self.by_id.remove(&oldest)) else { break };
            closed.push((statement, generation));
        }
        closed
    }

    /// Forgets one: it was not prepared after all.
    pub fn remove(&mut self, statement: &Statement) {
        self.by_id.remove(&statement.id);
    }

    /// Notes that the server knows this generation of it still.
    pub fn restore(&mut self, statement: &Rc<Statement>, generation: u64) {
        self.by_id.entry(statement.id).or_insert_with(|| (statement.clone(), generation, 0));
    }

    /// Whether the server still has them is not known: whoever uses one prepares it afresh, by another name.
    pub fn doubt(&self) {
        for (statement, generation, _) in
            self.by_id.values().filter(|(statement, of, _)| *of == statement.generation.get())
        {
            statement.generation.set(generation + 1);
        }
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.by_id.clear();
    }

    /// How many it knows.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_as_of_a_moment_is_found() {
        for text in [
            "SELECT 'now'",
            "SELECT $1, date ' TODAY '",
            "SELECT E'\\'', 'tomorrow'",
            "SELECT $$yesterday$$",
            "'a''now'",
        ] {
            assert!(has_moment(text.as_bytes()), "{text}");
        }
        for text in ["SELECT now(), $1", "SELECT now(), 'unknown', 'snow'", "SELECT today FROM t WHERE a = 'b'"] {
            assert!(!has_moment(text.as_bytes()), "{text}");
        }
    }
}
