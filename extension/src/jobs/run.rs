//! The worker of one training. It logs in as the caller did, trains with the rights of the role that called, and ends.

use std::ffi::CStr;

use pgrx::{PgSqlErrorCode, pg_sys};

use super::process;
use super::table::{self, Failure, Job};
use super::{settings, status};
use crate::access;
use crate::error::{Error, Report, Result};
use crate::train;

/// Name of the main function.
pub const MAIN: &CStr = c"pgml_training_main";

/// The main function of the worker; its argument is the number of a job.
#[pgrx::pg_guard]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pgml_training_main(argument: pg_sys::Datum) {
    if let Err(error) = work(argument.value() as i64) {
        error.raise();
    }
}

fn work(id: i64) -> Result<()> {
    process::connect()?;
    let job = process::transaction(|| match table::lock() {
        Some(_) => table::claim(id),
        None => Ok(None),
    })?;
    let Some(job) = job else { return Ok(()) };
    say_what_runs(id);
    let trained = process::transaction(|| {
        become_caller(&job)?;
        settings::set(&job.settings)?;
        let outcome = train::run(&job.request, id)?;
        table::finish(id, &outcome)
    });
    let Err(error) = trained else { return Ok(()) };
    let failure = Failure::from(error);
    pgrx::log!("training {id} of project \"{}\" failed: {}", job.request.project_name, failure.message);
    process::transaction(|| match table::lock() {
        Some(_) => table::fail(id, status::RUNNING, &failure),
        None => Ok(()),
    })
}

/// For `pg_stat_activity`.
fn say_what_runs(id: i64) {
    let text = std::ffi::CString::new(format!("pgml training {id}")).unwrap_or_default();
    // SAFETY: a C string, which is copied.
    unsafe { pg_sys::pgstat_report_activity(pg_sys::BackendState::STATE_RUNNING, text.as_ptr()) };
}

/// Takes on the user of the session that called, and the role that it called as. The role is changed as within a function
/// with its owner's rights: what the training runs of other people's code cannot change it back. It stays so until the
/// end of the transaction, and with it of the process.
fn become_caller(job: &Job) -> Result<()> {
    for role in [job.session, job.role] {
        if !exists(role) {
            return Err(Error::undefined(format!("role with oid {} does not exist any more", role.to_u32())));
        }
    }
    // SAFETY: within a transaction of a worker that is connected; the roles exist.
    unsafe {
        if job.session != job.login && !pg_sys::superuser_arg(job.login) {
            return Err(may_not_act_as(job.login, job.session));
        }
        pg_sys::SetSessionAuthorization(job.session, pg_sys::superuser_arg(job.session));
        if !job.definer && job.role != job.session && !may_set(job.session, job.role) {
            return Err(may_not_act_as(job.session, job.role));
        }
        let local = i32::try_from(pg_sys::SECURITY_LOCAL_USERID_CHANGE).unwrap_or(0);
        pg_sys::SetUserIdAndSecContext(job.role, local);
    }
    Ok(())
}

fn exists(role: pg_sys::Oid) -> bool {
    let cache = std::ffi::c_int::try_from(pg_sys::SysCacheIdentifier::AUTHOID).unwrap_or(0);
    let none = pg_sys::Datum::from(0);
    // SAFETY: a look-up in a catalog, within a transaction.
    unsafe { pg_sys::SearchSysCacheExists(cache, pg_sys::Datum::from(role), none, none, none) }
}

/// Whether the user of a session may SET ROLE to a role.
///
/// # Safety
/// Within a transaction.
unsafe fn may_set(user: pg_sys::Oid, role: pg_sys::Oid) -> bool {
    // SAFETY: look-ups in the catalog caches.
    unsafe {
        #[cfg(any(feature = "pg13", feature = "pg14", feature = "pg15"))]
        return pg_sys::is_member_of_role(user, role);
        #[cfg(not(any(feature = "pg13", feature = "pg14", feature = "pg15")))]
        pg_sys::member_can_set_role(user, role)
    }
}

fn may_not_act_as(user: pg_sys::Oid, role: pg_sys::Oid) -> Error {
    Error::new(
        PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
        format!("role \"{}\" may not act as role \"{}\" any more", access::role_name(user), access::role_name(role)),
    )
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        use pg_sys::panic::CaughtError::{ErrorReport, PostgresError, RustPanic};
        match error {
            Error::Report(report) => {
                let Report { code, message, detail, hint } = *report;
                Failure { sqlstate: letters(code), message, detail, hint }
            }
            Error::Caught(caught) => {
                let (PostgresError(report) | ErrorReport(report) | RustPanic { ereport: report, .. }) = &*caught;
                Failure {
                    sqlstate: letters(report.sql_error_code()),
                    message: report.message().to_owned(),
                    detail: report.detail().map(str::to_owned),
                    hint: report.hint().map(str::to_owned),
                }
            }
        }
    }
}

/// The five characters of an SQLSTATE, of which each has six bits.
fn letters(code: PgSqlErrorCode) -> String {
    let bits = code as u32;
    (0..5).map(|place| char::from((bits >> (6 * place) & 0x3f) as u8 + b'0')).collect()
}
