//! A set of rows of a training, by hashes of their keys or of what they hold: a Bloom filter (Bloom, 1970) of ten bits a row with seven
//! bits set, and beside it the other rows of the training that it would take for some of them, so that it tells the rows of its training
//! exactly. Of rows that it has not met it takes about one in a hundred for one of its own.

use crate::Error;
use crate::side::mix;
use crate::split::gathered;

const BITS_OF_ROW: usize = 10;
const PROBES: u64 = 7;

/// Sets of more rows are not kept: a file of 40 MB for each model.
pub const MOST_ROWS: u64 = 32_000_000;

/// What is remembered of the rows of a training.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The keys of those that were trained on.
    pub trained: Option<Remembered>,
    /// The contents of those that were held out, and their keys.
    pub held_out: Option<Remembered>,
}

impl Memory {
    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.trained.is_none() && self.held_out.is_none()
    }

    /// For a file: each of the two behind the number of its bytes, little-endian.
    ///
    /// # Errors
    /// [`Error::Memory`] and the like.
    pub fn to_bytes(&self) -> Result<Vec<u8>, Error> {
        let part = |set: &Option<Remembered>| set.as_ref().map_or(Ok(Vec::new()), Remembered::to_bytes);
        let parts = [part(&self.trained)?, part(&self.held_out)?];
        gathered(
            parts.iter().flat_map(|part| (part.len() as u64).to_le_bytes().into_iter().chain(part.iter().copied())),
        )
    }

    /// Reads what [`Memory::to_bytes`] wrote; nothing is remembered if it is no such thing.
    ///
    /// # Errors
    /// [`Error::Memory`] and the like.
    pub fn from_bytes(bytes: &[u8]) -> Result<Memory, Error> {
        let mut rest = bytes;
        let mut part = || {
            let (size, behind) = rest.split_first_chunk::<8>()?;
            let (part, behind) = behind.split_at_checked(usize::try_from(u64::from_le_bytes(*size)).ok()?)?;
            rest = behind;
            Some(part)
        };
        let (Some(trained), Some(held_out)) = (part(), part()) else { return Ok(Memory::default()) };
        Ok(Memory { trained: Remembered::from_bytes(trained)?, held_out: Remembered::from_bytes(held_out)? })
    }
}

/// Which rows of a training are in the set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Remembered {
    words: Vec<u64>,
    /// Others that look as if they were in it, in order.
    exceptions: Vec<u64>,
}

impl Remembered {
    /// Of the hashes of all rows of a training, each with whether it is in the set.
    ///
    /// # Errors
    /// [`Error::Memory`] and the like.
    pub fn of(rows: impl Iterator<Item = (u64, bool)> + Clone) -> Result<Remembered, Error> {
        let side = |wanted: bool| rows.clone().filter(move |(_, is_in)| *is_in == wanted).map(|(hash, _)| hash);
        let size = (side(true).count() * BITS_OF_ROW).div_ceil(64).max(1);
        let mut set = Remembered { words: gathered(std::iter::repeat_n(0, size))?, exceptions: Vec::new() };
        for hash in side(true) {
            for (word, bit) in set.places(hash) {
                if let Some(word) = set.words.get_mut(word) {
                    *word |= bit;
                }
            }
        }
        let mut exceptions = gathered(side(false).filter(|hash| set.has(*hash)))?;
        exceptions.sort_unstable();
        exceptions.dedup();
        set.exceptions = exceptions;
        Ok(set)
    }

    /// How many different hashes of rows outside would be taken for some in the set, or are the hash of one in the set, too.
    #[must_use]
    pub fn confused(&self) -> u64 {
        self.exceptions.len() as u64
    }

    /// Whether the row of a hash is in the set.
    pub fn has(&self, hash: u64) -> bool {
        let is_set = |(word, bit): (usize, u64)| self.words.get(word).is_some_and(|word| word & bit != 0);
        self.places(hash).all(is_set) && self.exceptions.binary_search(&hash).is_err()
    }

    /// The words and bits of a hash: Kirsch and Mitzenmacher's double hashing.
    fn places(&self, hash: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let (first, step) = (mix(hash), mix(!hash) | 1);
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

    /// Reads what [`Remembered::to_bytes`] wrote; `None` if it is no such thing.
    ///
    /// # Errors
    /// [`Error::Memory`] and the like.
    pub fn from_bytes(bytes: &[u8]) -> Result<Option<Remembered>, Error> {
        let (chunks, rest) = bytes.as_chunks::<8>();
        let Some((count, words)) = chunks.split_first().filter(|_| rest.is_empty()) else { return Ok(None) };
        let count = usize::try_from(u64::from_le_bytes(*count)).unwrap_or(usize::MAX);
        let Some((words, exceptions)) = words.split_at_checked(count) else { return Ok(None) };
        let read = |words: &[[u8; 8]]| gathered(words.iter().map(|word| u64::from_le_bytes(*word)));
        Ok(Some(Remembered { words: read(words)?, exceptions: read(exceptions)? }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_of_a_training_are_told_exactly_and_others_nearly() {
        let keys: Vec<u64> = (0..40_000).map(mix).collect();
        let trained = Remembered::of((0..).zip(&keys).map(|(row, key)| (*key, row % 4 > 0))).unwrap();
        assert!((0..).zip(&keys).all(|(row, key)| trained.has(*key) == (row % 4 > 0)));
        let taken = (100_000..200_000).filter(|key| trained.has(mix(*key))).count();
        assert!((300..1600).contains(&taken), "{taken} of 100,000");
        assert!((1..400).contains(&trained.exceptions.len()), "{}", trained.exceptions.len());
    }

    #[test]
    fn what_is_written_reads_back_the_same() {
        for rows in [0u64, 1, 500] {
            let keys: Vec<u64> = (0..rows).collect();
            let trained = Remembered::of(keys.iter().map(|key| (*key, key % 3 > 0))).unwrap();
            let bytes = trained.to_bytes().unwrap();
            assert_eq!(Remembered::from_bytes(&bytes).unwrap(), Some(trained));
            assert_eq!(Remembered::from_bytes(&bytes[..bytes.len() - 1]).unwrap(), None);
        }
        assert_eq!(Remembered::from_bytes(&[0xff; 24]).unwrap(), None);
        assert_eq!(Remembered::from_bytes(&[]).unwrap(), None);
        let set = Remembered::of((0..100).map(|row| (mix(row), row % 3 > 0))).unwrap();
        for (trained, held_out) in [(false, false), (true, false), (false, true), (true, true)] {
            let part = |is_there: bool| is_there.then(|| set.clone());
            let memory = Memory { trained: part(trained), held_out: part(held_out) };
            let bytes = memory.to_bytes().unwrap();
            assert_eq!(Memory::from_bytes(&bytes).unwrap(), memory);
            assert_eq!(Memory::from_bytes(&bytes[..bytes.len() - 1]).unwrap().held_out, None);
        }
    }
}
