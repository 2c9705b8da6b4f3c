//! Prepared statements. What a client prepares is remembered by its definition; each server connection [knows](crate::model::known)
//! some of the definitions under names of ours, and is given one when a client binds it there.
//!
//! PostgreSQL reads literals when it parses, by the settings of the session: `'02/03/2024'::date` is one day or
//! another. So a statement is shared only among sessions that read its text alike: their *reading* is part of its
//! identity. The number of definitions that the pooler had seen is part of it too, since PostgreSQL does not look up
//! again the types and tables that it has found.
//!
//! Names are made of all that, and of nothing that one worker knows alone ([`StatementId`]).

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use classify::{Same, Verdict};
use sharding::Proved;
use smallvec::SmallVec;

use crate::model::digest::digest;
use crate::model::fingerprint::Fingerprint;
use crate::model::lexing::{Lexing, Reading, UNCLEAR};
use crate::model::session::Sets;
use crate::model::shape::Shape;
use crate::model::vars::{Tracked, Vars};

/// The identity of a statement, the same on all workers: a hash of its definition, of how its text is read, and of the
/// definitions of tables that had been seen before. A statement that is not shared has a number in place of the hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct StatementId(u128);

impl StatementId {
    fn of(definition: &[u8], reading: Reading, renewals: Option<u64>) -> Self {
        let renewals = renewals.unwrap_or(u64::MAX);
        Self(digest(&[&reading.to_le_bytes(), &renewals.to_le_bytes(), definition]))
    }

    /// The name that servers know a generation of the statement by. No client can guess it, to put its own statement
    /// under it.
    pub fn name(self, generation: u64) -> Name {
        const PREFIX: &[u8] = b"howdah_";
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut name = Name::from_slice(PREFIX);
        let digit = |half: u8| DIGITS[usize::from(half & 15)];
        let mut digits = [0; 32];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.0.to_be_bytes()) {
            pair.copy_from_slice(&[digit(byte >> 4), digit(byte)]);
        }
        name.extend_from_slice(&digits);
        if generation > 0 {
            name.push(b'_');
            name.extend_from_slice(generation.to_string().as_bytes());
        }
        name
    }
}

/// The name of a statement on a server.
pub type Name = SmallVec<[u8; 64]>;

/// A definition: a text with its parameter types.
#[derive(Debug)]
pub struct Statement {
    /// The identity of the statement, of which its name on servers is made.
    pub id: StatementId,
    /// The definition as it stands in a Parse.
    pub definition: Box<[u8]>,
    /// The way in which its text is read.
    pub reading: Reading,
    /// The way in which its text is taken apart into words and literals.
    pub lexing: Lexing,
    /// The fingerprint of the statement, once it is known.
    pub fingerprint: RefCell<Option<Rc<Fingerprint>>>,
    /// What it needs to be of one shard, by a version of the map of shards.
    proof: RefCell<Option<(u64, Rc<Proved>)>>,
    /// The generation, which is counted up when servers must prepare the statement afresh.
    pub generation: Cell<u64>,
    /// The shape that servers describe this generation by, as far as it is known.
    shape: Cell<Shape>,
    /// The types of parameters that servers have described it by, each by its hash.
    parameters: RefCell<Vec<(u64, Box<[u8]>)>>,
    /// The number of definitions that may have changed tables and had been seen when it was prepared.
    renewals: Option<u64>,
}

/// A statement that moves with its client.
#[derive(Debug)]
pub struct Carried {
    /// The identity; none if the statement is prepared anew where it arrives.
    id: Option<StatementId>,
    generation: u64,
    definition: Box<[u8]>,
    reading: Reading,
    lexing: Lexing,
    renewals: Option<u64>,
    shape: Shape,
    parameters: Vec<(u64, Box<[u8]>)>,
}

impl Carried {
    /// A statement of which only the text is known, and how that is taken apart: it is read as its session reads when a
    /// server prepares it next.
    pub fn anew(definition: Box<[u8]>, lexing: Lexing, shape: Shape) -> Self {
        let parameters = Vec::new();
        Self { id: None, generation: 0, definition, reading: UNCLEAR, lexing, renewals: None, shape, parameters }
    }

    /// The shape that its client was told.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The definition as it stands in a Parse.
    pub fn definition(&self) -> &[u8] {
        &self.definition
    }

    /// The way in which its text is taken apart.
    pub fn lexing(&self) -> Lexing {
        self.lexing
    }
}

