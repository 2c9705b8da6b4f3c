//! Prepared statements. What a client prepares is remembered by its definition; each server connection knows some of
//! the definitions under names of ours, and is given one when a client binds it there.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use crate::shape::Shape;
use crate::touch::Touch;

/// A definition: a text with its parameter types.
#[derive(Debug)]
pub struct Statement {
    /// Its number, unlike any other's in this worker; the name on servers is made of it.
    pub id: u64,
    /// As it stands in a Parse.
    pub definition: Box<[u8]>,
    /// What its text does to a session.
    pub touch: Touch,
    /// Its shape, once that was asked for, by this `standard_conforming_strings`.
    pub shape: RefCell<Option<(bool, Rc<Shape>)>>,
    /// Counted up when servers must prepare it afresh.
    pub generation: Cell<u64>,
}

impl Statement {
    /// The name that servers know it by.
    pub fn name(&self) -> Vec<u8> {
        self.name_of(self.generation.get())
    }

    /// The name that an earlier generation of it has on servers.
    pub fn name_of(&self, generation: u64) -> Vec<u8> {
        format!("HOWDAH_{}_{generation}", self.id).into_bytes()
    }
}

/// All definitions that clients of one pool have under names.
#[derive(Debug, Default)]
pub struct Statements {
    by_definition: HashMap<Box<[u8]>, Rc<Statement>>,
    next: u64,
    sweep_at: usize,
}

impl Statements {
    /// The statement of this definition, shared with all who use the same.
    pub fn share(&mut self, definition: &[u8], query: &[u8]) -> Rc<Statement> {
        if let Some(known) = self.by_definition.get(definition) {
            return known.clone();
        }
        if self.by_definition.len() >= self.sweep_at.max(1000) {
            self.by_definition.retain(|_, statement| Rc::strong_count(statement) > 1);
            self.sweep_at = self.by_definition.len() * 2;
        }
        let statement = self.fresh(definition, query);
        self.by_definition.insert(definition.into(), statement.clone());
        statement
    }

    /// A statement that is not shared: an unnamed one.
    pub fn fresh(&mut self, definition: &[u8], query: &[u8]) -> Rc<Statement> {
        self.next += 1;
        Rc::new(Statement {
            id: self.next,
            definition: definition.into(),
            touch: Touch::of(query),
            shape: RefCell::new(None),
            generation: Cell::new(0),
        })
    }

    /// How many are known.
    pub fn len(&self) -> usize {
        self.by_definition.len()
    }
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

    /// Notes that it is being prepared; gives one that must be closed to keep within `limit`, and its generation there.
    pub fn add(&mut self, statement: &Rc<Statement>, limit: usize) -> Option<(Rc<Statement>, u64)> {
        self.clock += 1;
        let entry = (statement.clone(), statement.generation.get(), self.clock);
        self.by_id.insert(statement.id, entry);
        if self.by_id.len() <= limit {
            return None;
        }
        let oldest = self.by_id.iter().min_by_key(|(_, (_, _, used))| *used).map(|(&id, _)| id)?;
        self.by_id.remove(&oldest).map(|(statement, generation, _)| (statement, generation))
    }

    /// Forgets one: it was not prepared after all.
    pub fn remove(&mut self, statement: &Statement) {
        self.by_id.remove(&statement.id);
    }

    /// Notes that the server knows this generation of it still.
    pub fn restore(&mut self, statement: &Rc<Statement>, generation: u64) {
        self.by_id.entry(statement.id).or_insert_with(|| (statement.clone(), generation, 0));
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.by_id.clear();
    }

    /// How many it knows.
    pub fn len(&self) -> usize {
        self.by_id.len()
    }
}
