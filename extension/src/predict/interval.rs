//! A prediction and how far it may be off: `pgml.predict_interval`.

use std::cell::RefCell;
use std::rc::Rc;

use learn::metrics::conformal::Summary;
use pgrx::{IntoDatum, PgSqlErrorCode, pg_sys};

use crate::access::Privilege;
use crate::error::{Error, Result};
use crate::measure;
use crate::model_meta::Task;
use crate::names::{self, Resolved};
use crate::sql::Call;
use crate::usage::{self, Tally};

use super::call_site::{CallSite, Ready};

crate::sql_function!(pgml_predict_interval, predict_interval);

/// Models whose intervals a backend remembers, some kilobytes each.
const KEPT: usize = 64;

thread_local! {
    /// What a model's intervals are made of, which never changes; the model is known by what counts its uses. The latest
    /// used last.
    static KNOWN: RefCell<Vec<(Rc<Tally>, Rc<Summary>)>> = const { RefCell::new(Vec::new()) };
}

/// `pgml.predict_interval(project or model, features, coverage, OUT prediction real, OUT lower real, OUT upper real)`.
fn predict_interval(call: &Call) -> Result<pg_sys::Datum> {
    let Some(coverage) = call.f64(2) else { return Ok(call.null()) };
    if !(coverage > 0.0 && coverage < 1.0) {
        return Err(Error::invalid(format!("coverage must be above 0 and below 1: {coverage}"))
            .hint("coverage => 0.9 gives intervals that hold nine labels of ten."));
    }
    let began = usage::one_row();
    // SAFETY: the call is running; the SQL declarations put the name first, then the features in one argument.
    let ready = unsafe {
        let site = CallSite::of_first(call.fcinfo(), 2, 0, Privilege::Predict)?;
        site.ready(call.fcinfo())?
    };
    let Some(Ready { target, model, row, scratch }) = ready else { return Ok(call.null()) };
    if model.task != Task::Regression {
        return Err(Error::unsupported(format!("{target} is for {}, not for regression", model.task.name()))
            .hint("Use pgml.predict_proba for the probability of a class."));
    }
    let prediction = model.predict(row, scratch)?;
    let reach = known(target)?.reach(coverage);
    target.tally.row(began);
    call.record(&[prediction.into_datum(), (prediction - reach).into_datum(), (prediction + reach).into_datum()])
}

fn known(target: &Resolved) -> Result<Rc<Summary>> {
    let found = KNOWN.with_borrow_mut(|known| {
        let at = known.iter().rposition(|(tally, _)| Rc::ptr_eq(tally, &target.tally))?;
        if at + 1 < known.len() {
            let entry = known.remove(at);
            known.push(entry);
        }
        known.last().map(|(_, summary)| summary.clone())
    });
    if let Some(summary) = found {
        return Ok(summary);
    }
    let summary = measure::conformal(&names::residuals(target)?).map(Rc::new).ok_or_else(|| {
        Error::new(
            PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("the errors of {target} on held-out rows are not stored"),
        )
        .hint("Train it with test rows (test_size), on which the errors are measured, and with one label.")
    })?;
    KNOWN.with_borrow_mut(|known| {
        if known.len() == KEPT {
            known.remove(0);
        }
        known.push((target.tally.clone(), summary.clone()));
    });
    Ok(summary)
}
