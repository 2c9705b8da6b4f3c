//! The native core of the Python package `howdah`.
//!
//! [`session`] is one connection: a state machine between requests and bytes that asyncio's transport feeds;
//! [`codec`] turns values into bytes and back; [`columns`] gathers results for Arrow; [`record`] is a row.

use pyo3::prelude::*;

pub mod codec;
pub mod columns;
pub mod record;
pub mod session;

/// The module `howdah._core`.
#[pymodule(gil_used = false)]
mod _core {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::columns::Columns;
    #[pymodule_export]
    use crate::columns::import::ColumnSource;
    #[pymodule_export]
    use crate::columns::matrix::{Reals, pack_matrix, unpack_reals};
    #[pymodule_export]
    use crate::columns::object::ColumnObject;
    #[pymodule_export]
    use crate::record::Descriptor;
    #[pymodule_export]
    use crate::session::Session;
    #[pymodule_export]
    use crate::session::op::Op;
    #[pymodule_export]
    use crate::session::own::own_types;
    #[pymodule_export]
    use crate::session::settings::ConnectionSettings;
    #[pymodule_export]
    use crate::session::statement::Statement;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        let py = module.py();
        crate::session::inbox::settle_allocator();
        crate::session::op::install(py)?;
        crate::session::fork::watch();
        crate::codec::object::publish(module)?;
        module.add("Record", crate::record::record_class(py)?)?;
        module.add("NO_TIMEOUT", crate::session::deadline::no_timeout(py)?)?;
        module.add("leases", crate::session::lease::variable(py)?)
    }
}
