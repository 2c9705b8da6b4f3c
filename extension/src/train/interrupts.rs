//! Cancel, statement_timeout and the end of the connection, while a foreign library is at work.

use pgrx::{PgLogLevel, PgSqlErrorCode, pg_sys};

use super::cut;

unsafe extern "C-unwind" {
    /// Whether the postmaster runs; raises nothing. Who is waiting is told of its end, who computes has to ask.
    fn PostmasterIsAliveInternal() -> bool;
}

#[cfg(not(feature = "pg13"))]
unsafe extern "C-unwind" {
    /// Whether the client is still connected, as far as its socket tells; raises nothing.
    fn pq_check_connection() -> bool;
}

/// Something waits that ends this query: it is raised by [`check`] once the library has returned.
#[derive(Debug)]
pub struct Interrupted;

/// Whatever interrupts, at a place where nothing but Rust and PostgreSQL is on the stack.
pub fn check() {
    pgrx::check_for_interrupts!();
    if !postmaster_is_alive() {
        // The server cannot start again while one of its processes goes on, and a training may go on for hours.
        pgrx::ereport!(
            PgLogLevel::FATAL,
            PgSqlErrorCode::ERRCODE_ADMIN_SHUTDOWN,
            "terminating connection due to unexpected postmaster exit"
        );
    }
}

fn postmaster_is_alive() -> bool {
    // SAFETY: reads from a pipe of this process.
    unsafe { PostmasterIsAliveInternal() }
}

/// The same below a foreign library, whose frames neither an ERROR nor the end of the process may cross: what would end
/// the query is only noticed, everything else (such as a barrier that other processes wait for) is served.
pub fn check_inside_library() -> Result<(), Interrupted> {
    if !postmaster_is_alive() || cut::asked() {
        return Err(Interrupted);
    }
    // SAFETY: flags set by signal handlers of this process, read by its main thread.
    unsafe {
        if (&raw const pg_sys::InterruptPending).read_volatile() == 0 {
            return Ok(());
        }
        let flags = [
            &raw const pg_sys::QueryCancelPending,
            &raw const pg_sys::ProcDiePending,
            &raw const pg_sys::ClientConnectionLost,
            #[cfg(any(feature = "pg17", feature = "pg18"))]
            &raw const pg_sys::TransactionTimeoutPending,
        ];
        if flags.into_iter().any(|flag| flag.read_volatile() != 0) {
            return Err(Interrupted);
        }
        // client_connection_check_interval asks to look whether the client is there: that it asks ends nothing.
        #[cfg(not(feature = "pg13"))]
        if (&raw const pg_sys::CheckClientConnectionPending).read_volatile() != 0 && !pq_check_connection() {
            return Err(Interrupted);
        }
        pg_sys::ProcessInterrupts();
    }
    Ok(())
}
