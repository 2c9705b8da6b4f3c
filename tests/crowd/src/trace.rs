//! The last events of a client, kept as bytes and told only when something was wrong.

use std::collections::VecDeque;
use std::fmt::Write;
use std::time::{Duration, Instant};

use wire::frame;

/// How many events are kept.
const EVENTS: usize = 50;
/// How much of one.
const BYTES: usize = 2000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Sent,
    Got,
    Note,
}

/// The last events of a client.
#[derive(Debug)]
pub struct Trace {
    began: Instant,
    events: VecDeque<(Duration, Kind, Vec<u8>)>,
}

impl Trace {
    /// None yet, of a run that began then.
    pub fn new(began: Instant) -> Self {
        Self { began, events: VecDeque::with_capacity(EVENTS) }
    }

    fn push(&mut self, kind: Kind, bytes: &[u8]) {
        let mut held = if self.events.len() == EVENTS {
            self.events.pop_front().map(|(_, _, bytes)| bytes).unwrap_or_default()
        } else {
            Vec::new()
        };
        held.clear();
        held.extend_from_slice(&bytes[..bytes.len().min(BYTES)]);
        self.events.push_back((self.began.elapsed(), kind, held));
    }

    /// It sent this.
    pub fn sent(&mut self, bytes: &[u8]) {
        self.push(Kind::Sent, bytes);
    }

    /// It got this.
    pub fn got(&mut self, bytes: &[u8]) {
        self.push(Kind::Got, bytes);
    }

    /// Something else happened.
    pub fn note(&mut self, what: &str) {
        self.push(Kind::Note, what.as_bytes());
    }

    /// All of it, a line each.
    pub fn tell(&self) -> String {
        self.tell_last(EVENTS)
    }

    /// The last so many events, a line each.
    pub fn tell_last(&self, count: usize) -> String {
        let mut told = String::new();
        for (at, kind, bytes) in self.events.iter().skip(self.events.len().saturating_sub(count)) {
            let word = match kind {
                Kind::Sent => "sent",
                Kind::Got => "got ",
                Kind::Note => "    ",
            };
            let _ = writeln!(told, "  {:9.4} {word} {}", at.as_secs_f64(), shown(*kind, bytes));
        }
        told
    }
}

fn shown(kind: Kind, mut bytes: &[u8]) -> String {
    if kind == Kind::Note {
        return String::from_utf8_lossy(bytes).into_owned();
    }
    let mut told = String::new();
    while let Ok(Some(message)) = frame::message(bytes) {
        let text: String = String::from_utf8_lossy(message.body).chars().map(plain).take(240).collect();
        let _ = write!(told, "{}[{}] ", char::from(message.tag), text.trim_matches('.'));
        bytes = message.rest;
    }
    if !bytes.is_empty() {
        let _ = write!(told, "(and a part of {} bytes)", bytes.len());
    }
    told
}

fn plain(letter: char) -> char {
    if letter.is_control() { '.' } else { letter }
}
