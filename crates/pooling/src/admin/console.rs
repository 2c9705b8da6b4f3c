//! The questions of console clients that other workers are answering.

use std::collections::HashMap;
use std::time::Instant;

use crate::model::keys::ClientKey;

use crate::admin::command::Command;
use crate::admin::order::Answer;

/// The questions that are under way.
#[derive(Debug, Default)]
pub struct Console {
    /// The number of the last question.
    pub last: u64,
    /// The questions by their numbers.
    pub asked: HashMap<u64, Asked>,
    /// The formats in which clients want the results of their bound commands, if not all in text.
    pub formats: HashMap<ClientKey, Vec<bool>>,
}

/// A question that workers are answering.
#[derive(Debug)]
pub struct Asked {
    /// The client that asks.
    pub client: ClientKey,
    /// The command.
    pub command: Command,
    /// The answers that have come.
    pub answers: Vec<Answer>,
    /// The number of answers that are to come.
    pub missing: usize,
    /// The time at which the question is asked once more, if connections are under way still.
    pub again: Option<Instant>,
}
