//! The rows of a training, once read, in a temporary file of the server: so that every pass over them sees the same
//! rows in the same order, and so that they take no memory.
//!
//! The file is the server's own kind (BufFile): it honours temp_file_limit and temp_tablespaces, and ends with the
//! transaction at the latest. It holds blocks of rows, each packed by [`learn::spool`]. The server has no checksums for its
//! temporary files, and a disk that returns other bytes would train another model: so the hash of each block is kept.

use std::hash::{DefaultHasher, Hasher};

use learn::rows::Chunk;
use learn::spool::{Block, Rest, decode, encode};
use pgrx::pg_sys;

use crate::error::{Error, Result};
use crate::memory;

/// Values in a block before it is packed: half a megabyte.
const BLOCK_VALUES: usize = 128 * 1024;

/// The server splits temporary files into pieces of this size (MAX_PHYSICAL_FILESIZE).
const SEGMENT_BYTES: u64 = 1 << 30;

/// What a spool belongs to: taken where a training begins, since the portal that the rows come from, whose callback
/// makes the spool, ends before the spool does.
#[derive(Clone, Copy)]
pub struct Owner {
    context: pg_sys::MemoryContext,
    resources: pg_sys::ResourceOwner,
}

impl Owner {
    /// The caller's memory context and resource owner.
    pub fn current() -> Owner {
        // SAFETY: both are set while a function runs.
        unsafe { Owner { context: pg_sys::CurrentMemoryContext, resources: pg_sys::CurrentResourceOwner } }
    }
}

/// Rows in a temporary file.
pub struct Spool {
    file: *mut pg_sys::BufFile,
    /// Features of a row.
    width: usize,
    block_rows: usize,
    /// Where each block begins; the end of the file last.
    starts: Vec<u64>,
    /// The hash of each block as it was written.
    hashes: Vec<u64>,
    /// The block being filled.
    features: Vec<f32>,
    labels: Vec<f32>,
    /// What float32 does not hold of some values of the block: row, feature and rest.
    rests: Vec<(u32, u32, f32)>,
    packed: Vec<u8>,
    rows: u64,
}

impl Spool {
    /// An empty spool for rows of `width` features. It lives until [`Spool::close`], or else as long as its owner.
    pub fn create(width: usize, owner: Owner) -> Spool {
        // SAFETY: the owner's context and resource owner outlive this function, and are put back after it; an ERROR in
        // between ends the transaction, which sets both anew.
        let file = unsafe {
            let context = std::ptr::replace(&raw mut pg_sys::CurrentMemoryContext, owner.context);
            let resources = std::ptr::replace(&raw mut pg_sys::CurrentResourceOwner, owner.resources);
            let file = pg_sys::BufFileCreateTemp(false);
            pg_sys::CurrentMemoryContext = context;
            pg_sys::CurrentResourceOwner = resources;
            file
        };
        let block_rows = (BLOCK_VALUES / (width + 1)).max(1);
        Spool {
            file,
            width,
            block_rows,
            starts: vec![0],
            hashes: Vec::new(),
            features: Vec::with_capacity(block_rows * width),
            labels: Vec::with_capacity(block_rows),
            rests: Vec::new(),
            packed: Vec::new(),
            rows: 0,
        }
    }

    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows that were added.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Blocks that were written.
    pub fn blocks(&self) -> usize {
        self.starts.len() - 1
    }

    /// Rows in every block but the last, which may have fewer.
    pub fn block_rows(&self) -> usize {
        self.block_rows
    }

    /// Adds a row of `width` features, of which some have a rest.
    #[inline]
    pub fn push(&mut self, features: &[f32], rests: &[(u32, f32)], label: f32) -> Result<()> {
        let row = self.labels.len() as u32;
        self.rests.extend(rests.iter().map(|(feature, rest)| (row, *feature, *rest)));
        self.features.extend_from_slice(features);
        self.labels.push(label);
        self.rows += 1;
        if self.labels.len() == self.block_rows { self.flush() } else { Ok(()) }
    }

    /// Writes what is left; to be called after the last row.
    pub fn finish(&mut self) -> Result<()> {
        if !self.labels.is_empty() {
            self.flush()?;
        }
        (self.features, self.labels, self.rests, self.packed) = Default::default();
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.packed.clear();
        let chunk = Chunk { features: &self.features, labels: &self.labels, weights: None };
        encode(&chunk, &columns_of(&mut self.rests, self.labels.len()), self.width, &mut self.packed)?;
        // SAFETY: writes the bytes of a slice, which it copies; a failure (temp_file_limit, a full disk) is an ERROR.
        unsafe { pg_sys::BufFileWrite(self.file, self.packed.as_mut_ptr().cast(), self.packed.len()) };
        let start = self.starts.last().copied().unwrap_or(0);
        self.starts.push(start + self.packed.len() as u64);
        self.hashes.push(hash(&self.packed));
        self.features.clear();
        self.labels.clear();
        self.rests.clear();
        Ok(())
    }

