//! Arrays of numbers in bytes that somebody else owns.

use std::marker::PhantomData;
use std::ops::Deref;

use bytemuck::AnyBitPattern;
use bytes::Bytes;

/// Numbers, used where they lie.
pub struct Array<T> {
    bytes: Bytes,
    kind: PhantomData<T>,
}

impl<T: AnyBitPattern> Array<T> {
    /// `None` where the bytes are no whole number of elements, or lie so that they cannot be read as such.
    pub fn of(bytes: Bytes) -> Option<Array<T>> {
        // An empty one lies anywhere.
        if !bytes.is_empty() {
            bytemuck::try_cast_slice::<u8, T>(&bytes).ok()?;
        }
        Some(Array { bytes, kind: PhantomData })
    }
}

impl<T: AnyBitPattern> Deref for Array<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // It was tried when the array was made, and the bytes lie where they lay.
        bytemuck::try_cast_slice(&self.bytes).unwrap_or_default()
    }
}
