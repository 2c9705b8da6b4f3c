//! `pgml.train_async`: a training is asked for, and an id given at once.

use pgrx::{IntoDatum, PgSqlErrorCode, pg_sys};

use super::{process, settings, table};
use crate::access;
use crate::error::{Error, Result};
use crate::guc;
use crate::registry;
use crate::sql::Call;
use crate::train::Request;

crate::sql_function!(pgml_train_async, train_async);

fn train_async(call: &Call) -> Result<pg_sys::Datum> {
    let request = Request::read(call)?;
    registry::check_writable(c"pgml.train_async()")?;
    access::require_training(&request.project_name, request.automatic_deploy)?;
    let (role, outer) = (access::user(), outer_role());
    require_room(role)?;
    let id = registry::next_id(c"training_jobs_id_seq")?;
    table::insert(&table::NewJob {
        id,
        request: &request,
        settings: settings::of_session(),
        role,
        // SAFETY: plain reads of backend state.
        session: unsafe { pg_sys::GetSessionUserId() },
        // SAFETY: as above.
        login: unsafe { pg_sys::GetAuthenticatedUserId() },
        definer: role != outer,
    })?;
    process::queued(id);
    Ok(id.into_datum().unwrap_or(pg_sys::Datum::from(0)))
}

/// What others have not committed yet does not count: a role's connections do not wait for each other.
fn require_room(role: pg_sys::Oid) -> Result<()> {
    let most = guc::queued_trainings();
    // SAFETY: a look-up in the catalog caches, within a transaction.
    if unsafe { pg_sys::superuser_arg(role) } || !table::waits_for(role, most)? {
        return Ok(());
    }
    let (name, code) = (access::role_name(role), PgSqlErrorCode::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED);
    Err(Error::new(
        code,
        format!(
            "role \"{name}\" has {} waiting, and pgml.queued_trainings allows no more",
            learn::count(most, "training")
        ),
    )
    .hint("Wait until some have begun, or cancel some: SELECT pgml.cancel(id) FROM pgml.jobs WHERE status = 'queued'."))
}

/// The role of the session, or the one of SET ROLE; not that of a function with its owner's rights.
fn outer_role() -> pg_sys::Oid {
    // SAFETY: plain reads of backend state.
    unsafe { pg_sys::GetOuterUserId() }
}
