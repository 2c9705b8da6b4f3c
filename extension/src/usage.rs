//! How models are used: `pgml.stat_models`.
//!
//! A connection counts for itself, and adds what it has counted to numbers that all connections of the database share when
//! its transaction ends. Those are in a segment of the server's dynamic shared memory, found by way of a small table in
//! its main one, which both go with the server: statistics begin with it. Nothing has to be preloaded, nothing is
//! written to a file, and where there is no memory for it nothing is counted.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::ffi::c_void;
use std::panic::AssertUnwindSafe;
use std::rc::Rc;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use pgrx::pg_sys::{self, PgTryBuilder};
use pgrx::{IntoDatum, PgSqlErrorCode};

use crate::access::{self, Privilege};
use crate::error::Result;
use crate::sql::Call;
use crate::{lookup, names};

crate::sql_function!(pgml_model_usage, model_usage);
crate::sql_function!(pgml_reset_stat_models, reset_stat_models);

/// Databases with statistics.
const DATABASES: usize = 256;

/// Models of a database with statistics; what further ones do is not counted.
const MODELS: usize = 16_384;

/// Places in which a model is looked for.
const PROBES: usize = 64;

/// Of the calls for one row one in so many is timed, and taken to be like the others.
const TIMED: u32 = 16;

/// The table in main shared memory, which is zero at first.
#[repr(C)]
struct Root {
    databases: [Database; DATABASES],
}

/// Where the numbers of a database are.
#[repr(C)]
struct Database {
    /// The database, and the table `pgml.models` of its extension, whose numbers begin anew with it.
    key: AtomicU64,
    handle: AtomicU32,
    state: AtomicU32,
}

const FREE: u32 = 0;
const CLAIMED: u32 = 1;
const READY: u32 = 2;

/// The numbers of a model.
#[repr(C, align(64))]
struct Slot {
    /// Its id; 0 where no model is counted.
    model: AtomicI64,
    calls: AtomicU64,
    rows: AtomicU64,
    nanoseconds: AtomicU64,
    hits: AtomicU64,
    misses: AtomicU64,
    /// Of the server's own kind of timestamp; 0 for never.
    last_used: AtomicI64,
}

impl Slot {
    fn reset(&self) {
        for number in [&self.calls, &self.rows, &self.nanoseconds, &self.hits, &self.misses] {
            number.store(0, Ordering::Relaxed);
        }
        self.last_used.store(0, Ordering::Relaxed);
    }
}

/// The numbers of a database, if there is room for them.
type Slots = Option<&'static [Slot]>;

/// What this connection has counted of a model since its last transaction ended.
pub struct Tally {
    slot: Option<&'static Slot>,
    calls: Cell<u64>,
    rows: Cell<u64>,
    nanoseconds: Cell<u64>,
    hits: Cell<u64>,
    misses: Cell<u64>,
    dirty: Cell<bool>,
}

thread_local! {
    /// The key of the numbers, and the numbers.
    static OPEN: Cell<Option<(u64, Slots)>> = const { Cell::new(None) };
    static TALLIES: RefCell<HashMap<i64, Rc<Tally>>> = RefCell::new(HashMap::new());
    static DIRTY: RefCell<Vec<Rc<Tally>>> = const { RefCell::new(Vec::new()) };
    static CALLS: Cell<u32> = const { Cell::new(0) };
    /// Whether this connection was the first to count in this database since the server started.
    static FIRST: Cell<bool> = const { Cell::new(false) };
}

/// Tallies that a connection keeps at most, but for those in use.
const KEPT: usize = 1024;

// Reads a variable; pgrx's wrapper costs more than that, once a transaction.
unsafe extern "C" {
    #[link_name = "GetCurrentStatementStartTimestamp"]
    safe fn statement_began() -> pg_sys::TimestampTz;
}

/// Registers the callback; once per backend, from `_PG_init`.
pub fn register() {
    // SAFETY: a static function that needs no argument.
    unsafe { pg_sys::RegisterXactCallback(Some(transaction_ends), std::ptr::null_mut()) };
}

