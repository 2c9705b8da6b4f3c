//! The parameters that the server reports and every client sees as its own: `client_encoding`, `DateStyle` and their
//! like. Each client and each server connection has a set; when they differ, the server is brought in line first.

use std::fmt::Write;
use std::rc::Rc;

/// Parameters that are always tracked, as in PgBouncer.
const USUAL: [&str; 5] =
    ["application_name", "client_encoding", "DateStyle", "TimeZone", "standard_conforming_strings"];

/// Which parameters are tracked.
#[derive(Debug, Clone)]
pub struct Tracked(Vec<String>);

impl Tracked {
    /// The usual ones and these.
    pub fn new(extra: &[String]) -> Self {
        let mut names: Vec<String> = USUAL.iter().map(|&name| name.to_owned()).collect();
        for name in extra {
            if !names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
                names.push(name.clone());
            }
        }
        Self(names)
    }

    /// The place of a parameter, whatever its case.
    pub fn place(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|known| known.eq_ignore_ascii_case(name))
    }
}

/// The values of the tracked parameters; shared until one changes.
#[derive(Debug, Clone, Default)]
pub struct Vars(Rc<Vec<Option<Box<str>>>>);

impl Vars {
    /// The value at a place.
    pub fn get(&self, place: usize) -> Option<&str> {
        self.0.get(place)?.as_deref()
    }

    /// Sets the value at a place.
    pub fn set(&mut self, place: usize, value: &str) {
        if self.get(place) == Some(value) {
            return;
        }
        let values = Rc::make_mut(&mut self.0);
        if values.len() <= place {
            values.resize(place + 1, None);
        }
        if let Some(slot) = values.get_mut(place) {
            *slot = Some(value.into());
        }
    }

    /// Takes over each value of `other` that has none here.
    pub fn fill(&mut self, other: &Self) {
        for place in 0..other.0.len() {
            if let (None, Some(value)) = (self.get(place), other.get(place)) {
                self.set(place, value);
            }
        }
    }

    /// Appends the statements that make a session with `server`'s values one with these. With `all`, every value,
    /// as after a RESET ALL.
    pub fn write_changes(&self, server: &Self, all: bool, tracked: &Tracked, sql: &mut String) {
        if Rc::ptr_eq(&self.0, &server.0) && !all {
            return;
        }
        for (place, name) in tracked.0.iter().enumerate() {
            if let Some(value) = self.get(place)
                && (all || server.get(place) != Some(value))
            {
                let _ = write!(sql, "SET {name}={};", literal(value));
            }
        }
    }

    /// Whether nothing would be changed by [`Vars::write_changes`].
    pub fn same(&self, server: &Self) -> bool {
        Rc::ptr_eq(&self.0, &server.0)
            || self.0.iter().enumerate().all(|(place, value)| value.is_none() || value.as_deref() == server.get(place))
    }
}

/// A string literal, whatever `standard_conforming_strings` says.
pub fn literal(value: &str) -> String {
    if value.contains('\\') {
        format!("E'{}'", value.replace('\\', "\\\\").replace('\'', "''"))
    } else {
        format!("'{}'", value.replace('\'', "''"))
    }
}
