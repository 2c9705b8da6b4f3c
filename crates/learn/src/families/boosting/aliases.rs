//! Hyperparameters with several names, as LightGBM and CatBoost have them.

use crate::Error;
use crate::family::{Given, Kind, Parameter};

/// A hyperparameter and its other names.
#[derive(Clone, Copy)]
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) aliases: &'static [&'static str],
    pub(crate) kind: Kind,
    pub(crate) default: &'static str,
    pub(crate) about: &'static str,
}

pub(crate) const fn row(
    name: &'static str,
    aliases: &'static [&'static str],
    kind: Kind,
    default: &'static str,
    about: &'static str,
) -> Row {
    Row { name, aliases, kind, default, about }
}

/// How many names these have.
pub(crate) const fn count(table: &[Row]) -> usize {
    let (mut count, mut index) = (0, 0);
    while index < table.len() {
        count += 1 + table[index].aliases.len();
        index += 1;
    }
    count
}

/// One parameter for each name and alias; the parameters of `first` come first. Only the first name has the default.
pub(crate) const fn names<const NAMES: usize>(first: Option<Row>, table: &[Row]) -> [Parameter; NAMES] {
    let mut all = [Parameter { name: "", kind: Kind::Ignored, default: "null", about: "" }; NAMES];
    let mut next = 0;
    if let Some(row) = first {
        next = put(&mut all, next, row);
    }
    let mut index = 0;
    while index < table.len() {
        next = put(&mut all, next, table[index]);
        index += 1;
    }
    all
}

const fn put(all: &mut [Parameter], next: usize, row: Row) -> usize {
    all[next] = Parameter { name: row.name, kind: row.kind, default: row.default, about: row.about };
    let mut alias = 0;
    while alias < row.aliases.len() {
        let name = row.aliases[alias];
        all[next + 1 + alias] = Parameter { name, kind: row.kind, default: "null", about: row.about };
        alias += 1;
    }
    next + 1 + row.aliases.len()
}

impl Row {
    /// The name by which a caller has given it.
    ///
    /// # Errors
    /// [`Error::DuplicateParameter`] where there are two.
    pub(crate) fn given_as(&self, given: &Given) -> Result<Option<&'static str>, Error> {
        let names = std::iter::once(self.name).chain(self.aliases.iter().copied());
        let mut found = names.filter(|name| given.is_given(name));
        match (found.next(), found.next()) {
            (Some(first), Some(second)) => {
                Err(Error::DuplicateParameter { first: first.to_owned(), second: second.to_owned() })
            }
            (name, _) => Ok(name),
        }
    }

    /// The name by which it is given, or else its first one, which has the default.
    ///
    /// # Errors
    /// As [`Self::given_as`].
    pub(crate) fn found_as(&self, given: &Given) -> Result<&'static str, Error> {
        Ok(self.given_as(given)?.unwrap_or(self.name))
    }
}
