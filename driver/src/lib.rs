//! The native core of the Python package `howdah`.
//!
//! [`session`] is one connection: a state machine between requests and bytes that asyncio's transport feeds;
//! [`codec`] turns values into bytes and back; [`record`] is a row.

use pyo3::prelude::*;

pub mod codec;
pub mod record;
pub mod session;

/// The module `howdah._core`.
#[pymodule(gil_used = false)]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::record::Descriptor;
    #[pymodule_export]
    use crate::session::Session;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::codec::object::publish(module)?;
        module.add("Record", crate::record::record_class(module.py())?)
    }
}
