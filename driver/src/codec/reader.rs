//! Bytes of one value, read from the front, every length checked against the remaining bytes.

use pyo3::prelude::*;

use super::python::{Raised, protocol_error};

/// The unread rest of a value.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    data: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads `data` from its start.
    pub fn new(data: &'a [u8]) -> Self {
        Reader { data }
    }

    /// Everything that is left.
    pub fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.data)
    }

    /// The next `size` bytes.
    #[inline]
    pub fn take(&mut self, py: Python<'_>, size: usize) -> Result<&'a [u8], Raised> {
        match self.data.split_at_checked(size) {
            Some((head, tail)) => {
                self.data = tail;
                Ok(head)
            }
            None => Err(short(py, size, self.data.len())),
        }
    }

    /// The next `N` bytes as an array.
    #[inline]
    pub fn array<const N: usize>(&mut self, py: Python<'_>) -> Result<[u8; N], Raised> {
        match self.data.split_first_chunk::<N>() {
            Some((head, tail)) => {
                self.data = tail;
                Ok(*head)
            }
            None => Err(short(py, N, self.data.len())),
        }
    }

    /// One byte.
    #[inline]
    pub fn u8(&mut self, py: Python<'_>) -> Result<u8, Raised> {
        Ok(u8::from_be_bytes(self.array(py)?))
    }

    /// Two bytes, signed.
    #[inline]
    pub fn i16(&mut self, py: Python<'_>) -> Result<i16, Raised> {
        Ok(i16::from_be_bytes(self.array(py)?))
    }

    /// Two bytes.
    #[inline]
    pub fn u16(&mut self, py: Python<'_>) -> Result<u16, Raised> {
        Ok(u16::from_be_bytes(self.array(py)?))
    }

    /// Four bytes, signed.
    #[inline]
    pub fn i32(&mut self, py: Python<'_>) -> Result<i32, Raised> {
        Ok(i32::from_be_bytes(self.array(py)?))
    }

    /// Four bytes.
    #[inline]
    pub fn u32(&mut self, py: Python<'_>) -> Result<u32, Raised> {
        Ok(u32::from_be_bytes(self.array(py)?))
    }

    /// Eight bytes, signed.
    #[inline]
    pub fn i64(&mut self, py: Python<'_>) -> Result<i64, Raised> {
        Ok(i64::from_be_bytes(self.array(py)?))
    }

    /// Eight bytes.
    #[inline]
    pub fn u64(&mut self, py: Python<'_>) -> Result<u64, Raised> {
        Ok(u64::from_be_bytes(self.array(py)?))
    }

    /// A double.
    #[inline]
    pub fn f64(&mut self, py: Python<'_>) -> Result<f64, Raised> {
        Ok(f64::from_be_bytes(self.array(py)?))
    }

    /// A value with its length word in front; `None` is NULL.
    #[inline]
    pub fn field(&mut self, py: Python<'_>) -> Result<Option<&'a [u8]>, Raised> {
        let size = self.i32(py)?;
        match usize::try_from(size) {
            Ok(size) => Ok(Some(self.take(py, size)?)),
            Err(_) if size == -1 => Ok(None),
            Err(_) => Err(protocol_error(py, format!("unexpected length of a value: {size}"))),
        }
    }

    /// Makes sure that `count` things of at least `size` bytes each can follow, before room is made for them.
    pub fn backed(&self, py: Python<'_>, count: usize, size: usize) -> Result<(), Raised> {
        match count.checked_mul(size) {
            Some(needed) if needed <= self.data.len() => Ok(()),
            _ => Err(short(py, count.saturating_mul(size), self.data.len())),
        }
    }

    /// Makes sure that nothing is left.
    #[inline]
    pub fn end(&self, py: Python<'_>) -> Result<(), Raised> {
        if self.data.is_empty() { Ok(()) } else { Err(trailing(py, self.data.len())) }
    }
}

/// A value of a fixed size, whole.
#[inline(always)]
pub fn fixed<const N: usize>(py: Python<'_>, data: &[u8]) -> Result<[u8; N], Raised> {
    match data.try_into() {
        Ok(array) => Ok(array),
        Err(_) => Err(wrong_size(py, N, data.len())),
    }
}

#[cold]
fn wrong_size(py: Python<'_>, expected: usize, found: usize) -> Raised {
    if found < expected { short(py, expected, found) } else { trailing(py, found - expected) }
}

#[cold]
fn short(py: Python<'_>, requested: usize, left: usize) -> Raised {
    protocol_error(py, format!("insufficient data in buffer: requested {requested} remaining {left}"))
}

#[cold]
pub fn trailing(py: Python<'_>, left: usize) -> Raised {
    protocol_error(py, format!("unexpected trailing {left} bytes in buffer"))
}
