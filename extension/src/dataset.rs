//! `pgml.load_dataset`.

use pgrx::pg_sys;

use crate::error::{Error, Result};
use crate::sql::Call;

crate::sql_function!(pgml_load_dataset, load_dataset);

fn load_dataset(_: &Call) -> Result<pg_sys::Datum> {
    Err(Error::unsupported("data sets are not built in yet"))
}
