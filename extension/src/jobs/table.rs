//! Reads and writes of `pgml.training_jobs`.

use pgrx::datum::TimestampWithTimeZone;
use pgrx::{IntoDatum, pg_sys};
use serde_json::{Map, Value, json};

use super::status;
use crate::backends::Process;
use crate::error::{Error, Result};
use crate::registry::{self, argument, role_argument, select, update, value};
use crate::train::{Outcome, Request};

/// Channel of the NOTIFY that a training sends when it ends.
const CHANNEL: &str = "pgml_training";

/// What an error says, in columns.
pub struct Failure {
    pub sqlstate: String,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
}

impl Failure {
    /// Cancelled by somebody, not wrong by itself.
    pub fn is_cancel(&self) -> bool {
        self.sqlstate == "57014"
    }
}

/// A job to be.
pub struct NewJob<'a> {
    pub id: i64,
    pub request: &'a Request,
    pub settings: Map<String, Value>,
    /// With whose rights it runs.
    pub role: pg_sys::Oid,
    /// The user of the session, and who it logged in as.
    pub session: pg_sys::Oid,
    pub login: pg_sys::Oid,
    /// Whether `role` is that of a function with its owner's rights.
    pub definer: bool,
}

/// A job that a process is to run.
pub struct Job {
    pub request: Request,
    pub settings: Map<String, Value>,
    pub role: pg_sys::Oid,
    pub session: pg_sys::Oid,
    pub login: pg_sys::Oid,
    pub definer: bool,
}

/// The table, locked against its removal until the end of the transaction; `None` if the extension is not there any more,
/// or something else is in its place. What runs in no function of the extension asks before it does anything.
pub fn lock() -> Option<pg_sys::Oid> {
    let find = || registry::relation_oid(c"training_jobs").ok();
    let (table, projects) = (find()?, registry::relation_oid(c"projects").ok()?);
    // SAFETY: locks that are released with the transaction; look-ups in catalogs. The table of projects, which every
    // statement with its owner's rights looks at, comes first, as it does where the extension is dropped.
    unsafe {
        pg_sys::LockRelationOid(projects, pg_sys::AccessShareLock as pg_sys::LOCKMODE);
        pg_sys::LockRelationOid(table, pg_sys::RowExclusiveLock as pg_sys::LOCKMODE);
        let extension = pg_sys::getExtensionOfObject(pg_sys::RelationRelationId, table);
        let own = pg_sys::get_extension_oid(c"pgml".as_ptr(), true);
        (extension != pg_sys::InvalidOid && extension == own && find() == Some(table)).then_some(table)
    }
}

/// The table's oid.
pub fn oid() -> Result<pg_sys::Oid> {
    registry::relation_oid(c"training_jobs")
}

pub fn insert(job: &NewJob<'_>) -> Result<()> {
    update(
        "INSERT INTO pgml.training_jobs
             (id, project_name, algorithm, request, settings, role, session_role, login_role, definer)
         VALUES ($1, $2, $3, $4::pg_catalog.jsonb, $5::pg_catalog.jsonb, $6::pg_catalog.oid, $7::pg_catalog.oid,
                 $8::pg_catalog.oid, $9)",
        &[
            argument(job.id),
            argument(job.request.project_name.as_str()),
            argument(job.request.algorithm.as_str()),
            argument(job.request.to_json().to_string()),
            argument(Value::Object(job.settings.clone()).to_string()),
            role_argument(job.role),
            role_argument(job.session),
            role_argument(job.login),
            argument(job.definer),
        ],
        |_| Ok(()),
    )?;
    Ok(())
}

/// A job that waits, and whom it logs in as.
pub fn queued() -> Result<Vec<(i64, pg_sys::Oid)>> {
    select(
        "SELECT id, login_role::pg_catalog.oid FROM pgml.training_jobs WHERE status OPERATOR(pg_catalog.=) 'queued'
         ORDER BY id USING OPERATOR(pg_catalog.<) LIMIT 1000",
        &[],
        |tuple| Ok((value(tuple, 1)?, value(tuple, 2)?)),
    )
}

/// Whether so many jobs wait for a role, what this transaction has asked for among them.
pub fn waits_for(role: pg_sys::Oid, number: i32) -> Result<bool> {
    let full = update(
        "SELECT pg_catalog.count(*) OPERATOR(pg_catalog.>=) $2 FROM (
             SELECT FROM pgml.training_jobs
             WHERE status OPERATOR(pg_catalog.=) 'queued' AND role OPERATOR(pg_catalog.=) $1::pg_catalog.oid LIMIT $2
         ) AS waiting",
        &[role_argument(role), argument(number)],
        |tuple| value::<bool>(tuple, 1),
    )?;
    Ok(full.first() == Some(&true))
}

/// Jobs of which their rows say that they run, and where.
pub fn running() -> Result<Vec<(i64, Process)>> {
    select(
        "SELECT id, pid, backend_start FROM pgml.training_jobs WHERE status OPERATOR(pg_catalog.=) 'running'",
        &[],
        |tuple| {
            let began: TimestampWithTimeZone = value(tuple, 3)?;
            Ok((value(tuple, 1)?, Process { pid: value(tuple, 2)?, began: began.into() }))
        },
    )
}