impl Statement {
    /// The name that servers know the statement by.
    pub fn name(&self) -> Name {
        self.id.name(self.generation.get())
    }

    /// Makes servers prepare the statement afresh, by another name.
    pub fn renew(&self) {
        self.generation.set(self.generation.get() + 1);
        self.shape.set(Shape::default());
    }

    /// Notes that a generation has been prepared elsewhere, which is newer than the one known here, if it is.
    pub fn is_at_least(&self, generation: u64) {
        if self.generation.get() < generation {
            self.generation.set(generation);
            self.shape.set(Shape::default());
        }
    }

    /// Notes the shape by which a server describes its copy of the current generation. If another server has described
    /// another, one of the copies is of before a change of tables: all servers prepare the statement afresh.
    pub fn described(&self, shape: Shape) {
        if self.shape.get().differs(shape) {
            self.renew();
        } else {
            self.shape.set(self.shape.get().with(shape));
        }
    }

    /// Notes the ParameterDescription of this hash.
    pub fn is_of_parameters(&self, hash: u64, types: &[u8]) {
        let mut parameters = self.parameters.borrow_mut();
        if parameters.iter().all(|(known, _)| *known != hash) {
            parameters.push((hash, types.into()));
        }
    }

    /// The definition with the types of parameters of this hash named in it, if they are known and it has others or none.
    pub fn with_parameters(&self, hash: u64) -> Option<Vec<u8>> {
        let parameters = self.parameters.borrow();
        let (_, types) = parameters.iter().find(|(known, _)| *known == hash)?;
        // A Parse lists types as a ParameterDescription does.
        Some([self.text(), b"\0", types].concat()).filter(|typed| **typed != *self.definition)
    }

    /// The statement as it moves with the client that was told this shape of it.
    pub fn carry(&self, shape: Shape) -> Carried {
        let &Self { id, reading, lexing, renewals, .. } = self;
        let (definition, generation) = (self.definition.clone(), self.generation.get());
        let parameters = self.parameters.borrow().clone();
        Carried { id: Some(id), generation, definition, reading, lexing, renewals, shape, parameters }
    }

    /// What it needs to be of one shard, if that is known for this version of the map.
    pub fn proof_by(&self, version: u64) -> Option<Rc<Proved>> {
        self.proof.borrow().as_ref().filter(|(of, _)| *of == version).map(|(_, proof)| proof.clone())
    }

    /// Remembers what it needs to be of one shard.
    pub fn remember_proof(&self, version: u64, proof: Rc<Proved>) {
        *self.proof.borrow_mut() = Some((version, proof));
    }

    /// The text of the statement.
    pub fn text(&self) -> &[u8] {
        self.definition.split(|&byte| byte == 0).next().unwrap_or_default()
    }

    /// Whether clients share the statement.
    pub fn is_shared(&self) -> bool {
        self.reading != UNCLEAR
    }

    /// The class of the statement, if it is known.
    pub fn verdict(&self) -> Option<Arc<Verdict>> {
        self.fingerprint.borrow().as_ref().map(|fingerprint| fingerprint.verdict.clone())
    }
}

/// Whether a definition gives a parameter a type that is not PostgreSQL's own.
pub fn has_users_types(definition: &[u8]) -> bool {
    const FIRST_OF_USERS: u32 = 16384;
    let Some(end) = memchr::memchr(0, definition) else { return false };
    let types = definition.get(end + 3..).unwrap_or_default();
    types.chunks_exact(4).any(|oid| oid.try_into().map(u32::from_be_bytes).is_ok_and(|oid| oid >= FIRST_OF_USERS))
}

/// Whether a text has a literal that PostgreSQL reads as of the moment at which it analyses the text (`'now'`,
/// `'today'`): a client that prepares it later means a later moment, and cannot share it. If a quote may be escaped,
/// any of these words counts; so does any literal that may spell one in escapes or in parts.
fn has_moment(text: &[u8]) -> bool {
    const WORDS: [&[u8]; 4] = [b"now", b"today", b"tomorrow", b"yesterday"];
    let dollar_quotes = |pair: &[u8]| matches!(pair, [b'$', next] if !next.is_ascii_digit());
    let anywhere = text.contains(&b'\\') || text.windows(2).any(dollar_quotes);
    if !anywhere && !text.contains(&b'\'') {
        return false;
    }
    if is_spelled_out(text) {
        return true;
    }
    let literals = text.split(|&byte| byte == b'\'').enumerate().filter(|(place, _)| anywhere || place % 2 == 1);
    let mut words = literals.flat_map(|(_, literal)| literal.split(|byte| !byte.is_ascii_alphabetic()));
    words.any(|word| WORDS.iter().any(|moment| word.eq_ignore_ascii_case(moment)))
}

