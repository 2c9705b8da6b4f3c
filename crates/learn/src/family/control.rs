//! The progress reports of a training, and the request to stop it.

use crate::Error;
use crate::rows::Stop;

/// How far a training is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Rounds, epochs, trees that are done.
    pub done: u64,
    /// How many there will be at most.
    pub of: u64,
}

/// What called a training: asked now and then whether to go on.
pub struct Control<'a> {
    ask: &'a mut dyn FnMut(Option<Progress>) -> Result<(), Stop>,
}

impl<'a> Control<'a> {
    /// `ask` is called often (every some milliseconds), with the progress where it is known; an `Err` of it ends the
    /// training and comes back in [`Error::Stopped`].
    pub fn new(ask: &'a mut dyn FnMut(Option<Progress>) -> Result<(), Stop>) -> Control<'a> {
        Control { ask }
    }

    /// To be called in every loop that can take long: at least every ten milliseconds, and not much more often than
    /// every ten thousand operations.
    ///
    /// # Errors
    /// [`Error::Stopped`] where the training is to end.
    pub fn check(&mut self) -> Result<(), Error> {
        (self.ask)(None).map_err(Error::Stopped)
    }

    /// A check that says how far the training is: after each round, epoch or tree.
    ///
    /// # Errors
    /// [`Error::Stopped`] where the training is to end.
    pub fn progress(&mut self, done: u64, of: u64) -> Result<(), Error> {
        (self.ask)(Some(Progress { done, of })).map_err(Error::Stopped)
    }
}
