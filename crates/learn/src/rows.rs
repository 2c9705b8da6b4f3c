//! Rows on their way to an engine: in chunks, several times over, and never all at once.

use std::any::Any;

/// Whatever a source or a callback wants back when it ends a training: the engine carries it through its C++ frames
/// untouched and returns it in [`Error::Stopped`](crate::Error::Stopped). The payload of a panic travels the same way.
pub type Stop = Box<dyn Any + Send>;

/// Some consecutive rows.
#[derive(Clone, Copy, Debug)]
pub struct Chunk<'a> {
    /// The features, row by row: as many rows as there are labels of one target. NaN is a missing value.
    pub features: &'a [f32],
    /// One label a row: the target of a regression, or the index of the class. For XGBoost as many labels a row as a
    /// regression has targets, row by row, the same number in all chunks.
    pub labels: &'a [f32],
    /// The weight of each row, not negative; `None` where every row weighs the same. Either all chunks of a source have
    /// weights or none has.
    pub weights: Option<&'a [f32]>,
}

/// A source of rows that can be read several times.
///
/// An engine reads the source from its beginning about five times. Every pass must give the same rows, in the same
/// order, in the same chunks; one that does not is found out and ends as [`Error::Changed`](crate::Error::Changed).
/// A hundred kilobytes to a few megabytes make a good chunk.
///
/// Both methods run on the thread that called the engine and with that thread's own signal mask, so a signal handler
/// can ask for an interruption and the source can answer it with an `Err`.
pub trait Rows {
    /// The number of features a row has.
    fn width(&self) -> usize;

    /// Goes back to the first row. Also called before the first pass.
    ///
    /// # Errors
    /// Whatever should end the training; it is handed back in [`Error::Stopped`](crate::Error::Stopped).
    fn rewind(&mut self) -> Result<(), Stop>;

    /// The next chunk, or `None` after the last one. A chunk may be empty. The engine keeps reading the slices until
    /// the next call of [`next`](Rows::next) or [`rewind`](Rows::rewind).
    ///
    /// # Errors
    /// Whatever should end the training; it is handed back in [`Error::Stopped`](crate::Error::Stopped).
    fn next(&mut self) -> Result<Option<Chunk<'_>>, Stop>;
}
