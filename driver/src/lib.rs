//! The native core of the Python package `howdah`.
//!
//! [`session`] is one connection: a state machine between requests and bytes that asyncio's transport feeds;
//! [`codec`] turns values into bytes and back.

use pyo3::prelude::*;

pub mod codec;
pub mod session;

/// The module `howdah._core`.
#[pymodule(gil_used = false)]
mod _core {
    #[pymodule_export]
    use crate::session::Session;
}
