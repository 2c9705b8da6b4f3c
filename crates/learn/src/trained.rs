//! The keys of the rows that a model was trained on, by their hashes: a Bloom filter (Bloom, 1970) of ten bits a key with seven
//! bits set, and beside it the held-out keys that it takes for trained ones, so that it tells the rows of its training exactly. Of
//! other keys it takes about one in a hundred for a trained one.

use crate::Error;
use crate::side::mix;
use crate::split::{Split, gathered};

const BITS_OF_KEY: usize = 10;
const PROBES: u64 = 7;

/// Of more rows no keys are remembered: a file of 40 MB for each model.
pub const MOST_ROWS: u64 = 32_000_000;

/// Which keys were trained on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trained {
    words: Vec<u64>,
    /// Held-out keys that look like trained ones, in order.
    exceptions: Vec<u64>,
}

impl Trained {
    /// Of the keys of all rows, in the order of the split.
    ///
    /// # Errors
    /// [`Error::Memory`] and the like.
    pub fn of(keys: &[u64], split: &Split) -> Result<Trained, Error> {
        let side =
            |test: bool| (0..).zip(keys).filter(move |(row, _)| split.is_test(*row) == test).map(|(_, key)| *key);
        let size = (split.train_rows() as usize * BITS_OF_KEY).div_ceil(64).max(1);
        let mut trained = Trained { words: gathered(std::iter::repeat_n(0, size))?, exceptions: Vec::new() };
        for key in side(false) {
            for (word, bit) in trained.places(key) {
                if let Some(word) = trained.words.get_mut(word) {
                    *word |= bit;
                }
            }
        }
        let mut exceptions = gathered(side(true).filter(|key| trained.has(*key)))?;
        exceptions.sort_unstable();
        exceptions.dedup();
        trained.exceptions = exceptions;
        Ok(trained)
    }

    /// Whether the row of a key was trained on.
    pub fn has(&self, key: u64) -> bool {
        let is_set = |(word, bit): (usize, u64)| self.words.get(word).is_some_and(|word| word & bit != 0);
        self.places(key).all(is_set) && self.exceptions.binary_search(&key).is_err()
    }

    /// The words and bits of a key: Kirsch and Mitzenmacher's double hashing.
    fn places(&self, key: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let (first, step) = (mix(key), mix(!key) | 1);
        let bits = self.words.len() as u64 * 64;
        (0..PROBES).map(move |probe| {
            let bit = first.wrapping_add(probe.wrapping_mul(step)) % bits.max(1);
            ((bit / 64) as usize, 1 << (bit % 64))
        })
    }

    /// For a file: the number of words, these, and the exceptions, little-endian.
    ///
    /// # Errors
    /// [`Error::Memory`] and the like.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let count = self.words.len() as u64;
        gathered(std::iter::once(&count).chain(&self.words).chain(&self.exceptions).flat_map(|word| word.to_le_bytes()))
    }

    /// Reads what [`Trained::to_bytes`] wrote; `None` if it is no such thing.
    ///
    /// # Errors
    /// [`Error::Memory`] and the like.
    pub fn from_bytes(bytes: &[u8]) -> Result<Option<Trained>, Error> {
        let (chunks, rest) = bytes.as_chunks::<8>();
        let Some((count, words)) = chunks.split_first().filter(|_| rest.is_empty()) else { return Ok(None) };
        let count = usize::try_from(u64::from_le_bytes(*count)).unwrap_or(usize::MAX);
        let Some((words, exceptions)) = words.split_at_checked(count) else { return Ok(None) };
        let read = |words: &[[u8; 8]]| gathered(words.iter().map(|word| u64::from_le_bytes(*word)));
        Ok(Some(Trained { words: read(words)?, exceptions: read(exceptions)? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_a_training_are_told_exactly_and_others_nearly() {
        let keys: Vec<u64> = (0..40_000).map(mix).collect();
        let split = Split::marked((0..40_000).map(|row| row % 4 == 0));
        let trained = Trained::of(&keys, &split).unwrap();
        assert!((0..).zip(&keys).all(|(row, key)| trained.has(*key) != split.is_test(row)));
        let taken = (100_000..200_000).filter(|key| trained.has(mix(*key))).count();
        assert!((300..1600).contains(&taken), "{taken} of 100,000");
        assert!((1..400).contains(&trained.exceptions.len()), "{}", trained.exceptions.len());
    }

    #[test]
    fn what_is_written_reads_back_the_same() {
        for rows in [0u64, 1, 500] {
            let keys: Vec<u64> = (0..rows).collect();
            let trained = Trained::of(&keys, &Split::marked((0..rows).map(|row| row % 3 == 0))).unwrap();
            let bytes = trained.to_bytes().unwrap();
            assert_eq!(Trained::from_bytes(&bytes).unwrap(), Some(trained));
            assert_eq!(Trained::from_bytes(&bytes[..bytes.len() - 1]).unwrap(), None);
        }
        assert_eq!(Trained::from_bytes(&[0xff; 24]).unwrap(), None);
        assert_eq!(Trained::from_bytes(&[]).unwrap(), None);
    }
}
