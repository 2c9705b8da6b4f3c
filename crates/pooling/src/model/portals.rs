//! The portals of a client, by name.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::model::held::Held;
use crate::model::shape::Fit;
use crate::model::statement::Statement;

/// The most portals that are remembered beyond their units, however long a client pipelines.
const MOST: usize = 1000;

/// A portal that a client has bound.
#[derive(Debug)]
pub struct Portal {
    /// Its statement as the client has it, and as the server has it, if that is known.
    pub of: Option<(Rc<Held>, Rc<Statement>)>,
    /// Whether its rows have the columns that the client was told.
    pub fit: Fit,
    /// The number of the server's copy of the statement ([`ServerCopy`](crate::model::known::ServerCopy)).
    pub copy: u64,
}

/// The portals that a client has bound in the open transaction.
#[derive(Debug, Default)]
pub struct Portals {
    /// The portal without a name, which nearly all units use.
    unnamed: Option<Portal>,
    named: BTreeMap<Box<[u8]>, Portal>,
}

impl Portals {
    /// Notes that a portal has been bound.
    pub fn insert(&mut self, name: &[u8], portal: Portal) {
        match name {
            [] => self.unnamed = Some(portal),
            name => drop(self.named.insert(name.into(), portal)),
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
        let portal = match name {
            [] => self.unnamed.as_ref(),
            name => self.named.get(name),
        };
        portal?.of.as_ref().map(|(_, statement)| statement)
    }

    /// The portal of this name.
    pub fn get_mut(&mut self, name: &[u8]) -> Option<&mut Portal> {
        match name {
            [] => self.unnamed.as_mut(),
            name => self.named.get_mut(name),
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