/// Runs at the end of each transaction: it must not fail, and need not know how that ends.
unsafe extern "C-unwind" fn transaction_ends(event: pg_sys::XactEvent::Type, _argument: *mut c_void) {
    use pg_sys::XactEvent::{XACT_EVENT_PARALLEL_PRE_COMMIT, XACT_EVENT_PRE_COMMIT, XACT_EVENT_PRE_PREPARE};
    if !matches!(event, XACT_EVENT_PRE_COMMIT | XACT_EVENT_PARALLEL_PRE_COMMIT | XACT_EVENT_PRE_PREPARE) {
        publish();
    }
}

/// Adds what was counted to what is shared.
fn publish() {
    DIRTY.with_borrow_mut(|dirty| {
        for tally in dirty.drain(..) {
            tally.publish();
        }
    });
}

/// A call for one row: now and then its beginning.
#[inline]
pub fn one_row() -> Option<Instant> {
    let calls = CALLS.get().wrapping_add(1);
    CALLS.set(calls);
    calls.is_multiple_of(TIMED).then(Instant::now)
}

impl Tally {
    /// Counts a call for one row, which began when [`one_row`] said.
    #[inline]
    pub fn row(self: &Rc<Tally>, began: Option<Instant>) {
        self.calls.set(self.calls.get() + 1);
        self.rows.set(self.rows.get() + 1);
        if let Some(began) = began {
            self.took(began, u64::from(TIMED));
        }
        if !self.dirty.get() {
            self.soil();
        }
    }

    /// Counts calls for many rows, or parts of one.
    pub fn rows(self: &Rc<Tally>, calls: u64, rows: usize, began: Instant) {
        self.calls.set(self.calls.get() + calls);
        self.rows.set(self.rows.get() + rows as u64);
        self.took(began, 1);
        if !self.dirty.get() {
            self.soil();
        }
    }

    /// Counts that this connection has begun to use the model, and whether it had to compile it.
    pub fn opened(self: &Rc<Tally>, compiled: bool) {
        let number = if compiled { &self.misses } else { &self.hits };
        number.set(number.get() + 1);
        if !self.dirty.get() {
            self.soil();
        }
    }

    fn took(&self, began: Instant, times: u64) {
        let nanoseconds = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.nanoseconds.set(self.nanoseconds.get().saturating_add(nanoseconds.saturating_mul(times)));
    }

    #[cold]
    fn soil(self: &Rc<Tally>) {
        self.dirty.set(true);
        DIRTY.with_borrow_mut(|dirty| dirty.push(self.clone()));
    }

    fn publish(&self) {
        self.dirty.set(false);
        let own = [&self.calls, &self.rows, &self.nanoseconds, &self.hits, &self.misses].map(|number| number.take());
        let Some(slot) = self.slot else { return };
        let shared = [&slot.calls, &slot.rows, &slot.nanoseconds, &slot.hits, &slot.misses];
        for (shared, own) in shared.into_iter().zip(own) {
            if own > 0 {
                shared.fetch_add(own, Ordering::Relaxed);
            }
        }
        slot.last_used.fetch_max(statement_began(), Ordering::Relaxed);
    }
}

/// Whether this is the first use of the extension in this database since the server started. True once.
pub fn is_first_use() -> bool {
    open();
    FIRST.take()
}

/// What counts the uses of a model.
pub fn tally(model: i64) -> Rc<Tally> {
    let slots = open();
    if let Some(tally) = TALLIES.with_borrow(|tallies| tallies.get(&model).cloned()) {
        return tally;
    }
    let zero = || Cell::new(0);
    let tally = Rc::new(Tally {
        slot: slots.and_then(|slots| slot(slots, model)),
        calls: zero(),
        rows: zero(),
        nanoseconds: zero(),
        hits: zero(),
        misses: zero(),
        dirty: Cell::new(false),
    });
    TALLIES.with_borrow_mut(|tallies| {
        if tallies.len() >= KEPT {
            tallies.retain(|_, tally| Rc::strong_count(tally) > 1);
        }
        tallies.insert(model, tally.clone());
    });
    tally
}

