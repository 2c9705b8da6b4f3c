//! Proofs that are remembered: statements that differ only in their literals have one.
//!
//! The literals of a statement are left out of its text as parameters of high numbers, and the proof of that text is
//! remembered. Where it is none, the text itself is proved: a literal may have stood where no parameter can.

use std::collections::HashMap;
use std::rc::Rc;

use classify::Catalog;
use classify::shape::{Shaper, Token};

use crate::map::Map;
use crate::proof::{Proof, Reason};
use crate::prover::prove;
use crate::value::Parameters;

/// The number behind which parameters stand for literals; a statement with more of its own is not followed.
const OWN: usize = 10_000;

/// The oid of bigint, as which the digits of an integer are read.
const INT8: u32 = 20;

/// A text longer than this is not parsed, which would take a tenth of a second.
const LONGEST: usize = 256 * 1024;

/// Proofs that are remembered at once, and the bytes of their texts; then all are forgotten.
const REMEMBERED: usize = 10_000;
const BYTES: usize = 8 * 1024 * 1024;

/// A literal of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Literal {
    /// Where it stands, a string without its quotes.
    from: usize,
    to: usize,
    is_string: bool,
}

/// The proof of a statement, and its literals.
#[derive(Debug, Clone)]
pub struct Proved {
    /// The proof.
    pub proof: Rc<Proof>,
    literals: Vec<Literal>,
}

impl Proved {
    /// The proof of a text that is not read.
    pub fn unread(sql: &[u8], map: &Map) -> Self {
        Self { proof: Rc::new(Proof::unread(sql, map)), literals: Vec::new() }
    }

    /// The shard of an execution of this text, as [`Proof::shard`].
    ///
    /// # Errors
    /// As [`Proof::shard`].
    pub fn shard(&self, sql: &[u8], parameters: &impl Parameters) -> Result<Option<usize>, Reason> {
        self.proof.shard(&Filled { sql, literals: &self.literals, parameters })
    }

    /// Whether an execution of this text needs a slot that is about to move.
    pub fn closes(&self, sql: &[u8], parameters: &impl Parameters) -> bool {
        self.proof.closes(&Filled { sql, literals: &self.literals, parameters })
    }
}

/// The parameters of an execution, and its literals.
struct Filled<'a, P> {
    sql: &'a [u8],
    literals: &'a [Literal],
    parameters: &'a P,
}

impl<P> Filled<'_, P> {
    fn literal(&self, number: usize) -> Option<&Literal> {
        self.literals.get(number.checked_sub(OWN + 1)?)
    }
}

impl<P: Parameters> Parameters for Filled<'_, P> {
    fn declared(&self, number: usize) -> u32 {
        match self.literal(number) {
            Some(literal) if literal.is_string => 0,
            Some(_) => INT8,
            None => self.parameters.declared(number),
        }
    }

    fn value(&self, number: usize) -> Option<(bool, Option<&[u8]>)> {
        match self.literal(number) {
            Some(literal) => Some((false, Some(self.sql.get(literal.from..literal.to)?))),
            None => self.parameters.value(number),
        }
    }

    fn is_utf8(&self) -> bool {
        self.parameters.is_utf8()
    }
}

/// The proofs of the statements of one database.
#[derive(Debug, Default)]
pub struct Memory {
    shaper: Shaper,
    /// The versions of the map and of the catalog that the proofs rest on.
    of: (u64, u64),
    proofs: HashMap<Box<str>, Rc<Proof>>,
    /// The bytes of the texts that are remembered.
    bytes: usize,
    text: String,
}

impl Memory {
    /// What a text needs to be of one shard, by this map and catalog; `version` is that of the map.
    pub fn prove(&mut self, sql: &str, (version, map): (u64, &Map), catalog: &Catalog) -> Proved {
        let of = (version, catalog.generation());
        if self.of != of || self.proofs.len() >= REMEMBERED || self.bytes > BYTES {
            self.bytes = 0;
            self.proofs.clear();
            self.of = of;
        }
        if sql.len() > LONGEST {
            return Proved::unread(sql.as_bytes(), map);
        }
        let Some(literals) = self.leave_out(sql) else {
            return Proved { proof: Rc::new(prove(sql, map, catalog)), literals: Vec::new() };
        };
        let proof = match self.proofs.get(self.text.as_str()) {
            Some(proof) => proof.clone(),
            None => {
                let proof = Rc::new(prove(&self.text, map, catalog));
                self.bytes += self.text.len();
                self.proofs.insert(self.text.as_str().into(), proof.clone());
                proof
            }
        };
        if proof.needs.is_err() && !literals.is_empty() {
            return Proved { proof: Rc::new(prove(sql, map, catalog)), literals: Vec::new() };
        }
        Proved { proof, literals }
    }

    /// Writes the text with parameters in place of its literals; gives these. None if it cannot be taken apart.
    fn leave_out(&mut self, sql: &str) -> Option<Vec<Literal>> {
        let (mut literals, mut written, mut before, mut follows) = (Vec::new(), 0, None, true);
        let text = &mut self.text;
        text.clear();
        let lexed = self.shaper.lex(sql.as_bytes(), true, |token, from, to| {
            let raw = sql.get(from..to).unwrap_or_default();
            let literal = match token {
                // Behind a word it may be of the type that the word names.
                Token::Str if before != Some(Token::Word) && before != Some(Token::Quoted) => {
                    let inner = raw.strip_prefix('\'').and_then(|raw| raw.strip_suffix('\''));
                    let plain = inner.is_some_and(|inner| !inner.contains(['\'', '\\']));
                    plain.then_some(Literal { from: from + 1, to: to.saturating_sub(1), is_string: true })
                }
                Token::Int | Token::Float if raw.bytes().all(|byte| byte.is_ascii_digit()) => {
                    Some(Literal { from, to, is_string: false })
                }
                Token::Param => {
                    follows &=
                        raw.get(1..).and_then(|number| number.parse().ok()).is_some_and(|number: usize| number <= OWN);
                    None
                }
                _ => None,
            };
            before = Some(token);
            if let Some(literal) = literal {
                literals.push(literal);
                text.push_str(sql.get(written..from).unwrap_or_default());
                text.push('$');
                text.push_str(&(OWN + literals.len()).to_string());
                written = to;
            }
        });
        text.push_str(sql.get(written..).unwrap_or_default());
        lexed.ok().filter(|_| follows).map(|_| literals)
    }
}
