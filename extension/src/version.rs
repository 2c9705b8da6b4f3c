//! `pgml.version`.

use pgrx::pg_sys;

use crate::error::Result;
use crate::sql::{Call, text_datum};

crate::sql_function!(pgml_version, version);

fn version(_: &Call) -> Result<pg_sys::Datum> {
    Ok(text_datum(env!("CARGO_PKG_VERSION")))
}