/// Whether a literal of a text may be spelled in escapes (`E'n\x6fw'`, `U&'n\006fw'`) or in parts, a line apart.
fn is_spelled_out(text: &[u8]) -> bool {
    let escapes = text.contains(&b'\\');
    let prefixed = |pair: &[u8]| match pair {
        [b'e' | b'E', b'\''] => escapes,
        pair => pair == b"&'",
    };
    let continues = |(place, _): (usize, &u8)| {
        let rest = text.get(place + 1..).unwrap_or_default();
        // A vertical tab too.
        let blank = rest.iter().take_while(|byte| byte.is_ascii_whitespace() || **byte == 0x0b).count();
        let (blank, next) = rest.split_at(blank);
        blank.iter().any(|byte| matches!(byte, b'\n' | b'\r')) && next.first() == Some(&b'\'')
            || next.starts_with(b"--")
    };
    text.windows(2).any(prefixed) || text.iter().enumerate().filter(|(_, byte)| **byte == b'\'').any(continues)
}

/// The weight of a statement: 1 for a short one, more by the memory of its text.
fn weight(statement: &Statement) -> usize {
    1 + statement.definition.len() / 8192
}

/// All definitions that clients of one pool have under names.
#[derive(Debug)]
pub struct Statements {
    by_id: HashMap<StatementId, Rc<Statement>, BuildHasherDefault<Same>>,
    /// The number of the last statement that is not shared.
    last: u128,
    /// The weight of the statements ([`weight`]), and the weight from which on those that no client has are looked for.
    weight: usize,
    sweep_at: usize,
    renewals: Option<u64>,
}

impl Default for Statements {
    fn default() -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        // Each worker counts from a number of its own, so the workers need not agree on each number.
        let first = digest(&[&COUNT.fetch_add(1, Ordering::Relaxed).to_le_bytes()]);
        Self { by_id: HashMap::default(), last: first, weight: 0, sweep_at: 0, renewals: None }
    }
}

impl Statements {
    /// The statement of this definition, shared with all clients that use the same and read it alike.
    pub fn share(&mut self, definition: &[u8], reading: Reading, lexing: Lexing) -> Rc<Statement> {
        if reading == UNCLEAR {
            return Rc::new(self.make(definition, lexing));
        }
        let id = StatementId::of(definition, reading, self.renewals);
        if let Some(known) = self.by_id.get(&id) {
            return known.clone();
        }
        if has_moment(definition) {
            return Rc::new(self.make(definition, lexing));
        }
        let statement = Statement { id, reading, ..self.make(definition, lexing) };
        self.insert(statement)
    }

    fn insert(&mut self, statement: Statement) -> Rc<Statement> {
        if self.weight >= self.sweep_at.max(1000) {
            self.sweep();
        }
        self.weight += weight(&statement);
        let statement = Rc::new(statement);
        self.by_id.insert(statement.id, statement.clone());
        statement
    }

    /// Notes the number of definitions that may have changed tables: a statement that is prepared from now on is not
    /// shared with clients that have prepared the same before the last of these.
    pub fn renew(&mut self, renewals: Option<u64>) {
        if self.renewals != renewals {
            self.renewals = renewals;
            self.sweep();
        }
    }

    /// Forgets the statements that no client has.
    fn sweep(&mut self) {
        self.by_id.retain(|_, statement| Rc::strong_count(statement) > 1);
        self.weight = self.by_id.values().map(|statement| weight(statement)).sum();
        self.sweep_at = self.weight * 2;
    }

    /// A statement that is not shared.
    fn make(&mut self, definition: &[u8], lexing: Lexing) -> Statement {
        self.last = self.last.wrapping_add(1);
        Statement {
            id: StatementId(self.last),
            definition: definition.into(),
            reading: UNCLEAR,
            lexing,
            fingerprint: RefCell::new(None),
            proof: RefCell::new(None),
            generation: Cell::new(0),
            shape: Cell::default(),
            parameters: RefCell::default(),
            renewals: self.renewals,
        }
    }

