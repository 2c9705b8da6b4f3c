//! One pass over the rows of a statement, in the order in which its plan gives them and under the snapshot of the
//! query that calls.
//!
//! The rows go from the executor straight into a receiver of our own: no copy of a tuple is made.

use std::ffi::{CStr, CString};

use pgrx::{PgSqlErrorCode, PgTupleDesc, Spi, pg_sys};

use crate::error::{Error, Result};

/// A column of a statement's result.
#[derive(Debug, Clone)]
pub struct ResultColumn {
    pub name: String,
    pub type_oid: pg_sys::Oid,
    /// The relation and the number of the column that it is, where the statement reads the rows of that relation alone.
    pub origin: Option<(pg_sys::Oid, i16)>,
}

/// Takes what a statement gives.
pub trait Receiver {
    /// A row: a value and whether it is NULL for each column. The values live until it returns.
    fn row(&mut self, values: &[pg_sys::Datum], nulls: &[bool]) -> Result<()>;
}

/// The columns of the rows that a statement gives. The relations it names are locked from here on, so that [`run`] finds
/// the same ones.
pub fn describe(statement: &str) -> Result<Vec<ResultColumn>> {
    let statement = c_string(statement)?;
    Spi::connect(|_| result_columns(prepare(&statement)))
}

/// Runs the statement once. `own_writes` lets it see what the calling function itself has written, otherwise the
/// snapshot is exactly that of the calling query.
///
/// The plan has no parallel part and its scans start at the beginning of their tables: what a boosted model looks like
/// depends on the order of its rows.
pub fn run(statement: &str, own_writes: bool, receiver: &mut dyn Receiver) -> Result<()> {
    let statement = c_string(statement)?;
    let _settings = OrderedScans::new();
    Spi::connect(|_| {
        let plan = prepare(&statement);
        let columns = result_columns(plan)?;
        // SAFETY: the plan has one statement that returns rows; it takes no parameters.
        let portal = unsafe {
            pg_sys::SPI_cursor_open(std::ptr::null(), plan, std::ptr::null_mut(), std::ptr::null(), !own_writes)
        };
        let mut destination = Destination::new(receiver, columns.len());
        // SAFETY: the portal is open and the destination, whose first field is PostgreSQL's structure, stays in place
        // until the call returns. A failed receiver stops the portal by returning false.
        unsafe {
            pg_sys::PortalRunFetch(
                portal,
                pg_sys::FetchDirection::FETCH_FORWARD,
                std::ffi::c_long::MAX,
                (&raw mut destination).cast(),
            );
        }
        let outcome = destination.finish();
        // SAFETY: the portal is open and done.
        unsafe { pg_sys::SPI_cursor_close(portal) };
        outcome
    })
}

fn c_string(statement: &str) -> Result<CString> {
    CString::new(statement).map_err(|_| Error::invalid("the query has a zero byte"))
}

/// To be called inside SPI, which frees the plan at its end.
fn prepare(statement: &CStr) -> pg_sys::SPIPlanPtr {
    // No scrolling, and no CURSOR_OPT_PARALLEL_OK.
    let options = i32::try_from(pg_sys::CURSOR_OPT_NO_SCROLL).unwrap_or(0);
    // SAFETY: inside SPI; the statement is NUL-terminated and has no parameters.
    unsafe { pg_sys::SPI_prepare_cursor(statement.as_ptr(), 0, std::ptr::null_mut(), options) }
}

