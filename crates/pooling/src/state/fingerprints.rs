//! A worker's knowledge of the statements of a database: their fingerprints, as long as they are used.

use std::collections::HashMap;
use std::hash::BuildHasherDefault;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Instant;

use crate::model::fingerprint::Fingerprint;
use crate::model::lexing::Lexing;
use classify::{Classifier, Reason, Same};
use sharding::{Memory, Proved};

use crate::catalog::Knowledge;
use crate::catalog::shard_map::Version;

/// Fingerprints that are remembered for one database.
const REMEMBERED: usize = 10_000;

/// A worker's knowledge of the statements of one database.
#[derive(Debug)]
pub struct Fingerprints {
    knowledge: Arc<Knowledge>,
    /// The number of the catalog that statements are judged by.
    number: u64,
    classifier: Classifier,
    by_key: HashMap<u128, Rc<Fingerprint>, BuildHasherDefault<Same>>,
    /// What statements need to be of one shard.
    proofs: Memory,
}

impl Fingerprints {
    /// An empty memory: without a catalog no statement is a read.
    pub fn new(knowledge: Arc<Knowledge>) -> Self {
        Self {
            knowledge,
            number: 0,
            classifier: Classifier::new(REMEMBERED),
            by_key: HashMap::default(),
            proofs: Memory::default(),
        }
    }

    /// The map of the shards of the database, if it is in force.
    pub fn shard_map(&self, now: Instant) -> Option<Arc<Version>> {
        self.knowledge.shard_map.want();
        self.knowledge.shard_map.in_force(now).filter(|_| self.classifier.catalog().is_loaded())
    }

    /// What a text needs to be of one shard.
    pub fn prove(&mut self, sql: &str, version: &Version) -> Proved {
        self.proofs.prove(sql, (version.number, &version.map), self.classifier.catalog())
    }

    /// The knowledge that all workers share.
    pub fn knowledge(&self) -> &Arc<Knowledge> {
        &self.knowledge
    }

    /// Takes the last catalog; a statement that was judged by another catalog is judged again at its next use.
    pub fn refresh(&mut self, now: Instant) {
        self.knowledge.touch(now);
        let number = self.knowledge.number();
        if number != self.number {
            // Read first: a catalog that is posted in between is only taken twice.
            self.number = number;
            self.classifier.set_catalog(self.knowledge.catalog());
        }
    }

    /// Counts the catalogs that have been read.
    pub fn generation(&self) -> u64 {
        self.classifier.catalog().generation()
    }

    /// The fingerprint of this key, if it is remembered.
    pub fn of_key(&self, key: u128) -> Option<&Fingerprint> {
        self.by_key.get(&key).map(Rc::as_ref)
    }

    /// The fingerprint of a statement; `typed` if its Parse gives parameters types of users, by their numbers.
    pub fn fingerprint(&mut self, sql: &[u8], lexing: Lexing, typed: bool) -> Rc<Fingerprint> {
        let acts = typed && self.classifier.catalog().has_acting_types();
        let verdict = match lexing {
            _ if acts => self.classifier.opaque(sql, Reason::VolatileFunction("a parameter's type".to_owned())),
            Lexing::Unclear => self.classifier.opaque(sql, Reason::Encoding),
            lexing => self.classifier.classify(sql, lexing == Lexing::Conforming),
        };
        let known = verdict.shape.and_then(|key| self.by_key.get(&key));
        if let Some(fingerprint) = known
            && Arc::ptr_eq(&fingerprint.verdict, verdict)
        {
            return fingerprint.clone();
        }
        if verdict.stale {
            self.knowledge.want();
        }
        let fingerprint = Rc::new(Fingerprint::new(verdict.clone(), known.map(Rc::as_ref)));
        if let Some(key) = verdict.shape {
            if self.by_key.len() >= REMEMBERED {
                // Fingerprints that no client has prepared are made again if they are used again.
                self.by_key.retain(|_, fingerprint| Rc::strong_count(fingerprint) > 1);
            }
            if self.by_key.len() < REMEMBERED {
                self.by_key.insert(key, fingerprint.clone());
            }
        }
        fingerprint
    }
}