/// The slot of a model; `None` where there is no room.
fn slot(slots: &'static [Slot], model: i64) -> Option<&'static Slot> {
    let start = (model.cast_unsigned().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as usize;
    (0..PROBES).map(|probe| &slots[(start + probe) % MODELS]).find(|slot| {
        match slot.model.compare_exchange(0, model, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => true,
            Err(there) => there == model,
        }
    })
}

/// The numbers of this database; `None` where there are none.
fn open() -> Slots {
    let table = lookup::models_oid();
    // SAFETY: set when the backend connects.
    let key = u64::from(unsafe { pg_sys::MyDatabaseId }.to_u32()) << 32 | u64::from(table.to_u32());
    if let Some((known, slots)) = OPEN.get()
        && known == key
    {
        return slots;
    }
    // Of another extension of the name, which this connection has seen dropped.
    TALLIES.with_borrow_mut(HashMap::clear);
    let slots = if_possible(|| find_or_make(key));
    OPEN.set(Some((key, slots)));
    slots
}

/// What the work gives; `None` where it fails for want of shared memory: a prediction goes without statistics then.
fn if_possible<T>(work: impl FnOnce() -> Option<T>) -> Option<T> {
    PgTryBuilder::new(AssertUnwindSafe(work))
        .catch_when(PgSqlErrorCode::ERRCODE_QUERY_CANCELED, |cancel| cancel.rethrow())
        .catch_others(|_| None)
        .execute()
}

fn find_or_make(key: u64) -> Slots {
    let root = root();
    let find = || root.databases.iter().find(|database| database.key.load(Ordering::SeqCst) == key);
    if let Some(database) = find() {
        return attach(database);
    }
    for database in &root.databases {
        free_if_gone(database, key);
    }
    let claim = |database: &&Database| {
        database.state.compare_exchange(FREE, CLAIMED, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    };
    let own = root.databases.iter().find(claim)?;
    own.key.store(key, Ordering::SeqCst);
    // Of two that are made at once the first one counts.
    match find() {
        Some(first) if !std::ptr::eq(first, own) => {
            own.key.store(0, Ordering::SeqCst);
            own.state.store(FREE, Ordering::SeqCst);
            attach(first)
        }
        _ => make(own),
    }
}

/// The table in main shared memory: in the room that the server leaves there for the unforeseen.
fn root() -> &'static Root {
    let mut found = false;
    // SAFETY: memory for as long as the server runs, zero when it is new, which is an empty table; all of it is atomic.
    unsafe { &*pg_sys::ShmemInitStruct(c"pgml".as_ptr(), size_of::<Root>(), &mut found).cast::<Root>() }
}

/// Gives back the numbers of a database that is gone, or of an extension that was in this one before.
fn free_if_gone(database: &Database, key: u64) {
    let other = database.key.load(Ordering::SeqCst);
    if other == 0 || other >> 32 != key >> 32 && database_exists((other >> 32) as u32) {
        return;
    }
    if database.state.compare_exchange(READY, CLAIMED, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
        // SAFETY: a segment that was pinned when its state became READY, and is unpinned by who claimed it alone. Who has
        // it mapped keeps it.
        unsafe { pg_sys::dsm_unpin_segment(database.handle.load(Ordering::SeqCst)) };
        database.key.store(0, Ordering::SeqCst);
        database.state.store(FREE, Ordering::SeqCst);
    }
}

fn database_exists(number: u32) -> bool {
    let cache = std::ffi::c_int::try_from(pg_sys::SysCacheIdentifier::DATABASEOID).unwrap_or(0);
    let none = pg_sys::Datum::from(0);
    // SAFETY: a look-up in a catalog that all databases share, within a transaction.
    unsafe { pg_sys::SearchSysCacheExists(cache, pg_sys::Datum::from(number), none, none, none) }
}

/// `None` if who makes it does not come to an end.
fn attach(database: &Database) -> Slots {
    for _ in 0..50 {
        if database.state.load(Ordering::SeqCst) == READY {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    if database.state.load(Ordering::SeqCst) != READY {
        return None;
    }
    let handle = database.handle.load(Ordering::SeqCst);
    // SAFETY: a segment that this process attaches once; without a resource owner it stays mapped until the process ends.
    unsafe {
        let segment = without_owner(|| pg_sys::dsm_attach(handle));
        (!segment.is_null()).then(|| slots(segment))
    }
}

fn make(database: &Database) -> Slots {
    let made = if_possible(|| {
        // SAFETY: as in `attach`. A new segment is zero, which is no model.
        unsafe {
            let flags = pg_sys::DSM_CREATE_NULL_IF_MAXSEGMENTS as i32;
            let segment = without_owner(|| pg_sys::dsm_create(size_of::<Slot>() * MODELS, flags));
            if segment.is_null() {
                return None;
            }
            std::ptr::write_bytes(pg_sys::dsm_segment_address(segment).cast::<u8>(), 0, size_of::<Slot>() * MODELS);
            pg_sys::dsm_pin_segment(segment);
            database.handle.store(pg_sys::dsm_segment_handle(segment), Ordering::SeqCst);
            database.state.store(READY, Ordering::SeqCst);
            FIRST.set(true);
            Some(slots(segment))
        }
    });
    if made.is_none() {
        database.key.store(0, Ordering::SeqCst);
        database.state.store(FREE, Ordering::SeqCst);
    }
    made
}

/// # Safety
/// A segment of ours, which is never detached.
unsafe fn slots(segment: *mut pg_sys::dsm_segment) -> &'static [Slot] {
    // SAFETY: as long as it was made, aligned to a page, and atomic in all its parts.
    unsafe { std::slice::from_raw_parts(pg_sys::dsm_segment_address(segment).cast::<Slot>(), MODELS) }
}

fn without_owner<T>(work: impl FnOnce() -> T) -> T {
    /// Puts the owner back, after an ERROR too.
    struct Back(pg_sys::ResourceOwner);
    impl Drop for Back {
        fn drop(&mut self) {
            // SAFETY: what it was before.
            unsafe { pg_sys::CurrentResourceOwner = self.0 };
        }
    }
    // SAFETY: the segment belongs to the process then.
    let _back = Back(unsafe { std::ptr::replace(&raw mut pg_sys::CurrentResourceOwner, std::ptr::null_mut()) });
    work()
}

/// `pgml.model_usage()`: of the models of projects that the current role may see.
fn model_usage(call: &Call) -> Result<pg_sys::Datum> {
    publish();
    let snapshot = names::snapshot();
    let mut rows = Vec::new();
    for slot in open().unwrap_or_default() {
        pgrx::check_for_interrupts!();
        let model = slot.model.load(Ordering::Relaxed);
        let last_used = slot.last_used.load(Ordering::Relaxed);
        if model == 0 || last_used == 0 {
            continue;
        }
        let Some(project) = lookup::project_of_model(model, snapshot.get())? else { continue };
        if !access::may(&project, Privilege::See, snapshot.get())? {
            continue;
        }
        let number = |number: &AtomicU64| Some(pg_sys::Datum::from(number.load(Ordering::Relaxed).cast_signed()));
        rows.push([
            Some(pg_sys::Datum::from(model)),
            number(&slot.calls),
            number(&slot.rows),
            (slot.nanoseconds.load(Ordering::Relaxed) as f64 / 1e6).into_datum(),
            number(&slot.hits),
            number(&slot.misses),
            Some(pg_sys::Datum::from(last_used)),
        ]);
    }
    call.rows(rows)
}

/// `pgml.reset_stat_models(model_id)`: of one model, or of all, whose projects are the current role's.
fn reset_stat_models(call: &Call) -> Result<pg_sys::Datum> {
    publish();
    let wanted = call.i64(0);
    let snapshot = names::snapshot();
    if let Some(model) = wanted {
        access::require_own_model(model, snapshot.get())?;
    }
    for slot in open().unwrap_or_default() {
        let model = slot.model.load(Ordering::Relaxed);
        if model == 0 || wanted.is_some_and(|wanted| wanted != model) {
            continue;
        }
        let project = lookup::project_of_model(model, snapshot.get())?;
        if project.is_some_and(|project| access::owns(&project)) {
            slot.reset();
        }
    }
    Ok(call.no_value())
}
