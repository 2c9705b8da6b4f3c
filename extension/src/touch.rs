//! Trigger functions on rows: `pgml.set_updated_at`, and what others need of the row.

use std::ffi::CStr;

use pgrx::{FromDatum, IntoDatum, PgSqlErrorCode, pg_sys};

use crate::error::{Error, Result};
use crate::sql::Call;

crate::sql_function!(pgml_set_updated_at, set_updated_at);

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

/// A `bigint` of the row that a row trigger is for, as it was before.
pub fn old_value(call: &Call, column: &CStr) -> Result<Option<i64>> {
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
            return Err(Error::new(PgSqlErrorCode::ERRCODE_UNDEFINED_COLUMN, "the table lacks a column"));
        }
        let mut null = false;
        let value = pg_sys::heap_getattr((*data).tg_trigtuple, number, descriptor, &mut null);
        Ok(i64::from_datum(value, null))
    }
}
