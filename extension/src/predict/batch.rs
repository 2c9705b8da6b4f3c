//! Many rows in one call: `pgml.predict_batch`.

use std::time::Instant;

use pgrx::pg_sys;

use crate::access::Privilege;
use crate::error::{Error, Result};
use crate::features::{Kind, Many, Shape};
use crate::memory;
use crate::names::{self, Key, Resolved};
use crate::sql::Call;

use super::call_site::project_key;

crate::sql_function!(pgml_predict_batch_rows, predict_batch_rows);
crate::sql_function!(pgml_predict_batch_array, predict_batch_array);

/// Rows handed to the kernel between two looks for interrupts, at most.
pub const ROWS_AT_ONCE: usize = 16_384;

/// Trees walked, and values made, between two looks for interrupts: less than a second's work.
pub const WORK_AT_ONCE: usize = 1 << 24;

/// MaxAllocSize: no SQL value is larger.
const LARGEST_VALUE: usize = 0x3fff_ffff;

/// `pgml.predict_batch(text, real[]) RETURNS SETOF real`.
fn predict_batch_rows(call: &Call) -> Result<pg_sys::Datum> {
    let Some(predictions) = predict_batch(call)? else { return Ok(call.null()) };
    call.rows(predictions.iter().map(|value| [Some(pg_sys::Datum::from(value.to_bits()))]))
}

/// `pgml.predict_batch(bigint, real[]) RETURNS real[]`.
fn predict_batch_array(call: &Call) -> Result<pg_sys::Datum> {
    Ok(match predict_batch(call)? {
        Some(predictions) => real_array(&predictions)?,
        None => call.null(),
    })
}

fn predict_batch(call: &Call) -> Result<Option<Vec<f32>>> {
    let (Some(name), Some(features)) = (call.datum(0), call.datum(1)) else { return Ok(None) };
    // SAFETY: within the running call, whose arguments have the types of its declaration.
    let (key, element) = unsafe {
        let info = (*call.fcinfo()).flinfo;
        let key = match pg_sys::get_fn_expr_argtype(info, 0) {
            pg_sys::INT8OID => Key::Model(name.value() as i64),
            _ => project_key(name)?,
        };
        (key, Kind::of(pg_sys::get_fn_expr_argtype(info, 1)))
    };
    let Some(Kind::Many(array @ Many::Array(_))) = element else {
        return Err(Error::invalid("features must be an array of numbers"));
    };
    let target = names::resolve(key, Privilege::Predict)?;
    let began = Instant::now();
    super::input::warn_of_single(array, &target);
    let mut rows = Vec::new();
    // SAFETY: the argument is an array of this element type.
    let shape = unsafe { array.read_less(features, usize::MAX, target.model.origins(), &mut rows)? };
    let (count, model) = (whole_rows(&target, &shape)?, &target.model);
    model.number_categories(&mut rows)?;
    let (mut scratch, mut predictions) = (Vec::new(), Vec::new());
    memory::reserve(&mut predictions, count)?;
    let at_once = (WORK_AT_ONCE / model.work().max(1)).clamp(1, ROWS_AT_ONCE);
    for block in rows.chunks(model.width() * at_once) {
        pgrx::check_for_interrupts!();
        model.predict_rows(block, &mut scratch, &mut predictions)?;
    }
    target.tally.rows(1, count, began);
    Ok(Some(predictions))
}

/// How many rows of features an array holds: a row in each of its inner dimensions (images are matrices themselves), or
/// all one after another.
pub fn whole_rows(target: &Resolved, shape: &Shape) -> Result<usize> {
    let width = target.model.width();
    shape.rows_of(width).map_err(|row| super::input::wrong_width(target, row))?;
    if width == 0 || !shape.len.is_multiple_of(width) {
        return Err(Error::invalid(format!(
            "{target} takes {} for each row, and the call gives {}, which is no multiple of that",
            learn::count(width, "feature"),
            shape.len
        ))
        .hint("Give a two-dimensional array with one row of features each, or all rows one after another."));
    }
    Ok(shape.len / width)
}

/// A one-dimensional `real[]` in the current memory context.
pub fn real_array(values: &[f32]) -> Result<pg_sys::Datum> {
    const HINT: &str = "Predict in several groups, or use pgml.predict row by row.";
    let (array, room) = new_real_array(&[values.len()], "predictions", HINT)?;
    room.copy_from_slice(values);
    Ok(array)
}

/// A `real[]` of these dimensions in the current memory context, and its elements, all 0; `what` these are and `hint`
/// stand in the error of an array that is too large.
pub fn new_real_array<'a>(dimensions: &[usize], what: &str, hint: &str) -> Result<(pg_sys::Datum, &'a mut [f32])> {
    let count = dimensions.iter().fold(1usize, |count, length| count.saturating_mul(*length));
    let header = std::mem::size_of::<pg_sys::ArrayType>() + 8 * dimensions.len();
    let size = count.saturating_mul(std::mem::size_of::<f32>()).saturating_add(header);
    if size > LARGEST_VALUE {
        let code = pgrx::PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED;
        return Err(Error::new(code, format!("{count} {what} do not fit into one array")).hint(hint));
    }
    // SAFETY: the allocation holds the header, the dimensions, their lower bounds and all elements, which follow without
    // padding since they are aligned to 4 bytes. The caller writes the elements before the memory context goes.
    unsafe {
        if count == 0 {
            let array = pg_sys::Datum::from(pg_sys::construct_empty_array(pg_sys::FLOAT4OID));
            return Ok((array, &mut []));
        }
        let array: *mut pg_sys::ArrayType = pg_sys::palloc0(size).cast();
        pgrx::set_varsize_4b(array.cast(), size as i32);
        (*array).ndim = dimensions.len() as i32;
        (*array).dataoffset = 0;
        (*array).elemtype = pg_sys::FLOAT4OID;
        let base = array.cast::<u8>();
        let lengths = base.add(std::mem::size_of::<pg_sys::ArrayType>()).cast::<i32>();
        for (i, length) in dimensions.iter().enumerate() {
            *lengths.add(i) = *length as i32;
            *lengths.add(dimensions.len() + i) = 1;
        }
        Ok((pg_sys::Datum::from(array), std::slice::from_raw_parts_mut(base.add(header).cast(), count)))
    }
}
