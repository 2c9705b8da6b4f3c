//! Verdicts by shape, remembered within a bound.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use crate::catalog::Catalog;
use crate::normalized::Normalized;
use crate::shape::{Refusal, Shaper};
use crate::verdict::{Kind, Reason, Verdict};
use crate::{command, parse, statement};

/// Judges statements for the clients of one database; one for each worker.
#[derive(Debug)]
pub struct Classifier {
    catalog: Arc<Catalog>,
    shaper: Shaper,
    places: HashMap<u128, usize, BuildHasherDefault<Same>>,
    slots: Vec<Slot>,
    limit: usize,
    hand: usize,
    /// The verdict on a statement without a shape.
    odd: Arc<Verdict>,
    parsed: u64,
}

#[derive(Debug)]
struct Slot {
    key: u128,
    used: bool,
    verdict: Arc<Verdict>,
}

/// Hashes keys that are hashes already.
#[derive(Debug, Default)]
pub struct Same(u64);

impl Hasher for Same {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(byte);
        }
    }

    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}

impl Classifier {
    /// Remembers up to `limit` shapes (at least one); a shape costs about 400 bytes and its text. Until [`Classifier::set_catalog`]
    /// no query is known to be a read.
    pub fn new(limit: usize) -> Self {
        let catalog = Arc::new(Catalog::default());
        let odd = Arc::new(statement::opaque(b"", Reason::CatalogNotLoaded, &catalog));
        Self {
            catalog,
            shaper: Shaper::default(),
            places: HashMap::default(),
            slots: Vec::new(),
            limit: limit.max(1),
            hand: 0,
            odd,
            parsed: 0,
        }
    }

    /// Judges by another catalog from now on; what was judged by the last is judged again when it is seen again.
    pub fn set_catalog(&mut self, catalog: Arc<Catalog>) {
        self.catalog = catalog;
    }

    /// The catalog that it judges by.
    pub fn catalog(&self) -> &Arc<Catalog> {
        &self.catalog
    }

    /// How many statements had to be parsed so far.
    pub fn parsed(&self) -> u64 {
        self.parsed
    }

    /// The verdict on a statement, or on several in one text. `scs` is the session's `standard_conforming_strings`.
    /// The client's encoding must be one for which [`crate::lexable_encoding`] holds; [`Classifier::opaque`] is for
    /// the others.
    pub fn classify(&mut self, sql: &[u8], scs: bool) -> &Arc<Verdict> {
        let shape = match self.shaper.shape(sql, scs) {
            Ok(shape) => shape,
            Err(refusal) => {
                let reason = match refusal {
                    Refusal::Unlexable => Reason::Unlexable,
                    Refusal::TooLong => Reason::TooLong,
                    Refusal::TooDeep => Reason::TooDeep,
                };
                let mut verdict = statement::opaque(sql, reason, &self.catalog);
                verdict.route = self.shaper.route();
                self.odd = Arc::new(verdict);
                return &self.odd;
            }
        };
        if !shape.canonical {
            self.parsed += 1;
            let mut verdict = match judge_text(sql, scs, &self.catalog) {
                Ok(verdict) => verdict,
                Err(reason) => statement::opaque(sql, reason, &self.catalog),
            };
            verdict.route = shape.route;
            self.odd = Arc::new(verdict);
            return &self.odd;
        }
        if let Some(&place) = self.places.get(&shape.key)
            && let Some(slot) = self.slots.get_mut(place)
        {
            slot.used = true;
            if slot.verdict.generation == self.catalog.generation() {
                // Looked up again, since the borrow checker does not yet see that a returned borrow ends the function.
                return self.slots.get(place).map_or(&self.odd, |slot| &slot.verdict);
            }
        }
        self.parsed += 1;
        let canonical = self.shaper.canonical();
        let judged = match judge(canonical, &self.catalog) {
            // Left out too much of a list, perhaps.
            Err(Reason::Unparsable) if shape.collapsed => judge_text(sql, scs, &self.catalog),
            judged => judged,
        };
        // What is no statement may be anything, such as a password in the wrong place.
        let normalized = judged.is_ok().then(|| Arc::new(Normalized::of(canonical)));
        let mut verdict = judged.unwrap_or_else(|reason| statement::opaque(canonical, reason, &self.catalog));
        verdict.route = shape.route;
        verdict.shape = Some(shape.key);
        verdict.normalized = normalized;
        let verdict = Arc::new(verdict);
        let place = self.place(shape.key);
        match self.slots.get_mut(place) {
            Some(slot) => *slot = Slot { key: shape.key, used: true, verdict },
            None => self.slots.push(Slot { key: shape.key, used: true, verdict }),
        }
        self.places.insert(shape.key, place);
        self.slots.get(place).map_or(&self.odd, |slot| &slot.verdict)
    }

    /// The verdict on a text that is not to be judged: a write that may do anything that its words allow.
    pub fn opaque(&mut self, sql: &[u8], reason: Reason) -> &Arc<Verdict> {
        self.odd = Arc::new(statement::opaque(sql, reason, &self.catalog));
        &self.odd
    }

    /// The verdict by parsing the text itself, without its shape and without remembering it: what
    /// [`Classifier::classify`] is compared with.
    pub fn in_full(&self, sql: &[u8], scs: bool) -> Verdict {
        let mut verdict =
            judge_text(sql, scs, &self.catalog).unwrap_or_else(|reason| statement::opaque(sql, reason, &self.catalog));
        verdict.route = Shaper::default().shape(sql, scs).ok().and_then(|shape| shape.route);
        verdict
    }

    /// How many shapes are remembered.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Where a shape goes: its own place, a new one, or that of one not used since the hand last passed.
    fn place(&mut self, key: u128) -> usize {
        if let Some(&place) = self.places.get(&key) {
            return place;
        }
        if self.slots.len() < self.limit {
            return self.slots.len();
        }
        loop {
            let place = self.hand;
            self.hand = (self.hand + 1) % self.slots.len();
            let Some(slot) = self.slots.get_mut(place) else { return place };
            if !std::mem::take(&mut slot.used) {
                self.places.remove(&slot.key);
                return place;
            }
        }
    }
}

/// The verdict on canonical text.
fn judge(canonical: &[u8], catalog: &Catalog) -> Result<Verdict, Reason> {
    let text = std::str::from_utf8(canonical).map_err(|_| Reason::Encoding)?;
    if let Some(command) = command::command(text) {
        let verdict = statement::verdict(&[], catalog);
        return Ok(Verdict {
            kind: Kind::Pooler(command),
            statements: 1,
            read_only: false,
            pipelinable: Err(Reason::Utility),
            ..verdict
        });
    }
    Ok(statement::verdict(&parse(text)?, catalog))
}

/// The verdict on a text as it is.
fn judge_text(sql: &[u8], scs: bool, catalog: &Catalog) -> Result<Verdict, Reason> {
    if !scs && sql.contains(&b'\\') {
        // The parser would read the strings another way than the server.
        return Err(Reason::Unlexable);
    }
    if sql.len() > crate::shape::MAX_CANONICAL {
        return Err(Reason::TooLong);
    }
    let text = std::str::from_utf8(sql).map_err(|_| Reason::Encoding)?;
    Ok(statement::verdict(&parse(text)?, catalog))
}
