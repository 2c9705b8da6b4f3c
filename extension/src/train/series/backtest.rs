//! `pgml.backtest`: how good forecasts would have been, had they been made at several times of the past.

use pgrx::{IntoDatum, pg_sys};

use super::super::Request;
use super::{Prepared, fit};
use crate::access::{self, Privilege};
use crate::activity;
use crate::error::{Error, Result};
use crate::forecast::{MOST_STEPS, Times, json_datum};
use crate::memory::{GivenBack, OwnContext};
use crate::model_meta::Task;
use crate::names;
use crate::registry;
use crate::sql::Call;

crate::sql_function!(pgml_backtest, backtest);

/// Origins of a call.
const MOST_CUTOFFS: i32 = 1000;

/// `pgml.backtest(project_name, cutoffs, horizon)`: rows of series, cutoff, steps, mase, smape, coverage, crps.
fn backtest(call: &Call) -> Result<pg_sys::Datum> {
    let _given_back = GivenBack;
    let _context = OwnContext::begin(c"pgml backtest");
    let name = call.text(0, "project_name", names::LONGEST)?.ok_or_else(|| Error::null_argument("project_name"))?;
    let cutoffs = within(call.i32(1), "cutoffs", MOST_CUTOFFS)?.ok_or_else(|| Error::null_argument("cutoffs"))?;
    let horizon = within(call.i32(2), "horizon", MOST_STEPS)?;
    registry::check_writable(c"pgml.backtest()")?;
    access::require(&name, Privilege::Train)?;
    let project = registry::find_project(&name)?.ok_or_else(|| names::no_such_project(&name))?;
    if Task::parse(&project.task) != Some(Task::Forecast) {
        return Err(Error::unsupported(format!("project \"{name}\" is for {}, not for forecast", project.task))
            .hint("pgml.evaluate measures models of rows."));
    }
    let model = registry::deployed_model(project.id)?.ok_or_else(|| {
        Error::undefined(format!("project \"{name}\" has no deployed model")).hint("Train it, or deploy a model.")
    })?;
    let recipe = registry::recipe_of_model(model)?
        .ok_or_else(|| Error::undefined(format!("it is not known what model {model} was trained on")))?;
    let request = Request::again(&name);
    let _shown =
        activity::Shown::begin(registry::next_id(c"training_jobs_id_seq")?, Some(project.id), &name, usize::MAX);
    let mut prepared = Prepared::read(&request, Some(&project), &recipe)?;
    prepared.horizon = horizon.map_or(prepared.horizon, |horizon| horizon as usize);
    let Prepared { table, method, seasons, horizon, .. } = &prepared;
    let scored = fit::backtest(table, method, seasons, (cutoffs as usize, *horizon))?;
    if scored.is_empty() {
        return Err(Error::invalid(format!("no series is long enough to forecast {horizon} steps of it"))
            .hint("A smaller horizon or fewer cutoffs need fewer steps."));
    }
    let head = prepared.head();
    let times = Times::of(&head)?;
    let finite = |value: f64| value.is_finite().then_some(value).into_datum();
    let mut rows = Vec::with_capacity(scored.len());
    for (index, until, scores) in scored {
        pgrx::check_for_interrupts!();
        let series = &table.series[index];
        let [mase, smape, coverage, crps] = scores.map(finite);
        let cutoff = Some(times.datum(series.step(until))?);
        rows.push([json_datum(&series.key)?, cutoff, (*horizon as i32).into_datum(), mase, smape, coverage, crps]);
    }
    call.rows(&rows)
}

fn within(value: Option<i32>, name: &str, most: i32) -> Result<Option<i32>> {
    match value {
        Some(value) if !(1..=most).contains(&value) => {
            Err(Error::invalid(format!("{name} must be from 1 to {most}: {value}")))
        }
        value => Ok(value),
    }
}
