//! The processes of the server, as `pg_stat_activity` knows them: in shared memory, from which a process is gone as soon as
//! it has ended, however it did.

use pgrx::pg_sys;

/// A process, as told by its number and when it began: numbers come again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Process {
    pub pid: i32,
    pub began: pg_sys::TimestampTz,
}

impl Process {
    /// This one.
    pub fn own() -> Process {
        // SAFETY: set when the process begins.
        unsafe { Process { pid: pg_sys::MyProcPid, began: pg_sys::MyStartTimestamp } }
    }

    pub fn of(entry: &pg_sys::PgBackendStatus) -> Process {
        Process { pid: entry.st_procpid, began: entry.st_proc_start_timestamp }
    }

    /// Whether it is there now.
    pub fn lives(self) -> bool {
        look_anew();
        all().any(|entry| Process::of(entry) == self)
    }
}

/// Forgets what this transaction has seen of processes before.
pub fn look_anew() {
    // SAFETY: frees a copy that nobody keeps anything of.
    unsafe {
        #[cfg(feature = "pg13")]
        pg_sys::pgstat_clear_snapshot();
        #[cfg(not(feature = "pg13"))]
        pg_sys::pgstat_clear_backend_activity_snapshot();
    }
}

/// The processes as they were when this transaction first looked.
pub fn all() -> impl Iterator<Item = &'static pg_sys::PgBackendStatus> {
    // SAFETY: reads shared memory into a copy.
    let count = unsafe { pg_sys::pgstat_fetch_stat_numbackends() };
    (1..=count).filter_map(|index| {
        // SAFETY: the copy has so many entries, counted from 1; it lives as long as the transaction, and those who call
        // this keep nothing of it.
        unsafe {
            #[cfg(any(feature = "pg13", feature = "pg14", feature = "pg15"))]
            let entry = pg_sys::pgstat_fetch_stat_local_beentry(index);
            #[cfg(not(any(feature = "pg13", feature = "pg14", feature = "pg15")))]
            let entry = pg_sys::pgstat_get_local_beentry_by_index(index);
            entry.as_ref().map(|entry| &entry.backendStatus)
        }
    })
}
