//! Room for what grows with what a caller gives: where there is none, an ERROR.

use pgrx::PgSqlErrorCode;

use crate::error::{Error, Result};

/// Makes room for so many more elements.
pub fn reserve<T>(vec: &mut Vec<T>, more: usize) -> Result<()> {
    vec.try_reserve(more).map_err(|_| out_of_memory(more.saturating_mul(size_of::<T>())))
}

/// So many elements of one value.
pub fn filled<T: Clone>(value: T, length: usize) -> Result<Vec<T>> {
    let mut vec = Vec::new();
    reserve(&mut vec, length)?;
    vec.resize(length, value);
    Ok(vec)
}

fn out_of_memory(bytes: usize) -> Error {
    Error::new(PgSqlErrorCode::ERRCODE_OUT_OF_MEMORY, "out of memory")
        .detail(format!("Failed on request of {bytes} bytes."))
}
