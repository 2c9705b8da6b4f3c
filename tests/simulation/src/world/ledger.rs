//! What was done and said, once for all servers: what clients are told is held against it.

use std::collections::{HashMap, HashSet};

use super::shapes::CHANGED;

/// A part of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Said {
    Row,
    Tag(String),
    Error(String),
}

/// The status of a unit whose connection has died within it.
pub(super) const UNFINISHED: u8 = 0;

/// One time that a unit was run: what was answered, and the status at its end.
struct Run {
    said: Vec<Said>,
    status: u8,
}

/// What was done and said.
#[derive(Default)]
pub(super) struct Ledger {
    written: HashSet<String>,
    committed: HashSet<String>,
    /// Units of which clients were told that their statement has changed.
    changed: HashSet<String>,
    /// By the names of units. One may run twice: a read whose connection dies is asked again.
    runs: HashMap<String, Vec<Run>>,
    /// There are servers that refuse writes; the pooler may not know yet which.
    pub(super) has_standbys: bool,
    /// How often the relation that shifts has changed.
    pub(super) changes: usize,
    /// Channels and payloads in the order of commits.
    pub(super) notes: Vec<(String, String)>,
}

impl Ledger {
    /// That of so many servers.
    pub(super) fn of(servers: usize) -> Self {
        Self { has_standbys: servers > 1, ..Self::default() }
    }

    /// Something is written, whether or not that lasts.
    pub(super) fn write(&mut self, name: &str) {
        assert!(self.written.insert(name.to_owned()), "{name} is written twice");
    }

    /// It lasts.
    pub(super) fn commit(&mut self, name: String) {
        let unit = name.rsplit_once('.').map_or("", |(unit, _)| unit);
        assert!(!self.changed.contains(unit), "{name} is done, and was refused since its statement has changed");
        self.committed.insert(name);
    }

    /// A server has run a unit, to its end or to the death of its connection.
    pub(super) fn ran(&mut self, unit: &str, said: Vec<Said>, status: u8) {
        self.runs.entry(unit.to_owned()).or_default().push(Run { said, status });
    }

    /// What a client has been told of a unit, up to its end, is what a server has answered: or part of it and an error of
    /// the pooler's, which does not call failed what was done.
    pub(super) fn judge(&mut self, unit: &str, heard: &[Said], status: u8, complaint: &str) {
        if matches!(heard.last(), Some(Said::Error(code)) if code == CHANGED) {
            self.changed.insert(unit.to_owned());
        }
        let runs = self.runs.get(unit).map_or(&[][..], Vec::as_slice);
        // An error of the server's ends a unit though the connection dies before its Sync.
        let is_error = matches!(heard.last(), Some(Said::Error(_)));
        let ends = |run: &Run| run.status == status || run.status == UNFINISHED && is_error;
        if runs.iter().any(|run| run.said == heard && ends(run)) || runs.is_empty() && heard.is_empty() {
            return;
        }
        let Some((Said::Error(code), before)) = heard.split_last() else {
            panic!("{unit} is told {heard:?} ({}), which no server has answered", char::from(status));
        };
        let begun = before.is_empty() || runs.iter().any(|run| run.said.starts_with(before));
        assert!(begun, "{unit} is told {before:?} before an error, which no server has answered");
        let done = self.committed.iter().any(|name| name.strip_prefix(unit).is_some_and(|rest| rest.starts_with('.')));
        assert!(!done || complaint.contains("unknown"), "{unit} is done, and told to have failed: {code} {complaint}");
    }
}
