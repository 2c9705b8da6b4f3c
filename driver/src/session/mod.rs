//! One connection: requests in, bytes out; bytes in, answers out.

use pyo3::prelude::*;

/// One connection to a server, which is at once the protocol that asyncio's transport feeds.
#[pyclass(frozen, module = "howdah._core")]
pub struct Session {}

#[pymethods]
impl Session {
    #[new]
    fn new() -> Self {
        Session {}
    }
}
