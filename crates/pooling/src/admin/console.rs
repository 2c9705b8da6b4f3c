//! The questions of console clients that other workers are answering.

use std::collections::HashMap;
use std::time::Instant;

use crate::model::keys::ClientKey;

use crate::admin::command::Command;
use crate::admin::order::Answer;

/// The questions that are under way.
#[derive(Debug, Default)]
pub struct Console {
    /// The number of the question that was asked last.
    pub last: u64,
    /// The questions by their numbers.
    pub asked: HashMap<u64, Asked>,
    /// In which formats clients want the results of what they have bound, where not all in text.
    pub formats: HashMap<ClientKey, Vec<bool>>,
}

/// A question that workers are answering.
#[derive(Debug)]
pub struct Asked {
    /// Who asks.
    pub client: ClientKey,
    /// The command.
    pub command: Command,
    /// The answers that have come.
    pub answers: Vec<Answer>,
    /// How many are to come.
    pub missing: usize,
    /// When it is asked again, if something is under way still.
    pub again: Option<Instant>,
}
