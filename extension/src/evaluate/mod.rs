//! The evaluation of models: metrics on any rows, curves, the importance of features.
//!
//! A relation is read with the rights of the caller, who names it, and predicted by the model in blocks: `rows`. Each
//! function tells only facts that the caller's privileges on the project allow: a role with `predict`, for example,
//! could compute metrics itself from predictions for its own rows.

mod card;
mod check;
mod coefficients;
mod curves;
mod drift;
mod groups;
mod importance;
mod learning_curve;
mod metrics;
mod rows;
mod sided;
mod sklearn;
mod watch;

use pgrx::pg_sys;

use crate::access::Privilege;
use crate::error::{Error, Result};
use crate::names::{self, Key, Resolved};
use crate::predict::call_site::project_key;
use crate::sql::{Call, LONGEST_NAME};

/// The model that the first argument names, a project's name or a model's id, for a caller with that privilege.
fn target(call: &Call, privilege: Privilege) -> Result<Resolved> {
    names::resolve(key(call)?, privilege)
}

/// What the first argument names: a project, or a model by its id.
pub fn key(call: &Call) -> Result<Key> {
    // SAFETY: the call is running.
    let by_id = unsafe { pg_sys::get_fn_expr_argtype((*call.fcinfo()).flinfo, 0) } == pg_sys::INT8OID;
    let Some(name) = call.datum(0) else {
        return Err(Error::null_argument(if by_id { "model_id" } else { "project_name" }));
    };
    match by_id {
        true => Ok(Key::Model(name.value() as i64)),
        // SAFETY: a text, as declared, and not NULL.
        false => unsafe { project_key(name) },
    }
}

/// The label columns, if the argument of that number names any.
fn labels(call: &Call, argument: usize) -> Result<Option<Vec<String>>> {
    call.texts(argument, "y_column_name", LONGEST_NAME)
}
