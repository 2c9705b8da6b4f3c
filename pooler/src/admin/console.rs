//! The questions of console clients that other workers are answering.

use std::collections::HashMap;
use std::time::Instant;

use pooling::keys::ClientKey;

use crate::admin::command::Command;
use crate::admin::order::Answer;

/// The questions that are under way.
#[derive(Debug, Default)]
pub struct Console {
    pub last: u64,
    pub asked: HashMap<u64, Asked>,
    /// In which formats clients want the results of what they have bound, where not all in text.
    pub formats: HashMap<ClientKey, Vec<bool>>,
}

#[derive(Debug)]
pub struct Asked {
    pub client: ClientKey,
    pub command: Command,
    pub answers: Vec<Answer>,
    pub missing: usize,
    pub again: Option<Instant>,
}