    /// A statement that has come with its client, shared here as it would have been there.
    pub fn adopt(&mut self, carried: Carried) -> Rc<Statement> {
        let Carried { id, generation, definition, reading, lexing, renewals, shape: _, parameters } = carried;
        let Some(id) = id else { return self.share(&definition, reading, lexing) };
        if let Some(known) = self.by_id.get(&id) {
            known.is_at_least(generation);
            parameters.iter().for_each(|(hash, types)| known.is_of_parameters(*hash, types));
            return known.clone();
        }
        let (generation, fingerprint, shape) = (Cell::new(generation), RefCell::new(None), Cell::default());
        let (parameters, proof) = (RefCell::new(parameters), RefCell::new(None));
        let statement =
            Statement { id, definition, reading, lexing, fingerprint, proof, generation, shape, parameters, renewals };
        if statement.is_shared() { self.insert(statement) } else { Rc::new(statement) }
    }

    /// The identities of the statements.
    pub fn ids(&self) -> impl Iterator<Item = StatementId> {
        self.by_id.keys().copied()
    }

    /// The number of statements.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The parameter whose change makes PostgreSQL read a text anew that it has read already.
const PATH: &str = "search_path";

/// The way in which a session with these settings reads statements: one half says how literals are read, the other how
/// names are found as well.
pub fn reading(vars: &Vars, sets: &Sets, tracked: &Tracked) -> Reading {
    let (mut literals, mut path) = (String::new(), String::new());
    for (place, name) in tracked.names().enumerate() {
        if name != "application_name" {
            let text = if name == PATH { &mut path } else { &mut literals };
            text.push_str(vars.get(place).unwrap_or("\u{1}"));
            text.push('\0');
        }
    }
    sets.write_reading(|name, statement| {
        let text = if name == PATH { &mut path } else { &mut literals };
        text.push_str(statement);
        text.push('\0');
    });
    let halves = [digest(&[literals.as_bytes()]), digest(&[literals.as_bytes(), b"\x01", path.as_bytes()])];
    let reading = halves.map(|half| half & u128::from(u64::MAX));
    let reading = reading[0] << 64 | reading[1];
    if reading == UNCLEAR { 0 } else { reading }
}

/// Whether literals are read alike, whatever the search_path is.
pub fn reads_alike(one: Reading, other: Reading) -> bool {
    one >> 64 == other >> 64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn share(statements: &mut Statements, definition: &[u8], reading: Reading) -> Rc<Statement> {
        statements.share(definition, reading, Lexing::Conforming)
    }

    #[test]
    fn a_name_says_text_types_reading_and_renewals() {
        let (mut here, mut there) = (Statements::default(), Statements::default());
        let one = share(&mut here, b"SELECT $1\0\0\x01\0\0\0\x17", 7);
        assert_eq!(one.name(), share(&mut there, b"SELECT $1\0\0\x01\0\0\0\x17", 7).name());
        let mut others = vec![
            share(&mut there, b"SELECT $2\0\0\x01\0\0\0\x17", 7),
            share(&mut there, b"SELECT $1\0\0\x01\0\0\0\x14", 7),
            share(&mut there, b"SELECT $1\0\0\x01\0\0\0\x17", 8),
        ];
        for renewals in [Some(0), Some(1)] {
            there.renew(renewals);
            others.push(share(&mut there, b"SELECT $1\0\0\x01\0\0\0\x17", 7));
        }
        let mut names: Vec<_> = others.iter().chain([&one]).map(|statement| statement.name()).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 6);
        there.renew(None);
        assert_eq!(one.name(), share(&mut there, b"SELECT $1\0\0\x01\0\0\0\x17", 7).name());
    }

    #[test]
    fn the_types_that_a_server_described_are_named() {
        let (mut here, mut there) = (Statements::default(), Statements::default());
        let one = share(&mut here, b"SELECT $1\0\0\0", 7);
        one.is_of_parameters(5, b"\0\x01\0\0\0\x17");
        one.is_of_parameters(6, b"\0\x01\0\0\0\x14");
        let known = share(&mut there, b"SELECT $1\0\0\0", 7);
        for one in [&one, &there.adopt(one.carry(Shape::default())), &known] {
            assert_eq!(one.with_parameters(5).as_deref(), Some(&b"SELECT $1\0\0\x01\0\0\0\x17"[..]));
            assert_eq!(one.with_parameters(7), None);
        }
        let typed = share(&mut here, &one.with_parameters(6).unwrap(), 7);
        typed.is_of_parameters(6, b"\0\x01\0\0\0\x14");
        assert_eq!(typed.with_parameters(6), None, "it names them");
    }

