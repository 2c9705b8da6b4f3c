//! The portals of a client, by name.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::model::statement::Statement;

/// The most portals that are remembered beyond their units, however long a client pipelines.
const MOST: usize = 1000;

/// The portals that a client has bound in the open transaction, each with its statement, if that is known.
#[derive(Debug, Default)]
pub struct Portals {
    /// The portal without a name, which nearly all units use.
    unnamed: Option<Option<Rc<Statement>>>,
    named: BTreeMap<Box<[u8]>, Option<Rc<Statement>>>,
}

impl Portals {
    /// Notes that a portal has been bound.
    pub fn insert(&mut self, name: &[u8], statement: Option<Rc<Statement>>) {
        match name {
            [] => self.unnamed = Some(statement),
            name => drop(self.named.insert(name.into(), statement)),
        }
    }

    /// Notes that a portal has been closed.
    pub fn remove(&mut self, name: &[u8]) {
        match name {
            [] => self.unnamed = None,
            name => drop(self.named.remove(name)),
        }
    }

    /// The statement of a portal, if that is known.
    pub fn statement(&self, name: &[u8]) -> Option<&Rc<Statement>> {
        match name {
            [] => self.unnamed.as_ref()?.as_ref(),
            name => self.named.get(name)?.as_ref(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.unnamed.is_none() && self.named.is_empty()
    }

    /// Forgets all of them.
    pub fn clear(&mut self) {
        self.unnamed = None;
        self.named.clear();
    }

    /// Forgets the portals of a transaction that has ended, unless a Bind of the next unit is on its way already.
    pub fn transaction_ended(&mut self, last: bool) {
        if last || self.named.len() > MOST {
            self.clear();
        }
    }
}
