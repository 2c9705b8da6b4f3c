//! `pgml.cancel(id)`.

use pgrx::{PgSqlErrorCode, pg_sys};

use super::{table, wait};
use crate::backends::{self, Process};
use crate::error::{Error, Result};
use crate::registry;
use crate::sql::Call;
use crate::{access, activity};

crate::sql_function!(pgml_cancel, cancel);

/// Whether there was something to cancel: a training that waited, or one that runs, whose process is told.
fn cancel(call: &Call) -> Result<pg_sys::Datum> {
    let Some(id) = call.i64(0) else { return Err(Error::null_argument("id")) };
    backends::look_anew();
    let cancelled = match table::find(id)? {
        Some(job) => {
            check_may_cancel(id, job.role)?;
            cancel_job(id)?
        }
        // One of pgml.train.
        None => {
            let found = activity::trainings().into_iter().find(|training| training.id() == id);
            let training = found.ok_or_else(|| wait::no_such_training(id))?;
            check_may_cancel(id, training.role)?;
            interrupt(training.process)
        }
    };
    Ok(pg_sys::Datum::from(cancelled))
}

fn cancel_job(id: i64) -> Result<bool> {
    registry::check_writable(c"pgml.cancel()")?;
    if table::cancel_queued(id)? {
        return Ok(true);
    }
    // It runs since a moment, or has ended.
    let Some(job) = table::find(id)? else { return Ok(false) };
    let Some(process) = job.process else { return Ok(false) };
    let is_search = |training: &activity::Training| {
        training.id() == id && training.process.pid == process.pid && training.keeps_best()
    };
    // One that has ended meanwhile does not hear it, and goes on as it would after a search.
    match activity::trainings().iter().any(is_search) {
        true => Ok(signal(process, libc::SIGUSR2)),
        false => Ok(interrupt(process)),
    }
}

/// As of `pg_cancel_backend`: the role itself, who may act as it, and members of `pg_signal_backend`, whom superusers'
/// trainings are no business of.
fn check_may_cancel(id: i64, role: pg_sys::Oid) -> Result<()> {
    // SAFETY: look-ups in the catalog caches.
    let (of_superuser, superuser) = unsafe { (pg_sys::superuser_arg(role), pg_sys::superuser()) };
    if superuser || !of_superuser && (access::acts_as(role) || access::acts_as(ROLE_PG_SIGNAL_BACKEND)) {
        return Ok(());
    }
    if !access::acts_as(role) {
        return Err(wait::no_such_training(id));
    }
    Err(Error::new(
        PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
        format!("training {id} of a superuser is cancelled by superusers only"),
    ))
}

/// The predefined role `pg_signal_backend`, whose number is the same everywhere.
const ROLE_PG_SIGNAL_BACKEND: pg_sys::Oid = pg_sys::Oid::from_u32(4200);

/// Tells a process to cancel what it runs; `false` if it is no more.
fn interrupt(process: Process) -> bool {
    signal(process, libc::SIGINT)
}

fn signal(process: Process, signal: std::ffi::c_int) -> bool {
    // SAFETY: sends a signal that the server's processes with a transaction know, and workers of ours above all, to one
    // that is there.
    process.lives() && unsafe { libc::kill(process.pid, signal) } == 0
}
