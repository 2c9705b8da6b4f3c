//! `pgml.wait`, and the status of a job in `pgml.jobs`.

use std::time::{Duration, Instant};

use pgrx::{PgSqlErrorCode, pg_sys};

use super::process;
use super::{status, table};
use crate::access;
use crate::error::{Error, Result};
use crate::sql::{Call, LONGEST_NAME, text_datum};

crate::sql_function!(pgml_wait, wait);
crate::sql_function!(pgml_job_status, job_status);

/// Milliseconds between two looks at a job, at first and at last.
const FIRST: i64 = 10;
const LAST: i64 = 250;

/// `pgml.wait(id, timeout)`: the job's status, once it has ended or the time is over.
fn wait(call: &Call) -> Result<pg_sys::Datum> {
    let Some(id) = call.i64(0) else { return Err(Error::null_argument("id")) };
    let until = timeout(call)?.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut pause = FIRST;
    let mut looked = None;
    loop {
        let job = known(id)?;
        let waits = job.status == status::QUEUED;
        if waits && process::is_queued_here(id) {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                format!("training {id} begins when this transaction commits"),
            )
            .hint("Call pgml.wait in another transaction."));
        }
        if waits || job.status == status::RUNNING {
            // A server that was restarted, or had no worker free, starts again where somebody asks.
            if looked.is_none_or(|looked: Instant| looked.elapsed() > Duration::from_secs(1)) {
                look_after_queue(id, &job)?;
                looked = Some(Instant::now());
            }
            if until.is_none_or(|until| Instant::now() < until) {
                process::sleep(pause);
                pause = (2 * pause).min(LAST);
                continue;
            }
        }
        return Ok(text_datum(&job.status));
    }
}

/// A job that the current role may know of.
pub fn known(id: i64) -> Result<table::JobState> {
    let job = table::find(id)?.filter(|job| access::acts_as(job.role));
    job.ok_or_else(|| no_such_training(id))
}

pub fn no_such_training(id: i64) -> Error {
    Error::undefined(format!("training {id} does not exist"))
        .hint("SELECT id, project, status FROM pgml.jobs lists the trainings of pgml.train_async.")
}

/// How long; `None` for ever.
fn timeout(call: &Call) -> Result<Option<Duration>> {
    let Some(datum) = call.datum(1) else { return Ok(None) };
    // SAFETY: an interval, as declared, which is passed by reference.
    let pg_sys::Interval { time, day, month } = unsafe { *datum.cast_mut_ptr::<pg_sys::Interval>() };
    let micros = i128::from(time) + (i128::from(day) + 30 * i128::from(month)) * 86_400_000_000;
    let micros = u64::try_from(micros).map_err(|_| Error::invalid("timeout must not be negative"))?;
    Ok(Some(Duration::from_micros(micros)))
}

/// `pgml.job_status(id, status)`: what the row says, unless its process is no more.
fn job_status(call: &Call) -> Result<pg_sys::Datum> {
    let (Some(id), Some(said)) = (call.i64(0), call.text(1, "status", LONGEST_NAME)?) else { return Ok(call.null()) };
    // SAFETY: reads the state of the server.
    let standby = unsafe { pg_sys::RecoveryInProgress() };
    let open = said == status::QUEUED || said == status::RUNNING;
    if !open || standby {
        return Ok(text_datum(&said));
    }
    let job = table::find(id)?.filter(|job| access::acts_as(job.role));
    let Some(job) = job else { return Ok(text_datum(&said)) };
    let killed = look_after_queue(id, &job)?;
    Ok(text_datum(if killed { status::FAILED } else { &said }))
}

/// Has the queue looked after if nobody does, though it has this job. Whether the job was killed.
fn look_after_queue(id: i64, job: &table::JobState) -> Result<bool> {
    let killed = job.process.is_some_and(|process| !process.lives())
        // It may have ended in between.
        && table::find(id)?.is_some_and(|job| job.status == status::RUNNING);
    let waits = job.status == status::QUEUED && !process::is_queued_here(id);
    if (killed || waits) && !process::is_looked_after(table::oid()?) {
        process::start_queue();
    }
    Ok(killed)
}