fn result_columns(plan: pg_sys::SPIPlanPtr) -> Result<Vec<ResultColumn>> {
    let not_one_query = || {
        Error::new(PgSqlErrorCode::ERRCODE_SYNTAX_ERROR, "relation_name must be a relation or one query in parentheses")
    };
    if plan.is_null() {
        return Err(not_one_query());
    }
    // SAFETY: a valid plan; its sources live as long as it, and a source of a query that returns rows has the
    // description of them.
    unsafe {
        let sources = pg_sys::SPI_plan_get_plan_sources(plan);
        if sources.is_null() || (*sources).length != 1 {
            return Err(not_one_query());
        }
        let source: *mut pg_sys::CachedPlanSource = (*(*sources).elements).ptr_value.cast();
        if source.is_null() || (*source).resultDesc.is_null() {
            return Err(not_one_query());
        }
        if writes((*source).query_list) {
            return Err(Error::unsupported("a query to train on must only read: it cannot change or lock rows")
                .hint("Write first, and train on what was written afterwards."));
        }
        let origins = origins((*source).query_list);
        let descriptor = PgTupleDesc::from_pg_copy((*source).resultDesc);
        Ok(descriptor
            .iter()
            .enumerate()
            .map(|(index, attribute)| ResultColumn {
                name: CStr::from_ptr(attribute.attname.data.as_ptr()).to_string_lossy().into_owned(),
                type_oid: attribute.atttypid,
                origin: origins.get(index).copied().flatten(),
            })
            .collect())
    }
}

/// The columns of a relation that the results of a query are, where it reads the rows of that relation and nothing else: of
/// a join, a row may come more than once.
///
/// # Safety
/// `queries` is a valid list of queries.
unsafe fn origins(queries: *mut pg_sys::List) -> Vec<Option<(pg_sys::Oid, i16)>> {
    // SAFETY: as the caller promises; the lists in a query hold what their names say.
    unsafe {
        let queries = pgrx::PgList::<pg_sys::Query>::from_pg(queries);
        let Some(query) = queries.get_ptr(0).filter(|_| queries.len() == 1) else { return Vec::new() };
        let tables = pgrx::PgList::<pg_sys::RangeTblEntry>::from_pg((*query).rtable);
        let alone = tables.get_ptr(0).is_some_and(|table| (*table).rtekind == pg_sys::RTEKind::RTE_RELATION);
        if tables.len() != 1 || !alone || (*query).hasTargetSRFs {
            return Vec::new();
        }
        let targets = pgrx::PgList::<pg_sys::TargetEntry>::from_pg((*query).targetList);
        let known = targets.iter_ptr().filter(|target| !(**target).resjunk);
        known
            .map(|target| {
                let (relation, column) = ((*target).resorigtbl, (*target).resorigcol);
                (relation != pg_sys::InvalidOid && column > 0).then_some((relation, column))
            })
            .collect()
    }
}

/// Whether one of these rewritten queries does more than read.
///
/// # Safety
/// `queries` is a list of Query nodes.
unsafe fn writes(queries: *mut pg_sys::List) -> bool {
    // SAFETY: as the caller promises; an empty list is a null pointer.
    unsafe {
        let length = if queries.is_null() { 0 } else { usize::try_from((*queries).length).unwrap_or(0) };
        (0..length).any(|index| {
            let query: *mut pg_sys::Query = (*(*queries).elements.add(index)).ptr_value.cast();
            (*query).commandType != pg_sys::CmdType::CMD_SELECT || (*query).hasModifyingCTE || (*query).hasForUpdate
        })
    }
}

/// PostgreSQL's DestReceiver with ours behind it.
#[repr(C)]
struct Destination<'a> {
    base: pg_sys::DestReceiver,
    receiver: &'a mut dyn Receiver,
    width: usize,
    /// Holds what reading toasted values allocates; emptied now and then.
    memory: pg_sys::MemoryContext,
    since_reset: u32,
    failure: Option<Error>,
}

/// Rows between two emptyings of the memory: often enough to stay small, seldom enough to cost nothing.
const ROWS_PER_RESET: u32 = 64;

