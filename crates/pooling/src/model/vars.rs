//! The parameters that the server reports and every client sees as its own: `client_encoding`, `DateStyle` and their
//! like. Each client and each server connection has a set; when they differ, the server is brought in line first.

use std::fmt::Write;
use std::rc::Rc;

use classify::parameter;

/// Parameters that are always tracked, as in PgBouncer.
///
/// `search_path` is reported from PostgreSQL 18 on.
pub const USUAL: [&str; 7] = [
    "application_name",
    "client_encoding",
    "DateStyle",
    "TimeZone",
    "standard_conforming_strings",
    "IntervalStyle",
    "search_path",
];

/// The parameters that are tracked.
#[derive(Debug, Clone)]
pub struct Tracked {
    names: Vec<String>,
    /// The places of those that servers do not report.
    silent: Vec<usize>,
}

/// The pooler sets this one for reads, so it is followed as other SETs are.
pub const OWN: &str = "default_transaction_read_only";

impl Tracked {
    /// The usual ones and these.
    pub fn new(extra: &[String]) -> Self {
        let mut names: Vec<String> = USUAL.iter().map(|&name| name.to_owned()).collect();
        for name in extra {
            if !names.iter().any(|known| known.eq_ignore_ascii_case(name)) && !name.eq_ignore_ascii_case(OWN) {
                names.push(name.clone());
            }
        }
        Self { names, silent: Vec::new() }
    }

    /// The place of a parameter, whatever its case.
    pub fn place(&self, name: &str) -> Option<usize> {
        let place = self.names.iter().position(|known| known.eq_ignore_ascii_case(name))?;
        (!self.silent.contains(&place)).then_some(place)
    }

    /// The parameters, in the order of their places.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Notes the parameters that a server has not reported at login: they cannot be followed, and are treated as others
    /// that clients SET. Gives the names of those that the configuration asked for.
    pub fn note_silent(&mut self, told: &Vars) -> Vec<String> {
        let missing = (0..self.names.len()).filter(|&place| told.get(place).is_none() && !self.silent.contains(&place));
        let missing: Vec<usize> = missing.collect();
        self.silent.extend(&missing);
        let extra = missing.iter().filter(|&&place| place >= USUAL.len());
        extra.filter_map(|&place| self.names.get(place).cloned()).collect()
    }

    /// The places of the parameters that servers do not report.
    pub fn silent(&self) -> &[usize] {
        &self.silent
    }
}

/// The values of the tracked parameters; shared until one changes.
#[derive(Debug, Clone)]
pub struct Vars(Rc<Vec<Option<Box<str>>>>);

thread_local! {
    /// The empty list that all clients share which have no values; idle clients are many.
    static NONE: Rc<Vec<Option<Box<str>>>> = Rc::default();
}

impl Default for Vars {
    fn default() -> Self {
        Self(NONE.with(Rc::clone))
    }
}

impl Vars {
    /// The values as they move with their client.
    pub fn carry(&self) -> Vec<Option<Box<str>>> {
        self.0.to_vec()
    }

    /// Values that have come with their client; one copy with `like`, where those are the same.
    pub fn carried(values: Vec<Option<Box<str>>>, like: &Self) -> Self {
        match values.iter().all(Option::is_none) {
            true => Self::default(),
            false if *like.0 == values => like.clone(),
            false => Self(Rc::new(values)),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.iter().all(Option::is_none)
    }

    /// The value at a place.
    pub fn get(&self, place: usize) -> Option<&str> {
        self.0.get(place)?.as_deref()
    }

    /// Whether a value mentions these words.
    pub fn mention(&self, words: &str) -> bool {
        self.0.iter().flatten().any(|value| value.contains(words))
    }

    /// Takes the value at a place away.
    pub fn take(&mut self, place: usize) -> Option<Box<str>> {
        self.get(place)?;
        Rc::make_mut(&mut self.0).get_mut(place)?.take()
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
        // Most clients ask for nothing of their own: they share one copy.
        if self.is_empty() {
            *self = other.clone();
            return;
        }
        for place in 0..other.0.len() {
            if let (None, Some(value)) = (self.get(place), other.get(place)) {
                self.set(place, value);
            }
        }
    }

    /// Takes over each value that `other` has.
    pub fn take_over(&mut self, other: &Self) {
        for (place, value) in other.0.iter().enumerate() {
            if let Some(value) = value {
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
        for (place, name) in tracked.names.iter().enumerate() {
            if let Some(value) = self.get(place)
                && (all || server.get(place) != Some(value))
            {
                let _ = write!(sql, "{};", parameter::set(name, value));
            }
        }
    }

    /// Whether these are one value, without a look at it.
    pub fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.0, &other.0)
    }

    /// Makes equal values one copy, so that the next comparison looks at none of them. Which copy stays does not depend
    /// on the side, so the copies of all sessions that meet become one.
    pub fn unite(&mut self, other: &mut Self) {
        if Rc::ptr_eq(&self.0, &other.0) || self.0 != other.0 {
            return;
        }
        let (keeps, gives_up) = if Rc::as_ptr(&self.0) < Rc::as_ptr(&other.0) { (self, other) } else { (other, self) };
        gives_up.0 = keeps.0.clone();
    }

    /// Whether nothing would be changed by [`Vars::write_changes`].
    pub fn same(&self, server: &Self) -> bool {
        Rc::ptr_eq(&self.0, &server.0)
            || self.0.iter().enumerate().all(|(place, value)| value.is_none() || value.as_deref() == server.get(place))
    }
}
