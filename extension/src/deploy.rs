//! `pgml.deploy`.

use pgrx::pg_sys;

use crate::error::{Error, Result};
use crate::sql::Call;

crate::sql_function!(pgml_deploy_model, deploy_model);
crate::sql_function!(pgml_deploy_project, deploy_project);

fn deploy_model(_: &Call) -> Result<pg_sys::Datum> {
    Err(Error::unsupported("deploying is not built in yet"))
}

fn deploy_project(_: &Call) -> Result<pg_sys::Datum> {
    Err(Error::unsupported("deploying is not built in yet"))
}