    #[test]
    fn a_name_is_one_that_servers_keep_whole() {
        for (generation, length) in [(0, 39), (7, 41), (u64::MAX, 60)] {
            let name = StatementId(1 << 127 | 0xabc).name(generation);
            assert!(name.starts_with(b"howdah_80000000000000000000000000000abc"));
            assert_eq!(name.len(), length);
        }
    }

    #[test]
    fn what_is_shared_with_nobody_has_a_name_of_its_own() {
        let mut workers = [Statements::default(), Statements::default()];
        let mut names = Vec::new();
        for statements in &mut workers {
            for _ in 0..3 {
                names.push(share(statements, b"SELECT 1", UNCLEAR).name());
                names.push(share(statements, b"SELECT 'now'", 7).name());
            }
        }
        names.sort();
        names.dedup();
        assert_eq!(names.len(), 12);
    }

    #[test]
    fn a_client_that_moves_shares_with_those_who_know_the_same() {
        let (mut here, mut there) = (Statements::default(), Statements::default());
        here.renew(Some(1));
        there.renew(Some(2));
        let (old, alone) = (share(&mut here, b"SELECT 1", 7), share(&mut here, b"SELECT 1", UNCLEAR));
        old.renew();
        let arrived = there.adopt(old.carry(Shape::default()));
        assert_eq!((arrived.name(), arrived.reading), (old.name(), 7));
        assert!(Rc::ptr_eq(&arrived, &there.adopt(old.carry(Shape::default()))), "two that come from there share");
        assert!(!Rc::ptr_eq(&arrived, &share(&mut there, b"SELECT 1", 7)), "what it names may be another table by now");
        let arrived = there.adopt(alone.carry(Shape::default()));
        assert_eq!((arrived.name(), arrived.is_shared()), (alone.name(), false));
        // The statement comes back, and has been prepared afresh meanwhile.
        arrived.renew();
        assert_eq!(here.adopt(arrived.carry(Shape::default())).name(), arrived.name());
        let known = there.adopt(old.carry(Shape::default()));
        known.renew();
        assert!(Rc::ptr_eq(&old, &here.adopt(known.carry(Shape::default()))));
        assert_eq!(old.name(), known.name());
    }

    #[test]
    fn what_no_client_has_is_forgotten_and_comes_again_by_the_same_name() {
        let mut statements = Statements::default();
        let name = share(&mut statements, b"SELECT 1", 7).name();
        let kept = share(&mut statements, b"SELECT 2", 7);
        statements.renew(Some(1));
        assert_eq!(statements.len(), 1);
        statements.renew(None);
        assert_eq!(share(&mut statements, b"SELECT 1", 7).name(), name);
        assert!(Rc::ptr_eq(&kept, &share(&mut statements, b"SELECT 2", 7)));
        for number in 0..10_000 {
            share(&mut statements, format!("SELECT {number}").as_bytes(), 7);
            assert!(statements.len() <= 1000);
        }
        for number in 0..30 {
            let text = format!("SELECT {number}{}", " ".repeat(1 << 20));
            share(&mut statements, text.as_bytes(), 7);
        }
        let long = statements.by_id.values().filter(|statement| statement.definition.len() > 1 << 20).count();
        assert!(long < 10, "{long} long texts that no client has");
    }

    #[test]
    fn what_is_read_as_of_a_moment_is_found() {
        for text in [
            "SELECT 'now'",
            "SELECT $1, date ' TODAY '",
            "SELECT E'\\'', 'tomorrow'",
            "SELECT $$yesterday$$",
            "'a''now'",
            "SELECT E'n\\157w'",
            "SELECT U&'n!006fw' UESCAPE '!'",
            "SELECT 'n'\n  'ow'",
            "SELECT 'n'\n\u{b}'ow'",
            "SELECT 'n' -- a comment\n'ow'",
        ] {
            assert!(has_moment(text.as_bytes()), "{text}");
        }
        for text in [
            "SELECT 'a',\n'b'",
            "SELECT E'a' || 'b' 'c'",
            "SELECT now(), $1",
            "SELECT now(), 'unknown', 'snow'",
            "SELECT today FROM t WHERE a = 'b'",
        ] {
            assert!(!has_moment(text.as_bytes()), "{text}");
        }
    }
}
