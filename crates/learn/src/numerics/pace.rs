//! How often a training that counts its operations looks whether it is to stop.

use crate::Error;
use crate::family::Control;

/// Counts operations, and checks for the end of the training every some ten thousand of them.
#[derive(Default)]
pub(crate) struct Pace {
    spent: usize,
}

impl Pace {
    /// Counts operations, and checks for the end of the training now and then.
    pub(crate) fn spend(&mut self, operations: usize, control: &mut Control<'_>) -> Result<(), Error> {
        self.spent += operations;
        if self.spent < 1 << 18 {
            return Ok(());
        }
        self.spent = 0;
        control.check()
    }
}
