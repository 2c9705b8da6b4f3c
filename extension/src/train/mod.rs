//! `pgml.train`.

use pgrx::pg_sys;

use crate::error::{Error, Result};
use crate::sql::Call;

crate::sql_function!(pgml_train, train);
crate::sql_function!(pgml_xgboost_version, xgboost_version);

fn train(_: &Call) -> Result<pg_sys::Datum> {
    Err(Error::unsupported("training is not built in yet"))
}

fn xgboost_version(_: &Call) -> Result<pg_sys::Datum> {
    Err(Error::unsupported("training is not built in yet"))
}
