//! Arrays of numbers that lie in the bytes of a stored model.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use bytes::Bytes;
use safetensors::Dtype;

/// A type of number that a model's arrays may have.
pub trait Element: bytemuck::Pod + Send + Sync + 'static {
    /// As stored.
    const TYPE: Dtype;
}

impl Element for f32 {
    const TYPE: Dtype = Dtype::F32;
}

impl Element for f64 {
    const TYPE: Dtype = Dtype::F64;
}

impl Element for u32 {
    const TYPE: Dtype = Dtype::U32;
}

impl Element for i32 {
    const TYPE: Dtype = Dtype::I32;
}

impl Element for u8 {
    const TYPE: Dtype = Dtype::U8;
}

/// Numbers where they lie in a stored model; it keeps the model's bytes alive, and reads as a slice.
#[derive(Clone)]
pub struct Array<T: Element> {
    bytes: Bytes,
    of: PhantomData<T>,
}

impl<T: Element> Array<T> {
    /// Numbers that were made here.
    pub fn from_vec(values: Vec<T>) -> Array<T> {
        struct Owner<T>(Vec<T>);
        impl<T: Element> AsRef<[u8]> for Owner<T> {
            fn as_ref(&self) -> &[u8] {
                bytemuck::cast_slice(&self.0)
            }
        }
        Array { bytes: Bytes::from_owner(Owner(values)), of: PhantomData }
    }

    /// `None` where the bytes are not whole numbers of this type.
    pub(super) fn of_bytes(bytes: Bytes) -> Option<Array<T>> {
        if bytemuck::try_cast_slice::<u8, T>(&bytes).is_ok() {
            return Some(Array { bytes, of: PhantomData });
        }
        // Not aligned, as bytes of a table need not be: a copy of one's own.
        let whole = bytes.len().is_multiple_of(size_of::<T>());
        whole.then(|| Array::from_vec(bytemuck::allocation::pod_collect_to_vec(&bytes)))
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl<T: Element> Deref for Array<T> {
    type Target = [T];

    #[inline]
    fn deref(&self) -> &[T] {
        bytemuck::cast_slice(&self.bytes)
    }
}

impl<T: Element + fmt::Debug> fmt::Debug for Array<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_list().entries(self.iter().take(8)).finish()
    }
}
