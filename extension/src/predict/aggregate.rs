//! `pgml.predict_agg(project, features...)`: the rows of a group through the batch kernels, predictions in input order.

use std::ffi::c_void;
use std::rc::Rc;
use std::time::Instant;

use pgrx::{PgSqlErrorCode, pg_sys};

use crate::access::Privilege;
use crate::error::{Error, Result};
use crate::memory;
use crate::model::Model;
use crate::sql::Call;
use crate::usage::Tally;

use super::call_site::{CallSite, Ready};

crate::sql_function!(pgml_predict_agg_row, add_row);
crate::sql_function!(pgml_predict_agg_final, finish);

/// Rows gathered before the kernel runs: enough to fill its blocks, few enough to stay in the first-level cache.
const ROWS_AT_ONCE: usize = 64;

/// Rows of one group: their predictions are one array, and no value is larger than a gigabyte.
const ROWS_AT_MOST: usize = (1 << 28) - 64;

fn too_many_rows() -> Error {
    let code = PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED;
    Error::new(code, format!("too many predictions for one array: the limit is {ROWS_AT_MOST}"))
        .hint("Predict in several groups, or use pgml.predict row by row.")
}

/// Of one group; lives in the aggregate's memory context, which drops it.
#[derive(Default)]
struct State {
    /// The model of the gathered rows: the name may change from row to row.
    model: Option<(Rc<Model>, Rc<Tally>)>,
    rows: Vec<f32>,
    gathered: usize,
    scratch: Vec<f32>,
    predictions: Vec<f32>,
    /// Positions of the rows whose project (or only feature argument) was NULL: their predictions are NULL.
    nulls: Vec<usize>,
}

impl State {
    fn flush(&mut self) -> Result<()> {
        if let (Some((model, tally)), true) = (&self.model, self.gathered > 0) {
            let began = Instant::now();
            memory::reserve(&mut self.predictions, self.gathered)?;
            if self.predictions.len() + self.gathered > ROWS_AT_MOST {
                return Err(too_many_rows());
            }
            model.predict_rows(&self.rows, &mut self.scratch, &mut self.predictions)?;
            tally.rows(0, self.gathered, began);
            self.rows.clear();
            self.gathered = 0;
        }
        Ok(())
    }
}

/// The transition function: `(internal, text, VARIADIC "any") -> internal`.
fn add_row(call: &Call) -> Result<pg_sys::Datum> {
    let fcinfo = call.fcinfo();
    // SAFETY: the call is running. The state is what this function put into its first argument, for this group.
    unsafe {
        let state = match call.datum(0) {
            Some(state) => &mut *state.cast_mut_ptr::<State>(),
            None => new_state(fcinfo)?,
        };
        let site = CallSite::of(fcinfo, 1, Privilege::Predict)?;
        match site.ready(fcinfo)? {
            None => {
                state.flush()?;
                memory::reserve(&mut state.nulls, 1)?;
                memory::reserve(&mut state.predictions, 1)?;
                state.nulls.push(state.predictions.len());
                state.predictions.push(f32::NAN);
            }
            Some(Ready { target, model, row, .. }) => {
                let same = |(_, tally): &(_, Rc<Tally>)| Rc::ptr_eq(tally, &target.tally);
                if !state.model.as_ref().is_some_and(same) {
                    state.flush()?;
                    target.tally.rows(1, 0, Instant::now());
                    state.model = Some((model.clone(), target.tally.clone()));
                }
                if state.gathered == ROWS_AT_ONCE {
                    state.flush()?;
                }
                state.rows.extend_from_slice(row);
                state.gathered += 1;
            }
        }
        Ok(pg_sys::Datum::from(std::ptr::from_mut(state)))
    }
}

/// The final function. It may run several times on one state (as a window function does), with rows added in between.
fn finish(call: &Call) -> Result<pg_sys::Datum> {
    let Some(state) = call.datum(0) else { return Ok(call.null()) };
    // SAFETY: what `add_row` returned for this group.
    let state = unsafe { &mut *state.cast_mut_ptr::<State>() };
    state.flush()?;
    if state.nulls.is_empty() {
        return super::batch::real_array(&state.predictions);
    }
    let mut values: Vec<pg_sys::Datum> =
        state.predictions.iter().map(|value| pg_sys::Datum::from(value.to_bits())).collect();
    let mut nulls = vec![false; values.len()];
    for &position in &state.nulls {
        nulls[position] = true;
    }
    let mut length = i32::try_from(values.len())
        .map_err(|_| Error::invalid(format!("{} predictions do not fit into one array", values.len())))?;
    let mut lower_bound = 1;
    // SAFETY: as many values and NULL flags as the one dimension says; real is 4 bytes, by value, aligned as int.
    unsafe {
        let array = pg_sys::construct_md_array(
            values.as_mut_ptr(),
            nulls.as_mut_ptr(),
            1,
            &mut length,
            &mut lower_bound,
            pg_sys::FLOAT4OID,
            4,
            true,
            b'i' as std::ffi::c_char,
        );
        Ok(pg_sys::Datum::from(array))
    }
}

/// # Safety
/// `fcinfo` is that of a running call.
unsafe fn new_state<'a>(fcinfo: pg_sys::FunctionCallInfo) -> Result<&'a mut State> {
    let mut context: pg_sys::MemoryContext = std::ptr::null_mut();
    // SAFETY: as the caller promises; the context outlives the group, and drops its state when it is reset.
    unsafe {
        if pg_sys::AggCheckCallContext(fcinfo, &mut context) == 0 {
            return Err(Error::unsupported(
                "the transition function of pgml.predict_agg was called outside an aggregate",
            ));
        }
        let callback: *mut pg_sys::MemoryContextCallback =
            pg_sys::MemoryContextAlloc(context, std::mem::size_of::<pg_sys::MemoryContextCallback>()).cast();
        let state = Box::into_raw(Box::new(State::default()));
        (*callback).func = Some(drop_state);
        (*callback).arg = state.cast();
        (*callback).next = std::ptr::null_mut();
        pg_sys::MemoryContextRegisterResetCallback(context, callback);
        Ok(&mut *state)
    }
}

unsafe extern "C-unwind" fn drop_state(state: *mut c_void) {
    // SAFETY: made by Box::into_raw in `new_state`; a context's callbacks run once.
    drop(unsafe { Box::from_raw(state.cast::<State>()) });
}
