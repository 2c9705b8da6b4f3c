//! The rows of a training, once read, in a temporary file of the server: so that every pass over them sees the same
//! rows in the same order, and so that they take no memory.
//!
//! The file is the server's own kind (BufFile): it honours temp_file_limit and temp_tablespaces, and ends with the
//! transaction at the latest. Rows are stored in blocks of equal size (the last may be shorter): the features of all
//! rows, then their labels.

use pgrx::pg_sys;

use crate::error::{Error, Result};

/// Values in a block: half a megabyte.
const BLOCK_VALUES: usize = 128 * 1024;

/// The server splits temporary files into pieces of this size (MAX_PHYSICAL_FILESIZE).
const SEGMENT_BYTES: u64 = 1 << 30;

/// Rows in a temporary file.
pub struct Spool {
    file: *mut pg_sys::BufFile,
    /// Features of a row.
    width: usize,
    block_rows: usize,
    /// The block being filled.
    features: Vec<f32>,
    labels: Vec<f32>,
    rows: u64,
    bytes: u64,
}

impl Spool {
    /// An empty spool for rows of `width` features. It lives until [`Spool::close`] or the end of the transaction.
    pub fn create(width: usize) -> Spool {
        // SAFETY: inside a transaction; the file belongs to its resource owner.
        let file = unsafe { pg_sys::BufFileCreateTemp(false) };
        let block_rows = (BLOCK_VALUES / (width + 1)).max(1);
        Spool {
            file,
            width,
            block_rows,
            features: Vec::with_capacity(block_rows * width),
            labels: Vec::with_capacity(block_rows),
            rows: 0,
            bytes: 0,
        }
    }

    pub fn width(&self) -> usize {
        self.width
    }

    /// Rows that were added.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Size of the temporary file.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Adds a row of `width` features.
    #[inline]
    pub fn push(&mut self, features: &[f32], label: f32) {
        self.features.extend_from_slice(features);
        self.labels.push(label);
        self.rows += 1;
        if self.labels.len() == self.block_rows {
            self.flush();
        }
    }

    /// Writes what is left; to be called after the last row.
    pub fn finish(&mut self) {
        if !self.labels.is_empty() {
            self.flush();
        }
    }

    fn flush(&mut self) {
        for values in [&mut self.features, &mut self.labels] {
            let bytes = size_of_val(values.as_slice());
            // SAFETY: writes the bytes of a slice of floats, which it copies; a failure (temp_file_limit, a full disk)
            // is an ERROR.
            unsafe { pg_sys::BufFileWrite(self.file, values.as_mut_ptr().cast(), bytes) };
            self.bytes += bytes as u64;
            values.clear();
        }
    }

    /// Reads the block that begins after `before` rows; gives the number of its rows, 0 after the last one.
    pub fn read(&self, before: u64, features: &mut Vec<f32>, labels: &mut Vec<f32>) -> Result<usize> {
        let rows = usize::try_from(self.rows.saturating_sub(before)).unwrap_or(usize::MAX).min(self.block_rows);
        if rows > 0 {
            let position = before * (self.width as u64 + 1) * size_of::<f32>() as u64;
            let (segment, offset) = (position / SEGMENT_BYTES, position % SEGMENT_BYTES);
            // SAFETY: a position in an open file. 0 is SEEK_SET.
            let sought = unsafe {
                pg_sys::BufFileSeek(
                    self.file,
                    i32::try_from(segment).unwrap_or(i32::MAX),
                    pg_sys::off_t::try_from(offset).unwrap_or(0),
                    0,
                )
            };
            if sought != 0 {
                return Err(damaged());
            }
        }
        read(self.file, features, rows * self.width)?;
        read(self.file, labels, rows)?;
        Ok(rows)
    }

    /// Removes the file. Not in `drop`: writing what is buffered can fail, which nothing could catch while an ERROR
    /// unwinds; the end of the transaction removes it then.
    pub fn close(self) {
        // SAFETY: an open file, used by nobody any more.
        unsafe { pg_sys::BufFileClose(self.file) };
    }
}

fn read(file: *mut pg_sys::BufFile, into: &mut Vec<f32>, values: usize) -> Result<()> {
    into.resize(values, 0.0);
    let bytes = size_of_val(into.as_slice());
    // SAFETY: reads at most `bytes` bytes into a slice of that size; any bytes are floats.
    let got = unsafe { pg_sys::BufFileRead(file, into.as_mut_ptr().cast(), bytes) };
    if got == bytes { Ok(()) } else { Err(damaged()) }
}

fn damaged() -> Error {
    Error::new(pgrx::PgSqlErrorCode::ERRCODE_IO_ERROR, "a temporary file of a training ends early")
}