impl<'a> Destination<'a> {
    fn new(receiver: &'a mut dyn Receiver, width: usize) -> Destination<'a> {
        // SAFETY: a child of the current context, deleted with it if not before.
        let memory = unsafe {
            pg_sys::AllocSetContextCreateInternal(
                pg_sys::CurrentMemoryContext,
                c"pgml training row".as_ptr(),
                pg_sys::ALLOCSET_DEFAULT_MINSIZE as usize,
                pg_sys::ALLOCSET_DEFAULT_INITSIZE as usize,
                pg_sys::ALLOCSET_DEFAULT_MAXSIZE as usize,
            )
        };
        Destination {
            base: pg_sys::DestReceiver {
                receiveSlot: Some(receive_slot),
                rStartup: Some(startup),
                rShutdown: Some(shutdown),
                rDestroy: Some(shutdown),
                mydest: pg_sys::CommandDest::DestNone,
            },
            receiver,
            width,
            memory,
            since_reset: 0,
            failure: None,
        }
    }

    fn finish(self) -> Result<()> {
        // SAFETY: made in `new`; nothing of it is used any more.
        unsafe { pg_sys::MemoryContextDelete(self.memory) };
        self.failure.map_or(Ok(()), Err)
    }
}

#[pgrx::pg_guard]
unsafe extern "C-unwind" fn startup(
    _receiver: *mut pg_sys::DestReceiver,
    _operation: std::ffi::c_int,
    _columns: pg_sys::TupleDesc,
) {
}

#[pgrx::pg_guard]
unsafe extern "C-unwind" fn shutdown(_receiver: *mut pg_sys::DestReceiver) {}

#[pgrx::pg_guard]
unsafe extern "C-unwind" fn receive_slot(slot: *mut pg_sys::TupleTableSlot, this: *mut pg_sys::DestReceiver) -> bool {
    // SAFETY: `this` is the Destination that `run` gave to the portal, and nobody else uses it meanwhile; the slot has
    // as many attributes as the plan's description, which all are there once they are deformed.
    unsafe {
        let this = &mut *this.cast::<Destination>();
        if usize::try_from((*slot).tts_nvalid).unwrap_or(0) < this.width {
            pg_sys::slot_getsomeattrs_int(slot, i32::try_from(this.width).unwrap_or(i32::MAX));
        }
        let values = std::slice::from_raw_parts((*slot).tts_values, this.width);
        let nulls = std::slice::from_raw_parts((*slot).tts_isnull, this.width);
        let previous = std::ptr::replace(&raw mut pg_sys::CurrentMemoryContext, this.memory);
        let outcome = this.receiver.row(values, nulls);
        pg_sys::CurrentMemoryContext = previous;
        this.since_reset += 1;
        if this.since_reset == ROWS_PER_RESET {
            this.since_reset = 0;
            pg_sys::MemoryContextReset(this.memory);
        }
        match outcome {
            Ok(()) => true,
            Err(error) => {
                this.failure = Some(error);
                false
            }
        }
    }
}

/// While it lives, sequential scans start at the first page of their table. An ERROR ends it with the transaction.
struct OrderedScans {
    level: std::ffi::c_int,
}

impl OrderedScans {
    fn new() -> OrderedScans {
        // SAFETY: a new level of settings, left again in `drop` or by the end of the transaction.
        unsafe {
            let level = pg_sys::NewGUCNestLevel();
            pg_sys::set_config_option(
                c"synchronize_seqscans".as_ptr(),
                c"off".as_ptr(),
                pg_sys::GucContext::PGC_USERSET,
                pg_sys::GucSource::PGC_S_SESSION,
                pg_sys::GucAction::GUC_ACTION_SAVE,
                true,
                0,
                false,
            );
            OrderedScans { level }
        }
    }
}

impl Drop for OrderedScans {
    fn drop(&mut self) {
        // During an ERROR the end of the (sub)transaction restores settings, and does so after what else it does.
        if !std::thread::panicking() {
            // SAFETY: the level that `new` made, and whatever was nested in it.
            unsafe { pg_sys::AtEOXact_GUC(true, self.level) };
        }
    }
}
