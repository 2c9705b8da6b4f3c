//! Trigger functions on rows: when one changed, and what goes with one that does.

use std::ffi::CStr;

use pgrx::{FromDatum, IntoDatum, PgSqlErrorCode, pg_sys};

use crate::error::{Error, Result};
use crate::sql::Call;

crate::sql_function!(pgml_set_updated_at, set_updated_at);
crate::sql_function!(pgml_forget_snapshot, forget_snapshot);
crate::sql_function!(pgml_forget_compiled, forget_compiled);
crate::sql_function!(pgml_forget_dependents, forget_dependents);
crate::sql_function!(pgml_keep_out, keep_out);

/// BEFORE UPDATE FOR EACH ROW: the new row with the time in its column `updated_at`.
fn set_updated_at(call: &Call) -> Result<pg_sys::Datum> {
    // SAFETY: a trigger's context is TriggerData, checked by its tag; the row and its descriptor are valid during the
    // call, and the arrays hold the one column that is replaced.
    unsafe {
        let data: *mut pg_sys::TriggerData = (*call.fcinfo()).context.cast();
        if data.is_null() || (*data).type_ != pg_sys::NodeTag::T_TriggerData || (*data).tg_newtuple.is_null() {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                "pgml.set_updated_at works as a row trigger before update only",
            ));
        }
        let descriptor = (*(*data).tg_relation).rd_att;
        let column = pg_sys::SPI_fnumber(descriptor, c"updated_at".as_ptr());
        if column <= 0 {
            return Err(Error::new(PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN, "the table has no column updated_at"));
        }
        let now = pgrx::direct_function_call_as_datum(
            pg_sys::timestamptz_timestamp,
            &[pg_sys::GetCurrentTimestamp().into_datum()],
        )
        .unwrap_or(pg_sys::Datum::from(0));
        let (mut values, mut nulls) = ([now], [false]);
        let row = pg_sys::heap_modify_tuple_by_cols(
            (*data).tg_newtuple,
            descriptor,
            1,
            (&raw const column).cast_mut(),
            values.as_mut_ptr(),
            nulls.as_mut_ptr(),
        );
        Ok(pg_sys::Datum::from(row))
    }
}

/// A value of the row that a row trigger is for, as it was before; the column is of that type.
fn old_value<T: FromDatum>(call: &Call, column: &CStr) -> Result<Option<T>> {
    // SAFETY: a trigger's context is TriggerData, checked by its tag; the row and its descriptor are valid during the
    // call, and the column is looked up in that descriptor.
    unsafe {
        let data: *mut pg_sys::TriggerData = (*call.fcinfo()).context.cast();
        if data.is_null() || (*data).type_ != pg_sys::NodeTag::T_TriggerData || (*data).tg_trigtuple.is_null() {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                "this function works as a row trigger only",
            ));
        }
        let descriptor = (*(*data).tg_relation).rd_att;
        let number = pg_sys::SPI_fnumber(descriptor, column.as_ptr());
        if number <= 0 {
            return Err(Error::new(
                PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN,
                format!("the table has no column {column:?}"),
            ));
        }
        let mut null = false;
        let value = pg_sys::heap_getattr((*data).tg_trigtuple, number, descriptor, &mut null);
        Ok(T::from_datum(value, null))
    }
}

/// AFTER DELETE FOR EACH ROW on `pgml.models`: the snapshot that no model was trained on any more goes. It is done with
/// the rights of the registry's owner, since who may delete a model need not be able to delete a snapshot.
fn forget_snapshot(call: &Call) -> Result<pg_sys::Datum> {
    if let Some(snapshot) = old_value::<i64>(call, c"snapshot_id")? {
        crate::registry::forget_snapshot(snapshot)?;
    }
    Ok(call.no_value())
}

/// AFTER DELETE FOR EACH ROW on a table whose rows others belong to, as a foreign key with ON DELETE would do it. There are
/// none, since a restore with several jobs would load the tables in an order that they forbid.
fn forget_dependents(call: &Call) -> Result<pg_sys::Datum> {
    let Some(id) = old_value::<i64>(call, c"id")? else { return Ok(call.no_value()) };
    // SAFETY: `old_value` has seen that this is a row trigger's call; a relation's name ends with a zero byte.
    let table = unsafe {
        let data: *mut pg_sys::TriggerData = (*call.fcinfo()).context.cast();
        CStr::from_ptr((*(*(*data).tg_relation).rd_rel).relname.data.as_ptr())
    };
    crate::registry::forget_dependents(table, id)?;
    Ok(call.no_value())
}

/// BEFORE INSERT FOR EACH ROW: the row is not inserted.
fn keep_out(call: &Call) -> Result<pg_sys::Datum> {
    Ok(call.no_value())
}

/// AFTER DELETE OR UPDATE FOR EACH ROW on `pgml.files`: the compiled copy of the bytes goes. (Of bytes in several parts
/// it goes when the cache is tidied: no part tells what they were together.)
fn forget_compiled(call: &Call) -> Result<pg_sys::Datum> {
    if let Some(digest) = old_value::<Vec<u8>>(call, c"digest")?
        && let Ok(digest) = <[u8; 32]>::try_from(digest)
    {
        crate::cache::forget(&crate::cache::Digest(digest));
    }
    Ok(call.no_value())
}
