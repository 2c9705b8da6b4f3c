//! The portals of a client, by name.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::rc::Rc;

use crate::model::held::Held;
use crate::model::shape::Fit;
use crate::model::statement::Statement;

/// The most portals with names that a client may have bound in units that are not answered.
const MOST: usize = 1000;

/// The length to which PostgreSQL cuts the name of a portal.
const NAME: usize = 63;

/// A portal that a client has bound.
#[derive(Debug)]
pub struct Portal {
    /// Its statement as the client has it, and as the server has it, if that is known.
    pub of: Option<(Rc<Held>, Rc<Statement>)>,
    /// Whether its rows have the columns that the client was told.
    pub fit: Fit,
    /// The number of the server's copy of the statement ([`ServerCopy`](crate::model::known::ServerCopy)).
    pub copy: u64,
    /// The number of the request that has bound it ([`Requests::next`](crate::model::requests::Requests::next)).
    pub bound: u64,
}

impl Portal {
    /// Notes that the portal is this other one, or stays as it was.
    fn may_be(&mut self, other: Self) {
        let both = self.of.as_ref().zip(other.of.as_ref());
        if !both.is_some_and(|((_, one), (_, two))| Rc::ptr_eq(one, two)) {
            self.of = None;
        }
        if self.fit != Fit::Columns {
            (self.fit, self.copy) = (other.fit, other.copy);
        }
        self.bound = other.bound;
    }
}

/// The portals that a client has bound in the open transaction.
#[derive(Debug, Default)]
pub struct Portals {
    /// The portal without a name, which nearly all units use.
    unnamed: Option<Portal>,
    named: BTreeMap<Box<[u8]>, Portal>,
}

/// The name as PostgreSQL knows it.
fn cut(name: &[u8]) -> &[u8] {
    name.get(..NAME).unwrap_or(name)
}

impl Portals {
    /// Notes that a portal is being bound. PostgreSQL refuses a name that is taken, and then the portal before stays; in a
    /// transaction that portal may have gone, with a savepoint or by SQL's CLOSE. So what is true of either is assumed.
    pub fn insert(&mut self, name: &[u8], portal: Portal) {
        match cut(name) {
            [] => self.unnamed = Some(portal),
            name => match self.named.entry(name.into()) {
                Entry::Vacant(place) => drop(place.insert(portal)),
                Entry::Occupied(mut before) => before.get_mut().may_be(portal),
            },
        }
    }

    /// Whether a name may be taken, while not all is answered that was bound before; a new one too if there are many.
    pub fn may_be_taken(&self, name: &[u8]) -> bool {
        !name.is_empty() && (self.named.len() >= MOST || self.named.contains_key(cut(name)))
    }

    /// Notes that a portal has been closed.
    pub fn remove(&mut self, name: &[u8]) {
        match cut(name) {
            [] => self.unnamed = None,
            name => drop(self.named.remove(name)),
        }
    }

    /// The statement of a portal, if that is known.
    pub fn statement(&self, name: &[u8]) -> Option<&Rc<Statement>> {
        let portal = match cut(name) {
            [] => self.unnamed.as_ref(),
            name => self.named.get(name),
        };
        portal?.of.as_ref().map(|(_, statement)| statement)
    }

    /// The portal of this name.
    pub fn get_mut(&mut self, name: &[u8]) -> Option<&mut Portal> {
        match cut(name) {
            [] => self.unnamed.as_mut(),
            name => self.named.get_mut(name),
        }
    }

    /// Whether the rows of a portal may have other columns than the client was told.
    pub fn may_be_misread(&mut self, name: &[u8]) -> bool {
        self.get_mut(name).is_some_and(|portal| portal.fit == Fit::Columns)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.unnamed.is_none() && self.named.is_empty()
    }

    /// Forgets the portals of a transaction that has ended: those that were bound by the requests up to this number.
    pub fn transaction_ended(&mut self, answered: u64) {
        self.unnamed = self.unnamed.take().filter(|portal| portal.bound > answered);
        self.named.retain(|_, portal| portal.bound > answered);
    }

    /// Forgets all of them: none is left on the server, and none is being bound.
    pub fn clear(&mut self) {
        self.unnamed = None;
        self.named.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn portal(fit: Fit) -> Portal {
        Portal { of: None, fit, copy: 0, bound: 1 }
    }

    #[test]
    fn the_end_of_a_transaction_ends_the_portals_that_were_bound_before_it() {
        let mut portals = Portals::default();
        portals.insert(b"p", portal(Fit::Same));
        portals.insert(b"", portal(Fit::Same));
        portals.insert(b"q", Portal { bound: 5, ..portal(Fit::Same) });
        portals.transaction_ended(4);
        assert!(!portals.may_be_taken(b"p") && portals.may_be_taken(b"q") && portals.get_mut(b"").is_none());
        portals.transaction_ended(5);
        assert!(portals.is_empty());
    }

    #[test]
    fn a_portal_of_a_taken_name_may_be_either() {
        let mut portals = Portals::default();
        portals.insert(b"p", portal(Fit::Columns));
        assert!(portals.may_be_taken(b"p") && !portals.may_be_taken(b"q") && !portals.may_be_taken(b""));
        portals.insert(b"p", portal(Fit::Same));
        assert!(portals.may_be_misread(b"p"), "PostgreSQL refuses the second");
        portals.remove(b"p");
        portals.insert(b"p", portal(Fit::Same));
        assert!(!portals.may_be_misread(b"p"));
        portals.insert(b"", portal(Fit::Columns));
        portals.insert(b"", portal(Fit::Same));
        assert!(!portals.may_be_misread(b""), "a portal without a name is replaced");
    }

    #[test]
    fn names_are_cut_as_by_postgresql() {
        let mut portals = Portals::default();
        portals.insert(&[b'x'; 70], portal(Fit::Columns));
        assert!(portals.may_be_misread(&[b'x'; NAME]));
        assert!(!portals.may_be_misread(&[b'x'; NAME - 1]));
    }

    #[test]
    fn behind_many_portals_a_new_one_waits() {
        let mut portals = Portals::default();
        for number in 0..MOST {
            assert!(!portals.may_be_taken(number.to_string().as_bytes()));
            portals.insert(number.to_string().as_bytes(), portal(Fit::Same));
        }
        assert!(portals.may_be_taken(b"another"));
        portals.clear();
        assert!(!portals.may_be_taken(b"1") && portals.is_empty());
    }
}
