//! Background workers, their transactions, and which of them looks after the queue.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::panic::AssertUnwindSafe;

use pgrx::pg_sys::{self, PgTryBuilder};

use super::settings;
use crate::error::{Error, Result};
use crate::train::cut;

/// Where the code of a worker is.
const LIBRARY: &CStr = c"$libdir/pgml";

thread_local! {
    /// What this transaction has put into the queue.
    static QUEUED: RefCell<Vec<i64>> = const { RefCell::new(Vec::new()) };
}

/// Registers the callback; once per backend, from `_PG_init`.
pub fn register() {
    // SAFETY: a static function that needs no argument.
    unsafe { pg_sys::RegisterXactCallback(Some(transaction_ends), std::ptr::null_mut()) };
}

/// The job is in the queue when this transaction commits, which is to be looked at then.
pub fn queued(id: i64) {
    QUEUED.with_borrow_mut(|queued| queued.push(id));
}

/// Whether it was this transaction that put the job into the queue.
pub fn is_queued_here(id: i64) -> bool {
    QUEUED.with_borrow(|queued| queued.contains(&id))
}

/// Runs at the end of each transaction. After the commit nothing may fail, and nothing here does.
#[pgrx::pg_guard]
unsafe extern "C-unwind" fn transaction_ends(event: pg_sys::XactEvent::Type, _argument: *mut c_void) {
    use pg_sys::XactEvent::{XACT_EVENT_ABORT, XACT_EVENT_COMMIT, XACT_EVENT_PRE_PREPARE};
    match event {
        XACT_EVENT_COMMIT if !QUEUED.take().is_empty() && !start_queue() => {
            pgrx::warning!("a training waits in the queue: there is no free background worker (max_worker_processes)");
        }
        XACT_EVENT_ABORT => drop(QUEUED.take()),
        // Nobody would hear of the commit of a prepared transaction.
        XACT_EVENT_PRE_PREPARE if !QUEUED.with_borrow(Vec::is_empty) => {
            Error::unsupported("cannot PREPARE a transaction that has called pgml.train_async").raise()
        }
        _ => {}
    }
}

/// Asks for a worker that looks after the queue; it ends at once if there is one. `false` if no worker is free.
pub fn start_queue() -> bool {
    // SAFETY: plain reads of backend state.
    let role = unsafe { pg_sys::GetAuthenticatedUserId() };
    start(c"pgml_queue_main", c"pgml queue", role, 0, None)
}

/// A worker that this process started.
pub struct Worker(*mut pg_sys::BackgroundWorkerHandle);

impl Worker {
    pub fn start(function: &CStr, title: &CStr, role: pg_sys::Oid, argument: i64) -> Option<Worker> {
        let mut handle = std::ptr::null_mut();
        start(function, title, role, argument, Some(&mut handle)).then_some(Worker(handle))
    }

    pub fn has_ended(&self) -> bool {
        let mut pid = 0;
        // SAFETY: a handle that PostgreSQL gave, which lives as long as the process.
        let state = unsafe { pg_sys::GetBackgroundWorkerPid(self.0, &mut pid) };
        matches!(state, pg_sys::BgwHandleStatus::BGWH_STOPPED | pg_sys::BgwHandleStatus::BGWH_POSTMASTER_DIED)
    }
}

/// Asks for a worker that connects to this database as `role` and runs `function`; `false` if none is free.
fn start(
    function: &CStr,
    title: &CStr,
    role: pg_sys::Oid,
    argument: i64,
    handle: Option<&mut *mut pg_sys::BackgroundWorkerHandle>,
) -> bool {
    let access = pg_sys::BGWORKER_SHMEM_ACCESS | pg_sys::BGWORKER_BACKEND_DATABASE_CONNECTION;
    // SAFETY: plain reads of backend state; a handle is allocated where it lives as long as the process.
    unsafe {
        let mut worker = pg_sys::BackgroundWorker {
            bgw_flags: access as c_int,
            bgw_start_time: pg_sys::BgWorkerStartTime::BgWorkerStart_RecoveryFinished,
            bgw_restart_time: pg_sys::BGW_NEVER_RESTART,
            bgw_main_arg: pg_sys::Datum::from(argument),
            bgw_notify_pid: if handle.is_some() { pg_sys::MyProcPid } else { 0 },
            ..Default::default()
        };
        write(&mut worker.bgw_name, title.to_bytes());
        write(&mut worker.bgw_type, title.to_bytes());
        write(&mut worker.bgw_library_name, LIBRARY.to_bytes());
        write(&mut worker.bgw_function_name, function.to_bytes());
        let place = format!("{} {}", pg_sys::MyDatabaseId.to_u32(), role.to_u32());
        write(&mut worker.bgw_extra, place.as_bytes());
        let handle = handle.map_or(std::ptr::null_mut(), std::ptr::from_mut);
        let previous = pg_sys::MemoryContextSwitchTo(pg_sys::TopMemoryContext);
        let started = pg_sys::RegisterDynamicBackgroundWorker(&mut worker, handle);
        pg_sys::MemoryContextSwitchTo(previous);
        started
    }
}

/// As a C string, cut off where there is no more room.
fn write(field: &mut [c_char], text: &[u8]) {
    let room = field.len() - 1;
    for (to, from) in field.iter_mut().take(room).zip(text) {
        *to = *from as c_char;
    }
}

// Handlers of signals, whose addresses are needed, and what pgrx does not declare.
unsafe extern "C-unwind" {
    fn die(signal: c_int);
    fn SignalHandlerForConfigReload(signal: c_int);
    #[cfg(any(feature = "pg13", feature = "pg14"))]
    fn ProcessCompletedNotifies();
    #[cfg_attr(feature = "pg18", link_name = "pqsignal_be")]
    fn pqsignal(signal: c_int, handler: Option<unsafe extern "C-unwind" fn(c_int)>) -> *mut c_void;
}

