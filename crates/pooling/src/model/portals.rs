//! The portals of a client, by name.

use std::collections::BTreeMap;
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
    /// How many Binds had been sent with its own ([`Requests::bound`](crate::model::requests::Requests::bound)).
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
    /// The first portal without a name whose rows the client would misread: it stays if a Bind behind it fails.
    misread: Option<Portal>,
    named: BTreeMap<Box<[u8]>, Named>,
}

/// A portal with a name.
#[derive(Debug)]
struct Named {
    portal: Portal,
    /// Whether a Close of it has been sent, which may be skipped behind an error.
    closes: bool,
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
            [] => {
                let before = self.unnamed.replace(portal);
                self.misread = self.misread.take().or(before.filter(|before| before.fit == Fit::Columns));
            }
            name => match self.named.get_mut(name).filter(|before| !before.closes) {
                Some(before) => before.portal.may_be(portal),
                None => drop(self.named.insert(name.into(), Named { portal, closes: false })),
            },
        }
    }

    /// Whether a name may be taken, while not all is answered that was bound before; a new one too if there are many.
    pub fn may_be_taken(&self, name: &[u8]) -> bool {
        let is_taken = |named: &Named| !named.closes;
        !name.is_empty() && (self.named.len() >= MOST || self.named.get(cut(name)).is_some_and(is_taken))
    }

    /// Notes that a portal is being closed. A Close may be skipped: a portal whose rows the client would misread stays
    /// known.
    pub fn close(&mut self, name: &[u8]) {
        match cut(name) {
            [] if self.may_be_misread(name) => (),
            [] => self.unnamed = None,
            name => match self.named.get_mut(name) {
                Some(named) if named.portal.fit == Fit::Columns => named.closes = true,
                _ => drop(self.named.remove(name)),
            },
        }
    }

    /// Notes that a Bind has failed or was skipped, one of the first `answered`: the portal without a name is the one
    /// before it, if it was that Bind's.
    pub fn bind_failed(&mut self, answered: u64) {
        if self.unnamed.as_ref().is_some_and(|portal| portal.bound <= answered) && self.misread.is_some() {
            self.unnamed = self.misread.take();
        }
    }

    /// The statement of a portal, if that is known.
    pub fn statement(&self, name: &[u8]) -> Option<&Rc<Statement>> {
        let portal = match cut(name) {
            [] => self.unnamed.as_ref(),
            name => self.named.get(name).map(|named| &named.portal),
        };
        portal?.of.as_ref().map(|(_, statement)| statement)
    }

    /// The portal of this name.
    pub fn get_mut(&mut self, name: &[u8]) -> Option<&mut Portal> {
        match cut(name) {
            [] => self.unnamed.as_mut(),
            name => self.named.get_mut(name).map(|named| &mut named.portal),
        }
    }

    /// Whether the rows of a portal may have other columns than the client was told.
    pub fn may_be_misread(&mut self, name: &[u8]) -> bool {
        self.get_mut(name).is_some_and(|portal| portal.fit == Fit::Columns)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.unnamed.is_none() && self.misread.is_none() && self.named.is_empty()
    }

    /// Forgets the portals of a transaction that has ended: those of the first Binds, so many as `answered`.
    pub fn transaction_ended(&mut self, answered: u64) {
        let stays = |portal: &Portal| portal.bound > answered;
        self.unnamed = self.unnamed.take().filter(stays);
        self.misread = self.misread.take().filter(stays);
        self.named.retain(|_, named| stays(&named.portal));
    }

    /// Forgets all of them: none is left on the server, and none is being bound.
    pub fn clear(&mut self) {
        *self = Self::default();
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
        portals.close(b"p");
        portals.insert(b"p", portal(Fit::Same));
        assert!(!portals.may_be_misread(b"p"));
        portals.insert(b"", portal(Fit::Columns));
        portals.insert(b"", portal(Fit::Same));
        assert!(!portals.may_be_misread(b""), "a portal without a name is replaced");
    }

    #[test]
    fn what_an_error_undoes_leaves_the_portal_before() {
        let bound = |fit, bound| Portal { bound, ..portal(fit) };
        let mut portals = Portals::default();
        portals.insert(b"", bound(Fit::Columns, 1));
        portals.insert(b"", bound(Fit::Same, 2));
        portals.bind_failed(1);
        assert!(!portals.may_be_misread(b""), "that Bind may still succeed");
        portals.bind_failed(2);
        assert!(portals.may_be_misread(b""), "the second Bind has bound nothing");
        portals.insert(b"p", bound(Fit::Columns, 3));
        portals.close(b"p");
        portals.close(b"");
        assert!(portals.may_be_misread(b"p") && portals.may_be_misread(b""), "the Closes may be skipped");
        assert!(!portals.may_be_taken(b"p"), "or close them");
        portals.insert(b"p", bound(Fit::Same, 4));
        assert!(!portals.may_be_misread(b"p"));
        portals.transaction_ended(4);
        assert!(portals.is_empty());
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
