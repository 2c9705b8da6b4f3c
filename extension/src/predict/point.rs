//! One row in, one prediction out: `pgml.predict`, `pgml.predict_proba`, `pgml.predict_label`.

use pgrx::{IntoDatum, pg_sys};

use crate::access::Privilege;
use crate::error::{Error, Result};
use crate::model_meta::Task;
use crate::sql::Call;
use crate::usage;

use super::call_site::{CallSite, Ready};

crate::sql_function!(pgml_predict, predict);
crate::sql_function!(pgml_predict_proba, predict_proba);
crate::sql_function!(pgml_predict_label, predict_label);
crate::sql_function!(pgml_predict_joint, predict_joint);
crate::sql_function!(pgml_decompose, decompose);

/// All overloads of `pgml.predict`.
fn predict(call: &Call) -> Result<pg_sys::Datum> {
    with_row(call, |Ready { model, row, scratch, .. }| {
        let value = model.predict(row, scratch)?;
        Ok(pg_sys::Datum::from(value.to_bits()))
    })
}

fn predict_proba(call: &Call) -> Result<pg_sys::Datum> {
    with_row(call, |Ready { model, row, .. }| super::batch::real_array(&model.predict_proba(row)?))
}

fn predict_label(call: &Call) -> Result<pg_sys::Datum> {
    with_row(call, |Ready { model, row, scratch, .. }| {
        Ok(model.predict_label(row, scratch)?.into_datum().unwrap_or(pg_sys::Datum::from(0)))
    })
}

/// One value a target.
fn predict_joint(call: &Call) -> Result<pg_sys::Datum> {
    with_row(call, |Ready { target, model, row, scratch, .. }| {
        if model.task != Task::Regression {
            return Err(Error::unsupported(format!(
                "{target} is for {}, not for a joint regression",
                model.task.name()
            ))
            .hint("Use pgml.predict."));
        }
        model.predict_values(row, scratch)?;
        super::batch::real_array(scratch)
    })
}

/// The components of a row.
fn decompose(call: &Call) -> Result<pg_sys::Datum> {
    with_row(call, |Ready { target, model, row, scratch, .. }| {
        if model.task != Task::Decomposition {
            return Err(Error::unsupported(format!("{target} is for {}, not for decomposition", model.task.name()))
                .hint("Use pgml.predict."));
        }
        model.predict_values(row, scratch)?;
        super::batch::real_array(scratch)
    })
}

#[inline]
fn with_row(call: &Call, answer: impl FnOnce(Ready<'_>) -> Result<pg_sys::Datum>) -> Result<pg_sys::Datum> {
    // SAFETY: the call is running; the SQL declarations put the name first and the features after it.
    unsafe {
        let site = CallSite::of(call.fcinfo(), 0, Privilege::Predict)?;
        let began = usage::one_row();
        match site.ready(call.fcinfo())? {
            Some(ready) => {
                let tally = &ready.target.tally;
                let answer = answer(ready)?;
                tally.row(began);
                Ok(answer)
            }
            None => Ok(call.null()),
        }
    }
}