    /// Another spool with the same rows of fewer features, in place of this one.
    pub fn only(self, kept: &[bool], owner: Owner) -> Result<Spool> {
        let mut spool = Spool::create(kept.iter().filter(|kept| **kept).count(), owner);
        let mut next = 0;
        let places: Vec<Option<u32>> = kept
            .iter()
            .map(|kept| {
                next += u32::from(*kept);
                kept.then_some(next.saturating_sub(1))
            })
            .collect();
        let (mut packed, mut block, mut row) = (Vec::new(), Block::new(), Vec::with_capacity(spool.width));
        let mut rests = Vec::new();
        for index in 0..self.blocks() {
            self.read(index, &mut packed, &mut block)?;
            let chunk = block.chunk();
            for (number, (features, label)) in
                chunk.features.chunks_exact(self.width.max(1)).zip(chunk.labels).enumerate()
            {
                row.clear();
                row.extend(features.iter().zip(kept).filter(|(_, kept)| **kept).map(|(value, _)| *value));
                rests.clear();
                rests.extend(block.rests().iter().filter_map(|(feature, rest)| {
                    let place = places.get(*feature as usize).copied().flatten()?;
                    Some((place, rest.get(number).copied().filter(|rest| *rest != 0.0)?))
                }));
                spool.push(&row, &rests, *label)?;
            }
            super::interrupts::check();
        }
        self.close();
        Ok(spool)
    }

    /// Reads a block into `block`, by way of `packed`.
    pub fn read(&self, index: usize, packed: &mut Vec<u8>, block: &mut Block) -> Result<()> {
        let (Some(&start), Some(&end), Some(&written)) =
            (self.starts.get(index), self.starts.get(index + 1), self.hashes.get(index))
        else {
            return Err(damaged());
        };
        let segment = i32::try_from(start / SEGMENT_BYTES).map_err(|_| damaged())?;
        let offset = pg_sys::off_t::try_from(start % SEGMENT_BYTES).map_err(|_| damaged())?;
        packed.resize(usize::try_from(end - start).map_err(|_| damaged())?, 0);
        // SAFETY: a position in an open file (0 is SEEK_SET), from which at most the length of the slice is read into
        // the slice.
        let got = unsafe {
            if pg_sys::BufFileSeek(self.file, segment, offset, 0) != 0 {
                return Err(damaged());
            }
            pg_sys::BufFileRead(self.file, packed.as_mut_ptr().cast(), packed.len())
        };
        if got != packed.len() || hash(packed) != written {
            return Err(damaged());
        }
        Ok(decode(packed, block)?)
    }

    /// Labels of all rows.
    pub fn labels(&self) -> Result<Vec<f32>> {
        let mut labels = Vec::new();
        memory::reserve(&mut labels, usize::try_from(self.rows).unwrap_or(usize::MAX))?;
        let (mut packed, mut block) = (Vec::new(), Block::new());
        for index in 0..self.blocks() {
            self.read(index, &mut packed, &mut block)?;
            labels.extend_from_slice(block.chunk().labels);
            super::interrupts::check();
        }
        Ok(labels)
    }

    /// Removes the file. Not in `drop`: writing what is buffered can fail, which nothing could catch while an ERROR
    /// unwinds; its owner removes it then.
    pub fn close(self) {
        // SAFETY: an open file, used by nobody any more.
        unsafe { pg_sys::BufFileClose(self.file) };
    }
}

/// The rests of some values as columns of so many rows.
fn columns_of(rests: &mut [(u32, u32, f32)], rows: usize) -> Vec<Rest> {
    rests.sort_unstable_by_key(|(row, feature, _)| (*feature, *row));
    let of_features = rests.chunk_by(|(_, a, _), (_, b, _)| a == b);
    let columns = of_features.map(|rests| {
        let mut column = vec![0.0; rows];
        for (row, _, rest) in rests {
            if let Some(place) = column.get_mut(*row as usize) {
                *place = *rest;
            }
        }
        (rests.first().map_or(0, |(_, feature, _)| *feature), column)
    });
    columns.collect()
}

/// Of one process's life; it is written nowhere.
fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

fn damaged() -> Error {
    Error::new(pgrx::PgSqlErrorCode::ERRCODE_IO_ERROR, "a temporary file of a training cannot be read back")
}