/// Makes a queued job one that this process runs; `None` if it is not in the queue any more.
pub fn claim(id: i64) -> Result<Option<Job>> {
    let own = Process::own();
    let rows = update(
        "UPDATE pgml.training_jobs
         SET status = 'running', started_at = pg_catalog.clock_timestamp(), pid = $2, backend_start = $3
         WHERE id OPERATOR(pg_catalog.=) $1 AND status OPERATOR(pg_catalog.=) 'queued'
         RETURNING request::pg_catalog.text, settings::pg_catalog.text, role::pg_catalog.oid,
             session_role::pg_catalog.oid, login_role::pg_catalog.oid, definer",
        &[argument(id), argument(own.pid), argument(TimestampWithTimeZone::try_from(own.began).ok())],
        |tuple| {
            let (request, settings): (String, String) = (value(tuple, 1)?, value(tuple, 2)?);
            let roles = (value(tuple, 3)?, value(tuple, 4)?, value(tuple, 5)?);
            Ok((request, settings, roles, value::<bool>(tuple, 6)?))
        },
    )?;
    let Some((request, settings, (role, session, login), definer)) = rows.into_iter().next() else { return Ok(None) };
    let settings = serde_json::from_str(&settings).unwrap_or_default();
    let request = serde_json::from_str(&request).ok().and_then(|json| Request::from_json(&json));
    let request = request.ok_or_else(|| Error::corrupted(format!("training {id} cannot be read from the queue")))?;
    Ok(Some(Job { request, settings, role, session, login, definer }))
}

/// Says what came of a job, within the transaction that made it so.
pub fn finish(id: i64, outcome: &Outcome) -> Result<()> {
    update(
        "UPDATE pgml.training_jobs SET status = 'done', ended_at = pg_catalog.clock_timestamp(), pid = NULL, backend_start = NULL,
             model_id = $2, deployed = $3, message = $4
         WHERE id OPERATOR(pg_catalog.=) $1",
        &[
            argument(id),
            argument(outcome.model_id),
            argument(outcome.deployed),
            optional(outcome.note.as_deref()),
        ],
        |_| Ok(()),
    )?;
    notify(id, status::DONE)
}

/// Says that a job came to nothing, if its status still is that one.
pub fn fail(id: i64, was: &str, failure: &Failure) -> Result<()> {
    let becomes = if failure.is_cancel() { status::CANCELLED } else { status::FAILED };
    let changed = update(
        "UPDATE pgml.training_jobs SET status = $3, ended_at = pg_catalog.clock_timestamp(), pid = NULL, backend_start = NULL,
             sqlstate = $4, message = $5, detail = $6, hint = $7
         WHERE id OPERATOR(pg_catalog.=) $1 AND status OPERATOR(pg_catalog.=) $2 RETURNING id",
        &[
            argument(id),
            argument(was),
            argument(becomes),
            argument(failure.sqlstate.as_str()),
            argument(failure.message.as_str()),
            optional(failure.detail.as_deref()),
            optional(failure.hint.as_deref()),
        ],
        |tuple| value::<i64>(tuple, 1),
    )?;
    if changed.is_empty() { Ok(()) } else { notify(id, becomes) }
}

/// Takes a job out of the queue; `false` if it is not there any more.
pub fn cancel_queued(id: i64) -> Result<bool> {
    let changed = update(
        "UPDATE pgml.training_jobs SET status = 'cancelled', ended_at = pg_catalog.clock_timestamp(),
             sqlstate = '57014', message = 'cancelled before it began'
         WHERE id OPERATOR(pg_catalog.=) $1 AND status OPERATOR(pg_catalog.=) 'queued' RETURNING id",
        &[argument(id)],
        |tuple| value::<i64>(tuple, 1),
    )?;
    if changed.is_empty() {
        return Ok(false);
    }
    notify(id, status::CANCELLED)?;
    Ok(true)
}

/// Forgets jobs that ended so many days ago.
pub fn forget(days: i32) -> Result<()> {
    update(
        "DELETE FROM pgml.training_jobs WHERE ended_at OPERATOR(pg_catalog.<)
             (pg_catalog.clock_timestamp() OPERATOR(pg_catalog.-) pg_catalog.make_interval(days => $1))",
        &[argument(days)],
        |_| Ok(()),
    )?;
    Ok(())
}

/// Every role may listen, so it is told no more than the number and the status.
fn notify(id: i64, status: &str) -> Result<()> {
    update(
        "SELECT pg_catalog.pg_notify($1, $2)",
        &[argument(CHANNEL), argument(json!({ "id": id, "status": status }).to_string())],
        |_| Ok(()),
    )?;
    Ok(())
}

fn optional<'a>(text: Option<&'a str>) -> pgrx::datum::DatumWithOid<'a> {
    // SAFETY: a text, or NULL.
    unsafe { pgrx::datum::DatumWithOid::new(text, <&str as IntoDatum>::type_oid()) }
}

/// What is known of a job.
pub struct JobState {
    pub role: pg_sys::Oid,
    pub status: String,
    /// Where it runs, if it does.
    pub process: Option<Process>,
}

/// The job as it is now, whatever the snapshot of the query.
pub fn find(id: i64) -> Result<Option<JobState>> {
    // SAFETY: within a transaction and not in parallel mode; popped below, or with the transaction on an error.
    unsafe { pg_sys::PushActiveSnapshot(pg_sys::GetLatestSnapshot()) };
    let found = select(
        "SELECT role::pg_catalog.oid, status, pid, backend_start FROM pgml.training_jobs
         WHERE id OPERATOR(pg_catalog.=) $1",
        &[argument(id)],
        |tuple| {
            let (pid, began) = (tuple.get(3)?, tuple.get::<TimestampWithTimeZone>(4)?);
            let process = pid.zip(began).map(|(pid, began)| Process { pid, began: began.into() });
            Ok(JobState { role: value(tuple, 1)?, status: value(tuple, 2)?, process })
        },
    );
    // SAFETY: pushed above.
    unsafe { pg_sys::PopActiveSnapshot() };
    Ok(found?.into_iter().next())
}
