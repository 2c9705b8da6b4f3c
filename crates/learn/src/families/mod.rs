//! The families themselves, one file each. See [`crate::family`] for what they have in common.

mod algebra;
pub(crate) mod forms;
pub(crate) mod least_squares;
#[cfg(test)]
pub(crate) mod testing;
