//! Many rows in one call: `pgml.predict_batch`.

use pgrx::pg_sys;

use crate::error::{Error, Result};
use crate::features::{self, Kind};
use crate::names::{self, Key};
use crate::sql::Call;

use super::call_site::project_key;

crate::sql_function!(pgml_predict_batch_rows, predict_batch_rows);
crate::sql_function!(pgml_predict_batch_array, predict_batch_array);

/// Rows handed to the kernel between two looks for interrupts.
const ROWS_AT_ONCE: usize = 16_384;

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
            _ => project_key(features::text_bytes(name)),
        };
        (key, Kind::of(pg_sys::get_fn_expr_argtype(info, 1)))
    };
    let Some(Kind::Array(element)) = element else {
        return Err(Error::invalid("features must be an array of numbers"));
    };
    let target = names::resolve(key)?;
    let model = &target.model;
    let mut rows = Vec::new();
    // SAFETY: the argument is an array of this element type.
    let shape = unsafe { features::read_array(features, element, &mut rows)? };
    let width = model.width();
    if let Some(row) = shape.row.filter(|&row| row != width) {
        return Err(super::input::wrong_width(&target, row));
    }
    if width == 0 || !shape.len.is_multiple_of(width) {
        return Err(Error::invalid(format!(
            "{target} takes {width} features a row, and {} features are not whole rows",
            shape.len
        ))
        .hint("Give a two-dimensional array with one row of features each, or all rows one after another."));
    }
    let (mut scratch, mut predictions) = (Vec::new(), Vec::with_capacity(shape.len / width));
    for block in rows.chunks(width * ROWS_AT_ONCE) {
        pgrx::check_for_interrupts!();
        model.predict_rows(block, &mut scratch, &mut predictions)?;
    }
    Ok(Some(predictions))
}

/// A one-dimensional `real[]` in the current memory context.
pub fn real_array(values: &[f32]) -> Result<pg_sys::Datum> {
    let header = std::mem::size_of::<pg_sys::ArrayType>() + 8;
    let size = header + std::mem::size_of_val(values);
    if size > LARGEST_VALUE {
        return Err(Error::new(
            pgrx::PgSqlErrorCode::ERRCODE_PROGRAM_LIMIT_EXCEEDED,
            format!("{} predictions do not fit into one array", values.len()),
        )
        .hint("Predict in several groups, or use pgml.predict row by row."));
    }
    // SAFETY: the allocation holds the header, one dimension and all elements, which follow without padding since they
    // are aligned to 4 bytes.
    unsafe {
        if values.is_empty() {
            return Ok(pg_sys::Datum::from(pg_sys::construct_empty_array(pg_sys::FLOAT4OID)));
        }
        let array: *mut pg_sys::ArrayType = pg_sys::palloc(size).cast();
        pgrx::set_varsize_4b(array.cast(), size as i32);
        (*array).ndim = 1;
        (*array).dataoffset = 0;
        (*array).elemtype = pg_sys::FLOAT4OID;
        let base = array.cast::<u8>();
        let dimensions = base.add(std::mem::size_of::<pg_sys::ArrayType>()).cast::<i32>();
        *dimensions = values.len() as i32;
        *dimensions.add(1) = 1;
        std::ptr::copy_nonoverlapping(values.as_ptr().cast::<u8>(), base.add(header), std::mem::size_of_val(values));
        Ok(pg_sys::Datum::from(array))
    }
}