/// Begins a worker: connects it to the database and as the role that it was started for.
pub fn connect() -> Result<()> {
    // SAFETY: called first in a worker's main function, where the entry is set and the signals are blocked. SIGTERM and
    // SIGHUP are handled as in a connection (SIGINT already is), SIGUSR2 by a handler that sets a flag.
    let place = unsafe {
        pqsignal(libc::SIGTERM, Some(die));
        pqsignal(libc::SIGUSR2, Some(cut::told));
        pqsignal(libc::SIGHUP, Some(SignalHandlerForConfigReload));
        pg_sys::BackgroundWorkerUnblockSignals();
        CStr::from_ptr((*pg_sys::MyBgworkerEntry).bgw_extra.as_ptr()).to_string_lossy().into_owned()
    };
    let mut numbers = place.split(' ').map(|number| number.parse::<u32>().map(pg_sys::Oid::from));
    let (Some(Ok(database)), Some(Ok(role))) = (numbers.next(), numbers.next()) else {
        return Err(Error::invalid("a background worker of pgml was not started by pgml"));
    };
    // SAFETY: once in a worker; a FATAL error ends it.
    unsafe { pg_sys::BackgroundWorkerInitializeConnectionByOid(database, role, 0) };
    settings::set_own();
    cut::hear();
    Ok(())
}

/// Sleeps until something happens, or for so many milliseconds; reads the configuration if it changed.
pub fn sleep(milliseconds: i64) {
    // SAFETY: the process's own latch; the flags are those of a wait that ends with the server.
    unsafe {
        let events = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
        pg_sys::WaitLatch(pg_sys::MyLatch, events as c_int, milliseconds, pg_sys::PG_WAIT_EXTENSION);
        pg_sys::ResetLatch(pg_sys::MyLatch);
    }
    pgrx::check_for_interrupts!();
}

/// In a worker: reads the configuration if it changed.
pub fn reload_if_asked() {
    // SAFETY: a flag that a signal handler of this process sets.
    unsafe {
        let pending = &raw mut pg_sys::ConfigReloadPending;
        if pending.read_volatile() != 0 {
            pending.write_volatile(0);
            pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP);
        }
    }
}

/// Runs in a transaction of its own, which is rolled back on an error.
pub fn transaction<T>(work: impl FnOnce() -> Result<T>) -> Result<T> {
    // SAFETY: in a worker, outside of a transaction.
    unsafe {
        pg_sys::SetCurrentStatementStartTimestamp();
        pg_sys::StartTransactionCommand();
    }
    let committed = PgTryBuilder::new(AssertUnwindSafe(|| {
        // SAFETY: within the transaction; what is pushed is popped, or else goes with the transaction.
        unsafe { pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot()) };
        let value = work()?;
        // SAFETY: as above; the snapshot is that of this function.
        unsafe {
            pg_sys::PopActiveSnapshot();
            pg_sys::CommitTransactionCommand();
        }
        Ok(value)
    }))
    .catch_others(|caught| Err(caught.into()))
    .execute();
    // SAFETY: the transaction has failed, or its work has; or it has committed, and what it notified is sent, which is part
    // of the commit from 15 on.
    unsafe {
        match committed {
            Err(_) => pg_sys::AbortCurrentTransaction(),
            #[cfg(any(feature = "pg13", feature = "pg14"))]
            Ok(_) => ProcessCompletedNotifies(),
            #[cfg(not(any(feature = "pg13", feature = "pg14")))]
            Ok(_) => {}
        }
    }
    committed
}

/// The lock of the process that looks after the queue of this database. Locks of sessions end with their process; those
/// of this kind (the kind of advisory locks, on something of our own) do not end before it.
fn queue_tag(table: pg_sys::Oid) -> pg_sys::LOCKTAG {
    pg_sys::LOCKTAG {
        // SAFETY: set when the backend connects.
        locktag_field1: unsafe { pg_sys::MyDatabaseId }.to_u32(),
        locktag_field2: table.to_u32(),
        locktag_field3: 0,
        locktag_field4: 1,
        locktag_type: pg_sys::LockTagType::LOCKTAG_OBJECT as u8,
        locktag_lockmethodid: pg_sys::USER_LOCKMETHOD as u8,
    }
}

/// Becomes the process that looks after the queue; `false` if another one is it, and stays it for more than a moment.
pub fn take_queue(table: pg_sys::Oid) -> bool {
    // Those who look whether there is one have the lock for an instant.
    (0..20).any(|attempt| {
        if attempt > 0 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        acquire(&queue_tag(table), pg_sys::ExclusiveLock)
    })
}

/// Is not that process any more.
pub fn leave_queue(table: pg_sys::Oid) {
    release(&queue_tag(table), pg_sys::ExclusiveLock);
}

/// Whether a process looks after the queue.
pub fn is_looked_after(table: pg_sys::Oid) -> bool {
    let tag = queue_tag(table);
    let free = acquire(&tag, pg_sys::ShareLock);
    if free {
        release(&tag, pg_sys::ShareLock);
    }
    !free
}

/// Acquires a lock for the session, without waiting.
fn acquire(tag: &pg_sys::LOCKTAG, mode: u32) -> bool {
    // SAFETY: a lock on a number of our own, within a transaction.
    let taken = unsafe { pg_sys::LockAcquire(tag, mode as pg_sys::LOCKMODE, true, true) };
    taken != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL
}

fn release(tag: &pg_sys::LOCKTAG, mode: u32) {
    // SAFETY: a lock that this process holds.
    unsafe { pg_sys::LockRelease(tag, mode as pg_sys::LOCKMODE, true) };
}
